"""Differentiate pooling: each window's cotangent goes back to the elements that it was made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import cast

import numpy as np

from nnmagic.relay.expr import Expr
from nnmagic.relay.gradients.registry import expansion, refuse, rule
from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall
from nnmagic.relay.tensor_expr import TensorExpr

refuse("it is a gradient itself: differentiate nn.max_pool2d or nn.avg_pool2d", "nn.max_pool2d_grad")
refuse("it is a gradient itself: differentiate nn.max_pool2d or nn.avg_pool2d", "nn.avg_pool2d_grad")


@dataclass(frozen=True, slots=True)
class _SpatialAxis:
    """One spatial axis: where it is in the layout, and how the windows move along it.

    ``size`` of the operand and ``count`` of windows are 0 where they are named.
    """

    axis: int
    size: int
    count: int
    window: int
    stride: int
    step: int
    before: int
    behind: int

    @property
    def reach(self) -> int:
        """The size of the padded axis that the windows read."""
        return max(
            (self.count - 1) * self.stride + (self.window - 1) * self.step + 1, self.before + self.size
        )

    def begin(self, offset: int) -> int:
        return offset * self.step


def _axes(p: VjpCall) -> list[_SpatialAxis]:
    layout = str(p.attrs["layout"])
    if any(letter.isdigit() for letter in layout) or p.attrs["out_layout"] not in ("", layout):
        raise p.unsupported("its layouts differ or divide an axis", "use a layout such as NCHW")
    letters = [letter for letter in "DHW" if letter in layout]
    rank = len(letters)
    sizes, strides, steps = (
        list(cast("Sequence[int]", p.attrs[name])) for name in ("pool_size", "strides", "dilation")
    )
    padding = list(cast("Sequence[int]", p.attrs["padding"]))
    pads = padding * (2 * rank // len(padding))
    spatial = []
    for place, letter in enumerate(letters):
        axis = layout.index(letter)
        size, count = p.shape(0)[axis], p.out_shape[axis]
        known = (size, count) if isinstance(size, int) and isinstance(count, int) else (0, 0)
        moves = (sizes[place], strides[place], steps[place], pads[place], pads[rank + place])
        spatial.append(_SpatialAxis(axis, *known, *moves))
    if all(axis.count for axis in spatial):
        return spatial
    return [replace(axis, size=0, count=0) for axis in spatial]


@rule("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
def _max_pool(p: VjpCall) -> Sequence[Contribution]:
    """Give a window's cotangent to the first of its largest elements."""
    axes = _axes(p)
    # Padding is never above an element, so no cotangent is lost in it.
    padded = _pad(p.x(), axes, float("-inf"), p.rank())
    if not axes[0].count:
        return [_to_largest(p, padded, axes)]
    if all(axis.stride == axis.window and axis.step == 1 for axis in axes):
        return [_unpad(_spread_to_first(p, padded, axes), axes)]
    free: TensorExpr | None = None
    total: TensorExpr | None = None
    for offsets in product(*(range(axis.window) for axis in axes)):
        hit = _read(padded, axes, offsets).equal(p.y)
        if free is not None:
            hit = hit.op("logical_and", free)
        missed = hit.op("logical_not")
        free = missed if free is None else free.op("logical_and", missed)
        share = hit.choose(p.d, 0)
        for axis, offset in zip(axes, offsets, strict=True):
            share = _write(share, axis, offset, p.rank())
        total = share if total is None else total + share
    assert total is not None
    return [_unpad(total, axes)]


def _spread_to_first(p: VjpCall, padded: TensorExpr, axes: Sequence[_SpatialAxis]) -> TensorExpr:
    """Give each window's cotangent to the first of its largest elements, where windows do not overlap.

    The offset of that element is found for each window; windows and their cotangents are then repeated.
    """
    offsets = list(product(*(range(axis.window) for axis in axes)))
    first = p.y.like(len(offsets))
    for number, offset in reversed(list(enumerate(offsets))):
        first = _read(padded, axes, offset).equal(p.y).choose(p.y.like(number), first)
    numbers, d = np.arange(len(offsets)).reshape([axis.window for axis in axes]), p.d
    shape = [1] * p.rank()
    for axis in axes:
        first = first.op("repeat", repeats=axis.window, axis=axis.axis)
        d = d.op("repeat", repeats=axis.window, axis=axis.axis)
        shape[axis.axis] = axis.count * axis.window
    pattern = p.array(np.tile(numbers, [axis.count for axis in axes]).reshape(shape), p.d.dtype)
    spread = first.equal(pattern).choose(d, 0)
    widths = [[0, 0] for _ in range(p.rank())]
    for axis in axes:
        widths[axis.axis][1] = axis.reach - axis.count * axis.window
    return spread.op("nn.pad", spread.like(0), pad_width=widths) if any(map(any, widths)) else spread


