"""Write those functions of ``scipy.special`` with Relay's operators that are short formulas of floats.

SciPy's reference: https://docs.scipy.org/doc/scipy/reference/special.html
"""

from __future__ import annotations

import math
from typing import TypeVar

from nnmagic.relay.functions import special
from nnmagic.relay.functions.gamma import in_float64, log_gamma_quotient
from nnmagic.relay.tensor_expr import TensorOperators

T = TypeVar("T", bound=TensorOperators)


def logit(p: T) -> T:
    """Compute log(p / (1 - p)), without loss of digits near 1/2."""
    near, middle = p.op("isnan"), (p > 0.3) & (p < 0.65)
    double = middle.choose(2 * (p - 0.5), 0.0)
    inside = double.op("numpy.log1p") - (-double).op("numpy.log1p")
    other = (near | middle).choose(0.5, p)
    return near.choose(p, middle.choose(inside, (other / (1 - other)).op("log")))


def log_expit(x: T) -> T:
    """Compute log(1 / (1 + exp(-x)))."""
    return -special.softplus(-x)


def xlogy(x: T, y: T) -> T:
    """Compute x * log(y), which is 0 where x is, unless y is NaN."""
    return x * _unless(x, y, (y > 0) & (y < math.inf), 1.0).op("log")


def xlog1py(x: T, y: T) -> T:
    """Compute x * log(1 + y), which is 0 where x is, unless y is NaN."""
    return x * _unless(x, y, (y > -1) & (y < math.inf), 0.0).op("numpy.log1p")


def _unless(x: T, y: T, usual: T, other: float) -> T:
    """Return y, or ``other`` where x is 0 and the logarithm is not finite."""
    return (x.equal(0) & ~usual & ~y.op("isnan")).choose(other, y)


def entr(x: T) -> T:
    """Compute -x * log(x); 0 at 0, and -inf below."""
    return (x < 0).choose(-math.inf, -xlogy(x, (x < 0).choose(1.0, x)))


@in_float64
def rel_entr(x: T, y: T) -> T:
    """Compute x * log(x / y); 0 where x is 0 and y is not negative, and inf elsewhere out of range."""
    inside, zero = (x > 0) & (y > 0), x.equal(0) & (y >= 0)
    a, b = inside.choose(x, 1.0), inside.choose(y, 1.0)
    missing = x.op("isnan") | y.op("isnan")
    ratio = a / b
    extreme = ~(ratio.op("isfinite") & (ratio > 1e-300))
    logarithm = extreme.choose(a.op("log") - b.op("log"), extreme.choose(1.0, ratio).op("log"))
    near = (ratio - 1).abs() < 0.5
    logarithm = near.choose(near.choose((a - b) / b, 0.0).op("numpy.log1p"), logarithm)
    return missing.choose(math.nan, inside.choose(a * logarithm, zero.choose(0.0, x.like(math.inf))))


@in_float64
def kl_div(x: T, y: T) -> T:
    """Compute x * log(x / y) - x + y."""
    result = rel_entr(x, y)
    inside = (x >= 0) & (y >= 0)
    return inside.choose(result - x + y, result)


@in_float64
def betaln(a: T, b: T) -> T:
    """Compute the logarithm of the absolute value of the beta function."""
    small, large = a.minimum(b), a.maximum(b)
    far = large >= 10.0
    plain = large.op("special.gammaln") - (a + b).op("special.gammaln")
    quotient = far.choose(log_gamma_quotient(far.choose(large, 10.0), far.choose(small, 0.0)), plain)
    return small.op("special.gammaln") + quotient


@in_float64
def beta(a: T, b: T) -> T:
    """Compute gamma(a) * gamma(b) / gamma(a + b)."""
    less, more = a.minimum(b), a.maximum(b)
    quotient = more.op("special.gamma") / (a + b).op("special.gamma")
    product = quotient * less.op("special.gamma")
    large = (less > 0) & (a + b >= 170.0)
    return large.choose(betaln(a, b).op("exp"), product)


#: The number of factors that a binomial coefficient is made of at most; others are made of gamma functions.
_FACTORS = 20


@in_float64
def binom(n: T, k: T) -> T:
    """Compute the binomial coefficient of real numbers."""
    is_integer = k.op("numpy.rint").equal(k) & n.op("numpy.rint").equal(n) & (n >= 0)
    few = is_integer.choose(k.minimum(n - k), k)
    product = n.like(1.0)
    for factor in range(1, _FACTORS + 1):
        step = product * ((n - few + factor) / factor)
        product = (few >= factor).choose(step, product)
    product = (product < 2.0**52).choose(product.op("numpy.rint"), product)
    general = 1 / ((n + 1) * beta(n - few + 1, few + 1))
    result = (is_integer & (few <= _FACTORS)).choose(product, general)
    return (is_integer & (few < 0)).choose(0.0, result)
