"""Reshape tensors to shapes with named sizes, which Relay's ``reshape`` infers or copies, or is given."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.diagnostics import Span
from nnmagic.relay.ops.dims import as_polynomial, multiply, product
from nnmagic.relay.polynomials import NoPolynomialError
from nnmagic.relay.types import ANY, Dim, TensorType
from nnmagic.tinynn.values.operator_calls import apply
from nnmagic.tinynn.values.symbolic_sizes import product_of, shape_tensor, size_along
from nnmagic.tinynn.values.values import Computed, Known, RefusalError, Value


def reshape_to(
    operand: Computed, shape: Sequence[Dim], span: Span, sources: Sequence[Computed] = ()
) -> Computed:
    """Return the tensor in a shape of as many elements; the type keeps its names.

    ``sources`` are other tensors whose shapes have the new dimensions. Raises RefusalError for a dimension
    that neither they nor the operand have.
    """
    codes = reshape_codes(operand.shape, shape)
    if codes is not None:
        all_static = all(isinstance(dim, int) for dim in shape)
        allowzero = {"allowzero": True} if all_static and 0 in shape else {}
        result = apply("reshape", span, operand, newshape=codes, **allowzero)
        return Computed(result.expr, TensorType(tuple(shape), result.dtype))
    sizes = [_size(dim, (operand, *sources), span) for dim in shape]
    return reshape_to_sizes(operand, sizes, shape, span)


def reshape_to_sizes(operand: Computed, sizes: Sequence[Value], shape: Sequence[Dim], span: Span) -> Computed:
    """Return the tensor in a shape of these sizes, whose dimensions are ``shape``."""
    result = apply("dyn.reshape", span, operand, shape_tensor(sizes, span), allowzero=True)
    return Computed(result.expr, TensorType(tuple(shape), result.dtype))


def reshape_codes(given: Sequence[Dim], wanted: Sequence[Dim]) -> tuple[int, ...] | None:
    """Return Relay's newshape: numbers, 0 for a dimension that stays, -3 for two that become one, -1 once.

    None where more than one dimension would have to be inferred, or one from a product that is 0: that of
    an array without elements tells nothing.
    """
    static = [int(dim) if isinstance(dim, int) else -1 for dim in wanted]
    if -1 not in static or (static.count(-1) == 1 and 0 not in static):
        return tuple(static)
    codes: list[int] = []
    dims = dict(enumerate(given))  # what no code copies
    position = 0
    for dim in wanted:
        current, following = (*given[position : position + 2], None, None)[:2]
        if dim == current and dim != ANY and (dim == 0 or not isinstance(dim, int)):
            codes.append(0)
            del dims[position]
        elif dim == 0:
            return None
        elif isinstance(dim, int):
            codes.append(int(dim))
        elif current is not None and following is not None and dim == multiply(current, following) != ANY:
            codes.append(-3)
            del dims[position], dims[position + 1]
            position += 1
        else:
            codes.append(-1)
        position += 1
    if codes.count(-1) > 1:
        return None
    left = [dim for dim, code in zip(wanted, codes, strict=True) if code not in (0, -3)]
    return tuple(codes) if product(left) == product(dims.values()) else None


def _size(dim: Dim, sources: Sequence[Computed], span: Span) -> Value:
    """Return the value of a dimension, an axis of one of the tensors or a product of its axes."""
    if isinstance(dim, int):
        return Known(int(dim))
    for source in sources:
        axes = _axes_of(dim, source)
        if axes is not None:
            return product_of([size_along(source, axis, span) for axis in axes], span)
    raise RefusalError("reshape: several dimensions are known only when the function is called", span)


def _axes_of(dim: Dim, tensor: Computed) -> list[int] | None:
    """Return the axes of a tensor whose product is a dimension; None if there are none."""
    shape = tensor.shape
    if dim != ANY and dim in shape:
        return [shape.index(dim)]
    quotient_left, axes = as_polynomial(dim), []
    if quotient_left is None:
        return None
    for axis, factor in enumerate(map(as_polynomial, shape)):
        try:
            quotient = None if factor is None else quotient_left.divide_exactly(factor)
        except NoPolynomialError:
            continue
        if quotient is not None and factor is not None and factor.number != 1:
            axes.append(axis)
            quotient_left = quotient
    return axes if quotient_left.number == 1 else None


def with_checked_sizes(value: Computed, like: Computed, axis: int, span: Span, *, first: int = 0) -> Computed:
    """Return a tensor with run-time checks that its sizes are those of another one, from an axis on.

    Those of the axes before ``first`` are not compared, nor sizes of which the types say that they are equal.
    """
    for number, (dim, other) in enumerate(zip(value.shape[first:], like.shape[axis:], strict=False)):
        if dim != other or ANY in (dim, other):
            attrs = {"lhs_begin": first + number, "lhs_end": first + number + 1}
            attrs |= {"rhs_begin": axis + number, "rhs_end": axis + number + 1}
            value = apply("reshape_like", span, value, like, **attrs)
    return value
