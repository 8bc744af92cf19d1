"""Lists of lists, and dictionaries of lists or dictionaries, that a call gives, beside Python.

They are written by tinynn/syntax/nested_parameters, and taken apart by functions/arguments/argument_types.
"""

from __future__ import annotations

import copy
import heapq
from collections import defaultdict

import pytest

import nnmagic
from nnmagic import TinyNNError
from tests.tinynn.cases import assert_as_in_python

pytestmark = pytest.mark.filterwarnings("ignore::nnmagic.TinyNNWarning")

ADJ = [[1, 2], [0, 3], [0, 3], [1, 2, 4], [3], []]
PAIRS = [[(1, 4.0), (2, 1.5)], [(3, 1.0)], [(1, 2.0), (3, 5.0)], []]
ROWS = {0: [1, 2], 1: [2], 2: [], 5: [0]}
WEIGHTS = {0: {1: 4.0, 2: 1.0}, 1: {3: 1.0}, 2: {1: 2.0, 3: 5.0}, 3: {}}
SETS = {0: {1, 2}, 1: {2}, 2: set[int]()}
CORNERS = {(0, 0): [1, 2], (0, 1): [3]}
MANY = [[(i * 7 + k) % 90 for k in range(i % 4)] for i in range(90)]

SEARCH = """def f(a, s):
    seen = np.zeros(90, dtype=bool)
    def visit(u):
        seen[u] = True
        n = 1
        for v in a[u]:
            if not seen[v]:
                n += visit(v)
        return n
    return visit(s), [len(r) for r in a]
"""
PATHS = """def f(g, s):
    dist = [np.inf] * len(g)
    dist[s] = 0.0
    h = [(0.0, s)]
    while h:
        d, u = heapq.heappop(h)
        if d > dist[u]:
            continue
        for v, w in g[u]{items}:
            if d + w < dist[v]:
                dist[v] = d + w
                heapq.heappush(h, (dist[v], v))
    return dist
"""
#: A function's parameters and body, and arguments.
READ: dict[str, tuple[str, list[tuple[object, ...]]]] = {
    "search": (SEARCH, [(MANY, 5)]),
    "pairs": (PATHS.format(items=""), [(PAIRS, 0)]),
    "dictionaries": (PATHS.format(items=".items()"), [(WEIGHTS, 0)]),
    "keys": ("d: return [len(d[k]) for k in d], sorted(d), 5 in d, 7 in d, len(d), max(d)", [(ROWS,)]),
    "items": ("d: return [sum(r) * k for k, r in d.items()]", [(ROWS,)]),
    "missing": ("d, k: return sum(d.get(k, []))", [(ROWS, 0), (ROWS, 9)]),
    "no key": ("d, k: return d[k]", [(ROWS, 9)]),
    "no row": ("d, k: return d[k][0]", [(ROWS, 2)]),
    "one of dictionaries": (
        "g, u, v: return g[u][v] if v in g[u] else -1.0",
        [(WEIGHTS, 0, 2), (WEIGHTS, 3, 0)],
    ),
    "values": ("g: return [sum(x.values()) for x in g.values()], [v for u in g for v in g[u]]", [(WEIGHTS,)]),
    "key=": ("g: return max(g, key=lambda u: len(g[u]))", [(WEIGHTS,)]),
    "row": (
        "d, i:\n    row = d[i]\n    n = 0\n    for v in row:\n        n += v\n"
        "    return n + len(row) + row[-1]",
        [(ROWS, 0)],
    ),
    "both": ("d, u, v: return v in d[u], d[u].index(v), d[u] + d[v], d[u] == d[v]", [(ROWS, 0, 1)]),
    "sets": ("s, u, v: return v in s[u], len(s[u]), sorted(s[u])", [(SETS, 0, 1), (SETS, 2, 1)]),
    "tuples": ("t: return t[0, 0], [k[1] for k in t], sum(len(x) for x in t.values())", [(CORNERS,)]),
    "while": (
        "d:\n    st, seen = [0], {0}\n    while st:\n        for v in d[st.pop()]:\n"
        "            if v not in seen:\n                seen.add(v)\n                st.append(v)\n"
        "    return len(seen)",
        [(ROWS,)],
    ),
    "helper": ("def last(a, u):\n    return a[u][-1]\ndef f(d): return last(d, 0) + last(d, 1)", [(ROWS,)]),
    "long": ("a, u: return a[u], a[-1 - u], sum(map(len, a))", [(MANY, 3), (MANY, 86)]),
    "zip": (
        "a, b: return [x + len(r) for x, r in zip(b, a)], [i for i, r in enumerate(a) if not r]",
        [(MANY, [1] * 90)],
    ),
}


def _text(case: str) -> str:
    head, _, body = case.partition(":")
    return case if case.startswith("def ") else f"def f({head}):{body}"


@pytest.mark.parametrize("case", READ)
def test_inner_lists_are_read_as_in_python(case: str) -> None:
    text, calls = READ[case][0], READ[case][1]
    for args in calls:
        given = copy.deepcopy(args)
        scope: dict[str, object] = {}
        try:
            exec(_text(text), scope)
            scope["f"](*args) if case.startswith("no ") else None  # type: ignore[operator]
        except LookupError as error:
            with pytest.raises(type(error)):
                nnmagic.compile(_text(text), engine="numpy")(*given)
            continue
        assert_as_in_python(_text(text), *given, heapq=heapq)
        assert given == args


