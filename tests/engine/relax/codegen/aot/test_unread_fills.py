"""Arrays that a loop stores as a whole are not filled before: Python judges, in memory of other numbers."""

import ctypes
import textwrap
import types

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.codegen.aot import planner
from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.unread_fills import drop_unread_fills

pytestmark = pytest.mark.sampled(every=8)

_HEAD = "def f(x: Tensor[('n',), f64], k: i64):\n    n = len(x)"

#: Bodies of functions of ``x``, a vector of ``n`` elements, and of ``k``; their arrays lose the fill.
STORED = {
    "a vector": """
    out = np.empty(n)
    for i in range(n):
        out[i] = x[i] + k
    return out
""",
    "as another": """
    out = np.zeros_like(x)
    for i in range(len(out)):
        out[i] = x[n - 1 - i]
    return out
""",
    "of a size that only the call knows": """
    m = n + k
    out = np.empty(m)
    for i in range(m):
        out[i] = i
    return out
""",
    "on both paths": """
    out = np.empty(n)
    for i in range(n):
        if x[i] > 0.5:
            out[i] = 1
        else:
            out[i] = k
    return out
""",
    "before the next round begins": """
    out = np.empty(n)
    for i in range(n):
        if x[i] > 0.5:
            out[i] = 1
            continue
        out[i] = k
    return out
""",
    "then changed": """
    out = np.empty(n)
    for i in range(n):
        out[i] = x[i]
        if k > 2:
            out[i] += 1
    return out
""",
    "two a round": """
    out = np.empty(2 * n)
    for i in range(n):
        out[2 * i + 1] = k
        out[2 * i] = x[i]
    return out
""",
    "a matrix": """
    out = np.empty((n, 3))
    for i in range(n):
        for j in range(3):
            out[i, j] = x[i] * j
    return out
""",
    "a matrix of known width": """
    out = np.empty((n, 100))
    for i in range(n):
        for j in range(100):
            out[i, j] = x[i] * j
    return out
""",
    "by columns": """
    out = np.empty((n, n))
    for j in range(n):
        for i in range(n):
            out[i, j] = x[i] - j
    return out
""",
    "by a while loop": """
    out = np.empty(n)
    i = 0
    while i < n:
        out[i] = x[i]
        i += 1
    return out
""",
    "of two of the same size": """
    a = np.zeros(n)
    b = np.zeros(n)
    for i in range(n):
        a[i] = x[i]
    for i in range(n):
        b[i] = x[i] - k
    return a, b
""",
    "a copy": """
    out = x.copy()
    for i in range(n):
        out[i] = k - x[i]
    return out
""",
    "by threads": """
    out = np.empty(n)
    for i in parallel(n):
        out[i] = x[i] + k
    return out
""",
    "at indices that are checked before": """
    out = np.empty(n)
    for i in range(n):
        out[i] = x[i] + x[(i + k) // 2 % n]
    return out
""",
    "in each round of another loop": """
    out = np.empty(n)
    total = 0.0
    for r in range(3):
        out = np.empty(n)
        for i in range(n):
            out[i] = x[i] + r
        if n > 0:
            total += out[0]
    return out, total
""",
    "read before, in a kernel of its own": """
    out = np.empty(n)
    total = out.sum()
    for i in range(n):
        out[i] = x[i]
    return out, total
""",
    "of which there is a copy": """
    out = np.empty(n)
    old = out.copy()
    for i in range(n):
        out[i] = x[i]
    return out, old
""",
}

#: Functions of the same that read what was filled, or may: their arrays keep the fill.
KEPT = {
    "a part": """
    out = np.empty(n)
    for i in range(n - 1):
        out[i] = x[i]
    return out
""",
    "from the second on": """
    out = np.empty(n)
    for i in range(1, n):
        out[i] = x[i]
    return out
""",
    "on one path": """
    out = np.empty(n)
    for i in range(n):
        if x[i] > 0.5:
            out[i] = k
    return out
""",
    "but where it continues": """
    out = np.empty(n)
    for i in range(n):
        if x[i] > 0.5:
            continue
        out[i] = k
    return out
""",
    "until it breaks": """
    out = np.empty(n)
    for i in range(n):
        if x[i] > 0.9:
            break
        out[i] = k
    return out
""",
    "until it returns": """
    out = np.empty(n)
    for i in range(n):
        out[i] = k
        if x[i] > 0.9:
            return out
    return out
""",
    "read before": """
    out = np.empty(n)
    for i in range(n):
        out[i] += x[i]
    return out
""",
    "read behind": """
    out = np.empty(n)
    for i in range(n):
        out[i] = x[i] + out[i - 1]
    return out
""",
    "read as a whole": """
    out = np.empty(n)
    for i in range(n):
        out[i] = x[i] + out.max()
    return out
""",
    "at another index": """
    out = np.empty(n)
    for i in range(n):
        out[i // 2] = x[i]
    return out
""",
    "twice the same": """
    out = np.empty(2 * n)
    for i in range(n):
        out[2 * i] = k
        out[2 * i] = x[i]
    return out
""",
    "one of two a round": """
    out = np.empty(2 * n)
    for i in range(n):
        out[2 * i] = x[i]
    return out
""",
    "the diagonal": """
    out = np.empty((n, n))
    for i in range(n):
        out[i, i] = x[i]
    return out
""",
    "a triangle": """
    out = np.empty((n, n))
    for i in range(n):
        for j in range(i):
            out[i, j] = x[i]
    return out
""",
    "a column": """
    out = np.empty((n, 3))
    for i in range(n):
        out[i, 1] = x[i]
    return out
""",
    "some rows": """
    out = np.empty((n, 100))
    for i in range(n):
        if x[i] > 0.5:
            for j in range(100):
                out[i, j] = x[i]
    return out
""",
    "row by row of another": """
    out = np.empty((n, n))
    for i in range(n):
        m = (i * 7) % n
        for j in range(n):
            out[m // 2, j] = x[i]
    return out
""",
    "through a flat view": """
    out = np.empty((n, 3))
    flat = out.reshape(-1)
    for i in range(n):
        flat[i] = x[i]
    return flat
""",
    "before and after a swap": """
    a = np.empty(n)
    b = np.ones(n)
    for r in range(k):
        for i in range(n):
            b[i] = a[i] + x[i]
        a, b = b, a
    return a, b
""",
}


