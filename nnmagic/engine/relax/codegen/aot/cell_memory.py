"""Emit the functions that take memory for cells, and that copy what values reach for Python."""

from __future__ import annotations

from collections.abc import Iterator

from tvm import ir, tirx

from nnmagic.engine.relax.analysis.cell_layout import LEAST_ADDRESS, LENGTH_SHIFT, POINTERS_SHIFT
from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.bodies.registers import store_first
from nnmagic.engine.relax.codegen.aot.bodies.storage import copy_bytes
from nnmagic.engine.relax.codegen.aot.heap import DROP, POINTER_TO_WORDS, RESERVE, HeapWords, heap_function
from nnmagic.engine.relax.tir.builders import as_expr, as_pointer, loop, sequence
from nnmagic.engine.relax.tir.types import PrimExpr, PrimFunc, Stmt, Var

#: The function that takes the address of a call's state and a number of bytes, and has memory for a cell of
#: so many; the word CELL_BLOCK of the state is 0 where memory is short.
GROW = ir.GlobalVar("grow_cells")

#: The function that takes the address of a call's state, a pointer to a block's two words, and some values of
#: data types with their number. It copies what they reach to the block, whose address is 0 where memory is
#: short, and writes the number of words over the first value.
COPY = ir.GlobalVar("copy_cells")

_INT32 = ir.PrimType("int32")

#: The bytes of the first block, and of the largest that is not for one large cell.
_SMALLEST_BYTES, _LARGEST_BYTES = 1 << 12, 1 << 26

_ZERO = as_expr(0)


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
        store_first(copier.scan, copier.scan[0] + tirx.shift_right(header, as_expr(LENGTH_SHIFT))),
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
            store_first(self.free, count),
            store_first(self.scan, count),
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
            store_first(self.free, self.free[0] + length),
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
