"""What kernels need several times is compiled once: rounds that threads may share, and marked statements."""

import numpy as np
import pytest
from tvm import ir, tirx

import nnmagic
from nnmagic.engine.relax.codegen import shared_rounds
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.visitors import collect

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


@pytest.mark.parametrize(("length", "level"), [(7, 2), (5, 3), (17, 2)])
def test_what_is_shared_is_not_written_out(length: int, level: int) -> None:
    """LLVM would take the arrays of both functions for others, and what one of them stores for lost."""
    source = f"def f(y: Tensor[({length},), f64]): return np.fft.fft(y)"
    y = np.random.default_rng(0).random(length)
    f = nnmagic.compile(source, cache=False, opt_level=level)
    np.testing.assert_allclose(f(y), np.fft.fft(y), rtol=1e-10, atol=1e-12)


def test_what_is_shared_has_rounds_of_its_own() -> None:
    """Two Fourier transforms are one function, whose loops threads share: it is outlined twice."""
    source = 'def f(y: Tensor[("n", 16), f64]): return np.fft.ifft(np.fft.fft(y)).real'
    y = np.random.default_rng(0).random((3, 16))
    np.testing.assert_allclose(nnmagic.compile(source, cache=False)(y), y, rtol=1e-12)


def test_equal_marked_statements_are_one_function() -> None:
    def fill(value: float, size: tirx.Var) -> list[object]:
        array = tirx.decl_buffer((size,), "float64", "array")
        store = builders.loop("k", size, lambda k: tirx.BufferStore(array, tirx.const(value, "float64"), [k]))
        return [tirx.AllocBuffer(array), builders.shared(store, array)]

    n, m = (tirx.Var(name, "int64") for name in "nm")
    for values, count in (((1.0, 1.0), 1), ((1.0, 2.0), 2)):
        body = builders.sequence([*fill(values[0], n), *fill(values[1], m)])
        functions = shared_rounds.outline_shared({ir.GlobalVar("f"): tirx.PrimFunc([n, m], body)})
        made = [each for each in functions.values() if shared_rounds.INTERNAL in (each.attrs or {})]
        assert len(made) == count
        assert len(collect(ir.Call, *(each.body for each in functions.values()))) >= 2


@pytest.mark.full
@pytest.mark.parametrize("axis", [0, 1])
def test_transforms_of_named_lengths(axis: int) -> None:
    """Sequences side by side, one by one, and as convolutions, call the same passes."""
    source = 'def f(x: Tensor[("m", "n"), f64]): return np.abs(np.fft.rfft(x, axis=AXIS))'
    f = nnmagic.compile(source.replace("AXIS", str(axis)), namespace={"np": np}, cache=False)
    for shape in ((1, 1), (2, 7), (1, 4096), (40, 12), (3, 34), (17, 5040), (1009, 3)):
        x = np.random.default_rng(0).random(shape)
        np.testing.assert_allclose(f(x), np.abs(np.fft.rfft(x, axis=axis)), atol=1e-10)
