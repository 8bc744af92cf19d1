"""Make types of the plain data that `encoder` writes. Imports no expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from nnmagic.relay import types as ty

Kind = TypeVar("Kind")

#: A value as JSON has it.
Json = Any


class TypeDecoder:
    """A decoder that makes types again, each from those before it."""

    def __init__(self) -> None:
        self.types: list[ty.Type] = []

    def add_types(self, records: Sequence[Json]) -> None:
        """Make the types of a table. Raises ValueError, TypeError or IndexError for other data."""
        for record in records:
            self.types.append(self.type(record))

    def types_at(self, indices: Sequence[int]) -> tuple[ty.Type, ...]:
        """Return the types of these numbers."""
        return tuple(self.types[index] for index in indices)

    def type_var(self, index: int) -> ty.TypeVar:
        """Return the type variable of this number."""
        return expect(self.types[index], ty.TypeVar)

    def type(self, record: Json) -> ty.Type:
        """Return the type of a record."""
        match record:
            case ["Tensor", list() as dims, str() as dtype]:
                return ty.TensorType(tuple(map(dim_from_data, dims)), dtype)
            case ["Tuple", list() as fields]:
                return ty.TupleType(self.types_at(fields))
            case ["Record", list() as fields, str() as name, list() as names]:
                return ty.RecordType(self.types_at(fields), name, tuple(map(_key, names)))
            case ["TypeVar", str() as name]:
                return ty.TypeVar(name)
            case ["Func", list() as args, int() as ret, list() as params]:
                variables = tuple(map(self.type_var, params))
                return ty.FuncType(self.types_at(args), self.types[ret], variables)
            case ["Ref", int() as value]:
                return ty.RefType(self.types[value])
            case ["GlobalTypeVar", str() as name]:
                return ty.GlobalTypeVar(name)
            case ["TypeCall", str() as name, list() as args]:
                return ty.TypeCall(ty.GlobalTypeVar(name), self.types_at(args))
        raise ValueError(f"not a type: {record!r}")


def _key(data: Json) -> Any:
    """Return the name of a field, or the key of a dictionary: of several parts a tuple."""
    return tuple(map(_key, data)) if isinstance(data, list) else data


def dim_from_data(data: Json) -> ty.Dim:
    """Return a dimension. Raises ValueError for what is none."""
    match data:
        case {"any": None | str() as label}:
            return ty.AnyDim(label) if label is not None else ty.ANY
        case {"var": str() as name}:
            return ty.VarDim(name)
        case {"int64": int() as number}:
            return ty.Int64(number)
        # To Python, JSON's true is an integer.
        case int() if not isinstance(data, bool):
            return data
    raise ValueError(f"not a dimension: {data!r}")


def expect(value: object, kind: type[Kind]) -> Kind:
    """Return a value of a kind. Raises TypeError for one of another kind."""
    if not isinstance(value, kind):
        raise TypeError(f"expected a {kind.__name__}, found a {type(value).__name__}")
    return value
