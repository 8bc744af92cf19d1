"""Declare the operators of linear algebra, which real Relay lacks: those of LAPACK that NumPy has.

Matrices are the last two axes; the others are a batch. Each operator takes float32 and float64, and all but
those of least squares complex numbers: with ``pairs``, the pairs of floats in a last axis of size 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import cast

from nnmagic.relay import types as ty
from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import BOOL, FLOAT, INT, choice, optional
from nnmagic.relay.ops.checks import sizes
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Check, Family, Relation, RelationError, Trait
from nnmagic.relay.ops.dims import Shape, same_dim
from nnmagic.relay.ops.relations import require_same, tensor

declare = Family("linalg", Trait.HEAVY).declare

_DTYPES = ("float32", "float64")

#: LAPACK counts sizes and elements of its workspaces in 32 bits.
_MOST = 2**31 - 1


def _matrices(types: Sequence[ty.Type], index: int = 0) -> ty.TensorType:
    """Return an argument that is a matrix or a batch of them, of floats. Raises RelationError."""
    data = tensor(types, index)
    if ty.part_dtype(data.dtype) not in _DTYPES:
        raise RelationError("expected {allowed:dtype or}, found {data}", index, allowed=_DTYPES, data=data)
    if len(data.shape) < 2:
        raise RelationError("expected a matrix or a batch of them, found {data}", index, data=data)
    return data


def _square(types: Sequence[ty.Type]) -> ty.TensorType:
    """Return the first argument, which is a square matrix or a batch of them. Raises RelationError."""
    data = _matrices(types)
    rows, columns = data.shape[-2:]
    require_same(rows, columns, "the matrix must be square", 0)
    return data


def _least(lhs: ty.Dim, rhs: ty.Dim) -> ty.Dim:
    """Return the smaller of two dimensions; ``?`` if only the run knows it."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return min(lhs, rhs)
    return lhs if same_dim(lhs, rhs) else ty.ANY


def _second_of(types: Sequence[ty.Type], first: ty.TensorType) -> ty.TensorType:
    """Return the right-hand sides: matrices with as many rows and the batch of the first argument."""
    second = _matrices(types, 1)
    if second.dtype != first.dtype:
        message = "the dtypes {first:dtype} and {second:dtype} differ"
        raise RelationError(message, 0, 1, first=first.dtype, second=second.dtype)
    if len(first.shape) != len(second.shape):
        raise RelationError("{first} and {second} differ in rank", 0, 1, first=first, second=second)
    for lhs, rhs in zip(first.shape[:-1], second.shape[:-1], strict=True):
        require_same(lhs, rhs, "the matrix and the right-hand sides do not fit", 0, 1)
    return second


def _same(types: Sequence[ty.Type], _attrs: Attrs) -> ty.TensorType:
    return _square(types)


def _det(types: Sequence[ty.Type], _attrs: Attrs) -> ty.TensorType:
    data = _square(types)
    return ty.TensorType(data.shape[:-2], data.dtype)


def _slogdet(types: Sequence[ty.Type], _attrs: Attrs) -> ty.TupleType:
    data = _square(types)
    batch = data.shape[:-2]
    return ty.TupleType((ty.TensorType(batch, data.dtype), ty.TensorType(batch, ty.part_dtype(data.dtype))))


def _of_parts(data: ty.TensorType, *parts: Shape) -> ty.Type:
    """Return the type of results for each matrix of a batch, which have these shapes; vectors are real."""
    batch = data.shape[:-2]
    types = tuple(
        ty.TensorType((*batch, *shape), data.dtype if len(shape) > 1 else ty.part_dtype(data.dtype))
        for shape in parts
    )
    return types[0] if len(types) == 1 else ty.TupleType(types)


def _qr(types: Sequence[ty.Type], attrs: Attrs) -> ty.Type:
    data = _matrices(types)
    rows, columns = data.shape[-2:]
    least = _least(rows, columns)
    match attrs["mode"]:
        case "r":
            return _of_parts(data, (least, columns))
        case "complete":
            return _of_parts(data, (rows, rows), (rows, columns))
    return _of_parts(data, (rows, least), (least, columns))


