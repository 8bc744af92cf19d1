"""Declare the operators of hashed tables, of which dictionaries and sets are made; real Relay lacks them.

A table has entries, in the order in which they were added: their keys are rows of a tensor. ``slots`` are
more than there are entries: each holds the number of an entry, `FREE` or `DELETED`. The entry of a key is in
the slot that the key's hash says, or in one of those behind it, before the first that is free (open
addressing with linear probing: Knuth, The Art of Computer Programming, volume 3, section 6.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.declaration import Family, RelationError, Trait
from nnmagic.relay.ops.dims import product
from nnmagic.relay.ops.relations import tensor
from nnmagic.relay.types import ANY, TensorType, TupleType, Type

declare = Family("table").declare

#: What a slot holds that never had an entry, and one whose entry was deleted.
FREE: Final = -1
DELETED: Final = -2

#: There are so many slots for each entry that a table has room for.
SLOTS_OF_ENTRY: Final = 2

#: The factor of the hash, which is odd: 2**64 divided by the golden ratio.
HASH_FACTOR: Final = 0x9E3779B97F4A7C15

#: The message of the KeyError of a key that a table has not.
NO_SUCH_KEY: Final = "the dictionary has no such key"

_INT64 = TensorType((), "int64")
_KEYS = ("int64", "uint64", "float64")


def _keys(types: Sequence[Type], index: int) -> TensorType:
    keys = tensor(types, index)
    if keys.dtype not in _KEYS or len(keys.shape) not in (1, 2):
        raise RelationError(
            "expected keys of {allowed:dtype or}, found {keys}", index, allowed=_KEYS, keys=keys
        )
    return keys


def _slots(types: Sequence[Type], index: int) -> TensorType:
    slots = tensor(types, index, rank=1)
    if slots.dtype != "int32":
        raise RelationError("expected slots of int32, found {slots}", index, slots=slots)
    return slots


def _find(types: Sequence[Type], _attrs: Attrs) -> TupleType:
    _slots(types, 0)
    keys, key = _keys(types, 1), tensor(types, 2)
    if key.dtype != keys.dtype or len(key.shape) != len(keys.shape) - 1:
        raise RelationError("expected a key of {keys}, found {key}", 1, 2, keys=keys, key=key)
    return TupleType((_INT64, _INT64))


def _filled_type(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    rows = _keys(types, 0).shape[0]
    tensor(types, 1, rank=0)
    return TensorType((product((rows, SLOTS_OF_ENTRY)) if isinstance(rows, int) else ANY,), "int32")


def _alive(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    _slots(types, 0)
    return TensorType(_keys(types, 1).shape[:1], "bool")


declare(
    "table.find(slots, keys, key)",
    _find,
    "The slot that holds the entry of a key, or would hold it, and the entry's number, negative if none.",
    traits=Trait.SPECULATABLE | Trait.HEAVY,
)
declare(
    "table.found(entry)",
    lambda types, _attrs: tensor(types, rank=0),
    "The number of an entry; KeyError if it is negative.",
    traits=Trait.VIEW,
)
declare(
    "table.slots(keys, count)",
    _filled_type,
    "Slots for the first keys, all of which differ, with room for as many as there are rows.",
    traits=Trait.SPECULATABLE | Trait.HEAVY,
)
declare(
    "table.alive(slots, keys)",
    _alive,
    "Which rows of the keys are those of entries that were not deleted.",
    traits=Trait.SPECULATABLE | Trait.HEAVY,
)
