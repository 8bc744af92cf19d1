"""Emit the ends of native functions: failures, polls for interrupts, frames of recursion."""

from __future__ import annotations

from functools import cache

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.bodies.registers import (
    RegisterEmitter,
    first_of,
    store_first,
    store_word,
)
from nnmagic.engine.relax.codegen.aot.counted_loops import find_carried
from nnmagic.engine.relax.codegen.aot.heap import DROP
from nnmagic.engine.relax.codegen.aot.memory import depends_on, exceeds_any_memory, round_up
from nnmagic.engine.relax.runtime.callbacks import POLL
from nnmagic.engine.relax.runtime.compiled_program import MAX_CALL_DEPTH, MAX_LEVELS
from nnmagic.engine.relax.runtime.native_entry import FAILED, INTERRUPTED, TOO_DEEP, TOO_LONG, TOO_MANY_LEVELS
from nnmagic.engine.relax.tir.builders import (
    FAIL,
    as_expr,
    as_pointer,
    dtype_of,
    item_bytes,
    sequence,
    unlikely,
    words_at,
)
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, PrimFunc, Stmt

_BUDGET, _ROUNDS = aot.Register("int64", "budget"), aot.Register("int64", "rounds")

_INT32 = ir.PrimType("int32")

#: The function that asks whether the call is to stop.
ASK = ir.GlobalVar("ask_to_stop")

#: Marks a function that LLVM is to put into no other.
APART = "nnmagic.apart"

#: The work of rounds of a loop, in elements, after which the program asks whether it is to be interrupted.
_POLL_WORK = 1 << 19

#: The work after which a call that CPython makes directly gives up, to be begun again through Python, where
#: it can be interrupted: tens of microseconds.
_DIRECT_WORK = 1 << 14


