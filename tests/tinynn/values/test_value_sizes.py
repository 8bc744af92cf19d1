"""Test sizes that integers decide: a cell runs as the same source does as Python on NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
from nnmagic.functions.compiled import CompiledFunction

_TABLE = """
def table(n: i64, x: Tensor[("m",), i64]):
    t = np.zeros((n, n + 1), np.int64)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            t[i, j] = max(t[i, j - 1], t[i + 1, j])
            if x[i] + x[j] == 3:
                t[i, j] += 1
            for k in range(i + 1, j):
                t[i, j] = max(t[i, j], t[i, k] + t[k + 1, j])
    return t
"""

_ARITHMETIC = """
def arithmetic(n: i64, m: i64):
    half = n // 2
    a = np.zeros((half + 1, 2 * m))
    for i in range(half + 1):
        a[i, :] = i
    return a, np.ones(n * m), np.arange(n + m)
"""

_STEPS = """
def steps(n: i64, y: InOut[Tensor[("k",), f64]]):
    seen = np.empty(n + 1)
    seen[0] = np.sum(y)
    for i in range(n):
        y *= 0.5
        seen[i + 1] = np.sum(y)
    return seen
"""

_HELPER = """
def ramp(n: i64, by: f64):
    r = np.zeros(n)
    for i in range(n):
        r[i] = by * i
    return r

def helper(n: i64, m: i64):
    return ramp(n, 0.5), ramp(m + 1, 2.0)
"""


def _both(source: str, name: str) -> tuple[object, object]:
    """Return the function of a cell and that of Python."""
    values: dict[str, object] = {"np": np}
    lines = [
        f"{line.split('(')[0]}({', '.join(part.split(':')[0].strip() for part in _parameters(line))}):"
        if line.startswith("def ")
        else line
        for line in source.splitlines()
    ]
    exec("\n".join(lines), values)
    return nnmagic.compile(source, namespace={"np": np}), values[name]


def _parameters(line: str) -> list[str]:
    """Return the parameters of a definition; a comma in brackets separates none."""
    parts, depth = [""], 0
    for letter in line[line.index("(") + 1 : line.rindex(")")]:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _outcome(function: object, *args: object) -> list[np.ndarray] | type[Exception]:
    """Return what a call gives and what its arguments are then, or the class of its error."""
    assert callable(function)
    given = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    try:
        result = function(*given)
    except (ValueError, IndexError, MemoryError) as error:
        return type(error)
    results = result if isinstance(result, tuple) else (result,)
    return [*map(np.asarray, results), *(arg for arg in given if isinstance(arg, np.ndarray))]


def _assert_same(cell: object, plain: object, *args: object) -> None:
    ours, expected = _outcome(cell, *args), _outcome(plain, *args)
    if isinstance(expected, type):
        assert ours is expected
        return
    assert not isinstance(ours, type), ours
    for left, right in zip(ours, expected, strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        np.testing.assert_allclose(left, right, rtol=1e-12)


def test_a_table_of_a_size_that_is_given() -> None:
    """Zero, one and more; a vector that is too short is an IndexError."""
    cell, plain = _both(_TABLE, "table")
    x = np.random.default_rng(700060).integers(0, 4, 12)
    for n in (0, 1, 2, 5, 12, 14):
        _assert_same(cell, plain, n, x)


@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 0), (0, 3), (5, 4), (-1, 2), (-2, -3), (-5, 1), (3, -1)])
def test_arithmetic_on_sizes(n: int, m: int) -> None:
    """Negative numbers whose sum is no negative size are as good as others."""
    cell, plain = _both(_ARITHMETIC, "arithmetic")
    _assert_same(cell, plain, n, m)


@pytest.mark.parametrize("n", [-2, -1, 0, 1, 7])
def test_arrays_of_the_caller_beside_a_size(n: int) -> None:
    """An array is changed in place; a size that is negative is an error before that."""
    cell, plain = _both(_STEPS, "steps")
    _assert_same(cell, plain, n, np.arange(6.0))


@pytest.mark.parametrize(("n", "m"), [(0, 0), (3, 5), (4, -1), (-1, 2), (2, -2)])
def test_sizes_of_functions_that_are_called(n: int, m: int) -> None:
    """The size goes through a call."""
    cell, plain = _both(_HELPER, "helper")
    _assert_same(cell, plain, n, m)


def test_sizes_of_other_kinds() -> None:
    """NumPy's integers and arrays of rank 0 are sizes, too."""
    cell, plain = _both(_HELPER, "helper")
    for n in (np.int64(3), np.array(3)):
        _assert_same(cell, plain, n, n)


def test_a_size_that_no_memory_holds() -> None:
    """The error is NumPy's, or one that says that memory lacks."""
    cell, _ = _both(_TABLE, "table")
    for n in (2**31, 2**40, 2**62):
        assert _outcome(cell, n, np.arange(3)) in (MemoryError, ValueError)


@pytest.mark.machine_code
def test_the_program_is_machine_code() -> None:
    """A size that is given costs no more than one of an array: it was ten thousand times as slow."""
    for source, name in ((_TABLE, "table"), (_STEPS, "steps"), (_HELPER, "helper")):
        cell, _ = _both(source, name)
        assert isinstance(cell, CompiledFunction)
        assert isinstance(cell.build(), AotExecutable)


_MASKS = """
def masks(x: Tensor[("k",), f64], y: InOut[Tensor[("k",), f64]], by: f64):
    a, b, c = x.copy(), x.copy(), x.copy()
    a[a > 0] = a[a > 0] ** -1.5
    b[x > 1] *= by * y[x > 1]
    c[x < 0] = c[x > 0][0]
    y[y > 2] = np.sqrt(y[y > 2]) + x[y > 2] / by
    return a, b, c
"""

