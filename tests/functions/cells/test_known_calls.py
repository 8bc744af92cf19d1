"""Calls of kinds that came before (nnmagic/functions/cells/known_calls.py); Python and NumPy judge each."""

import random

import numpy as np
import pytest

import nnmagic

X = np.arange(6.0).reshape(3, 2)

FEW = (np.float32(1), np.int8(1))

#: A function, and the arguments of its calls; each is called in many orders.
CALLS = {
    "numbers of all types": (
        "x, n",
        "return x * n + 1",
        [
            (x, n)
            for x in (X, X[0], 3, 2.5)
            for n in (1, True, 1.0, 2j, np.float32(1), np.int8(1), np.bool_(1))
        ],
    ),
    "arrays": (
        "x, y",
        "return x + y",
        [(x, y) for x in (X, X[:2], X.astype("f4"), X.astype("i8")) for y in (1.5, X[0], X.T[0, 0])],
    ),
    "what is known by its value": (
        "x, axis, keepdims=False",
        "return x.sum(axis, keepdims=keepdims)",
        [(X, axis, *more) for axis in (0, 1, -1, None, (0, 1), (1,)) for more in ((), (True,), (False,))],
    ),
    "zero and one, false and true": (
        "x, k",
        "return x.sum(k) if k else x * k",
        [(X, k) for k in (0, 1, False, -1)],
    ),
    "texts": ("x, how", "return x.sum() if how == 'sum' else x.max()", [(X, "sum"), (X, "max"), (X, "")]),
    "a default": ("x, by=2, *, plus=0", "return x * by + plus", [(X,), (X, 2), (X, 2.0), (X, True), (2,)]),
    "lists": (
        "items",
        "return sum(items) + len(items)",
        [(items,) for items in ([1, 2], [3], [1.5, 2], [True, True], [2.0, 3.0, 4.0], [4, 5])],
    ),
    "tuples": ("p", "return p[0] * p[1]", [((X, 2.0),), ((X, 2),), ((2, X),), ((X[0], X[1]),), ((2, 3),)]),
    "dictionaries": (
        "d",
        "return d['a'] - d['b']",
        [({"a": X, "b": 1.0},), ({"b": X, "a": 1.0},), ({"a": 1, "b": 2},), ({"a": X, "b": X[0]},)],
    ),
    "further arguments": ("*x", "return sum(x)", [(1, 2), (1.0, 2), (X, X, X), (X)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_gives_what_python_gives_whatever_came_before(name):
    head, body, calls = CALLS[name]
    source, names = f"def f({head}):\n    {body}\n", {}
    exec(source, names)
    f = nnmagic.compile(source, engine="numpy")
    order = [*calls, *calls, *random.Random(0).choices(calls, k=40)]
    for arguments in order:
        given, right = f(*arguments), names["f"](*arguments)
        assert np.asarray(given).dtype == np.asarray(right).dtype or isinstance(right, int | float)
        np.testing.assert_allclose(given, right, err_msg=repr(arguments))


def test_names_of_parameters_may_be_given():
    f = nnmagic.compile("def f(x, by=2, *, plus=0):\n    return x * by + plus\n", engine="numpy")
    for _ in range(3):
        np.testing.assert_allclose(f(X, plus=1.5), X * 2 + 1.5)
        np.testing.assert_allclose(f(X, 3, plus=1), X * 3 + 1)
        np.testing.assert_allclose(f(X, plus=1), X * 2 + 1)
        np.testing.assert_allclose(f(by=3, x=X), X * 3)
        np.testing.assert_allclose(f(X, 3, plus=X), X * 3 + X)
        out = np.empty((3, 2))
        assert f(X, 4, out=out) is out
        np.testing.assert_allclose(out, X * 4)
        for wrong in ((), (X, 1, 2)):
            with pytest.raises(TypeError):
                f(*wrong)


def test_an_array_that_changes_is_that_of_the_call():
    f = nnmagic.compile("def f(x, y, k):\n    for i in range(len(x)):\n        x[i] += y[i] * k\n")
    for size in (2, 3, 2, 3, 2):
        x, y = np.ones(size), np.arange(size) + 0.5
        assert f(x, y, 2) is None
        np.testing.assert_allclose(x, 1 + y * 2)
        whole = np.arange(2.0 * size)
        f(whole[:size], whole[size:], 2)
        np.testing.assert_allclose(whole[:size], np.arange(size) + whole[size:] * 2)
        with pytest.raises(ValueError, match="shares memory"):
            f(x, x, 2)
        with pytest.raises(ValueError, match="shares memory"):
            f(whole[:size], whole[1 : size + 1], 2)
        x.flags.writeable = False
        with pytest.raises((TypeError, ValueError), match=r"read-only|writ"):
            f(x, y, 2)


def test_generators_go_on_from_call_to_call():
    f = nnmagic.compile("def f(rng, x):\n    return x + rng.random()\n", engine="numpy")
    ours, theirs = (np.random.default_rng(3) for _ in range(2))
    for _ in range(3):
        np.testing.assert_array_equal(f(ours, X), X + theirs.random())


@pytest.mark.parametrize("holder", [lambda y: (y, 2.0), lambda y: {"a": y}, lambda y: [y, y]])
def test_an_array_that_changes_shares_no_memory_with_one_that_is_held(holder):
    key = "'a'" if isinstance(holder(X), dict) else "0"
    source = f"def f(x, y):\n    for i in range(len(x)):\n        x[i] += y[{key}][i]\n"
    f = nnmagic.compile(source, engine="numpy")
    for _ in range(3):
        x = np.arange(6.0)
        with pytest.raises(ValueError, match="shares memory"):
            f(x[1:], holder(x[:5]))
        f(x[1:], holder(np.ones(5)))
        np.testing.assert_array_equal(x[1:], np.arange(1.0, 6) + 1)


def test_an_array_that_changes_shares_no_memory_with_parts_of_arguments():
    f = nnmagic.compile(
        "def f(x, y):\n    for i in range(len(x)):\n        for part in y:\n            x[i] += part[i]\n",
        engine="numpy",
    )
    for _ in range(2):
        x, y, whole = np.zeros(3), np.ones(3), np.arange(4.0)
        f(x, (y, y))
        np.testing.assert_array_equal(x, [2, 2, 2])
        for shared in ((y, whole[:3]), [whole[:3], y]):
            with pytest.raises(ValueError, match="'y' shares memory; give copies"):
                f(whole[1:], shared)
        np.testing.assert_array_equal(whole, np.arange(4))


@pytest.mark.parametrize(
    "helper", ["a[i] += {}", "if i > 0:\n        return bump(a, i - 1)\n    return a[i] + {}"]
)
def test_a_helper_that_is_compiled_from_its_source_is_that_of_now(helper):
    namespace = {}
    for number in (1, 10):
        text = f"def bump(a, i):\n    {helper.format(number)}\n"
        namespace["bump"] = nnmagic.compile(text, namespace=namespace, engine="numpy")
        caller = (
            "def f(a):\n    bump(a, 0)\n    return a[0]\n"
            if "+=" in helper
            else "def f(a):\n    return bump(a, 2)\n"
        )
        f = nnmagic.compile(caller, namespace=namespace, engine="numpy")
        assert f(np.zeros(3)) == number
