"""Arrays of other libraries go in without a copy, and out; NumPy and the libraries are the judges."""

from __future__ import annotations

import array
import ctypes
import mmap
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nnmagic


def compiled(source: str, **options: Any) -> Any:
    return nnmagic.compile(source, namespace={"np": np}, engine="numpy", **options)


@pytest.fixture(scope="module")
def twice() -> Any:
    return compiled("def twice(x: Tensor[('n',), f64]):\n    return x * 2\n")


@pytest.fixture(scope="module")
def inverted() -> Any:
    return compiled("def inverted(x: Tensor[('n',), u8]):\n    return 255 - x\n")


@pytest.fixture(scope="module")
def untyped() -> Any:
    return compiled("def untyped(x):\n    return x * 2\n")


class Interface:
    """Shows its memory by NumPy's oldest protocol."""

    def __init__(self, owner: np.ndarray) -> None:
        self.owner = owner

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.owner.__array_interface__


class Struct(Interface):
    """Shows its memory by the protocol for C."""

    __array_interface__ = None  # type: ignore[assignment]  # which NumPy takes for no protocol

    @property
    def __array_struct__(self) -> object:
        return self.owner.__array_struct__


class Refusing:
    """Has both protocols; DLPack has no such dtype or device."""

    def __init__(self, owner: np.ndarray) -> None:
        self.owner = owner

    def __dlpack__(self, **_: object) -> object:
        raise BufferError("DLPack has no such array")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.owner


DOUBLES = [1.5, 2.5, 4.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: array.array("d", DOUBLES),
        lambda: memoryview(array.array("d", DOUBLES)),
        lambda: memoryview(np.array(DOUBLES).repeat(2))[::2],
        lambda: (ctypes.c_double * 3)(*DOUBLES),
        lambda: Interface(np.array(DOUBLES)),
        lambda: Refusing(np.array(DOUBLES)),
        lambda: memoryview(np.array(DOUBLES)).toreadonly(),
    ],
    ids=["array", "memoryview", "strided", "ctypes", "interface", "refusing", "read-only"],
)
def test_buffers_and_protocols(make: Any, twice: Any, untyped: Any) -> None:
    for function in (twice, untyped):
        np.testing.assert_array_equal(function(make()), np.asarray(make()) * 2)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, "array", "mmap"])
@pytest.mark.parametrize("data", [b"", b"abc", bytes(range(256))])
def test_bytes_are_arrays_of_u8(kind: Any, data: bytes, inverted: Any, untyped: Any) -> None:
    if kind == "mmap":
        if not data:
            pytest.skip("no file of no bytes is mapped")
        value: Any = mmap.mmap(-1, len(data))
        value[:] = data
    else:
        value = array.array("B", data) if kind == "array" else kind(data)
    np.testing.assert_array_equal(inverted(value), 255 - np.frombuffer(data, np.uint8))
    # Without a type the elements of bytes are Python's ints, which do not wrap.
    assert untyped(value).dtype == (np.int64 if kind in (bytes, bytearray) else np.uint8)


def test_other_elements_are_refused_by_name(twice: Any, inverted: Any) -> None:
    for value in (array.array("f", DOUBLES), b"abc", memoryview(b"abc").cast("b")):
        with pytest.raises(
            TypeError, match=r"argument 'x' must be Tensor\[\(\"n\",\), f64\], not an array of"
        ):
            twice(value)
    with pytest.raises(TypeError, match=r"must be .*u8.*not a str"):
        inverted("abc")
    with pytest.raises(TypeError, match=r"must be .*rank 1, not of rank 2"):
        inverted(memoryview(np.zeros((2, 2), "u1")))
    with pytest.raises(TypeError, match="not a dict"):
        twice({})


