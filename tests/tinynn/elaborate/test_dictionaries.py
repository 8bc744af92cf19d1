"""Dictionaries of a function, and as its result: Python is the judge."""

# ruff: noqa: E501  # a body reads best on one line

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python

_VECTOR = 'def f(x: Tensor[("n",), f64]):\n'

#: Bodies of functions of a vector.
BODIES = {
    "a result": "return {'mean': x.mean(), 'max': x.max()}",
    "nested": "return {'a': {'b': x, 'c': 1}, 'd': (x, 2.0)}, {'e': x}",
    "keys one by one": "d = {}\nd['a'] = x.sum()\nd['b'] = x * 2\nd['a'] = d['a'] + 1\nreturn d['a'], d['b'], len(d)",
    "views": (
        "d = {'a': x, 'b': 2.0}\ntotal = 0.0\nfor key, value in d.items():\n"
        "    total = total + value if key != 'b' else total * value\n"
        "for key in d:\n    total = total + d[key]\nfor value in d.values():\n    total = total + value\n"
        "return total, d.get('c', 5.0), d.get('b'), len(d.keys())"
    ),
    "changed in a loop over its keys": "d = {'a': x, 'b': 2.0}\nfor k in d:\n    d[k] = d[k] + 1\nreturn d['a'], d['b']",
    "questions": "d = {'a': 1}\nreturn 'a' in d, 'b' in d, 'b' not in d",
    "a comprehension": "d = {k: x * k for k in range(3)}\nreturn d[1], d[2], {f'k{i}': x[i] for i in range(2)}",
    "a call": "d = dict(a=x, b=2.0)\ne = dict(d, c=3.0)\ne['a'] = d['a'] * 2\nreturn d, e, {**e, 'a': 0.0}",
    "a copy": "d = {'a': x}\ne = d.copy()\ne['a'] = x + 1\nreturn d['a'], e['a']",
    "a loop": "d = {'s': 0.0, 'n': 0}\nfor i in range(len(x)):\n    d['s'] += x[i]\n    d['n'] += 1\nreturn d",
    "while": "d = {'i': 0}\nwhile d['i'] < 3:\n    d['i'] = d['i'] + 1\nreturn d['i']",
    "branches": "d = {'a': 1.0}\nif x.sum() > 0:\n    d['a'] = 2.0\nelse:\n    d['a'] = x[0]\nreturn d",
    "two returns": "if x.sum() > 0:\n    return {'a': x, 'k': 1}\nreturn {'a': x + 1, 'k': 2}",
    "its keys": "d = {1: 50, 2: 99, 0: 7}\nreturn max(d), min(d, default=3), sum(d), all(d), (*d,), max(*d), max(d.items()), any({0})",
    "its keys under names": "d = {1: 50, 2: 99}\na, b = d\nk = d.pop(max(d))\nreturn a, b, *d, k, sum({5, 7})",
    "a helper": "def g(y):\n    return {'twice': y * 2}\nreturn g(x)['twice']",
}


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return np.asarray(value).tolist()


