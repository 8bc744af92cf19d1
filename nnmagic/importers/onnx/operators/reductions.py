"""Import reductions: sums, means, norms, extremes, running sums.

The standard: https://onnx.ai/onnx/operators/onnx__ReduceSum.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.nodes import OnnxNode, normalize_axis
from nnmagic.importers.onnx.operators.shaping import choose_axes
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.limits import MAX_ITEMS
from nnmagic.relay.functions.special import logsumexp
from nnmagic.relay.types import Dim, neutral

Reduction = Callable[[Value, Sequence[int], bool], Value]


def _reduce(name: str) -> Reduction:
    def reduce(data: Value, axes: Sequence[int], keep: bool) -> Value:
        return op(name, data, axis=tuple(axes), keepdims=keep)

    return reduce


_sum, _prod = _reduce("sum"), _reduce("prod")


def _square_sum(data: Value, axes: Sequence[int], keep: bool) -> Value:
    return _sum(data * data, axes, keep)


def _l1(data: Value, axes: Sequence[int], keep: bool) -> Value:
    return _sum(op("abs", data), axes, keep)


def _root(value: Value) -> Value:
    return op("sqrt", value) if value.is_float else op("sqrt", value.cast("float64")).cast(value.dtype)


def _l2(data: Value, axes: Sequence[int], keep: bool) -> Value:
    return _root(_square_sum(data, axes, keep))


def _log(value: Value) -> Value:
    return op("log", value) if value.is_float else op("log", value.cast("float64")).cast(value.dtype)


def _log_sum_exp(data: Value, axes: Sequence[int], keep: bool) -> Value:
    wide = data if data.is_float else data.cast("float64")
    if 0 in [data.shape[axis] for axis in axes]:
        return op("log", _sum(op("exp", wide), axes, keep)).cast(data.dtype)
    return logsumexp(wide, axes, keepdims=keep).cast(data.dtype)


def _mean(data: Value, axes: Sequence[int], keep: bool) -> Value:
    if data.is_float:
        return op("mean", data, axis=tuple(axes), keepdims=keep)
    count: Value = constant(1, "int64")
    for axis in axes:
        count = count * shapes.size_along(data, axis)
    total = _sum(data.cast("int64"), axes, keep)
    return op("divide", total, count).cast(data.dtype)


def _extreme(name: str) -> Reduction:
    """Return the largest or smallest element: over none the neutral value, NaN where there is one."""

    def reduce(data: Value, axes: Sequence[int], keep: bool) -> Value:
        if data.dtype == "bool":
            return op("any" if name == "max" else "all", data, axis=tuple(axes), keepdims=keep)
        if any(data.shape[axis] == 0 for axis in axes):
            shape = _reduced(data.shape, axes, keep)
            return shapes.full(shape, constant(neutral(name, data.dtype), data.dtype), data)
        return op(name, data, axis=tuple(axes), keepdims=keep)

    return reduce


def _reduced(shape: Sequence[Dim], axes: Sequence[int], keep: bool) -> tuple[Dim, ...]:
    if keep:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


#: The reductions that change elements even where no axis is reduced.
_REDUCTIONS: dict[str, Reduction] = {
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceLogSum": lambda data, axes, keep: _log(_sum(data, axes, keep)),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _extreme("max"),
    "ReduceMean": _mean,
    "ReduceMin": _extreme("min"),
    "ReduceProd": _prod,
    "ReduceSum": _sum,
    "ReduceSumSquare": _square_sum,
}
#: What they do to each element where ``noop_with_empty_axes`` says that no axis is reduced.
_ELEMENTWISE: dict[str, Callable[[Value], Value]] = {
    "ReduceL1": lambda x: op("abs", x),
    "ReduceL2": lambda x: op("abs", x),
    "ReduceLogSum": _log,
    "ReduceLogSumExp": lambda x: x,
    "ReduceMax": lambda x: x,
    "ReduceMean": lambda x: x,
    "ReduceMin": lambda x: x,
    "ReduceProd": lambda x: x,
    "ReduceSum": lambda x: x,
    "ReduceSumSquare": lambda x: x * x,
}


@operator(*_REDUCTIONS)
def _reduction(node: OnnxNode) -> Value:
    data, keep, name = node[0], bool(node.integer("keepdims", 1)), node.op_type
    by_input = node.since >= (13 if name == "ReduceSum" else 18)
    if by_input and node.get(1) is not None and node[1].known is None and node[1].shape != (0,):
        return _with_dynamic_axes(node, _REDUCTIONS[name], keep)
    axes = node.ints("axes")
    if by_input:
        value = node.get(1)
        axes = None if value is None or value.shape == (0,) else node.static(1)
    if not data.rank or (not axes and by_input and node.integer("noop_with_empty_axes")):
        return _ELEMENTWISE[name](data)
    return _REDUCTIONS[name](
        data, sorted({normalize_axis(axis, data.rank) for axis in axes or range(data.rank)}), keep
    )


def _with_dynamic_axes(node: OnnxNode, reduction: Reduction, keep: bool) -> Value:
    """Reduce along axes that are given at the call, of those that the declared shape allows."""
    data, declared = node[0], node.output_shape()
    count = node[1].shape[0]
    if declared is None or not isinstance(count, int) or not 0 < comb(data.rank, count) <= MAX_ITEMS:
        raise node.unknown(1)
    sets = [
        axes
        for axes in combinations(range(data.rank), int(count))
        if _reduced(data.shape, axes, keep) == declared
    ]
    return choose_axes(node, sets, data.rank, lambda axes: reduction(data, axes, keep))


@operator("ArgMax", "ArgMin")
def _arg_extreme(node: OnnxNode) -> Value:
    return op(
        node.op_type.lower(),
        node[0],
        axis=(node.axis(node[0].rank),),
        keepdims=bool(node.integer("keepdims", 1)),
        select_last_index=bool(node.integer("select_last_index")),
    ).cast("int64")


# -- running sums --------------------------------------------------------------------------------------


@operator("CumSum", "CumProd")
def _cumulative(node: OnnxNode) -> Value:
    data = node[0]

    def along(axis: object) -> Value:
        at = normalize_axis(int(np.asarray(axis).item()), data.rank)
        source = op("reverse", data, axis=at) if node.integer("reverse") else data
        exclusive = bool(node.integer("exclusive"))
        result = op(node.op_type.lower(), source, axis=at, dtype=data.dtype, exclusive=exclusive)
        return op("reverse", result, axis=at) if node.integer("reverse") else result

    known = node[1].known
    if known is not None:
        return along(known.reshape(-1)[0])
    axis = (node[1] < 0).choose(node[1] + data.rank, node[1])
    return replace(node, inputs=[data, axis]).choose(1, list(range(data.rank)), along)


@operator("LpNormalization")
def _lp_normalization(node: OnnxNode) -> Value:
    data, axis = node[0], node.axis(node[0].rank, -1)
    norm = (_l1 if node.integer("p", 2) == 1 else _l2)(data, [axis], bool(data.rank))
    return norm.equal(0).choose(data.like(0), data / norm)
