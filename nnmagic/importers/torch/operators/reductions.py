"""Import reductions: sums, means, variances, extremes, running sums.

What they compute: https://docs.pytorch.org/docs/stable/torch.html#reduction-ops
"""

from __future__ import annotations

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.operators.reductions import _extreme, _log_sum_exp
from nnmagic.importers.onnx.values import Value, constant, op, ops
from nnmagic.importers.torch.calls import AtenCall, over_elements, scalar_constant
from nnmagic.importers.torch.mathematics import convert, neutral, wide
from nnmagic.importers.torch.registry import operator, operators
from nnmagic.relay.ops.dims import product
from nnmagic.relay.types import is_complex


def _keep(call: AtenCall) -> bool:
    return call.flag("keepdim")


@operator("sum", "mean", "prod")
def _total(call: AtenCall) -> Value:
    data, name = convert(call["self"], call.dtype), call.own_name
    if not data.rank:
        return data if name == "prod" else data + data.like(0)  # of -0.0 it is 0.0
    return op(name, wide(data), axis=tuple(call.axes("dim", data.rank)), keepdims=_keep(call))


@operator("amax", "amin")
def _extreme_of_all(call: AtenCall) -> Value:
    data = call["self"]
    if not data.rank:
        return data
    return _extreme(call.own_name[1:])(data, call.axes("dim", data.rank), _keep(call))


@operator("all", "any")
def _truth(call: AtenCall) -> Value:
    data = convert(call["self"], "bool")
    if not data.rank:
        return data
    name = call.own_name
    return op(name, data, axis=tuple(call.axes("dim", data.rank)), keepdims=_keep(call))


def variance(call: AtenCall, *, mean_too: bool) -> list[Value]:
    """Return the variance along axes, divided by the count less the correction, and the mean."""
    data = call["self"] if is_complex(call["self"].dtype) else convert(call["self"], call.dtype)
    data = data.cast("float64") if data.is_float else data  # in which torch adds up
    correction = call.argument("correction")
    if correction is None:
        correction = 1 if call.arguments.get("unbiased", True) else 0
    axes = call.axes("dim", data.rank)
    elements = over_elements(data)
    axes = axes or [0]
    mean = op("mean", elements, axis=tuple(axes), keepdims=True)
    centred = elements - mean
    if is_complex(data.dtype):
        centred = op("complex.abs", centred)
    total = op("sum", centred * centred, axis=tuple(axes), keepdims=_keep(call))
    count = product([elements.shape[axis] for axis in axes])
    if isinstance(count, int):
        number = scalar_constant(max(0.0, int(count) - correction), total.dtype)
    else:
        number = (convert(call.size(count), total.dtype) - float(correction)).maximum(0)
    result = total / number
    if not _keep(call):
        mean = shapes.squeeze(mean, axes)
    elif not data.rank:
        result, mean = shapes.squeeze(result, [0]), shapes.squeeze(mean, [0])
    return [result, mean] if mean_too else [result]


@operator("logsumexp")
def _logsumexp(call: AtenCall) -> Value:
    data = convert(call["self"], call.dtype)
    return _log_sum_exp(data, call.axes("dim", data.rank), _keep(call)) if data.rank else data


# -- positions of extremes -----------------------------------------------------------------------------


def _positions(relay: str, data: Value, axis: int, *, keep: bool) -> Value:
    """Return where the extreme stands, the first of equal ones; a NaN counts as the extreme."""
    if data.dtype == "bool":
        data = data.cast("uint8")
    return op(relay, data, axis=(axis,), keepdims=keep).cast("int64")


@operator("argmax", "argmin")
def _arg_extreme(call: AtenCall) -> Value:
    data, relay = call["self"], call.own_name
    if call.argument("dim") is None:
        flat = call.reshape(data, [product(data.shape)])
        place = _positions(relay, flat, 0, keep=False)
        return shapes.unsqueeze(place, range(data.rank)) if _keep(call) else place
    if not data.rank:
        return scalar_constant(0, "int64")
    return _positions(relay, data, call.axis("dim", data.rank), keep=_keep(call))


@operator("max", "min")
def _extreme_along(call: AtenCall) -> Value | list[Value]:
    data, name = call["self"], call.own_name
    if call.overload == "default":
        return _extreme(name)(data, list(range(data.rank)), _keep(call)) if data.rank else data
    if not data.rank:
        return [data, scalar_constant(0, "int64")]
    axis = call.axis("dim", data.rank)
    place = _positions(f"arg{name}", data, axis, keep=True)
    results = [op("gather", data, place, axis=axis), place]
    return results if _keep(call) else [shapes.squeeze(item, [axis]) for item in results]


