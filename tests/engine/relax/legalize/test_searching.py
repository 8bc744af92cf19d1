"""`searchsorted` and `isin` against NumPy: dtypes, hard values, lengths around whole nodes."""

import numpy as np
import pytest

import nnmagic

pytestmark = pytest.mark.sampled(every=3)

DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]
LENGTHS = [0, 1, 2, 15, 16, 17, 255, 256, 257, 300, 4500]
RNG = np.random.default_rng(0)


def _numbers(dtype: str, count: int, *, hard: bool) -> np.ndarray:
    if dtype.startswith("float"):
        special = [0.0, -0.0, np.nan, np.inf, -np.inf, 1, 2, 3]
        return (RNG.choice(special, count) if hard else RNG.standard_normal(count) * 3).astype(dtype)
    limits = np.iinfo(dtype)
    if hard:
        return RNG.choice(np.array([limits.min, limits.max, limits.max - 1, 0, 1, 2], dtype), count)
    return RNG.integers(max(limits.min, -40), 90, count).astype(dtype)


def _annotation(dtype: str) -> str:
    return dtype[0] + dtype.lstrip("uintfloa") if dtype[0] != "u" else "u" + dtype[4:]


def _compiled(text: str, dtype: str, count: object = "'n'", length: object = "'m'") -> object:
    kind = _annotation(dtype)
    head = f"def f(x: Tensor[({count},), {kind}], y: Tensor[({length},), {kind}]):\n"
    return nnmagic.compile(f"{head}    return {text}\n", namespace={"np": np}, cache=False)


TEXT = "np.isin(x, y), np.searchsorted(y, x), np.searchsorted(y, x, side='right')"


def _check(f: object, x: np.ndarray, y: np.ndarray) -> None:
    member, left, right = f(x, y)
    np.testing.assert_array_equal(member, np.isin(x, y))
    np.testing.assert_array_equal(left, np.searchsorted(y, x))
    np.testing.assert_array_equal(right, np.searchsorted(y, x, side="right"))


@pytest.mark.full
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("dtype", DTYPES)
def test_named_sizes(dtype: str) -> None:
    f = _compiled(TEXT, dtype)
    for length in LENGTHS:
        for hard in (False, True):
            y = np.sort(_numbers(dtype, length, hard=hard))
            for count in (0, 7, 600):
                _check(f, _numbers(dtype, count, hard=not hard), y)
                _check(f, np.concatenate([y, y[:1]]), y)


@pytest.mark.sampled(every=24)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_known_sizes(dtype: str, length: int) -> None:
    f = _compiled(TEXT, dtype, 70, length)
    for hard in (False, True):
        _check(f, _numbers(dtype, 70, hard=hard), np.sort(_numbers(dtype, length, hard=hard)))


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_others_in_any_order_and_shape(dtype: str) -> None:
    kind = _annotation(dtype)
    head = f"def f(x: Tensor[('n', 3), {kind}], y: Tensor[('n', 'm'), {kind}]):\n"
    f = nnmagic.compile(f"{head}    return np.isin(x, y, invert=True)\n", namespace={"np": np}, cache=False)
    for rows, columns in ((5, 4), (2, 0), (300, 300)):
        x, y = _numbers(dtype, rows * 3, hard=True), _numbers(dtype, rows * columns, hard=False)
        x[: min(len(x), len(y))] = y[: len(x)]
        x, y = x.reshape(rows, 3), y.reshape(rows, columns)
        np.testing.assert_array_equal(f(x, y), np.isin(x, y, invert=True))


@pytest.mark.full
def test_integers_that_are_far_apart() -> None:
    """What lies above and below a table, where differences of the ends need 64 bits."""
    f = _compiled("np.isin(x, y)", "int64")
    low, high = np.iinfo("int64").min, np.iinfo("int64").max
    for others in ([low, high], [low, low + 3], [high - 2, high], [-1, 1]):
        x = np.array([low, low + 1, low + 3, -1, 0, 1, high - 2, high - 1, high])
        y = np.array(others)
        np.testing.assert_array_equal(f(x, y), np.isin(x, y))
