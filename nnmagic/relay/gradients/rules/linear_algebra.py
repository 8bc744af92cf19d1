"""Differentiate equations and determinants (Giles 2008, Collected matrix derivative results).

Rules of complex matrices, which are pairs of floats, have the conjugate transposes of those of real ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay.expr import If
from nnmagic.relay.gradients.registry import refuse, rule
from nnmagic.relay.gradients.rules.matrices import Matrices, matrices, matrix_rule
from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall
from nnmagic.relay.tensor_expr import TensorExpr

refuse("the solution of a system has one: write solve", "linalg.lu", "linalg.permutation")


@matrix_rule("linalg.solve")
def _solve(p: VjpCall, m: Matrices) -> Sequence[Contribution]:
    right = m.solve(m.adjoint(p.x(0)), p.d)
    return [-m.product(right, p.y, second=True) if p.wanted[0] else None, right]


@matrix_rule("linalg.inv")
def _inv(p: VjpCall, m: Matrices) -> Sequence[Contribution]:
    return [-m.product(m.product(p.y, p.d, first=True), p.y, second=True)]


@matrix_rule("linalg.slogdet")
def _slogdet(p: VjpCall, m: Matrices) -> Sequence[Contribution]:
    """Return the adjoint of the inverse times d; the sign of a complex determinant turns with its trace."""
    sign, d = p.d_part(0) if m.pairs else None, p.d_part(1)
    if d is None and sign is None:
        return [None]
    inverse = m.adjoint(p.x().op("linalg.inv", pairs=m.pairs))
    if not m.pairs:
        assert d is not None
        return [d.op("expand_dims", axis=m.rank - 2, num_newaxis=2) * inverse]
    zeros = p.part(1).op("zeros_like")
    turn = zeros
    if sign is not None:
        (re, im), (d_re, d_im) = m.parts(p.part(0)), m.parts(sign)
        turn = d_im * re - d_re * im
    grow, turn = (term.op("expand_dims", axis=m.rank - 2, num_newaxis=2) for term in (d or zeros, turn))
    re, im = m.parts(inverse)
    return [m.join(grow * re - turn * im, grow * im + turn * re)]


@rule("linalg.det")
def _det(p: VjpCall) -> Sequence[Contribution]:
    """Return the cotangent of the determinants times their cofactors.

    Those of at most three rows are products of entries. Of others they are the determinant times the inverse,
    or, of (almost) singular matrices, made of their singular values: U diag(products of the others) V^T.
    """
    m = matrices(p)
    rank, x = p.rank(), p.x()
    size = p.shape(0)[-1]
    d, y = (tensor.op("expand_dims", axis=rank - 2, num_newaxis=2) for tensor in (p.d, p.y))
    if isinstance(size, int) and size <= _MOST_MINORS:
        return [d * _cofactors(p, x, int(size))]
    eye, singular = m.unit(x), y.equal(0)
    inverse = singular.choose(eye, x).op("linalg.inv")
    largest = (
        tensor.op("abs").op("max", axis=[rank - 2, rank - 1], keepdims=True) for tensor in (x, inverse)
    )
    singular = singular.op("logical_or", next(largest) * next(largest) > _ILL_CONDITIONED)
    regular = d * y * m.adjoint(inverse)
    # The singular values of regular matrices are not used; they differ, so that they have derivatives.
    different = eye * x.op("ones_like").op("cumsum", axis=rank - 1)
    parts = singular.choose(x, different).op("linalg.svd", full_matrices=False, compute_uv=True)
    u, s, vt = (parts.item(index, x.dtype) for index in range(3))
    sign = [tensor.op("linalg.slogdet").item(0, x.dtype) for tensor in (u, vt)]
    before, after = s, s.op("reverse", axis=rank - 2)
    before, after = (tensor.op("cumprod", axis=rank - 2, exclusive=True) for tensor in (before, after))
    others = before * after.op("reverse", axis=rank - 2)
    turned = (sign[0] * sign[1]).op("expand_dims", axis=rank - 2, num_newaxis=2)
    adjugate = d * turned * m.product(u * m.row(others), vt)
    either = singular.choose(adjugate, regular)
    return [p.term(If(singular.op("any").expr, either.expr, regular.expr, span=p.span), x.dtype)]


#: Derivatives of the inverse of a matrix lose as many digits as its condition number has.
_ILL_CONDITIONED = 1e8

#: The largest matrices whose cofactors are computed as products of entries.
_MOST_MINORS = 3


def _cofactors(p: VjpCall, x: TensorExpr, size: int) -> TensorExpr:
    """Return the cofactors of matrices of at most three rows."""
    if size <= 1:
        return x.op("ones_like")

    def move(rows: int, columns: int) -> TensorExpr:
        result = x
        for axis, by in ((p.rank() - 2, rows), (p.rank() - 1, columns)):
            places = p.array([(at + by) % size for at in range(size)], "int64")
            result = result.op("take", places, axis=axis)
        return result

    if size == 2:
        return move(1, 1) * p.array([[1, -1], [-1, 1]], x.dtype)
    return move(1, 1) * move(2, 2) - move(1, 2) * move(2, 1)


@rule("linalg.lstsq")
def _lstsq(p: VjpCall) -> Sequence[Contribution]:
    """Differentiate P b, where P is the pseudoinverse of a matrix of constant rank (Golub, Pereyra 1973)."""
    m, x, (dx, dr) = matrices(p), p.part(0), (p.d_part(0), p.d_part(1))
    if dx is None and dr is None:
        return [None, None]
    residual = p.x(1) - m.product(p.x(0), x)
    to_matrix, to_sides = list[TensorExpr](), list[TensorExpr]()
    if dr is not None:  # the solution makes the residuals least
        grown = residual * m.row(dr) * 2
        to_matrix.append(-m.product(grown, x, second=True))
        to_sides.append(grown)
    if dx is not None:
        parts = p.x(0).op("linalg.svd", full_matrices=False, compute_uv=True)
        u, s, vt = (parts.item(index, x.dtype) for index in range(3))
        is_used = p.part(2).cast(x.dtype) >= s.op("ones_like").op("cumsum", axis=0)
        inverse = is_used.choose(1 / is_used.choose(s, 1), 0)
        pseudo = m.product(vt * m.column(inverse), u, first=True, second=True)
        right = m.product(pseudo, dx, first=True)
        beyond = dx - m.product(pseudo, m.product(p.x(0), dx))
        to_matrix += [
            -m.product(right, x, second=True),
            m.product(residual, m.product(pseudo, right), second=True),
            m.product(m.product(pseudo, x, first=True), beyond, second=True),
        ]
        to_sides.append(right)
    return [sum(to_matrix[1:], to_matrix[0]), sum(to_sides[1:], to_sides[0])]


@rule("linalg.full_rank")
def _full_rank(p: VjpCall) -> Sequence[Contribution]:
    return [p.d, None, None]
