"""Express Relay operators as Python's operators on a tensor of a cell.

The functions of the language that Relay lacks are written with it. Both sides of an operator have one dtype;
a Python number takes the tensor's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.complex_numbers.operators import ABS, CONJ
from nnmagic.relay.ops.dims import product
from nnmagic.relay.tensor_expr import Number, TypedTensor
from nnmagic.relay.types import Dim, TensorType, is_complex, is_integer
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast
from nnmagic.tinynn.values.reshaping import reshape_to
from nnmagic.tinynn.values.values import Computed

#: Results of reductions of no elements.
_OF_NOTHING: dict[str, Number] = {"sum": 0, "prod": 1, "all": True, "any": False}


@dataclass(frozen=True, slots=True, eq=False)
class Formula(TypedTensor):
    """A tensor, and the span of the call that it is computed for."""

    value: Computed
    span: Span

    @property
    def type(self) -> TensorType:
        """Return its type."""
        return self.value.tensor_type

    @property
    def is_complex(self) -> bool:
        """Return whether its elements are complex numbers."""
        return is_complex(self.dtype)

    @property
    def is_integer(self) -> bool:
        """Return whether its elements are integers (not bools)."""
        return is_integer(self.dtype)

    # -- calls of operators ----------------------------------------------------------------------------

    def op(self, name: str, *others: Formula | Number, **attrs: object) -> Formula:
        """Call the operator of the given name with this tensor as the first argument."""
        operands = [self.value, *(self.like(other).value for other in others)]
        return Formula(apply(name, self.span, *operands, **attrs), self.span)

    def like(self, other: Formula | Number) -> Formula:
        """Return a Python number as a rank-0 tensor of this dtype; a tensor as it is."""
        if isinstance(other, Formula):
            return other
        return Formula(number_constant(other, self.dtype, self.span), self.span)

    def constant(self, array: np.ndarray) -> Formula:
        """Return an array as a constant tensor."""
        node = ir.constant(array, span=self.span)
        return Formula(Computed(node, node.tensor_type), self.span)

    def cast(self, dtype: str) -> Formula:
        """Cast to another dtype."""
        return Formula(cast(self.value, dtype, self.span), self.span)

    def reshape(self, shape: Sequence[Dim], *sources: Formula) -> Formula:
        """Reshape to a shape with the same number of elements; ``sources`` have the named sizes in it."""
        values = [source.value for source in sources]
        return Formula(reshape_to(self.value, shape, self.span, values), self.span)

    def flat(self) -> Formula:
        """Flatten to one dimension."""
        return self if self.rank == 1 else self.reshape((product(self.shape),))

    def transpose(self, axes: Sequence[int]) -> Formula:
        """Permute the axes."""
        return self if list(axes) == list(range(self.rank)) else self.op("transpose", axes=tuple(axes))

    def expand(self, axis: int) -> Formula:
        """Insert a new axis of size 1."""
        return self.op("expand_dims", axis=axis)

    def reduce(self, name: str, axes: Sequence[int] | None = None, *, keepdims: bool = False) -> Formula:
        """Reduce along the axes: None for all, an empty sequence for none."""
        if axes is not None and not axes:
            return self
        every = tuple(range(self.rank)) if axes is None else tuple(axes)
        if name in _OF_NOTHING and any(self.shape[axis] == 0 for axis in every):
            kept = [1 if axis in every else dim for axis, dim in enumerate(self.shape)]
            shape = [dim for axis, dim in enumerate(kept) if keepdims or axis not in every]
            if all(isinstance(dim, int) for dim in shape):
                return self.like(_OF_NOTHING[name]).op("full", shape=tuple(shape), dtype=self.dtype)
        return self.op(name, axis=None if axes is None else tuple(axes), keepdims=keepdims)

    # -- functions -------------------------------------------------------------------------------------

    def exp(self) -> Formula:
        """Compute e to its power."""
        return self.op("exp")

    def log(self) -> Formula:
        """Compute its natural logarithm."""
        return self.op("log")

    def sqrt(self) -> Formula:
        """Compute its square root."""
        return self.op("sqrt")

    def abs(self) -> Formula:
        """Compute its absolute value."""
        return self.op(ABS if self.is_complex else "abs")

    def conj(self) -> Formula:
        """Compute its complex conjugate; real numbers are their own."""
        return self.op(CONJ) if self.is_complex else self

    def require(self, condition: Formula, message: str) -> Formula:
        """Raise ValueError when the program computes it, unless every element of a condition is true."""
        whole = condition.reduce("all") if condition.rank else condition
        return self.op("python.require", whole, message=message)

    def truth(self) -> Formula:
        """Return where it is true (nonzero)."""
        return self if self.dtype == "bool" else self.differs(0)
