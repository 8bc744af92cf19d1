"""Names whose values on several paths have other sizes, each of which is known."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python

X = np.array([1.5, 2.0, 7.0, 9.0])
BODIES = {
    "slices": "if c:\n    y = x[:2]\nelse:\n    y = x[:3]\nreturn y.sum()",
    "a parameter": "if c:\n    y = x[:2]\nelse:\n    y = x\nreturn y.sum() + y[0], y.shape[0]",
    "three paths": "if c:\n    y = x[:2]\nelif x[0] > 5:\n    y = x\nelse:\n    y = x[1:]\nreturn y[-1]",
    "two names": "if c:\n    y, z = x[:2], 1.0\nelse:\n    y, z = x, 3.0\nreturn y.sum() + z",
    "an expression": "return (x[:2] if c else x).sum()",
    "constants": "y = np.arange(3) if c else np.arange(5)\nreturn y.sum()",
    "rows": "y = x[None] if c else x.reshape((2, 2))\nreturn y.sum(axis=0).max() + y.shape[0]",
    "tuples": "y, z = (x, x[:1]) if c else (x[:2], x[2:])\nreturn y.sum() - z.sum()",
    "lists": "y = [x, x[:1]] if c else [x[:2], x[2:]]\nreturn y[0].sum() - y[1].sum()",
    "in a loop": "y = x\nwhile len(y) > 1:\n    y = y[1:] if c else y[:-1]\nreturn y.sum()",
}


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("name", BODIES)
def test_paths_may_leave_other_sizes(name: str, c: bool) -> None:
    body = BODIES[name].replace("\n", "\n    ")
    assert_as_in_python(
        f"def f(x: Tensor[(4,), f64], c: bool):\n    {body}\n", X, c, Tensor=nnmagic.Tensor, f64="f64"
    )


@pytest.mark.parametrize("opt_level", [0, 3])
def test_machine_code_and_gradients_take_them(opt_level: int) -> None:
    text = (
        "def loss(x: Tensor[(4,), f64], c: bool) -> f64:\n    y = x[:2] if c else x * 2\n"
        "    return (y * y).sum()\n\n"
        "def f(x: Tensor[(4,), f64], c: bool):\n    return value_and_grad(loss)(x, c)\n"
    )
    function = nnmagic.compile(text, opt_level=opt_level)
    value, gradient = function(X, True)
    assert value == (X[:2] ** 2).sum()
    np.testing.assert_array_equal(gradient, [3, 4, 0, 0])
    np.testing.assert_array_equal(function(X, False)[1], 8 * X)
