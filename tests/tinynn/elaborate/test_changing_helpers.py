"""Functions without types that change their parameters, and updates that keep an array, beside NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import nnmagic

NAMES: dict[str, Any] = {"np": np}
Y = np.arange(3.0)


def twin(source: str) -> Any:
    """Return the function `f` of the same source as Python on NumPy, without annotations."""
    names = dict(NAMES)
    exec(re.sub(r": ((InOut\[)?Tensor\[.*?\), \w+\]\]?|i64|f64|c128)", "", source), names)
    return names["f"]


def check(source: str, *arguments: Any) -> None:
    ours, theirs = ([np.copy(each) if np.ndim(each) else each for each in arguments] for _ in range(2))
    got, expected = nnmagic.compile(source, namespace=NAMES)(*ours), twin(source)(*theirs)
    pairs = zip((got, *ours), (expected, *theirs), strict=True)
    for one, other in pairs:
        parts = (one, other) if isinstance(other, tuple) else ((one,), (other,))
        for mine, his in zip(*parts, strict=True):
            assert np.shape(mine) == np.shape(his)
            np.testing.assert_allclose(mine, his, rtol=1e-12)


HELPERS = """
def exchange(p, q, s):
    p[0] = q[1] + s
    if s > 2:
        p[1] = 5.0
    p *= 2

def repeatedly(p, n):
    for i in range(n):
        exchange(p, p.copy(), i + 1.0)
    return p.sum()

def filled(p, value):
    p[...] = value
    return p
"""


@pytest.mark.parametrize(
    "body",
    [
        "z = y.copy()\nexchange(x, z, 1.0)\nt = repeatedly(z, n)\nexchange(z, x, n)\nreturn x, z, t",
        "for i in range(n):\n    exchange(x, y, y[0] + i)\n    x[2] += i\nreturn x",
        "while x.sum() < 9:\n    t = repeatedly(x, 2)\n    x += 1 + 0 * t\nreturn x",
        "z = filled(np.zeros(4), 2.0)\nz[0] = 1\nfilled(x, y)\nreturn x, z",
    ],
)
def test_helpers_change_the_arrays_of_names(body: str) -> None:
    lines = "\n    ".join(body.split("\n"))
    source = f"{HELPERS}\ndef f(n: i64, y: Tensor[(3,), f64]):\n    x = np.zeros(3)\n    {lines}\n"
    check(source, 4, Y)


def test_a_helper_changes_the_array_of_the_caller() -> None:
    check(f"{HELPERS}\ndef f(n: i64, x: InOut[Tensor[(3,), f64]]):\n    return repeatedly(x, n)\n", 3, Y)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("z = filled(x, 1.0)\nx[1] = 2\nreturn z", "`z` may share memory with `x`"),
        ("z = x\nfilled(x, 1.0)\nreturn z", "`z` may share memory with `x`"),
        ("z = x[1:]\nexchange(x, z, 1.0)\nreturn x", "`q` may share memory"),
        ("exchange(y, x, 1.0)\nreturn x", "the parameter `y` belongs to the caller"),
        ("exchange(x[1:], y, 1.0)\nreturn x", "`p` may share memory with `x`"),
    ],
)
def test_other_names_of_the_memory_are_refused(body: str, message: str) -> None:
    lines = "\n    ".join(body.split("\n"))
    source = f"{HELPERS}\ndef f(y: Tensor[(3,), f64]):\n    x = np.ones(3)\n    {lines}\n"
    with pytest.raises(nnmagic.TinyNNError, match=re.escape(message)):
        nnmagic.compile(source, namespace=NAMES)


ADDING = """
def added(p):
    p += 1
    return p.sum()
