"""Assignments to elements: what Python does on NumPy, or a refusal; never a silent copy."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest

import nnmagic

NAMED, FIXED = 'x: Tensor[("n", "m"), f32]', "x: Tensor[(5, 4), f32]"

#: Bodies that begin with ``y``, a copy of a matrix of 5 rows and 4 columns.
BODIES = [
    "y[1, 2] = 5\ny[-1, -4] += 2.5",
    "y[0] = 7\ny[-1] = y[0] + 1",
    "y[2] *= y[1]",
    "y[:, 1] *= 2\ny[:, -1] = y[:, 0]",
    "y[1:-1, 1:-1] = y[:-2, 1:-1] + y[2:, 1:-1]",
    "y[1:] = y[:-1]\ny[:, ::-1] -= y",
    "y[:-1] += y[1:]",
    "y[::-1] = y + 0",
    "y[::2, 1::2] = 1\ny[3:0:-1] = y[1:4]",
    "y[...] = 3\ny[..., 0] = y[0, ..., 1]",
    "y[:] = y[0]\ny[:] = y[:, :1]",
    "y[1:1] = 9\ny[9:] = 9\ny[2:1] = 9",
    "y[y < 0] = 0\ny[y > 1] *= 0.5",
    "y[y[:, 0] < 0] = 7",
    "y[[0, 2, 0]] = y[[1, 3, 4]]",
    "y[[0, 0, 1], 1] += 1",
    "y[[1, 2], [3, 0]] = x[0, :2]",
    "y[1, [0, 2]] = 5\ny[[2, 0], -1] *= 3",
    "i = (x[:3, 0] > 0).astype(int) - 1\ny[i, [0, 1, 2]] += 2\ny[[[0], [3]], [1, -2]] = x[:2, :2]",
    "y[x[:, 0] > 0, 1] = 9\ny[0, x[0] < 0] = 2",
    "i = 1\nwhile i < 4:\n    y[[i, i - 1]] = y[[i - 1, i]]\n    i += 1",
    "y[0, 0], y[1, 1] = y[1, 1], y[0, 0]",
    "a = y[0, 0] = y[3, 3] = y[2, 2] + 1\ny[1, 1] += a",
    "i = 1\ni, y[i] = 2, 8\ny[i] = 6",
    "y[int(x[0, 0] > 0), 0] = 4",
    "t = y[0, 0]\ny[0, 0] = y[1, 0]\ny[1, 0] = t",
    "z = y\nz[0] = 1\ny = z + 0",
    "row = y[1]\ns = row.sum()\ny[1] = s",
    "z = y.copy()\ny[0] = 1\ny[1] = z[0]",
    "picked = y[[0, 1]]\ny[0] = 1\ny[2] = picked[0]",
    "pair = (y, 3)\ny[0] = 1\npair = (y, 4)\ny = pair[0] * pair[1]",
    "for i in range(5):\n    y[i, i % 4] = i",
    "for i in range(1, len(x)):\n    for j in range(x.shape[1]):\n        y[i, j] += y[i - 1, j]",
    "for i in range(len(x)):\n    for j in range(i):\n        y[i, j % 4] -= y[j, j % 4]",
    "for i in range(len(x)):\n    y[:i, 1] += i\n    y[i, i % 4:] = 0.5",
    "for i in range(len(x) - 1, -1, -1):\n    if y[i, 0] < 0:\n        continue\n    y[i] = -y[i]",
    "i = 0\nwhile i < len(x) and y[i, 0] < 9:\n    y[i, 0] = 9\n    i += 1",
    "z = np.zeros_like(y)\nfor i in range(len(x)):\n    y, z = z, y\n    y[i] = x[i]\ny = y + z",
    "z = y * 2\nfor i in range(3):\n    z[i] = y[i]\n    y = z + 0\n    z = y * 2",
    "if x[0, 0] > 0:\n    y[0] = 1\nelse:\n    y[1] = 2",
    "if x[0, 0] > 0:\n    z = y\n    z[0] = 1\n    y = z + 0\ny[1] = 3",
    "z = y\nfor i in range(100):\n    z = z + y\n    y[0] = i\n    z = y * 0.5\ny = z",
    "for row in y.copy():\n    y[0] = row + 1",
    "for row in x:\n    y[1] += row",
    "def change(a):\n    b = a.copy()\n    b[0] = 1\n    return b\ny = change(y) + y",
    "def first():\n    return y[0, 0]\ny[0, 0] = 4\ny[1, 1] = first()",
]


def compiled(body: str, parameters: str) -> tuple[nnmagic.CompiledFunction, object]:
    """The function of a cell, and the same source as Python."""
    text = textwrap.indent(f"y = x.copy()\n{body}\nreturn y", "    ")
    source = f"def f({parameters}):\n{text}\n"
    namespace: dict[str, object] = {"np": np}
    exec("from __future__ import annotations\n" + source, namespace)
    return nnmagic.compile(source, namespace={"np": np}), namespace["f"]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("parameters", [NAMED, FIXED], ids=["named", "fixed"])
@pytest.mark.parametrize("body", BODIES)
def test_as_python_on_numpy(body: str, parameters: str) -> None:
    function, judge = compiled(body, parameters)
    x = np.random.default_rng(5).standard_normal((5, 4)).astype(np.float32)
    before = x.copy()
    np.testing.assert_allclose(function(x), judge(x.copy()), rtol=1e-5, atol=1e-6)  # type: ignore[operator]
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_named_sizes_of_few_elements(rows: int) -> None:
    body = "y[1:-1, 1:-1] = 4\ny[:, 1:] = y[:, :-1]\nfor i in range(1, len(x)):\n    y[i] = y[i - 1] + 1"
    function, judge = compiled(body, NAMED)
    for columns in range(4):
        x = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
        np.testing.assert_allclose(function(x), judge(x.copy()), rtol=1e-6)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("dtype", "value"), [("f64", "0.5"), ("i32", "7"), ("u8", "255"), ("bool_", "True"), ("f16", "0.5")]
)
def test_dtypes(dtype: str, value: str) -> None:
    source = f"""
