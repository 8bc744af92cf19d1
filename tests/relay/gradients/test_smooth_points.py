"""Gradients where a function is smooth, and its formula is not; and PyTorch's where it is not smooth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import nnmagic


def gradient_of(
    body: str, *shapes: str, engine: str = "numpy", call: str = "grad(h)(x)"
) -> Callable[..., np.ndarray]:
    """Compile the gradient of a function of ``x`` and ``y``, of float64."""
    params = ", ".join(f"{name}: Tensor[{shape}, f64]" for name, shape in zip("xyz", shapes, strict=False))
    source = f"def h({params}):\n    return {body}\ndef f({params}):\n    return {call}\n"
    return nnmagic.compile(source, namespace={"np": np}, engine=engine)


def cofactors(a: np.ndarray) -> np.ndarray:
    """The derivative of the determinant: a determinant for each element."""
    result = np.ones_like(a)
    for i, j in np.ndindex(*a.shape):
        minor = np.delete(np.delete(a, i, 0), j, 1)
        result[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return result


def matrices(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    regular = rng.standard_normal((n, n))
    singular, almost = regular.copy(), regular.copy()
    singular[-1] = 2 * singular[0] if n > 1 else 0
    almost[-1] = almost[0] * (1 + 1e-13)
    vector = np.round(3 * regular[0])
    return {
        "regular": regular,
        "singular": singular,
        "almost singular": almost,
        "rank 1": np.outer(vector, vector),
        "zeros": np.zeros((n, n)),
        "numbers": np.arange(1.0, n * n + 1).reshape(n, n),
    }


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("named", [False, True])
def test_the_gradient_of_det_is_the_cofactors(n: int, named: bool) -> None:
    shape = "('n', 'n')" if named else f"({n}, {n})"
    gradient = gradient_of("np.linalg.det(x)", shape)
    for kind, a in matrices(n).items():
        scale = max(1.0, np.abs(a).max() ** (n - 1))
        np.testing.assert_allclose(gradient(a), cofactors(a), atol=1e-11 * scale, err_msg=kind)


def test_second_derivatives_of_determinants_of_a_batch() -> None:
    source = (
        "def h(x: Tensor[('b', 4, 4), f64]):\n"
        "    return np.linalg.det(x).sum()\n"
        "def k(x: Tensor[('b', 4, 4), f64], v: Tensor[('b', 4, 4), f64]):\n"
        "    return (grad(h)(x) * v).sum()\n"
        "def f(x: Tensor[('b', 4, 4), f64], v: Tensor[('b', 4, 4), f64]):\n"
        "    return grad(k)(x, v)\n"
    )
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((3, 4, 4)), rng.standard_normal((3, 4, 4))
    x[1, :, 0], x[2] = x[1, :, 1], np.eye(4)
    found = nnmagic.compile(source, namespace={"np": np}, engine="numpy")(x, v)
    expected, step = np.zeros_like(x), 1e-5
    for index in np.ndindex(*x.shape):
        matrix = index[0]
        moved = np.zeros((4, 4))
        moved[index[1:]] = step
        change = cofactors(x[matrix] + moved) - cofactors(x[matrix] - moved)
        expected[index] = (change * v[matrix]).sum() / (2 * step)
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.machine_code
@pytest.mark.full
def test_determinants_in_machine_code() -> None:
    for n in (2, 4):
        gradient = gradient_of("np.linalg.det(x)", f"({n}, {n})", engine="auto")
        for a in matrices(n).values():
            np.testing.assert_allclose(gradient(a), cofactors(a), atol=1e-9)


@pytest.mark.parametrize(
    ("body", "x", "expected"),
    [
        ("relu6(x)", [-1, 0, 3, 6, 7], [0, 0, 1, 0, 0]),
        ("hardtanh(x)", [-2, -1, 0, 1, 2], [0, 0, 1, 0, 0]),
        ("hardtanh(x, -2.0, 0.5)", [-3, -2, 0, 0.5, 2], [0, 0, 1, 0, 0]),
        ("hardsigmoid(x)", [-4, -3, 0, 3, 4], [0, 0, 1 / 6, 0, 0]),
        ("hardswish(x)", [-4, -3, 0, 3, 4], [0, 0, 0.5, 1, 1]),
        ("np.clip(x, 0.0, 6.0)", [-1, 0, 3, 6, 7], [0, 1, 1, 1, 0]),
        ("relu(x)", [-1, 0, 3, 6, 7], [0, 0, 1, 1, 1]),
    ],
)
def test_the_ends_of_a_range(body: str, x: list[float], expected: list[float]) -> None:
    gradient = gradient_of(f"{body}.sum()", "(5,)")(np.array(x, float))
    np.testing.assert_allclose(gradient, expected, rtol=1e-15)


def test_limited_values_are_those_of_clip() -> None:
    source = (
        "def f(x: Tensor[(6,), f32], i: Tensor[(3,), i32]):\n    return relu6(x), hardtanh(x), relu6(i)\n"
    )
    x = np.array([np.nan, -np.inf, np.inf, -0.5, 0.5, 7], np.float32)
    six, one, whole = nnmagic.compile(source, engine="numpy")(x, np.array([-1, 3, 9], np.int32))
    np.testing.assert_array_equal(six, np.clip(x, 0, 6))
    np.testing.assert_array_equal(one, np.clip(x, -1, 1))
    assert whole.tolist() == [0, 3, 6]


EQUATIONS = [
    *("ii->i", "ii->", "ii", "ij,jj->i", "iij->ij", "iij->j", "ii,i->i", "iij,jk->ik"),
    *("iiii->i", "ijij->ij", "...ii->...i"),
]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_repeated_letters_of_einsum(equation: str) -> None:
    ranks = [len(each.replace("...", "b")) for each in equation.split("->", maxsplit=1)[0].split(",")]
    shapes = ["(" + "3, " * rank + ")" for rank in ranks]
    names, numbers = ", ".join("xyz"[: len(ranks)]), tuple(range(len(ranks)))
    body = f"(np.sin(np.einsum('{equation}', {names}))).sum()"
    gradient = gradient_of(body, *shapes, call=f"grad(h, argnums={numbers})({names})")
    rng, step = np.random.default_rng(0), 1e-6
    operands = [rng.standard_normal((3,) * rank) for rank in ranks]
    for number, found in enumerate(gradient(*operands)):
        for index in list(np.ndindex(*found.shape))[:: max(1, found.size // 9)]:
            ends = []
            for sign in (1, -1):
                moved = [each.copy() for each in operands]
                moved[number][index] += sign * step
                ends.append(np.sin(np.einsum(equation, *moved)).sum())
            np.testing.assert_allclose(found[index], (ends[0] - ends[1]) / (2 * step), atol=1e-7)


def test_infinite_cotangents_stay_on_the_diagonal() -> None:
    found = gradient_of("np.sqrt(np.einsum('ii->i', x)).sum()", "(2, 2)")(np.zeros((2, 2)))
    np.testing.assert_array_equal(found, [[np.inf, 0], [0, np.inf]])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("grad(h)(x=x, y=y)", [0, 8, 16]),
        ("grad(h)(y=y, x=x)", [0, 8, 16]),
        ("grad(h)(x, y=y)", [0, 8, 16]),
        ("grad(h)(x=x)", [0, 4, 8]),
        ("grad(h, argnums=1)(x, y=y)", 5),
        ("grad(h, argnums=(1, 0))(y=y, x=x)[0]", 5),
        ("grad(h, argnums=-1)(x, y=y)", [0, 8, 16]),
        ("grad(h, argnums=-1)(x=x, y=y)", 5),
        ("value_and_grad(h)(x=x, y=y)[1]", [0, 8, 16]),
        ("jacobian(h)(y=y, x=x)", [0, 8, 16]),
        ("hessian(h)(y=y, x=x)[1]", [0, 8, 0]),
        ("grad(lambda v, w: h(v, w))(w=y, v=x)", [0, 8, 16]),
    ],
)
def test_arguments_by_keyword(call: str, expected: object) -> None:
    source = (
        "def h(x: Tensor[(3,), f64], y: f64 = 2.0):\n    return (x * x * y).sum()\n"
        f"def f(x: Tensor[(3,), f64], y: f64):\n    return {call}\n"
    )
    np.testing.assert_allclose(nnmagic.compile(source, engine="numpy")(np.arange(3.0), 4.0), expected)
