"""Import linear algebra: solutions, inverses and factorizations of matrices.

What they compute: https://docs.pytorch.org/docs/stable/linalg.html
"""

from __future__ import annotations

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.operators.products import matmul
from nnmagic.importers.onnx.values import Value, constant, op, ops
from nnmagic.importers.torch.calls import AtenCall, scalar_constant
from nnmagic.importers.torch.operators.complex_numbers import conjugate
from nnmagic.importers.torch.registry import operator, operators
from nnmagic.relay import expr as ir
from nnmagic.relay.ops.dims import broadcast_shapes
from nnmagic.relay.types import Dim, is_complex


def _info(call: AtenCall, batch: tuple[Dim, ...]) -> Value:
    return call.full(batch, scalar_constant(0, "int32"))


@operator("linalg_inv_ex")
def _inv(call: AtenCall) -> list[Value]:
    data = call["A"]
    return [op("linalg.inv", data), _info(call, data.shape[:-2])]


@operator("cholesky")
def _cholesky(call: AtenCall) -> Value:
    """Refuse NaN, which torch takes for a matrix that is not positive definite, and some LAPACKs do not."""
    factor = op("linalg.cholesky", call["self"], upper=call.flag("upper"))
    is_number = op("all", factor.equal(factor))
    call.block.check(is_number, f"{call.name}: Matrix is not positive definite")
    return factor


def _det(matrices: Value) -> Value:
    if not is_complex(matrices.dtype):
        return op("linalg.det", matrices)
    sign, size = ops("linalg.slogdet", matrices)
    return sign * op("exp", size).cast(matrices.dtype)


@operator("_linalg_slogdet")
def _slogdet(call: AtenCall) -> list[Value]:
    return [*ops("linalg.slogdet", call["A"]), *_factors(call, call["A"], of_transpose=True)]


def _factors(call: AtenCall, matrices: Value, *, of_transpose: bool) -> list[Value]:
    """Return what stands for factors and pivots, which only the gradient takes: the matrices themselves.

    As in torch, the factors of determinants are those of the transposes of contiguous real matrices.
    """
    if of_transpose and call.originals["A"].is_contiguous() and not is_complex(matrices.dtype):
        matrices = _transpose(matrices)
    return [matrices, call.full(matrices.shape[:-1], scalar_constant(0, "int32"))]


@operator("_linalg_solve_ex")
def _solve(call: AtenCall) -> list[Value]:
    matrix = call["A"]
    return [
        _solution(call, matrix),
        *_factors(call, matrix, of_transpose=False),
        _info(call, matrix.shape[:-2]),
    ]


@operator("linalg_lu_factor_ex")
def _lu_factor(call: AtenCall) -> list[Value]:
    if not call.flag("pivot", default=True):
        raise UnsupportedError("a decomposition without pivots is not supported")
    factors, pivots = _decompose(call["A"])
    least = pivots.shape[-1]
    if least == 0:
        return [factors, pivots, _info(call, factors.shape[:-2])]
    rows, columns = (shapes.counting(pivots, pivots.rank - 1) for _ in range(2))
    taken = op("take", factors, rows, axis=factors.rank - 2, mode="clip")
    taken = op("take", taken, columns, axis=factors.rank - 1, mode="clip")
    on_diagonal = shapes.unsqueeze(rows, [1]).equal(columns)
    zero = op("any", op("logical_and", taken.equal(0), on_diagonal), axis=(taken.rank - 1,))
    first = op("argmax", zero.cast("int32"), axis=(zero.rank - 1,)).cast("int32") + 1
    return [factors, pivots, op("any", zero, axis=(zero.rank - 1,)).choose(first, 0)]


def _decompose(matrices: Value) -> list[Value]:
    """Return both factors in one matrix, and the rows that are swapped."""
    if not is_complex(matrices.dtype):
        return ops("linalg.lu", matrices)
    factors, pivots = ops("linalg.lu", op("complex.pairs", matrices), pairs=True)
    return [op("complex.of_pairs", factors), pivots]


@operator("linalg_lu")
def _lu(call: AtenCall) -> list[Value]:
    if not call.flag("pivot", default=True):
        raise UnsupportedError("a decomposition without pivots is not supported")
    return _unpack(call, *_decompose(call["A"]))


@operator("lu_unpack")
def _lu_unpack(call: AtenCall) -> list[Value]:
    swaps, *triangles = _unpack(call, call["LU_data"], call["LU_pivots"])
    if not call.flag("unpack_pivots", default=True):
        swaps = _none(call, call["LU_data"])
    if not call.flag("unpack_data", default=True):
        triangles = [_none(call, call["LU_data"])] * 2
    return [swaps, *triangles]


