"""Run a function that calls itself once, and goes on afterwards, as two loops with a stack of their own.

The first loop goes down: a round saves what is read after the call, and what the call is given is what the
next round has. The second comes back up. So a loop is differentiated whose number of rounds is not known
before it begins. The stack is memory of the call, in pieces that never move, as arrays of the rounds are in
it; the first levels are in the workspace, and nothing is on C's stack.
"""

from __future__ import annotations

from collections.abc import Container

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.bodies.registers import as_byte, first_of, pointer_to, store_first
from nnmagic.engine.relax.codegen.aot.bodies.storage import copy_bytes
from nnmagic.engine.relax.codegen.aot.function_bodies import BodyEmitter
from nnmagic.engine.relax.codegen.aot.heap import DROP
from nnmagic.engine.relax.codegen.aot.linear_recursion import invariant_parameters
from nnmagic.engine.relax.codegen.aot.memory import exceeds_any_memory, round_up
from nnmagic.engine.relax.runtime.native_entry import FAILED
from nnmagic.engine.relax.tir.builders import as_expr, as_pointer, dtype_of, item_bytes, sequence, words_at
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr, Stmt

#: The bytes of the first piece of the stack, and of the largest; each has twice as many as the one before.
_SMALLEST_BYTES, _LARGEST_BYTES = 1 << 13, 1 << 22

#: The most bytes of a stack: a loop without an end would take all that the machine has.
_MOST_BYTES = 1 << 32


