"""Import the gamma function's logarithm and its derivatives, which are computed in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.values import Value, op
from nnmagic.importers.torch.calls import Call
from nnmagic.importers.torch.mathematics import convert
from nnmagic.importers.torch.registry import operator

#: Lanczos' approximation of the gamma function with g = 7 and Godfrey's coefficients: within 1e-14.
_G = 7
_LANCZOS = (
    *(0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059),
    *(12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7),
)
#: Bernoulli's numbers of even index, from the second one on.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
#: Beyond this the asymptotic series have converged.
_FAR = 10
#: The sine of a lower number is that number.
_SMALL = 1e-9
#: The highest derivative of the digamma function.
_MAX_ORDER = 20


def _zeta(k: int) -> float:
    """Return Riemann's zeta function of an int above 1, by Euler's and Maclaurin's formula."""
    end = 1000.0
    head = sum(n**-k for n in np.arange(1.0, end)[::-1])
    return float(head + end ** (1 - k) / (k - 1) + end**-k / 2 + k * end ** (-k - 1) / 12)


#: The series of log(gamma(1 + d)) in d, which converges for less than 1.
_NEAR_ONE = (0.0, -np.euler_gamma, *((-1) ** k * _zeta(k) / k for k in range(2, 30)))


def _series(x: Value, coefficients: Sequence[float]) -> Value:
    """Return a polynomial, by Horner's rule."""
    total = x.like(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def _fraction(x: Value) -> Value:
    """Return how far a number is above the nearest integer: the period of tangents of ``pi * x``."""
    return op("isinf", x).choose(0.0, x - op("round", x))


@operator("lgamma")
def _lgamma(call: Call) -> Value:
    x = convert(call["self"], "float64")
    low = x < 0.5
    y = low.choose(1 - x, x)  # the gamma functions of x and 1 - x have the product pi / sin(pi * x)
    total = y.like(_LANCZOS[0])
    for index, coefficient in enumerate(_LANCZOS[1:]):
        total = total + coefficient / (y + index)
    t = y + (_G - 0.5)
    result = (y - 0.5) * (op("log", t) - 1) + op("log", total) + (0.5 * np.log(2 * np.pi) - _G)
    for root in (1, 2):  # near which the terms cancel
        d = y - root
        near = op("abs", d) < 0.25
        d = near.choose(d, 0.0)
        series = _series(d, _NEAR_ONE)
        result = near.choose(series if root == 1 else series + op("numpy.log1p", d), result)
    part = _fraction(x)
    size = op("abs", part)
    # The product of pi and a denormal number would be rounded to few digits.
    ratio = (size < _SMALL).choose(size, op("abs", op("sin", part * np.pi)) / np.pi)
    result = low.choose(part.equal(0).choose(np.inf, -op("log", ratio) - result), result)
    return convert(op("isinf", x).choose(np.inf, result), call.dtype)


@operator("digamma")
def _digamma(call: Call) -> Value:
    return convert(_psi(convert(call["self"], "float64")), call.dtype)


def _psi(x: Value) -> Value:
    """Return the first derivative of log(gamma(x))."""
    low = x < 0.5
    y = low.choose(1 - x, x)
    shift = 1 / y
    for index in range(1, _FAR):
        shift = shift + 1 / (y + index)
    z = y + _FAR
    terms = (0.0, *(number / (2 * k) for k, number in enumerate(_BERNOULLI, 1)))
    result = op("log", z) - 0.5 / z - _series(1 / (z * z), terms) - shift
    part = _fraction(x)
    reflected = result - np.pi / op("tan", part * np.pi)
    reflected = part.equal(0).choose(np.nan, reflected)
    reflected = x.equal(0).choose(op("numpy.copysign", x.like(np.inf) + x, -x), reflected)
    return low.choose(reflected, result)


def _psi_derivative(x: Value, order: int) -> Value:
    """Return a derivative of the digamma function, by recurrence, asymptotic series and reflection."""
    low = x < 0.5
    y = low.choose(1 - x, x)
    sign, shifts = (-1) ** (order + 1), _FAR + order
    total = 1 / (y + (shifts - 1)) ** (order + 1)
    for index in reversed(range(shifts - 1)):
        total = total + 1 / (y + index) ** (order + 1)
    z = y + shifts
    far = (math.factorial(order - 1) + 0.5 * math.factorial(order) / z) / z**order
    terms = (
        number * (math.factorial(2 * k + order - 1) / math.factorial(2 * k))
        for k, number in enumerate(_BERNOULLI, 1)
    )
    far = far + _series(1 / (z * z), (0.0, *terms)) / z**order
    result = (total * math.factorial(order) + far) * sign
    part = _fraction(x)
    cotangents = _series(1 / op("tan", part * np.pi), _cotangent_derivative(order))
    reflected = -(np.pi ** (order + 1)) * cotangents - sign * result
    return low.choose(part.equal(0).choose(sign * np.inf, reflected), result)


def _cotangent_derivative(order: int) -> list[float]:
    """Return the coefficients, by the power of ``cot(x)``, of a derivative of ``cot(x)``."""
    found = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(order):
        found = found.deriv() * np.polynomial.Polynomial([-1.0, 0.0, -1.0])
    return [float(each) for each in found.coef]


@operator("polygamma", note=f"of orders up to {_MAX_ORDER}")
def _polygamma(call: Call) -> Value:
    x, order = convert(call["self"], "float64"), call.integer("n")
    if order > _MAX_ORDER:
        raise UnsupportedError(f"the derivative {order} of the digamma function is not supported")
    return convert(_psi_derivative(x, order) if order else _psi(x), call.dtype)
