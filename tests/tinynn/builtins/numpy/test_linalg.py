"""Linear algebra in cells beside NumPy: values, shapes, errors, and where the machine code runs."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic import relay
from tests.child_process import run_python
from tests.newer_libraries import IS_NUMPY_OLD
from tests.systems import POSIX

_GENERATOR = np.random.default_rng(0)
_SIZES = (0, 1, 2, 5, 33)


def _normal(*shape: int) -> np.ndarray:
    return _GENERATOR.standard_normal(shape)


def _positive_definite(*shape: int) -> np.ndarray:
    data = _normal(*shape)
    result: np.ndarray = data @ np.swapaxes(data, -1, -2) + np.eye(shape[-1])
    return result


def _compile(expression: str, *parameters: str) -> Any:
    names = [parameter.partition(":")[0] for parameter in parameters]
    assert all(name in expression for name in names)
    source = f"def f({', '.join(parameters)}):\n    return {expression}\n"
    return nnmagic.compile(source, namespace={"np": np}, cache=False)


def _parts(value: object) -> list[Any]:
    """Return the arrays of nested tuples."""
    return [part for each in value for part in _parts(each)] if isinstance(value, tuple) else [value]


def _assert_as_numpy(f: Any, expression: str, **arguments: np.ndarray) -> None:
    """Compare dtypes, shapes and values with those of the expression in Python.

    NumPy calls the same routines, perhaps of another version: signs are the same, the last bits may differ.
    """
    got = _parts(f(*arguments.values()))
    with np.errstate(all="ignore"):
        wanted = _parts(eval(expression, {"np": np, **arguments}))
    for result, numpys in zip(got, wanted, strict=True):
        expected = np.asarray(numpys)
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        tolerance = 1e-5 if result.dtype in ("float32", "complex64") else 1e-10
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


# -- square matrices ---------------------------------------------------------------------------------------


@pytest.mark.machine_code
@pytest.mark.full
@pytest.mark.parametrize(
    "expression",
    [
        "np.linalg.inv(a), np.linalg.cholesky(a), np.linalg.cholesky(a, upper=True), np.linalg.det(a)",
        "np.linalg.slogdet(a), np.linalg.eigh(a), np.linalg.eigh(a, 'U'), np.linalg.eigvalsh(a)",
        "np.linalg.matrix_power(a, 5), np.linalg.matrix_power(a, -2), np.linalg.matrix_power(a, 0)",
    ],
)
def test_square_matrices_of_any_size(expression: str) -> None:
    single = _compile(expression, 'a: Tensor[("n", "n"), f64]')
    for size in _SIZES:
        _assert_as_numpy(single, expression, a=_positive_definite(size, size) / (size or 1))
    batched = _compile(expression, 'a: Tensor[("b", 2, "n", "n"), f32]')
    for batch, size in ((0, 3), (3, 3), (2, 0)):
        _assert_as_numpy(batched, expression, a=_positive_definite(batch, 2, size, size).astype("float32"))


@pytest.mark.parametrize("shape", [(3, 3), (0, 0), (0, 3, 3), (2, 0, 0)])
def test_square_matrices_of_known_size(shape: tuple[int, ...]) -> None:
    expression = "np.linalg.inv(a), np.linalg.slogdet(a), np.linalg.eigh(a), np.linalg.cholesky(a)"
    function = _compile(expression, f"a: Tensor[{shape}, f64]")
    _assert_as_numpy(function, expression, a=_positive_definite(*shape))


def test_only_one_triangle_is_read() -> None:
    data = np.triu(_positive_definite(4, 4)) + np.tril(np.full((4, 4), np.nan), -1)
    for expression in ("np.linalg.cholesky(a, upper=True)", "np.linalg.eigh(a, 'U')"):
        _assert_as_numpy(_compile(expression, "a: Tensor[(4, 4), f64]"), expression, a=data)


def test_integers_and_bools_give_f64() -> None:
    expression = "np.linalg.inv(a), np.linalg.det(a), np.linalg.svdvals(a), np.linalg.norm(a, 2)"
    for dtype, data in (("i32", np.array([[2, 1], [7, 4]], "int32")), ("bool_", np.eye(2) > 0)):
        _assert_as_numpy(_compile(expression, f"a: Tensor[(2, 2), {dtype}]"), expression, a=data)
    expression = "np.linalg.matrix_power(a, 3)"
    powers = np.arange(4).reshape(2, 2)
    _assert_as_numpy(_compile(expression, "a: Tensor[(2, 2), i64]"), expression, a=powers)


# -- systems -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_solve(dtype: str) -> None:
    numpys = {"f32": "float32", "f64": "float64"}[dtype]
    expression = "np.linalg.solve(a, b)"
    vector = _compile(expression, f'a: Tensor[("n", "n"), {dtype}]', f'b: Tensor[("n",), {dtype}]')
    matrix = _compile(expression, f'a: Tensor[("n", "n"), {dtype}]', f'b: Tensor[("n", "k"), {dtype}]')
    for size in _SIZES:
        a = (_positive_definite(size, size) / (size or 1)).astype(numpys)
        _assert_as_numpy(vector, expression, a=a, b=_normal(size).astype(numpys))
        for columns in (0, 3):
            _assert_as_numpy(matrix, expression, a=a, b=_normal(size, columns).astype(numpys))


@pytest.mark.parametrize(
    ("first", "second"),
    [((2, 3, 3), (3, 2)), ((2, 1, 3, 3), (4, 3, 2)), ((0, 3, 3), (0, 3, 2)), ((2, 3, 3), (3,))],
)
def test_batches_of_systems_broadcast(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    expression = "np.linalg.solve(a, b)"
    f = _compile(expression, f"a: Tensor[{first}, f64]", f"b: Tensor[{second}, f64]")
    _assert_as_numpy(f, expression, a=_normal(*first), b=_normal(*second))


@pytest.mark.full
def test_least_squares() -> None:
    expression = "np.linalg.lstsq(a, b), np.linalg.lstsq(a, b, rcond=0.5)[0]"
    for rows, columns, sides in ((6, 3, (2,)), (3, 6, ()), (0, 3, (2,)), (40, 33, ())):
        shape = (rows, *sides)
        f = _compile(expression, f"a: Tensor[{rows, columns}, f64]", f"b: Tensor[{shape}, f64]")
        _assert_as_numpy(f, expression, a=_normal(rows, columns), b=_normal(*shape))


def test_least_squares_of_named_sizes() -> None:
    solution = "np.linalg.lstsq(a, b)[0], np.linalg.lstsq(a, b)[2], np.linalg.lstsq(a, b)[3]"
    f = _compile(solution, 'a: Tensor[("m", "n"), f32]', 'b: Tensor[("m",), f32]')
    for rows, columns in ((6, 3), (3, 6), (0, 2), (3, 0), (1, 1)):
        a, b = _normal(rows, columns).astype("float32"), _normal(rows).astype("float32")
        _assert_as_numpy(f, solution, a=a, b=b)
    residuals = _compile("np.linalg.lstsq(a, b)[1]", 'a: Tensor[("m", "n"), f64]', 'b: Tensor[("m",), f64]')
    _assert_as_numpy(residuals, "np.linalg.lstsq(a, b)[1]", a=_normal(6, 3), b=_normal(6))
    _assert_as_numpy(residuals, "np.linalg.lstsq(a, b)[1]", a=_normal(6, 0), b=_normal(6))
    for a in (np.ones((6, 3)), _normal(3, 6)):
        with pytest.raises(np.linalg.LinAlgError, match="lstsq has no residuals unless"):
            residuals(a, np.ones(len(a)))


@pytest.mark.full
def test_ranks_of_least_squares() -> None:
    """Matrices whose condition is below, near and beyond where NumPy counts a singular value as 0."""
    text = "np.linalg.lstsq(a, b)[0], np.linalg.lstsq(a, b)[2], np.linalg.lstsq(a, b, rcond=1e-6)[2]"
    f = _compile(text, 'a: Tensor[("m", "n"), f64]', 'b: Tensor[("m", 2), f64]')
    for rows, columns in ((30, 12), (12, 30), (12, 12), (2, 2)):
        least = min(rows, columns)
        left, right = np.linalg.qr(_normal(rows, least))[0], np.linalg.qr(_normal(columns, least))[0]
        b = _normal(rows, 2)
        for exponent in (0, -3, -5, -7, -9, -11, -13, -15, -17, -300):
            for scale in (1e-150, 1, 1e150):
                values = np.full(least, scale)
                values[-1] *= 10.0**exponent
                a = left * values @ right.T
                solution, rank, rank_by_cutoff = f(a, b)
                assert (rank, rank_by_cutoff) == tuple(
                    np.linalg.lstsq(a, b, rcond=rcond)[2] for rcond in (None, 1e-6)
                )
                expected = np.linalg.lstsq(a, b, rcond=None)[0]
                error = np.abs(solution - expected).max() / np.abs(expected).max()
                assert error < 1e-13 / 10.0 ** max(exponent, -14)


# -- decompositions ----------------------------------------------------------------------------------------


#: Shapes of matrices without elements, of which NumPy has norms from 2.3 on.
NO_ELEMENTS = () if IS_NUMPY_OLD else ((0, 3), (3, 0), (0, 0))


@pytest.mark.parametrize(
    "expression",
    [
        "np.linalg.qr(a), np.linalg.qr(a, 'complete'), np.linalg.qr(a, mode='r')",
        "np.linalg.svd(a), np.linalg.svd(a, full_matrices=False), np.linalg.svd(a, compute_uv=False)",
        "np.linalg.svdvals(a), np.linalg.norm(a, 2), np.linalg.norm(a, 'nuc')",
        "np.linalg.pinv(a), np.linalg.pinv(a, rcond=0.5), np.linalg.pinv(a, rtol=None)",
        "np.linalg.matrix_rank(a), np.linalg.matrix_rank(a, tol=1.0), np.linalg.matrix_rank(a, rtol=0.5)",
        "np.linalg.norm(a, 'fro'), np.linalg.norm(a, 1), np.linalg.norm(a, np.inf)",
    ],
)
def test_matrices_of_any_sizes(expression: str) -> None:
    f = _compile(expression, 'a: Tensor[("m", "n"), f64]')
    for rows, columns in (*NO_ELEMENTS, (1, 1), (5, 2), (2, 5), (33, 40)):
        _assert_as_numpy(f, expression, a=_normal(rows, columns))


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4), (0, 4, 3), (0, 3), (3, 0)])
def test_decompositions_of_known_sizes(shape: tuple[int, ...]) -> None:
    expression = "np.linalg.qr(a), np.linalg.svd(a), np.linalg.pinv(a)"
    _assert_as_numpy(_compile(expression, f"a: Tensor[{shape}, f64]"), expression, a=_normal(*shape))


def test_decompositions_multiply_to_the_matrix() -> None:
    """Whatever LAPACK is installed."""
    data = _normal(3, 7, 5)
    u, s, vh = _compile("np.linalg.svd(a, full_matrices=False)", "a: Tensor[(3, 7, 5), f64]")(data)
    np.testing.assert_allclose(u * s[:, None] @ vh, data, atol=1e-12)
    q, r = _compile("np.linalg.qr(a)", "a: Tensor[(3, 7, 5), f64]")(data)
    np.testing.assert_allclose(q @ r, data, atol=1e-12)
    np.testing.assert_allclose(np.swapaxes(q, 1, 2) @ q, np.broadcast_to(np.eye(5), (3, 5, 5)), atol=1e-12)


def test_conditions_and_ranks_of_singular_matrices() -> None:
    singular = np.arange(9.0).reshape(3, 3)
    for expression in ("np.linalg.cond(a)", "np.linalg.cond(a, -2)", "np.linalg.matrix_rank(a)"):
        f = _compile(expression, 'a: Tensor[("n", "n"), f64]')
        for data in (np.zeros((2, 2)), np.eye(2), _positive_definite(4, 4), singular):
            with np.errstate(all="ignore"):
                wanted = eval(expression, {"np": np, "a": data})
            np.testing.assert_allclose(f(data), wanted, rtol=1 if data is singular else 1e-10, atol=1e-15)
    vectors = _compile("np.linalg.matrix_rank(a)", 'a: Tensor[("n",), f64]')
    assert vectors(np.zeros(3)) == 0
    assert vectors(np.ones(3)) == 1


@pytest.mark.parametrize(
    ("shape", "arguments"),
    [
        ((4, 5), ["1", "-1", "2", "-2", "np.inf", "-np.inf", "'fro'", "'nuc'"]),
        (
            (3, 4, 5),
            ["2, axis=(0, 2)", "-1, axis=(2, 0), keepdims=True", "'nuc', (-1, 1)", "2, (0, 1), True"],
        ),
        ((3, 4, 5), ["None, axis=(0, 1)", "0, axis=1", "-2, axis=2", "2.5, axis=0", "-np.inf, axis=1"]),
    ],
)
def test_norms(shape: tuple[int, ...], arguments: Sequence[str]) -> None:
    expression = ", ".join(f"np.linalg.norm(a, {each})" for each in arguments)
    _assert_as_numpy(_compile(expression, f"a: Tensor[{shape}, f64]"), expression, a=_normal(*shape))


# -- complex matrices --------------------------------------------------------------------------------------


def _complex(*shape: int) -> np.ndarray:
    return _normal(*shape) + 1j * _normal(*shape)


def test_complex_square_matrices() -> None:
    expression = (
        "np.linalg.inv(a), np.linalg.det(a), np.linalg.slogdet(a), np.linalg.solve(a, a[..., :1]), "
        "np.linalg.cholesky(a), np.linalg.cholesky(a, upper=True), "
        "np.linalg.eigh(a), np.linalg.eigh(a, 'U'), np.linalg.eigvalsh(a)"
    )
    f = _compile(expression, 'a: Tensor[("n", "n"), c128]')
    for size in (1, 2, 33):
        data = _complex(size, size)
        _assert_as_numpy(f, expression, a=data @ data.conj().T / size + np.eye(size))
    batch = _complex(2, 3, 3).astype("complex64")
    expression = "np.linalg.slogdet(a), np.linalg.eigh(a), np.linalg.matrix_power(a, -1)"
    f = _compile(expression, "a: Tensor[(2, 3, 3), c64]")
    _assert_as_numpy(f, expression, a=batch @ batch.conj().swapaxes(1, 2) + np.eye(3, dtype="float32"))


def test_determinants_of_complex_matrices() -> None:
    """Singular matrices, none, and elements whose squares overflow or vanish."""
    expression = "np.linalg.slogdet(a), np.linalg.det(a)"
    f = _compile(expression, 'a: Tensor[("n", "n"), c128]')
    data = _complex(4, 4)
    for each in (data, data * 1e200, data * 1e-200, data.real + 0j, np.ones((3, 3)) * 1j, data[:0, :0]):
        _assert_as_numpy(f, expression, a=each)


_DECOMPOSITIONS = (
    "np.linalg.qr(a), np.linalg.qr(a, 'complete'), np.linalg.qr(a, mode='r'), "
    "np.linalg.svd(a), np.linalg.svd(a, full_matrices=False), np.linalg.svdvals(a), "
    "np.linalg.matrix_rank(a), np.linalg.matrix_norm(a, ord=2), np.linalg.matrix_norm(a, ord='nuc')"
)


def test_complex_decompositions() -> None:
    f = _compile(_DECOMPOSITIONS, 'a: Tensor[("m", "n"), c128]')
    for rows, columns in (*NO_ELEMENTS, (1, 1), (5, 2), (2, 5), (40, 33)):
        _assert_as_numpy(f, _DECOMPOSITIONS, a=_complex(rows, columns))
    expression = "np.linalg.svd(a), np.linalg.qr(a), np.linalg.pinv(a), np.linalg.pinv(a, rcond=0.5)"
    f = _compile(expression, "a: Tensor[(2, 4, 3), c64]")
    _assert_as_numpy(f, expression, a=_complex(2, 4, 3).astype("complex64"))


@pytest.mark.full
def test_complex_pseudo_inverses_of_any_sizes() -> None:
    f = _compile("np.linalg.pinv(a)", 'a: Tensor[("m", "n"), c128]')
    for rows, columns in ((0, 3), (3, 0), (1, 1), (5, 2), (2, 5)):
        _assert_as_numpy(f, "np.linalg.pinv(a)", a=_complex(rows, columns))


def test_tolerances_of_ranks_may_be_tensors() -> None:
    expression = (
        "np.linalg.matrix_rank(a, rtol=t), np.linalg.matrix_rank(a, tol=t), np.linalg.pinv(a, rtol=t)"
    )
    f = _compile(expression, "a: Tensor[(4, 3, 3), f32]", "t: Tensor[(4,), f64]")
    data = np.diag([1, 1e-3, 1e-6]).astype("float32") * np.ones((4, 1, 1), "float32")
    tolerances = np.array([1e-7, 1e-5, 1e-2, 2])
    expected = eval(expression, {"np": np, "a": data, "t": tolerances})
    for result, numpys in zip(f(data, tolerances), expected, strict=True):
        assert result.shape == numpys.shape
        np.testing.assert_allclose(result, numpys, rtol=1e-5, atol=1e-5)


def test_repeated_singular_values_of_complex_matrices() -> None:
    """A unitary matrix, whose singular values are all 1, and one of rank 1."""
    f = _compile(
        "np.linalg.svd(a), np.linalg.qr(a), np.linalg.eigh(a + a.conj().T)", "a: Tensor[(4, 4), c128]"
    )
    unitary, column = np.linalg.qr(_complex(4, 4))[0], _complex(4, 1)
    for data in (unitary, column @ column.T, np.eye(4) * 1j):
        (u, s, vh), (q, r), (w, v) = f(data)
        for orthonormal in (u, vh, q, v):
            np.testing.assert_allclose(orthonormal.conj().T @ orthonormal, np.eye(4), atol=1e-12)
        np.testing.assert_allclose(u * s @ vh, data, atol=1e-12)
        np.testing.assert_allclose(q @ r, data, atol=1e-12)
        np.testing.assert_allclose(v * w @ v.conj().T, data + data.conj().T, atol=1e-12)


@pytest.mark.full
def test_norms_and_conditions_of_complex_matrices() -> None:
    arguments = ("a, 2", "a, -2", "a, 'nuc', keepdims=True", "a, 2, axis=1", "a[0], 2", "a, 1")
    expression = ", ".join((*(f"np.linalg.norm({each})" for each in arguments), "np.linalg.cond(a)"))
    _assert_as_numpy(_compile(expression, "a: Tensor[(4, 5), c128]"), expression, a=_complex(4, 5))


def test_the_numpy_engine_has_complex_matrices() -> None:
    data = _complex(3, 3)
    for expression, a in (
        (_DECOMPOSITIONS, _complex(2, 3, 4)),
        (
            "np.linalg.slogdet(a), np.linalg.inv(a), np.linalg.solve(a, a), np.linalg.eigh(a), "
            "np.linalg.cholesky(a, upper=True)",
            data @ data.conj().T,
        ),
    ):
        source = f"def f(a: Tensor[{a.shape}, c128]):\n    return {expression}\n"
        f = nnmagic.compile(source, namespace={"np": np}, cache=False, engine="numpy")
        _assert_as_numpy(f, expression, a=a)


# -- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("np.linalg.inv(a * 1j)", "Singular matrix"),
        ("np.linalg.cholesky(a * complex(1, 0))", "Matrix is not positive definite"),
        ("np.linalg.inv(a)", "Singular matrix"),
        ("np.linalg.solve(a, a)", "Singular matrix"),
        ("np.linalg.matrix_power(a, -1)", "Singular matrix"),
        ("np.linalg.cholesky(a)", "Matrix is not positive definite"),
    ],
)
def test_singular_matrices_raise_numpys_error_with_the_line(expression: str, message: str) -> None:
    f = _compile(expression, 'a: Tensor[("b", "n", "n"), f64]')
    for batch in ([np.eye(3), np.ones((3, 3))], [np.ones((3, 3)), np.eye(3)]):
        with pytest.raises(np.linalg.LinAlgError, match=rf"(?s){message}.* --> .*:2:12"):
            f(np.stack(batch))
    f(np.eye(3)[None])


def test_a_singular_matrix_has_a_determinant() -> None:
    f = _compile("np.linalg.slogdet(a), np.linalg.det(a)", "a: Tensor[(2, 3, 3), f32]")
    (sign, logarithm), determinant = f(np.stack([np.ones((3, 3)), np.eye(3)]).astype("float32"))
    np.testing.assert_array_equal(sign, [0, 1])
    np.testing.assert_array_equal(logarithm, [-np.inf, 0])
    np.testing.assert_array_equal(determinant, [0, 1])


@pytest.mark.machine_code
@pytest.mark.full("pinv")
@pytest.mark.parametrize("name", ["inv", "cholesky", "slogdet", "qr", "svd", "eigh", "eigvalsh", "pinv"])
def test_entries_that_are_not_finite(name: str) -> None:
    """Matrices full of them, and with one: NumPy's values or errors; singular values are an error."""
    expression = f"np.linalg.{name}(a)"
    f = _compile(expression, 'a: Tensor[("n", "n"), f64]')
    of_complex = _compile(expression, "a: Tensor[(3, 3), c128]")
    for entry in (np.nan, np.inf):
        for data in (np.full((3, 3), entry), np.diag([1, entry, 2]), np.diag([1, complex(0, entry), 2])):
            expected = (
                _numpys_error(expression, data) if name not in ("svd", "pinv") else "SVD did not converge"
            )
            function = of_complex if data.dtype == "complex128" else f
            if expected is None:
                _assert_as_numpy(function, expression, a=data)
            else:
                with pytest.raises(np.linalg.LinAlgError, match=expected):
                    function(data)


