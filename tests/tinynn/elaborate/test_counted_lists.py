"""Lists to which only some rounds of a loop append, beside the same source as Python on NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import nnmagic

X = np.array([0.5, -1.0, 2.0, 3.0, -4.0, 0.25, 7.0])


def check(body: str, *, n: int = 7) -> None:
    """Compare all lengths up to ``n``, with one compilation."""
    lines = "\n    ".join(body.split("\n"))
    source = f'def f(x: Tensor[("n",), f64], k: i64):\n    {lines}\n'
    names: dict[str, Any] = {"np": np}
    exec(re.sub(r": (Tensor\[.*?\), \w+\]|i64)", "", source), names)
    compiled = nnmagic.compile(source, namespace={"np": np})
    for size in range(n + 1):
        expected, got = (function(X[:size], 2) for function in (names["f"], compiled))
        expected, got = (each if isinstance(each, tuple) else (each,) for each in (expected, got))
        for one, other in zip(got, expected, strict=True):
            if np.size(other):
                assert np.shape(one) == np.shape(other)
                np.testing.assert_allclose(one, other, rtol=1e-12)
            else:
                assert np.size(one) == 0


@pytest.mark.full("body5")
@pytest.mark.parametrize(
    "body",
    [
        """rows = []
for v in x:
    if v > 0:
        rows.append(v * 2)
return np.array(rows), len(rows)""",
        """rows, signs = [1.0], []
for i in range(len(x)):
    if x[i] < 0:
        rows.append(x[i])
        continue
    elif x[i] > rows[-1]:
        rows.append(rows[-1] + x[i])
        rows.append(len(rows) + 0.5)
    signs.append(i)
return np.array(rows), np.array(signs)""",
        """rows = [[0.0, 1.0]]
for v in x:
    if v > 0:
        rows.append([v, 2 * v])
        rows.append([v, 3 * v])
        rows.append(rows[-1])
return np.array(rows), len(rows)""",
        """rows, others, total = [1.5], [], 0.0
for v in x:
    if False:
        rows.append(v)
        others.append(v)
    total += rows[-1] * v
return np.array(rows), len(rows), len(others), total""",
        """best = []
for i in range(len(x)):
    if len(best) >= k:
        break
    if x[i] > 0:
        best.append(np.array([x[i], i]))
total = 0.0
for row in best:
    total += row[0]
return total, len(best)""",
        """places, values = [], []
for i in range(len(x)):
    values.append(x[i])
    if x[i] > 1:
        places.append(i)
return np.array(places), np.array(values), sum(places)""",
        """even = []
for i in range(8):
    if i % 2 == 0:
        even.append(i)
return np.array(even), len(even)""",
        """rows = [0.5]
for i in range(3):
    if x.sum() > i:
        rows.append(rows[-1] * 0.5 + i)
        break
return np.array(rows).sum(), len(rows)""",
    ],
)
def test_rounds_that_append_or_not(body: str) -> None:
    check(body)


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ("if v > 0:\n    rows.append(rows[0])", "nothing says of what type the items"),
        ("if v > 0:\n    rows.append(v)\nelse:\n    rows.append(v > 1)", "different types"),
    ],
)
def test_refusals(statements: str, message: str) -> None:
    lines = "\n        ".join(statements.split("\n"))
    body = f"rows = []\n    for v in x:\n        {lines}\n    return rows"
    with pytest.raises(nnmagic.TinyNNError, match=message):
        nnmagic.compile(f'def f(x: Tensor[("n",), f64]):\n    {body}\n', namespace={"np": np})


@pytest.mark.machine_code
def test_ranges_of_any_step() -> None:
    source = """
def f(a: i64, b: i64, s: i64):
    t, last = 0, -1
    for i in range(a, b, s):
        t += i * i
        last = i
    for i in reversed(range(a, b, s)):
        t = t * 2 + i
    return t, last
"""
    names: dict[str, Any] = {}
    exec(source.replace(": i64", ""), names)
    f = nnmagic.compile(source)
    for bounds in (0, 10, 3), (10, 0, -3), (0, 10, -1), (5, 5, 2), (2, 3, 7), (9, -4, -2):
        assert tuple(map(int, f(*bounds))) == names["f"](*bounds)
    with pytest.raises(IndexError, match=r"the step of a range or of a slice cannot be zero"):
        f(0, 3, 0)
    with pytest.raises(nnmagic.TinyNNError, match="that says how it runs"):
        nnmagic.compile(source.replace("in range(a, b, s)", "in parallel(a, b, s)"))
