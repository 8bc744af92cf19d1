"""Correlations of vectors that are long, or of any length: NumPy is the judge."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

pytestmark = pytest.mark.sampled(every=18)

#: Lengths with many results, a few, one and none of a full tile; both orders; windows short and long.
LENGTHS = [(700, 80), (700, 690), (80, 700), (700, 700), (40, 33), (33, 40), (7, 3), (1, 900), (900, 600)]

#: Of which at least one is known.
KNOWN = [(700, 690), (90, 700), (700, "m"), ("n", 700), (20, "m"), ("n", 20), (20, 3)]

MODES = ("full", "same", "valid")


def vectors(n: int, m: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n + m)
    x, d = rng.standard_normal(n), rng.standard_normal(m)
    if dtype.startswith("c"):
        x, d = x + 1j * rng.standard_normal(n), d + 1j * rng.standard_normal(m)
    return (x * 9).astype(dtype), (d * 9).astype(dtype)


def compiled(call: str, sizes: tuple[object, object], dtype: str = "f64"):
    types = [f"Tensor[({size if isinstance(size, int) else repr(size)},), {dtype}]" for size in sizes]
    source = f"def f(x: {types[0]}, d: {types[1]}):\n    return {call}\n".replace("'", '"')
    return nnmagic.compile(source, namespace={"np": np})


@pytest.mark.machine_code
@pytest.mark.parametrize(("dtype", "rtol"), [("f64", 1e-11), ("f32", 1e-3)])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["correlate", "convolve"])
def test_vectors_of_any_length(name: str, mode: str, dtype: str, rtol: float) -> None:
    function = compiled(f'np.{name}(x, d, "{mode}")', ("n", "m"), dtype)
    for n, m in LENGTHS:
        x, d = vectors(n, m, dtype.replace("f64", "f8").replace("f32", "f4"))
        got, want = function(x, d), getattr(np, name)(x, d, mode)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * np.abs(want).max())


@pytest.mark.machine_code
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", KNOWN)
def test_vectors_of_known_length(sizes: tuple[object, object], mode: str) -> None:
    function = compiled(f'np.correlate(x, d, "{mode}")', sizes)
    for other in (8, 150):
        x, d = vectors(*(size if isinstance(size, int) else other for size in sizes), "f8")
        np.testing.assert_allclose(function(x, d), np.correlate(x, d, mode), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", ["i32", "u8", "bool_", "c128"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["correlate", "convolve"])
def test_other_dtypes(name: str, mode: str, dtype: str) -> None:
    numpys = {"i32": "i4", "u8": "u1", "bool_": "?", "c128": "c16"}[dtype]
    for n, m in ((9, 4), (4, 9), (5, 5)):
        sizes = (n, m) if dtype == "c128" else ("n", "m")
        function = compiled(f'np.{name}(x, d, "{mode}")', sizes, dtype)
        x, d = vectors(n, m, numpys)
        got, want = function(x, d), getattr(np, name)(x, d, mode)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_nothing_but_the_elements_of_both_is_multiplied_where_the_mode_is_valid() -> None:
    function = compiled('np.correlate(x, d, "valid")', ("n", "m"))
    x, d = vectors(50, 9, "f8")
    d[4] = np.inf
    np.testing.assert_array_equal(function(x, d), np.correlate(x, d, "valid"))
    np.testing.assert_array_equal(function(d, x), np.correlate(d, x, "valid"))


@pytest.mark.parametrize(("n", "m"), [(9, 4), (4, 9)])
@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_known_lengths(mode: str, n: int, m: int) -> None:
    types = f"x: Tensor[({n},), f64], d: Tensor[({m},), f64]"
    source = (
        f'def loss({types}) -> f64:\n    return np.sum(np.correlate(x, d, "{mode}") ** 2)\n'
        f"def f({types}):\n    return grad(loss, argnums=(0, 1))(x, d)\n"
    )
    x, d = vectors(n, m, "f8")
    for got, given in zip(nnmagic.compile(source, namespace={"np": np})(x, d), (x, d), strict=True):
        for at, before in enumerate(given.copy()):
            values = []
            for step in (1e-5, -1e-5):
                given[at] = before + step
                values.append(np.sum(np.correlate(x, d, mode) ** 2))
            given[at] = before
            np.testing.assert_allclose(got[at], (values[0] - values[1]) / 2e-5, rtol=1e-4, atol=1e-2)


@pytest.mark.machine_code
@pytest.mark.parametrize("shape", [(1, 1, 5, 40), (2, 3, 6, 33), (1, 2, 4, 4, 36), (1, 3, 41), (1, 4, 3, 9)])
@pytest.mark.parametrize("options", ["", ", padding=1", ", strides=2"])
def test_a_convolution_with_one_result_channel(shape: tuple[int, ...], options: str) -> None:
    weights = (1, shape[1], *(3,) * (len(shape) - 2))
    source = (
        f"def f(x: Tensor[{shape}, f32], w: Tensor[{weights}, f32]):\n"
        f"    return conv{len(shape) - 2}d(x, w{options})\n"
    )
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(size).astype("f4") for size in (shape, weights))
    function, judge = (nnmagic.compile(source, engine=engine) for engine in ("relax", "numpy"))
    np.testing.assert_allclose(function(x, w), judge(x, w), rtol=1e-4, atol=1e-4)
