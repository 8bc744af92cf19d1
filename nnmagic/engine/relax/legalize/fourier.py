"""Legalize discrete Fourier transforms, by their definition."""

from __future__ import annotations

import math

from tvm import te, tirx

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, te_of
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr
from nnmagic.relay.expr import Attrs


def _angle(row: Index, column: Index, length: Extent) -> PrimExpr:
    """Return 2 pi row column / length, reduced to [0, 2 pi): sine and cosine need small angles."""
    turns = tirx.floormod(row * column, length).astype("float64") / length.astype("float64")
    return tirx.const(2 * math.pi, "float64") * turns


def _dft(attrs: Attrs, real: Tensor, imaginary: Tensor) -> list[Tensor]:
    """Transform along the last axis, accumulated in float64."""
    inverse = bool(attrs["inverse"])
    length = real.shape[-1]

    def part(imaginary_part: bool) -> Tensor:
        n = te.reduce_axis((0, length), "n")

        def element(*index: Index) -> PrimExpr:
            *outer, k = index
            angle = _angle(k, n.var, length)
            sine = tirx.sin(angle) if inverse else -tirx.sin(angle)
            re, im = (tensor(*outer, n).astype("float64") for tensor in (real, imaginary))
            term = re * sine + im * tirx.cos(angle) if imaginary_part else re * tirx.cos(angle) - im * sine
            return te.sum(term, axis=n)

        sums = te.compute(real.shape, element)
        divisor = length.astype("float64") if inverse else tirx.const(1, "float64")
        return te.compute(real.shape, lambda *index: (sums(*index) / divisor).astype(real.dtype))

    return [part(False), part(True)]  # noqa: FBT003 - real, then imaginary


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


RULES.update({"dft": te_of(_dft), "stft": _stft})
