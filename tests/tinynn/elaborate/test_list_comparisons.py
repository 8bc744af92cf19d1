"""Comparisons of lists, and the greatest and least of lists of lists, beside Python's (list_comparisons)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tinynn.cases import assert_as_in_python

COMPARED = "def f(a, b):\n    return a < b, a == b, a != b, a <= b, a > b, a >= b\n"
X = np.random.default_rng(0).random((4, 3))


@pytest.mark.parametrize(
    ("a", "b"),
    [([1, 2, 3], [1, 2]), ([1.5, 2, 3], [1, 5]), ([], [1, 5]), ([1, 5], [1, 5]), ([1, 5], [1, 4, 9])],
)
def test_lists_are_compared_item_by_item(a: list[float], b: list[float]) -> None:
    assert_as_in_python(COMPARED, a, b)


@pytest.mark.parametrize(
    "result",
    [
        "max(p), min(p), np.max(p), max(p[0])",
        "p[0] + [1.0], p[2] < p[3], p[1] == p[1], sorted(p)[0] < p[0]",
        "sum([len(row * 2 + row) for row in sorted(p)]), max(p[0], p[1]), min([3, 1], [1, 9])",
        "max([[x[0, 0], 2.0], [x[1, 0], 3.0]]), max([[1.0, 2.0], [4.0, 3.0]]), np.max([[1.0, "
        "2.0], [4.0, 3.0]])",
        "[v for v in x[0] if v > 0.5] == [], [] < p[0], p[0][:1] < p[0]",
    ],
)
def test_lists_of_lists(result: str) -> None:
    assert_as_in_python(f"def f(x):\n    p = x.tolist()\n    _ = p\n    return {result}\n", X)
