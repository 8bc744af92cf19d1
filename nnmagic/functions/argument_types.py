"""Find the types of a call's arguments, which complete the open types of parameters."""

from __future__ import annotations

import numpy as np

from nnmagic.diagnostics import kind_of
from nnmagic.engine.arguments import as_numpy
from nnmagic.functions.lossless import holds
from nnmagic.relay.types import NUMPY_DTYPES, AnyDim, Dim, TensorType, TupleType, Type, dtype_of_array
from nnmagic.relay.values import AdtValue
from nnmagic.tinynn.program import NumberType
from nnmagic.tinynn.types.annotations import OpenTensor

#: What Python's numbers are in a compiled function.
_NUMBERS: dict[type, str] = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def is_known_value(value: object) -> bool:
    """Return whether an argument without a type is known when the function is compiled: None or a string."""
    return value is None or isinstance(value, str)


def argument_type(
    what: str, pattern: OpenTensor | None, value: object, *, converts: bool = False
) -> tuple[Type, object]:
    """Return the type of an argument, and the argument as an array where it is foreign.

    Args:
        what: how messages name the argument.
        pattern: what the parameter's annotation says; None where it has none.
        value: an array, a Python number, or, where there is no annotation, a tuple of them.
        converts: whether lists of numbers are taken, and arrays in a dtype that the annotation's can hold.

    Raises:
        TypeError: for anything else, and where the argument is not what the annotation says.

    """
    if pattern is None and isinstance(value, tuple):
        parts = [
            argument_type(f"{what}[{index}]", None, part, converts=converts)
            for index, part in enumerate(value)
        ]
        return TupleType(tuple(type_ for type_, _ in parts)), tuple(part for _, part in parts)
    if type(value) in _NUMBERS:
        return _of_number(what, pattern, value), value
    if converts and isinstance(value, list):
        value = np.asarray(value)
    array = as_numpy(what, value) if not isinstance(value, AdtValue) else None
    if array is None:
        raise TypeError(f"{what} must be an array or a number, not {kind_of(value)}{_hint(value)}")
    if isinstance(value, bytes | bytearray) and pattern is None:
        array = array.astype(np.int64)  # whose items are ints, as Python has them
    dtype = dtype_of_array(array)
    if dtype is None:
        raise TypeError(f"{what} must be an array of numbers, not an array of {array.dtype}")
    if pattern is not None:
        wanted = dtype if pattern.dtype is None else pattern.dtype.name
        if converts and holds(wanted, dtype):
            dtype, value = wanted, array.astype(NUMPY_DTYPES[wanted], copy=False)
        _check_pattern(what, pattern, array, dtype)
    shape: tuple[Dim, ...] = array.shape
    if pattern is not None and pattern.shape is not None:
        shape = tuple(AnyDim(dim) if isinstance(dim, str) else dim for dim in pattern.shape)
    return TensorType(shape, dtype), value if isinstance(value, np.ndarray) else array


def _of_number(what: str, pattern: OpenTensor | None, value: object) -> TensorType:
    if pattern is None:
        return NumberType((), _NUMBERS[type(value)])
    if pattern.shape:
        raise TypeError(f"{what} must be {pattern!r}, not {kind_of(value)}")
    return TensorType((), _NUMBERS[type(value)] if pattern.dtype is None else pattern.dtype.name)


def _check_pattern(what: str, pattern: OpenTensor, array: np.ndarray, dtype: str) -> None:
    if pattern.dtype is not None and pattern.dtype.name != dtype:
        hint = f"convert it with .astype({pattern.dtype.name!r})"
        raise TypeError(f"{what} must be {pattern!r}, not an array of {array.dtype}; {hint}")
    if pattern.shape is not None and len(pattern.shape) != array.ndim:
        raise TypeError(
            f"{what} must be {pattern!r}, of rank {len(pattern.shape)}, not of rank {array.ndim} "
            f"(shape {array.shape})"
        )


def _hint(value: object) -> str:
    if isinstance(value, list):
        return "; convert it with numpy.asarray(...)"
    return "; write the parameter's type" if isinstance(value, AdtValue) else ""