def f(n: i64) -> Tensor[(6,), {dtype}]:
    y = zeros((6,), {dtype})
    for i in range(n):
        y[i] = {value}
        y[i + 1] = y[i]
    return y
"""
    y = nnmagic.compile(source)(np.int64(3))
    expected = np.zeros(6, np.asarray(y).dtype)
    expected[:4] = eval(value)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("index", ["i", "i, 0", "0, i"])
@pytest.mark.parametrize("number", [5, -6, 2**62, -(2**63)])
def test_an_index_out_of_range_has_its_line(index: str, number: int) -> None:
    source = f'def f(x: Tensor[("n", "m"), f32], i: i64):\n    y = x * 2\n    y[{index}] = 1\n    return y\n'
    function = nnmagic.compile(source)
    with pytest.raises(IndexError) as caught:
        function(np.ones((5, 5), np.float32), np.int64(number))
    assert f"y[{index}] = 1" in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


#: Bodies in which two names stand for one array, with the name that is read after the other was changed.
SHARED = [
    ("z = y.T\ny[0] = 1\nreturn z", "z"),
    ("z = y.reshape(-1)\nz[0] = 1\nreturn y", "y"),
    ("z = stop_gradient(y)\ny[0] = 1\nreturn z", "z"),
    ("pair = (y, 1)\ny[0] = 1\nreturn pair[0]", "pair"),
    ("z = y if x[0, 0] > 0 else y * 2\ny[0] = 1\nreturn z", "z"),
    ("z = y * 2\nif x[0, 0] > 0:\n    z = y\ny[0] = 1\nreturn z", "z"),
    ("z = y[0]\ny[0] = 1\nz, k = z * 1, 2\nreturn z", "z"),
    ("z = y * 1\nfor i in range(100):\n    z[0] = y[0] + 1\n    y[1] = i\n    z = y\nreturn y", "y"),
]


@pytest.mark.parametrize(("body", "name"), SHARED)
def test_a_name_of_changed_memory_is_refused_with_both_places(body: str, name: str) -> None:
    text = textwrap.indent(f"y = x.copy()\n{body}", "    ")
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(f"def f(x: Tensor[(5, 4), f32]):\n{text}\n")
    message = str(caught.value)
    assert re.search(rf"`?{name}`? may share memory with `\w+`, which was changed", message)
    assert "is changed here" in message


def test_a_tuple_that_shares_memory_is_told_to_hold_a_copy() -> None:
    source = (
        "def f(x: Tensor[(3,), f32]):\n    y = x.copy()\n    pair = ({}, 1)\n    y[0] = 1\n    return pair\n"
    )
    with pytest.raises(nnmagic.TinyNNError, match=r"let it hold a copy, as y\.copy\(\)"):
        nnmagic.compile(source.format("y"))
    y, _ = nnmagic.compile(source.format("y.copy()"))(np.zeros(3, np.float32))
    np.testing.assert_array_equal(y, np.zeros(3))


@pytest.mark.parametrize("rows", ["y", "y[1:]", "enumerate(y)", "zip(x, y)"])
def test_an_array_that_a_loop_goes_over_is_not_changed_in_it(rows: str) -> None:
    for sizes in ("(5, 4)", '("n", 4)'):
        loop = f"for _row in {rows}:\n        y[0] = 1"
        source = f"def f(x: Tensor[{sizes}, f32]):\n    y = x.copy()\n    {loop}\n    return y\n"
        with pytest.raises(nnmagic.TinyNNError, match="a loop goes over an array that it changes"):
            nnmagic.compile(source)


def test_captured_arrays_stay_as_they_are() -> None:
    source = "def f(x: Tensor[(3,), f32]):\n    {}\n    return x\n"
    weights = np.zeros(3, np.float32)
    for body in ("weights[0] = 1", "w = weights\n    w[0] = 1"):
        with pytest.raises(nnmagic.TinyNNError, match=r"cannot be changed|does not change"):
            nnmagic.compile(source.format(body), namespace={"weights": weights})


@pytest.mark.machine_code
def test_one_element_of_many_costs_no_copy() -> None:
    """With a copy of a million elements in each of a million rounds, this would take an hour."""
    source = """
