"""Convert the arguments of a call to the dtypes of its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnmagic.engine.arguments import Parameter, as_numpy
from nnmagic.relay import types as ty
from nnmagic.relay.signatures import dtype_short_name

if TYPE_CHECKING:
    from nnmagic.functions.caching.compile_options import Convert

#: The bits of an integer that each float holds exactly.
_SIGNIFICANT_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
#: The floats that each float holds exactly.
_NARROWER = {"float32": ("float16", "bfloat16"), "float64": ("float16", "bfloat16", "float32")}


def convert_to_dtypes(parameter: Parameter, value: object, how: Convert) -> object:
    """Return an argument in the dtype of its parameter, if it may be converted; else as it is.

    Takes arrays, objects that export one, and lists of numbers; a tuple's items one by one. Raises TypeError
    or ValueError for numbers that the parameter cannot hold.
    """
    return _convert(parameter.name, parameter.type, value, how)


def _convert(name: str, type_: ty.Type, value: object, how: Convert) -> object:
    match type_:
        case ty.TupleType(fields=fields) if isinstance(value, tuple | list) and len(value) == len(fields):
            parts = enumerate(zip(fields, value, strict=True))
            return tuple(_convert(f"{name}[{index}]", *part, how) for index, part in parts)
        case ty.TensorType(dtype=dtype) if isinstance(value, list):
            return _from_list(name, dtype, value)
        case ty.TensorType(dtype=dtype) if not isinstance(value, bool | int | float | np.generic):
            array = as_numpy(name, value)
            array_dtype = None if array is None else ty.dtype_of_array(array)
            if (
                array is not None
                and array_dtype is not None
                and array_dtype != dtype
                and can_convert(dtype, array_dtype, how)
            ):
                return convert_array(name, array, dtype)
    return value


def can_convert(dtype: str, given: str, how: Convert) -> bool:
    """Return whether an array of a dtype is converted to another one."""
    if how == "same_kind":
        return _kind(given) <= _kind(dtype)
    return bool(how) and _holds(dtype, given)


def convert_array(name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """Return an array in another dtype. Raises ValueError for a number that is too large for it."""
    array_dtype = ty.dtype_of_array(array)
    assert array_dtype is not None
    if ty.is_integer(dtype) and not _holds(dtype, array_dtype):
        limits = np.iinfo(dtype)
        for value in (int(array.min()), int(array.max())) if array.size else ():
            if not limits.min <= value <= limits.max:
                wanted = f"{dtype_short_name(dtype)}, from {limits.min} to {limits.max}"
                raise ValueError(f"{name} must be of {wanted}; the array holds {value}")
    with np.errstate(over="ignore"):
        result = array.astype(ty.ARRAY_DTYPES[dtype])
    if not ty.is_integer(dtype) and not _holds(dtype, array_dtype) and not _same_finite(array, result):
        raise ValueError(f"{name} must be of {dtype_short_name(dtype)}, which cannot hold the largest number")
    return result


def _same_finite(array: np.ndarray, result: np.ndarray) -> bool:
    """Return whether a conversion to floats has made no number infinite."""
    finite = np.isfinite(result)
    return bool(finite.all()) or np.array_equal(finite, np.isfinite(array))


def _kind(dtype: str) -> int:
    """Return the kind of a dtype as a number: each kind is converted to those above it, as in NumPy."""
    if ty.is_complex(dtype):
        return 4
    if ty.is_float(dtype):
        return 3
    return 0 if dtype == "bool" else 1 if dtype.startswith("uint") else 2


def _holds(dtype: str, value_dtype: str) -> bool:
    """Return whether every number of a dtype is one of another dtype."""
    if value_dtype in (dtype, "bool"):
        return True
    if ty.is_complex(dtype):
        return _holds(
            ty.part_dtype(dtype), ty.part_dtype(value_dtype) if ty.is_complex(value_dtype) else value_dtype
        )
    if ty.is_float(value_dtype):
        return value_dtype in _NARROWER.get(dtype, ())
    if ty.is_float(dtype):
        return ty.is_integer(value_dtype) and bool(np.iinfo(value_dtype).max <= 2 ** _SIGNIFICANT_BITS[dtype])
    if not ty.is_integer(dtype) or not ty.is_integer(value_dtype):
        return False
    ours, theirs = np.iinfo(dtype), np.iinfo(value_dtype)
    return bool(ours.min <= theirs.min and theirs.max <= ours.max)


def _from_list(name: str, dtype: str, value: list[object]) -> np.ndarray:
    """Return nested lists of Python numbers as an array of a dtype that can hold them."""
    short = dtype_short_name(dtype)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise TypeError(f"{name} must be of {short}; the list is no array: {error}") from None
    wanted = (
        "biufc"
        if ty.is_complex(dtype)
        else "biuf"
        if ty.is_float(dtype)
        else "biu"
        if ty.is_integer(dtype)
        else "b"
    )
    if array.size and array.dtype.kind not in wanted:
        raise TypeError(f"{name} must be of {short}, not a list of {array.dtype}")
    return convert_array(name, array, dtype) if array.size else array.astype(ty.ARRAY_DTYPES[dtype])
