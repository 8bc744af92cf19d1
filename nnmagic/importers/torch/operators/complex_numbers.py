"""Import what complex tensors alone have: their parts, conjugates and Fourier transforms.

What they compute: https://docs.pytorch.org/docs/stable/complex_numbers.html
"""

from __future__ import annotations

import numpy as np

from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.importers.torch.calls import AtenCall
from nnmagic.importers.torch.mathematics import convert, in_float32
from nnmagic.importers.torch.registry import operator, operators
from nnmagic.relay.types import is_complex, part_dtype

#: NumPy's names of how torch scales a transform: not, by the root of its length, by its length.
_FORWARD, _INVERSE = ("backward", "ortho", "forward"), ("forward", "ortho", "backward")


def _fft(call: AtenCall, data: Value, axes: list[int], *, forward: bool) -> Value:
    norm = (_FORWARD if forward else _INVERSE)[call.integer("normalization")]
    for axis in axes:
        data = op("numpy.fft", data, axis=axis, inverse=not forward, norm=norm)
    return data


@operator("_fft_c2c")
def _c2c(call: AtenCall) -> Value:
    return _fft(call, call["self"], call.ints("dim"), forward=call.flag("forward"))


@operator("_fft_r2c")
def _r2c(call: AtenCall) -> Value:
    data, axes = call["self"], call.ints("dim")
    if not call.flag("onesided"):
        return _fft(call, convert(data, call.dtype), axes, forward=True)
    norm = _FORWARD[call.integer("normalization")]
    return _fft(call, op("numpy.rfft", data, axis=axes[-1], norm=norm), axes[:-1], forward=True)


@operator("_fft_c2r")
def _c2r(call: AtenCall) -> Value:
    *axes, last = call.ints("dim")
    data = _fft(call, call["self"], axes, forward=False)
    norm = _INVERSE[call.integer("normalization")]
    return op("numpy.irfft", data, n=call.integer("last_dim_size"), axis=last, norm=norm)


@operator("polar")
def _polar(call: AtenCall) -> Value:
    size, angle = call["abs"], call["angle"]
    return op("complex.make", *_alike(call, size * op("cos", angle), size * op("sin", angle)))


def _alike(call: AtenCall, *parts: Value) -> list[Value]:
    """Return the parts of the result, which has both their dtypes and shapes."""
    return [call.expand(convert(part, part_dtype(call.dtype)), call.shape) for part in parts]


def conjugate(data: Value) -> Value:
    """Return the complex conjugate; real numbers are their own."""
    return op("complex.conj", data) if is_complex(data.dtype) else data


def _conj(call: AtenCall) -> Value:
    return conjugate(call.number_value("self", call.dtype))


def absolute(data: Value) -> Value:
    """Return absolute values, of complex numbers as real ones."""
    return op("complex.abs" if is_complex(data.dtype) else "abs", data)


def _parts(data: Value) -> tuple[Value, Value]:
    return op("complex.real", data), op("complex.imag", data)


def _expm1(data: Value) -> Value:
    """Compute exp(z) - 1 without loss of precision near 0."""
    x, y = _parts(data)
    half = op("sin", y * 0.5)
    return op(
        "complex.make", op("numpy.expm1", x) * op("cos", y) - half * half * 2, op("exp", x) * op("sin", y)
    )


def _log1p(data: Value) -> Value:
    """Compute log(1 + z) without loss of precision near 0."""
    x, y = _parts(data)
    near = op("logical_and", op("abs", x) < 0.5, op("abs", y) < 0.5)
    size = op("log", op("numpy.hypot", x + 1, y))
    small = op("numpy.log1p", near.choose(x * (x + 2) + y * y, 0)) * 0.5
    return op("complex.make", near.choose(small, size), op("numpy.arctan2", y, x + 1))


def near_zero(call: AtenCall) -> Value:
    """Import functions that are computed without loss of precision near 0."""
    data = convert(call["self"], call.dtype)
    if is_complex(data.dtype):
        return {"expm1": _expm1, "log1p": _log1p}[call.own_name](data)
    return in_float32(f"numpy.{call.own_name}", data)


@operator("fft_fftfreq", "fft_rfftfreq")
def _frequencies(call: AtenCall) -> Value:
    frequencies = np.fft.rfftfreq if call.name == "aten.fft_rfftfreq" else np.fft.fftfreq
    return convert(constant(frequencies(call.integer("n"), call.number("d", 1.0))), call.dtype)


operators(
    {
        "_conj conj _conj_physical conj_physical _conj_copy": _conj,
        "_neg_view _neg_view_copy": lambda call: op("negative", call["self"]),
        "complex": lambda call: op("complex.make", *_alike(call, call["real"], call["imag"])),
        "imag": lambda call: op("complex.imag", call["self"]),
        "real": lambda call: op("complex.real", call["self"]),
        "resolve_conj resolve_neg": lambda call: call["self"],
        "view_as_complex view_as_complex_copy": lambda call: op("complex.of_pairs", call["self"]),
        "view_as_real view_as_real_copy": lambda call: op("complex.pairs", call["self"]),
    }
)
