"""Legalize discrete Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from tvm import te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize.extern_loops import independent_kernel
from nnmagic.engine.relax.legalize.fourier_butterflies import factorize
from nnmagic.engine.relax.legalize.fourier_loops import Fourier, TransformSizes
from nnmagic.engine.relax.legalize.fourier_numbers import Number
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, tensor_dtype
from nnmagic.engine.relax.legalize.types import Tensor, Tensors
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt


def _by_elements(
    load: Callable[[PrimExpr], Number], frame: TransformSizes, *, inverse: bool, exponent: float
) -> Callable[[int, str], Tensor]:
    """Transform on a GPU, whose threads compute each element of a pass: a sum of as many terms as the radix.

    A length of other factors is done in one pass. Returns a function of the number of a part and its dtype,
    whose results have the shape (outer, kept, inner).
    """
    outer, inner, n = frame.outer, frame.inner, as_expr(frame.length)

    def given(o: Index, k: Index, i: Index) -> Number:
        is_half = frame.kind == "to real"
        at = tirx.min(k, n - k) if is_half else k
        re, im = load((o * frame.given + at) * inner + i)
        re, im = re.astype("float64"), im.astype("float64")
        return (re, tirx.Select(k > n - k, -im, im)) if is_half else (re, im)

    def turn(radix: Extent, quotient: Extent, stride: int, source: Callable[..., Number]) -> list[Tensor]:
        def part(number: int) -> Tensor:
            term = te.reduce_axis((0, radix), "term")

            def element(o: Index, t: Index, i: Index) -> PrimExpr:
                rows, q = tirx.floordiv(t, stride), tirx.floormod(t, stride)
                row = tirx.floordiv(rows, radix) + quotient * term.var
                column = tirx.floormod(rows, radix)
                re, im = source(o, row * stride + q, i)
                angle = _angle(row, column, radix * quotient)
                sine = tirx.sin(angle) if inverse else -tirx.sin(angle)
                value = re * sine + im * tirx.cos(angle) if number else re * tirx.cos(angle) - im * sine
                return te.sum(value, axis=term)

            return te.compute((outer, frame.length, inner), element)

        return [part(0), part(1)]

    static_length = builders.static_int(frame.length)
    factors = [] if static_length == 0 else (static_length and factorize(static_length)) or [frame.length]
    source, stride = given, 1
    for radix in factors:
        quotient = 1 if static_length is None else static_length // stride // radix
        parts = turn(radix, quotient, stride, source)
        source = partial(lambda both, *at: (both[0](*at), both[1](*at)), parts)
        stride *= builders.static_int(radix) or 1
    size = n.astype("float64")
    scale = tirx.const(1.0, "float64")
    if exponent:
        scale = scale / (size if exponent == -1 else tirx.sqrt(size))
    return lambda number, dtype: te.compute(
        (outer, frame.kept, inner), lambda *at: (source(*at)[number] * scale).astype(dtype)
    )


def _angle(row: Index, column: Index, length: Extent) -> PrimExpr:
    """Return 2 pi row column / length, reduced to [0, 2 pi): sine and cosine need small angles."""
    turns = tirx.floormod(as_expr(row) * column, length).astype("float64") / as_expr(length).astype("float64")
    return tirx.const(2 * math.pi, "float64") * turns


def _flat(tensor: Tensor) -> Tensor:
    return topi.reshape(tensor, [builders.product(tensor.shape)])


def _dft(call: OpCall) -> Value:
    """Transform along the last axis; the inverse divides by the length."""
    inverse, exponent = bool(call.attrs["inverse"]), -1 if call.attrs["inverse"] else 0
    dtype = tensor_dtype(call.args[0])
    wide = "float64" if dtype == "float64" else "float32"

    def compute(real: Tensor, imaginary: Tensor) -> Tensors:
        shape = [builders.as_index(dim) for dim in real.shape]
        frame = TransformSizes(builders.product(shape[:-1]), 1, shape[-1], shape[-1], shape[-1])
        if builders.is_for_gpu():
            pairs = _flat(real), _flat(imaginary)
            made = _by_elements(
                lambda at: (pairs[0](at), pairs[1](at)), frame, inverse=inverse, exponent=exponent
            )
            return [topi.reshape(made(number, dtype), real.shape) for number in (0, 1)]

        def emit(views: Sequence[Buffer]) -> Stmt:
            def load(at: PrimExpr, lanes: int) -> Number:
                return builders.load(views[0], at, lanes, wide), builders.load(views[1], at, lanes, wide)

            def store(at: PrimExpr, value: Number, lanes: int) -> Stmt:
                pairs = zip(views[2:], value, strict=True)
                return builders.sequence([_store(view, at, lanes, part) for view, part in pairs])

            return Fourier(load, store, frame, wide, inverse=inverse, exponent=exponent).emit()

        return _loops([real, imaginary], [real.shape] * 2, dtype, emit)

    return call.te(compute, *call.args)


def _loops(
    operands: Sequence[Tensor],
    shapes: Sequence[Sequence[Extent]],
    dtype: str,
    emit: Callable[[Sequence[Buffer]], Stmt],
) -> Tensors:
    """Return the results of loops, which ``emit`` makes of flat views of the operands and the results."""

    def whole(*buffers: Buffer) -> Stmt:
        views, declared = zip(*map(builders.flat_view, buffers), strict=True)
        return builders.sequence([*declared, emit(views)])

    return independent_kernel(whole, [(shape, dtype) for shape in shapes], operands, "dft")


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
        given = length = stored_length = shape[axis]
        if from_real:
            stored_length = _half_of(length)
        if to_real:
            length = stored_length = integer(attrs["n"]) if attrs["n"] is not None else 2 * (given - 1)
        outer, inner = builders.product(shape[:axis]), builders.product(shape[axis + 1 :])
        kind = "from real" if from_real else "to real" if to_real else "complex"
        frame = TransformSizes(outer, inner, given, length, stored_length, kind)
        result = [*shape[:axis], stored_length, *shape[axis + 1 :], *([] if to_real else [2])]
        if builders.is_for_gpu():
            flat, zero = _flat(data), tirx.const(0, dtype)

            def element(at: PrimExpr) -> Number:
                return (flat(at), zero) if from_real else (flat(at * 2), flat(at * 2 + 1))

            made = _by_elements(element, frame, inverse=inverse, exponent=exponent)
            parts = [topi.reshape(made(number, dtype), result[: len(shape)]) for number in (0, 1)]
            return parts[0] if to_real else topi.stack(parts, axis=-1)

        def emit(views: Sequence[Buffer]) -> Stmt:
            load = _load_real if from_real else _load_pairs
            store = _store_real if to_real else _store_pairs
            ends = partial(load, views[0]), partial(store, views[1])
            return Fourier(*ends, frame, dtype, inverse=inverse, exponent=exponent).emit()

        return _loops([data], [result], dtype, emit)

    return call.te(compute, *call.args)


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
        return builders.sequence([tirx.BufferStore(view, half, [at * 2 + k]) for k, half in enumerate(value)])
    order = [lane + half for lane in range(lanes) for half in (0, lanes)]
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
