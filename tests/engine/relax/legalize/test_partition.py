"""Elements in their sorted places without a sort: of all lengths, orders and dtypes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

RANDOM = np.random.default_rng(0)


def orders(n: int, dtype: str) -> dict[str, np.ndarray]:
    """Data that tells a sample little, too."""
    x = (RANDOM.standard_normal(n) * 100).astype(dtype)
    found = {
        "random": x,
        "ascending": np.sort(x),
        "descending": np.sort(x)[::-1].copy(),
        "equal": np.full(n, 3, dtype),
        "three values": RANDOM.integers(0, 3, n).astype(dtype),
        "two heaps": np.where(np.arange(n) % 9 < 4, x // 8, x // 8 + 64).astype(dtype),
    }
    if dtype.startswith("float"):
        special = x.copy()
        special[::7], special[1::11], special[2::13], special[3::17] = np.nan, np.inf, -np.inf, -0.0
        found["special"] = special
    return found


def check(found: np.ndarray, x: np.ndarray, places: tuple[int, ...]) -> None:
    if x.dtype == np.float16:  # NumPy has sorted NaN of these wrong
        found, x = found.astype("float32"), x.astype("float32")
    ordered = np.sort(x)
    np.testing.assert_array_equal(np.sort(found), ordered)
    for place in places:
        np.testing.assert_array_equal(found[place], ordered[place])
        np.testing.assert_array_equal(np.sort(found[:place]), ordered[:place])


@pytest.mark.machine_code
@pytest.mark.full
@pytest.mark.parametrize("dtype", ["f64", "f32", "i64", "i32", "i8", "u32", "u64", "f16"])
def test_partitions(dtype: str) -> None:
    kind = {"f": "float", "i": "int", "u": "uint"}[dtype[0]] + dtype[1:]
    places = (5, 700, 701, 1500)
    source = f"def f(x: Tensor[('n',), {dtype}]):\n    return np.partition(x, {places})\n"
    function = nnmagic.compile(source, namespace={"np": np})
    for n in (1501, 2047, 2048, 5000, 40000):
        for x in orders(n, kind).values():
            check(function(x), x, places)


@pytest.mark.machine_code
def test_the_lowest_of_many() -> None:
    source = "def f(x: Tensor[(3000,), f64]):\n    return np.partition(x, 700)\n"
    function = nnmagic.compile(source, namespace={"np": np})
    for x in orders(3000, "float64").values():
        check(function(x), x, (700,))


@pytest.mark.machine_code
@pytest.mark.full
@pytest.mark.parametrize("dim", ["5000", "'n'"])
def test_medians_and_percentiles(dim: str) -> None:
    source = (
        f"def f(x: Tensor[({dim},), f64], m: Tensor[(3, {dim}), f32]):\n"
        "    return (np.median(x), np.percentile(x, (95, 5, 50, 100, 0)), np.quantile(x, 0.3),\n"
        "            np.median(m, axis=1), np.quantile(m, 0.9, axis=1), np.median(m, axis=0))\n"
    )
    function = nnmagic.compile(source, namespace={"np": np})
    for n in (5000,) if dim == "5000" else (1, 2, 3, 2047, 2048, 2049, 5000, 50001):
        for x in orders(n, "float64").values():
            m = np.stack([x, x[::-1], np.roll(x, 1)]).astype("float32")
            with np.errstate(invalid="ignore"):
                expected = (
                    *(np.median(x), np.percentile(x, (95, 5, 50, 100, 0)), np.quantile(x, 0.3)),
                    *(np.median(m, axis=1), np.quantile(m, 0.9, axis=1), np.median(m, axis=0)),
                )
            for have, want in zip(function(x, m), expected, strict=True):
                np.testing.assert_allclose(have, want, rtol=1e-6)


def test_a_place_beyond_the_axis_is_an_error_of_the_call() -> None:
    source = "def f(x: Tensor[('n',), f64]):\n    return np.partition(x, 3)\n"
    function = nnmagic.compile(source, namespace={"np": np}, engine="numpy")
    check(function(np.array([3.0, 1, 2, 0])), np.arange(4.0), (3,))
    with pytest.raises(ValueError, match="kth=3 is out of range"):
        function(np.zeros(3))


def test_the_gradient_goes_to_the_elements_that_were_moved() -> None:
    source = (
        "def h(x: Tensor[(9,), f64], w: Tensor[(9,), f64]):\n"
        "    return (np.partition(x, 4) * w).sum()\n"
        "def f(x: Tensor[(9,), f64], w: Tensor[(9,), f64]):\n"
        "    return np.partition(x, 4), grad(h)(x, w)\n"
    )
    x, w = RANDOM.permutation(9).astype(float), np.arange(9.0)
    found, gradient = nnmagic.compile(source, namespace={"np": np}, engine="numpy")(x, w)
    np.testing.assert_array_equal(gradient, [w[list(found).index(each)] for each in x])


def test_batches_of_medians() -> None:
    source = "def f(m: Tensor[(4, 'n'), f64]):\n    return vmap(lambda row: np.median(row))(m)\n"
    m = RANDOM.standard_normal((4, 6))
    function = nnmagic.compile(source, namespace={"np": np}, engine="numpy")
    np.testing.assert_allclose(function(m), np.median(m, axis=1))
