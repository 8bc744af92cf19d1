"""View the call that a gradient rule differentiates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay.expr import Attrs, Call, Expr, Tuple, TupleGetItem, constant
from nnmagic.relay.gradients.registry import NoGradientError
from nnmagic.relay.op_call import TypedCall
from nnmagic.relay.structure.tuple_trees import Tree
from nnmagic.relay.tensor_expr import NARROW, TensorExpr, call_with_type
from nnmagic.relay.types import NUMPY_DTYPES, AnyDim, Dim, TensorType, TupleType, Type


@dataclass(frozen=True, slots=True)
class Update:
    """A contribution that adds to some elements of a cotangent: ``apply`` takes the rest of it.

    ``slice``: which, if they are those at one index along some axes.
    """

    apply: Callable[[Expr], Expr]
    slice: IndexedSlice | None = None


@dataclass(frozen=True, slots=True)
class IndexedSlice:
    """What is added at one index along some axes of an array; ``places`` has the indices by axis.

    TensorFlow has the gradient of a gather as ``IndexedSlices`` for the same reason: zeros elsewhere cost
    nothing.
    """

    rank: int
    places: Mapping[int, TensorExpr]
    added: TensorExpr

    def update(self) -> Update:
        """Return the contribution of this slice alone."""
        return Update(self._apply, self)

    def of_taken(self, take: Call, index: Expr) -> IndexedSlice:
        """Return the slice of an array of which the array of this one is what ``take`` gives."""
        type_ = take.args[1].inferred_tensor
        rank = self.rank + 1
        axis = int(cast("int", take.attrs["axis"])) % rank
        places = {other + (other >= axis): place for other, place in self.places.items()}
        places[axis] = TensorExpr(index, type_.dtype, take.span)
        return IndexedSlice(rank, places, self.added)

    def _apply(self, total: Expr) -> Expr:
        axes = sorted(self.places)
        order = [*axes, *(axis for axis in range(self.rank) if axis not in self.places)]
        back = [order.index(axis) for axis in range(self.rank)]
        rows = [self.places[axis].op("expand_dims", axis=0) for axis in axes]
        where = rows[0]
        if len(rows) > 1:
            fields = tuple(row.cast("int64").expr for row in rows)
            where = TensorExpr(Tuple(fields, span=where.span), "int64", where.span).op("concatenate", axis=0)
        base = TensorExpr(total, self.added.dtype, self.added.span).transpose(order)
        return base.op("scatter_nd", where, self.added, mode="add").transpose(back).expr


#: Contributions to a value's cotangent: a list for a tuple; None where nothing flows.
Contribution: TypeAlias = "TensorExpr | Update | Sequence[Contribution] | None"


def is_static(shape: Sequence[Dim]) -> bool:
    """Return whether all sizes are known at compile time."""
    return all(isinstance(dim, int) for dim in shape)


def same_dim(lhs: Dim, rhs: Dim) -> bool:
    """Return whether two sizes are known to be equal."""
    return lhs == rhs and not (isinstance(lhs, AnyDim) and lhs.label is None)


def same_shape(lhs: Sequence[Dim], rhs: Sequence[Dim]) -> bool:
    """Return whether two shapes are known to be equal."""
    return len(lhs) == len(rhs) and all(map(same_dim, lhs, rhs))


@dataclass(eq=False)
class VjpCall(TypedCall):
    """A call of an operator, as its rule sees it.

    args: its arguments. types: their types. out: its result. cotangents: what flows into the result; a list
    for a tuple. wanted: whether anything flows on from each argument. producers: the calls that made the
    arguments, as far as known.
    """

    name: str
    args: Sequence[Expr]
    types: Sequence[Type]
    attrs: Attrs
    out: Expr
    out_type: Type
    cotangents: TensorExpr | list[object] | None
    wanted: Sequence[bool]
    span: Span | None = None
    producer: Callable[[Expr], Expr | None] = field(default=lambda _expr: None)

    # -- what is there ---------------------------------------------------------------------------------

    @property
    def given(self) -> dict[str, Any]:
        """The attributes, for a call of the same operator."""
        return dict(self.attrs)

    def static(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an argument. Raises NoGradientError where a size is known at run time only."""
        shape = self.shape(index)
        if not is_static(shape):
            message = f"the gradient of {self.name} needs sizes that are known at compile time"
            raise NoGradientError(message, "write numbers for the sizes of its operand")
        return cast("tuple[int, ...]", shape)

    def x(self, index: int = 0) -> TensorExpr:
        """Return an argument."""
        return TensorExpr(self.args[index], self.tensor(index).dtype, self.span)

    def term(self, expr: Expr, dtype: str) -> TensorExpr:
        """Wrap an expression."""
        return TensorExpr(expr, dtype, self.span)

    @property
    def y(self) -> TensorExpr:
        """The result."""
        assert isinstance(self.out_type, TensorType)
        return TensorExpr(self.out, self.out_type.dtype, self.span)

    @cached_property
    def d(self) -> TensorExpr:
        """The cotangent of the result."""
        assert isinstance(self.cotangents, TensorExpr)
        return self.cotangents

    def part(self, index: int) -> TensorExpr:
        """Return a part of the result, which is a tuple."""
        assert isinstance(self.out_type, TupleType)
        type_ = self.out_type.fields[index]
        assert isinstance(type_, TensorType)
        return TensorExpr(TupleGetItem(self.out, index, span=self.span), type_.dtype, self.span)

    def d_part(self, index: int) -> TensorExpr | None:
        """Return the cotangent of a part of the result, which is a tuple."""
        if self.cotangents is None:
            return None
        assert isinstance(self.cotangents, list)
        grad = self.cotangents[index]
        assert grad is None or isinstance(grad, TensorExpr)
        return grad

    # -- what rules make ---------------------------------------------------------------------------------

    def call(self, name: str, *args: TensorExpr | Expr, dtype: str | None = None, **attrs: Any) -> TensorExpr:
        """Return a call of an operator."""
        exprs = [arg.expr if isinstance(arg, TensorExpr) else arg for arg in args]
        kind = dtype or next((arg.dtype for arg in args if isinstance(arg, TensorExpr)), "float32")
        return TensorExpr(call_with_type(name, exprs, self.span, dtype, attrs), kind, self.span)

    def field(self, index: int, field_index: int) -> TensorExpr:
        """Return a part of an argument that is a tuple."""
        type_ = self.types[index]
        assert isinstance(type_, TupleType)
        field_type = type_.fields[field_index]
        assert isinstance(field_type, TensorType)
        tuple_ = self.args[index]
        if isinstance(tuple_, Tuple):
            return TensorExpr(tuple_.fields[field_index], field_type.dtype, self.span)
        return TensorExpr(TupleGetItem(tuple_, field_index, span=self.span), field_type.dtype, self.span)

    def like(self, term: TensorExpr, own: TensorExpr, type_: TensorType) -> TensorExpr:
        """Give a term the shape of another, which it has at run time."""
        if is_static(type_.shape):
            return term.shaped(cast("tuple[int, ...]", type_.shape))
        return term.op("reshape_like", own)

    def unsupported(self, why: str, hint: str | None = None) -> NoGradientError:
        """Return the error for a call whose form has no rule."""
        return NoGradientError(f"{self.name} has no gradient here: {why}", hint)

    def tuple_of(self, *parts: TensorExpr) -> TensorExpr:
        """Return a tuple of terms of one dtype."""
        return TensorExpr(
            Tuple(tuple(part.expr for part in parts), span=self.span), parts[0].dtype, self.span
        )

    def array(self, values: object, dtype: str) -> TensorExpr:
        """Return a constant array."""
        data = np.asarray(values, NUMPY_DTYPES[dtype])
        return TensorExpr(constant(data, dtype, span=self.span), dtype, self.span)

    def sum_to(self, term: TensorExpr, shape: Sequence[Dim], index: int) -> TensorExpr:
        """Sum a cotangent of a shape back to that of an argument which was broadcast to it."""
        wanted = self.shape(index)
        if same_shape(shape, wanted):
            return term
        extra = len(shape) - len(wanted)
        pairs = list(zip(shape[extra:], wanted, strict=True))
        if any(not same_dim(full, dim) and dim != 1 for full, dim in pairs):
            return self._collapse(term, index)
        axes = list(range(extra))
        reduced = [extra + axis for axis, (full, dim) in enumerate(pairs) if dim == 1 and full != 1]
        if reduced and not axes:
            return term.sum(reduced, keepdims=True)
        summed = term.sum([*axes, *reduced])
        return summed if not reduced else self.reshape_to(summed, index)

    def _collapse(self, term: TensorExpr, index: int) -> TensorExpr:
        wide = term.cast("float32") if term.dtype in NARROW else term
        like = self.x(index).cast(wide.dtype)
        return wide.op("collapse_sum_like", like).cast(term.dtype)

    def broadcast_to(self, term: TensorExpr, index: int) -> TensorExpr:
        """Broadcast to the shape of an argument."""
        shape = self.shape(index)
        if is_static(shape):
            return term.op("broadcast_to", shape=list(cast("tuple[int, ...]", shape)))
        return term.op("broadcast_to_like", self.x(index))

    def reshape_to(self, term: TensorExpr, index: int) -> TensorExpr:
        """Reshape to the shape of an argument."""
        shape = self.shape(index)
        if is_static(shape):
            return term.shaped(cast("tuple[int, ...]", shape))
        return term.op("reshape_like", self.x(index))

    def size(self, index: int, axis: int) -> TensorExpr:
        """Return a size of an argument as an int64."""
        dim = self.shape(index)[axis]
        if isinstance(dim, int):
            return self.array(dim, "int64")
        sizes = self.call("shape_of", self.x(index), dtype="int64")
        return sizes.op("take", self.array(axis, "int64"), axis=0, mode="fast")

    def count(self, index: int, axes: Sequence[int]) -> TensorExpr | int:
        """Return the number of elements along axes: an int, or a float term where sizes are dynamic."""
        static, terms = 1, list[TensorExpr]()
        for axis in axes:
            dim = self.shape(index)[axis]
            if isinstance(dim, int):
                static *= dim
            else:
                terms.append(self.size(index, axis))
        if not terms:
            return static
        total = terms[0]
        for term in terms[1:]:
            total = total * term
        dtype = self.tensor(index).dtype
        return (total if static == 1 else total * static).cast(dtype)

    def axes(self, index: int = 0) -> list[int]:
        """Return the axes of a reduction, in order, without negative numbers."""
        rank, axes_attr = self.rank(index), self.attrs.get("axis")
        if axes_attr is None or (isinstance(axes_attr, tuple | list) and not axes_attr):
            return list(range(rank))
        listed = {
            int(axis) % rank for axis in (axes_attr if isinstance(axes_attr, tuple | list) else (axes_attr,))
        }
        if self.attrs.get("exclude"):
            listed = set(range(rank)) - listed
        return sorted(listed)

    def axis(self, name: str = "axis", index: int = 0) -> int:
        """Return an attribute that is an axis, without negative numbers."""
        return int(cast("int", self.attrs[name])) % self.rank(index)

    def restore_axes(self, term: TensorExpr, axes: Sequence[int]) -> TensorExpr:
        """Return a reduction's result, or its cotangent, with the reduced axes kept."""
        if self.attrs.get("keepdims") or len(axes) == self.rank():
            return term
        shape = [1 if axis in axes else dim for axis, dim in enumerate(self.shape())]
        if is_static(shape):
            return term.shaped(cast("list[int]", shape))
        for axis in axes:
            term = term.op("expand_dims", axis=axis)
        return term


def terms(tree: Tree, type_: Type) -> TensorExpr | list[object] | None:
    """Return cotangents as terms of their dtypes."""
    if isinstance(type_, TupleType):
        parts = tree if isinstance(tree, list) else [None] * len(type_.fields)
        return [terms(part, field) for part, field in zip(parts, type_.fields, strict=True)]
    if tree is None:
        return None
    assert isinstance(type_, TensorType)
    return TensorExpr(tree, type_.dtype, tree.span)
