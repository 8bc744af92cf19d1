"""Represent values of data types in Python.

Lists of data types nest deep, so nothing here recurses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: How many nested constructors are shown.
_SHOWN_DEPTH = 50


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AdtValue:
    """A value of an algebraic data type: the constructor's name and its fields (arrays, tuples, values).

    Equal if the constructors are equal and all arrays have equal shapes and elements.
    """

    constructor: str
    fields: tuple[object, ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AdtValue):
            return NotImplemented
        work: list[tuple[object, object]] = [(self, other)]
        while work:
            lhs, rhs = work.pop()
            if lhs is rhs:
                continue
            if isinstance(lhs, AdtValue) and isinstance(rhs, AdtValue):
                if lhs.constructor != rhs.constructor:
                    return False
                lhs, rhs = lhs.fields, rhs.fields
            if isinstance(lhs, tuple) and isinstance(rhs, tuple):
                if len(lhs) != len(rhs):
                    return False
                work += zip(lhs, rhs, strict=True)
            elif (
                isinstance(lhs, tuple | AdtValue)
                or isinstance(rhs, tuple | AdtValue)
                or not np.array_equal(np.asarray(lhs), np.asarray(rhs))
            ):
                return False
        return True

    def __hash__(self) -> int:
        return hash((self.constructor, len(self.fields)))

    def __repr__(self) -> str:
        out: list[str] = []
        work: list[tuple[object, int]] = [(self, 0)]
        while work:
            item, depth = work.pop()
            if depth < 0:  # text between the parts
                out.append(str(item))
            elif isinstance(item, AdtValue | tuple) and depth < _SHOWN_DEPTH:
                items = item.fields if isinstance(item, AdtValue) else item
                end = ",)" if isinstance(item, tuple) and len(item) == 1 else ")"
                out.append(f"{item.constructor}(" if isinstance(item, AdtValue) else "(")
                work.append((end, -1))
                for index in reversed(range(len(items))):
                    work.append((items[index], depth + 1))
                    if index:
                        work.append((", ", -1))
            else:
                out.append("..." if isinstance(item, AdtValue | tuple) else repr(item))
        return "".join(out)

    def __reduce__(self) -> tuple[object, ...]:
        return _unflatten, (_flatten(self),)


def _flatten(value: object) -> list[tuple[Any, ...]]:
    """Return every part once, before its owner: (constructor, None for a tuple, and indices), or (leaf,)."""
    indices: dict[int, int] = {}
    records: list[tuple[Any, ...]] = []
    work: list[tuple[object, bool]] = [(value, False)]
    while work:
        item, entered = work.pop()
        if id(item) in indices:
            continue
        items: Sequence[object] = (
            item.fields if isinstance(item, AdtValue) else item if isinstance(item, tuple) else ()
        )
        if items and not entered:
            work.append((item, True))
            work += ((part, False) for part in items)
            continue
        indices[id(item)] = len(records)
        if isinstance(item, AdtValue | tuple):
            name = item.constructor if isinstance(item, AdtValue) else None
            records.append((name, tuple(indices[id(part)] for part in items)))
        else:
            records.append((item,))
    return records


def _unflatten(parts: list[tuple[object, ...]]) -> object:
    """Rebuild the value that ``_flatten`` took apart."""
    values: list[object] = []
    for item in parts:
        if len(item) == 1:
            values.append(item[0])
            continue
        name, indices = item
        assert isinstance(indices, tuple)
        fields = tuple(values[index] for index in indices)
        values.append(AdtValue(str(name), fields) if name is not None else fields)
    return values[-1]


def is_masked(value: object) -> bool:
    """Return whether a value is NumPy's masked array, without loading that module, which takes 20 ms."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)


def map_leaves(value: object, function: Callable[[Any], object]) -> object:
    """Return a value of a data type, or a tuple, with a function applied to each other part of it."""
    return _unflatten([item if len(item) == 2 else (function(item[0]),) for item in _flatten(value)])
