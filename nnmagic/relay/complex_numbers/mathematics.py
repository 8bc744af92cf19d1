"""Compute functions of complex numbers from their real and imaginary parts.

No result overflows or loses its digits where NumPy's does not: absolute values and roots are scaled by powers
of two, and divisions are Smith's.
"""

from __future__ import annotations

import math

import numpy as np

from nnmagic.relay.complex_numbers.expressions import Parts, choose
from nnmagic.relay.tensor_expr import TensorExpr

#: Exponents up to this one are products, as in NumPy.
MAX_PRODUCT_EXPONENT = 100

_BITS = {"float32": "int32", "float64": "int64"}


def _is_infinite(x: TensorExpr) -> TensorExpr:
    return x.op("isinf")


def angle(z: Parts) -> TensorExpr:
    """Compute the angle from the positive real axis."""
    return z.im.op("numpy.arctan2", z.re)


def divide(lhs: Parts, rhs: Parts) -> Parts:
    """Divide by R. L. Smith's algorithm (1962), as NumPy does."""
    c, d = rhs.re, rhs.im
    wide = c.abs() >= d.abs()
    large, small = wide.choose(c, d), wide.choose(d, c)
    zero = c.equal(0.0) & d.equal(0.0)
    ratio = zero.choose(0.0, small / large)
    scale = 1.0 / (large + small * ratio)
    first, second = wide.choose(lhs.re, lhs.im), wide.choose(lhs.im, lhs.re)
    re = (first + second * ratio) * scale
    im = (second - first * ratio) * scale
    quotient = Parts(re, wide.choose(im, -im))
    by_zero = large.abs()
    return choose(zero, Parts(lhs.re / by_zero, lhs.im / by_zero), quotient)


def exp(z: Parts) -> Parts:
    """Compute ``exp(x) (cos y + i sin y)``; half of x twice, so that no product overflows too early."""
    half = (z.re * 0.5).op("exp")
    cosine, sine = z.im.op("cos"), z.im.op("sin")
    plain = z.im.equal(0.0)
    re = plain.choose(z.re.op("exp"), half * cosine * half)
    im = plain.choose(z.im, half * sine * half)
    aimless = z.im.op("isfinite").op("logical_not")
    vanishing, endless = z.re.equal(-math.inf) & aimless, z.re.equal(math.inf) & aimless
    re = endless.choose(math.inf, vanishing.choose(0.0, re))
    return Parts(re, vanishing.choose(0.0, im))


def log(z: Parts) -> Parts:
    """Compute ``log |z| + i angle(z)``; near ``|z| = 1`` from ``|z|**2 - 1``, whose digits are all there."""
    a, b = z.re.abs(), z.im.abs()
    large, small = a.op("maximum", b), a.op("minimum", b)
    near = (large > 0.7) & (large < 1.4) & (small < 0.9)
    excess = near.choose((large - 1.0) * (large + 1.0) + small * small, 0.0)
    return Parts(near.choose(excess.op("numpy.log1p") * 0.5, log_of_size(a, b)), angle(z))


def log_of_size(a: TensorExpr, b: TensorExpr) -> TensorExpr:
    """Return ``log(hypot(a, b))``, also of numbers whose hypotenuse overflows or has few digits."""
    info = np.finfo(a.dtype)
    large = a.op("maximum", b)
    huge, tiny = large > float(info.max) / 4, large < float(info.smallest_normal) * 2.0**30
    power = 200 if a.dtype == "float64" else 64
    scale = huge.choose(2.0**-2, tiny.choose(2.0**power, a.like(1.0)))
    back = huge.choose(2 * math.log(2), tiny.choose(-power * math.log(2), a.like(0.0)))
    return (a * scale).op("numpy.hypot", b * scale).op("log") + back


def sqrt(z: Parts) -> Parts:
    """Compute the root with a real part that is not negative, of numbers scaled by a power of four."""
    info = np.finfo(z.dtype)
    a, b = z.re.abs(), z.im.abs()
    large = a.op("maximum", b)
    huge, tiny = large > float(info.max) / 8, large < float(info.smallest_normal) * 2.0**30
    power = 52 if z.dtype == "float64" else 24
    scale = huge.choose(2.0**-4, tiny.choose(2.0 ** (2 * power), a.like(1.0)))
    back = huge.choose(2.0**2, tiny.choose(2.0**-power, a.like(1.0)))
    x, y = a * scale, b * scale
    root = ((x + x.op("numpy.hypot", y)) * 0.5).op("sqrt")
    zero = root.equal(0.0)
    other = y / (zero.choose(1.0, root) * 2.0)
    root, other = root * back, other * back
    negative = z.re.op("numpy.signbit")
    re, im = negative.choose(other, root), negative.choose(root, other)
    endless = b.equal(math.inf)
    re, im = endless.choose(math.inf, re), endless.choose(math.inf, im)
    flat = a.equal(math.inf) & b.op("isfinite")
    re = flat.choose(negative.choose(0.0, a), re)
    im = flat.choose(negative.choose(a, 0.0), im)
    return Parts(re, im.op("numpy.copysign", z.im))


def _hyperbolic(x: TensorExpr) -> tuple[TensorExpr, TensorExpr, TensorExpr]:
    """Return ``sinh x`` and ``cosh x``, each divided by the third result, lest products overflow."""
    far = x.abs() > (40.0 if x.dtype == "float32" else 300.0)
    near = far.choose(0.0, x)
    root = (x.abs() * 0.5).op("exp")
    half = root * 0.5
    factor = far.choose(root, x.like(1.0))
    return (
        far.choose(half.op("numpy.copysign", x), near.op("sinh")),
        far.choose(half, near.op("cosh")),
        factor,
    )


