"""Schedule convolutions and pooling on blocked channels: direct, with tiles of the result in registers.

The result's channels are in blocks of one vector, ``[n, block, (d, h,) w, lane]``; the weights are ``[block,
kd, kh, channel, kw, lane]``. A tile of the result, some elements of a row by some blocks, stays in registers
while all taps and channels are summed up: each weight vector is loaded once per tile, and each element of the
data is broadcast once for all blocks. Taps in the padding are left out, not multiplied by zero: along rows by
a test, within a row by other code for the tiles at its ends. So the data is never copied for padding. Where
only the call knows how long rows are, the elements at their ends are computed one by one, with tests. Where
each channel is a group of its own, the data's lanes are the result's, and vectors are multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from tvm import tirx

from nnmagic.engine.relax.schedules import fusion_analysis
from nnmagic.engine.relax.schedules.convolution import windows
from nnmagic.engine.relax.schedules.convolution.window_kernel import Channels, WindowKernel
from nnmagic.engine.relax.schedules.machine_model import CpuModel, Work
from nnmagic.engine.relax.schedules.registry import SCHEDULES
from nnmagic.engine.relax.schedules.thread_choice import choose_threads, split_factors
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    as_index,
    dtype_of,
    local_array,
    loop,
    parallel_loop,
    ramp,
    sequence,
)
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt, Var

#: The annotations of a block: its axes (``windows.encode_axes``), and (groups, channels of the data, channels
#: of the result, the data's axis of channels or -1 where they are blocked).
AXES, CHANNELS = "nnmagic.axes", "nnmagic.channels"

#: The annotation of convolutions: 1 where padding is multiplied, as weights may be infinite or NaN.
PADDED = "nnmagic.padded"

#: The annotation of pooling: 1 for the largest, 0 for the sum.
LARGEST = "nnmagic.largest"

#: The most blocks of the result's channels in a tile.
_MOST_BLOCKS = 4

#: The elements of a row for which a tile is chosen where only the call knows how many there are.
_USUAL_ROW = 56

#: How much less time a larger tile must take: equal times differ by rounding.
_BETTER = 0.999

_Kind = tirx.ForKind


def _schedule_pooling(function: tirx.PrimFunc, machine: CpuModel) -> tirx.PrimFunc:
    """Schedule windows without weights: their largest element or their sum."""
    fused = fusion_analysis.analyze_fused_kernel(function, "pooling")
    if fused is None:
        return function
    main = fused.main
    (data,) = fused.operands()
    blocks, *_, lanes = map(int, main.buffer.ty.shape[1:])
    count = blocks * lanes
    kernel = WindowKernel(
        fused,
        data,
        None,
        windows.decode_axes(list(main.annotations[AXES])),
        Channels(count, count, count, -1),
        lanes,
        dtype_of(main.buffer),
        largest=bool(int(main.annotations[LARGEST])),
    )
    return _schedule_windows(function, kernel, machine)


def _schedule_convolution(function: tirx.PrimFunc, machine: CpuModel) -> tirx.PrimFunc:
    fused = fusion_analysis.analyze_fused_kernel(function, "convolution")
    if fused is None:
        return function
    operands = fused.operands()
    if len(operands) != 2:
        return function
    data, weight = operands
    main = fused.main
    channels = Channels(*map(int, main.annotations[CHANNELS]))
    kernel = WindowKernel(
        fused,
        data,
        weight,
        _axes_of(fused, data, channels),
        channels,
        int(main.buffer.ty.shape[-1]),
        dtype_of(main.buffer),
        padded=bool(int(main.annotations[PADDED])),
    )
    return _schedule_windows(function, kernel, machine)


def _axes_of(
    fused: fusion_analysis.FusedKernel, data: Buffer, channels: Channels
) -> tuple[windows.Axis, ...]:
    """Return the axes of a convolution, with the sizes of its buffers where these are dynamic."""
    axes = windows.decode_axes(list(fused.main.annotations[AXES]))
    sizes, results = channels.image(data.ty.shape), fused.main.buffer.ty.shape[2:-1]
    return tuple(
        replace(axis, size=as_index(size), result=as_index(result))
        for axis, size, result in zip(axes, sizes, results, strict=True)
    )


def _schedule_windows(function: tirx.PrimFunc, kernel: WindowKernel, machine: CpuModel) -> tirx.PrimFunc:
    channels = kernel.channels
    batch, *shape = map(as_index, kernel.fused.main.buffer.ty.shape)
    work = (batch, *shape, channels.per_group, *(axis.taps for axis in kernel.axes))
    unit = Work.CONVOLUTION_MULTIPLICATIONS if channels.groups == 1 else Work.GROUPED_MULTIPLICATIONS
    body = choose_threads(
        machine, unit, work, lambda threads: _row_tasks(kernel, (batch, *shape), machine, threads=threads)
    )
    threads = machine.uses_threads(unit, split_factors(work)[0])
    return fusion_analysis.with_statements(
        function, [*fusion_analysis.statements_before(kernel.fused, parallel=threads), body]
    )


def _row_tasks(kernel: WindowKernel, shape: Sequence[Extent], machine: CpuModel, *, threads: bool) -> Stmt:
    """Build the loop over tasks: one row of the result in as many blocks as a tile has."""
    batch, blocks, *image_shape, _ = shape
    rows = image_shape[:-1]
    tile_blocks, tile_width = _choose_tile(kernel, blocks, machine)
    groups_of_blocks = -(-blocks // tile_blocks)

    def compute_row(number: PrimExpr) -> Stmt:
        indices: list[PrimExpr] = []
        for row in reversed(rows):
            is_one = isinstance(row, int) and row == 1
            indices.insert(0, as_expr(0) if is_one else number % row)
            number = number if is_one else number // row
        first = number % groups_of_blocks * tile_blocks
        # The last group is moved back where it would exceed the blocks: some blocks are computed
        # twice, which costs less than code for a narrower tile.
        block = tirx.min(first, as_expr(blocks - tile_blocks)) if groups_of_blocks > 1 else as_expr(0)
        one_image = isinstance(batch, int) and batch == 1
        image = as_expr(0) if one_image else number // groups_of_blocks
        statements: list[Stmt] = []
        for phase in kernel.axes[-1].phases():
            row = _Row(kernel, phase, tile_blocks, image, block, tuple(indices))
            if not kernel.axes[-1].is_static:
                statements.append(_row_of_any_length(row, tile_width))
            elif len(phase.taps) > windows.MOST_TAPS:
                statements.append(_row_of_many_taps(row, tile_width))
            else:
                statements += [_run_of_tiles(row.tiles_of(run)) for run in phase.runs(tile_width)]
        return sequence(statements)

    tasks = as_index(batch * (groups_of_blocks * math.prod(rows)))
    return parallel_loop("task", tasks, compute_row, wanted=threads)


def _choose_tile(kernel: WindowKernel, blocks: int, machine: CpuModel) -> tuple[int, int]:
    """Choose how many blocks and how many elements of a row a tile has: the least time, as counted."""
    last = kernel.axes[-1]
    row = max(phase.count for phase in last.phases()) if last.is_static else _USUAL_ROW
    groups, results = kernel.channels.groups, kernel.channels.results_per_group
    together = blocks if groups == 1 else 1 if results % kernel.lanes else results // kernel.lanes
    best, choice = float("inf"), (1, 1)
    for count in range(1, min(_MOST_BLOCKS, together) + 1):
        # A tile whose blocks belong to two groups would read the data of both.
        if groups > 1 and together % count:
            continue
        for width in range(1, min(row, machine.registers) + 1):
            # All sums of a tile stay in registers, beside a weight vector of each block and the
            # elements of the data: a spilled sum would be stored and loaded again at every tap.
            # Wider tiles need more, so none of them fits.
            if not machine.has_registers(count * width, count + _elements_at_once(width, machine) + 1):
                break
            full, rest = divmod(row, width)
            cycles = full * _tile_cycles(count, width, machine)
            # The narrower tile at a row's end is bounded by the latency and costs almost as much as
            # a full one, so that widths which divide the row win.
            cycles += _tile_cycles(count, rest, machine) if rest else 0.0
            cycles *= -(-blocks // count)
            if cycles < best * _BETTER:
                best, choice = cycles, (count, width)
    return choice


def _elements_at_once(width: int, machine: CpuModel) -> int:
    """Return for how many of a row's elements LLVM takes registers: it loads them early where it has many."""
    return width // 2 if machine.registers == 16 else width


