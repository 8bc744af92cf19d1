"""Define NumPy's functions that join, split, repeat and pad tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.dims import add, floor_divide
from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import Dim, TensorType
from nnmagic.tinynn.builtins.argument_checks import (
    choice_argument,
    dtype_argument,
    formula,
    one_axis,
    require_rank,
    static_size,
    static_value_or_none,
    tensors,
    unify_dtypes,
)
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import atleast_nd, concatenate, constant_of, static_slice
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import call_operator, is_tensor
from nnmagic.tinynn.values.symbolic_sizes import number_of, size_along
from nnmagic.tinynn.values.values import Computed, Known, Operand, RefusalError, SliceOf, TupleOf, Value

_NAMES = "x=a input=a m=a ary=a array=a"


def _arrays(call: Arguments) -> list[Formula]:
    """Return the tensors to join: the items of a list, or the rows of a tensor."""
    dtype = dtype_argument(call)
    arrays = tensors(call, "arrays")
    return arrays if dtype is None else [part.cast(dtype) for part in arrays]


def _same_rank(call: Arguments, parts: Sequence[Formula]) -> None:
    for part in parts:
        if part.rank != parts[0].rank:
            shown = f"{format_shape(parts[0].shape)} and {format_shape(part.shape)}"
            raise RefusalError(
                f"{call.name}: the shapes {shown} do not fit together", call.given["arrays"].span
            )


def _concatenate(call: Arguments) -> Value:
    parts = _arrays(call)
    if "axis" in call.given and call.static("axis") is None:
        return concatenate(call, [part.flat() for part in parts], 0).value
    if parts[0].rank == 0:
        hint = "write stack([a, b]) for scalars"
        raise RefusalError(
            f"{call.name} takes tensors of rank 1 or more", call.given["arrays"].span, hint=hint
        )
    _same_rank(call, parts)
    return concatenate(call, parts, one_axis(call, "axis", parts[0].rank, 0)).value


def _stack(call: Arguments) -> Value:
    parts = _arrays(call)
    _same_rank(call, parts)
    return concatenate(call, parts, one_axis(call, "axis", parts[0].rank + 1, 0), "stack").value


def _hstack(call: Arguments) -> Value:
    parts = [atleast_nd(part, 1) for part in _arrays(call)]
    _same_rank(call, parts)
    return concatenate(call, parts, 0 if parts[0].rank == 1 else 1).value


def _vstack(call: Arguments) -> Value:
    parts = [atleast_nd(part, 2) for part in _arrays(call)]
    _same_rank(call, parts)
    return concatenate(call, parts, 0).value


def _dstack(call: Arguments) -> Value:
    parts = [atleast_nd(part, 3) for part in _arrays(call)]
    _same_rank(call, parts)
    return concatenate(call, parts, 2).value


def _column_stack(call: Arguments) -> Value:
    parts = [atleast_nd(part, 1) for part in _arrays(call)]
    parts = [part.expand(1) if part.rank == 1 else part for part in parts]
    _same_rank(call, parts)
    return concatenate(call, parts, 1).value


def _append(call: Arguments) -> Value:
    parts = unify_dtypes(call, [call.given["arr"], call.given["values"]])
    if "axis" not in call:
        flat = [part.flat() for part in parts]
        return concatenate(call, flat, 0).value
    axis = one_axis(call, "axis", parts[0].rank)
    if parts[0].rank != parts[1].rank:
        shown = f"{format_shape(parts[0].shape)} and {format_shape(parts[1].shape)}"
        raise RefusalError(f"append: the shapes {shown} do not fit together", call.span)
    return concatenate(call, parts, axis).value


def _split_function(name: str, fixed_axis: int | None, *, equal: bool = True) -> Builtin:
    """Declare a split into parts of equal size or at indices; ``array_split`` allows unequal parts."""

    def apply_to(call: Arguments) -> Value:
        data = formula(call, "ary")
        axis = fixed_axis
        if name == "hsplit":
            axis = 0 if data.rank == 1 else 1
        if axis is None:
            axis = one_axis(call, "axis", data.rank, 0)
        elif data.rank <= axis:
            require_rank(call, data, "ary", axis + 1)
        how, span = call.static("indices_or_sections"), call.given["indices_or_sections"].span
        indices = how if isinstance(how, tuple) else None
        bad = isinstance(how, bool) or not isinstance(how, int | tuple)
        if bad or not all(isinstance(index, int) for index in indices or ()):
            raise RefusalError(f"{name}: `indices_or_sections` must be an int or a tuple of ints", span)
        if indices is None:
            assert isinstance(how, int)
            return _equal_parts(call, data, axis, how, equal)
        return _split_at(data, axis, indices)

    summary = "Split into parts of equal size or at the given indices; return a tuple."
    signature = "ary indices_or_sections" + (" axis?" if fixed_axis is None and name != "hsplit" else "")
    return Builtin(name, signature, apply_to, summary, name, "x=ary input=ary")


def _equal_parts(call: Arguments, data: Formula, axis: int, count: int, equal: bool) -> Value:
    span = call.given["indices_or_sections"].span
    if not 0 < count <= 10_000:
        raise RefusalError(f"{call.name}: {count} parts", span)
    size = data.shape[axis]
    if not isinstance(size, int) and not equal:
        return _nearly_equal_parts(data, axis, count)
    if not isinstance(size, int) or size % count == 0:
        operand = Operand(data.value, call.given["ary"].span)
        attrs = {"indices_or_sections": count, "axis": axis}
        return call_operator(OPERATORS["split"], [operand], attrs, call.span)
    if equal:
        message = f"{call.name}: axis {axis} of size {size} does not divide into {count} equal parts"
        raise RefusalError(message, span, hint="array_split takes parts of different sizes")
    small, larger = divmod(size, count)
    ends, end = [], 0
    for part in range(count - 1):
        end += small + (part < larger)
        ends.append(end)
    return _split_at(data, axis, tuple(ends))


def _nearly_equal_parts(data: Formula, axis: int, count: int) -> Value:
    """Split a dynamic axis: part i has size // count elements, and one more if i < size % count."""
    size = data.shape[axis]
    length = Formula(number_of(size_along(data.value, axis, data.span), data.span), data.span)
    each = length.op("floor_divide", count)
    larger = length - each * count
    bounds = [each * part + larger.op("minimum", part) for part in range(count + 1)]
    return TupleOf(
        tuple(
            _slice(data, axis, start.value, stop.value, floor_divide(add(size, count - 1 - part), count))
            for part, (start, stop) in enumerate(pairwise(bounds))
        )
    )