def test_missing_keys_of_a_defaultdict_have_no_items() -> None:
    f = nnmagic.compile("def f(d, k):\n    return sum(d[k])", engine="numpy")
    assert f(defaultdict(list, {0: [1, 2], 1: [3]}), 9) == 0


#: What would change a list of the caller, or give it another name.
CHANGING = [
    "d[i].append(3)",
    "row = d[i]\nrow.append(3)",
    "row = d[i]\nother = row\nother.append(3)",
    "for r in d.values():\n    r.sort()",
    "for k, r in d.items():\n    r.append(i)",
    "d[i] = [1]",
    "del d[i]",
    "row = d[i]\nrow += [3]",
    "rows = [d[i]]\nrows[0][0] = 5",
    "e = d\ne[i] = [2]",
    "heapq.heappush(d[i], 3)",
    "d[i][0] = 7",
]


@pytest.mark.parametrize("body", CHANGING)
def test_what_changes_lists_of_the_caller_is_refused(body: str) -> None:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    given = copy.deepcopy(ROWS)
    with pytest.raises(TinyNNError):
        nnmagic.compile(
            f"def f(d, i):\n{lines}    return len(d)", namespace={"heapq": heapq}, engine="numpy"
        )(given, 0)
    assert given == ROWS


@pytest.mark.parametrize("use", ["s[u] & s[v]", "s[u] == s[v]", "s[u]"])
def test_sets_are_no_lists(use: str) -> None:
    with pytest.raises(TinyNNError, match="of which a cell reads"):
        nnmagic.compile(f"def f(s, u, v):\n    return {use}", engine="numpy")(SETS, 0, 1)


#: A body that is refused for what it does with lists of the caller, the hint, and what one writes then.
HINTS = {
    "reads": (
        "row = d[i]\nother = row\nother.append(3)\nreturn len(other)",
        "write d[i] where it is read, as in for x in d[i], or list(d[i]) for a copy",
        "other = list(d[i])\nother.append(3)\nreturn len(other)",
    ),
    "changes": (
        "d[i].append(3)\nreturn len(d[i])",
        "change lists that the function makes, as in new = [[] for _ in range(n)]",
        "new = [[] for _ in range(3)]\nfor x in d[i]:\n    new[i].append(x)\nnew[i].append(3)\n"
        "return len(new[i])",
    ),
}


@pytest.mark.parametrize("name", HINTS)
def test_hints_about_lists_of_the_caller_can_be_followed(name: str) -> None:
    refused, hint, followed = (text.replace("\n", "\n    ") for text in HINTS[name])
    with pytest.raises(TinyNNError) as error:
        nnmagic.compile(f"def f(d, i):\n    {refused}\n", engine="numpy")(copy.deepcopy(ROWS), 0)
    assert error.value.diagnostics[0].hint == hint
    assert_as_in_python(f"def f(d, i):\n    {followed}\n", ROWS, 0)


LISTS = [3, 6, 8, 10, 1, 2, 1, 5, 5, 9, 4, 7, 7, 7, 12, 11, 0, 3, 2, 20]
#: Functions that call themselves with lists, and give lists.
RECURSIVE: dict[str, tuple[str, tuple[object, ...]]] = {
    "quicksort": (
        "def f(a):\n    if len(a) <= 1:\n        return a\n    p = a[len(a) // 2]\n"
        "    left = [x for x in a if x < p]\n"
        "    same = [x for x in a if x == p]\n    right = [x for x in a if x > p]\n"
        "    return f(left) + same + f(right)",
        (LISTS,),
    ),
    "sum": ("def f(a):\n    if not a:\n        return 0\n    return a[0] + f(a[1:])", (LISTS,)),
    "reversed": ("def f(a):\n    if len(a) < 2:\n        return a\n    return f(a[1:]) + [a[0]]", (LISTS,)),
    "doubled": (
        "def f(a, n):\n    if n == 0:\n        return a\n    b = f(a, n - 1)\n    return b + b",
        (LISTS, 2),
    ),
    "hanoi": (
        "def f(n, a, b, c):\n    if n == 0:\n        return []\n"
        "    return f(n - 1, a, c, b) + [(a, c)] + f(n - 1, b, a, c)",
        (3, 0, 1, 2),
    ),
    "search": (
        "def f(a, x, lo, hi):\n    if lo > hi:\n        return -1\n    m = (lo + hi) // 2\n"
        "    if a[m] == x:\n"
        "        return m\n    if a[m] < x:\n        return f(a, x, m + 1, hi)\n"
        "    return f(a, x, lo, m - 1)",
        (list(range(0, 60, 2)), 14, 0, 29),
    ),
    "pairs": (
        "def f(a, i, left):\n    if i == len(a):\n        return 0\n    w, p = a[i]\n"
        "    skip = f(a, i + 1, left)\n"
        "    if w > left:\n        return skip\n    return max(skip, p + f(a, i + 1, left - w))",
        ([(2, 3), (3, 4), (4, 5), (5, 8)], 0, 11),
    ),
    "nested": (
        "def f(a):\n    def go(i):\n        if i >= len(a):\n            return 0\n"
        "        return max(a[i] + go(i + 2), go(i + 1))\n    return go(0)",
        (LISTS[:17],),
    ),
}


@pytest.mark.parametrize("case", RECURSIVE)
def test_functions_that_call_themselves_take_and_give_lists(case: str) -> None:
    text, args = RECURSIVE[case]
    assert_as_in_python(text, *args)
