"""Emit the memory of temporaries: copies, blocks of unknown size, views of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.bodies.ends import EndsEmitter, address_of
from nnmagic.engine.relax.codegen.aot.bodies.registers import first_of, store_first
from nnmagic.engine.relax.codegen.aot.heap import RESERVE
from nnmagic.engine.relax.codegen.aot.memory import exceeds_any_memory, round_up
from nnmagic.engine.relax.codegen.aot.step_operands import written_storage
from nnmagic.engine.relax.runtime.native_entry import FAILED
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    as_pointer,
    dtype_of,
    item_bytes,
    loop,
    sequence,
    words_at,
)
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.visitors import replace_vars

_INT32 = ir.PrimType("int32")

#: With more copies of a temporary than this, loops find the one that is free.
_MOST_COMPARED = 8


class StorageEmitter(EndsEmitter):
    """Points temporaries at their memory, and loads elements of arrays."""

    caller: StorageEmitter | None

    def _declare_copies(self) -> None:
        """Declare a pointer for each temporary with several copies: to the one that is written."""
        for step in self.function.steps():
            for value in written_storage(step):
                if value.copies > 1 or value.on_heap:
                    self.local(value)

    def _choose_copies(self, values: Sequence[aot.Value]) -> list[Stmt]:
        """Point each temporary with several copies to one that no pointer of the loop holds."""
        statements: list[Stmt] = []
        for value in values:
            if isinstance(value, aot.Storage) and value.on_heap:
                statements += self._allocate(value)
                continue
            if not isinstance(value, aot.Storage) or value.copies == 1 or value.kind != "temporary":
                continue
            stride = as_expr(round_up(value.nbytes))
            begin = self.workspace + as_expr(value.offset)
            if value.copies > _MOST_COMPARED:
                statements += self._find_free_copy(value, begin, stride)
                continue
            copies = [begin + stride * number for number in range(value.copies)]
            chosen = self._first_free(value, copies, copies)
            statements.append(store_first(self.local(value), chosen))
        return statements

    def _first_free(
        self, storage: aot.Storage, addresses: Sequence[PrimExpr], values: Sequence[PrimExpr]
    ) -> PrimExpr:
        """Return the value of the first address that no pointer of the loop holds; else the last value."""
        # There is one copy more than holders, so one is free by the pigeonhole principle: if it is none of
        # the others, it is the last.
        chosen = values[-1]
        for address, value in reversed(list(zip(addresses[:-1], values[:-1], strict=True))):
            held = (first_of(self.local(holder)) for holder in storage.holders)
            free = tirx.all(tirx.const(1, "bool"), *(tirx.NE(each, address) for each in held))
            chosen = tirx.Select(free, value, chosen)
        return chosen

    def _find_free_copy(self, value: aot.Storage, begin: PrimExpr, stride: PrimExpr) -> list[Stmt]:
        """Do the same with loops: the code is linear in the number of copies."""
        pointer, count = self.local(value), value.copies
        used = self.new_local("int8", "used", count)
        zero, one = tirx.const(0, "int8"), tirx.const(1, "int8")
        statements = [loop("copy", count, lambda copy: tirx.BufferStore(used, zero, [copy]))]
        for holder in value.holders:
            held = tirx.floordiv(first_of(self.local(holder)) - begin, stride)
            is_copy = tirx.And(held >= as_expr(0), held < as_expr(count))
            statements.append(tirx.IfThenElse(is_copy, tirx.BufferStore(used, one, [held]), None))

        def take_if_free(copy: PrimExpr) -> Stmt:
            taken = store_first(pointer, begin + stride * copy)
            return tirx.IfThenElse(tirx.EQ(tirx.BufferLoad(used, [copy]), zero), taken, None)

        statements.append(loop("copy", count, take_if_free))
        return statements

    def _declare_blocks(self, function: aot.NativeFunction) -> None:
        """Declare the blocks of memory of a function, and of those that are a part of it."""
        for step in function.steps():
            for storage in written_storage(step):
                if storage.on_heap and storage not in self.blocks:
                    block = self.new_local("int64", "block", 2 * storage.copies)
                    self.blocks[storage] = block
                    zeros = (
                        tirx.BufferStore(block, as_expr(0), [as_expr(at)]) for at in range(2 * storage.copies)
                    )
                    self.declared += zeros
            if isinstance(step, aot.MakeCell) and self.cells is None:
                assert self.state is not None
                self.cells = self.new_local("int64", "cells")
                self.declared.append(store_first(self.cells, self.state[aot.CELLS]))
            if isinstance(step, aot.FunctionCall) and step.callee not in self.variables:
                self._declare_blocks(step.callee)

    def _free_block(self, storage: aot.Storage) -> tuple[list[Stmt], Buffer, PrimExpr]:
        """Return the blocks of a temporary, and the number of one that no pointer of the loop holds."""
        root = self
        while root.caller is not None:
            root = root.caller
        blocks = root.blocks[storage]
        if storage.copies == 1:
            return [], blocks, as_expr(0)
        numbers = [as_expr(2 * number) for number in range(storage.copies)]
        addresses = [tirx.BufferLoad(blocks, [number]) for number in numbers]
        chosen = self._first_free(storage, addresses, numbers)
        number = self.new_local("int64", "block_number")
        return [store_first(number, chosen)], blocks, first_of(number)

    def _allocate(self, storage: aot.Storage) -> list[Stmt]:
        """Have enough memory for a temporary, and point it there."""
        statements, blocks, number = self._free_block(storage)
        address = address_of(blocks, number)
        pointed = store_first(self.local(storage), tirx.BufferLoad(blocks, [number]))
        return [*statements, *self._reserve(address, storage.nbytes), pointed]

    def _reserve(self, block: PrimExpr, nbytes: Extent) -> list[Stmt]:
        """Have a block of memory, the address of which and of its size is at ``block``, be large enough."""
        words, needed = words_at("block"), tirx.Var("needed", "int64")
        reserve = tirx.Evaluate(ir.Call(RESERVE, [self.state_address, block, needed], ret_ty=_INT32))
        failed = tirx.IfThenElse(tirx.EQ(words[0], as_expr(0)), sequence(self.fail(FAILED)), None)
        is_small = tirx.Or(words[1] < needed, exceeds_any_memory(as_expr(nbytes)))
        return [
            tirx.Bind(needed, tirx.max(as_expr(nbytes), as_expr(1))),
            tirx.DeclBuffer(words, data=block),
            tirx.IfThenElse(is_small, sequence([reserve, failed]), None),
        ]

    def _element_of(
        self,
        storage: aot.Storage,
        buffer: Buffer,
        indices: Sequence[Index],
        sizes: Mapping[Var, PrimExpr],
        declared: list[Stmt],
    ) -> PrimExpr:
        """Load one element of an array in memory."""
        if storage in self.elements:
            element = first_of(self.elements[storage])
        else:
            view, offset, declaration = self._view(storage, buffer, indices, sizes)
            declared += declaration
            element = tirx.BufferLoad(view, [offset])
        return tirx.NE(element, tirx.const(0, "int8")) if dtype_of(buffer) == "bool" else element

    def _view(
        self, storage: aot.Storage, buffer: Buffer, indices: Sequence[Index], sizes: Mapping[Var, PrimExpr]
    ) -> tuple[Buffer, PrimExpr, list[Stmt]]:
        """Return a flat view of an array in memory, the position of an element in it, and its declaration."""
        dtype = dtype_of(buffer)
        stored = "int8" if dtype == "bool" else dtype
        offset = element_position(buffer, indices, sizes)
        view = tirx.decl_buffer((1 << 40,), stored, buffer.name, data_alignment=item_bytes(stored))
        return view, offset, self.declare(view, storage)

    def declare(self, buffer: Buffer, storage: aot.Storage) -> list[Stmt]:
        """Declare a buffer at an array in memory.

        Its address is bound: TVM's CommonSubexprElim would name a sum that a declaration and statements after
        it compute after the declaration.
        """
        address, statements = self.address(storage), list[Stmt]()
        if not isinstance(address, tirx.Var):
            var = tirx.Var("address", "int64")
            statements, address = [tirx.Bind(var, address)], var
        return [*statements, tirx.DeclBuffer(buffer, data=as_pointer(address))]


def element_position(buffer: Buffer, indices: Sequence[Index], sizes: Mapping[Var, PrimExpr]) -> PrimExpr:
    """Return the position of an element in the memory of an array."""
    position = as_expr(0)
    for dim, index in zip(buffer.ty.shape, indices, strict=True):
        position = position * replace_vars(as_expr(dim), sizes) + index
    return position


def copy_bytes(to: PrimExpr, source: PrimExpr, nbytes: Extent) -> Stmt:
    """Copy memory, which may overlap."""
    pointers = as_pointer(to), as_pointer(source)
    return tirx.Evaluate(tirx.call_extern("handle", "memmove", *pointers, as_expr(nbytes)))
