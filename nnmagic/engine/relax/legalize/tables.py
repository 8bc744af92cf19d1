"""Legalize the operators of hashed tables: loops that look into one slot after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import relax, te, tirx

from nnmagic.engine.relax.legalize.registry import OPAQUE, RULES, OpCall, Value, assertion
from nnmagic.engine.relax.legalize.types import Tensor, Tensors
from nnmagic.engine.relax.tir.builders import as_expr, as_index, dtype_of, local_array, loop, sequence
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, Stmt
from nnmagic.relay.ops.tables import FREE, HASH_FACTOR, NO_SUCH_KEY, SLOTS_OF_ENTRY

_ATTRS = {"op_pattern": OPAQUE}


def _word(value: PrimExpr) -> PrimExpr:
    """Return a word of a key as bits; 0.0 and -0.0 have the same."""
    if dtype_of(value) == "float64":
        # IEEE 754: -0.0 + 0.0 is 0.0 when rounding to nearest.
        return tirx.reinterpret("uint64", value + tirx.const(0.0, "float64"))
    return value.astype("uint64")


def _first_slot(key: Sequence[PrimExpr], slots: PrimExpr) -> PrimExpr:
    """Return the slot where the search for a key begins: `reference.tables` does the same."""
    half = tirx.const(32, "uint64")
    mixed = tirx.const(0, "uint64")
    for value in key:
        mixed = tirx.bitwise_xor(mixed, _word(value))
        mixed = tirx.bitwise_xor(mixed, tirx.shift_right(mixed, half)) * tirx.const(HASH_FACTOR, "uint64")
    # Multiplicative hashing: the upper bits of a product depend on all bits of the key. A product
    # scales them to the number of slots, for which a remainder would need a division (Lemire, Fast
    # random integer generation in an interval, 2019).
    upper = tirx.shift_right(mixed, half)
    return tirx.shift_right(upper * slots.astype("uint64"), half).astype("int64")


def _row(keys: Buffer, entry: PrimExpr) -> list[PrimExpr]:
    """Return the words of the key of an entry."""
    if len(keys.ty.shape) == 1:
        return [tirx.BufferLoad(keys, [entry])]
    width = int(as_index(keys.ty.shape[1]))
    return [tirx.BufferLoad(keys, [entry, as_expr(word)]) for word in range(width)]


def _probe(slots: Buffer, keys: Buffer, key: Sequence[PrimExpr]) -> tuple[list[Stmt], Buffer, Buffer]:
    """Return the statements that look for a key; where it is, or would be; and what that slot holds.

    Whatever the slots hold, they look into each of them once at most, and at keys that there are.
    """
    size, rows, free = (as_expr(each) for each in (_length(slots), _length(keys), FREE))
    at, entry, remaining = (local_array(1, "int64", name) for name in ("at", "entry", "left"))

    def read() -> Stmt:
        return tirx.BufferStore(entry, tirx.BufferLoad(slots, [at[0]]).astype("int64"), [0])

    # Clamped: TIR's ``Or`` computes both sides, so the row is read for a free slot, too.
    own = _row(keys, tirx.min(tirx.max(entry[0], as_expr(0)), rows - 1))
    # A deleted entry does not end the search: the key may be behind it.
    other = entry[0] < as_expr(0)
    for part, wanted in zip(own, key, strict=True):
        other = tirx.Or(other, part != wanted)
    # Not a remainder, which would take a division for each step of the search.
    following = tirx.Select(at[0] + 1 >= size, as_expr(0), at[0] + 1)
    go_on = [tirx.BufferStore(at, following, [0]), read(), tirx.BufferStore(remaining, remaining[0] - 1, [0])]
    is_not_last = tirx.And(entry[0] != free, remaining[0] > as_expr(0))
    search = [
        tirx.BufferStore(at, _first_slot(key, size), [0]),
        read(),
        tirx.While(tirx.And(is_not_last, other), sequence(go_on)),
    ]
    has_some = tirx.And(size > as_expr(0), rows > as_expr(0))
    steps = [
        *map(tirx.AllocBuffer, (at, entry, remaining)),
        tirx.BufferStore(at, as_expr(0), [0]),
        tirx.BufferStore(entry, free, [0]),
        tirx.BufferStore(remaining, size - 1, [0]),
        tirx.IfThenElse(has_some, sequence(search), None),
    ]
    return steps, at, entry


def _length(buffer: Buffer) -> Extent:
    return as_index(buffer.ty.shape[0])


def _extern(
    call: OpCall,
    emit: Callable[[Sequence[Buffer], Sequence[Buffer]], Stmt],
    shapes: Callable[[Sequence[Tensor]], Sequence[Sequence[Extent]]],
    dtype: str = "int64",
) -> Value:
    def compute(*tensors: Tensor) -> Tensors:
        results = shapes(tensors)
        name = call.name.replace(".", "_")
        return te.extern(results, list(tensors), emit, dtype=[dtype] * len(results), name=name)

    return call.te(compute, *call.args, primfunc_attrs=_ATTRS)


def _find(call: OpCall) -> Value:
    def emit(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        slots, keys, key = ins
        width = int(as_index(key.ty.shape[0])) if key.ty.shape else 0
        words = [tirx.BufferLoad(key, [as_expr(word)]) for word in range(width)]
        words = words or [tirx.BufferLoad(key, [])]
        steps, at, entry = _probe(slots, keys, words)
        stores = [tirx.BufferStore(out, part[0], []) for out, part in zip(outs, (at, entry), strict=True)]
        return sequence([*steps, *stores])

    both = call.emit(_extern(call, emit, lambda _: [(), ()]))
    return relax.Tuple([relax.TupleGetItem(both, number) for number in (0, 1)])


def _lower_found(call: OpCall) -> Value:
    (entry,) = call.args

    def is_there(number: Tensor) -> Tensor:
        return te.compute((), lambda: number() >= as_expr(0))

    call.emit(assertion(call.emit(call.te(is_there, entry)), NO_SUCH_KEY, call.name))
    return entry


def _slots(call: OpCall) -> Value:
    def emit(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        keys, count = ins
        (slots,) = outs

        def enter(entry: PrimExpr) -> Stmt:
            steps, at, _ = _probe(slots, keys, _row(keys, entry))
            return sequence([*steps, tirx.BufferStore(slots, entry.astype("int32"), [at[0]])])

        size = _length(slots)
        return sequence(
            [
                loop("at", size, lambda at: tirx.BufferStore(slots, tirx.const(FREE, "int32"), [at])),
                loop("entry", tirx.min(tirx.BufferLoad(count, []), as_expr(_length(keys))), enter),
            ]
        )

    return _extern(call, emit, lambda given: [(as_index(given[0].shape[0]) * SLOTS_OF_ENTRY,)], "int32")


def _alive(call: OpCall) -> Value:
    def emit(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        slots, keys = ins
        (alive,) = outs

        def mark(at: PrimExpr) -> Stmt:
            entry = tirx.BufferLoad(slots, [at]).astype("int64")
            inside = tirx.And(entry >= as_expr(0), entry < as_expr(rows))
            return tirx.IfThenElse(inside, tirx.BufferStore(alive, tirx.const(1, "bool"), [entry]), None)

        rows, size = _length(keys), _length(slots)
        return sequence(
            [
                loop("entry", rows, lambda entry: tirx.BufferStore(alive, tirx.const(0, "bool"), [entry])),
                loop("at", size, mark),
            ]
        )

    return _extern(call, emit, lambda given: [(given[1].shape[0],)], "bool")


RULES.update({"table.find": _find, "table.found": _lower_found, "table.slots": _slots, "table.alive": _alive})
