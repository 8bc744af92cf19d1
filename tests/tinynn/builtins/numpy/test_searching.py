"""``np.searchsorted`` and ``np.digitize`` where there are NaN and infinities, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

ORDERED = ([0, 1, 2], [0, 1, np.nan], [np.nan] * 3, [-np.inf, 0, np.inf], [0, np.inf, np.nan, np.nan], [])
X = np.array([np.nan, 0, 1, 2, np.inf, -np.inf, 0.5], "float32")


@pytest.mark.full
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("length", ["known", "open"])
def test_indices_in_order(length: str, side: str) -> None:
    for each in ORDERED:
        ordered = np.array(each, "float32")
        dim = f"{len(each)}," if length == "known" else "'n',"
        indices = nnmagic.compile(
            f"def f(e: Tensor[({dim}), f32], x: Tensor[(7,), f32]):\n"
            f"    return searchsorted(e, x, side='{side}'), searchsorted(e, x[0], side='{side}')",
            cache=False,
        )(ordered, X)
        for one, other in zip(
            indices, (np.searchsorted(ordered, x, side=side) for x in (X, X[0])), strict=True
        ):
            np.testing.assert_array_equal(one, other, err_msg=f"{each}")


def test_bins() -> None:
    bins = np.array([0, 1, 2], "float32")
    source = (
        "def f(x: Tensor[(7,), f32], bins: Tensor[(3,), f32]):\n"
        "    return digitize(x, bins), digitize(x, bins, right=True)"
    )
    indices = nnmagic.compile(source, cache=False)(X, bins)
    np.testing.assert_array_equal(indices[0], np.digitize(X, bins))
    np.testing.assert_array_equal(indices[1], np.digitize(X, bins, right=True))


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", ["f64", "f32", "i64", "u8"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_few_and_many_values_in_short_and_long_vectors(side: str, dtype: str) -> None:
    numpys = {"f64": "f8", "f32": "f4", "i64": "i8", "u8": "u1"}[dtype]
    types = f'e: Tensor[("n",), {dtype}], x: Tensor[("m",), {dtype}]'
    function = nnmagic.compile(f"def f({types}):\n    return searchsorted(e, x, side='{side}')")
    rng = np.random.default_rng(1)
    for length in (1, 16, 17, 300):
        ordered, x = (rng.integers(0, 100, size).astype(numpys) for size in (length, 60))
        if dtype.startswith("f"):
            ordered[: length // 3], x[:3] = np.nan, (np.nan, np.inf, -np.inf)
        ordered.sort()
        for values in (x, x[:1], x[1:2]):
            np.testing.assert_array_equal(
                function(ordered, values), np.searchsorted(ordered, values, side=side)
            )
