"""Make and read the cells of data types: memory of the call, which grows by blocks and ends with it.

A cell begins with a word that holds its tag, the number of cells that it points to and its length in words
(`analysis.cell_layout`). Smaller numbers than any address are tags of constructors without fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import ir, tirx

from nnmagic.engine.relax.analysis.cell_layout import LEAST_ADDRESS, LENGTH_SHIFT, POINTERS_SHIFT
from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.bodies.registers import store_first
from nnmagic.engine.relax.codegen.aot.bodies.storage import copy_bytes
from nnmagic.engine.relax.codegen.aot.cell_memory import COPY, GROW
from nnmagic.engine.relax.codegen.aot.memory import exceeds_any_memory
from nnmagic.engine.relax.runtime.native_entry import FAILED
from nnmagic.engine.relax.tir.builders import as_expr, as_pointer, dtype_of, item_bytes, sequence, unlikely
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, Stmt, Var

if TYPE_CHECKING:
    from nnmagic.engine.relax.codegen.aot.bodies.registers import RegisterEmitter
    from nnmagic.engine.relax.codegen.aot.function_bodies import BodyEmitter

_INT32 = ir.PrimType("int32")

#: No cell has so many words: its first word has 31 bits for their number.
_MOST_WORDS = 1 << 31

_ZERO = as_expr(0)


def makes_cells(function: aot.NativeFunction) -> bool:
    """Return whether a function, or one that it calls, makes cells."""
    steps = (step for each in aot.with_callees(function) for step in each.steps())
    return any(isinstance(step, aot.MakeCell | aot.CloseCells) for step in steps)


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
    back = (
        tirx.BufferStore(state, mark[0], [as_expr(aot.CELLS)])
        if place is None
        else store_first(place, mark[0])
    )
    note = [store_first(mark, begin), store_first(block, state[aot.CELL_BLOCK])]
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
        store_first(place, state[aot.CELLS]),
    ]
    first = as_expr(header) if header is not None else tirx.shift_left(length, as_expr(LENGTH_SHIFT))
    too_long = tirx.IfThenElse(length >= as_expr(_MOST_WORDS), sequence(emitter.fail(FAILED)), None)
    return cell, [
        *([] if header is not None else [too_long]),
        tirx.Bind(nbytes, length * as_expr(8)),
        tirx.IfThenElse(unlikely(place[0] + nbytes > state[aot.CELLS_END]), sequence(grow), None),
        tirx.Bind(cell, place[0]),
        store_first(place, cell + nbytes),
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
