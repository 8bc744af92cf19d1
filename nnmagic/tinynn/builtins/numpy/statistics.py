"""Define NumPy's statistics along axes: means, variances, NaN-ignoring versions, quantiles.

Integers give f64.

NumPy's reference: https://numpy.org/doc/stable/reference/routines.statistics.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnmagic.relay.complex_numbers.operators import IMAG, REAL
from nnmagic.relay.ops.dims import product
from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.numpy.quantiles import median, nan_median, quantile_of, statistics_data
from nnmagic.tinynn.builtins.numpy.reductions import REDUCE, is_empty, reduction_axes, where_mask, wide_dtype
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import broadcast, require_elements
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, numpy_function
from nnmagic.tinynn.values.values import RefusalError, Value

_NAMES = "x=a input=a"


def _count_of(call: Arguments, data: Formula, along: Sequence[int] | None) -> int:
    dims = data.shape if along is None else [data.shape[axis] for axis in along]
    return args.static_size(call, product(dims), call.at("a"), "the number of elements")


def mean_of(data: Formula, along: Sequence[int] | None, *, keepdims: bool) -> Formula:
    """Return the mean of floats; half floats are summed in f32."""
    return data.reduce("mean", along, keepdims=keepdims)


def _mean(call: Arguments) -> Value:
    data = statistics_data(call)
    along, keepdims = reduction_axes(call, data), args.flag(call, "keepdims")
    mask = where_mask(call)
    if mask is None:
        return mean_of(data, along, keepdims=keepdims).value
    return _mean_where(data, broadcast(mask, data.shape), along, keepdims=keepdims).value


def _mean_where(data: Formula, mask: Formula, along: Sequence[int] | None, *, keepdims: bool) -> Formula:
    """Return the mean of the elements that the mask chooses."""
    total = mask.choose(data, 0).reduce("sum", along, keepdims=keepdims)
    return total / mask.cast(data.dtype).reduce("sum", along, keepdims=keepdims)


def _variance(call: Arguments) -> Formula:
    data = statistics_data(call)
    along, keepdims = reduction_axes(call, data), args.flag(call, "keepdims")
    half = data.dtype in ("float16", "bfloat16")
    wide = data.cast("float32") if half else data
    free = args.static_number(call, "ddof", args.static_number(call, "correction", 0))
    if args.flag(call, "unbiased"):
        free = 1
    if wide.is_complex:
        return _complex_variance(call, wide, free)
    center = args.formula(call, "mean") if "mean" in call else wide.reduce("mean", along, keepdims=True)
    attrs = {"axis": along, "keepdims": keepdims}
    if free in (0, 1) and along != ():
        result = wide.op("variance", center, unbiased=free == 1, **attrs)
    else:
        gap = wide - center
        count = _count_of(call, data, along)
        result = (gap * gap).reduce("sum", along, keepdims=keepdims) / float(max(count - free, 0))
    return result.cast(data.dtype) if half else result


def _complex_variance(call: Arguments, data: Formula, free: float) -> Formula:
    """Return the mean of the squared distances from the mean: a real number."""
    along, keepdims = reduction_axes(call, data), args.flag(call, "keepdims")
    center = args.formula(call, "mean") if "mean" in call else data.reduce("mean", along, keepdims=True)
    gap = data - center
    squares = gap.op(REAL) * gap.op(REAL) + gap.op(IMAG) * gap.op(IMAG)
    if free == 0:
        return squares.reduce("mean", along, keepdims=keepdims)
    count = _count_of(call, data, along)
    return squares.reduce("sum", along, keepdims=keepdims) / float(max(count - free, 0))


def _average(call: Arguments) -> Value:
    data = statistics_data(call)
    along, keepdims = args.axes(call, data.rank), args.flag(call, "keepdims")
    if "weights" not in call:
        return mean_of(data, along, keepdims=keepdims).value
    weights = args.as_formula_beside(call, "weights", data.dtype)
    if not weights.is_float:
        weights = weights.cast(data.dtype)
    if weights.dtype != data.dtype:
        message = (
            f"average of {dtype_short_name(data.dtype)} with weights of {dtype_short_name(weights.dtype)}"
        )
        hint = f"convert them, as in weights.astype({dtype_short_name(data.dtype)})"
        raise RefusalError(message, call.at("weights"), hint=hint)
    if weights.shape != data.shape:
        if weights.rank != 1 or along is None or len(along) != 1:
            message = (
                f"average: weights of shape {format_shape(weights.shape)} for {format_shape(data.shape)}"
            )
            hint = "give the weights the shape of the data, or one axis and a weight for each index"
            raise RefusalError(message, call.at("weights"), hint=hint)
        shape = [weights.shape[0] if axis == along[0] else 1 for axis in range(data.rank)]
        weights = (weights.reshape(shape) * 1).op("broadcast_to", shape=data.shape)
    total = (data * weights).reduce("sum", along, keepdims=keepdims)
    return (total / weights.reduce("sum", along, keepdims=keepdims)).value


def _replace_nan(name: str, kind: str, neutral: float) -> Builtin:
    """Declare a reduction that counts NaN as the neutral element; an extremum of only NaN is NaN."""

    def apply_to(call: Arguments) -> Value:
        data = args.formula(call, "a")
        along, keepdims = reduction_axes(call, data), args.flag(call, "keepdims")
        total = kind in ("sum", "prod")
        if total:
            data = data.cast(args.dtype_argument(call) or wide_dtype(data.dtype))
        elif is_empty(data, along):
            raise RefusalError(f"{name} of no elements", call.at("a"))
        else:
            data = require_elements(data, along, f"{name} of no elements")
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
    return numpy_function(name, signature, apply_to, f"Compute {kind}, ignoring NaN.", _NAMES)


def _scan_without_nan(name: str, neutral: int) -> Builtin:
    """Declare a cumulative sum or product that counts NaN as the neutral element."""
    own = name.removeprefix("nan")

    def apply_to(call: Arguments) -> Value:
        data = args.formula(call, "a")
        axis = args.one_axis(call, "axis", data.rank) if "axis" in call else None
        if axis is None:
            data, axis = data.flat(), 0
        data = data.cast(args.dtype_argument(call) or wide_dtype(data.dtype))
        if data.is_float:
            data = data.op("isnan").choose(neutral, data)
        return data.op(own, axis=axis, dtype=data.dtype).value

    return numpy_function(name, "a axis? dtype?", apply_to, f"Compute {own}, ignoring NaN.", _NAMES)


def _nan_mean(call: Arguments) -> Value:
    data = statistics_data(call)
    present, mask = ~data.op("isnan"), where_mask(call)
    chosen = present if mask is None else present & mask
    along, keepdims = reduction_axes(call, data), args.flag(call, "keepdims")
    return _mean_where(data, chosen, along, keepdims=keepdims).value


def _nan_variance(call: Arguments) -> Formula:
    """Return the variance of the elements that are not NaN; NaN where ``ddof`` leaves none of them."""
    if not args.formula(call, "a").is_float:
        return _variance(call)
    data = statistics_data(call)
    along, keepdims = reduction_axes(call, data), args.flag(call, "keepdims")
    present = ~data.op("isnan")
    mean = _mean_where(data, present, along, keepdims=True)
    gap = present.choose(data - mean, 0)
    count = present.cast(data.dtype).reduce("sum", along, keepdims=keepdims)
    left = count - float(args.static_number(call, "ddof", 0))
    return (gap * gap).reduce("sum", along, keepdims=keepdims) / (left > 0).choose(left, math.nan)


_STATISTIC = "a axis? dtype? * keepdims? where? exclude?"

_MOMENT = "a axis? dtype? * ddof? keepdims? mean? correction? unbiased? exclude?"

_NAN_MOMENT = "a axis? dtype? * ddof? keepdims? exclude?"

STATISTICS = (
    numpy_function(
        "mean", _STATISTIC, _mean, "Compute the arithmetic mean along axes; f64 for integers.", _NAMES
    ),
    numpy_function("var", _MOMENT, lambda c: _variance(c).value, "Compute the variance along axes.", _NAMES),
    numpy_function(
        "std",
        _MOMENT,
        lambda c: _variance(c).sqrt().value,
        "Compute the standard deviation along axes.",
        _NAMES,
    ),
    Builtin(
        "variance",
        _MOMENT,
        lambda c: _variance(c).value,
        "Compute the variance along axes, as var does.",
        "var",
        "with_mean=mean " + _NAMES,
    ),
    numpy_function("average", "a axis? weights? * keepdims?", _average, "Compute the weighted mean."),
    _scan_without_nan("nancumsum", 0),
    _scan_without_nan("nancumprod", 1),
    _replace_nan("nansum", "sum", 0),
    _replace_nan("nanprod", "prod", 1),
    _replace_nan("nanmax", "max", -math.inf),
    _replace_nan("nanmin", "min", math.inf),
    numpy_function("nanmean", _STATISTIC, _nan_mean, "Compute mean, ignoring NaN."),
    numpy_function("nanvar", _NAN_MOMENT, lambda c: _nan_variance(c).value, "Compute var, ignoring NaN."),
    numpy_function(
        "nanstd", _NAN_MOMENT, lambda c: _nan_variance(c).sqrt().value, "Compute std, ignoring NaN."
    ),
    numpy_function("median", "a axis? * keepdims?", median, "Compute the median."),
    numpy_function(
        "quantile",
        "a q axis? * method? keepdims?",
        quantile_of(1),
        "Compute quantiles, with linear interpolation.",
    ),
    numpy_function(
        "percentile",
        "a q axis? * method? keepdims?",
        quantile_of(100),
        "Compute percentiles, with linear interpolation.",
    ),
    numpy_function("nanmedian", "a axis? * keepdims?", nan_median, "Compute the median, ignoring NaN."),
    numpy_function(
        "nanquantile",
        "a q axis? * method? keepdims?",
        quantile_of(1, ignores_nan=True),
        "Compute quantiles, with linear interpolation, ignoring NaN.",
    ),
    numpy_function(
        "nanpercentile",
        "a q axis? * method? keepdims?",
        quantile_of(100, ignores_nan=True),
        "Compute percentiles, with linear interpolation, ignoring NaN.",
    ),
)
