"""Schedule changes of layout, to blocks of channels and from them.

Vectors are filled or stored as a whole, and squares of the image stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm
from tvm import tirx

from nnmagic.engine.relax.schedules.fusion_analysis import read_elementwise_stage, with_statements
from nnmagic.engine.relax.schedules.kernel_analysis import Stage, substitute
from nnmagic.engine.relax.schedules.machine_model import CpuModel, Work
from nnmagic.engine.relax.schedules.registry import SCHEDULES
from nnmagic.engine.relax.schedules.thread_choice import choose_threads
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    as_index,
    collect_loads,
    dtype_of,
    indices_are_axes,
    loop,
    parallel_loop,
    ramp,
    sequence,
)
from nnmagic.engine.relax.tir.transposition import transpose
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr, Stmt
from nnmagic.engine.relax.tir.visitors import collect

_Kind = tirx.ForKind


def _fill_vectors(
    function: tirx.PrimFunc, stage: Stage, sizes: Sequence[Extent], machine: CpuModel
) -> tirx.PrimFunc:
    """Fill the last axis of the result, a vector, by loads from wherever its elements are."""
    calls = collect(tvm.ir.Call, stage.value)
    outermost = next((number for number, size in enumerate(sizes[:-1]) if size != 1), None)

    def fill(threads: bool) -> Stmt:
        axes = [tirx.Var(axis.name, dtype_of(axis)) for axis in stage.axes]
        value = substitute(stage.value, dict(zip(stage.axes, axes, strict=True)))
        body: Stmt = tirx.BufferStore(stage.buffer, value, axes)
        for number in reversed(range(len(sizes))):
            kind = _Kind.PARALLEL if threads and number == outermost else _Kind.SERIAL
            if number == len(sizes) - 1 and not calls:  # a call guards a load: the vector would read all
                kind = _Kind.VECTORIZED
            body = tirx.For(axes[number], as_expr(0), as_expr(sizes[number]), kind, body)
        return body

    return with_statements(function, [choose_threads(machine, Work.MOVED_ELEMENTS, sizes, fill)])


def _schedule_to_blocks(function: tirx.PrimFunc, machine: CpuModel) -> tirx.PrimFunc:
    """Transpose squares of channels by pixels, a vector long and wide, in registers."""
    kernel = read_elementwise_stage(function)
    if kernel is None:
        return function
    stage, sizes = kernel
    (load,) = collect_loads(stage.value)
    source = load.source
    batch, blocks, *image, lanes = sizes
    _, channels, *source_image = map(as_index, source.ty.shape)
    size = math.prod(image)
    same_image = source_image == image and indices_are_axes(load.indices[2:], stage.axes[2:-1])
    # Squares need whole blocks of channels and a row of pixels as long as a vector.
    if not same_image or channels % lanes or size < lanes:
        return _fill_vectors(function, stage, sizes, machine)
    zeros = [as_expr(0)] * (len(image) - 1)
    # The last square begins early enough to end with the image.
    last = as_expr(size - lanes)

    def transpose_block(number: PrimExpr) -> Stmt:
        n, block = number // blocks, number % blocks

        def transpose_square(start: PrimExpr) -> Stmt:
            pixels = tirx.Ramp(start, as_expr(1), lanes)
            rows = [tirx.BufferLoad(source, [n, block * lanes + c, *zeros, pixels]) for c in range(lanes)]
            statements, columns = transpose(rows, dtype_of(source))
            for pixel, value in enumerate(columns):
                indices = [n, block, *zeros, start + pixel, ramp(0, lanes)]
                statements.append(tirx.BufferStore(stage.buffer, value, indices))
            return sequence(statements)

        squares = -(-size // lanes)
        return loop("square", squares, lambda square: transpose_square(tirx.min(square * lanes, last)))

    body = choose_threads(
        machine,
        Work.MOVED_ELEMENTS,
        (batch, channels * size),
        lambda threads: parallel_loop("block", as_index(batch * blocks), transpose_block, wanted=threads),
    )
    return with_statements(function, [body])


def _schedule_from_blocks(function: tirx.PrimFunc, machine: CpuModel) -> tirx.PrimFunc:
    """Transpose squares of pixels by channels, a vector long and wide, in registers."""
    kernel = read_elementwise_stage(function)
    if kernel is None:
        return function
    stage, (batch, channels, *image) = kernel
    (load,) = collect_loads(stage.value)
    source = load.source
    blocks, *source_image, lanes = map(int, source.ty.shape[1:])
    if source_image != image or not indices_are_axes(load.indices[2:-1], stage.axes[2:]):
        return function  # the channels are not the first axis, or the images are transposed
    size = math.prod(image)
    zeros = [as_expr(0)] * (len(image) - 1)
    whole = channels % lanes == 0

    # An image is contiguous, so the last index may run over all of its pixels.
    def transpose_block(number: PrimExpr) -> Stmt:
        n, block = number // blocks, number % blocks
        # The lanes of the last block beyond the channels are padding, which the result has no room
        # for.
        used = as_expr(lanes) if whole else tirx.min(as_expr(lanes), channels - block * lanes)

        def copy_element(pixel: Index, lane: PrimExpr) -> Stmt:
            value = tirx.BufferLoad(source, [n, block, *zeros, pixel, lane])
            return tirx.BufferStore(stage.buffer, value, [n, block * lanes + lane, *zeros, pixel])

        def transpose_square(number: PrimExpr) -> Stmt:
            start = number * lanes
            rows = [
                tirx.BufferLoad(source, [n, block, *zeros, start + p, ramp(0, lanes)]) for p in range(lanes)
            ]
            statements, columns = transpose(rows, dtype_of(source))
            for lane, value in enumerate(columns):
                indices = [n, block * lanes + lane, *zeros, tirx.Ramp(start, as_expr(1), lanes)]
                statement = tirx.BufferStore(stage.buffer, value, indices)
                statements.append(statement if whole else tirx.IfThenElse(lane < used, statement, None))
            return sequence(statements)

        remainder = size % lanes

        def copy_rest(w: PrimExpr) -> Stmt:
            return loop("lane", used, lambda lane: copy_element(size - remainder + w, lane))

        squares = [loop("square", size // lanes, transpose_square)] if size >= lanes else []
        return sequence([*squares, *([loop("w", remainder, copy_rest)] if remainder else [])])

    body = choose_threads(
        machine,
        Work.MOVED_ELEMENTS,
        (batch, channels * size),
        lambda threads: parallel_loop("block", as_index(batch * blocks), transpose_block, wanted=threads),
    )
    return with_statements(function, [body])


SCHEDULES["to_blocks"] = _schedule_to_blocks
SCHEDULES["from_blocks"] = _schedule_from_blocks
