"""Calls that change lists and names of their callers, methods, generators, and recursion.

It is the work of tinynn/syntax/assigned_results, tinynn/syntax/evaluation_order, tinynn/syntax/name_scopes,
tinynn/syntax/lifted_functions, tinynn/syntax/plain_objects, tinynn/syntax/generator_functions,
tinynn/syntax/decorators and tinynn/builtins/itertools_functions.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import nnmagic

_PUSH = "def push(s, v, by=1):\n    s.append(v * by)\n"
_SWAP = "def swap(a, i, j):\n    a[i], a[j] = a[j], a[i]\n"
_FIND = """
    parent = list(range(len(x)))
    def find(a):
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        return a
    def union(a, b):
        ra, rb = find(a), find(b)
        if ra == rb:
            return False
        parent[ra] = rb
        return True
"""
_TALLY = """
    count, seen = 0, []
    def add(v):
        nonlocal count
        if v > 4:
            return
        count += 1
        seen.append(v)
    def twice(v):
        add(v)
        add(v + 1)
"""
_NEXT = """
    count = 0
    def following():
        nonlocal count
        count += 1
        return count
"""
_CLASS = """
class Tally:
    def __init__(self, start=0):
        self.total, self.log = start, []
    def up(self, by=1):
        self.total += by
        self.log.append(self.total)
        return self.total
    def twice(self):
        self.up()
        return self.up(by=3)
"""
_DATA = """
@dataclass
class Particle:
    x: float
    v: float = 0.0
def moved(p, dt):
    p.v -= p.x * dt
    p.x += p.v * dt
    return p
"""
_GRID = """
    size = len(x)
    seen = [[False] * size for _ in range(size)]
    def fill(r, c):
        if r < 0 or c < 0 or r >= size or c >= size or seen[r][c] or (r + c) % 3 == 2:
            return 0
        seen[r][c] = True
        return 1 + fill(r + 1, c) + fill(r, c + 1)
