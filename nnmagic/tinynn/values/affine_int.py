"""Define what an integer is of a loop's counter; `affine` finds it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nnmagic.relay.polynomials import Polynomial, constant


@dataclass(frozen=True, slots=True)
class AffineInt:
    """An integer as ``factor * counter + offset``, of a counter from 0 to ``most`` (None: unknown).

    ``terms``: the offset as a sum of numbers, each a Computed with its factor; one that is None stands for 1.
    """

    offset: Polynomial
    counter: object = None
    factor: int = 0
    most: Polynomial | None = None
    terms: tuple[tuple[int, Any], ...] | None = None

    @property
    def bounds(self) -> tuple[Polynomial, Polynomial] | None:
        """The least and the largest value, None if there is no bound. Raises NoPolynomialError."""
        if self.factor == 0:
            return self.offset, self.offset
        if self.most is None:
            return None
        other = self.offset + self.most * constant(self.factor)
        return (self.offset, other) if self.factor > 0 else (other, self.offset)

    def minus(self, other: AffineInt) -> Polynomial | None:
        """Return the difference if it is the same in every round, else None. Raises NoPolynomialError."""
        same = self.factor == other.factor and (self.factor == 0 or self.counter is other.counter)
        return self.offset - other.offset if same else None
