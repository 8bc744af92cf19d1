"""Define NumPy's linear algebra (numpy.linalg): systems, decompositions, determinants.

Integers and bools give f64. Matrices are the last two axes; the others are a batch. Complex matrices give
complex ones, and real singular values, eigenvalues and logarithms.

NumPy's reference: https://numpy.org/doc/stable/reference/routines.linalg.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins import tensor_helpers as helpers
from nnmagic.tinynn.builtins.numpy.complex_numbers import imaginary_part, make_complex, real_part
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.operators.matmul import matrix_product
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import source_text
from nnmagic.tinynn.values.operator_calls import call_operator, is_tensor
from nnmagic.tinynn.values.operator_restrictions import dims_differ

_NAMES = "A=a x=a input=a"


def floats(call: Arguments, data: Formula, parameter: str) -> Formula:
    """Return matrices as LAPACK has them: in f32, f64, c64 or c128, integers and bools in f64."""
    if data.is_complex:
        return data
    if not data.is_float:
        return data.cast("float64")
    if data.dtype not in ("float32", "float64"):
        span = call.at(parameter)
        message = f"{call.name} takes f32 and f64, not {dtype_short_name(data.dtype)}"
        raise v.RefusalError(message, span, hint=f"convert it first, as in {source_text(span)}.astype(f32)")
    return data


def _matrices(call: Arguments, parameter: str = "a") -> Formula:
    """Return an argument that is a matrix or a batch of them."""
    data = floats(call, args.formula(call, parameter), parameter)
    args.require_rank(call, data, parameter, 2)
    return data


def _square(call: Arguments, parameter: str = "a") -> Formula:
    """Return an argument that is a square matrix or a batch of them; integers stay."""
    data = args.formula(call, parameter)
    args.require_rank(call, data, parameter, 2)
    if dims_differ(*data.shape[-2:]):
        message = f"{call.name} takes square matrices, not a tensor of shape {format_shape(data.shape)}"
        raise v.RefusalError(message, call.at(parameter))
    return data


def _apply(call: Arguments, name: str, *operands: Formula, **attrs: object) -> list[Formula]:
    """Return the results of an operator, whose operands are the call's first arguments."""
    given = [v.Operand(operand.value, call.at(word)) for operand, word in zip(operands, "ab", strict=False)]
    result = call_operator(OPERATORS[f"linalg.{name}"], given, attrs, call.span)
    parts = result.items if isinstance(result, v.TupleOf) else (result,)
    tensors: list[Formula] = []
    for part in parts:
        assert isinstance(part, v.Computed)
        tensors.append(Formula(part, call.span))
    return tensors


def _tuple_of(parts: Sequence[Formula]) -> v.TupleOf:
    return v.TupleOf(tuple(part.value for part in parts))


def _of_square(name: str, *parameters: str) -> Callable[[Arguments], v.Value]:
    """Return the function that applies an operator with these attributes."""

    def apply_to(call: Arguments) -> v.Value:
        data = floats(call, _square(call), "a")
        attrs = {parameter: args.flag(call, parameter) for parameter in parameters if parameter in call}
        outputs = _apply(call, name, data, **attrs)
        return outputs[0].value if len(outputs) == 1 else _tuple_of(outputs)

    return apply_to


def _pair(call: Arguments) -> tuple[Formula, Formula]:
    """Return a matrix and right-hand sides, in one dtype."""
    lhs, rhs = args.pair(call, "a", "b")
    lhs, rhs = floats(call, lhs, "a"), floats(call, rhs, "b")
    args.require_rank(call, lhs, "a", 2)
    args.require_rank(call, rhs, "b", 1)
    rows = rhs.shape[-1 if rhs.rank == 1 else -2]
    if dims_differ(lhs.shape[-2], rows):
        shown = f"{format_shape(lhs.shape)} and {format_shape(rhs.shape)}"
        raise call.refusal("b", f"the matrix and the right-hand sides, of shapes {shown}, do not fit")
    return lhs, rhs


def _solve(call: Arguments) -> v.Value:
    """Solve for one vector, or for the columns of matrices, whose batch dimensions broadcast."""
    _square(call)
    matrix, sides = _pair(call)
    vector = sides.rank == 1
    if vector:
        sides = sides.expand(1)
    # Since NumPy 2.0 only sides of rank 1 are a vector; those of shape (2, 3) are never two
    # vectors.
    if matrix.shape[:-2] != sides.shape[:-2]:
        batch = helpers.common_shape(call, [matrix.shape[:-2], sides.shape[:-2]])
        matrix, sides = (
            helpers.broadcast(matrices, (*batch, *matrices.shape[-2:])) for matrices in (matrix, sides)
        )
    (solution,) = _apply(call, "solve", matrix, sides)
    return solution.op("squeeze", axis=[solution.rank - 1]).value if vector else solution.value


