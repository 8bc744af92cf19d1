"""Say what special functions compute, in NumPy: their expansions, of operators that have rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnmagic.relay.functions import bessel, gamma, normal_distribution
from nnmagic.relay.reference.eval_call import Array, Rule
from nnmagic.relay.tensor_expr import Number, TensorOperators
from nnmagic.relay.types import ARRAY_DTYPES, dtype_of_array


@dataclass(frozen=True, slots=True, eq=False)
class ArrayExpr(TensorOperators):
    """An array, whose operators compute at once."""

    array: Array

    @property
    def dtype(self) -> str:
        """Return its dtype, by Relay's name."""
        return dtype_of_array(self.array) or ""

    def op(self, name: str, *others: ArrayExpr | Number, **attrs: Any) -> ArrayExpr:
        """Compute an operator whose first operand it is."""
        from nnmagic.relay.reference import compute  # which imports this module

        arrays = [self.array, *(self.like(other).array for other in others)]
        return ArrayExpr(compute(name, arrays, attrs))

    def like(self, other: ArrayExpr | Number) -> ArrayExpr:
        """Return a number as an array of rank 0 of its dtype; an array as it is."""
        return other if isinstance(other, ArrayExpr) else ArrayExpr(np.array(other, ARRAY_DTYPES[self.dtype]))

    def cast(self, dtype: str) -> ArrayExpr:
        """Cast to another dtype."""
        return ArrayExpr(self.array.astype(ARRAY_DTYPES[dtype]))


def _rule(function: Callable[..., ArrayExpr]) -> Rule:
    return lambda call, data: function(ArrayExpr(data), **call.attrs).array


RULES: dict[str, Rule] = {
    f"special.{function.__name__}": _rule(function)
    for function in (
        *(gamma.gamma, gamma.gammaln, gamma.polygamma, bessel.i0, bessel.i0e, bessel.i1, bessel.i1e),
        *(normal_distribution.erfcinv, normal_distribution.erfinv),
        *(normal_distribution.log_ndtr, normal_distribution.ndtri),
    )
}
