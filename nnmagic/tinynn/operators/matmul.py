"""Evaluate ``a @ b`` with NumPy's meaning for every rank."""

from __future__ import annotations

from nnmagic.diagnostics import Span
from nnmagic.relay.ops.declaration import RelationError
from nnmagic.relay.ops.dims import product
from nnmagic.relay.signatures import format_dim, format_shape
from nnmagic.relay.types import ANY, AnyDim, Dim
from nnmagic.tinynn.values.descriptions import describe, type_note
from nnmagic.tinynn.values.numbers import is_number, number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast, is_tensor, tensor_type, to_refusal
from nnmagic.tinynn.values.operator_restrictions import check_product, dims_differ
from nnmagic.tinynn.values.promotion import promote
from nnmagic.tinynn.values.reshaping import reshape_to, reshape_to_sizes
from nnmagic.tinynn.values.symbolic_sizes import product_of, shape_of, size_along
from nnmagic.tinynn.values.values import Computed, Known, Operand, RefusalError


def matrix_product(lhs: Operand, rhs: Operand, span: Span, name: str = "@") -> Computed:
    """Multiply as NumPy's matmul: vectors count as a row or a column, leading dimensions broadcast.

    ``name``: the operator or function as the cell calls it, for messages.
    """
    sign = f"`{name}`"
    for side in (lhs, rhs):
        if not is_tensor(side.value):
            is_factor = isinstance(side.value, Known) and is_number(side.value.value)
            hint = "write * instead" if is_factor else None
            raise RefusalError(f"{sign} takes tensors, not {describe(side.value)}", side.span, hint=hint)
        if not tensor_type(side).shape:
            raise RefusalError(
                f"{sign} takes tensors of rank 1 or more, not a scalar", side.span, hint="write * instead"
            )
    lhs, rhs = promote(lhs, rhs, sign)
    left_type, right_type = tensor_type(lhs), tensor_type(rhs)
    if left_type.dtype == right_type.dtype == "bool":  # any of ands: whether the number of them is not 0
        lhs, rhs = (_count(side, span) for side in (lhs, rhs))
        counts = matrix_product(lhs, rhs, span, name)
        return apply("not_equal", span, counts, number_constant(0, "float32", span))
    try:
        check_product(sign, left_type, right_type, (-1, -2 if len(right_type.shape) > 1 else -1))
    except RelationError as error:
        raise to_refusal(error, (lhs, rhs), span, {}) from None
    _check_leading(sign, lhs, rhs, span)
    rows, columns = lhs.dynamic, rhs.dynamic
    if len(left_type.shape) == 1:
        rows = apply("expand_dims", span, rows, axis=0)
    if len(right_type.shape) == 1:
        columns = apply("expand_dims", span, columns, axis=1)
    result = _multiply_matrices(rows, columns, span)
    dropped = ([-2] if len(left_type.shape) == 1 else []) + ([-1] if len(right_type.shape) == 1 else [])
    if not dropped:
        return result
    rank = len(result.shape)
    return apply("squeeze", span, result, axis=sorted(rank + axis for axis in dropped))


def _count(operand: Operand, span: Span) -> Operand:
    """Return bools as numbers of which no sum is 0 by overflow or rounding."""
    return Operand(cast(operand.dynamic, "float32", span), operand.span)


def _check_leading(sign: str, lhs: Operand, rhs: Operand, span: Span) -> None:
    left_shape, right_shape = tensor_type(lhs).shape, tensor_type(rhs).shape
    for first, second in zip(reversed(left_shape[:-2]), reversed(right_shape[:-2]), strict=False):
        if first != 1 and second != 1 and dims_differ(first, second):
            shown = f"{format_shape(left_shape)} and {format_shape(right_shape)}"
            raise RefusalError(
                f"{sign}: the leading dimensions of {shown} "
                f"do not broadcast ({format_dim(first)} against {format_dim(second)})",
                span,
                notes=(type_note(lhs), type_note(rhs)),
            )


def _multiply_matrices(lhs: Computed, rhs: Computed, span: Span) -> Computed:
    """Multiply two tensors of rank 2 or more."""
    left_shape, right_shape = lhs.shape, rhs.shape
    if len(left_shape) == 2 and len(right_shape) == 2:
        return apply("nn.matmul", span, lhs, rhs)
    if len(right_shape) == 2:
        return _rows_times_matrix(lhs, rhs, span)
    if len(left_shape) <= 3 and len(right_shape) <= 3:
        lhs = lhs if len(left_shape) == 3 else apply("expand_dims", span, lhs, axis=0)
        rhs = rhs if len(right_shape) == 3 else apply("expand_dims", span, rhs, axis=0)
        return apply("nn.batch_matmul", span, lhs, rhs, transpose_b=False)
    return _multiply_stacks(lhs, rhs, span)


def _rows_times_matrix(lhs: Computed, rhs: Computed, span: Span) -> Computed:
    """Multiply with all leading dimensions flattened to the rows of one matrix."""
    left_shape, right_shape = lhs.shape, rhs.shape
    if ANY in left_shape[:-1]:
        sizes = list(shape_of(lhs, span).items)
        whole = (product(left_shape[:-1]), left_shape[-1])
        rows = reshape_to_sizes(lhs, [product_of(sizes[:-1], span), sizes[-1]], whole, span)
        result = apply("nn.matmul", span, rows, rhs)
        sizes[-1] = size_along(rhs, 1, span)
        return reshape_to_sizes(result, sizes, (*left_shape[:-1], right_shape[-1]), span)
    rows = reshape_to(lhs, (product(left_shape[:-1]), left_shape[-1]), span)
    result = apply("nn.matmul", span, rows, rhs)
    return reshape_to(result, (*left_shape[:-1], right_shape[-1]), span, (lhs,))


def _multiply_stacks(lhs: Computed, rhs: Computed, span: Span) -> Computed:
    """Broadcast the leading dimensions and flatten them to one batch dimension."""
    left_shape, right_shape = lhs.shape, rhs.shape
    rank = max(len(left_shape), len(right_shape)) - 2
    first = (1,) * (rank + 2 - len(left_shape)) + left_shape[:-2]
    second = (1,) * (rank + 2 - len(right_shape)) + right_shape[:-2]
    batch = tuple(b if a == 1 else a for a, b in zip(first, second, strict=True))
    whole = [_broadcast_batch(value, batch, span) for value in (lhs, rhs)]
    flat = [reshape_to(value, (product(batch), *value.shape[-2:]), span) for value in whole]
    result = apply("nn.batch_matmul", span, *flat, transpose_b=False)
    return reshape_to(result, (*batch, left_shape[-2], right_shape[-1]), span, whole)


def _broadcast_batch(value: Computed, batch: tuple[Dim, ...], span: Span) -> Computed:
    """Return the stack with these leading dimensions."""
    if value.shape[:-2] == batch:
        return value
    shape = (*batch, *value.shape[-2:])
    if AnyDim() not in shape or AnyDim() in batch:
        return apply("broadcast_to", span, value, shape=shape)
    zeros = apply("zeros", span, shape=(*batch, 1, 1), dtype=value.dtype)
    whole = apply("add", span, apply("zeros_like", span, value), zeros)
    return apply("broadcast_to_like", span, value, whole)  # the sizes of the matrices are known in a call