# -- running sums --------------------------------------------------------------------------------------


@operator("cumsum", "cumprod")
def _running(call: AtenCall) -> Value:
    data = convert(call["self"], call.dtype)
    if not data.rank or 0 in data.shape:
        return data
    axis = call.axis("dim", data.rank)
    if data.shape[axis] == 1:
        return data
    if is_complex(data.dtype) and call.own_name == "cumprod":
        return _products(call, data, axis)
    dtype = {"float32": "float64"}.get(data.dtype, wide(data).dtype)  # in which torch adds up
    return op(call.own_name, data.cast(dtype), axis=axis, dtype=dtype)


def _products(call: AtenCall, data: Value, axis: int) -> Value:
    """Return running products, in as many steps as the size has bits."""
    size, step = call.static(data)[axis], 1
    while step < size:
        later = shapes.slice_axis(data, axis, step, size) * shapes.slice_axis(data, axis, 0, size - step)
        data, step = op("concatenate", [shapes.slice_axis(data, axis, 0, step), later], axis=axis), 2 * step
    return data


def _prefixes(data: Value, axis: int) -> tuple[Value, Value, list[int]]:
    """Return rows (..., 1, n) along an axis, which of their elements are in each of the n prefixes, and the
    order of axes that puts (..., n) back.
    """
    size = data.shape[axis]
    if not isinstance(size, int):
        raise UnsupportedError("the size of its axis must be known", "leave it out of dynamic_shapes")
    moved = shapes.transpose(data, [*(at for at in range(data.rank) if at != axis), axis])
    mask = constant(np.tril(np.ones((int(size), int(size)), bool)))
    back = [*range(axis), data.rank - 1, *range(axis, data.rank - 1)]
    return shapes.unsqueeze(moved, [data.rank - 1]), mask, back


def running_extreme(data: Value, axis: int, *, largest: bool) -> list[Value]:
    """Return the extreme of each prefix, and where it stands: the last of equal ones."""
    rows, mask, back = _prefixes(data, axis)
    worst = rows.like(neutral("max" if largest else "min", data.dtype))
    candidates = mask.choose(rows, worst)
    best = op("max" if largest else "min", candidates, axis=(data.rank,), keepdims=True)
    hits = op("logical_and", mask, rows.equal(best))  # an element behind the prefix may be as large
    place = op("argmax", hits.cast("int32"), axis=(data.rank,), select_last_index=True).cast("int64")
    if data.is_float:
        nan = op("logical_and", op("isnan", rows), mask)
        last = op("argmax", nan.cast("int32"), axis=(data.rank,), select_last_index=True).cast("int64")
        place = op("any", nan, axis=(data.rank,)).choose(last, place)
    place = shapes.transpose(place, back)
    return [op("gather", data, place, axis=axis), place]


@operator("cummax", "cummin", note="along an axis of known size")
def _running_extreme(call: AtenCall) -> list[Value]:
    data = call["self"]
    if not data.rank or 0 in data.shape:
        return [data, call.full(data.shape, scalar_constant(0, "int64"))]
    axis, largest = call.axis("dim", data.rank), call.name == "aten.cummax"
    values, place = running_extreme(
        data.cast("int8") if data.dtype == "bool" else data, axis, largest=largest
    )
    return [values.cast(data.dtype), place]


@operator("logcumsumexp", note="along an axis of known size")
def _logcumsumexp(call: AtenCall) -> Value:
    data = call["self"]
    if not data.rank or 0 in data.shape:
        return data
    rows, mask, back = _prefixes(wide(data), call.axis("dim", data.rank))
    spread = mask.choose(rows, rows.like(-np.inf))
    return shapes.transpose(_log_sum_exp(spread, [data.rank], keep=False), back)


# -- sorting -------------------------------------------------------------------------------------------


@operator("sort")
def _sort(call: AtenCall) -> list[Value]:
    data = call["self"]
    if not data.rank:
        return [data, scalar_constant(0, "int64")]
    axis = call.axis("dim", data.rank, -1)
    return sorted_along(call, data, axis, descending=call.flag("descending"))


def sorted_along(call: AtenCall, data: Value, axis: int, *, descending: bool) -> list[Value]:
    """Return elements in order, equal ones in theirs, NaN as the largest; and where they stood."""
    if 0 in data.shape:
        return [data, call.full(data.shape, scalar_constant(0, "int64"))]
    keys = data.cast("int8") if data.dtype == "bool" else wide(data)
    size = data.shape[axis]
    if not isinstance(size, int):
        place = op("argsort", keys, axis=axis, is_ascend=not descending, dtype="int64")
    else:
        _, place = ops(
            "topk", keys, k=int(size), axis=axis, ret_type="both", is_ascend=not descending, dtype="int64"
        )
    return [op("gather", data, place, axis=axis), place]


