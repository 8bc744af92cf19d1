"""``bincount`` of integers of every dtype: NumPy is the judge."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

pytestmark = pytest.mark.sampled(every=6)


def compiled(body: str, size: object, dtype: str):
    source = f"def f(i: Tensor[({size},), {dtype}], w: Tensor[({size},), f64], k: i64):\n    return {body}\n"
    return nnmagic.compile(source, namespace={"np": np})


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", ["u8", "u16", "i8", "i32", "i64"])
@pytest.mark.parametrize(
    "body",
    [
        "np.bincount(i)",
        "np.bincount(i, minlength=256)",
        "np.bincount(i, minlength=k)",
        "np.bincount(i, weights=w)",
        "np.bincount(i, weights=w, minlength=256)",
    ],
)
def test_counts_of_integers(body: str, dtype: str) -> None:
    function = compiled(body, '"n"', dtype)
    numpys = np.dtype({"i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    largest = min(np.iinfo(numpys).max, 300)
    for n in (0, 1, 1000):
        i = np.random.default_rng(n).integers(0, largest, n, endpoint=True).astype(numpys)
        w = np.random.default_rng(n).standard_normal(n)
        got, want = function(i, w, 7), eval(body, {"np": np}, {"i": i, "w": w, "k": 7})
        if n:  # of no integers NumPy ignores the weights, and gives integers
            assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_the_size_of_a_result_is_known_where_the_dtype_fits_minlength() -> None:
    function = compiled("np.bincount(i, minlength=256)", 9, "u8")
    assert "Tensor[(256), int64]" in str(function.stages["relay-typed"])
