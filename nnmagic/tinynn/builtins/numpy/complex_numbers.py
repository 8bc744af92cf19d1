"""Define the functions of complex numbers: their parts, angles and conjugates.

NumPy's reference: https://numpy.org/doc/stable/reference/routines.math.html
"""

from __future__ import annotations

import math

from nnmagic.relay.complex_numbers.operators import ANGLE, IMAG, MAKE, REAL
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.numpy.mathematics import float_function, fold_numbers, signbit
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, cell_function, free_function, numpy_function
from nnmagic.tinynn.values.complex_support import holds_complex
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.operator_calls import cast, is_tensor, tensor_type
from nnmagic.tinynn.values.symbolic_sizes import as_number
from nnmagic.tinynn.values.values import Computed, Known, Operand, RefusalError, Value


def real_part(data: Formula) -> Formula:
    """Return the real part; a real tensor is its own."""
    return data.op(REAL) if data.is_complex else data


def imaginary_part(data: Formula) -> Formula:
    """Return the imaginary part; that of a real tensor is zero."""
    return data.op(IMAG) if data.is_complex else data.op("zeros_like")


def make_complex(real: Formula, imaginary: Formula) -> Formula:
    """Return the complex tensor of two tensors of one shape and dtype, f32 or f64."""
    return real.op(MAKE, imaginary)


def _expm1(z: Formula) -> Formula:
    """Compute exp(z) - 1, whose real part is ``expm1(x) cos y - 2 sin(y / 2)**2``."""
    if not z.is_complex:
        return z.op("numpy.expm1")
    x, y, power = real_part(z), imaginary_part(z), z.exp()
    half = (y * 0.5).op("sin")
    near = x.equal(0).choose(0, x.op("numpy.expm1")) * y.op("cos") - half * half * 2  # of -0 it is 0
    re = (x.abs() > 30).choose(real_part(power) - 1, near)
    return make_complex(re, imaginary_part(power))


def _log1p(z: Formula) -> Formula:
    """Compute log(1 + z), near 0 from ``|1 + z|**2 - 1``, whose digits are all there."""
    if not z.is_complex:
        return z.op("numpy.log1p")
    x, y = real_part(z), imaginary_part(z)
    power = make_complex(1 + x, y).log()
    near = (x.abs() < 0.5) & (y.abs() < 0.5)
    excess = near.choose(x * (x + 2) + y * y, 0)
    return make_complex(near.choose(excess.op("numpy.log1p") * 0.5, real_part(power)), imaginary_part(power))


def _real(call: Arguments) -> Value:
    return fold_numbers(call, "real") or real_part(args.formula(call, "val")).value


def _imag(call: Arguments) -> Value:
    return fold_numbers(call, "imag") or imaginary_part(args.formula(call, "val")).value


def _conjugate(call: Arguments) -> Value:
    folded = fold_numbers(call, "conjugate")
    if folded is not None:
        return folded
    data = args.formula(call, "x")
    if data.dtype == "bool":
        span = call.at("x")
        hint = f"leave it out: {source_text(span)} is its own conjugate"
        raise RefusalError(f"{call.name} is defined for numbers, not bool_", span, hint=hint)
    return data.conj().value


def _angle(call: Arguments) -> Value:
    """Compute angles in the complex plane; of real numbers 0 or pi, by their sign."""
    degrees = args.flag(call, "deg")
    data = args.formula(call, "z")
    if data.is_complex:
        result = data.op(ANGLE)
    else:
        data = data.cast("float64") if data.dtype == "bool" else args.as_float(data)
        flat = signbit(data).choose(math.pi, data.op("zeros_like"))
        result = data.op("isnan").choose(data, flat)
    return (result * (180 / math.pi) if degrees else result).value


def _has_imaginary_part(call: Arguments) -> Value:
    return _imaginary_part(call).differs(0).value


def _has_none(call: Arguments) -> Value:
    return _imaginary_part(call).equal(0).value


def _imaginary_part(call: Arguments) -> Formula:
    data = args.formula(call, "x")
    return imaginary_part(data.cast("uint8") if data.dtype == "bool" else data)


def _is_real(call: Arguments) -> Value:
    return Known(not holds_complex(call.given["x"].value))


def _real_if_close(call: Arguments) -> Value:
    """Return real numbers as they are; of complex ones the dtype would depend on the values."""
    data = args.formula(call, "a")
    if data.is_complex:
        text = source_text(call.at("a"))
        message = "real_if_close: whether the result is complex would depend on the values"
        raise RefusalError(message, call.at("a"), hint=f"write {text}.real, or test {text}.imag before")
    return data.value


def _complex(call: Arguments) -> Value:
    """Convert a number, or a real and an imaginary part, as Python's ``complex``."""
    operands = [as_number(call.given[name]) for name in ("real", "imag") if name in call]
    known = [args.static_value_or_none(operand.value) for operand in operands]
    numbers = [number for number in known if isinstance(number, bool | int | float | complex)]
    if len(numbers) == len(operands):
        return Known(complex(*numbers))
    for operand in operands:
        if args.python_number(operand.value) is None and not _is_scalar(operand):
            hint = "write x.astype(c128) for every element" if is_tensor(operand.value) else None
            raise RefusalError(f"complex() of {describe(operand.value)}", operand.span, hint=hint)
    parts = [args.as_formula(operand, call.span, "complex").value for operand in operands]
    components = [Formula(cast(part, "complex128", call.span), call.span) for part in parts]
    number = components[0] if len(components) == 1 else components[0] + components[1] * 1j
    return Computed(number.value.expr, number.value.type, weak=True)


def _is_scalar(operand: Operand) -> bool:
    return is_tensor(operand.value) and not tensor_type(operand).shape


COMPLEX_NUMBERS = (
    free_function("real", "val", _real, "Return the real part of each element."),
    free_function("imag", "val", _imag, "Return the imaginary part of each element."),
    float_function("expm1", "Compute exp(x) - 1, accurate near 0.", _expm1),
    float_function("log1p", "Compute log(1 + x), accurate near 0.", _log1p),
    free_function("iscomplex", "x", _has_imaginary_part, "Test for an imaginary part."),
    free_function("isreal", "x", _has_none, "Test for an imaginary part of 0."),
    free_function("real_if_close", "a tol?=100", _real_if_close, "Return real numbers as they are."),
    numpy_function("conj", "x", _conjugate, "Compute the complex conjugate."),
    numpy_function("conjugate", "x", _conjugate, "Compute the complex conjugate."),
    free_function("angle", "z deg?", _angle, "Compute the angle in the complex plane, in radians."),
    free_function(
        "iscomplexobj",
        "x",
        lambda call: Known(holds_complex(call.given["x"].value)),
        "Return whether the dtype is complex, at compile time.",
    ),
    free_function("isrealobj", "x", _is_real, "Return whether the dtype is not complex, at compile time."),
)

#: Python's ``complex``.
PYTHON_COMPLEX = cell_function(
    "complex",
    "real imag?",
    _complex,
    "Convert a number, or a real and an imaginary part, to a complex number.",
)
