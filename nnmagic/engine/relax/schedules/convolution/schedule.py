"""Convolutions on blocked channels: direct, with tiles of the result in registers. Knows TVM and windows.

The result's channels stand in blocks of one vector, ``[n, block, (d, h,) w, lane]``; the weights as
``[block, kd, kh, channel, kw, lane]``. A tile of the result, some elements of a row by some blocks, stays in
registers while all taps and channels are summed up: each weight vector is loaded once a tile, each element of
the data broadcast once for all blocks. Taps that see padding are left out, not multiplied by zero: along
rows by a test, within a row by other code for the tiles at its ends; so the data is never copied for padding.
Where each channel is a group of its own, the data's lanes are the result's, and vectors are multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from nnmagic.engine.relax.schedules.convolution.windows import Axis, Phase, Run, read
from nnmagic.engine.relax.schedules.fusion_analysis import (
    FusedKernel,
    analyze_fused,
    parts_of,
    rebuild,
    statements_after,
    statements_before,
)
from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.schedules.registry import SCHEDULES
from nnmagic.engine.relax.tir.builders import expr, loop, ramp, sequence

#: The annotations of a block: its axes (``windows.written``), and (groups, channels of the data, channels of
#: the result, the data's axis of channels or -1 where they are blocked).
AXES, CHANNELS = "nnmagic.axes", "nnmagic.channels"

#: The annotation of convolutions: 1 where padding is multiplied, as weights may be infinite or NaN.
PADDED = "nnmagic.padded"

#: The annotation of pooling: 1 for the largest, 0 for the sum.
LARGEST = "nnmagic.largest"

#: The multiplications from which on a kernel runs on several threads: about 50 us of one.
_WORTH_THREADS = 2_000_000

_Kind = tirx.ForKind


@dataclass(frozen=True, slots=True)
class Channels:
    """data, result: how many channels in all. axis: where they stand in the data, -1 if they are blocked."""

    groups: int
    data: int
    result: int
    axis: int

    @property
    def each(self) -> int:
        """The data's channels of a group."""
        return self.data // self.groups

    @property
    def lanewise(self) -> bool:
        """Whether each lane of the result sees the same lane of the data only."""
        return self.groups == self.data == self.result and self.axis < 0 and self.groups > 1

    def source(self, o: Any, k: Any) -> Any:
        """The data's channel that the result's channel ``o`` sees as its ``k``-th."""
        if self.groups == 1:
            return k
        made = self.result // self.groups
        group = tirx.min(o if made == 1 else o // made, expr(self.groups - 1))
        return group if self.each == 1 else group * self.each + k


@dataclass(frozen=True, slots=True)
class _ConvolutionKernel:
    """What the loops are made of."""

    fused: FusedKernel
    data: Any
    weight: Any  # None where nothing is multiplied
    axes: tuple[Axis, ...]
    channels: Channels
    lanes: int
    dtype: str
    largest: bool = False  # instead of the sum
    padded: bool = False  # whether zeros of the padding are multiplied, too

    def joined(self, total: Any, value: Any) -> Any:
        """What one more value makes of a total: NaN stays."""
        if not self.largest:
            return total + value
        return tirx.Select(tirx.any(total > value, tirx.isnan(total)), total, value)


def _pooling(function: tirx.PrimFunc, machine: CpuModel) -> Any:
    """Windows without weights: their largest element or their sum."""
    fused = analyze_fused(function, "pooling")
    if fused is None:
        return function
    main, made = fused.main, fused.made.ty
    (data,) = fused.read()
    axes = read(list(main.annotations[AXES]))
    shape = [int(dim) for dim in made.shape]
    channels = Channels(shape[1] * shape[-1], shape[1] * shape[-1], shape[1] * shape[-1], -1)
    largest = bool(int(main.annotations[LARGEST]))
    direct = _ConvolutionKernel(fused, data, None, axes, channels, shape[-1], str(made.dtype), largest)
    return _built(function, direct, shape, machine)


def _convolution(function: tirx.PrimFunc, machine: CpuModel) -> Any:
    fused = analyze_fused(function, "convolution")
    if fused is None:
        return function
    main = fused.main
    made = fused.made.ty
    sources = fused.read()
    if len(sources) != 2:
        return function
    axes = read(list(main.annotations[AXES]))
    channels = Channels(*map(int, main.annotations[CHANNELS]))
    shape = [int(dim) for dim in made.shape]
    data, weight = sources
    padded = bool(int(main.annotations[PADDED]))
    direct = _ConvolutionKernel(
        fused, data, weight, axes, channels, shape[-1], str(made.dtype), padded=padded
    )
    return _built(function, direct, shape, machine)


def _built(
    function: tirx.PrimFunc, direct: _ConvolutionKernel, shape: Sequence[int], machine: CpuModel
) -> tirx.PrimFunc:
    fused, channels = direct.fused, direct.channels
    work = channels.each * math.prod(shape) * math.prod(axis.taps for axis in direct.axes)
    # Where each lane has its own data, memory is the limit.
    parallel = machine.parallel and work > _WORTH_THREADS * (1 if channels.groups == 1 else 0.25)
    body = _loops(direct, shape, machine, parallel=parallel)
    return rebuild(function, [*statements_before(fused, parallel=parallel), body])


def _loops(direct: _ConvolutionKernel, shape: Sequence[int], machine: CpuModel, *, parallel: bool) -> Any:
    batch, blocks, *image, _ = shape
    rows = image[:-1]
    shared, wide = _tile(direct, blocks, machine)
    tiles = -(-blocks // shared)
    count = batch * tiles
    for row in rows:
        count *= row

    def task(number: Any) -> Any:
        """One row of the result (or part of it) in ``shared`` blocks."""
        places: list[Any] = []
        rest = number
        for row in reversed(rows):
            places.insert(0, expr(0) if row == 1 else rest % row)
            rest = rest if row == 1 else rest // row
        block = tirx.min(rest % tiles * shared, expr(blocks - shared)) if tiles > 1 else expr(0)
        image = rest // tiles if batch > 1 else expr(0)
        made = [
            _run(direct, phase, run, shared, [image, block, *places])
            for phase in direct.axes[-1].phases()
            for run in phase.runs(wide)
        ]
        return sequence(made)

    return loop("task", count, task, _Kind.PARALLEL if parallel else _Kind.SERIAL)


def _tile(direct: _ConvolutionKernel, blocks: int, machine: CpuModel) -> tuple[int, int]:
    """How many blocks and how many elements of a row a tile has: what takes the least time, as counted."""
    row = max(phase.count for phase in direct.axes[-1].phases())
    groups, made = direct.channels.groups, direct.channels.result // direct.channels.groups
    together = blocks if groups == 1 else 1 if made % direct.lanes else made // direct.lanes
    best, choice = float("inf"), (1, 1)
    for shared in range(1, min(4, together) + 1):
        if groups > 1 and together % shared:
            continue
        for wide in range(1, min(row, machine.registers) + 1):
            if shared * wide + shared + wide >= machine.registers:  # LLVM loads a row's elements early
                break
            full, rest = divmod(row, wide)
            time = full * _time(shared, wide) + (_time(shared, rest) if rest else 0.0)
            time *= -(-blocks // shared)
            if time < best * 0.999:
                best, choice = time, (shared, wide)
    return choice


def _time(shared: int, wide: int) -> float:
    """Cycles of a channel and tap of a tile: two multiplications or loads at once, each four cycles long."""
    return max(shared * wide / 2, (shared + wide) / 2, 4.0, shared * 2.0) + 0.25


def _run(direct: _ConvolutionKernel, phase: Phase, run: Run, shared: int, place: Sequence[Any]) -> Any:
    """The tiles of a row that have the same code."""

    def tile(number: Any) -> Any:
        start = run.start + number * run.width
        held = shared * run.width + int(direct.padded)
        sums = tirx.decl_buffer((held * direct.lanes,), direct.dtype, "sums", scope="local")
        first = tirx.const(float("-inf") if direct.largest else 0.0, direct.dtype)
        zero = tirx.Broadcast(first, direct.lanes)
        clear = [
            tirx.BufferStore(sums, zero, [ramp(expr(at * direct.lanes), direct.lanes)]) for at in range(held)
        ]
        return tirx.SeqStmt(
            [
                tirx.AllocBuffer(sums),
                *clear,
                _taps(direct, phase, run, shared, place, start, sums),
                _finish(direct, phase, run, shared, place, start, sums),
            ]
        )

    return loop("tile", run.tiles, tile)


def _taps(
    direct: _ConvolutionKernel,
    phase: Phase,
    run: Run,
    shared: int,
    place: Sequence[Any],
    start: Any,
    sums: Any,
) -> Any:
    """The sums over all taps and channels."""
    outer = direct.axes[:-1]

    def row(at: int, seen: list[Any], taps: list[Any], *, blank: bool = False) -> Any:
        if at == len(outer):
            return _channels(direct, phase, run, shared, [*place[:2], *seen], taps, start, sums, blank=blank)
        axis = outer[at]

        def tap(k: Any) -> Any:
            source = place[2 + at] * axis.stride - axis.before + k * axis.dilation
            if not axis.transposed:
                body = row(at + 1, [*seen, source], [*taps, k], blank=blank)
                if axis.always_inside() or blank:
                    return body
                beside = row(at + 1, [*seen, source], [*taps, k], blank=True) if direct.padded else None
                return tirx.IfThenElse(tirx.all(source >= 0, source < axis.size), body, beside)
            source = place[2 + at] + axis.before - k * axis.dilation
            inside = [source >= 0, source % axis.stride == 0, source // axis.stride < axis.size]
            return tirx.IfThenElse(
                tirx.all(*inside), row(at + 1, [*seen, source // axis.stride], [*taps, k]), None
            )

        return loop("k", axis.taps, tap)

    return row(0, [], [])


def _channels(
    direct: _ConvolutionKernel,
    phase: Phase,
    run: Run,
    shared: int,
    place: Sequence[Any],
    taps: Sequence[Any],
    start: Any,
    sums: Any,
    *,
    blank: bool,
) -> Any:
    """The sums over the channels and the taps of a row; ``blank``: of a row of padding."""
    image, block, *seen = place
    lanes, channels = direct.lanes, direct.channels
    made = channels.result // channels.groups
    # The lanes of a block see different channels, but not each its own.
    mixed = channels.groups > 1 and made % lanes != 0 and not channels.lanewise

    def data(k: Any, p: int, offset: int, lane: Any) -> Any:
        w = (start + p) * phase.stride + offset
        if lane is None and not channels.lanewise:
            value = _element(direct, image, channels.source(block * lanes, k), [*seen, w])
            return tirx.Broadcast(value, lanes)
        if channels.lanewise:
            return tirx.BufferLoad(direct.data, [image, block, *seen, w, ramp(expr(0), lanes)])
        return _element(direct, image, channels.source(block * lanes + lane, k), [*seen, w])

    def added(at: int, index: Sequence[Any], value: Any, lane: Any) -> Any:
        place = ramp(expr(at), lanes) if lane is None else at + lane
        if direct.weight is not None:
            where = ramp(expr(0), lanes) if lane is None else lane
            value = value * tirx.BufferLoad(direct.weight, [*index, where])
        store = tirx.BufferStore(sums, direct.joined(tirx.BufferLoad(sums, [place]), value), [place])
        return store if lane is None else tirx.For(lane, expr(0), expr(lanes), _Kind.VECTORIZED, store)

    # A zero from memory: TVM takes 0 * w for 0, whatever w is.
    nought = shared * run.width * lanes
    none = tirx.BufferLoad(sums, [expr(nought)])
    zero = tirx.BufferLoad(sums, [ramp(expr(nought), lanes)])

    def channel(k: Any) -> Any:
        body = []
        for (tap, offset), (low, high) in zip(phase.taps, run.seen, strict=True):
            for p in range(run.width) if direct.padded else range(low, high):
                inside = low <= p < high and not blank
                lane = tirx.Var("lane", "int64") if mixed else None
                value = data(k, p, offset, lane) if inside else zero if lane is None else none
                for b in range(shared):
                    index = [block + b, *taps, k, expr(tap)]
                    body.append(added((b * run.width + p) * lanes, index, value, lane))
        return sequence(body) if body else tirx.Evaluate(0)

    return loop("channel", channels.each, channel)


def _element(direct: _ConvolutionKernel, image: Any, channel: Any, place: Sequence[Any]) -> Any:
    """An element of the data, in the layout that it has."""
    axis = direct.channels.axis
    if axis < 0:
        lanes = direct.lanes
        return tirx.BufferLoad(direct.data, [image, channel // lanes, *place, channel % lanes])
    index = [image, *place]
    index.insert(axis, channel)
    return tirx.BufferLoad(direct.data, index)


def _finish(
    direct: _ConvolutionKernel,
    phase: Phase,
    run: Run,
    shared: int,
    place: Sequence[Any],
    start: Any,
    sums: Any,
) -> Any:
    """What follows the sums, and the store."""
    image, block, *rows = place
    made: list[Any] = []
    for b in range(shared):
        for p in range(run.width):
            lane = tirx.Var("lane", "int64")
            value = tirx.BufferLoad(sums, [(b * run.width + p) * direct.lanes + lane])
            w = (start + p) * phase.step + phase.first
            body = statements_after(direct.fused, [image, block + b, *rows, w, lane], value)
            made += [tirx.AllocBuffer(part) for part in parts_of(body)]
            made.append(tirx.For(lane, expr(0), expr(direct.lanes), _Kind.VECTORIZED, sequence(body)))
    return sequence(made)


SCHEDULES["convolution"] = _convolution
SCHEDULES["pooling"] = _pooling
