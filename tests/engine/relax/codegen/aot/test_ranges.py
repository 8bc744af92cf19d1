"""What is known of integers, from the outside: values are Python's, divisions and questions are gone.

They judge too: engine/relax/codegen/aot/range_evaluator,
engine/relax/codegen/aot/loop_invariants, engine/relax/codegen/aot/invariant_elements,
engine/relax/codegen/aot/size_limits, engine/relax/codegen/aot/symbols,
engine/relax/codegen/aot/wrapped_indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.codegen.aot.linear import BoundedSymbol, Facts, number, of_symbol

pytestmark = pytest.mark.sampled(every=3)

TORUS = """
def f(x: Tensor[("h", "w"), i64], reach: i64):
    h, w = x.shape
    out = np.zeros((h, w), dtype=np.int64)
    for i in range(h):
        for j in range(w):
            for a in range(-1, 2):
                for b in range(-1, 2):
                    out[i, j] += x[(i + a) % h, (j + b * reach) % w] * (3 * a + b)
    return out
"""


def _torus(x, reach):
    rolled = ((a, b, np.roll(x, (-a, -b * reach), (0, 1))) for a in (-1, 0, 1) for b in (-1, 0, 1))
    return sum(part * (3 * a + b) for a, b, part in rolled)


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (2, 3), (5, 4)])
@pytest.mark.parametrize("opt_level", [0, 3])
def test_neighbours_around_a_torus_are_numpys(shape, opt_level):
    x = np.arange(np.prod(shape)).reshape(shape) ** 2
    f = nnmagic.compile(TORUS, namespace={"np": np}, cache=False, opt_level=opt_level)
    for reach in (1, 2, 7):
        np.testing.assert_array_equal(f(x, reach), _torus(x, reach))


@pytest.mark.parametrize("first", [-7, -4, -1, 0, 3, 7])
def test_a_rest_is_pythons_from_whatever_number(first):
    source = f"""
def f(n: i64):
    total = 0
    for i in range(n):
        total = 10 * total + (i + {first}) % n
    return total
"""
    f = nnmagic.compile(source, cache=False)
    for n in (0, 1, 2, 4, 9):
        total = 0
        for i in range(n):
            total = 10 * total + (i + first) % n
        assert f(n) == total


def test_facts_are_forgotten_with_what_bounds_their_symbols():
    n, i = of_symbol(BoundedSymbol()), of_symbol(BoundedSymbol())
    facts = Facts()
    facts.add([n - 1])
    facts.add([i, n - i - 1])
    assert facts.prove(n - i)
    facts.forget(1)
    assert not facts.prove(n - i)
    assert facts.prove(n)
    facts.add([number(3) - n])
    assert facts.prove(number(4) - n)
    assert not facts.prove(number(2) - n)


def test_a_quotient_is_between_what_its_dividend_is():
    n, i, q = (of_symbol(BoundedSymbol()) for _ in range(3))
    facts = Facts()
    facts.add([i, n.times(8) - i - 1, i - q.times(8), q.times(8) - i + 7])  # 0 <= i < 8 * n, q = i // 8
    assert facts.prove(q)
    assert facts.prove(n - q - 1)
    assert not facts.prove(q - 1)
    assert not facts.prove(n - q - 2)


@pytest.mark.full
def test_rounds_whose_arrays_shrink_ask_nothing_in_python():
    """Each round has other sizes: a question about shapes in Python would take longer than the round."""
    source = """
def f(x: Tensor[("n",), f64]):
    total = 0.0
    while len(x) > 1:
        keep = x < x.mean()
        x = np.concatenate((x[keep], np.sort(x[keep])[:1], np.maximum.accumulate(x[~keep])[:0]))
        total += x.sum() * len(x)
    return total
"""
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    assert "T.bool(False), R.shape(" not in str(f.stages["relax"])  # that shapes never certainly fit
    x = np.random.default_rng(0).standard_normal(200)
    total, y = 0.0, x
    while len(y) > 1:
        keep = y < y.mean()
        y = np.concatenate((y[keep], np.sort(y[keep])[:1], np.maximum.accumulate(y[~keep])[:0]))
        total += y.sum() * len(y)
    np.testing.assert_allclose(f(x), total)


INDICES = """
def f(x: Tensor[("n",), i64], at: Tensor[("m",), i64]):
    out = x.copy()
    top = 0
    kept = np.zeros(len(at), dtype=np.int64)
    for k in range(len(at)):
        i = at[k]
        out[i] += out[i - 1] + x[i]
        if out[i] % 2 == 0:
            kept[top] = i
            top += 1
    total = 0
    while top > 0:
        top -= 1
        total = 3 * total + kept[top]
    return out, total
