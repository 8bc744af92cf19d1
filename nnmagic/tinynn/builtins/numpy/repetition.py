"""Define NumPy's repeat and tile.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.tile.html
"""

from __future__ import annotations

from synr.ast import BuiltinOp

from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import ANY
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import arange, broadcast, size_along
from nnmagic.tinynn.calls.argument_binding import Arguments, numpy_function
from nnmagic.tinynn.values import operator_calls, reshaping, symbolic_sizes, values


def _repeat(call: Arguments) -> values.Value:
    """Repeat each element as often as one number says, or a number for each."""
    data, operand = args.formula(call, "a"), call.given["repeats"]
    axis = args.one_axis(call, "axis", data.rank) if "axis" in call else None
    if axis is None:
        data, axis = data.flat() if data.rank else data.reshape((1,)), 0
    count = symbolic_sizes.as_size(operand)
    if count is None:
        return _repeat_each(call, data, axis).value
    if isinstance(count, values.Dimension):
        return _repeat_axis(data.expand(axis + 1), axis, axis + 1, count).value
    static = args.static_value_or_none(count)
    if not isinstance(static, int) or static < 0:
        hint = "one number, or one for each element, none of them negative"
        raise values.RefusalError(f"repeat: `repeats` is {static}", operand.span, hint=hint)
    if static == 0:
        return data.between(axis, 0, 0).value
    return data.op("repeat", repeats=static, axis=axis).value


def _repeat_axis(data: Formula, axis: int, inner: int, count: values.Value) -> Formula:
    """Broadcast ``inner``, an axis of size 1, to ``count`` elements, and join ``axis`` and the next one."""
    sizes = list(symbolic_sizes.shape_of(data.value, data.span).items)
    sizes[inner] = count
    wide = operator_calls.apply(
        "dyn.broadcast_to", data.span, data.value, symbolic_sizes.shape_tensor(sizes, data.span)
    )
    joined = symbolic_sizes.calculate_size(BuiltinOp.Mul, sizes[axis], sizes[axis + 1], data.span)
    joined_sizes = [*sizes[:axis], joined, *sizes[axis + 2 :]]
    shape = [symbolic_sizes.dim_of(size) for size in joined_sizes]
    return Formula(reshaping.reshape_to_sizes(wide, joined_sizes, shape, data.span), data.span)


def _repeat_each(call: Arguments, data: Formula, axis: int) -> Formula:
    """Repeat each element along an axis as often as its own number says."""
    operand = call.given["repeats"]
    if isinstance(args.static_value_or_none(operand.value), tuple):
        operand = values.Operand(args.constant_array(call, "repeats", None), operand.span)
    if not operator_calls.is_tensor(operand.value):
        message = "repeat: `repeats` must be an int, or integers, one for each element"
        raise values.RefusalError(message, operand.span)
    counts = args.as_formula(operand, call.span, "repeat: `repeats`")
    if counts.rank > 1 or not counts.is_integer:
        message = f"repeat: `repeats` must be integers of rank 1, not of shape {format_shape(counts.shape)}"
        raise values.RefusalError(message, operand.span)
    size = data.shape[axis]
    counts = counts.cast("int64")
    wanted = counts.shape[0]
    if wanted != 1 and isinstance(wanted, int) and isinstance(size, int) and wanted != size:
        raise values.RefusalError(
            f"repeat: {wanted} numbers in `repeats` for an axis of size {size}", operand.span
        )
    counts = broadcast(counts, (size,)) if wanted == 1 and isinstance(size, int) else counts
    length = size_along(data, axis, counts)
    fits = size_along(counts, 0, counts).equal(length)
    counts = counts.require(fits, "repeat: there are not as many numbers in `repeats` as elements")
    counts = counts.require(counts >= 0, "repeat: a number in `repeats` is negative")
    ends = counts.op("cumsum", axis=0, dtype="int64")
    places = arange(values.Dimension(ANY, symbolic_sizes.weak_int(counts.reduce("sum").value)), call.span)
    source = ends.op("searchsorted", places, right=True, dtype="int64")
    return data.op("take", source, axis=axis, mode="clip")


def _tile(call: Arguments) -> values.Value:
    data, operand = args.formula(call, "A"), call.given["reps"]
    listed = operand.value.items if isinstance(operand.value, values.TupleOf) else (operand.value,)
    counts = [symbolic_sizes.as_size(values.Operand(item, operand.span)) for item in listed]
    static_counts = [None if count is None else args.static_value_or_none(count) for count in counts]
    numbers = [number for number in static_counts if isinstance(number, int) and number >= 0]
    if len(numbers) == len(counts):
        return _tile_static(data, numbers).value
    if any(count is None for count in counts) or any(isinstance(n, int) and n < 0 for n in static_counts):
        raise values.RefusalError("tile: `reps` must be ints that are not negative", operand.span)
    for _ in range(len(counts) - data.rank):
        data = data.expand(0)
    for axis, count in enumerate(counts, data.rank - len(counts)):
        if count is not None and count != values.Known(1):
            data = _repeat_axis(data.expand(axis), axis, axis, count)
    return data.value


def _tile_static(data: Formula, counts: list[int]) -> Formula:
    repeated = data.op("tile", reps=tuple(count or 1 for count in counts)) if counts else data
    for axis, count in enumerate(counts, repeated.rank - len(counts)):
        if count == 0:
            repeated = repeated.between(axis, 0, 0)
    return repeated


_NAMES = "x=a input=a m=a ary=a array=a"

REPETITION = (
    numpy_function("repeat", "a repeats axis?", _repeat, "Repeat each element.", _NAMES),
    numpy_function("tile", "A reps", _tile, "Repeat the whole tensor.", "x=A repetitions=reps"),
)
