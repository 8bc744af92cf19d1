"""Lower element-wise operators of complex tensors.

The formulas of the inverse functions are W. Kahan's (Branch Cuts for Complex Elementary Functions, 1987),
which cancel no digits and tell both sides of a branch cut apart by the sign of a zero; infinities and NaN
follow annex G of C99. Numbers of f32 are computed in f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from nnmagic.relay import expr as ir
from nnmagic.relay.complex_numbers import mathematics
from nnmagic.relay.complex_numbers.expressions import Parts
from nnmagic.relay.complex_numbers.mathematics import angle, log_of_size, sqrt
from nnmagic.relay.complex_numbers.operators import ABS, ANGLE, CONJ, IMAG, MAKE, OF_PAIRS, PAIRS, REAL
from nnmagic.relay.complex_numbers.site import ComplexCall, Rule, each_part, make_complex
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import is_complex, part_dtype

#: From this size on the squares of numbers overflow, and their functions are those of their logarithms.
_LARGE = 1e150


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


def _function(function: Callable[[Parts], Parts]) -> Rule:
    return lambda site: make_complex(function(site.parts()))


def _in_f64(function: Callable[[Parts], Parts]) -> Rule:
    return _function(lambda z: function(z.cast("float64")).cast(z.dtype))


def _operation(function: Callable[[Parts, Parts], Parts]) -> Rule:
    return lambda site: make_complex(function(site.parts(0), site.parts(1)))


def _test(function: Callable[[Parts], TensorExpr]) -> Rule:
    return lambda site: function(site.parts()).expr


def _comparison(function: Callable[[Parts, Parts], TensorExpr]) -> Rule:
    return lambda site: function(site.parts(0), site.parts(1)).expr


def _linear(site: ComplexCall) -> ir.Expr:
    """Apply a linear operator to tensors of pairs as they are, else to the parts."""
    if any(map(site.is_made, range(len(site.args)))):
        return each_part(site)
    return site.call(*site.args)


def _power(site: ComplexCall) -> ir.Expr:
    exponent = site.node.args[1]
    if isinstance(exponent, ir.Constant) and not exponent.data.shape:
        number = complex(exponent.data)
        whole = number.imag == 0 and number.real.is_integer()
        if whole and abs(number.real) <= mathematics.MAX_PRODUCT_EXPONENT:
            return make_complex(mathematics.integer_power(site.parts(), int(number.real)))
    return make_complex(mathematics.power(site.parts(0), site.parts(1)))


def _cast(site: ComplexCall) -> ir.Expr:
    """Convert to a complex dtype: from one, or from real numbers. From complex to real nothing converts."""
    dtype = part_dtype(site.result.dtype)
    if site.is_complex(0):
        return make_complex(site.parts().cast(dtype))
    real = TensorExpr(site.args[0], site.type().dtype, site.span).cast(dtype)
    return make_complex(Parts(real, real.op("zeros_like")))


def _where(site: ComplexCall) -> ir.Expr:
    condition = site.args[0]
    if site.is_made(1) or site.is_made(2):
        return each_part(site)
    rank = site.rank(0)
    wide = ir.Call(
        ir.OpRef("expand_dims", span=site.span),
        (condition,),
        {"axis": rank, "num_newaxis": 1},
        span=site.span,
    )
    return site.call(wide, site.args[1], site.args[2])


RULES: dict[str, Rule] = {
    MAKE: lambda site: make_complex(Parts(site.real(site.args[0]), site.real(site.args[1]))),
    REAL: _test(lambda z: z.re),
    IMAG: _test(lambda z: z.im),
    ABS: _test(lambda z: z.re.op("numpy.hypot", z.im)),
    ANGLE: _test(mathematics.angle),
    CONJ: _function(lambda z: Parts(z.re, -z.im)),
    PAIRS: lambda site: site.pairs(),
    OF_PAIRS: lambda site: site.args[0],
    **dict.fromkeys(("add", "subtract", "negative", "copy", "zeros_like"), _linear),
    "multiply": _operation(lambda a, b: a * b),
    "divide": _operation(mathematics.divide),
    "power": _power,
    "exp": _function(mathematics.exp),
    "log": _function(mathematics.log),
    "log2": _function(lambda z: mathematics.log(z).scale(1 / math.log(2))),
    "log10": _function(lambda z: mathematics.log(z).scale(1 / math.log(10))),
    "sqrt": _function(mathematics.sqrt),
    "sin": _function(mathematics.sin),
    "cos": _function(mathematics.cos),
    "tan": _function(mathematics.tan),
    "sinh": _function(mathematics.sinh),
    "cosh": _function(mathematics.cosh),
    "tanh": _function(mathematics.tanh),
    "acos": _in_f64(_acos),
    "acosh": _in_f64(_acosh),
    "asin": _in_f64(_asin),
    "asinh": _in_f64(_asinh),
    "atan": _in_f64(_atan),
    "atanh": _in_f64(_atanh),
    "sign": _function(mathematics.sign),
    "ones_like": _function(lambda z: Parts(z.re.op("ones_like"), z.im.op("zeros_like"))),
    "equal": _comparison(lambda a, b: a.re.equal(b.re) & a.im.equal(b.im)),
    "not_equal": _comparison(lambda a, b: a.re.differs(b.re) | a.im.differs(b.im)),
    "isnan": _test(lambda z: z.re.op("isnan") | z.im.op("isnan")),
    "isinf": _test(lambda z: z.re.op("isinf") | z.im.op("isinf")),
    "isfinite": _test(lambda z: z.re.op("isfinite") & z.im.op("isfinite")),
    "where": _where,
    "cast": _cast,
}


def converts_to_real(dtype: str, wanted: str) -> bool:
    """Return whether a conversion would drop imaginary parts."""
    return is_complex(dtype) and not is_complex(wanted)
