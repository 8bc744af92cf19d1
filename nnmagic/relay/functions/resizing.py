"""Write the resampling of images with Relay's operators: one axis after the other.

The elements of the new axis are at float64 places of the old one, of which the element 0 is at 0.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from nnmagic.relay.tensor_expr import TensorOperators

T = TypeVar("T", bound=TensorOperators)


def find_places(mode: str, x: T, old: T, new: T, scale: T, region: tuple[T, T] | None = None) -> T | None:
    """Return the places (count,) of new elements by a coordinate transformation of ONNX; None for others.

    x: the numbers of the elements. old, new, scale: float64 scalars, the sizes and what a model says of their
    ratio. region: start and end of the part that ``tf_crop_and_resize`` resizes, from 0 to 1.
    """
    half = (x + 0.5) / scale - 0.5
    length = scale * old
    if mode == "half_pixel":
        return half
    if mode == "half_pixel_symmetric":
        return half + old / 2 * (1 - new / length)
    if mode == "pytorch_half_pixel":
        return (new > 1).choose(half, -0.5)
    if mode == "asymmetric":
        return x / scale
    room = (length - 1).maximum(1)
    if mode == "align_corners":
        return x * (old - 1) / room
    if mode == "tf_crop_and_resize" and region is not None:
        first, last = region
        middle = (last - first) * ((old - 1) / 2)
        along = length.equal(1).choose(middle, x * (last - first) * (old - 1) / room)
        return along + first * (old - 1)
    return None


def cubic(distance: T, a: float) -> T:
    """Return Keys' cubic kernel (IEEE Trans. ASSP 29, 1981)."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return (distance <= 1).choose(near, (distance < 2).choose(far, 0))


def count_taps(a: float | None, widest: float = 1.0) -> int:
    """Return of how many old elements a new one is made, that is as wide as so many of them."""
    return 2 * math.ceil((1 if a is None else 2) * max(widest, 1.0))


def interpolate(data: T, axis: int, x: T, old: T, a: float | None = None) -> T:
    """Return sums of the old elements beside the places ``x`` (count,), weighted by their distances.

    old: the axis's size, float64. a: the sharpness of the cubic kernel; without it, the kernel is linear.
    """
    total: T | None = None
    for step in (0, 1) if a is None else (-1, 0, 1, 2):
        places = x.op("floor") + step
        weight = _weigh((x - places).abs(), a)
        weighted = _weighted(data, axis, places.maximum(0).minimum(old - 1), weight)
        total = weighted if total is None else total + weighted
    assert total is not None
    return total


def interpolate_with_unit_sum(
    data: T, axis: int, x: T, old: T, a: float | None, shrink: T, widest: float = 1.0, *, exclude: bool
) -> T:
    """Return such sums with weights whose own sum is 1, of kernels that may be as wide as new elements.

    shrink: what distances are multiplied by. widest: how many old elements are as wide as a new one, at most.
    exclude: whether the elements at the ends do not go on beyond them.
    """
    taps = count_taps(a, widest)
    x = x.op("expand_dims", axis=1)
    places = x.op("floor") + x.constant(np.arange(1.0 - taps // 2, 1.0 + taps // 2))
    nearest = places.maximum(0).minimum(old - 1)
    distance = (x - places).abs() * shrink
    used = distance < (1 if a is None else 2)
    used = used & places.equal(nearest) if exclude else used
    weight = used.choose(_weigh(distance, a), 0)
    total = weight.op("sum", axis=(1,), keepdims=True)
    terms = _weighted(data, axis, nearest, weight / total.equal(0).choose(1, total))
    terms = _spread(used, data.rank - axis - 1).choose(terms, 0)  # 0 times NaN is NaN
    return terms.op("sum", axis=(axis + 1,))


def _weigh(distance: T, a: float | None) -> T:
    return 1 - distance if a is None else cubic(distance, a)


def _weighted(data: T, axis: int, places: T, weight: T) -> T:
    """Return the elements at places of an axis, each times its weight."""
    read = data.op("take", places.cast("int64"), axis=axis, mode="clip")
    return read * _spread(weight.cast(data.dtype), data.rank - axis - 1)


def _spread(x: T, count: int) -> T:
    """Return a tensor with so many more axes of size 1 behind."""
    return x.op("expand_dims", axis=x.rank, num_newaxis=count) if count else x