def _svd(types: Sequence[ty.Type], attrs: Attrs) -> ty.Type:
    data = _matrices(types)
    rows, columns = data.shape[-2:]
    least = _least(rows, columns)
    if not attrs["compute_uv"]:
        return _of_parts(data, (least,))
    if attrs["full_matrices"]:
        return _of_parts(data, (rows, rows), (least,), (columns, columns))
    return _of_parts(data, (rows, least), (least,), (least, columns))


def _eigh(types: Sequence[ty.Type], attrs: Attrs) -> ty.Type:
    data = _square(types)
    values = data.shape[-1:]
    return _of_parts(data, values, data.shape[-2:]) if attrs["compute_v"] else _of_parts(data, values)


def _eig(types: Sequence[ty.Type], attrs: Attrs) -> ty.TupleType:
    """Return the real and imaginary parts of the eigenvalues, and those of the eigenvectors."""
    data = _square(types) if not attrs["pairs"] else _square(_complex_of(types))
    batch, dtype = data.shape[:-2], ty.part_dtype(data.dtype)
    parts = [data.shape[-1:]] * 2 + [data.shape[-2:]] * (2 if attrs["compute_v"] else 0)
    return ty.TupleType(tuple(ty.TensorType((*batch, *part), dtype) for part in parts))


def _lu(types: Sequence[ty.Type], _attrs: Attrs) -> ty.TupleType:
    data = _matrices(types)
    pivots = ty.TensorType((*data.shape[:-2], _least(*data.shape[-2:])), "int32")
    return ty.TupleType((data, pivots))


def _permutation(types: Sequence[ty.Type], attrs: Attrs) -> ty.TensorType:
    pivots = tensor(types)
    if pivots.dtype != "int32" or not pivots.shape:
        raise RelationError("expected vectors of int32, found {pivots}", 0, pivots=pivots)
    return ty.TensorType((*pivots.shape[:-1], cast(int, attrs["rows"])), "int32")


def _lstsq(types: Sequence[ty.Type], _attrs: Attrs) -> ty.TupleType:
    """Return solutions, sums of squared residuals, and the rank."""
    data = _matrices(types)
    if len(data.shape) != 2:
        raise RelationError("expected one matrix, found {data}", 0, data=data)
    other = _second_of(types, data)
    shapes = (data.shape[1], other.shape[1]), other.shape[1:]
    solution, residuals = (ty.TensorType(shape, data.dtype) for shape in shapes)
    return ty.TupleType((solution, residuals, ty.TensorType((), "int32")))


def _full_rank(types: Sequence[ty.Type], _attrs: Attrs) -> ty.TensorType:
    tensor(types, 1, rank=0)
    tensor(types, 2, rank=2)
    return tensor(types)


def _complex_of(types: Sequence[ty.Type]) -> list[ty.Type]:
    """Return the types of complex tensors that are given as pairs of floats. Raises RelationError."""

    def of(index: int) -> ty.Type:
        data = tensor(types, index)
        dtype = ty.complex_dtype(data.dtype)
        if dtype is None or data.shape[-1:] != (2,):
            message = "expected pairs of floats along the last axis, found {data}"
            raise RelationError(message, index, data=data)
        return ty.TensorType(data.shape[:-1], dtype)

    return [of(index) for index in range(len(types))]


def _or_of_pairs(relation: Relation) -> Relation:
    """Return a relation of matrices that are complex where ``pairs`` says so."""

    @wraps(relation)
    def of(types: Sequence[ty.Type], attrs: Attrs) -> ty.Type:
        if not attrs["pairs"]:
            return relation(types, attrs)
        return ty.lower_complex_type(relation(_complex_of(types), attrs))

    return of