def _unpack(call: AtenCall, factors: Value, pivots: Value) -> list[Value]:
    """Return a matrix of the swaps, a lower triangle with ones on its diagonal, and an upper one."""
    rows, columns = call.static(factors)[-2:]
    least, axis = min(rows, columns), factors.rank
    if pivots.shape[-1] != 0:
        is_row = op("all", op("logical_and", pivots >= 1, pivots <= rows))
        call.block.check(is_row, f"{call.name}: a pivot is no row of the matrix")
    order = shapes.unsqueeze(op("linalg.permutation", pivots, rows=rows), [axis - 2])
    places = shapes.unsqueeze(constant(np.arange(rows, dtype="int32")), [1])
    lower = _triangle(shapes.slice_axis(factors, axis - 1, 0, least), upper=False, unit=True)
    upper = op("trilu", shapes.slice_axis(factors, axis - 2, 0, least), constant(0, "int32"), upper=True)
    return [order.equal(places).cast(factors.dtype), lower, upper]


@operator("linalg_lu_solve")
def _lu_solve(call: AtenCall) -> Value:
    """Solve with the product of the factors, or with what the forward rules keep: the matrices, pivots 0."""
    factors, pivots = call["LU"], call["pivots"]
    matrices = factors
    if 0 not in pivots.shape:
        is_kept = op("all", pivots.equal(0))
        swaps, lower, upper = _unpack(call, factors, is_kept.choose(1, pivots))
        product = matmul(swaps, matmul(lower, upper))
        matrices = Value(ir.If(is_kept.expr, factors.expr, product.expr), factors.type)
    return _solution(call, _adjoint(matrices) if call.flag("adjoint") else matrices)


def _solution(call: AtenCall, lhs: Value) -> Value:
    rhs = call["B"]
    vector = call.own_name == "_linalg_solve_ex" and (rhs.rank == 1 or rhs.shape == lhs.shape[:-1])
    rhs = shapes.unsqueeze(rhs, [rhs.rank]) if vector else rhs
    lhs, rhs = _in_one_batch(call, lhs, rhs)
    solution = _solve_for(lhs, rhs, from_left=vector or call.flag("left", default=True))
    return shapes.squeeze(solution, [solution.rank - 1]) if vector else solution


@operator("higher_order.with_effects", note="of the checks of `torch.linalg`")
def _with_effects(call: AtenCall) -> list[Value]:
    """Import the check after a factorization: calls of singular matrices fail without it."""
    token, target, *_ = call.arguments["args"]
    name = str(getattr(target, "overloadpacket", target))
    if name != "aten._linalg_check_errors":
        raise UnsupportedError(f"the effect of {name} is not supported", "capture the program without it")
    return [token]


def _transpose(matrices: Value) -> Value:
    rank = matrices.rank
    return shapes.transpose(matrices, [*range(rank - 2), rank - 1, rank - 2])


def _adjoint(matrices: Value) -> Value:
    return _transpose(conjugate(matrices))


def _solve_for(matrices: Value, right: Value, *, from_left: bool = True) -> Value:
    """Return X with matrices @ X = right, or X @ matrices = right."""
    if from_left:
        return op("linalg.solve", matrices, right)
    return _transpose(op("linalg.solve", _transpose(matrices), _transpose(right)))


def _triangle(matrices: Value, *, upper: bool, unit: bool = False) -> Value:
    """Return triangular matrices; what is on the other side, and a diagonal of ones, is not read."""
    result = op("trilu", matrices, constant(1 if unit and upper else -1 if unit else 0, "int32"), upper=upper)
    if not unit:
        return result
    rows = shapes.unsqueeze(shapes.counting(matrices, matrices.rank - 2), [1])
    return result + rows.equal(shapes.counting(matrices, matrices.rank - 1)).cast(result.dtype)


def _in_one_batch(call: AtenCall, matrices: Value, right: Value) -> list[Value]:
    """Broadcast the batches of matrices and of right-hand sides."""
    batch = broadcast_shapes(matrices.shape[:-2], right.shape[:-2])
    if batch is None:
        raise UnsupportedError("the batches of matrices and of right-hand sides do not broadcast together")
    return [call.expand(each, (*batch, *each.shape[-2:])) for each in (matrices, right)]


@operator("linalg_solve_triangular")
def _solve_triangular(call: AtenCall) -> Value:
    lhs, rhs = _in_one_batch(call, call["self"], call["B"])
    matrices = _triangle(lhs, upper=call.flag("upper"), unit=call.flag("unitriangular"))
    return _solve_for(matrices, rhs, from_left=call.flag("left", default=True))


