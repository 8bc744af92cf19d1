"""Build tensors for the language's functions: join, broadcast, slice, count up, make constants."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import AnyDim, Dim, TensorType
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import as_computed, call_operator, whole_numbers
from nnmagic.tinynn.values.operator_restrictions import broadcast_shape
from nnmagic.tinynn.values.symbolic_sizes import dimension_size
from nnmagic.tinynn.values.values import Computed, Dimension, Known, Operand, RefusalError, TupleOf


def common_shape(call: Arguments, shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    """Return the shape that all shapes broadcast to. Raises RefusalError if they do not."""
    shape = broadcast_shape(shapes)
    if shape is None:
        shown = " and ".join(map(format_shape, shapes))
        raise RefusalError(f"{call.name}: the shapes {shown} do not broadcast", call.span)
    return shape


def broadcast(data: Formula, shape: Sequence[Dim]) -> Formula:
    """Broadcast a tensor to a shape."""
    return data if data.shape == tuple(shape) else data.op("broadcast_to", shape=tuple(shape))


def broadcast_together(call: Arguments, arrays: Sequence[Formula]) -> list[Formula]:
    """Broadcast tensors to their common shape. Raises RefusalError if there is none.

    Whether a dimension without a name is 1, only the run knows: there, a sum of zeros has the common shape.
    """
    shape = common_shape(call, [array.shape for array in arrays])
    if AnyDim() not in shape:
        return [broadcast(array, shape) for array in arrays]
    zeros = reduce(operator.add, (array.op("zeros_like").cast("int8") for array in arrays))
    return [array.op("broadcast_to_like", zeros.cast(array.dtype)) for array in arrays]


def atleast_nd(data: Formula, rank: int) -> Formula:
    """Add axes of size 1 as atleast_1d, atleast_2d and atleast_3d do."""
    if data.rank == 0 and rank:
        data = data.reshape((1,))
    if data.rank == 1 and rank > 1:
        data = data.expand(0)
    if data.rank == 2 and rank > 2:
        data = data.expand(2)
    return data


def concatenate(
    call: Arguments, parts: Sequence[Formula], axis: int, operator: str = "concatenate"
) -> Formula:
    """Join tensors of one dtype along an axis (or a new one, with the operator "stack")."""
    first = next(iter(call.given.values()))
    whole = TupleOf(tuple(part.value for part in parts))
    value = as_computed(Operand(whole, first.span))
    result = call_operator(OPERATORS[operator], [Operand(value, first.span)], {"axis": axis}, call.span)
    assert isinstance(result, Computed)
    return Formula(result, call.span)


def stack(tensors: Sequence[Formula], axis: int) -> Formula:
    """Join tensors of one shape and dtype along a new axis."""
    call = Arguments("stack", {"arrays": Operand(Known(None), tensors[0].span)}, tensors[0].span)
    return concatenate(call, tensors, axis, "stack")


def constant_of(array: np.ndarray, dtype: str, span: Span) -> Formula:
    """Return an array as a constant tensor."""
    constant = ir.constant(array, dtype, span=span)
    return Formula(Computed(constant, TensorType(tuple(array.shape), dtype)), span)


#: A size: a number, or a dimension that only the run knows.
Size: TypeAlias = int | Dimension

#: Beyond the end of any axis.
_BEYOND = 2**48

#: A diagonal that no matrix has; an index of a row plus this has 64 bits.
_FARTHEST = 2**62


def unit_matrix(rows: Size, columns: Size, k: int, dtype: str, span: Span) -> Formula:
    """Return a matrix of ones where row + k equals column, else zeros."""
    row, column = row_and_column(rows, columns, k, span)
    return row.equal(column).cast(dtype)


def row_and_column(rows: Size, columns: Size, k: int, span: Span) -> tuple[Formula, Formula]:
    """Return the index of a row plus ``k``, and that of a column, in int32 where that is enough."""
    k = max(-_FARTHEST, min(k, _FARTHEST))
    total = sum(size if isinstance(size, int) else 2**31 for size in (rows, columns))
    dtype = "int32" if total + abs(k) < 2**31 else "int64"
    row = arange(rows, span).cast(dtype).expand(1)
    return (row + k if k else row), arange(columns, span).cast(dtype)


def arange(size: Size, span: Span) -> Formula:
    """Return 0, 1, 2, ... as int64."""
    start, step = (number_constant(number, "int64", span) for number in (0, 1))
    if isinstance(size, int):
        return Formula(whole_numbers(start, number_constant(size, "int64", span), step, span), span)
    numbers = whole_numbers(start, size.number, step, span)
    return Formula(Computed(numbers.expr, TensorType((size.dim,), "int64")), span)


def size_of(data: Formula, axis: int) -> Size:
    """Return the size of an axis."""
    dim = data.shape[axis]
    if isinstance(dim, AnyDim):
        return Dimension(dim, dimension_size(data.value, axis, data.span))
    assert isinstance(dim, int)
    return int(dim)


def size_along(data: Formula, axis: int, like: Formula) -> Formula:
    """Return the size of an axis in the dtype of ``like``; a dynamic size is read at run time."""
    size = data.shape[axis]
    if isinstance(size, int):
        return like.like(size)
    sizes = data.op("shape_of", dtype="int64")
    return sizes.row(0, axis).cast(like.dtype)


def require_elements(data: Formula, axes: Sequence[int] | None, message: str) -> Formula:
    """Return a tensor; where axes (None: all) may be empty, have the program raise ValueError if one is."""
    one = Formula(number_constant(1, "int64", data.span), data.span)
    for axis in range(data.rank) if axes is None else axes:
        if not isinstance(data.shape[axis], int):
            data = data.require(size_along(data, axis, one) > 0, message)
    return data


def partition_at(data: Formula, axis: int, places: Formula) -> Formula:
    """Return a tensor whose elements at places that ascend, int64, are those of the sorted one."""
    return data.op("numpy.partition", places, axis=axis)


def slice_axis(data: Formula, axis: int, begin: int, end: int | None) -> Formula:
    """Return ``data[begin:end]`` along an axis; a negative end counts from the end of the axis."""
    size = data.shape[axis]
    if isinstance(size, int):
        first, last, _ = slice(begin, end).indices(size)
        return data.between(axis, first, max(first, last))
    last = _BEYOND if end is None else end
    sliced = data.between(axis, begin, last)
    shape = tuple(AnyDim() if index == axis else dim for index, dim in enumerate(data.shape))
    return Formula(Computed(sliced.value.expr, TensorType(shape, data.dtype)), data.span)