"""


@pytest.mark.machine_code
def test_indices_from_the_end_and_stacks_are_pythons():
    """An index in range is not counted from the end; what was shown to be in range is not asked again."""
    f = nnmagic.compile(INDICES, namespace={"np": np}, cache=False)
    scope: dict[str, Any] = {"np": np, "Tensor": nnmagic.Tensor, "i64": nnmagic.i64}
    exec(INDICES, scope)
    x = np.array([3, -1, 4, 1, 5])
    for at in ([], [0], [4, -4, -1, 2, 2, -3, 0, 3], [1, 5], [1, -6], [0, 1 << 62], [-(1 << 63)]):
        try:
            expected = scope["f"](x, np.array(at, np.int64))
        except IndexError:
            with pytest.raises(IndexError, match=str(at[-1])):
                f(x, np.array(at, np.int64))
            continue
        got = f(x, np.array(at, np.int64))
        np.testing.assert_array_equal(got[0], expected[0])
        assert got[1] == expected[1]


@pytest.mark.machine_code
def test_loops_that_lose_bits_are_pythons():
    """They end after 64 rounds at most, and ask nobody whether to stop."""
    source = """
def f(words: Tensor[("n",), i64]):
    out = np.zeros((len(words), 4), dtype=np.int64)
    for i in range(len(words)):
        w = words[i]
        while w != 0:
            w &= w - 1
            out[i, 0] += 1
        w = words[i]
        while w > 0:
            out[i, 1] = 7 * out[i, 1] + w % 10
            w //= 10
        w = words[i] & 0xFFFF
        while w:
            out[i, 2] ^= w
            w >>= 1
        w = words[i] & 31
        while w > 1 and out[i, 3] < 3:
            w //= 2
            out[i, 3] += 1
    return out
"""
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    words = np.array([0, 1, -1, 255, 10**18, -(1 << 63), (1 << 63) - 1, -12345])
    for row, word in zip(f(words), words.tolist(), strict=True):
        digits, bits = 0, 0
        for digit in reversed(str(word)) if word > 0 else ():
            digits = 7 * digits + int(digit)
        for shift in range(16):
            bits ^= (word & 0xFFFF) >> shift
        counts = (word % 2**64).bit_count(), digits, bits, min(max((word & 31).bit_length() - 1, 0), 3)
        assert tuple(row) == tuple(np.array(counts, np.uint64).astype(np.int64))


@pytest.mark.machine_code
@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_elements_that_a_loop_holds_are_numpys(rounds):
    """Registers hold them between the rounds: also where other elements are read, or no round runs."""
    source = """
def f(x: Tensor[("n",), f64], at: i64, rounds: i64):
    low = np.full(2, np.inf)
    total = np.zeros((2, 3))
    y = x.copy()
    for i in range(2):
        for k in range(rounds):
            low[i] = min(low[i], x[k] * (i + 1))
            total[i, 2] += x[k]
        for k in range(rounds):
            y[at] += 0.5 * y[k]
        for k in range(3):
            total[i, 1] -= x[k] * low[i]
    return low, total, y
"""
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    x = np.array([0.5, -2.0, 3.0, 1.25, -0.75])
    low, total, y = np.full(2, np.inf), np.zeros((2, 3)), x.copy()
    for i in range(2):
        for k in range(rounds):
            low[i] = min(low[i], x[k] * (i + 1))
            total[i, 2] += x[k]
        for k in range(rounds):
            y[2] += 0.5 * y[k]
        for k in range(3):
            with np.errstate(invalid="ignore"):  # inf - inf
                total[i, 1] -= x[k] * low[i]
    for got, expected in zip(f(x, 2, rounds), (low, total, y), strict=True):
        np.testing.assert_array_equal(got, expected)
    if not rounds:
        np.testing.assert_array_equal(f(x, 9, 0)[2], x)  # of no element


@pytest.mark.parametrize("index", ["i - 1", "i - n", "n - 2 - i"])
def test_an_element_that_registers_hold_may_be_counted_from_the_end(index: str) -> None:
    source = f"""