@rule("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d")
def _avg_pool(p: VjpCall) -> Sequence[Contribution]:
    """Divide by the number of elements, and spread along one axis after the other."""
    axes = _axes(p)
    if not axes[0].count:
        return [_spread(p, p.d / _named_counts(p, axes), axes)]
    d = p.d / p.array(_counts(p, axes), p.d.dtype)
    for axis in axes:
        written = [_write(d, axis, offset, p.rank()) for offset in range(axis.window)]
        d = written[0]
        for addend in written[1:]:
            d = d + addend
    return [_unpad(d, axes)]


def _counts(p: VjpCall, axes: Sequence[_SpatialAxis]) -> np.ndarray:
    """Return how many elements each window averages, in a shape that broadcasts."""
    rank = len(axes)
    padding = list(cast("Sequence[int]", p.attrs["padding"]))
    after = (padding * (2 * rank // len(padding)))[rank:]
    total = np.ones((1,) * p.rank())
    for axis, behind in zip(axes, after, strict=True):
        starts = np.arange(axis.count)[:, None] * axis.stride
        places = starts + np.arange(axis.window) * axis.step
        if p.attrs["count_include_pad"]:
            # With ``ceil_mode`` the last windows may reach beyond the padding; what is there is not
            # counted.
            inside = places < axis.before + axis.size + behind
            if not p.attrs["ceil_mode"]:
                inside = np.ones_like(places, bool)
        else:
            inside = (places >= axis.before) & (places < axis.before + axis.size)
        shape = [1] * p.rank()
        shape[axis.axis] = axis.count
        total = total * np.maximum(inside.sum(1), 1 if p.attrs["count_include_pad"] else 0).reshape(shape)
    return np.maximum(total, 1)


def _to_largest(p: VjpCall, padded: TensorExpr, axes: Sequence[_SpatialAxis]) -> TensorExpr:
    """Add each window's cotangent to the first of its largest elements, where the sizes are named."""
    rank, layout = len(axes), str(p.attrs["layout"])
    order = [layout.index(letter) for letter in ("N", "C", *(letter for letter in "DHW" if letter in layout))]
    back, places = [order.index(axis) for axis in range(p.rank())], list(range(2, 2 + rank))
    x, y, d = (term.transpose(order) for term in (padded, p.y, p.d))
    spans = [axis.begin(axis.window - 1) + 1 for axis in axes]
    windows = x.op("sliding_window", axis=2, window_shape=spans, strides=[axis.stride for axis in axes])
    windows = windows.op("slice_like", y, axes=places)
    steps = [axis.step for axis in axes]
    inner = [2 + rank + at for at in range(rank)]
    windows = windows.op("strided_slice", begin=[0] * rank, end=spans, strides=steps, axes=inner)
    first = windows.op("reshape", newshape=[*[0] * (2 + rank), -1]).op("argmax", axis=[-1]).cast("int64")
    flat, over = first.op("zeros_like"), math.prod(axis.window for axis in axes)
    for at, axis in enumerate(axes):
        over //= axis.window
        # The number of an element in its window has a digit for each axis.
        offset = (first // over).op("floor_mod", first.like(axis.window))
        start = (y.op("ones_like").op("cumsum", axis=2 + at) - 1).cast("int64") * axis.stride
        size = p.size(0, axis.axis) + (axis.before + axis.behind + axis.stride - 1)
        flat = flat * size + start + offset * axis.step
    zeros = x.zeros().op("reshape", newshape=[0, 0, -1])
    rows = [term.op("reshape", newshape=[0, 0, -1]) for term in (flat, d)]
    spread = zeros.op("scatter_elements", *rows, axis=2, reduction="add").op("reshape_like", x)
    cut = [axis.before for axis in axes]
    return _cut(spread.transpose(back), axes, cut, [1] * rank, p.x())


def _spread(p: VjpCall, d: TensorExpr, axes: Sequence[_SpatialAxis]) -> TensorExpr:
    """Add each window's cotangent to all its elements, where the sizes are named: by a convolution."""
    rank, layout = len(axes), str(p.attrs["layout"])
    order = [layout.index(letter) for letter in ("N", "C", *(letter for letter in "DHW" if letter in layout))]
    back, x = [order.index(axis) for axis in range(p.rank())], p.x().transpose(order)
    # Relay's codes: -3 joins two axes, here images and channels, each of which is convolved alone;
    # -2 keeps the others.
    d = d.transpose(order).op("reshape", newshape=[-3, -2]).op("expand_dims", axis=1)
    if any(axis.stride > 1 for axis in axes):
        d = d.op("nn.dilate", strides=[1, 1, *(axis.stride for axis in axes)], dilation_value=0.0)
    reach = [axis.begin(axis.window - 1) for axis in axes]
    widths = [
        [0, 0],
        [0, 0],
        *([count, count + axis.stride - 1] for count, axis in zip(reach, axes, strict=True)),
    ]
    kernel = p.array(np.ones((1, 1, *(axis.window for axis in axes))), d.dtype)
    steps = [axis.step for axis in axes]
    spread = d.op("nn.pad", d.like(0), pad_width=widths).op(f"nn.conv{rank}d", kernel, dilation=steps)
    begin, places = [axis.before for axis in axes], list(range(2, 2 + rank))
    spread = spread.op("strided_slice", begin=begin, end=[_FAR] * rank, strides=[1] * rank, axes=places)
    return spread.op("slice_like", x, axes=places).op("reshape_like", x).transpose(back)


def _named_counts(p: VjpCall, axes: Sequence[_SpatialAxis]) -> TensorExpr:
    """Return how many elements each window averages, where the sizes are named."""
    others = range(p.rank())
    total: TensorExpr | None = None
    for axis in axes:
        other_axes = [other for other in others if other != axis.axis]
        ones, zeros = [1] * len(other_axes), [0] * len(other_axes)
        line = p.y.op("ones_like").op("strided_slice", begin=zeros, end=ones, strides=ones, axes=other_axes)
        starts = (line.op("cumsum", axis=axis.axis) - 1) * axis.stride - axis.before
        places = starts.op("expand_dims", axis=-1)
        places = places + p.array(np.arange(axis.window) * axis.step, places.dtype)
        size, low = p.size(0, axis.axis).cast(places.dtype), 0
        if p.attrs["count_include_pad"]:
            size, low = size + axis.behind, -axis.before
        count = ((places >= low) & (places < size)).cast(places.dtype).op("sum", axis=[-1])
        total = count if total is None else total * count
    assert total is not None
    return total.maximum(1)


def _pad(term: TensorExpr, axes: Sequence[_SpatialAxis], value: float, rank: int) -> TensorExpr:
    widths = [[0, 0] for _ in range(rank)]
    for axis in axes:
        after = axis.reach - axis.before - axis.size if axis.count else axis.behind + axis.stride - 1
        widths[axis.axis] = [axis.before, after]
    if not any(any(width) for width in widths):
        return term
    return term.op("nn.pad", term.like(value), pad_width=widths)


def _unpad(term: TensorExpr, axes: Sequence[_SpatialAxis]) -> TensorExpr:
    cut = [axis for axis in axes if axis.before or axis.reach != axis.size]
    if not cut:
        return term
    begin, end = [axis.before for axis in cut], [axis.before + axis.size for axis in cut]
    ones = [1] * len(cut)
    return term.op("strided_slice", begin=begin, end=end, strides=ones, axes=[axis.axis for axis in cut])


def _cut(
    term: TensorExpr,
    axes: Sequence[_SpatialAxis],
    begin: Sequence[int],
    strides: Sequence[int],
    like: TensorExpr,
) -> TensorExpr:
    """Return every so many elements, as many as another term has."""
    places, end = [axis.axis for axis in axes], [_FAR] * len(axes)
    term = term.op("strided_slice", begin=list(begin), end=end, strides=list(strides), axes=places)
    return term.op("slice_like", like, axes=places)


#: Beyond the end of any axis.
_FAR = 2**48


def _read(term: TensorExpr, axes: Sequence[_SpatialAxis], offsets: Sequence[int]) -> TensorExpr:
    """Return the element at an offset of each window."""
    begin = [axis.begin(offset) for axis, offset in zip(axes, offsets, strict=True)]
    end = [start + (axis.count - 1) * axis.stride + 1 for axis, start in zip(axes, begin, strict=True)]
    strides = [axis.stride for axis in axes]
    return term.op("strided_slice", begin=begin, end=end, strides=strides, axes=[axis.axis for axis in axes])


def _write(term: TensorExpr, axis: _SpatialAxis, offset: int, rank: int) -> TensorExpr:
    """Put the elements of each window's offset at their places of the padded axis."""
    # The adjoint of ``_read``: zeros where it leaves elements out.
    if axis.stride > 1:
        steps = [1] * rank
        steps[axis.axis] = axis.stride
        term = term.op("nn.dilate", strides=steps, dilation_value=0.0)
    after = axis.reach - axis.begin(offset) - ((axis.count - 1) * axis.stride + 1)
    widths = [[0, 0] for _ in range(rank)]
    widths[axis.axis] = [axis.begin(offset), after]
    return term.op("nn.pad", term.like(0), pad_width=widths) if any(widths[axis.axis]) else term


@expansion("nn.global_max_pool2d", "nn.global_avg_pool2d")
def _global(p: VjpCall) -> Expr:
    name = "max" if "max" in p.name else "mean"
    return p.x().op(name, axis=_spatial(p), keepdims=True).expr


def _spatial(p: VjpCall) -> list[int]:
    layout = str(p.attrs["layout"])
    if any(letter.isdigit() for letter in layout):
        raise p.unsupported("its layout divides an axis", "use a layout such as NCHW")
    return [axis for axis, letter in enumerate(layout) if letter in "DHW"]


@expansion(*(f"nn.adaptive_{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)))
def _adaptive(p: VjpCall) -> Expr:
    """Reduce the windows of one axis after the other, and join them."""
    axes, output_size = _spatial(p), p.attrs["output_size"]
    if output_size is None or output_size == ():
        return p.x().op("copy").expr
    sizes = list(
        cast("Sequence[int]", output_size if isinstance(output_size, tuple | list) else (output_size,))
    )
    sizes = sizes * (len(axes) if len(sizes) == 1 else 1)
    term = p.x()
    name = "max" if "max" in p.name else "mean"
    for axis, count in zip(axes, sizes, strict=True):
        size = p.shape(0)[axis]
        if count == 1:
            term = term.op(name, axis=[axis], keepdims=True)
            continue
        if not isinstance(size, int):
            term = _over_named_windows(p, term, axis, count, name)
            continue
        if size == count:
            continue
        windows = []
        for index in range(count):
            begin, end = index * size // count, -(-(index + 1) * size // count)
            part = term.between(axis, begin, end)
            windows.append(part.op(name, axis=[axis], keepdims=True))
        term = p.tuple_of(*windows).op("concatenate", axis=axis)
    return term.expr


def _over_named_windows(p: VjpCall, term: TensorExpr, axis: int, count: int, name: str) -> TensorExpr:
    """Reduce each window of an axis of a named size: all its elements, but for those of other windows."""
    shape = [count if at == axis else 1 for at in range(p.rank() + 1)]
    numbers, size = p.array(np.arange(count).reshape(shape), "int64"), p.size(0, axis)
    places = (term.op("ones_like").op("cumsum", axis=axis) - 1).cast("int64").op("expand_dims", axis=axis)
    begin, end = numbers * size // count, -(-((numbers + 1) * size) // count)
    inside, wide = (places >= begin) & (places < end), term.op("expand_dims", axis=axis)
    if name == "max":
        return inside.choose(wide, float("-inf")).op("max", axis=[axis + 1])
    return inside.choose(wide, 0).sum([axis + 1]) / (end - begin).op("squeeze", axis=[axis + 1]).cast(
        term.dtype
    )
