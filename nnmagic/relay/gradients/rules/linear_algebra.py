"""Differentiate the operators of linear algebra (Giles 2008, Collected matrix derivative results)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnmagic.relay.expr import If
from nnmagic.relay.gradients.registry import Rule, refuse, rule
from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall, same_dim
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import TupleType


def _rule(name: str) -> Callable[[Rule], Rule]:
    """Declare the rule of an operator for real matrices."""

    def enter(function: Rule) -> Rule:
        @rule(name)
        def of(p: VjpCall) -> Sequence[Contribution]:
            if p.attrs["pairs"]:
                raise p.unsupported("only real matrices have a rule")
            return function(p)

        return function

    return enter


refuse("its rank may change: solve the normal equations instead", "linalg.lstsq", "linalg.full_rank")
refuse("those of symmetric matrices have one: write eigh", "linalg.eig")
refuse("the solution of a system has one: write solve", "linalg.lu", "linalg.permutation")


def _product(
    lhs: TensorExpr, rhs: TensorExpr, rank: int, *, first: bool = False, second: bool = False
) -> TensorExpr:
    """Multiply matrices, or batches of them; ``first`` and ``second`` transpose."""
    if rank == 2:
        return lhs.op("nn.matmul", rhs, transpose_a=first, transpose_b=second)
    if rank == 3:
        return lhs.op("nn.batch_matmul", rhs, transpose_a=first, transpose_b=second)
    letters = "ABCDEFGH"[: rank - 2]
    one, two = "ji" if first else "ij", "kj" if second else "jk"
    pair = lhs.pair(rhs)
    return pair.op("einsum", equation=f"{letters}{one},{letters}{two}->{letters}ik")


def _transpose(term: TensorExpr, rank: int) -> TensorExpr:
    return term.transpose([*range(rank - 2), rank - 1, rank - 2])


def _column(term: TensorExpr, rank: int) -> TensorExpr:
    return term.op("expand_dims", axis=rank - 1)


def _row(term: TensorExpr, rank: int) -> TensorExpr:
    return term.op("expand_dims", axis=rank - 2)


def unit_matrix(p: VjpCall, like: TensorExpr) -> TensorExpr:
    """Return ones where the row is the column, zeros elsewhere, in the shape of a term."""
    ones = like.op("ones_like")
    lower = ones.op("trilu", p.array(0, "int32"), upper=False)
    return lower * ones.op("trilu", p.array(0, "int32"), upper=True)


def _lower(p: VjpCall, term: TensorExpr) -> TensorExpr:
    return term.op("trilu", p.array(0, "int32"), upper=False)


@_rule("linalg.solve")
def _solve(p: VjpCall) -> Sequence[Contribution]:
    rank = p.rank()
    right = _transpose(p.x(0), rank).op("linalg.solve", p.d)
    return [-_product(right, p.y, rank, second=True) if p.wanted[0] else None, right]


@_rule("linalg.inv")
def _inv(p: VjpCall) -> Sequence[Contribution]:
    rank = p.rank()
    inner = _product(p.y, p.d, rank, first=True)
    return [-_product(inner, p.y, rank, second=True)]


@_rule("linalg.slogdet")
def _slogdet(p: VjpCall) -> Sequence[Contribution]:
    d = p.d_part(1)
    if d is None:
        return [None]
    rank = p.rank()
    grown = d.op("expand_dims", axis=rank - 2, num_newaxis=2)
    return [grown * _transpose(p.x().op("linalg.inv"), rank)]


@rule("linalg.det")
def _det(p: VjpCall) -> Sequence[Contribution]:
    """Return the cotangent of the determinants times their cofactors.

    Those of at most three rows are products of entries. Of others they are the determinant times the inverse,
    or, of (almost) singular matrices, made of their singular values: U diag(products of the others) V^T.
    """
    rank, x = p.rank(), p.x()
    size = p.shape(0)[-1]
    d, y = (tensor.op("expand_dims", axis=rank - 2, num_newaxis=2) for tensor in (p.d, p.y))
    if isinstance(size, int) and size <= _MOST_MINORS:
        return [d * _cofactors(p, x, int(size))]
    eye, singular = unit_matrix(p, x), y.equal(0)
    inverse = singular.choose(eye, x).op("linalg.inv")
    largest = (
        tensor.op("abs").op("max", axis=[rank - 2, rank - 1], keepdims=True) for tensor in (x, inverse)
    )
    singular = singular.op("logical_or", next(largest) * next(largest) > _ILL_CONDITIONED)
    regular = d * y * _transpose(inverse, rank)
    # The singular values of regular matrices are not used; they differ, so that they have derivatives.
    different = eye * x.op("ones_like").op("cumsum", axis=rank - 1)
    parts = singular.choose(x, different).op("linalg.svd", full_matrices=False, compute_uv=True)
    u, s, vt = (parts.item(index, x.dtype) for index in range(3))
    sign = [tensor.op("linalg.slogdet").item(0, x.dtype) for tensor in (u, vt)]
    before, after = s, s.op("reverse", axis=rank - 2)
    before, after = (tensor.op("cumprod", axis=rank - 2, exclusive=True) for tensor in (before, after))
    others = before * after.op("reverse", axis=rank - 2)
    turned = (sign[0] * sign[1]).op("expand_dims", axis=rank - 2, num_newaxis=2)
    adjugate = d * turned * _product(u * _row(others, rank), vt, rank)
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


@_rule("linalg.cholesky")
def _cholesky(p: VjpCall) -> Sequence[Contribution]:
    """Return the symmetric part of L^-T phi(L^T d) L^-1; phi halves the diagonal of the lower part."""
    rank = p.rank()
    factor, d = (p.y, p.d) if not p.attrs["upper"] else (_transpose(p.y, rank), _transpose(p.d, rank))
    product = _lower(p, _product(factor, _lower(p, d), rank, first=True))
    halved = product - product * unit_matrix(p, product) * 0.5
    left = _transpose(factor, rank).op("linalg.solve", halved)
    # X = left L^-1: solve L^T X^T = left^T
    both = _transpose(_transpose(factor, rank).op("linalg.solve", _transpose(left, rank)), rank)
    return [(both + _transpose(both, rank)) * 0.5]


@_rule("linalg.eigh")
def _eigh(p: VjpCall) -> Sequence[Contribution]:
    """Return V (diag(dw) + F * (V^T dV)) V^T, symmetric, with F = 1 / (w_j - w_i) off the diagonal."""
    rank = p.rank()
    if not isinstance(p.out_type, TupleType):
        values = p.x().op("linalg.eigh", UPLO=p.attrs["UPLO"], compute_v=True)
        vectors = values.item(1, p.tensor(0).dtype)
        return [_product(vectors * _row(p.d, rank), vectors, rank, second=True)]
    w, v = p.part(0), p.part(1)
    dw, dv = p.d_part(0), p.d_part(1)
    inner: TensorExpr | None = None
    if dw is not None:
        inner = unit_matrix(p, v) * _row(dw, rank)
    if dv is not None:
        gap = _row(w, rank) - _column(w, rank)
        eye = unit_matrix(p, v)
        scaled = _product(v, dv, rank, first=True) / (gap + eye)
        scaled = scaled - scaled * eye
        inner = scaled if inner is None else inner + scaled
    if inner is None:
        return [None]
    full = _product(_product(v, inner, rank), v, rank, second=True)
    return [(full + _transpose(full, rank)) * 0.5]


@_rule("linalg.qr")
def _qr(p: VjpCall) -> Sequence[Contribution]:
    """Return (dQ + Q copyltu(M)) R^-T with M = R dR^T - dQ^T Q (Walter and Lehmann 2018)."""
    rank = p.rank()
    rows, columns = p.shape(0)[-2:]
    if p.attrs["mode"] != "reduced" or not isinstance(rows, int) or not isinstance(columns, int):
        raise p.unsupported("only the mode 'reduced' of known sizes has a rule")
    if rows < columns:
        raise p.unsupported("the matrix must have at least as many rows as columns")
    q, r = p.part(0), p.part(1)
    dq, dr = p.d_part(0), p.d_part(1)
    inner: TensorExpr | None = None
    if dr is not None:
        inner = _product(r, dr, rank, second=True)
    if dq is not None:
        other = _product(dq, q, rank, first=True)
        inner = -other if inner is None else inner - other
    if inner is None:
        return [None]
    low = _lower(p, inner)
    mirrored = low + _transpose(low - low * unit_matrix(p, low), rank)
    total = _product(q, mirrored, rank)
    total = total if dq is None else total + dq
    return [_transpose(r.op("linalg.solve", _transpose(total, rank)), rank)]


@_rule("linalg.svd")
def _svd(p: VjpCall) -> Sequence[Contribution]:
    """Return U (diag(ds) + ...) V^T (Townsend 2016); the values alone need no differences of them."""
    rank = p.rank()
    if not isinstance(p.out_type, TupleType):
        whole = p.x().op("linalg.svd", full_matrices=False, compute_uv=True)
        u, vt = (whole.item(index, p.tensor(0).dtype) for index in (0, 2))
        return [_product(u * _row(p.d, rank), vt, rank)]
    rows, columns = p.shape(0)[-2:]
    if p.attrs["full_matrices"] and rows != columns:
        raise p.unsupported("full_matrices must be False")
    u, s, vt = (p.part(index) for index in range(3))
    du, ds, dvt = (p.d_part(index) for index in range(3))
    return [_svd_of_parts(p, rank, (u, s, vt), (du, ds, dvt))]


def _spans(p: VjpCall, *, rows: bool) -> bool:
    """Return whether the singular vectors certainly span the space of the columns, or of the rows.

    Then nothing changes beyond it, where a singular value of 0 would divide rounding errors.
    """
    size, other = p.shape(0)[-2:] if rows else p.shape(0)[-2:][::-1]
    return same_dim(size, other) or (isinstance(size, int) and isinstance(other, int) and size <= other)


def _svd_of_parts(
    p: VjpCall,
    rank: int,
    parts: tuple[TensorExpr, TensorExpr, TensorExpr],
    grads: tuple[TensorExpr | None, TensorExpr | None, TensorExpr | None],
) -> TensorExpr | None:
    (u, s, vt), (du, ds, dvt) = parts, grads
    square = _product(u, u, rank, first=True)
    eye = unit_matrix(p, square)
    squares = s * s
    factor = 1 / (_row(squares, rank) - _column(squares, rank) + eye)
    factor = factor - factor * eye
    total: TensorExpr | None = None
    if ds is not None:
        total = _product(u * _row(ds, rank), vt, rank)
    if du is not None:
        both = _product(u, du, rank, first=True)
        inner = factor * (both - _transpose(both, rank))
        term = _product(_product(u, inner * _row(s, rank), rank), vt, rank)
        if not _spans(p, rows=True):
            residual = du - _product(u, both, rank)
            term = term + _product(residual / _row(s, rank), vt, rank)
        total = term if total is None else total + term
    if dvt is not None:
        both = _product(vt, dvt, rank, second=True)
        inner = factor * (both - _transpose(both, rank))
        term = _product(_product(u * _row(s, rank), inner, rank), vt, rank)
        if not _spans(p, rows=False):
            residual = dvt - _product(_transpose(both, rank), vt, rank)
            term = term + _product(u / _row(s, rank), residual, rank)
        total = term if total is None else total + term
    return total
