"""Import the gamma function's logarithm and its derivatives, which are computed in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.values import Value, op
from nnmagic.importers.torch.calls import Call
from nnmagic.importers.torch.mathematics import convert, copy_sign, log1p
from nnmagic.importers.torch.registry import operator

#: Lanczos' approximation with g = 7: Numerical Recipes, 6.1; its error is below 1e-15.
_G = 7
_LANCZOS = (
    *(0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059),
    *(12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7),
)
#: Bernoulli's numbers of even index, from the second one on.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
#: Beyond this the asymptotic series have converged.
_FAR = 10


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
    """Return the part behind the point, in which sines and tangents of ``pi * x`` are periodic."""
    return x - op("floor", x)


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
        result = near.choose(series if root == 1 else series + log1p(d), result)
    sine = op("sin", _fraction(x) * np.pi)
    result = low.choose(np.log(np.pi) - op("log", sine) - result, result)
    return convert(op("isinf", x).choose(np.inf, result), call.dtype)


@operator("digamma")
def _digamma(call: Call) -> Value:
    return convert(_psi(convert(call["self"], "float64")), call.dtype)


def _psi(x: Value) -> Value:
    """Return the first derivative of log(gamma(x))."""
    low = x < 0.5
    y = low.choose(1 - x, x)
    shift = op("add", 1 / y, 1 / (y + 1))
    for index in range(2, _FAR):
        shift = shift + 1 / (y + index)
    z = y + _FAR
    terms = (0.0, *(number / (2 * k) for k, number in enumerate(_BERNOULLI, 1)))
    result = op("log", z) - 0.5 / z - _series(1 / (z * z), terms) - shift
    part = _fraction(x)
    reflected = result - np.pi / op("tan", part * np.pi)
    reflected = part.equals(0).choose(np.nan, reflected)
    reflected = x.equals(0).choose(copy_sign(x.like(np.inf) + x, -x), reflected)
    return low.choose(reflected, result)


def _trigamma(x: Value) -> Value:
    """Return the second derivative of log(gamma(x))."""
    low = x < 0.5
    y = low.choose(1 - x, x)
    shift = op("add", 1 / (y * y), 1 / ((y + 1) * (y + 1)))
    for index in range(2, _FAR):
        shift = shift + 1 / ((y + index) * (y + index))
    z = y + _FAR
    square = 1 / (z * z)
    result = shift + 1 / z + 0.5 * square + _series(square, (0.0, *_BERNOULLI)) / z
    sine = op("sin", _fraction(x) * np.pi)
    return low.choose(np.pi**2 / (sine * sine) - result, result)


@operator("polygamma", note="of the first two orders")
def _polygamma(call: Call) -> Value:
    x, order = convert(call["self"], "float64"), call.integer("n")
    if order > 1:
        raise UnsupportedError("derivatives of the digamma function beyond the first are not supported")
    return convert(_trigamma(x) if order else _psi(x), call.dtype)
