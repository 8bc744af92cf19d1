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
    "a, s = None, 0\nfor v in x:\n    if not a or v > a:\n        a, s = v, s + 1\n"
    "b = None if s else a\nreturn a, s, b",
    "b, t = None, None\nfor v in x:\n    if v == k:\n        b = v\n    b, t = t, b\n"
    "kinds = isinstance(b, float), isinstance(b, int), isinstance(t, float)\n"
    "kinds += (isinstance(t, (float, type(None))),)\n"
    "return b, t, kinds, 1 if b else 2, b == None, t != None",
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


FIND = """
def find(x, k):
    for i in range(len(x)):
        if x[i] == k:
            return i
    return None
"""


def test_what_a_helper_returns_is_asked_where_it_is_called() -> None:
    text = """
def f(x, k):
    if (i := find(x, k)) is not None and i > 0:
        k = i + 10
    k = 1 if find(x, 99) else 2
    return k, 1 if find(x, 3) else 2, find(x, 3) == None, not find(x, 1), find(x, 5) + 1
"""
    assert_as_in_python(FIND + text, X, 2)


def test_a_result_may_be_none_in_recursion() -> None:
    text = """
def half(n):
    if n < 0:
        return None
    if n == 0:
        return 1
    r = half(n - 2)
    return None if r is None else r + 1

def f(x, k):
    return half(k), half(k + 1), x[0]
"""
    assert_as_in_python(text, X, 4)


@pytest.mark.parametrize("use", ["find(x, 99) + 1", "x[find(x, 99)]", "find(x, 99) or 5", "-find(x, 99)"])
def test_what_a_helper_does_not_find_is_no_number(use: str) -> None:
    text = f"{FIND}\ndef f(x, k):\n    return {use}\n"
    with pytest.raises(ValueError, match=r"`find\(x, 99\)` is None here"):
        nnmagic.compile(text, engine="numpy", cache=False)(X, 2)


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


SHARED = {
    "a view": "y = x.copy()\nr = None\nfor i in range(2):\n    if r is None:\n        r = y[i:]\n"
    "    else:\n        r += 1\nreturn y",
    "the caller's array": "r = None\nfor i in range(k):\n    if i == 1:\n        r = x\n"
    "if r is not None:\n    r += 1\nreturn x",
    "a list": "b, r = [], None\nfor i in range(k):\n    if r is None:\n        r = b\n    b.append(i)\n"
    "return len(r)",
    "a list of paths": "b = [k, 1]\nif k > 1:\n    r = b\nelse:\n    r = b\nb.append(3)\nreturn len(r)",
    "a list in rounds": "b, n = [], 0\nfor v in x:\n    r = b\n    b.append(v)\n    n += len(r)\nreturn n",
}


@pytest.mark.parametrize("body", SHARED.values(), ids=SHARED)
def test_what_names_share_is_not_lost(body: str) -> None:
    text = "def f(x, k):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    message = "share memory|shares memory|is the array that|holds the list|are one list"
    with pytest.raises(nnmagic.TinyNNError, match=message):
        nnmagic.compile(text, engine="numpy", cache=False)(X, 2)


def test_what_may_be_none_is_no_known_object() -> None:
    loop = "for v in x:\n        if v > 2:\n            r = False"
    text = f"def f(x):\n    r = None\n    {loop}\n    return r is False\n"
    with pytest.raises(nnmagic.TinyNNError, match="branches leave it"):
        nnmagic.compile(text, engine="numpy", cache=False)(X)
