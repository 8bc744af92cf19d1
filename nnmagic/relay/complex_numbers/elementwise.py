"""Lower element-wise operators of complex tensors."""

from __future__ import annotations

import math
from collections.abc import Callable

from nnmagic.relay import expr as ir
from nnmagic.relay.complex_numbers import inverses, mathematics
from nnmagic.relay.complex_numbers.expressions import Parts
from nnmagic.relay.complex_numbers.operators import ABS, ANGLE, CONJ, IMAG, MAKE, OF_PAIRS, PAIRS, REAL
from nnmagic.relay.complex_numbers.site import ComplexCall, Rule, each_part, make_complex
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import is_complex, part_dtype


def _function(function: Callable[[Parts], Parts]) -> Rule:
    return lambda site: make_complex(function(site.parts()))


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
    "acos": _function(inverses.acos),
    "acosh": _function(inverses.acosh),
    "asin": _function(inverses.asin),
    "asinh": _function(inverses.asinh),
    "atan": _function(inverses.atan),
    "atanh": _function(inverses.atanh),
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
