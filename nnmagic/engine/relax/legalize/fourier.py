"""Legalize discrete Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import te, tirx

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize.fourier_loops import Fourier, Number
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, tensor_dtype
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.schedules.independent_loops import INDEPENDENT
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.types import Buffer, Index, PrimExpr, Stmt


def _dft(call: OpCall) -> Value:
    """Transform along the last axis; the inverse divides by the length."""
    inverse = bool(call.attrs["inverse"])
    dtype = tensor_dtype(call.args[0])
    wide = "float64" if dtype == "float64" else "float32"

    def compute(real: Tensor, imaginary: Tensor) -> list[Tensor]:
        shape = [builders.as_index(dim) for dim in real.shape]

        def emit(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            views, declared = zip(*map(builders.flat_view, [*ins, *outs]), strict=True)

            def source(at: PrimExpr) -> Number:
                return views[0][at].astype(wide), views[1][at].astype(wide)

            def sink(at: PrimExpr, value: Number) -> list[Stmt]:
                return [
                    tirx.BufferStore(view, part.astype(dtype), [at])
                    for view, part in zip(views[2:], value, strict=True)
                ]

            sizes = builders.product(shape[:-1]), shape[-1], 1
            exponent = -1 if inverse else 0
            loops = Fourier(source, sink, sizes, wide, inverse=inverse, exponent=exponent)
            return builders.sequence([*declared, loops.emit()])

        return te.extern(
            [real.shape] * 2,
            [real, imaginary],
            emit,
            dtype=[dtype] * 2,
            name="dft",
            attrs={KIND: INDEPENDENT},
        )

    return call.te(compute, *call.args)


def _stft(call: OpCall) -> Value:
    """Lower to windowed transforms of overlapping frames: (batch, frequency, frame, real and imaginary).

    The angles are float32, as Relay's are.
    """
    attrs = call.attrs
    size = integer(attrs["n_fft"])
    hop = integer(attrs["hop_length"]) if integer(attrs["hop_length"]) > 0 else size // 4
    width = integer(attrs["win_length"]) if integer(attrs["win_length"]) > 0 else size
    divisor = tirx.const(math.sqrt(size) if attrs["normalized"] else 1.0, "float32")
    rows = size // 2 + 1 if attrs["onesided"] else size

    def compute(data: Tensor, window: Tensor) -> Tensor:
        batch, length = (1, *data.shape) if len(data.shape) == 1 else data.shape
        frames = (length - size) // hop + 1
        n = te.reduce_axis((0, width), "n")

        def element(b: Index, row: Index, frame: Index, part: PrimExpr) -> PrimExpr:
            angle = tirx.const(2 * math.pi, "float32") * row.astype("float32") * n.var.astype("float32")
            angle = angle / tirx.const(width, "float32")
            signal = data(frame * hop + n) if len(data.shape) == 1 else data(b, frame * hop + n)
            wave = tirx.Select(part == 0, tirx.cos(angle), -tirx.sin(angle))
            return te.sum(window(n) * signal * wave.astype(data.dtype), axis=n)

        sums = te.compute((batch, rows, frames, 2), element)
        scaled = te.compute(sums.shape, lambda *at: sums(*at) / divisor.astype(data.dtype))
        return scaled if len(data.shape) == 2 else te.compute(sums.shape[1:], lambda *at: scaled(0, *at))

    return call.te(compute, *call.args)


RULES.update({"dft": _dft, "stft": _stft})
