"""Lists whose length changes in any loop, beside the same functions as Python runs them.

Their methods are written out in tinynn/syntax/list_methods, and their loops written anew in
tinynn/elaborate/list_rewriting; lists of a fixed length become rows in tinynn/elaborate/lists_as_rows.
"""

from __future__ import annotations

import copy
import textwrap
from typing import Any

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(0)
GRAPH = RNG.random((9, 9)) < 0.2
NUMBERS = RNG.integers(0, 9, 14)
POINTS = RNG.random((12, 2))

#: A function of each kind, with the arguments of a call.
PROGRAMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "a-stack": (
        """def f(adj, start):
            seen = np.zeros(len(adj), dtype=bool)
            order = []
            stack = [start]
            while stack:
                u = stack.pop()
                if seen[u]:
                    continue
                seen[u] = True
                order.append(u)
                for v in range(len(adj)):
                    if adj[u, v] and not seen[v]:
                        stack.append(v)
            return order, seen""",
        (GRAPH, 0),
    ),
    "a-queue": (
        """def f(adj, start):
            distance = np.full(len(adj), -1)
            distance[start] = 0
            queue = [start]
            while len(queue) > 0:
                u = queue.pop(0)
                for v in range(len(adj)):
                    if adj[u, v] and distance[v] < 0:
                        distance[v] = distance[u] + 1
                        queue.append(v)
            return distance""",
        (GRAPH, 2),
    ),
    "a-queue-for-long": (
        """def f(n):
            queue, total, i = [1, 2, 3], 0, 0
            while i < n:
                first = queue.pop(0)
                queue.append(first + i)
                if i % 3 == 0:
                    queue.append(i)
                total += first * len(queue)
                i += 1
            return total, queue""",
        (60,),
    ),
    "a-deque": (
        """def f(n):
            d = [n]
            while len(d) < 4:
                x = d.popleft()
                d.append(x + 1)
                d.append(x * 2)
            return d""".replace("popleft()", "pop(0)"),
        (3,),
    ),
    "levels": (
        """def f(adj, start):
            frontier, depth, count = [start], 0, 0
            seen = np.zeros(len(adj), dtype=bool)
            while frontier:
                after = []
                for u in frontier:
                    for v in range(len(adj)):
                        if adj[u, v] and not seen[v]:
                            seen[v] = True
                            after.append(v)
                frontier = after
                depth += 1
                count += len(after)
            return depth, count""",
        (GRAPH, 1),
    ),
    "pairs": (
        """def f(n):
            todo, total = [(0, n)], 0
            while todo:
                low, high = todo.pop()
                if high - low < 2:
                    continue
                middle = (low + high) // 2
                total += middle
                todo.append((low, middle))
                todo.append((middle, high))
            return total""",
        (20,),
    ),
    "rows-of-arrays": (
        """def f(points):
            hull = []
            for p in points[np.argsort(points[:, 0])]:
                while len(hull) >= 2 and (hull[-1][0] - hull[-2][0]) * (p[1] - hull[-2][1]) <= (
                    hull[-1][1] - hull[-2][1]
                ) * (p[0] - hull[-2][0]):
                    hull.pop()
                hull.append(p)
            return np.array(hull)""",
        (POINTS,),
    ),
    "a-heap": (
        """def f(x):
            h = []
            for v in x:
                h.append(v)
                j = len(h) - 1
                while j > 0 and h[(j - 1) // 2] > h[j]:
                    h[j], h[(j - 1) // 2] = h[(j - 1) // 2], h[j]
                    j = (j - 1) // 2
            out = []
            while h:
                h[0], h[-1] = h[-1], h[0]
                out.append(h.pop())
                j = 0
                while 2 * j + 1 < len(h):
                    c = 2 * j + 1
                    if c + 1 < len(h) and h[c + 1] < h[c]:
                        c += 1
                    if h[c] >= h[j]:
                        break
                    h[c], h[j] = h[j], h[c]
                    j = c
            return out""",
        (NUMBERS,),
    ),
    "read-while-it-grows": (
        """def f(n):
            primes = []
            for candidate in range(2, n):
                is_prime = True
                for p in primes:
                    if candidate % p == 0:
                        is_prime = False
                        break
                if is_prime:
                    primes.append(candidate)
            return primes""",
        (50,),
    ),
    "gone-over-while-it-grows": (
        """def f(steps):
            queue = [0]
            seen = np.zeros(25, dtype=bool)
            for u in queue:
                for k in steps:
                    if u + k < 25 and not seen[u + k]:
                        seen[u + k] = True
                        queue.append(u + k)
            return queue""",
        (np.array([2, 5]),),
    ),
    "methods": (
        """def f(x):
            out, i = [], 0
            while i < len(x):
                out.append(x[i])
                if x[i] > 6:
                    out.reverse()
                if x[i] < 1:
                    out.clear()
                i += 1
            out.append(7)
            out.extend([1, 2])
            return out""",
        (NUMBERS,),
    ),
    "an-item-anywhere": (
        """def f(n):
            people, out, i = list(range(n)), [], 0
            while len(people) > 1:
                i = (i + 2) % len(people)
                out.append(people.pop(i))
            return out, people[0]""",
        (9,),
    ),
    "two-pops-of-a-statement": (
        """def f(tokens):
            stack = []
            for t in tokens:
                if t > 4:
                    stack.append(t)
                elif len(stack) > 1:
                    b, a = stack.pop(), stack.pop()
                    stack.append(a - b)
            return stack""",
        (NUMBERS,),
    ),
    "rows-that-change-places": (
        """def f(s):
            before = list(range(len(s) + 1))
            for i in range(len(s)):
                row = [i + 1]
                for j in range(len(s)):
                    row.append(min(before[j + 1] + 1, row[j] + 1, before[j] + (s[i] != s[len(s) - 1 - j])))
                before = row
            return before[-1]""",
        (NUMBERS,),
    ),
    "a-list-of-a-fixed-length": (
        """def f(x, k):
            best = [0] * 5
            for v in x:
                if v > best[v % 5]:
                    best[v % 5] = v
            return best, best[k]""",
        (NUMBERS, 2),
    ),
    "a-table": (
        """def f(n):
            rows = [[0] * 6 for _ in range(6)]
            for i in range(n):
                rows[i][0] = 1
                for j in range(1, i + 1):
                    rows[i][j] = rows[i - 1][j - 1] + rows[i - 1][j]
            return rows""",
        (6,),
    ),
    "after-the-loop": (
        """def f(x):
            out = []
            for i in range(len(x)):
                for j in range(x[i] % 3):
                    out.append(i * j)
            out.append(-1)
            last = out.pop()
            return out[1:], last, out + [5], 3 in out, len(out)""",
        (NUMBERS,),
    ),
}