def _numpys_error(expression: str, data: np.ndarray) -> str | None:
    try:
        with np.errstate(all="ignore"):
            eval(expression, {"np": np, "a": data})
    except np.linalg.LinAlgError as error:
        return str(error)
    return None


@pytest.mark.machine_code  # NumPy's own never ends
def test_least_squares_of_entries_that_are_not_finite_end() -> None:
    """NumPy's, by the same LAPACK, do not always."""
    f = _compile("np.linalg.lstsq(a, b)[0]", "a: Tensor[(3, 3), f64]", "b: Tensor[(3,), f64]")
    for a, b in ((np.diag([1, np.nan, 2]), np.ones(3)), (np.eye(3), np.array([1, np.inf, 2]))):
        with pytest.raises(np.linalg.LinAlgError, match="SVD did not converge in Linear Least Squares"):
            f(a, b)


@pytest.mark.parametrize(
    ("expression", "parameters", "message"),
    [
        ("np.linalg.inv(a)", ["a: Tensor[(3, 4), f64]"], r"inv takes square matrices, not .*\(3, 4\)"),
        ("np.linalg.inv(a)", ['a: Tensor[("m", "n"), f64]'], "inv takes square matrices"),
        ("np.linalg.inv(a)", ["a: Tensor[(3,), f64]"], "inv takes a tensor of rank 2 or more"),
        ("np.linalg.inv(a)", ["a: Tensor[(3, 3), f16]"], "inv takes f32 and f64, not f16"),
        (
            "np.linalg.solve(a, b)",
            ["a: Tensor[(3, 3), f64]", "b: Tensor[(4,), f64]"],
            r"of shapes \(3, 3\) and \(4,\), do not fit",
        ),
        (
            "np.linalg.solve(a, b)",
            ["a: Tensor[(2, 3, 3), f64]", "b: Tensor[(4, 3, 1), f64]"],
            r"the shapes \(2,\) and \(4,\) do not broadcast",
        ),
        ("np.linalg.lstsq(a, b)", ["a: Tensor[(2, 3, 3), f64]", "b: Tensor[(2, 3, 1), f64]"], "one matrix"),
        ("np.linalg.qr(a, 'raw')", ["a: Tensor[(3, 3), f64]"], "`mode` must be one of"),
        ("np.linalg.eigh(a, 'X')", ["a: Tensor[(3, 3), f64]"], "`UPLO` must be one of"),
        ("np.linalg.svd(a, hermitian=True)", ["a: Tensor[(3, 3), f64]"], "`hermitian` must be False"),
        ("np.linalg.cond(a, 1)", ["a: Tensor[(3, 3), f64]"], "`p` must be None, 2 or -2"),
        ("np.linalg.norm(a, 3)", ["a: Tensor[(3, 3), f64]"], "`ord` of a matrix must be"),
        ("np.linalg.norm(a, 'nuc')", ["a: Tensor[(3,), f64]"], "`ord` must be a number for vectors"),
        ("np.linalg.norm(a, 2)", ["a: Tensor[(3, 3, 3), f64]"], "norm along 3 axes"),
    ],
)
def test_what_is_refused(expression: str, parameters: Sequence[str], message: str) -> None:
    with pytest.raises(nnmagic.TinyNNError, match=message):
        _compile(expression, *parameters)


