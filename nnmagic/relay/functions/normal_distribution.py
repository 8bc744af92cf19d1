"""Write the normal distribution, its logarithm and its inverse with Relay's operators, in float64.

The inverse is that of M. J. Wichura, "Algorithm AS 241: The percentage points of the normal distribution",
Applied Statistics 37, 1988.
"""

from __future__ import annotations

import math
from typing import TypeVar

from nnmagic.relay.functions.gamma import evaluate, in_float64
from nnmagic.relay.tensor_expr import TensorOperators

T = TypeVar("T", bound=TensorOperators)

#: Numerators and divisors, from the constant on: of the middle, of the tails, and far out in these.
_MIDDLE = (
    (
        *(3.387132872796366608, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125),
        *(45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727),
    ),
    (
        *(1.0, 42.313330701600911252, 687.1870074920579083, 5394.1960214247511077, 21213.794301586595867),
        *(39307.89580009271061, 28729.085735721942674, 5226.495278852854561),
    ),
)
_TAILS = (
    (
        *(1.42343711074968357734, 4.6303378461565452959, 5.7694972214606914055, 3.64784832476320460504),
        *(1.27045825245236838258, 0.24178072517745061177, 0.0227238449892691845833, 7.7454501427834140764e-4),
    ),
    (
        *(1.0, 2.05319162663775882187, 1.6763848301838038494, 0.68976733498510000455),
        *(0.14810397642748007459, 0.0151986665636164571966, 5.475938084995344946e-4),
        1.05075007164441684324e-9,
    ),
)
_FAR = (
    (
        *(6.6579046435011037772, 5.4637849111641143699, 1.7848265399172913358, 0.29656057182850489123),
        *(0.026532189526576123093, 0.0012426609473880784386, 2.71155556874348757815e-5),
        2.01033439929228813265e-7,
    ),
    (
        *(1.0, 0.59983220655588793769, 0.13692988092273580531, 0.0148753612908506148525),
        *(7.868691311456132591e-4, 1.8463183175100546818e-5, 1.4215117583164458887e-7),
        2.04426310338993978564e-15,
    ),
)


def _quotient(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: T) -> T:
    return evaluate(coefficients[0], x) / evaluate(coefficients[1], x)


def _deviate(centre: T, tail: T) -> T:
    """Return the number below which a share lies, from the share less 1/2 and that of the lesser side."""
    middle = centre.abs() <= 0.425
    inside = middle.choose(centre, 0.0)
    near = inside * _quotient(_MIDDLE, 0.180625 - inside * inside)
    distance = (-middle.choose(0.25, tail).op("log")).op("sqrt")
    outside = (distance <= 5.0).choose(_quotient(_TAILS, distance - 1.6), _quotient(_FAR, distance - 5.0))
    outside = tail.equal(0).choose(math.inf, outside)
    return middle.choose(near, (centre < 0).choose(-outside, outside))


def _within(x: T, low: float, high: float, result: T) -> T:
    """Return NaN for arguments out of the range."""
    return ((x >= low) & (x <= high)).choose(result, math.nan)


@in_float64
def ndtri(p: T) -> T:
    """Compute the number below which the share p of the normal distribution lies."""
    return _within(p, 0.0, 1.0, _deviate(p - 0.5, p.minimum(1 - p)))


@in_float64
def erfinv(y: T) -> T:
    """Compute the inverse of the error function."""
    deviate = _deviate(y * 0.5, (1 - y.abs()) * 0.5) * math.sqrt(0.5)
    return y.equal(0).choose(y, _within(y, -1.0, 1.0, deviate))


@in_float64
def erfcinv(y: T) -> T:
    """Compute the inverse of 1 - erf(x)."""
    deviate = _deviate((1 - y) * 0.5, y.minimum(2 - y) * 0.5)
    return _within(y, 0.0, 2.0, deviate * math.sqrt(0.5))


@in_float64
def ndtr(x: T) -> T:
    """Compute the share of the normal distribution below x."""
    return (x * -math.sqrt(0.5)).op("special.erfc") * 0.5


#: ``exp(t**2) * erfc(t) * (t + shift)`` of t in a range, in terms of ``w = 1 / (t + shift)``, which is moved
#: and scaled to -1 to 1; the coefficients begin with the highest power.
EXP_ERFC_RANGE, EXP_ERFC_SHIFT = (0.5, 28.0), 4.0
EXP_ERFC = (
    -5.393466924636428e-11,
    -2.765713621315146e-11,
    9.230304338410553e-10,
    1.0853848537554698e-09,
    -1.1021162643623294e-08,
    -2.8320465462162644e-08,
    1.0080378279413506e-07,
    5.954034583267034e-07,
    -5.854656291828436e-09,
    -9.154296134438622e-06,
    -3.2616464519751224e-05,
    1.9119794640591072e-05,
    0.0007122500149104589,
    0.00410576649799945,
    0.01569239287988338,
    0.04694498486118278,
    0.11684668469210592,
    0.24942978782576525,
    0.4645638577869513,
    0.7626233701824806,
    1.1097094521551207,
)

#: Where the asymptotic series of the logarithm has converged.
_TAIL = -20.0


def _scaled_erfc(t: T) -> T:
    """Compute exp(t ** 2) * erfc(t) of t in the range."""
    w = 1 / (t + EXP_ERFC_SHIFT)
    top, low = (1 / (each + EXP_ERFC_SHIFT) for each in EXP_ERFC_RANGE)
    u = (w - (low + top) / 2) * (2 / (top - low))
    return w * evaluate(EXP_ERFC[::-1], u)


@in_float64
def erfcx(x: T) -> T:
    """Compute exp(x ** 2) * erfc(x); beyond the range its series in 1 / x ends soon."""
    size, (low, high) = x.abs(), EXP_ERFC_RANGE
    small = size.minimum(low)
    near = (small * small).op("exp") * small.op("special.erfc")
    inverse = 1 / size.maximum(high)
    series = (
        evaluate((1.0, -0.5, 0.75, -1.875, 6.5625), inverse * inverse) * inverse * (1 / math.sqrt(math.pi))
    )
    result = (size < low).choose(near, (size < high).choose(_scaled_erfc(size.minimum(high)), series))
    result = (x < 0).choose(2 * (x * x).op("exp") - result, result)
    return x.op("isnan").choose(x, result)


@in_float64
def log_ndtr(x: T) -> T:
    """Compute the logarithm of the share of the normal distribution below x."""
    far, middle = x < _TAIL, x < -1.0
    above = (x * math.sqrt(0.5)).op("special.erfc") * 0.5
    inside = middle.choose(0.0, x.minimum(0.0))
    near = (x > 0).choose(
        (-above).op("numpy.log1p"), (0.5 + 0.5 * (inside * math.sqrt(0.5)).op("erf")).op("log")
    )
    t = (middle & ~far).choose(x, -1.0) * -math.sqrt(0.5)
    near = middle.choose((_scaled_erfc(t) * 0.5).op("log") - 0.5 * x * x, near)
    size = far.choose(x, _TAIL)
    terms = [1.0]
    for k in range(1, 13):
        terms.append(-terms[-1] * (2 * k - 1))
    series = evaluate(terms, 1 / (size * size))
    tail = -0.5 * size * size - (-size * math.sqrt(2 * math.pi)).op("log") + series.op("log")
    return far.choose(tail, near)
