"""Take records from Python, and give them back: dictionaries, objects, structured arrays and data frames.

Libraries are not imported: a value of theirs says that they are loaded.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from nnmagic.diagnostics import closest, kind_of
from nnmagic.functions.arguments.calls import CallAdapter
from nnmagic.relay import types as ty

#: Makes a record of its fields, in their order.
Maker = Callable[[Sequence[object]], object]


def record_class(record: ty.RecordType) -> type:
    """Return the class that stands for a record in the notebook: a NamedTuple of its fields."""
    return _record_class(record.name, record.names, record.fields)


@lru_cache(maxsize=256)
def _record_class(name: str, names: tuple[str, ...], types: tuple[ty.Type, ...]) -> type:
    """Return the same class for the same record, so that its values can be pickled."""
    record_class = namedtuple(name, names, module="__main__")  # type: ignore[misc]
    record_class.__relay_record__ = ty.RecordType(types, name, names)  # type: ignore[attr-defined] # what a later cell knows of it
    record_class.__doc__ = f"{name}({', '.join(names)})"
    return record_class


def records_in(type_: ty.Type | None) -> Iterator[ty.RecordType]:
    """Yield the records in a type."""
    if isinstance(type_, ty.TupleType):
        if isinstance(type_, ty.RecordType):
            yield type_
        for field in type_.fields:
            yield from records_in(field)


def holds_record(type_: ty.Type) -> bool:
    """Return whether a type is a record, or a tuple that holds one."""
    return next(records_in(type_), None) is not None


class RecordCalls:
    """The calls of a function that takes or gives records: the function itself knows tuples only."""

    def __init__(
        self, call: CallAdapter, types: Sequence[ty.Type], result: ty.Type, plain: Callable[..., Any]
    ) -> None:
        self.call = call
        self.types = types
        self.result = result
        self.plain = plain

    def __call__(self, args: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> Any:
        """Call the function. Raises TypeError, which names the field, for a record that does not fit."""
        if out is not None and not self.call.takes_out:
            keywords, out = {**keywords, "out": out}, None
        bound = self.call.bind(args, keywords)
        makers: dict[str, Maker] = {}
        values = [
            to_tuples(type_, value, parameter.name, makers)
            for type_, value, parameter in zip(self.types, bound, self.call.parameters, strict=True)
        ]
        positional, by_name = self.call.split(values)
        if out is None:
            return from_tuples(self.result, self.plain(*positional, **by_name), makers)
        what = f"{self.call.name}() argument 'out'"
        self.plain(*positional, **by_name, out=to_tuples(self.result, out, what, {}))
        return out


def to_tuples(type_: ty.Type, value: object, path: str, makers: dict[str, Maker]) -> object:
    """Return a value with tuples for its records; note how each was made. Raises TypeError."""
    if not isinstance(type_, ty.TupleType) or not holds_record(type_):
        return value
    if not isinstance(type_, ty.RecordType):
        if not isinstance(value, tuple | list) or len(value) != len(type_.fields):
            return value  # the call refuses it
        rows = enumerate(zip(type_.fields, value, strict=True))
        return tuple(
            to_tuples(field_type, value_part, f"{path}[{i}]", makers) for i, (field_type, value_part) in rows
        )
    if type_.name == ty.KNOWN:
        return ()
    if type_.name == ty.TABLE and isinstance(value, Mapping):
        value = (np.array(list(value)), np.array(list(value.values())))
    if type_.name == ty.LIST and isinstance(value, list):
        value = (np.array(value),)
    fields, maker = _fields_of(type_, value, path)
    makers.setdefault(type_.name, maker)
    rows_of = zip(type_.names, type_.fields, fields, strict=True)
    return tuple(
        to_tuples(field_type, value_part, f"{path}.{name}", makers)
        for name, field_type, value_part in rows_of
    )


def _fields_of(record: ty.RecordType, value: object, path: str) -> tuple[list[object], Maker]:
    """Return the fields of a record in their order, and what makes one of the same kind."""
    if isinstance(value, tuple | list) and not hasattr(type(value), "_fields"):
        if len(value) == len(record.fields):
            return list(value), tuple
    elif (found := named_fields(value)) is not None:
        fields, make = found
        _check_names(record, list(map(str, fields)), path)
        return [fields[name] for name in record.names], lambda parts: make(
            dict(zip(record.names, parts, strict=True))
        )
    message = f"{path} must be a {record.name}, or have its fields: {', '.join(record.names)}"
    hint = "give a dictionary, a dataclass or another object with fields, a structured array or a data frame"
    shown = f"a tuple of {len(value)}" if isinstance(value, tuple) else kind_of(value)
    raise TypeError(f"{message}, not {shown}; {hint}")


#: The fields of a value by name, and what makes another value of its kind.
_Named = tuple[Mapping[str, object], Callable[[dict[str, Any]], object]]


def named_fields(value: Any) -> _Named | None:
    """Return the fields of a value, and what makes one of the same kind of others; None if it has none."""
    kind = type(value)
    if isinstance(value, Mapping):
        return value, dict
    if isinstance(value, np.ndarray | np.void):
        names = value.dtype.names
        if names is None:
            return None
        return {name: value[name] for name in names}, partial(_with_fields, value)
    if isinstance(value, _library_class("pandas", "DataFrame")):
        columns = {name: value[name] for name in value.columns}
        return columns, partial(_frame, value, index=value.index)
    if isinstance(value, _library_class("polars", "DataFrame")):
        return {name: value[name] for name in value.columns}, partial(_frame, value)
    if isinstance(value, type):
        return None
    if isinstance(value, SimpleNamespace):
        return vars(value), lambda fields: kind(**fields)
    if isinstance(value, tuple):
        names = kind._fields
    elif dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif hasattr(kind, "__attrs_attrs__"):
        names = [each.name for each in kind.__attrs_attrs__]
        return {name: getattr(value, name) for name in names}, partial(_attrs_object, value)
    elif isinstance(value, _library_class("pydantic", "BaseModel")) and hasattr(kind, "model_fields"):
        names = list(kind.model_fields)
        return {name: getattr(value, name) for name in names}, lambda fields: value.model_copy(update=fields)
    else:
        return None
    return {name: getattr(value, name) for name in names}, lambda fields: kind(**fields)


def _library_class(module: str, name: str) -> Any:
    """Return a class of a library, for ``isinstance``: no value is of it unless the library is loaded."""
    class_ = getattr(sys.modules.get(module), name, ())
    return class_ if isinstance(class_, type) else ()


def _attrs_object(value: Any, parts: dict[str, Any]) -> object:
    """Return an object of a class of attrs with other fields."""
    changed = copy.copy(value)
    for name, part in parts.items():
        object.__setattr__(changed, name, part)  # it may be frozen
    return changed


def _with_fields(value: np.ndarray | np.void, parts: dict[str, Any]) -> object:
    """Return a structured array of other fields: they have the axes of ``value`` in front, of any sizes."""
    arrays = {name: np.asarray(part) for name, part in parts.items()}
    shapes = {array.shape[: value.ndim] for array in arrays.values()}
    if len(shapes) > 1 or any(array.ndim < value.ndim for array in arrays.values()):
        shown = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(
            f"the fields of the result have different shapes, and make no structured array: {shown}"
        )
    dtype = [(name, array.dtype, array.shape[value.ndim :]) for name, array in arrays.items()]
    structured = np.empty(shapes.pop(), dtype)
    for name, array in arrays.items():
        structured[name] = array
    return structured[()] if isinstance(value, np.void) else structured.view(type(value))


def _frame(value: Any, columns: dict[str, Any], index: Any = None) -> object:
    """Return a data frame of other columns; with the index, if it is as long."""
    lengths = {name: np.shape(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1 or any(len(shape) != 1 for shape in lengths.values()):
        shown = ", ".join(f"{name} {shape}" for name, shape in lengths.items())
        raise ValueError(
            f"the fields of the result make no data frame, whose columns have one length: {shown}"
        )
    keeps = index is not None and {(len(index),)} == set(lengths.values())
    return type(value)(columns, index=index) if keeps else type(value)(columns)


def _check_names(record: ty.RecordType, names: Sequence[str], path: str) -> None:
    """Check that a value has the fields of a record, and no others. Raises TypeError."""
    for name in record.names:
        if name not in names:
            raise TypeError(f"{path} has no field {name!r}; {record.name} has {', '.join(record.names)}")
    for name in names:
        if name not in record.names:
            close = closest(name, record.names)
            meant = f". Did you mean {close!r}?" if close else f"; it has {', '.join(record.names)}"
            raise TypeError(f"{path}: {record.name} has no field {name!r}{meant}")


def from_tuples(type_: ty.Type, value: Any, makers: Mapping[str, Maker]) -> object:
    """Return a result with records: of the kind of the arguments, else the record's own class."""
    if not isinstance(type_, ty.TupleType) or not holds_record(type_):
        return value
    if isinstance(type_, ty.RecordType) and type_.name == ty.TABLE:
        return _dictionary(*value)
    if isinstance(type_, ty.RecordType) and type_.name in (ty.KNOWN, ty.CHOICE):
        return type_.names[int(value[0]) if value else 0]
    if isinstance(type_, ty.RecordType) and type_.name == ty.OPTIONAL:
        return from_tuples(type_.fields[1], value[1], makers) if value[0] else None
    fields = [from_tuples(field, column, makers) for field, column in zip(type_.fields, value, strict=True)]
    if not isinstance(type_, ty.RecordType):
        return tuple(fields)
    maker = makers.get(type_.name)
    if type_.name == ty.DICTIONARY:
        return dict(zip(type_.names, fields, strict=True))
    if type_.name == ty.SET:
        return set(type_.names)
    if type_.name == ty.LIST:
        return _to_list(value[0], type_.names[0])
    if type_.name == ty.LISTS:
        return _lists(type_.names, *value)
    if type_.name == ty.ITEMS:
        return fields
    if maker is None:
        return record_class(type_)(*fields)
    return maker(fields)


