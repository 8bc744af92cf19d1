"""Windows at a loop's counter against the same source run by Python on NumPy; `tinynn/values/affine_int`, too."""

# ruff: noqa: E501  # a program reads best on one line

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnmagic

#: Bodies of functions of a vector ``x`` and a matrix ``a``, and how many of their windows are certainly inside.
WINDOWS = {
    "ahead": ("    for i in range(len(x) - 3):\n        y[i] = x[i : i + 4].sum()\n", 1),
    "behind": ("    for i in range(4, len(x)):\n        y[i] = x[i - 4 : i].max()\n", 1),
    "around": ("    for i in range(1, len(x) - 1):\n        y[i] = np.median(x[i - 1 : i + 2])\n", 1),
    "backwards": (
        "    for i in range(len(x) - 1, 3, -1):\n        y[i] = x[i - 3 : i + 1] @ np.arange(4.0)\n",
        1,
    ),
    "blocks": ("    for b in range(len(x) // 3):\n        y[b] = x[3 * b : 3 * (b + 1)].sum()\n", 1),
    "steps": ("    for i in range(0, len(x) - 2, 3):\n        y[i] = x[i : i + 3].sum()\n", 1),
    "every other one": ("    for i in range(len(x) - 4):\n        y[i] = x[i : i + 5 : 2].sum()\n", 0),
    "nested": (
        "    for i in range(len(x) - 6):\n        for k in range(3):\n            y[i] += x[i + k : i + k + 2].sum()\n",
        0,
    ),
    "of a matrix": (
        "    for i in range(1, len(a) - 1):\n        for j in range(a.shape[1] - 2):\n            y[i] += a[i - 1 : i + 2, j : j + 3].max()\n",
        1,
    ),
    "of columns": (
        "    for j in range(a.shape[1] - 1):\n        y[j % len(y)] += a[:, j : j + 2].sum()\n",
        1,
    ),
    "of rows": ("    for i in range(len(a) - 1):\n        y[i] = a[i : i + 2].sum()\n", 1),
    "of a named length": (
        "    n, taps = len(x) - a.shape[1] + 1, a[0]\n    t = np.zeros(n)\n    for k in range(len(taps)):\n"
        "        t += taps[k] * x[k : k + n]\n    y[: len(t)] = t\n",
        1,
    ),
    "columns of a named number": (
        "    r = len(x) // 4\n    b = np.outer(x, x)\n    t = np.zeros((len(b), len(x) - 2 * r))\n"
        "    for k in range(2 * r + 1):\n        t += (k + 1) * b[:, k : k + len(x) - 2 * r]\n    y[:] = t.sum(axis=1)\n",
        1,
    ),
    "of half the length": (
        "    n = len(x) // 2\n    for k in range(n):\n        y[k] = (x[k : k + n] * x[:n]).sum()\n",
        1,
    ),
    "of a length that may be negative": (
        "    n = len(x) - 8\n    for k in range(len(a)):\n        y[k] = x[k : k + n].sum()\n",
        0,
    ),
    "beyond the end": ("    for i in range(len(x)):\n        y[i] = x[i : i + 4].sum()\n", 0),
    "before the beginning": ("    for i in range(len(x)):\n        y[i] = x[i - 2 : i + 1].sum()\n", 0),
    "of another array": ("    for i in range(len(a) - 1):\n        y[i] = x[i : i + 2].sum()\n", 0),
    "no rounds": ("    for i in range(40, len(x) - 40):\n        y[i] = x[i : i + 4].sum()\n", 1),
    "enumerated": ("    for i, v in enumerate(x[2:]):\n        y[i] = v * x[i : i + 3].sum()\n", 0),
    "changed": ("    for i in range(len(x) - 2):\n        y[i : i + 2] += x[i + 1 : i + 3] * 2\n", 2),
    "after a change of the counter": (
        "    for i in range(len(x) - 3):\n        i = i + 2\n        y[i] = x[i : i + 2].sum()\n",
        1,
    ),
    "an alternative": (
        "    for i in range(len(x) - 2):\n        k = i if x[i] > 0 else 0\n        y[i] = x[k : k + 2].sum()\n",
        0,
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_pythons(name: str) -> None:
    compare(name, {})


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "name",
    ["around", "of a matrix", "of columns", "changed", "of a named length", "columns of a named number"],
)
def test_windows_in_machine_code_are_pythons(name: str) -> None:
    compare(name, {"engine": "relax"})


def compare(name: str, options: dict[str, Any]) -> None:
    body, inside = WINDOWS[name]
    head = 'x: Tensor[("n",), f64], a: Tensor[("p", "q"), f64]'
    source = f"    y = np.zeros(len(x))\n{body}    return y\n"
    namespace: dict[str, Any] = {"np": np}
    exec(f"def f(x, a):\n{source}", namespace)
    f = nnmagic.compile(f"def f({head}):\n{source}", namespace={"np": np}, cache=False, **options)
    assert f.stages["relay"].count("python.window(") >= inside
    if not inside:
        assert "python.window(" not in f.stages["relay"] or name in ("every other one", "nested")
    rng = np.random.default_rng(7)
    for n, p, q in ((17, 9, 5), (6, 3, 4), (9, 4, 2)):
        x, a = rng.standard_normal(n), rng.standard_normal((p, q))
        if name in ("of another array", "of a matrix", "of rows") and n < p:
            continue
        np.testing.assert_allclose(f(x, a), namespace["f"](x, a), rtol=1e-12, atol=1e-12)


@pytest.mark.machine_code
def test_windows_beside_slices_of_other_axes() -> None:
    """The axis that a window keeps whole was as long as no array is: the call raised ValueError."""
    source = """
    n, m = x.shape
    p, q = w.shape
    out = np.zeros((n - p + 1, m - q + 1))
    for i in range(p):
        for j in range(q):
            out += x[0:0 + n - p + 1, j:j + m - q + 1]
    return out
"""
    namespace: dict[str, Any] = {"np": np}
    exec(f"def f(x, w):{source}", namespace)
    head = 'x: Tensor[("n", "m"), f64], w: Tensor[("p", "q"), f64]'
    f = nnmagic.compile(f"def f({head}):{source}", namespace={"np": np}, cache=False, engine="relax")
    x, w = np.arange(63.0).reshape(7, 9), np.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(f(x, w), namespace["f"](x, w), rtol=1e-12)


def test_gradients_go_through_windows() -> None:
    source = """
def loss(x: Tensor[("n",), f64]):
    total = 0.0
    for i in range(len(x) - 2):
        total += (x[i : i + 3] * x[i : i + 3]).sum() * (i + 1)
    return total
def slope(x: Tensor[("n",), f64]):
    return grad(loss)(x)
"""
    slope = nnmagic.compile(source, cache=False)
    x = np.random.default_rng(8).standard_normal(7)
    weights = np.convolve(np.arange(1.0, 6.0), np.ones(3))
    np.testing.assert_allclose(slope(x), 2 * x * weights, rtol=1e-12)


def test_examples_have_windows_of_their_own() -> None:
    source = """
def sums(x: Tensor[("n",), f64]):
    y = np.zeros(len(x))
    for i in range(len(x) - 2):
        y[i] = x[i : i + 3].sum()
    return y
def rows(a: Tensor[("m", "n"), f64]):
    return vmap(sums)(a)
"""
    rows = nnmagic.compile(source, namespace={"np": np}, cache=False)
    a = np.random.default_rng(9).standard_normal((4, 8))
    expected = np.pad(np.lib.stride_tricks.sliding_window_view(a, 3, axis=1).sum(axis=2), ((0, 0), (0, 2)))
    np.testing.assert_allclose(rows(a), expected, rtol=1e-12)


def test_windows_of_a_named_length_have_gradients_and_batches() -> None:
    source = """
def filtered(x: Tensor[("m",), f64], h: Tensor[("k",), f64]):
    n = len(x) - len(h) + 1
    y = np.zeros(n)
    for k in range(len(h)):
        y += h[k] * x[k : k + n]
    return y
def loss(x: Tensor[("m",), f64], h: Tensor[("k",), f64]):
    return (filtered(x, h) ** 2).sum()
def all_of_them(x: Tensor[("m",), f64], h: Tensor[("k",), f64], a: Tensor[("b", "m"), f64]):
    return grad(loss, argnums=(0, 1))(x, h), vmap(filtered, in_axes=(0, None))(a, h)
"""
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    rng = np.random.default_rng(10)
    x, h, a = rng.standard_normal(9), rng.standard_normal(4), rng.standard_normal((3, 9))
    (dx, dh), rows = f(x, h, a)
    y = np.correlate(x, h, "valid")
    np.testing.assert_allclose(dx, 2 * np.convolve(y, h), rtol=1e-12)
    np.testing.assert_allclose(dh, 2 * np.correlate(x, y, "valid"), rtol=1e-12)
    np.testing.assert_allclose(rows, [np.correlate(row, h, "valid") for row in a], rtol=1e-12)
