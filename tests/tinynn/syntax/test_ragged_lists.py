"""Lists of lists that grow, beside Python's.

They are found by tinynn/syntax/ragged_makers, and written by tinynn/syntax/ragged_changes
and tinynn/syntax/ragged_loops as
tinynn/syntax/ragged_texts says, with tinynn/syntax/names_in_python; tinynn/builtins/list_results gives them
back.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
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


#: What else is done with a list of lists, and with a dictionary of lists, which ``adj`` is.
MORE_USES = [
    "adj[3].sort()\nadj[2].sort(reverse=True)\nadj[1].reverse()\nreturn len(adj), adj",
    "while adj[3]:\n    t = t * 10 + adj[3].pop()\nadj[4].pop(0)\nadj[2].append(adj[6].pop())\nreturn t, adj",
    "adj[3].remove(adj[3][1])\nadj[3].extend([1, 2])\nadj[2] += adj[3]\nadj[1] = [9, 8]\n"
    "adj[4] = sorted(adj[4])\n"
    "adj[5].clear()\nadj[3][0] = 99\nadj[3][-1] += 5\nreturn adj",
    "return [len(adj[u]) for u in range(1, 4)], sum(v for u in range(1, 4) for v in adj[u] if v > 2)",
    "for u in range(n):\n    if u > 2 and len(adj[u]) > 2 or u == 1:\n        t += u\n"
    "return t, np.mean(adj[3])",
]
LIST_USES = [
    "for u, row in enumerate(adj):\n    if not row:\n        continue\n"
    "    t += u * len(row) + max(row)\nreturn t",
    "out = []\nfor row in adj:\n    row.sort()\n    out.extend(row)\nreturn out, adj[3], adj[2][1:]",
    "for row, w in zip(reversed(adj), np.arange(n)):\n    row = np.array(row)\n"
    "    t += row.sum() * w\nreturn t",
    "return [len(row) for row in adj], [v for row in adj for v in row], max(sum(row) for row in adj)",
    "return adj[0] == adj[1], adj[2] == adj[2][:], adj[1] + adj[2]",
]
DICTIONARY_USES = [
    "for u, row in adj.items():\n    t = (t * 7 + u * len(row) + sum(row)) % 1009\n"
    "return t, sorted(adj), 3 in adj",
    "for u in range(n + 4):\n    for v in adj.get(u, []):\n        t = (t * 3 + v) % 1009\n"
    "return t, len(adj)",
    "return {k: len(v) for k, v in adj.items()}, {k: max(adj[k]) for k in adj}, "
    "[sum(v) for v in adj.values()]",
    "for u, row in sorted(adj.items()):\n    t = t * 3 % 1009 + u + row[-1]\nreturn t, dict(adj)",
]
#: Ways to make a dictionary of lists.
DICTIONARIES = {
    "defaultdict": "adj = defaultdict(list)\nfor u, v in edges:\n    adj[u].append(v)",
    "if not in": "adj = {}\nfor u, v in edges:\n    if u not in adj:\n        adj[u] = []\n"
    "    adj[u].append(v)",
    "else": "adj = {}\nfor u, v in edges:\n    if u in adj:\n        adj[u].append(v)\n    else:\n"
    "        adj[u] = [v]",
    "setdefault": "adj: dict = {}\nfor u, v in edges:\n    adj.setdefault(u, []).append(v)",
    "comprehension": "adj = {u: [] for u in range(n)}\nfor u, v in edges:\n    adj[u].append(v)",
}


@pytest.mark.full("while", "adj[3].remove", "return [len", "for u, row", "for row, w", "return adj[0]")
@pytest.mark.parametrize("use", MORE_USES + LIST_USES, ids=lambda use: use[:30])
def test_more_uses_of_lists(use: str) -> None:
    assert_as_in_python(_text(use), 8, EDGES)


def _check_dictionary(made: str, use: str) -> None:
    lines = [*(["t = 0"] if " t " in f" {use}" else []), *made.split("\n"), *use.split("\n")]
    text = "def f(n, edges):\n" + "".join(f"    {line}\n" for line in lines)
    assert_as_in_python(text, 8, EDGES, defaultdict=defaultdict)


@pytest.mark.parametrize("kind", ["defaultdict", "else", "comprehension"])
def test_dictionaries_of_lists(kind: str) -> None:
    _check_dictionary(DICTIONARIES[kind], DICTIONARY_USES[3])


@pytest.mark.full
@pytest.mark.parametrize("made", DICTIONARIES.values(), ids=DICTIONARIES)
@pytest.mark.parametrize("use", MORE_USES + DICTIONARY_USES, ids=lambda use: use[:30])
def test_uses_of_dictionaries_of_lists(made: str, use: str) -> None:
    _check_dictionary(made, use)


@pytest.mark.full
@pytest.mark.parametrize(
    "body",
    [
        "adj = defaultdict(list)\nfor u, v in edges:\n    adj[u, v % 3].append((v, 0.5 * u))\n"
        "return dict(adj)",
        "adj = []\nfor u, v in edges:\n    if u > 4 or not adj:\n        adj.append([])\n"
        "    adj[-1].append(v)\nreturn adj",
        "adj = {'even': [], 'odd': []}\nfor u, v in edges:\n    if v % 2:\n"
        "        adj['odd'].append(v)\n    else:\n"
        "        adj['even'].append(u)\nreturn sum(adj['even']), adj",
        "adj = defaultdict(list)\nfor u, v in edges:\n    adj[u].append(v)\nfor u in range(n + 4):\n"
        "    for v in adj[u]:\n        n += v * 0\nreturn len(adj)",
    ],
)
def test_lists_of_keys(body: str) -> None:
    text = "def f(n, edges):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    assert_as_in_python(text, 8, EDGES, defaultdict=defaultdict)


def test_only_python_reads_lists_that_a_function_returns() -> None:
    text = _text("return adj") + "def g(n, edges):\n    return len(f(n, edges))\n"
    with pytest.raises(nnmagic.TinyNNError, match="`f` returns lists of several lengths"):
        nnmagic.compile(text, engine="numpy")(8, EDGES)


@pytest.mark.parametrize("word", ["pop", "remove"])
def test_what_is_not_there_cannot_be_taken(word: str) -> None:
    uses = {
        "pop": "adj[9].append(1)\nadj[9].pop()\nadj[9].pop()\nreturn t",
        "remove": "adj[2].remove(77)\nreturn t",
    }
    error = {"pop": IndexError, "remove": ValueError}[word]
    with pytest.raises(error):
        nnmagic.compile(_text(uses[word]), engine="numpy")(10, EDGES)


@pytest.mark.parametrize(
    "use",
    [
        "row = adj[0]\nadj[0].append(1)\nreturn len(row)",
        "for v in adj[0]:\n    if t < 9:\n        adj[0].append(v)\n    t += 1\nreturn t",
        "for k, v in enumerate(adj[0]):\n    if k < 9:\n        adj[0].append(v)\nreturn 0",
        "for row in adj:\n    row.append(1)\n    for v in row:\n        row.pop()\nreturn 0",
        "for row in adj:\n    row = sorted(row)\n    row.append(1)\nreturn len(row)",
        "adj[0] = adj[1]\nadj[0].append(3)\nreturn adj",
        "z = zip(adj[0], adj[1])\nadj[0].append(3)\nreturn [a + b for a, b in z]",
        "q = [3, 2]\nreturn q.pop() + sum(adj[q[-1]])",
        "g = lambda u: len(adj[u])\nreturn g(3)",
        "out = []\nfor row in adj:\n    out.append(row)\nadj[0].append(1)\nreturn len(out[0])",
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