def _fits_lapack(elements: int) -> Check:
    """Return the check that LAPACK can count its workspace.

    ``elements``: how many times the square of the smaller size it has.
    """

    def check(types: Sequence[ty.Type], attrs: Attrs) -> None:
        is_paired = bool(attrs.get("pairs"))
        (*_, rows, columns), *others = sizes(_complex_of(types) if is_paired else types)
        least, most = sorted((rows, columns))
        sides = sum(other[-1] for other in others) if elements else 0
        if is_paired and elements:
            sides += 2 * most  # the real workspace of complex singular vectors
        if least * (elements * least + sides + 512) + 80 * (most + sides) + 4096 > _MOST:
            message = f"matrices of shape ({rows}, {columns}) are larger than LAPACK's 32-bit sizes can hold"
            raise RelationError(message, 0)

    return check


_PAIRS = Attr("pairs", BOOL, default=False)


def _declare_routine(
    signature: str,
    relation: Relation,
    summary: str,
    *attrs: Attr,
    pairs: bool = True,
    twin: bool = True,
    elements: int = 0,
) -> None:
    """Declare what LAPACK computes, of complex matrices as pairs, too, and NumPy by the same name."""
    declare(
        signature,
        _or_of_pairs(relation) if pairs else relation,
        summary,
        *attrs,
        *([_PAIRS] if pairs else []),
        numpy=f"numpy.{signature.partition('(')[0]}" if twin else None,
        shape_constraints=[_fits_lapack(elements)],
    )


_declare_routine(
    "linalg.solve(a, b)",
    lambda types, _attrs: _second_of(types, _square(types)),
    "The solution x of a @ x = b, for the columns of b.",
)
_declare_routine("linalg.inv(a)", _same, "The inverse of square matrices.")
_declare_routine(
    "linalg.cholesky(a)",
    _same,
    "The Cholesky factor of Hermitian, positive definite matrices; only one triangle of them is read.",
    Attr("upper", BOOL, default=False),
)
_declare_routine("linalg.det(a)", _det, "The determinant of real matrices.", pairs=False)
_declare_routine(
    "linalg.slogdet(a)",
    _slogdet,
    "The sign of the determinant, and the logarithm of its absolute value.",
)
_declare_routine(
    "linalg.qr(a)",
    _qr,
    "The QR decomposition: orthonormal columns and an upper triangle, or the triangle alone.",
    Attr("mode", choice("reduced", "complete", "r"), "reduced"),
)
_declare_routine(
    "linalg.svd(a)",
    _svd,
    "The singular value decomposition (u, s, vh), or the singular values alone.",
    Attr("full_matrices", BOOL, default=True),
    Attr("compute_uv", BOOL, default=True),
    elements=4,
)
_declare_routine(
    "linalg.eigh(a)",
    _eigh,
    "The eigenvalues of Hermitian matrices in ascending order, and their eigenvectors as columns.",
    Attr("UPLO", choice("L", "U"), "L"),
    Attr("compute_v", BOOL, default=True),
    elements=2,
)
declare(
    "linalg.eig(a)",
    _eig,
    "The eigenvalues of square matrices, and their eigenvectors as columns: real and imaginary parts.",
    Attr("compute_v", BOOL, default=True),
    _PAIRS,
    shape_constraints=[_fits_lapack(1)],
)
_declare_routine(
    "linalg.lu(a)",
    _lu,
    "Both factors of P @ L @ U in one matrix, and the rows, from 1 on, that are swapped one after the other.",
    twin=False,
)
Family("linalg").declare(
    "linalg.permutation(pivots)",
    _permutation,
    "The order of rows after swaps of each of the first rows with that of a number, from 1 on.",
    Attr("rows", INT, 0, call_default=REQUIRED),
    traits=Trait.SPECULATABLE,
)
_declare_routine(
    "linalg.lstsq(a, b)",
    _lstsq,
    "The least-squares solution of a @ x = b, squared residuals, the rank of a.",
    Attr("rcond", optional(FLOAT), None),
    pairs=False,
    elements=1,
)
declare(
    "linalg.full_rank(data, rank, a)",
    _full_rank,
    "The data, if there are none or a has more rows than columns and full column rank; otherwise an error.",
)
