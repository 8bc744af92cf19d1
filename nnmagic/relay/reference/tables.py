"""Say what the operators of hashed tables compute, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnmagic.relay.ops.tables import FREE, HASH_FACTOR, NO_SUCH_KEY, SLOTS_OF_ENTRY
from nnmagic.relay.reference.eval_call import Array, EvalCall, Rule


def first_slot(key: Array, slots: int) -> int:
    """Return the slot where the search for a key begins."""
    words = np.atleast_1d(key)
    if words.dtype.kind == "f":
        words = words + 0.0  # 0.0 and -0.0 are one key
    mixed = 0
    for word in words.view(np.uint64).tolist():
        mixed ^= word
        mixed = (mixed ^ mixed >> 32) * HASH_FACTOR % 2**64
    return (mixed >> 32) * slots >> 32


def _probe(slots: Array, keys: Array, key: Array) -> tuple[int, int]:
    """Return where a key is, or would be, and what that slot holds; of slots that hold anything, too."""
    if not len(slots) or not len(keys):
        return 0, FREE
    at = first_slot(key, len(slots))
    for _ in range(len(slots) - 1):
        entry = int(slots[at])
        if entry == FREE or (entry >= 0 and np.array_equal(keys[min(entry, len(keys) - 1)], key)):
            break
        at = (at + 1) % len(slots)
    return at, int(slots[at])


def _find(_given: EvalCall, slots: Array, keys: Array, key: Array) -> Any:
    at, entry = _probe(slots, keys, key)
    return np.int64(at), np.int64(entry)


def _found(_given: EvalCall, entry: Array) -> Any:
    if entry < 0:
        raise KeyError(NO_SUCH_KEY)
    return entry


def _slots(_given: EvalCall, keys: Array, count: Array) -> Any:
    slots = np.full(len(keys) * SLOTS_OF_ENTRY, FREE, np.int32)
    for entry in range(min(int(count), len(keys))):
        at, _ = _probe(slots, keys, keys[entry])
        slots[at] = entry
    return slots


RULES: dict[str, Rule] = {
    "table.find": _find,
    "table.found": _found,
    "table.slots": _slots,
    "table.alive": lambda _given, slots, keys: np.isin(np.arange(len(keys)), slots),
}