def python(source: str) -> Any:
    names: dict[str, Any] = {"np": np}
    exec(textwrap.dedent(source), names)
    return names["f"]


def assert_same(got: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
    else:
        np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))


@pytest.mark.full("auto")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("engine", ["numpy", "auto"])
def test_a_list_changes_as_in_python(name: str, engine: str) -> None:
    source, args = PROGRAMS[name]
    source = "\n".join(line[8:] if line.startswith("        ") else line for line in source.split("\n"))
    compiled = nnmagic.compile(source, engine=engine)
    assert_same(compiled(*copy.deepcopy(args)), python(source)(*copy.deepcopy(args)))


@pytest.mark.machine_code
def test_a_long_list_grows_in_place() -> None:
    source = """def f(n):
    rows, i = [], 0
    while i < n:
        rows.append(i * i)
        i += 1
    return np.array(rows)
"""
    compiled = nnmagic.compile(source)
    np.testing.assert_array_equal(compiled(200_000), np.arange(200_000) ** 2)


BODY = """def f(n):
    s = [1, 2]
    t, i = 0, 0
    while i < n:
        {}
        i += 1
    return t
"""


@pytest.mark.parametrize(
    "statement", ["s.pop()", "t += s.pop()", "s.append(i); t += s[i + 3]", "s.append(1); t += s[-9]"]
)
def test_an_item_that_is_not_there_is_an_index_error(statement: str) -> None:
    source = BODY.format(statement)
    compiled = nnmagic.compile(source, engine="numpy")
    for function in (python(source), compiled):
        with pytest.raises(IndexError):
            function(5)


REFUSED = [
    ("b = s\nwhile t < n:\n    s.append(t)\n    t += 1\nreturn len(b)", "`b` holds the list `s`"),
    (
        "while t < n:\n    k = (s, t)\n    s.append(t)\n    t += len(k)\nreturn t",
        "what holds it would change",
    ),
    ("p = [0]\nwhile t < n:\n    s.append(t)\n    p = s\n    t += 1\nreturn len(p)", "are one list here"),
    ("while t < n:\n    s.append(t)\n    s[t] = 0.5\n    t += 1\nreturn s", "does not hold f64"),
    ("h = [0, 0]\nwhile t < n:\n    h[t % 2] = 0.5\n    t += 1\nreturn h", "does not hold f64"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_what_python_would_show_otherwise_is_refused(body: str, message: str) -> None:
    lines = "\n    ".join(["s, t = [1], 0", *body.split("\n")])
    with pytest.raises(nnmagic.TinyNNError) as error:
        nnmagic.compile(f"def f(n):\n    {lines}\n", engine="numpy")(np.array(100))
    assert message in str(error.value)
