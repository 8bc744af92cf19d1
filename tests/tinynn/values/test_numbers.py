"""Python numbers at the ends of the dtypes: NumPy's value, or an error that says what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from nnmagic.relay.types import NUMPY_DTYPES, is_float
from nnmagic.tinynn.types.annotations import DTYPES
from tests.tinynn.cases import errors_of

_INTS = [
    sign * (2**bits + more)
    for bits in (7, 8, 15, 16, 24, 31, 53, 63, 64)
    for more in (-1, 0)
    for sign in (1, -1)
]
_FLOATS = [3e4, 6.5e4, 1e38, 3.4e38, 1.7e308, -1.7e308, 1e-7, 1e-40, 5e-324]
_NUMBERS: list[int | float] = [*_INTS, *_FLOATS, 10**22, 10**38, 10**300, 2**1023]
_ARITHMETIC = [dtype for dtype in DTYPES.values() if dtype.name in NUMPY_DTYPES and dtype.name != "bool"]


def _fits(number: float, dtype: str) -> bool:
    """Whether a dtype holds the number; a float rounded, but not to infinity."""
    if is_float(dtype):
        with np.errstate(over="ignore"):
            return bool(np.isfinite(np.array(float(number)).astype(NUMPY_DTYPES[dtype])))
    limits = np.iinfo(NUMPY_DTYPES[dtype])
    return isinstance(number, int) and limits.min <= number <= limits.max


@pytest.mark.full("f16", "i32")
@pytest.mark.parametrize("dtype", _ARITHMETIC, ids=repr)
def test_what_a_dtype_holds_is_numpys_number(dtype: nnmagic.tinynn.types.annotations.DType) -> None:
    kept = [number for number in _NUMBERS if _fits(number, dtype.name)]
    ways = "where(x > 0, {0}, x); full((2,), {0}, {1}); full_like(x, {0}); array(({0}, {0}), {1}); "
    ways += "maximum(x, {0})"
    written = [way.format(f"({number!r})", dtype) for number in kept for way in ways.split("; ")]
    cell = f"def f(x: Tensor[(2,), {dtype}]):\n    return ({', '.join(written)},)\n"
    numbers = nnmagic.compile(cell, cache=False)(np.array([0, 1]).astype(dtype.dtype))
    for number, results in zip(kept, zip(*[iter(numbers)] * 5, strict=True), strict=True):
        exact = np.array(float(number) if is_float(dtype.name) else number).astype(dtype.dtype)
        x = np.array([0, 1]).astype(dtype.dtype)
        wanted = [np.where(x > 0, exact, x), *[np.array([exact, exact])] * 3, np.maximum(x, exact)]
        for one, other in zip(results, wanted, strict=True):
            assert one.dtype == dtype.dtype
            assert one.tobytes() == other.astype(dtype.dtype).tobytes(), number


@pytest.mark.parametrize("dtype", _ARITHMETIC, ids=repr)
@pytest.mark.parametrize(
    "way",
    [
        "x + {0}",
        "where(x > 0, {0}, x)",
        "full((2,), {0}, {1})",
        "full_like(x, {0})",
        "array([{0}], {1})",
        "clip(x, 0, {0})",
    ],
)
def test_what_no_dtype_holds_is_said(dtype: nnmagic.tinynn.types.annotations.DType, way: str) -> None:
    for number in _NUMBERS:
        if isinstance(number, int) and not _fits(number, dtype.name):
            text = way.format(f"({number!r})", dtype)
            (error,) = errors_of(f"def f(x: Tensor[(2,), {dtype}]):\n    return {text}\n")
            assert f"does not fit in {dtype}" in error.message


def test_ints_that_no_float_holds_are_refused_where_they_stand() -> None:
    (error,) = errors_of(f"def f(x: f32):\n    return x * {10**400}\n")
    assert error.message == "an int of 1329 bits is larger than any float"
    assert error.span is not None
    assert (error.span.line, error.span.column) == (3, 16)
    (error,) = errors_of("def f(x: f32):\n    return x * big\n", {"big": 10**400})
    assert error.message == "`big` is an int of 1329 bits, which a cell cannot use"
    (error,) = errors_of("def f(x: f32):\n    return x * prod((2 ** 40, 2 ** 40))\n")
    assert error.message == "the result of `prod` is no number of 64 bits"


def test_lists_of_numbers_have_numpys_dtype_and_every_number_in_it() -> None:
    written = "array([True, False]), array([True, 2]), array([2 ** 62, 1.5]), array([[], []])"
    cell = f"def f():\n    return {written}\n"
    wanted = np.array([True, False]), np.array([True, 2]), np.array([2**62, 1.5]), np.array([[], []])
    for one, other in zip(nnmagic.compile(cell, cache=False)(), wanted, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
    (error,) = errors_of("def f():\n    return array([2 ** 63, -1])\n")  # NumPy rounds it to a float
    assert error.message.startswith("9223372036854775808 does not fit in i64")


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect", "symmetric"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_padding_wider_than_the_axis_is_numpys(mode: str, size: int) -> None:
    x = np.arange(3 * size, dtype=np.float32).reshape(3, size)
    widths = [((0, 0), (7, 12)), ((3, 4), (1, 0)), ((11, 1), (4, 23))]
    results = ", ".join(f"pad(x, {width}, mode={mode!r})" for width in widths)
    arrays = nnmagic.compile(f"def f(x: Tensor[(3, {size}), f32]):\n    return {results}\n", cache=False)(x)
    for one, width in zip(arrays, widths, strict=True):
        np.testing.assert_array_equal(one, np.pad(x, width, mode=mode))  # type: ignore[call-overload]  # a mode


def test_padding_that_no_program_can_hold_is_refused() -> None:
    (error,) = errors_of(
        "def f(x: Tensor[(2, 3), f32]):\n    return pad(x, ((0, 0), (2 ** 31, 0)), 'edge')\n"
    )
    assert error.message == "pad: axis 1 would have 2147483651 elements (with mode='edge' at most 10000000)"


def test_differences_of_more_than_there_are_elements_are_empty() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    cell = (
        "def f(x: Tensor[(3, 4), f32]):\n    return diff(x, 3), diff(x, 2 ** 40), diff(x, 2 ** 40, axis=0)\n"
    )
    wanted = np.diff(x, 3), np.diff(x, 9), np.diff(x, 9, axis=0)
    for one, other in zip(nnmagic.compile(cell, cache=False)(x), wanted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)


def test_images_that_no_shape_can_hold_are_refused() -> None:
    (error,) = errors_of("def f(x: Tensor[(1, 2, 2, 3), f32]):\n    return upsampling(x, 1e308, 2.0)\n")
    assert error.message.startswith("nn.upsampling: the scales [1e+308, 2.0] are too large")
