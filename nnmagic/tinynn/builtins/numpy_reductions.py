"""NumPy's reductions and scans: sums, means, extremes, statistics, along axes.

dtypes are NumPy's: sums of integers are 64-bit, means of integers f64, indices i64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nnmagic.relay.ops.dims import product
from nnmagic.relay.types import is_float
from nnmagic.tinynn.annotations import dtype_short_name
from nnmagic.tinynn.binding import Arguments, Builtin
from nnmagic.tinynn.builtins.formula import Formula, Number
from nnmagic.tinynn.builtins.operands import (
    axes,
    dtype_argument,
    fixed,
    flag,
    formula,
    known_number,
    known_or_none,
    one_axis,
    pair,
)
from nnmagic.tinynn.emit import is_tensor
from nnmagic.tinynn.values import Known, Refusal, TupleOf, Value, shape_shown, source_text

_REDUCE = "a axis? dtype? * keepdims? initial? where? exclude?"
_EXTREME = "a axis? *more * keepdims? initial? where? exclude?"
_NAMES = "x=a input=a"


def reduced_axes(call: Arguments, data: Formula) -> tuple[int, ...] | None:
    """The axes of a reduction; ``exclude``, Relay's, means all others."""
    found = axes(call, data.rank)
    if found is not None and flag(call, "exclude"):
        return tuple(axis for axis in range(data.rank) if axis not in found)
    return found


def wide_dtype(dtype: str) -> str:
    """The dtype of a sum: of integers and bools the platform's, of floats their own."""
    if is_float(dtype):
        return dtype
    return "uint64" if dtype.startswith("uint") else "int64"


def is_empty(data: Formula, along: Sequence[int] | None) -> bool:
    """Whether a reduction along the axes is of no elements, as far as is known."""
    return 0 in (data.shape if along is None else [data.shape[axis] for axis in along])


def _masked(call: Arguments, data: Formula, neutral: Number) -> Formula:
    """Only the elements that ``where`` chooses: the others become the neutral one."""
    if "where" not in call or known_or_none(call.given["where"].value) is True:
        return data
    mask = formula(call, "where")
    if mask.dtype != "bool":
        message = f"{call.name}: `where` must be of bools, not {dtype_short_name(mask.dtype)}"
        raise Refusal(message, call.given["where"].span, hint="compare it first, as in x != 0")
    return mask.choose(data, neutral)


def _initial(call: Arguments, data: Formula, result: Formula, operator: str) -> Formula:
    if "initial" not in call:
        return result
    start = call.given["initial"]
    number = known_or_none(start.value)
    first = data.like(number) if isinstance(number, bool | int | float) else formula(call, "initial")
    return result.op(operator, first)


def _numbers(call: Arguments) -> tuple[Number, ...] | None:
    """The argument as a tuple of Python numbers, where it is one: sizes, shapes."""
    operand = call.given["a"]
    known = known_or_none(operand.value)
    if isinstance(known, tuple) and all(isinstance(item, bool | int | float) for item in known):
        return known if set(call.given) == {"a"} else None
    return None


def _total(name: str, operator: str, neutral: int, of_known: Callable[..., Number]) -> Builtin:
    def apply_to(call: Arguments) -> Value:
        known = _numbers(call)
        if known is not None:
            return Known(of_known(known))
        data = formula(call, "a")
        dtype = dtype_argument(call) or wide_dtype(data.dtype)
        if dtype == "bool":
            data, dtype = data.truth(), "bool"
            return data.reduce("any" if name == "sum" else "all", reduced_axes(call, data)).value
        along = reduced_axes(call, data)
        data = _masked(call, data.cast(dtype), neutral)
        result = data.reduce(name, along, keepdims=flag(call, "keepdims"))
        return _initial(call, data, result, operator).value

    what = "Sum" if name == "sum" else "Product"
    return Builtin(name, _REDUCE, apply_to, f"{what} along axes; of integers 64-bit.", name, _NAMES)


def _of_several(
    call: Arguments, more: Sequence[Value], operator: str, of_known: Callable[..., Number]
) -> Value | None:
    """Python's ``max(a, b)``: of numbers, or tensors of rank 0; None where axes are meant."""
    if "axis" not in call or call.given["axis"].keyword is not None:
        return None
    first, second = call.given["a"], call.given["axis"]
    numbers = [known_or_none(value) for value in (first.value, second.value, *more)]
    if all(isinstance(number, bool | int | float) for number in numbers):
        return Known(of_known(numbers))
    scalar = is_tensor(first.value) and not formula(call, "a").rank
    if not more and (scalar or is_tensor(second.value)):
        inner = Arguments(call.name, {"a": first, "b": second}, call.span)
        one, other = pair(inner, "a", "b")
        if one.rank == 0 and other.rank == 0:
            return one.op(operator, other).value
    if more or is_tensor(second.value):
        names = [source_text(each.span) for each in (first, second)]
        message = f"{call.name} takes one tensor and its axes, not two tensors"
        raise Refusal(message, call.span, hint=f"write {operator}({', '.join(names)})")
    return None


