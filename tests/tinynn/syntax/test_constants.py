"""Constants and lambdas above the functions of a cell."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python

CELLS = {
    "arithmetic": "N = 10**9 + 7\nM: float = -N / 2 + np.pi\ndef f(x):\n    return x % N, M\n",
    "a tuple of names": "A, (B, C) = 1, (2.5, 'c')\ndef f(x):\n    return x * A + B, len(C)\n",
    "an array": "K = np.array([[1, 2], [3, 4]], dtype=np.float32)\n"
    "def f(x):\n    return K @ K, K.sum() * x\n",
    "moves": "MOVES = [(0, 1), (1, 0)]\ndef f(x):\n    t = 0\n    for i in range(x):\n"
    "        a, b = MOVES[i % 2]\n"
    "        t += a * 10 + b\n    return t\n",
    "a dictionary": "D = {'a': 1, 'b': [2, 3]}\ndef f(x):\n    return x * D['a'] + D['b'][1]\n",
    "a lambda": "square = lambda v: v * v\ndef f(x):\n    return square(x) + 1\n",
    "a default": "N = 4\ndef f(x, n=N):\n    return x * n\n",
}


@pytest.mark.parametrize("name", CELLS)
def test_constants_are_those_of_python(name: str) -> None:
    assert_as_in_python(CELLS[name], 9)


@pytest.mark.parametrize("value", ["np.zeros(3)", "len('a')", "other", "10**10**10", "1 / 0", "'a' * 2"])
def test_what_must_be_computed_belongs_elsewhere(value: str) -> None:
    with pytest.raises(nnmagic.TinyNNError, match=r"constants, such as n = 3[\s\S]*in another cell"):
        nnmagic.compile(f"N = {value}\ndef f(x: f32):\n    return x\n")


def test_a_constant_is_not_changed() -> None:
    with pytest.raises(nnmagic.TinyNNError, match="cannot be changed here"):
        nnmagic.compile(
            "K = np.array([1, 2])\ndef f(x: i64):\n    K[0] = x\n    return K\n", namespace={"np": np}
        )
