"""Tensors from tensors, for the functions of the language: joined, broadcast, counted up, constant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import AnyDim, Dim, TensorType
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments
from nnmagic.tinynn.values.operator_calls import call_operator, computed_part, whole_numbers
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.values import Computed, Known, Operand, RefusalError, TupleOf, number_constant


def common_shape(call: Arguments, shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    """The shape that all broadcast to."""
    rank = max(map(len, shapes))
    found: list[Dim] = [1] * rank
    for shape in shapes:
        for place, dim in enumerate(shape, rank - len(shape)):
            if found[place] == 1:
                found[place] = dim
            elif dim != 1 and dims_differ(found[place], dim):
                shown = " and ".join(map(format_shape, shapes))
                raise RefusalError(f"{call.name}: the shapes {shown} do not broadcast", call.span)
            elif isinstance(dim, int) and dim != 1:
                found[place] = dim
    return tuple(found)


def broadcast(data: Formula, shape: Sequence[Dim]) -> Formula:
    """Repeated along the axes of size 1."""
    return data if data.shape == tuple(shape) else data.op("broadcast_to", shape=tuple(shape))


def at_least(data: Formula, rank: int) -> Formula:
    """With axes of size 1 as atleast_1d, atleast_2d and atleast_3d put them."""
    if data.rank == 0 and rank:
        data = data.reshape((1,))
    if data.rank == 1 and rank > 1:
        data = data.expand(0)
    if data.rank == 2 and rank > 2:
        data = data.expand(2)
    return data


def joined(call: Arguments, parts: Sequence[Formula], axis: int, operator: str = "concatenate") -> Formula:
    """Tensors of one dtype as one, along an axis (or a new one)."""
    first = next(iter(call.given.values()))
    whole = TupleOf(tuple(part.value for part in parts))
    value = computed_part(Operand(whole, first.span))
    result = call_operator(OPERATORS[operator], [Operand(value, first.span)], {"axis": axis}, call.span)

    assert isinstance(result, Computed)
    return Formula(result, call.span)


def stacked(parts: Sequence[Formula], axis: int) -> Formula:
    """Tensors of one shape and dtype along a new axis."""
    call = Arguments("stack", {"arrays": Operand(Known(None), parts[0].span)}, parts[0].span)
    return joined(call, parts, axis, "stack")


def cut(data: Formula, axis: int, begin: int, end: int) -> Formula:
    """The elements from ``begin`` to before ``end`` along an axis."""
    return data.op("strided_slice", begin=[begin], end=[end], strides=[1], axes=[axis])


def constant_of(array: np.ndarray, dtype: str, span: Span) -> Formula:
    """An array as a constant tensor."""
    constant = ir.constant(array, dtype, span=span)
    return Formula(Computed(constant, TensorType(tuple(array.shape), dtype)), span)


def unit_matrix(rows: int, columns: int, k: int, dtype: str, span: Span) -> Formula:
    """Ones along a diagonal: where the place of the row and k meet that of the column."""
    row = apply_arange(rows, span).expand(1)
    return (row + k).equal(apply_arange(columns, span)).cast(dtype)


def apply_arange(size: int, span: Span) -> Formula:
    """0, 1, 2, ... as int64."""
    start, stop, step = (number_constant(number, "int64", span) for number in (0, size, 1))
    return Formula(whole_numbers(start, stop, step, span), span)


def size_along(data: Formula, axis: int, like: Formula) -> Formula:
    """The size of an axis as a number of the dtype of ``like``; a named one is read when the program runs."""
    size = data.shape[axis]
    if isinstance(size, int):
        return like.like(size)
    sizes = data.op("shape_of", dtype="int64")
    cut = sizes.op("strided_slice", begin=[axis], end=[axis + 1], strides=[1], axes=[0])
    return cut.op("squeeze", axis=[0]).cast(like.dtype)


def piece(data: Formula, axis: int, begin: int, end: int | None) -> Formula:
    """``data[begin:end]`` along an axis; an end that is negative counts from it."""
    size = data.shape[axis]
    if isinstance(size, int):
        first, last, _ = slice(begin, end).indices(size)
        return data.op("strided_slice", begin=[first], end=[max(first, last)], strides=[1], axes=[axis])
    last = 2**31 - 1 if end is None else end
    cut = data.op("strided_slice", begin=[begin], end=[last], strides=[1], axes=[axis])
    value = cut.value
    shape = tuple(AnyDim() if place == axis else dim for place, dim in enumerate(data.shape))
    return Formula(Computed(value.expr, TensorType(shape, data.dtype)), data.span)
