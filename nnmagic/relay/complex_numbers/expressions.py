"""Write arithmetic on real and complex tensors of Relay as Python's operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.ops.calls import call


@dataclass(frozen=True, slots=True, eq=False)
class Real:
    """A tensor of floats (or, of a comparison, of bools), with the dtype and the span of its computation."""

    expr: ir.Expr
    dtype: str
    span: Span | None

    def op(self, name: str, *others: Real | float, **attrs: object) -> Real:
        """Call an operator with this tensor as the first argument; a number takes the dtype."""
        args = [self.expr, *(self.like(other).expr for other in others)]
        return Real(call(name, args, self.span, **attrs), self.dtype, self.span)

    def like(self, other: Real | float) -> Real:
        """Return a number as a constant of this dtype; a tensor as it is."""
        if isinstance(other, Real):
            return other
        stored = np.array(other, self.dtype)
        return Real(ir.constant(stored, self.dtype, span=self.span), self.dtype, self.span)

    def cast(self, dtype: str) -> Real:
        """Convert to another dtype."""
        if dtype == self.dtype:
            return self
        return Real(call("cast", [self.expr], self.span, dtype=dtype), dtype, self.span)

    def choose(self, yes: Real | float, no: Real | float) -> Real:
        """Return ``yes`` where this tensor of bools is true, else ``no``; one of them must be a tensor."""
        like = yes if isinstance(yes, Real) else no
        assert isinstance(like, Real)
        args = [self.expr, like.like(yes).expr, like.like(no).expr]
        return Real(call("where", args, self.span), like.dtype, self.span)

    def __add__(self, other: Real | float) -> Real:
        return self.op("add", other)

    def __radd__(self, other: float) -> Real:
        return self.like(other) + self

    def __sub__(self, other: Real | float) -> Real:
        return self.op("subtract", other)

    def __rsub__(self, other: float) -> Real:
        return self.like(other) - self

    def __mul__(self, other: Real | float) -> Real:
        return self.op("multiply", other)

    def __truediv__(self, other: Real | float) -> Real:
        return self.op("divide", other)

    def __rtruediv__(self, other: float) -> Real:
        return self.like(other) / self

    def __neg__(self) -> Real:
        return self.op("negative")

    def __lt__(self, other: Real | float) -> Real:
        return self.op("less", other)

    def __gt__(self, other: Real | float) -> Real:
        return self.op("greater", other)

    def __ge__(self, other: Real | float) -> Real:
        return self.op("greater_equal", other)

    def __and__(self, other: Real) -> Real:
        return self.op("logical_and", other)

    def __or__(self, other: Real) -> Real:
        return self.op("logical_or", other)

    def equal(self, other: Real | float) -> Real:
        """Return where both are equal."""
        return self.op("equal", other)

    def differs(self, other: Real | float) -> Real:
        """Return where both differ."""
        return self.op("not_equal", other)

    def abs(self) -> Real:
        """Compute the absolute value."""
        return self.op("abs")


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """A complex tensor by its real and its imaginary part."""

    re: Real
    im: Real

    @property
    def dtype(self) -> str:
        """Return the dtype of the parts."""
        return self.re.dtype

    def __add__(self, other: Parts) -> Parts:
        return Parts(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Parts) -> Parts:
        return Parts(self.re - other.re, self.im - other.im)

    def __neg__(self) -> Parts:
        return Parts(-self.re, -self.im)

    def __mul__(self, other: Parts) -> Parts:
        re = self.re * other.re - self.im * other.im
        return Parts(re, self.re * other.im + self.im * other.re)

    def scale(self, factor: Real | float) -> Parts:
        """Multiply by a real number."""
        return Parts(self.re * factor, self.im * factor)

    def cast(self, dtype: str) -> Parts:
        """Convert both parts to another dtype."""
        return Parts(self.re.cast(dtype), self.im.cast(dtype))


def choose(condition: Real, yes: Parts, no: Parts) -> Parts:
    """Return ``yes`` where the condition is true, else ``no``."""
    return Parts(condition.choose(yes.re, no.re), condition.choose(yes.im, no.im))
