"""Model how windows move over an image: which elements of the data each element of the result reads.

Sizes are numbers, or TVM's expressions where only the call knows them. Never imports TVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

#: How many windows are looked at one by one; of more it is not known that they all read data.
_MANY = 1 << 16

#: The most taps in a row that are written out: LLVM takes seconds for hundreds. Of more, so many are a round.
MOST_TAPS, UNROLLED_TAPS = 64, 16


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a window; ``size`` and ``result`` are the sizes of the data and the result.

    By tap ``k``, the result's element ``o`` reads the data's element ``o * stride - before + k * dilation``;
    where ``transposed``, the element ``i`` for which ``i * stride - before + k * dilation == o``.
    """

    size: Any
    result: Any
    taps: int
    stride: int
    before: int
    dilation: int
    transposed: bool

    @property
    def is_static(self) -> bool:
        """Return whether the sizes are known at compile time."""
        return isinstance(self.size, int) and isinstance(self.result, int)

    def always_inside(self) -> bool:
        """Return whether every tap of every element is known to be inside of the data."""
        if not self.is_static:
            return False
        last = (self.result - 1) * self.stride - self.before + (self.taps - 1) * self.dilation
        return not self.transposed and self.before <= 0 and last < self.size

    def empty_window(self) -> bool:
        """Return whether all taps of some element of the result are outside of the data."""

        def is_outside(o: int) -> bool:
            first = o * self.stride - self.before
            return not any(0 <= first + k * self.dilation < self.size for k in range(self.taps))

        # Outside elements are at the ends then: windows move monotonically, and a gap between two
        # taps is narrower than the data. Otherwise a window may have one tap before the data and
        # the next behind it, anywhere in the row.
        if self.dilation <= self.size:  # no window lies around the data
            return self.result > 0 and (is_outside(0) or is_outside(self.result - 1))
        return self.result > _MANY or any(map(is_outside, range(self.result)))

    def phases(self) -> Iterator[Phase]:
        """Group the elements of the result by their taps: one phase, or one for each element of a stride."""
        if not self.transposed:
            taps = tuple((k, k * self.dilation - self.before) for k in range(self.taps))
            yield Phase(0, 1, self.result, self.stride, taps, self.size)
            return
        # Element o of a transposed convolution gets taps k with (o + before - k * dilation) %
        # stride == 0: o modulo the stride decides which, so each residue is a convolution of stride
        # 1 with fewer taps (Shi et al., Is the deconvolution layer the same as a convolutional
        # layer?, 2016).
        phases = min(self.stride, self.result) if self.is_static else self.stride
        for first in range(phases):
            offsets = [(k, first + self.before - k * self.dilation) for k in range(self.taps)]
            taps = tuple((k, offset // self.stride) for k, offset in offsets if offset % self.stride == 0)
            count = (self.result - first + self.stride - 1) // self.stride
            yield Phase(first, self.stride, count, 1, taps, self.size)


@dataclass(frozen=True, slots=True)
class Phase:
    """Elements of the result with equal taps: ``first + j * step`` for ``j < count``.

    By a tap, element ``j`` reads element ``j * stride + offset`` of the ``size`` elements of the data;
    ``taps`` has the number of each tap and its offset. Count and size may be TVM's expressions.
    """

    first: int
    step: int
    count: Any
    stride: int
    taps: tuple[tuple[int, int], ...]
    size: Any

    def runs(self, width: int) -> list[Run]:
        """Divide the elements into tiles of at most ``width``; a run has neighbours with equal code."""
        full, rest = divmod(self.count, width)
        # Tiles differ in their code near to where a tap begins or ends to read data.
        near = {
            edge // width + tile
            for _, offset in self.taps
            for edge in self._inside(offset)
            # Generously around each edge: runs with equal code are joined again below, so too many
            # cost nothing.
            for tile in (-1, 0, 1, 2)
        }
        firsts = sorted({0, full, *(tile for tile in near if 0 < tile < full)})
        tiles = [(first, after - first, width) for first, after in pairwise(firsts)]
        if rest:
            tiles.append((full, 1, rest))
        runs: list[Run] = []
        for first, number, tile in tiles:
            start = first * width
            inside = tuple(self._inside_tile(offset, start, tile) for _, offset in self.taps)
            # Neighbours with equal code become one loop. An image of 224 pixels has three runs, not
            # 14 tiles of code.
            if runs and runs[-1].width == tile and runs[-1].inside == inside:
                runs[-1] = Run(runs[-1].start, tile, runs[-1].tiles + number, inside)
            else:
                runs.append(Run(start, tile, number, inside))
        return runs

    def _inside(self, offset: int) -> tuple[int, int]:
        """Return the range of the elements that read data by a tap, not padding."""
        # 0 <= j * stride + offset < size, where -(offset // stride) is the ceiling of -offset /
        # stride.
        return -(offset // self.stride), (self.size - 1 - offset) // self.stride + 1

    def _inside_tile(self, offset: int, start: int, tile: int) -> tuple[int, int]:
        """Return the same range of a tile's elements."""
        low, high = self._inside(offset)
        low, high = max(low - start, 0), min(high - start, tile)
        return (low, high) if low < high else (0, 0)


@dataclass(frozen=True, slots=True)
class Run:
    """Tiles with equal code: ``tiles`` of them, of ``width`` elements, from ``start`` on.

    ``inside``: by tap, the range of a tile's elements that read data, not padding.
    """

    start: int
    width: int
    tiles: int
    inside: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TapGroup:
    """Taps that follow one another at equal distances: ``UNROLLED_TAPS`` in each of ``rounds``, or one.

    ``first`` and ``step`` are of the number of a tap and of its offset. ``inside`` is of each tap.
    """

    first: tuple[int, int]
    step: tuple[int, int]
    inside: tuple[int, int]
    rounds: int = 0


def group_taps(taps: Sequence[tuple[int, int]], inside: Sequence[tuple[int, int]]) -> Iterator[TapGroup]:
    """Group taps with equal code that are so many that they are a loop; yield the others one by one."""
    start = 0
    while start < len(taps):
        first, end = taps[start], start + 1
        step = (0, 0) if end == len(taps) else _distance(taps[start], taps[end])
        # Equal distances of numbers and offsets: tap number and offset of round r are linear in r.
        while (
            end < len(taps) and inside[end] == inside[start] and _distance(taps[end - 1], taps[end]) == step
        ):
            end += 1
        if end - start > MOST_TAPS:
            rounds = (end - start) // UNROLLED_TAPS
            yield TapGroup(first, step, inside[start], rounds)
            start += rounds * UNROLLED_TAPS
        yield from (TapGroup(taps[at], step, inside[at]) for at in range(start, end))
        start = end


def _distance(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    return second[0] - first[0], second[1] - first[1]


def encode_axes(axes: Sequence[Axis]) -> list[int]:
    """Return the axes as numbers, for an annotation; what only the call knows is -1."""
    return [int(number) if isinstance(number, int) else -1 for axis in axes for number in _numbers(axis)]


def _numbers(axis: Axis) -> tuple[object, ...]:
    return tuple(getattr(axis, field.name) for field in fields(axis))


def decode_axes(numbers: Sequence[int]) -> tuple[Axis, ...]:
    """Return the axes that ``encode_axes`` wrote."""
    axes = []
    # Annotations of TIR hold integers only: seven fields for each axis, in the order of the class.
    for start in range(0, len(numbers), 7):
        size, result, taps, stride, before, dilation, transposed = map(int, numbers[start : start + 7])
        axes.append(Axis(size, result, taps, stride, before, dilation, bool(transposed)))
    return tuple(axes)
