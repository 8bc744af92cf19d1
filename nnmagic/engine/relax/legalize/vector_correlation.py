"""Legalize the correlation of one long vector with another: a convolution of one image of one channel.

Many results are computed in tiles that stay in registers while the window moves over the data; a few results
are inner products, each summed up in vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import tvm
from tvm import tirx

from nnmagic.engine.relax.analysis.attribute_values import integers
from nnmagic.engine.relax.legalize.blocked.layout import lanes_for
from nnmagic.engine.relax.legalize.extern_loops import independent_kernel
from nnmagic.engine.relax.legalize.registry import OPAQUE, OpCall, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.schedules.independent_loops import independent_loop
from nnmagic.engine.relax.schedules.machine_model import Work, cpu_model
from nnmagic.engine.relax.schedules.thread_choice import choose_threads
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr, Stmt

#: The longest window whose taps are unrolled by the loops of convolutions.
_SHORT_WINDOW = 64

#: The vectors of sums of a tile: enough for the latency of additions, and for half of 16 registers.
_VECTORS = 8

#: From how many tiles on a window is so long that the sums of inner products are worth adding up.
_LONG_WINDOW = 4


def is_of_long_vectors(call: OpCall) -> bool:
    """Return whether a convolution is of vectors whose window is long, or of any length."""
    data, window = call.args
    attrs, dtype = call.attrs, tensor_dtype(data)
    of_one = shape_of(data)[:2] == shape_of(window)[:2] == [1, 1]
    size = shape_of(window)[2]
    return (
        of_one
        and not (isinstance(size, int) and size <= _SHORT_WINDOW)
        and (str(attrs["data_layout"]), str(attrs["kernel_layout"])) == ("NCW", "OIW")
        and str(attrs["out_layout"]) in ("", "NCW")
        and not any(integers(attrs["padding"]))
        and {*integers(attrs["strides"]), *integers(attrs["dilation"])} == {1}
        and dtype == tensor_dtype(window) == (str(attrs["out_dtype"]) or dtype)
        and lanes_for(dtype) is not None
    )


def correlate(call: OpCall) -> Value:
    """Lower a convolution of long vectors to loops of its own."""
    machine, dtype = cpu_model(tvm.target.Target.current()), tensor_dtype(call.args[0])

    def compute(data: Tensor, window: Tensor) -> Tensor:
        shape = [1, 1, data.shape[2] - window.shape[2] + 1]

        def emit(*buffers: Buffer) -> Stmt:
            lanes, count = machine.lanes(dtype), builders.as_index(shape[2])
            wide, narrow, single = (
                _Loops(buffers, dtype, *tile) for tile in ((_VECTORS, lanes), (1, lanes), (1, 1))
            )

            def tiles(threads: bool) -> Stmt:
                each = wide.tiles()
                return independent_loop(each, Work.ROW_OPERATIONS.value) if threads else each

            def few() -> Stmt:
                is_long = builders.at_least(wide.size, _LONG_WINDOW * wide.width)
                return builders.branch(is_long, wide.inner_products, narrow_tiles)

            def narrow_tiles() -> Stmt:
                return builders.branch(builders.at_least(count, lanes), narrow.tiles, single.tiles)

            factors = [count, wide.size]
            threaded = partial(choose_threads, machine, Work.MATMUL_MULTIPLICATIONS, factors, tiles)
            return builders.branch(builders.at_least(count, wide.width), threaded, few)

        return independent_kernel(emit, [(shape, dtype)], [data, window], "correlation")

    return call.te(compute, *call.args, primfunc_attrs={"op_pattern": OPAQUE})


class _Loops:
    """The loops of a correlation; all buffers have the shape (1, 1, length)."""

    def __init__(self, buffers: Sequence[Buffer], dtype: str, vectors: int, lanes: int) -> None:
        self.data, self.window, self.result = buffers
        self.dtype, self.lanes, self.width = dtype, lanes, vectors * lanes
        self.count, self.size = (
            builders.as_index(buffer.ty.shape[2]) for buffer in (self.result, self.window)
        )
        self.sums = builders.local_array(self.width, dtype, "sums")

    def tiles(self) -> Stmt:
        """Compute at least a tile of results, each summed up in order."""
        return builders.loop("tile", builders.round_up_div(self.count, self.width), self._tile)

    def inner_products(self) -> Stmt:
        """Compute each result in as many sums as a tile has."""
        return builders.loop("result", self.count, self._inner_product)

    def _tile(self, number: PrimExpr) -> Stmt:
        """Compute a tile; the last begins so that it ends where the results do."""
        start = tirx.min(number * self.width, builders.as_expr(self.count) - self.width)

        def add_tap(tap: PrimExpr) -> Stmt:
            weight = builders.broadcast(self.window[0, 0, tap], self.lanes)
            return self._add(lambda at: self._load(self.data, start + tap + at) * weight)

        stores = [
            tirx.BufferStore(self.result, self._sum(at), [0, 0, builders.ramp(start + at, self.lanes)])
            for at in range(0, self.width, self.lanes)
        ]
        return builders.sequence([*self._zero(), builders.loop("tap", self.size, add_tap), *stores])

    def _inner_product(self, number: PrimExpr) -> Stmt:
        total = builders.local_array(1, self.dtype, "total")
        blocks = builders.as_expr(self.size) // self.width
        rest = builders.as_expr(self.size) - blocks * self.width

        def add_block(block: PrimExpr) -> Stmt:
            first = block * self.width
            return self._add(
                lambda at: self._load(self.data, number + first + at) * self._load(self.window, first + at)
            )

        def add_to_total(value: PrimExpr) -> Stmt:
            return tirx.BufferStore(total, total[0] + value, [0])

        def add_tap(tap: PrimExpr) -> Stmt:
            place = blocks * self.width + tap
            return add_to_total(self.data[0, 0, number + place] * self.window[0, 0, place])

        return builders.sequence(
            [
                *self._zero(),
                tirx.AllocBuffer(total),
                tirx.BufferStore(total, tirx.const(0, self.dtype), [0]),
                builders.loop("block", blocks, add_block),
                builders.loop("tap", rest, add_tap),
                *(add_to_total(self.sums[at]) for at in range(self.width)),
                tirx.BufferStore(self.result, total[0], [0, 0, number]),
            ]
        )

    def _zero(self) -> list[Stmt]:
        zero = builders.broadcast(tirx.const(0, self.dtype), self.lanes)
        stores = (builders.store(self.sums, at, self.lanes, zero) for at in range(0, self.width, self.lanes))
        return [tirx.AllocBuffer(self.sums), *stores]

    def _add(self, value: Callable[[int], PrimExpr]) -> Stmt:
        """Add to the sums the vectors that ``value`` returns for their places in the tile."""
        return builders.sequence(
            [
                builders.store(self.sums, at, self.lanes, self._sum(at) + value(at))
                for at in range(0, self.width, self.lanes)
            ]
        )

    def _sum(self, at: int) -> PrimExpr:
        return builders.load(self.sums, at, self.lanes, self.dtype)

    def _load(self, buffer: Buffer, start: PrimExpr) -> PrimExpr:
        return tirx.BufferLoad(buffer, [0, 0, builders.ramp(start, self.lanes)])
