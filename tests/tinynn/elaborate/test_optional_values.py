"""Names without types that are None, or have no value, on some paths (tinynn/elaborate/optional_values)."""

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python

X = np.array([3.0, 1.0, 2.0, 5.0, 2.5, 1.0, 3.0, 4.0])

BODIES = [
    "best, at = None, None\nfor i in range(len(x)):\n    if best is None or x[i] > best:\n"
    "        best, at = x[i], i\nreturn best, at",
    "found = None\nfor i, v in enumerate(x):\n    if v == 100 + k:\n        found = i\n"
    "        break\nreturn found",
    "entry, trades = None, []\nfor p in x:\n    if entry is None and p < 3:\n        entry = p\n"
    "    elif entry is not None and p > 3:\n        trades.append((p - entry) / entry)\n"
    "        entry = None\n"
    "return sum(trades), entry",
    "a = None\nfor v in x:\n    if v == k:\n        a = v\nb = a\nc = 5 if b is None else b * 2\nreturn b, c",
    "best, d = None, 1e9\nfor i in range(len(x)):\n    for j in range(i + 1, len(x)):\n"
    "        if abs(x[i] - x[j]) < d:\n            d = abs(x[i] - x[j])\n            best = (i, j)\n"
    "return best, d",
    "for i in range(len(x)):\n    if x[i] == 5:\n        where = i\nreturn where, i",
    "n = k * 50\nwhile n > 1:\n    last = n\n    n = n // 2\nreturn last",
    "score = -1.0\nfor i in range(k * 2):\n    w = x * i + k\n    if w.sum() % 7 > score:\n"
    "        score, best = w.sum() % 7, w.copy()\nreturn best, score",
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:30])
def test_what_is_there_on_some_paths(body: str) -> None:
    text = "def f(x, k):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    assert_as_in_python(text, X, 2)


def test_a_helper_may_return_none() -> None:
    text = """
def find(x, k):
    for i in range(len(x)):
        if x[i] == k:
            return i
    return None

def f(x, k):
    a, b = find(x, k), find(x, 99)
    return -1 if a is None else a, b is None, -2 if b is None else b
"""
    assert_as_in_python(text, X, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "p = None\n    for v in x:\n        if v > 100:\n            p = v\n    return p + 1",
            "`p` is None here",
        ),
        ("for v in x:\n        if v > 100:\n            p = v\n    return p", "`p` has no value here"),
        ("for i in range(k - 2):\n        t = i\n    return t", "`t` has no value here"),
    ],
)
def test_what_is_not_there_raises(text: str, message: str) -> None:
    function = nnmagic.compile(f"def f(x, k):\n    {text}\n", engine="numpy", cache=False)
    with pytest.raises(ValueError, match=message):
        function(X, 2)
