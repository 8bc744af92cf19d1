"""Differentiate element-wise operators of one operand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

from nnmagic.relay.expr import Call, OpRef
from nnmagic.relay.gradients.registry import RULES, rule, rules, zero
from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import is_float

zero(
    *("sign", "floor", "ceil", "round", "numpy.rint", "numpy.signbit", "trunc", "isfinite", "isinf", "isnan"),
    *("logical_not", "bitwise_not"),
)
zero("reinterpret", "fixed_point_multiply")


def _per(y: TensorExpr, x: TensorExpr) -> TensorExpr:
    """Return y / x of a function whose limit at 0 is 1/2."""
    zero = x.equal(0)
    return zero.choose(0.5, y / zero.choose(1.0, x))


#: The derivative of each operator from its operand x, its result y and the cotangent d.
_DERIVATIVES: dict[str, Callable[[TensorExpr, TensorExpr, TensorExpr], TensorExpr]] = {
    "abs": lambda x, _y, d: d * x.op("sign"),
    "acos": lambda x, _y, d: -(d / ((1 - x) * (1 + x)).op("sqrt")),
    "acosh": lambda x, _y, d: d / ((x - 1).op("sqrt") * (x + 1).op("sqrt")),
    "asin": lambda x, _y, d: d / ((1 - x) * (1 + x)).op("sqrt"),
    "asinh": lambda _x, y, d: d / y.op("cosh"),
    "atan": lambda x, _y, d: d / (1 + x * x),
    "atanh": lambda x, _y, d: d / ((1 - x) * (1 + x)),
    "copy": lambda _x, _y, d: d,
    "cos": lambda x, _y, d: -(d * x.op("sin")),
    "cosh": lambda x, _y, d: d * x.op("sinh"),
    "erf": lambda x, _y, d: d * ((-(x * x)).op("exp") * (2 / math.sqrt(math.pi))),
    "exp": lambda _x, y, d: d * y,
    "fast_exp": lambda _x, y, d: d * y,
    "fast_tanh": lambda _x, y, d: d * (1 - y * y),
    "log": lambda x, _y, d: d / x,
    "log10": lambda x, _y, d: d / (x * math.log(10)),
    "log2": lambda x, _y, d: d / (x * math.log(2)),
    "negative": lambda _x, _y, d: -d,
    "nn.relu": lambda x, _y, d: (x > 0).choose(d, 0),
    "numpy.cbrt": lambda _x, y, d: d / (y * y * 3),
    "numpy.expm1": lambda _x, y, d: d * (y + 1),
    "numpy.log1p": lambda x, _y, d: d / (1 + x),
    "rsqrt": lambda x, y, d: d * (y / x * -0.5),
    "sigmoid": lambda _x, y, d: d * (y * (1 - y)),
    "sin": lambda x, _y, d: d * x.op("cos"),
    "sinh": lambda x, _y, d: d * x.op("cosh"),
    "special.erfc": lambda x, _y, d: d * ((-(x * x)).op("exp") * (-2 / math.sqrt(math.pi))),
    "special.erfcinv": lambda _x, y, d: d * ((y * y).op("exp") * (-math.sqrt(math.pi) / 2)),
    "special.erfinv": lambda _x, y, d: d * ((y * y).op("exp") * (math.sqrt(math.pi) / 2)),
    "special.gamma": lambda x, y, d: d * y * x.op("special.polygamma", n=0),
    "special.gammaln": lambda x, _y, d: d * x.op("special.polygamma", n=0),
    "special.i0": lambda x, _y, d: d * x.op("special.i1"),
    "special.i0e": lambda x, y, d: d * (x.op("special.i1e") - x.op("sign") * y),
    "special.i1": lambda x, y, d: d * (x.op("special.i0") - _per(y, x)),
    "special.i1e": lambda x, y, d: d * (x.op("special.i0e") - x.op("sign") * y - _per(y, x)),
    "special.log_ndtr": lambda x, y, d: d * ((x * x * -0.5 - y).op("exp") / math.sqrt(2 * math.pi)),
    "special.ndtri": lambda _x, y, d: d * ((y * y * 0.5).op("exp") * math.sqrt(2 * math.pi)),
    "tan": lambda _x, y, d: d * (1 + y * y),
    "tanh": lambda _x, y, d: d * (1 - y * y),
}


def _unary(
    derivative: Callable[[TensorExpr, TensorExpr, TensorExpr], TensorExpr],
) -> Callable[[VjpCall], Sequence[Contribution]]:
    return lambda p: [derivative(p.x(), p.y, p.d)]


for _name, _derivative in _DERIVATIVES.items():
    rule(_name)(_unary(_derivative))


@rule("sqrt")
def _sqrt(p: VjpCall) -> Sequence[Contribution]:
    """Divide by twice the result; the norm of zeros has the gradient 0, its subgradient of least norm."""
    slope = p.d / (p.y * 2)
    return [p.y.equal(0).choose(0, slope) if _is_sum_of_squares(p) else slope]


def _is_sum_of_squares(p: VjpCall) -> bool:
    """Return whether the operand is one by its making: a square root of it is a norm."""
    root, depth = p.producer(p.args[0]), 0
    while isinstance(root, Call) and isinstance(root.op, OpRef) and depth < 8:
        name, args = root.op.name, root.args
        if name in ("reshape", "squeeze", "expand_dims"):
            root, depth = p.producer(args[0]), depth + 1
            continue
        if name == "variance":
            return True
        if name == "multiply":
            return args[0] is args[1]
        if name == "sum":
            root, depth = p.producer(args[0]), depth + 1
            continue
        if name in ("multiply", "divide"):
            root, depth = p.producer(args[0]), depth + 1
            continue
        if name == "add":
            return all(
                isinstance(producer, Call)
                and isinstance(producer.op, OpRef)
                and producer.op.name == "multiply"
                and producer.args[0] is producer.args[1]
                for producer in map(p.producer, args)
            )
        return False
    return False


@rule("clip")
def _clip(p: VjpCall) -> Sequence[Contribution]:
    low, high = cast("float", p.attrs["a_min"]), cast("float", p.attrs["a_max"])
    inside = (p.x() >= low).op("logical_and", p.x() <= high)
    return [inside.choose(p.d, 0)]


@rule("cast")
def _cast(p: VjpCall) -> Sequence[Contribution]:
    dtype = p.tensor(0).dtype
    return [p.d.cast(dtype) if is_float(dtype) else None]


assert set(_DERIVATIVES) <= set(RULES)


rules(
    {
        "cast_like": lambda p: [*_cast(p), None],
        "nn.leaky_relu": lambda p: [(p.x() > 0).choose(p.d, p.d * cast("float", p.attrs["alpha"]))],
        "special.polygamma": lambda p: [p.d * p.x().op("special.polygamma", n=cast("int", p.attrs["n"]) + 1)],
    }
)
