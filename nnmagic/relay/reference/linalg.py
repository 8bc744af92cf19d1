"""Say what the operators of linear algebra compute, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnmagic.relay.complex_numbers.pairs import complex_of, pairs_of
from nnmagic.relay.reference.eval_call import Array, EvalCall, Rule, plain


def _or_of_pairs(rule: Rule) -> Rule:
    """Return a rule that computes with complex numbers where the operands are pairs of floats."""

    def of(call: EvalCall, *operands: Array) -> Any:
        if not call["pairs"]:
            return rule(call, *operands)
        result = rule(call, *(complex_of(np.ascontiguousarray(operand)) for operand in operands))
        return tuple(map(_as_pairs, result)) if isinstance(result, tuple) else _as_pairs(result)

    return of


def _as_pairs(matrix: Array) -> Array:
    return pairs_of(np.array(matrix, order="C")) if np.iscomplexobj(matrix) else matrix


def _cholesky(call: EvalCall, a: Array) -> Any:
    if call["upper"]:
        return np.linalg.cholesky(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    return np.linalg.cholesky(a)


def _finite(message: str, *operands: Array) -> None:
    """Raise LinAlgError for operands of which LAPACK may look for singular values forever."""
    if not all(np.isfinite(operand).all() for operand in operands):
        raise np.linalg.LinAlgError(message)


def _svd(call: EvalCall, a: Array) -> Any:
    _finite("SVD did not converge", a)
    result = np.linalg.svd(a, full_matrices=call["full_matrices"], compute_uv=call["compute_uv"])
    return tuple(result) if call["compute_uv"] else result


def _eigh(call: EvalCall, a: Array) -> Any:
    if call["compute_v"]:
        return tuple(np.linalg.eigh(a, call["UPLO"]))
    return np.linalg.eigvalsh(a, call["UPLO"])


def _eig(call: EvalCall, a: Array) -> Any:
    """Return the real and imaginary parts of the eigenvalues, and those of the eigenvectors."""
    matrices = complex_of(np.ascontiguousarray(a)) if call["pairs"] else a
    _finite("Eigenvalues did not converge", matrices)
    eigen = np.linalg.eig(matrices) if call["compute_v"] else (np.linalg.eigvals(matrices),)
    return tuple(part.astype(a.dtype) for matrix in eigen for part in (matrix.real, matrix.imag))


def _qr(call: EvalCall, a: Array) -> Any:
    result = np.linalg.qr(a, mode=call["mode"])
    return result if call["mode"] == "r" else tuple(result)


def _lu(_call: EvalCall, a: Array) -> Any:
    """Eliminate column by column; of a row's candidates LAPACK takes the largest by its parts."""
    factors = np.array(a, np.result_type(a, np.float64))
    rows, columns = a.shape[-2:]
    pivots = np.zeros((*a.shape[:-2], min(rows, columns)), np.int32)
    for at in np.ndindex(a.shape[:-2]):
        matrix = factors[at]
        for k in range(min(rows, columns)):
            size = np.abs(matrix[k:, k].real) + np.abs(matrix[k:, k].imag)
            pivot = k + int(size.argmax())
            pivots[at][k] = pivot + 1
            matrix[[k, pivot]] = matrix[[pivot, k]]
            if matrix[k, k] != 0:
                matrix[k + 1 :, k] /= matrix[k, k]
            matrix[k + 1 :, k + 1 :] -= np.outer(matrix[k + 1 :, k], matrix[k, k + 1 :])
    return factors.astype(a.dtype), pivots


def _permutation(call: EvalCall, pivots: Array) -> Any:
    rows = call["rows"]
    order = np.tile(np.arange(rows, dtype=np.int32), (*pivots.shape[:-1], 1))
    for at in np.ndindex(pivots.shape[:-1]):
        for k, pivot in enumerate(pivots[at][:rows]):
            if 1 <= pivot <= rows:
                order[at][[k, pivot - 1]] = order[at][[pivot - 1, k]]
    return order


def _lstsq(call: EvalCall, a: Array, b: Array) -> Any:
    """Return solutions, sums of squared residuals, and the rank."""
    _finite("SVD did not converge in Linear Least Squares", a, b)
    solution, _, rank, _ = np.linalg.lstsq(a, b, rcond=call["rcond"])
    residual = b - a @ solution
    return solution, (residual * residual).sum(axis=0), np.int32(rank)


def _full_rank(_given: EvalCall, data: Array, rank: Array, a: Array) -> Any:
    rows, columns = a.shape
    if data.size and not (int(rank) == columns and rows > columns):
        message = "lstsq has no residuals unless the matrix has more rows than columns, and full rank"
        raise np.linalg.LinAlgError(f"linalg.full_rank: {message}")
    return data


RULES: dict[str, Rule] = {
    "linalg.solve": _or_of_pairs(plain(np.linalg.solve)),
    "linalg.inv": _or_of_pairs(plain(np.linalg.inv)),
    "linalg.cholesky": _or_of_pairs(_cholesky),
    "linalg.det": plain(np.linalg.det),
    "linalg.slogdet": _or_of_pairs(plain(lambda a: tuple(np.linalg.slogdet(a)))),
    "linalg.svd": _or_of_pairs(_svd),
    "linalg.eigh": _or_of_pairs(_eigh),
    "linalg.eig": _eig,
    "linalg.qr": _or_of_pairs(_qr),
    "linalg.lu": _or_of_pairs(_lu),
    "linalg.permutation": _permutation,
    "linalg.lstsq": _lstsq,
    "linalg.full_rank": _full_rank,
}