def _split_at(data: Formula, axis: int, indices: tuple[object, ...]) -> Value:
    size = data.shape[axis]
    if not isinstance(size, int):
        ends = [Known(0), *map(Known, indices), Known(None)]
        return TupleOf(tuple(_slice(data, axis, start, stop) for start, stop in pairwise(ends)))
    bounds = [0, *(slice(index).indices(size)[1] for index in indices if isinstance(index, int)), size]
    parts = [static_slice(data, axis, a, max(a, b)) for a, b in pairwise(bounds)]
    return TupleOf(tuple(part.value for part in parts))


def _slice(data: Formula, axis: int, start: Value, stop: Value, size: Dim | None = None) -> Computed:
    """Return ``data[start:stop]`` along an axis; ``size``: how many elements that are, if it is known."""
    whole, part = SliceOf(Known(None), Known(None), Known(None)), SliceOf(start, stop, Known(None))
    index = [Operand(each, data.span) for each in (*[whole] * axis, part)]
    value = subscript(Operand(data.value, data.span), index, data.span)
    assert isinstance(value, Computed)
    if size is None:
        return value
    shape = tuple(size if each == axis else dim for each, dim in enumerate(data.shape))
    return Computed(value.expr, TensorType(shape, data.dtype))


def _repeat(call: Arguments) -> Value:
    data = formula(call, "a")
    count = call.static("repeats")
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        hint = "one number, for all elements"
        raise RefusalError(
            "repeat: `repeats` must be an int known at compile time", call.given["repeats"].span, hint=hint
        )
    axis = one_axis(call, "axis", data.rank) if "axis" in call else None
    if axis is None:
        data, axis = data.flat(), 0
    if count == 0:
        return static_slice(data, axis, 0, 0).value
    return data.op("repeat", repeats=count, axis=axis).value


def _tile(call: Arguments) -> Value:
    data = formula(call, "A")
    reps = call.static("reps")
    listed = reps if isinstance(reps, tuple) else (reps,)
    if not all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in listed):
        raise RefusalError("tile: `reps` must be ints that are not negative", call.given["reps"].span)
    counts = [count for count in listed if isinstance(count, int)]
    repeated = data.op("tile", reps=tuple(count or 1 for count in counts)) if counts else data
    for axis, count in enumerate(counts, repeated.rank - len(counts)):
        if count == 0:
            repeated = static_slice(repeated, axis, 0, 0)
    return repeated.value


_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
#: Maximal length of an axis that is extended by its own elements: their indices are a constant.
_MAX_INDICES = 10_000_000


def _are_ints(items: object) -> bool:
    return isinstance(items, tuple) and all(
        isinstance(item, int) and not isinstance(item, bool) for item in items
    )


def _pad_width(call: Arguments, rank: int) -> list[tuple[int, int]]:
    given, span = call.static("pad_width"), call.given["pad_width"].span
    pairs: list[tuple[int, ...]]
    if isinstance(given, int):
        pairs = [(given, given)] * rank
    elif isinstance(given, tuple) and _are_ints(given) and len(given) in (1, 2):
        pairs = [(given[0], given[-1])] * rank
    elif isinstance(given, tuple) and all(_are_ints(pair) and pair for pair in given):
        pairs = [(pair[0], pair[-1]) for pair in given]
        pairs = pairs * rank if len(pairs) == 1 else pairs
    else:
        pairs = []
    if len(pairs) != rank:
        hint = "write one number, (before, after), or a pair for each dimension"
        raise RefusalError(f"pad: `pad_width` does not fit a tensor of rank {rank}", span, hint=hint)
    if any(width < 0 for pair in pairs for width in pair):
        raise RefusalError("pad: `pad_width` must not be negative", span)
    return [(pair[0], pair[-1]) for pair in pairs]