def _det(call: Arguments) -> v.Value:
    """Compute in f64, as NumPy does: the logarithm of a large determinant has few digits after the point."""
    data = floats(call, _square(call), "a")
    if not data.is_complex:
        return data.cast("float64").op("linalg.det").cast(data.dtype).value
    sign, logarithm = _apply(call, "slogdet", data.cast("complex128"))
    return _scale(sign, logarithm.exp()).cast(data.dtype).value


def _scale(data: Formula, factor: Formula) -> Formula:
    """Multiply real or complex numbers by real ones."""
    if data.is_complex:
        return make_complex(factor * real_part(data), factor * imaginary_part(data))
    return factor * data


def _qr(call: Arguments) -> v.Value:
    mode = args.choice_argument(call, "mode", ("reduced", "complete", "r"), "reduced")
    factors = _apply(call, "qr", _matrices(call), mode=mode)
    return factors[0].value if mode == "r" else _tuple_of(factors)


def _svd(call: Arguments) -> v.Value:
    if args.flag(call, "hermitian"):
        span = call.at("hermitian")
        raise v.RefusalError("svd: `hermitian` must be False", span, hint="leave it out, or call eigh")
    full, vectors = (
        args.flag(call, "full_matrices", default=True),
        args.flag(call, "compute_uv", default=True),
    )
    factors = _apply(call, "svd", _matrices(call), full_matrices=full, compute_uv=vectors)
    return _tuple_of(factors) if vectors else factors[0].value


def _triangle(call: Arguments) -> str:
    return args.choice_argument(call, "UPLO", ("L", "U", "l", "u"), "L").upper()


def _eigh(call: Arguments) -> v.Value:
    return _tuple_of(_apply(call, "eigh", floats(call, _square(call), "a"), UPLO=_triangle(call)))


def _eigvalsh(call: Arguments) -> v.Value:
    (values,) = _apply(call, "eigh", floats(call, _square(call), "a"), UPLO=_triangle(call), compute_v=False)
    return values.value


def _eig(call: Arguments) -> v.Value:
    return _tuple_of(_complex_parts(call, vectors=True))


def eigenvalues(call: Arguments) -> Formula:
    """Return the eigenvalues of square matrices, always as complex numbers."""
    return _complex_parts(call, vectors=False)[0]


def _complex_parts(call: Arguments, *, vectors: bool) -> list[Formula]:
    """Return eigenvalues, and eigenvectors if they are wanted, of square matrices."""
    data = floats(call, _square(call), "a")
    pairs = helpers.stack([real_part(data), imaginary_part(data)], -1) if data.is_complex else data
    components = _apply(call, "eig", pairs, compute_v=vectors, pairs=data.is_complex)
    return [make_complex(re, im) for re, im in zip(components[::2], components[1::2], strict=True)]


def _lstsq(call: Arguments) -> v.Value:
    """Return (solution, residuals, rank, singular values); using residuals that NumPy lacks is an error."""
    matrix, sides = _pair(call)
    vector = sides.rank == 1
    if vector:
        sides = sides.expand(1)
    attrs = {"rcond": float(args.static_number(call, "rcond", 0))} if "rcond" in call else {}
    solution, residuals, rank = _apply(call, "lstsq", matrix, sides, **attrs)
    (values,) = _apply(call, "svd", matrix, compute_uv=False)
    rows, columns = matrix.shape
    # NumPy returns no residuals unless there are more rows than columns and the rank is full, which
    # only the call knows: a size cannot depend on it, so that case is an error.
    if isinstance(rows, int) and isinstance(columns, int) and rows <= columns:
        residuals = helpers.constant_of(np.zeros(0), matrix.dtype, call.span)
    else:
        residuals = residuals.op("linalg.full_rank", rank, matrix)
    if vector:
        solution = solution.op("squeeze", axis=[1])
    return _tuple_of([solution, residuals, rank, values])


# -- of singular values --------------------------------------------------------------------------------------


def singular_values(call: Arguments, data: Formula) -> Formula:
    """Return the singular values of matrices, in descending order."""
    call = Arguments(call.name, {"a": next(iter(call.given.values()))}, call.span)
    (values,) = _apply(call, "svd", data, compute_uv=False)
    return values


def _largest(data: Formula, axis: int) -> Formula:
    """Return the largest of numbers that are not negative along an axis, which stays; 0 of none."""
    return data.reduce("max", (axis,), keepdims=True).op("maximum", 0)


