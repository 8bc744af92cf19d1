"""Say what reductions, sorts, scans and linear algebra compute, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nnmagic.relay.reference.eval_call import Array, EvalCall, Rule, plain


def axes_of(call: EvalCall, rank: int) -> tuple[int, ...]:
    """Return the axes to reduce; no axis, or an empty list, means all of them, excluded or not."""
    axis = call["axis"]
    listed = {number % rank for number in ((axis,) if isinstance(axis, int) else axis or ())}
    return tuple(
        number for number in range(rank) if not listed or (number in listed) != (call["exclude"] is True)
    )


def _reduce(function: Callable[..., Any]) -> Rule:
    def rule(call: EvalCall, data: Array) -> Any:
        settings = {"dtype": data.dtype} if function in (np.sum, np.prod) else {}
        return function(data, axis=axes_of(call, data.ndim), keepdims=call["keepdims"], **settings)

    return rule


def _extreme(function: Callable[..., Any], first: Callable[[Any], Any]) -> Rule:
    """Return the rule of a maximum or minimum, which of no elements is ``first`` of the dtype."""

    def rule(call: EvalCall, data: Array) -> Any:
        axes = axes_of(call, data.ndim)
        more = {"initial": first(data.dtype)} if not data.size else {}
        return function(data, axis=axes, keepdims=call["keepdims"], **more)

    return rule


def _lowest(dtype: Any) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(dtype.kind != "b" and -np.inf)


def _highest(dtype: Any) -> Any:
    return np.iinfo(dtype).max if dtype.kind in "iu" else dtype.type(dtype.kind == "b" or np.inf)


def _wide(data: Array) -> Any:
    """Return the dtype in which NumPy adds up a mean: float32 for halves."""
    return np.dtype(np.float32) if data.dtype.name in ("float16", "bfloat16") else data.dtype


def _mean(call: EvalCall, data: Array) -> Any:
    axes = axes_of(call, data.ndim)
    total = np.sum(data, axis=axes, dtype=_wide(data), keepdims=call["keepdims"])
    count = int(np.prod([data.shape[axis] for axis in axes]))
    return total / count if data.dtype.kind != "i" else np.trunc(total / count)


def _variance(call: EvalCall, data: Array, mean: Array) -> Any:
    axes = axes_of(call, data.ndim)
    count = int(np.prod([data.shape[axis] for axis in axes])) - bool(call["unbiased"])
    squares = (data - mean).astype(_wide(data)) ** 2
    return np.sum(squares, axis=axes, keepdims=call["keepdims"]) / count


def _arg(function: Callable[..., Any]) -> Rule:
    def rule(call: EvalCall, data: Array) -> Any:
        axes = axes_of(call, data.ndim)
        outer_axes = [axis for axis in range(data.ndim) if axis not in axes]
        count = math.prod(data.shape[axis] for axis in axes)
        if count == 0:
            return np.full(call.shape, -1)
        flat = data.transpose([*outer_axes, *axes]).reshape(*[data.shape[axis] for axis in outer_axes], count)
        if call["select_last_index"]:
            return (flat.shape[-1] - 1 - function(flat[..., ::-1], axis=-1)).reshape(call.shape)
        return function(flat, axis=-1).reshape(call.shape)

    return rule


def _order(data: Array, axis: int, *, ascending: bool) -> Any:
    """Return the stable order; NaN comes last, or first if the order descends."""
    if ascending:
        return np.argsort(data, axis=axis, kind="stable")
    last = data.shape[axis] - 1
    return np.flip(last - np.argsort(np.flip(data, axis), axis=axis, kind="stable"), axis)


def _sort(call: EvalCall, data: Array) -> Any:
    axis = call["axis"]
    return np.take_along_axis(data, _order(data, axis, ascending=bool(call["is_ascend"])), axis)


def _topk(call: EvalCall, data: Array, *k: Array) -> Any:
    axis, count = call["axis"], int(k[0].item()) if k else call["k"]
    count = data.shape[axis] if count < 1 else count
    order = np.take(_order(data, axis, ascending=bool(call["is_ascend"])), np.arange(count), axis)
    values = np.take_along_axis(data, order, axis)
    return {"both": (values, order), "values": values, "indices": order}[call["ret_type"]]


def _partition(call: EvalCall, data: Array, kth: Array) -> Any:
    places = kth[(kth >= 0) & (kth < data.shape[call["axis"]])]
    return np.partition(data, places, axis=call["axis"]) if places.size else data


def _argpartition(call: EvalCall, data: Array, _kth: Array) -> Any:
    """Sort, which puts the elements of all places where they belong."""
    return _order(data, call["axis"], ascending=True)


def _scan(function: Callable[..., Array], first: int) -> Rule:
    def rule(call: EvalCall, data: Array) -> Any:
        axis = call["axis"]
        data = data.astype(call.dtype)
        if axis is None:
            data, axis = data.reshape(-1), 0
        if call["exclusive"]:
            start = np.full_like(np.take(data, [0], axis), first)
            data = np.concatenate([start, np.take(data, np.arange(data.shape[axis] - 1), axis)], axis)
        return function(data, axis=axis, dtype=call.dtype)

    return rule


def _searchsorted(call: EvalCall, sequence: Array, values: Array) -> Any:
    side: Any = "right" if call["right"] else "left"
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, side=side)
    rows = [np.searchsorted(sequence[at], values[at], side=side) for at in np.ndindex(sequence.shape[:-1])]
    return np.asarray(rows).reshape(values.shape)


def _histogram(call: EvalCall, data: Array, edges: Array) -> Any:
    inside = data[(data >= edges[0]) & (data <= edges[-1])]
    index = np.minimum(np.searchsorted(edges, inside, side="right") - 1, len(edges) - 2)
    return np.bincount(index, minlength=len(edges) - 1).astype(call.dtype)


def _matmul(call: EvalCall, lhs: Array, rhs: Array) -> Any:
    lhs = np.swapaxes(lhs, -1, -2) if call["transpose_a"] else lhs
    rhs = np.swapaxes(rhs, -1, -2) if call["transpose_b"] else rhs
    return np.matmul(lhs.astype(call.dtype), rhs.astype(call.dtype))


def _einsum(call: EvalCall, parts: tuple[Array, ...]) -> Any:
    """Compute bfloat16, which NumPy's function does not know, in float32."""
    known = [operand if operand.dtype.kind in "biufc" else operand.astype(np.float32) for operand in parts]
    return np.einsum(call["equation"], *known).astype(call.dtype)


