"""Differentiate the operators of neural networks: activations along axes, normalisations, losses, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from nnmagic.relay.expr import Expr, Tuple
from nnmagic.relay.gradients.registry import expansion, refuse, rule, rules
from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall, is_static
from nnmagic.relay.tensor_expr import TensorExpr

refuse("its buffer is a state, not a value", "nn.fifo_buffer")

_NARROW = ("float16", "bfloat16")


# -- softmax ------------------------------------------------------------------------------------------------


@rule("nn.softmax", "nn.fast_softmax")
def _softmax(p: VjpCall) -> Sequence[Contribution]:
    weighted = p.d * p.y
    return [weighted - p.y * weighted.sum([p.axis()], keepdims=True)]


# -- channels -----------------------------------------------------------------------------------------------


def _along(term: TensorExpr, axis: int, rank: int) -> TensorExpr:
    """Return a vector in a shape that broadcasts along an axis."""
    after = rank - 1 - axis
    return term.op("expand_dims", axis=1, num_newaxis=after) if after else term


def _over_others(term: TensorExpr, axis: int, rank: int) -> TensorExpr:
    """Sum over all axes but one."""
    return term.sum([index for index in range(rank) if index != axis])


@rule("nn.prelu")
def _prelu(p: VjpCall) -> Sequence[Contribution]:
    axis, rank = p.axis(), p.rank()
    positive = p.x(0) > 0
    data = positive.choose(p.d, p.d * _along(p.x(1), axis, rank))
    slope = _over_others(positive.choose(0, p.d * p.x(0)), axis, rank)
    return [data, slope]


@rule("nn.dropout")
def _dropout(p: VjpCall) -> Sequence[Contribution]:
    """Pass on what flows into the first result: the second is a mask of ones."""
    return [p.d_part(0)]


# -- normalisations -----------------------------------------------------------------------------------------


def _wide(term: TensorExpr) -> TensorExpr:
    return term.cast("float32") if term.dtype in _NARROW else term


def _standard(term: TensorExpr, axes: Sequence[int], epsilon: float) -> TensorExpr:
    """Scale to mean 0 and variance 1 along axes."""
    if not axes:
        return (term - term) * 1.0
    center = term - term.op("mean", axis=list(axes), keepdims=True)
    spread = (center * center).op("mean", axis=list(axes), keepdims=True)
    return center * (spread + epsilon).op("rsqrt")


def _scale_and_shift(p: VjpCall, term: TensorExpr, axis: int, rank: int) -> Expr:
    if p.attrs["scale"]:
        term = term * _along(p.x(1).cast(term.dtype), axis, rank)
    if p.attrs["center"]:
        term = term + _along(p.x(2).cast(term.dtype), axis, rank)
    return term.cast(p.tensor(0).dtype).expr


@expansion("nn.layer_norm")
def _layer_norm(p: VjpCall) -> Expr:
    axis = p.axis()
    standard = _standard(_wide(p.x()), [axis], cast("float", p.attrs["epsilon"]))
    return _scale_and_shift(p, standard, axis, p.rank())


@expansion("nn.instance_norm")
def _instance_norm(p: VjpCall) -> Expr:
    axis = p.axis()
    axes = [index for index in range(1, p.rank()) if index != axis]
    standard = _standard(_wide(p.x()), axes, cast("float", p.attrs["epsilon"]))
    return _scale_and_shift(p, standard, axis, p.rank())


@expansion("nn.group_norm")
def _group_norm(p: VjpCall) -> Expr:
    """Normalise views in which an axis of groups comes before the channels of a group."""
    axis, groups, rank = p.axis(), cast("int", p.attrs["num_groups"]), p.rank()
    channels = p.shape(0)[axis]
    if not isinstance(channels, int):
        raise p.unsupported("the number of channels must be known at compile time")
    codes = [*([0] * axis), -4, groups, channels // groups, *([-2] if axis < rank - 1 else [])]
    x = _wide(p.x()).reshape(codes)
    standard = _standard(x, list(range(axis + 1, rank + 1)), cast("float", p.attrs["epsilon"]))
    merged = standard.reshape([*([0] * axis), -3, *([-2] if axis < rank - 1 else [])])
    return _scale_and_shift(p, merged, axis, rank)


@expansion("nn.batch_norm")
def _batch_norm(p: VjpCall) -> Expr:
    axis, rank = p.axis(), p.rank()
    x = _wide(p.x())
    center, spread = (_along(p.x(index).cast(x.dtype), axis, rank) for index in (3, 4))
    normal = (x - center) / (spread + cast("float", p.attrs["epsilon"])).op("sqrt")
    result = _scale_and_shift(p, normal, axis, rank)
    return Tuple((result, p.args[3], p.args[4]), span=p.span)


@expansion("nn.l2_normalize")
def _l2_normalize(p: VjpCall) -> Expr:
    x, axes = p.x(), p.axes()
    wide = _wide(x)
    squares = (wide * wide).op("sum", axis=axes, keepdims=True)
    least = squares.op("clip", a_min=cast("float", p.attrs["eps"]), a_max=float("inf"))
    return (wide / least.op("sqrt")).cast(x.dtype).expr


@expansion("nn.lrn")
def _lrn(p: VjpCall) -> Expr:
    """Divide by a power of the mean square of neighbours along the axis."""
    if p.attrs["norm_region"] != "ACROSS_CHANNELS":
        raise p.unsupported("only the region ACROSS_CHANNELS has a rule")
    x, axis, rank, size = p.x(), p.axis(), p.rank(), cast("int", p.attrs["size"])
    widths = [[0, 0] for _ in range(rank)]
    widths[axis] = [size // 2, size // 2]
    squares = (x * x).op("nn.pad", x.like(0), pad_width=widths)
    channels = p.shape(0)[axis]
    if not isinstance(channels, int):
        raise p.unsupported("the size of its axis must be known at compile time")
    total: TensorExpr | None = None
    for offset in range(size // 2 * 2 + 1):
        ends = [offset + channels]
        shifted = squares.op("strided_slice", begin=[offset], end=ends, strides=[1], axes=[axis])
        total = shifted if total is None else total + shifted
    assert total is not None
    alpha, beta, bias = (cast("float", p.attrs[name]) for name in ("alpha", "beta", "bias"))
    return (x / (total * (alpha / size) + bias).op("power", beta)).expr


# -- losses -------------------------------------------------------------------------------------------------


@expansion("nn.cross_entropy", "nn.cross_entropy_with_logits")
def _cross_entropy(p: VjpCall) -> Expr:
    logs = p.x(0) if p.name.endswith("logits") else p.x(0).op("log")
    rows = p.count(0, [0])
    return (-(logs * p.x(1)).op("sum") / (p.array(rows, logs.dtype) if isinstance(rows, int) else rows)).expr


@expansion("nn.nll_loss")
def _nll_loss(p: VjpCall) -> Expr:
    """Average, sum or list the negated predictions of the targets, weighted by class."""
    targets = p.x(1)
    ignored = targets.equal(cast("int", p.attrs["ignore_index"]))
    last = p.size(0, 1).cast(targets.dtype) - 1
    valid = ignored.choose(0, targets.op("maximum", 0).op("minimum", last))
    dtype = p.tensor(0).dtype
    picked = p.x(0).op("gather", valid.op("expand_dims", axis=1), axis=1).op("squeeze", axis=[1])
    weights = p.x(2).op("take", valid, axis=0, mode="clip")
    weights = ignored.choose(TensorExpr(weights.op("zeros_like").expr, dtype, p.span), weights)
    losses = -(picked * weights)
    match p.attrs["reduction"]:
        case "none":
            return losses.expr
        case "sum":
            return losses.op("sum").expr
    return (losses.op("sum") / weights.op("sum")).expr


# -- padding ------------------------------------------------------------------------------------------------


def _widths(p: VjpCall) -> list[tuple[int, int]]:
    given = cast("Sequence[Sequence[int]]", p.attrs["pad_width"])
    pairs = [(int(pair[0]), int(pair[1])) for pair in given]
    return pairs * p.rank() if len(pairs) == 1 < p.rank() else pairs


@rule("nn.pad")
def _pad(p: VjpCall) -> Sequence[Contribution]:
    mode, widths = p.attrs["pad_mode"], _widths(p)
    if mode != "constant":
        rows = {"edge": "edge", "reflect": "reflect", "symmetric": "symmetric"}
        return [_fold(p, widths, rows[str(mode)]), None]
    if any(width < 0 for pair in widths for width in pair):
        raise p.unsupported("negative widths crop", "use a slice")
    moved = [axis for axis, pair in enumerate(widths) if any(pair)]
    inner = p.d
    if moved:
        begin = [widths[axis][0] for axis in moved]
        end = [-widths[axis][1] or 2**48 for axis in moved]
        inner = inner.op("strided_slice", begin=begin, end=end, strides=[1] * len(moved), axes=moved)
        inner = p.reshape_to(inner, 0) if not is_static(p.shape(0)) else inner
    return [inner, p.d.sum() - inner.sum() if p.wanted[1] else None]


def _fold(p: VjpCall, widths: Sequence[tuple[int, int]], mode: str) -> TensorExpr:
    """Add a border that repeats or reflects elements to these elements."""
    d = p.d
    for axis, pair in enumerate(widths):
        size = p.shape(0)[axis]
        if not any(pair):
            continue
        if not isinstance(size, int):
            raise p.unsupported("the sizes that it pads must be known at compile time")
        # Padding the indices in the same mode says which element each place of the border repeats.
        source = np.pad(np.arange(size), pair, mode=mode)  # type: ignore[call-overload] # a mode of NumPy's
        order = [axis, *(other for other in range(p.rank()) if other != axis)]
        rows = d.transpose(order)
        begin, end = pair[0], pair[0] + size
        base = rows.between(0, begin, end)
        border = [index for index in range(len(source)) if not begin <= index < end]
        outside = rows.op("take", p.array(border, "int64"), axis=0, mode="fast")
        where = p.array([source[border]], "int64")
        summed = base.op("scatter_nd", where, outside, mode="add")
        d = summed.transpose([order.index(other) for other in range(p.rank())])
    return d


@rule("dyn.nn.pad")
def _dyn_pad(p: VjpCall) -> Sequence[Contribution]:
    if p.attrs["pad_mode"] != "constant":
        raise p.unsupported("only the mode 'constant' has a rule")
    begin = p.x(1).cast("int64").row(1, 0)
    sizes = p.call("shape_of", p.x(), dtype="int64")
    inner = p.d.op("dyn.strided_slice", begin, begin + sizes, p.array([1] * p.rank(), "int64"))
    inner = p.like(inner, p.x(), p.tensor(0))
    return [inner, None, p.d.sum() - inner.sum() if p.wanted[2] else None]


@rule("nn.dilate")
def _dilate(p: VjpCall) -> Sequence[Contribution]:
    steps = [int(step) for step in cast("Sequence[int]", p.attrs["strides"])]
    moved = [axis for axis, step in enumerate(steps) if step > 1]
    if not moved:
        return [p.d]
    zeros, ends = [0] * len(moved), [2**48] * len(moved)
    taken = p.d.op(
        "strided_slice", begin=zeros, end=ends, strides=[steps[axis] for axis in moved], axes=moved
    )
    return [p.reshape_to(taken, 0)]


# -- blocks -------------------------------------------------------------------------------------------------


@rule("nn.depth_to_space")
def _depth_to_space(p: VjpCall) -> Sequence[Contribution]:
    block, layout = cast("int", p.attrs["block_size"]), str(p.attrs["layout"])
    if p.attrs["mode"] == "DCR":
        return [p.d.op("nn.space_to_depth", block_size=block, layout=layout)]
    n, c, h, w = p.static() if layout == "NCHW" else _permute(p.static(), layout)
    d = p.d if layout == "NCHW" else p.d.transpose([layout.index(letter) for letter in "NCHW"])
    inner = c // (block * block)
    d = d.reshape([n, inner, h, block, w, block]).transpose([0, 1, 3, 5, 2, 4]).reshape([n, c, h, w])
    return [d if layout == "NCHW" else d.transpose(["NCHW".index(letter) for letter in layout])]


def _permute(shape: Sequence[int], layout: str) -> list[int]:
    return [shape[layout.index(letter)] for letter in "NCHW"]


@rule("nn.space_to_depth")
def _space_to_depth(p: VjpCall) -> Sequence[Contribution]:
    block, layout = p.attrs["block_size"], p.attrs["layout"]
    return [p.d.op("nn.depth_to_space", block_size=block, layout=layout, mode="DCR")]


@rule("nn.space_to_batch_nd")
def _space_to_batch(p: VjpCall) -> Sequence[Contribution]:
    return [p.d.op("nn.batch_to_space_nd", block_shape=p.attrs["block_shape"], crops=p.attrs["paddings"])]


@rule("nn.batch_to_space_nd")
def _batch_to_space(p: VjpCall) -> Sequence[Contribution]:
    return [p.d.op("nn.space_to_batch_nd", block_shape=p.attrs["block_shape"], paddings=p.attrs["crops"])]


rules(
    {
        "nn.bias_add": lambda p: [p.d, _over_others(p.d, p.axis(), p.rank()) if p.wanted[1] else None],
        # exp(y) is the softmax, which needs no second normalisation.
        "nn.log_softmax": lambda p: [p.d - p.y.op("exp") * p.d.sum([p.axis()], keepdims=True)],
        "nn.mirror_pad": lambda p: [_fold(p, _widths(p), str(p.attrs["mode"]).lower())],
    }
)