class EndsEmitter(RegisterEmitter):
    """Ends a function, counts its work, and asks now and then whether to stop."""

    caller: EndsEmitter | None

    def fail(self, code: int) -> list[Stmt]:
        """End the function, and those that called it, with a code."""
        if self.caller is not None:
            return self.caller.fail(code)
        if self.is_entry:
            return [*self.release, tirx.Return(tirx.const(code, "int32"))]
        assert self.state is not None
        return [store_word(self.state, aot.STATUS, as_expr(code)), *self.leave()]

    def leave(self, code: int | None = None) -> list[Stmt]:
        """End the function; ``code`` is the entry's, by default the state's."""
        if self.caller is not None:
            return self.caller.leave(code)
        if self.is_entry and code is not None:
            # Otherwise all that the program allocated is freed on every way out.
            if code == 0 and self.function.left:  # whoever called reads them first
                return [tirx.Return(tirx.const(code, "int32"))]
            return [*self.release, tirx.Return(tirx.const(code, "int32"))]
        if self.is_entry:
            assert self.state is not None
            status = self.state[aot.STATUS].astype("int32")
            raised = tirx.EQ(status, tirx.const(0, "int32"))  # a packed function, which does not write it
            return [*self.release, tirx.Return(tirx.Select(raised, tirx.const(INTERRUPTED, "int32"), status))]
        freed, ended = ([], [FAIL]) if code is None else (self._free_blocks(), [])
        return [*freed, *self.frame, *ended, tirx.Return(tirx.const(0, "int32"))]

    def _enter(self) -> list[Stmt]:
        """Fail where no more calls may be inside of others, and count the work."""
        assert self.state is not None
        too_deep = tirx.IfThenElse(self.levels < as_expr(0), sequence(self.fail(TOO_DEEP)), None)
        if self._has_loops(self.function):
            return [too_deep, *self.spend_and_poll(self._work())]
        spent = store_word(self.state, aot.WORK, self.state[aot.WORK] - self._work())
        return [too_deep, spent, self._poll(self.state, aot.WORK)]

    def _has_loops(self, function: aot.NativeFunction) -> bool:
        """Return whether a function, or one that is a part of it, has loops, which count their work."""
        return function.loops or any(
            isinstance(step, aot.FunctionCall)
            and step.callee not in self.variables
            and self._has_loops(step.callee)
            for step in function.steps()
        )

    def _count_round(self) -> list[Stmt]:
        """Count the calls of a function at its own end, of which there may be no more than other ones."""
        if not self.function.counts_rounds:
            return []
        if _ROUNDS not in self.locals:
            self.locals[_ROUNDS] = self.new_local("int64", "rounds")
            self.declared.append(store_first(self.locals[_ROUNDS], as_expr(0)))
        rounds = first_of(self.locals[_ROUNDS])
        is_of_cells = any(isinstance(step, aot.MakeCell | aot.ReadCell) for step in self.function.steps())
        most, code = (MAX_LEVELS, TOO_MANY_LEVELS) if is_of_cells else (MAX_CALL_DEPTH, TOO_DEEP)
        return [
            store_first(self.locals[_ROUNDS], rounds + as_expr(1)),
            tirx.IfThenElse(rounds >= as_expr(most), sequence(self.fail(code)), None),
        ]

    def _allocate_frame(self) -> list[Stmt]:
        """Allocate a workspace of the function's own."""
        state = self.state
        assert state is not None
        failed = sequence([store_word(state, aot.STATUS, as_expr(FAILED)), *self.leave()])
        statements: list[Stmt] = []
        if not isinstance(self.function.workspace, int):
            too_large = exceeds_any_memory(self.function.workspace)
            statements.append(tirx.IfThenElse(too_large, failed, None))
        nbytes = as_expr(self.function.workspace) + as_expr(aot.ALIGNMENT)
        # C's malloc, which all systems have, as a function of numbers: TVM's passes cannot rewrite a pointer
        # that is reinterpreted as a number.
        allocated, address = tirx.Var("allocated", "int64"), tirx.Var("frame", "int64")
        statements += [
            tirx.Bind(allocated, tirx.call_extern("int64", "malloc", nbytes)),
            tirx.IfThenElse(tirx.EQ(allocated, as_expr(0)), failed, None),
            # malloc aligns to 16 bytes, vectors need more: ALIGNMENT bytes were added for this.
            tirx.Bind(address, round_up(allocated)),
        ]
        self.workspace = address
        self.frame = [tirx.Evaluate(tirx.call_extern("void", "free", as_pointer(allocated)))]
        return statements

    def _free_blocks(self) -> list[Stmt]:
        """Give back the memory that the function allocated."""
        statements: list[Stmt] = []
        for storage, blocks in self.blocks.items():
            for number in range(storage.copies):
                address = address_of(blocks, as_expr(2 * number))
                drop = ir.Call(DROP, [self.state_address, address], ret_ty=_INT32)
                is_used = tirx.BufferLoad(blocks, [as_expr(2 * number)]) != as_expr(0)
                statements.append(tirx.IfThenElse(is_used, tirx.Evaluate(drop), None))
        return statements

    def _budget(self) -> Buffer:
        """Return the counter of the work until the next poll, which all loops of a TIR function share.

        Functions hand it on in the state.
        """
        if self.caller is not None:
            return self.caller._budget()
        if _BUDGET not in self.locals:
            self.locals[_BUDGET] = self.new_local("int64", "budget")
            first = self.first_budget() if self.is_entry or self.state is None else self.state[aot.WORK]
            self.declared.append(store_first(self.locals[_BUDGET], first))
        return self.locals[_BUDGET]

    def spend(self, work: Extent) -> Stmt:
        """Take work, in elements, from what is left until the next poll."""
        budget = self._budget()
        return store_first(budget, first_of(budget) - as_expr(work))

    def first_budget(self) -> PrimExpr:
        """Return the work that a call may do before its first poll."""
        if self.state is None:
            return as_expr(_POLL_WORK)
        is_direct = tirx.NE(self.state[aot.DIRECT], as_expr(0))
        return tirx.Select(is_direct, as_expr(_DIRECT_WORK), as_expr(_POLL_WORK))

    def _hand_on_budget(self) -> list[Stmt]:
        """Write the counter of work, and where the next cell begins, to the state, for another function."""
        if self.caller is not None:
            return self.caller._hand_on_budget()
        cells = [] if self.cells is None else [store_word(self.state, aot.CELLS, first_of(self.cells))]
        if _BUDGET not in self.locals:
            return cells
        return [*cells, store_word(self.state, aot.WORK, first_of(self.locals[_BUDGET]))]

    def _take_budget(self) -> list[Stmt]:
        """Read the same from the state, after another function."""
        if self.caller is not None:
            return self.caller._take_budget()
        if self.state is None:
            return []
        cells = [] if self.cells is None else [store_first(self.cells, self.state[aot.CELLS])]
        if _BUDGET not in self.locals:
            return cells
        return [*cells, store_first(self.locals[_BUDGET], self.state[aot.WORK])]

    def _work(self) -> PrimExpr:
        """Return the work of a round, or of a call, in elements."""
        work: PrimExpr = as_expr(1)
        for step in self.function.steps():
            if isinstance(step, aot.KernelCall) and not self._counts_its_work(step):
                work = work + as_expr(step.work)
        return work

    def _counts_its_work(self, step: aot.KernelCall) -> bool:
        """Return whether the work of a kernel is known when it is called, and not at the end of a round."""
        return depends_on(step.work, {**self.function.named, **dict.fromkeys(self.function.carried_dims)})

    def _save_registers(self) -> tuple[list[Stmt], list[Stmt]]:
        """Return statements that save what the loops around here carry, and that load it again.

        LLVM would keep it in memory throughout if it had to survive a call: no vector register does.
        """
        save: list[Stmt] = []
        restore: list[Stmt] = []
        emitter: EndsEmitter | None = self
        while emitter is not None:
            function = emitter.function
            carried = find_carried(function) - {emitter.counter}
            registers = [param for param in function.parameters if isinstance(param, aot.Register)]
            for number, register in enumerate(registers):
                if register not in carried:
                    continue
                local = emitter.local(register)
                dtype = dtype_of(local)
                slot = tirx.decl_buffer((1,), dtype, "saved", data_alignment=item_bytes(dtype))
                address = self.state_address + as_expr(8 * (function.saved + number))
                save += [tirx.DeclBuffer(slot, data=as_pointer(address)), store_first(slot, first_of(local))]
                restore.append(store_first(local, first_of(slot)))
            emitter = emitter.caller
        return save, restore

    def _poll(self, budget: Buffer, number: int = 0) -> Stmt:
        """Ask whether to stop if the budget is spent; a call that CPython makes directly gives up then."""
        is_spent = unlikely(tirx.BufferLoad(budget, [as_expr(number)]) <= as_expr(0))
        return tirx.IfThenElse(is_spent, sequence(self._ask(budget, number)), None)

    def _ask(self, budget: Buffer, number: int = 0) -> list[Stmt]:
        """Return the statements that ask whether to stop, where the budget is spent."""
        save, restore = self._save_registers()
        renewed = tirx.BufferStore(budget, as_expr(_POLL_WORK), [as_expr(number)])
        asked = self._or_leave(ir.Call(ASK, [self.state_address], ret_ty=_INT32))
        return [renewed, *save, *asked, *restore]

    def _or_leave(self, call: PrimExpr) -> list[Stmt]:
        """Return statements that call a function, and end this one if that failed."""
        code = tirx.Var("code", "int32")
        return [tirx.Bind(code, call), tirx.IfThenElse(code != 0, sequence(self.leave()), None)]

    def spend_and_poll(self, work: Extent) -> list[Stmt]:
        """Take work from what is left, and poll."""
        return [self.spend(work), self._poll(self._budget())]