@pytest.mark.machine_code
def test_shapes_are_checked_by_relay() -> None:
    def build(types: Sequence[str], call: str) -> Any:
        parameters = ", ".join(f"%{name}: Tensor[{type_}]" for name, type_ in zip("ab", types, strict=False))
        text = f'#[version = "0.0.5"]\ndef @main({parameters}) {{\n  {call}\n}}\n'
        return nnmagic.compile(relay.parse(text), cache=False)

    f = build(["(?, ?), float64"], "linalg.inv(%a)")
    np.testing.assert_array_equal(f(np.eye(3)), np.eye(3))
    with pytest.raises(np.linalg.LinAlgError, match="the matrix must be square: 2 is not 3"):
        f(np.ones((2, 3)))
    f = build(["(?, ?), float32", "(?, ?), float32"], "linalg.solve(%a, %b)")
    with pytest.raises(np.linalg.LinAlgError, match="the right-hand sides do not fit: 3 is not 2"):
        f(np.ones((3, 3), "float32"), np.ones((2, 3), "float32"))
    for types, message in (
        (["(3, 4), float64"], "must be square"),
        (["(3), float64"], "expected a matrix"),
        (["(3, 3), float16"], "expected float32 or float64"),
    ):
        with pytest.raises(nnmagic.RelayError, match=message):
            build(types, "linalg.inv(%a)")
    for call in ("linalg.svd(%a)", "linalg.eigh(%a)"):
        with pytest.raises(nnmagic.EngineError, match="larger than LAPACK's 32-bit sizes"):
            build(["(40000, 40000), float64"], call)
    f = build(["(?, ?, 2), float64"], "linalg.inv(%a, pairs=True)")
    with pytest.raises(np.linalg.LinAlgError, match="the matrix must be square: 2 is not 3"):
        f(np.ones((2, 3, 2)))
    with pytest.raises(nnmagic.RelayError, match="expected pairs of floats along the last axis"):
        build(["(3, 3, 3), float64"], "linalg.inv(%a, pairs=True)")
    with pytest.raises(nnmagic.EngineError, match="larger than LAPACK's 32-bit sizes"):
        build(["(20000, 20000, 2), float64"], "linalg.svd(%a, pairs=True)")


