"""Compute powers as vectors: ``2**(y log2(x))``, with a logarithm of more digits than the result has."""

from __future__ import annotations

from tvm import tirx

from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.vector_math.core import FLOAT64, Computation, vector_function
from nnmagic.engine.relax.tir.vector_math.exponential import EXP2_RANGE, exp2_near_zero, scale
from nnmagic.engine.relax.tir.vector_math.logarithm import split_exponent

#: ``log2(1 + f) / s`` in terms of ``s**2``, for ``s = f / (2 + f)``: enough digits for float32.
_LOG2_SHORT = {
    "float64": (
        0.3407403161805719,
        0.4116721159825967,
        0.5770835961013596,
        0.9617966732759036,
        2.8853900817901477,
    )
}

#: ``2**r`` for ``|r| <= 1/2``: enough digits for float32.
_EXP2_SHORT = {
    "float64": (
        0.0001547801873021759,
        0.001340043149623248,
        0.009617994531700915,
        0.055503272158754065,
        0.24022651504775602,
        0.6931472067100743,
        0.9999999999192205,
    )
}

#: ``(atanh(s) / s - 1 - s**2 / 3) / s**4`` in terms of ``s**2``.
_ATANH = {
    "float64": (
        0.05994496815085764,
        0.05837410441392976,
        0.0666815865027045,
        0.07692278437057697,
        0.09090909435134184,
        0.11111111108768425,
        0.14285714285722556,
        0.1999999999999999,
    )
}

#: 1/3 and 2 / ln 2: their first 26 bits, and the rest.
_THIRD = (0.3333333283662796, 4.967053731282552e-09)
_TWO_LOG2_E = (2.885390043258667, 3.851925982253235e-08)

#: Larger exponents give 1, 0 or infinity like this one.
_LARGEST = {"float32": 2.0**40, "float64": 2.0**70}


