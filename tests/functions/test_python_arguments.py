"""Calls of functions without types by what Python's own programs pass: lists, functions, dtypes, objects."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_same


@dataclass
class Body:
    mass: float
    place: np.ndarray
    name: str = "a"


class Loan(NamedTuple):
    rate: float
    months: int


def doubled(x):
    return x * 2


X = np.arange(3.0)
BODY = Body(2.0, np.ones(2))
CALLS = {
    "a list of ints": (
        "def f(x):\n    return x[0], len(x), sum(x), x[1:], max(x), 2 in x, x + [5], x * 2\n",
        [1, 2, 3],
    ),
    "a list as an array": (
        "def f(x):\n    return np.asarray(x) * 0.5, np.dot(x, x), np.array(x).mean()\n",
        [1, 2, 3],
    ),
    "a list is unpacked": ("def f(x):\n    a, b, c = x\n    return a + b * c\n", [1.5, 2.5, 3.0]),
    "a list beside an array": (
        "def f(x):\n    return np.ones(3) * x, np.arange(9)[x], np.arange(3) @ x\n",
        [1, 2, 3],
    ),
    "a copy of a list changes": (
        "def f(x):\n    x = list(x)\n    x[0] = 4\n    x.append(3)\n    return x\n",
        [1, 2, 3],
    ),
    "a list of lists": (
        "def f(x):\n    return x[1][0], len(x[0]), [sum(row) for row in x]\n",
        [[1, 2], [3, 4]],
    ),
    "a list of tuples": (
        "def f(x):\n    t = 0\n    for a, b in x:\n        t += a * b\n    return t\n",
        [(1, 2), (3, 4)],
    ),
    "tuples of ints and floats": (
        "def f(x):\n    t = 0.0\n    for i, w in x:\n        t += np.arange(5)[i] * w\n    return t\n",
        [(1, 0.5), (3, 2.5)],
    ),
    "a list of arrays": ("def f(x):\n    return np.stack(x), x[1] * 2, len(x)\n", [X, X + 1]),
    "a list of strings": ("def f(x):\n    return len(x), 'b' in x, x[0] + x[1]\n", ["a", "b"]),
    "an empty list": ("def f(x):\n    return len(x)\n", []),
    "a shape": ("def f(x):\n    return np.zeros(x), np.ones((2, 3)).reshape(x)\n", [3, 2]),
    "NumPy's function": ("def f(g):\n    return g(np.arange(3.0))\n", np.mean),
    "Python's function": ("def f(g):\n    return g(np.arange(3.0))\n", max),
    "a function of the notebook": ("def f(g):\n    return g(np.arange(3.0))\n", doubled),
    "a dtype": ("def f(d):\n    return np.arange(3).astype(d)\n", np.float32),
    "Python's type": ("def f(d):\n    return np.arange(3.0).astype(d)\n", int),
    "a dataclass": ("def f(p):\n    return p.mass * p.place, p.name == 'a'\n", BODY),
    "a list of objects": (
        "def f(x):\n    return sum(p.mass for p in x), x[1].place\n",
        [BODY, Body(3.0, np.zeros(2))],
    ),
    "a named tuple": (
        "def f(p):\n    n, (rate, months) = len(p), p\n    return np.ones(p.months) * p.rate, n\n",
        Loan(0.5, 3),
    ),
    "a tuple with a string": ("def f(x):\n    return x[0] * 2 if x[1] == 'a' else x[0]\n", (2.0, "a")),
    "a dictionary of settings": (
        "def f(c):\n    return [c['rate'] * n for n in c['layers']] if c['mode'] == 'fast' else None\n",
        {"rate": 0.5, "mode": "fast", "layers": [1, 2]},
    ),
    "a list of functions": (
        "def f(x):\n    return [g(np.arange(3.0)) for g in x]\n",
        [np.mean, max, doubled],
    ),
    "a tuple of strings": ("def f(x):\n    return len(x), 'b' in x\n", ("a", "b")),
    "indices in a list": (
        "def f(x):\n    y = np.zeros(5)\n    y[x] += 1\n    y[x] = y[x] * 2\n    return y\n",
        [0, 2],
    ),
    "a structured array": (
        "def f(t):\n    return (t['price'] * t['count']).sum()\n",
        np.array([(1.5, 2), (2.5, 4)], dtype=[("price", "f8"), ("count", "i8")]),
    ),
    "what comes back": (
        "def f(x):\n    return x\n",
        {"rate": 0.5, "mode": "fast", "layers": [1, 2], "none": None},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_mean_what_they_mean_in_python(name: str) -> None:
    text, argument = CALLS[name]
    scope: dict[str, object] = {"np": np}
    exec(text, scope)
    function = nnmagic.compile(text, namespace={"np": np}, engine="numpy")
    for _ in range(2):  # compiled, and looked up
        expected = scope["f"](copy.deepcopy(argument))  # type: ignore[operator]
        assert_same(function(argument), expected)


def test_lists_in_machine_code() -> None:
    def f(x, g, scale=1.0):
        total = 0.0
        for each in x:
            total += g(each) * scale
        return total

    function = nnmagic.function(f)
    assert function([1.0, 2.0, 3.0], doubled) == f([1.0, 2.0, 3.0], doubled)
    assert function([4, 5], abs, scale=2.0) == f([4, 5], abs, scale=2.0)


def test_functions_of_one_name_are_different_arguments() -> None:
    function = nnmagic.compile("def f(g, x):\n    return g(x)\n", engine="numpy")

    def make(step):
        def g(x):
            return x + step

        return g

    assert [function(make(step), 1.0) for step in (1, 2, 1)] == [2.0, 3.0, 2.0]


@pytest.mark.parametrize(
    "change", ["x.append(4)", "x[0] = 4", "x += [1]", "x.pop()", "x.sort(key=abs)", "x.insert(0, 1)"]
)
@pytest.mark.parametrize("given", [[1, 2, 3], [1, "a", 3]], ids=repr)
def test_a_list_of_the_caller_is_not_changed(change: str, given: list[object]) -> None:
    function = nnmagic.compile(f"def f(x):\n    {change}\n    return len(x)\n", engine="numpy")
    with pytest.raises(nnmagic.TinyNNError, match=r"list.*which Python would change[\s\S]*x = list\(x\)"):
        function(given)


def test_an_error_says_that_an_argument_is_a_list() -> None:
    function = nnmagic.compile("def f(x, axis=0):\n    return x.mean(axis=axis)\n", engine="numpy")
    with pytest.raises(nnmagic.TinyNNError, match=r"`x` is a list.*numpy.asarray\(x\)"):
        function([1.0, 2.0])
    assert function(np.asarray([1.0, 2.0])) == 1.5


def test_parts_of_other_types_are_compiled_anew() -> None:
    function = nnmagic.compile("def f(x):\n    return x\n", engine="numpy")
    for given in ([1, 2], [1.5, 2], [1, 2, 3], {"a": X}, {"a": X.astype("f4")}, {"a": X[:2]}, {"a": [1]}):
        assert_same(function(given), given)


def test_numbers_with_types_before_one_without() -> None:
    function = nnmagic.compile(
        "def f(x, n: int = 5, seed=None):\n    return x * n + (seed or 1)\n", engine="numpy"
    )
    assert function(2.0) == 11.0
    assert function(2.0, seed=4) == 14.0
    assert function(2.0, 3, 4) == 10.0
