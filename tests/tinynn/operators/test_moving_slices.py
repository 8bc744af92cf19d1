"""Slices whose bounds a loop or a call decides, against the same source run by Python on NumPy."""

# ruff: noqa: E501  # a program reads best on one line

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable

VECTOR, MATRIX = 'Tensor[("n",), f64]', 'Tensor[("n", "m"), f64]'
HEAD = f"(x: {VECTOR}, a: i64, b: i64):\n"

#: Bodies of functions of a vector and two integers.
OF_BOUNDS = {
    "sum": "    return x[a:b].sum()\n",
    "product": "    return x[a:] @ x[a:] + x[:b].sum()\n",
    "a slice of a slice": "    return x[a:][:b][1:].sum()\n",
    "an empty slice": "    return x[b:b].sum() + x[a:][:0].sum()\n",
    "backwards": "    return (x[a::-1] * x[: len(x[a::-1])]).sum() + x[:b:-1].sum()\n",
    "every other one": "    return x[a:b:2].sum() + x[a:b:3].sum()\n",
    "joined": "    return (np.concatenate((x[:a], x[b:])) * 2 + 1).sum()\n",
    "an element of it": "    return x[a:].sum() if len(x[a:]) < 2 else x[a:][1] - x[a:][-1]\n",
    "assigned": "    y = x.copy()\n    y[a:b] = y[a:b] * 2 + 1\n    return y\n",
    "added to": "    y = x.copy()\n    y[a:b] += x[a:b]\n    y[b:] -= 1\n    return y\n",
    "overlapping": "    y = x.copy()\n    y[a : a + 3] = y[b : b + 3]\n    return y\n",
    "in a branch": "    y = x * 1\n    if a < b:\n        y[0] = x[a:b].sum()\n    else:\n        y[0] = x[b:a].sum()\n    return y\n",
    "in a loop": "    y = x * 0\n    for i in range(len(x)):\n        y[i] = x[i:].sum() + x[: i + a].sum() * x[b:i].sum()\n    return y\n",
    "in a window": "    y = x * 0\n    for i in range(len(x)):\n        y[i] = x[max(i - 1, 0) : i + 2].max()\n    return y\n",
    "by halves": "    low, high = 0, len(x)\n    while high - low > 1:\n        middle = (low + high) // 2\n        if x[low:middle].sum() > x[middle:high].sum():\n            high = middle\n        else:\n            low = middle\n    return low, high\n",
    "left early": "    for i in range(len(x)):\n        if x[i:].sum() < a:\n            return i\n    return -1\n",
    "by a helper": "    def norm(v):\n        return (v * v).sum() + len(v)\n\n    total = 0.0\n    for i in range(len(x)):\n        total += norm(x[i:]) - norm(x[:i])\n    return total\n",
}

#: Bodies of functions of a matrix, which they may change.
OF_MATRICES = {
    "rows and columns": "    for i in range(a.shape[0]):\n        for j in range(min(i + 1, a.shape[1])):\n            a[i, j] -= a[i, :j] @ a[:j, j][: len(a[i, :j])] * 0.1\n",
    "a triangle": "    for i in range(a.shape[0]):\n        a[i, : i + 1] *= 2\n        a[i, i + 1 :] = 0\n",
    "a block": "    for i in range(0, a.shape[0], 2):\n        a[i : i + 2, 1:] += a[i : i + 2, 1:].sum()\n",
    "the rest of a matrix": "    for k in range(min(a.shape[0], a.shape[1])):\n        a[k + 1 :, k] *= 0.5\n        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :]) * 0.1\n",
    "a product of blocks": "    for i in range(a.shape[1]):\n        a[0, i] += (a[1:, i:] @ a[0, i:]).sum() * 0.1 + a[:, : i + 1].mean(axis=0)[-1]\n",
}
BOUNDS = (-9, -3, -1, 0, 1, 2, 5, 9)


def both(source: str) -> tuple[Any, Any]:
    """Return what nnmagic and Python make of the function ``f``."""
    namespace: dict[str, Any] = {"np": np}
    exec("from __future__ import annotations\n" + source, namespace)
    return nnmagic.compile(source, namespace={"np": np}, cache=False), namespace["f"]


def assert_native(function: Any) -> None:
    """Assert that no virtual machine and no interpreter runs the function."""
    assert isinstance(function.build(), AotExecutable)


