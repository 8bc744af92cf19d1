"""Compute sine, cosine and tangent as vectors; the C library computes them for very large arguments."""

from __future__ import annotations

import math

from tvm import tirx

from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.vector_math.core import Computation, vector_function

#: Up to this argument, the number of quarter turns has at most 16 bits.
_LARGEST = 1e5

#: pi / 2 as a sum: the first two have 37 bits, so that products with numbers of 16 bits are exact.
_HALF_PI = (1.5707963267923333, 2.5633441515839558e-12, 1.0562999066987428e-23)

#: ``(sin(r) / r - 1) / r**2`` in terms of ``r**2``, for ``|r| <= pi / 4``.
_SIN = {
    "float32": (-0.0001951729936990887, 0.008332177996635437, -0.16666655242443085),
    "float64": (
        1.5896828201399703e-10,
        -2.5050758658739547e-08,
        2.7557313695268718e-06,
        -0.00019841269829817102,
        0.008333333333322425,
        -0.16666666666666632,
    ),
}

#: ``(cos(r) - 1 + r**2 / 2) / r**4`` in terms of ``r**2``, for ``|r| <= pi / 4``.
_COS = {
    "float32": (2.4438451873720624e-05, -0.001388736767694354, 0.04166664555668831),
    "float64": (
        -1.135967003654098e-11,
        2.087572368789641e-09,
        -2.7557314355270064e-07,
        2.4801587289491942e-05,
        -0.001388888888887414,
        0.0416666666666666,
    ),
}


@vector_function
def sin(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the sine of an angle in radians."""
    quarters, sine, cosine = _sine_and_cosine(steps, x)
    return _call_library_if_large(steps, "sin", x, _turn(steps, quarters, sine, cosine))


@vector_function
def cos(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the cosine of an angle in radians: the sine of the angle a quarter turn further."""
    quarters, sine, cosine = _sine_and_cosine(steps, x)
    further = steps.bind("further", quarters + steps.integer(1))
    return _call_library_if_large(steps, "cos", x, _turn(steps, further, sine, cosine))


@vector_function
def tan(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the tangent of an angle in radians: after a quarter turn it is ``-cos / sin``."""
    quarters, sine, cosine = _sine_and_cosine(steps, x)
    odd = _is_odd(steps, quarters)
    numerator = steps.bind("numerator", tirx.Select(odd, -cosine, sine))
    denominator = steps.bind("denominator", tirx.Select(odd, sine, cosine))
    return _call_library_if_large(steps, "tan", x, numerator / denominator)


def _turn(steps: Computation, quarters: PrimExpr, sine: PrimExpr, cosine: PrimExpr) -> PrimExpr:
    """Return the sine after so many quarter turns."""
    form = steps.form
    value = tirx.Select(_is_odd(steps, quarters), cosine, sine)
    # The sign changes after half a turn: bit 1 of the number of quarters is moved to the sign's
    # place.
    sign = (quarters & steps.integer(2)) << steps.integer(form.mantissa + form.exponent - 1)
    return steps.from_bits(steps.bits(value) ^ sign)


def _is_odd(steps: Computation, bits: PrimExpr) -> PrimExpr:
    """Return whether the last bit is set. (TVM takes integers that are compared for indices.)"""
    sign = bits << steps.integer(steps.form.mantissa + steps.form.exponent)
    return steps.from_bits(sign | steps.bits(steps.number(1))) < steps.number(0)


def _sine_and_cosine(steps: Computation, x: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Return bits that end in the number of quarter turns, and sine and cosine of the rest of the angle."""
    form = steps.form
    quarters = steps.bind("quarters", steps.round_to_bits(x * steps.number(2 / math.pi)))
    n = steps.bind("n", steps.from_bits(quarters) - steps.number(form.round_to_integer))
    # Cody and Waite's reduction. Near a multiple of pi / 2 almost all digits cancel, so float32 is
    # reduced in float64, and float64 by three parts.
    parts = _HALF_PI if form.dtype == "float64" else (_HALF_PI[0], _HALF_PI[1] + _HALF_PI[2])
    turns = steps.bind("turns", n.astype("float64"))
    reduced = x.astype("float64")
    for part in parts:
        reduced = steps.bind("rest", reduced - turns * tirx.const(part, "float64"))
    r = steps.bind("r", reduced.astype(form.dtype))
    square = steps.bind("square", r * r)
    sine = steps.bind("sine", r * steps.polynomial(_SIN, square, 1.0))
    cosine = steps.bind("cosine", steps.polynomial(_COS, square, -0.5, 1.0))
    return quarters, sine, cosine


def small_sine_and_cosine(angle: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Return the sine and the cosine of an angle in float64 up to pi / 4, a variable."""
    square = angle * angle

    def polynomial(coefficients: tuple[float, ...]) -> PrimExpr:
        value = tirx.const(coefficients[0], "float64")
        for coefficient in coefficients[1:]:
            value = value * square + tirx.const(coefficient, "float64")
        return value

    sine = angle + angle * square * polynomial(_SIN["float64"])
    return sine, polynomial((*_COS["float64"], -0.5, 1.0))


def _call_library_if_large(steps: Computation, name: str, x: PrimExpr, value: PrimExpr) -> PrimExpr:
    """Return the value, or what the C library's function gives for a very large argument."""
    large = tirx.abs(x) > steps.number(_LARGEST)
    return steps.call_library_if(large, name, (x,), value)
