"""Compute with sizes that are known at run time only: items of ``x.shape``.

A dimension is a name, or arithmetic on names, where a shape is wanted, and a Python number everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.ops.dims import add, as_polynomial, floor_divide, multiply, subtract
from nnmagic.relay.polynomials import NoPolynomialError, Polynomial, constant, is_nonnegative
from nnmagic.relay.types import AnyDim, Dim, TensorType, is_integer
from nnmagic.tinynn.values.affine import affine_of
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast, vector_of
from nnmagic.tinynn.values.values import Computed, Dimension, Known, Operand, RefusalError, TupleOf, Value


def weak_int(number: Computed) -> Computed:
    """Return an int64 of rank 0 as a Python number."""
    return replace(number, weak=True, default_dtype=None)


def dimension_size(tensor: Computed, axis: int, span: Span) -> Computed:
    """Return the size of a dynamic dimension as a weak number."""
    sizes = apply("shape_of", span, tensor, dtype="int64")
    index = Computed(ir.constant(axis, "int32", span=span), TensorType((), "int32"))
    return weak_int(apply("take", span, sizes, index, axis=0))


def size_along(tensor: Computed, axis: int, span: Span) -> Value:
    """Return an item of ``x.shape``."""
    dim = tensor.shape[axis]
    if isinstance(dim, AnyDim):
        return Dimension(dim, dimension_size(tensor, axis, span))
    return Known(dim)


def shape_of(tensor: Computed, span: Span) -> TupleOf:
    """Return ``x.shape``."""
    return TupleOf(tuple(size_along(tensor, axis, span) for axis in range(len(tensor.shape))))


def same_shape(first: Computed, second: Computed, span: Span) -> bool | Computed:
    """Return whether two tensors have one shape: a bool, or a dynamic one of rank 0."""
    lhs, rhs = shape_of(first, span), shape_of(second, span)
    equal = _equal_tuples(BuiltinOp.Eq, lhs, rhs, span)
    if equal is None:
        return lhs == rhs
    return equal if isinstance(equal, Computed) else equal == Known(value=True)


def product_of(sizes: Sequence[Value], span: Span) -> Value:
    """Return how many elements a shape of these sizes has."""
    total: Value = Known(1)
    for size in sizes:
        total = calculate_size(BuiltinOp.Mul, total, size, span)
    return total


# -- as numbers ----------------------------------------------------------------------------------------


def as_number(operand: Operand) -> Operand:
    """Return a dimension as its number at run time; any other value as it is."""
    if isinstance(operand.value, Dimension):
        return Operand(number_of(operand.value, operand.span), operand.span, operand.keyword)
    return operand


def is_size(value: Value) -> bool:
    """Return whether a value is a dimension or a static int."""
    static = value.value if isinstance(value, Known) else None
    return isinstance(value, Dimension) or (isinstance(static, int) and not isinstance(static, bool))


def number_of(size: Value, span: Span) -> Computed:
    """Return a dimension or a static int as an int64 of rank 0."""
    if isinstance(size, Dimension):
        return replace(size.number, affine=affine_of(size))
    assert isinstance(size, Known)
    assert isinstance(size.value, int)
    return number_constant(int(size.value), "int64", span)


def dim_of(size: Value) -> Dim:
    """Return a dimension or a static int as a part of a shape."""
    if isinstance(size, Dimension):
        return size.dim
    assert isinstance(size, Known)
    assert isinstance(size.value, int)
    return int(size.value)


def shape_tensor(sizes: Sequence[Value], span: Span) -> Computed:
    """Return a shape as a vector, for the operators that take it so."""
    return vector_of([number_of(size, span) for size in sizes], span)


def dynamic_sizes(operand: Operand) -> list[Value] | None:
    """Return the sizes that a shape is written with, where one of them is dynamic.

    None where all are static, and where an item is no size.
    """
    value = operand.value
    items = list(value.items) if isinstance(value, TupleOf) else [value]
    candidates = [as_size(Operand(item, operand.span)) for item in items]
    sizes = [size for size in candidates if size is not None]
    if len(sizes) < len(items) or not any(isinstance(size, Dimension) for size in sizes):
        return None
    return sizes


def as_size(operand: Operand) -> Value | None:
    """Return a value as a size, None where it is none; an integer of rank 0 is one without a name."""
    value = operand.value
    if is_size(value):
        return value
    if isinstance(value, Computed) and isinstance(value.type, TensorType) and not value.type.shape:
        if isinstance(value.expr, ir.Constant):
            return Known(int(value.expr.data.item())) if is_integer(value.type.dtype) else None
        if is_integer(value.type.dtype):
            return Dimension(AnyDim(), weak_int(cast(value, "int64", operand.span)))
    return None


def with_shape(tensor: Computed, sizes: Sequence[Value]) -> Computed:
    """Return a tensor with the shape that it was created in as its type."""
    return Computed(tensor.expr, TensorType(tuple(map(dim_of, sizes)), tensor.dtype))


def require_nonnegative(size: Dimension, name: str, span: Span) -> Dimension:
    """Return a size; where it may be negative, have the program raise ValueError if it is."""
    polynomial = as_polynomial(size.dim)
    if polynomial is not None and is_nonnegative(polynomial):
        return size
    fine = apply("greater_equal", span, size.number, number_constant(0, "int64", span))
    message = f"{name}: negative dimensions are not allowed"
    checked = apply("python.require", span, size.number, fine, message=message)
    return Dimension(size.dim, weak_int(checked))


def full(value: Computed, sizes: Sequence[Value], span: Span) -> Computed:
    """Return a tensor of one value, in a shape with dynamic sizes."""
    return with_shape(apply("dyn.full", span, value, shape_tensor(sizes, span)), sizes)


# -- arithmetic and comparisons ------------------------------------------------------------------------

#: Functions of dimensions, which have the names of Relay's operators of numbers.
_ARITHMETIC: dict[object, Callable[[Dim, Dim], Dim]] = {
    BuiltinOp.Add: add,
    BuiltinOp.Sub: subtract,
    BuiltinOp.Mul: multiply,
    BuiltinOp.FloorDiv: floor_divide,
}
_EQUALITY = (BuiltinOp.Eq, BuiltinOp.NotEq)


def calculate_size(op: object, lhs: Value, rhs: Value, span: Span) -> Value:
    """Apply ``+ - * //`` to dimensions and static ints; a number results where all names cancel."""
    on_dims = _ARITHMETIC[op]
    dim = on_dims(dim_of(lhs), dim_of(rhs))
    if isinstance(dim, int):
        return Known(int(dim))
    neutral = Known(0 if op in (BuiltinOp.Add, BuiltinOp.Sub) else 1)
    if isinstance(lhs, Dimension) and rhs == neutral:
        return lhs
    if isinstance(rhs, Dimension) and lhs == neutral and op in (BuiltinOp.Add, BuiltinOp.Mul):
        return rhs
    assert isinstance(dim, AnyDim)
    number = apply(on_dims.__name__, span, number_of(lhs, span), number_of(rhs, span))
    return Dimension(dim, weak_int(number))


