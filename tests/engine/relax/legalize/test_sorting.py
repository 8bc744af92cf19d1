"""Sorting and nonzero against NumPy: dtypes, axes, hard orders, known and named sizes."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.engine.programs import compile_text
from tests.suites import sample

DTYPES = ["float32", "float64", "float16", "int8", "int32", "int64", "uint8", "uint32", "uint64", "bool"]
LENGTHS = [0, 1, 2, 3, 15, 16, 17, 255, 256, 257, 1000]
RNG = np.random.default_rng(0)


def _orders(dtype, length):
    """Yield elements in orders that are easy or hard to sort."""
    ramp = np.arange(length)
    yield RNG.standard_normal(length) * 50
    yield RNG.integers(0, 4, length)
    yield ramp
    yield ramp[::-1]
    yield np.full(length, 3)
    yield np.minimum(ramp, ramp[::-1])  # organ pipe
    yield ramp % 7  # sawtooth
    if dtype.startswith("float"):
        yield RNG.choice([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1, -1], length)
    elif dtype not in ("bool", "uint8", "int8"):
        limits = np.iinfo(dtype)
        yield RNG.choice(np.array([limits.min, limits.max, 0, 1], dtype), length)


def _arrays(dtype, shape, axis):
    length = shape[axis]
    count = np.prod(shape, dtype=int) // max(length, 1)
    for elements in _orders(dtype, length):
        shuffled = [np.roll(elements, shift) for shift in range(count)] or [elements[:0]]
        with np.errstate(invalid="ignore", over="ignore"):
            rows = (
                np.array(shuffled)[:count]
                .astype(np.int64 if elements.dtype.kind == "f" and dtype[0] in "ui" else elements.dtype)
                .astype(dtype)
            )
        others = [dim for at, dim in enumerate(shape) if at != axis % len(shape)]
        yield np.ascontiguousarray(np.moveaxis(rows.reshape(*others, length), -1, axis))


def _check(executable, x, axis):
    ordered, indices, descending = executable([x])
    expected = np.sort(x, axis, kind="stable")
    np.testing.assert_array_equal(ordered, expected)
    np.testing.assert_array_equal(indices, np.argsort(x, axis, kind="stable"))
    np.testing.assert_array_equal(descending, np.flip(expected, axis))
    if x.dtype.kind == "f":  # zeros stay in the order of the data
        is_zero = expected == 0
        np.testing.assert_array_equal(np.signbit(ordered)[is_zero], np.signbit(expected)[is_zero])


def _compile(shape, dtype, axis):
    calls = (
        f'sort(%x, axis={axis}), argsort(%x, axis={axis}, dtype="int64"), sort(%x, axis={axis}, is_ascend=0)'
    )
    return compile_text(f"def @main(%x: Tensor[({shape}), {dtype}]) {{ ({calls}) }}")


@pytest.mark.full
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_any_length(dtype):
    executable = _compile("?, ?", dtype, 1)
    for length in LENGTHS:
        for x in _arrays(dtype, (5, length), 1):
            _check(executable, x, 1)


@pytest.mark.full
@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint64", "int8"])
def test_one_row_of_any_length(dtype):
    executable = _compile("?", dtype, 0)
    for length in [*LENGTHS, 31, 32, 33, 129, 4000, 8192, 8193]:
        for x in _arrays(dtype, (length,), 0):
            _check(executable, x, 0)


@pytest.mark.full
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_short_rows(dtype):
    by_rows, by_columns = _compile("2, ?", dtype, 1), _compile("?, 2", dtype, 0)
    for length in (0, 1, 2, 15, 31, 32, 33, 64):
        for x in _arrays(dtype, (2, length), 1):
            _check(by_rows, x, 1)
            _check(by_columns, np.ascontiguousarray(x.T), 0)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_columns_of_any_number(dtype):
    executable = _compile("?, ?", dtype, 0)
    for shape in ((17, 3), (17, 16), (17, 33), (257, 40), (1, 20), (0, 20), (3, 0), (2, 1)):
        for x in _arrays(dtype, shape, 0):
            _check(executable, x, 0)


@pytest.mark.full
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    ("shape", "dtype"),
    sample(
        itertools.product(
            ["5, 4, 19", "40, 257", "3, 1700", "20, 1700", "20", "3000"], ["float32", "float64", "int8"]
        ),
        2,
    ),
)
def test_known_sizes(shape, dtype):
    dims = tuple(map(int, shape.split(", ")))
    for axis in range(len(dims)):
        executable = _compile(shape, dtype, axis)
        for x in _arrays(dtype, dims, axis):
            _check(executable, x, axis)


@pytest.mark.full
@pytest.mark.parametrize("dtype", sample(["float32", "int32", "float64", "int64", "int8", "uint64"], 2))
def test_long_rows(dtype):
    known, named = _compile("100000", dtype, 0), _compile("?", dtype, 0)
    for x in _arrays(dtype, (100_000,), 0):
        _check(known, x, 0)
        _check(named, x[:99_991], 0)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("length", [30, 3000])
def test_largest(length, dtype):
    x = RNG.integers(-9, 9, (4, length)).astype(dtype)
    for k in (1, 5, 30):
        text = f'def @main(%x: Tensor[(4, {length}), {dtype}]) {{ topk(%x, k={k}, dtype="int32") }}'
        values, indices = compile_text(text)([x])
        expected = np.argsort(-x, 1, kind="stable")[:, :k]
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_largest_of_a_short_row(dtype):
    largest = compile_text(f'def @main(%x: Tensor[(?), {dtype}]) {{ topk(%x, k=9, dtype="int32") }}')
    for length in (9, 10, 31, 32, 33):
        x = RNG.integers(0, 9, length).astype(dtype)
        values, indices = largest([x])
        expected = np.argsort(-x.astype("int64"), kind="stable")[:9]
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_array_equal(values, x[expected])


@pytest.mark.full
@pytest.mark.parametrize("dtype", sample(["float64", "float16", "int64", "uint64", "float32"], 2))
@pytest.mark.parametrize("length", ["?", "300"])
def test_the_first_few_of_many(length, dtype):
    """They are selected; of equal elements, and of NaN, the first ones."""
    few = 'topk(%x, k={}, is_ascend=True, ret_type="{}", dtype="int64")'
    kinds = [few.format(1, "indices"), few.format(7, "indices"), few.format(7, "values")]
    function = compile_text(f"def @main(%x: Tensor[(?, {length}), {dtype}]) {{ ({', '.join(kinds)}) }}")
    for size in (300,) if length == "300" else (7, 55, 56, 71, 72, 300):
        for x in _arrays(dtype, (3, size), 1):
            order = np.argsort(x, 1, kind="stable")
            first, indices, values = function([x])
            np.testing.assert_array_equal(first, order[:, :1])
            np.testing.assert_array_equal(indices, order[:, :7])
            np.testing.assert_array_equal(values, np.take_along_axis(x, order[:, :7], 1))


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
@pytest.mark.parametrize("shape", ["?, ?", "7, 300"])
def test_indices_of_nonzero(shape, dtype):
    find = compile_text(f"def @main(%x: Tensor[({shape}), {dtype}]) {{ argwhere(%x) }}")
    full = RNG.integers(-1, 2, (7, 300)).astype(dtype)
    arrays = [full, np.zeros_like(full), np.ones_like(full)]
    if dtype == "float32":
        arrays.append(np.where(full > 0, np.nan, -0.0).astype(dtype))
    if "?" in shape:
        arrays += [full[:, :1], full[:0], full[:, :0]]
    for x in arrays:
        np.testing.assert_array_equal(find([np.ascontiguousarray(x)]), np.argwhere(x))


def test_the_nan_of_bfloat16():
    """What NumPy sorts wrongly: float32 is the judge."""
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    x = np.array([np.nan, 1, -np.nan, -np.inf, np.inf, -0.0, -2], bfloat16)
    executable = compile_text("def @main(%x: Tensor[(7), bfloat16]) { sort(%x) }")
    ordered = executable([x])
    assert ordered.dtype == bfloat16
    np.testing.assert_array_equal(ordered.astype(np.float32), np.sort(x.astype(np.float32)))
