"""Write computations on Relay tensors with Python's operators: ``2 * x + y``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.relay.expr import Constant, Expr, Tuple, TupleGetItem, constant
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.calls import call
from nnmagic.relay.ops.relations import broadcast_compare, identity_compare
from nnmagic.relay.types import NUMPY_DTYPES, is_float

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnmagic.diagnostics import Span
    from nnmagic.relay.types import Dim, TensorType

Number = bool | int | float | complex

#: The dtypes whose sums are computed in float32.
NARROW = ("float16", "bfloat16")


class TensorOperators:
    """Python's operators in terms of `op`; a number takes the dtype of the tensor beside it."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def dtype(self) -> str:
            """The element type, by Relay's name."""

        @property
        def shape(self) -> tuple[Dim, ...]:
            """The shape; `TensorExpr` knows none."""

        @property
        def rank(self) -> int:
            """The number of axes; `TensorExpr` knows none."""

        @property
        def is_float(self) -> bool:
            """Whether the elements are floating-point numbers."""

        def cast(self, dtype: str) -> Self:
            """Return the tensor in another dtype."""

        def constant(self, array: np.ndarray) -> Self:
            """Return an array as a constant tensor of its own dtype."""

    @abstractmethod
    def op(self, name: str, *others: Self | Number, **attrs: Any) -> Self:
        """Return a call of the operator of that name whose first argument this tensor is."""

    @abstractmethod
    def like(self, other: Self | Number) -> Self:
        """Return a number as a constant of rank 0 of this tensor's dtype; a tensor as it is."""

    def choose(self, then: Self | Number, otherwise: Self | Number) -> Self:
        """Return ``then`` where this condition holds, else ``otherwise``; one of them must be a tensor."""
        tensor = then if isinstance(then, TensorOperators) else otherwise
        assert isinstance(tensor, TensorOperators)
        return self.op("where", tensor.like(then), tensor.like(otherwise))

    def __add__(self, other: Self | Number) -> Self:
        return self.op("add", other)

    def __radd__(self, other: Number) -> Self:
        return self.like(other).op("add", self)

    def __sub__(self, other: Self | Number) -> Self:
        return self.op("subtract", other)

    def __rsub__(self, other: Number) -> Self:
        return self.like(other).op("subtract", self)

    def __mul__(self, other: Self | Number) -> Self:
        return self.op("multiply", other)

    def __rmul__(self, other: Number) -> Self:
        return self.like(other).op("multiply", self)

    def __truediv__(self, other: Self | Number) -> Self:
        return self.op("divide", other)

    def __rtruediv__(self, other: Number) -> Self:
        return self.like(other).op("divide", self)

    def __floordiv__(self, other: Self | Number) -> Self:
        return self.op("floor_divide", other)

    def __pow__(self, other: Self | Number) -> Self:
        return self.op("power", other)

    def __neg__(self) -> Self:
        return self.op("negative")

    def __lt__(self, other: Self | Number) -> Self:
        return self.op("less", other)

    def __le__(self, other: Self | Number) -> Self:
        return self.op("less_equal", other)

    def __gt__(self, other: Self | Number) -> Self:
        return self.op("greater", other)

    def __ge__(self, other: Self | Number) -> Self:
        return self.op("greater_equal", other)

    def __and__(self, other: Self) -> Self:
        return self.op("logical_and", other)

    def __or__(self, other: Self) -> Self:
        return self.op("logical_or", other)

    def __invert__(self) -> Self:
        return self.op("logical_not")

    def equal(self, other: Self | Number) -> Self:
        """Compare for equality, element by element."""
        return self.op("equal", other)

    def differs(self, other: Self | Number) -> Self:
        """Compare for inequality, element by element."""
        return self.op("not_equal", other)

    def maximum(self, other: Self | Number) -> Self:
        """Return the larger element of each pair."""
        return self.op("maximum", other)

    def minimum(self, other: Self | Number) -> Self:
        """Return the smaller element of each pair."""
        return self.op("minimum", other)

    def between(self, axis: int, begin: int, end: int) -> Self:
        """Return the elements of an axis from one place to another one."""
        return self.op("strided_slice", begin=[begin], end=[end], strides=[1], axes=[axis])

    def row(self, axis: int, index: int) -> Self:
        """Return the elements at one place of an axis, without that."""
        return self.between(axis, index, index + 1).op("squeeze", axis=[axis])

    def abs(self) -> Self:
        """Compute the absolute value."""
        return self.op("abs")


