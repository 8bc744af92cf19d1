"""The functions of `heapq` that change lists, beside Python's (syntax/heaps)."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python

RNG = np.random.default_rng(0)
WEIGHTS = RNG.random((6, 6)) * (RNG.random((6, 6)) < 0.4)
NUMBERS = RNG.integers(0, 9, 12)
WALLS = RNG.random((5, 5)) < 0.2

#: The names that programs import from `heapq`.
NAMES = {name: getattr(heapq, name) for name in heapq.__all__ if name.startswith(("heap", "n"))}

#: A program of each kind, with the arguments of a call.
PROGRAMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "layout": (
        """def f(x):
            h = []
            for k, v in enumerate(x):
                heappush(h, (v % 4, k))
                if k % 5 == 4:
                    heappop(h)
            return h, h[0]""",
        (NUMBERS,),
    ),
    "dijkstra": (
        """def f(w, s):
            n = len(w)
            dist = np.full(n, np.inf)
            dist[s] = 0.0
            heap = [(0.0, s)]
            while heap:
                d, u = heapq.heappop(heap)
                if d > dist[u]:
                    continue
                for v in range(n):
                    if w[u, v] > 0:
                        nd = d + w[u, v]
                        if nd < dist[v]:
                            dist[v] = nd
                            heapq.heappush(heap, (nd, v))
            return dist""",
        (WEIGHTS, 2),
    ),
    "top": (
        """def f(x, k):
            h = []
            for i, v in enumerate(x):
                if len(h) < k:
                    heapq.heappush(h, (v, i))
                elif (v, i) > h[0]:
                    heapq.heapreplace(h, (v, i))
            return sorted(h, reverse=True), nsmallest(3, x), nlargest(k, x), nlargest(2, h)""",
        (NUMBERS, 3),
    ),
    "median": (
        """def f(x):
            low, high = [], []
            out = []
            for v in x:
                heappush(low, -heappushpop(high, v))
                if len(low) > len(high):
                    heappush(high, -heappop(low))
                out.append(high[0] if len(high) > len(low) else (high[0] - low[0]) / 2)
            return out""",
        (NUMBERS.astype(float),),
    ),
    "merge": (
        """def f(a):
            heap = [(a[k, 0], k, 0) for k in range(len(a))]
            heapify(heap)
            out = []
            while heap:
                value, k, i = heappop(heap)
                out.append(value)
                if i + 1 < a.shape[1]:
                    heappush(heap, (a[k, i + 1], k, i + 1))
            return out""",
        (np.sort(NUMBERS.reshape(3, 4), axis=1),),
    ),
    "astar": (
        """def f(grid, goal):
            n, m = grid.shape
            best = np.full((n, m), 10**6)
            best[0, 0] = 0
            todo = [(goal[0] + goal[1], 0, (0, 0))]
            steps = 0
            while todo:
                _, g, (r, c) = heappop(todo)
                steps += 1
                if (r, c) == goal:
                    return g, steps
                if g > best[r, c]:
                    continue
                for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                    i, j = r + dr, c + dc
                    if 0 <= i < n and 0 <= j < m and not grid[i, j] and g + 1 < best[i, j]:
                        best[i, j] = g + 1
                        heappush(todo, (g + 1 + abs(i - goal[0]) + abs(j - goal[1]), g + 1, (i, j)))
            return -1, steps""",
        (WALLS, (4, 3)),
    ),
    "events": (
        """def f(rate, n):
            events = [(0.5, 0, 1), (0.25, 1, 0)]
            heapq.heapify(events)
            count, served, t = 2, 0, 0.0
            while events and served < n:
                t, _, kind = heapq.heappop(events)
                if kind == 0:
                    heapq.heappush(events, (t + rate, count, 1))
                else:
                    served += 1
                    heapq.heappush(events, (t + 2 * rate, count, served % 2))
                count += 1
            return t, served, count""",
        (0.3, 9),
    ),
    "huffman": (
        """def f(x):
            heap = [(int(c), i) for i, c in enumerate(x)]
            heapify(heap)
            k, total = len(x), 0
            parent = np.zeros(2 * len(x), dtype=int)
            while len(heap) > 1:
                (a, i), (b, j) = heappop(heap), heappop(heap)
                parent[i] = parent[j] = k
                total += a + b
                heappush(heap, (a + b, k))
                k += 1
            return total, parent""",
        (NUMBERS[:6],),
    ),
}

#: What is done with a list of numbers that is a heap.
USES = [
    "a = heappushpop(h, 3)\nb = heapreplace(h, 30)\nheappush(h, -1)\nreturn h, a, b",
    "out = []\nwhile h:\n    out.append(heappop(h) * 2)\nreturn out",
    "while len(h) > 1:\n    a, b = heappop(h), heappop(h)\n    heappush(h, a + b)\nreturn h[0], len(h)",
]


def _text(name: str) -> str:
    lines = PROGRAMS[name][0].split("\n")
    return "\n".join(line.removeprefix(8 * " ") for line in lines) + "\n"


@pytest.mark.full("dijkstra", "top", "merge", "median", "astar", "huffman")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_heaps(name: str) -> None:
    assert_as_in_python(_text(name), *PROGRAMS[name][1], heapq=heapq, **NAMES)


@pytest.mark.full
@pytest.mark.parametrize("name", ["dijkstra", "top"])
def test_programs_with_heaps_in_machine_code(name: str) -> None:
    names: dict[str, Any] = {"np": np, "heapq": heapq, **NAMES}
    exec(_text(name), names)
    got = nnmagic.compile(_text(name), namespace=names)(*PROGRAMS[name][1])
    expected = names["f"](*PROGRAMS[name][1])
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.full("out", "while")
@pytest.mark.parametrize("use", USES)
def test_a_list_becomes_a_heap(use: str) -> None:
    head = "from heapq import heapify, heappop, heappush, heappushpop, heapreplace\n"
    body = "".join(f"    {line}\n" for line in use.split("\n"))
    assert_as_in_python(f"{head}def f(x):\n    h = list(x)\n    heapify(h)\n{body}", NUMBERS)


@pytest.mark.parametrize("use", ["heappop(h)", "t += heapreplace(h, i)"])
def test_an_empty_heap_is_an_index_error(use: str) -> None:
    body = f"while i < x[0]:\n        heappop(h)\n        {use}\n        i += 1\n    return t"
    text = f"def f(x):\n    h, t, i = [1], 0, 0\n    {body}\n"
    for function in (nnmagic.compile(text, namespace=NAMES, engine="numpy"), _python(text)):
        with pytest.raises(IndexError):
            function(np.array([3]))


def _python(text: str) -> Any:
    names: dict[str, Any] = dict(NAMES)
    exec(text, names)
    return names["f"]


def test_functions_of_the_cell_are_its_own() -> None:
    own = "def heappush(h, v):\n    return v + len(h)\n\n"
    assert_as_in_python(f"{own}def f(x):\n    h = [1, 2]\n    t = heappush(h, x)\n    return t\n", 3)


REFUSED = [
    ("return h, heappop(h) + 1", "in a statement that computes it always"),
    ("return (heappop(h) for _ in range(3)) if h else 0", "in a statement that computes it always"),
    ("heapify(h)\nheappush(h, 0.5)\nreturn h", "does not hold f64"),
    ("g = h\nheappop(h)\nreturn g", "holds the list"),
]


@pytest.mark.parametrize(("use", "message"), REFUSED)
def test_what_python_would_show_otherwise_is_refused(use: str, message: str) -> None:
    body = "".join(f"    {line}\n" for line in use.split("\n"))
    with pytest.raises(nnmagic.TinyNNError, match=message):
        nnmagic.compile(f"def f(x):\n    h = list(x)\n{body}", namespace=NAMES, engine="numpy")(NUMBERS)
