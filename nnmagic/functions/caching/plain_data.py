"""Turn arrays and defaults of parameters into plain data and back, for files."""

from __future__ import annotations

import io
import math
import tokenize
from typing import TYPE_CHECKING

import numpy as np

from nnmagic.relay.types import NUMPY_DTYPES, dtype_of_array
from nnmagic.relay.values import AdtValue
from nnmagic.tinynn.parameters import MISSING, PARAMETER_KINDS, ParameterInfo
from nnmagic.tinynn.types.annotations import CHANGED

if TYPE_CHECKING:
    from nnmagic.relay.structure.encoder import Json


def default_to_data(default: object, arrays: list[np.ndarray]) -> Json:
    """Return a parameter's default as JSON data; its arrays are added to the file's."""
    match default:
        case bool() | int() | float():
            return default
        case complex():
            return {"complex": [default.real, default.imag]}
        case tuple():
            return {"tuple": [default_to_data(field, arrays) for field in default]}
        case AdtValue(constructor=name, fields=fields):
            return {"constructor": name, "fields": [default_to_data(field, arrays) for field in fields]}
        case np.ndarray():
            arrays.append(default)
            return {"array": len(arrays) - 1}
    assert default is MISSING
    return None


def default_from_data(data: Json, arrays: list[np.ndarray]) -> object:
    """Return a default again. Raises ValueError for data that ``default_to_data`` did not make."""
    match data:
        case None:
            return MISSING
        case bool() | int() | float():
            return data
        case {"complex": [float() as real, float() as imaginary]}:
            return complex(real, imaginary)
        case {"tuple": list() as parts}:
            return tuple(default_from_data(field, arrays) for field in parts)
        case {"constructor": str() as name, "fields": list() as parts}:
            return AdtValue(name, tuple(default_from_data(field, arrays) for field in parts))
        case {"array": int() as index}:
            array = arrays[index]
            array.flags.writeable = False
            return array
    raise ValueError(f"not a default: {data!r}")


def parameter_to_data(parameter: ParameterInfo, arrays: list[np.ndarray]) -> Json:
    """Return a parameter as JSON data; arrays in its default are added to the file's."""
    default = default_to_data(parameter.default, arrays)
    return [parameter.name, parameter.kind, default, parameter.destination]


def parameter_from_data(data: Json, arrays: list[np.ndarray]) -> ParameterInfo:
    """Return a parameter again. Raises ValueError for data that ``parameter_to_data`` did not make."""
    match data:
        case [str() as name, str() as kind, default, str() as destination] if (
            kind in PARAMETER_KINDS and destination in ("", *CHANGED)
        ):
            return ParameterInfo(name, kind, default_from_data(default, arrays), destination)
    raise ValueError(f"not a parameter: {data!r}")


def to_npy(array: np.ndarray) -> bytes:
    """Return an array as a file of NumPy's."""
    plain = array.view(np.uint16) if dtype_of_array(array) == "bfloat16" else array
    npy = io.BytesIO()
    np.lib.format.write_array(npy, plain, allow_pickle=False)
    return npy.getvalue()


def from_npy(data: bytes | memoryview, dtype: str) -> np.ndarray:
    """Return the array of a file, whose elements are all there; NumPy would allocate what the header says."""
    npy = io.BytesIO(data)
    if np.lib.format.read_magic(npy) != (1, 0):
        raise ValueError("an array is of another version")
    try:
        shape, fortran_order, plain = np.lib.format.read_array_header_1_0(npy)
    except tokenize.TokenError as error:  # which NumPy lets through
        raise ValueError(f"the header of an array is damaged: {error}") from error
    if plain.hasobject or math.prod(shape) * plain.itemsize != len(data) - npy.tell():
        raise ValueError("an array's size does not fit its shape")
    array: np.ndarray = np.frombuffer(data, plain, offset=npy.tell()).copy()
    array = array.reshape(shape, order="F" if fortran_order else "C")
    return array.view(NUMPY_DTYPES[dtype]) if dtype == "bfloat16" else array