@pytest.fixture
def arrays(monkeypatch):
    """The arrays that the programs which are planned take without a fill."""
    made = []

    def record(program, shares, **options):
        drop_unread_fills(program, shares, **options)
        steps = (step for each in (program.entry, *program.functions) for step in each.steps())
        made.extend(step for step in steps if isinstance(step, aot.MakeArray))

    monkeypatch.setattr(planner, "drop_unread_fills", record)
    return made


def compare(body, **options):
    """Compare a function with Python, for arrays in memory that holds other numbers than zeros."""
    source = _HEAD + body
    f = nnmagic.compile(source, cache=False, namespace={"np": np}, **options)
    zeros = {"empty": np.zeros, "empty_like": np.zeros_like}
    scope = {"np": types.SimpleNamespace(**{**vars(np), **zeros}), "i64": int, "parallel": range}
    exec(source.replace("Tensor[('n',), f64]", "object"), scope)
    for n in (1, 0, 7, 40):
        x = np.random.default_rng(n).random(n)
        for k in (7, 0):
            wanted = scope["f"](x, k)
            # Blocks of the sizes that results have, which the allocator hands out again.
            dirty = [np.full(size, 1e9) for size in (n, 2 * n, 3 * n, n * n, 100 * n, 70) for _ in range(9)]
            del dirty
            for _ in range(2):
                got = f(x, k)
                pairs = zip(
                    *(each if isinstance(each, tuple) else (each,) for each in (got, wanted)), strict=True
                )
                for one, want in pairs:
                    np.testing.assert_array_equal(one, want)
                    if isinstance(one, np.ndarray):
                        one[...] = 1e9
                del got, one


@pytest.mark.parametrize("name", STORED)
def test_what_a_loop_stores_as_a_whole_is_not_filled(name, arrays):
    compare(STORED[name])
    assert arrays


@pytest.mark.parametrize("name", KEPT)
def test_what_may_be_read_is_filled(name, arrays):
    compare(KEPT[name])
    assert not arrays


@pytest.mark.parametrize("name", ["a vector", "a matrix", "on both paths", "read behind", "on one path"])
def test_a_build_without_passes_gives_the_same(name):
    compare((STORED | KEPT)[name], opt_level=0)


@pytest.mark.parametrize("name", ["a vector", "two a round", "one of two a round", "on one path"])
def test_c_gives_the_same_in_memory_of_other_numbers(name):
    body = (STORED | KEPT)[name]
    f = nnmagic.compile(_HEAD + body, cache=False, namespace={"np": np})
    for n in (1, 7, 40):
        x, want = np.random.default_rng(n).random(n), f(np.random.default_rng(n).random(n), 3)
        out = np.full(len(want), 1e9)
        pointers = (each.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for each in (x, out))
        given, result = pointers
        assert f.ctypes(given, n, 3, result) == 0
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(
    "store", ["out[i] = x[i] * x[i]", "if x[i] > 0.5:\n            out[i] = x[i] * x[i]"]
)
def test_gradients_are_those_of_what_is_stored(store):
    source = f"""
def f(x: Tensor[("n",), f64]):
    out = np.empty(len(x))
    for i in range(len(x)):
        {store}
    return out.sum()

def df(x: Tensor[("n",), f64]):
    return grad(f)(x)
"""
    df = nnmagic.compile(source, cache=False, namespace={"np": np})
    x = np.random.default_rng(0).random(9)
    for _ in range(3):
        np.testing.assert_allclose(df(x), np.where((x > 0.5) | ("if" not in store), 2 * x, 0))


def test_an_array_of_the_caller_shows_what_was_stored_before_a_failure(arrays):
    f = nnmagic.compile(
        textwrap.dedent(
            """
            def f(out: InOut[Tensor[("n",), f64]], x: Tensor[("n",), f64]):
                out[:] = 5
                for i in range(len(out)):
                    assert x[i] > 0
                    out[i] = x[i]
            """
        ),
        cache=False,
    )
    out = np.full(4, 7.0)
    with pytest.raises(AssertionError):
        f(out, np.array([1.0, 2.0, 0.0, 3.0]))
    assert out.tolist() == [1, 2, 5, 5]
    assert not arrays
