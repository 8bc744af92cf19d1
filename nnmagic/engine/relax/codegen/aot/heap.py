"""Allocate memory while a program runs, for what has a size that nothing bounds before it is computed.

Blocks are C's. Those of a call are linked through a header in front of each, and are freed when the call
ends, however it does; functions that call themselves, or that several places call, free their own before.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot.memory import MOST_BYTES, round_up
from nnmagic.engine.relax.codegen.aot.program import ALIGNMENT, HEAP
from nnmagic.engine.relax.tir.builders import as_expr, as_pointer, sequence, words_at
from nnmagic.engine.relax.tir.types import PrimExpr, PrimFunc, Stmt, Var

#: The function that takes the address of a call's state and a pointer to a block's two words, its address and
#: its size, and makes the block as large as its third argument says; its address is 0 where memory is short.
RESERVE = ir.GlobalVar("reserve_block")

#: The function that takes the same and frees the block.
DROP = ir.GlobalVar("drop_block")

#: The function that takes the address of a call's state and frees all its blocks.
RELEASE = ir.GlobalVar("release_blocks")

#: The type of what points to 8-byte words.
POINTER_TO_WORDS = ir.PointerType(ir.PrimType("int64"))

_INT32 = ir.PrimType("int32")

#: The words in front of a block: what C's malloc returned, and the addresses of the blocks that were
#: allocated before and after it, 0 at the ends.
_ALLOCATED, _BEFORE, _AFTER = -1, -2, -3
_HEADER_BYTES = ALIGNMENT

#: A block has an eighth more than it must: the next size may be a little larger.
_MORE = 8


def heap_functions() -> Iterator[tuple[ir.GlobalVar, PrimFunc]]:
    """Yield the functions that machine code with such memory calls."""
    state, nbytes = (tirx.Var(name, "int64") for name in ("state", "nbytes"))
    block = tirx.Var("block", POINTER_TO_WORDS)
    yield DROP, heap_function([state, block], _drop(state, block))
    yield RESERVE, heap_function([state, block, nbytes], _reserve(state, block, nbytes))
    yield RELEASE, heap_function([state], _release(state))


def heap_function(params: list[Var], statements: list[Stmt]) -> PrimFunc:
    """Return a function of these statements, which returns 0."""
    return tirx.PrimFunc(params, sequence([*statements, tirx.Return(tirx.const(0, "int32"))]), _INT32)


class HeapWords:
    """8-byte words at an address, or where a pointer points."""

    def __init__(self, at: PrimExpr, statements: list[Stmt]) -> None:
        self.words = words_at("words")
        if not isinstance(at.ty, ir.PointerType):
            address = tirx.Var("words_at", "int64")
            statements.append(tirx.Bind(address, at))
            at = as_pointer(address)
        statements.append(tirx.DeclBuffer(self.words, data=at))

    def __getitem__(self, number: int) -> PrimExpr:
        """Return a word."""
        return tirx.BufferLoad(self.words, [as_expr(number)])

    def store(self, number: int, value: PrimExpr) -> Stmt:
        """Store a word."""
        return tirx.BufferStore(self.words, value, [as_expr(number)])


def _header(block: PrimExpr, statements: list[Stmt]) -> tuple[HeapWords, int]:
    """Return the words that begin a header in front of a block, and their number."""
    return HeapWords(block - as_expr(_HEADER_BYTES), statements), _HEADER_BYTES // 8


def _drop(state: Var, block: Var) -> list[Stmt]:
    """Free a block, and take it from the chain of those of the call."""
    statements: list[Stmt] = []
    words = HeapWords(block, statements)
    data = tirx.Var("data", "int64")
    statements.append(tirx.Bind(data, words[0]))
    header, count = _header(data, statements)
    before, after, allocated = (tirx.Var(name, "int64") for name in ("before", "after", "allocated"))
    statements += [
        tirx.Bind(before, header[count + _BEFORE]),
        tirx.Bind(after, header[count + _AFTER]),
        tirx.Bind(allocated, header[count + _ALLOCATED]),
    ]
    of_before: list[Stmt] = []
    of_after: list[Stmt] = []
    first: list[Stmt] = []
    earlier, _ = _header(before, of_before)
    of_before.append(earlier.store(count + _AFTER, after))
    later, _ = _header(after, of_after)
    of_after.append(later.store(count + _BEFORE, before))
    first.append(HeapWords(state, first).store(HEAP, before))
    return [
        *statements,
        tirx.IfThenElse(before != as_expr(0), sequence(of_before), None),
        tirx.IfThenElse(after != as_expr(0), sequence(of_after), sequence(first)),
        tirx.Evaluate(tirx.call_extern("void", "free", as_pointer(allocated))),
        words.store(0, as_expr(0)),
        # A block of size 0 is allocated anew when it is needed; one that kept its address would be
        # freed twice.
        words.store(1, as_expr(0)),
    ]


def _reserve(state: Var, block: Var, nbytes: Var) -> list[Stmt]:
    """Free a block and allocate a larger one, which is the last of the chain then."""
    statements: list[Stmt] = []
    words = HeapWords(block, statements)
    drop = tirx.Evaluate(ir.Call(DROP, [state, block], ret_ty=_INT32))
    is_short = tirx.Or(nbytes > tirx.const(MOST_BYTES, "int64"), nbytes < as_expr(0))
    failed = tirx.Return(tirx.const(0, "int32"))
    size, allocated, data, last = (tirx.Var(name, "int64") for name in ("size", "allocated", "data", "last"))
    statements += [
        # Freed before the new block is allocated, not copied: the old contents are dead when an
        # array is written as a whole, and both at once would need twice the memory.
        tirx.IfThenElse(words[0] != as_expr(0), drop, None),
        tirx.IfThenElse(is_short, failed, None),
        tirx.Bind(size, round_up(nbytes + tirx.floordiv(nbytes, as_expr(_MORE)))),
        # Room for the header in front, and for moving the data up to the alignment.
        tirx.Bind(allocated, tirx.call_extern("int64", "malloc", size + as_expr(_HEADER_BYTES + ALIGNMENT))),
        tirx.IfThenElse(tirx.EQ(allocated, as_expr(0)), failed, None),
        tirx.Bind(data, round_up(allocated + as_expr(_HEADER_BYTES))),
    ]
    call = HeapWords(state, statements)
    statements.append(tirx.Bind(last, call[HEAP]))
    header, count = _header(data, statements)
    of_last: list[Stmt] = []
    earlier, _ = _header(last, of_last)
    of_last.append(earlier.store(count + _AFTER, data))
    return [
        *statements,
        header.store(count + _ALLOCATED, allocated),
        header.store(count + _BEFORE, last),
        header.store(count + _AFTER, as_expr(0)),
        tirx.IfThenElse(last != as_expr(0), sequence(of_last), None),
        call.store(HEAP, data),
        words.store(0, data),
        words.store(1, size),
    ]


def _release(state: Var) -> list[Stmt]:
    """Free all blocks of a call."""
    statements: list[Stmt] = []
    call = HeapWords(state, statements)
    one: list[Stmt] = []
    header, count = _header(call[HEAP], one)
    allocated, before = tirx.Var("allocated", "int64"), tirx.Var("before", "int64")
    one += [
        tirx.Bind(allocated, header[count + _ALLOCATED]),
        tirx.Bind(before, header[count + _BEFORE]),
        tirx.Evaluate(tirx.call_extern("void", "free", as_pointer(allocated))),
        call.store(HEAP, before),
    ]
    return [*statements, tirx.While(call[HEAP] != as_expr(0), sequence(one))]