def _to_list(rows: np.ndarray, kind: str) -> list[Any]:
    """Return the items of a list, which are numbers, or tuples of numbers of the dtypes that are named."""
    words = kind.split()[1:]
    if not words:
        return list(rows.tolist())
    return [_tuple_of(iter(words), iter(row)) for row in rows]


def _tuple_of(words: Iterator[str], numbers: Iterator[Any]) -> tuple[Any, ...]:
    """Return a tuple of numbers, up to the bracket that ends it."""
    items: list[Any] = []
    for word in words:
        if word == ")":
            break
        items.append(_tuple_of(words, numbers) if word == "(" else np.dtype(word).type(next(numbers)).item())
    return tuple(items)


def _lists(
    names: Sequence[str], rows: np.ndarray, counts: np.ndarray, keys: Any = None
) -> list[Any] | dict[Any, Any]:
    """Return a list of lists, or a dictionary of lists, of all items and how many each has."""
    items = iter(_to_list(rows, names[0]))
    lists = [[next(items) for _ in range(count)] for count in counts.tolist()]
    if keys is not None:
        return dict(zip(_keys(keys), lists, strict=True))
    return dict(zip(names[2:], lists, strict=True)) if len(names) > 2 else lists


def _keys(keys: np.ndarray) -> list[Any]:
    return keys.tolist() if keys.ndim == 1 else list(map(tuple, keys.tolist()))


def _dictionary(keys: np.ndarray, values: Any = None) -> dict[Any, Any] | set[Any]:
    """Return the dictionary of keys and values, or the set of the keys; rows of keys are tuples."""
    listed = _keys(keys)
    return set(listed) if values is None else dict(zip(listed, _rows(values), strict=True))


def _rows(values: Any) -> Iterator[Any]:
    """Yield the values of entries, of which a tuple has an array for each part."""
    return zip(*map(_rows, values), strict=True) if isinstance(values, tuple) else iter(values)