@operator("triangular_solve")
def _triangular_solve(call: AtenCall) -> list[Value]:
    lhs, rhs = _in_one_batch(call, call["A"], call["self"])
    matrices = _triangle(lhs, upper=call.flag("upper", default=True), unit=call.flag("unitriangular"))
    return [_solve_for(_transpose(matrices) if call.flag("transpose") else matrices, rhs), lhs]


@operator("cholesky_solve")
def _cholesky_solve(call: AtenCall) -> Value:
    lhs, rhs = _in_one_batch(call, call["input2"], call["self"])
    lower = _lower_factor(call, lhs)
    return _solve_for(_adjoint(lower), _solve_for(lower, rhs))


@operator("cholesky_inverse")
def _cholesky_inverse(call: AtenCall) -> Value:
    inverse = op("linalg.inv", _lower_factor(call, call["self"]))
    return matmul(_adjoint(inverse), inverse)


def _lower_factor(call: AtenCall, factor: Value) -> Value:
    """Return Cholesky's factor as the lower one, whichever is given."""
    triangle = _triangle(factor, upper=call.flag("upper"))
    return _adjoint(triangle) if call.flag("upper") else triangle


@operator("linalg_qr")
def _qr(call: AtenCall) -> list[Value]:
    mode = str(call.argument("mode", "reduced"))
    if mode == "r":
        return [_none(call, call["A"]), op("linalg.qr", call["A"], mode="r")]
    return ops("linalg.qr", call["A"], mode=mode)


@operator("_linalg_eigh")
def _eigh(call: AtenCall) -> list[Value]:
    data, triangle = call["A"], str(call.argument("UPLO", "L")).upper()
    if call.flag("compute_v", default=True):
        return ops("linalg.eigh", data, UPLO=triangle)
    return [op("linalg.eigh", data, UPLO=triangle, compute_v=False), _none(call, data)]


@operator("linalg_eig", "_linalg_eigvals", "linalg_eigvals")
def _eig(call: AtenCall) -> Value | list[Value]:
    data, vectors = call["self"], len(call.results) > 1
    paired = is_complex(data.dtype)
    components = ops(
        "linalg.eig", op("complex.pairs", data) if paired else data, compute_v=vectors, pairs=paired
    )
    values = [op("complex.make", re, im) for re, im in zip(components[::2], components[1::2], strict=True)]
    return values if vectors else values[0]


@operator("_linalg_svd")
def _svd(call: AtenCall) -> list[Value]:
    data = call["A"]
    if call.flag("compute_uv", default=True):
        return ops("linalg.svd", data, full_matrices=call.flag("full_matrices"))
    return [_none(call, data), op("linalg.svd", data, compute_uv=False), _none(call, data)]


@operator("linalg_pinv")
def _pinv(call: AtenCall) -> Value:
    """Invert the singular values, or the eigenvalues of Hermitian matrices, that are large enough."""
    data = call["self"]
    if 0 in data.shape:
        return call.full(call.shape, scalar_constant(0, data.dtype))
    if call.flag("hermitian"):
        values, lhs = ops("linalg.eigh", data)
        rhs = _adjoint(lhs)
    else:
        lhs, values, rhs = ops("linalg.svd", data, full_matrices=False)
    size = op("abs", values)
    least, share = _tolerances(call, data, values)
    least = least.maximum(share * op("max", size, axis=(size.rank - 1,), keepdims=True))
    inverse = shapes.unsqueeze((size > least).choose(1 / values, 0).cast(data.dtype), [values.rank - 1])
    return matmul(_adjoint(rhs) * inverse, _adjoint(lhs))


def _tolerances(call: AtenCall, data: Value, values: Value) -> tuple[Value, Value]:
    """Return how large a singular value must be to count, absolutely and as a share of the largest one."""
    given = [
        call.number_value(name, values.dtype) if call.arguments.get(name) is not None else None
        for name in ("atol", "rtol" if "rtol" in call.arguments else "rcond")
    ]
    least, share = (shapes.unsqueeze(item, [item.rank]) if item and item.rank else item for item in given)
    if share is None:
        longest = max(call.static(data)[-2:])
        share = values.like(float(np.finfo(values.dtype).eps) * longest)
        if least is not None:
            share = (least > 0).choose(0, share)
    return least if least is not None else values.like(0), share


def _none(call: AtenCall, data: Value) -> Value:
    """Return what stands for vectors that nobody asked for."""
    return call.full((0,), scalar_constant(0, data.dtype))


operators(
    {
        "_linalg_det": lambda call: [_det(call["A"]), *_factors(call, call["A"], of_transpose=True)],
        "linalg_cholesky_ex": lambda call: [_cholesky(call), _info(call, call["self"].shape[:-2])],
    }
)