_OF_TWO = {"max": "maximum", "min": "minimum"}


def _extreme(name: str, kind: str) -> Builtin:
    operator, of_known = _OF_TWO[kind], max if kind == "max" else min
    worst = -math.inf if kind == "max" else math.inf

    def apply_to(call: Arguments) -> Value:
        listed = call.given["more"].value
        more = listed.items if isinstance(listed, TupleOf) else ()
        one = Arguments(call.name, {k: v for k, v in call.given.items() if k != "more"}, call.span)
        known = _numbers(one)
        if known:
            return Known(of_known(known))
        among = _of_several(call, more, operator, of_known)
        if among is not None:
            return among
        data = formula(call, "a")
        along = reduced_axes(call, data)
        if is_empty(data, along) and "initial" not in call:
            message = f"{name} of no elements: {shape_shown(data.shape)} has an axis of size 0"
            raise Refusal(message, call.given["a"].span, hint="give `initial`, what it is then")
        if "where" in call and "initial" not in call:
            hint = "give `initial` too: the mask may choose nothing"
            raise Refusal(f"{name}: `where` without `initial`", call.given["where"].span, hint=hint)
        if "where" in call:
            start = known_or_none(call.given["initial"].value)
            neutral: Number = start if isinstance(start, bool | int | float) else worst
            data = _masked(call, data, neutral)
        if is_empty(data, along):
            result = data.like(known_number(call, "initial", 0))
            shape = data.reduce(kind, along, keepdims=flag(call, "keepdims")).shape
            return result.op("broadcast_to", shape=shape).value
        result = data.reduce(kind, along, keepdims=flag(call, "keepdims"))
        return _initial(call, data, result, operator).value

    size = "Largest" if kind == "max" else "Smallest"
    return Builtin(
        name, _EXTREME, apply_to, f"{size} element along axes; NaN where there is one.", name, _NAMES
    )


def _truth(name: str) -> Builtin:
    def apply_to(call: Arguments) -> Value:
        data = formula(call, "a").truth()
        along = reduced_axes(call, data)
        data = _masked(call, data, neutral=name == "all")
        return data.reduce(name, along, keepdims=flag(call, "keepdims")).value

    which = "all elements are" if name == "all" else "any element is"
    signature = "a axis? * keepdims? where? exclude?"
    return Builtin(name, signature, apply_to, f"Whether {which} true, or not 0.", name, _NAMES)


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
        raise Refusal(message, call.given["dtype"].span)
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


def _position(name: str) -> Builtin:
    def apply_to(call: Arguments) -> Value:
        data = formula(call, "a")
        last = flag(call, "select_last_index")
        keepdims = flag(call, "keepdims")
        if data.rank == 0:
            data = data.reshape((1,))
        along = axes(call, data.rank)
        if along is not None and len(along) > 1:
            hint = "one axis, or none for the place in the flattened tensor"
            raise Refusal(f"{name} takes one axis", call.given["axis"].span, hint=hint)
        if is_empty(data, along):
            message = f"{name} of no elements: {shape_shown(data.shape)} has an axis of size 0"
            raise Refusal(message, call.given["a"].span)
        found = data.op(name, axis=along, keepdims=keepdims, select_last_index=last)
        return found.cast("int64").value

    which = "largest" if name == "argmax" else "smallest"
    summary = f"Where the {which} element stands, i64; the first NaN where there is one."
    return Builtin(name, "a axis? * keepdims? select_last_index?", apply_to, summary, name, _NAMES)


def _range_of(call: Arguments) -> Value:
    data = formula(call, "a")
    along, keepdims = reduced_axes(call, data), flag(call, "keepdims")
    if is_empty(data, along):
        raise Refusal("ptp of no elements", call.given["a"].span)
    largest = data.reduce("max", along, keepdims=keepdims)
    return (largest - data.reduce("min", along, keepdims=keepdims)).value


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
        raise Refusal(message, call.given["weights"].span, hint=hint)
    if weights.shape != data.shape:
        if weights.rank != 1 or along is None or len(along) != 1:
            message = f"average: weights of shape {shape_shown(weights.shape)} for {shape_shown(data.shape)}"
            hint = "give the weights the shape of the data, or one axis and a weight for each of its places"
            raise Refusal(message, call.given["weights"].span, hint=hint)
        shape = [weights.shape[0] if axis == along[0] else 1 for axis in range(data.rank)]
        weights = (weights.reshape(shape) * 1).op("broadcast_to", shape=data.shape)
    total = (data * weights).reduce("sum", along, keepdims=keepdims)
    return (total / weights.reduce("sum", along, keepdims=keepdims)).value


