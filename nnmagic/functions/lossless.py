"""Convert the arguments of a call to the dtypes of its parameters, where that loses nothing."""

from __future__ import annotations

import numpy as np

from nnmagic.engine.arguments import Parameter, as_numpy
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import (
    NUMPY_DTYPES,
    TensorType,
    TupleType,
    Type,
    dtype_of_array,
    is_float,
    is_integer,
)

#: The bits of an integer that each float holds exactly.
_SIGNIFICANT_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
#: The floats that each float holds exactly.
_NARROWER = {"float32": ("float16", "bfloat16"), "float64": ("float16", "bfloat16", "float32")}


def convert_losslessly(parameter: Parameter, value: object) -> object:
    """Return an argument in the dtype of its parameter, if no number can change; else as it is.

    Takes arrays, objects that export one, and lists of numbers; a tuple's items one by one. Raises TypeError
    or ValueError for a list that the parameter cannot hold.
    """
    return _convert(parameter.name, parameter.type, value)


def _convert(name: str, type_: Type, value: object) -> object:
    match type_:
        case TupleType(fields=fields) if isinstance(value, tuple | list) and len(value) == len(fields):
            parts = enumerate(zip(fields, value, strict=True))
            return tuple(_convert(f"{name}[{index}]", *part) for index, part in parts)
        case TensorType(dtype=dtype) if isinstance(value, list):
            return _from_list(name, dtype, value)
        case TensorType(dtype=dtype) if not isinstance(value, bool | int | float | np.generic):
            array = as_numpy(name, value)
            given = None if array is None else dtype_of_array(array)
            if array is not None and given is not None and given != dtype and holds(dtype, given):
                return array.astype(NUMPY_DTYPES[dtype])
    return value


def holds(dtype: str, given: str) -> bool:
    """Return whether every number of a dtype is one of another dtype."""
    if given in (dtype, "bool"):
        return True
    if is_float(given):
        return given in _NARROWER.get(dtype, ())
    if is_float(dtype):
        return bool(np.iinfo(given).max <= 2 ** _SIGNIFICANT_BITS[dtype])
    if not is_integer(dtype):
        return False
    ours, theirs = np.iinfo(dtype), np.iinfo(given)
    return bool(ours.min <= theirs.min and theirs.max <= ours.max)


def _from_list(name: str, dtype: str, value: list[object]) -> np.ndarray:
    """Return nested lists of Python numbers as an array of a dtype that can hold them."""
    short = dtype_short_name(dtype)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise TypeError(f"{name} must be of {short}; the list is no array: {error}") from None
    if array.dtype.kind not in "biuf" and array.size:
        raise TypeError(f"{name} must be of {short}, not a list of {array.dtype}")
    if not array.size or array.dtype.kind == "b" or is_float(dtype):
        with np.errstate(over="ignore"):
            converted = array.astype(NUMPY_DTYPES[dtype])
        if array.size and is_float(dtype) and not np.array_equal(np.isfinite(array), np.isfinite(converted)):
            raise ValueError(f"{name} must be of {short}, which cannot hold the largest number of the list")
        return converted
    if array.dtype.kind == "f" or dtype == "bool":
        raise TypeError(f"{name} must be of {short}, not a list of {array.dtype}")
    limits = np.iinfo(dtype)
    if int(array.min()) < limits.min or int(array.max()) > limits.max:
        raise ValueError(f"{name} must be of {short}, from {limits.min} to {limits.max}, unlike the list")
    return array.astype(NUMPY_DTYPES[dtype])
