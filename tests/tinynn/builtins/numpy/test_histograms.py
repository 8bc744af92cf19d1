"""``np.histogram`` against NumPy: elements on edges and outside, dtypes, sizes, many bins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(0)
SPECIAL = np.array([np.nan, np.inf, -np.inf, -4, 4, 0, -0.0, np.nextafter(4, 0), np.nextafter(-4, -9), 1])
ON_EDGES = np.arange(1001) / 1000


def compiled(source: str, engine: str = "auto") -> tuple[Callable[..., object], Callable[..., object]]:
    """The function of a cell, and the same source as Python."""
    namespace: dict[str, object] = {"np": np}
    exec("from __future__ import annotations\n" + source, namespace)
    judge = namespace["f"]
    assert callable(judge)
    return nnmagic.compile(source, namespace={"np": np}, cache=False, engine=engine), judge


@pytest.mark.sampled(every=4)
@pytest.mark.full("bins=7, density=True-f64-arrays7-auto")
@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize(
    ("call", "dtype", "arrays"),
    [
        (
            "bins=64, range=(-4, 4)",
            "f64",
            [RNG.standard_normal(99999), SPECIAL, SPECIAL[:0], np.full(256, 4.0)],
        ),
        ("bins=10, range=(0, 1)", "f64", [ON_EDGES, ON_EDGES[1:257], ON_EDGES[::-1]]),
        ("bins=10, range=(0, 1)", "f32", [ON_EDGES.astype("f4"), RNG.random(70000).astype("f4")]),
        ("bins=1000, range=(1e9, 1e9 + 1)", "f64", [1e9 + ON_EDGES]),
        ("bins=9000, range=(0, 1)", "f64", [ON_EDGES, RNG.random(70000)]),
        ("", "f64", [RNG.standard_normal(300), np.ones(300), np.zeros(0)]),
        ("bins=7", "i64", [RNG.integers(0, 30, 500)]),
        ("bins=13, range=(3, 200.5)", "u8", [RNG.integers(0, 256, 500).astype("u1"), np.zeros(0, "u1")]),
        ("bins=7, density=True", "f64", [RNG.standard_normal(300)]),
    ],
)
def test_bins_of_one_width(call: str, dtype: str, arrays: list[np.ndarray], engine: str) -> None:
    """Rounding moves no element to a bin beside its own."""
    source = f'def f(x: Tensor[("n",), {dtype}]):\n    return np.histogram(x, {call})\n'
    function, judge = compiled(source, engine)
    for x in arrays:
        (counts, edges), (expected, wanted) = function(x), judge(x)  # type: ignore[misc]
        np.testing.assert_allclose(counts, expected, rtol=1e-12)
        np.testing.assert_allclose(edges, wanted, rtol=1e-6 if dtype == "f32" else 1e-12, atol=1e-15)


def test_a_number_of_bins_that_only_the_call_knows() -> None:
    function, judge = compiled(
        "def f(x: Tensor[(40, 500), f64], n: i64):\n    return np.histogram(x, bins=n)"
    )
    x = RNG.standard_normal((40, 500))
    for bins in (1, 3, 1000):
        for result, wanted in zip(function(x, bins), judge(x, bins), strict=True):  # type: ignore[call-overload]
            np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-15)
