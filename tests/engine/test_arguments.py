"""What a parameter takes from Python, and the words in which it refuses the rest."""

import ml_dtypes
import numpy as np
import pytest

from nnmagic.engine.arguments import Parameter, convert_argument
from nnmagic.relay.types import NUMPY_DTYPES, AnyDim, TensorType, TupleType

MATRIX = Parameter("a", TensorType((2, 3), "float32"))
SCALAR = {
    dtype: Parameter("s", TensorType((), dtype))
    for dtype in ("bool", "int8", "uint64", "float16", "bfloat16", "float32")
}


def convert(parameter, value):
    return convert_argument(parameter, value, {})


class Exporter:
    """An object of another library, with one of the two protocols."""

    def __init__(self, array, protocol):
        self.array = array
        setattr(
            type(self), protocol, lambda self, *args, **kwargs: getattr(self.array, protocol)(*args, **kwargs)
        )

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_an_array_that_fits_is_passed_as_it_is():
    for array in (np.ones((2, 3), "f4"), np.ones((3, 2), "f4").T, np.ones((2, 3), ">f4")):
        assert convert(MATRIX, array) is array


def test_numbers_take_the_dtype_of_a_scalar():
    for dtype, value in (
        ("bool", True),
        ("int8", -5),
        ("uint64", 2**64 - 1),
        ("float16", 0.5),
        ("float32", 3),
        ("float32", 2**70),
        ("bfloat16", -(2**100)),
    ):
        result = convert(SCALAR[dtype], value)
        assert (result.dtype, result.shape, result.item()) == (NUMPY_DTYPES[dtype], (), value)
    assert np.isinf(convert(SCALAR["float16"], float("inf")))
    assert convert(Parameter("s", TensorType((), "bfloat16")), 1.5).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float32", 1 / np.sqrt(64)),
        ("float16", np.float64(0.1)),
        ("float64", np.float32(0.1)),
        ("int8", np.int64(-7)),
        ("float32", np.uint8(3)),
        ("bool", np.bool_(True)),
    ],
)
def test_a_numpy_scalar_is_taken_as_the_python_number(dtype, value):
    result = convert(Parameter("s", TensorType((), dtype)), value)
    assert (result.dtype, result.shape) == (np.dtype(dtype), ())
    assert result == np.asarray(value.item(), dtype)


def test_messages_name_the_dimensions_as_the_cell_does():
    rows = Parameter("x", TensorType((AnyDim("n"), 3), "float32"))
    with pytest.raises(TypeError) as caught:
        convert(rows, np.ones((2, 3)))
    assert str(caught.value) == (
        """x must be Tensor[("n", 3), f32], not an array of float64; convert it with .astype('float32')"""
    )
    with pytest.raises(ValueError) as caught:
        convert_argument(rows, np.ones((2, 3), "f4"), {"n": 5})
    assert str(caught.value) == (
        'x must be Tensor[("n", 3), f32], not of shape (2, 3): '
        'dimension 0 ("n") is 5 elsewhere in this call, not 2'
    )


@pytest.mark.parametrize(
    ("dtype", "value", "kind", "message"),
    [
        ("int8", 128, ValueError, "s must be i8, from -128 to 127; 128 is outside"),
        ("int8", 1.0, TypeError, "s must be i8, not the Python float 1.0"),
        ("bool", 1, TypeError, "s must be bool_, not the Python int 1"),
        ("float32", True, TypeError, "s must be f32, not the Python bool True"),
        ("float16", 1e6, ValueError, "too large"),
        ("float32", 10**400, ValueError, "s must be f32; an int of 1329 bits is too large for it"),
        pytest.param("int8", -(10**5000), ValueError, "to 127; an int of 16610 bits is outside", id="digits"),
        ("float16", np.float64(1e6), ValueError, "s must be f16; 1000000.0 is too large for it"),
        ("int8", np.float64(1), TypeError, "s must be i8, not the Python float 1.0"),
        ("int8", np.int64(300), ValueError, "s must be i8, from -128 to 127; 300 is outside"),
        ("float32", np.complex64(1), TypeError, "s must be f32, not an array of complex64"),
        ("float32", "1", TypeError, "s must be f32, not a str"),
        ("float32", None, TypeError, "s must be f32, not None"),
    ],
)
def test_numbers_that_do_not_fit(dtype, value, kind, message):
    with pytest.raises(kind) as caught:
        convert(SCALAR[dtype], value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (np.ones((2, 3)), TypeError, "a must be Tensor[(2, 3), f32], not an array of float64"),
        (np.ones((2, 3), object), TypeError, "not an array of object"),
        (np.ones((2, 3), "f4,f4"), TypeError, "not an array of [('f0', '<f4'), ('f1', '<f4')]"),
        (np.ones((2, 3), "c8"), TypeError, "not an array of complex64"),
        (np.ones(6, "f4"), TypeError, "of rank 2, not of rank 1 (shape (6,))"),
        (np.ones((2, 4), "f4"), ValueError, "not of shape (2, 4): dimension 1 must be 3, not 4"),
        (1.0, TypeError, "an array of rank 2, not a float"),
        ([[1.0] * 3] * 2, TypeError, "not a list; convert it with numpy.asarray"),
        (np.ma.ones((2, 3), "f4"), TypeError, "a mask that would be lost"),
        ({}, TypeError, "not a dict"),
    ],
)
def test_arrays_that_do_not_fit(value, kind, message):
    with pytest.raises(kind) as caught:
        convert(MATRIX, value)
    assert message in str(caught.value)


def test_objects_of_other_libraries():
    array = np.arange(6, dtype="f4").reshape(2, 3)
    for protocol in ("__dlpack__", "__array__"):
        result = convert(MATRIX, type("Foreign", (Exporter,), {})(array, protocol))
        np.testing.assert_array_equal(result, array)
        assert np.may_share_memory(result, array)
    broken = type(
        "Broken", (), {"__dlpack__": lambda *_, **__: np.ones(3)[7], "__dlpack_device__": lambda *_: (2, 0)}
    )()
    with pytest.raises(TypeError, match="a Broken gave no array: index 7"):
        convert(MATRIX, broken)


def test_named_dimensions_agree_over_the_arguments_of_a_call():
    rows = Parameter("x", TensorType((AnyDim("n"), 2), "float32"))
    column = Parameter("y", TensorType((AnyDim("n"),), "float32"))
    free = Parameter("z", TensorType((AnyDim(),), "float32"))
    dims = {}
    convert_argument(rows, np.ones((5, 2), "f4"), dims)
    convert_argument(free, np.ones(9, "f4"), dims)
    convert_argument(column, np.ones(5, "f4"), dims)
    assert dims == {"n": 5}
    with pytest.raises(
        ValueError, match=r'y must be Tensor\[\("n",\), f32\].*dimension 0 \("n"\) is 5 elsewhere.*not 4'
    ):
        convert_argument(column, np.ones(4, "f4"), dims)


def test_tuples_are_checked_part_by_part():
    pair = Parameter("t", TupleType((TensorType((2,), "float32"), TensorType((), "int32"))))
    first, second = convert(pair, [np.ones(2, "f4"), 7])
    assert (first.shape, second.dtype, second.item()) == ((2,), np.int32, 7)
    with pytest.raises(TypeError, match=r"t must be a tuple of 2"):
        convert(pair, (np.ones(2, "f4"),))
    with pytest.raises(ValueError, match=r"t\[0\] must be Tensor"):
        convert(pair, (np.ones(3, "f4"), 7))
    with pytest.raises(TypeError, match=r"t must be a tuple"):
        convert(pair, np.ones(2, "f4"))
