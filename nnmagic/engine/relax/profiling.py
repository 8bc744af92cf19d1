"""Time the kernels of one call, and count the bytes and operations of each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer

from nnmagic.engine import relax
from nnmagic.engine.kernel_time import KernelTime
from nnmagic.engine.relax.artifact import VALUE
from nnmagic.engine.relax.codegen import relax_pipeline
from nnmagic.engine.relax.codegen.aot.planner import plan_aot_program
from nnmagic.engine.relax.codegen.aot.program import kernel_sizes
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram, add_clock
from nnmagic.engine.relax.codegen.build import build_aot
from nnmagic.engine.relax.codegen.target import resolve_target
from nnmagic.engine.relax.deferred_interrupts import run_interruptible
from nnmagic.engine.relax.interpreter.executable import InterpretedProgram
from nnmagic.engine.relax.lowering.origins import KernelOrigins
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
from nnmagic.engine.relax.runtime.vm_executable import ENTRY, MachineExecutable, VmExecutable
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.visitors import replace_vars, visit
from nnmagic.relay.module import Module
from nnmagic.relay.types import NUMPY_DTYPES, TensorType

#: A kernel is run again until it took so long, or so often; the least time counts.
_SECONDS, _MOST, _LEAST = 0.05, 200, 3
#: The same of an AOT program as a whole.
_CLOCKED_SECONDS, _MOST_CLOCKED = 0.2, 100_000
#: How many calls of a kernel with equal shapes are timed; further ones are taken to be as quick.
_TIMED = 3

_FLOATING = ("float", "bfloat")
_COUNTED = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min)


def kernel_times(
    module: Module,
    entry: str,
    executable: AotExecutable | VmExecutable | InterpretedProgram,
    arrays: Sequence[np.ndarray],
    *,
    target: str | Mapping[str, object] | None,
    opt_level: int,
) -> list[KernelTime]:
    """Return the kernels of a call in their order, each with the least time of many runs.

    An AOT program is compiled again so that it reads the clock between its kernels, so that the same code is
    timed on the same threads. A virtual machine runs once, and each of its kernels many times.
    """
    resolved = resolve_target(target, opt_level)
    origins = KernelOrigins()
    compiled = executable.compiled()
    lowered = compiled.lowered
    if compiled.artifact is not executable.artifact:  # kernels that were found may have other names
        executable = relax.load(compiled.artifact, module, entry, target=target, opt_level=opt_level)
    if isinstance(executable, AotExecutable):
        aot = executable
        program, clocked = run_interruptible(
            lambda: _build_with_clock(aot, lowered, resolved, opt_level, origins)
        )
        return _with_origins(_measure_kernels(program, clocked, arrays), origins)
    if not isinstance(executable, MachineExecutable):
        executable = relax.build_instrumentable(module, entry, target=target, opt_level=opt_level)
        lowered = executable.compiled().lowered
    grouped = run_interruptible(lambda: _fuse(lowered, resolved, opt_level, origins))
    kernels = {
        var.name_hint: function
        for var, function in grouped.functions_items()
        if isinstance(function, tirx.PrimFunc)
    }
    watch = _Watch(kernels)
    executable.run_instrumented(arrays, watch)
    return _with_origins(watch.times(), origins)


def _with_origins(kernels: Sequence[KernelTime], origins: KernelOrigins) -> list[KernelTime]:
    """Return the kernels with what they compute."""
    names = [kernel.name for kernel in kernels]
    return [replace(kernel, origins=origins.of(kernel.name, names)) for kernel in kernels]


def _fuse(
    lowered: tvm.IRModule, target: tvm.target.Target, opt_level: int, origins: KernelOrigins
) -> tvm.IRModule:
    with relax_pipeline.COMPILING:
        return relax_pipeline.fuse_kernels(lowered, target, opt_level, origins)


def _build_with_clock(
    executable: AotExecutable,
    lowered: tvm.IRModule,
    target: tvm.target.Target,
    opt_level: int,
    origins: KernelOrigins,
) -> tuple[AotProgram, AotExecutable]:
    """Return an AOT program and its executable, whose last result holds the times of its kernels."""
    with relax_pipeline.COMPILING:
        grouped = relax_pipeline.fuse_kernels(lowered, target, opt_level, origins)
        facts = executable.artifact.facts
        measured = "measured results" in facts or "left" in facts
        lengths = [array for array, axis in facts["dims"] if axis == VALUE]
        program = plan_aot_program(grouped, ENTRY, lengths=lengths, measured_results=measured)
        assert program is not None
        add_clock(program)
        shape = tuple(int(dim) for dim in program.results[-1].shape)
        compiled = build_aot(program, lowered, origins, target, opt_level)
    return program, executable.with_result(TensorType(shape, "int64"), compiled)


def _measure_kernels(
    program: AotProgram, clocked: AotExecutable, arrays: Sequence[np.ndarray]
) -> list[KernelTime]:
    """Run a program with a clock many times and return its kernels, each with the least of its times."""
    best = np.full(len(program.clocked), np.inf)
    begin, runs = time.perf_counter(), 0
    while runs < _LEAST or (time.perf_counter() - begin < _CLOCKED_SECONDS and runs < _MOST_CLOCKED):
        *_, times = clocked(arrays)
        best = np.minimum(best, times[: len(best), 0])
        runs += 1
    totals: dict[str, KernelTime] = {}
    for step, nanoseconds, row in zip(program.clocked, best, times, strict=False):
        calls = int(row[1])
        if not calls:
            continue
        kernel = program.kernels[step.kernel]
        lengths = dict(zip(kernel_sizes(kernel), map(as_expr, row[2:].tolist()), strict=False))
        buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
        shapes = [tuple(_length(dim, lengths) for dim in buffer.ty.shape) for buffer in buffers]
        nbytes = sum(
            math.prod(shape) * NUMPY_DTYPES[str(buffer.ty.dtype)].itemsize
            for buffer, shape in zip(buffers, shapes, strict=True)
        )
        seconds = max(float(nanoseconds), 1.0) * 1e-9
        operations = calls * flops(kernel, shapes)
        _add(totals, KernelTime(step.kernel.name_hint, calls, seconds, calls * nbytes, operations))
    return list(totals.values())


def _add(totals: dict[str, KernelTime], kernel: KernelTime) -> None:
    """Add the calls of a kernel to those that have its name."""
    before = totals.get(kernel.name, KernelTime(kernel.name, 0, 0.0, 0, 0))
    totals[kernel.name] = KernelTime(
        kernel.name,
        before.calls + kernel.calls,
        before.seconds + kernel.seconds,
        before.nbytes + kernel.nbytes,
        before.flops + kernel.flops,
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
            operations = calls * flops(self._kernels[name], shapes)
            _add(totals, KernelTime(name, calls, calls * min(timed), calls * self._bytes[key], operations))
        return list(totals.values())


def _least(function: Callable[..., Any], args: Sequence[object]) -> float:
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


def flops(kernel: tirx.PrimFunc, shapes: Sequence[tuple[int, ...]]) -> int:
    """Count the floating-point operations of a kernel whose loops are still as its operators have them."""
    lengths: dict[Any, Any] = {}
    buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    for buffer, shape in zip(buffers, shapes, strict=False):
        for dim, length in zip(buffer.ty.shape, shape, strict=False):
            if isinstance(dim, tirx.Var):
                lengths[dim] = tirx.const(length, str(dim.ty.dtype))
    blocks: list[Any] = []
    visit(kernel.body, [(s_tir.SBlock, blocks.append)])
    total = 0
    for block in blocks:
        if block.iter_vars:
            rounds = math.prod(_length(var.dom.extent, lengths) for var in block.iter_vars)
            total += _operations(block.body) * rounds
    return total


def _operations(body: Any) -> int:
    """Count the floating-point operations of one iteration of a block."""
    operations: list[Any] = []

    def count(node: Any) -> None:
        if str(node.ty.dtype).startswith(_FLOATING):
            operations.append(node)

    visit(body, [(kind, count) for kind in (*_COUNTED, ir.Call)])
    return len(operations)


def _length(extent: Any, lengths: Mapping[Any, Any]) -> int:
    told = replace_vars(extent, lengths)
    length = Analyzer().simplify(told)
    return int(length.value) if isinstance(length, tirx.IntImm) else 0
