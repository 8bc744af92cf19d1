"""Find the types of a call's arguments, which complete the open types of parameters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnmagic.diagnostics import kind_of
from nnmagic.engine.arguments import as_numpy
from nnmagic.engine.foreign_arrays import conversion_of
from nnmagic.functions.compile_options import Convert
from nnmagic.functions.conversions import can_convert, convert_array
from nnmagic.relay import types as ty
from nnmagic.relay.values import AdtValue
from nnmagic.tinynn.program import MISSING, NumberType
from nnmagic.tinynn.types.annotations import GENERATOR, Generator, OpenTensor

#: What Python's numbers are in a compiled function.
_NUMBERS: dict[type, str] = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


#: The types of parameters that may be known when a function is compiled: those of Python's bools and ints.
PYTHON_INTEGERS = (ty.TensorType((), "bool"), ty.TensorType((), "int64"))


def is_known_value(value: object) -> bool:
    """Return whether an argument without a type is known when the function is compiled: None or a string."""
    return value is None or isinstance(value, str)


def plain_number(value: object) -> object:
    """Return an argument as plain numbers of Python: a number, or a tuple of such; MISSING for any other."""
    if isinstance(value, tuple):
        parts = tuple(map(plain_number, value))
        return MISSING if MISSING in parts else parts
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        value = value.item()
    return value if type(value) in _NUMBERS else MISSING


def argument_type(
    what: str, pattern: OpenTensor | None, value: object, *, converts: Convert = False
) -> tuple[ty.Type | Generator, object]:
    """Return the type of an argument that may be a generator of random numbers, and the argument.

    Takes and raises what `value_type` does.
    """
    if pattern is None and isinstance(value, np.random.Generator):
        return GENERATOR, value
    return value_type(what, pattern, value, converts=converts)


def value_type(
    what: str, pattern: OpenTensor | None, value: object, *, converts: Convert = False
) -> tuple[ty.Type, object]:
    """Return the type of an argument, and the argument as an array where it is foreign.

    Args:
        what: how messages name the argument.
        pattern: what the parameter's annotation says; None where it has none.
        value: an array, a Python number, or, where there is no annotation, a tuple of them.
        converts: whether lists of numbers are taken, and which arrays of other dtypes than the annotation's.

    Raises:
        TypeError: for anything else, and where the argument is not what the annotation says.

    """
    if pattern is None and (collection := _collection_type(what, value, converts)) is not None:
        return collection
    if type(value) in _NUMBERS:
        return _of_number(what, pattern, value), value
    if converts and isinstance(value, list):
        value = np.asarray(value)
    array = as_numpy(what, value) if not isinstance(value, AdtValue) else None
    if array is None:
        raise TypeError(f"{what} must be an array or a number, not {kind_of(value)}{_hint(value)}")
    if isinstance(value, bytes | bytearray) and pattern is None:
        array = array.astype(np.int64)  # whose items are ints, as Python has them
    dtype = ty.dtype_of_array(array)
    if dtype is None:
        raise TypeError(
            f"{what} must be an array of numbers, not an array of {array.dtype}{_of_dtype(array.dtype)}"
        )
    if pattern is not None:
        wanted = dtype if pattern.own_dtype is None else pattern.own_dtype.name
        if wanted != dtype and can_convert(wanted, dtype, converts):
            dtype, value = wanted, convert_array(what, array, wanted)
        _check_pattern(what, pattern, array, dtype, value)
    dims = [None] * array.ndim if pattern is None else pattern.dims(array.ndim)
    assert dims is not None
    shape: tuple[ty.Dim, ...] = tuple(
        ty.AnyDim(dim) if isinstance(dim, str) else size if dim is None else dim
        for dim, size in zip(dims, array.shape, strict=True)
    )
    return ty.TensorType(shape, dtype), value if isinstance(value, np.ndarray) else array


def _collection_type(what: str, value: object, converts: Convert) -> tuple[ty.Type, object] | None:
    """Return what ``value_type`` does for a tuple or a dictionary; None for another value."""
    if isinstance(value, tuple):
        items = [
            value_type(f"{what}[{index}]", None, item, converts=converts) for index, item in enumerate(value)
        ]
        return ty.TupleType(tuple(type_ for type_, _ in items)), tuple(item for _, item in items)
    if isinstance(value, Mapping) and value and all(isinstance(key, str) for key in value):
        items = [value_type(f"{what}[{key!r}]", None, item, converts=converts) for key, item in value.items()]
        fields = tuple(type_ for type_, _ in items)
        given = dict(zip(value, (item for _, item in items), strict=True))
        return ty.RecordType(fields, ty.DICTIONARY, tuple(value)), given
    if isinstance(value, Mapping) and (entries := _entries(value)) is not None:
        keys, values = entries
        types = (ty.TensorType((ty.ANY, *leaf.shape[1:]), str(leaf.dtype)) for leaf in (keys, values))
        is_python = all(type(leaf) in (int, float) for leaf in value.values())
        names = ("keys", ty.NUMBERS if is_python else "values")
        return ty.RecordType(tuple(types), ty.TABLE, names), (keys, values)
    return None


def _entries(value: Mapping[object, object]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the keys and the values of a dictionary of numbers, or of arrays, by numbers; None of others."""
    if not value or not all(map(_is_key, value)):
        return None
    try:
        keys, values = np.array(list(value)), np.array(list(value.values()))
    except ValueError:  # of several shapes
        return None
    fine = keys.dtype in (np.int64, np.float64) and keys.ndim <= 2 and values.dtype.kind in "biuf"
    return (keys, values) if fine else None


def _is_key(key: object) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return bool(parts) and all(isinstance(each, int | float | np.integer | np.floating) for each in parts)


def _of_number(what: str, pattern: OpenTensor | None, value: object) -> ty.TensorType:
    dtype = _NUMBERS[type(value)]
    if pattern is None:
        return NumberType((), dtype)
    own = pattern.own_dtype
    if pattern.dims(0) is None or (own is None and not pattern.allows(dtype)):
        raise TypeError(f"{what} must be {pattern!r}, not {kind_of(value)}")
    return ty.TensorType((), dtype if own is None else own.name)


def _check_pattern(what: str, pattern: OpenTensor, array: np.ndarray, dtype: str, given: object) -> None:
    if not pattern.allows(dtype):
        own = pattern.own_dtype
        hint = "" if own is None else f"; convert it with {conversion_of(given, own.name)}"
        raise TypeError(f"{what} must be {pattern!r}, not an array of {array.dtype}{hint}")
    if pattern.dims(array.ndim) is None:
        raise TypeError(
            f"{what} must be {pattern!r}, of rank {pattern.rank_text}, not of rank {array.ndim} "
            f"(shape {array.shape})"
        )


def _of_dtype(dtype: np.dtype) -> str:
    """Return what to give in place of an array of another dtype than cells have."""
    if dtype.names is not None:
        return "; give a dictionary of its fields: {name: x[name] for name in x.dtype.names}"
    if dtype.kind in "mM":
        return "; give its numbers, x.astype('int64'), which count units, and convert the result back"
    if dtype.kind in "OUST":
        return "; a compiled function computes with numbers: convert it, as in x.astype('float64')"
    return ""


def _hint(value: object) -> str:
    if isinstance(value, list):
        return "; convert it with numpy.asarray(...)"
    return "; write the parameter's type" if isinstance(value, AdtValue) else ""
