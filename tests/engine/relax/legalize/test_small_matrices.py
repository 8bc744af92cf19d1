"""Small real matrices are factored by loops of our own: NumPy's LAPACK is the judge."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import nnmagic

pytestmark = pytest.mark.sampled(every=4)

CALLS: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
    "np.linalg.inv(a)": lambda a, b: np.linalg.inv(a),
    "np.linalg.solve(a, b)": np.linalg.solve,
    "np.linalg.det(a)": lambda a, b: np.linalg.det(a),
    "np.linalg.slogdet(a)": lambda a, b: tuple(np.linalg.slogdet(a)),
    "np.linalg.cholesky(a @ a.T + np.eye(len(a)))": lambda a, b: np.linalg.cholesky(a @ a.T + np.eye(len(a))),
}


@pytest.mark.machine_code
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 9])
@pytest.mark.parametrize("call", CALLS)
def test_matrices_up_to_the_size_of_loops_and_one_more(call: str, size: int) -> None:
    source = f"def f(a: Tensor[({size}, {size}), f64], b: Tensor[({size}, 2), f64]):\n    return {call}\n"
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    rng = np.random.default_rng(size)
    for _ in range(3):
        a, b = rng.standard_normal((size, size)), rng.standard_normal((size, 2))
        a[0, 0] = 0.0  # rows must be exchanged
        if size == 1:
            a[0, 0] = -2.0
        for one, other in zip(np.atleast_1d(f(a, b)), np.atleast_1d(CALLS[call](a, b)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.machine_code
def test_what_has_no_factors_is_an_error_and_a_determinant_of_zero() -> None:
    source = "def f(a: Tensor[(3, 3), f64]):\n    return {}\n"
    inverse, factor, determinant = (
        nnmagic.compile(source.format(f"np.linalg.{name}(a)"), namespace={"np": np}, cache=False)
        for name in ("inv", "cholesky", "det")
    )
    for singular in (np.zeros((3, 3)), np.ones((3, 3)), np.diag([1.0, 0.0, 2.0])):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            inverse(singular)
        assert determinant(singular) == 0
    for indefinite in (-np.eye(3), np.full((3, 3), np.nan)):
        with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
            factor(indefinite)


@pytest.mark.machine_code
def test_a_batch_with_the_sides_of_each() -> None:
    source = (
        "def f(a: Tensor[(4, 3, 3), f64], b: Tensor[(4, 3, 1), f64]):\n    return np.linalg.solve(a, b)\n"
    )
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((4, 3, 3)), rng.standard_normal((4, 3, 1))
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    np.testing.assert_allclose(f(a, b), np.linalg.solve(a, b), rtol=1e-10)
