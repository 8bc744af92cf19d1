"""Arrays that a loop stores as a whole are not filled before: Python is the judge, in memory of other numbers."""

import textwrap
import types

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.codegen.aot import planner
from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.unread_fills import drop_unread_fills

_HEAD = "def f(x: Tensor[('n',), f64], k: i64):\n    n = len(x)\n"

#: Bodies of functions of ``x``, a vector of ``n`` elements, and of ``k``; their arrays lose the fill.
STORED = {
    "a vector": "out = np.empty(n)\nfor i in range(n):\n    out[i] = x[i] + k\nreturn out",
    "as another": "out = np.zeros_like(x)\nfor i in range(len(out)):\n    out[i] = x[n - 1 - i]\nreturn out",
    "of a size that only the call knows": (
        "m = n + k\nout = np.empty(m)\nfor i in range(m):\n    out[i] = i\nreturn out"
    ),
    "of a known size": "out = np.empty(70)\nfor i in range(70):\n    out[i] = k * i + n\nreturn out",
    "on both paths": (
        "out = np.empty(n)\nfor i in range(n):\n    if x[i] > 0.5:\n        out[i] = 1\n"
        "    else:\n        out[i] = k\nreturn out"
    ),
    "before the next round begins": (
        "out = np.empty(n)\nfor i in range(n):\n    if x[i] > 0.5:\n        out[i] = 1\n        continue\n"
        "    out[i] = k\nreturn out"
    ),
    "then changed": (
        "out = np.empty(n)\nfor i in range(n):\n    out[i] = x[i]\n    if k > 2:\n        out[i] += 1\nreturn out"
    ),
    "two a round": (
        "out = np.empty(2 * n)\nfor i in range(n):\n    out[2 * i + 1] = k\n    out[2 * i] = x[i]\nreturn out"
    ),
    "a matrix": (
        "out = np.empty((n, 3))\nfor i in range(n):\n    for j in range(3):\n        out[i, j] = x[i] * j\n"
        "return out"
    ),
    "a matrix of known width": (
        "out = np.empty((n, 100))\nfor i in range(n):\n    for j in range(100):\n        out[i, j] = x[i] * j\n"
        "return out"
    ),
    "by columns": (
        "out = np.empty((n, n))\nfor j in range(n):\n    for i in range(n):\n        out[i, j] = x[i] - j\n"
        "return out"
    ),
    "by a while loop": ("out = np.empty(n)\ni = 0\nwhile i < n:\n    out[i] = x[i]\n    i += 1\nreturn out"),
    "in each round of another loop": (
        "out = np.empty(n)\ntotal = 0.0\nfor r in range(3):\n    out = np.empty(n)\n    for i in range(n):\n"
        "        out[i] = x[i] + r\n    if n > 0:\n        total += out[0]\nreturn out, total"
    ),
}

