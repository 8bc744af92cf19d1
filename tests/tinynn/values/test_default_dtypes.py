"""Arrays that NumPy's functions make without a dtype have NumPy's, and meet others as in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from nnmagic import TinyNNError

pytestmark = pytest.mark.filterwarnings("ignore:note. .* (f64|c128):nnmagic.TinyNNWarning")
X = np.random.default_rng(3).random((4, 3)).astype("float32")
INTEGERS = np.arange(6, dtype="int32")


def compiled(expression: str) -> nnmagic.SpecializingFunction:
    function = nnmagic.compile(f"def f(x):\n    return {expression}\n", namespace={"np": np})
    assert isinstance(function, nnmagic.SpecializingFunction)
    return function


BESIDE_FLOATS = [
    "x * np.ones(3)",
    "np.zeros((4, 3)) + x",
    "x @ np.eye(3)",
    "np.tri(3) @ x.T",
    "x + np.arange(3)",
    "x * (np.arange(x.shape[1]) + 1)",
    "np.linspace(0, 1, 3) * x",
    "np.array([1, 2, 3]) * x",
    "np.full(3, 2.5) - x",
    "-np.ones(3) + x",
    "x * np.sin(np.arange(3) * 0.1)[None, :]",
    "x + np.arange(3)[:2][0]",
    "np.where(x > 0.5, x, np.zeros(3))",
    "np.concatenate([x, np.zeros((1, 3))])",
    "np.stack([np.ones((4, 3)), x])",
    "np.maximum(np.zeros(3), x)",
    "np.dot(x, np.ones(3))",
    "np.outer(x[0], np.arange(3))",
    "np.clip(x, 0, np.ones(3))",
    "np.einsum('ij,j->i', x, np.ones(3))",
]


@pytest.mark.parametrize("expression", BESIDE_FLOATS)
def test_beside_floats_they_meet_as_in_numpy(expression: str) -> None:
    result = compiled(expression)(X)
    expected = eval(expression, {"np": np, "x": X})
    # An integer array takes the dtype of the floats.
    is_integer = ("arange" in expression and "sin" not in expression) or "array([1" in expression
    assert result.dtype == (np.float32 if is_integer else expected.dtype)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.full
def test_beside_complex_numbers() -> None:
    z = X[0] + 1j * X[1]
    for expression in ("np.zeros(3) + x", "np.arange(3) * x", "np.dot(np.eye(3), x) + np.ones(3)"):
        for dtype in ("complex64", "complex128"):
            result = compiled(expression)(z.astype(dtype))
            assert result.dtype == np.complex128
            np.testing.assert_allclose(result, eval(expression, {"np": np, "x": z}), rtol=1e-6)
    result = compiled("np.linspace(-2, 1, 4) + 1j * np.arange(4) + x")(2.0)
    np.testing.assert_allclose(result, np.linspace(-2, 1, 4) + 1j * np.arange(4) + 2)


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        ("x + np.arange(6)", "int64"),
        ("x * np.ones(6)", "float64"),
        ("x + np.array([True, False] * 3)", "int32"),
        ("(x > 2) + np.arange(6)", "int64"),
        ("(x > 2) * np.ones(6)", "float64"),
    ],
)
def test_beside_integers(expression: str, dtype: str) -> None:
    result = compiled(expression)(INTEGERS)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, eval(expression, {"np": np, "x": INTEGERS}))


@pytest.mark.parametrize(
    "expression",
    ["np.ones(3)", "np.arange(3)", "np.arange(3) / 2", "np.eye(2) + np.arange(2)", "np.array([True, False])"],
)
def test_alone_they_have_the_dtype_of_numpy(expression: str) -> None:
    result = compiled(expression)(X)
    expected = eval(expression, {"np": np})
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("rounds", [2, 40])
@pytest.mark.parametrize("step", ["acc = acc + x[i]", "acc += x[i]"])
def test_what_a_loop_adds_up(rounds: int, step: str) -> None:
    source = (
        'def f(x: Tensor[("n", 3), f32]) -> Tensor[(3,), f32]:\n    acc = np.zeros(3)\n'
        f"    for i in range(len(x)):\n        {step}\n    return acc\n"
    )
    x = np.random.default_rng(rounds).random((rounds, 3)).astype("float32")
    np.testing.assert_allclose(nnmagic.compile(source, namespace={"np": np})(x), x.sum(0), rtol=1e-6)


def test_branches_and_arguments() -> None:
    source = (
        'def g(x: Tensor[("n",), f32]):\n    return x * 2\n\n'
        "def f(x: Tensor[(3,), f32], k: f32):\n    if k > 0:\n        y = np.zeros(3)\n"
        "    else:\n        y = x\n    return y, g(np.ones(3))\n"
    )
    f = nnmagic.compile(source, namespace={"np": np})
    for k, expected in ((1.0, np.zeros(3)), (-1.0, X[0])):
        y, twice = f(X[0], k)
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(twice, [2, 2, 2])
        assert (y.dtype, twice.dtype) == (np.float64, np.float32)


@pytest.mark.parametrize(
    ("expression", "dtype", "message"),
    [
        ("np.full(3, 1e300)", "f32", "holds numbers that f32 cannot hold"),
        ("np.arange(3) * 2", "u8", "may not fit u8"),
        ("np.array([1, 2, 300])", "u8", "holds numbers that u8 cannot hold"),
    ],
)
def test_what_would_lose_numbers_is_refused(expression: str, dtype: str, message: str) -> None:
    source = f"def f() -> Tensor[(3,), {dtype}]:\n    return {expression}\n"
    with pytest.raises(TinyNNError, match=message) as caught:
        nnmagic.compile(source, namespace={"np": np})
    assert str(caught.value.diagnostics[0].hint).startswith("say what is meant, as in ")
