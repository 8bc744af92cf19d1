"""Define NumPy's convolve, correlate and sliding_window_view."""

from __future__ import annotations

import math

from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import ANY
from nnmagic.tinynn.builtins.argument_checks import (
    axes,
    choice_argument,
    formula,
    one_axis,
    pair,
    static_number,
)
from nnmagic.tinynn.builtins.numpy.complex_numbers import imaginary_part, make_complex, real_part
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import (
    concatenate,
    require_elements,
    size_along,
    slice_axis,
    static_slice,
)
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.symbolic_sizes import full, weak_int
from nnmagic.tinynn.values.values import Computed, Dimension, Known, Operand, RefusalError, SliceOf, Value


def _function(name: str, default: str, summary: str) -> Builtin:
    def apply_to(call: Arguments) -> Value:
        data, kernel = pair(call, "a", "v")
        for side, parameter in ((data, "a"), (kernel, "v")):
            if side.rank != 1:
                message = f"{name} takes vectors, not a tensor of shape {format_shape(side.shape)}"
                raise RefusalError(message, call.given[parameter].span)
            if side.shape[0] == 0:
                raise RefusalError(f"{name}: `{parameter}` is empty", call.given[parameter].span)
        data, kernel = (
            require_elements(side, None, f"{name}: `{parameter}` is empty")
            for side, parameter in ((data, "a"), (kernel, "v"))
        )
        mode = choice_argument(call, "mode", ("full", "same", "valid"), default)
        is_bool = data.dtype == "bool"
        if is_bool:
            data, kernel = data.cast("int64"), kernel.cast("int64")
        if name == "correlate":
            kernel = kernel.conj().op("reverse", axis=0)
        result = convolve_complete(call, data, kernel)
        if mode != "full":
            result = _middle(result, data, kernel, mode, correlates=name == "correlate")
        return (result.truth() if is_bool else result).value

    return Builtin(name, "a v mode?", apply_to, summary, name, method=False)


def convolve_complete(call: Arguments, data: Formula, kernel: Formula) -> Formula:
    """Return the whole convolution, with the ends where the kernel leaves the data."""
    if not data.is_complex:
        return _of_real(call, data, kernel)
    (a, b), (c, d) = ((real_part(side), imaginary_part(side)) for side in (data, kernel))
    real = _of_real(call, a, c) - _of_real(call, b, d)
    return make_complex(real, _of_real(call, a, d) + _of_real(call, b, c))


def _of_real(call: Arguments, data: Formula, kernel: Formula) -> Formula:
    if isinstance(data.shape[0], int) and not (
        isinstance(kernel.shape[0], int) and kernel.shape[0] <= data.shape[0]
    ):
        data, kernel = kernel, data
    end = _zeros(kernel)
    padded = concatenate(call, [*end, data, *end], 0)
    rows, weights = (side.expand(0).expand(0) for side in (padded, kernel.op("reverse", axis=0)))
    return rows.op("nn.conv1d", weights).op("squeeze", axis=[0, 1])


def _zeros(kernel: Formula) -> list[Formula]:
    """Return one zero less than the kernel is long; nothing for one number."""
    size = kernel.shape[0]
    if isinstance(size, int):
        return [static_slice(kernel.op("zeros_like"), 0, 0, size - 1)] if size > 1 else []
    count = _length(kernel) - 1
    return [
        Formula(full(kernel.like(0).value, [Dimension(ANY, weak_int(count.value))], kernel.span), kernel.span)
    ]


def _length(data: Formula) -> Formula:
    one = Formula(number_constant(1, "int64", data.span), data.span)
    return size_along(data, 0, one)