@pytest.mark.parametrize("engine", ["numpy", pytest.param("relax", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", BODIES)
def test_dictionaries_are_those_of_python(name: str, engine: str) -> None:
    source = _VECTOR + "".join(f"    {line}\n" for line in BODIES[name].split("\n"))
    namespace: dict[str, Any] = {"np": np}
    exec("from __future__ import annotations\n" + source, namespace)
    function = nnmagic.compile(source, engine=engine, namespace={"np": np}, cache=False)
    for x in (np.array([1.0, -2, 3]), np.array([-1.0, -2, 0.5])):
        assert plain(function(x)) == plain(namespace["f"](x))


def test_a_result_is_a_dictionary_in_machine_code_and_in_other_cells() -> None:
    source = _VECTOR + "    return {'mean': x.mean(), 'parts': {'first': x[0]}}\n"
    first = nnmagic.compile(source, cache=False)
    result = first(np.arange(3.0))
    assert type(result) is dict
    assert plain(result) == {"mean": 1.0, "parts": {"first": 0.0}}
    later = 'def g(x: Tensor[("n",), f64]):\n    d = f(x)\n    return d["mean"] + d["parts"]["first"], d\n'
    value, given = nnmagic.compile(later, namespace={"f": first}, engine="numpy", cache=False)(np.arange(3.0))
    assert float(value) == 1.0
    assert plain(given) == plain(result)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("d = {'a': x}\ne = d\ne['a'] = x + 1\nreturn d['a']", "`d` is the same dictionary as `e`"),
        ("d = {'a': x}\nreturn d['b']", "the dictionary has no key 'b'"),
        (
            "d = {'a': x}\nd['a'] += 1\nreturn d['a']",
            "an array that a dictionary holds is not changed in place",
        ),
        ("d = {x: 1}\nreturn x", "a key that only the call knows is a number, or a tuple of numbers"),
        ("d = {'a': 1}\nif x.sum() > 0:\n    d['b'] = 2\nreturn d", "`d` is"),
    ],
)
def test_what_is_refused(body: str, message: str) -> None:
    source = _VECTOR + "".join(f"    {line}\n" for line in body.split("\n"))
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(source, cache=False)
    assert message in str(caught.value)


def test_functions_of_iterables_go_over_the_keys() -> None:
    uses = [f"{word}({name})" for word in ("max", "min", "sum", "all", "any", "math.prod") for name in "ds"]
    uses += [
        "max(*d)",
        "max(d.items())",
        "min(d, key=d.get)",
        "list(itertools.combinations(d, 2))",
        "[*d], a, b",
    ]
    made = "    d = {3: 1, 4: 99, 6: 0}\n    s = {3, 9}\n    a, *b = d\n"
    text = f"def f(x):\n{made}    return {', '.join(uses)}\n"
    assert_as_in_python(text, np.arange(3), math=math, itertools=itertools)


def test_tuples_are_compared_and_index() -> None:
    """A tuple is one wherever it goes: through parameters, branches and rounds."""
    source = (
        "def f(grid, start, goal):\n    pos, n = start, 0\n    while pos != goal:\n"
        "        grid[pos] += 1\n        r, c = pos\n        if (r, c) < (2, 0):\n            pos = (r + 1, c)\n"
        "        else:\n            pos = (r, c + 1)\n        n += 1\n    return n, grid[goal], pos == goal, (n, 1) >= (n, 2)\n"
    )
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    f = nnmagic.compile(source, engine="numpy", cache=False)
    grids = np.zeros((4, 4)), np.zeros((4, 4))
    assert f(grids[0], (0, 0), (2, 3)) == namespace["f"](grids[1], (0, 0), (2, 3))
    np.testing.assert_array_equal(*grids)


def test_a_list_is_one_where_some_of_its_items_were_assigned_by_numbers_of_the_call() -> None:
    source = (
        "def f(a):\n    dist = [9.0] * len(a)\n    for _ in range(len(a)):\n        u = 0\n"
        "        for v in range(len(a)):\n            if a[v] > 0:\n                u = v\n"
        "        if dist[u] == 5.0:\n            break\n        dist[u] = a[u]\n    return np.array(dist)\n"
    )
    namespace: dict[str, Any] = {"np": np}
    exec(source, namespace)
    a = np.array([1.0, -1, 5, -2])
    f = nnmagic.compile(source, engine="numpy", namespace={"np": np}, cache=False)
    np.testing.assert_array_equal(f(a), namespace["f"](a))


def test_a_queue_and_a_range_and_numbas_generalized_functions() -> None:
    source = (
        "from collections import deque\n\n@guvectorize(['void(float64[:], int64, float64[:])'], '(n),()->(n)')\n"
        "def moving_sum(a, w, out):\n    total = 0.0\n    for i in range(a.shape[0]):\n        total += a[i]\n"
        "        if i >= w:\n            total -= a[i - w]\n        out[i] = total\n\n"
        "def f(a, w):\n    out = np.zeros_like(a)\n    moving_sum(a, w, out)\n    q, order = deque(), []\n"
        "    for i in range(len(a)):\n        while q and a[q[-1]] <= a[i]:\n            q.pop()\n        q.append(i)\n"
        "        if q[0] <= i - w:\n            q.popleft()\n        order.append(q[0])\n"
        "    d = np.zeros((len(a), 2), dtype=int)\n    d[:, 0] = range(len(a))\n    return out, np.array(order), d\n"
    )
    a = np.array([3.0, 1, 4, 1, 5, 9, 2, 6])
    with pytest.warns(nnmagic.TinyNNWarning, match="`@guvectorize` is left out"):
        f = nnmagic.compile(source, engine="numpy", namespace={"np": np}, cache=False)
    out, order, d = f(a, 3)
    np.testing.assert_allclose(out, np.convolve(a, np.ones(3))[: len(a)])
    assert order.tolist() == [
        max(range(max(0, i - 2), i + 1), key=lambda k: (a[k], k)) for i in range(len(a))
    ]
    np.testing.assert_array_equal(d[:, 0], range(len(a)))
    wide = source.replace("np.zeros_like(a)", "np.zeros((2, len(a)))").replace(
        "(a, w, out)\n    q", "(a[None], w, out)\n    q"
    )
    with pytest.warns(nnmagic.TinyNNWarning):
        g = nnmagic.compile(wide, engine="numpy", namespace={"np": np}, cache=False)
    with pytest.raises(
        nnmagic.TinyNNError, match="`a` must have 1 axis, as the layout says: write a loop over others"
    ):
        g(a, 3)