def f(n: i64, w: i64):
    a = np.ones(n)
    for i in range(n - 1):
        for j in range(w):
            a[{index}] = j + 2 + i
    return a
"""
    f, scope = nnmagic.compile(source, cache=False, namespace={"np": np}), {"np": np, "i64": int}
    exec(source, scope)
    for n in (1, 4, 9):
        np.testing.assert_array_equal(f(n, 3), scope["f"](n, 3))  # type: ignore[operator]


@pytest.mark.machine_code
def test_a_round_asks_once_more_what_its_loop_asks():
    """Both are the same value: a loop that counts does not compute it in each round."""
    source = """
def f(x: Tensor[("n",), i64], y: Tensor[("n",), f32]):
    n, s, c = len(x), 0, 0
    z = np.zeros(n, np.float32)
    for i in range(n):
        if i < n and i >= -1:
            s += x[i] * 2
        c += i < n
        z[i] = y[i] * 2 if i < n else -1
    for i in range(n):
        for j in range(i):
            if i < n and j < i:
                s += x[i] * x[j]
    return s, c, z
"""
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    for n in (0, 1, 2, 9, 40):
        x, y = np.arange(n) % 7, np.arange(n, dtype=np.float32)
        pairs = sum(int(x[i] * x[j]) for i in range(n) for j in range(i))
        s, c, z = f(x, y)
        assert (s, c) == (2 * x.sum() + pairs, n)
        np.testing.assert_array_equal(z, 2 * y)


#: Walks that check an index of the next round, from any start; steps of two may pass the end.
WALKS = """
def f(x: Tensor[("n",), f64], old: f64, new: f64, width: i64, j: i64):
    w = x.copy()
    while w[j] != old:
        j += 1
    while j + 1 < width and w[j + 1] < new:
        w[j] = w[j + 1]
        j += 1
    while j > 0 and w[j - 1] > new:
        w[j] = w[j - 1]
        j -= 1
    w[j] = new
    k = j
    while k < width and w[k] <= new:
        k += 2
    return w, j, k
"""


@pytest.mark.machine_code
def test_walks_over_an_array_are_pythons():
    f = nnmagic.compile(WALKS, cache=False)
    scope: dict[str, Any] = {}
    exec(WALKS.replace('Tensor[("n",), f64]', "list").replace("f64", "float").replace("i64", "int"), scope)
    random, raised = np.random.default_rng(0), 0
    for turn in range(400):
        n = turn % 16
        x = random.integers(0, 4, n).astype(np.float64)
        x[random.random(n) < 0.1] = np.nan
        old, new = random.choice([0.0, 1.0, 2.0, np.nan]), float(random.integers(0, 5))
        width, j = (int(random.integers(-2, n + 4)) for _ in range(2))
        try:
            wanted = scope["f"](x.tolist(), old, new, width, j)
        except IndexError:
            raised += 1
            with pytest.raises(IndexError, match="out of range"):
                f(x, old, new, width, j)
            continue
        found = f(x, old, new, width, j)
        np.testing.assert_array_equal(found[0], wanted[0])
        assert (int(found[1]), int(found[2])) == wanted[1:]
    assert 50 < raised < 350, raised


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_floats_differ_in_loops_as_in_numpy(dtype):
    f = nnmagic.compile(
        f"""
def f(x: Tensor[("n",), {dtype}], y: Tensor[("n",), {dtype}]):
    differ, equal, i = 0, 0, 0
    while i < len(x):
        differ = 2 * differ + (1 if x[i] != y[i] else 0)
        equal = 2 * equal + (1 if x[i] == y[i] else 0)
        i += 1
    return differ, equal
""",
        cache=False,
    )
    numbers = np.array([0.0, -0.0, 1.5, np.inf, -np.inf, np.nan], dtype.replace("f", "float"))
    x, y = (each.ravel() for each in np.meshgrid(numbers, numbers))
    bits = ["".join("01"[bool(bit)] for bit in each) for each in (x != y, x == y)]
    assert tuple(map(int, f(x, y))) == tuple(int(each, 2) for each in bits)
