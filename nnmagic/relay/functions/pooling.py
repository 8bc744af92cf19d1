"""Write pooling with Relay's operators: where windows lie, their means, and their maxima with the indices.

The windows of an axis are integers (count, taps): the places of each window's elements. Those before 0 or
behind the axis are padding. Windows go along the last axes of a tensor, as many as there are such arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, TypeVar, cast

import numpy as np

from nnmagic.relay.tensor_expr import Number, TensorOperators
from nnmagic.relay.types import neutral

T = TypeVar("T", bound=TensorOperators)

Windows = Sequence[np.ndarray]


@dataclass(frozen=True, slots=True)
class Placing:
    """How windows go along the axes of images: a number for each axis; ``ceil`` rounds their number up."""

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    before: Sequence[int]
    after: Sequence[int]
    ceil: bool = False

    def count(self, sizes: Sequence[int]) -> list[int]:
        """Return the number of windows of each axis, below 1 where none fits; none begins behind the data."""
        counts = []
        for axis, size in enumerate(sizes):
            stride, reach = self.strides[axis], (self.kernel[axis] - 1) * self.dilations[axis] + 1
            room = size + self.before[axis] + self.after[axis] - reach
            count = (-(-room // stride) if self.ceil else room // stride) + 1
            counts.append(count - (self.ceil and (count - 1) * stride >= size + self.before[axis]))
        return counts

    def padding_behind(self, sizes: Sequence[int]) -> list[int]:
        """Return the padding with which rounding down gives the windows of rounding up."""
        parts = zip(
            *(sizes, self.count(sizes), self.kernel, self.strides, self.dilations, self.before), strict=True
        )
        return [
            max(0, (count - 1) * stride + (width - 1) * dilation + 1 - size - pad)
            for size, count, width, stride, dilation, pad in parts
        ]

    def padding_of_any_size(self) -> list[int] | None:
        """Return such a padding for axes of any size; None where a window may begin behind the data."""
        parts = zip(self.kernel, self.strides, self.dilations, self.after, strict=True)
        if any((width - 1) * dilation + 1 < stride + after for width, stride, dilation, after in parts):
            return None
        return [after + stride - 1 for after, stride in zip(self.after, self.strides, strict=True)]

    def windows(self, counts: Sequence[int]) -> list[np.ndarray]:
        """Return so many windows of each axis."""
        parts = zip(counts, self.kernel, self.strides, self.dilations, self.before, strict=True)
        return [
            np.arange(count)[:, None] * stride + np.arange(width) * dilation - pad
            for count, width, stride, dilation, pad in parts
        ]

    def ranges(self, sizes: Sequence[int], *, padded: bool) -> list[tuple[int, int]]:
        """Return first and end of the places that count, which those of the padding may."""
        parts = zip(sizes, self.before, self.after, strict=True)
        return [(-before, size + after) if padded else (0, size) for size, before, after in parts]


def adaptive_windows(size: int, count: int) -> np.ndarray:
    """Return the windows that divide an axis, and may overlap; -1 stands behind the shorter ones."""
    first = np.arange(count) * size // count
    end = -(-np.arange(1, count + 1) * size // count)
    places = first[:, None] + np.arange((end - first).max())
    return np.where(places < end[:, None], places, -1)


def count_elements(windows: Windows, ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return how many places of each window lie in the ranges of the axes, at least 1."""
    each = [((at >= low) & (at < end)).sum(axis=1) for at, (low, end) in zip(windows, ranges, strict=True)]
    counts: np.ndarray = np.maximum(reduce(np.multiply.outer, each), 1)
    return counts


def pool(kind: Literal["avg", "max"], data: T, placing: Placing, after: Sequence[int], **attrs: object) -> T:
    """Call Relay's pooling of images (n, c, ...) of one to three axes, with a padding behind."""
    rank = len(placing.kernel)
    return data.op(
        f"nn.{kind}_pool{rank}d",
        pool_size=tuple(placing.kernel),
        strides=tuple(placing.strides),
        dilation=tuple(placing.dilations),
        padding=(*placing.before, *after),
        layout="NC" + "DHW"[3 - rank :],
        **attrs,
    )


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
