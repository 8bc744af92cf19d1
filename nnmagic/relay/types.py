"""Define Relay's types: tensors, tuples, functions, references, type variables, data types.

They are values: equal types are equal objects, except for type variables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

try:
    from ml_dtypes import bfloat16
except ModuleNotFoundError:  # nnmagic-runtime needs NumPy alone
    _BFLOAT16 = {}
else:
    _BFLOAT16 = {"bfloat16": np.dtype(bfloat16)}

#: Every element type that a tensor may have, by its Relay name.
NUMPY_DTYPES: dict[str, np.dtype[np.generic]] = {
    "bool": np.dtype(np.bool_),
    **{name: np.dtype(name) for name in ("int8", "int16", "int32", "int64")},
    **{name: np.dtype(name) for name in ("uint8", "uint16", "uint32", "uint64")},
    **{name: np.dtype(name) for name in ("float16", "float32", "float64")},
    **_BFLOAT16,
}

#: The element types of complex tensors of the language; in Relay each element is a pair of floats.
COMPLEX_DTYPES: dict[str, np.dtype[np.generic]] = {
    name: np.dtype(name) for name in ("complex64", "complex128")
}
#: Every element type of the language's tensors, as NumPy has it.
ARRAY_DTYPES: dict[str, np.dtype[np.generic]] = {**NUMPY_DTYPES, **COMPLEX_DTYPES}


class Int64(int):
    """An integer that Relay holds as a 64-bit immediate; its text has the suffix ``i64``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AnyDim:
    """A dynamic dimension, known at run time; its text is ``?``.

    A ``label`` (the ``"n"`` of a TinyNN annotation) says that all dimensions of that label are equal. Type
    inference keeps it, the text does not show it.
    """

    label: str | None = None


@dataclass(frozen=True, slots=True)
class VarDim:
    """A dimension that is a ``tir.Var``; its text is ``meta[tir.Var][k]``. Equal names are one variable."""

    name: str


#: The dimension ``?`` without a label.
ANY = AnyDim()

Dim = int | AnyDim | VarDim


class _Text:
    """A mixin whose ``str`` is a type's Relay text."""

    __slots__ = ()

    def __str__(self) -> str:
        from nnmagic.relay.text.types import type_text

        return type_text(cast("Type", self))


@dataclass(frozen=True, slots=True)
class TensorType(_Text):
    """``Tensor[(2, 3), float32]``; rank 0 is written as the bare dtype."""

    shape: tuple[Dim, ...]
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class TupleType(_Text):
    """``(A, B)``."""

    fields: tuple[Type, ...]

    def __eq__(self, other: object) -> bool:
        return self.fields == other.fields if isinstance(other, TupleType) else NotImplemented

    def __hash__(self) -> int:
        return hash((TupleType, self.fields))


@dataclass(frozen=True, slots=True, eq=False)
class RecordType(TupleType):
    """A tuple whose fields have names, in a cell and in Python; in Relay it is, and equals, the tuple."""

    name: str
    names: tuple[str, ...]


#: The name of a record that is a dictionary in a cell and in Python.
DICTIONARY = "dict"

#: The name of a dictionary without values, which is a set in a cell and in Python.
SET = "set"

#: The name of a record of the keys and the values of a dictionary whose keys only the call knows.
TABLE = "table"

#: The name of its values if they are Python's numbers.
NUMBERS = "numbers"

#: The name of a record of the rows of a Python list of numbers; its only name says what the items are:
#: NUMBERS, "scalars" of NumPy, "lists" of numbers, "shared" ones that may have other names, or "tuples" of
#: numbers, with the dtype of each, in brackets those of tuples inside.
LIST = "list"

#: The name of a record of the items of any other Python list.
ITEMS = "items"

#: The name of a record of the items of a list of lists and of how many each has: its first name says what the
#: items are, as of a LIST. Of a dictionary of lists it has the keys, too, or their names behind its own two.
LISTS = "lists"

#: The name of a record of the items of an argument that is a list of lists, of where those of each begin and
#: end, and of the keys of a dictionary of lists, or of dictionaries, and of the values of the latter.
NESTED = "nested"

#: The name of a record without fields whose only name is a value that is known at compile time.
KNOWN = "known"

