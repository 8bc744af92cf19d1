"""Define NumPy's quantiles, percentiles and medians (the nine methods of Hyndman and Fan, 1996)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from nnmagic.relay.ops.dims import product
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import is_complex, is_float
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins import tensor_helpers as helpers
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments
from nnmagic.tinynn.values.descriptions import source_text
from nnmagic.tinynn.values.values import LoopCall, Operand, RefusalError, TupleOf, Value


def statistics_data(call: Arguments) -> Formula:
    """Return the data of a mean or variance: integers as f64, or all in the requested dtype."""
    data = args.formula(call, "a")
    kept = data.is_float or data.is_complex
    dtype = args.dtype_argument(call) or (data.dtype if kept else "float64")
    if not is_float(dtype) and not (is_complex(dtype) and call.name != "average"):
        raise call.refusal("dtype", f"`dtype` must be a float dtype, not {dtype_short_name(dtype)}")
    return data.cast(dtype)


_LINEAR = "linear"


def _ordered_along(call: Arguments, data: Formula) -> tuple[Formula, int, tuple[int, ...] | None]:
    """Return the data with the axes as one, the axis to order along, and the axes that were given."""
    along = args.axes(call, data.rank)
    if along is None or len(along) == data.rank:
        flat, axis = data.flat(), 0
    elif len(along) == 1:
        flat, axis = data, along[0]
    elif not along:
        raise RefusalError(f"{call.name} of no axes", call.at("axis"))
    else:
        others = [each for each in range(data.rank) if each not in along]
        joined = product([data.shape[each] for each in along])
        moved, axis = data.transpose([*others, *along]), len(others)
        flat = moved.reshape([*(data.shape[other] for other in others), joined], moved)
    if flat.shape[axis] == 0:
        raise RefusalError(f"{call.name} of no elements", call.at("a"))
    return flat, axis, along


def _quantiles(call: Arguments, data: Formula, of_ordered: Sequence[_OfOrdered]) -> list[Formula]:
    """Apply functions to the ordered data, its axis and its size along the axis; NaN gives NaN."""
    flat, axis, along = _ordered_along(call, data)
    count = flat.shape[axis]
    ordered = helpers.partition_at(flat, axis, _places_of(flat, axis, [share for *_, share in of_ordered]))
    missing = flat.op("isnan").reduce("any", (axis,))
    values = [
        function(ordered, axis, count)
        if isinstance(count, int) and not isinstance(share, Formula)
        else later(ordered, axis)
        for function, later, share in of_ordered
    ]
    return [_restore_axes(call, missing.choose(math.nan, value), data, along) for value in values]


#: What takes a number from ordered data and its axis: of a known size, and of one that only the run knows;
#: and what share of the data is before it.
_OfOrdered: TypeAlias = (
    "tuple[Callable[[Formula, int, int], Formula], Callable[[Formula, int], Formula], Share]"
)

#: A number from 0 to 1, which may be computed.
Share: TypeAlias = "float | Formula"


def _places_of(data: Formula, axis: int, shares: Sequence[Share]) -> Formula:
    """Return the places of the elements before and behind shares of an axis, in ascending order."""
    size = data.shape[axis]
    static_shares = [share for share in shares if not isinstance(share, Formula)]
    if isinstance(size, int) and len(static_shares) == len(shares):
        below = [math.floor(share * (size - 1)) for share in static_shares]
        places = sorted({min(place + more, size - 1) for place in below for more in (0, 1)})
        return helpers.constant_of(np.array(places), "int64", data.span)
    last = helpers.size_along(data, axis, helpers.arange(1, data.span)) - 1
    return _beside(shares, last)


def _beside(shares: Sequence[Share], last: Formula) -> Formula:
    """Return the places beside shares of the numbers up to ``last``, a vector of one, in ascending order."""
    wide, end = last.cast("float64"), last.maximum(0)
    below = [(wide * share).op("floor").cast("int64").maximum(0) for share in shares]
    places = [each.minimum(end) for place in below for each in (place, place + 1)]
    both = helpers.stack(places, 0).flat()
    return both if len(shares) == 1 else both.op("sort", axis=0)


def _neighbours(ordered: Formula, axis: int, position: Formula, count: Formula) -> list[Formula]:
    """Return the elements at a position and the next one, of an axis of dynamic size."""
    last = (count - 1).op("maximum", 0)
    return [
        ordered.op("take", each.op("minimum", last).op("maximum", 0), axis=axis, mode="fast")
        for each in (position, position + 1)
    ]


def _interpolate_at(share: Share) -> _OfOrdered:
    """Return functions that interpolate ordered data linearly, as NumPy does from the nearer end."""

    def interpolate(ordered: Formula, axis: int, count: int) -> Formula:
        assert not isinstance(share, Formula)
        position = share * (count - 1)
        below = min(math.floor(position), count - 1)
        weight = position - below if below < count - 1 else position + 1
        low, high = (ordered.row(axis, min(each, count - 1)) for each in (below, below + 1))
        gap = high - low
        return low + gap * weight if weight < 0.5 else high - gap * (1 - weight)

    def interpolate_later(ordered: Formula, axis: int) -> Formula:
        count = helpers.size_along(ordered, axis, helpers.arange(1, ordered.span))
        position = (count - 1).cast("float64") * share
        below = position.op("floor")
        weight = (below < (count - 1).cast("float64")).choose(position - below, position + 1)
        low, high = _neighbours(ordered, axis, below.cast("int64"), count)
        gap = high - low
        upper = high - gap * (1 - weight).cast(gap.dtype)
        return (weight < 0.5).choose(low + gap * weight.cast(gap.dtype), upper)

    return interpolate, interpolate_later, share


def _mean_of_middle(ordered: Formula, axis: int, count: int) -> Formula:
    """Return the mean of the one or two elements in the middle of ordered data."""
    middle = ordered.between(axis, (count - 1) // 2, count // 2 + 1)
    return middle.reduce("mean", (axis,))


def _mean_of_middle_later(ordered: Formula, axis: int) -> Formula:
    count = helpers.size_along(ordered, axis, helpers.arange(1, ordered.span))
    widths = [(0, int(index == axis)) for index in range(ordered.rank)]
    padded = ordered.op("nn.pad", math.nan, pad_width=widths)  # the median of no elements
    low, high = _neighbours(padded, axis, (count - 1).op("floor_divide", 2), count)
    odd = count.op("floor_mod", 2).equal(1)
    return odd.choose(low + 0, helpers.stack([low, high], 0).reduce("mean", (0,)))


def _restore_axes(call: Arguments, result: Formula, data: Formula, along: Sequence[int] | None) -> Formula:
    if not args.flag(call, "keepdims"):
        return result
    axes_ = range(data.rank) if along is None else along
    return result.reshape([1 if axis in axes_ else dim for axis, dim in enumerate(data.shape)], data)


#: What takes a number from ordered data, its axis and the number of its last element that is not NaN; and the
#: share of the elements before it.
_OfPresent: TypeAlias = "tuple[Callable[[Formula, int, Formula], Formula], Share]"


def _of_present(call: Arguments, data: Formula, of_present: Sequence[_OfPresent]) -> list[Formula]:
    """Apply functions to the elements that are not NaN, which come first in ascending order."""
    flat, axis, along = _ordered_along(call, data)
    last = (~flat.op("isnan")).cast("int64").reduce("sum", (axis,), keepdims=True) - 1
    if not isinstance(flat.shape[axis], int):
        widths = [(0, int(index == axis)) for index in range(flat.rank)]
        flat = flat.op("nn.pad", math.nan, pad_width=widths)  # what is taken from no elements
    if flat.rank == 1:
        ordered = helpers.partition_at(flat, axis, _beside([share for _, share in of_present], last))
    else:
        ordered = flat.op("sort", axis=axis)
    values = (function(ordered, axis, last).op("squeeze", axis=[axis]) for function, _ in of_present)
    return [_restore_axes(call, value, data, along) for value in values]


def _take_between(ordered: Formula, axis: int, position: Formula, last: Formula) -> Formula:
    return ordered.op("gather", position.op("minimum", last).op("maximum", 0), axis=axis)


def _interpolate_present(share: Share) -> _OfPresent:
    def interpolate(ordered: Formula, axis: int, last: Formula) -> Formula:
        position = last.cast("float64") * share
        below = position.op("floor")
        fraction = (below < last.cast("float64")).choose(position - below, position + 1)
        index = below.cast("int64")
        low, high = (_take_between(ordered, axis, each, last) for each in (index, index + 1))
        gap = high - low
        upper = high - gap * (1 - fraction).cast(gap.dtype)
        return (fraction < 0.5).choose(low + gap * fraction.cast(gap.dtype), upper)

    return interpolate, share


def _middle_of_present(ordered: Formula, axis: int, last: Formula) -> Formula:
    """Return the mean of the one or two elements in the middle."""
    below = last.op("floor_divide", 2)
    above = (last + 1).op("floor_divide", 2)
    low, high = (_take_between(ordered, axis, each, last) for each in (below, above))
    return below.equal(above).choose(low, helpers.stack([low, high], 0).reduce("mean", (0,)))


def nan_median(call: Arguments) -> Value:
    """Return the median of the elements that are not NaN."""
    return _of_present(call, statistics_data(call), [(_middle_of_present, 0.5)])[0].value


def median(call: Arguments) -> Value:
    """Return the median along axes."""
    return _quantiles(call, statistics_data(call), [(_mean_of_middle, _mean_of_middle_later, 0.5)])[0].value


def quantile_of(hundred: float, *, ignores_nan: bool = False) -> Callable[[Arguments], Value]:
    """Return the rule of quantiles whose shares are out of ``hundred``."""

    def apply_to(call: Arguments) -> Value:
        operand = call.given["a"]
        if args.formula(call, "a").dtype == "bool":
            hint = f"convert it first, as in {source_text(operand.span)}.astype(f64)"
            raise RefusalError(f"{call.name} is defined for numbers, not bool_", operand.span, hint=hint)
        data = statistics_data(call)
        shares, is_list = _shares(call, hundred)
        if (method := args.choice_argument(call, "method", (_LINEAR, *_METHODS), _LINEAR)) != _LINEAR:
            return _by_method(call, data, shares, hundred, method, is_list=is_list, ignores_nan=ignores_nan)
        if is_list:  # NumPy: several give f64, a single one the data's dtype
            data = data.cast("float64")
        if ignores_nan:
            results = _of_present(call, data, [_interpolate_present(share / hundred) for share in shares])
        else:
            results = _quantiles(call, data, [_interpolate_at(share / hundred) for share in shares])
        return (helpers.stack(results, 0) if is_list else results[0]).value

    return apply_to


#: Where a share ``q`` of ``n`` numbers in ascending order lies, from 0 to ``n - 1``, and how much of what is
#: behind the number before it is taken, of which ``t`` is a linear share (Hyndman and Fan, 1996).
_METHODS: dict[str, tuple[str, str]] = {
    "lower": ("q * (n - 1)", "0.0"),
    "higher": ("q * (n - 1)", "ceil(t)"),
    "midpoint": ("q * (n - 1)", "0.5 * ceil(t)"),
    "nearest": ("q * (n - 1)", "where(t == 0.5, i % 2, round(t))"),
    "inverted_cdf": ("n * q - 1", "ceil(t)"),
    "averaged_inverted_cdf": ("n * q - 1", "where(t == 0, 0.5, 1.0)"),
    "interpolated_inverted_cdf": ("n * q - 1", "t"),
    "hazen": ("n * q - 0.5", "t"),
    "weibull": ("(n + 1) * q - 1", "t"),
    "median_unbiased": ("n * q + (1 + q) / 3 - 1", "t"),
    "normal_unbiased": ("n * q + (3 + 2 * q) / 8 - 1", "t"),
}


def _by_method(
    call: Arguments,
    data: Formula,
    shares: list[Share],
    hundred: float,
    method: str,
    *,
    is_list: bool,
    ignores_nan: bool,
) -> Value:
    """Return quantiles by another method than the linear one, in the language itself."""
    if ignores_nan or any(isinstance(share, Formula) for share in shares):
        hint = "give numbers, and leave `method` out for those that only the call knows"
        message = f"{call.name}: `method` takes `q` that is known"
        raise RefusalError(message, call.given["method"].span, hint=hint)
    place, part = _METHODS[method]
    axis = (
        args.one_axis(call, "axis", data.rank) if "axis" in call and call.static("axis") is not None else None
    )
    keep = args.flag(call, "keepdims")
    moved = f"moveaxis(a, {axis}, -1)" if axis is not None else "ravel(a)"
    lines = [f"def quantiles(a):\n    x = sort({moved}, axis=-1)\n    n = x.shape[-1]\n"]
    for number, share in enumerate(shares):
        assert not isinstance(share, Formula)
        lines.append(
            f"    q = {share / hundred!r}\n    v = float({place})\n"
            f"    i = int(floor(v))\n    t = v - i\n    g = {part}\n"
            "    low = x[..., minimum(maximum(i, 0), n - 1)]\n"
            "    high = x[..., minimum(maximum(i + 1, 0), n - 1)]\n"
            f"    r{number} = low + (high - low) * g\n"
            f"    r{number} = where(isnan(x[..., n - 1]), nan, r{number})\n"
        )
        if keep:
            row = f"expand_dims(r{number}, {axis})"
            if axis is None:
                row = f"r{number}.reshape({(1,) * data.rank})"
            lines.append(f"    r{number} = {row}\n")
    results = ", ".join(f"r{number}" for number in range(len(shares)))
    lines.append(f"    return stack(({results},))\n" if is_list else "    return r0\n")
    return LoopCall("text", (Operand(data.value, call.given["a"].span),), text="".join(lines))


def _shares(call: Arguments, hundred: float) -> tuple[list[Share], bool]:
    """Return the numbers that a quantile is taken at, from 0 to ``hundred``, and whether they are a list."""
    operand = call.given["q"]
    message = f"{call.name}: `q` must be numbers from 0 to {hundred:g}"
    static = args.static_value_or_none(operand.value)
    if static is not None:
        listed = static if isinstance(static, tuple) else (static,)
        numbers = [share for share in listed if isinstance(share, int | float)]
        if not listed or len(numbers) != len(listed) or not all(0 <= share <= hundred for share in numbers):
            raise RefusalError(message, operand.span)
        return list(numbers), isinstance(static, tuple)
    values = operand.value.items if isinstance(operand.value, TupleOf) else (operand.value,)
    quantiles = [
        args.as_formula(Operand(value, operand.span), call.span, f"{call.name}: `q`") for value in values
    ]
    is_list = isinstance(operand.value, TupleOf)
    if len(quantiles) == 1 and quantiles[0].rank == 1 and isinstance(quantiles[0].shape[0], int):
        quantiles = [
            helpers.slice_axis(quantiles[0], 0, at, at + 1).reshape(())
            for at in range(int(quantiles[0].shape[0]))
        ]
        is_list = True
    if not quantiles or any(quantile.rank or quantile.is_complex for quantile in quantiles):
        hint = "give one number, a list of numbers, or a vector of known length"
        raise RefusalError(message, operand.span, hint=hint)
    wide = [quantile.cast("float64") for quantile in quantiles]
    return [quantile.require((quantile >= 0) & (quantile <= hundred), message) for quantile in wide], is_list