def _middle(whole: Formula, data: Formula, kernel: Formula, mode: str, *, correlates: bool) -> Formula:
    """Cut the ends: "same" leaves as many elements as the longer side has, "valid" the complete sums.

    Where a correlation has the longer kernel, NumPy exchanges the sides and reverses the result.
    """
    sizes = data.shape[0], kernel.shape[0]
    if isinstance(sizes[0], int) and isinstance(sizes[1], int):
        least, most = sorted((int(sizes[0]), int(sizes[1])))
        reversed_ = correlates and sizes[0] < sizes[1]
        begin = least - 1 if mode == "valid" else (least if reversed_ else least - 1) // 2
        return static_slice(whole, 0, begin, begin + (most - least + 1 if mode == "valid" else most))
    left, right = _length(data), _length(kernel)
    shorter, longer = left.op("minimum", right), left.op("maximum", right)
    if mode == "valid":
        first, count = shorter - 1, longer - shorter + 1
    else:
        swapped = (left < right).cast("int64") if correlates else left.like(0)
        first, count = (shorter - 1 + swapped).op("floor_divide", 2), longer
    part = SliceOf(first.value, (first + count).value, Known(None))
    span = whole.span
    result = subscript(Operand(whole.value, span), [Operand(part, span)], span)
    assert isinstance(result, Computed)
    return Formula(result, span)


def _sliding_window_view(call: Arguments) -> Value:
    """Return windows as NumPy does: an axis counts them in its place, and their own axes are the last."""
    data = formula(call, "x")
    given = call.static("window_shape")
    window = given if isinstance(given, tuple) else (given,)
    if any(isinstance(size, bool) or not isinstance(size, int) for size in window):
        message = "sliding_window_view: the sizes of a window must be ints that are known at compile time"
        raise RefusalError(message, call.given["window_shape"].span)
    along = axes(call, data.rank) if "axis" in call else tuple(range(data.rank))
    if along is None or len(along) != len(window):
        message = f"sliding_window_view: {len(window)} sizes of a window, for {len(along or ())} axes"
        raise RefusalError(message, call.given["window_shape"].span, hint="give one size for each axis")
    others = [axis for axis in range(data.rank) if axis not in along]
    moved = data.transpose([*others, *along])
    strides = [1] * len(window)
    rolled = moved.op("sliding_window", axis=len(others), window_shape=list(window), strides=strides)
    places = [*others, *along]
    order = [places.index(axis) for axis in range(data.rank)]
    return rolled.transpose([*order, *range(data.rank, rolled.rank)]).value


def _unwrap(call: Arguments) -> Value:
    """Remove jumps of more than half a period along an axis, by multiples of the period."""
    data = formula(call, "p")
    data = data if data.is_float else data.cast("float64")
    if not data.rank:
        raise RefusalError("unwrap of a scalar", call.given["p"].span)
    axis = one_axis(call, "axis", data.rank, -1)
    period = static_number(call, "period", 2 * math.pi)
    limit = static_number(call, "discont", period / 2) if "discont" in call else period / 2
    step = slice_axis(data, axis, 1, None) - slice_axis(data, axis, 0, -1)
    half = period / 2
    turned = (step + half).op("floor_mod", step.like(period)) - half
    turned = (turned.equal(-half) & (step > 0)).choose(half, turned)
    jumps = (step.abs() < max(limit, half)).choose(0, turned - step)
    jumps = jumps.op("cumsum", axis=axis, dtype=data.dtype)
    first = slice_axis(data, axis, 0, 1)
    return concatenate(call, [first, slice_axis(data, axis, 1, None) + jumps], axis).value


SIGNALS = (
    Builtin(
        "sliding_window_view",
        "x window_shape axis?",
        _sliding_window_view,
        "Return all windows of a size, which are the last axes.",
        "lib.stride_tricks.sliding_window_view",
        method=False,
    ),
    Builtin(
        "unwrap",
        "p discont? axis?=-1 * period?",
        _unwrap,
        "Remove jumps of angles, or of values with another period, along an axis.",
        "unwrap",
        method=False,
    ),
    _function("convolve", "full", "Convolve two vectors."),
    _function("correlate", "valid", "Correlate two vectors."),
)
