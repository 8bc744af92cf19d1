"""Legalize discrete Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from tvm import te, tirx

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize.extern_loops import USES_WHOLE_ARRAYS
from nnmagic.engine.relax.legalize.fourier_loops import Fourier, Frame, Number
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, tensor_dtype
from nnmagic.engine.relax.legalize.types import Tensor, Tensors
from nnmagic.engine.relax.schedules.independent_loops import INDEPENDENT
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt


def _dft(call: OpCall) -> Value:
    """Transform along the last axis; the inverse divides by the length."""
    inverse = bool(call.attrs["inverse"])
    dtype = tensor_dtype(call.args[0])
    wide = "float64" if dtype == "float64" else "float32"

    def compute(real: Tensor, imaginary: Tensor) -> Tensors:
        shape = [builders.as_index(dim) for dim in real.shape]
        frame = Frame(builders.product(shape[:-1]), 1, shape[-1], shape[-1], shape[-1])

        def emit(views: Sequence[Buffer]) -> Stmt:
            def load(at: PrimExpr, lanes: int) -> Number:
                return builders.load(views[0], at, lanes, wide), builders.load(views[1], at, lanes, wide)

            def store(at: PrimExpr, value: Number, lanes: int) -> Stmt:
                parts = zip(views[2:], value, strict=True)
                return builders.sequence([_store(view, at, lanes, part) for view, part in parts])

            exponent = -1 if inverse else 0
            return Fourier(load, store, frame, wide, inverse=inverse, exponent=exponent).emit()

        return _loops([real, imaginary], [real.shape] * 2, dtype, emit)

    return call.te(compute, *call.args, primfunc_attrs={USES_WHOLE_ARRAYS: True})


def _loops(
    operands: Sequence[Tensor],
    shapes: Sequence[Sequence[Extent]],
    dtype: str,
    emit: Callable[[Sequence[Buffer]], Stmt],
) -> Tensors:
    """Return the results of loops, which ``emit`` makes of flat views of the operands and the results."""

    def whole(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        views, declared = zip(*map(builders.flat_view, [*ins, *outs]), strict=True)
        return builders.sequence([*declared, emit(views)])

    attrs = {KIND: INDEPENDENT}
    return te.extern(shapes, operands, whole, dtype=[dtype] * len(shapes), name="dft", attrs=attrs)


def _store(view: Buffer, at: PrimExpr, lanes: int, value: PrimExpr) -> Stmt:
    """Store a vector in the array's dtype."""
    dtype = builders.vector_type(builders.dtype_of(view), lanes)
    return builders.store(
        view, at, lanes, value if builders.dtype_of(value) == dtype else tirx.Cast(dtype, value)
    )


def _numpy_transform(call: OpCall) -> Value:
    """Transform along an axis: pairs of floats, or real numbers to pairs, or pairs to real numbers."""
    dtype, attrs = tensor_dtype(call.args[0]), call.attrs
    from_real, to_real = call.name == "numpy.rfft", call.name == "numpy.irfft"
    inverse = to_real or bool(attrs.get("inverse"))
    norm = str(attrs["norm"])
    exponent = -0.5 if norm == "ortho" else -1 if (norm == "backward") == inverse else 0

    def compute(data: Tensor) -> Tensors:
        shape = [builders.as_index(dim) for dim in data.shape[: None if from_real else -1]]
        axis = integer(attrs["axis"]) % len(shape)
        given = length = kept = shape[axis]
        if from_real:
            kept = _half_of(length)
        if to_real:
            length = kept = integer(attrs["n"]) if attrs["n"] is not None else 2 * (given - 1)
        outer, inner = builders.product(shape[:axis]), builders.product(shape[axis + 1 :])
        kind = "from real" if from_real else "to real" if to_real else "complex"
        frame = Frame(outer, inner, given, length, kept, kind)
        result = [*shape[:axis], kept, *shape[axis + 1 :], *([] if to_real else [2])]

        def emit(views: Sequence[Buffer]) -> Stmt:
            load = _load_real if from_real else _load_pairs
            store = _store_real if to_real else _store_pairs
            ends = partial(load, views[0]), partial(store, views[1])
            return Fourier(*ends, frame, dtype, inverse=inverse, exponent=exponent).emit()

        return _loops([data], [result], dtype, emit)

    return call.te(compute, *call.args, primfunc_attrs={USES_WHOLE_ARRAYS: True})


def _half_of(length: Extent) -> Extent:
    """Return how many frequencies are not negative."""
    return length // 2 + 1 if isinstance(length, int) else tirx.floordiv(length, 2) + 1


def _load_real(view: Buffer, at: PrimExpr, lanes: int) -> Number:
    dtype = builders.dtype_of(view)
    return builders.load(view, at, lanes, dtype), builders.broadcast(tirx.const(0, dtype), lanes)


def _store_real(view: Buffer, at: PrimExpr, value: Number, lanes: int) -> Stmt:
    return builders.store(view, at, lanes, value[0])


def _load_pairs(view: Buffer, at: PrimExpr, lanes: int) -> Number:
    if lanes == 1:
        return view[at * 2], view[at * 2 + 1]
    dtype = builders.dtype_of(view)
    vectors = [builders.load(view, at * 2 + first, lanes, dtype) for first in (0, lanes)]
    re, im = (tirx.Shuffle(vectors, list(range(part, 2 * lanes, 2))) for part in (0, 1))
    return re, im


def _store_pairs(view: Buffer, at: PrimExpr, value: Number, lanes: int) -> Stmt:
    if lanes == 1:
        return builders.sequence([tirx.BufferStore(view, part, [at * 2 + k]) for k, part in enumerate(value)])
    order = [lane + part for lane in range(lanes) for part in (0, lanes)]
    stores = [
        builders.store(view, at * 2 + first, lanes, tirx.Shuffle(list(value), order[first : first + lanes]))
        for first in (0, lanes)
    ]
    return builders.sequence(stores)


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
RULES.update(dict.fromkeys(("numpy.fft", "numpy.rfft", "numpy.irfft"), _numpy_transform))