#: The name of a record of a number that says which of the known values, its names, a result is.
CHOICE = "choice"

#: The name of a record of whether a result is there, and of the result, which is None otherwise.
OPTIONAL = "optional"


@dataclass(frozen=True, slots=True, eq=False)
class TypeVar(_Text):
    """A type parameter of a function or of a data type; two of the same name are different variables."""

    name: str


class IncompleteType(TypeVar):
    """An unknown type: during type inference, and where nothing determines it.

    Messages show it as ``_``; the text of a module as ``meta[IncompleteType][k]``.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("_")


@dataclass(frozen=True, slots=True)
class FuncType(_Text):
    """``fn [T](A, B) -> R``."""

    arg_types: tuple[Type, ...]
    ret_type: Type
    type_params: tuple[TypeVar, ...] = ()


@dataclass(frozen=True, slots=True)
class RefType(_Text):
    """``ref(T)``: a mutable cell."""

    value: Type


@dataclass(frozen=True, slots=True)
class GlobalTypeVar(_Text):
    """The name of an algebraic data type."""

    name: str


@dataclass(frozen=True, slots=True)
class TypeCall(_Text):
    """``List[A]``: a data type applied to its arguments (none: ``Shape[]``)."""

    func: GlobalTypeVar
    args: tuple[Type, ...]


Type = TensorType | TupleType | FuncType | RefType | TypeVar | GlobalTypeVar | TypeCall


def scalar_type(dtype: str) -> TensorType:
    """Return the type of a rank-0 tensor."""
    return TensorType((), dtype)


def dtype_of_array(array: np.ndarray) -> str | None:
    """Return the name of an array's element type, whatever its byte order; None if no tensor has it."""
    return _name_of(array.dtype)


@lru_cache(maxsize=64)
def _name_of(given: np.dtype[Any]) -> str | None:
    native = given.newbyteorder("=")
    return next((name for name, dtype in ARRAY_DTYPES.items() if dtype == native), None)


def is_float(dtype: str) -> bool:
    """Return whether a dtype's values are floating-point numbers."""
    return dtype.startswith(("float", "bfloat"))


def neutral(name: str, dtype: str) -> float | int:
    """Return the result of a maximum or minimum, ``max`` or ``min``, over no elements."""
    if is_float(dtype):
        return -np.inf if name == "max" else np.inf
    if dtype == "bool":
        return int(name == "min")
    limits = np.iinfo(NUMPY_DTYPES[dtype])  # type: ignore[type-var]  # an integer dtype
    return int(limits.min if name == "max" else limits.max)


def is_integer(dtype: str) -> bool:
    """Return whether a dtype's values are signed or unsigned integers (bool is neither)."""
    return dtype.startswith(("int", "uint"))


def is_complex(dtype: str) -> bool:
    """Return whether a dtype's values are complex numbers."""
    return dtype in COMPLEX_DTYPES


def is_inexact(dtype: str) -> bool:
    """Return whether a dtype's values are floating-point or complex numbers, which have gradients."""
    return is_float(dtype) or is_complex(dtype)


def part_dtype(dtype: str) -> str:
    """Return the dtype of the real and the imaginary part of a complex dtype; any other dtype unchanged."""
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def complex_dtype(dtype: str) -> str | None:
    """Return the complex dtype whose parts have a dtype; None if there is none."""
    return {"float32": "complex64", "float64": "complex128"}.get(dtype)


def lower_complex_type(type_: Type) -> Type:
    """Return a type with tensors of pairs of floats in place of complex tensors."""
    match type_:
        case TensorType(shape=shape, dtype=dtype) if is_complex(dtype):
            return TensorType((*shape, 2), part_dtype(dtype))
        case TupleType(fields=fields):
            return TupleType(tuple(map(lower_complex_type, fields)))
        case FuncType(arg_types=args, ret_type=result):
            lowered = tuple(map(lower_complex_type, args))
            return replace(type_, arg_types=lowered, ret_type=lower_complex_type(result))
        case RefType(value=value):
            return RefType(lower_complex_type(value))
        case TypeCall(args=args):
            return replace(type_, args=tuple(map(lower_complex_type, args)))
    return type_