def test_the_memory_is_read_where_it_is() -> None:
    """What a function is given is changed after the call, and the next call sees it."""
    f = nnmagic.compile("def f(x: Tensor[('n',), f64]):\n    return x.sum()\n")
    buffer = array.array("d", DOUBLES)
    assert f(buffer) == 8
    buffer[0] = 100
    assert f(buffer) == 106.5
    buffer.append(1.0)  # no export is left over
    assert f(buffer) == 107.5


def test_what_an_object_raises_is_told(twice: Any) -> None:
    class Failing:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            raise ValueError("it is on another machine")

    with pytest.raises(TypeError, match="a Failing gave no array: it is on another machine"):
        twice(Failing())


def test_conversions_apply_to_all_of_them() -> None:
    f = compiled("def f(x: Tensor[('n',), f64]):\n    return x * 2\n", convert=True)
    for value in (b"abc", array.array("f", DOUBLES), array.array("i", [1, 2])):
        data = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else np.asarray(value)
        np.testing.assert_array_equal(f(value), data * 2.0)


def test_results_go_into_arrays_alone() -> None:
    f = compiled("def f(x: Tensor[('n',), u8]):\n    return 255 - x\n")
    g = compiled("def g(x: InOut[Tensor[('n',), u8]]):\n    x[...] = 255 - x\n")
    for wrong in (bytearray(b"abc"), memoryview(b"abc"), Interface(np.zeros(3, "u1")), "abc", [1, 2, 3]):
        with pytest.raises(TypeError, match="is changed by the call: it must be a NumPy array") as caught:
            g(wrong)
        assert "convert" not in str(caught.value).partition(";")[2]
        with pytest.raises(TypeError, match="'out' must be a NumPy array"):
            f(b"abc", out=wrong)


def test_images() -> None:
    image = pytest.importorskip("PIL.Image")
    f = compiled("def f(x: Tensor[('h', 'w', 'c'), u8]):\n    return 255 - x\n")
    g = compiled("def g(x: Tensor[('h', 'w'), bool_]):\n    return x.sum()\n")
    picture = image.new("RGB", (4, 2), (1, 2, 3))
    assert f(picture).shape == (2, 4, 3)
    np.testing.assert_array_equal(f(picture), 255 - np.asarray(picture))
    assert g(image.new("1", (4, 2), 1)) == 8


#: How cells write each dtype.
TORCH_DTYPES = {
    "bool": "bool_",
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "uint8": "u8",
    "int8": "i8",
    "int64": "i64",
    "complex64": "c64",
    "complex128": "c128",
}


