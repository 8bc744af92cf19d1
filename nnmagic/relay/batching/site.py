"""Hold what a batching rule knows of a call, and build the expressions of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from nnmagic.diagnostics import Span
from nnmagic.relay.expr import Call, Expr, Tuple, TupleGetItem, constant
from nnmagic.relay.op_call import CallView, TypedCall
from nnmagic.relay.ops.calls import call
from nnmagic.relay.structure.tuple_trees import Tree, has_leaf
from nnmagic.relay.types import AnyDim, Dim, TensorType, TupleType, Type


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The size of the batch axis; ``like``: a tensor that has it, if it is known at run time only.

    inner: how many axes that tensor has behind it.
    """

    dim: Dim
    like: Expr | None = None
    inner: int = 0

    def number(self, span: Span | None = None) -> Expr:
        """Return the size as an int64 of rank 0."""
        if isinstance(self.dim, int):
            return constant(self.dim, "int64", span=span)
        assert self.like is not None
        return size_along(self.like, 0, span)

    def vector(self, span: Span | None = None) -> Expr:
        """Return bools in the shape (size,)."""
        assert self.like is not None
        same = call("equal", [self.like, self.like], span)
        return call("any", [same], span, axis=list(range(1, self.inner + 1))) if self.inner else same

    def spread(self, expr: Expr, type_: Type, span: Span | None = None) -> Expr:
        """Return a value that does not depend on the example, repeated for each."""
        if isinstance(type_, TupleType):
            parts = [
                self.spread(field, own, span)
                for field, own in zip(fields(expr, type_), type_.fields, strict=True)
            ]
            return Tuple(tuple(parts), span=span)
        assert isinstance(type_, TensorType)
        wide = call("expand_dims", [expr], span, axis=0)
        if isinstance(self.dim, int):
            return call("repeat", [wide], span, repeats=self.dim, axis=0)
        column = self.vector(span)
        if type_.shape:
            column = call("expand_dims", [column], span, axis=1, num_newaxis=len(type_.shape))
        return call("where", [column, wide, wide], span)


def size_along(expr: Expr, axis: int, span: Span | None) -> Expr:
    """Return a size of a tensor as an int64 of rank 0."""
    sizes = call("shape_of", [expr], span, dtype="int64")
    return call("take", [sizes, constant(axis, "int64", span=span)], span, axis=0, mode="fast")


def is_unknown(dim: Dim) -> bool:
    """Return whether nothing is known of a size, not even which others are the same."""
    return isinstance(dim, AnyDim) and dim.label is None


def fields(expr: Expr, type_: TupleType) -> list[Expr]:
    """Return the parts of a tuple."""
    if isinstance(expr, Tuple):
        return list(expr.fields)
    return [TupleGetItem(expr, index, span=expr.span) for index in range(len(type_.fields))]


@dataclass(eq=False)
class BatchCall(CallView, TypedCall):
    """A call of an operator, as its batching rule sees it.

    args: its arguments; the batch axis of those that are ``batched`` is the first. types, out_type: those of
    the arguments and of the result without it.
    """

    node: Call
    args: Sequence[Expr]
    types: Sequence[Type]
    batched: Sequence[Tree]
    out_type: Type
    size: BatchSize

    def is_batched(self, index: int) -> bool:
        """Return whether an argument, or a part of it, has the batch axis."""
        return has_leaf(self.batched[index])

    def only(self, *indices: int) -> bool:
        """Return whether no other arguments have the batch axis."""
        return not any(self.is_batched(i) for i in range(len(self.args)) if i not in indices)

    def again(self, *args: Expr, **attrs: Any) -> Expr:
        """Return a call of the same operator with other arguments, and some other attributes."""
        new = cast("Mapping[str, Any]", {**self.attrs, **attrs})
        return replace(self.node, args=tuple(args) or tuple(self.args), attrs=new, checked_type=None)

    def op(self, name: str, *args: Expr, **attrs: Any) -> Expr:
        """Return a call of an operator."""
        return call(name, args, self.span, **attrs)

    def full(self, index: int) -> Expr:
        """Return an argument with the batch axis, which all examples share if it had none."""
        if self.is_batched(index):
            return self.args[index]
        return self.size.spread(self.args[index], self.types[index], self.span)

    def aligned(self, index: int, rank: int) -> Expr:
        """Return an argument that is broadcast to a rank: a batch axis stays the first."""
        extra = rank - self.rank(index)
        if not self.is_batched(index) or extra <= 0:
            return self.args[index]
        return self.op("expand_dims", self.args[index], axis=1, num_newaxis=extra)

    def broadcast(self, value: Expr, zeros: Expr) -> Expr:
        """Return a value that is broadcast to the shape of zeros."""
        return self.op("where", constant(True, "bool", span=self.span), value, zeros)  # noqa: FBT003

    def axis(self, name: str = "axis", index: int = 0) -> int:
        """Return an attribute that is an axis, as one of the batched argument."""
        return int(cast("int", self.attrs[name])) % max(self.rank(index), 1) + 1

    def moved(self, expr: Expr, rank: int, source: int, to: int) -> Expr:
        """Return an expression of a rank with an axis at another place."""
        order = [axis for axis in range(rank) if axis != source]
        order.insert(to, source)
        if order == list(range(rank)):
            return expr
        return self.op("transpose", expr, axes=order)
