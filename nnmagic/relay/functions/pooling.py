"""Write pooling with Relay's operators: where windows lie, their means, and their maxima with the indices.

The windows of an axis are integers (count, taps): the places of each window's elements. Those before 0 or
behind the axis are padding. Windows go along the last axes of a tensor, as many as there are such arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Literal, TypeVar, cast

import numpy as np

from nnmagic.relay.tensor_expr import Number, TensorOperators
from nnmagic.relay.types import neutral

T = TypeVar("T", bound=TensorOperators)

Windows = Sequence[np.ndarray]


def count_windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    *,
    ceil: bool,
) -> list[int]:
    """Return the number of windows of each axis, below 1 where none fits; none begins in padding behind."""
    counts = []
    for axis, size in enumerate(sizes):
        room = size + before[axis] + after[axis] - (kernel[axis] - 1) * dilations[axis] - 1
        count = (-(-room // strides[axis]) if ceil else room // strides[axis]) + 1
        if ceil and (count - 1) * strides[axis] >= size + before[axis]:
            count -= 1
        counts.append(count)
    return counts


def padding_behind(
    sizes: Sequence[int],
    counts: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    before: Sequence[int],
) -> list[int]:
    """Return the padding with which so many windows fit, for numbers that were rounded up."""
    parts = zip(sizes, counts, kernel, strides, dilations, before, strict=True)
    return [
        max(0, (count - 1) * stride + (width - 1) * dilation + 1 - size - pad)
        for size, count, width, stride, dilation, pad in parts
    ]


def lay_windows(
    counts: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    before: Sequence[int],
) -> list[np.ndarray]:
    """Return the windows of each axis."""
    return [
        np.arange(count)[:, None] * stride + np.arange(width) * dilation - pad
        for count, width, stride, dilation, pad in zip(
            counts, kernel, strides, dilations, before, strict=True
        )
    ]


def adaptive_windows(size: int, count: int) -> np.ndarray:
    """Return the windows that divide an axis, and may overlap; -1 stands behind the shorter ones."""
    first = np.arange(count) * size // count
    end = -(-np.arange(1, count + 1) * size // count)
    places = first[:, None] + np.arange((end - first).max())
    return np.where(places < end[:, None], places, -1)


def count_elements(
    windows: Windows, sizes: Sequence[int], before: Sequence[int], after: Sequence[int], *, padded: bool
) -> np.ndarray:
    """Return the number of each window's elements, at least 1; with ``padded``, with those of the padding."""
    each = []
    for places, size, low, high in zip(windows, sizes, before, after, strict=True):
        start, end = (-low, size + high) if padded else (0, size)
        each.append(((places >= start) & (places < end)).sum(axis=1))
    counts: np.ndarray = np.maximum(reduce(np.multiply.outer, each), 1)
    return counts


def pool(
    kind: Literal["avg", "max"],
    data: T,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: Sequence[int],
    **attrs: object,
) -> T:
    """Call Relay's pooling of images (n, c, ...) of one to three axes."""
    rank = len(kernel)
    attrs |= {"pool_size": tuple(kernel), "strides": tuple(strides), "dilation": tuple(dilations)}
    layout = "NC" + "DHW"[3 - rank :]
    return data.op(f"nn.{kind}_pool{rank}d", padding=tuple(padding), layout=layout, **attrs)


def window_sums(data: T, windows: Windows) -> T:
    """Return the sum of each window.

    Products with matrices of ones and zeros would spread NaN and infinities, whose products with 0 are NaN.
    """
    for axis, places in enumerate(windows, data.rank - len(windows)):
        data = _read(data, axis, places, 0).op("sum", axis=(axis + 1,))
    return data


def window_maxima(data: T, windows: Windows, order: Literal["C", "F"] = "C") -> tuple[T, T]:
    """Return the largest element of each window, and its flat index in its image, int64.

    Of equal elements it is the first one, of NaN the last. ``order``: in which the indices count the axes.
    """
    sizes = [int(cast(int, size)) for size in data.shape[-len(windows) :]]
    flat = np.arange(np.prod(sizes)).reshape(sizes, order=order)
    index = data.op("zeros_like").cast("int64") + data.constant(np.ascontiguousarray(flat))
    for axis in range(data.rank - 1, data.rank - 1 - len(windows), -1):
        places, size = windows[axis - data.rank], sizes[axis - data.rank]
        taken = _read(data, axis, places, neutral("max", data.dtype))
        best = taken.op("argmax", axis=(axis + 1,), keepdims=True).cast("int64")
        first = ((places >= 0) & (places < size)).argmax(axis=1)  # never one in the padding
        if first.any():
            best = best.maximum(data.constant(first.reshape(-1, 1, *[1] * (data.rank - axis - 1))))
        if data.is_float:
            nan, along = taken.op("isnan"), {"axis": (axis + 1,), "keepdims": True}
            last = nan.cast("int32").op("argmax", select_last_index=True, **along).cast("int64")
            best = nan.op("any", **along).choose(last, best)
        data, index = (
            read.op("gather", best, axis=axis + 1).op("squeeze", axis=(axis + 1,))
            for read in (taken, _read(index, axis, places))
        )
    return data, index


def _read(data: T, axis: int, places: np.ndarray, padding: Number | None = None) -> T:
    """Return the elements of an axis's windows (..., count, taps, ...); without padding, of the edges."""
    size: Any = data.shape[axis]
    nearest = np.clip(places, 0, size - 1)
    read = data.op("take", data.constant(nearest), axis=axis, mode="clip")
    inside = places == nearest
    if padding is None or inside.all():
        return read
    mask = inside.reshape(*inside.shape, *[1] * (data.rank - axis - 1))
    return data.constant(mask).choose(read, read.like(padding))
