"""Differentiate matrix products: each operand's cotangent is a product with the other one."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import cast

from nnmagic.relay.gradients.registry import rule
from nnmagic.relay.gradients.rules.matrices import unit_matrix
from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import TensorType, TupleType


@rule("nn.dense")
def _dense(p: VjpCall) -> Sequence[Contribution]:
    return _product(p, transpose_a=False, transpose_b=True)


@rule("nn.matmul")
def _matmul(p: VjpCall) -> Sequence[Contribution]:
    return _product(p, transpose_a=bool(p.attrs["transpose_a"]), transpose_b=bool(p.attrs["transpose_b"]))


def _product(p: VjpCall, *, transpose_a: bool, transpose_b: bool) -> Sequence[Contribution]:
    """Differentiate a product with a matrix; the first operand may have more leading axes."""
    a, b = p.x(0), p.x(1)
    d, rank = p.d.cast(a.dtype), p.rank(0)
    first = second = None
    if p.wanted[0]:
        if transpose_a:  # a: (..., k, m), d: (..., m, n), b: (k, n)
            swapped = d.op("nn.matmul", b, transpose_b=not transpose_b)
            first = swapped.transpose(_swap(rank))
        else:
            first = d.op("nn.matmul", b, transpose_b=not transpose_b)
    if p.wanted[1]:
        lhs = a.transpose(_swap(rank)) if transpose_a and rank > 2 else a
        flag = transpose_a and rank == 2
        rows, grads = lhs, d
        if rank != 2:
            rows, grads = _rows(p, lhs, transpose_a=transpose_a), _flat(p, d)
        if transpose_b:  # (n, k) = d^T a
            second = grads.op("nn.matmul", rows, transpose_a=True, transpose_b=flag)
        else:
            second = rows.op("nn.matmul", grads, transpose_a=not flag)
        second = second.cast(b.dtype)
    return [first, second]


def _rows(p: VjpCall, term: TensorExpr, *, transpose_a: bool) -> TensorExpr:
    """Return the first operand as a matrix whose columns are summed over."""
    inner = p.shape(0)[-2 if transpose_a else -1]
    return _matrix(term, inner, p.rank(0))


def _flat(p: VjpCall, d: TensorExpr) -> TensorExpr:
    return _matrix(d, p.out_shape[-1], len(p.out_shape))


def _matrix(term: TensorExpr, columns: object, rank: int) -> TensorExpr:
    if isinstance(columns, int) and columns:
        return term.reshape([-1, columns])
    if rank == 1:
        return term.op("expand_dims", axis=0)
    for _ in range(rank - 2):  # merge the first two axes
        term = term.reshape([-3, -2])
    return term


def _swap(rank: int) -> list[int]:
    return [*range(rank - 2), rank - 1, rank - 2]


@rule("nn.batch_matmul")
def _batch_matmul(p: VjpCall) -> Sequence[Contribution]:
    a, b, d = p.x(0), p.x(1), p.d.cast(p.tensor(0).dtype)
    over_a, over_b = bool(p.attrs["transpose_a"]), bool(p.attrs["transpose_b"])

    def product(lhs: TensorExpr, rhs: TensorExpr, *, over_left: bool, over_right: bool) -> TensorExpr:
        return lhs.op("nn.batch_matmul", rhs, transpose_a=over_left, transpose_b=over_right)

    contributions: list[Contribution] = [None, None]
    if p.wanted[0]:
        if over_a:
            first = product(b, d, over_left=over_b, over_right=True)
        else:
            first = product(d, b, over_left=False, over_right=not over_b)
        contributions[0] = _sum_batch(p, first, 0)
    if p.wanted[1]:
        second = (
            product(d, a, over_left=True, over_right=over_a)
            if over_b
            else product(a, d, over_left=not over_a, over_right=False)
        )
        contributions[1] = _sum_batch(p, second, 1)
    return contributions


def _sum_batch(p: VjpCall, term: TensorExpr, index: int) -> TensorExpr:
    """Sum over the batch where an operand has one matrix for all."""
    own = p.shape(index)
    if own[0] == 1 and p.out_shape[0] != 1:
        return term.sum([0], keepdims=True)
    return term


@rule("einsum")
def _einsum(p: VjpCall) -> Sequence[Contribution]:
    """Swap an operand with the result; letters that stand in that operand alone are broadcast."""
    (type_,) = p.types
    assert isinstance(type_, TupleType)
    terms, output = _equation(p, [cast("TensorType", operand) for operand in type_.fields])
    sizes = {letter: (index, axis) for index, term in enumerate(terms) for axis, letter in enumerate(term)}
    contributions: list[Contribution] = []
    for index, term in enumerate(terms):
        once = "".join(dict.fromkeys(term))
        others = [(terms[at], p.field(0, at)) for at in range(len(terms)) if at != index]
        reach = set(output).union(*(other for other, _ in others)) if others else set(output)
        missing = [letter for letter in once if letter not in reach]
        terms_ = [(output, p.d), *others]
        terms_ += [(letter, _ones(p, terms, *sizes[letter])) for letter in missing]
        inputs = ",".join(operand for operand, _ in terms_)
        operands = p.tuple_of(*(value for _, value in terms_))
        one = operands.op("einsum", equation=f"{inputs}->{once}")
        contributions.append(_on_diagonals(p, terms, index, one))
    return [contributions]


def _on_diagonals(p: VjpCall, terms: Sequence[str], index: int, values: TensorExpr) -> TensorExpr:
    """Return the cotangent of an operand from its diagonals, of axes with the same letter: 0 elsewhere."""
    used = {letter for term in terms for letter in term}
    spare = (letter for letter in ascii_letters if letter not in used)
    first: dict[str, int] = {}
    letters, again = list[str](), list[tuple[int, int]]()
    for axis, letter in enumerate(terms[index]):
        if letter in first:
            again.append((first[letter], axis))
            letters.append(next(spare))
        else:
            first[letter] = axis
            letters.append(letter)
    if not again:
        return values
    terms_ = [("".join(first), values), *((letters[at], _ones(p, terms, index, at)) for _, at in again)]
    equation = f"{','.join(part for part, _ in terms_)}->{''.join(letters)}"
    product = p.tuple_of(*(value for _, value in terms_)).op("einsum", equation=equation)
    operand, rank = p.field(0, index), len(letters)
    for pair in again:
        others = [axis for axis in range(rank) if axis not in pair]
        on_diagonal = unit_matrix(p, operand.sum(others)) > 0
        for axis in others:
            on_diagonal = on_diagonal.op("expand_dims", axis=axis)
        product = on_diagonal.choose(product, 0)
    return product


def _ones(p: VjpCall, terms: Sequence[str], index: int, axis: int) -> TensorExpr:
    """Return a vector of ones as long as an axis of an operand."""
    operand = p.field(0, index)
    others = [other for other in range(len(terms[index])) if other != axis]
    return (operand.sum(others) if others else operand).op("ones_like")


def _equation(p: VjpCall, types: Sequence[TensorType]) -> tuple[list[str], str]:
    """Return the letters of the operands and of the result; those of an ellipsis are capital."""
    equation = str(p.attrs["equation"]).replace(" ", "")
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if not arrow:
        once = sorted(letter for letter in set(inputs) - set(",.") if inputs.count(letter) == 1)
        output = ("..." if "..." in inputs else "") + "".join(once)
    spare = [
        len(type_.shape) - len(term.replace("...", "")) for term, type_ in zip(terms, types, strict=True)
    ]
    if any("..." in term for term in terms):
        if len({count for term, count in zip(terms, spare, strict=True) if "..." in term}) > 1:
            raise p.unsupported("the axes of '...' differ in number", "write them with letters")
        count = max(spare)
        letters = "".join(letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in equation)[:count]
        terms = [term.replace("...", letters) for term in terms]
        output = output.replace("...", letters)
    seen: dict[str, object] = {}
    for term, type_ in zip(terms, types, strict=True):
        for letter, dim in zip(term, type_.shape, strict=True):
            if seen.setdefault(letter, dim) != dim and 1 in (dim, seen[letter]):
                raise p.unsupported("an axis is broadcast", "give the operands the same sizes")
    return terms, output