def f(x: Tensor[("n",), f64]):
    y = zeros((len(x),), f64)
    for i in range(1, len(x)):
        y[i] = y[i - 1] + x[i]
        if y[i] > 100:
            y[i] -= 100
    return y
"""
    x = np.full(1_000_000, 1.0)
    y = nnmagic.compile(source)(x)
    np.testing.assert_array_equal(y[:301], [0, *range(1, 101), *range(1, 101), *range(1, 101)])


@pytest.mark.machine_code
def test_two_elements_of_many_change_places_without_a_copy() -> None:
    """With a copy in each round, as of the test before."""
    source = """
def f(x: Tensor[("n",), f64]):
    y = x.copy()
    for i in range(len(x) - 1):
        y[i], y[i + 1] = y[i + 1], y[i]
    return y
"""
    x = np.arange(1_000_000.0)
    np.testing.assert_array_equal(nnmagic.compile(source)(x), np.roll(x, -1))


@pytest.mark.machine_code
def test_loops_in_loops_change_one_array() -> None:
    source = """
def f(a: Tensor[("n", "n"), f64]):
    n = len(a)
    u = a.copy()
    for i in range(n):
        for j in range(i):
            for k in range(j):
                u[i, j] -= u[i, k] * u[k, j]
            u[i, j] /= u[j, j]
        for j in range(i, n):
            for k in range(i):
                u[i, j] -= u[i, k] * u[k, j]
    return u
"""
    generator = np.random.default_rng(2)
    a = generator.standard_normal((60, 60)) + 60 * np.eye(60)
    u = nnmagic.compile(source)(a)
    np.testing.assert_allclose((np.tril(u, -1) + np.eye(60)) @ np.triu(u), a, rtol=1e-10, atol=1e-10)


EMPTY_SLICES = """
def f(x):
    y = x.copy()
    for i in range(len(y)):
        y[i:, :-1:-2] = y[i:, :-1:-2] * 0.5
    return y
"""


def test_a_slice_that_is_empty_at_every_size_can_be_assigned():
    names = {"np": np}
    exec(EMPTY_SLICES, names)
    x = np.random.default_rng(0).standard_normal((5, 5))
    typed = EMPTY_SLICES.replace("(x)", '(x: Tensor[("n", "n"), f64])', 1)
    np.testing.assert_array_equal(nnmagic.compile(typed)(x), names["f"](x))


CHAINED = """
def f(w, v, size=7):
    dp = np.zeros((len(w) + 1, size + 1), dtype=np.int64)
    for i in range(1, len(w) + 1):
        for c in range(size + 1):
            dp[i][c] = dp[i - 1][c]
            if w[i - 1] <= c:
                dp[i][c] = max(dp[i][c], dp[i - 1][c - w[i - 1]] + v[i - 1])
        dp[i][0] += 3
    return dp
"""


def test_a_chain_of_subscripts_is_one_subscript_where_the_first_is_an_int():
    names = {"np": np}
    exec(CHAINED, names)
    w, v = np.array([1, 3, 4, 5]), np.array([1, 4, 5, 7])
    function = nnmagic.compile(CHAINED, namespace={"np": np})
    np.testing.assert_array_equal(function(w, v), names["f"](w, v))


@pytest.mark.parametrize("size", ["5, 4", '"n", "m"'])
@pytest.mark.parametrize(
    "statement",
    [
        "y[1:][0] = 1",
        "y[k][0] = 1",
        "y[k, 1:][0] += 2",
        "y[[0, 1]][0] = 1",
        "y[k:][y[k:] > 5] -= 0.5",
        "y[1:][y[1:, 0] > 5] *= k",
        "y[:, k][y[:, 0] > 5] = -1",
        "y[y > 3][1:] = 0",
        "y[2:][1:][0] += y[0]",
        "y[1:, 1:][:, 0] = -1",
        "y[2][y[2] > 8] = 7",
    ],
)
def test_a_part_of_a_part_is_assigned_as_in_numpy(statement, size):
    source = (
        f"def f(x: Tensor[({size}), f64], k: i64):\n    y = x.copy()\n    {statement}\n"
        f"    for i in range(3):\n        y[i:][y[i:] > 9] -= 1\n    {statement}\n    return y\n"
    )
    names = {"np": np}
    exec(f"from __future__ import annotations\n{source}", names)
    x = np.arange(20.0).reshape(5, 4)
    np.testing.assert_array_equal(nnmagic.compile(source)(x, 1), names["f"](x, 1))
