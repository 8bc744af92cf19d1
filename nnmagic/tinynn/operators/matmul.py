"""``a @ b`` with NumPy's meaning for every rank. Knows values and operators."""

from __future__ import annotations

from nnmagic.diagnostics import Span
from nnmagic.relay.ops.declaration import RelationError
from nnmagic.relay.ops.dims import product
from nnmagic.relay.signatures import format_dim, format_shape
from nnmagic.relay.types import Dim, TensorType
from nnmagic.tinynn.values.operator_calls import (
    apply,
    computed_part,
    is_tensor,
    located,
    reshape_to,
    tensor_type,
)
from nnmagic.tinynn.values.operator_restrictions import check_product, dims_differ
from nnmagic.tinynn.values.values import (
    Computed,
    Known,
    Operand,
    RefusalError,
    TupleOf,
    described,
    typed_note,
)


def matrix_product(left: Operand, right: Operand, span: Span, written: str = "@") -> Computed:
    """NumPy's matmul: vectors count as a row or a column, leading dimensions broadcast. Raises Refusal.

    ``written`` is what the cell calls it.
    """
    sign = f"`{written}`"
    for side in (left, right):
        if not is_tensor(side.value):
            hint = "write * instead" if isinstance(side.value, Known) else None
            raise RefusalError(f"{sign} takes tensors, not {described(side.value)}", side.span, hint=hint)
        if not tensor_type(side).shape:
            raise RefusalError(
                f"{sign} takes tensors of rank 1 or more, not a scalar", side.span, hint="write * instead"
            )
    one, other = tensor_type(left), tensor_type(right)
    try:
        check_product(sign, one, other, (-1, -2 if len(other.shape) > 1 else -1))
    except RelationError as error:
        raise located(error, (left, right), span, {}) from None
    assert isinstance(left.value, Computed)
    assert isinstance(right.value, Computed)
    _check_leading(sign, left, right, span)
    rows, columns = left.value, right.value
    if len(one.shape) == 1:
        rows = apply("expand_dims", span, rows, axis=0)
    if len(other.shape) == 1:
        columns = apply("expand_dims", span, columns, axis=1)
    result = _of_matrices(rows, columns, span)
    dropped = ([-2] if len(one.shape) == 1 else []) + ([-1] if len(other.shape) == 1 else [])
    if not dropped:
        return result
    rank = len(_shape(result))
    return apply("squeeze", span, result, axis=sorted(rank + axis for axis in dropped))


def _shape(value: Computed) -> tuple[Dim, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.shape


def _check_leading(sign: str, left: Operand, right: Operand, span: Span) -> None:
    one, other = tensor_type(left).shape, tensor_type(right).shape
    for first, second in zip(reversed(one[:-2]), reversed(other[:-2]), strict=False):
        if first != 1 and second != 1 and dims_differ(first, second):
            raise RefusalError(
                f"{sign}: the leading dimensions of {format_shape(one)} and {format_shape(other)} "
                f"do not broadcast ({format_dim(first)} against {format_dim(second)})",
                span,
                notes=(typed_note(left), typed_note(right)),
            )


def _of_matrices(left: Computed, right: Computed, span: Span) -> Computed:
    """The product of two tensors of rank 2 or more."""
    one, other = _shape(left), _shape(right)
    if len(one) == 2 and len(other) == 2:
        return apply("nn.matmul", span, left, right)
    if len(other) == 2 and _unknown(one[:-1]) <= 1:
        return _rows_times_matrix(left, right, span)
    if len(one) <= 3 and len(other) <= 3:
        left = left if len(one) == 3 else apply("expand_dims", span, left, axis=0)
        right = right if len(other) == 3 else apply("expand_dims", span, right, axis=0)
        return apply("nn.batch_matmul", span, left, right, transpose_b=False)
    return _of_stacks(left, right, span)


def _rows_times_matrix(left: Computed, right: Computed, span: Span) -> Computed:
    """All leading dimensions are rows of one matrix."""
    one, other = _shape(left), _shape(right)
    rows = reshape_to(left, (product(one[:-1]), one[-1]), span)
    return reshape_to(apply("nn.matmul", span, rows, right), (*one[:-1], other[-1]), span)


def _of_stacks(left: Computed, right: Computed, span: Span) -> Computed:
    """Leading dimensions broadcast, then flattened to one batch dimension."""
    one, other = _shape(left), _shape(right)
    rank = max(len(one), len(other)) - 2
    first = (1,) * (rank + 2 - len(one)) + one[:-2]
    second = (1,) * (rank + 2 - len(other)) + other[:-2]
    batch = tuple(b if a == 1 else a for a, b in zip(first, second, strict=True))
    if _unknown((*batch, *one[-2:], *other[-2:])):
        return _by_names(left, right, batch, span)
    flat = [_flattened(value, batch, span) for value in (left, right)]
    return reshape_to(
        apply("nn.batch_matmul", span, *flat, transpose_b=False), (*batch, one[-2], other[-1]), span
    )


def _by_names(left: Computed, right: Computed, batch: tuple[Dim, ...], span: Span) -> Computed:
    """With dimensions that only the call knows, which one reshape could not tell apart: by names of axes."""
    one, other = _shape(left), _shape(right)
    letters = "abcdefghijklmnopqrstuvw"[: len(batch)]
    first = letters[len(batch) - len(one) + 2 :]
    second = letters[len(batch) - len(other) + 2 :]
    equation = f"{first}xy,{second}yz->{letters}xz"
    if any(a == 1 and b != 1 for a, b in zip(one[-3::-1], batch[::-1], strict=False)):
        left = apply("broadcast_to", span, left, shape=(*batch, *one[-2:]))
        equation = f"{letters}xy,{second}yz->{letters}xz"
    if any(a == 1 and b != 1 for a, b in zip(other[-3::-1], batch[::-1], strict=False)):
        right = apply("broadcast_to", span, right, shape=(*batch, *other[-2:]))
        equation = f"{equation.partition(',')[0]},{letters}yz->{letters}xz"
    pair = computed_part(Operand(TupleOf((left, right)), span))
    found = apply("einsum", span, pair, equation=equation)
    assert isinstance(found.type, TensorType)
    return Computed(found.expr, TensorType((*batch, one[-2], other[-1]), found.type.dtype))


def _flattened(value: Computed, batch: tuple[Dim, ...], span: Span) -> Computed:
    matrix = _shape(value)[-2:]
    if _shape(value)[:-2] != batch:
        value = apply("broadcast_to", span, value, shape=(*batch, *matrix))
    return reshape_to(value, (product(batch), *matrix), span)


def _unknown(dims: tuple[Dim, ...]) -> int:
    return sum(not isinstance(dim, int) for dim in dims)
