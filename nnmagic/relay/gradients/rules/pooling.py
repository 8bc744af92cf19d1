"""Differentiate pooling: each window's cotangent goes back to the elements that it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    """One spatial axis: where it is in the layout, and how the windows move along it."""

    axis: int
    size: int
    count: int
    window: int
    stride: int
    step: int
    before: int

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
    given = list(cast("Sequence[int]", p.attrs["padding"]))
    pads = given * (2 * rank // len(given))
    spatial = []
    for place, letter in enumerate(letters):
        axis = layout.index(letter)
        size, count = p.shape(0)[axis], p.out_shape[axis]
        if not isinstance(size, int) or not isinstance(count, int):
            message = "its spatial sizes must be known at compile time"
            raise p.unsupported(message, "write numbers for them; the batch may be named")
        spatial.append(
            _SpatialAxis(axis, size, count, sizes[place], strides[place], steps[place], pads[place])
        )
    return spatial


@rule("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
def _max_pool(p: VjpCall) -> Sequence[Contribution]:
    """Give a window's cotangent to the first of its largest elements."""
    axes = _axes(p)
    padded = _pad(p.x(), axes, float("-inf"), p.rank())
    if all(axis.stride == axis.window and axis.step == 1 for axis in axes):
        return [_unpad(_spread_to_first(p, padded, axes), axes)]
    free: TensorExpr | None = None
    total: TensorExpr | None = None
    for offsets in product(*(range(axis.window) for axis in axes)):
        hit = _read(padded, axes, offsets).equal(p.y)
        if free is not None:
            hit = hit.op("logical_and", free)
        rest = hit.op("logical_not")
        free = rest if free is None else free.op("logical_and", rest)
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
    d = p.d / p.array(_counts(p, axes), p.d.dtype)
    for axis in axes:
        parts = [_write(d, axis, offset, p.rank()) for offset in range(axis.window)]
        d = parts[0]
        for part in parts[1:]:
            d = d + part
    return [_unpad(d, axes)]


def _counts(p: VjpCall, axes: Sequence[_SpatialAxis]) -> np.ndarray:
    """Return how many elements each window averages, in a shape that broadcasts."""
    rank = len(axes)
    given = list(cast("Sequence[int]", p.attrs["padding"]))
    after = (given * (2 * rank // len(given)))[rank:]
    total = np.ones((1,) * p.rank())
    for axis, behind in zip(axes, after, strict=True):
        starts = np.arange(axis.count)[:, None] * axis.stride
        places = starts + np.arange(axis.window) * axis.step
        if p.attrs["count_include_pad"]:
            inside = places < axis.before + axis.size + behind
            if not p.attrs["ceil_mode"]:
                inside = np.ones_like(places, bool)
        else:
            inside = (places >= axis.before) & (places < axis.before + axis.size)
        shape = [1] * p.rank()
        shape[axis.axis] = axis.count
        total = total * np.maximum(inside.sum(1), 1 if p.attrs["count_include_pad"] else 0).reshape(shape)
    return np.maximum(total, 1)


def _pad(term: TensorExpr, axes: Sequence[_SpatialAxis], value: float, rank: int) -> TensorExpr:
    widths = [[0, 0] for _ in range(rank)]
    for axis in axes:
        widths[axis.axis] = [axis.before, axis.reach - axis.before - axis.size]
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


def _read(term: TensorExpr, axes: Sequence[_SpatialAxis], offsets: Sequence[int]) -> TensorExpr:
    """Return the element at an offset of each window."""
    begin = [axis.begin(offset) for axis, offset in zip(axes, offsets, strict=True)]
    end = [start + (axis.count - 1) * axis.stride + 1 for axis, start in zip(axes, begin, strict=True)]
    strides = [axis.stride for axis in axes]
    return term.op("strided_slice", begin=begin, end=end, strides=strides, axes=[axis.axis for axis in axes])


def _write(term: TensorExpr, axis: _SpatialAxis, offset: int, rank: int) -> TensorExpr:
    """Put the elements of each window's offset at their places of the padded axis."""
    if axis.stride > 1:
        steps = [1] * rank
        steps[axis.axis] = axis.stride
        term = term.op("nn.dilate", strides=steps, dilation_value=0.0)
    length = (axis.count - 1) * axis.stride + 1
    widths = [[0, 0] for _ in range(rank)]
    widths[axis.axis] = [axis.begin(offset), axis.reach - axis.begin(offset) - length]
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
    axes, given = _spatial(p), p.attrs["output_size"]
    if given is None or given == ():
        return p.x().op("copy").expr
    sizes = list(cast("Sequence[int]", given if isinstance(given, tuple | list) else (given,)))
    sizes = sizes * (len(axes) if len(sizes) == 1 else 1)
    term = p.x()
    name = "max" if "max" in p.name else "mean"
    for axis, count in zip(axes, sizes, strict=True):
        size = p.shape(0)[axis]
        if count == 1:
            term = term.op(name, axis=[axis], keepdims=True)
            continue
        if not isinstance(size, int):
            raise p.unsupported("its spatial sizes must be known at compile time")
        if size == count:
            continue
        windows = []
        for index in range(count):
            begin, end = index * size // count, -(-(index + 1) * size // count)
            part = term.op("strided_slice", begin=[begin], end=[end], strides=[1], axes=[axis])
            windows.append(part.op(name, axis=[axis], keepdims=True))
        term = p.tuple_of(*windows).op("concatenate", axis=axis)
    return term.expr
