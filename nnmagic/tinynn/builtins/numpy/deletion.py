"""Define NumPy's delete.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.delete.html
"""

from __future__ import annotations

import numpy as np

from nnmagic.tinynn.builtins.argument_checks import formula, one_axis, static_value_or_none
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import concatenate, constant_of
from nnmagic.tinynn.calls.argument_binding import Arguments, free_function
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type
from nnmagic.tinynn.values.values import Computed, LoopCall, Operand, RangeOf, RefusalError, Value


def _delete(call: Arguments) -> Value:
    """Return what is left: of indices that are known in one piece, else as loops and masks choose it."""
    data, operand = formula(call, "arr"), call.given["obj"]
    if data.rank == 0:
        raise RefusalError("delete takes a tensor of rank 1 or more", call.at("arr"))
    axis = one_axis(call, "axis", data.rank) if "axis" in call else None
    if axis is None:
        data, axis = data.flat(), 0
    static = _known_indices(operand.value)
    size = data.shape[axis]
    if static == ():
        return data.value
    if static is not None and isinstance(size, int):
        return _delete_static(call, data, axis, static).value
    data = data.transpose([axis, *(index for index in range(data.rank) if index != axis)])
    kind = "delete"
    if isinstance(static, tuple):
        places = constant_of(np.array(static), "int64", operand.span)
        kind, operand = "delete of several", Operand(places.value, operand.span)
    elif static is None:
        if not is_tensor(operand.value) or tensor_type(operand).dtype.startswith("float"):
            message = f"delete: `obj` must be an index, indices or a mask, not {describe(operand.value)}"
            raise RefusalError(message, operand.span)
        kind = "delete of several" if tensor_type(operand).shape else "delete"
    rows = Operand(data.value, call.at("arr"))
    return LoopCall(kind, (rows, operand), axis)


#: Up to so many elements along an axis, what is left is listed while compiling; of more, slices are joined.
_MOST_PLACES = 1 << 24


def _known_indices(value: Value) -> int | tuple[int, ...] | None:
    """Return one index, or several, that are known at compile time."""
    static = static_value_or_none(value)
    if isinstance(value, RangeOf):
        bounds = [static_value_or_none(bound) for bound in (value.start, value.stop, value.step)]
        numbers = [bound for bound in bounds if isinstance(bound, int)]
        static = tuple(range(*numbers)) if len(numbers) == 3 else None
    if isinstance(value, Computed):
        return None
    listed = static if isinstance(static, tuple) else (static,)
    if any(isinstance(each, bool) or not isinstance(each, int) for each in listed):
        return None
    return static  # type: ignore[return-value]  # an int, or a tuple of them


def _delete_static(call: Arguments, data: Formula, axis: int, static: int | tuple[int, ...]) -> Formula:
    size = data.shape[axis]
    assert isinstance(size, int)
    indices = static if isinstance(static, tuple) else (static,)
    for index in indices:
        if not -size <= index < size:
            message = f"delete: index {index} is out of range for an axis of size {size}"
            raise RefusalError(message, call.at("obj"))
    deleted = sorted({index % size for index in indices})
    bounds = zip([0, *(index + 1 for index in deleted)], [*deleted, size], strict=True)
    slices = [(begin, end) for begin, end in bounds if begin < end]
    if len(slices) > 2 and size <= _MOST_PLACES:
        left = np.concatenate([np.arange(begin, end) for begin, end in slices])
        return data.op("take", constant_of(left, "int64", call.span), axis=axis, mode="fast")
    if not slices:
        return data.between(axis, 0, 0)
    sections = [data.between(axis, begin, end) for begin, end in slices]
    return sections[0] if len(sections) == 1 else concatenate(call, sections, axis)


DELETION = (
    free_function(
        "delete",
        "arr obj axis?",
        _delete,
        "Return a tensor without the elements, or the rows, at the indices; flatten it if no axis is given.",
    ),
)
