"""How windows move over an image: which elements of the data an element of the result sees. Knows no TVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a window.

    The result's element ``o`` sees, by tap ``k``, the data's element ``o * stride - before + k * dilation``;
    where ``transposed``, the element ``i`` with ``i * stride - before + k * dilation == o``.
    """

    size: int
    result: int
    taps: int
    stride: int
    before: int
    dilation: int
    transposed: bool

    def always_inside(self) -> bool:
        """Whether every tap of every element is one of the data."""
        last = (self.result - 1) * self.stride - self.before + (self.taps - 1) * self.dilation
        return not self.transposed and self.before <= 0 and last < self.size

    def empty_window(self) -> bool:
        """Whether some element of the result sees no data by any tap."""
        return any(
            all(
                not 0 <= o * self.stride - self.before + k * self.dilation < self.size
                for k in range(self.taps)
            )
            for o in range(self.result)
        )

    def phases(self) -> Iterator[Phase]:
        """The elements of the result by the taps that they have: one phase, or one a stride."""
        if not self.transposed:
            places = tuple((k, k * self.dilation - self.before) for k in range(self.taps))
            yield Phase(0, 1, self.result, self.stride, places, self.size)
            return
        for first in range(min(self.stride, self.result)):
            reached = [(k, first + self.before - k * self.dilation) for k in range(self.taps)]
            places = tuple((k, place // self.stride) for k, place in reached if place % self.stride == 0)
            count = (self.result - first + self.stride - 1) // self.stride
            yield Phase(first, self.stride, count, 1, places, self.size)


@dataclass(frozen=True, slots=True)
class Phase:
    """Elements ``first + j * step`` of the result, ``j < count``; by each tap they see ``j * stride + place``
    of ``size`` elements. ``taps``: the number of a tap, its place.
    """

    first: int
    step: int
    count: int
    stride: int
    taps: tuple[tuple[int, int], ...]
    size: int

    def runs(self, width: int) -> list[Run]:
        """The elements in tiles of at most ``width``, equal neighbours together."""
        found: list[Run] = []
        for start in range(0, self.count, width):
            tile = min(width, self.count - start)
            seen = tuple(self._seen(place, start, tile) for _, place in self.taps)
            if found and found[-1].width == tile and found[-1].seen == seen:
                found[-1] = Run(found[-1].start, tile, found[-1].tiles + 1, seen)
            else:
                found.append(Run(start, tile, 1, seen))
        return found

    def _seen(self, place: int, start: int, tile: int) -> tuple[int, int]:
        """Which elements of a tile see data by a tap: from, to."""
        inside = [p for p in range(tile) if 0 <= (start + p) * self.stride + place < self.size]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)


@dataclass(frozen=True, slots=True)
class Run:
    """``tiles`` tiles of ``width`` elements from ``start`` on; ``seen``: which of them see data, by tap."""

    start: int
    width: int
    tiles: int
    seen: tuple[tuple[int, int], ...]


def encode_axes(axes: Sequence[Axis]) -> list[int]:
    """The axes as numbers, for an annotation."""
    return [int(number) for axis in axes for number in astuple(axis)]


def decode_axes(numbers: Sequence[int]) -> tuple[Axis, ...]:
    """The axes of an annotation."""
    found = []
    for at in range(0, len(numbers), 7):
        size, result, taps, stride, before, dilation, transposed = map(int, numbers[at : at + 7])
        found.append(Axis(size, result, taps, stride, before, dilation, bool(transposed)))
    return tuple(found)