def test_text_of_relay_is_read_again() -> None:
    """The text of operators that real Relay lacks; it was not measured."""
    text = """#[version = "0.0.5"]
def @main(%a: Tensor[(4, 3), float64], %b: Tensor[(4, 1), float64]) {
  %0 = linalg.qr(%a, mode="complete");
  %1 = linalg.svd(%a, full_matrices=False);
  %2 = linalg.lstsq(%a, %b, rcond=0.5f);
  (%0, %1, %2)
}
"""
    assert relay.parse(text).astext() == text


# -- where it runs -----------------------------------------------------------------------------------------


def test_in_loops_and_branches() -> None:
    source = """
def f(a: Tensor[("n", "n"), f64], rounds: i64, inverted: bool_):
    y = np.eye(len(a))
    for i in range(rounds):
        y = np.linalg.solve(a, y) + i
    if inverted:
        y = np.linalg.inv(a)
    return y
"""
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    data = _positive_definite(3, 3)
    expected = np.eye(3)
    for i in range(4):
        expected = np.linalg.solve(data, expected) + i
    np.testing.assert_allclose(f(data, 4, False), expected)
    np.testing.assert_allclose(f(data, 4, True), np.linalg.inv(data))
    zeros = np.zeros((3, 3))
    np.testing.assert_array_equal(f(zeros, 0, False), np.eye(3))  # what is not computed cannot fail
    for arguments, line in (((zeros, 1, False), 5), ((zeros, 0, True), 7)):
        with pytest.raises(np.linalg.LinAlgError, match=rf"(?s)Singular matrix.*:{line}:"):
            f(*arguments)


