"""Calls that look like one before: one kernel where they mean the same, another where they do not."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

X = np.array([[1.5, -2.0], [0.0, 4.0]], "float32")
Y = np.array([[3.0, 0.5], [-1.0, 2.0]], "float32")

CASES = {
    "an array given twice": "(x + x, x + y, y + x, y + y, x - y, y - x, x - x)",
    "attributes": "(x.sum(axis=0), x.sum(axis=1), y.sum(axis=0), x.sum(axis=0, keepdims=True)[0])",
    "numbers": "(x * 2.0, y * 2.0, x * 3.0, x + 2.0, x * x * 2.0)",
    "signs of zero": "(np.copysign(x, -0.0), np.copysign(x, 0.0), x / 0.0, x / -0.0)",
    "shapes": "(x.reshape(4), y.reshape(4), x.reshape(1, 4), x.reshape(4, 1), x.T, y.T.reshape(4))",
    "products": "(x @ y, y @ x, x @ x, x @ y.T, x.T @ y)",
    "dtypes": "(x.astype('float64') + 1.0, x + 1.0, x.astype('int32') + y.astype('int32'))",
    "names": "(exp(x), exp(y), tanh(x), exp(exp(x)), maximum(x, y), minimum(x, y), maximum(y, x))",
    "tuples": "(concatenate((x, y)), concatenate((y, x)), concatenate((x, x)), concatenate((x, y), axis=1))",
    "what else is computed": "(x[x > 0].sum(), y[y > 0].sum(), x[y > 0].sum())",
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_calls_that_look_alike(case: str) -> None:
    text = CASES[case]
    square = "Tensor[(2, 2), f32]"
    source = f"def f(x: {square}, y: {square}):\n    return {text}\n"
    result = nnmagic.compile(source, namespace={"np": np}, cache=False)(X, Y)
    names = {name: getattr(np, name) for name in ("exp", "tanh", "maximum", "minimum", "concatenate")}
    for one, other in zip(result, eval(text, {"x": X, "y": Y, "np": np, **names}), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
        np.testing.assert_array_equal(np.signbit(one), np.signbit(other))


def test_variances_around_other_means() -> None:
    square = "Tensor[(2, 2), f32]"
    source = f"def f(x: {square}, m: Tensor[(2, 1), f32]):\n"
    source += "    return x.var(axis=1), np.var(x, axis=1, mean=m), x.var(axis=1)\n"
    middle = np.array([[3.0], [4.0]], "float32")
    result = nnmagic.compile(source, namespace={"np": np}, cache=False)(X, middle)
    for one, other in zip(result, (X.var(1), ((X - middle) ** 2).mean(1), X.var(1)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_repeats_are_one_kernel() -> None:
    source = "def f(x: Tensor[(2, 2), f32]):\n" + "    x = tanh(x @ x)\n" * 5 + "    return x\n"
    assert nnmagic.compile(source, cache=False).stages["tir"].count("@T.prim_func") <= 2
