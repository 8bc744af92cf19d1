"""NumPy's statistics along axes: means, variances, without NaN, order statistics; of integers f64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nnmagic.relay.ops.dims import product
from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.relay.types import is_float
from nnmagic.tinynn.builtins.argument_checks import axes, dtype_argument, fixed, flag, formula, known_number
from nnmagic.tinynn.builtins.numpy.reductions import REDUCE, is_empty, reduced_axes, wide_dtype
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import stacked
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values.values import RefusalError, Value

_NAMES = "x=a input=a"


def _count_of(call: Arguments, data: Formula, along: Sequence[int] | None) -> int:
    dims = data.shape if along is None else [data.shape[axis] for axis in along]
    return fixed(call, product(dims), call.given["a"].span, "the number of elements")


def mean_of(data: Formula, along: Sequence[int] | None, *, keepdims: bool) -> Formula:
    """The mean of floats; of half floats summed in f32."""
    return data.reduce("mean", along, keepdims=keepdims)


def _statistics_data(call: Arguments) -> Formula:
    """The data of a mean or a variance: integers as f64, or all in the dtype that is asked for."""
    data = formula(call, "a")
    dtype = dtype_argument(call) or (data.dtype if data.is_float else "float64")
    if not is_float(dtype):
        message = f"{call.name}: `dtype` must be a float dtype, not {dtype_short_name(dtype)}"
        raise RefusalError(message, call.given["dtype"].span)
    return data.cast(dtype)


def _mean(call: Arguments) -> Value:
    data = _statistics_data(call)
    along, keepdims = reduced_axes(call, data), flag(call, "keepdims")
    if "where" in call:
        mask = formula(call, "where").op("broadcast_to", shape=data.shape)
        total = mask.choose(data, 0).reduce("sum", along, keepdims=keepdims)
        return (total / mask.cast(data.dtype).reduce("sum", along, keepdims=keepdims)).value
    return mean_of(data, along, keepdims=keepdims).value


def _variance(call: Arguments) -> Formula:
    data = _statistics_data(call)
    along, keepdims = reduced_axes(call, data), flag(call, "keepdims")
    if along is not None and not along:
        return data - data
    half = data.dtype in ("float16", "bfloat16")
    wide = data.cast("float32") if half else data
    free = known_number(call, "ddof", known_number(call, "correction", 0))
    if flag(call, "unbiased"):
        free = 1
    center = formula(call, "mean") if "mean" in call else wide.reduce("mean", along, keepdims=True)
    attrs = {"axis": along, "keepdims": keepdims}
    if free in (0, 1):
        result = wide.op("variance", center, unbiased=free == 1, **attrs)
    else:
        gap = wide - center
        count = _count_of(call, data, along)
        result = (gap * gap).reduce("sum", along, keepdims=keepdims) / float(max(count - free, 0))
    return result.cast(data.dtype) if half else result


def _average(call: Arguments) -> Value:
    data = _statistics_data(call)
    along, keepdims = axes(call, data.rank), flag(call, "keepdims")
    if "weights" not in call:
        return mean_of(data, along, keepdims=keepdims).value
    weights = formula(call, "weights")
    if not weights.is_float:
        weights = weights.cast("float64")
    if weights.dtype != data.dtype:
        message = (
            f"average of {dtype_short_name(data.dtype)} with weights of {dtype_short_name(weights.dtype)}"
        )
        hint = f"convert them, as in weights.astype({dtype_short_name(data.dtype)})"
        raise RefusalError(message, call.given["weights"].span, hint=hint)
    if weights.shape != data.shape:
        if weights.rank != 1 or along is None or len(along) != 1:
            message = (
                f"average: weights of shape {format_shape(weights.shape)} for {format_shape(data.shape)}"
            )
            hint = "give the weights the shape of the data, or one axis and a weight for each of its places"
            raise RefusalError(message, call.given["weights"].span, hint=hint)
        shape = [weights.shape[0] if axis == along[0] else 1 for axis in range(data.rank)]
        weights = (weights.reshape(shape) * 1).op("broadcast_to", shape=data.shape)
    total = (data * weights).reduce("sum", along, keepdims=keepdims)
    return (total / weights.reduce("sum", along, keepdims=keepdims)).value


def _without_nan(name: str, kind: str, neutral: float) -> Builtin:
    """NaN counts as the neutral number; a maximum of nothing but NaN is NaN."""

    def apply_to(call: Arguments) -> Value:
        data = formula(call, "a")
        along, keepdims = reduced_axes(call, data), flag(call, "keepdims")
        total = kind in ("sum", "prod")
        if total:
            data = data.cast(dtype_argument(call) or wide_dtype(data.dtype))
        elif is_empty(data, along):
            raise RefusalError(f"{name} of no elements", call.given["a"].span)
        if not data.is_float:
            return data.reduce(kind, along, keepdims=keepdims).value
        missing = data.op("isnan")
        result = missing.choose(neutral, data).reduce(kind, along, keepdims=keepdims)
        if not total:
            nothing = missing.reduce("all", along, keepdims=keepdims)
            result = nothing.choose(math.nan, result)
        return result.value

    signature = (
        REDUCE.replace(" initial? where?", "") if kind in ("sum", "prod") else "a axis? * keepdims? exclude?"
    )
    return Builtin(name, signature, apply_to, f"{kind} without the NaN.", name, _NAMES)


def _nan_moments(call: Arguments) -> tuple[Formula, Formula]:
    """Mean (with its axes kept) and variance of what is not NaN."""
    data = _statistics_data(call)
    along = reduced_axes(call, data)
    present = ~data.op("isnan")
    count = present.cast(data.dtype).reduce("sum", along, keepdims=True)
    mean = present.choose(data, 0).reduce("sum", along, keepdims=True) / count
    gap = present.choose(data - mean, 0)
    free = float(known_number(call, "ddof", 0))
    left = count - free
    variance = (gap * gap).reduce("sum", along, keepdims=True) / (left > 0).choose(left, math.nan)
    return mean, variance


def _kept(call: Arguments, found: Formula) -> Value:
    if flag(call, "keepdims"):
        return found.value
    along = reduced_axes(call, found)
    along = tuple(range(found.rank)) if along is None else along
    return found.op("squeeze", axis=along).value if along else found.value


_LINEAR = "linear"


def _quantiles(call: Arguments, data: Formula, shares: Sequence[float]) -> list[Formula]:
    """The linear ones, each between its two neighbours in order; NaN where there is one."""
    along = axes(call, data.rank)
    if along is None or len(along) == data.rank:
        flat, axis = data.flat() if data.rank else data.reshape((1,)), 0
    else:
        if len(along) != 1:
            hint = "reshape the axes to one first"
            raise RefusalError(f"{call.name} takes one axis, or all", call.given["axis"].span, hint=hint)
        flat, axis = data, along[0]
    count = fixed(call, flat.shape[axis], call.given["a"].span, "the number of elements")
    if count == 0:
        raise RefusalError(f"{call.name} of no elements", call.given["a"].span)
    ordered = flat.op("sort", axis=axis)
    missing = flat.op("isnan").reduce("any", (axis,))
    found = []
    for share in shares:
        place = share * (count - 1)
        below = min(math.floor(place), count - 1)
        low = _at(ordered, axis, below)
        high = _at(ordered, axis, min(below + 1, count - 1))
        rest = place - below
        value = low if rest == 0 else _between(low, high, rest)
        found.append(_with_axes(call, missing.choose(math.nan, value), data, along))
    return found


def _between(low: Formula, high: Formula, rest: float) -> Formula:
    """As NumPy's: from the nearer end; equal ends, infinite too, are themselves."""
    gap = high - low
    between = low + gap * rest if rest < 0.5 else high - gap * (1 - rest)
    return low.equal(high).choose(low, between)


