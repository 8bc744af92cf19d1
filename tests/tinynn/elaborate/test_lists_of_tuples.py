"""Lists of tuples that change in loops, whose numbers keep their kinds (elaborate/lists_as_rows)."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python

LIST = """def f(x):
    n = int(x[0])
    q = [(0.5, 1)]
    i = 0
    while i < n:
        q.append((((i * 7) % 5) / 2.0, i))
        i += 1
"""
N = np.array([30])

DIJKSTRA = """def f(w, s):
    n = len(w)
    dist = np.full(n, np.inf)
    dist[s] = 0.0
    q = [(0.0, s)]
    while q:
        d, u = q.pop(0)
        if d > dist[u]:
            continue
        for v in range(n):
            if w[u, v] > 0 and d + w[u, v] < dist[v]:
                dist[v] = d + w[u, v]
                q.append((dist[v], v))
    return dist
"""
WEIGHTS = np.random.default_rng(0).random((9, 9)) * (np.random.default_rng(1).random((9, 9)) < 0.4)

#: What is done with a list of floats and ints once it has changed in a loop.
USES = [
    "s = sorted(q)\nreturn s[0][1], s[-1], s[2], np.arange(99)[s[3][1]]",
    "q.sort(key=lambda p: -p[1])\nreturn q[0][1], q[-1]",
    "return min(q), max(q), max(q, key=lambda p: p[1])",
    "a = q.pop(3)\nreturn a, len(q), np.arange(99)[q[3][1]]",
    "q.insert(2, (9.0, 9))\nq.extend([(9.0, 9), (8.5, 2)])\nreturn q[2], q[-1], len(q), q[0] + q[1]",
    "return [b for a, b in q if a > 1], [(b, a) for a, b in q if a > 1][-1], sum(b for a, b in q)",
    "t = 0\nfor (a, b), (c, d) in zip(q, q[1:]):\n    t += d * b % 7\nreturn t",
    "y = np.zeros(40)\nfor k, (a, b) in enumerate(q):\n    y[b] += a + k\nreturn y, np.array(q)",
    "return q.index((0.5, 1)), q.count((0.5, 3)), (0.5, 3) in q, (0.5, 1) in q",
    "q[0] = (2, 3)\nq[n - 3] = (1.5, 4)\nreturn q[0][0] / 4, q[n - 3][1], q[0] < q[1], q[0] == q[0]",
    "if n > 10:\n    q = [(1.0, 2)]\nq.append((2, 5))\nreturn q[-1][1], len(q)",
    "for k in range(n):\n    q.append((k, k))\nreturn q[-1], q[-1][1] % 2",
    "r = []\nfor a, b in q:\n    r.append((b, a > 1))\nreturn r[0][1], sum(k for k, big in r if big)",
    "r = []\nfor a, b in q:\n    r.append((a, (b, b + 1)))\nreturn r[1][1][0], min(r)",
    "q[0] = q.pop()\nq[0], q[-1] = q[-1], q[0]\nreturn q[0][1], len(q)",
    "t = 0\nwhile len(q) > 2:\n    q.sort()\n    a, b = q.pop(0)\n    t = (t * 2 + b) % 99\nreturn t",
    "t = 0\nwhile q:\n    p = q.pop()\n    if q and p < q[0]:\n        q[0] = p\n    t += p[1]\nreturn t",
    "q = [(0, 0)]\nfor k in range(n):\n    q.append((0.5, k))\nreturn q[0], q[-1]",
]


@pytest.mark.parametrize("use", USES)
def test_the_numbers_of_tuples_keep_their_kinds(use: str) -> None:
    assert_as_in_python(LIST + "".join(f"    {line}\n" for line in use.split("\n")), N)


def test_a_queue_of_distances_and_nodes() -> None:
    assert_as_in_python(DIJKSTRA, WEIGHTS, 2)


@pytest.mark.full
def test_a_queue_of_distances_and_nodes_in_machine_code() -> None:
    names: dict[str, object] = {"np": np}
    exec(DIJKSTRA, names)
    np.testing.assert_array_equal(nnmagic.compile(DIJKSTRA)(WEIGHTS, 2), names["f"](WEIGHTS, 2))  # type: ignore[operator]


REFUSED = [
    ("for k in range(n):\n    q.append((1, 2, 3))\nreturn len(q)", r"tuples of \(f64, i64\) before this"),
    ("q[0] = (1.0, 2.5)\nreturn q[0]", r"and tuples of \(f64, f64\) here"),
    ("q[0] = 1.0\nreturn q[0]", "no tuples of as many numbers here"),
    ("q[0][1] = 2\nreturn q[0]", "a part of an item"),
]


@pytest.mark.parametrize(("use", "message"), REFUSED)
def test_other_items_are_refused(use: str, message: str) -> None:
    text = LIST + "".join(f"    {line}\n" for line in use.split("\n"))
    with pytest.raises(nnmagic.TinyNNError, match=message):
        nnmagic.compile(text, engine="numpy")(N)


def test_an_int_that_no_float_holds_is_an_error() -> None:
    function = nnmagic.compile(f"{LIST}    q.append((1.0, 2**53 + n))\n    return q[-1]\n", engine="numpy")
    with pytest.raises(ValueError, match="at most 53 bits"):
        function(N)


def test_a_list_of_ints_and_floats_comes_back_as_one_of_tuples() -> None:
    text = "def f(x):\n    out = []\n    for i in range(len(x)):\n        if x[i] > 0.3:\n"
    text += "            out.append((i, x[i]))\n    return len(out), out\n"
    found = nnmagic.compile(text, engine="numpy")(np.array([0.5, 0.1, 0.75]))
    assert found == (2, [(0, 0.5), (2, 0.75)])
    assert [type(number) for number in found[1][0]] == [int, float]
