"""Innermost loops check their indices once where the first and the last round decide: Python is the judge."""

import textwrap

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.codegen.aot import planner
from nnmagic.engine.relax.codegen.aot.loop_versions import version_loops

#: Loops over x and out with an offset k that only the call knows: the indices that Python would see.
LOOPS = {
    "forward": "out[i] = x[i + k]",
    "backward": "out[i] = x[k - i]",
    "fixed": "out[i] = x[k] + 1.0",
    "every third": "out[i] = x[3 * i + k]",
    "the array that is written": "out[i + k] = x[i] + out[i]",
    "before and after": "out[i] = x[i + k] - x[i + k + 1] * x[k + i + 2]",
    "in a branch": "out[i] = x[i + k] if x[i] > 0.5 else 0.25",
    "a sum": "total += x[i + k] * x[i]",
}

#: Ends of the numbers, where sums wrap around in 64 bits.
LARGE = (2**63 - 1, -(2**63), 2**62, -(2**62), 2**63 - 3)


def source_of(body):
    return textwrap.dedent(
        f"""
        def f(x: Tensor[("n",), f64], first: i64, last: i64, k: i64):
            out = zeros(len(x))
            total = 0.0
            for i in range(first, last):
                {body}
            return out, total
        """
    )


def reference(body, x, first, last, k):
    scope = {"zeros": np.zeros}
    exec(source_of(body).replace('Tensor[("n",), f64]', "object").replace("i64", "int"), scope)
    return scope["f"](x.tolist() and x, first, last, k)


@pytest.fixture
def versions(monkeypatch):
    """The names of the loops that a compilation gives two versions."""
    names = []

    def record(program):
        version_loops(program)
        names.extend(each.name for each in program.functions if each.name.endswith("_in_range"))

    monkeypatch.setattr(planner, "version_loops", record)
    return names


@pytest.mark.parametrize("name", LOOPS)
def test_what_is_in_range_and_what_is_not(name, versions):
    body = LOOPS[name]
    f = nnmagic.compile(source_of(body), cache=False)
    assert versions
    for n in (0, 1, 2, 9, 40):
        x = np.random.default_rng(n).random(n)
        for first, last in ((0, n), (0, n - 3), (1, n // 3), (3, 1), (-2, 2), (n - 2, n + 1)):
            for k in (0, 1, 3, n - 1, n, -1, -n, *LARGE):
                try:
                    wanted = reference(body, x, first, last, k)
                except (IndexError, OverflowError):
                    with pytest.raises(IndexError, match="out of range"):
                        f(x, first, last, k)
                    continue
                for got, want in zip(f(x, first, last, k), wanted, strict=True):
                    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_an_array_of_known_size_in_rounds_that_only_the_call_knows(versions):
    f = nnmagic.compile(
        'def f(x: Tensor[("n",), f64], k: i64):\n'
        "    out = zeros(4)\n    for i in range(k):\n        out[i] = x[i]\n    return out",
        cache=False,
    )
    assert versions
    assert f(np.arange(9.0), 3).tolist() == [0, 1, 2, 0]
    with pytest.raises(IndexError, match="out of range"):
        f(np.arange(9.0), 5)


def test_rounds_before_an_index_out_of_range_have_happened(versions):
    f = nnmagic.compile(
        textwrap.dedent(
            """
            def f(out: InOut[Tensor[("n",), f64]], count: i64, k: i64):
                for i in range(count):
                    out[i + k] = 1.0
            """
        ),
        cache=False,
    )
    assert versions
    out = np.zeros(6)
    with pytest.raises(IndexError):
        f(out, 5, 3)
    np.testing.assert_array_equal(out, [0, 0, 0, 1, 1, 1])


def test_integers_that_are_chosen_from_the_round_before(versions):
    f = nnmagic.compile(
        textwrap.dedent(
            """
            def f(cost: Tensor[("n",), i64], k: i64):
                row = zeros(len(cost), dtype=i64)
                for j in range(len(cost) - k):
                    row[j + k] = min(row[j] + 1, cost[j])
                return row
            """
        ),
        cache=False,
    )
    assert versions
    cost = np.arange(12)[::-1].copy()
    row = [0] * 12
    for j in range(10):
        row[j + 2] = min(row[j] + 1, int(cost[j]))
    np.testing.assert_array_equal(f(cost, 2), row)


@pytest.mark.optimized
def test_a_loop_below_zero_ends():
    # The rounds that are left were a difference of numbers without a sign, of which TVM promises LLVM
    # that it does not wrap around.
    source = """
        def below(x: Tensor[(3,), f64], first: i64):
            i = first
            total = 0.0
            while i < 0:
                total += x[i]
                i += 1
            return total, i
        """
    below = nnmagic.compile(textwrap.dedent(source))
    x = np.array([1.0, 2.0, 4.0])
    assert [below(x, first) for first in (-3, -1, 0, 2)] == [(7.0, 0), (4.0, 0), (0.0, 0), (0.0, 2)]
