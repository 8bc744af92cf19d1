"""Define NumPy's Fourier transforms (numpy.fft).

NumPy's reference: https://numpy.org/doc/stable/reference/routines.fft.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import is_complex, is_float
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.numpy.complex_numbers import make_complex
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import arange, concatenate, constant_of
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.operators.arithmetic import NAMED, binary
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.operator_calls import apply
from nnmagic.tinynn.values.symbolic_sizes import as_number, as_size

_Apply: TypeAlias = Callable[[Arguments], v.Value]

#: Transforms along an axis.
_Transform: TypeAlias = Callable[[Arguments, Formula, int], Formula]


def _numbers(call: Arguments, data: Formula) -> Formula:
    """Return the data in a dtype that has a complex one, as NumPy chooses it."""
    if data.dtype == "bfloat16":
        message = f"{call.name} is defined for f32, f64, c64 and c128, not bf16"
        span = call.at("a")
        raise v.RefusalError(message, span, hint=f"convert it first, as in {source_text(span)}.astype(f32)")
    if data.is_complex:
        return data
    if data.is_float:
        # NumPy 2 transforms float32 to complex64, and float16 as float32; integers become float64.
        return data.cast("float32") if data.dtype == "float16" else data
    return data.cast("float64")


def _complex_numbers(call: Arguments, data: Formula) -> Formula:
    numbers = _numbers(call, data)
    return numbers if numbers.is_complex else make_complex(numbers, numbers.op("zeros_like"))


def _resize(call: Arguments, data: Formula, axis: int, length: int) -> Formula:
    """Cut an axis, or put zeros behind it."""
    size = args.static_size(call, data.shape[axis], call.at("a"), "the size of the axis")
    if size >= length:
        return data if size == length else data.between(axis, 0, length)
    pad_width = [(0, length - size if index == axis else 0) for index in range(data.rank)]
    zero = data.like(0)
    return Formula(apply("nn.pad", data.span, data.value, zero.value, pad_width=pad_width), data.span)


def _length(call: Arguments, size: object, *, real_result: bool = False) -> int | None:
    """Return the length of the transform; None where a call decides."""
    if "n" in call:
        length = args.static_int(call, "n")
        if length < 1:
            raise call.refusal("n", f"the length {length} is less than 1")
        return length
    if not isinstance(size, int):
        return None
    length = 2 * (int(size) - 1) if real_result else int(size)
    if length < 1:
        raise call.refusal("a", f"the axis has {int(size)} elements, which is too few")
    return length


def _norm(call: Arguments, *, opposite: bool = False) -> str:
    """Return which direction is scaled; the ``opposite`` one for a transform in the other direction."""
    norm = args.choice_argument(call, "norm", ("backward", "ortho", "forward"), "backward")
    return {"backward": "forward", "forward": "backward"}.get(norm, norm) if opposite else norm


def _complex(*, inverse: bool) -> _Transform:
    """Return fft or ifft."""

    def transform(call: Arguments, data: Formula, axis: int) -> Formula:
        numbers = _complex_numbers(call, data)
        length = _length(call, data.shape[axis])
        if length is not None:
            numbers = _resize(call, numbers, axis, length)
        return numbers.op("numpy.fft", axis=axis, inverse=inverse, norm=_norm(call))

    return transform


def _half(call: Arguments, data: Formula, axis: int, *, opposite: bool = False) -> Formula:
    """Transform real numbers; what is left out is the conjugate of this half."""
    if data.is_complex:
        message = f"{call.name} takes real numbers, not complex ones"
        hint = f"write {call.name.removeprefix('r').replace('ihfft', 'ifft')}"
        raise v.RefusalError(message, call.at("a"), hint=hint)
    numbers, length = _numbers(call, data), _length(call, data.shape[axis])
    if length is not None:
        numbers = _resize(call, numbers, axis, length)
    return numbers.op("numpy.rfft", axis=axis, norm=_norm(call, opposite=opposite))


def _from_half(call: Arguments, data: Formula, axis: int, *, opposite: bool = False) -> Formula:
    """Transform back to real numbers: the other half of the spectrum is the conjugate of the first."""
    numbers = _complex_numbers(call, data)
    length = _length(call, data.shape[axis], real_result=True)
    if length is not None:
        numbers = _resize(call, numbers, axis, length // 2 + 1)
    return numbers.op("numpy.irfft", n=length, axis=axis, norm=_norm(call, opposite=opposite))


def _hermitian(call: Arguments, data: Formula, axis: int) -> Formula:
    """Transform half of a spectrum whose other half is its conjugate."""
    # ``hfft(a, n)`` is ``irfft(conj(a), n) * n``: the direction that is scaled is the other one.
    return _from_half(call, data.conj() if data.is_complex else data, axis, opposite=True)


def _inverse_hermitian(call: Arguments, data: Formula, axis: int) -> Formula:
    return _half(call, data, axis, opposite=True).conj()


def _along(call: Arguments, rank: int, default: tuple[int, ...] | None) -> list[tuple[int, Arguments]]:
    """Return the axes of a transform along several, each with the arguments of the one along it."""
    if default is not None and rank < len(default):
        raise v.RefusalError(f"{call.name} takes a tensor of rank {len(default)} or more", call.at("a"))
    lengths = call.static("s") if "s" in call else None
    listed = lengths if isinstance(lengths, tuple) else () if lengths is None else (lengths,)
    chosen = args.axes(call, rank, "axes")
    if chosen is None:
        count = len(listed) if listed else rank
        chosen = tuple(axis % rank for axis in default) if default else tuple(range(rank))[-count:]
    if listed and len(listed) != len(chosen):
        raise call.refusal("s", f"`s` has {len(listed)} lengths for {len(chosen)} axes")
    given = {name: operand for name, operand in call.given.items() if name in ("a", "norm")}
    inner = []
    for index, axis in enumerate(chosen):
        length = {"n": v.Operand(v.Known(listed[index]), call.at("s"))} if listed else {}
        inner.append((axis, Arguments(call.name, {**given, **length}, call.span)))
    return inner


def _of_one_axis(transform: _Transform) -> _Apply:
    def apply_to(call: Arguments) -> v.Value:
        data = args.formula(call, "a")
        args.require_rank(call, data, "a", 1)
        axis = args.one_axis(call, "axis", data.rank, -1)
        if _is_computed(call, "n") and call.name in _OF_ANY_LENGTH:
            return _of_any_length(call, axis)
        return transform(call, data, axis).value

    return apply_to


#: Transforms of a length that only the call knows, along the last axis: what is transformed, and how.
_CUT_OR_PADDED = (
    "    k = arange(n)\n    size = a.shape[-1]\n"
    "    part = where(k < size, take(a, minimum(k, size - 1), axis=-1), 0)\n"
    "    made = transform(part, norm=norm)\n"
)
_OF_ANY_LENGTH = {
    **dict.fromkeys(("fft", "ifft", "rfft"), _CUT_OR_PADDED),
    "irfft": (
        "    k = arange(n)\n    size = a.shape[-1]\n    place = minimum(k, n - k)\n"
        "    part = where(place < size, take(a, minimum(place, size - 1), axis=-1), 0)\n"
        "    made = real(transform(where(k > n // 2, conj(part), part), norm=norm))\n"
    ),
}


def _of_any_length(call: Arguments, axis: int) -> v.Value:
    """Transform numbers of which so many are taken as only the call knows."""
    text = (
        f"def along(transform, a, n, norm):\n    a = moveaxis(a, {axis}, -1)\n{_OF_ANY_LENGTH[call.name]}"
        f"    return moveaxis(made, -1, {axis})\n"
    )
    name = {"irfft": "ifft"}.get(call.name, call.name)
    transform = next(row for row in FOURIER if row.name == name)
    norm = call.given.get("norm", v.Operand(v.Known(None), call.span))
    operands = (v.Operand(v.BuiltinName(transform), call.span), call.given["a"], call.given["n"], norm)
    return v.LoopCall("text", operands, text=text)


def _over_axes(
    default: tuple[int, ...] | None, others: _Transform, last: _Transform, *, last_first: bool = True
) -> _Apply:
    """Transform along the last of the axes, and along the others; ``last_first``: in which order."""

    def apply_to(call: Arguments) -> v.Value:
        data = args.formula(call, "a")
        args.require_rank(call, data, "a", 1)
        along = _along(call, data.rank, default)
        steps = [(others, axis_) for axis_ in along[:-1]] + [(last, axis_) for axis_ in along[-1:]]
        for transform, (axis, inner) in reversed(steps) if last_first else steps:
            data = transform(inner, data, axis)
        return data.value

    return apply_to


def _shift(*, back: bool) -> _Apply:
    """Move the frequency 0 to the middle of the axes, or back."""

    def apply_to(call: Arguments) -> v.Value:
        data = args.formula(call, "x")
        chosen = args.axes(call, data.rank, "axes")
        for axis in range(data.rank) if chosen is None else chosen:
            size = args.static_size(call, data.shape[axis], call.at("x"), "the size of an axis")
            # A roll by ``size // 2`` begins with the element ``size - size // 2``; of an odd size,
            # the way back begins with another one.
            first = size // 2 if back else (size + 1) // 2
            if 0 < first < size:
                parts = [data.between(axis, first, size), data.between(axis, 0, first)]
                data = concatenate(call, parts, axis)
        return data.value

    return apply_to


def _frequencies(*, half: bool) -> _Apply:
    def apply_to(call: Arguments) -> v.Value:
        if _is_computed(call, "n") or _is_computed(call, "d"):
            return _computed_frequencies(call, half=half).cast(_dtype_of_frequencies(call)).value
        length, step = args.static_int(call, "n"), args.static_number(call, "d", 1.0)
        if length < 1:
            raise call.refusal("n", f"the length {length} is less than 1")
        if step == 0 or isinstance(step, complex):
            raise call.refusal("d", f"`d` cannot be {step}")
        function = np.fft.rfftfreq if half else np.fft.fftfreq
        values = constant_of(function(length, float(step)), "float64", call.span)
        return values.cast(_dtype_of_frequencies(call)).value

    return apply_to


def _dtype_of_frequencies(call: Arguments) -> str:
    dtype = args.dtype_argument(call) or "float64"
    if not (is_float(dtype) or is_complex(dtype)):
        raise call.refusal("dtype", f"the frequencies are floats, not {dtype_short_name(dtype)}")
    return dtype


def _is_computed(call: Arguments, parameter: str) -> bool:
    return parameter in call and isinstance(call.given[parameter].value, v.Computed | v.Dimension)


def _computed_frequencies(call: Arguments, *, half: bool) -> Formula:
    """Return the frequencies of a number of samples, or of a distance, that only the call knows."""
    span, length = call.span, call.given["n"]
    size = as_size(length) or length.value
    length_, count = v.Operand(size, length.span), size
    if half:
        halved = v.Operand(
            binary(NAMED["floor_divide"], "//", length_, v.Operand(v.Known(2), span), span), span
        )
        more = v.Operand(binary(NAMED["add"], "+", halved, v.Operand(v.Known(1), span), span), span)
        count = as_size(more) or more.value
    known = isinstance(count, v.Known) and isinstance(count.value, int)
    if not (known or isinstance(count, v.Dimension)):
        raise v.RefusalError(
            f"{call.name} takes a number of samples, not {describe(length.value)}", length.span
        )
    whole = args.as_formula(as_number(length_), span, call.name)
    number = whole.cast("float64")
    points = arange(count.value if isinstance(count, v.Known) else count, span).cast("float64")  # type: ignore[arg-type]  # an int
    if not half:
        # The second half are negative frequencies; of an even size the one in the middle is, too.
        points = points - number * (points * 2.0 >= number).cast("float64")
    # NumPy multiplies by ``1 / (n * d)``, which has the dtype of d: a quotient would be rounded otherwise.
    width = number
    if "d" in call:
        product = binary(NAMED["multiply"], "*", length_, call.given["d"], span)
        width = args.as_formula(v.Operand(product, span), span, call.name)
        width = width if width.is_float else width.cast("float64")
    width = width.require(whole >= 1, f"{call.name}: the length is less than 1")
    return points * (width.like(1.0) / width).cast("float64")


def _row(name: str, signature: str, apply_to: _Apply, summary: str) -> Builtin:
    return cell_function(name, signature, apply_to, summary, aliases="x=a input=a")


_ALONG_AN_AXIS = "a n? axis?=-1 norm?"
_ALONG_AXES = "a s? axes? norm?"

_FFT, _IFFT = _complex(inverse=False), _complex(inverse=True)

FOURIER: Sequence[Builtin] = (
    _row("fft", _ALONG_AN_AXIS, _of_one_axis(_FFT), "Compute the discrete Fourier transform along an axis."),
    _row(
        "ifft",
        _ALONG_AN_AXIS,
        _of_one_axis(_IFFT),
        "Compute the inverse discrete Fourier transform along an axis.",
    ),
    _row(
        "rfft",
        _ALONG_AN_AXIS,
        _of_one_axis(_half),
        "Compute the first half of the transform of real numbers.",
    ),
    _row("irfft", _ALONG_AN_AXIS, _of_one_axis(_from_half), "Compute the inverse of rfft: real numbers."),
    _row(
        "fft2",
        _ALONG_AXES,
        _over_axes((-2, -1), _FFT, _FFT),
        "Compute the transform along the last two axes.",
    ),
    _row(
        "ifft2",
        _ALONG_AXES,
        _over_axes((-2, -1), _IFFT, _IFFT),
        "Compute the inverse along the last two axes.",
    ),
    _row(
        "fftn",
        _ALONG_AXES,
        _over_axes(None, _FFT, _FFT),
        "Compute the transform along all axes, or those given.",
    ),
    _row(
        "ifftn",
        _ALONG_AXES,
        _over_axes(None, _IFFT, _IFFT),
        "Compute the inverse along all axes, or those given.",
    ),
    _row(
        "rfft2",
        _ALONG_AXES,
        _over_axes((-2, -1), _FFT, _half),
        "Compute rfft along the last axis, fft before it.",
    ),
    _row(
        "irfft2",
        _ALONG_AXES,
        _over_axes((-2, -1), _IFFT, _from_half, last_first=False),
        "Compute the inverse of rfft2: real numbers.",
    ),
    _row(
        "rfftn",
        _ALONG_AXES,
        _over_axes(None, _FFT, _half),
        "Compute rfft along the last axis, fft along others.",
    ),
    _row(
        "irfftn",
        _ALONG_AXES,
        _over_axes(None, _IFFT, _from_half, last_first=False),
        "Compute the inverse of rfftn: real numbers.",
    ),
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
