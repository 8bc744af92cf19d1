"""Write functions of the exponents and the digits of floats with Relay's operators."""

from __future__ import annotations

from typing import TypeVar

from nnmagic.relay.tensor_expr import TensorOperators

T = TypeVar("T", bound=TensorOperators)

#: Of a float64: the bits of its exponent, what the exponent of 1 is, and the place of the exponent.
_EXPONENT, _BIAS, _DIGITS = 0x7FF, 1023, 52


def frexp(x: T) -> tuple[T, T]:
    """Return mantissas from 1/2 to 1, with the signs, and exponents of 2, int64; 0 for 0, inf and NaN."""
    wide = x.cast("float64")
    denormal = wide.abs() < 2.0**-1022
    scaled = denormal.choose(wide * 2.0**54, wide)
    bits = scaled.op("reinterpret", dtype="int64")
    exponent = (bits.op("right_shift", _DIGITS)).op("bitwise_and", _EXPONENT) - (_BIAS - 1)
    exponent = exponent - denormal.choose(exponent.like(54), exponent.like(0))
    mantissa = bits.op("bitwise_and", ~(_EXPONENT << _DIGITS)).op("bitwise_or", (_BIAS - 1) << _DIGITS)
    special = wide.equal(0) | ~wide.op("isfinite")
    mantissa = mantissa.op("reinterpret", dtype="float64").cast(x.dtype)
    return special.choose(x, mantissa), special.choose(exponent.like(0), exponent)


def ldexp(x: T, exponent: T) -> T:
    """Return x * 2 ** exponent, rounded once; the exponents are integers."""
    result, remaining = x.cast("float64"), exponent.cast("int64").maximum(-2200).minimum(2200)
    for least in (-969, -969, -1022):  # so that a denormal number is rounded by the last product alone
        step = remaining.maximum(least).minimum(1023)
        bits = (step + _BIAS).op("left_shift", _DIGITS)
        result, remaining = result * bits.op("reinterpret", dtype="float64"), remaining - step
    return result.cast(x.dtype)


def ieee_remainder(x: T, y: T) -> T:
    """Return x less the multiple of y that is nearest; of two, the even one."""
    size, step = x.abs(), y.abs()
    remainder = size.op("trunc_mod", step)
    other = step - remainder
    tie = remainder - (size - remainder).op("multiply", 0.5).op("trunc_mod", step) * 2
    nearest = (remainder < other).choose(remainder, (remainder > other).choose(-other, tie))
    result = nearest * x.like(1.0).op("numpy.copysign", x)
    whole = y.op("isinf") & x.op("isfinite")
    return whole.choose(x, result)
