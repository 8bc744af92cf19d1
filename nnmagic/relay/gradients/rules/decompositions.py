"""Differentiate decompositions of matrices (Giles 2008, Collected matrix derivative results).

Rules of complex matrices, which are pairs of floats, have the conjugate transposes of those of real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnmagic.relay.gradients.registry import rule
from nnmagic.relay.gradients.rules.matrices import Matrices, matrices, matrix_rule
from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall, same_dim
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import TupleType


@matrix_rule("linalg.cholesky")
def _cholesky(p: VjpCall, m: Matrices) -> Sequence[Contribution]:
    """Return the symmetric part of L^-T phi(L^T d) L^-1; phi halves the diagonal of the lower part."""
    factor, d = (p.y, p.d) if not p.attrs["upper"] else (m.adjoint(p.y), m.adjoint(p.d))
    product = m.lower(m.product(factor, m.lower(d), first=True))
    halved = product - product * m.unit(product) * 0.5
    left = m.solve(m.adjoint(factor), halved)
    # X = left L^-1: solve L^T X^T = left^T
    both = m.adjoint(m.solve(m.adjoint(factor), m.adjoint(left)))
    # The factorization reads a symmetric matrix, whose gradient is symmetric whichever triangle is
    # read.
    return [(both + m.adjoint(both)) * 0.5]


@matrix_rule("linalg.eigh")
def _eigh(p: VjpCall, m: Matrices) -> Sequence[Contribution]:
    """Return V (diag(dw) + F * (V^T dV)) V^T, symmetric, with F = 1 / (w_j - w_i) off the diagonal."""
    if not isinstance(p.out_type, TupleType):
        values = p.x().op("linalg.eigh", UPLO=p.attrs["UPLO"], compute_v=True, pairs=m.pairs)
        vectors = values.item(1, p.tensor(0).dtype)
        return [m.product(vectors * m.row(p.d), vectors, second=True)]
    w, v = p.part(0), p.part(1)
    dw, dv = p.d_part(0), p.d_part(1)
    inner: TensorExpr | None = None
    if dw is not None:
        inner = m.diagonal(dw, v)
    if dv is not None:
        eye = m.unit(v)
        scaled = m.product(v, dv, first=True) / (m.row(w) - m.column(w) + eye)
        # The diagonal was divided by 1 instead of by 0, and is dropped here.
        scaled = scaled - scaled * eye
        inner = scaled if inner is None else inner + scaled
    if inner is None:
        return [None]
    full = m.product(m.product(v, inner), v, second=True)
    return [(full + m.adjoint(full)) * 0.5]


@rule("linalg.eig")
def _eig(p: VjpCall) -> Sequence[Contribution]:
    """Return V^-H (diag(dw) + F * (V^H dV - V^H V diag(Re V^H dV))) V^H, with F = 1 / conj(w_j - w_i).

    The vectors have the length 1. Parts of complex numbers are results of their own.
    """
    cotangents = [p.d_part(index) for index in range(4 if p.attrs["compute_v"] else 2)]
    if all(cotangent is None for cotangent in cotangents):
        return [None]
    whole = p.x().op("linalg.eig", compute_v=True, pairs=p.attrs["pairs"])
    parts = [whole.item(index, p.tensor(0).dtype) for index in range(4)]
    if p.attrs["compute_v"]:
        parts = [p.part(index) for index in range(4)]
    matrices_ = matrices(p)
    m = replace(matrices_, pairs=True)
    d = [
        part.zeros() if cotangent is None else cotangent
        for cotangent, part in zip(cotangents, parts, strict=False)
    ]
    w, v, dw = m.join(*parts[:2]), m.join(*parts[2:]), m.join(*d[:2])
    eye = m.unit(v)
    inner = eye * dw.op("expand_dims", axis=m.rank - 2)
    if any(cotangent is not None for cotangent in cotangents[2:]):
        inner = inner + _turned(m, w, v, m.join(*d[2:])) * (1 - eye)
    adjoint = m.adjoint(v)
    full = m.solve(adjoint, m.product(inner, adjoint))
    return [full if matrices_.pairs else m.parts(full)[0]]


def _turned(m: Matrices, w: TensorExpr, v: TensorExpr, dv: TensorExpr) -> TensorExpr:
    """Return what the vectors of eigenvalues add, but for its diagonal."""
    eye = m.unit(v)
    inner = m.product(v, dv, first=True)
    lengths = (inner * eye).op("sum", axis=[m.rank - 2])
    inner = inner - m.product(v, v, first=True) * m.row(m.parts(lengths)[0])
    gap = w.op("expand_dims", axis=m.rank - 2) - w.op("expand_dims", axis=m.rank - 1)
    (a, b), (c, d) = m.parts(inner), m.parts(gap)
    c = c + m.parts(eye + gap * 0)[0]
    square = c * c + d * d
    return m.join((a * c - b * d) / square, (a * d + b * c) / square)


@matrix_rule("linalg.qr")
def _qr(p: VjpCall, m: Matrices) -> Sequence[Contribution]:
    """Return (dQ + Q copyltu(M)) R^-T with M = R dR^T - dQ^T Q (Walter and Lehmann 2018).

    Of a wide matrix (X Y), where R is (U V) and V = Q^T Y, the columns Y are Q V.
    """
    rows, columns = p.shape(0)[m.rank - 2 : m.rank]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise p.unsupported("only matrices of known sizes have a rule")
    if p.attrs["mode"] == "r":
        whole = p.x().op("linalg.qr", mode="reduced", pairs=m.pairs)
        q, r, dq, dr = whole.item(0, p.tensor(0).dtype), p.y, None, p.cotangents
        assert isinstance(dr, TensorExpr)
    else:
        q, r, dq, dr = p.part(0), p.part(1), p.d_part(0), p.d_part(1)
    if rows > columns and p.attrs["mode"] == "complete":
        if dq is not None:
            raise p.unsupported("the columns of a complete Q that R does not use are not unique", _REDUCED)
        q, r = m.columns(q, 0, columns), m.rows(r, 0, columns)
        dr = None if dr is None else m.rows(dr, 0, columns)
    if dr is None and dq is None:
        return [None]
    if rows >= columns:
        return [_qr_of_tall(m, q, r, dq, dr)]
    u, du = (None if matrix is None else m.columns(matrix, 0, rows) for matrix in (r, dr))
    right = p.x().zeros() if dr is None else m.product(q, dr)
    right = m.columns(right, rows, columns)
    if dr is not None:
        more = m.product(m.columns(p.x(), rows, columns), m.columns(dr, rows, columns), second=True)
        dq = more if dq is None else dq + more
    assert u is not None
    left = _qr_of_tall(m, q, u, dq, du)
    return [left.pair(right).op("concatenate", axis=m.rank - 1)]


#: What to write instead of matrices that are not unique.
_REDUCED = "leave the vectors out that belong to no column, as with mode='reduced' or full_matrices=False"


def _qr_of_tall(
    m: Matrices, q: TensorExpr, r: TensorExpr, dq: TensorExpr | None, dr: TensorExpr | None
) -> TensorExpr:
    inner: TensorExpr | None = None
    if dr is not None:
        inner = m.product(r, dr, second=True)
    if dq is not None:
        other = m.product(dq, q, first=True)
        inner = -other if inner is None else inner - other
    assert inner is not None
    low = m.lower(inner)
    mirrored = low + m.adjoint(low - low * m.unit(low))
    if m.pairs:  # the diagonal is real
        mirrored = (mirrored + m.adjoint(mirrored)) * 0.5
    total = m.product(q, mirrored)
    total = total if dq is None else total + dq
    return m.adjoint(m.solve(r, m.adjoint(total)))


@matrix_rule("linalg.svd")
def _svd(p: VjpCall, m: Matrices) -> Sequence[Contribution]:
    """Return U (diag(ds) + ...) V^T (Townsend 2016); the values alone need no differences of them."""
    if not isinstance(p.out_type, TupleType):
        whole = p.x().op("linalg.svd", full_matrices=False, compute_uv=True, pairs=m.pairs)
        u, vt = (whole.item(index, p.tensor(0).dtype) for index in (0, 2))
        return [m.product(u * m.row(p.d), vt)]
    rows, columns = p.shape(0)[m.rank - 2 : m.rank]
    u, s, vt = (p.part(index) for index in range(3))
    du, ds, dvt = (p.d_part(index) for index in range(3))
    if p.attrs["full_matrices"] and rows != columns:
        if du is not None or dvt is not None or not isinstance(rows, int) or not isinstance(columns, int):
            raise p.unsupported("vectors that belong to no singular value are not unique", _REDUCED)
        least = min(rows, columns)
        u, vt = m.columns(u, 0, least), m.rows(vt, 0, least)
    return [_svd_of_parts(m, (u, s, vt), (du, ds, dvt))]


def _spans(m: Matrices, *, rows: bool) -> bool:
    """Return whether the singular vectors certainly span the space of the columns, or of the rows.

    Then nothing changes beyond it, where a singular value of 0 would divide rounding errors.
    """
    sizes = m.p.shape(0)[m.rank - 2 : m.rank]
    size, other = sizes if rows else sizes[::-1]
    return same_dim(size, other) or (isinstance(size, int) and isinstance(other, int) and size <= other)


def _svd_of_parts(
    m: Matrices,
    parts: tuple[TensorExpr, TensorExpr, TensorExpr],
    grads: tuple[TensorExpr | None, TensorExpr | None, TensorExpr | None],
) -> TensorExpr | None:
    (u, s, vt), (du, ds, dvt) = parts, grads
    square = m.product(u, u, first=True)
    eye = m.unit(square)
    squares = s * s
    factor = 1 / (m.row(squares) - m.column(squares) + eye)
    factor = factor - factor * eye
    terms = list[TensorExpr]()
    if ds is not None:
        terms.append(m.product(u * m.row(ds), vt))
    if du is not None:
        both = m.product(u, du, first=True)
        inner = factor * (both - m.adjoint(both)) * m.row(s)
        if m.pairs:  # the phases of the vectors
            inner = inner + (both - m.adjoint(both)) * eye / m.row(s) * 0.5
        terms.append(m.product(m.product(u, inner), vt))
        if not _spans(m, rows=True):
            terms.append(m.product((du - m.product(u, both)) / m.row(s), vt))
    if dvt is not None:
        both = m.product(vt, dvt, second=True)
        inner = factor * (both - m.adjoint(both))
        terms.append(m.product(m.product(u * m.row(s), inner), vt))
        if not _spans(m, rows=False):
            residual = dvt - m.product(m.adjoint(both), vt)
            terms.append(m.product(u / m.row(s), residual))
    return sum(terms[1:], terms[0]) if terms else None