def _cutoff(
    call: Arguments, data: Formula, values: Formula, parameter: str, default: float | None
) -> Formula:
    """Return below what singular values count as 0: a share of the largest one.

    ``default``: that share; by default the precision of the dtype, times the larger size of the matrix.
    """
    share = _tolerance(call, parameter, values) if parameter in call else default
    largest = _largest(values, values.rank - 1)
    if isinstance(share, Formula):
        return largest.cast(share.dtype) * share
    if share is not None:
        return largest * share
    rows, columns = (data.shape[-2], data.shape[-1])
    epsilon = float(np.finfo(data.dtype).eps)
    if isinstance(rows, int) and isinstance(columns, int):
        return largest * (max(rows, columns) * epsilon)
    sizes = [helpers.size_along(data, data.rank - k, values) for k in (1, 2)]
    first, second = (largest.like(0) + size for size in sizes)
    return largest * (first.op("maximum", second) * epsilon)


def _tolerance(call: Arguments, parameter: str, values: Formula) -> float | Formula:
    """Return a tolerance: a number, or a tensor of one for each matrix, with an axis for singular values."""
    if not is_tensor(call.given[parameter].value):
        return float(args.static_number(call, parameter, 0))
    tolerance = args.as_float(args.formula(call, parameter))
    wide = values.dtype if tolerance.dtype == values.dtype else "float64"
    return tolerance.expand(tolerance.rank).cast(wide)


def _refuse_hermitian(call: Arguments) -> None:
    if args.flag(call, "hermitian"):
        span = call.at("hermitian")
        raise v.RefusalError(f"{call.name}: `hermitian` must be False", span, hint="leave it out")


def _exceeds(values: Formula, cutoff: float | Formula) -> Formula:
    return (values.cast(cutoff.dtype) if isinstance(cutoff, Formula) else values) > cutoff


def _matrix_rank(call: Arguments) -> v.Value:
    _refuse_hermitian(call)
    data = floats(call, args.formula(call, "a"), "a")
    if data.rank < 2:
        # As in NumPy, a number or a vector is a matrix of one row: of rank 1 unless all is 0.
        return data.truth().reduce("any").cast("int64").value
    if "tol" in call and "rtol" in call:
        raise v.RefusalError("matrix_rank takes `tol` or `rtol`, not both", call.at("rtol"))
    values = singular_values(call, data)
    is_absolute = "tol" in call
    cutoff = _tolerance(call, "tol", values) if is_absolute else _cutoff(call, data, values, "rtol", None)
    return _exceeds(values, cutoff).cast("int64").reduce("sum", (values.rank - 1,)).value


def _pinv(call: Arguments) -> v.Value:
    _refuse_hermitian(call)
    data = _matrices(call)
    if "rcond" in call and "rtol" in call:
        raise v.RefusalError("pinv takes `rcond` or `rtol`, not both", call.at("rtol"))
    order = [*range(data.rank - 2), data.rank - 1, data.rank - 2]
    if 0 in data.shape[-2:]:
        return data.transpose(order).value
    # Of the conjugate, so that its factors need a transposition only.
    u, values, vh = _apply(call, "svd", data.conj(), full_matrices=False)
    default = None if "rtol" in call.given else 1e-15  # as in NumPy, where rtol=None is a precision
    cutoff = _cutoff(call, data, values, "rcond" if "rcond" in call else "rtol", default)
    inverse = _exceeds(values, cutoff).choose(1 / values, 0)
    scaled = _scale(u.transpose(order), inverse.expand(values.rank))
    return _product(call, vh.transpose(order), scaled).value


def _product(call: Arguments, lhs: Formula, rhs: Formula) -> Formula:
    span = call.span
    value = matrix_product(v.Operand(lhs.value, span), v.Operand(rhs.value, span), span, call.name)
    return Formula(value, span)


def _cond(call: Arguments) -> v.Value:
    """Compute the ratio of singular values; infinite for a singular matrix, as of 0 / 0."""
    order = call.static("p") if "p" in call else None
    if order not in (None, 2, -2):
        raise call.mismatch("p", "None, 2 or -2", "write norm(x, p) * norm(inv(x), p)")
    data = _matrices(call)
    if 0 in data.shape[-2:]:
        raise v.RefusalError("cond of a matrix without elements", call.at("a"))
    values = singular_values(call, data)
    axis = values.rank - 1
    largest, least = (values.reduce(name, (axis,)) for name in ("max", "min"))
    ratio = least / largest if order == -2 else largest / least
    # As in NumPy, NaN stays where the matrix itself has it; elsewhere it is of 0 / 0, of a matrix
    # of zeros.
    missing = data.op("isnan").reduce("any", (data.rank - 2, data.rank - 1))
    return (ratio.op("isnan") & ~missing).choose(math.inf, ratio).value


def _matrix_power(call: Arguments) -> v.Value:
    """Multiply by repeated squaring; integers stay integers, unless the power is negative."""
    data, power = _square(call), args.static_int(call, "n")
    if power < 0:
        (data,) = _apply(call, "inv", floats(call, data, "a"))
        power = -power
    if power == 0:
        size = helpers.size_of(data, data.rank - 1)
        return helpers.broadcast(helpers.unit_matrix(size, size, 0, data.dtype, call.span), data.shape).value
    result: Formula | None = None
    while power:
        if power & 1:
            result = data if result is None else _product(call, result, data)
        power >>= 1
        if power:
            data = _product(call, data, data)
    assert result is not None
    return result.value


