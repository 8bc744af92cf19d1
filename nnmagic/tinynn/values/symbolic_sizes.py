"""Sizes that are known only when the function runs: items of ``x.shape``, and arithmetic on them.

A dimension is a name, or arithmetic on names, where a shape is wanted, and a Python number everywhere else.
Knows values and operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.ops.dims import add, as_polynomial, floor_divide, multiply, subtract
from nnmagic.relay.polynomials import NoPolynomialError, Polynomial, constant, is_nonnegative
from nnmagic.relay.types import AnyDim, Dim, TensorType, TupleType, is_integer
from nnmagic.tinynn.values.operator_calls import apply, cast
from nnmagic.tinynn.values.values import (
    Computed,
    Dimension,
    Known,
    Operand,
    RefusalError,
    TupleOf,
    Value,
    number_constant,
)


def weak_int(number: Computed) -> Computed:
    """An int64 of rank 0 as a Python number."""
    return Computed(number.expr, number.type, weak=True)


def dimension_size(tensor: Computed, axis: int, span: Span) -> Computed:
    """The size of a dimension that is known when the function runs, as a weak number."""
    sizes = apply("shape_of", span, tensor, dtype="int64")
    place = Computed(ir.constant(axis, "int32", span=span), TensorType((), "int32"))
    return weak_int(apply("take", span, sizes, place, axis=0))


def size_along(tensor: Computed, axis: int, span: Span) -> Value:
    """An item of ``x.shape``."""
    assert isinstance(tensor.type, TensorType)
    dim = tensor.type.shape[axis]
    if isinstance(dim, AnyDim):
        return Dimension(dim, dimension_size(tensor, axis, span))
    return Known(dim)


def shape_of(tensor: Computed, span: Span) -> TupleOf:
    """``x.shape``."""
    assert isinstance(tensor.type, TensorType)
    return TupleOf(tuple(size_along(tensor, axis, span) for axis in range(len(tensor.type.shape))))


def same_shape(one: Computed, other: Computed, span: Span) -> bool | Computed:
    """Whether two tensors have one shape: known now, or a bool of rank 0."""
    left, right = shape_of(one, span), shape_of(other, span)
    found = _equal_tuples(BuiltinOp.Eq, left, right, span)
    if found is None:
        return left == right
    return found if isinstance(found, Computed) else found == Known(value=True)


def product_of(sizes: Sequence[Value], span: Span) -> Value:
    """How many elements a shape of these sizes has."""
    total: Value = Known(1)
    for size in sizes:
        total = calculated(BuiltinOp.Mul, total, size, span)
    return total


# -- as numbers ----------------------------------------------------------------------------------------


def as_number(operand: Operand) -> Operand:
    """A dimension as the number that it is when the function runs; any other value as it is."""
    if isinstance(operand.value, Dimension):
        return Operand(operand.value.number, operand.span, operand.keyword)
    return operand


def is_size(value: Value) -> bool:
    """Whether a value is a dimension or an int known while compiling."""
    known = value.value if isinstance(value, Known) else None
    return isinstance(value, Dimension) or (isinstance(known, int) and not isinstance(known, bool))


def number_of(size: Value, span: Span) -> Computed:
    """A dimension or a known int as an int64 of rank 0."""
    if isinstance(size, Dimension):
        return size.number
    assert isinstance(size, Known)
    assert isinstance(size.value, int)
    return number_constant(int(size.value), "int64", span)


def dim_of(size: Value) -> Dim:
    """A dimension or a known int as a part of a shape."""
    if isinstance(size, Dimension):
        return size.dim
    assert isinstance(size, Known)
    assert isinstance(size.value, int)
    return int(size.value)


def shape_tensor(sizes: Sequence[Value], span: Span) -> Computed:
    """A shape as a vector, for the operators that take it so."""
    parts = [apply("expand_dims", span, number_of(size, span), axis=0) for size in sizes]
    types = TupleType(tuple(part.type for part in parts))
    whole = Computed(ir.Tuple(tuple(part.expr for part in parts), span=span), types)
    return apply("concatenate", span, whole, axis=0) if len(parts) > 1 else parts[0]


def open_sizes(operand: Operand) -> list[Value] | None:
    """The sizes that a shape is written with, where one of them is known only when the function runs.

    None where all are known, and where there is something among them that is no size.
    """
    value = operand.value
    items = list(value.items) if isinstance(value, TupleOf) else [value]
    found = [_as_size(Operand(item, operand.span)) for item in items]
    sizes = [size for size in found if size is not None]
    if len(sizes) < len(items) or not any(isinstance(size, Dimension) for size in sizes):
        return None
    return sizes


def _as_size(operand: Operand) -> Value | None:
    """A size; an integer of rank 0 is one without a name."""
    value = operand.value
    if is_size(value):
        return value
    if isinstance(value, Computed) and isinstance(value.type, TensorType) and not value.type.shape:
        if isinstance(value.expr, ir.Constant):
            return Known(int(value.expr.data.item())) if is_integer(value.type.dtype) else None
        if is_integer(value.type.dtype):
            return Dimension(AnyDim(), weak_int(cast(value, "int64", operand.span)))
    return None


def in_shape(tensor: Computed, sizes: Sequence[Value]) -> Computed:
    """A tensor with the shape that it was made in."""
    assert isinstance(tensor.type, TensorType)
    return Computed(tensor.expr, TensorType(tuple(map(dim_of, sizes)), tensor.type.dtype))


def full(value: Computed, sizes: Sequence[Value], span: Span) -> Computed:
    """A tensor of one value, in a shape of which sizes are known only when the function runs."""
    return in_shape(apply("dyn.full", span, value, shape_tensor(sizes, span)), sizes)


# -- arithmetic and comparisons ------------------------------------------------------------------------

_ARITHMETIC: dict[object, tuple[Callable[[Dim, Dim], Dim], str]] = {
    BuiltinOp.Add: (add, "add"),
    BuiltinOp.Sub: (subtract, "subtract"),
    BuiltinOp.Mul: (multiply, "multiply"),
    BuiltinOp.FloorDiv: (floor_divide, "floor_divide"),
}
_EQUALITY = (BuiltinOp.Eq, BuiltinOp.NotEq)


def calculated(op: object, left: Value, right: Value, span: Span) -> Value:
    """``+ - * //`` of dimensions and known ints: a dimension, or a number where all names drop out."""
    on_dims, operator = _ARITHMETIC[op]
    dim = on_dims(dim_of(left), dim_of(right))
    if isinstance(dim, int):
        return Known(int(dim))
    if isinstance(left, Dimension) and dim == left.dim and right in (Known(0), Known(1)):
        return left
    if isinstance(right, Dimension) and dim == right.dim and left in (Known(0), Known(1)):
        return right
    assert isinstance(dim, AnyDim)
    number = apply(operator, span, number_of(left, span), number_of(right, span))
    return Dimension(dim, weak_int(number))


