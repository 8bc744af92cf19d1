"""Define NumPy's convolve, correlate and sliding_window_view.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.convolve.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import TypeVar

from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import ANY, TensorType
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins import tensor_helpers as helpers
from nnmagic.tinynn.builtins.argument_checks import pair
from nnmagic.tinynn.builtins.numpy.complex_numbers import imaginary_part, make_complex, real_part
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, free_function
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.symbolic_sizes import as_size, dim_of, full, number_of, weak_int
from nnmagic.tinynn.values.values import Computed, Dimension, Operand, RefusalError, TupleOf, Value

#: The most elements of a short vector.
_SHORT = 64


def _function(name: str, default: str, summary: str) -> Builtin:
    def apply_to(call: Arguments) -> Value:
        data, kernel = pair(call, "a", "v")
        for side, parameter in ((data, "a"), (kernel, "v")):
            if side.rank != 1:
                message = f"{name} takes vectors, not a tensor of shape {format_shape(side.shape)}"
                raise RefusalError(message, call.at(parameter))
            if side.shape[0] == 0:
                raise RefusalError(f"{name}: `{parameter}` is empty", call.at(parameter))
        data, kernel = (
            helpers.require_elements(side, None, f"{name}: `{parameter}` is empty")
            for side, parameter in ((data, "a"), (kernel, "v"))
        )
        mode = args.choice_argument(call, "mode", ("full", "same", "valid"), default)
        is_bool = data.dtype == "bool"
        if is_bool:
            data, kernel = data.cast("int64"), kernel.cast("int64")
        if name == "correlate":
            kernel = kernel.conj()
        result = convolve(call, data, kernel, mode, correlates=name == "correlate")
        return (result.truth() if is_bool else result).value

    return free_function(name, "a v mode?", apply_to, summary)


def convolve(
    call: Arguments, data: Formula, kernel: Formula, mode: str = "full", *, correlates: bool = False
) -> Formula:
    """Return the convolution of two vectors, or their correlation; neither is empty."""
    if not data.is_complex:
        return _of_real(call, data, kernel, mode, correlates=correlates)
    (a, b), (c, d) = ((real_part(side), imaginary_part(side)) for side in (data, kernel))
    ac, bd, ad, bc = (
        _of_real(call, lhs, rhs, mode, correlates=correlates) for lhs, rhs in ((a, c), (b, d), (a, d), (b, c))
    )
    return make_complex(ac - bd, ad + bc)


def _of_real(call: Arguments, data: Formula, kernel: Formula, mode: str, *, correlates: bool) -> Formula:
    """Move the shorter vector, as a window, over the other one between the zeros that the mode needs.

    A short one of known length is moved in any case: loops of its length are the fastest.
    """
    n, m = data.shape[0], kernel.shape[0]
    over, back = (side.op("reverse", axis=0) for side in (data, kernel))
    in_order, exchanged = ((data, kernel), (back, over)) if correlates else ((data, back), (kernel, over))
    zeros: Sequence[int | Formula] = ()
    if isinstance(n, int) and isinstance(m, int):
        rows, window = in_order if n >= m else exchanged
        least, most = sorted((int(n), int(m)))
        if mode != "valid":
            zeros = _zeros_around(most, least, least, mode, int(correlates and n < m))
    else:
        sizes = _length(data), _length(kernel)
        short = [isinstance(size, int) and size <= _SHORT for size in (n, m)]
        if any(short):
            rows, window = exchanged if short[0] else in_order
        else:
            rows, window = _choose(sizes[0] >= sizes[1], in_order, exchanged)
        if mode != "valid" or any(short):
            late = (sizes[0] < sizes[1]).cast("int64") if correlates else sizes[0].like(0)
            zeros = _zeros_around(_length(rows), _length(window), sizes[0].minimum(sizes[1]), mode, late)
    if zeros:
        before, behind = (_zeros(rows, size) for size in zeros)
        rows = helpers.concatenate(call, [*before, rows, *behind], 0)
    rows, window = (side.expand(0).expand(0) for side in (rows, window))
    return rows.op("nn.conv1d", window).op("squeeze", axis=[0, 1])


_Length = TypeVar("_Length", int, Formula)


def _zeros_around(
    data: _Length, kernel: _Length, least: _Length, mode: str, late: _Length
) -> tuple[_Length, _Length]:
    """Return how many zeros stand before and behind the data, from the lengths and the lesser of them.

    late: 1 where "same" begins half an element later, as where a correlation has the longer kernel: NumPy
    reverses the result of the sides exchanged.
    """
    most = data + kernel - least
    first, count = {
        "full": (least - least, data + kernel - 1),
        "same": ((least - 1 + late) // 2, most),
        "valid": (least - 1, most - least + 1),
    }[mode]
    return kernel - 1 - first, first + count - data


def _zeros(like: Formula, size: int | Formula) -> list[Formula]:
    """Return a vector of zeros, nothing where it is known to be empty."""
    if isinstance(size, int):
        return [like.like(0).op("full", shape=(size,), dtype=like.dtype)] if size else []
    return [Formula(full(like.like(0).value, [Dimension(ANY, weak_int(size.value))], like.span), like.span)]


def _length(data: Formula) -> Formula:
    return helpers.size_along(data, 0, Formula(number_constant(1, "int64", data.span), data.span))


def _choose(
    condition: Formula, then: tuple[Formula, Formula], otherwise: tuple[Formula, Formula]
) -> tuple[Formula, Formula]:
    """Return one of two pairs of vectors, chosen at run time."""
    span, vector = condition.span, TensorType((ANY,), then[0].dtype)
    pairs = (ir.Tuple(tuple(side.value.expr for side in pair), span=span) for pair in (then, otherwise))
    chosen = ir.If(condition.value.expr, *pairs, span=span)
    first, second = (Formula(Computed(ir.TupleGetItem(chosen, i, span=span), vector), span) for i in (0, 1))
    return first, second


def _sliding_window_view(call: Arguments) -> Value:
    """Return windows as NumPy does: an axis counts them in its place, and their own axes are the last."""
    data, operand = args.formula(call, "x"), call.given["window_shape"]
    given = operand.value.items if isinstance(operand.value, TupleOf) else (operand.value,)
    sizes = [as_size(Operand(size, operand.span)) for size in given]
    window = [size for size in sizes if size is not None]
    if len(window) < len(sizes):
        raise RefusalError("sliding_window_view: the sizes of a window must be ints", operand.span)
    along = args.axes(call, data.rank) if "axis" in call else tuple(range(data.rank))
    if along is None or len(along) != len(window):
        message = f"sliding_window_view: {len(window)} sizes of a window, for {len(along or ())} axes"
        raise RefusalError(message, operand.span, hint="give one size for each axis")
    if any(isinstance(size, Dimension) for size in window):
        return reduce(_take_windows, zip(along, window, strict=True), data).value
    others = [axis for axis in range(data.rank) if axis not in along]
    moved = data.transpose([*others, *along])
    strides = [1] * len(window)
    shape = [dim_of(size) for size in window]
    rolled = moved.op("sliding_window", axis=len(others), window_shape=shape, strides=strides)
    places = [*others, *along]
    order = [places.index(axis) for axis in range(data.rank)]
    return rolled.transpose([*order, *range(data.rank, rolled.rank)]).value


def _take_windows(data: Formula, along: tuple[int, Value]) -> Formula:
    """Return the windows of an axis, of a size that only the call knows, as a new last axis."""
    axis, size = along
    width = Formula(number_of(size, data.span), data.span)
    length = helpers.size_along(data, axis, width)
    message = "sliding_window_view: a window is longer than its axis, or its size is negative"
    width = width.require((width >= 0) & (width <= length), message)
    count = Dimension(ANY, weak_int((length - width + 1).value))
    own = Dimension(size.dim if isinstance(size, Dimension) else ANY, weak_int(width.value))
    places = helpers.arange(count, data.span).expand(1) + helpers.arange(own, data.span)
    taken = data.op("take", places, axis=axis, mode="clip")
    return taken.transpose([index for index in range(taken.rank) if index != axis + 1] + [axis + 1])


def _unwrap(call: Arguments) -> Value:
    """Remove jumps of more than half a period along an axis, by multiples of the period."""
    data = args.formula(call, "p")
    data = data if data.is_float else data.cast("float64")
    if not data.rank:
        raise RefusalError("unwrap of a scalar", call.at("p"))
    axis = args.one_axis(call, "axis", data.rank, -1)
    period = args.static_number(call, "period", 2 * math.pi)
    limit = args.static_number(call, "discont", period / 2) if "discont" in call else period / 2
    step = helpers.slice_axis(data, axis, 1, None) - helpers.slice_axis(data, axis, 0, -1)
    half = period / 2
    turned = (step + half).op("floor_mod", step.like(period)) - half
    turned = (turned.equal(-half) & (step > 0)).choose(half, turned)
    jumps = (step.abs() < max(limit, half)).choose(0, turned - step)
    jumps = jumps.op("cumsum", axis=axis, dtype=data.dtype)
    first = helpers.slice_axis(data, axis, 0, 1)
    return helpers.concatenate(call, [first, helpers.slice_axis(data, axis, 1, None) + jumps], axis).value


SIGNALS = (
    Builtin(
        "sliding_window_view",
        "x window_shape axis?",
        _sliding_window_view,
        "Return all windows of a size, which are the last axes.",
        "lib.stride_tricks.sliding_window_view",
        method=False,
    ),
    free_function(
        "unwrap",
        "p discont? axis?=-1 * period?",
        _unwrap,
        "Remove jumps of angles, or of values with another period, along an axis.",
    ),
    _function("convolve", "full", "Convolve two vectors."),
    _function("correlate", "valid", "Correlate two vectors."),
)
