"""Differentiate element-wise operators of several operands, which broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nnmagic.relay.expr import Constant
from nnmagic.relay.gradients.registry import rule, rules, zero
from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall
from nnmagic.relay.tensor_expr import TensorExpr

zero("floor_divide", "trunc_divide", "python.print", "python.raise")
zero("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor")
zero("left_shift", "right_shift", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def _broadcast(p: VjpCall, *makers: Callable[[], TensorExpr | None]) -> Sequence[Contribution]:
    """Return the contributions of the arguments that are wanted, summed back to their shapes."""
    contributions: list[Contribution] = []
    for index, make in enumerate(makers):
        term = make() if p.wanted[index] else None
        contributions.append(None if term is None else p.sum_to(term, p.out_shape, index))
    return contributions


@rule("power")
def _power(p: VjpCall) -> Sequence[Contribution]:
    x, y = p.x(0), p.x(1)

    def exponent() -> TensorExpr:
        none = x.equal(0).op("logical_and", y >= 0)
        return none.choose(0, p.d * (p.y * x.op("log")))

    return _broadcast(p, lambda: _power_of_base(p), exponent)


def _power_of_base(p: VjpCall) -> TensorExpr | None:
    """Return the cotangent of the base; a power of 0 has none, even at 0."""
    x, y = p.x(0), p.x(1)
    exponent_expr = p.args[1] if isinstance(p.args[1], Constant) else p.producer(p.args[1])
    if isinstance(exponent_expr, Constant) and exponent_expr.data.size == 1:
        exponent = (
            float(np.asarray(exponent_expr.data, np.float64).reshape(()))
            if exponent_expr.data.ndim == 0
            else None
        )
        if exponent == 0:
            return None
        if exponent == 1:
            return p.d
        if exponent == 2:
            return p.d * (x * 2)
        if exponent is not None:
            return p.d * (x.op("power", y - 1) * y)
    return y.equal(0).choose(0, p.d * (x.op("power", y - 1) * y))


@rule("maximum", "minimum")
def _extremum(p: VjpCall) -> Sequence[Contribution]:
    """Give the cotangent to the operand that was taken; where both are equal, half to each."""
    first, second = (p.x(0), p.x(1)) if p.name == "maximum" else (p.x(1), p.x(0))

    def part(taken: TensorExpr, other: TensorExpr) -> TensorExpr:
        return (taken > other).choose(p.d, taken.equal(other).choose(p.d * 0.5, 0))

    return _broadcast(p, lambda: part(first, second), lambda: part(second, first))


@rule("numpy.hypot")
def _hypot(p: VjpCall) -> Sequence[Contribution]:
    def part(x: TensorExpr) -> TensorExpr:
        return p.y.equal(0).choose(0, p.d * (x / p.y))

    return _broadcast(p, lambda: part(p.x(0)), lambda: part(p.x(1)))


@rule("numpy.arctan2")
def _arctan2(p: VjpCall) -> Sequence[Contribution]:
    """Divide by the larger operand first, so that no square overflows."""
    y, x = p.x(0), p.x(1)
    scale = y.abs().maximum(x.abs())
    one, two = y / scale, x / scale
    factor = p.d / (one * one + two * two) / scale
    nothing = scale.equal(0)
    return _broadcast(p, lambda: nothing.choose(0, factor * two), lambda: nothing.choose(0, -(factor * one)))


@rule("numpy.copysign")
def _copysign(p: VjpCall) -> Sequence[Contribution]:
    turned = p.x(0).op("numpy.signbit").op("not_equal", p.x(1).op("numpy.signbit"))
    return _broadcast(p, lambda: p.x(0).equal(0).choose(0, turned.choose(-p.d, p.d)), lambda: None)


@rule("numpy.logaddexp")
def _logaddexp(p: VjpCall) -> Sequence[Contribution]:
    """Weigh by the shares of the exponentials; equal operands, even infinite, have half each."""
    gap = p.x(0).equal(p.x(1)).choose(0, p.x(0) - p.x(1))
    return _broadcast(p, lambda: p.d * gap.op("sigmoid"), lambda: p.d * (-gap).op("sigmoid"))


@rule("where")
def _where(p: VjpCall) -> Sequence[Contribution]:
    condition = TensorExpr(p.args[0], "bool", p.span)
    return _broadcast(p, lambda: None, lambda: condition.choose(p.d, 0), lambda: condition.choose(0, p.d))


rules(
    {
        "add": lambda p: _broadcast(p, lambda: p.d, lambda: p.d),
        "divide": lambda p: _broadcast(p, lambda: p.d / p.x(1), lambda: -(p.d * p.y / p.x(1))),
        "floor_mod": lambda p: _broadcast(p, lambda: p.d, lambda: -(p.d * p.x(0).op("floor_divide", p.x(1)))),
        "mod trunc_mod": lambda p: _broadcast(p, lambda: p.d, lambda: -(p.d * (p.x(0) / p.x(1)).op("trunc"))),
        "multiply": lambda p: _broadcast(p, lambda: p.d * p.x(1), lambda: p.d * p.x(0)),
        "subtract": lambda p: _broadcast(p, lambda: p.d, lambda: -p.d),
    }
)
