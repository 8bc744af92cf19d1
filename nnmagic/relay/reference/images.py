"""Say what operators compute that resize and sample images, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from nnmagic.relay.reference.eval_call import Array, EvalCall, Rule
from nnmagic.relay.reference.shapes import to_layout

_PLAIN = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _positions(mode: str, size: int, wanted: int, start: float, end: float, kind: Any = np.float32) -> Any:
    """Return where the pixels of a result lie along an axis of the image, in float32 or float64."""
    at = np.arange(wanted, dtype=kind)
    scale = kind(size) / kind(wanted)
    half = kind(0.5)
    match mode:
        case "half_pixel":
            return (at + half) * scale - half
        case "align_corners":
            return kind(size - 1) / kind(wanted - 1) * at if wanted > 1 else at
        case "asymmetric":
            return at / kind(wanted // size) if wanted % size == 0 else scale * at
        case "pytorch_half_pixel":
            return (at + half) * scale - half if wanted > 1 else at
        case "tf_half_pixel_for_nn":
            return (at + half) * scale
    if wanted > 1:
        first, span = kind(start) * (size - 1), kind(end) - kind(start)
        return first + at * span * kind(size - 1) / kind(wanted - 1)
    return at + half * (kind(start) + kind(end)) * (size - 1)


def _nearest(at: Array, rounding: str) -> Any:
    """Return the number of the pixel next to each position."""
    match rounding:
        case "round":
            return np.rint(at)
        case "round_prefer_floor":
            return np.ceil(at - at.dtype.type(0.5))
        case "round_prefer_ceil":
            return np.floor(at + at.dtype.type(0.5))
        case "ceil":
            return np.ceil(at - at.dtype.type(1e-5))
    return np.floor(at + at.dtype.type(1e-5))


def _cubic(offset: Array, alpha: float) -> list[Any]:
    """Return the weights of four pixels around positions (Keys 1981)."""
    t, t2, t3 = offset, offset * offset, offset * offset * offset
    return [
        alpha * (t3 - 2 * t2 + t),
        (alpha + 2) * t3 - (3 + alpha) * t2 + 1,
        -(alpha + 2) * t3 + (3 + 2 * alpha) * t2 - alpha * t,
        -alpha * t3 + alpha * t2,
    ]


def _taps(
    at: Array, size: int, method: str, rounding: str, alpha: float, exclude: bool
) -> list[tuple[Array, Any]]:
    """Return the pixels that each position is computed from, with their weights; None for one alone."""
    if method == "nearest_neighbor":
        return [(_nearest(at, rounding).astype(np.int64), None)]
    first = np.floor(at)
    fraction, first = at - first, first.astype(np.int64)
    if method == "linear":
        return [(first, 1 - fraction), (first + 1, fraction)]
    weights = [weight.astype(at.dtype) for weight in _cubic(fraction, at.dtype.type(alpha))]
    if exclude:
        weights = [
            np.where((first - 1 + k < 0) | (first + k > size), at.dtype.type(0), weight)
            for k, weight in enumerate(weights)
        ]
        total = sum(weights)
        weights = [weight / total for weight in weights]
    return [(first + k - 1, weight) for k, weight in enumerate(weights)]


def _along(data: Array, axis: int, taps: Sequence[tuple[Array, Any]]) -> Any:
    """Compute the positions along one axis of weighted pixels; those outside are the outermost ones."""
    total: Any = None
    for pixels, weight in taps:
        sample = np.take(data, np.clip(pixels, 0, data.shape[axis] - 1), axis=axis)
        if weight is not None:
            sample = sample * weight.reshape([-1 if index == axis else 1 for index in range(data.ndim)])
        total = sample if total is None else total + sample
    return total


def _outside(data: Array, places: Sequence[tuple[int, Array]], value: float) -> Any:
    """Replace what is computed of positions outside of the image."""
    outside: Any = np.zeros((1,) * len(places), bool)
    for number, (size, at) in enumerate(places):
        beyond = (at < 0) | (at > size - 1)
        outside = outside | beyond.reshape([-1 if index == number else 1 for index in range(len(places))])
    return np.where(outside, np.float32(value), data)


def _resize_images(
    x: Array,
    size: Sequence[int],
    roi: Sequence[float],
    method: str,
    mode: str,
    *,
    rounding: str = "",
    alpha: float = -0.5,
    exclude: bool = False,
    beyond: float = 0.0,
) -> Any:
    """Resize images of the layout NC..., in floats unless the nearest pixel is taken."""
    if rounding == "round" or (not rounding and mode == "align_corners"):
        rounding = "round_prefer_ceil"
    rank, places = len(size), list[tuple[int, Array]]()
    kind = np.float64 if x.dtype == np.float64 else np.float32
    result = x if method == "nearest_neighbor" else x.astype(kind)
    for number in reversed(range(rank)):
        at = _positions(mode, x.shape[2 + number], size[number], roi[number], roi[rank + number], kind)
        places.insert(0, (x.shape[2 + number], at))
        taps = _taps(at, x.shape[2 + number], method, rounding, alpha, exclude)
        result = _along(result, 2 + number, taps)
    return _outside(result, places, beyond) if mode == "tf_crop_and_resize" else result


def _resize(call: EvalCall, data: Array) -> Any:
    size = [int(dim) for dim in call["size"]]
    if min(size) <= 0:
        raise ValueError(f"image.resize: the size must be positive, not {min(size)}")
    x = to_layout(data, call["layout"], _PLAIN[len(size)])
    roi = [float(value) for value in call["roi"] or ()] or [0.0] * (2 * len(size))
    result = _resize_images(
        x,
        size,
        roi,
        call["method"],
        call["coordinate_transformation_mode"],
        rounding=call["rounding_method"],
        alpha=call["cubic_alpha"],
        exclude=bool(call["cubic_exclude"]),
        beyond=call["extrapolation_value"],
    )
    return to_layout(result.astype(call.dtype), _PLAIN[len(size)], call["layout"])


def _upsampling(call: EvalCall, data: Array) -> Any:
    rank = 2 if "scale_d" not in call.attrs else 3
    layout = call["layout"]
    x = to_layout(data, layout, _PLAIN[rank])
    wanted = to_layout(np.empty(call.shape, bool), layout, _PLAIN[rank]).shape[2:]
    method, cubic = call["method"], call["method"] in ("bicubic", "tricubic")
    if rank == 2:
        mode = "align_corners" if call["align_corners"] else "asymmetric"
    else:
        mode = call["coordinate_transformation_mode"]
    name = "cubic" if cubic else "nearest_neighbor" if method.startswith("nearest") else "linear"
    result = _resize_images(x, wanted, [0.0] * (2 * rank), name, mode)
    return to_layout(result.astype(call.dtype), _PLAIN[rank], layout)


def _crop_and_resize(call: EvalCall, data: Array, boxes: Array, box_indices: Array) -> Any:
    x = to_layout(data, call["layout"], "NCHW")
    size = [int(dim) for dim in call["crop_size"]]
    method = {"bilinear": "linear"}.get(call["method"], call["method"])
    result = np.empty((len(boxes), x.shape[1], *size), call.dtype)
    for number, (box, index) in enumerate(zip(boxes, box_indices, strict=True)):
        image = x[[np.clip(int(index), 0, len(x) - 1)]]
        result[[number]] = _resize_images(
            image,
            size,
            [float(corner) for corner in box],
            method,
            "tf_crop_and_resize",
            rounding="round_half_even" if method == "nearest_neighbor" else "",
            beyond=call["extrapolation_value"],
        ).astype(call.dtype)
    return to_layout(result, "NCHW", call["layout"])


def _affine_grid(call: EvalCall, data: Array) -> Any:
    """Return the positions that an affine map gives to a regular grid between -1 and 1."""
    sizes, kind = [int(dim) for dim in call["target_shape"]], data.dtype.type
    axes = [kind(-1) + np.arange(size).astype(data.dtype) * kind((2.0 - 1e-7) / (size - 1)) for size in sizes]
    grids = np.meshgrid(*axes, indexing="ij")
    rank = len(sizes)
    result = data[:, :, rank].reshape(*data.shape[:2], *[1] * rank)
    for axis, grid in enumerate(grids):
        result = result + data[:, :, rank - 1 - axis].reshape(*data.shape[:2], *[1] * rank) * grid
    return result


def _reflect(at: Array, size: int, *, corners: bool) -> Any:
    """Reflect positions at the borders of an image."""
    start, length = (0.0, size - 1) if corners else (-0.5, size)
    distance = np.abs(start - at)
    times = np.trunc(distance.astype(np.int32) / length) if length else np.zeros_like(distance)
    remainder = distance - times * length
    turned = np.where(times % 2 == 0, remainder + start, length - remainder + start)
    return np.where((at >= start) & (at <= length + start), at, turned)


def _grid_sample(call: EvalCall, data: Array, grid: Array) -> Any:
    """Sample images at positions between -1 and 1."""
    corners, padding, method = call["align_corners"], call["padding_mode"], call["method"]
    sizes = data.shape[2:]
    rank = len(sizes)

    def brought_in(at: Any, size: int) -> Any:
        if padding == "reflection":
            at = _reflect(at, size, corners=corners)
        return at if padding == "zeros" else np.clip(at, 0, size - 1)

    places = []
    for axis, size in enumerate(sizes):
        at = grid[:, rank - 1 - axis]
        places.append((at + 1) * (size - 1) / 2 if corners else -0.5 + (at + 1) * size / 2)
    taps: list[list[tuple[Array, Any]]] = []
    for at, size in zip(places, sizes, strict=True):
        if method == "bicubic":
            first = np.floor(at)
            weights = _cubic(at - first, -0.75)
            whole = [brought_in(first - 1 + k, size).astype(np.int64) for k in range(4)]
            taps.append(list(zip(whole, weights, strict=True)))
            continue
        place = brought_in(at, size)
        if method == "nearest":
            taps.append([(np.rint(place).astype(np.int64), np.ones_like(place))])
        else:
            first, fraction = np.floor(place).astype(np.int64), place - np.floor(place)
            taps.append([(first, 1 - fraction), (first + 1, fraction)])
    batch = np.arange(len(data)).reshape(-1, *[1] * rank)
    total: Any = 0
    for each in product(*taps):
        inside = np.ones(grid[:, 0].shape, bool)
        index = []
        weight: Any = 1
        for (pixels, fraction), size in zip(each, sizes, strict=True):
            inside &= (pixels >= 0) & (pixels < size)
            index.append(np.clip(pixels, 0, size - 1))
            weight = weight * fraction
        where: tuple[Any, ...] = (batch, slice(None), *index)
        values = np.moveaxis(data[where], -1, 1)
        total = total + np.where(inside[:, np.newaxis], values, 0) * weight[:, np.newaxis]
    return total


RULES: dict[str, Rule] = {
    **{f"image.resize{rank}d": _resize for rank in (1, 2, 3)},
    "image.crop_and_resize": _crop_and_resize,
    "image.affine_grid": _affine_grid,
    "image.grid_sample": _grid_sample,
    "nn.upsampling": _upsampling,
    "nn.upsampling3d": _upsampling,
}
