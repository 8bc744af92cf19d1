"""How windows move over an image, against each element's own arithmetic."""

from __future__ import annotations

import random
from itertools import pairwise

from nnmagic.engine.relax.schedules.convolution.windows import Axis, Phase


def axes(count: int) -> list[Axis]:
    draw = random.Random(1)
    return [
        Axis(
            size=draw.randint(0, 40),
            result=draw.randint(0, 60),
            taps=draw.randint(1, 5),
            stride=draw.randint(1, 4),
            before=draw.randint(-3, 12),
            dilation=draw.choice((1, 2, 6, 50)),
            transposed=draw.random() < 0.5,
        )
        for _ in range(count)
    ]


def tiles_of(phase: Phase, width: int) -> list[tuple[int, int, tuple[tuple[int, int], ...]]]:
    """Each tile of a phase: where it begins, its width, and the elements that read data, by tap."""
    tiles = []
    for start in range(0, phase.count, width):
        tile = min(width, phase.count - start)
        inside = []
        for _, offset in phase.taps:
            reads = [p for p in range(tile) if 0 <= (start + p) * phase.stride + offset < phase.size]
            inside.append((reads[0], reads[-1] + 1) if reads else (0, 0))
        tiles.append((start, tile, tuple(inside)))
    return tiles


def test_runs_are_the_tiles_of_a_phase() -> None:
    for width, axis in enumerate(axes(2000)):
        for phase in axis.phases():
            size = width % 9 + 1
            runs = phase.runs(size)
            tiles = [
                (run.start + number * run.width, run.width, run.inside)
                for run in runs
                for number in range(run.tiles)
            ]
            assert tiles == tiles_of(phase, size), (axis, size)
            assert all((a.inside, a.width) != (b.inside, b.width) for a, b in pairwise(runs))


def test_whether_a_window_lies_outside() -> None:
    for axis in axes(2000):
        windows = [
            [o * axis.stride - axis.before + k * axis.dilation for k in range(axis.taps)]
            for o in range(axis.result)
        ]
        outside = any(all(not 0 <= at < axis.size for at in window) for window in windows)
        assert axis.empty_window() == outside, axis


def test_an_image_of_any_size_is_modelled_at_once() -> None:
    (phase,) = Axis(2**40, 2**40, 3, 1, 1, 1, transposed=False).phases()
    runs = phase.runs(8)
    assert [run.tiles for run in runs] == [1, 2**37 - 2, 1]
    assert not Axis(2**40, 2**40, 3, 1, 1, 1, transposed=False).empty_window()