#: Functions of the same that read what was filled, or may: their arrays keep the fill.
KEPT = {
    "a part": "out = np.empty(n)\nfor i in range(n - 1):\n    out[i] = x[i]\nreturn out",
    "from the second on": "out = np.empty(n)\nfor i in range(1, n):\n    out[i] = x[i]\nreturn out",
    "as many as asked": "out = np.empty(n)\nfor i in range(min(k, n)):\n    out[i] = x[i]\nreturn out",
    "every other": "out = np.empty(n)\nfor i in range(0, n, 2):\n    out[i] = x[i]\nreturn out",
    "on one path": "out = np.empty(n)\nfor i in range(n):\n    if x[i] > 0.5:\n        out[i] = k\nreturn out",
    "but where it continues": (
        "out = np.empty(n)\nfor i in range(n):\n    if x[i] > 0.5:\n        continue\n    out[i] = k\nreturn out"
    ),
    "until it breaks": (
        "out = np.empty(n)\nfor i in range(n):\n    if x[i] > 0.9:\n        break\n    out[i] = k\nreturn out"
    ),
    "until it returns": (
        "out = np.empty(n)\nfor i in range(n):\n    out[i] = k\n    if x[i] > 0.9:\n        return out\nreturn out"
    ),
    "read before": "out = np.empty(n)\nfor i in range(n):\n    out[i] += x[i]\nreturn out",
    "read ahead": "out = np.empty(n)\nfor i in range(n):\n    out[i] = x[i] + out[n - 1 - i]\nreturn out",
    "read behind": "out = np.empty(n)\nfor i in range(n):\n    out[i] = x[i] + out[i - 1]\nreturn out",
    "read as a whole": "out = np.empty(n)\nfor i in range(n):\n    out[i] = x[i] + out.max()\nreturn out",
    "read as a condition": (
        "out = np.empty(n)\nfor i in range(n):\n    if out[n - 1 - i] > 0:\n        out[i] = 1\n"
        "    else:\n        out[i] = k\nreturn out"
    ),
    "read before the loop": (
        "out = np.empty(n)\ntotal = out.sum()\nfor i in range(n):\n    out[i] = x[i]\nreturn out, total"
    ),
    "kept under another name": (
        "out = np.empty(n)\nold = out.copy()\nfor i in range(n):\n    out[i] = x[i]\nreturn out, old"
    ),
    "at another index": "out = np.empty(n)\nfor i in range(n):\n    out[i // 2] = x[i]\nreturn out",
    "twice the same": (
        "out = np.empty(2 * n)\nfor i in range(n):\n    out[2 * i] = k\n    out[2 * i] = x[i]\nreturn out"
    ),
    "one of two a round": "out = np.empty(2 * n)\nfor i in range(n):\n    out[2 * i] = x[i]\nreturn out",
    "half": "out = np.empty(2 * n)\nfor i in range(n):\n    out[i] = x[i]\nreturn out",
    "the diagonal": "out = np.empty((n, n))\nfor i in range(n):\n    out[i, i] = x[i]\nreturn out",
    "a triangle": (
        "out = np.empty((n, n))\nfor i in range(n):\n    for j in range(i):\n        out[i, j] = x[i]\nreturn out"
    ),
    "a column": "out = np.empty((n, 3))\nfor i in range(n):\n    out[i, 1] = x[i]\nreturn out",
    "some rows": (
        "out = np.empty((n, 100))\nfor i in range(n):\n    if x[i] > 0.5:\n        for j in range(100):\n"
        "            out[i, j] = x[i]\nreturn out"
    ),
    "the same row": (
        "out = np.empty((n, n))\nfor i in range(n):\n    for j in range(n):\n        out[0, j] = x[i]\nreturn out"
    ),
    "row by row of another": (
        "out = np.empty((n, n))\nfor i in range(n):\n    m = (i * 7) % n\n    for j in range(n):\n"
        "        out[m // 2, j] = x[i]\nreturn out"
    ),
    "through a flat view": (
        "out = np.empty((n, 3))\nflat = out.reshape(-1)\nfor i in range(n):\n    flat[i] = x[i]\nreturn flat"
    ),
    "before and after a swap": (
        "a = np.empty(n)\nb = np.ones(n)\nfor r in range(k):\n    for i in range(n):\n        b[i] = a[i] + x[i]\n"
        "    a, b = b, a\nreturn a, b"
    ),
    "an empty array that is asked for": "out = np.empty(n)\nreturn out, n",
}


@pytest.fixture
def arrays(monkeypatch):
    """How many arrays the programs that are planned take without a fill."""
    made = []

    def record(program, shares, **options):
        drop_unread_fills(program, shares, **options)
        steps = [step for each in (program.entry, *program.functions) for step in each.steps()]
        made.extend(step for step in steps if isinstance(step, aot.MakeArray))

    monkeypatch.setattr(planner, "drop_unread_fills", record)
    return made


def compare(body, **options):
    """Compare a function with Python, for arrays in memory that holds other numbers than zeros."""
    source = _HEAD + textwrap.indent(body, "    ")
    f = nnmagic.compile(source, cache=False, namespace={"np": np}, **options)
    numpy = types.SimpleNamespace(**vars(np) | {"empty": np.zeros, "empty_like": np.zeros_like})
    scope = {"np": numpy, "Tensor": dict, "f64": float, "i64": int}
    exec(source.replace("Tensor[('n',), f64]", "object"), scope)
    for n in (1, 0, 7, 40):
        x = np.random.default_rng(n).random(n)
        for k in (7, 3, 0):
            try:
                wanted = scope["f"](x, k)
            except (IndexError, ZeroDivisionError):
                continue
            # The blocks of the sizes that results have, which the allocator hands out again.
            dirty = [
                np.full(size, 1e9) for size in (n, 2 * n, 3 * n, n * n, 100 * n, 70, k) for _ in range(9)
            ]
            del dirty
            for _ in range(2):
                got = f(x, k)
                for one, want in zip(
                    *(each if isinstance(each, tuple) else (each,) for each in (got, wanted)), strict=True
                ):
                    np.testing.assert_array_equal(one, want)
                    if isinstance(one, np.ndarray) and one.flags.writeable:
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
