"""Changes of layout, to blocks of channels and from them: vectors are filled or stored, tiles stay in cache.

Knows TVM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import tirx

from nnmagic.engine.relax.schedules.fusion_analysis import rebuild, stages_of
from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.schedules.registry import SCHEDULES
from nnmagic.engine.relax.tir.builders import expr, loads_of, loop, ramp, same_places, sequence
from nnmagic.engine.relax.tir.visitors import visit

#: The elements from which on a kernel runs on several threads.
_WORTH_THREADS = 200_000

_Kind = tirx.ForKind


def _filled(function: tirx.PrimFunc, machine: CpuModel) -> Any:
    """The last axis of the result, a vector, is filled by loads from wherever its elements stand."""
    stages = stages_of(function)
    if stages is None or len(stages) != 1:
        return function
    (stage,) = stages
    sizes = [int(extent) for extent in stage.extents]
    parallel = machine.parallel and math.prod(sizes) > _WORTH_THREADS
    guarded: list[Any] = []
    visit(stage.value, [(tvm.ir.Call, guarded.append)])
    body: Any = tirx.BufferStore(stage.buffer, stage.value, list(stage.axes))
    outer = next((at for at, size in enumerate(sizes[:-1]) if size > 1), None)
    for at in reversed(range(len(sizes))):
        kind = _Kind.PARALLEL if parallel and at == outer else _Kind.SERIAL
        if at == len(sizes) - 1 and not guarded:
            kind = _Kind.VECTORIZED
        body = tirx.For(stage.axes[at], expr(0), stage.extents[at], kind, body)
    return rebuild(function, [body])


def _to_blocks(function: tirx.PrimFunc, machine: CpuModel) -> Any:
    """Squares of one vector of channels by one of places are transposed in registers."""
    stages = stages_of(function)
    if stages is None or len(stages) != 1:
        return function
    (stage,) = stages
    (load,) = loads_of(stage.value)
    source = load.source
    batch, blocks, *image, lanes = (int(extent) for extent in stage.extents)
    _, channels, *places = (int(dim) for dim in source.ty.shape)
    size = math.prod(image)
    if (
        places != image
        or channels % lanes
        or size < lanes
        or not same_places(load.indices[2:], stage.axes[2:-1])
    ):
        return _filled(function, machine)
    zeros = [expr(0)] * (len(image) - 1)
    parallel = machine.parallel and batch * channels * size > _WORTH_THREADS

    def block(number: Any) -> Any:
        n, at = number // blocks, number % blocks

        def square(start: Any) -> Any:
            across = tirx.Ramp(start, expr(1), lanes)
            rows = [tirx.BufferLoad(source, [n, at * lanes + c, *zeros, across]) for c in range(lanes)]
            return transposed(
                rows,
                str(source.ty.dtype),
                lambda p, value: tirx.BufferStore(
                    stage.buffer, value, [n, at, *zeros, start + p, ramp(0, lanes)]
                ),
            )

        # The last square begins early enough to end with the image.
        last = expr(size - lanes)
        return loop("square", -(-size // lanes), lambda one: square(tirx.min(one * lanes, last)))

    kind = _Kind.PARALLEL if parallel else _Kind.SERIAL
    return rebuild(function, [loop("block", batch * blocks, block, kind)])


def _from_blocks(function: tirx.PrimFunc, machine: CpuModel) -> Any:
    """Squares of one vector of places by one of channels are transposed in registers."""
    stages = stages_of(function)
    if stages is None or len(stages) != 1:
        return function
    (stage,) = stages
    (load,) = loads_of(stage.value)
    source = load.source
    batch, channels, *image = (int(extent) for extent in stage.extents)
    blocks, lanes = int(source.ty.shape[1]), int(source.ty.shape[-1])
    if [int(dim) for dim in source.ty.shape[2:-1]] != image or not same_places(
        load.indices[2:-1], stage.axes[2:]
    ):
        return function  # the channels do not stand first, or the images are turned
    size = math.prod(image)
    zeros = [expr(0)] * (len(image) - 1)
    dtype = str(source.ty.dtype)
    parallel = machine.parallel and batch * channels * size > _WORTH_THREADS

    # The places of an image stand in a row, so the last index may run over all of them.
    def block(number: Any) -> Any:
        n, at = number // blocks, number % blocks
        held = expr(lanes) if channels % lanes == 0 else tirx.min(expr(lanes), channels - at * lanes)

        def one(place: Any, lane: Any) -> Any:
            value = tirx.BufferLoad(source, [n, at, *zeros, place, lane])
            return tirx.BufferStore(stage.buffer, value, [n, at * lanes + lane, *zeros, place])

        def square(start: Any) -> Any:
            rows = [
                tirx.BufferLoad(source, [n, at, *zeros, start * lanes + p, ramp(0, lanes)])
                for p in range(lanes)
            ]
            return transposed(rows, dtype, lambda lane, value: _stored(lane, value, start))

        def _stored(lane: int, value: Any, start: Any) -> Any:
            index = [n, at * lanes + lane, *zeros, tirx.Ramp(start * lanes, expr(1), lanes)]
            store = tirx.BufferStore(stage.buffer, value, index)
            return store if channels % lanes == 0 else tirx.IfThenElse(lane < held, store, None)

        made = []
        if size >= lanes:
            made.append(loop("square", size // lanes, square))
        rest = size % lanes
        if rest:
            made.append(
                loop("w", rest, lambda w: loop("lane", held, lambda lane: one(size - rest + w, lane)))
            )
        return sequence(made)

    kind = _Kind.PARALLEL if parallel else _Kind.SERIAL
    return rebuild(function, [loop("block", batch * blocks, block, kind)])


def transposed(rows: Sequence[Any], dtype: str, stored: Callable[[int, Any], Any]) -> Any:
    """Stores the columns of a square whose rows are vectors, as vectors; their number is a power of two.

    In each step the halves of two rows are exchanged: first single elements of neighbours, at last halves.
    """
    lanes = len(rows)
    count = lanes.bit_length() - 1
    held = [tirx.decl_buffer((lanes * lanes,), dtype, "square", scope="local") for _ in range(count + 1)]

    def at(buffer: Any, row: int) -> Any:
        return tirx.BufferLoad(buffer, [ramp(row * lanes, lanes)])

    made = [tirx.AllocBuffer(buffer) for buffer in held]
    made += [tirx.BufferStore(held[0], row, [ramp(p * lanes, lanes)]) for p, row in enumerate(rows)]
    for step in range(count):
        far = 1 << step
        for row in range(lanes):
            if row & far:
                continue
            for which in (0, 1):
                lower = [lane if not lane & far else lanes + lane - far for lane in range(lanes)]
                upper = [lane + far if not lane & far else lanes + lane for lane in range(lanes)]
                mixed = tirx.Shuffle(
                    [at(held[step], row), at(held[step], row + far)],
                    [tirx.IntImm("int32", lane) for lane in (upper if which else lower)],
                )
                place = (row + far * which) * lanes
                made.append(tirx.BufferStore(held[step + 1], mixed, [ramp(place, lanes)]))
    made += [stored(lane, at(held[count], lane)) for lane in range(lanes)]
    return sequence(made)


SCHEDULES["filled"] = _filled
SCHEDULES["to_blocks"] = _to_blocks
SCHEDULES["from_blocks"] = _from_blocks