@pytest.mark.full
def test_of_sizes_that_depend_on_values() -> None:
    expression = "np.linalg.inv(a[m] @ a[m].T), np.linalg.svdvals(a[m])"
    f = _compile(expression, 'a: Tensor[("n", 5), f64]', 'm: Tensor[("n",), bool_]')
    data, mask = _normal(6, 5), np.array([1, 0, 1, 1, 0, 0], bool)
    _assert_as_numpy(f, expression, a=data, m=mask)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        f(np.zeros((6, 5)), mask)


def test_in_a_program_with_data_types() -> None:
    source = """
class Shape:
    def Ellipse(a: Tensor[(2, 2), f64]): ...
    def Nothing(): ...

def area(shape: Shape) -> f64:
    match shape:
        case Ellipse(a):
            return np.pi / np.linalg.det(a)
        case Nothing():
            return 0.0

def f(a: Tensor[(2, 2), f64]):
    return area(Ellipse(np.linalg.cholesky(a))) + area(Nothing())
"""
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    data = _positive_definite(2, 2)
    np.testing.assert_allclose(f(data), np.pi / np.linalg.det(np.linalg.cholesky(data)))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        f(-data)


def test_arrays_that_are_not_contiguous() -> None:
    f = _compile("np.linalg.inv(a)", 'a: Tensor[("n", "n"), f64]')
    data = _normal(10, 10)
    for view in (data.T, data[::2, ::-2], data[::-1]):
        np.testing.assert_allclose(f(view), np.linalg.inv(view), atol=1e-9)


