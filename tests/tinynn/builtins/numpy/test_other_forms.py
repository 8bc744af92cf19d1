"""Forms of NumPy's functions that the language expresses: methods of quantiles, axes of unique, pads."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(0)
X, N, V = RNG.random((4, 7)), RNG.integers(0, 3, (9, 2)), RNG.random(11)

METHODS = (
    *("lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf"),
    *("interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased"),
)

CALLS = [
    *(f"np.quantile(v, 0.3, method='{name}')" for name in METHODS),
    *(f"np.percentile(x, [0, 10, 50, 87.5, 100], axis=1, method='{name}')" for name in METHODS),
    "np.quantile(x, 0.5, axis=0, method='lower', keepdims=True)",
    "np.quantile(x, 0.5, method='higher', keepdims=True)",
    "np.unique(n, axis=0)",
    "np.unique(n, axis=1)",
    "np.unique(n, axis=0, return_index=True, return_inverse=True, return_counts=True)",
    *(
        f"np.pad({name}, ((1, 2), (0, 3)), mode='{mode}')"
        for name in "xn"
        for mode in ("maximum", "minimum", "mean", "median", "linear_ramp")
    ),
    "np.linalg.tensorsolve(np.eye(6).reshape(6, 2, 3) * 2 + 0.1, np.arange(6.0))",
    "np.linalg.tensorinv(np.eye(6).reshape(2, 3, 6) + 0.1)",
    "np.linalg.tensorinv(np.eye(6).reshape(6, 2, 3) + 0.1, ind=1)",
]


@pytest.mark.parametrize("call", CALLS)
def test_as_in_numpy(call: str) -> None:
    got = nnmagic.compile(f"def f(x, n, v): return {call}", engine="numpy")(X, N, V)
    expected = eval(call, {"np": np, "x": X, "n": N, "v": V})
    got, expected = (each if isinstance(each, tuple) else (each,) for each in (got, expected))
    for one, other in zip(got, expected, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(one, other, rtol=1e-12)
    if "method" in call and "x" in call:
        hole = X.copy()
        hole[1, 2] = np.nan
        got = nnmagic.compile(f"def f(x): return {call}", engine="numpy")(hole)
        np.testing.assert_allclose(got, eval(call, {"np": np, "x": hole}), rtol=1e-12)
