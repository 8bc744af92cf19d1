"""Statements and functions of daily NumPy code, against NumPy: ``np.add.at``, rows of tuples, extremes."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(0)
X, ROWS, COLUMNS = RNG.standard_normal(40), RNG.integers(-7, 7, 40), RNG.integers(0, 5, 40)

PROGRAMS = [
    "def f(x, i, j):\n    m = np.zeros((7, 5))\n    np.add.at(m, (i, j), x)\n"
    "    np.subtract.at(m, i, 1)\n    return m",
    "def f(x, i, j):\n    m = np.ones((7, 5), dtype=np.float32)\n    np.multiply.at(m, (i, 2), 0.5)\n"
    "    np.maximum.at(m, i, x.astype(np.float32)[:, None])\n    return m",
    "def f(x, i, j):\n    return np.maximum.accumulate(x), np.minimum.accumulate(x.reshape(8, 5), axis=1)",
    "def f(x, i, j):\n    out = np.empty((40, 3))\n    a, b = 1.0, 2.0\n    for k in range(40):\n"
    "        out[k] = a, b, x[k]\n        a, b = b * 0.5, a + x[k]\n    out[0] = 1, 2, 3\n"
    "    n = np.zeros(3, dtype=int)\n    n[:] = (1, 2, 3)\n    return out, n",
    "def f(x, i, j):\n    with np.errstate(divide='ignore', invalid='ignore'):\n"
    "        y = x / np.maximum(x, 0)\n    return np.nan_to_num(y)",
    "def f(x, i, j):\n    p, k, z = np.ones(40, dtype=bool), i[0], x.reshape(4, 10).copy()\n"
    "    p[:2] = False\n    for n in range(2, 7):\n        if p[n]:\n            p[n * n::n] = False\n"
    "    z[1:, ::k] += 3\n"
    "    z[k, 8::-j[0] - 1] = 0\n    return np.flatnonzero(p), z, x[::k], x[-3:-99:k], x[30:2:-j[0] - 1]",
    "def f(x, i, j):\n    z = np.zeros((2, 40))\n    np.divide(x, j, out=z, where=j != 0)\n"
    "    np.log(x, out=z[0], where=x > 1)\n"
    "    y = np.log(x, out=-np.ones(40), where=x > 0)\n"
    "    return z, y, np.divide(i, j, out=np.zeros_like(x), where=j != 0)",
    "def f(x, i, j):\n    t, k = 0.0, i[0] + 9\n    for n, v in enumerate(x, start=1):\n        t += v / n\n"
    "    for n, (a, b) in enumerate(zip(x, j), k):\n        t += a * b * n\n"
    "    return t, [n * v for n, v in enumerate((x, i), 5)][1]",
]


@pytest.mark.parametrize("source", PROGRAMS)
def test_the_results_are_those_of_numpy(source: str) -> None:
    namespace: dict[str, object] = {"np": np}
    exec(source, namespace)
    function, judge = nnmagic.compile(source, namespace={"np": np}, cache=False), namespace["f"]
    results, wanted = function(X, ROWS, COLUMNS), judge(X, ROWS, COLUMNS)  # type: ignore[operator]
    pairs = zip(results, wanted, strict=True) if isinstance(wanted, tuple) else [(results, wanted)]
    for result, expected in pairs:
        np.testing.assert_allclose(result, expected, rtol=1e-6)
        assert result.dtype == expected.dtype


def test_names_of_the_same_memory_show_a_change() -> None:
    source = "def f(i: Tensor[(3,), i64]):\n    m = np.zeros(5)\n    z = m\n    np.add.at(m, i, 1)\n"
    source += "    return m, z\n"
    both = nnmagic.compile(source, namespace={"np": np}, cache=False)(np.array([2, 0, 2]))
    assert [each.tolist() for each in both] == [[1, 0, 2, 0, 0]] * 2


def test_an_array_of_the_caller_is_changed() -> None:
    source = "def f(a: InOut[Tensor[(3,), f64]], i: Tensor[(3,), i64]):\n    np.add.at(a, i, 1)\n"
    array, expected, at = np.zeros(3), np.zeros(3), np.array([2, 0, 2])
    nnmagic.compile(source, namespace={"np": np}, cache=False)(array, at)
    np.add.at(expected, at, 1)
    assert array.tolist() == expected.tolist()
