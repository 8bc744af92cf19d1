"""Operators and methods of sets, beside Python's (tinynn/operators/sets)."""

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python

X, Y = np.array([3, 1, 2, 5, 2, 1, 3, 4]), np.array([4, 3, 9])


@pytest.mark.parametrize("floats", [False, True])
def test_operators(floats: bool) -> None:
    text = """
def f(x, y):
    a, b = set(x), set(y)
    c = sorted(a & b), sorted(a | b), sorted(a - b), sorted(a ^ b), sorted((a | b) - (a & b))
    asked = a == b, a != b, a == set(x), a - b == (a | b) - b, a - a == set()
    return c, a <= b, a < a, a & b <= a, a >= b, a | b > a, asked
"""
    x, y = (X * 0.5, Y * 0.5) if floats else (X, Y)
    assert_as_in_python(text, x, y)


def test_methods_take_what_can_be_gone_over() -> None:
    text = """
def f(x, y):
    a = set(x)
    most = a.issubset([1, 2, 3, 4, 5]), a.issuperset(y), a.isdisjoint(y), a.isdisjoint({77})
    made = a.union(y), a.intersection(y), a.difference(y), a.symmetric_difference(y)
    return [sorted(each) for each in made], most
"""
    assert_as_in_python(text, X, Y)


def test_members_that_are_known() -> None:
    text = """
def f(x):
    s, t = set("hello"), set("world")
    mixed = len({1, 2} & set(x))
    return mixed, sorted(s & t), len(s | t), sorted({1, 2} & {2, 3} | {1} ^ {1, 2}), set("ab") < set("abc")
"""
    assert_as_in_python(text, X)


def test_members_that_are_tuples() -> None:
    text = """
def f(x):
    a, b = {(x[0], x[1]), (2, 3)}, {(x[0], x[1])}
    return len(a & b), len(a | b), b < a, b <= a, a == b
"""
    assert_as_in_python(text, X)
    known = "def f(x):\n    return len({(1, 2), (2, 3)} & {(x[0], x[1])})\n"
    with pytest.raises(nnmagic.TinyNNError, match="have a size that only a round knows"):
        nnmagic.compile(known, engine="numpy", cache=False)(X)


def test_a_set_does_not_change_in_place() -> None:
    text = "def f(x, y):\n    s = set(x)\n    t = s\n    s |= set(y)\n    return len(t)\n"
    with pytest.raises(
        nnmagic.TinyNNError, match=r"would change a set in place[\s\S]*write s.update\(set\(y\)\)"
    ):
        nnmagic.compile(text, engine="numpy", cache=False)(X, Y)


@pytest.mark.parametrize("y", [X, X[::-1].copy(), X + 1, X[:4], Y])
def test_equal_sets_have_the_same_members(y: np.ndarray) -> None:
    text = "def f(x, y):\n    return set(x) == set(y), set(x) != set(y), set(list(x)) == set(list(y))\n"
    assert_as_in_python(text, X, y)


@pytest.mark.parametrize("y", [1, 2])
def test_dictionaries_are_compared_key_by_key(y: int) -> None:
    text = """
def f(x, y):
    a, b, c = {"a": x, "b": [y]}, {"b": [x], "a": y}, {"a": x, "c": [y]}
    nested = [a] == [b], ({"k": a}, 1) == ({"k": b}, 1), ({"k": a}, 1) != ({"k": c}, 1)
    known = {1, 2} == {2, 1}, {1, 2} == {1, 3}, {"s": "x"} == {"s": "y"}, {} == {}, {"s"} == {"s": None}
    return a == b, a != b, a == c, a != c, a == {"a": x}, {1: x} == {2: x}, nested, known
"""
    assert_as_in_python(text, 1, y)