"""


@pytest.mark.parametrize(
    "expression",
    [
        "x + added(x)",
        "x[:1] * added(x)",
        "x.T < added(x)",
        "np.where(x > 0, x, added(x))",
        "(x[1:], added(x))",
        "x.dot(x + added(x))",
        "x[x > added(x)]",
    ],
)
def test_an_array_that_is_read_before_a_call_changes_it_is_refused(expression: str) -> None:
    source = f"{ADDING}\ndef f(y: Tensor[(3,), f64]):\n    x = y * 2\n    return {expression}\n"
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(source, namespace=NAMES)
    first = caught.value.diagnostics[0]
    assert first.message == "a call after this array changes it, and NumPy uses the changed one"
    assert (first.span.line, first.notes[0].span.line) == (8, 3)


def test_what_is_computed_before_a_call_changes_its_array_stays() -> None:
    body = "x = y * 2\n    return x.sum() + x * 3 + added(x) * added(y * 1)"
    check(f"{ADDING}\ndef f(y: Tensor[(3,), f64]):\n    {body}\n", Y)


SQUARES = "m: Tensor[(3, 5, 5), f64], n: i64, k: i64"


@pytest.mark.full("x = m[0, 0]\\nwhile len(x) > k:\\n    ")
@pytest.mark.parametrize(
    "body",
    [
        "x = np.zeros((n, n))\nfor i in range(k):\n    x += 2.0 * m[i]\nreturn x",
        "x = np.zeros((n, n))\nx[1:-1, 1:-1] = m[0, :3, :3]\nx[2] = m[1, 0]\nreturn x",
        "x = np.zeros((n, 5)) + m[0]\nx[x > 0.5] = 0\nreturn x, x[x > 0.2].sum()",
        "x = m[0].astype(np.float32)\nx *= m[1]\nx[0] += m[2, 0]\nreturn x.astype(np.float64)",
        "if k > 1:\n    x = m[0, :n]\nelse:\n    x = m[1, 1:]\nreturn x + 1",
        "x = m[0, 0]\nwhile len(x) > k:\n    x = x[x > x.min()]\nreturn x",
    ],
)
def test_arrays_of_sizes_that_only_the_call_knows(body: str) -> None:
    lines = "\n    ".join(body.split("\n"))
    check(f"def f({SQUARES}):\n    {lines}\n", np.random.default_rng(5).random((3, 5, 5)), 5, 2)


@pytest.mark.parametrize(
    ("body", "n"),
    [
        ("x = np.zeros((n, n))\nx += m[0]\nreturn x", 1),
        ("x = np.zeros((n, n))\nx[1:-1, 1:-1] = m[0]\nreturn x", 6),
        ("x = np.zeros((n, n)) + m[0]\nreturn x[np.ones((n, 5)) > 0]", 1),
    ],
)
def test_sizes_that_do_not_fit_raise_as_in_numpy(body: str, n: int) -> None:
    lines = "\n    ".join(body.split("\n"))
    source, m = f"def f({SQUARES}):\n    {lines}\n", np.ones((3, 5, 5))
    with pytest.raises((ValueError, IndexError)):
        twin(source)(m, n, 2)
    with pytest.raises(ValueError, match=r"<tinynn>:3"):
        nnmagic.compile(source, namespace=NAMES)(m, n, 2)


def test_a_sum_in_place_that_would_be_larger_is_refused() -> None:
    source = "def f(x: Tensor[(1, 3), f64], y: Tensor[(2, 3), f64]):\n    x += y\n    return x\n"
    with pytest.raises(nnmagic.TinyNNError, match="does not fit into a Tensor"):
        nnmagic.compile(source)


@pytest.mark.parametrize("n", [2, 3])
def test_complex_systems_of_named_sizes(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = (rng.random((n, n)) + 1j * rng.random((n, n)) for _ in range(2))
    parameters = 'a: Tensor[("n", "n"), c128], b: Tensor[("n", "n"), c128]'
    check(f"def f({parameters}):\n    return np.linalg.solve(a, b), np.linalg.inv(a)\n", a, b)


@pytest.mark.machine_code
def test_powers_of_integers() -> None:
    body = "    total = 0\n    for i in range(k):\n        total += n**i * 3**i\n"
    check(
        f"def f(x: Tensor[(4,), i64], n: i64, k: i64):\n{body}    return n**k, x**x, x**n, total\n",
        np.arange(4),
        3,
        5,
    )
    power = nnmagic.compile("def f(x: Tensor[(4,), i64], k: i64):\n    return x**k\n")
    with pytest.raises(ValueError, match=r"negative power is not defined; .*\n --> <tinynn>:2:12"):
        power(np.arange(4), -1)


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array")  # from NumPy 2.5 on
def test_the_shape_of_a_name_is_assigned() -> None:
    grid = "i, j = np.mgrid[0:2, 0:n]\n    z = np.zeros(2 * n)\n    w = z + 1\n"
    body = f"{grid}    i.shape = j.shape = 2 * n\n    z.shape = (2, n)\n    w.shape = -1, 2\n"
    check(f"def f(n: i64):\n    {body}    return i, j, z, w\n", 3)
    for body, message in (
        ("z = y\n    z.shape = 3, 2\n    return y", "`y` is the array that `z` was"),
        ("x.shape = 3, 2\n    return x", "`x` may be an array of the caller"),
    ):
        source = f"def f(x: Tensor[(6,), f64]):\n    y = x + 1\n    {body}\n"
        with pytest.raises(nnmagic.TinyNNError, match=message):
            nnmagic.compile(source)


def test_arrays_made_without_a_dtype_are_f64_whatever_they_hold() -> None:
    source = """