def sinh(z: Parts) -> Parts:
    """Compute ``sinh x cos y + i cosh x sin y``."""
    sine, cosine, factor = _hyperbolic(z.re)
    turn = z.im.op("cos")
    re = sine * turn * factor
    im = cosine * z.im.op("sin") * factor
    re = _endless_beyond_turns(z).choose(math.inf, re)
    zero = z.re * z.re.op("ones_like").op("numpy.copysign", turn)
    return Parts(z.re.equal(0.0).choose(zero, re), z.im.equal(0.0).choose(z.im, im))


def cosh(z: Parts) -> Parts:
    """Compute ``cosh x cos y + i sinh x sin y``."""
    sine, cosine, factor = _hyperbolic(z.re)
    re = cosine * z.im.op("cos") * factor
    im = sine * z.im.op("sin") * factor
    re = _endless_beyond_turns(z).choose(math.inf, re)
    edge = z.re.equal(0.0) | z.im.equal(0.0)
    turn = z.im.op("sin")
    zero = z.re.op("zeros_like").op("numpy.copysign", z.re) * z.im.op("ones_like").op("numpy.copysign", turn)
    return Parts(re, edge.choose(zero, im))


def _endless_beyond_turns(z: Parts) -> TensorExpr:
    """Return where the real part is infinite and the imaginary part is no angle."""
    return _is_infinite(z.re) & z.im.op("isfinite").op("logical_not")


def sin(z: Parts) -> Parts:
    """Compute ``sin z`` as ``i sinh(-iz)``."""
    turned = sinh(Parts(z.im, -z.re))
    return Parts(-turned.im, turned.re)


def cos(z: Parts) -> Parts:
    """Compute ``cos z`` as ``cosh(iz)``."""
    return cosh(Parts(-z.im, z.re))


def tanh(z: Parts) -> Parts:
    """Compute ``tanh z`` as W. Kahan does (1987); for a large real part its limit."""
    x, y = z.re, z.im
    limit = 11.0 if z.dtype == "float32" else 22.0
    far = x.abs() > limit
    near = far.choose(0.0, x)
    tangent, sine = y.op("tan"), near.op("sinh")
    beta = 1.0 + tangent * tangent
    rho = (1.0 + sine * sine).op("sqrt")
    divisor = 1.0 + beta * sine * sine
    small = Parts(beta * rho * sine / divisor, tangent / divisor)
    decay = (x.abs() * -1.0).op("exp")
    double = y.op("sin") * y.op("cos")
    tail = double * 4.0 * decay * decay
    tail = _is_infinite(x).choose(x.op("zeros_like").op("numpy.copysign", double), tail)
    aimless = y.op("isfinite").op("logical_not") & x.op("isfinite")
    limits = (aimless.choose(math.nan, x.op("ones_like"))).op("numpy.copysign", x)
    re, im = far.choose(limits, small.re), far.choose(tail, small.im)
    return Parts(x.equal(0.0).choose(x, re), y.equal(0.0).choose(y, im))


def tan(z: Parts) -> Parts:
    """Compute ``tan z`` as ``-i tanh(iz)``."""
    turned = tanh(Parts(-z.im, z.re))
    return Parts(turned.im, -turned.re)


def sign(z: Parts) -> Parts:
    """Compute ``z / |z|``, 0 for 0, from numbers scaled by the larger part; infinity has a direction."""
    a, b = z.re.abs(), z.im.abs()
    both = _is_infinite(z.re) & _is_infinite(z.im)
    endless = _is_infinite(z.re) | _is_infinite(z.im)
    large = a.op("maximum", b)
    scale = large.equal(0.0).choose(1.0, large)
    x, y = z.re / scale, z.im / scale
    size = x.op("numpy.hypot", y)
    size = size.equal(0.0).choose(1.0, size)
    re, im = x / size, y / size
    one, nothing = z.re.op("ones_like"), z.re.op("zeros_like")
    re = endless.choose(_is_infinite(z.re).choose(one.op("numpy.copysign", z.re), nothing), re)
    im = endless.choose(_is_infinite(z.im).choose(one.op("numpy.copysign", z.im), nothing), im)
    zero = large.equal(0.0)
    re, im = zero.choose(0.0, re), zero.choose(0.0, im)
    return Parts(both.choose(math.nan, re), both.choose(math.nan, im))


def power(base: Parts, exponent: Parts) -> Parts:
    """Compute ``exp(exponent log(base))``; 0 to a power is 0, 1 or not a number, as in NumPy."""
    result = exp(exponent * log(base))
    nothing = base.re.equal(0.0) & base.im.equal(0.0)
    one = exponent.re.equal(0.0) & exponent.im.equal(0.0)
    valid = exponent.re > 0.0
    at_zero_re = one.choose(1.0, valid.choose(exponent.re.op("zeros_like"), math.nan))
    at_zero_im = (one | valid).choose(exponent.re.op("zeros_like"), math.nan)
    result = Parts(nothing.choose(at_zero_re, result.re), nothing.choose(at_zero_im, result.im))
    return Parts(one.choose(1.0, result.re), one.choose(0.0, result.im))


def integer_power(base: Parts, exponent: int) -> Parts:
    """Compute a power by squaring; of a negative exponent, the inverse of that."""
    result: Parts | None = None
    square, remaining = base, abs(exponent)
    while remaining:
        if remaining & 1:
            result = square if result is None else result * square
        remaining >>= 1
        if remaining:
            square = square * square
    one = Parts(base.re.op("ones_like"), base.im.op("zeros_like"))
    if result is None:
        return one
    return result if exponent > 0 else divide(one, result)
