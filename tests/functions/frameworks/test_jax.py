"""`f.jax`: compiled functions as functions of JAX; JAX's own computation is the judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import nnmagic

jax = pytest.importorskip("jax")

Pair = tuple[Callable[..., Any], Callable[..., Any]]


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture(scope="module")
def pair() -> Pair:
    squares = nnmagic.compile(
        'def squares(x: Tensor[("n", 3), f64], w: Tensor[(3,), f64], k: i64 = 2):\n'
        "    return (x @ w) ** 2 * k, x.sum(), k + 1\n"
    )
    return squares.jax, lambda x, w, k=2: ((x @ w) ** 2 * k, x.sum(), k + 1)


@pytest.fixture
def given() -> tuple[Any, Any]:
    x = np.random.default_rng(1).normal(size=(5, 3))
    return jax.numpy.asarray(x), jax.numpy.asarray(x[0] + 1)


def test_values_gradients_and_batches(pair: Pair, given: Any) -> None:
    x, w = given
    rows = jax.numpy.stack([x, 2 * x, -x])
    results = []
    for f in pair:

        def loss(w: Any, x: Any, f: Callable[..., Any] = f) -> Any:
            return jax.numpy.sin(f(x, w)[0]).sum()

        results.append(
            [
                *f(x, w),
                *jax.jit(f)(x, w, k=3),
                jax.jit(jax.grad(loss))(w, x),
                jax.jacrev(jax.grad(loss))(w, x),
                *jax.vmap(f, (0, None))(rows, w)[:2],
                jax.vmap(jax.grad(loss), (None, 0))(w, rows),
                jax.vmap(jax.vmap(f, (0, None)), (None, 0))(rows, rows[:, 0])[0],
                jax.vmap(f, (0, None))(rows[:0], w)[0],
            ]
        )
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_function_without_types_and_a_tuple(given: Any) -> None:
    @nnmagic.function
    def total(p, axis=0):  # type: ignore[no-untyped-def] # what the test is about
        return np.tanh(p[0]).sum(axis=axis) * p[1]

    x, _ = given
    np.testing.assert_allclose(total.jax((x, 2.0), axis=1), np.tanh(x).sum(1) * 2)
    gradient = jax.grad(lambda x: total.jax((x, 2.0), axis=1).sum())(x)
    np.testing.assert_allclose(gradient, 2 / np.cosh(x) ** 2)


def test_gradients_of_complex_numbers_are_jaxs() -> None:
    f = nnmagic.compile('def f(z: Tensor[("n",), c128]):\n    return (abs(z * z + 1.0) ** 2).sum()')
    z = jax.numpy.asarray([0.5 + 1j, -2 - 0.3j])
    theirs = jax.grad(lambda z: (abs(z * z + 1.0) ** 2).sum())(z)
    np.testing.assert_allclose(jax.grad(f.jax)(z), theirs, rtol=1e-12)


def test_errors_come_at_the_call_or_from_the_run(pair: Pair, given: Any) -> None:
    x, w = given
    with pytest.raises(ValueError, match="dimension 1 must be 3, not 2"):
        jax.jit(pair[0])(x[:, :2], w)
    with pytest.raises(TypeError, match="not an array of float32"):
        pair[0](x.astype("float32"), w)
    positive = nnmagic.compile('def positive(x: Tensor[("n",), f32]): return x[x > 0]')
    with pytest.raises(TypeError, match="a size that its values decide"):
        positive.jax(w.astype("float32"))
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(TypeError, match="jax_enable_x64"):
        pair[0](x, w)


def test_an_assertion_of_a_cell_stops_the_computation() -> None:
    f = nnmagic.compile(
        'def f(x: Tensor[(1,), f64]):\n    assert x[0] > 0.0, "must be positive"\n    return x'
    )
    with pytest.raises(jax.errors.JaxRuntimeError, match="must be positive"):
        jax.block_until_ready(jax.jit(f.jax)(jax.numpy.zeros(1)))
