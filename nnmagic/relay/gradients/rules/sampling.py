"""Differentiate images that are sampled at positions: sums of weighted pixels, by images and positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import cast

import numpy as np

from nnmagic.relay.expr import Expr, Tuple
from nnmagic.relay.gradients.registry import expansion
from nnmagic.relay.gradients.vjp_call import VjpCall
from nnmagic.relay.tensor_expr import TensorExpr


@dataclass(frozen=True, slots=True)
class _Tap:
    """A pixel for each position along an axis: its number, its weight, and whether it is inside."""

    pixel: TensorExpr
    weight: TensorExpr
    inside: TensorExpr | None = None


def _to_plain(p: VjpCall, x: TensorExpr, letters: str) -> TensorExpr:
    """Return images with the channels last. Raises NoGradientError for a layout that divides an axis."""
    layout = str(p.attrs["layout"])
    if sorted(layout) != sorted(f"NC{letters}"):
        raise p.unsupported("its layout divides an axis", f"use the layout NC{letters}")
    return x.transpose([layout.index(letter) for letter in f"N{letters}C"])


def _from_plain(p: VjpCall, x: TensorExpr, letters: str) -> TensorExpr:
    plain = f"N{letters}C"
    return x.transpose([plain.index(letter) for letter in str(p.attrs["layout"])])


def _weigh(p: VjpCall, x: TensorExpr, batch: TensorExpr, taps: Sequence[Sequence[_Tap]]) -> TensorExpr:
    """Return the sums of weighted pixels of images with the channels last, for each position."""
    total: TensorExpr | None = None
    for corner in product(*taps):
        weight, inside = corner[0].weight, corner[0].inside
        for tap in corner[1:]:
            weight = weight * tap.weight
            if tap.inside is not None:
                inside = tap.inside if inside is None else inside & tap.inside
        if inside is not None:
            weight = inside.choose(weight, 0)
        shape = weight.op("zeros_like").cast("int64")
        rows = [(index.cast("int64") + shape).expr for index in (batch, *(tap.pixel for tap in corner))]
        places = p.call("stack", Tuple(tuple(rows), span=p.span), dtype="int64", axis=0)
        pixels = x.op("gather_nd", places) * weight.op("expand_dims", axis=-1)
        total = pixels if total is None else total + pixels
    assert total is not None
    return total


def _tap(pixel: TensorExpr, weight: TensorExpr, size: TensorExpr, *, checked: bool) -> _Tap:
    """Return a pixel at a position that may be outside, where the outermost one stands for it."""
    inside = (pixel >= 0) & (pixel < size) if checked else None
    return _Tap(pixel.maximum(0).minimum(size - 1), weight, inside)


def _around(at: TensorExpr, size: TensorExpr, method: str, *, checked: bool) -> list[_Tap]:
    """Return the pixels that positions are interpolated from: the nearest, or those on both sides."""
    if method.startswith("nearest"):
        return [_tap(at.op("numpy.rint"), at.op("ones_like"), size, checked=checked)]
    first = at.op("floor")
    fraction = at - first
    return [
        _tap(first, 1 - fraction, size, checked=checked),
        _tap(first + 1, fraction, size, checked=checked),
    ]


def _keys(offset: TensorExpr, alpha: float) -> list[TensorExpr]:
    """Return the weights of four pixels around positions (Keys 1981)."""
    one, two, three = offset, offset * offset, offset * offset * offset
    return [
        (three - two * 2 + one) * alpha,
        three * (alpha + 2) - two * (3 + alpha) + 1,
        three * -(alpha + 2) + two * (3 + 2 * alpha) - one * alpha,
        (two - three) * alpha,
    ]


def _reflected(at: TensorExpr, size: TensorExpr, *, corners: bool) -> TensorExpr:
    """Reflect positions at the borders of an image."""
    start, length = (0.0, size - 1) if corners else (-0.5, size)
    distance = (at - start).op("abs")
    times = (distance / length.maximum(1)).op("trunc")
    remainder = distance - times * length
    is_even = times.op("floor_mod", times.like(2)).equal(0)
    turned = is_even.choose(remainder + start, length - remainder + start)
    return ((at >= start) & (at <= length + start)).choose(at, turned)


def _size(p: VjpCall, letter: str, dtype: str) -> TensorExpr:
    return p.size(0, str(p.attrs["layout"]).index(letter)).cast(dtype)


@expansion("image.grid_sample")
def _grid_sample(p: VjpCall) -> Expr:
    letters, grid = "DHW"[3 - (p.rank() - 2) :], p.x(1)
    corners, padding, method = (p.attrs[name] for name in ("align_corners", "padding_mode", "method"))
    x = _to_plain(p, p.x(0), letters)
    taps = []
    for axis, letter in enumerate(letters):
        at = grid.op("take", p.array(len(letters) - 1 - axis, "int64"), axis=1, mode="fast")
        size = _size(p, letter, at.dtype)
        at = (at + 1) * (size - 1) * 0.5 if corners else (at + 1) * size * 0.5 - 0.5

        def brought_in(place: TensorExpr, size: TensorExpr = size) -> TensorExpr:
            if padding == "reflection":
                place = _reflected(place, size, corners=bool(corners))
            return place if padding == "zeros" else place.maximum(0).minimum(size - 1)

        if method == "bicubic":
            first = at.op("floor")
            places = [brought_in(first + (number - 1)) for number in range(4)]
            rows = zip(places, _keys(at - first, -0.75), strict=True)
            taps.append([_tap(place.op("trunc"), weight, size, checked=True) for place, weight in rows])
        else:
            taps.append(_around(brought_in(at), size, str(method), checked=True))
    ones = taps[0][0].weight.op("ones_like").cast("int64")
    return _from_plain(p, _weigh(p, x, ones.op("cumsum", axis=0) - 1, taps), letters).expr


@expansion("image.affine_grid")
def _affine_grid(p: VjpCall) -> Expr:
    """Multiply the matrices by the regular grid."""
    sizes = [int(cast("int", size)) for size in cast("Sequence[object]", p.attrs["target_shape"])]
    axes = [-1 + np.arange(size) * ((2.0 - 1e-7) / max(size - 1, 1)) for size in sizes]
    grids = np.meshgrid(*axes, indexing="ij")
    rows = np.stack([*(grid.ravel() for grid in reversed(grids)), np.ones(grids[0].size)])
    return p.x().op("nn.matmul", p.array(rows, p.tensor(0).dtype)).shaped([-1, len(sizes), *sizes]).expr


@expansion("image.crop_and_resize")
def _crop_and_resize(p: VjpCall) -> Expr:
    wanted = [int(cast("int", size)) for size in cast("Sequence[object]", p.attrs["crop_size"])]
    x, boxes = _to_plain(p, p.x(0), "HW"), p.x(1)
    taps, beyond = [], None
    for axis, (letter, count) in enumerate(zip("HW", wanted, strict=True)):
        size = _size(p, letter, boxes.dtype)
        corner = [boxes.op("take", p.array([axis + number], "int64"), axis=1) for number in (0, 2)]
        steps = p.array(np.arange(count) / (count - 1) if count > 1 else [0.5], boxes.dtype)
        at = (corner[0] * (1 - steps) + corner[1] * steps) * (size - 1)
        at = at.op("expand_dims", axis=2 if axis == 0 else 1)
        outside = ~((at >= 0) & (at <= size - 1))
        beyond = outside if beyond is None else beyond.op("logical_or", outside)
        taps.append(_around(at, size, str(p.attrs["method"]), checked=False))
    images = (
        p.x(2).maximum(0).minimum(p.size(0, str(p.attrs["layout"]).index("N")).cast(p.tensor(2).dtype) - 1)
    )
    whole = _weigh(p, x, images.op("expand_dims", axis=1, num_newaxis=2), taps)
    assert beyond is not None
    filled = beyond.op("expand_dims", axis=-1).choose(
        float(cast("float", p.attrs["extrapolation_value"])), whole
    )
    return _from_plain(p, filled, "HW").cast(cast("str", p.out_type.dtype)).expr  # type: ignore[union-attr]


@expansion("vision.roi_align")
def _roi_align(p: VjpCall) -> Expr:
    """Average, or take the largest of, samples in each bin of a region."""
    ratio, scale = int(cast("int", p.attrs["sample_ratio"])), cast("float", p.attrs["spatial_scale"])
    if ratio <= 0:
        raise p.unsupported("how many samples a bin has depends on its region", "give a sample_ratio above 0")
    pooled = [int(cast("int", size)) for size in cast("Sequence[object]", p.attrs["pooled_size"])]
    x, regions = _to_plain(p, p.x(0), "HW"), p.x(1)
    taps, beyond = [], None
    for axis, (letter, count) in enumerate(zip("HW", (pooled[0], pooled[-1]), strict=True)):
        size = _size(p, letter, regions.dtype)
        start, end = (
            regions.op("take", p.array([column], "int64"), axis=1) * scale for column in (2 - axis, 4 - axis)
        )
        bins = (end - start).maximum(1) / count
        at = start + bins * p.array((np.arange(count * ratio) + 0.5) / ratio, regions.dtype)
        at = at.op("expand_dims", axis=2 if axis == 0 else 1)
        outside = (at < -1) | (at > size)
        beyond = outside if beyond is None else beyond | outside
        taps.append(_around(at.maximum(0).minimum(size - 1), size, "bilinear", checked=False))
    last = p.size(0, str(p.attrs["layout"]).index("N")).cast(regions.dtype) - 1
    image = regions.op("take", p.array([0], "int64"), axis=1).maximum(0).minimum(last).op("trunc")
    assert beyond is not None
    samples = _weigh(p, x, image.op("expand_dims", axis=2), taps)
    kept = beyond.op("expand_dims", axis=-1).choose(0, samples)
    divided = kept.reshape([0, pooled[0], ratio, pooled[-1], ratio, -1])
    best = divided.op("mean" if p.attrs["mode"] == "avg" else "max", axis=[2, 4])
    return _from_plain(p, best, "HW").expr
