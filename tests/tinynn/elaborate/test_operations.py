"""Lists and tuples beside arrays are the arrays that NumPy makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tinynn.cases import assert_as_in_python

X = np.array([3.0, 1.0, 2.0])
BESIDE = {
    "arithmetic": "return x * [0.5, 1.5, 2.5], [1, 2, 3] + x, x - (1, 2, 3), x / [1, 2, 4]",
    "products": "return x @ [0.5, 1, 2], (1, 2, 3) @ x, np.dot(x, [1, 2, 3]), np.inner([0.5, 1, 1], x)",
    "integers": "k = np.arange(3)\nreturn k * [0.5, 1, 1], k ** [1, 2, 3], np.dot(k, [0.5, 1, 1])",
    "comparisons": "return (x > [1, 1, 2.5]).sum(), (x == [3, 1, 2]).all(), [1, 2, 3] < x",
    "in place": "y = x.copy()\ny += [1, 2, 3]\ny *= (2, 2, 2)\ny[:2] -= [0.5, 1]\nreturn y",
    "numbers of the call": "a = x[0]\nreturn x * [a, 1, a * 2]",
    "rows": "return x * [[1, 2, 3], [4, 5, 6]], [[1], [2]] * x",
    "a list that grew": "a = []\nfor v in x:\n    a.append(v * 2)\nreturn x + a, a * x",
    "repeated lists": "n = int(x[0])\nreturn len([0] * 3), len([1.5] * n)",
}


@pytest.mark.parametrize("name", BESIDE)
def test_lists_beside_arrays(name: str) -> None:
    body = BESIDE[name].replace("\n", "\n    ")
    assert_as_in_python(f"def f(x):\n    {body}\n", X)
