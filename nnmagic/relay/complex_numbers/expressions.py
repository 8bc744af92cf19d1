"""Write arithmetic on complex tensors of Relay as Python's operators."""

from __future__ import annotations

from dataclasses import dataclass

from nnmagic.relay.tensor_expr import TensorExpr


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """A complex tensor by its real and its imaginary part."""

    re: TensorExpr
    im: TensorExpr

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

    def scale(self, factor: TensorExpr | float) -> Parts:
        """Multiply by a real number."""
        return Parts(self.re * factor, self.im * factor)

    def cast(self, dtype: str) -> Parts:
        """Convert both parts to another dtype."""
        return Parts(self.re.cast(dtype), self.im.cast(dtype))


def choose(condition: TensorExpr, yes: Parts, no: Parts) -> Parts:
    """Return ``yes`` where the condition is true, else ``no``."""
    return Parts(condition.choose(yes.re, no.re), condition.choose(yes.im, no.im))