def on_dimensions(op: object, left: Operand, right: Operand, span: Span) -> Value | None:
    """An operator on dimensions, where it gives one or is known while compiling; None where it is neither."""
    one, other = left.value, right.value
    if isinstance(one, TupleOf) and isinstance(other, TupleOf) and op in _EQUALITY:
        return _equal_tuples(op, one, other, span)
    if not (is_size(one) and is_size(other)):
        return None
    if not (isinstance(one, Dimension) or isinstance(other, Dimension)):
        return None
    if op is BuiltinOp.FloorDiv and other == Known(0):
        raise RefusalError("division by zero", right.span)
    if op in _ARITHMETIC:
        return calculated(op, one, other, span)
    held = _decided(op, dim_of(one), dim_of(other))
    return None if held is None else Known(held)


def _decided(op: object, left: Dim, right: Dim) -> bool | None:
    """A comparison that holds, or does not, whatever the named dimensions are."""
    one, other = as_polynomial(left), as_polynomial(right)
    if one is None or other is None:
        return None
    try:
        more, less = one - other, other - one
    except NoPolynomialError:
        return None
    if op in _EQUALITY:
        equal = True if one == other else False if _positive(more) or _positive(less) else None
        return equal if equal is None else equal is (op is BuiltinOp.Eq)
    orders: dict[object, tuple[Polynomial, Polynomial]] = {
        BuiltinOp.GE: (more, less),
        BuiltinOp.LE: (less, more),
    }
    if op in orders:
        yes, no = orders[op]
        return True if is_nonnegative(yes) else False if _positive(no) else None
    strict: dict[object, tuple[Polynomial, Polynomial]] = {
        BuiltinOp.GT: (more, less),
        BuiltinOp.LT: (less, more),
    }
    if op in strict:
        yes, no = strict[op]
        return True if _positive(yes) else False if is_nonnegative(no) else None
    return None


def _positive(of: Polynomial) -> bool:
    return is_nonnegative(of - constant(1))


def _equal_tuples(op: object, left: TupleOf, right: TupleOf, span: Span) -> Value | None:
    """``x.shape == y.shape``: item by item, where dimensions are among them."""
    items = [*left.items, *right.items]
    if not any(isinstance(item, Dimension) for item in items) or not all(map(is_size, items)):
        return None
    if len(left.items) != len(right.items):
        return Known(op is BuiltinOp.NotEq)
    open_: list[Computed] = []
    for one, other in zip(left.items, right.items, strict=True):
        held = _decided(BuiltinOp.Eq, dim_of(one), dim_of(other))
        if held is False:
            return Known(op is BuiltinOp.NotEq)
        if held is None:
            open_.append(apply("equal", span, number_of(one, span), number_of(other, span)))
    if not open_:
        return Known(op is BuiltinOp.Eq)
    found = open_[0]
    for each in open_[1:]:
        found = apply("logical_and", span, found, each)
    return found if op is BuiltinOp.Eq else apply("logical_not", span, found)
