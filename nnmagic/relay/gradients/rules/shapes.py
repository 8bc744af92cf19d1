"""Differentiate operators that move elements: the cotangent takes the way back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Expr
from nnmagic.relay.gradients.registry import expansion, rule, rules, zero
from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall, is_static
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import TensorType, TupleType

zero("shape_of", "ndarray_size", "zeros", "ones", "zeros_like", "ones_like", "dyn.zeros")


@rule("transpose")
def _transpose(p: VjpCall) -> Sequence[Contribution]:
    rank = p.rank()
    permutation = cast("Sequence[int] | None", p.attrs["axes"])
    axes = [axis % rank for axis in permutation] if permutation else list(range(rank))[::-1]
    return [p.d.transpose([axes.index(axis) for axis in range(rank)])]


@rule("layout_transform")
def _layout_transform(p: VjpCall) -> Sequence[Contribution]:
    d = p.d.op("layout_transform", src_layout=p.attrs["dst_layout"], dst_layout=p.attrs["src_layout"])
    shape, back = p.shape(0), len(p.out_shape)
    if is_static(shape) and back != len(shape):  # blocks may have padded the axis
        d = d.op("strided_slice", begin=[0] * len(shape), end=list(cast("tuple[int, ...]", shape)))
    return [d]


@rule("arange")
def _arange(p: VjpCall) -> Sequence[Contribution]:
    """Element i is start + i * step; the end counts the elements, and no more."""
    places = p.d.op("ones_like").op("cumsum", axis=0, exclusive=True)
    return [p.d.sum(), None, (p.d * places).sum()]


@rule("concatenate")
def _concatenate(p: VjpCall) -> Sequence[Contribution]:
    fields = _parts(p)
    axis = int(cast("int", p.attrs["axis"])) % len(p.out_shape)
    if all(isinstance(field.shape[axis], int) for field in fields):
        return [_static_parts(p, fields, axis)]
    return [_dynamic_parts(p, fields, axis)]


def _parts(p: VjpCall) -> list[TensorType]:
    (type_,) = p.types
    assert isinstance(type_, TupleType)
    return [cast("TensorType", field) for field in type_.fields]


def _static_parts(p: VjpCall, parts: Sequence[TensorType], axis: int) -> list[Contribution]:
    contributions: list[Contribution] = []
    begin = 0
    for part in parts:
        end = begin + cast("int", part.shape[axis])
        contributions.append(p.d.between(axis, begin, end))
        begin = end
    return contributions


def _dynamic_parts(p: VjpCall, parts: Sequence[TensorType], axis: int) -> list[Contribution]:
    """Slice at offsets that are known at run time; each part has the shape of its operand."""
    contributions: list[Contribution] = []
    rank = len(p.out_shape)
    offset = p.array([0] * rank, "int64")
    strides = p.array([1] * rank, "int64")
    along = p.array([int(each == axis) for each in range(rank)], "int64")
    for index, part in enumerate(parts):
        field = p.field(0, index)
        sizes = p.call("shape_of", field, dtype="int64")
        sliced = p.d.op("dyn.strided_slice", offset, offset + sizes, strides)
        contributions.append(p.like(sliced, field, part))
        offset = offset + sizes * along
    return contributions


@rule("stack")
def _stack(p: VjpCall) -> Sequence[Contribution]:
    (type_,) = p.types
    assert isinstance(type_, TupleType)
    axis = int(cast("int", p.attrs["axis"])) % len(p.out_shape)
    return [[p.d.row(axis, index) for index in range(len(type_.fields))]]


@rule("split")
def _split(p: VjpCall) -> Sequence[Contribution]:
    assert isinstance(p.out_type, TupleType)
    cotangents = []
    for index in range(len(p.out_type.fields)):
        d = p.d_part(index)
        cotangents.append(p.part(index).zeros() if d is None else d)
    return [p.tuple_of(*cotangents).op("concatenate", axis=p.axis())]


@rule("tile")
def _tile(p: VjpCall) -> Sequence[Contribution]:
    """Give each repetition an axis of its own, and sum over these."""
    attr_reps = p.attrs["reps"]
    reps = [int(rep) for rep in (attr_reps if isinstance(attr_reps, tuple | list) else (attr_reps,))]
    shape = [1] * (len(reps) - p.rank()) + list(p.shape(0))
    reps = [1] * (len(shape) - len(reps)) + reps
    if 0 in reps or is_static(shape):
        pairs = [size for rep, dim in zip(reps, shape, strict=True) for size in (rep, cast("int", dim))]
        grown = p.d.shaped(pairs)
    else:
        codes = [code for rep in reps for code in ((-4, rep, -1) if rep > 1 else (-4, 1, -1))]
        grown = p.d.reshape(codes)
    return [p.reshape_to(grown.sum(range(0, 2 * len(reps), 2)), 0)]


@expansion("dyn.tile")
def _dyn_tile(p: VjpCall) -> Expr:
    raise p.unsupported("how often it repeats must be known at compile time")


@rule("repeat")
def _repeat(p: VjpCall) -> Sequence[Contribution]:
    repeats = cast("int", p.attrs["repeats"])
    if p.attrs["axis"] is None:
        return [p.reshape_to(p.d.reshape([-1, repeats]).sum([1]), 0)]
    axis, shape = p.axis(), p.shape(0)
    if is_static(shape):
        sizes = list(cast("tuple[int, ...]", shape))
        grown = p.d.shaped([*sizes[: axis + 1], repeats, *sizes[axis + 1 :]])
    else:
        grown = p.d.reshape([*([0] * axis), -4, -1, repeats, -2])
    return [p.reshape_to(grown.sum([axis + 1]), 0)]


@rule("meshgrid")
def _meshgrid(p: VjpCall) -> Sequence[Contribution]:
    """Sum each grid over the axes along which it repeats its vector."""
    count = len(_parts(p))
    order = list(range(count))
    if p.attrs["indexing"] == "xy" and count > 1:
        order[:2] = [1, 0]
    contributions: list[Contribution] = []
    for index, part in enumerate(_parts(p)):
        d = p.d_part(index)
        if d is not None:
            d = d.sum([axis for axis in range(count) if axis != order[index]])
            d = d if part.shape else d.reshape([])
        contributions.append(d)
    return [contributions]


@rule("sliding_window")
def _sliding_window(p: VjpCall) -> Sequence[Contribution]:
    """Add each offset of the window to the places that it was read from."""
    axis = p.axis()
    window = cast("Sequence[int]", p.attrs["window_shape"])
    strides = cast("Sequence[int]", p.attrs["strides"])
    sizes = p.static()
    outer = p.rank()
    total: TensorExpr | None = None
    for flat in range(math.prod(window)):
        offsets, remainder = [0] * len(window), flat
        for place in reversed(range(len(window))):
            remainder, offsets[place] = divmod(remainder, window[place])
        spread = p.d
        axes = [outer + place for place in range(len(window))]
        ends = [offset + 1 for offset in offsets]
        spread = spread.op("strided_slice", begin=offsets, end=ends, strides=[1] * len(axes), axes=axes)
        spread = spread.op("squeeze", axis=axes)
        spread = _spread(p, spread, axis, offsets, strides, sizes)
        total = spread if total is None else total + spread
    return [p.x().zeros() if total is None else total]


def _spread(
    p: VjpCall,
    grad: TensorExpr,
    axis: int,
    offsets: Sequence[int],
    strides: Sequence[int],
    sizes: Sequence[int],
) -> TensorExpr:
    """Put the elements of each window's offset at their places, with zeros between them."""
    steps = [1] * len(sizes)
    widths = [[0, 0] for _ in sizes]
    for place, (offset, step) in enumerate(zip(offsets, strides, strict=True)):
        along = axis + place
        steps[along] = step
        count = cast("int", p.out_shape[along])
        reach = (count - 1) * step + 1 if count else 0
        widths[along] = [offset, sizes[along] - offset - reach]
    if any(step > 1 for step in steps):
        grad = grad.op("nn.dilate", strides=steps, dilation_value=0.0)
    return grad.op("nn.pad", grad.like(0), pad_width=widths)


rules(
    {
        "broadcast_to": lambda p: [p.sum_to(p.d, p.out_shape, 0)],
        "broadcast_to_like dyn.broadcast_to": lambda p: [p.sum_to(p.d, p.out_shape, 0), None],
        "collapse_sum_like collapse_sum_to": lambda p: [p.broadcast_to(p.d, 0), None],
        "dyn.full": lambda p: [p.d.sum(), None],
        "full": lambda p: [p.d.sum()],
        "full_like": lambda p: [None, p.d.sum()],
        "reshape contrib_reverse_reshape squeeze expand_dims nn.batch_flatten": lambda p: [
            p.reshape_to(p.d, 0)
        ],
        "reshape_like dyn.reshape dyn.squeeze": lambda p: [p.reshape_to(p.d, 0), None],
        "reverse": lambda p: [p.d.op("reverse", axis=p.attrs["axis"])],
        "reverse_sequence": lambda p: [p.d.op("reverse_sequence", p.args[1], **p.given), None],
    }
)