def apply_to_dimensions(op: object, lhs: Operand, rhs: Operand, span: Span) -> Value | None:
    """Apply an operator to dimensions; None where the result is neither a dimension nor static."""
    left_value, right_value = lhs.value, rhs.value
    if isinstance(left_value, TupleOf) and isinstance(right_value, TupleOf) and op in _EQUALITY:
        return _equal_tuples(op, left_value, right_value, span)
    if not (is_size(left_value) and is_size(right_value)):
        return None
    if not (isinstance(left_value, Dimension) or isinstance(right_value, Dimension)):
        return None
    if op is BuiltinOp.FloorDiv and right_value == Known(0):
        raise RefusalError("division by zero", rhs.span)
    if op in _ARITHMETIC:
        return calculate_size(op, left_value, right_value, span)
    held = _decide(op, dim_of(left_value), dim_of(right_value))
    return None if held is None else Known(held)


def _decide(op: object, lhs: Dim, rhs: Dim) -> bool | None:
    """Decide a comparison that holds, or fails, for all sizes of the named dimensions; else None."""
    left_polynomial, right_polynomial = as_polynomial(lhs), as_polynomial(rhs)
    if left_polynomial is None or right_polynomial is None:
        return None
    try:
        more, less = left_polynomial - right_polynomial, right_polynomial - left_polynomial
    except NoPolynomialError:
        return None
    if op in _EQUALITY:
        equal = (
            True
            if left_polynomial == right_polynomial
            else False
            if _positive(more) or _positive(less)
            else None
        )
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


def _equal_tuples(op: object, lhs: TupleOf, rhs: TupleOf, span: Span) -> Value | None:
    """Compare shapes that hold dimensions item by item; None where they are no such shapes."""
    items = [*lhs.items, *rhs.items]
    if not any(isinstance(item, Dimension) for item in items) or not all(map(is_size, items)):
        return None
    if len(lhs.items) != len(rhs.items):
        return Known(op is BuiltinOp.NotEq)
    undecided: list[Computed] = []
    for left_size, right_size in zip(lhs.items, rhs.items, strict=True):
        held = _decide(BuiltinOp.Eq, dim_of(left_size), dim_of(right_size))
        if held is False:
            return Known(op is BuiltinOp.NotEq)
        if held is None:
            undecided.append(apply("equal", span, number_of(left_size, span), number_of(right_size, span)))
    if not undecided:
        return Known(op is BuiltinOp.Eq)
    result = undecided[0]
    for equal in undecided[1:]:
        result = apply("logical_and", span, result, equal)
    return result if op is BuiltinOp.Eq else apply("logical_not", span, result)
