"""Make and read the cells of data types: memory of the call, which grows by blocks and ends with it.

A cell begins with a word that holds its tag, the number of cells that it points to and its length in words
(`analysis.cell_layout`). Smaller numbers than any address are tags of constructors without fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import ir, relax, tirx

from nnmagic.engine.relax.analysis.cell_layout import LEAST_ADDRESS, LENGTH_SHIFT, POINTERS_SHIFT
from nnmagic.engine.relax.analysis.data_types import CELL_OPERATORS, CLOSE, FIELD, MAKE, OPEN, TAG
from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.bodies.storage import copy_bytes
from nnmagic.engine.relax.codegen.aot.heap import (
    DROP,
    POINTER_TO_WORDS,
    RESERVE,
    HeapWords,
    heap_function,
)
from nnmagic.engine.relax.codegen.aot.memory import exceeds_any_memory
from nnmagic.engine.relax.codegen.aot.scalar_code import load_element
from nnmagic.engine.relax.runtime.native_entry import FAILED
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    as_pointer,
    dtype_of,
    item_bytes,
    loop,
    sequence,
    unlikely,
)
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, PrimFunc, RelaxExpr, Stmt, Var

if TYPE_CHECKING:
    from nnmagic.engine.relax.codegen.aot.bodies.registers import RegisterEmitter
    from nnmagic.engine.relax.codegen.aot.function_bodies import BodyEmitter

#: The function that takes the address of a call's state and a number of bytes, and has memory for a cell of
#: so many; the word CELL_BLOCK of the state is 0 where memory is short.
GROW = ir.GlobalVar("grow_cells")

#: The function that takes the address of a call's state, a pointer to a block's two words, and some values of
#: data types with their number. It copies what they reach to the block, whose address is 0 where memory is
#: short, and puts the number of words in the place of the first value.
COPY = ir.GlobalVar("copy_cells")

_INT32 = ir.PrimType("int32")

#: The bytes of the first block, and of the largest that is not for one large cell.
_SMALLEST_BYTES, _LARGEST_BYTES = 1 << 12, 1 << 26

#: No cell has so many words: its first word has 31 bits for their number.
_MOST_WORDS = 1 << 31

_ZERO = as_expr(0)


# Plans


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """The steps of a call, its value, the names of its sizes, and its array if it has such sizes."""

    steps: Sequence[aot.Step]
    value: aot.Value
    sizes: Sequence[Var] = ()
    array: aot.Array | None = None


def is_cell_call(call: RelaxExpr) -> bool:
    """Return whether a call is one of an operator of cells."""
    return isinstance(call.op, relax.ExternFunc) and str(call.op.global_symbol) in CELL_OPERATORS


def makes_cells(function: aot.NativeFunction) -> bool:
    """Return whether a function, or one that it calls, makes cells."""
    steps = (step for each in aot.with_callees(function) for step in each.steps())
    return any(isinstance(step, aot.MakeCell | aot.CloseCells) for step in steps)


def plan_cell(
    call: RelaxExpr,
    values: Sequence[aot.Value],
    arrays: Sequence[aot.Array],
    place: Callable[[aot.Array], aot.Register | aot.Storage],
) -> PlannedCell:
    """Plan a call of an operator of cells.

    Args:
        call: the call.
        values: its operands.
        arrays: their dtypes and shapes.
        place: returns a register or storage for an array.

    """
    name = str(call.op.global_symbol)
    numbers = [int(arg.value) for arg in call.args if isinstance(arg, tirx.IntImm)]
    number = aot.Register("int64", name.rpartition(".")[2])
    if name == MAKE:
        return PlannedCell([_plan_cell(number, numbers, values, arrays)], number)
    if name == CLOSE:
        words, size = aot.Storage("pointer", -1, 0), tirx.Var("words", "int64")
        words.nbytes = size * 8
        close = aot.CloseCells(words, number, tuple(map(_register, values)))
        array = aot.Array("int64", (size,))
        return PlannedCell([close, aot.NameSizes((size,), number)], words, [size], array)
    (value,) = values
    if name == OPEN:
        assert isinstance(value, aot.Storage)
        return PlannedCell([load_element(value, number)], number)
    if name == TAG:
        return PlannedCell([aot.ReadCell(number, _register(value), None)], number)
    assert name == FIELD
    (type_,) = call.ty_args
    if len(numbers) > 1:
        return _plan_open_field(type_, _register(value), numbers)
    array = aot.Array(str(type_.dtype.dtype), tuple(map(aot.static_or_expr, type_.shape.values)))
    target = place(array)
    if isinstance(target, aot.Storage):
        target = aot.Storage("pointer", -1, array.nbytes)
    return PlannedCell([aot.ReadCell(target, _register(value), numbers[0])], target)


def _plan_cell(
    target: aot.Register, numbers: Sequence[int], values: Sequence[aot.Value], arrays: Sequence[aot.Array]
) -> aot.MakeCell:
    """Return the step that makes a cell; the numbers are those that `lowering.cells` writes."""
    header, length, *places = numbers
    fields, apart = list[tuple[int, aot.Value, Extent]](), list[tuple[int, aot.Value, Extent]]()
    sizes: list[tuple[int, Extent]] = []
    at = 0
    for value, array in zip(values, arrays, strict=True):
        offset, count = places[at : at + 2]
        words = places[at + 2 : at + 2 + 2 * count]
        at += 2 + 2 * count
        (apart if words else fields).append((offset, value, array.nbytes))
        sizes += zip(words[1::2], (array.shape[axis] for axis in words[::2]), strict=True)
    return aot.MakeCell(target, header, length, tuple(fields), tuple(apart), tuple(sizes))


def _plan_open_field(
    type_: relax.TensorType, cell: aot.Register | aot.Immediate, numbers: Sequence[int]
) -> PlannedCell:
    """Plan the reading of an array of a size that only a call knows."""
    offset, *axes = numbers
    steps: list[aot.Step] = []
    names: list[Var] = []
    shape: list[Extent] = []
    for number in axes:
        if number <= 0:
            shape.append(-number)
            continue
        size, name = aot.Register("int64", "size"), tirx.Var("size", "int64")
        steps += [aot.ReadCell(size, cell, number), aot.NameSizes((name,), size)]
        names.append(name)
        shape.append(name)
    array = aot.Array(str(type_.dtype.dtype), tuple(shape))
    target = aot.Storage("pointer", -1, array.nbytes)
    steps.append(aot.ReadCell(target, cell, offset, is_apart=True))
    return PlannedCell(steps, target, names, array)


def _register(value: aot.Value) -> aot.Register | aot.Immediate:
    assert isinstance(value, aot.Register | aot.Immediate)
    return value


# Steps


def emit_cell_step(emitter: BodyEmitter, step: aot.MakeCell | aot.ReadCell | aot.CloseCells) -> list[Stmt]:
    """Return the statements of a step."""
    match step:
        case aot.MakeCell():
            return _make(emitter, step)
        case aot.ReadCell():
            return _read(emitter, step)
    return _close(emitter, step)


def _make(emitter: BodyEmitter, step: aot.MakeCell) -> list[Stmt]:
    statements: list[Stmt] = []
    references: list[tuple[int, Var]] = []
    for offset, value, nbytes in step.apart:
        inner, made = _allocate(emitter, _words_for(nbytes))
        statements += made
        statements += _put(emitter, inner + as_expr(8), value, nbytes)
        references.append((offset, inner))
    cell, made = _allocate(emitter, as_expr(step.length), step.header)
    statements += made
    for offset, value, nbytes in step.fields:
        statements += _put(emitter, cell + as_expr(8 * offset), value, nbytes)
    for offset, word in (*references, *((offset, as_expr(size)) for offset, size in step.sizes)):
        statements += _store(cell + as_expr(8 * offset), word)
    return [*statements, emitter.assign(step.target, cell)]


def _words_for(nbytes: Extent) -> PrimExpr:
    """Return the words of a cell for so many bytes; more than any cell has where these may be no number."""
    words = tirx.shift_right(as_expr(nbytes) + as_expr(7), as_expr(3)) + as_expr(1)
    return tirx.Select(exceeds_any_memory(as_expr(nbytes)), as_expr(_MOST_WORDS), words)


def releases_cells(call: aot.FunctionCall) -> bool:
    """Return whether what a call makes ends with it, as none of its results may be a cell."""
    return "int64" not in call.callee.result_registers and makes_cells(call.callee)


def keeps_no_cells(function: aot.NativeFunction) -> bool:
    """Return whether what a round of a loop makes ends with it: it hands no new cell to the next.

    What a cell holds is older than the cell.
    """
    if not function.loops or not makes_cells(function):
        return False
    new: set[aot.Value] = set()
    steps = list(function.steps())
    known = -1
    while len(new) > known:
        known = len(new)
        for step in steps:
            match step:
                case aot.MakeCell(target=target):
                    new.add(target)
                case aot.FunctionCall(results=results):
                    new.update(each for each in results if isinstance(each, aot.Register))
                case aot.ReadCell(target=target, cell=source) | aot.PointAt(target=target, source=source):
                    new.update({target} if source in new else ())
                case aot.Assign(pairs=pairs) | aot.NextRound(assign=aot.Assign(pairs=pairs)):
                    new.update(target for target, value in pairs if value in new)
    carried = (target for step in steps if isinstance(step, aot.NextRound) for target, _ in step.assign.pairs)
    kept = new.intersection(carried)
    return not any(isinstance(each, aot.Storage) or each.dtype == "int64" for each in kept)


def mark_cells(emitter: RegisterEmitter) -> tuple[list[Stmt], list[Stmt]]:
    """Return the statements that note where the next cell begins, and those that free what came since.

    If they are in a new block, these note where the next one begins instead: there is room the next time.
    """
    state, place = emitter.state, _place(emitter)
    assert state is not None
    mark, block = emitter.new_local("int64", "mark"), emitter.new_local("int64", "mark_block")
    begin = state[aot.CELLS] if place is None else place[0]
    back = tirx.BufferStore(state, mark[0], [as_expr(aot.CELLS)]) if place is None else _set(place, mark[0])
    note = [_set(mark, begin), _set(block, state[aot.CELL_BLOCK])]
    return note, [tirx.IfThenElse(tirx.EQ(state[aot.CELL_BLOCK], block[0]), back, sequence(note))]


def _place(emitter: RegisterEmitter) -> Buffer | None:
    """Return the register that holds where the next cell begins."""
    root = emitter
    while root.caller is not None:
        root = root.caller
    return root.cells


def _allocate(emitter: BodyEmitter, length: PrimExpr, header: int | None = None) -> tuple[Var, list[Stmt]]:
    """Return the address of a new cell of so many words, and the statements that make it."""
    state, place = emitter.state, _place(emitter)
    assert state is not None
    assert place is not None
    cell, nbytes = tirx.Var("cell", "int64"), tirx.Var("cell_bytes", "int64")
    failed = sequence(emitter.fail(FAILED))
    grow = [
        tirx.Evaluate(ir.Call(GROW, [emitter.state_address, nbytes], ret_ty=_INT32)),
        tirx.IfThenElse(tirx.EQ(state[aot.CELL_BLOCK], _ZERO), failed, None),
        _set(place, state[aot.CELLS]),
    ]
    first = as_expr(header) if header is not None else tirx.shift_left(length, as_expr(LENGTH_SHIFT))
    too_long = tirx.IfThenElse(length >= as_expr(_MOST_WORDS), sequence(emitter.fail(FAILED)), None)
    return cell, [
        *([] if header is not None else [too_long]),
        tirx.Bind(nbytes, length * as_expr(8)),
        tirx.IfThenElse(unlikely(place[0] + nbytes > state[aot.CELLS_END]), sequence(grow), None),
        tirx.Bind(cell, place[0]),
        _set(place, cell + nbytes),
        *_store(cell, first),
    ]


def _put(emitter: BodyEmitter, place: PrimExpr, value: aot.Value, nbytes: Extent) -> list[Stmt]:
    """Store a value at an address."""
    loaded = emitter.load(value)
    return [copy_bytes(place, loaded, nbytes)] if isinstance(value, aot.Storage) else _store(place, loaded)


def _read(emitter: BodyEmitter, step: aot.ReadCell) -> list[Stmt]:
    cell = tirx.Var("cell", "int64")
    bound = tirx.Bind(cell, emitter.load(step.cell))
    if isinstance(step.target, aot.Storage) and step.is_apart:
        assert step.offset is not None
        declared, inner = _load(cell + as_expr(8 * step.offset), "int64")
        return [bound, *declared, emitter.assign(step.target, inner + as_expr(8))]
    if isinstance(step.target, aot.Storage):
        assert step.offset is not None
        return [bound, emitter.assign(step.target, cell + as_expr(8 * step.offset))]
    if step.offset is not None:
        declared, value = _load(cell + as_expr(8 * step.offset), step.target.dtype)
        return [bound, *declared, emitter.assign(step.target, value)]
    declared, header = _load(cell, "int64")
    tag = tirx.bitwise_and(header, as_expr((1 << POINTERS_SHIFT) - 1))
    read = sequence([*declared, emitter.assign(step.target, tag)])
    return [
        bound,
        emitter.assign(step.target, cell),
        tirx.IfThenElse(cell >= as_expr(LEAST_ADDRESS), read, None),
    ]


def _close(emitter: BodyEmitter, step: aot.CloseCells) -> list[Stmt]:
    roots = emitter.new_local("int64", "roots", len(step.roots))
    block = emitter.new_local("int64", "block", 2)
    pointers = [tirx.address_of(tirx.BufferLoad(buffer, [_ZERO])) for buffer in (block, roots)]
    call = ir.Call(COPY, [emitter.state_address, *pointers, as_expr(len(step.roots))], ret_ty=_INT32)
    return [
        *(
            tirx.BufferStore(roots, emitter.load(root), [as_expr(number)])
            for number, root in enumerate(step.roots)
        ),
        *(tirx.BufferStore(block, _ZERO, [as_expr(word)]) for word in range(2)),
        tirx.Evaluate(call),
        tirx.IfThenElse(tirx.EQ(block[0], _ZERO), sequence(emitter.fail(FAILED)), None),
        emitter.assign(step.target, block[0]),
        emitter.assign(step.size, roots[0]),
    ]


def _view(address: PrimExpr, dtype: str) -> tuple[Buffer, list[Stmt]]:
    """Return a view of one element at an address, and the statements that declare it."""
    var = tirx.Var("place", "int64")
    view = tirx.decl_buffer((1,), dtype, "field", data_alignment=item_bytes(dtype))
    return view, [tirx.Bind(var, address), tirx.DeclBuffer(view, data=as_pointer(var))]


def _load(address: PrimExpr, dtype: str) -> tuple[list[Stmt], PrimExpr]:
    view, declared = _view(address, "int8" if dtype == "bool" else dtype)
    return declared, tirx.BufferLoad(view, [_ZERO])


def _store(address: PrimExpr, value: PrimExpr) -> list[Stmt]:
    if dtype_of(value) == "bool":
        value = tirx.Select(value, tirx.const(1, "int8"), tirx.const(0, "int8"))
    view, declared = _view(address, dtype_of(value))
    return [*declared, tirx.BufferStore(view, value, [_ZERO])]


# Functions


def cell_functions() -> Iterator[tuple[ir.GlobalVar, PrimFunc]]:
    """Yield the functions that machine code with cells calls."""
    state, nbytes = (tirx.Var(name, "int64") for name in ("state", "nbytes"))
    yield GROW, heap_function([state, nbytes], _grow(state, nbytes))
    yield COPY, _copy_function()


def _grow(state: Var, nbytes: Var) -> list[Stmt]:
    """Begin a new block; the one before stays what it is."""
    statements: list[Stmt] = []
    words = HeapWords(state, statements)
    size = tirx.min(words[aot.CELL_BLOCK + 1] * as_expr(2), as_expr(_LARGEST_BYTES))
    needed = tirx.Var("needed", "int64")
    block = as_pointer(state + as_expr(8 * aot.CELL_BLOCK))
    return [
        *statements,
        tirx.Bind(needed, tirx.max(tirx.max(size, as_expr(_SMALLEST_BYTES)), nbytes)),
        words.store(aot.CELL_BLOCK, _ZERO),
        tirx.Evaluate(ir.Call(RESERVE, [state, block, needed], ret_ty=_INT32)),
        words.store(aot.CELLS, words[aot.CELL_BLOCK]),
        words.store(aot.CELLS_END, words[aot.CELL_BLOCK] + words[aot.CELL_BLOCK + 1]),
    ]


def _copy_function() -> PrimFunc:
    """Return the function that copies cells (Cheney 1970): the copies are the queue of what is still to do.

    A copy refers to others by LEAST_ADDRESS plus their distance from the first word in bytes. The first word
    of a cell that is copied becomes the negative reference to its copy.
    """
    state, count = tirx.Var("state", "int64"), tirx.Var("count", "int64")
    block, roots = (tirx.Var(name, POINTER_TO_WORDS) for name in ("block", "roots"))
    statements: list[Stmt] = []
    copier = _Copier(state, block, statements)
    values = HeapWords(roots, statements)

    def copy_root(number: PrimExpr) -> Stmt:
        return copier.copy(tirx.BufferLoad(values.words, [number]), number)

    def copy_part(number: PrimExpr) -> Stmt:
        part: list[Stmt] = []
        at = copier.scan[0] + as_expr(1) + number
        words = HeapWords(copier.data[0], part).words
        return sequence([*part, copier.copy(tirx.BufferLoad(words, [at]), at)])

    round_: list[Stmt] = []
    header, mask = tirx.Var("header", "int64"), as_expr((1 << (LENGTH_SHIFT - POINTERS_SHIFT)) - 1)
    words = HeapWords(copier.data[0] + copier.scan[0] * as_expr(8), round_)
    pointers = tirx.bitwise_and(tirx.shift_right(header, as_expr(POINTERS_SHIFT)), mask)
    round_ += [
        tirx.Bind(header, words[0]),
        loop("part", pointers, copy_part),
        _set(copier.scan, copier.scan[0] + tirx.shift_right(header, as_expr(LENGTH_SHIFT))),
    ]
    statements += [
        *copier.begin(count),
        loop("root", count, copy_root),
        tirx.While(copier.scan[0] < copier.free[0], sequence(round_)),
        values.store(0, copier.free[0]),
    ]
    return heap_function([state, block, roots, count], statements)


class _Copier:
    """Copies cells to a block, which becomes larger as it must.

    free: the words that are taken. scan: the first of a copy whose parts are not copied yet.
    """

    def __init__(self, state: Var, block: Var, statements: list[Stmt]) -> None:
        self._state, self._block = state, block
        self.data = HeapWords(block, statements)
        self.free, self.scan, self._larger = (
            tirx.decl_buffer((size,), "int64", name, scope="local", data_alignment=8)
            for name, size in (("free", 1), ("scan", 1), ("larger", 2))
        )
        attributes = {"disable_lower_builtin": tirx.IntImm("bool", 1)}
        statements += [
            tirx.AllocBuffer(buffer, attributes) for buffer in (self.free, self.scan, self._larger)
        ]

    def begin(self, count: PrimExpr) -> list[Stmt]:
        """Have a block whose first words are for references to the copies of some values."""
        nbytes = tirx.max(count * as_expr(8), as_expr(_SMALLEST_BYTES))
        reserve = tirx.Evaluate(ir.Call(RESERVE, [self._state, self._block, nbytes], ret_ty=_INT32))
        return [
            reserve,
            tirx.IfThenElse(tirx.EQ(self.data[0], _ZERO), tirx.Return(tirx.const(0, "int32")), None),
            _set(self.free, count),
            _set(self.scan, count),
        ]

    def copy(self, value: PrimExpr, at: PrimExpr) -> Stmt:
        """Copy the cell of a value, if it has one that is not copied yet; refer to the copy in a word."""
        given, header, length, place = (
            tirx.Var(name, "int64") for name in ("given", "header", "length", "place")
        )
        taken = self.free[0] * as_expr(8)
        cell_copy: list[Stmt] = [
            tirx.Bind(length, tirx.shift_right(header, as_expr(LENGTH_SHIFT))),
            tirx.IfThenElse(taken + length * 8 > self.data[1], sequence(self._grow(length)), None),
            tirx.Bind(place, self.free[0] * as_expr(8)),
            copy_bytes(self.data[0] + place, given, length * 8),
            _set(self.free, self.free[0] + length),
        ]
        cell_copy.append(HeapWords(given, cell_copy).store(0, -(place + as_expr(LEAST_ADDRESS))))
        cell_copy.append(self._refer(at, place + as_expr(LEAST_ADDRESS)))
        look: list[Stmt] = []
        cell = HeapWords(given, look)
        look += [
            tirx.Bind(header, cell[0]),
            tirx.IfThenElse(header < _ZERO, self._refer(at, -header), sequence(cell_copy)),
        ]
        is_tag = given < as_expr(LEAST_ADDRESS)
        return sequence(
            [tirx.Bind(given, value), tirx.IfThenElse(is_tag, self._refer(at, given), sequence(look))]
        )

    def _refer(self, at: PrimExpr, value: PrimExpr) -> Stmt:
        statements: list[Stmt] = []
        words = HeapWords(self.data[0], statements).words
        return sequence([*statements, tirx.BufferStore(words, value, [at])])

    def _grow(self, length: PrimExpr) -> list[Stmt]:
        """Move the copies to a block of twice the size."""
        larger = tirx.address_of(self._larger[0])
        nbytes = self.data[1] * 2 + length * 8
        drop = tirx.Evaluate(ir.Call(DROP, [self._state, self._block], ret_ty=_INT32))
        failed = sequence([self.data.store(0, _ZERO), tirx.Return(tirx.const(0, "int32"))])
        return [
            *(tirx.BufferStore(self._larger, _ZERO, [as_expr(word)]) for word in range(2)),
            tirx.Evaluate(ir.Call(RESERVE, [self._state, larger, nbytes], ret_ty=_INT32)),
            tirx.IfThenElse(tirx.EQ(self._larger[0], _ZERO), failed, None),
            copy_bytes(self._larger[0], self.data[0], self.free[0] * as_expr(8)),
            drop,
            *(self.data.store(word, self._larger[word]) for word in range(2)),
        ]


def _set(buffer: Buffer, value: PrimExpr) -> Stmt:
    """Store the only word of a local array."""
    return tirx.BufferStore(buffer, value, [_ZERO])
