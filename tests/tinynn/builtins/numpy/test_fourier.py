"""Fourier transforms in cells, judged by numpy.fft."""

# ruff: noqa: E501  # a case reads best on one line

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import errors_of
from tests.tinynn.values.test_complex import check, draw


def relative_error(result: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest error of an element, relative to the largest element."""
    return float(np.abs(result - expected).max() / np.abs(expected).max())


EXPRESSIONS = {
    "along-axes": "np.fft.fft(A) | np.fft.ifft(A) | np.fft.fft(A, axis=0) | np.fft.fft(T, axis=1) | np.fft.ifft(T, axis=-2)",
    "of-real-numbers": "np.fft.fft(R) | np.fft.fft(I) | np.fft.rfft(R) | np.fft.rfft(R, axis=0) | np.fft.ifft(R)",
    "back-to-real-numbers": "np.fft.irfft(A) | np.fft.irfft(V, n=9) | np.fft.irfft(V, n=4) | np.fft.irfft(A, axis=0) | np.fft.irfft(np.fft.rfft(R), n=4)",
    "of-another-length": "np.fft.fft(A, n=7) | np.fft.fft(A, n=3) | np.fft.fft(A, 5, 0) | np.fft.ifft(A, n=1) | np.fft.rfft(R, n=6)",
    "scaled": 'np.fft.fft(A, norm="ortho") | np.fft.ifft(A, norm="forward") | np.fft.fft(A, norm="forward") | np.fft.irfft(A, norm="ortho") | np.fft.rfft(R, norm="backward")',
    "along-several-axes": "np.fft.fft2(A) | np.fft.ifft2(T) | np.fft.fftn(T) | np.fft.ifftn(T, axes=(0, 2)) | np.fft.fft2(T, axes=(0, 1))",
    "shifts": "np.fft.fftshift(A) | np.fft.ifftshift(V) | np.fft.fftshift(R, axes=1) | np.fft.ifftshift(np.fft.fftshift(T))",
    "frequencies": "np.fft.fftfreq(7, 0.5) | np.fft.fftfreq(8) | np.fft.rfftfreq(9, d=2.0)",
    "single-precision": "np.fft.fft(Q) | np.fft.ifft(Q) | np.fft.fft(P) | np.fft.rfft(P)",
}  # fmt: skip


@pytest.mark.parametrize("topic", EXPRESSIONS)
def test_a_transform_gives_what_numpy_gives(topic: str) -> None:
    check(EXPRESSIONS[topic])


@pytest.mark.full
@pytest.mark.sampled(every=8)
@pytest.mark.parametrize(
    "length",
    [1, 2, 64, 97, 128, 257, 360, 1000, 1021, 1024, 2049, 3063, 4093, 4096, 2 * 2039, 3 * 5 * 7 * 11],
)
def test_a_transform_of_any_length_keeps_the_digits(length: int) -> None:
    source = (
        f"def f(z: Tensor[(2, {length}), c128], w: Tensor[(2, {length}), c64]):\n"
        f"    return np.fft.fft(z), np.fft.ifft(z), np.fft.fft(w), np.fft.irfft(np.fft.rfft(z.real), n={length})\n"
    )
    z = draw(2, length)
    w = z.astype("c8")
    forward, backward, narrow, real = nnmagic.compile(source, namespace={"np": np}, cache=False)(z, w)
    assert relative_error(forward, np.fft.fft(z)) < 1e-14
    assert relative_error(backward, np.fft.ifft(z)) < 1e-14
    assert relative_error(narrow, np.fft.fft(w.astype("c16"))) < 2e-6
    assert relative_error(real, z.real) < 1e-14


def test_sizes_may_be_named() -> None:
    source = (
        'def f(z: Tensor[("m", "n"), c128]):\n'
        '    return np.fft.fft(z), np.fft.ifft(z, norm="ortho"), np.fft.fft(z, axis=0), np.fft.ifft(z.real), np.fft.rfft(z.real), np.fft.irfft(z), np.fft.fft2(z), np.fft.irfft2(z), np.fft.rfftn(z.imag)\n'
    )
    z = draw(3, 250)
    results = nnmagic.compile(source, namespace={"np": np}, cache=False)(z)
    expected = (
        *(np.fft.fft(z), np.fft.ifft(z, norm="ortho"), np.fft.fft(z, axis=0), np.fft.ifft(z.real)),
        *(np.fft.rfft(z.real), np.fft.irfft(z), np.fft.fft2(z), np.fft.irfft2(z), np.fft.rfftn(z.imag)),
    )
    for result, wanted in zip(results, expected, strict=True):
        assert result.shape == wanted.shape
        assert relative_error(result, wanted) < 1e-13


def test_the_text_has_the_operator() -> None:
    f = nnmagic.compile('def f(z: Tensor[("n",), c64]):\n    return np.fft.ifft(z)\n', namespace={"np": np})
    assert "numpy.fft(%z, axis=0, inverse=True, pairs=True)" in f.relay_text


@pytest.mark.full
def test_a_transform_of_no_elements_is_refused() -> None:
    f = nnmagic.compile('def f(z: Tensor[("n",), c64]):\n    return np.fft.fft(z)\n', namespace={"np": np})
    with pytest.raises(ValueError, match="invalid number of data points"):
        f(np.zeros(0, "c8"))


def test_transforms_of_a_batch() -> None:
    source = (
        "def f(z: Tensor[(3, 4, 6), c128], x: Tensor[(3, 4, 6), f64]):\n"
        "    return vmap(lambda a: fft(a, axis=0))(z), vmap(rfft)(x), vmap(lambda a: irfft(a, axis=-1))(z)\n"
    )
    z = draw(3, 4, 6)
    results = nnmagic.compile(source, cache=False)(z, z.real)
    expected = np.fft.fft(z, axis=1), np.fft.rfft(z.real), np.fft.irfft(z)
    for result, wanted in zip(results, expected, strict=True):
        assert relative_error(result, wanted) < 1e-14


@pytest.mark.full
def test_leading_sizes_may_be_named() -> None:
    source = 'def f(z: Tensor[("m", 120), c128]):\n    return np.fft.fft(z), np.fft.rfft(z.real)\n'
    z = draw(5, 120)
    whole, half = nnmagic.compile(source, namespace={"np": np}, cache=False)(z)
    assert relative_error(whole, np.fft.fft(z)) < 1e-14
    assert relative_error(half, np.fft.rfft(z.real)) < 1e-14


def test_the_functions_need_no_import() -> None:
    result = nnmagic.compile("def f(z: Tensor[(6,), c128]):\n    return ifft(fft(z)) - z\n", cache=False)(
        draw(6)
    )
    assert np.abs(result).max() < 1e-15


@pytest.mark.machine_code
@pytest.mark.full
def test_numpys_module_is_found_before_it_is_loaded() -> None:
    """NumPy loads `numpy.fft` when somebody asks for it; a cell does not."""
    program = (
        "import sys, numpy as np, nnmagic\n"
        "sys.stdout.write(str('numpy.fft' in sys.modules))\n"
        "nnmagic.compile('def f(x: Tensor[(4,), f32]):\\n    return np.fft.fft(x)', namespace={'np': np})\n"
        "sys.stdout.write(' compiled')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    assert run.stdout == "False compiled"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("np.fft.fft(z, n=0)", "fft: the length 0 is less than 1"),
        ("np.fft.fft(z, axis=2)", "fft: axis 2 is out of range for a tensor of rank 2"),
        (
            "np.fft.fft(z, norm='x')",
            "fft: `norm` must be one of 'backward', 'ortho', 'forward', not the string 'x'",
        ),
        ("np.fft.fft(s)", "fft takes a tensor of rank 1 or more, not one of shape ()"),
        (
            "np.fft.fft(n, n=8)",
            'fft: the size of the axis must be known at compile time, not the dimension "n"',
        ),
        ("np.fft.irfft(z[:, :1])", "irfft: the axis has 1 elements, which is too few"),
        ("np.fft.fftfreq(0)", "fftfreq: the length 0 is less than 1"),
        ("np.fft.fft(b)", "fft is defined for f32, f64, c64 and c128, not bf16"),
    ],
)
def test_what_cannot_be_transformed_is_refused(text: str, message: str) -> None:
    parameters = 'z: Tensor[(4, 4), c128], n: Tensor[("n",), c128], s: c64, b: Tensor[(4,), bf16]'
    (error,) = errors_of(f"def f({parameters}):\n    return {text}\n", {"np": np})
    assert error.message == message


@pytest.mark.numpy_engine
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@pytest.mark.parametrize("step", ["", ", 0.5"])
def test_frequencies_of_no_samples_are_refused_by_the_call(name: str, step: str) -> None:
    f = nnmagic.compile(f"def f(x: Tensor[('n',), f32]):\n    return {name}(x.shape[0]{step})\n")
    with pytest.raises(ValueError, match=f"^{name}: the length is less than 1\n"):
        f(np.zeros(0, np.float32))


@pytest.mark.numpy_engine
def test_frequencies_have_the_precision_of_the_distance() -> None:
    f = nnmagic.compile("def f(x: Tensor[('n',), f32], d: f32):\n    return fftfreq(len(x), d)\n")
    step = np.float32(0.1)
    np.testing.assert_array_equal(f(np.zeros(7, np.float32), step), np.fft.fftfreq(7, step))
