"""Loops that threads share where the call has enough work: their rounds are compiled once."""

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.codegen import shared_rounds

PROGRAMS = {
    "element-wise": (
        'def f(a: Tensor[("n",), f64]): return sqrt(a) + 1.0',
        lambda a: np.sqrt(a) + 1,
        lambda n: [(n,)],
    ),
    "sum": (
        'def f(a: Tensor[("n", 3), f64]): return a.sum(axis=1)',
        lambda a: a.sum(axis=1),
        lambda n: [(n, 3)],
    ),
    "product": (
        'def f(a: Tensor[("n", 24), f64], b: Tensor[(24, 40), f64]): return a @ b',
        lambda a, b: a @ b,
        lambda n: [(n, 24), (24, 40)],
    ),
    "transposed": (
        'def f(a: Tensor[("n", 50), f64]): return a.T * 2.0',
        lambda a: a.T * 2,
        lambda n: [(n, 50)],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_and_one_core_run_the_same_rounds(name, monkeypatch):
    source, reference, shapes = PROGRAMS[name]
    outlined = []

    def record(module):
        result = shared_rounds.outline_rounds(module)
        outlined.extend(each for each in result.functions.values() if shared_rounds.INTERNAL in each.attrs)
        return result

    monkeypatch.setattr("nnmagic.engine.relax.codegen.object_code.outline_rounds", record)
    f = nnmagic.compile(source, cache=False)
    assert outlined
    for n in (1, 63, 64, 1000, 40_001):
        arrays = [np.random.default_rng(n).random(shape) for shape in shapes(n)]
        np.testing.assert_allclose(f(*arrays), reference(*arrays), rtol=1e-12)


def test_what_is_shared_has_rounds_of_its_own() -> None:
    """Two Fourier transforms are one function, whose loops threads share: it is outlined twice."""
    source = 'def f(y: Tensor[("n", 16), f64]): return np.fft.ifft(np.fft.fft(y)).real'
    y = np.random.default_rng(0).random((3, 16))
    np.testing.assert_allclose(nnmagic.compile(source, cache=False)(y), y, rtol=1e-12)
