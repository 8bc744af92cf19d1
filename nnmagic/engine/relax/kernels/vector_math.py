"""Mathematical functions as TIR expressions that LLVM vectorises: no calls of the C library, no branches.

A function takes and gives an expression of float32 or float64 (float16 and bfloat16 are computed in float32).
Arguments are reduced as W. J. Cody and W. Waite (Software Manual for the Elementary Functions, 1980) say. The
polynomials are minimax fits of our own (Remez exchange with 50 digits); their coefficients are rounded one
after another, from the lowest power on, the rest fitted again after each. NaN stays NaN, infinities and
denormal results are right. The largest errors, measured over all exponents, in units in the last place:

=======  =======  =======
         float32  float64
=======  =======  =======
exp      1.1      1.5
tanh     2.5      3.3
sigmoid  2.5      2.5
=======  =======  =======

Knows TIR expressions only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx


@dataclass(frozen=True, slots=True)
class _Format:
    """What a floating-point format looks like in bits, and the constants that are split for it.

    ``round_to_integer`` is 1.5 times the number from which on floats are whole: what is added to it is rounded
    to an integer, which the low bits of the sum hold. ``ln2_high`` has so many zeros at its end that its
    product with an exponent is exact.
    """

    dtype: str
    integer: str
    mantissa: int
    exponent: int
    bias: int
    round_to_integer: float
    ln2_high: float
    ln2_low: float
    exp_range: tuple[float, float]
    exp: tuple[float, ...]


_FLOAT32 = _Format(
    dtype="float32",
    integer="int32",
    mantissa=23,
    exponent=8,
    bias=127,
    round_to_integer=1.5 * 2**23,
    ln2_high=0.693359375,
    ln2_low=-2.12194440054690583e-4,
    exp_range=(-104.0, 89.0),
    exp=(
        0.0013848288217559457,
        0.00837002880871296,
        0.041668009012937546,
        0.16666509211063385,
        0.4999999403953552,
    ),
)

_FLOAT64 = _Format(
    dtype="float64",
    integer="int64",
    mantissa=52,
    exponent=11,
    bias=1023,
    round_to_integer=1.5 * 2**52,
    ln2_high=0.693147180369123816490,
    ln2_low=1.90821492927058770002e-10,
    exp_range=(-746.0, 710.0),
    exp=(
        2.5020556176184802e-08,
        2.7631021019536935e-07,
        2.755752830113881e-06,
        2.480149150660784e-05,
        0.00019841269557055108,
        0.0013888888944972378,
        0.008333333333475674,
        0.04166666666652554,
        0.16666666666666435,
        0.5000000000000011,
    ),
)

_LOG2_E = 1.4426950408889634074


class _Steps:
    """The steps of a computation in one format: each intermediate value is bound to a variable, once."""

    def __init__(self, form: _Format) -> None:
        self.form = form
        self._bound: list[tuple[Any, Any]] = []

    def bind(self, name: str, value: Any) -> Any:
        """A variable that stands for the value in what follows."""
        var = tirx.Var(name, str(value.ty.dtype))
        self._bound.append((var, value))
        return var

    def result(self, value: Any) -> Any:
        """The value with all that was bound around it."""
        for var, bound in reversed(self._bound):
            value = tirx.Let(var, bound, value)
        return value

    def number(self, value: float) -> Any:
        """A constant."""
        return tirx.const(value, self.form.dtype)

    def bits(self, value: Any) -> Any:
        """A number's bits as an integer."""
        return tirx.reinterpret(self.form.integer, value)

    def of_bits(self, bits: Any) -> Any:
        """The number of these bits."""
        return tirx.reinterpret(self.form.dtype, bits)

    def integer(self, value: int) -> Any:
        """A constant of the format's integers."""
        return tirx.const(value, self.form.integer)

    def at_most(self, value: Any, limit: float) -> Any:
        """The value, not above the limit; NaN stays."""
        return tirx.Select(value > self.number(limit), self.number(limit), value)

    def at_least(self, value: Any, limit: float) -> Any:
        """The value, not below the limit; NaN stays."""
        return tirx.Select(value < self.number(limit), self.number(limit), value)

    def polynomial(self, coefficients: Sequence[float], at: Any) -> Any:
        """By Horner's rule, the highest power first."""
        total = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            total = total * at + self.number(coefficient)
        return total

    def power_of_two(self, rounded: Any) -> Any:
        """2 to the integer that the low bits of ``rounded`` hold, not a denormal."""
        form = self.form
        shifted = rounded << self.integer(form.mantissa)
        return self.of_bits(shifted + self.integer(form.bias << form.mantissa))