@vector_function
def power(steps: Computation, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """Compute x to the y, for negative x where y is an integer."""
    largest = _LARGEST[steps.form.dtype]
    limited = steps.clamp("limited", y, -largest, largest)
    size = steps.bind("size", tirx.abs(x))
    raise_size = _power_of_float64 if steps.form is FLOAT64 else _power_of_float32
    result = steps.bind("result", raise_size(steps, size, limited))
    zero, one, infinity = (steps.number(value) for value in (0, 1, float("inf")))
    # Where y is neither below nor above 0 it is NaN, which the result is then, too, or 0, for which
    # the last line returns 1.
    at_zero = tirx.Select(y < zero, infinity, tirx.Select(y > zero, zero, y))
    result = steps.bind("result", tirx.Select(size == zero, at_zero, result))
    at_infinity = tirx.Select(y < zero, zero, tirx.Select(y > zero, infinity, y))
    result = steps.bind("result", tirx.Select(size == infinity, at_infinity, result))
    half = steps.bind("half", y * steps.number(0.5))
    # An integer is odd if its half is none. The sign is taken from x itself, so that (-0.0)**-3 is
    # -inf.
    odd = tirx.Select(tirx.floor(half) < half, x, one)
    fraction = tirx.floor(y) < y
    sign = steps.bind("sign", tirx.Select(fraction, one, odd))
    result = steps.bind("result", steps.copy_sign(result, sign))
    # IEEE 754-2008 (9.2.1) excepts infinity: (-inf)**0.5 is inf.
    undefined = tirx.all(x < zero, size < infinity, fraction)
    result = steps.bind("result", tirx.Select(undefined, steps.number(float("nan")), result))
    # IEEE 754-2008 (9.2.1): 1**y and x**0 are 1 even where the other number is NaN.
    return tirx.Select(tirx.any(x == one, y == zero), one, result)


def _power_of_float32(steps: Computation, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """Compute x to the y in float64, for positive x."""
    k, f = _split(steps, x)
    estimate = steps.bind("estimate", steps.number(1) / (f + steps.number(2)))
    wide = steps.in_format(FLOAT64)
    f = wide.bind("f", f.astype("float64"))
    inverse = wide.bind("inverse", estimate.astype("float64"))
    # A step of Newton's method doubles the 24 digits of the quotient in float32: 48 are enough
    # here, and a division in float64 takes longer.
    inverse = wide.bind("inverse", inverse * (wide.number(2) - (f + wide.number(2)) * inverse))
    s = wide.bind("s", f * inverse)
    z = wide.bind("z", s * s)
    log2 = k.astype("float64") + s * wide.polynomial(_LOG2_SHORT, z)
    low, high = EXP2_RANGE["float32"]
    product = wide.clamp("product", y.astype("float64") * log2, low, high)
    rounded = wide.bind("rounded", wide.round_to_bits(product))
    n = wide.bind("n", wide.from_bits(rounded) - wide.number(FLOAT64.round_to_integer))
    value = wide.polynomial(_EXP2_SHORT, wide.bind("r", product - n)) * wide.power_of_two(rounded)
    return value.astype("float32")


def _power_of_float64(steps: Computation, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """Compute x to the y, for positive x: the logarithm is a sum of two numbers, as is its product with y.

    Numbers are split so that products of their first parts are exact, whether or not the CPU has fused
    multiplications and additions.
    """
    log_high, log_low = _log2_in_two_parts(steps, x)
    y_high, y_low = _split_number(steps, y)
    # 26 bits by 26 bits: exact. What is left of the product is so small that its rounding does not
    # count.
    high = steps.bind("high", y_high * log_high)
    low = steps.bind("low", y_high * log_low + y_low * (log_high + log_low))
    least, most = EXP2_RANGE["float64"]
    total = steps.clamp("total", high + low, least, most)
    rounded = steps.bind("rounded", steps.round_to_bits(total))
    n = steps.bind("n", steps.from_bits(rounded) - steps.number(FLOAT64.round_to_integer))
    near = steps.bind("near", high - n)
    # Where the total was clamped, ``high - n`` may be any number: kept within 1, it cannot undo the
    # 0 or the infinity that n gives.
    r = steps.clamp("r", near + low, -1.0, 1.0)
    return scale(steps, exp2_near_zero(steps, r), n, rounded)


def _log2_in_two_parts(steps: Computation, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Return two numbers whose sum is the logarithm to base 2, of which the first has 26 bits.

    With ``s = f / (2 + f)`` it is ``2 / ln 2 * (s + s * w)``, where ``w = s**2 / 3 + s**4 * p(s**2)``.
    """
    k, f = _split(steps, x)
    two = steps.number(2)
    d = steps.bind("d", f + two)
    d_high = steps.head(d)
    d_rest = steps.bind("d_rest", d - two)
    # The error of ``f + 2`` by FastTwoSum (T. J. Dekker, 1971), which holds as 2 is the larger
    # operand.
    d_low = steps.bind("d_low", (d - d_high) + (f - d_rest))
    inverse = steps.bind("inverse", steps.number(1) / d)
    s_high = steps.head(steps.bind("s", f * inverse))
    # ``s_low`` is what lacks ``s_high`` to be the quotient: the remainder of the division, divided.
    s_rest = steps.bind("s_rest", f - s_high * d_high)
    s_low = steps.bind("s_low", (s_rest - s_high * d_low) * inverse)
    square = steps.bind("square", s_high * s_high)
    z_high = steps.head(square)
    z_low = steps.bind("z_low", (square - z_high) + s_low * (s_high + s_high + s_low))
    z = steps.bind("z", z_high + z_low)
    third_high, third_low = map(steps.number, _THIRD)
    tail = z * z * steps.polynomial(_ATANH, z)
    w_low = steps.bind("w_low", (z_low * steps.number(1 / 3) + z_high * third_low) + tail)
    w_first = steps.bind("w_first", z_high * third_high)
    w = steps.bind("w", w_first + w_low)
    w_high = steps.head(w)
    w_low = steps.bind("w_low", (w_first - w_high) + w_low)
    product = steps.bind("product", s_high * w_high)
    rest = steps.bind("rest", (s_low + s_low * w) + s_high * w_low)
    total = steps.bind("total", s_high + product)
    total_rest = steps.bind("total_rest", s_high - total)
    total_high = steps.head(total)
    total_low = steps.bind("total_low", (total - total_high) + ((total_rest + product) + rest))
    factor_high, factor_low = map(steps.number, _TWO_LOG2_E)
    low = steps.bind("low", total_high * factor_low + total_low * (factor_high + factor_low))
    fraction = steps.bind("fraction", total_high * factor_high)
    log = steps.bind("log", k + fraction)
    # FastTwoSum again: k is 0 or at least 1 in size, and the fraction is at most 1/2.
    log_rest = steps.bind("log_rest", k - log)
    high = steps.head(log)
    return high, steps.bind("log_low", (log - high) + ((log_rest + fraction) + low))


def _split(steps: Computation, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Split ``x = 2**k * (1 + f)``, 0.7 < 1 + f < 1.4; NaN gives NaN."""
    k, f = split_exponent(steps, x)
    return k, steps.bind("f", tirx.Select(x < steps.number(float("inf")), f, x))


def _split_number(steps: Computation, value: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Split a number into its first 26 bits and the rest."""
    head = steps.head(value)
    return head, steps.bind("rest", value - head)
