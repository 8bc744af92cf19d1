"""Lay out the values of data types in memory: cells of 8-byte words, which hold fields.

A value is a number: of a constructor without fields its tag, else the address of its cell. A cell begins with
a word that holds the tag, the number of cells that it points to, and its length in words. Then come the
fields: first those that are values of data types, then the elements of tensors, each from a new word on. An
array of a size that only a call knows has a cell of its own; in its place is its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nnmagic.relay.infer.unify import substitute
from nnmagic.relay.module import TypeData
from nnmagic.relay.types import NUMPY_DTYPES, FuncType, TensorType, TupleType, Type, TypeCall, scalar_type

#: The type of a value of a data type.
VALUE = scalar_type("int64")

#: No address is smaller, and no tag as large.
LEAST_ADDRESS = 4096

#: Where the first word of a cell has the number of cells that it points to, and its length.
POINTERS_SHIFT, LENGTH_SHIFT = 16, 32

#: The most fields of a cell that are values of data types, and the most words of one.
_MOST_POINTERS, _MOST_WORDS = 1 << 15, 1 << 31


class NoLayoutError(Exception):
    """A data type has no layout; its argument says why."""


@dataclass(frozen=True, slots=True)
class CellLayout:
    """The layout of the cells of one constructor.

    Attributes:
        name: the constructor's.
        tag: its number.
        fields: the types of its fields.
        parts: the types of what the fields consist of, tuples flattened.
        offsets: the word where each of these begins.
        sizes: the words of the sizes that only a call knows, for each of these; none of most.
        pointers: how many words refer to other cells.
        length: the number of words.

    """

    name: str
    tag: int
    fields: Sequence[Type]
    parts: Sequence[TensorType | TypeCall]
    offsets: Sequence[int]
    sizes: Sequence[Sequence[int]]
    pointers: int
    length: int

    @property
    def header(self) -> int:
        """The first word of a cell."""
        return self.tag | self.pointers << POINTERS_SHIFT | self.length << LENGTH_SHIFT

    @property
    def is_flat(self) -> bool:
        """Whether no field is a tuple."""
        return len(self.parts) == len(self.fields) and not any(
            isinstance(field, TupleType) for field in self.fields
        )

    def ranges(self) -> Iterator[slice]:
        """Yield which of the parts each field has."""
        first = 0
        for field in self.fields:
            count = len(parts_of(field))
            yield slice(first, first + count)
            first += count


class CellLayouts:
    """The layouts of the data types of a module."""

    def __init__(self, types: Mapping[str, TypeData]) -> None:
        self._types = types
        self._known: dict[TypeCall, Sequence[CellLayout]] = {}

    def of(self, type_: TypeCall) -> Sequence[CellLayout]:
        """Return the layouts of a data type's constructors, by tag. Raises NoLayoutError."""
        if type_ not in self._known:
            data = self._types[type_.func.name]
            values = dict(zip(data.type_vars, type_.args, strict=True))
            if len(data.constructors) >= LEAST_ADDRESS:
                raise NoLayoutError(f"{data.header.name} has more than {LEAST_ADDRESS} constructors")
            self._known[type_] = [
                _layout(each.name, each.tag, [substitute(input_, values) for input_ in each.inputs])
                for each in data.constructors
            ]
        return self._known[type_]

    def why_not(self, type_: Type) -> str | None:
        """Return why some values of a type cannot be in cells; None if all can."""
        try:
            self.check(type_)
        except NoLayoutError as error:
            return str(error)
        return None

    def check(self, type_: Type) -> None:
        """Raise NoLayoutError for a type some values of which cannot be in cells."""
        seen: set[TypeCall] = set()
        work: list[Type] = [type_]
        while work:
            for leaf in parts_of(work.pop()):
                if isinstance(leaf, TypeCall) and leaf not in seen:
                    seen.add(leaf)
                    work += [field for layout in self.of(leaf) for field in layout.fields]


def _layout(name: str, tag: int, fields: Sequence[Type]) -> CellLayout:
    leaf_types = [leaf for field in fields for leaf in parts_of(field)]
    pointers = sum(isinstance(leaf, TypeCall) or bool(open_axes(leaf)) for leaf in leaf_types)
    offsets, sizes, pointer, word = list[int](), list[Sequence[int]](), 1, 1 + pointers
    for leaf in leaf_types:
        axes = open_axes(leaf) if isinstance(leaf, TensorType) else ()
        sizes.append(range(word, word + len(axes)))
        word += len(axes)
        if axes or isinstance(leaf, TypeCall):
            offsets.append(pointer)
            pointer += 1
            continue
        offsets.append(word)
        word += -(-_nbytes(leaf) // 8)
    if pointers > _MOST_POINTERS or word >= _MOST_WORDS:
        raise NoLayoutError(f"the fields of {name} are too large")
    return CellLayout(name, tag, fields, leaf_types, offsets, sizes, pointers, word)


def open_axes(type_: TensorType) -> Sequence[int]:
    """Return the axes of a tensor whose lengths only a call knows."""
    return [axis for axis, dim in enumerate(type_.shape) if not isinstance(dim, int)]


def parts_of(type_: Type) -> list[TensorType | TypeCall]:
    """Return the tensors and data types that a type consists of. Raises NoLayoutError for others."""
    leaf_types: list[TensorType | TypeCall] = []
    work = [type_]
    while work:
        match work.pop():
            case TupleType(fields=fields):
                work.extend(reversed(fields))
            case TensorType() | TypeCall() as leaf:
                leaf_types.append(leaf)
            case FuncType():
                raise NoLayoutError("it has functions as values")
            case other:
                raise NoLayoutError(f"it has values of the type {other}")
    return leaf_types


def _nbytes(type_: TensorType) -> int:
    """Return the bytes of a tensor in a cell, of the sizes that are known."""
    sizes = [dim for dim in type_.shape if isinstance(dim, int)]
    if type_.dtype not in NUMPY_DTYPES:
        raise NoLayoutError(f"a data type has values of the dtype {type_.dtype}")
    return math.prod(sizes) * NUMPY_DTYPES[type_.dtype].itemsize


def value_type(type_: Type) -> Type:
    """Return a type with numbers in place of data types."""
    match type_:
        case TypeCall():
            return VALUE
        case TupleType(fields=fields):
            return replace(type_, fields=tuple(map(value_type, fields)))
        case FuncType(arg_types=args, ret_type=result):
            return replace(type_, arg_types=tuple(map(value_type, args)), ret_type=value_type(result))
    return type_


def has_data_types(type_: Type | None) -> bool:
    """Return whether the values of a type hold some of a data type."""
    return isinstance(type_, TypeCall) or (
        isinstance(type_, TupleType) and any(map(has_data_types, type_.fields))
    )