def f(x: Tensor[(3,), f32]):
    padded = np.zeros(5)
    padded[1:-1] = x
    padded[0] += 1
    return padded[:3] * x
"""
    x = np.array([1.5, 2.25, -1], "f4")
    with pytest.warns(nnmagic.TinyNNWarning, match=r"`np.zeros\(5\)` is f64"):
        got = nnmagic.compile(source, namespace=NAMES)(x)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, twin(source)(x))


RECURSIVE = """
def _sort(a, spare, lo, hi):
    if hi - lo < 2:
        return
    mid = (lo + hi) // 2
    _sort(a, spare, lo, mid)
    _sort(a, spare, mid, hi)
    i, j = lo, mid
    for k in range(lo, hi):
        if i < mid and (j >= hi or a[i] <= a[j]):
            spare[k] = a[i]
            i += 1
        else:
            spare[k] = a[j]
            j += 1
    for k in range(lo, hi):
        a[k] = spare[k]

def _turns(a, b, k):
    if k == 0:
        return
    a[0] += 1
    _turns(b, a, k - 1)
    b[0] += a[0]
    _turns(a, b, k - 1)

def _subsets(values, k, target, chosen):
    if target == 0:
        return 1
    if k == len(values) or target < 0:
        return 0
    chosen[k] = True
    found = _subsets(values, k + 1, target - values[k], chosen)
    chosen[k] = False
    return found + _subsets(values, k + 1, target, chosen)

def _queens(board, row, n):
    if row == n:
        return 1
    count = 0
    for col in range(n):
        free = True
        for r in range(row):
            free = free and board[r] != col and abs(board[r] - col) != row - r
        if free:
            board[row] = col
            count += _queens(board, row + 1, n)
    return count
"""


@pytest.mark.parametrize(
    "body",
    [
        "a = np.sin(np.arange(n) * 7.0)\n_sort(a, np.zeros(n), 0, len(a))\nreturn a",
        "a, b = np.zeros(n), np.ones(n + 1)\n_turns(a, b, 4)\nreturn a, b",
        "chosen = np.zeros(n, np.bool_)\nreturn _subsets(np.arange(1, n + 1), 0, 7, chosen), chosen",
        "return _queens(np.zeros(n, np.int64), 0, n)",
    ],
    ids=["sort", "turns", "subsets", "queens"],
)
def test_functions_that_call_themselves_change_arrays(body: str) -> None:
    lines = body.replace("\n", "\n    ")
    check(f"{RECURSIVE}\ndef f(n: i64):\n    {lines}\n", 6)


def test_a_part_of_a_name_is_not_given_to_be_changed() -> None:
    source = (
        f"{RECURSIVE}\ndef f(n: i64):\n    a = np.ones(n)\n    _turns(a[1:], a.copy(), 2)\n    return a\n"
    )
    with pytest.raises(nnmagic.TinyNNError, match="the argument must be the name of an array"):
        nnmagic.compile(source, namespace=NAMES)


@pytest.mark.machine_code
def test_recursion_copies_no_array() -> None:
    source = f'{RECURSIVE}\ndef f(x: Tensor[("n",), f64]):\n    a = x.copy()\n'
    f = nnmagic.compile(f"{source}    _sort(a, np.zeros(len(a)), 0, len(a))\n    return a\n", namespace=NAMES)
    x = np.sin(np.arange(1 << 15))
    np.testing.assert_array_equal(f(x), np.sort(x))
    assert str(f.why).count("copies an array") == 1  # the one that the cell asks for
