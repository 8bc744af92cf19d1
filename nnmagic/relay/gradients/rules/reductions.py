"""Differentiate reductions and scans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Expr
from nnmagic.relay.gradients.registry import expansion, rule, zero
from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import TensorType

zero("all", "any", "argmax", "argmin")


@rule("sum")
def _sum(p: VjpCall) -> Sequence[Contribution]:
    return [p.broadcast_to(p.restore_axes(p.d, p.axes()), 0)]


@rule("mean")
def _mean(p: VjpCall) -> Sequence[Contribution]:
    """Divide by the number of elements before the cotangent is broadcast."""
    axes = p.axes()
    return [p.broadcast_to(p.restore_axes(p.d / p.count(0, axes), axes), 0)]


@rule("max", "min")
def _extremum(p: VjpCall) -> Sequence[Contribution]:
    """Share the cotangent evenly among the elements that are the extremum."""
    axes = p.axes()
    chosen = p.x().equal(p.restore_axes(p.y, axes))
    ties = chosen.cast("float32").sum(axes, keepdims=True).cast(p.d.dtype)
    share = p.restore_axes(p.d, axes) / ties
    return [chosen.choose(share, 0)]


@rule("prod")
def _prod(p: VjpCall) -> Sequence[Contribution]:
    """Multiply by the products of the other elements, which are exact where elements are 0."""
    x, grown = p.x(), p.restore_axes(p.d, p.axes())
    factors: list[tuple[int, TensorExpr]] = []
    for axis in p.axes():
        factors.append((axis, x))
        x = x.op("prod", axis=[axis], keepdims=True)
    for axis, before in reversed(factors):
        lhs = before.op("cumprod", axis=axis, exclusive=True)
        rhs = before.op("reverse", axis=axis).op("cumprod", axis=axis, exclusive=True)
        grown = grown * (lhs * rhs.op("reverse", axis=axis))
    return [grown if factors else p.d]


@rule("cumsum")
def _cumsum(p: VjpCall) -> Sequence[Contribution]:
    axis, exclusive = p.attrs["axis"], bool(p.attrs["exclusive"])
    along = 0 if axis is None else p.axis()
    summed = p.d.op("reverse", axis=along).op("cumsum", axis=along, exclusive=exclusive)
    d = summed.op("reverse", axis=along).cast(p.tensor(0).dtype)
    return [p.reshape_to(d, 0) if axis is None else d]


@rule("cumprod")
def _cumprod(p: VjpCall) -> Sequence[Contribution]:
    """Sum d[i] * prod(x[k], k <= i, k != j) for each j; the products are exact where elements are 0."""
    flat, exclusive = p.attrs["axis"] is None, bool(p.attrs["exclusive"])
    x = (p.x().reshape([-1]) if flat else p.x()).cast(p.d.dtype)
    rank = 1 if flat else p.rank()
    axis = 0 if flat else p.axis()
    order = [*(index for index in range(rank) if index != axis), axis]
    x, d = x.transpose(order), p.d.transpose(order)
    positions = x.op("ones_like").cast("float32").op("cumsum", axis=rank - 1)
    rows, columns = positions.op("expand_dims", axis=rank), positions.op("expand_dims", axis=rank - 1)
    last = columns - 1 if exclusive else columns
    after = last > rows if not exclusive else (columns > rows)
    others = after.choose(x.op("expand_dims", axis=rank - 1), 1)
    products = others.op("cumprod", axis=rank, exclusive=exclusive)
    counted = (columns > rows) if exclusive else (columns >= rows)
    terms = counted.choose(d.op("expand_dims", axis=rank - 1) * products, 0)
    left = x.op("cumprod", axis=rank - 1, exclusive=True)
    result = left * terms.sum([rank])
    inverse = [order.index(index) for index in range(rank)]
    result = result.transpose(inverse).cast(p.tensor(0).dtype)
    return [p.reshape_to(result, 0) if flat else result]


@rule("numpy.maximum.accumulate", "numpy.minimum.accumulate")
def _running_extreme(p: VjpCall) -> Sequence[Contribution]:
    """Give each part of the gradient to the first element that is the extreme there."""
    x, axis = p.x(), p.axis()
    positions = x.op("ones_like").cast("int32").op("cumsum", axis=axis) - 1
    before = p.y.op("gather", (positions - 1).maximum(0), axis=axis)
    is_new = positions.equal(0) | before.differs(p.y)
    origin = is_new.choose(positions, 0).op("numpy.maximum.accumulate", axis=axis)
    zeros = x.op("zeros_like").cast(p.d.dtype)
    return [zeros.op("scatter_elements", origin, p.d, axis=axis, reduction="add")]


@expansion("variance")
def _variance(p: VjpCall) -> Expr:
    """Average the squared distances from the mean that is given."""
    axes = p.axes()
    distance = p.x(0) - p.x(1)
    squares = distance * distance
    if not p.attrs["unbiased"]:
        return squares.op("mean", axis=axes, keepdims=p.attrs["keepdims"]).expr
    total = squares.op("sum", axis=axes, keepdims=p.attrs["keepdims"])
    return (total / _less_one(p, axes)).expr


def _less_one(p: VjpCall, axes: Sequence[int]) -> TensorExpr | float:
    count = p.count(0, axes)
    if isinstance(count, TensorExpr):
        return count - 1
    dtype = cast("TensorType", p.types[0]).dtype
    return p.array(count - 1, dtype)