class TypedTensor(TensorOperators):
    """A tensor of a known type."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def type(self) -> TensorType:
            """The type."""

    @property
    def dtype(self) -> str:
        """The element type, by Relay's name."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape; a dimension that is known only at the call is an AnyDim."""
        return self.type.shape

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.type.shape)

    @property
    def is_float(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return is_float(self.type.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class TensorExpr(TensorOperators):
    """A tensor of which the dtype alone is known, and the span of what it is computed for."""

    expr: Expr
    dtype: str
    span: Span | None = None

    def op(
        self, name: str, *others: TensorExpr | Expr | Number, dtype: str | None = None, **attrs: Any
    ) -> TensorExpr:
        """Return a call of an operator whose first argument this is; ``dtype`` is that of the result."""
        args = [self.expr, *(other if isinstance(other, Expr) else self.like(other).expr for other in others)]
        result = dtype or self.dtype
        if dtype is None and name == "where":
            result = next(other.dtype for other in others if isinstance(other, TensorExpr))
        elif dtype is None and OPERATORS[name].relation in (broadcast_compare, identity_compare):
            result = "bool"
        return TensorExpr(call_with_type(name, args, self.span, dtype, attrs), result, self.span)

    def like(self, other: TensorExpr | Number) -> TensorExpr:
        """Return a number as a constant of rank 0 of this dtype; a tensor as it is."""
        if isinstance(other, TensorExpr):
            return other
        return TensorExpr(number(other, self.dtype, self.span), self.dtype, self.span)

    def cast(self, dtype: str) -> TensorExpr:
        """Return the tensor in another dtype."""
        return self if dtype == self.dtype else self.op("cast", dtype=dtype)

    def sum(self, axis: Sequence[int] | None = None, *, keepdims: bool = False) -> TensorExpr:
        """Return the sum along axes; that of narrow floats is computed in float32."""
        if axis is not None and not axis:
            return self
        wide = self.cast("float32") if self.dtype in NARROW else self
        axes = None if axis is None else list(axis)
        return wide.op("sum", axis=axes, keepdims=keepdims).cast(self.dtype)

    def transpose(self, axes: Sequence[int]) -> TensorExpr:
        """Return the tensor with its axes in another order."""
        return self if list(axes) == list(range(len(axes))) else self.op("transpose", axes=list(axes))

    def reshape(self, shape: Sequence[int]) -> TensorExpr:
        """Return the tensor in another shape; the codes are Relay's."""
        return self.op("reshape", newshape=list(shape))

    def shaped(self, sizes: Sequence[int]) -> TensorExpr:
        """Return the tensor in another shape, whose sizes may be 0."""
        return self.op("reshape", newshape=list(sizes), allowzero=0 in sizes)

    def pair(self, other: TensorExpr) -> TensorExpr:
        """Return the tuple of this tensor and another."""
        return TensorExpr(Tuple((self.expr, other.expr), span=self.span), self.dtype, self.span)

    def item(self, index: int, dtype: str) -> TensorExpr:
        """Return a part of a tuple."""
        return TensorExpr(TupleGetItem(self.expr, index, span=self.span), dtype, self.span)

    def zeros(self) -> TensorExpr:
        """Return zeros of this tensor's shape."""
        return self.op("zeros_like")


def call_with_type(
    name: str, args: Sequence[Expr], span: Span | None, dtype: str | None, attrs: Mapping[str, object]
) -> Expr:
    """Return a call of an operator; ``dtype`` is an attribute, too, of those that have it."""
    if dtype is not None and OPERATORS[name].attr("dtype") is not None:
        attrs = {**attrs, "dtype": dtype}
    return call(name, args, span, **attrs)


def number(value: Number, dtype: str, span: Span | None = None) -> Constant:
    """Return a constant of rank 0."""
    return constant(np.asarray(value, NUMPY_DTYPES[dtype]), dtype, span=span)
