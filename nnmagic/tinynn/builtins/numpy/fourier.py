"""Define NumPy's Fourier transforms (numpy.fft).

A transform of a known length is a few matrix products: Cooley and Tukey's algorithm (1965) with factors up to
64, and for large prime factors Bluestein's (1970). One of a named size is summed as it is defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import is_complex, is_float
from nnmagic.tinynn.builtins.argument_checks import (
    axes,
    choice_argument,
    dtype_argument,
    formula,
    one_axis,
    require_rank,
    static_int,
    static_number,
    static_size,
)
from nnmagic.tinynn.builtins.numpy.complex_numbers import imaginary_part, make_complex, real_part
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import (
    concatenate,
    constant_of,
    size_along,
    static_slice,
)
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.operators.matmul import matrix_product
from nnmagic.tinynn.values.descriptions import source_text
from nnmagic.tinynn.values.operator_calls import apply, call_operator
from nnmagic.tinynn.values.values import Computed, Known, Operand, RefusalError, TupleOf, Value

_Apply: TypeAlias = Callable[[Arguments], Value]

#: A transform of at most so many elements is one product with a matrix.
_LARGEST_MATRIX = 64
#: A prime factor of at most so many, too; of a larger one the matrix would be too large.
_LARGEST_PRIME = 256
#: The longest transform: it needs a constant of as many roots of one, which are computed while compiling.
_LONGEST = 1 << 24


@dataclass(frozen=True, slots=True)
class _Wave:
    """A complex tensor by its parts; no imaginary part stands for zeros."""

    re: Formula
    im: Formula | None

    @property
    def span(self) -> Span:
        """Return the span of the call."""
        return self.re.span

    def each(self, change: Callable[[Formula], Formula]) -> _Wave:
        """Change both parts in the same way."""
        return _Wave(change(self.re), None if self.im is None else change(self.im))

    def imaginary(self) -> Formula:
        """Return the imaginary part, zeros too."""
        return self.re.op("zeros_like") if self.im is None else self.im

    def whole(self) -> Formula:
        """Return the complex tensor."""
        return make_complex(self.re, self.imaginary())

    def times(self, factor: np.ndarray) -> _Wave:
        """Multiply by a constant."""
        re, im = (_constant(part, self.re) for part in (factor.real, factor.imag))
        if self.im is None:
            return _Wave(self.re * re, self.re * im)
        return _Wave(self.re * re - self.im * im, self.re * im + self.im * re)

    def product(self, matrix: np.ndarray) -> _Wave:
        """Multiply the last axis by a constant matrix."""
        re, im = (_constant(part, self.re) for part in (matrix.real, matrix.imag))
        if self.im is None:
            return _Wave(_rows(self.re, re), _rows(self.re, im))
        real = _rows(self.re, re) - _rows(self.im, im)
        return _Wave(real, _rows(self.re, im) + _rows(self.im, re))


def _constant(array: np.ndarray, like: Formula) -> Formula:
    return constant_of(np.ascontiguousarray(array, like.dtype), like.dtype, like.span)


def _rows(rows: Formula, matrix: Formula) -> Formula:
    product = matrix_product(Operand(rows.value, rows.span), Operand(matrix.value, rows.span), rows.span)
    return Formula(product, rows.span)


def _roots(numbers: np.ndarray, length: int, sign: int) -> np.ndarray:
    """Return ``exp(sign 2 pi i numbers / length)``, from angles up to an eighth of a turn."""
    quarters, rest = np.divmod(4 * (numbers % length), length)
    far = 2 * rest > length
    angle = np.pi / 2 * np.where(far, length - rest, rest) / length
    cosine, sine = np.cos(angle), np.sin(angle)
    first = np.where(far, sine + 1j * cosine, cosine + 1j * sine)
    roots: np.ndarray = first * np.array([1, 1j, -1, -1j])[quarters]
    return roots if sign > 0 else roots.conj()


def _matrix(length: int, sign: int) -> np.ndarray:
    index = np.arange(length)
    return _roots(np.outer(index, index), length, sign)


def _factor(length: int) -> int | None:
    """Return the largest divisor that has a matrix; None for a length whose prime factors are all large."""
    divisors = (each for each in range(min(_LARGEST_MATRIX, length // 2), 1, -1) if length % each == 0)
    return next(divisors, None)


def _transform(wave: _Wave, length: int, sign: int) -> _Wave:
    """Transform along the last axis, of a known length, without a factor."""
    if length == 1:
        return wave
    if length > _LONGEST:
        message = f"a Fourier transform of {length:,} elements is not compiled, only of {_LONGEST:,} at most"
        raise RefusalError(message, wave.span)
    factor = _factor(length) if length > _LARGEST_MATRIX else None
    if factor is None:
        small = length <= _LARGEST_PRIME
        return wave.product(_matrix(length, sign)) if small else _bluestein(wave, length, sign)
    rest = length // factor
    lead = wave.re.shape[:-1]
    rank = len(lead) + 2
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    split = wave.each(lambda part: part.reshape((*lead, factor, rest), part).transpose(swapped))
    inner = split.product(_matrix(factor, sign))
    twiddle = _roots(np.outer(np.arange(rest), np.arange(factor)), length, sign)
    turned = inner.times(twiddle).each(lambda part: part.transpose(swapped))
    outer = _transform(turned, rest, sign)
    return outer.each(lambda part: part.transpose(swapped).reshape((*lead, length), part))


def _bluestein(wave: _Wave, length: int, sign: int) -> _Wave:
    """Transform as a convolution with a chirp, whose length is a power of two; in f64."""
    dtype = wave.re.dtype
    wide = wave.each(lambda part: part.cast("float64"))
    index = np.arange(length)
    chirp = _roots(index * index, 2 * length, sign)
    padded = 1 << (2 * length - 1).bit_length()
    kernel = np.zeros(padded, np.complex128)
    kernel[:length] = chirp.conj()
    kernel[padded - length + 1 :] = chirp.conj()[1:][::-1]
    spectrum = np.fft.fft(kernel) / padded
    around = wide.times(chirp).each(lambda part: _resize(part, padded))
    convolved = _transform(_transform(around, padded, -1).times(spectrum), padded, 1)
    cut = convolved.each(lambda part: static_slice(part, part.rank - 1, 0, length))
    return cut.times(chirp).each(lambda part: part.cast(dtype))


def _resize(data: Formula, length: int) -> Formula:
    """Cut the last axis, or put zeros behind it."""
    axis, size = data.rank - 1, data.shape[-1]
    assert isinstance(size, int)
    if size >= length:
        return data if size == length else static_slice(data, axis, 0, length)
    pad_width = [(0, 0)] * axis + [(0, length - size)]
    zero = data.like(0)
    return Formula(apply("nn.pad", data.span, data.value, zero.value, pad_width=pad_width), data.span)


def _wave(call: Arguments, data: Formula) -> _Wave:
    """Return the data as floats of a dtype that has a complex one."""
    if data.dtype == "bfloat16":
        message = f"{call.name} is defined for f32, f64, c64 and c128, not bf16"
        span = call.given["a"].span
        hint = f"convert it first, as in {source_text(span)}.astype(f32)"
        raise RefusalError(message, span, hint=hint)
    if data.is_complex:
        return _Wave(real_part(data), imaginary_part(data))
    if data.is_float:
        return _Wave(data.cast("float32") if data.dtype == "float16" else data, None)
    return _Wave(data.cast("float64"), None)


def _last(data: Formula, axis: int) -> Formula:
    return data.transpose([*(each for each in range(data.rank) if each != axis), axis])


def _back(data: Formula, axis: int) -> Formula:
    order = list(range(data.rank - 1))
    order.insert(axis, data.rank - 1)
    return data.transpose(order)


def _along(call: Arguments, rank: int, default: tuple[int, ...] | None) -> list[tuple[int, Arguments]]:
    """Return the axes of a transform along several, each with the arguments of the one along it."""
    if default is not None and rank < len(default):
        raise RefusalError(f"{call.name} takes a tensor of rank {len(default)} or more", call.given["a"].span)
    lengths = call.static("s") if "s" in call else None
    listed = lengths if isinstance(lengths, tuple) else () if lengths is None else (lengths,)
    chosen = axes(call, rank, "axes")
    if chosen is None:
        count = len(listed) if listed else rank
        chosen = tuple(axis % rank for axis in default) if default else tuple(range(rank))[-count:]
    if listed and len(listed) != len(chosen):
        message = f"{call.name}: `s` has {len(listed)} lengths for {len(chosen)} axes"
        raise RefusalError(message, call.given["s"].span)
    given = {name: operand for name, operand in call.given.items() if name in ("a", "norm")}
    inner = []
    for index, axis in enumerate(chosen):
        length = {"n": Operand(Known(listed[index]), call.given["s"].span)} if listed else {}
        inner.append((axis, Arguments(call.name, {**given, **length}, call.span)))
    return inner


def _length(call: Arguments, size: object, *, real_result: bool = False) -> int | None:
    """Return the length of the transform; None where a call decides."""
    if "n" in call:
        length = static_int(call, "n")
        if length < 1:
            raise RefusalError(f"{call.name}: the length {length} is less than 1", call.given["n"].span)
        return length
    if not isinstance(size, int):
        return None
    length = 2 * (int(size) - 1) if real_result else int(size)
    if length < 1:
        message = f"{call.name}: the axis has {int(size)} elements, which is too few"
        raise RefusalError(message, call.given["a"].span)
    return length


def _scaled(call: Arguments, wave: _Wave, length: int | None, sign: int, like: Formula) -> _Wave:
    """Divide by the length or its root, as ``norm`` says."""
    norm = choice_argument(call, "norm", ("backward", "ortho", "forward"), "backward")
    if norm != "ortho" and (norm == "backward") == (sign < 0):
        return wave
    if length is None:
        size = size_along(like, like.rank - 1, wave.re)
        divisor = size.sqrt() if norm == "ortho" else size
        return wave.each(lambda part: part / divisor)
    number = math.sqrt(length) if norm == "ortho" else float(length)
    return wave.each(lambda part: part * (1 / number))


def _of_any_length(wave: _Wave, sign: int) -> _Wave:
    """Transform along an axis of named size, by the definition."""
    operands = [Operand(part.value, part.span) for part in (wave.re, wave.imaginary())]
    result = call_operator(OPERATORS["dft"], operands, {"inverse": sign > 0}, wave.span)
    assert isinstance(result, TupleOf)
    re, im = result.items
    assert isinstance(re, Computed)
    assert isinstance(im, Computed)
    whole = _Wave(Formula(re, wave.span), Formula(im, wave.span))
    if sign < 0:
        return whole
    size = size_along(wave.re, wave.re.rank - 1, wave.re)  # the operator divides by it
    return whole.each(lambda part: part * size)


def _run(call: Arguments, data: Formula, axis: int, sign: int) -> _Wave:
    """Transform along an axis, which is the last one of the result."""
    wave = _wave(call, data).each(lambda part: _last(part, axis))
    length = _length(call, wave.re.shape[-1])
    if length is None:
        return _scaled(call, _of_any_length(wave, sign), None, sign, wave.re)
    static_size(call, wave.re.shape[-1], call.given["a"].span, "the size of the axis")
    resized = wave.each(lambda part: _resize(part, length))
    return _scaled(call, _transform(resized, length, sign), length, sign, resized.re)


def _plain(sign: int) -> _Apply:
    def apply_to(call: Arguments) -> Value:
        data = formula(call, "a")
        require_rank(call, data, "a", 1)
        axis = one_axis(call, "axis", data.rank, -1)
        return _back(_run(call, data, axis, sign).whole(), axis).value

    return apply_to


def _over_axes(sign: int, default: tuple[int, ...] | None) -> _Apply:
    def apply_to(call: Arguments) -> Value:
        data = formula(call, "a")
        require_rank(call, data, "a", 1)
        for axis, inner in reversed(_along(call, data.rank, default)):
            data = _back(_run(inner, data, axis, sign).whole(), axis)
        return data.value

    return apply_to


def _half(call: Arguments, data: Formula, axis: int) -> Formula:
    """Transform real numbers; what is left out is the conjugate of this half."""
    if data.is_complex:
        message = f"{call.name} takes real numbers, not complex ones"
        hint = f"write {call.name.removeprefix('r').replace('ihfft', 'ifft')}"
        raise RefusalError(message, call.given["a"].span, hint=hint)
    whole = _run(call, data, axis, -1).whole()
    length = static_size(call, whole.shape[-1], call.given["a"].span, "the size of the axis")
    return _back(static_slice(whole, whole.rank - 1, 0, length // 2 + 1), axis)


def _from_half(call: Arguments, data: Formula, axis: int) -> Formula:
    """Transform back to real numbers: the other half of the spectrum is the conjugate of the first."""
    wave = _wave(call, data).each(lambda part: _last(part, axis))
    size = static_size(call, wave.re.shape[-1], call.given["a"].span, "the size of the axis")
    length = _length(call, size, real_result=True)
    assert length is not None
    half = wave.each(lambda part: _resize(part, length // 2 + 1))
    last, end = half.re.rank - 1, (length + 1) // 2

    def mirrored(part: Formula, factor: float) -> Formula:
        if end <= 1:
            return part
        tail = static_slice(part, last, 1, end).op("reverse", axis=last) * factor
        return concatenate(call, [part, tail], last)

    im = None if half.im is None else mirrored(half.im, -1.0)
    whole = _Wave(mirrored(half.re, 1.0), im)
    result = _scaled(call, _transform(whole, length, 1), length, 1, whole.re)
    return _back(result.re, axis)


def _of_one_axis(transform: Callable[[Arguments, Formula, int], Formula]) -> _Apply:
    def apply_to(call: Arguments) -> Value:
        data = formula(call, "a")
        require_rank(call, data, "a", 1)
        return transform(call, data, one_axis(call, "axis", data.rank, -1)).value

    return apply_to


def _opposite(call: Arguments) -> Arguments:
    """Return the arguments with the other scaling: that of the transform in the other direction."""
    norm = choice_argument(call, "norm", ("backward", "ortho", "forward"), "backward")
    other = {"backward": "forward", "forward": "backward"}.get(norm, norm)
    return Arguments(call.name, {**call.given, "norm": Operand(Known(other), call.span)}, call.span)


def _hermitian(call: Arguments, data: Formula, axis: int) -> Formula:
    """Transform half of a spectrum whose other half is its conjugate."""
    conjugate = data.conj() if data.is_complex else data
    return _from_half(_opposite(call), conjugate, axis)


def _inverse_hermitian(call: Arguments, data: Formula, axis: int) -> Formula:
    return _half(_opposite(call), data, axis).conj()


def _real_over_axes(default: tuple[int, ...] | None) -> _Apply:
    """Return rfftn: the last axis as of real numbers, then the others."""

    def apply_to(call: Arguments) -> Value:
        data = formula(call, "a")
        require_rank(call, data, "a", 1)
        *others, (axis, inner) = _along(call, data.rank, default)
        data = _half(inner, data, axis)
        for each, of_each in reversed(others):
            data = _back(_run(of_each, data, each, -1).whole(), each)
        return data.value

    return apply_to


def _back_to_real(default: tuple[int, ...] | None) -> _Apply:
    """Return irfftn: the other axes, then the last one to real numbers."""

    def apply_to(call: Arguments) -> Value:
        data = formula(call, "a")
        require_rank(call, data, "a", 1)
        *others, (last, of_last) = _along(call, data.rank, default)
        for axis, inner in others:
            data = _back(_run(inner, data, axis, 1).whole(), axis)
        return _from_half(of_last, data, last).value

    return apply_to


def _shift(*, back: bool) -> _Apply:
    """Move the frequency 0 to the middle of the axes, or back."""

    def apply_to(call: Arguments) -> Value:
        data = formula(call, "x")
        chosen = axes(call, data.rank, "axes")
        for axis in range(data.rank) if chosen is None else chosen:
            size = static_size(call, data.shape[axis], call.given["x"].span, "the size of an axis")
            first = size // 2 if back else (size + 1) // 2
            if 0 < first < size:
                parts = [static_slice(data, axis, first, size), static_slice(data, axis, 0, first)]
                data = concatenate(call, parts, axis)
        return data.value

    return apply_to


def _frequencies(*, half: bool) -> _Apply:
    def apply_to(call: Arguments) -> Value:
        length, step = static_int(call, "n"), static_number(call, "d", 1.0)
        if length < 1:
            raise RefusalError(f"{call.name}: the length {length} is less than 1", call.given["n"].span)
        if step == 0 or isinstance(step, complex):
            raise RefusalError(f"{call.name}: `d` cannot be {step}", call.given["d"].span)
        function = np.fft.rfftfreq if half else np.fft.fftfreq
        dtype = dtype_argument(call) or "float64"
        if not (is_float(dtype) or is_complex(dtype)):
            message = f"{call.name}: the frequencies are floats, not {dtype_short_name(dtype)}"
            raise RefusalError(message, call.given["dtype"].span)
        return constant_of(function(length, float(step)), "float64", call.span).cast(dtype).value

    return apply_to


def _row(name: str, signature: str, apply_to: _Apply, summary: str) -> Builtin:
    return Builtin(name, signature, apply_to, summary, None, "x=a input=a", method=False)


_ALONG_AN_AXIS = "a n? axis?=-1 norm?"
_ALONG_AXES = "a s? axes? norm?"

FOURIER: Sequence[Builtin] = (
    _row("fft", _ALONG_AN_AXIS, _plain(-1), "Compute the discrete Fourier transform along an axis."),
    _row("ifft", _ALONG_AN_AXIS, _plain(1), "Compute the inverse discrete Fourier transform along an axis."),
    _row(
        "rfft",
        _ALONG_AN_AXIS,
        _of_one_axis(_half),
        "Compute the first half of the transform of real numbers.",
    ),
    _row("irfft", _ALONG_AN_AXIS, _of_one_axis(_from_half), "Compute the inverse of rfft: real numbers."),
    _row("fft2", _ALONG_AXES, _over_axes(-1, (-2, -1)), "Compute the transform along the last two axes."),
    _row("ifft2", _ALONG_AXES, _over_axes(1, (-2, -1)), "Compute the inverse along the last two axes."),
    _row("fftn", _ALONG_AXES, _over_axes(-1, None), "Compute the transform along all axes, or those given."),
    _row("ifftn", _ALONG_AXES, _over_axes(1, None), "Compute the inverse along all axes, or those given."),
    _row("rfft2", _ALONG_AXES, _real_over_axes((-2, -1)), "Compute rfft along the last axis, fft before it."),
    _row("irfft2", _ALONG_AXES, _back_to_real((-2, -1)), "Compute the inverse of rfft2: real numbers."),
    _row("rfftn", _ALONG_AXES, _real_over_axes(None), "Compute rfft along the last axis, fft along others."),
    _row("irfftn", _ALONG_AXES, _back_to_real(None), "Compute the inverse of rfftn: real numbers."),
    _row("hfft", _ALONG_AN_AXIS, _of_one_axis(_hermitian), "Compute the real transform of half a signal."),
    _row("ihfft", _ALONG_AN_AXIS, _of_one_axis(_inverse_hermitian), "Compute the inverse of hfft."),
    _row("fftshift", "x axes?", _shift(back=False), "Move the frequency 0 to the middle of the axes."),
    _row("ifftshift", "x axes?", _shift(back=True), "Move the frequency 0 back to the front of the axes."),
    _row(
        "fftfreq",
        "n d? * dtype?",
        _frequencies(half=False),
        "Return the frequencies of fft, of n samples d apart.",
    ),
    _row("rfftfreq", "n d? * dtype?", _frequencies(half=True), "Return the frequencies of rfft."),
)
