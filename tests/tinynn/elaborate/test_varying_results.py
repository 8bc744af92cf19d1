"""Functions that return None, or a string, on some paths."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python

X = np.array([3.0, 1.0, 2.0])
BODIES = {
    "a place or None": "for i in range(len(x)):\n    if x[i] < limit:\n        return i\nreturn None",
    "a number or None": "return x.max() if x.max() > limit else None",
    "rows or None": "if x.sum() < limit:\n    return None\nreturn x[x > 1]",
    "a tuple with None": "if x.sum() < limit:\n    return None, x\nreturn x.sum(), x * 2",
    "a tuple or None": "if x.sum() < limit:\n    return None\nreturn x.sum(), x * 2",
    "one of three strings": "return 'low' if x[0] < limit else 'high' if x[1] < limit else None",
    "a string beside a number": "if x.sum() < limit:\n    return 'low', 0.0\nreturn 'high', x.sum()",
    "one string": "return 'sum', x.sum(), None",
    "a record of strings": "return {'name': 'a', 'value': x.sum() + limit}",
}


@pytest.mark.parametrize("limit", [0.0, 1.5, 100.0])
@pytest.mark.parametrize("name", BODIES)
def test_results_are_pythons(name: str, limit: float) -> None:
    body = BODIES[name].replace("\n", "\n    ")
    assert_as_in_python(f"def f(x, limit):\n    {body}\n", X, limit)


def test_machine_code_returns_none() -> None:
    text = (
        "def f(x: Tensor[('n',), f64], limit: f64):\n    for i in range(len(x)):\n        if x[i] < limit:\n"
    )
    function = nnmagic.compile(text + "            return i\n    return None\n")
    assert function(X, 2.5) == 1
    assert function(X, 0.0) is None


def test_another_function_of_the_cell_cannot_read_it() -> None:
    text = "def g(x: f64):\n    return 'a' if x > 0 else 'b'\n\ndef f(x: f64):\n    y = g(x)\n    return y\n"
    with pytest.raises(
        nnmagic.TinyNNError, match=r"only Python can read[\s\S]*return a number that says which"
    ):
        nnmagic.compile(text, engine="numpy")
