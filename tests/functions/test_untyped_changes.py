"""A function without types that assigns elements of a parameter changes the caller's array, as in Python."""

from __future__ import annotations

import copy

import numpy as np
import numpy.typing as npt
import pytest

import nnmagic
from nnmagic import TinyNNError

X = np.arange(6.0)
M = np.arange(12.0).reshape(3, 4)

BUBBLE = """def f(a):
    for i in range(len(a)):
        for j in range(0, len(a) - i - 1):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a
"""
QUICK = """def f(a, lo, hi):
    if lo < hi:
        p, i = a[hi], lo - 1
        for j in range(lo, hi):
            if a[j] <= p:
                i += 1
                a[i], a[j] = a[j], a[i]
        a[i + 1], a[hi] = a[hi], a[i + 1]
        f(a, lo, i)
        f(a, i + 2, hi)
"""

PROGRAMS: dict[str, tuple[str, tuple[object, ...]]] = {
    "an element": ("def f(a):\n    a[0] = 5\n", (X,)),
    "with a result": ("def f(a):\n    a[0] = 5\n    return a.sum()\n", (X,)),
    "one of two": ("def f(a, b):\n    for i in range(len(a)):\n        a[i] += b[i]\n", (X, X + 1)),
    "a view": ("def f(a):\n    row = a[1]\n    row[:] = 7\n", (M,)),
    "another name": ("def f(a):\n    b = a\n    b[0] = 9\n", (X,)),
    "rows": ("def f(a):\n    for i in range(a.shape[0]):\n        a[i, :] = a[i, ::-1]\n", (M,)),
    "an update": ("def f(pos, vel, dt):\n    pos += vel * dt\n    return pos\n", (X, X + 1, 0.5)),
    "an update of a number": ("def f(a, n):\n    n += 1\n    a[n] = n\n    return n\n", (X, 2)),
    "a name bound anew": ("def f(x):\n    x = x / 2\n    x[0] = 3\n    return x\n", (X,)),
    "a copy": ("def f(a):\n    a = a.copy()\n    a[0] = 1\n    return a\n", (X,)),
    "a helper": (
        "def swap(a, i, j):\n    a[i], a[j] = a[j], a[i]\n\ndef f(a):\n    swap(a, 0, 2)\n    return a[0]\n",
        (X,),
    ),
    "methods": (
        "def f(a):\n    a.sort()\n    a[::2] *= 2\n    np.add(a, 1, out=a)\n    a.fill(a[1])\n",
        (-X,),
    ),
    "a mask": ("def f(a, mask):\n    a[mask] = 0\n    return a\n", (X, X > 2)),
    "in a branch": ("def f(a, n):\n    if n > 0:\n        a[0] = n\n    return n\n", (X, 3)),
    "not at all": ("def f(a):\n    return a.sum()\n", (X,)),
    "bubble sort": (BUBBLE, (np.array([3.0, 1, 2, 5, 4]),)),
    "quicksort": (QUICK, (np.array([3.0, 1, 2, 5, 4]), 0, 4)),
    "strided": ("def f(a):\n    a[0] = 5\n    a *= 2\n", (M[:, ::2],)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("engine", ["numpy", pytest.param("relax", marks=pytest.mark.full)])
def test_arrays_hold_what_python_leaves_in_them(name: str, engine: str) -> None:
    source, arguments = PROGRAMS[name]
    names: dict[str, object] = {"np": np}
    exec(source, names)
    expected, given = copy.deepcopy(arguments), copy.deepcopy(arguments)
    f, twin = nnmagic.compile(source, namespace={"np": np}, engine=engine), names["f"]
    for _ in range(2):
        result, wanted = f(*given), twin(*expected)  # type: ignore[operator]
        assert (result is None) == (wanted is None)
        if wanted is not None:
            np.testing.assert_allclose(result, wanted)
        for one, other in zip(given, expected, strict=True):
            np.testing.assert_allclose(one, other)  # type: ignore[arg-type]


def test_machine_code_changes_the_array_itself() -> None:
    f = nnmagic.compile(BUBBLE)
    array = np.array([3.0, 1, 2])
    f(array)
    np.testing.assert_array_equal(array, [1, 2, 3])
    assert f.annotated[0].startswith("f(a: InOut[Tensor[(3,), f64]])")


def test_what_python_would_show_elsewhere_is_refused() -> None:
    f = nnmagic.compile("def f(a, b):\n    a[0] = 5\n    return b[0]\n", engine="numpy")
    array = X.copy()
    with pytest.raises(ValueError, match="changes 'a', with which 'b' shares memory; give a copy"):
        f(array, array[::-1])
    np.testing.assert_array_equal(array, X)
    assert f(array, X) == 0
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        f(array, X)


def test_with_types_it_is_refused() -> None:
    for annotation in ("Tensor[(3,), f64]", "Tensor[..., f64]"):
        with pytest.raises(TinyNNError, match="the parameter `a` belongs to the caller"):
            nnmagic.compile(f"def f(a: {annotation}):\n    a[0] = 5\n    return a\n")(np.zeros(3))


def test_a_later_cell_has_its_arrays_changed() -> None:
    f = nnmagic.compile("def f(a):\n    a[0] = 5\n", engine="numpy")
    source = "def g(x: Tensor[(3,), f64]):\n    y = x * 2\n    f(y)\n    return y\n"
    g = nnmagic.compile(source, namespace={"f": f}, engine="numpy")
    np.testing.assert_array_equal(g(np.ones(3)), [5, 2, 2])


def test_a_hint_of_numpys_changes_nothing() -> None:
    """People annotate what they compile with numba, whose functions change arrays all the same."""
    source = (
        "def f(s: np.ndarray, w: npt.NDArray, n: int) -> None:\n"
        "    for i in range(n):\n        s[i + 1] = s[i] + w[i]\n"
    )
    names: dict[str, object] = {"np": np, "npt": npt}
    f = nnmagic.compile(source, namespace=names, engine="numpy")
    s, w = np.zeros(4), np.array([1.0, 2, 3])
    assert f(s, w, 3) is None
    np.testing.assert_array_equal(s, [0, 1, 3, 6])
    caller = "def g(w):\n    s = np.zeros(4)\n    f(s, w, 3)\n    return s\n"
    g = nnmagic.compile(caller, namespace={**names, "f": f}, engine="numpy")
    np.testing.assert_array_equal(g(w), s)


STEP = "def step(theta, noise):\n    theta += noise\n    theta %= 2.0\n"


def test_a_function_that_returns_nothing_changes_what_it_updates() -> None:
    """``x += y`` changes an array of the caller, in a later cell as in its own; a number stays what it is."""
    loop = "    for t in range(len(noises)):\n        step(theta, noises[t])\n"
    whole = f"def whole(theta, noises):\n{loop}    return theta.sum()\n"
    number = "def number(n):\n    step(n, 1)\n    return n\n"
    names: dict[str, object] = {"np": np}
    exec(STEP + whole + number, names)
    own = names["whole"], names["number"]
    step = nnmagic.compile(STEP, engine="numpy")
    for f in (
        nnmagic.compile(whole, namespace={"step": step}, engine="numpy"),
        nnmagic.compile(STEP + whole, engine="numpy"),
    ):
        ours, theirs, noises = X.copy(), X.copy(), np.arange(12.0).reshape(2, 6)
        assert f(ours, noises) == own[0](theirs, noises)
        np.testing.assert_array_equal(ours, theirs)
    g = nnmagic.compile(number, namespace={"step": step}, engine="numpy")
    with pytest.raises(TinyNNError, match="`step` returns nothing"):
        g(3)
