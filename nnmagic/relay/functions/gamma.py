"""Write the gamma function, its logarithm and that one's derivatives with Relay's operators, in float64.

Near 2 the logarithm is its Taylor series, of which all arguments below some bound are a recurrence away;
above, it is Stirling's series. Negative arguments are reflected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from nnmagic.relay.tensor_expr import TensorOperators

T = TypeVar("T", bound=TensorOperators)
Function = TypeVar("Function", bound=Callable[..., Any])

#: Bernoulli's numbers of even index, from the second one on.
_BERNOULLI = (
    *(1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6),
    *(-3617 / 510, 43867 / 798, -174611 / 330),
)

#: The sine of a lower number is that number.
_SMALL = 1e-9

#: From here on the asymptotic series of the digamma function has converged.
_FAR = 10


def in_float64(function: Function) -> Function:
    """Let a function of floats of one dtype compute in float64."""

    @wraps(function)
    def compute(*operands: Any, **attrs: Any) -> Any:
        wide = function(*(operand.cast("float64") for operand in operands), **attrs)
        return wide.cast(operands[0].dtype)

    return cast("Function", compute)


def evaluate(coefficients: Sequence[float], x: T) -> T:
    """Return a polynomial whose coefficients begin with the constant, by Horner's rule."""
    total = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        total = total * x + coefficient
    return total


def _hurwitz_zeta(k: int, first: float) -> float:
    """Return Hurwitz's zeta function of an int above 1, by Euler's and Maclaurin's formula."""
    end = first + 100
    corrections = [end ** (1 - k) / (k - 1), end**-k / 2, k * end ** (-k - 1) / 12]
    corrections.append(-k * (k + 1) * (k + 2) * end ** (-k - 3) / 720)
    return math.fsum([(first + n) ** -k for n in range(100)] + corrections)


#: The series of log(gamma(2 + t)) / t, which converges for t less than 2.
_NEAR_TWO = (1 - np.euler_gamma, *((-1) ** k * _hurwitz_zeta(k, 2.0) / k for k in range(2, 30)))


def _reduce(x: T, steps: Sequence[int]) -> tuple[T, T, T]:
    """Return t from -1/2 to 1/2, and a numerator and a divisor of gamma(x) / gamma(2 + t).

    ``x`` is above -1/2; each step takes so many factors, if there are as many.
    """
    low, middle = x < 0.5, x < 1.5
    y, factor = x, x.like(1.0)
    for step in steps:
        far = y > 1.5 + step if step > 1 else y > 2.5
        product = y - 1
        for index in range(2, step + 1):
            product = product * (y - index)
        factor, y = far.choose(factor * product, factor), far.choose(y - step, y)
    t = low.choose(x, middle.choose(x - 1, y - 2))
    divisor = low.choose(x * (x + 1), middle.choose(x, x.like(1.0)))
    return t, middle.choose(1.0, factor), divisor


def _stirling(x: T) -> T:
    """Return what the logarithm of the gamma function is more than Stirling's formula."""
    inverse = 1 / x
    terms = [number / (2 * k * (2 * k - 1)) for k, number in enumerate(_BERNOULLI, 1)]
    return inverse * evaluate(terms, inverse * inverse)


def _fraction(x: T) -> T:
    """Return how far a number is above the nearest integer."""
    return x.op("isinf").choose(0.0, x - x.op("numpy.rint"))


def _sine_of_pi(x: T) -> T:
    """Return the absolute value of sin(pi * x), over pi."""
    size = _fraction(x).abs()
    # The product of pi and a denormal number would be rounded to few digits.
    return (size < _SMALL).choose(size, (size * math.pi).op("sin").abs() / math.pi)


@in_float64
def gammaln(x: T) -> T:
    """Compute the logarithm of the absolute value of the gamma function."""
    reflected = x < -0.5
    size = reflected.choose(-x, x)
    t, factor, divisor = _reduce((size < 10.5).choose(size, 2.0), (4, 2, 1, 1))
    near = t * evaluate(_NEAR_TWO, t)
    ratio = (size < 1.5).choose(divisor, factor).abs().op("log")
    near = near + (size < 1.5).choose(-ratio, ratio)
    far = (size - 0.5) * size.op("log") - size + 0.5 * math.log(2 * math.pi) + _stirling(size)
    result = (size < 10.5).choose(near, far)
    mirrored = -(size * _sine_of_pi(x)).op("log") - result
    mirrored = _fraction(x).equal(0).choose(math.inf, mirrored)
    result = x.op("isinf").choose(math.inf, reflected.choose(mirrored, result))
    return x.op("isnan").choose(x, result)


