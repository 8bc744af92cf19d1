"""Time the kernels of one call, and count the bytes and operations of each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer

from nnmagic.engine import relax
from nnmagic.engine.kernel_time import KernelTime
from nnmagic.engine.relax.codegen import relax_pipeline
from nnmagic.engine.relax.codegen.aot.program import kernel_sizes
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.codegen.build import RelaxProgram, build_with_clock
from nnmagic.engine.relax.codegen.target import resolve_target
from nnmagic.engine.relax.deferred_interrupts import run_interruptible
from nnmagic.engine.relax.interpreter.executable import InterpretedProgram
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
from nnmagic.engine.relax.runtime.cell_executable import CellExecutable
from nnmagic.engine.relax.tir.builders import as_expr, is_conditional, item_bytes
from nnmagic.engine.relax.tir.regions import expand_regions
from nnmagic.engine.relax.tir.types import PrimExpr, Var
from nnmagic.engine.relax.tir.visitors import replace_vars, visit
from nnmagic.relay.module import Module
from nnmagic.relay.types import TensorType

#: A program is run again until it took so long, or so often; the fastest run counts.
_SECONDS, _MOST, _LEAST = 0.1, 100_000, 3

_FLOATING = ("float", "bfloat")
_REINTERPRET = ir.Op.get("tirx.reinterpret")
_COUNTED = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min)


def kernel_times(
    module: Module,
    entry: str,
    executable: AotExecutable | CellExecutable | InterpretedProgram,
    arrays: Sequence[Any],
    *,
    target: str | Mapping[str, object] | None,
    opt_level: int,
) -> tuple[list[KernelTime], float]:
    """Return the kernels of a call in their order, as the fastest of many runs has them, and its time.

    The program is compiled again so that it reads the clock between its kernels, so that the same code is
    timed on the same threads. What reading the clock takes is taken off.
    """
    resolved = resolve_target(target, opt_level)
    compiled = executable.compiled()
    if compiled.artifact is not executable.artifact:  # kernels that were found may have other names
        executable = relax.load(compiled.artifact, module, entry, target=target, opt_level=opt_level)
    convert: Callable[[Sequence[Any]], Sequence[Any]] = list
    if isinstance(executable, CellExecutable):
        convert, executable = executable.convert, executable.program
    assert isinstance(compiled, RelaxProgram)
    done = compiled
    with relax_pipeline.COMPILING:
        clocked = run_interruptible(lambda: build_with_clock(done, resolved, opt_level))
    programs = clocked.plan.programs
    shapes = (program.results[-1].shape for program in programs)
    tables = [TensorType(tuple(int(dim) for dim in shape), "int64") for shape in shapes]
    if isinstance(executable, AotExecutable):
        whole = executable.with_result(tables[0], clocked)
        times, seconds = _fastest(lambda: [(0, whole(convert(arrays))[-1])])
    else:
        run = executable.clocked(clocked.artifact, tables)
        times, seconds = _fastest(lambda: run(arrays))
    totals: dict[str, KernelTime] = {}
    for number, table in times:
        _count_calls(programs[number], table, totals)
    names = list(totals)
    origins = done.plan.origins
    return [replace(kernel, origins=origins.of(kernel.name, names)) for kernel in totals.values()], seconds


def _fastest(run: Callable[[], list[tuple[int, np.ndarray]]]) -> tuple[list[tuple[int, np.ndarray]], float]:
    """Run a program many times; return the times of its kernels in the fastest run, and what this took."""
    best: list[tuple[int, np.ndarray]] = []
    begin = end = time.perf_counter()
    runs, least = 0, math.inf
    while runs < _LEAST or (end - begin < _SECONDS and runs < _MOST):
        before = time.perf_counter()
        tables = run()
        end = time.perf_counter()
        if end - before < least:
            best, least = [(number, table.copy()) for number, table in tables], end - before
        runs += 1
    return best, least


def _count_calls(program: AotProgram, table: np.ndarray, totals: dict[str, KernelTime]) -> None:
    """Add the kernels that a call of a program has run."""
    for step, row in zip(program.clocked or (), table, strict=False):
        count = int(row[1])
        if not count:
            continue
        kernel = program.kernels[step.kernel]
        lengths = dict(zip(kernel_sizes(kernel), map(as_expr, row[2:].tolist()), strict=False))
        seconds = max(float(row[0]) - count * float(table[-1, 0]), 1.0) * 1e-9
        work = count_work(kernel, lengths)
        name = step.kernel.name_hint
        _add(totals, KernelTime(name, count, seconds, count * work.nbytes, count * work.flops, work.exact))


def _add(totals: dict[str, KernelTime], kernel: KernelTime) -> None:
    """Add the calls of a kernel to those that have its name."""
    before = totals.get(kernel.name, KernelTime(kernel.name, 0, 0.0, 0, 0))
    totals[kernel.name] = KernelTime(
        kernel.name,
        before.calls + kernel.calls,
        before.seconds + kernel.seconds,
        before.nbytes + kernel.nbytes,
        before.flops + kernel.flops,
        before.exact and kernel.exact,
    )


@dataclass(slots=True)
class Work:
    """What a kernel does: floating-point operations, and bytes of its arrays that it reads and writes.

    exact: whether the numbers of rounds of all its loops are known.
    """

    flops: int = 0
    nbytes: int = 0
    exact: bool = True


def count_work(kernel: tirx.PrimFunc, lengths: Mapping[Var, PrimExpr]) -> Work:
    """Count the work of a kernel whose loops are still as its operators have them."""
    kernel = expand_regions(kernel)
    buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    counter = _WorkCounter(lengths, dict.fromkeys(map(hash, buffers), 0))
    counter.count(kernel.body, 1)
    for buffer in buffers:
        size = item_bytes(str(buffer.ty.dtype))
        whole = math.prod(_length(dim, lengths) or 0 for dim in buffer.ty.shape)
        counter.work.nbytes += size * min(counter.accesses[hash(buffer)], whole)
    return counter.work


class _WorkCounter:
    """Counts the work of statements, and how often they access each array, by its hash: its address."""

    def __init__(self, lengths: Mapping[Var, PrimExpr], accesses: dict[int, int]) -> None:
        self.work, self.lengths, self.accesses = Work(), lengths, accesses

    def count(self, statement: Any, rounds: int) -> None:
        """Count a statement that runs so many times."""
        match statement:
            case tirx.SeqStmt():
                for part in statement.seq:
                    self.count(part, rounds)
            case tirx.For():
                extent = _length(statement.extent, self.lengths)
                self.work.exact &= extent is not None
                self.count(statement.body, rounds * (1 if extent is None else max(extent, 0)))
            case s_tir.SBlockRealize():
                self.count(statement.block.body, rounds)
            case tirx.IfThenElse():
                self._expression(statement.condition, rounds)
                self.work.exact &= isinstance(statement.condition, tirx.IntImm)
                self.count(statement.then_case, rounds)
                if statement.else_case is not None:
                    self.count(statement.else_case, rounds)
            case tirx.While():
                self.work.exact = False
                self.count(statement.body, rounds)
            case tirx.AttrStmt():
                self.count(statement.body, rounds)
            case _:
                if isinstance(statement, tirx.BufferStore):
                    self._access(statement.buffer, rounds)
                self._expression(statement, rounds)

    def _access(self, buffer: Any, rounds: int) -> None:
        if hash(buffer) in self.accesses:
            self.accesses[hash(buffer)] += rounds

    def _expression(self, part: Any, rounds: int) -> None:
        def count(node: Any) -> None:
            is_float = str(getattr(node.ty, "dtype", "")).startswith(_FLOATING)  # an address has no dtype
            if (
                is_float
                and not _is_constant(node)
                and not (isinstance(node, ir.Call) and is_conditional(node))
            ):
                self.work.flops += rounds

        loads: Any = lambda load: self._access(load.source, rounds)  # noqa: E731
        visit(part, [(ir.TensorLoad, loads), *((kind, count) for kind in (*_COUNTED, ir.Call))])


def _is_constant(node: Any) -> bool:
    """Return whether LLVM computes an operation: that of constants, of which some are hidden from TVM."""
    if isinstance(node, ir.Call):
        return bool(node.op == _REINTERPRET)
    parts = (node.a, node.b)
    return all(
        isinstance(part, tirx.FloatImm | tirx.IntImm) or (isinstance(part, ir.Call) and _is_constant(part))
        for part in parts
    )


def _length(extent: Any, lengths: Mapping[Var, PrimExpr]) -> int | None:
    """Return a size for these sizes; None where they do not decide it."""
    length = Analyzer().simplify(replace_vars(extent, lengths))
    return int(length.value) if isinstance(length, tirx.IntImm) else None