_ROUNDS = """
def rounds(n: i64, grid: Tensor[("k", "k"), f64]):
    g = grid.copy()
    k = g.shape[0]
    seen = np.zeros(n)
    for t in range(n):
        new = np.zeros((k, k))
        for i in range(k):
            for j in range(k):
                s = g[(i + 1) % k, j] + g[i, (j + 1) % k]
                if s > 1.0:
                    new[i, j] = s * 0.5
                elif g[i, j] > 0.25:
                    new[i, j] = 1.0
        g = new
        seen[t] = np.sum(g)
    return g, seen
"""

_TWICE = """
def run(x: Tensor[("a",), f64], y: Tensor[("b",), f64], n: i64):
    z = np.zeros(n)
    for i in range(n):
        row = np.zeros(n)
        for j in range(n):
            row[j] = i * x[j % 2]
        z[i] = np.sum(row)
    return z

def twice(n: i64, x: Tensor[("a",), f64], y: Tensor[("b",), f64]):
    return run(x, y, n), run(y, x, n + 1), run(x, x, x.shape[0])
"""


@pytest.mark.machine_code
@pytest.mark.full
def test_arrays_that_rounds_make_anew() -> None:
    """A loop that makes an array of a size that it gets as an integer is machine code."""
    cell, plain = _both(_ROUNDS, "rounds")
    for k in (1, 2, 7):
        _assert_same(cell, plain, 4, np.random.default_rng(700061).random((k, k)))
    assert isinstance(cell, CompiledFunction)
    assert isinstance(cell.build(), AotExecutable)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_loop_that_is_called_with_several_sizes(n: int) -> None:
    """What one call says of a size does not hold of another."""
    cell, plain = _both(_TWICE, "twice")
    _assert_same(cell, plain, n, np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25]))


def test_elements_that_a_mask_chose() -> None:
    """What is computed of the chosen elements is computed of all, and kept where the mask is true."""
    cell, plain = _both(_MASKS, "masks")
    for x in ([1.0, -2.0, 3.0, 0.0, np.nan], [0.5, 4.0]):
        _assert_same(cell, plain, np.array(x), np.arange(1.0, 1.0 + len(x)), 2.0)
    assert isinstance(cell, CompiledFunction)
    assert cell.stages["relay"].count("= argwhere(") == 1  # that of the index 0


_WAVE = """
def wave(n: i64, steps: i64):
    e, h = np.zeros(n), np.zeros(n - 1)
    for t in range(steps):
        h += 0.5 * (e[1:] - e[:-1])
        e[1:-1] += 0.5 * (h[1:] - h[:-1])
        e[n // 2] += t
    return e, h
"""

_JACOBI = """
def jacobi(a: Tensor[("n", "n"), f64], b: Tensor[("n",), f64]):
    x, d, error, rounds = np.zeros(len(b)), np.diag(a), 1.0, 0
    while error > 1e-9 and rounds < 50:
        new = (b - (a @ x - d * x)) / d
        error = np.abs(new - x).sum()
        x = new
        rounds += 1
    return x, rounds
"""

_PARTS = """
def parts(x: Tensor[("n",), f64], steps: i64):
    y, inner, one = x.copy(), np.zeros_like(x[1:-1]), np.zeros_like(x[1:])
    for t in range(steps):
        one = one + (y[1:] - y[:-1])
        inner = inner * 0.5 + one[1:] * 0.25
        y[1:-1] += inner
    return y, inner, one
"""

_SMOOTH = """
def smooth(x: Tensor[("n",), f64], y: Tensor[("m",), f64], steps: i64):
    for t in range(steps):
        x = x * 0.5 + y.sum()
        y = y * 0.5 + x.sum()
    return x, y

def smooths(x: Tensor[("n",), f64], steps: i64):
    a, b = smooth(x, x[1:], steps)
    c, d = smooth(x, x + 1, steps)
    return a, b, c, d, *smooth(x[2:], x, steps)
"""

_SHRINKING = """
def shrinking(x: Tensor[("n",), f64], steps: i64):
    y, total = x + 1, 0.0
    for t in range(steps):
        x, y = x[1:], y[1:]
        total += (x * y).sum()
    return x, y, total
"""

_GROWING = """
def growing(n: i64, steps: i64):
    x = np.ones(n)
    for t in range(steps):
        x = np.pad(x[1:-1] * 0.5, 1)
    return x
"""


@pytest.mark.machine_code
@pytest.mark.full("source2-parts", "source1-jacobi")
@pytest.mark.parametrize(
    ("source", "name"), [(_WAVE, "wave"), (_JACOBI, "jacobi"), (_PARTS, "parts"), (_SMOOTH, "smooths")]
)
def test_sizes_that_belong_together_in_all_rounds_are_machine_code(source: str, name: str) -> None:
    cell, _ = _both(source, name)
    assert isinstance(cell, CompiledFunction)
    assert isinstance(cell.build(), AotExecutable)


@pytest.mark.full("3")
@pytest.mark.parametrize("n", [0, 1, 2, 3, 9])
def test_sizes_that_belong_together_in_a_loop(n: int) -> None:
    """Loops that change their sizes, too: what holds for the first round may not be assumed of all."""
    x = np.linspace(1, 2, n)
    for source, name in ((_WAVE, "wave"), (_GROWING, "growing")):
        _assert_same(*_both(source, name), n, 5)
    for source, name in ((_PARTS, "parts"), (_SMOOTH, "smooths"), (_SHRINKING, "shrinking")):
        _assert_same(*_both(source, name), x, 4)
    _assert_same(*_both(_JACOBI, "jacobi"), np.eye(n) * 4 + 0.1, x)