@cache
def ask_function() -> PrimFunc:
    """Return the function of the state that fails if the call is to stop: its code is in no loop."""
    state, call, others = tirx.Var("state", "int64"), words_at("state_words"), words_at("stop")

    def stop_if(condition: PrimExpr, code: int) -> Stmt:
        stop = [store_word(call, aot.STATUS, as_expr(code)), FAIL, tirx.Return(tirx.const(0, "int32"))]
        return tirx.IfThenElse(condition, sequence(stop), None)

    look = [
        tirx.DeclBuffer(others, data=as_pointer(call[aot.STOP])),
        stop_if(first_of(others) < as_expr(0), INTERRUPTED),  # another thread of a parallel loop was
    ]
    statements = [
        tirx.DeclBuffer(call, data=as_pointer(state)),
        stop_if(tirx.NE(call[aot.DIRECT], as_expr(0)), TOO_LONG),
        stop_if(tirx.NE(tirx.call_packed(POLL), 0), INTERRUPTED),
        tirx.IfThenElse(tirx.NE(call[aot.STOP], as_expr(0)), sequence(look), None),
        tirx.Return(tirx.const(0, "int32")),
    ]
    return tirx.PrimFunc([state], sequence(statements), _INT32).with_attr(APART, 1)


def address_of(words: Buffer, number: PrimExpr) -> PrimExpr:
    """Return a pointer to one of some words."""
    return tirx.address_of(tirx.BufferLoad(words, [number]))
