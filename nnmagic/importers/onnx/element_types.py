"""Translate ONNX's element types and tensors to Relay's and NumPy's."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, cast

import numpy as np

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.external_data import Folder
from nnmagic.relay.ops.checks import find_problem
from nnmagic.relay.types import NUMPY_DTYPES, TensorType

if TYPE_CHECKING:
    from onnx import TensorProto

#: ONNX's number of each element type that Relay has.
DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
}
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}

#: The dtypes whose elements stand in ``int32_data`` and the like, by field.
_IN_FIELDS = {
    "float_data": ("float32",),
    "double_data": ("float64",),
    "int64_data": ("int64",),
    "uint64_data": ("uint32", "uint64"),
    "int32_data": (*("int32", "int16", "int8", "uint16", "uint8", "bool"), *("float16", "bfloat16")),
}


def element_type_name(number: int) -> str:
    """Return ONNX's name of an element type, in lower case."""
    from onnx import TensorProto

    try:
        return str(TensorProto.DataType.Name(cast("TensorProto.DataType", number))).lower()
    except ValueError:
        return f"element type {number}"


def dtype_of(number: int) -> str:
    """Return Relay's dtype for an element type. Raises UnsupportedError where Relay has none."""
    if number not in DTYPES:
        raise UnsupportedError(
            f"tensors of {element_type_name(number)} are not supported",
            f"the element types are {', '.join(DTYPES.values())}",
        )
    return DTYPES[number]


def array_of(tensor: TensorProto, folder: Folder) -> np.ndarray:
    """Return a tensor's elements, read-only and in place where they are raw. Raises UnsupportedError."""
    from onnx import TensorProto, numpy_helper

    if tensor.data_type == TensorProto.STRING or tensor.data_type not in TensorProto.DataType.values():
        dtype_of(tensor.data_type)
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape):
        raise UnsupportedError(f"the tensor {tensor.name!r} has a negative size in its shape {shape}")
    if tensor.data_type in (TensorProto.INT4, TensorProto.UINT4):
        return _unpack(tensor, folder, shape)
    if tensor.data_type not in DTYPES:
        shown = element_type_name(tensor.data_type)
        try:
            array: np.ndarray = numpy_helper.to_array(tensor)
        except (LookupError, ValueError, TypeError) as error:  # of elements that are no numbers, or too few
            raise UnsupportedError(
                f"the tensor {tensor.name!r} of {shown} cannot be read: {error}"
            ) from error
        array.flags.writeable = False
        return array
    dtype = NUMPY_DTYPES[DTYPES[tensor.data_type]]
    if tensor.data_location == TensorProto.EXTERNAL:
        flat = folder.read(tensor, 8 * dtype.itemsize)
    elif tensor.HasField("raw_data"):
        flat = np.frombuffer(tensor.raw_data, np.uint8)
    else:
        flat = _from_field(tensor, dtype)
    return _shape(tensor.name, flat, dtype, shape)


def _unpack(tensor: TensorProto, folder: Folder, shape: tuple[int, ...]) -> np.ndarray:
    """Return integers of 4 bits, of which a byte holds two, the low one first."""
    from ml_dtypes import int4, uint4
    from onnx import TensorProto

    if tensor.data_location == TensorProto.EXTERNAL:
        pairs = folder.read(tensor, 4)
    elif tensor.HasField("raw_data"):
        pairs = np.frombuffer(tensor.raw_data, np.uint8)
    else:
        pairs = np.array(tensor.int32_data, np.int64).astype(np.uint8)
    size = math.prod(shape)
    _check_size(tensor.name, "int8", shape, wanted=(size + 1) // 2, given=pairs.nbytes)
    flat = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(-1)[:size]
    if tensor.data_type == TensorProto.INT4:
        array = ((flat ^ 8).astype(np.int8) - 8).astype(int4).reshape(shape)
    else:
        array = flat.astype(uint4).reshape(shape)
    array.flags.writeable = False
    return array


def _shape(name: str, flat: np.ndarray, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> np.ndarray:
    """Return the elements of a tensor in its shape; ``flat``: bytes or elements."""
    _check_size(name, str(dtype), shape, wanted=math.prod(shape) * dtype.itemsize, given=flat.nbytes)
    array = flat.view(dtype).reshape(shape) if flat.size else np.zeros(shape, dtype)
    if sys.byteorder == "big":
        array = array.byteswap()
    array.flags.writeable = False
    return array


def _check_size(name: str, dtype: str, shape: tuple[int, ...], *, wanted: int, given: int) -> None:
    """Raise UnsupportedError if a tensor fits in no memory, or has not the bytes that its shape needs."""
    if (problem := find_problem(TensorType(shape, dtype))) is not None:
        raise UnsupportedError(f"the tensor {name!r}{problem}")
    if given != wanted:
        raise UnsupportedError(
            f"the tensor {name!r} of shape {shape} needs {wanted} bytes, and has {given}",
            "the file is damaged or incomplete: get it again",
        )


def _from_field(tensor: TensorProto, dtype: np.dtype[np.generic]) -> np.ndarray:
    name = DTYPES[tensor.data_type]
    field = next(field for field, names in _IN_FIELDS.items() if name in names)
    data = getattr(tensor, field)
    if name in ("float16", "bfloat16"):
        return np.array(data, np.int64).astype(np.uint16).view(dtype)
    return np.array(data, np.int64 if field == "int32_data" else None).astype(dtype)