@operator("topk")
def _topk(call: AtenCall) -> list[Value]:
    data = call["self"]
    if not data.rank:
        return [data, scalar_constant(0, "int64")]
    axis, count = call.axis("dim", data.rank, -1), call.integer("k")
    if count == 0 or 0 in data.shape:
        shape = [*data.shape[:axis], count, *data.shape[axis + 1 :]]
        return [call.full(shape, scalar_constant(0, dtype)) for dtype in (data.dtype, "int64")]
    keys = data.cast("int8") if data.dtype == "bool" else wide(data)
    _, place = ops(
        "topk",
        keys,
        k=count,
        axis=axis,
        ret_type="both",
        is_ascend=not call.flag("largest", default=True),
        dtype="int64",
    )
    return [op("gather", data, place, axis=axis), place]


@operator("kthvalue")
def _kthvalue(call: AtenCall) -> list[Value]:
    data = call["self"]
    if not data.rank:
        return [data, scalar_constant(0, "int64")]
    axis, k = call.axis("dim", data.rank, -1), call.integer("k")
    results = [
        shapes.slice_axis(item, axis, k - 1, k) for item in sorted_along(call, data, axis, descending=False)
    ]
    return results if _keep(call) else [shapes.squeeze(item, [axis]) for item in results]


@operator("median", "nanmedian")
def _median(call: AtenCall) -> Value | list[Value]:
    """Return the lower one of two elements in the middle: of all, or along an axis with where it stands."""
    data = call["self"]
    if call.overload == "default":
        if 0 in data.shape and not data.is_float:
            raise UnsupportedError("no integers have no median")
        if 0 in data.shape:
            return scalar_constant(np.nan, data.dtype)
        flat = call.reshape(data, [product(data.shape)])
        return shapes.squeeze(_middle(call, flat, 0)[0], [0])
    if not data.rank:
        return [data, scalar_constant(0, "int64")]
    axis = call.axis("dim", data.rank)
    results = _middle(call, data, axis)
    return results if _keep(call) else [shapes.squeeze(item, [axis]) for item in results]


def _middle(call: AtenCall, data: Value, axis: int) -> list[Value]:
    """Return the median along an axis, which is kept: NaN if there is one, or of the others."""
    ordered = sorted_along(call, data, axis, descending=False)
    nans = op("sum", op("not_equal", data, data).cast("int64"), axis=(axis,), keepdims=True)
    count = shapes.size_along(data, axis) - nans
    middle = op("floor_divide", count - 1, nans.like(2))
    place = middle.maximum(0) if call.name == "aten.nanmedian" else nans.equal(0).choose(middle, count)
    return [op("gather", item, place, axis=axis) for item in ordered]


@operator("mode")
def _mode(call: AtenCall) -> list[Value]:
    """Return the least one of the most frequent elements along an axis, and where the last such stands."""
    data = call["self"]
    if not data.rank:
        return [data, scalar_constant(0, "int64")]
    axis = call.axis("dim", data.rank, -1)
    ordered = sorted_along(call, data, axis, descending=False)
    values, size = ordered[0], call.static(data)[axis]
    begins = op(
        "not_equal", shapes.slice_axis(values, axis, 1, size), shapes.slice_axis(values, axis, 0, size - 1)
    )
    places = constant(np.arange(1, size).reshape(-1, *[1] * (data.rank - axis - 1)))
    first = shapes.slice_axis(ordered[1], axis, 0, 1) * 0
    start = op("concatenate", [first, begins.choose(places, 0)], axis=axis)
    start = op("numpy.maximum.accumulate", start, axis=axis)
    rank = constant(np.arange(size).reshape(-1, *[1] * (data.rank - axis - 1))) - start
    place = op("argmax", rank, axis=(axis,), keepdims=True).cast("int64")  # the first of the longest runs
    results = [op("gather", item, place, axis=axis) for item in ordered]
    return results if _keep(call) else [shapes.squeeze(item, [axis]) for item in results]


operators(
    {
        "std": lambda call: op("sqrt", variance(call, mean_too=False)[0]),
        "var": lambda call: variance(call, mean_too=False)[0],
        "var_mean": lambda call: variance(call, mean_too=True),
    }
)
