"""Python's own functions and those of its library: keys, orders, counts."""

from __future__ import annotations

import bisect
import collections
from collections import Counter

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python

X = np.array([3, 1, 2, 1])
VALUES = {
    "min by a key": "min(x, key=lambda v: -v), max(range(4), key=lambda i: x[i])",
    "keys that are tuples": "max([3, 5, 2], key=lambda i: (x[0] % i, i)), min(x, key=lambda v: (v % 2, -v))",
    "of pairs": "min(enumerate(x), key=lambda t: t[1]), max(zip(x, x), key=lambda t: -t[1])",
    "of a set": "min(set(x), key=lambda v: (v - 2) ** 2), max({3, 1}, key=lambda v: -v)",
    "of counts": "max(Counter(x), key=Counter(x).get), min({'b': 1, 'a': 2}, key={'b': 1, 'a': 2}.get)",
    "of known keys": "max({3: x[0], 4: x[1]}, key={3: x[0], 4: x[1]}.get)",
    "of several": "max(x[0], x[1], key=lambda v: -v), min((2.5, 1), (x[1] * 0.5, 2), key=lambda t: t[0])",
    "a default": "max([], default=5), max([v for v in x if v > 9], default=7), min([2], default=7)",
    "sorted strings": "[k for k, _ in sorted({'b': 1, 'a': 3, 'c': 1}.items(), key=lambda kv: (-kv[1], "
    "kv[0]))]",
    "an inverse": "pow(int(x[0]), -1, 7), pow(int(x[2]), -3, 11), pow(-3, int(-x[0]), 10), "
    "pow(int(x[0]), -2, -7)",
    "zipped and sorted": "sorted(zip(x, x * 0.5), key=lambda t: -t[1])[1:], sorted(Counter(x).items())",
    "zipped pairs": "[sum(a) for a in zip(*[(v, v + 1) for v in x])], np.argsort([v * 2 for v in x[:3]])",
    "slices": "np.r_[0:x[0], 9], np.concatenate((np.r_[:2], np.r_[x[1]:7:2])), np.r_[0:1:3j]",
    "sorted words": "sorted({w for w in 'b a c a'.split()}), sorted(set('hello'))",
    "a power": "pow(3, int(x[0]), 7), pow(2, 10, 1000), pow(int(x[0]), 2)",
    "lists": "x.tolist()[1], sorted(x.tolist()), (x * 0.5).reshape(2, 2).tolist()[1][0], len(x.tolist())",
    "counts": "Counter(x), collections.Counter('hello').most_common(2)",
    "the most common": "Counter(x).most_common(1)[0][0], Counter(x).most_common(1)[0][1]",
    "places": "bisect.bisect_left([1, 2, 2, 3], x[2]), bisect.bisect(np.sort(x), 1), "
    "bisect.bisect_right([1.5], 2)",
    "strings": "'a' + 'b' * 2, 'ab' < 'b', ''.join(c for c in 'abc'), ''.join(['a']), '-'.join('ab')",
    "ranges of floats": "np.arange(x[1] * 0.5, x[0] * 1.0, 0.3), np.arange(x[0] * 1.5), "
    "np.arange(x[0] / 2, 0.0, -0.5)",
    "reductions of lists": "np.min([x, x + 1], axis=0), np.max([x, x * 2], 1), "
    "np.sum([x, x], axis=1), np.max([x, -x])",
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_pythons(name: str) -> None:
    text = f"def f(x):\n    return {VALUES[name]}\n"
    assert_as_in_python(text, X, bisect=bisect, collections=collections, Counter=Counter)


BODIES = {
    "missing keys": "d = collections.defaultdict(int)\nfor v in x:\n    d[v] += 1\nt = d[1] + d[77] * 3, "
    "len(d)\nreturn t, sorted(d)",
    "missing keys alone": "d = collections.defaultdict(float)\nfor i, v in enumerate(x):\n"
    "    d[i + 1] = max(d[i], d[i - 3] + v)\nreturn [d[i] for i in range(9)]",
    "a range that loops": "t = 0.0\nfor v in np.arange(0, x[0] * 0.5, x[1] * 0.25):\n    t += v\nreturn t",
    "nested tuples": "out = []\nfor i in range(len(x)):\n    if x[i] > 1:\n"
    "        out.append(((x[i], 1), (2, x[i])))\nreturn [list(map(list, each)) for each in out[:2]]",
    "a nested function that reads what grows": "parent = [0]\ndef find(a):\n    while parent[a] != a:\n"
    "        a = parent[a]\n    return a\nfor v in x:\n    if v > 1:\n        parent.append(len(parent))\n"
    "    else:\n        parent[find(len(parent) - 1)] = find(0)\n"
    "return [find(i) for i in range(len(parent))]",
    "sort": "a = [3, x[0], 2]\na.sort()\nb = list(x)\nb.sort(key=lambda v: -v)\nreturn a, b",
    "insert": "a = [3]\nfor v in x:\n    a.insert(0, v)\na.insert(2, 9)\nreturn a",
    "insort": "a = []\nfor v in x:\n    bisect.insort(a, v)\nreturn a",
    "tails": "t = []\nfor v in x:\n    k = bisect.bisect_left(t, v)\n    if k == len(t):\n"
    "        t.append(v)\n    else:\n        t[k] = v\nreturn len(t), t",
    "extend by a slice": "a = []\nfor c in np.unique(x):\n    a.extend(np.where(x == c)[0][:2])\nreturn a",
    "an exact modulus": "t = 0\nfor v in x:\n    t += pow(3, int(v) * 100, 1000000007)\nreturn t",
    "a shrinking array": "v"
    " = np.arange(100.0) + x[0]\nfor i in range(99):\n    v = (v[1:] + v[:-1]) / 2\nreturn v[0]",
    "sizes of branches": "if x.sum() > 3:\n    y = x[:2] * 2\nelse:\n    y = x\nreturn y.sum(), y",
}


@pytest.mark.parametrize("name", BODIES)
def test_programs_are_pythons(name: str) -> None:
    body = BODIES[name].replace("\n", "\n    ")
    assert_as_in_python(f"def f(x):\n    {body}\n", X, bisect=bisect, collections=collections)


RECURSIVE = {
    "a number or None": (
        "def f(n, big=None):\n    if big is None:\n        big = n\n    if n == 0:\n        return 1\n"
        "    return sum(f(n - k, k) for k in range(1, min(n, big) + 1))\n",
        6,
    ),
    "an array that changes": (
        "def q(a, lo=0, hi=None):\n    if hi is None:\n        hi = len(a) - 1\n"
        "    if lo >= hi:\n        return\n    m = lo\n    for i in range(lo, hi):\n"
        "        if a[i] < a[hi]:\n"
        "            a[i], a[m] = a[m], a[i]\n"
        "            m += 1\n    a[hi], a[m] = a[m], a[hi]\n    q(a, lo, m - 1)\n    q(a, m + 1, hi)\n"
        "def f(x):\n    y = x.copy()\n    q(y)\n    return y\n",
        X,
    ),
}


@pytest.mark.parametrize("name", RECURSIVE)
def test_functions_call_themselves_with_what_was_none(name: str) -> None:
    assert_as_in_python(*RECURSIVE[name])


@pytest.mark.parametrize("code", [-5, 0x110000])
def test_code_points_have_ends(code: int) -> None:
    function = nnmagic.compile("def f(k):\n    return ord(chr(k)) + 1\n", engine="numpy", cache=False)
    with pytest.raises(ValueError, match="chr"):
        function(code)
