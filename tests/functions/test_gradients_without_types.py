"""Gradients and ``vmap`` of functions without types, in cells too (functions/derivatives/transformations)."""

from __future__ import annotations

import pickle

import numpy as np
import numpy.typing as npt
import pytest

import nnmagic
from nnmagic import SpecializingFunction, Tensor, f32

X = np.array([0.5, -1.0, 2.0])
Y = np.array([1.0, 0.0, 3.0])


@nnmagic.function(engine="numpy")
def loss(w, x, y=0.0, *, power=2):
    """Return the sum of a power of the errors."""
    return ((w * x - y) ** power).sum()


@nnmagic.function(engine="numpy")
def cube(x):
    return x**3


def in_cell(text: str, *arguments: np.ndarray) -> object:
    parameters = ", ".join(f"a{number}: Tensor[{each.shape}, f64]" for number, each in enumerate(arguments))
    names = {"loss": loss, "cube": cube}
    f = nnmagic.compile(f"def f({parameters}):\n    return {text}\n", engine="numpy", namespace=names)
    return f(*arguments)


def gradient(w: np.ndarray, x: np.ndarray, y: np.ndarray | float, power: int = 2) -> np.ndarray:
    return power * (w * x - y) ** (power - 1) * x


def test_the_gradient_is_compiled_for_the_types_of_each_call() -> None:
    made = nnmagic.grad(loss)
    assert isinstance(made, SpecializingFunction)
    np.testing.assert_allclose(made(X, Y), gradient(X, Y, 0.0))
    np.testing.assert_allclose(made(X, Y, X, power=3), gradient(X, Y, X, 3))
    assert made(X.astype("f4"), Y.astype("f4")).dtype == "f4"
    np.testing.assert_allclose(made(2.0, 3.0), 36.0)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(made))(X, Y), gradient(X, Y, 0.0))


def test_values_argnums_and_several() -> None:
    value, found = nnmagic.value_and_grad(loss, argnums=(0, 1))(X, Y)
    np.testing.assert_allclose(value, ((X * Y) ** 2).sum())
    np.testing.assert_allclose(found[1], gradient(Y, X, 0.0))
    np.testing.assert_allclose(nnmagic.grad(nnmagic.grad(cube))(2.0), 12.0)
    np.testing.assert_allclose(nnmagic.hessian(loss)(X, Y), np.diag(2 * Y * Y))
    np.testing.assert_allclose(nnmagic.jacobian(cube)(X), np.diag(3 * X * X))
    result, pulled = nnmagic.vjp(cube)(X, Y)
    np.testing.assert_allclose(result, X**3)
    np.testing.assert_allclose(pulled[0], 3 * X * X * Y)
    np.testing.assert_allclose(nnmagic.jvp(cube)(X, Y)[1], 3 * X * X * Y)


def test_vmap() -> None:
    rows = np.stack([X, Y])
    np.testing.assert_allclose(
        nnmagic.vmap(loss, in_axes=(0, None, None, None))(rows, Y), ((rows * Y) ** 2).sum(1)
    )
    np.testing.assert_allclose(nnmagic.vmap(cube)(rows), rows**3)
    each = nnmagic.vmap(nnmagic.grad(cube))
    np.testing.assert_allclose(each(X), 3 * X * X)

    @nnmagic.function(engine="numpy")
    def part(x: Tensor[..., f32], axis=0):
        return x.sum(axis=axis)

    np.testing.assert_allclose(nnmagic.vmap(part, in_axes=(1, None))(rows.astype("f4")), rows.sum(0))


IN_CELLS = {
    "grad(loss)(a0, a1)": lambda: gradient(X, Y, 0.0),
    "grad(loss, argnums=1)(a0, a1, power=3)": lambda: gradient(Y, X, 0.0, 3),
    "value_and_grad(loss)(a0, a1, y=1.0)[1]": lambda: gradient(X, Y, 1.0),
    "vmap(cube)(a0)": lambda: X**3,
    "vmap(grad(cube))(a0)": lambda: 3 * X * X,
    "vmap(loss, in_axes=(0, None))(a0, 2.0)": lambda: (X * 2.0) ** 2,
    "jacobian(cube)(a0)": lambda: np.diag(3 * X * X),
    "vjp(cube, a0)[1](a1)[0]": lambda: 3 * X * X * Y,
    "jvp(cube, (a0,), (a1,))[1]": lambda: 3 * X * X * Y,
    "checkpoint(cube)(a0)": lambda: X**3,
    "tree_map(cube, (a0, a1))[1]": lambda: Y**3,
}


@pytest.mark.parametrize("text", IN_CELLS)
def test_a_later_cell_differentiates_it(text: str) -> None:
    np.testing.assert_allclose(in_cell(text, X, Y), IN_CELLS[text]())


def test_what_is_written_of_types_is_kept() -> None:
    names = {"np": np, "npt": npt}
    f = nnmagic.compile(
        "def f(x: npt.NDArray[np.float64], k: float = 2.0) -> float:\n    return (x * x).sum() * k\n",
        namespace=names,
        engine="numpy",
    )
    np.testing.assert_allclose(nnmagic.grad(f)(X), 4 * X)
    np.testing.assert_allclose(nnmagic.vmap(f, in_axes=(0, None))(np.stack([X, Y]), 1.0), [X @ X, Y @ Y])
    with pytest.raises(TypeError, match="float32"):
        nnmagic.grad(f)(X.astype("f4"))


def test_what_has_no_gradient_says_why() -> None:
    with pytest.raises(nnmagic.TinyNNError, match="not a float of rank 0"):
        nnmagic.grad(cube)(X)
    with pytest.raises(nnmagic.TinyNNError, match="only floats have a gradient"):
        nnmagic.grad(cube)(3)
    with pytest.raises(TypeError, match="takes a compiled function, not a function"):
        nnmagic.grad(lambda x: x)
    with pytest.raises(ValueError, match="in_axes has 2 axes, but there are 4 parameters"):
        nnmagic.vmap(loss, in_axes=(0, None))
