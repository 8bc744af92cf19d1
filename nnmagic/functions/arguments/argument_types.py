"""Find the types of a call's arguments, which complete the open types of parameters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnmagic.diagnostics import kind_of
from nnmagic.engine.arguments import as_numpy
from nnmagic.engine.foreign_arrays import conversion_of
from nnmagic.functions.arguments.conversions import can_convert, convert_array
from nnmagic.functions.arguments.records import named_fields
from nnmagic.functions.caching.compile_options import Convert
from nnmagic.functions.caching.fingerprint import fingerprint
from nnmagic.relay import types as ty
from nnmagic.relay.values import AdtValue
from nnmagic.tinynn.parameters import MISSING
from nnmagic.tinynn.program import NumberType
from nnmagic.tinynn.types.annotations import GENERATOR, Generator, OpenTensor

#: What Python's numbers are in a compiled function.
_NUMBERS: dict[type, str] = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}

#: The items of a list that may be known when a function is compiled.
_SHORT = 16

#: The types of parameters that may be known when a function is compiled: those of Python's bools and ints.
PYTHON_INTEGERS = (ty.TensorType((), "bool"), ty.TensorType((), "int64"))


def is_known_value(value: object) -> bool:
    """Return whether an argument without a type is known when the function is compiled.

    It is None, a string, a dtype or a function, or a list of these.
    """
    if value is None or isinstance(value, str | type | np.dtype):
        return True
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return all(map(is_known_value, value)) and (bool(value) or isinstance(value, list))
    if not callable(value):
        return False
    from nnmagic.tinynn.namespace.capture import is_function  # with what cells know of libraries

    return is_function(value)


def written(value: object) -> str:
    """Return what is equal only for equal values that are known when a function is compiled."""
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(written, value))})"
    is_plain = value is None or isinstance(value, str | int | float | complex)
    return repr(value) if is_plain else fingerprint(value)


def plain_number(value: object) -> object:
    """Return an argument as numbers of Python: a number, or a tuple or short list; MISSING for others."""
    if isinstance(value, tuple) or (isinstance(value, list) and len(value) <= _SHORT):
        items = tuple(map(plain_number, value))
        return MISSING if MISSING in items else type(value)(items) if type(value) in (tuple, list) else items
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
        value: an array, a Python number, or, where there is no annotation, a structure of them: a tuple, a
            list, a dictionary, an object with fields.
        converts: whether lists of numbers are taken, and which arrays of other dtypes than the annotation's.

    Raises:
        TypeError: for anything else, and where the argument is not what the annotation says.

    """
    if type(value) in _NUMBERS:
        return _of_number(what, pattern, value), value
    if pattern is None and (found := _of_structure(what, value, converts)) is not None:
        return found
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


def _of_structure(what: str, value: object, converts: Convert) -> tuple[ty.Type, object] | None:
    """Return what `value_type` does, of an argument that has parts, or is known; None of any other."""
    if isinstance(value, np.ndarray) and value.dtype.names is None:
        return None
    if value is None or isinstance(value, str):
        return ty.RecordType((), ty.KNOWN, (value,)), ()  # type: ignore[arg-type]  # see KNOWN
    if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
        return nested_type(value) if (entries := _entries(value)) is None else _of_table(value, *entries)
    if isinstance(value, list) and (rows := list_rows(value)) is not None:
        if converts:
            return None  # an array
        kind, array = rows
        return ty.RecordType((ty.TensorType(array.shape, str(array.dtype)),), ty.LIST, (kind,)), (array,)
    if isinstance(value, Mapping) and value:
        name, named = ty.DICTIONARY, value
    elif isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        name, named = "", dict(enumerate(value))
    elif isinstance(value, np.ndarray) and value.dtype.names is not None:
        name, named = ty.DICTIONARY, {field_name: value[field_name] for field_name in value.dtype.names}
    elif not hasattr(type(value), "__array__") and (fields := named_fields(value)) is not None:
        name, named = type(value).__name__, fields[0]
    else:
        return None
    shown = f"{what}.{{}}" if name not in ("", ty.DICTIONARY) else f"{what}[{{!r}}]"
    typed = [value_type(shown.format(key), None, field, converts=converts) for key, field in named.items()]
    types, values = tuple(type_ for type_, _ in typed), tuple(field for _, field in typed)
    if not name and isinstance(value, tuple):
        return ty.TupleType(types), values
    names = tuple(map(str, named))
    if not name:
        return ty.RecordType(types, ty.ITEMS, names), values
    record = ty.RecordType(types, name, names)
    return record, dict(zip(named, values, strict=True)) if name == ty.DICTIONARY else value


def _of_table(value: Mapping[object, object], *entries: np.ndarray) -> tuple[ty.Type, object]:
    """Return the type of a dictionary whose keys only the call knows, and its keys and values."""
    types = map(_of_rows, entries)
    is_python = all(type(each) in (int, float) for each in value.values())
    names = ("keys", ty.NUMBERS if is_python else "values")
    return ty.RecordType(tuple(types), ty.TABLE, names), entries