class TestTorch:
    """Tensors of PyTorch; `make test-torch` has it."""

    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        self.torch = pytest.importorskip("torch")

    @pytest.mark.parametrize(("name", "short"), TORCH_DTYPES.items())
    def test_every_dtype(self, name: str, short: str) -> None:
        f = compiled(f"def f(x: Tensor[('n',), {short}]):\n    return x[::-1]\n")
        tensor = self.torch.arange(6).to(getattr(self.torch, name))
        for each in (tensor, tensor[:0], tensor[::2], tensor.reshape(2, 3).T[1]):
            result = f(each)
            assert result.dtype == (ml_dtypes.bfloat16 if name == "bfloat16" else name)
            expected = each.flip(0).to(self.torch.complex128)
            assert result.astype("complex128").tolist() == expected.tolist()

    def test_what_the_memory_does_not_hold_is_refused(self, twice: Any) -> None:
        torch = self.torch
        conjugate = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128).conj()
        negative = conjugate.imag
        assert negative.is_neg()
        of_complex = compiled("def f(x: Tensor[('n',), c128]):\n    return x\n")
        for function, tensor, way in (
            (of_complex, conjugate, "resolve_conj"),
            (twice, negative, "resolve_neg"),
        ):
            with pytest.raises(TypeError, match=rf"argument 'x' .*{way}"):
                function(tensor)
            np.testing.assert_array_equal(
                np.asarray(function(getattr(tensor, way)())) / (2 if function is twice else 1),
                getattr(tensor, way)().numpy(),
            )
        for grad in (torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.bfloat16)):
            with pytest.raises(TypeError, match=r"argument 'x' .*requires? grad"):
                (
                    twice
                    if grad.dtype == torch.float64
                    else compiled("def f(x: Tensor[('n',), bf16]):\n    return x\n")
                )(grad.requires_grad_())
        with torch.no_grad():
            np.testing.assert_array_equal(twice(torch.ones(2, dtype=torch.float64).requires_grad_()), [2, 2])
        with pytest.raises(TypeError, match="argument 'x'"):
            twice(torch.eye(3, dtype=torch.float64).to_sparse())

    @pytest.mark.parametrize("engine", ["numpy", "relax"])
    def test_tensors_take_results(self, engine: str) -> None:
        torch = self.torch
        f = nnmagic.compile(
            "def f(x: Tensor[('n',), f32]):\n    return x * 2, x.sum()\n", engine=engine, cache=False
        )
        g = nnmagic.compile(
            "def g(x: InOut[Tensor[('n',), bf16]], y: Out[Tensor[('n',), f32]]):\n"
            "    x[...] = x + x\n    y[...] = 3\n    return x.sum()\n",
            engine=engine,
            cache=False,
        )
        out = torch.empty(6)[::2], torch.zeros(())
        assert f(torch.arange(3.0), out=out) is out
        assert out[0].tolist() == [0, 2, 4]
        assert out[1].item() == 3
        x, y = torch.arange(3).to(torch.bfloat16), torch.empty(3)
        assert g(x, y) == 6
        assert x.tolist() == [0, 2, 4]
        assert y.tolist() == [3, 3, 3]
        for wrong in (torch.ones(3), torch.ones(3, dtype=torch.float64)):
            with pytest.raises(TypeError, match=r"x = x\.to\(torch\.bfloat16\)$"):
                g(wrong, y)
        with pytest.raises(TypeError, match="requires grad"):
            f(torch.arange(3.0), out=(torch.empty(3).requires_grad_(), torch.zeros(())))
        assert out[0].tolist() == [0, 2, 4]

    def test_a_gradient_that_needs_the_old_values_refuses(self) -> None:
        torch = self.torch
        g = compiled("def g(x: InOut[Tensor[('n',), f32]]):\n    x[...] = 7\n")
        f = compiled("def f(x: Tensor[('n',), f32]):\n    return x * 2\n")
        for change in (g, lambda held: f(held.detach(), out=held)):
            weight = torch.ones(3, requires_grad=True)
            held = torch.ones(3)
            loss = (weight * held).sum()
            change(held)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()


@pytest.mark.parametrize("source", ["x: Tensor[('n',), f32]", "x: Tensor[..., f32]"])
def test_an_array_of_another_dtype_is_converted_as_the_hint_says(source: str) -> None:
    function = compiled(f"def f({source}):\n    return x * 2\n")
    given = np.arange(3.0)
    values: list[tuple[object, str]] = [
        (given, r"\.astype\('float32'\)"),
        (memoryview(given), r"numpy\.asarray\(\.\.\., 'float32'\)"),
        (Interface(given), r"numpy\.asarray\(\.\.\., 'float32'\)"),
    ]
    for value, hint in values:
        with pytest.raises(TypeError, match=f"; convert it with {hint}$"):
            function(value)
    np.testing.assert_array_equal(function(np.asarray(memoryview(given), "float32")), given * 2)


@pytest.mark.parametrize("source", ["x: Tensor[('n',), f32]", "x: Tensor[..., f32]"])
def test_a_tensor_of_another_dtype_is_converted_as_the_hint_says(source: str) -> None:
    torch = pytest.importorskip("torch")
    function = compiled(f"def f({source}):\n    return x * 2\n")
    value = torch.arange(3, dtype=torch.float64)
    with pytest.raises(TypeError, match=r"; convert it with \.to\(torch\.float32\)$"):
        function(value)
    np.testing.assert_array_equal(function(value.to(torch.float32)), [0, 2, 4])
