"""The loops of Fourier transforms (engine/relax/legalize/fourier_numbers), judged by numpy.fft.

They judge engine/relax/legalize/fourier_passes, too.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.legalize.fourier_butterflies import RADICES, factorize
from tests.engine.programs import compile_text

RANDOM = np.random.default_rng(0)
TOLERANCE = {"float32": 1e-6, "float64": 1e-14}


def draw(shape, dtype):
    whole = RANDOM.standard_normal((*shape, 2)).astype(dtype)
    return whole, whole[..., 0] + 1j * whole[..., 1]


def check(result, expected, dtype):
    if np.iscomplexobj(expected):
        result = result[..., 0] + 1j * result[..., 1]
    assert result.shape == expected.shape
    assert np.abs(result - expected).max(initial=0) <= TOLERANCE[dtype] * np.abs(expected).max(initial=0)


def function(operator, dims, dtype):
    """A compiled call of an operator; a dimension is a number or ``?``."""
    return compile_text(f"def @main(%x: Tensor[({', '.join(map(str, dims))}), {dtype}]) {{ {operator} }}")


def fft(dims, dtype, axis=-1, inverse=False, norm="backward"):
    axis %= len(dims)
    attrs = f'axis={axis}, inverse={inverse}, norm="{norm}", pairs=True'
    return function(f"numpy.fft(%x, {attrs})", (*dims, 2), dtype)


def test_a_length_is_factored_as_far_as_there_are_radices():
    assert factorize(1) == []
    assert factorize(360) == [5, 4, 3, 3, 2]
    assert factorize(22) == [11, 2]
    assert factorize(34) is None
    assert sorted(RADICES, reverse=True) == list(RADICES)


#: Single sequences as matrices, many of them by columns, convolutions; neighbours along an inner axis.
SHAPES = [
    *((1,), (2,), (3,), (5,), (7,), (64,), (100,), (1024,), (1009,), (17,)),
    *((3, 8), (9, 1), (9, 6), (17, 60), (20, 34), (2, 2187), (2, 143)),
    *((8, 9), (6, 20, 9), (12, 3)),
]  # fmt: skip


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_transform_of_known_sizes(shape, dtype):
    axis = 0 if shape[-1] == 9 and len(shape) == 2 else 1 if len(shape) == 3 else -1
    pairs, numbers = draw(shape, dtype)
    check(fft(shape, dtype, axis)([pairs]), np.fft.fft(numbers, axis=axis), dtype)


@pytest.mark.full
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_transform_of_sizes_that_only_the_call_knows(dtype, axis):
    compiled = fft("???", dtype, axis, inverse=True)
    for length in (
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        11,
        13,
        16,
        17,
        32,
        60,
        97,
        128,
        143,
        210,
        1009,
        2187,
        2197,
        4096,
    ):
        for others in ((1, 1), (2, 1), (1, 3), (3, 20), (9, 1), (0, 2)):
            shape = list(others)
            shape.insert(axis, length)
            pairs, numbers = draw(shape, dtype)
            check(compiled([pairs]), np.fft.ifft(numbers, axis=axis), dtype)


@pytest.mark.full
def test_a_vector_of_a_length_that_only_the_call_knows():
    compiled = fft("?", "float64")
    for length in (1, 2, 3, 5, 8, 11, 64, 77, 143, 1000, 1009, 1331, 2197, 4096, 6006, 65536):
        pairs, numbers = draw((length,), "float64")
        check(compiled([pairs]), np.fft.fft(numbers), "float64")
    with pytest.raises(ValueError, match=r"invalid number of data points \(0\)"):
        compiled([np.zeros((0, 2))])


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("inverse", [False, True])
def test_a_norm_scales_one_direction(norm, inverse):
    pairs, numbers = draw((12,), "float64")
    transform = np.fft.ifft if inverse else np.fft.fft
    check(fft((12,), "float64", 0, inverse, norm)([pairs]), transform(numbers, norm=norm), "float64")


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize(
    "shape", [(1,), (2,), (3,), (4,), (60,), (15,), (34,), (17,), (9, 8), (10, 7)], ids=str
)
def test_transforms_of_real_numbers(shape):
    length, numbers = shape[-1], RANDOM.standard_normal(shape)
    axis = len(shape) - 1
    half = np.fft.rfft(numbers, norm="ortho")
    forward = function(f'numpy.rfft(%x, axis={axis}, norm="ortho", pairs=True)', shape, "float64")
    check(forward([numbers]), half, "float64")
    half = half + 1j  # what NumPy ignores, too
    pairs = np.stack([half.real, half.imag], axis=-1)
    back = function(f"numpy.irfft(%x, n={length}, axis={axis}, pairs=True)", pairs.shape, "float64")
    check(back([pairs]), np.fft.irfft(half, n=length), "float64")


@pytest.mark.full
def test_real_numbers_of_sizes_that_only_the_call_knows():
    forward = function("numpy.rfft(%x, axis=1, pairs=True)", "???", "float64")
    back = function("numpy.irfft(%x, axis=1, pairs=True)", "???2", "float64")
    for length in (1, 2, 3, 4, 9, 10, 14, 22, 26, 64, 97, 1009, 2018, 2187, 4096):
        for outer, inner in ((1, 1), (3, 1), (2, 9), (0, 1), (12, 1)):
            numbers = RANDOM.standard_normal((outer, length, inner))
            half = np.fft.rfft(numbers, axis=1)
            check(forward([numbers]), half, "float64")
            if length > 1:
                pairs = np.stack([half.real, half.imag], axis=-1)
                check(back([pairs]), np.fft.irfft(half, axis=1), "float64")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_relays_transform_takes_parts_of_any_precision(dtype):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    parts = RANDOM.standard_normal((2, 3, 10)).astype(kind)
    part = f"Tensor[(3, 10), {dtype}]"
    text = f"def @main(%a: {part}, %b: {part}) {{ dft(%a, %b, inverse=True) }}"
    real, imaginary = compile_text(text)(list(parts))
    assert real.dtype == kind
    expected = np.fft.ifft(parts[0].astype("f8") + 1j * parts[1].astype("f8"))
    tolerance = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(real.astype("f8"), expected.real, atol=tolerance)
    np.testing.assert_allclose(imaginary.astype("f8"), expected.imag, atol=tolerance)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_relays_transform_of_no_elements(shape):
    part = f"Tensor[{shape}, float32]"
    text = f"def @main(%a: {part}, %b: {part}) {{ dft(%a, %b) }}"
    for result in compile_text(text)([np.zeros(shape, "f4")] * 2):
        assert result.shape == shape


def test_without_optimisation_the_numbers_are_the_same():
    pairs, numbers = draw((30,), "float64")
    text = "def @main(%x: Tensor[(30, 2), float64]) { numpy.fft(%x, axis=0, pairs=True) }"
    check(compile_text(text, opt_level=0)([pairs]), np.fft.fft(numbers), "float64")


@pytest.mark.budget(3)
def test_a_transform_without_elements_whose_length_the_call_knows_ends() -> None:
    """Real Relay's operator takes it, unlike numpy.fft."""
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, ?), float32]) { dft(%x, %x, inverse=False) }'
    function = nnmagic.compile(nnmagic.relay.parse(text), cache=False)
    for shape in ((0, 0), (2, 0), (0, 3)):
        assert [part.shape for part in function(np.empty(shape, "f4"))] == [shape, shape]
    np.testing.assert_allclose(function(np.ones((1, 4), "f4"))[0], [[4, 0, 0, 0]])