_INVERSE = """
import numpy as np, nnmagic
def inverse(size, **options):
    source = f"def f(a: Tensor[({size}, {size}), f64]):\\n    return np.linalg.inv(a)\\n"
    return nnmagic.compile(source, namespace={"np": np}, **options)
"""


@pytest.mark.full
def test_saved_and_pickled_functions(tmp_path: Path) -> None:
    """In another process, which has the routines at other addresses."""
    f = _compile("np.linalg.solve(a, b)", 'a: Tensor[("n", "n"), f64]', 'b: Tensor[("n",), f64]')
    a, b = _positive_definite(4, 4), _normal(4)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(f))(a, b), f(a, b))
    path, arrays = tmp_path / "f.nnmagic", tmp_path / "arrays.npz"
    f.save(path)
    np.savez(arrays, a=a, b=b, x=f(a, b))
    code = f"""
import sys
import numpy as np, nnmagic
f = nnmagic.load({str(path)!r})
arrays = np.load({str(arrays)!r})
np.testing.assert_array_equal(f(arrays["a"], arrays["b"]), arrays["x"])
assert "tvm" not in sys.modules
"""
    run_python("-c", code)


@pytest.mark.full
@POSIX
def test_threads_a_forked_child_and_an_interrupt() -> None:
    code = """
import os, signal, threading
f = inverse('"n"')
a = np.random.default_rng(0).standard_normal((200, 200)) + 20 * np.eye(200)
expected = np.linalg.inv(a)
right = []
def work():
    for _ in range(10):
        right.append(np.allclose(f(a), expected))
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert right == [True] * 30
child = os.fork()
if child == 0:
    os._exit(0 if np.allclose(f(a), expected) else 1)
assert os.waitpid(child, 0)[1] == 0

source = '''
def forever(a: Tensor[("n", "n"), f64]):
    while a[0, 0] > 0.0:
        a = np.linalg.inv(a)
    return a
'''
forever = nnmagic.compile(source, namespace={"np": np})
main = threading.get_ident()
threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
try:
    forever(2 * np.eye(4))
except KeyboardInterrupt:
    assert np.allclose(f(a), expected)
else:
    raise AssertionError
"""
    run_python("-c", _INVERSE + code)


