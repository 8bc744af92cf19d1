"""What is known of integers, from the outside: values are Python's, divisions and questions are gone.

They judge engine/relax/codegen/aot/range_evaluator, too.
"""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.codegen.aot.linear import BoundedSymbol, Facts, number, of_symbol

pytestmark = pytest.mark.sampled(every=2)

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