def _tile_cycles(blocks: int, width: int, machine: CpuModel) -> float:
    """Count the cycles of a channel and tap of a tile: two loads at once, of the weights 32 bytes a cycle."""
    # As in a roofline model (Williams, Waterman and Patterson, 2009), the slowest resource bounds
    # the round: the multiply-add units, the two loads a cycle, the latency of each sum's chain, or
    # the bytes of the weights.
    weights = blocks * machine.vector_bytes / 32
    sums = blocks * width / machine.units
    few_registers = machine.spare * (blocks + width) / 100
    return max(sums, (blocks + width) / 2, machine.latency, weights) + few_registers + 0.25


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Tiles of a row that have the same code.

    blocks: how many blocks a tile has, from ``block`` on. outer: the indices of the row in the image.
    at_edge: whether each element that is read is tested, as it may be in the padding.
    """

    kernel: WindowKernel
    phase: windows.Phase
    run: windows.Run
    blocks: int
    image: PrimExpr
    block: PrimExpr
    outer: tuple[PrimExpr, ...]
    at_edge: bool = False

    @property
    def vectors(self) -> int:
        """Return how many vectors of sums a tile has."""
        return self.blocks * self.run.width


@dataclass(frozen=True, slots=True)
class _Tile:
    """One of the tiles: its first element in the row, and the array of its sums."""

    tiles: _Tiles
    start: PrimExpr
    sums: Buffer

    def vector_start(self, block: int, element: int) -> int:
        """Return where the sums of an element of a block start."""
        return (block * self.tiles.run.width + element) * self.tiles.kernel.lanes


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a phase's results, of some blocks of channels; ``outer``: the indices of the row."""

    kernel: WindowKernel
    phase: windows.Phase
    blocks: int
    image: PrimExpr
    block: PrimExpr
    outer: tuple[PrimExpr, ...]

    @property
    def inside(self) -> tuple[int, Extent]:
        """Return the first element without a tap before the data, and the first with one behind it."""
        offsets = [offset for _, offset in self.phase.taps] or [0]
        # Element i reads i * stride + offset: from ceil(-min / stride) on, which is -(min //
        # stride), no tap lies before the data; as long as the highest is at most size - 1, none
        # lies behind.
        behind = (self.phase.size - 1 - max(offsets)) // self.phase.stride + 1
        return -(min(offsets) // self.phase.stride), behind

    def tiles_of(self, run: windows.Run, *, at_edge: bool = False) -> _Tiles:
        """Return the tiles of a run; ``at_edge``: they test whether they are inside of the data."""
        place = self.image, self.block, self.outer
        return _Tiles(self.kernel, self.phase, run, self.blocks, *place, at_edge=at_edge)

    def tile(self, width: int, start: PrimExpr, *, at_edge: bool = False) -> Stmt:
        """Compute a tile that begins anywhere."""
        run = windows.Run(0, width, 1, ((0, width),) * len(self.phase.taps))
        return _compute_tile(self.tiles_of(run, at_edge=at_edge), start)


def _row_of_any_length(row: _Row, width: int) -> Stmt:
    """Compute a row whose length is dynamic: what lies at its ends by single elements, the rest by tiles.

    The last tile begins so that it ends where the others may not go on: some elements are computed twice.
    """
    zero, count = as_expr(0), as_expr(row.phase.count)
    before, behind = row.inside
    first = tirx.min(as_expr(max(0, before)), count)
    # A row that is shorter than the window reaches has no inner elements: `behind` lies before
    # `first` then, and all elements are edges.
    last = tirx.max(first, tirx.min(behind, count))

    def edge(number: PrimExpr) -> Stmt:
        # One loop runs over both ends: the elements before `first`, then those from `last` on.
        return row.tile(1, tirx.Select(number < first, number, number - first + last), at_edge=True)

    def inner(number: PrimExpr) -> Stmt:
        return row.tile(width, first + tirx.min(number * width, last - first - width))

    edges = loop("edge", tirx.max(count - last + first, zero), edge)
    tiles = loop("tile", (last - first + width - 1) // width, inner)
    few = loop("element", last - first, lambda number: row.tile(1, first + number))
    # The last tile is moved back to end at `last`; with fewer inner elements than a tile has, it
    # would begin before `first` and read the padding without a test.
    return sequence([edges, tirx.IfThenElse(last - first >= width, tiles, few)])


def _row_of_many_taps(row: _Row, width: int) -> Stmt:
    """Compute a row of so many taps that tiles near to its ends are not code of their own, but test."""
    full, rest = divmod(row.phase.count, width)
    first, last = row.inside

    def compute(number: PrimExpr) -> Stmt:
        start = number * width
        inner = row.tile(width, start)
        if first <= 0 and last >= row.phase.count:
            return inner
        is_inside = tirx.all(start >= first, start + width <= last)
        return tirx.IfThenElse(is_inside, inner, row.tile(width, start, at_edge=True))

    statements = [loop("tile", full, compute)] if full else []
    if rest:
        statements.append(row.tile(rest, as_expr(full * width), at_edge=True))
    return sequence(statements)


def _run_of_tiles(tiles: _Tiles) -> Stmt:
    run = tiles.run
    return loop("tile", run.tiles, lambda number: _compute_tile(tiles, run.start + number * run.width))


def _compute_tile(tiles: _Tiles, start: PrimExpr) -> Stmt:
    """Sum up a tile of a row, and store it."""
    kernel = tiles.kernel
    count = tiles.vectors + int(kernel.padded)
    sums = local_array(count * kernel.lanes, kernel.dtype, "sums")
    tile = _Tile(tiles, start, sums)
    zero = tirx.Broadcast(tirx.const(kernel.initial, kernel.dtype), kernel.lanes)
    clear = [
        tirx.BufferStore(sums, zero, [ramp(vector * kernel.lanes, kernel.lanes)]) for vector in range(count)
    ]
    return tirx.SeqStmt([tirx.AllocBuffer(sums), *clear, _sum_taps(tile), _finish_tile(tile)])


def _sum_taps(tile: _Tile) -> Stmt:
    """Sum over all taps and channels."""
    tiles = tile.tiles
    outer = tiles.kernel.axes[:-1]

    def sum_axis(
        number: int, indices: list[PrimExpr], taps: list[PrimExpr], *, in_padding: bool = False
    ) -> Stmt:
        if number == len(outer):
            return _sum_channels(tile, indices, taps, in_padding=in_padding)
        axis, position = outer[number], tiles.outer[number]

        def sum_tap(k: PrimExpr) -> Stmt:
            if axis.transposed:
                scaled = position + axis.before - k * axis.dilation
                index = scaled // axis.stride
                # A transposed convolution is computed as a gather: the tap adds to this row only if
                # the row of the data that it comes from exists, which it does for every `stride`-th
                # one. No two tasks write one element.
                tests = [scaled >= 0, scaled % axis.stride == 0, index < axis.size]
                body = sum_axis(number + 1, [*indices, index], [*taps, k])
                return tirx.IfThenElse(tirx.all(*tests), body, None)
            index = position * axis.stride - axis.before + k * axis.dilation
            body = sum_axis(number + 1, [*indices, index], [*taps, k], in_padding=in_padding)
            if axis.always_inside() or in_padding:
                return body
            padding = None
            # Zeros of the padding are multiplied where weights may not be finite: 0 * inf is NaN,
            # as in NumPy and torch. Without such weights the tap is left out.
            if tiles.kernel.padded:
                padding = sum_axis(number + 1, [*indices, index], [*taps, k], in_padding=True)
            return tirx.IfThenElse(tirx.all(index >= 0, index < axis.size), body, padding)

        return loop("k", axis.taps, sum_tap)

    return sum_axis(0, [], [])


def _sum_channels(
    tile: _Tile, indices: Sequence[PrimExpr], taps: Sequence[PrimExpr], *, in_padding: bool
) -> Stmt:
    """Sum over the channels and the taps of a row of the data, which may be in the padding."""
    tiles = tile.tiles
    kernel, run, phase = tiles.kernel, tiles.run, tiles.phase
    channels = kernel.channels
    # The lanes of a block read different channels, but not each its own.
    mixed = channels.groups > 1 and channels.results_per_group % kernel.lanes and not channels.lanewise

    def add_tap(k: PrimExpr, tap: Index, offset: Index, low: int, high: int) -> list[Stmt]:
        body = []
        # Elements outside of low..high read the padding at this tap.
        for element in range(run.width) if kernel.padded else range(low, high):
            lane = tirx.Var("lane", "int64") if mixed else None
            w = (tile.start + element) * phase.stride + offset
            inside = tirx.all(w >= 0, w < phase.size) if tiles.at_edge else None
            if low <= element < high and not in_padding:
                value = _data_vector(tiles, k, [*indices, w], lane)
                if inside is not None and kernel.padded:
                    value = tirx.if_then_else(inside, value, _zero_from_memory(tile, lane))
            else:
                value = _zero_from_memory(tile, lane)
            for block in range(tiles.blocks):
                index = [tiles.block + block, *taps, k, as_expr(tap)]
                added = _add_to_sums(tile, tile.vector_start(block, element), index, value, lane)
                skipped = inside is not None and not kernel.padded
                body.append(tirx.IfThenElse(inside, added, None) if skipped else added)
        return body

    def sum_taps(k: PrimExpr, group: windows.TapGroup, number: PrimExpr) -> Stmt:
        body = []
        for place in range(windows.UNROLLED_TAPS):
            at = number * windows.UNROLLED_TAPS + place
            tap, offset = (first + at * step for first, step in zip(group.first, group.step, strict=True))
            body += add_tap(k, tap, offset, *group.inside)
        return sequence(body)

    def sum_channel(k: PrimExpr) -> Stmt:
        body = []
        for group in windows.group_taps(phase.taps, run.inside):
            if not group.rounds:
                body += add_tap(k, *group.first, *group.inside)
            # A group of taps that no element of the run reads inside of the data adds nothing.
            elif kernel.padded or group.inside != (0, 0):
                body.append(loop("taps", group.rounds, partial(sum_taps, k, group)))
        return sequence(body) if body else tirx.Evaluate(0)

    return loop("channel", channels.per_group, sum_channel)


def _data_vector(tiles: _Tiles, k: PrimExpr, indices: Sequence[PrimExpr], lane: Var | None) -> PrimExpr:
    """Return the data of the ``k``-th channels that a vector of the result reads, or one lane of it."""
    kernel, channels = tiles.kernel, tiles.kernel.channels
    if channels.lanewise:
        return tirx.BufferLoad(kernel.data, [tiles.image, tiles.block, *indices, ramp(0, kernel.lanes)])
    first = tiles.block * kernel.lanes
    if lane is not None:
        return kernel.element(tiles.image, channels.source(first + lane, k), indices)
    value = kernel.element(tiles.image, channels.source(first, k), indices)
    return tirx.Broadcast(value, kernel.lanes)


def _zero_from_memory(tile: _Tile, lane: Var | None) -> PrimExpr:
    """Load a zero that stands behind the sums: TVM simplifies 0 * w to 0, whatever w is."""
    lanes = tile.tiles.kernel.lanes
    start = tile.tiles.vectors * lanes
    return tirx.BufferLoad(tile.sums, [ramp(start, lanes) if lane is None else as_expr(start)])


def _add_to_sums(
    tile: _Tile, start: int, weight_index: Sequence[PrimExpr], value: PrimExpr, lane: Var | None
) -> Stmt:
    """Add a value times its weights to the vector of sums at ``start``, or for each lane in a loop."""
    kernel = tile.tiles.kernel
    lanes = kernel.lanes
    if kernel.weight is not None:
        channel = ramp(0, lanes) if lane is None else lane
        value = value * tirx.BufferLoad(kernel.weight, [*weight_index, channel])
    index = ramp(start, lanes) if lane is None else start + lane
    store = tirx.BufferStore(tile.sums, kernel.combine(tirx.BufferLoad(tile.sums, [index]), value), [index])
    return store if lane is None else tirx.For(lane, as_expr(0), as_expr(lanes), _Kind.VECTORIZED, store)


def _finish_tile(tile: _Tile) -> Stmt:
    """Compute the stages after the main block, and store the results."""
    tiles, phase = tile.tiles, tile.tiles.phase
    kernel = tiles.kernel
    statements: list[Stmt] = []
    for block in range(tiles.blocks):
        for element in range(tiles.run.width):
            lane = tirx.Var("lane", "int64")
            value = tirx.BufferLoad(tile.sums, [tile.vector_start(block, element) + lane])
            w = (tile.start + element) * phase.step + phase.first
            indices = [tiles.image, tiles.block + block, *tiles.outer, w, lane]
            body = fusion_analysis.statements_after(kernel.fused, indices, value)
            statements += [tirx.AllocBuffer(part) for part in fusion_analysis.local_buffers_of(body)]
            statements.append(
                tirx.For(lane, as_expr(0), as_expr(kernel.lanes), _Kind.VECTORIZED, sequence(body))
            )
    return sequence(statements)


SCHEDULES["convolution"] = _schedule_convolution
SCHEDULES["pooling"] = _schedule_pooling