@pytest.mark.full
def test_scipy_is_imported_where_it_is_needed() -> None:
    """Where it is not installed, an error says what to install."""
    code = """
import importlib.util, sys
norm = "def f(a: Tensor[(2, 2), f64]):\\n    return np.linalg.norm(a)\\n"
assert nnmagic.compile(norm, namespace={"np": np}, cache=False)(np.ones((2, 2))) == 2
assert not any(name.partition(".")[0] == "scipy" for name in sys.modules)
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "scipy" else find_spec(name)
try:
    inverse(9, cache=False)
except nnmagic.EngineError as error:
    assert all(text in str(error) for text in ("SciPy is not installed", "pip install", ":2:12")), error
else:
    raise AssertionError
importlib.util.find_spec = find_spec
inverse(9, cache=False)
assert "scipy.linalg.cython_lapack" in sys.modules
"""
    run_python("-c", _INVERSE + code)


# -- eigenvalues of any square matrix ------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["numpy", pytest.param("relax", marks=pytest.mark.machine_code)])
@pytest.mark.parametrize("kind", ["real", "symmetric", "f32", "ints", "complex", "batch"])
def test_eigenvalues_of_any_square_matrix(kind: str, engine: str) -> None:
    """As complex numbers whatever they are; LAPACK orders and scales them as NumPy has them."""
    a = _normal(5, 5)
    data = {
        "real": a,
        "symmetric": a + a.T,
        "f32": a.astype("float32"),
        "ints": np.arange(9).reshape(3, 3) % 5,
        "complex": a + 1j * a.T,
        "batch": _normal(2, 0, 3, 4, 4) if engine == "numpy" else _normal(2, 4, 4),
    }[kind]
    source = "def f(a):\n    return (*np.linalg.eig(a), np.linalg.eigvals(a))\n"
    got = nnmagic.compile(source, namespace={"np": np}, engine=engine, cache=False)(data)
    single = data.dtype == np.float32
    expected = (*np.linalg.eig(data), np.linalg.eigvals(data))
    for result, numpys in zip(got, expected, strict=True):
        assert result.dtype == ("complex64" if single else "complex128")
        np.testing.assert_allclose(result, numpys, atol=1e-5 if single else 1e-10)


