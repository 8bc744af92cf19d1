"""Lists of lists that grow, beside Python's (syntax/ragged_lists)."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python

RNG = np.random.default_rng(0)
EDGES = RNG.integers(0, 8, (30, 2))

HEAD = """def f(n, edges):
    adj = [[] for _ in range(n)]
    for u, v in edges:
        adj[u].append(v)
"""
#: What is done with the lists.
USES = [
    "for u in range(n):\n    for v in adj[u]:\n        t = (t * 3 + v) % 1009\nreturn t",
    "row = list(adj[3])\nadj[3].append(4)\nreturn row, len(adj[3]), list(adj[3]), len(adj)",
    "return adj[2][0] * adj[2][-1], 4 in adj[1], np.array(adj[1]).mean(), sorted(adj[2])",
    "for u in range(n):\n    if not adj[u]:\n        continue\n    t += len(adj[u]) * sum(adj[u])\nreturn t",
    "for v in adj[2]:\n    if v == 5:\n        break\n    t += v\nelse:\n    t = -1\nreturn t",
    "for k, v in enumerate(adj[2]):\n    t += k * v\nwhile adj[0] and t < 50:\n    t += 7\nreturn t",
    "back = [[] for _ in range(n)]\nfor u in range(n):\n    for v in adj[u]:\n        back[v].append(u)\n"
    "return list(back[1]), max(back[2], key=lambda v: -v)",
    "for k in range(len(edges)):\n    rows = [[] for _ in range(3)]\n    for u, v in edges:\n"
    "        rows[u % 3].append(v + k)\n    for v in rows[k % 3]:\n        t += v\nreturn t",
    "p = [[] for _ in range(2)]\nfor u, v in edges:\n    p[bool(u > v)].append(u)\nreturn sum(p[0])",
]

SHORTEST_PATHS = """def f(n, edges, w):
    adj = [[] for _ in range(n)]
    for k in range(len(edges)):
        adj[edges[k, 0]].append((edges[k, 1], w[k]))
    best = np.full(n, np.inf)
    best[0] = 0.0
    heap = [(0.0, 0)]
    while heap:
        d, u = heapq.heappop(heap)
        if d > best[u]:
            continue
        for v, c in adj[u]:
            if d + c < best[v]:
                best[v] = d + c
                heapq.heappush(heap, (d + c, v))
    return best
"""
BUCKETS = """def f(x):
    n = len(x)
    buckets = [[] for _ in range(n)]
    for v in x:
        buckets[int(v * n)].append(v)
    out = []
    for k in range(len(buckets)):
        for v in sorted(buckets[k]):
            out.append(v)
    return out
"""


def _text(use: str) -> str:
    lines = ["t = 0", *use.split("\n")] if " t " in f" {use}" or "return t" in use else use.split("\n")
    return HEAD + "".join(f"    {line}\n" for line in lines)


@pytest.mark.full("use", "back", "for k in")
@pytest.mark.parametrize("use", USES)
def test_inner_lists(use: str) -> None:
    assert_as_in_python(_text(use), 8, EDGES)


def test_buckets() -> None:
    assert_as_in_python(BUCKETS, RNG.random(40))


@pytest.mark.full
def test_shortest_paths_over_lists_of_neighbours() -> None:
    assert_as_in_python(SHORTEST_PATHS, 8, EDGES, RNG.random(30), heapq=heapq)


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "args"), [(SHORTEST_PATHS, (8, EDGES, RNG.random(30))), (BUCKETS, (RNG.random(200),))]
)
def test_inner_lists_in_machine_code(text: str, args: tuple[Any, ...]) -> None:
    names: dict[str, Any] = {"np": np, "heapq": heapq}
    exec(text, names)
    np.testing.assert_array_equal(nnmagic.compile(text, namespace=names)(*args), names["f"](*args))


@pytest.mark.parametrize(
    "use",
    [
        "row = adj[0]\nadj[0].append(1)\nreturn len(row)",
        "return adj",
        "for v in adj[0]:\n    if t < 9:\n        adj[0].append(v)\n    t += 1\nreturn t",
        "adj[0][0] = 5\nreturn t",
        "adj[0] += [3]\nreturn t",
        "for k, v in enumerate(adj[0]):\n    if k < 9:\n        adj[0].append(v)\nreturn 0",
        "z = zip(adj[0], adj[1])\nadj[0].append(3)\nreturn [a + b for a, b in z]",
        "for row in adj:\n    t += len(row)\nreturn t",
        "q = [3, 2]\nreturn q.pop() + sum(adj[q[-1]])",
        "g = lambda u: len(adj[u])\nreturn g(3)",
    ],
)
def test_other_uses_are_refused(use: str) -> None:
    text = _text(use)
    with pytest.raises(nnmagic.TinyNNError, match=r"`.append` would change `adj\[u\]` in place"):
        nnmagic.compile(text, engine="numpy")(8, EDGES)


def test_an_inner_list_that_is_not_there_is_an_index_error() -> None:
    function = nnmagic.compile(HEAD + "    return len(adj[n])\n", engine="numpy")
    with pytest.raises(IndexError):
        function(8, EDGES)