def _running(function: np.ufunc) -> Rule:
    return lambda call, data: function.accumulate(data, call["axis"])


_BITWISE: tuple[np.ufunc, ...] = (np.bitwise_and, np.bitwise_or, np.bitwise_xor)

RULES: dict[str, Rule] = {
    "all": _reduce(np.all),
    "any": _reduce(np.any),
    "max": _extreme(np.max, _lowest),
    "min": _extreme(np.min, _highest),
    "sum": _reduce(np.sum),
    "prod": _reduce(np.prod),
    "mean": _mean,
    "variance": _variance,
    "argmax": _arg(np.argmax),
    "argmin": _arg(np.argmin),
    "cumsum": _scan(np.cumsum, 0),
    "cumprod": _scan(np.cumprod, 1),
    "numpy.maximum.accumulate": _running(np.maximum),
    "numpy.minimum.accumulate": _running(np.minimum),
    **{f"numpy.{each.__name__}.accumulate": _running(each) for each in _BITWISE},
    **{f"numpy.{each.__name__}.reduce": _reduce(each.reduce) for each in _BITWISE},
    "sort": _sort,
    "argsort": lambda call, x: _order(x, call["axis"], ascending=bool(call["is_ascend"])),
    "topk": _topk,
    "dyn.topk": _topk,
    "searchsorted": _searchsorted,
    "numpy.histogram": _histogram,
    "numpy.isin": lambda _given, data, others: np.isin(data, others),
    "numpy.partition": _partition,
    "numpy.argpartition": _argpartition,
    "invert_permutation": plain(np.argsort),
    "nn.dense": lambda call, x, weight: np.matmul(x.astype(call.dtype), weight.T.astype(call.dtype)),
    "nn.matmul": _matmul,
    "nn.batch_matmul": _matmul,
    "einsum": _einsum,
}