def test_eigenvalues_of_what_is_not_finite_are_refused() -> None:
    for engine in ("numpy", "relax"):
        f = nnmagic.compile(
            "def f(a):\n    return np.linalg.eigvals(a)\n", namespace={"np": np}, engine=engine, cache=False
        )
        with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
            f(np.array([[1.0, np.nan], [0, 1]]))


@pytest.mark.parametrize(
    "p",
    [
        [1, -6, 11, -6],
        [0, 0, 1, 2, 3, 0, 0],
        [2.0],
        [0.0, 0.0],
        [1.5, 0, 0, 0],
        [3, 1j],
        np.float32([1, 0, 1]),
    ],
    ids=str,
)
def test_zeros_of_polynomials(p: Any) -> None:
    given = np.array(p)
    f = nnmagic.compile(
        "def f(p):\n    return np.roots(p)\n", namespace={"np": np}, engine="numpy", cache=False
    )
    expected = np.roots(given)
    assert f(given).shape == expected.shape
    np.testing.assert_allclose(f(given), expected, atol=1e-5)
    coefficients = np.poly(np.diag([1.0, 2, 3]) + 1)
    g = nnmagic.compile(
        "def g(a):\n    return np.poly(a)\n", namespace={"np": np}, engine="numpy", cache=False
    )
    np.testing.assert_allclose(g(np.diag([1.0, 2, 3]) + 1), coefficients)


def test_how_an_einstein_summation_is_contracted_is_known_at_compile_time() -> None:
    body = (
        "path = np.einsum_path('ij,jk,kl->il', a, b, a, optimize='optimal')[0]\n"
        "    return np.einsum('ij,jk,kl->il', a, b, a, optimize=path), path[1], np.real_if_close(a)"
    )
    f = nnmagic.compile(f"def f(a, b):\n    {body}\n", namespace={"np": np}, engine="numpy", cache=False)
    a, b = _normal(3, 4), _normal(4, 3)
    product, step, same = f(a, b)
    np.testing.assert_allclose(product, a @ b @ a)
    assert tuple(step) == np.einsum_path("ij,jk,kl->il", a, b, a, optimize="optimal")[0][1]
    np.testing.assert_array_equal(same, a)
    with pytest.raises(nnmagic.TinyNNError, match="whether the result is complex would depend on the values"):
        nnmagic.compile("def f(a):\n    return np.real_if_close(a)\n", namespace={"np": np})(a + 1j)
