"""Lists of tuples that are sorted (`nnmagic/tinynn/builtins/sorted_lists.py`)."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python


@pytest.mark.parametrize(
    "body",
    [
        "p = list(zip(x, y))\np.sort()\nreturn p[0][0], p[1]",
        "p = sorted(zip(x, y))\nq = sorted(zip(x, y), reverse=True)\nreturn p[0][0], p[1][0], q[0], len(q)",
        "p = [(x[i], y[i]) for i in range(2)]\np.sort(key=lambda t: t[1], reverse=True)\n"
        "return p[0][0] // 2, p[1]",
        "p = sorted(zip(x, y), key=lambda t: (t[0], -t[1]))\nreturn p[0], p[1][0]",
        "p = sorted(zip(x[x > 3] % 8, y), reverse=True)\nreturn p[0][0] // 2, p[-1]",
        "p = sorted(zip([3, 1, 1, 3], [1.0, 2.0, 2.0, 0.5], [0, 1, 2, 3]), reverse=True)\n"
        "return p[1], p[2], p[3]",
    ],
    ids=lambda body: body[:30],
)
def test_tuples_are_sorted_by_exact_parts(body: str) -> None:
    text = "def f(x, y):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    assert_as_in_python(text, np.array([2**60 + 5, 2**60 + 1]), np.array([1.5, 2.0]))


def test_tuples_in_tuples_are_sorted_by_a_key() -> None:
    text = "def f(x):\n    p = [((x[i], 1), (x[i], 2)) for i in range(2)]\n    return len(sorted(p))\n"
    with pytest.raises(nnmagic.TinyNNError, match="tuples that hold tuples cannot be sorted"):
        nnmagic.compile(text, engine="numpy", cache=False)(np.array([2, 1]))