def _pad(call: Arguments) -> Value:
    """Pad as NumPy does; ``pad_value`` and ``pad_mode`` are Relay's names."""
    data = formula(call, "array")
    widths = _pad_width(call, data.rank)
    if "mode" in call and not isinstance(static_value_or_none(call.given["mode"].value), str):
        call = Arguments(  # Relay's pad(x, widths, 0)
            call.name,
            {"constant_values": call.given["mode"], **{k: v for k, v in call.given.items() if k != "mode"}},
            call.span,
        )
    mode = choice_argument(call, "mode", _MODES, "constant")
    if mode != "constant" and "constant_values" in call:
        raise RefusalError(
            f"pad: `constant_values` with the mode {mode!r}", call.given["constant_values"].span
        )
    if mode == "constant":
        operand = call.given.get("constant_values", Operand(Known(0), call.span))
        number = static_value_or_none(operand.value)
        if isinstance(number, bool | int | float | complex):
            value: Value = number_constant(
                bool(number) if data.dtype == "bool" else number, data.dtype, operand.span
            )
        elif is_tensor(operand.value):
            value = operand.value
        else:
            message = f"pad: `constant_values` must be one number, not {describe(operand.value)}"
            raise RefusalError(message, operand.span)
        if not any(map(any, widths)):
            return data.value
        operands = [Operand(data.value, call.given["array"].span), Operand(value, operand.span)]
        return call_operator(OPERATORS["nn.pad"], operands, {"pad_width": widths}, call.span)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            data = _extend_axis(call, data, axis, before, after, mode)
    return data.value


def _extend_axis(call: Arguments, data: Formula, axis: int, before: int, after: int, mode: str) -> Formula:
    """Extend one axis by its own elements."""
    size = static_size(call, data.shape[axis], call.given["array"].span)
    if size == 0:
        raise RefusalError(f"pad: axis {axis} has no elements to repeat", call.given["array"].span)

    total = before + size + after
    if total > _MAX_INDICES:
        message = f"pad: axis {axis} would have {total} elements (with mode={mode!r} at most {_MAX_INDICES})"
        raise RefusalError(message, call.given["pad_width"].span)
    indices = np.arange(-before, size + after)
    match mode:
        case "edge":
            indices = indices.clip(0, size - 1)
        case "wrap":
            indices %= size
        case "symmetric":
            indices %= 2 * size
            indices = np.minimum(indices, 2 * size - 1 - indices)
        case "reflect":
            period = max(2 * (size - 1), 1)
            indices %= period
            indices = np.minimum(indices, period - indices)
    return data.op("take", constant_of(indices, "int32", call.span), axis=axis, mode="clip")


_STACK = "arrays * dtype?"


_STACK_NAMES = "tup=arrays tensors=arrays"


JOINING = (
    Builtin(
        "concatenate",
        "arrays axis?=0 * dtype?",
        _concatenate,
        "Join along an axis.",
        "concatenate",
        _STACK_NAMES,
        method=False,
    ),
    Builtin(
        "concat",
        "arrays axis?=0 * dtype?",
        _concatenate,
        "Join along an axis.",
        "concat",
        _STACK_NAMES + " dim=axis",
        method=False,
    ),
    Builtin(
        "stack",
        "arrays axis?=0 * dtype?",
        _stack,
        "Join along a new axis.",
        "stack",
        _STACK_NAMES + " dim=axis",
        method=False,
    ),
    Builtin(
        "hstack",
        _STACK,
        _hstack,
        "Join along the second axis; vectors along the first.",
        "hstack",
        _STACK_NAMES,
        method=False,
    ),
    Builtin(
        "vstack",
        _STACK,
        _vstack,
        "Join along the first axis; vectors become rows.",
        "vstack",
        _STACK_NAMES,
        method=False,
    ),
    Builtin("dstack", _STACK, _dstack, "Join along the third axis.", "dstack", _STACK_NAMES, method=False),
    Builtin(
        "column_stack",
        _STACK,
        _column_stack,
        "Join vectors as columns.",
        "column_stack",
        _STACK_NAMES,
        method=False,
    ),
    Builtin(
        "append",
        "arr values axis?",
        _append,
        "Join two tensors; flatten them if no axis is given.",
        "append",
        method=False,
    ),
    _split_function("split", None),
    _split_function("array_split", None, equal=False),
    _split_function("hsplit", None),
    _split_function("vsplit", 0),
    _split_function("dsplit", 2),
    Builtin("repeat", "a repeats axis?", _repeat, "Repeat each element.", "repeat", _NAMES),
    Builtin("tile", "A reps", _tile, "Repeat the whole tensor.", "tile", "x=A"),
    Builtin(
        "pad",
        "array pad_width mode? * constant_values?=0",
        _pad,
        "Pad the ends of axes.",
        "pad",
        "pad_value=constant_values pad_mode=mode x=array",
    ),
)
