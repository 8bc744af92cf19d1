"""Write the modified Bessel functions of the first kind with Relay's operators, in float64.

Their power series has positive terms alone, which lose no digits; above ``_FAR`` their asymptotic series has
converged.
"""

from __future__ import annotations

import math
from typing import TypeVar

from nnmagic.relay.functions.gamma import evaluate, in_float64
from nnmagic.relay.tensor_expr import TensorOperators

T = TypeVar("T", bound=TensorOperators)

_FAR = 30.0


def _near(size: T, order: int) -> T:
    """Return the function of a number up to ``_FAR``, by its power series."""
    terms = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(48)]
    half = size * 0.5
    total = evaluate(terms, half * half)
    return total * half if order else total


def _far(size: T, order: int) -> T:
    """Return the function of a number from ``_FAR`` on, without its factor exp(x)."""
    terms = [1.0]
    for k in range(1, 24):
        terms.append(terms[-1] * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k))
    return evaluate(terms, 1 / size) / (size.op("sqrt") * math.sqrt(2 * math.pi))


def _bessel(x: T, order: int, *, scaled: bool) -> T:
    size = x.abs()
    is_near = size < _FAR
    near, far = _near(is_near.choose(size, 0.0), order), _far(is_near.choose(_FAR, size), order)
    if scaled:
        near = near * (-size).op("exp")
    else:
        half = (size * 0.5).op("exp")  # the square of which may overflow where the function does not
        far = far * half * half
    far = size.equal(math.inf).choose(0.0 if scaled else math.inf, far)
    result = is_near.choose(near, far)
    if order:
        result = (x < 0).choose(-result, result)
    return x.op("isnan").choose(x, result)


@in_float64
def i0(x: T) -> T:
    """Compute the modified Bessel function of order 0."""
    return _bessel(x, 0, scaled=False)


@in_float64
def i1(x: T) -> T:
    """Compute the modified Bessel function of order 1."""
    return _bessel(x, 1, scaled=False)


@in_float64
def i0e(x: T) -> T:
    """Compute the modified Bessel function of order 0, times exp(-abs(x))."""
    return _bessel(x, 0, scaled=True)


@in_float64
def i1e(x: T) -> T:
    """Compute the modified Bessel function of order 1, times exp(-abs(x))."""
    return _bessel(x, 1, scaled=True)
