"""Quantiles, windows and iterables whose numbers only the call knows: NumPy is the judge."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import nnmagic

pytestmark = pytest.mark.sampled(every=4)

X = np.random.default_rng(1).standard_normal((7, 9))


def compiled(parameters: str, body: str):
    return nnmagic.compile(f"def f({parameters}):\n    return {body}\n", namespace={"np": np})


@pytest.mark.parametrize("shape", ['("n", "m")', "(7, 9)"])
@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize(
    "body",
    [
        "np.quantile(x, q)",
        "np.quantile(x, q, axis=1)",
        "np.quantile(x, [1 - q, q, 0.5], axis=0)",
        "np.percentile(x, 100 * q, keepdims=True)",
        "np.nanquantile(x, q, axis=0)",
    ],
)
def test_quantiles_at_computed_numbers(body: str, dtype: str, shape: str) -> None:
    function = compiled(f"x: Tensor[{shape}, {dtype}], q: f64", body)
    x = X.astype({"f64": "f8", "f32": "f4"}[dtype])
    with_nan = x.copy()
    with_nan[2, 3] = np.nan
    for q in map(np.float64, (0.0, 0.3, 0.5, 0.99, 1.0)):
        for given in (x, with_nan):
            got, want = function(given, q), eval(body, {"np": np}, {"x": given, "q": q})
            assert got.shape == want.shape
            assert got.dtype == want.dtype or given is with_nan  # of which NumPy returns an element
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_quantiles_at_a_vector_and_at_other_dtypes() -> None:
    function = compiled(
        "x: Tensor[(7, 9), f64], q: Tensor[(3,), f64], k: i64", "np.quantile(x, q), np.quantile(x, k)"
    )
    q = np.array([0.9, 0.1, 0.5])
    for got, want in zip(function(X, q, 1), (np.quantile(X, q), np.quantile(X, 1)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("q", [-0.1, 1.1, np.nan])
def test_a_number_that_is_no_share_raises(q: float) -> None:
    function = compiled('x: Tensor[("n",), f64], q: f64', "np.quantile(x, q)")
    with pytest.raises(ValueError, match="`q` must be numbers from 0 to 1"):
        function(X[0], q)


def test_windows_of_sizes_at_the_call() -> None:
    view = "np.lib.stride_tricks.sliding_window_view"
    body = f"{view}(x, (a, 2)), {view}(x, (a, b), axis=(1, 0)), {view}(x, b, axis=-1).max(axis=2)"
    function = compiled('x: Tensor[("n", "m"), f64], a: i64, b: i64', body)
    for a, b in ((2, 3), (1, 1), (7, 7)):
        want = (
            sliding_window_view(X, (a, 2)),
            sliding_window_view(X, (a, b), axis=(1, 0)),
            sliding_window_view(X, b, axis=-1).max(axis=2),
        )
        for ours, numpys in zip(function(X, a, b), want, strict=True):
            np.testing.assert_array_equal(ours, numpys)
    for a, b in ((8, 2), (-1, 2), (2, 10)):
        with pytest.raises(ValueError, match="a window is longer than its axis"):
            function(X, a, b)


def test_a_window_of_a_named_size() -> None:
    body = "np.lib.stride_tricks.sliding_window_view(x, len(d)) @ d"
    function = compiled('x: Tensor[("n",), f64], d: Tensor[("m",), f64]', body)
    for size in (1, 4, 9):
        x, d = X[0], X[1, :size]
        np.testing.assert_allclose(function(x, d), sliding_window_view(x, size) @ d, rtol=1e-12)


ZIPPED = """
def f({types}):
    t = 0.0
    for x, y, i in zip(a, b, range(3), strict=True):
        t += x * y * (i + 1)
    return t
"""


def test_a_strict_zip_of_equal_lengths_is_a_zip() -> None:
    a, b = X[0, :3], X[1, :3]
    for types in (
        'a: Tensor[("n",), f64], b: Tensor[("m",), f64]',
        "a: Tensor[(3,), f64], b: Tensor[(3,), f64]",
    ):
        np.testing.assert_allclose(
            nnmagic.compile(ZIPPED.format(types=types))(a, b), (a * b * [1, 2, 3]).sum()
        )


@pytest.mark.parametrize(("n", "m"), [(2, 3), (3, 4), (0, 3), (4, 4)])
def test_a_strict_zip_of_other_lengths_raises(n: int, m: int) -> None:
    function = nnmagic.compile(ZIPPED.format(types='a: Tensor[("n",), f64], b: Tensor[("m",), f64]'))
    with pytest.raises(ValueError, match="the iterables must have the same length"):
        function(X[0, :n], X[1, :m])


def test_a_strict_zip_of_known_other_lengths_is_refused() -> None:
    with pytest.raises(nnmagic.TinyNNError, match="the iterables must have the same length"):
        nnmagic.compile(ZIPPED.format(types="a: Tensor[(3,), f64], b: Tensor[(2,), f64]"))
