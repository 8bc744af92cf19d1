"""Elements and indices in their sorted places without a sort: of all lengths and dtypes, against NumPy."""

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
        "two values": (np.arange(n) * 7 % n >= 700).astype(dtype),  # the wanted element is at the border
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


def check_order(found: np.ndarray, x: np.ndarray, places: tuple[int, ...]) -> None:
    assert found.dtype == np.int64
    np.testing.assert_array_equal(np.sort(found), np.arange(len(x)))
    check(x[found], x, places)


@pytest.mark.machine_code
@pytest.mark.full
@pytest.mark.parametrize("dtype", ["f64", "f32", "i64", "i32", "i8", "u32", "u64", "f16"])
def test_partitions(dtype: str) -> None:
    kind = {"f": "float", "i": "int", "u": "uint"}[dtype[0]] + dtype[1:]
    places = (5, 700, 701, 1500)
    source = (
        f"def f(x: Tensor[('n',), {dtype}]):\n"
        f"    return np.partition(x, {places}), np.argpartition(x, {places})\n"
    )
    function = nnmagic.compile(source, namespace={"np": np})
    for n in (1501, 2047, 2048, 5000, 40000):
        for x in orders(n, kind).values():
            values, indices = function(x)
            check(values, x, places)
            check_order(indices, x, places)


@pytest.mark.machine_code
def test_the_lowest_of_many() -> None:
    source = "def f(x: Tensor[(3000,), f64]):\n    return np.partition(x, 700), np.argpartition(x, 700)\n"
    function = nnmagic.compile(source, namespace={"np": np})
    for x in orders(3000, "float64").values():
        values, indices = function(x)
        check(values, x, (700,))
        check_order(indices, x, (700,))


@pytest.mark.machine_code
def test_indices_of_columns() -> None:
    source = "def f(m: Tensor[(2100, 3), i32]):\n    return np.argpartition(m, (-2, 9), axis=0)\n"
    m = RANDOM.integers(-500, 500, (2100, 3)).astype("int32")
    orders_ = nnmagic.compile(source, namespace={"np": np})(m)
    for order, column in zip(orders_.T, m.T, strict=True):
        check_order(order, column, (9, 2098))


@pytest.mark.full
@pytest.mark.machine_code
def test_indices_of_rows_and_the_first_few() -> None:
    source = (
        "def f(m: Tensor[(3, 2100), f32]):\n"
        "    return np.argpartition(m, 2000), np.argpartition(m, 4)[:, :4], np.argpartition(m > 0, 1050)\n"
    )
    m = RANDOM.standard_normal((3, 2100)).astype("float32")
    for order, first, of_truth, row in zip(*nnmagic.compile(source, namespace={"np": np})(m), m, strict=True):
        check_order(order, row, (2000,))
        np.testing.assert_array_equal(np.sort(row[first]), np.sort(row)[:4])
        check_order(of_truth, row > 0, (1050,))


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
    for name in ("partition", "argpartition"):
        source = f"def f(x: Tensor[('n',), f64]):\n    return np.{name}(x, 3)\n"
        function = nnmagic.compile(source, namespace={"np": np}, engine="numpy")
        assert function(np.array([3.0, 1, 2, 0]))[3] == (3 if name == "partition" else 0)
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