def nested_type(value: object) -> tuple[ty.Type, object] | None:
    """Return the type of a list or dictionary of lists, sets or dictionaries of numbers, and its parts.

    None for anything else.
    """
    if not isinstance(value, Mapping | list) or not value:
        return None
    inner = list(value.values()) if isinstance(value, Mapping) else value
    kind = next((each for each in (list, set, dict) if all(isinstance(part, each) for part in inner)), None)
    stop = np.cumsum([len(part) for part in inner]) if kind is not None else np.zeros(0)
    parts: dict[str, list[object]] = {
        "set items" if kind is set else "items": [item for part in inner for item in (part if kind else ())]
    }
    if isinstance(value, Mapping):
        parts["keys" if getattr(value, "default_factory", None) is None else "default keys"] = list(value)
    if kind is dict:
        parts["values"] = [item for part in inner for item in part.values()]
    found = {
        name: list_rows(part) if part else (ty.NUMBERS, np.zeros(0, int)) for name, part in parts.items()
    }
    if kind is None or any(rows is None or rows[0] == "lists" for rows in found.values()):
        return None
    typed = {
        name: (ty.RecordType((_of_rows(rows[1]),), ty.LIST, (rows[0],)), (rows[1],))
        for name, rows in found.items()
        if rows is not None
    }
    bounds = {"start": np.concatenate(([0], stop[:-1])), "stop": stop}
    whole: dict[str, tuple[ty.Type, object]] = {
        **typed,
        **{name: (_of_rows(array), array) for name, array in bounds.items()},
    }
    record = ty.RecordType(tuple(type_ for type_, _ in whole.values()), ty.NESTED, tuple(whole))
    return record, tuple(array for _, array in whole.values())


def _of_rows(array: np.ndarray) -> ty.TensorType:
    """Return the type of an array with any number of rows."""
    return ty.TensorType((ty.ANY, *array.shape[1:]), str(array.dtype))


def list_rows(value: list[object]) -> tuple[str, np.ndarray] | None:
    """Return what the items of a list are, and their rows: numbers, or lists or tuples of as many numbers."""
    kinds = set(map(type, value))
    numbers: list[object] = value
    kind = ty.NUMBERS
    if kinds in ({list}, {tuple}) and len({len(row) for row in value}) == 1:  # type: ignore[arg-type]
        kind = "lists" if list in kinds else "tuples"
        numbers = [number for row in value for number in row]  # type: ignore[attr-defined]
        kinds = set(map(type, numbers))
    is_python = kinds == {bool} or kinds <= {int, float, complex}
    if kind == "tuples":
        return _rows_of_tuples(value)  # type: ignore[arg-type]  # tuples
    if not numbers or not (
        is_python or (kind == ty.NUMBERS and len(kinds) == 1 and isinstance(value[0], np.generic))
    ):
        return None
    array = np.array(value)
    return None if ty.dtype_of_array(array) is None else (kind if is_python else "scalars", array)


def _rows_of_tuples(value: list[tuple[object, ...]]) -> tuple[str, np.ndarray] | None:
    """Return the rows of tuples with numbers of one type at each place, which an array holds as they are."""
    kinds = [set(map(type, column)) for column in zip(*value, strict=True)]
    if not kinds or any(len(kind) != 1 or not kind <= {bool, int, float, complex} for kind in kinds):
        return None
    try:
        array = np.array(value)
    except OverflowError:
        return None
    is_exact = array.dtype.kind not in "fc" or not any(
        isinstance(field, int) and abs(field) > 1 << 53 for row in value for field in row
    )
    if not is_exact or ty.dtype_of_array(array) is None:
        return None
    dtypes = [str(np.array(field).dtype) for field in value[0]]
    return " ".join(("tuples", *dtypes)), array


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
    fields = key if isinstance(key, tuple) else (key,)
    return bool(fields) and all(isinstance(field, int | float | np.integer | np.floating) for field in fields)


def _of_number(what: str, pattern: OpenTensor | None, value: object) -> ty.TensorType:
    dtype = _NUMBERS[type(value)]
    if pattern is None:
        return NumberType((), dtype)
    exact = pattern.own_dtype
    if pattern.dims(0) is None or (exact is None and not pattern.allows(dtype)):
        raise TypeError(f"{what} must be {pattern!r}, not {kind_of(value)}")
    return ty.TensorType((), dtype if exact is None else exact.name)


def _check_pattern(what: str, pattern: OpenTensor, array: np.ndarray, dtype: str, given: object) -> None:
    if not pattern.allows(dtype):
        exact = pattern.own_dtype
        hint = "" if exact is None else f"; convert it with {conversion_of(given, exact.name)}"
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
    if isinstance(value, Mapping):
        kinds = "numbers, or lists, sets or dictionaries of numbers"
        return f"; a dictionary has strings as keys, or numbers, with {kinds}: number what else it has"
    return "; write the parameter's type" if isinstance(value, AdtValue) else ""