def _row(
    name: str, signature: str, apply_to: Callable[[Arguments], v.Value], summary: str, aliases: str = _NAMES
) -> Builtin:
    return cell_function(name, signature, apply_to, f"{summary} (numpy.linalg.{name}).", aliases=aliases)


def _tensorinv(call: Arguments) -> v.Value:
    """Return the inverse of a map between tensors, of which ``ind`` axes are the results."""
    sizes, ind = _known_sizes(call, "a"), args.static_int(call, "ind", 2)
    if not 0 < ind < len(sizes):
        raise v.RefusalError(
            f"tensorinv: `ind` is from 1 to {len(sizes) - 1}, not {ind}", call.given["ind"].span
        )
    shape = (*sizes[ind:], *sizes[:ind])
    text = f"def f(inv, a):\n    return inv(a.reshape({math.prod(sizes[:ind])}, -1)).reshape({shape})\n"
    return _with(call, "inv", text, "a")


def _tensorsolve(call: Arguments) -> v.Value:
    """Solve for a tensor whose products with the last axes of another are given."""
    sizes, sides = _known_sizes(call, "a"), _known_sizes(call, "b")
    rows, rest = math.prod(sides), tuple(sizes[len(sides) :])
    text = f"def f(solve, a, b):\n    return solve(a.reshape({rows}, -1), ravel(b)).reshape({rest})\n"
    return _with(call, "solve", text, "a", "b")


def _known_sizes(call: Arguments, parameter: str) -> list[int]:
    shape = args.formula(call, parameter).shape
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) < len(shape):
        raise v.RefusalError(f"{call.name} takes tensors of known sizes", call.given[parameter].span)
    return sizes


def _with(call: Arguments, name: str, text: str, *parameters: str) -> v.Value:
    """Call a function that is written in the language with another one of linear algebra."""
    function = next(row for row in LINALG if row.name == name)
    given = [v.Operand(call.given[parameter].value, call.given[parameter].span) for parameter in parameters]
    return v.LoopCall("text", (v.Operand(v.BuiltinName(function), call.span), *given), text=text)


LINALG: tuple[Builtin, ...] = (
    _row("tensorinv", "a ind?=2", _tensorinv, "Compute the inverse of a map between tensors"),
    _row("tensorsolve", "a b", _tensorsolve, "Solve tensordot(a, x, x.ndim) = b for x", ""),
    _row("solve", "a b", _solve, "Solve a @ x = b for x", ""),
    _row("inv", "a", _of_square("inv"), "Compute the inverse of a matrix"),
    _row(
        "cholesky",
        "a * upper?",
        _of_square("cholesky", "upper"),
        "Compute the Cholesky factor of a positive definite matrix",
    ),
    _row("det", "a", _det, "Compute the determinant"),
    _row(
        "slogdet",
        "a",
        _of_square("slogdet"),
        "Compute the sign and the logarithm of the absolute value of the determinant",
    ),
    _row("qr", "a mode?", _qr, "Compute the QR decomposition, or R alone"),
    _row(
        "svd",
        "a full_matrices? compute_uv? hermitian?",
        _svd,
        "Compute the singular value decomposition (u, s, vh), or s alone",
    ),
    _row(
        "svdvals", "a", lambda call: singular_values(call, _matrices(call)).value, "Compute singular values"
    ),
    _row("eigh", "a UPLO?", _eigh, "Compute eigenvalues and eigenvectors of a symmetric or Hermitian matrix"),
    _row("eigvalsh", "a UPLO?", _eigvalsh, "Compute the eigenvalues of a symmetric or Hermitian matrix"),
    _row("eig", "a", _eig, "Compute eigenvalues and eigenvectors of a square matrix, as complex numbers"),
    _row(
        "eigvals",
        "a",
        lambda call: eigenvalues(call).value,
        "Compute the eigenvalues of a square matrix, as complex numbers",
    ),
    _row(
        "lstsq",
        "a b rcond?",
        _lstsq,
        "Solve a @ x = b by least squares: the solution, residuals, rank and singular values",
        "",
    ),
    _row(
        "matrix_rank",
        "a tol? hermitian? * rtol?",
        _matrix_rank,
        "Compute the rank: the number of singular values above a tolerance",
    ),
    _row("pinv", "a rcond? hermitian? * rtol?=1e-15", _pinv, "Compute the pseudo-inverse"),
    _row("cond", "a p?", _cond, "Compute the condition number: the ratio of singular values"),
    _row("matrix_power", "a n", _matrix_power, "Compute the power of a square matrix"),
)