def check(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            check(one, other)
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def compare(ours: Any, python: Any, *arguments: Any) -> None:
    try:
        wanted = python(*arguments)
    except (ValueError, IndexError) as error:
        with pytest.raises(type(error)):
            ours(*arguments)
    else:
        check(ours(*arguments), wanted)


@pytest.mark.machine_code
@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("name", OF_BOUNDS)
def test_bounds_of_a_call(name: str) -> None:
    ours, python = both(f"def f{HEAD}{OF_BOUNDS[name]}")
    assert_native(ours)
    for size in (0, 1, 2, 3, 7, 40):
        x = np.random.default_rng(size).standard_normal(size)
        for a, b in itertools.product(BOUNDS, repeat=2):
            compare(ours, python, x, a, b)


@pytest.mark.machine_code
@pytest.mark.full("a product of blocks")
@pytest.mark.parametrize("name", OF_MATRICES)
def test_bounds_of_loops(name: str) -> None:
    ours, python = both(f"def f(a: InOut[{MATRIX}]):\n{OF_MATRICES[name]}")
    assert_native(ours)
    for shape in itertools.product((0, 1, 2, 5, 17), repeat=2):
        a = np.random.default_rng(sum(shape)).standard_normal(shape)
        wanted, error = a.copy(), None
        try:
            python(wanted)
        except IndexError as raised:
            error = raised
        if error is None:
            ours(a)
            check(a, wanted)
        else:
            with pytest.raises(IndexError):
                ours(a)


@pytest.mark.machine_code
def test_known_sizes_bound_slices_too() -> None:
    ours, python = both(
        "def f(x: Tensor[(9,), f64], a: i64):\n    return (x[a:] * 2).sum() - x[:a].max(initial=0.0)\n"
    )
    assert_native(ours)
    x = np.arange(9.0)
    for a in range(-12, 12):
        check(ours(x, a), python(x, a))


def test_sizes_that_do_not_fit_are_refused() -> None:
    ours, _ = both(f"def f{HEAD}    return (x[:a] * x[:b]).sum(), x[:a] @ x[:a]\n")
    x = np.arange(6.0)
    check(ours(x, 1, 4), (0.0, 0.0))
    with pytest.raises(ValueError, match="do not broadcast"):
        ours(x, 2, 3)
    check(ours(x, 3, 3), (5.0, 5.0))


def test_what_a_slice_leaves_the_function_as() -> None:
    ours, python = both(f"def f{HEAD}    return x[a:b] * 2\n")
    x = np.arange(6.0)
    for a, b in itertools.product(BOUNDS, repeat=2):
        check(ours(x, a, b), python(x, a, b))


@pytest.mark.machine_code
def test_rows_of_a_sparse_matrix() -> None:
    source = """
def f(starts: Tensor[("r",), i64], columns: Tensor[("k",), i64], values: Tensor[("k",), f64], x: Tensor[("n",), f64]):
    y = np.zeros(len(starts) - 1)
    for i in range(len(starts) - 1):
        y[i] = values[starts[i] : starts[i + 1]] @ x[columns[starts[i] : starts[i + 1]]]
    return y
"""
    ours, python = both(source)
    assert_native(ours)
    rng = np.random.default_rng(5)
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 6, 30))])
    count = int(starts[-1])
    arguments = starts, rng.integers(0, 12, count), rng.standard_normal(count), rng.standard_normal(12)
    check(ours(*arguments), python(*arguments))
    arguments[1][count // 2] = 12
    with pytest.raises(IndexError):
        ours(*arguments)


@pytest.mark.full("0", "499")
@pytest.mark.parametrize("size", [0, 3, 60, 64, 499, 501])
def test_a_branch_that_is_not_taken_needs_no_memory(size: int) -> None:
    """Its arrays would have a negative size."""
    source = """
def f(x: Tensor[("n",), f64]):
    if len(x) > 500:
        z = np.cumsum(np.zeros(len(x) - 500) + 1.0)
        return np.cumsum(np.sort(z)).sum()
    z, w = np.sort(x * 2), np.cumsum(x)
    return np.cumsum(np.sort(z)).sum() + np.cumsum(w).sum() + np.outer(z, w).sum()
"""
    ours, python = both(source)
    x = np.random.default_rng(size).standard_normal(size)
    for _ in range(3):
        np.testing.assert_allclose(ours(x), python(x), rtol=1e-9)


def test_a_window_needs_no_more_memory_than_it_has() -> None:
    windows = "    y = x * 0\n    for i in range(a):\n        y[i] = np.outer(x[i : i + 3], x[i : i + 3]).sum()\n    return y[:2].sum()\n"
    ours, _ = both(f"def f{HEAD}{windows}")
    product, _ = both(f"def f{HEAD}    return np.cumsum(np.outer(x[a:b], x[a:b])).sum()\n")
    x = np.ones(1_000_000)
    assert ours(x, 2, 0) == 18
    assert product(x, 1, 4) == 45


@pytest.mark.machine_code
@pytest.mark.budget(3)
def test_no_size_is_inferred_beside_a_slice_without_elements() -> None:
    ours, python = both(f"def f{HEAD}    return np.sort(x.reshape(len(x[a:b]), -1) * 2, axis=0)\n")
    for size, a, b in ((0, 0, 2), (6, 1, 3), (6, 3, 3), (6, 0, 6), (6, 0, 4)):
        compare(ours, python, np.arange(float(size)), a, b)


ROWS = {
    "dot products": "y[i, 0] = (x[i, 1] - y[i, :i] @ y[:i, 0]) / x[i, i]",
    "changed before it is read": "row = y[i].copy()\ny[i, 1] = 7.0\ny[0, 0] += np.sum(row[1:])",
    "changed after it was read": "row = y[i].copy()\ny[0, 0] += np.sum(row[1:])\ny[i, 1] = 7.0",
    "exchanged": "y[i], y[i - 1] = y[i - 1].copy(), y[i].copy()",
    "moved onto itself": "y[i, 1:] = y[i, :-1]",
    "moved by a loop": "row = y[i].copy()\nfor j in range(len(x)):\n    y[i, j] = row[len(x) - 1 - j]",
    "read by a loop": "row = x[i, i:]\nfor j in range(len(x) - i):\n    y[i, j] += row[j] * row[0]",
    "changed in a branch": "row = y[i].copy()\nif row[0] > 0:\n    y[i] = row * 2.0\ny[i - 1] += row",
    "several rows": "block = x[i - 1 : i + 1]\ny[i] = block[0] + np.sum(block, 0)",
    "a column read by a loop": "for j in range(len(x)):\n    for k in range(j):\n        y[i, j] += x[i, k] * x[k, j]",
    "a column changed by a loop": "for j in range(1, len(x)):\n    for k in range(j):\n        y[k, j] += 0.01 * (y[k, i] - y[j - 1, j])",
    "a copied column": "c = y[:, i].copy()\nfor j in range(len(x)):\n    y[j, i] = c[len(x) - 1 - j]\n    y[0, j] += c[j]",
    "a column of a part": "c = x[1:, i]\nfor j in range(len(x) - 1):\n    y[j, i] -= c[j] * c[0]\ny[i, 0] += np.sum(c)",
    "a column in a branch": "c = x[:, i]\nfor j in range(len(x)):\n    if c[j] > 0:\n        for k in range(j):\n            y[i, k] += c[k]",
    "kept for the next round": "y[i] = kept + 1.0\nkept = x[i].copy()",
}


@pytest.mark.machine_code
@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("statements", ROWS.values(), ids=ROWS)
def test_rows_that_are_read_where_they_are(statements: str) -> None:
    lines = [
        'def f(x: Tensor[("n", "n"), f64]):',
        "    y = x.copy()",
        *(["    kept = x[0].copy()"] if "kept" in statements else []),
        "    for i in range(1, len(x)):",
        *(f"        {line}" for line in statements.splitlines()),
        "    return y",
    ]
    source = "\n".join(lines)
    namespace: dict[str, object] = {"np": np}
    exec("from __future__ import annotations\n" + source, namespace)
    function, judge = nnmagic.compile(source, namespace={"np": np}, cache=False), namespace["f"]
    for size in (2, 3, 20, 41):
        x = np.random.default_rng(size).standard_normal((size, size)) + size
        np.testing.assert_allclose(function(x), judge(x), rtol=1e-9)  # type: ignore[operator]


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("source", "kernels"),
    [
        (
            """
def f(lower: Tensor[("n", "n"), f64], b: Tensor[("n",), f64]):
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return x
""",
            ["nn_matmul", "zeros_like"],
        ),
        (
            """
def f(x: Tensor[("n", "n"), f64]):
    y = np.zeros(len(x))
    for i in range(len(x)):
        for j in range(len(x)):
            for k in range(j):
                y[i] = max(y[i], x[i, k] + x[k, j])
    return y
""",
            ["dyn_full"],
        ),
    ],
    ids=["rows", "columns"],
)
def test_what_is_read_where_it_is_has_no_kernel(source: str, kernels: list[str]) -> None:
    function = nnmagic.compile(source, namespace={"np": np}, cache=False)
    names = re.findall(r"def (\w+)[(\[]", function.stages["tir"])
    assert sorted(re.sub(r"\d", "", name) for name in names) == kernels