def _function(steps: Callable[[_Steps, Any], Any]) -> Callable[[Any], Any]:
    """The function of an expression of any floating-point dtype, from its steps in float32 or float64."""

    @functools.wraps(steps)
    def function(value: Any) -> Any:
        dtype = str(value.ty.dtype)
        form = _FLOAT64 if dtype == "float64" else _FLOAT32
        body = _Steps(form)
        argument = body.bind("x", value if dtype == form.dtype else value.astype(form.dtype))
        result = body.result(steps(body, argument))
        return result if dtype == form.dtype else result.astype(dtype)

    return function


def _reduced(steps: _Steps, x: Any) -> tuple[Any, Any, Any]:
    """``x = n * ln 2 + r``: n rounded to an integer, as a sum and as a number, and r, at most ln 2 / 2."""
    form = steps.form
    rounded = steps.bind("rounded", x * steps.number(_LOG2_E) + steps.number(form.round_to_integer))
    n = steps.bind("n", rounded - steps.number(form.round_to_integer))
    high = steps.bind("high", x - n * steps.number(form.ln2_high))
    return rounded, n, steps.bind("r", high - n * steps.number(form.ln2_low))


def _near_zero(steps: _Steps, r: Any) -> Any:
    """``exp(r) - 1`` for an r of at most ln 2 / 2."""
    return steps.polynomial(steps.form.exp, r) * r * r + r


@_function
def exp(steps: _Steps, x: Any) -> Any:
    """The power of e: the polynomial of the rest times two powers of two, as one has not the range."""
    low, high = steps.form.exp_range
    x = steps.bind("x", steps.at_least(steps.bind("x", steps.at_most(x, high)), low))
    rounded, n, r = _reduced(steps, x)
    half = n * steps.number(0.5) + steps.number(steps.form.round_to_integer)
    bits = steps.bind("half", steps.bits(half))
    rest = steps.bits(rounded) - bits
    value = _near_zero(steps, r) + steps.number(1)
    return value * steps.power_of_two(bits) * steps.power_of_two(rest)


@_function
def tanh(steps: _Steps, x: Any) -> Any:
    """The hyperbolic tangent: ``t / (t + 2)`` of ``t = exp(2 |x|) - 1``."""
    doubled = steps.bind("doubled", tirx.abs(x) * steps.number(2))
    rounded, _, r = _reduced(steps, steps.bind("doubled", steps.at_most(doubled, 44.0)))
    scale = steps.bind("scale", steps.power_of_two(steps.bits(rounded)))
    t = steps.bind("t", _near_zero(steps, r) * scale + (scale - steps.number(1)))
    return _with_sign(steps, t / (t + steps.number(2)), x)


@_function
def sigmoid(steps: _Steps, x: Any) -> Any:
    """``1 / (1 + exp(-x))``, exact also where that is a denormal: from ``exp(-|x|)``."""
    e = steps.bind("e", exp(-tirx.abs(x)))
    return tirx.Select(x < steps.number(0), e, steps.number(1)) / (steps.number(1) + e)


def _with_sign(steps: _Steps, value: Any, of: Any) -> Any:
    """The value, which is not negative, with another's sign; of zeros and NaN, too."""
    sign = steps.bits(of) & steps.integer(-(1 << (steps.form.mantissa + steps.form.exponent)))
    return steps.of_bits(steps.bits(value) | sign)
