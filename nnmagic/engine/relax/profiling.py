"""Time the kernels of one call, and count the bytes and operations of each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
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
from nnmagic.engine.relax.lowering.origins import KernelOrigins
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
from nnmagic.engine.relax.runtime.vm_executable import MachineExecutable, VmExecutable
from nnmagic.engine.relax.tir.builders import as_expr, is_conditional, item_bytes
from nnmagic.engine.relax.tir.regions import expand_regions
from nnmagic.engine.relax.tir.types import PrimExpr, Var
from nnmagic.engine.relax.tir.visitors import replace_vars, visit
from nnmagic.relay.module import Module
from nnmagic.relay.types import TensorType

#: A kernel is run again until it took so long, or so often; the least time counts.
_SECONDS, _MOST, _LEAST = 0.05, 200, 3
#: The same of an AOT program as a whole.
_CLOCKED_SECONDS, _MOST_CLOCKED = 0.1, 100_000
#: How many calls of a kernel with equal shapes are timed; further ones are taken to be as quick.
_TIMED = 3

_FLOATING = ("float", "bfloat")
_REINTERPRET = ir.Op.get("tirx.reinterpret")
_COUNTED = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min)


def kernel_times(
    module: Module,
    entry: str,
    executable: AotExecutable | VmExecutable | InterpretedProgram,
    arrays: Sequence[Any],
    *,
    target: str | Mapping[str, object] | None,
    opt_level: int,
) -> tuple[list[KernelTime], float]:
    """Return the kernels of a call in their order, as the fastest of many runs has them, and its time.

    An AOT program is compiled again so that it reads the clock between its kernels, so that the same code is
    timed on the same threads. A virtual machine runs once, and each of its kernels many times.
    """
    resolved = resolve_target(target, opt_level)
    compiled = executable.compiled()
    lowered = compiled.lowered
    if compiled.artifact is not executable.artifact:  # kernels that were found may have other names
        executable = relax.load(compiled.artifact, module, entry, target=target, opt_level=opt_level)
    if isinstance(executable, AotExecutable):
        assert isinstance(compiled, RelaxProgram)
        done = compiled
        with relax_pipeline.COMPILING:
            program, clocked = run_interruptible(lambda: build_with_clock(done, resolved, opt_level))
        shape = tuple(int(dim) for dim in program.results[-1].shape)
        timed = executable.with_result(TensorType(shape, "int64"), clocked)
        kernels, seconds = _measure_kernels(program, timed, arrays)
        return _with_origins(kernels, done.origins), seconds
    origins = KernelOrigins()
    if not isinstance(executable, MachineExecutable):
        executable = relax.build_instrumentable(module, entry, target=target, opt_level=opt_level)
        lowered = executable.compiled().lowered
    grouped = run_interruptible(lambda: _fuse(lowered, resolved, opt_level, origins))
    functions = {
        var.name_hint: function
        for var, function in grouped.functions_items()
        if isinstance(function, tirx.PrimFunc)
    }
    watch = _Watch(functions)
    executable.run_instrumented(arrays, watch)
    return _with_origins(watch.times(), origins), math.inf


def _with_origins(kernels: Sequence[KernelTime], origins: KernelOrigins) -> list[KernelTime]:
    """Return the kernels with what they compute."""
    names = [kernel.name for kernel in kernels]
    return [replace(kernel, origins=origins.of(kernel.name, names)) for kernel in kernels]


def _fuse(
    lowered: tvm.IRModule, target: tvm.target.Target, opt_level: int, origins: KernelOrigins
) -> tvm.IRModule:
    with relax_pipeline.COMPILING:
        return relax_pipeline.fuse_kernels(lowered, target, opt_level, origins)


def _measure_kernels(
    program: AotProgram, clocked: AotExecutable, arrays: Sequence[Any]
) -> tuple[list[KernelTime], float]:
    """Run a program with a clock many times and return its kernels in the fastest run, and its time.

    What reading the clock takes is taken off.
    """
    calls = program.clocked or []
    best = np.full(len(calls) + 1, np.inf)
    begin = end = time.perf_counter()
    runs, least = 0, math.inf
    while runs < _LEAST or (end - begin < _CLOCKED_SECONDS and runs < _MOST_CLOCKED):
        before = time.perf_counter()
        *_, times = clocked(arrays)
        end = time.perf_counter()
        if end - before < least:
            best, least = times[:, 0].copy(), end - before
        runs += 1
    totals: dict[str, KernelTime] = {}
    for step, nanoseconds, row in zip(calls, best, times, strict=False):
        count = int(row[1])
        if not count:
            continue
        kernel = program.kernels[step.kernel]
        lengths = dict(zip(kernel_sizes(kernel), map(as_expr, row[2:].tolist()), strict=False))
        seconds = max(float(nanoseconds) - count * float(best[-1]), 1.0) * 1e-9
        work = count_work(kernel, lengths)
        name = step.kernel.name_hint
        _add(totals, KernelTime(name, count, seconds, count * work.nbytes, count * work.flops, work.exact))
    return list(totals.values()), least


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


class _Watch:
    """Times each kernel at its first calls, when its arguments exist."""

    def __init__(self, kernels: Mapping[str, tirx.PrimFunc]) -> None:
        self._kernels = kernels
        self._timed: dict[tuple[str, tuple[tuple[int, ...], ...]], list[float]] = {}
        self._calls: dict[tuple[str, tuple[tuple[int, ...], ...]], int] = {}
        self._bytes: dict[tuple[str, tuple[tuple[int, ...], ...]], int] = {}

    def __call__(self, function: Callable[..., Any], name: str, *rest: Any) -> None:
        before, _result, *args = rest
        if not before or name not in self._kernels:
            return
        tensors = [arg for arg in args if isinstance(arg, tvm.runtime.Tensor)]
        key = name, tuple(tuple(map(int, tensor.shape)) for tensor in tensors)
        timed = self._timed.setdefault(key, [])
        if len(timed) < _TIMED:
            timed.append(_least(function, args))
        self._calls[key] = self._calls.get(key, 0) + 1
        self._bytes[key] = sum(map(_nbytes, tensors))

    def times(self) -> list[KernelTime]:
        """Return the kernels that were called, those with one name together."""
        totals: dict[str, KernelTime] = {}
        for key, timed in self._timed.items():
            name, shapes = key
            calls = self._calls[key]
            kernel = self._kernels[name]
            work = count_work(kernel, _lengths_of(kernel, shapes))
            nbytes = calls * self._bytes[key]
            _add(totals, KernelTime(name, calls, calls * min(timed), nbytes, calls * work.flops, work.exact))
        return list(totals.values())


def _least(function: Callable[..., Any], args: Sequence[Any]) -> float:
    """Return the minimum time of a kernel's runs, which write its results again and again."""
    best, spent, runs = math.inf, 0.0, 0
    while runs < _LEAST or (spent < _SECONDS and runs < _MOST):
        begin = time.perf_counter()
        function(*args)
        seconds = time.perf_counter() - begin
        best, spent, runs = min(best, seconds), spent + seconds, runs + 1
    return best


def _nbytes(tensor: Any) -> int:
    bits = tvm.DataType(str(tensor.dtype)).bits
    return math.prod(map(int, tensor.shape)) * max(int(bits), 8) // 8


def _lengths_of(kernel: tirx.PrimFunc, shapes: Sequence[tuple[int, ...]]) -> dict[Var, PrimExpr]:
    """Return the sizes that a kernel has for arrays of these shapes."""
    buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    return {
        dim: tirx.const(length, str(dim.ty.dtype))
        for buffer, shape in zip(buffers, shapes, strict=False)
        for dim, length in zip(buffer.ty.shape, shape, strict=False)
        if isinstance(dim, tirx.Var)
    }


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
    return all(isinstance(part, tirx.FloatImm | tirx.IntImm) or _is_hidden(part) for part in parts)


def _is_hidden(part: Any) -> bool:
    return isinstance(part, ir.Call) and _is_constant(part)


def _length(extent: Any, lengths: Mapping[Var, PrimExpr]) -> int | None:
    """Return a size for these sizes; None where they do not decide it."""
    length = Analyzer().simplify(replace_vars(extent, lengths))
    return int(length.value) if isinstance(length, tirx.IntImm) else None