"""

_PROGRAMS = {
    "a list that a function of the cell changes": _PUSH
    + "def f(x):\n    s = []\n    for v in x:\n        push(s, v)\n    push(s, 2.0, by=3)\n    return s\n",
    "items of a list": _SWAP
    + "def f(x):\n    y = list(x)\n    for i in range(2):\n        swap(y, i, 4 - i)\n    return y\n",
    "union and find": f"def f(x):{_FIND}"
    "    n = 0\n    for i in range(len(x) - 1):\n        n += union(i, i * 3 % len(x))\n"
    "    return n, [find(i) for i in range(len(x))]\n",
    "behind and": f"def f(x):{_FIND}"
    "    n = 0\n    for i in range(len(x)):\n        if i != 2 and find(i) != find(i * 2 % len(x)):\n"
    "            parent[find(i)] = find(i * 2 % len(x))\n            n += 1\n    return n\n",
    "names of the function around": f"def f(x):{_TALLY}    for v in x:\n        twice(v)\n"
    "    return count, seen\n",
    "a loop that asks": "def more(q):\n    q.append(len(q))\n    return len(q) < 9\n"
    "def f(x):\n    q = [0]\n    while more(q):\n        if len(q) == 5:\n            continue\n"
    "    return q\n",
    "a return in a loop": "def first(s, limit):\n    for i in range(len(s)):\n        if s[i] > limit:\n"
    "            s.pop(i)\n            return i\n    s.append(limit)\n    return -1\n"
    "def f(x):\n    s = list(x)\n    return first(s, 3.5), first(s, 100.0), s\n",
    "lists of lists": "def join(adj, u, v):\n    adj[u].append(v)\n    adj[v].append(u)\n"
    "def reached(adj, start, n):\n    seen, order, queue = [False] * n, [], [start]\n"
    "    seen[start] = True\n"
    "    while queue:\n        u = queue.pop(0)\n        order.append(u)\n        for v in adj[u]:\n"
    "            if not seen[v]:\n                seen[v] = True\n                queue.append(v)\n"
    "    return order\n"
    "def f(x):\n    n = len(x)\n    adj = [[] for _ in range(n)]\n    for i in range(n):\n"
    "        join(adj, i, (i * 2 + 1) % n)\n    return reached(adj, 0, n)\n",
    "calls in order": f"def f(x):{_NEXT}    a = following() - following() * 2\n    return a, count\n",
    "objects": f"{_CLASS}def f(x):\n    c = Tally()\n    t = Tally(2)\n    for v in x:\n"
    "        t.up()\n        if v > 2:\n            c.twice()\n    return t.total, t.log, c.total, c.log\n",
    "a dataclass": f"{_DATA}def f(x):\n    p = Particle(x[0])\n    for _ in range(9):\n"
    "        p = moved(p, 0.1)\n"
    "    return p.x, p.v\n",
    "a generator": "def pairs(a):\n    for i in range(len(a) - 1):\n        yield a[i], a[i + 1]\n"
    "def f(x):\n    total = 0.0\n    for a, b in pairs(x):\n        total += a * b\n"
    "    return total, sum(b - a for a, b in pairs(x)), list(v for v, _ in pairs(x))\n",
    "a generator that ends": "def fibonacci(limit):\n    a, b = 0, 1\n    while True:\n"
    "        if a > limit:\n"
    "            return\n        yield a\n        a, b = b, a + b\n"
    "def f(x):\n    return sum(v for v in fibonacci(100) if v % 2 == 0)\n",
    "recursion over a grid": f"def f(x):{_GRID}    return fill(0, 0), fill(1, 3)\n",
    "recursion with a table": "def f(x):\n    table = [-1] * 13\n    def ways(i):\n        if i < 2:\n"
    "            return i\n        if table[i] != -1:\n            return table[i]\n"
    "        table[i] = ways(i - 1) + ways(i - 2)\n        return table[i]\n    return ways(12)\n",
    "texts in another order": "def distance(a, b):\n    if len(a) < len(b):\n"
    "        return distance(b, a)\n"
    "    row = range(len(b) + 1)\n    for i, p in enumerate(a):\n        new = [i + 1]\n"
    "        for j, q in enumerate(b):\n"
    "            new.append(min(row[j + 1] + 1, new[j] + 1, row[j] + (p != q)))\n"
    "        row = new\n    return row[-1]\ndef f(x):\n    return distance('kit', 'sits')\n",
    "shorter texts": "def same(s):\n    return len(s) < 2 or s[0] == s[-1] and same(s[1:-1])\n"
    "def f(x):\n    return same('amanaplanacanalpanama'), same('abca')\n",
    "itertools": "from itertools import accumulate, chain, combinations, permutations, product\n"
    "from functools import reduce\ndef f(x):\n    y = list(x)\n"
    "    best = max(sum(c) for c in combinations(y, 3))\n"
    "    n = sum(1 for p in permutations(range(4)) if p[0] < p[3])\n"
    "    m = sum(a * b for a, b in product(range(3), repeat=2))\n"
    "    return best, n, m, list(accumulate(y)), list(chain(y, [1.0])), reduce(lambda a, b: a * b, y, 2.0)\n",
}


def _same(got: Any, want: Any) -> bool:
    if isinstance(want, list | tuple) and isinstance(got, list | tuple):
        return len(got) == len(want) and all(map(_same, got, want))
    return np.shape(got) == np.shape(want) and bool(np.allclose(got, want))


@pytest.mark.parametrize("name", _PROGRAMS)
def test_a_cell_gives_what_python_gives(name: str) -> None:
    source, x = _PROGRAMS[name], np.array([3.0, 1, 2, 5, 4])
    own: dict[str, Any] = {}
    exec(f"from dataclasses import dataclass\n{source}", own)
    f = nnmagic.compile(source, engine="numpy", cache=False)
    given = copy.copy(x)
    assert _same(f(given), own["f"](x))
    assert np.array_equal(given, x)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def g(x):\n    while True:\n        yield 1\ndef f(x):\n    return list(g(x))\n"
        "", "`yield` is not part"),
        # The loop changes what the generator reads.
        (
            "def g(a):\n    for i in range(len(a)):\n        yield a[i]\n"
            "def f(x):\n    y = x.copy()\n    z = y[:]\n    for v in g(y):\n        z[-1] = v\n"
            "    return y\n",
            "`yield` is not part",
        ),
        # An array would cut what a list holds.
        (
            "def f(x):\n    table = [0] * 9\n    def g(i):\n        if i < 1:\n            return x[0]\n"
            "        table[i] = g(i - 1) * 0.5\n        return x[0]\n    return g(4)\n",
            "`table` is a list of i64, which does not hold f64",
        ),
        (f"{_CLASS}def f(x):\n    return [Tally(v) for v in x]\n", "the constructor `__init__` has a body"),
        ("def grow(s, n):\n    return len(s) if n == 0 else grow(s + 'a', n - 1)\ndef f(x):\n"
        "    return grow('a', 3)\n",
         "cannot change"),
    ],
)  # fmt: skip
def test_what_would_mean_something_else_is_refused(source: str, message: str) -> None:
    with pytest.raises(nnmagic.TinyNNError) as refused:
        nnmagic.compile(source, engine="numpy", cache=False)(np.array([3.0, 1, 2]))
    assert message in str(refused.value)