def _with_axes(call: Arguments, found: Formula, data: Formula, along: Sequence[int] | None) -> Formula:
    if not flag(call, "keepdims"):
        return found
    axes_ = range(data.rank) if along is None else along
    return found.reshape([1 if axis in axes_ else dim for axis, dim in enumerate(data.shape)])


def _at(data: Formula, axis: int, place: int) -> Formula:
    cut = data.op("strided_slice", begin=[place], end=[place + 1], strides=[1], axes=[axis])
    return cut.op("squeeze", axis=[axis])


def _median(call: Arguments) -> Value:
    return _quantiles(call, _statistics_data(call), (0.5,))[0].value


def _quantile(hundred: float) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        data = _statistics_data(call)
        shares = call.known("q")
        listed = shares if isinstance(shares, tuple) else (shares,)
        numbers = [share for share in listed if isinstance(share, int | float)]
        if not listed or len(numbers) != len(listed) or not all(0 <= share <= hundred for share in numbers):
            raise RefusalError(
                f"{call.name}: `q` must be numbers from 0 to {hundred:g}", call.given["q"].span
            )
        if "method" in call and call.known("method") != _LINEAR:
            raise RefusalError(f"{call.name}: `method` can only be 'linear'", call.given["method"].span)
        if isinstance(shares, tuple):  # several are f64 in NumPy, one has the dtype of the data
            data = data.cast("float64")
        found = _quantiles(call, data, [share / hundred for share in numbers])
        if not isinstance(shares, tuple):
            return found[0].value

        return stacked(found, 0).value

    return apply_to


_STATISTIC = "a axis? dtype? * keepdims? where? exclude?"


_MOMENT = "a axis? dtype? * ddof? keepdims? mean? correction? unbiased? exclude?"


_NAN_MOMENT = "a axis? dtype? * ddof? keepdims? exclude?"


STATISTICS = (
    Builtin("mean", _STATISTIC, _mean, "Arithmetic mean along axes; of integers f64.", "mean", _NAMES),
    Builtin("var", _MOMENT, lambda c: _variance(c).value, "Variance along axes.", "var", _NAMES),
    Builtin(
        "std", _MOMENT, lambda c: _variance(c).sqrt().value, "Standard deviation along axes.", "std", _NAMES
    ),
    Builtin(
        "variance",
        _MOMENT,
        lambda c: _variance(c).value,
        "The same as var.",
        "var",
        "with_mean=mean " + _NAMES,
    ),
    Builtin("average", "a axis? weights? * keepdims?", _average, "Mean, weighted.", "average"),
    _without_nan("nansum", "sum", 0),
    _without_nan("nanprod", "prod", 1),
    _without_nan("nanmax", "max", -math.inf),
    _without_nan("nanmin", "min", math.inf),
    Builtin(
        "nanmean", _STATISTIC, lambda c: _kept(c, _nan_moments(c)[0]), "mean without the NaN.", "nanmean"
    ),
    Builtin("nanvar", _NAN_MOMENT, lambda c: _kept(c, _nan_moments(c)[1]), "var without the NaN.", "nanvar"),
    Builtin(
        "nanstd", _NAN_MOMENT, lambda c: _kept(c, _nan_moments(c)[1].sqrt()), "std without the NaN.", "nanstd"
    ),
    Builtin("median", "a axis? * keepdims?", _median, "The middle in order.", "median"),
    Builtin("quantile", "a q axis? * method? keepdims?", _quantile(1), "Linear quantiles.", "quantile"),
    Builtin(
        "percentile", "a q axis? * method? keepdims?", _quantile(100), "Linear percentiles.", "percentile"
    ),
)
