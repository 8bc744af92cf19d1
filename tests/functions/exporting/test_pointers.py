"""Functions that C code of this process calls by a pointer: ctypes, and SciPy's LowLevelCallable.

They judge `engine/relax/codegen/c/adapter_code`, too.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import pytest

import nnmagic


def name_of(capsule: object) -> str:
    get = ctypes.pythonapi.PyCapsule_GetName
    get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
    name: bytes = get(capsule)
    return name.decode()


def test_a_function_of_numbers_is_one_of_c() -> None:
    f = nnmagic.compile('def f(x: f64, n: i32):\n    assert x > 0.0, "no"\n    return sqrt(x) + n')
    assert f.ctypes(4.0, 3) == 5.0
    assert math.isnan(f.ctypes(-4.0, 3))
    again = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int32)(f.address)
    assert again(9.0, 1) == 4.0
    assert f.ctypes is f.ctypes


@pytest.mark.full
def test_a_function_of_arrays_is_as_it_is_exported() -> None:
    f = nnmagic.compile('def f(x: Tensor[("n",), f64], i: i64): return x * x[i]')
    x, out = np.arange(1.0, 4.0), np.empty(3)
    pointer = ctypes.POINTER(ctypes.c_double)
    given = x.ctypes.data_as(pointer), 3, 2, out.ctypes.data_as(pointer)
    assert f.ctypes(*given) == 0
    assert out.tolist() == [3.0, 6.0, 9.0]
    assert f.ctypes(given[0], 3, 5, given[3]) == 16


@pytest.mark.full
def test_scipy_integrates_a_capsule() -> None:
    scipy = pytest.importorskip("scipy")
    integrate = pytest.importorskip("scipy.integrate")
    f = nnmagic.compile("def f(x: f64): return exp(-x * x)")
    value, _ = integrate.quad(scipy.LowLevelCallable(f.capsule()), 0, 30)
    np.testing.assert_allclose(value, math.sqrt(math.pi) / 2, rtol=1e-9)
    g = nnmagic.compile("def g(x: f64, a: f64): return cos(a * x)")
    assert name_of(g.capsule()) == "double (int, double *)"
    value, _ = integrate.quad(scipy.LowLevelCallable(g.capsule()), 0, 1, args=(2.0,))
    np.testing.assert_allclose(value, math.sin(2.0) / 2.0)
    with pytest.warns(integrate.IntegrationWarning):
        value, _ = integrate.quad(scipy.LowLevelCallable(g.capsule()), 0, 1, args=(2.0, 3.0))
    assert math.isnan(value)  # of another number of arguments


@pytest.mark.full
def test_scipy_filters_with_a_capsule() -> None:
    scipy, ndimage = pytest.importorskip("scipy"), pytest.importorskip("scipy.ndimage")
    x = np.random.default_rng(0).standard_normal((20, 30))

    def call(text: str) -> Any:
        return scipy.LowLevelCallable(nnmagic.compile(text).capsule())

    spread = call('def spread(x: Tensor[("n",), f64]): return max(x) - min(x)')
    wanted = ndimage.generic_filter(x, np.ptp, 3)
    np.testing.assert_array_equal(ndimage.generic_filter(x, spread, 3), wanted)
    nine = call("def nine(x: Tensor[(9,), f64]): return x[0] + x[8]")
    np.testing.assert_array_equal(
        ndimage.generic_filter(x, nine, 3), ndimage.generic_filter(x, lambda v: v[0] + v[8], 3)
    )
    with pytest.raises(RuntimeError):
        ndimage.generic_filter(x, nine, 5)
    steps = call('def steps(x: Tensor[("n",), f64]): return x[2:] - x[:-2]')
    np.testing.assert_array_equal(ndimage.generic_filter1d(x, steps, 3)[:, 1:-1], x[:, 2:] - x[:, :-2])
    with pytest.raises(RuntimeError):
        ndimage.generic_filter1d(x, steps, 5)
    moved = call("def moved(p: Tensor[(2,), i64]): return array([p[0] + 1.0, p[1] + 2.0])")
    np.testing.assert_allclose(ndimage.geometric_transform(x, moved, order=1)[:-1, :-2], x[1:, 2:])


@pytest.mark.full
def test_a_capsule_of_another_signature_is_refused() -> None:
    f = nnmagic.compile("def f(x: f32): return x")
    with pytest.raises(nnmagic.EngineError, match="@f does not fit a signature that SciPy calls"):
        f.capsule()
    g = nnmagic.compile("def g(x: f64): return x")
    assert name_of(g.capsule("double (double, void *)")) == "double (double, void *)"
    with pytest.raises(nnmagic.EngineError, match=r"those that it fits are double \(double\)"):
        g.capsule("int (int)")