def _count_nonzero(call: Arguments) -> Value:
    data = formula(call, "a").truth().cast("int64")
    return data.reduce("sum", reduced_axes(call, data), keepdims=flag(call, "keepdims")).value


def _scan(name: str, operator: str) -> Builtin:
    def apply_to(call: Arguments) -> Value:
        data = formula(call, "a")
        dtype = dtype_argument(call) or wide_dtype(data.dtype)
        if data.rank == 0:
            data = data.reshape((1,))
        axis = one_axis(call, "axis", data.rank) if "axis" in call else None
        exclusive = flag(call, "exclusive")
        if data.dtype == "bool":
            data = data.cast(dtype)
        return data.op(operator, axis=axis, dtype=dtype, exclusive=exclusive).value

    what = "sum" if operator == "cumsum" else "product"
    return Builtin(
        name,
        "a axis? dtype? * exclusive?",
        apply_to,
        f"Running {what} along an axis; without one, of the flattened tensor.",
        name,
        _NAMES,
    )


# -- that pass over NaN --------------------------------------------------------------------------------


def _without_nan(name: str, kind: str, neutral: float) -> Builtin:
    """NaN counts as the neutral number; a maximum of nothing but NaN is NaN."""

    def apply_to(call: Arguments) -> Value:
        data = formula(call, "a")
        along, keepdims = reduced_axes(call, data), flag(call, "keepdims")
        total = kind in ("sum", "prod")
        if total:
            data = data.cast(dtype_argument(call) or wide_dtype(data.dtype))
        elif is_empty(data, along):
            raise Refusal(f"{name} of no elements", call.given["a"].span)
        if not data.is_float:
            return data.reduce(kind, along, keepdims=keepdims).value
        missing = data.op("isnan")
        result = missing.choose(neutral, data).reduce(kind, along, keepdims=keepdims)
        if not total:
            nothing = missing.reduce("all", along, keepdims=keepdims)
            result = nothing.choose(math.nan, result)
        return result.value

    signature = (
        _REDUCE.replace(" initial? where?", "") if kind in ("sum", "prod") else "a axis? * keepdims? exclude?"
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


# -- order statistics ----------------------------------------------------------------------------------

_LINEAR = "linear"


def _quantiles(call: Arguments, data: Formula, shares: Sequence[float]) -> list[Formula]:
    """The linear ones, each between its two neighbours in order; NaN where there is one."""
    along = axes(call, data.rank)
    if along is None or len(along) == data.rank:
        flat, axis = data.flat() if data.rank else data.reshape((1,)), 0
    else:
        if len(along) != 1:
            hint = "reshape the axes to one first"
            raise Refusal(f"{call.name} takes one axis, or all", call.given["axis"].span, hint=hint)
        flat, axis = data, along[0]
    count = fixed(call, flat.shape[axis], call.given["a"].span, "the number of elements")
    if count == 0:
        raise Refusal(f"{call.name} of no elements", call.given["a"].span)
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
        if len(numbers) != len(listed) or not all(0 <= share <= hundred for share in numbers):
            raise Refusal(f"{call.name}: `q` must be numbers from 0 to {hundred:g}", call.given["q"].span)
        if "method" in call and call.known("method") != _LINEAR:
            raise Refusal(f"{call.name}: `method` can only be 'linear'", call.given["method"].span)
        if isinstance(shares, tuple):  # several are f64 in NumPy, one has the dtype of the data
            data = data.cast("float64")
        found = _quantiles(call, data, [share / hundred for share in numbers])
        if not isinstance(shares, tuple):
            return found[0].value
        from nnmagic.tinynn.builtins.numpy_shapes import stacked

        return stacked(found, 0).value

    return apply_to


_STATISTIC = "a axis? dtype? * keepdims? where? exclude?"
_MOMENT = "a axis? dtype? * ddof? keepdims? mean? correction? unbiased? exclude?"
_NAN_MOMENT = "a axis? dtype? * ddof? keepdims? exclude?"

REDUCTIONS = (
    _total("sum", "add", 0, sum),
    _total("prod", "multiply", 1, math.prod),
    *(_extreme(name, name[-3:]) for name in ("max", "amax", "min", "amin")),
    _truth("all"),
    _truth("any"),
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
    _position("argmax"),
    _position("argmin"),
    Builtin("ptp", "a axis? * keepdims?", _range_of, "max - min along axes.", "ptp"),
    Builtin("average", "a axis? weights? * keepdims?", _average, "Mean, weighted.", "average"),
    Builtin(
        "count_nonzero", "a axis? * keepdims?", _count_nonzero, "How many are not 0, i64.", "count_nonzero"
    ),
    _scan("cumsum", "cumsum"),
    _scan("cumprod", "cumprod"),
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
