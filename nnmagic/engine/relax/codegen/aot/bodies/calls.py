"""Emit calls of kernels and of native functions."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.bodies.ends import address_of
from nnmagic.engine.relax.codegen.aot.bodies.registers import (
    as_byte,
    counts_levels,
    first_of,
    pointer_to,
    store_first,
    value_dtype,
)
from nnmagic.engine.relax.codegen.aot.bodies.steps import StepEmitter
from nnmagic.engine.relax.codegen.aot.cells import mark_cells, releases_cells
from nnmagic.engine.relax.codegen.aot.parallel_loops import ParallelCall
from nnmagic.engine.relax.runtime.native_entry import FAILED
from nnmagic.engine.relax.tir.builders import as_expr, as_pointer, dtype_of, sequence, words_at
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr, Stmt

_INT32 = ir.PrimType("int32")


class CallEmitter(StepEmitter):
    """Calls kernels and functions, and times kernels."""

    caller: CallEmitter | None

    def _kernel_call(self, step: aot.KernelCall) -> list[Stmt]:
        reads, writes = step.args[: step.reads], step.args[step.reads :]
        statements = self._choose_copies(writes)
        pointers: list[PrimExpr] = []
        after: list[Stmt] = []
        for value in reads:
            if isinstance(value, aot.Register):
                # Kernels take addresses: a register is spilled to a local array for the call. Not
                # the register's own array, whose address would escape and keep it in memory
                # throughout the loop.
                spilled = self.new_local(value_dtype(value), "operand")
                statements.append(store_first(spilled, first_of(self.local(value))))
                pointers.append(pointer_to(spilled))
            elif isinstance(value, aot.Immediate):
                pointers.append(as_pointer(self.constants[self.first_constant + value.index]))
            else:
                pointers.append(as_pointer(self.address(value)))
        for value in writes:
            if isinstance(value, aot.Register):
                pointers.append(self._outcome(value, after))
            else:
                assert isinstance(value, aot.Storage)
                pointers.append(as_pointer(self.address(value)))
        if step.joined is not None:
            return [*statements, *_joined(step, pointers), *after]
        if self._counts_its_work(step):
            after.append(self.spend(step.work))
        # What fails inside, a packed function, makes a kernel return another number.
        code = ir.Call(step.kernel, [*pointers, *step.sizes], ret_ty=_INT32)
        run: Stmt = tirx.IfThenElse(code != 0, sequence(self.fail(FAILED)), None)
        if self.clocked is not None:
            run = self._time(run, self.clocked.index(step), step.sizes)
        return [*statements, run, *after]

    def _outcome(self, register: aot.Register, after: list[Stmt]) -> PrimExpr:
        """Return where a call writes what becomes a register after it."""
        spilled = self.new_local(value_dtype(register), "outcome")
        after.append(store_first(self.local(register), first_of(spilled)))
        return pointer_to(spilled)

    def _time(self, run: Stmt, number: int, sizes: Sequence[PrimExpr]) -> Stmt:
        """Add the time of a call to a row of the times."""
        assert self.state is not None
        times = [self.new_local("int64", "time", 2) for _ in range(2)]
        width = 2 + max((len(call.sizes) for call in self.clocked or ()), default=0)
        row = words_at("row")
        stores = [
            tirx.BufferStore(row, row[0] + _passed(*times), [as_expr(0)]),
            tirx.BufferStore(row, row[1] + as_expr(1), [as_expr(1)]),
            *(
                tirx.BufferStore(row, as_expr(size), [as_expr(2 + position)])
                for position, size in enumerate(sizes)
            ),
        ]
        declared = tirx.DeclBuffer(row, data=as_pointer(self.state[aot.CLOCK] + as_expr(8 * width * number)))
        return sequence([_read_clock(times[0]), run, _read_clock(times[1]), declared, *stores])

    def _function_call(self, step: aot.FunctionCall) -> list[Stmt]:
        after_call = list[Stmt]()
        measured = step.callee.measured_results()
        written = [
            result
            for number, result in enumerate(step.results)
            if number not in step.callee.changed and number not in measured
        ]
        statements = self._choose_copies([*written, step.frame])
        if releases_cells(step):
            mark, release = mark_cells(self)
            statements += mark
            after_call += release
        blocks: dict[int, PrimExpr] = {}
        for number in measured:
            result = step.results[number]
            assert isinstance(result, aot.Storage)
            chosen, block, at = self._free_block(result)
            statements += chosen
            blocks[number] = address_of(block, at)
            after_call.append(store_first(self.local(result), tirx.BufferLoad(block, [at])))
        if step.result_dims:
            sizes = self.new_local("int64", "sizes", len(step.result_dims))
            blocks[len(step.results)] = address_of(sizes, as_expr(0))
            named = enumerate(step.result_dims)
            after_call += [tirx.Bind(dim, tirx.BufferLoad(sizes, [as_expr(at)])) for at, dim in named]
        if step.callee not in self.variables:
            return [*statements, *self._inlined(step, blocks), *after_call]
        if step.callee.parallel is not None:
            return [*statements, *self._parallel_call(step)]
        args: list[PrimExpr] = []
        after: list[Stmt] = []
        for value, param in zip(step.args, step.callee.parameters, strict=True):
            loaded = self.load(value)
            if isinstance(param, aot.Register) and param.dtype == "bool":
                loaded = as_byte(loaded)
            args.append(loaded)
        for number, result in enumerate(step.results):
            if isinstance(result, aot.Register):
                args.append(self._outcome(result, after))
            else:
                args.append(blocks[number] if number in blocks else self.address(result))
        if step.result_dims:
            args.append(blocks[len(step.results)])
        assert self.state is not None
        frame = self.address(step.frame)
        rest = [self.state_address, self.constants_address, frame]
        if counts_levels(step.callee, self.variables):
            rest.append(self.levels - 1 if step.callee.recursive else self.levels)
        call = ir.Call(self.variables[step.callee], [*step.sizes, *args, *rest], ret_ty=_INT32)
        return [
            *statements,
            *self._hand_on_budget(),
            *self._or_leave(call),
            *self._take_budget(),
            *after,
            *after_call,
        ]

    def _parallel_call(self, step: aot.FunctionCall) -> list[Stmt]:
        """Run a loop whose rounds threads share; what they need is bound before, and captured by value."""
        bound: list[Stmt] = []

        def bind(value: PrimExpr) -> PrimExpr:
            var = tirx.Var("captured", dtype_of(value))
            bound.append(tirx.Bind(var, value))
            return var

        loaded = [self.load(value) for value in step.args]
        args = [bind(as_byte(value) if dtype_of(value) == "bool" else value) for value in loaded]
        results = [
            None if isinstance(result, aot.Register) else bind(self.address(result))
            for result in step.results
        ]
        assert self.state is not None
        call = ParallelCall(
            step.callee,
            self.variables[step.callee],
            [bind(as_expr(size)) for size in step.sizes],
            args,
            results,
            bind(self.constants_address),
            bind(self.address(step.frame)),
            self.state,
        )
        statements = call.run(self.leave(), words_at)
        for number, result in enumerate(step.results):
            if isinstance(result, aot.Register):
                statements += call.reduce(number, self.local(result))
        return [*bound, *statements]

    def _inlined(self, step: aot.FunctionCall, blocks: Mapping[int, PrimExpr]) -> list[Stmt]:
        """Emit a function as a part of its only caller.

        ``blocks``: where the memory of results is whose sizes it measures, and where these sizes go.
        """
        raise NotImplementedError


def _joined(step: aot.KernelCall, pointers: Sequence[PrimExpr]) -> list[Stmt]:
    """Return a kernel as statements of the function, with its arrays where the pointers point."""
    kernel = step.joined
    assert kernel is not None
    arrays = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    statements: list[Stmt] = [
        tirx.Bind(var, size) for var, size in zip(aot.kernel_sizes(kernel), step.sizes, strict=True)
    ]
    for array, pointer in zip(arrays, pointers, strict=True):
        data = tirx.Var("data", pointer.ty)  # as `_declare` binds an address
        statements += [tirx.Bind(data, pointer), tirx.DeclBuffer(array, data=data)]
    return [*statements, kernel.body]


def _read_clock(times: Buffer) -> Stmt:
    """Return the statement that writes the time to an array: as C's ``timespec``, on Windows as ticks."""
    if sys.platform == "win32":
        read = tirx.call_extern("int32", "QueryPerformanceCounter", pointer_to(times))
    else:
        clock = tirx.const(time.CLOCK_MONOTONIC, "int32")
        read = tirx.call_extern("int32", "clock_gettime", clock, pointer_to(times))
    return tirx.Evaluate(read)


def _passed(before: Buffer, after: Buffer) -> PrimExpr:
    """Return the nanoseconds between two times."""
    if sys.platform == "win32":
        a_second = round(1 / time.get_clock_info("perf_counter").resolution)  # in ticks
        return tirx.floordiv((after[0] - before[0]) * as_expr(10**9), as_expr(a_second))
    return (after[0] - before[0]) * as_expr(10**9) + (after[1] - before[1])