class LinearLoopsEmitter(BodyEmitter):
    """Emits the body of such a function. A level is one call: its place on the stack has its frame, too."""

    @property
    def recursion(self) -> aot.LinearRecursion:
        """The function's call of itself."""
        assert self.function.recursion is not None
        return self.function.recursion

    def body(self) -> list[Stmt]:
        """Return the statements of the body."""
        function, call = self.function, self.recursion.call
        self._declare_blocks(function)
        offsets = [stmt for offset, value in function.chunks for stmt in self._define(offset, value)]
        self._declare_locals(invariant_parameters(function, call))
        saved = 8 * max(1, len(self.recursion.saved) + len(self._result_places))
        if not isinstance(function.workspace, int) or function.workspace:
            saved = round_up(saved)
        self._level_bytes = tirx.Var("level_bytes", "int64")
        first, self.workspace = self.workspace, first_of(self._level) + as_expr(saved)
        needed = as_expr(round_up(function.workspace)) + as_expr(saved)
        setup: list[Stmt] = [
            tirx.Bind(self._level_bytes, needed),
            *(store_first(local, as_expr(0)) for local in (self._number, self._depth, self._total)),
            *self._set_piece(as_expr(0), as_expr(0)),
            store_first(self._capacity, tirx.truncdiv(as_expr(aot.FIRST_LEVELS), self._level_bytes)),
            store_first(self._level, first),
            tirx.IfThenElse(
                tirx.EQ(first_of(self._capacity), as_expr(0)), sequence(self._next_piece()), None
            ),
        ]
        for param, argument in zip(function.parameters, self.arguments, strict=True):
            if isinstance(param, aot.Register) or param.kind == "pointer":
                setup.append(self.assign(param, argument))
            elif param in self._places:
                setup.append(store_first(self._places[param], argument))
        setup += [store_first(local, self.results[number]) for number, local in self._result_places.items()]
        for pointer in function.pointers:
            self.local(pointer)
        self._declare_copies()
        budget = self._budget()
        after_each = [self.spend(self._work()), self._poll(budget)]
        down = sequence([*self._descend(0), *after_each])
        up = sequence([*self._pop(), *self._region(list(self.recursion.after())), *after_each])
        results: list[aot.Value] = [
            self._outcomes.get(number) or aot.Storage("result", number, as_expr(0))
            for number in range(len(function.results))
        ]
        statements = [
            store_first(self._goes_down, tirx.const(1, "int8")),
            tirx.While(tirx.NE(first_of(self._goes_down), tirx.const(0, "int8")), down),
            tirx.While(first_of(self._depth) > as_expr(0), up),
            tirx.IfThenElse(first_of(self._piece) != as_expr(0), self._drop_piece(), None),
            *super()._exit(aot.Exit(tuple(results))),
        ]
        return [*self.declared, *offsets, *setup, *statements]

    def _declare_locals(self, fixed: Container[aot.Value]) -> None:
        """Declare what the loops carry: the parameters that a level changes, its results, and the stack."""
        function = self.function
        self._places = {
            param: self.new_local("int64", "array")
            for param in function.parameters
            if isinstance(param, aot.Storage) and param.kind == "parameter" and param not in fixed
        }
        self._result_places = {
            number: self.new_local("int64", "result")
            for number, register in enumerate(function.result_registers)
            if register is None and number not in function.changed
        }
        self._outcomes = {
            number: aot.Register(dtype, "outcome")
            for number, dtype in enumerate(function.result_registers)
            if dtype is not None
        }
        self._level, self._number, self._capacity, self._depth, self._total = (
            self.new_local("int64", name) for name in ("level", "number", "capacity", "depth", "total")
        )
        self._piece = self.new_local("int64", "piece", 2)
        self._goes_down = self.new_local("int8", "goes_down")

    def _descend(self, outer: int) -> list[Stmt]:
        """Return what a level does until its call, or, if it makes none, until its end."""
        region, position = self.recursion.path[outer]
        before = self._region(region[:position]) if position else []
        if outer + 1 == len(self.recursion.path):
            return [*before, *self._push()]
        branch = region[position]
        assert isinstance(branch, aot.Branch)
        calls = self.recursion.path[outer + 1][0] is branch.then
        other: aot.Region = [*(branch.other if calls else branch.then)]
        for around, number in reversed(self.recursion.path[: outer + 1]):
            other += around[number + 1 :]
        ends = [*self._region(other), store_first(self._goes_down, tirx.const(0, "int8"))]
        taken, remaining = sequence(self._descend(outer + 1)), sequence(ends)
        pair = (taken, remaining) if calls else (remaining, taken)
        return [*before, tirx.IfThenElse(self.load(branch.condition), *pair)]

    def _exit(self, step: aot.Exit) -> list[Stmt]:
        """End a level: its results are those of the call that the level before it made."""
        statements: list[Stmt] = []
        pairs: list[tuple[aot.Register | aot.Storage, aot.Value]] = []
        for number, value in enumerate(step.results):
            if not isinstance(value, aot.Storage):
                pairs.append((self._outcomes[number], value))
            elif value.kind != "result" and number in self._result_places:
                place = first_of(self._result_places[number])
                nbytes = self.function.result_bytes(number)
                statements.append(copy_bytes(place, self.address(value), nbytes))
        return [*statements, *(self._assign(aot.Assign(tuple(pairs))) if pairs else [])]

    def address(self, storage: aot.Storage) -> PrimExpr:
        """Return the address of an array in memory, which may be the level's."""
        if storage in self._places:
            return first_of(self._places[storage])
        if storage.kind == "result":
            return first_of(self._result_places[storage.index])
        return super().address(storage)

    # The stack

    def _push(self) -> list[Stmt]:
        """Make the call: save what is read after it, and go on with its arguments on the next level."""
        function, call = self.function, self.recursion.call
        reads: list[Stmt] = []
        writes: list[Stmt] = []

        def set_later(local: Buffer, value: PrimExpr) -> None:
            var = tirx.Var("next", dtype_of(local))
            reads.append(tirx.Bind(var, as_byte(value) if dtype_of(value) == "bool" else value))
            writes.append(store_first(local, var))

        for param, arg in zip(function.parameters, call.args, strict=True):
            if param is not arg:
                set_later(self._local_of(param), self.load(arg))
        for number, local in self._result_places.items():
            result = call.results[number]
            assert isinstance(result, aot.Storage)
            set_later(local, self.address(result))
        declared, places = self._places_on_stack()
        saved = [store_first(place, first_of(local)) for local, place in places]
        is_full = tirx.EQ(first_of(self._number), first_of(self._capacity))
        grow = tirx.IfThenElse(is_full, sequence(self._next_piece()), None)
        # The order matters: arguments are read on this level, what is needed later is saved there,
        # and only then do the parameters become those of the next level.
        return [*reads, *declared, *saved, *self._move(1), grow, *writes, *self._count_round()]

    def _pop(self) -> list[Stmt]:
        """Go back to the level before, and give it the results of its call."""
        is_first = tirx.EQ(first_of(self._number), as_expr(0))
        back = tirx.IfThenElse(is_first, sequence(self._piece_before()), None)
        declared, places = self._places_on_stack()
        loaded = [store_first(local, first_of(place)) for local, place in places]
        results = [
            (result, self._outcomes[number])
            for number, result in enumerate(self.recursion.call.results)
            if isinstance(result, aot.Register)
        ]
        given = self._assign(aot.Assign(tuple(results))) if results else []
        return [back, *self._move(-1), *declared, *loaded, *given]

    def _move(self, by: int) -> list[Stmt]:
        """Move to the next level, or to the one before, which is in the same piece."""
        steps = [
            (self._depth, as_expr(by)),
            (self._number, as_expr(by)),
            (self._level, self._level_bytes * by),
        ]
        return [store_first(local, first_of(local) + step) for local, step in steps]

    def _local_of(self, value: aot.Register | aot.Storage) -> Buffer:
        return self._places[value] if value in self._places else self.local(value)

    def _places_on_stack(self) -> tuple[list[Stmt], list[tuple[Buffer, Buffer]]]:
        """Declare the places on the stack of what a level saves; return each after what it is saved from."""
        level = tirx.Var("saved_at", "int64")
        statements: list[Stmt] = [tirx.Bind(level, first_of(self._level))]
        places: list[tuple[Buffer, Buffer]] = []
        saved = map(self._local_of, self.recursion.saved)
        for number, local in enumerate((*saved, *self._result_places.values())):
            dtype = dtype_of(local)
            place = tirx.decl_buffer((1,), dtype, "saved", data_alignment=item_bytes(dtype))
            statements.append(tirx.DeclBuffer(place, data=as_pointer(level + as_expr(8 * number))))
            places.append((local, place))
        return statements, places

    def _next_piece(self) -> list[Stmt]:
        """Begin a new piece; its first words are the last one's address, size, number of levels and end."""
        last = [tirx.BufferLoad(self._piece, [as_expr(word)]) for word in range(2)]
        values = [*last, first_of(self._capacity), first_of(self._level)]
        last_values = [tirx.Var("last", "int64") for _ in values]
        words = words_at("piece")
        # Doubling makes the number of allocations logarithmic in the depth.
        twice = tirx.max(as_expr(_SMALLEST_BYTES), first_of(self._capacity) * self._level_bytes * 2)
        nbytes = tirx.min(as_expr(_LARGEST_BYTES), twice)
        return [
            # Read before the piece is replaced: the new piece remembers where the old one ends.
            *(tirx.Bind(var, value) for var, value in zip(last_values, values, strict=True)),
            *self._set_piece(as_expr(0), as_expr(0)),
            *self._reserve_piece(nbytes),
            tirx.DeclBuffer(words, data=as_pointer(first_of(self._piece))),
            *(tirx.BufferStore(words, var, [as_expr(word)]) for word, var in enumerate(last_values)),
        ]

    def _piece_before(self) -> list[Stmt]:
        """Free the piece, and go to the end of the one before."""
        words, address = words_at("piece"), tirx.Var("piece_at", "int64")
        last = [tirx.Var("last", "int64") for _ in range(4)]
        return [
            tirx.Bind(address, first_of(self._piece)),
            tirx.DeclBuffer(words, data=as_pointer(address)),
            *(tirx.Bind(var, tirx.BufferLoad(words, [as_expr(word)])) for word, var in enumerate(last)),
            store_first(self._total, first_of(self._total) - first_of(self._capacity) * self._level_bytes),
            # A piece is freed as soon as it is left, so that a program that recurs several times
            # needs the deepest recursion's memory only.
            self._drop_piece(),
            *self._set_piece(last[0], last[1]),
            store_first(self._capacity, last[2]),
            store_first(self._number, last[2]),
            store_first(self._level, last[3]),
        ]

    def _set_piece(self, address: PrimExpr, nbytes: PrimExpr) -> list[Stmt]:
        words = enumerate((address, nbytes))
        return [tirx.BufferStore(self._piece, value, [as_expr(word)]) for word, value in words]

    def _drop_piece(self) -> Stmt:
        drop = ir.Call(DROP, [self.state_address, pointer_to(self._piece)], ret_ty=ir.PrimType("int32"))
        return tirx.Evaluate(drop)

    def _reserve_piece(self, nbytes: PrimExpr) -> list[Stmt]:
        """Reserve a piece of about so many bytes, and begin with its first level."""
        levels = tirx.Var("levels", "int64")
        too_large = exceeds_any_memory(as_expr(self.function.workspace))
        total = first_of(self._total) + levels * self._level_bytes
        is_short = tirx.Or(too_large, total > tirx.const(_MOST_BYTES, "int64"))
        return [
            tirx.Bind(levels, tirx.max(tirx.truncdiv(nbytes, self._level_bytes), as_expr(1))),
            tirx.IfThenElse(is_short, sequence(self.fail(FAILED)), None),
            store_first(self._total, total),
            *self._reserve(pointer_to(self._piece), levels * self._level_bytes + as_expr(aot.ALIGNMENT)),
            store_first(self._capacity, levels),
            store_first(self._number, as_expr(0)),
            store_first(self._level, first_of(self._piece) + as_expr(aot.ALIGNMENT)),
        ]
