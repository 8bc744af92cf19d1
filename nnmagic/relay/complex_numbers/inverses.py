"""Compute inverse trigonometric and hyperbolic functions of complex numbers from their parts.

The formulas are W. Kahan's (Branch Cuts for Complex Elementary Functions, 1987), which cancel no digits and
tell both sides of a branch cut apart by the sign of a zero; infinities and NaN follow annex G of C99. Numbers
of f32 are computed in f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from nnmagic.relay.complex_numbers.expressions import Parts
from nnmagic.relay.complex_numbers.mathematics import angle, log_of_size, sqrt
from nnmagic.relay.tensor_expr import TensorExpr

#: From this size on the squares of numbers overflow, and their functions are those of their logarithms.
_LARGE = 1e150


def _in_f64(function: Callable[[Parts], Parts]) -> Callable[[Parts], Parts]:
    return lambda z: function(z.cast("float64")).cast(z.dtype)


def _is_large(z: Parts) -> TensorExpr:
    """Return where a part is large or infinite, whatever the other one is."""
    return (z.re.abs() > _LARGE) | (z.im.abs() > _LARGE)


def _log_of_twice(z: Parts) -> TensorExpr:
    """Return ``log |2 z|``."""
    return log_of_size(z.re.abs(), z.im.abs()) + math.log(2)


def _acos(z: Parts) -> Parts:
    x, y = z.re, z.im
    large = _is_large(z)
    near = Parts(large.choose(0.0, x), large.choose(0.0, y))
    below, above = sqrt(Parts(1.0 - near.re, -near.im)), sqrt(Parts(1.0 + near.re, near.im))
    re = angle(Parts(above.re, below.re)) * 2.0
    im = (above.re * below.im - above.im * below.re).op("asinh")
    on_axis = x.equal(0.0) & y.op("isnan")
    re = large.choose(angle(Parts(x, y.abs())), on_axis.choose(math.pi / 2, re))
    return Parts(re, large.choose(_log_of_twice(z).op("numpy.copysign", -y), im))


def _asinh(z: Parts) -> Parts:
    x, y = z.re, z.im
    large = _is_large(z)
    near = Parts(large.choose(0.0, x), large.choose(0.0, y))
    above, below = sqrt(Parts(1.0 + near.im, -near.re)), sqrt(Parts(1.0 - near.im, near.re))
    re = (above.re * below.im - below.re * above.im).op("asinh")
    im = angle(Parts(above.re * below.re - above.im * below.im, near.im))
    re = large.choose(_log_of_twice(z).op("numpy.copysign", x), re)
    im = large.choose(angle(Parts(x.abs(), y)), y.equal(0.0).choose(y, im))
    return Parts(x.equal(0.0).choose(_real_part_on_axis(x, y, re), re), im)


def _real_part_on_axis(x: TensorExpr, y: TensorExpr, re: TensorExpr) -> TensorExpr:
    """Return the real part of asinh on the imaginary axis: between the branch points a zero."""
    return (y.abs() > 1.0).choose(re, y.op("isnan").choose(re, x))


def _atanh(z: Parts) -> Parts:
    x, y = z.re, z.im
    a, b = x.abs(), y.abs()
    large = _is_large(z)
    p, q = large.choose(0.0, a), large.choose(0.0, y)
    gap = 1.0 - p
    # Beside the branch point the square of the distance would vanish.
    close = a.equal(1.0) & (b < 1.0 / _LARGE)
    size = gap * gap + q * q
    re = (p * 4.0 / close.choose(1.0, size)).op("numpy.log1p") * 0.25
    re = close.choose((math.log(2) - b.op("log")) * 0.5, re)
    im = angle(Parts(gap * (1.0 + p) - q * q, q * 2.0)) * 0.5
    # The real part of 1 / z, of numbers that the larger part scales.
    scale = a.op("maximum", b)
    u, v = a / scale, b / scale
    far = (a.equal(math.inf) | b.equal(math.inf)).choose(0.0, u / (scale * (u * u + v * v)))
    unknown = y.op("isnan") | (x.op("isnan") & y.op("isfinite"))
    quarter = unknown.choose(math.nan, (y.op("ones_like") * (math.pi / 2)).op("numpy.copysign", y))
    re = x.equal(0.0).choose(x, (large.choose(far, re)).op("numpy.copysign", x))
    return Parts(re, large.choose(quarter, im))


def _acosh(z: Parts) -> Parts:
    turned = _acos(z)
    return Parts(turned.im.abs(), turned.re.op("numpy.copysign", z.im))


def _asin(z: Parts) -> Parts:
    turned = _asinh(Parts(-z.im, z.re))
    return Parts(turned.im, -turned.re)


def _atan(z: Parts) -> Parts:
    turned = _atanh(Parts(-z.im, z.re))
    return Parts(turned.im, -turned.re)


acos, acosh = _in_f64(_acos), _in_f64(_acosh)
asin, asinh = _in_f64(_asin), _in_f64(_asinh)
atan, atanh = _in_f64(_atan), _in_f64(_atanh)
