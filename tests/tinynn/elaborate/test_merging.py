"""Names whose values on several paths have other sizes, each of which is known.

They judge `tinynn/elaborate/merge_plans`, too.
"""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python

X = np.array([1.5, 2.0, 7.0, 9.0])
BODIES = {
    "slices": "if c:\n    y = x[:2]\nelse:\n    y = x[:3]\nreturn y.sum()",
    "a parameter": "if c:\n    y = x[:2]\nelse:\n    y = x\nreturn y.sum() + y[0], y.shape[0]",
    "three paths": "if c:\n    y = x[:2]\nelif x[0] > 5:\n    y = x\nelse:\n    y = x[1:]\nreturn y[-1]",
    "two names": "if c:\n    y, z = x[:2], 1.0\nelse:\n    y, z = x, 3.0\nreturn y.sum() + z",
    "an expression": "return (x[:2] if c else x).sum()",
    "constants": "y = np.arange(3) if c else np.arange(5)\nreturn y.sum()",
    "rows": "y = x[None] if c else x.reshape((2, 2))\nreturn y.sum(axis=0).max() + y.shape[0]",
    "tuples": "y, z = (x, x[:1]) if c else (x[:2], x[2:])\nreturn y.sum() - z.sum()",
    "lists": "y = [x, x[:1]] if c else [x[:2], x[2:]]\nreturn y[0].sum() - y[1].sum()",
    "in a loop": "y = x\nwhile len(y) > 1:\n    y = y[1:] if c else y[:-1]\nreturn y.sum()",
}


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("name", BODIES)
def test_paths_may_leave_other_sizes(name: str, c: bool) -> None:
    body = BODIES[name].replace("\n", "\n    ")
    assert_as_in_python(
        f"def f(x: Tensor[(4,), f64], c: bool):\n    {body}\n", X, c, Tensor=nnmagic.Tensor, f64="f64"
    )


@pytest.mark.parametrize("opt_level", [0, 3])
def test_machine_code_and_gradients_take_them(opt_level: int) -> None:
    text = (
        "def loss(x: Tensor[(4,), f64], c: bool) -> f64:\n    y = x[:2] if c else x * 2\n"
        "    return (y * y).sum()\n\n"
        "def f(x: Tensor[(4,), f64], c: bool):\n    return value_and_grad(loss)(x, c)\n"
    )
    function = nnmagic.compile(text, opt_level=opt_level)
    value, gradient = function(X, True)
    assert value == (X[:2] ** 2).sum()
    np.testing.assert_array_equal(gradient, [3, 4, 0, 0])
    np.testing.assert_array_equal(function(X, False)[1], 8 * X)


LISTS = {
    "append": "a = []\nif x[0] > 1:\n    a.append(x[0])\nif x[1] > 0:\n"
    "    a.append(x[1])\nreturn max(a), sorted(a), len(a)",
    "ints": "a = []\nif x[0] > 1:\n    a.append(2)\nreturn a, len(a)",
    "pop": "a = [1.0, 2.0, 3.0]\nif x[0] > 1:\n    a.pop()\nif x[1] > 1:\n"
    "    a.pop(0)\nreturn sum(a), len(a)",
    "truth": "a = []\nif x[0] > 100:\n    a.append(x[0])\nreturn 1 if a else 2",
    "arrays": "a = [x]\nif x[0] > 1:\n    a.append(x * 2)\nreturn np.array(a).sum(), np.stack(a).shape",
    "tuples": "a = []\nif x[0] > 1:\n    a.append((1, 2))\nif x[1] > 0:\n    a.append((3, 4))\ns = 0\n"
    "for i, j in a:\n    s += i * j\nreturn s, len(a), a[-1]",
    "reassign": "a = [1.0]\nif x[0] > 1:\n    a = [2.0, 3.0]\nelse:\n    a = []\nreturn len(a), a",
    "extend": "a = [1.0]\nif x[0] > 1:\n    a += [2.0, 3.0]\nreturn a",
    "index": "a = []\nfor d in (1, 2, 3):\n    if x[d - 1] > 1:\n"
    "        a.append(d)\nreturn a[int(x[0]) % len(a)]",
    "joined in each round": "a = [1.0]\nfor v in x:\n    if v > 1:\n        a = a + [v]\nreturn a, len(a)",
    "swapped in each round": "a, b = [0.0, 0.5], [1.0, 2.0]\nfor i in range(int(x[2]) % 4):\n"
    "    b[0] = a[1] + 1\n    b[1] = a[0] * 2 + x[i % 3]\n    a, b = b, a\nreturn a, b",
    "in a loop": "t = 0.0\nfor i in range(len(x)):\n    a = []\n    if x[i] > 1:\n        a.append(x[i])\n"
    "    if x[i] > 2:\n        a.append(2.0)\n    t += sum(a)\nreturn t",
    "in a while loop": "t, i = 0, 0\nwhile i < len(x):\n    a = []\n"
    "    for d, (p, q) in enumerate([(0, 1), (1, 2), (2, 0)]):\n"
    "        if x[p] > x[q] + i:\n            a.append(d)\n"
    "    if not a:\n        break\n    t += a[i % len(a)]\n    i += 1\nreturn t",
}


@pytest.mark.parametrize("x", [np.array([3.0, 1, 2]), np.array([0.5, 2, 2]), np.array([5.0, 4, 9])])
@pytest.mark.parametrize("name", LISTS)
def test_paths_may_leave_lists_of_other_lengths(name: str, x: np.ndarray) -> None:
    body = LISTS[name].replace("\n", "\n    ")
    assert_as_in_python(f"def f(x):\n    {body}\n", x)


CHOSEN = {
    "append to either": "c = a if x[0] > 1 else b\nc.append(4.0)\nreturn len(a), len(b)",
    "append to one": "c = a if x[0] > 1 else b\na.append(4.0)\nreturn len(b), len(c)",
    "an item of either": "if x[0] > 1:\n    c = a\nelse:\n    c = b\nc[0] = 4.0\nreturn a[0], b[0]",
    "an item of one": "if x[0] > 1:\n    c = a\nelse:\n    c = b\na[0] = 4.0\nreturn b[0], c[0]",
    "inside of a tuple": "c = (a, 1) if x[0] > 1 else (b, 2)\na[0] = 4.0\nreturn b[0], c[0][0], c[1]",
    "from round to round": "for i in range(n):\n    a[0] = b[0] + 1\n    b = a\nreturn a[0]",
    "of another length": "b.append(1.0)\nc = a if x[0] > 1 else b\nc.append(4.0)\nreturn len(a), len(b)",
}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_list_that_may_be_another_does_not_change(name: str) -> None:
    body = CHOSEN[name].replace("\n", "\n    ")
    text = f"def f(x: Tensor[(3,), f64], n: i64):\n    a = [1.0]\n    b = [2.0]\n    {body}\n"
    with pytest.raises(nnmagic.TinyNNError, match="which Python would change there, too"):
        nnmagic.compile(text, engine="numpy")


def test_a_list_of_ints_takes_no_float() -> None:
    body = "a = [i for i in range(3) if x[i] > 1]\n    a.append(2.5)\n    return a"
    text = f"def f(x: Tensor[(3,), f64]):\n    {body}\n"
    with pytest.raises(nnmagic.TinyNNError, match="a list of i64, which does not hold f64"):
        nnmagic.compile(text, engine="numpy")
