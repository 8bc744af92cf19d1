"""Define NumPy's functions of dtypes and shapes, whose results are known at compile time.

NumPy's reference: https://numpy.org/doc/stable/reference/routines.dtype.html
"""

from __future__ import annotations

import numpy as np

from nnmagic.relay.types import ARRAY_DTYPES
from nnmagic.tinynn.builtins.argument_checks import dtype_of_operand
from nnmagic.tinynn.calls.argument_binding import Arguments, free_function
from nnmagic.tinynn.types.annotations import dtype_named
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.numbers import is_number
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type


def _as_numpy(call: Arguments, operand: v.Operand) -> object:
    """Return the dtype of a tensor, a dtype, or a Python number of the type that a value has."""
    value = operand.value
    if isinstance(value, v.Known) and is_number(value.value):
        return value.value
    if isinstance(value, v.Computed) and is_tensor(value):
        dtype = ARRAY_DTYPES[tensor_type(operand).dtype]
        return np.dtype(dtype).type(0).item() if value.weak else np.dtype(dtype)
    return np.dtype(ARRAY_DTYPES[dtype_of_operand(operand, call.name)])


def _result_type(call: Arguments) -> v.Value:
    rest = next(iter(call.given.values()))
    operands = (
        [v.Operand(item, rest.span) for item in rest.value.items]
        if isinstance(rest.value, v.TupleOf)
        else list(call.given.values())
    )
    try:
        return v.Known(dtype_named(np.result_type(*(_as_numpy(call, each) for each in operands)).name))  # type: ignore[arg-type]  # of NumPy
    except (TypeError, ValueError) as error:
        raise v.RefusalError(f"{call.name}: {error}", call.span) from None


def _can_cast(call: Arguments) -> v.Value:
    casting = call.static("casting", default="safe")
    try:
        given, to = (_as_numpy(call, call.given[name]) for name in ("from_", "to"))
        return v.Known(bool(np.can_cast(given, to, casting=casting)))  # type: ignore[arg-type]  # a string
    except (TypeError, ValueError) as error:
        raise v.RefusalError(f"can_cast: {error}", call.span) from None


def _broadcast_shapes(call: Arguments) -> v.Value:
    given = [item.value for item in call.items("args")]
    shapes = [shape.items if isinstance(shape, v.TupleOf) else (shape,) for shape in given]
    rank = max(map(len, shapes), default=0)
    sizes: list[v.Value] = [v.Known(1)] * rank
    for shape in shapes:
        for place, size in enumerate(shape, rank - len(shape)):
            if sizes[place] == v.Known(1):
                sizes[place] = size
            elif size not in (v.Known(1), sizes[place]):
                message = "broadcast_shapes: these shapes do not broadcast"
                raise v.RefusalError(
                    message, call.at("args"), hint="their sizes are equal, or 1, from the last on"
                )
    return v.TupleOf(tuple(sizes), written="tuple")


#: Called by the names of a library alone, as ``np.result_type(x, y)``.
DTYPE_FUNCTIONS = {
    builtin.name: builtin
    for builtin in (
        free_function(
            "result_type",
            "*arrays_and_dtypes",
            _result_type,
            "Return the dtype in which tensors, dtypes and numbers meet in NumPy.",
        ),
        free_function("promote_types", "type1 type2", _result_type, "Return the dtype in which two meet."),
        free_function(
            "can_cast",
            "from_ to casting?",
            _can_cast,
            "Return whether values of a dtype can have another one.",
        ),
        free_function(
            "broadcast_shapes", "*args", _broadcast_shapes, "Return the shape that broadcasting gives."
        ),
    )
}
