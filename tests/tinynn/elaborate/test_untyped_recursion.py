"""Functions without types call themselves: with other numbers, other sizes, through others, from others.

`tinynn/elaborate/cell_functions` finds the types of their results.
"""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from nnmagic import TinyNNError

FIB = "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n\n"
SORT = """def qs(a, lo, hi):
    if lo < hi:
        p, i = a[hi], lo - 1
        for j in range(lo, hi):
            if a[j] <= p:
                i += 1
                a[i], a[j] = a[j], a[i]
        a[i + 1], a[hi] = a[hi], a[i + 1]
        qs(a, lo, i)
        qs(a, i + 2, hi)

"""
X = np.array([3.0, 1, 2, 5, 4])

PROGRAMS: dict[str, tuple[str, tuple[object, ...]]] = {
    "ints": ("def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\n", (10,)),
    "floats": ("def f(n):\n    if n <= 1:\n        return 1.0\n    return n * f(n - 1)\n", (6,)),
    "twice in one": (
        "def f(m, n):\n    if m == 0:\n        return n + 1\n    if n == 0:\n        return f(m - 1, 1)\n"
        "    return f(m - 1, f(m, n - 1))\n",
        (2, 3),
    ),
    "an int that becomes a float": (
        "def f(x, n):\n    if n == 0:\n        return x\n    return f(x / 2, n - 1)\n",
        (3, 4),
    ),
    "a search": (
        "def f(a, v, lo, hi):\n    if lo >= hi:\n        return lo\n    mid = (lo + hi) // 2\n"
        "    if a[mid] < v:\n        return f(a, v, mid + 1, hi)\n    return f(a, v, lo, mid)\n",
        (np.arange(10.0), 3.5, 0, 10),
    ),
    "masks": (
        "def f(x):\n    if len(x) <= 1:\n        return x\n    p = x[0]\n"
        "    return np.concatenate([f(x[x < p]), x[x == p], f(x[x > p])])\n",
        (X,),
    ),
    "halves": (
        "def f(x):\n    n = len(x)\n    if n == 1:\n        return x[0]\n"
        "    return f(x[:n // 2]) + f(x[n // 2:])\n",
        (X,),
    ),
    "a transform": (
        "def f(x):\n    n = len(x)\n    if n == 1:\n        return x\n    e, o = f(x[::2]), f(x[1::2])\n"
        "    w = np.exp(-2j * np.pi * np.arange(n // 2) / n)\n"
        "    return np.concatenate([e + w * o, e - w * o])\n",
        (np.arange(8) + 0j,),
    ),
    "minors": (
        "def f(m):\n    n = m.shape[0]\n    if n == 1:\n        return m[0, 0]\n    s = 0.0\n"
        "    for j in range(n):\n        minor = np.concatenate([m[1:, :j], m[1:, j + 1:]], axis=1)\n"
        "        s += (-1) ** j * m[0, j] * f(minor)\n    return s\n",
        (np.array([[2.0, 1, 3], [0, 4, 1], [5, 2, 1]]),),
    ),
    "a default": (
        "def f(x, depth=3):\n    if depth == 0:\n        return x\n    return f(x * 2, depth - 1)\n",
        (X,),
    ),
    "a helper": (FIB + "def f(x, n):\n    return x * fib(n) + fib(3)\n", (X, 6)),
    "two helpers": (
        "def even(n):\n    return True if n == 0 else odd(n - 1)\n\n"
        "def odd(n):\n    return False if n == 0 else even(n - 1)\n\n"
        "def f(n):\n    return even(n)\n",
        (7,),
    ),
    "a string": (
        "def g(x, n, kind='a'):\n    if n == 0:\n        return x\n"
        "    return g(x * 2 if kind == 'a' else x + 1, n - 1, kind)\n\n"
        "def f(x):\n    return g(x, 3, 'b') + g(x, 2)\n",
        (X,),
    ),
    "results of sizes that one branch does not have": (
        "def g(p, e):\n    m = len(p) // 2\n    if p[-1] - p[0] > e:\n"
        "        return np.concatenate((g(p[:m + 1], e)[:-1], g(p[m:], e)))\n"
        "    return np.array([p[0], p[-1]])\n\ndef f(x):\n    return g(x, 2.5)\n",
        (np.arange(17.0),),
    ),
    "sizes of which each round opens one": (
        "def f(x, k):\n    if k > 0:\n        return np.moveaxis(f(x, k - 1), 0, -1)[:-1]\n    return x\n",
        (np.arange(64.0).reshape((2,) * 6), 3),
    ),
    "what it changes": (SORT + "def f(a):\n    b = a.copy()\n    qs(b, 0, len(b) - 1)\n    return b\n", (X,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("engine", ["numpy", pytest.param("relax", marks=pytest.mark.full)])
def test_as_in_python(name: str, engine: str) -> None:
    source, arguments = PROGRAMS[name]
    names: dict[str, object] = {"np": np}
    exec(source, names)
    expected = names["f"](*arguments)  # type: ignore[operator]
    result = nnmagic.compile(source, namespace={"np": np}, engine=engine)(*arguments)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_from_a_function_with_types() -> None:
    source = FIB + "def f(x: Tensor[(3,), f32], n: i64):\n    return x * fib(n)\n"
    result = nnmagic.compile(source, engine="numpy")(np.ones(3, np.float32), 10)
    np.testing.assert_array_equal(result, np.full(3, 55, np.float32))
    assert result.dtype == np.float32


def test_what_is_known_cannot_change() -> None:
    source = (
        "def f(x, kind='a'):\n    if x.sum() > 9:\n        return x\n"
        "    return f(x + 1, 'b') if kind == 'a' else f(x + 1, 'a')\n"
    )
    with pytest.raises(TinyNNError, match="f: `kind` is the string 'a' here, and cannot change"):
        nnmagic.compile(source, engine="numpy")(X - 5)