@in_float64
def gamma(x: T) -> T:
    """Compute the gamma function; at negative integers it is NaN, at 0 infinite with the sign of 0."""
    reflected = x < -0.5
    size = reflected.choose(-x, x)
    t, factor, divisor = _reduce((size < 34.5).choose(size, 2.0), (16, 8, 4, 2, 1, 1))
    near = (t * evaluate(_NEAR_TWO, t)).op("exp") * factor / divisor
    base = (size < 34.5).choose(34.5, size)
    half = base ** (0.5 * base - 0.25)  # whose square would be infinite too soon
    far = half * (-base).op("exp") * half * (math.sqrt(2 * math.pi) * _stirling(base).op("exp"))
    result = (size < 34.5).choose(near, (size > 172.0).choose(math.inf, far))
    rounded = x.op("numpy.rint")
    odd = (rounded * 0.5).op("floor").differs(rounded * 0.5)
    negative = odd.differs(_fraction(x) < 0)
    mirrored = 1 / (size * _sine_of_pi(x) * result)
    mirrored = _fraction(x).equal(0).choose(math.nan, negative.choose(-mirrored, mirrored))
    result = reflected.choose(mirrored, result)
    return (x.op("isnan") | x.equal(math.inf)).choose(x, x.equal(-math.inf).choose(math.nan, result))


def log_gamma_quotient(a: T, b: T) -> T:
    """Compute log(gamma(a) / gamma(a + b)) of a from 10 on and b that is not negative."""
    both = a + b
    main = -(a - 0.5) * (b / a).op("numpy.log1p") - b * both.op("log") + b
    return main + _stirling(a) - _stirling(both)


@in_float64
def polygamma(x: T, *, n: int) -> T:
    """Compute the derivative of a given order of the digamma function."""
    return _psi_derivative(x, n) if n else _psi(x)


#: Where the digamma function is 0, what this float lacks of it, and the series of the function there.
_ROOT, _REST = 1.4616321449683623, 4.126265954232572e-17
_NEAR_ROOT = tuple((-1) ** (k + 1) * _hurwitz_zeta(k + 1, _ROOT) for k in range(1, 25))


def _psi(x: T) -> T:
    low = x < 0.5
    y = low.choose(1 - x, x)
    shift = 1 / y
    for index in range(1, _FAR):
        shift = shift + 1 / (y + index)
    z = y + _FAR
    terms = (0.0, *(number / (2 * k) for k, number in enumerate(_BERNOULLI, 1)))
    result = z.op("log") - 0.5 / z - evaluate(terms, 1 / (z * z)) - shift
    fraction = _fraction(x)
    reflected = result - math.pi / (fraction * math.pi).op("tan")
    reflected = fraction.equal(0).choose(math.nan, reflected)
    reflected = x.equal(0).choose((x.like(math.inf) + x).op("numpy.copysign", -x), reflected)
    distance = (x - _ROOT) - _REST
    near = distance.abs() < 0.3
    distance = near.choose(distance, 0.0)
    return near.choose(distance * evaluate(_NEAR_ROOT, distance), low.choose(reflected, result))


def _psi_derivative(x: T, order: int) -> T:
    """Return a derivative of the digamma function, by recurrence, asymptotic series and reflection."""
    low = x < 0.5
    y = low.choose(1 - x, x)
    sign, shifts = (-1) ** (order + 1), _FAR + order
    total = _inverse_power(y + (shifts - 1), order + 1)
    for index in reversed(range(shifts - 1)):
        total = total + _inverse_power(y + index if index else y, order + 1)
    z = y + shifts
    far = (math.factorial(order - 1) + 0.5 * math.factorial(order) / z) * _inverse_power(z, order)
    terms = (
        number * (math.factorial(2 * k + order - 1) / math.factorial(2 * k))
        for k, number in enumerate(_BERNOULLI, 1)
    )
    far = far + evaluate((0.0, *terms), 1 / (z * z)) * _inverse_power(z, order)
    result = (total * float(math.factorial(order)) + far) * float(sign)
    fraction = _fraction(x)
    cotangents = evaluate(_cotangent_derivative(order), 1 / (fraction * math.pi).op("tan"))
    reflected = -(math.pi ** (order + 1)) * cotangents - float(sign) * result
    return low.choose(fraction.equal(0).choose(sign * math.inf, reflected), result)


def _inverse_power(x: T, exponent: int) -> T:
    inverse = result = 1 / x
    for _ in range(exponent - 1):
        result = result * inverse
    return result


def _cotangent_derivative(order: int) -> list[float]:
    """Return the coefficients, by the power of ``cot(x)``, of a derivative of ``cot(x)``."""
    derivative = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(order):
        derivative = derivative.deriv() * np.polynomial.Polynomial([-1.0, 0.0, -1.0])
    return [float(each) for each in derivative.coef]
