"""The kernels of one call: how long each takes, what it reads and writes, what it computes. Knows TVM."""

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
from nnmagic.engine.relax.codegen import relax_pipeline
from nnmagic.engine.relax.codegen.aot_program import Array, Straight, add_times, straight
from nnmagic.engine.relax.codegen.build import direct_code
from nnmagic.engine.relax.codegen.target import resolve_target
from nnmagic.engine.relax.deferred_interrupts import held_back
from nnmagic.engine.relax.interpreter.executable import Evaluator
from nnmagic.engine.relax.runtime.aot_executable import Direct
from nnmagic.engine.relax.runtime.vm_executable import ENTRY, Executable
from nnmagic.engine.relax.tir.visitors import replaced, walk
from nnmagic.relay.expr import Function
from nnmagic.relay.module import Module
from nnmagic.relay.types import TensorType, TupleType

#: A kernel is run again until it took so long, or so often; the least time counts.
_SECONDS, _MOST, _LEAST = 0.05, 200, 3
#: The same of a straight program as a whole.
_CLOCKED_SECONDS, _MOST_CLOCKED = 0.2, 100_000
#: How many calls of a kernel with equal shapes are timed; further ones are taken to be as quick.
_TIMED = 3

_FLOATING = ("float", "bfloat")
_COUNTED = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min)


def kernel_times(
    module: Module,
    entry: str,
    executable: Direct | Executable | Evaluator,
    arrays: Sequence[Any],
    *,
    target: str | Mapping[str, object] | None,
    opt_level: int,
) -> list[KernelTime]:
    """Return the kernels of a call in their order, each with the least time of many runs.

    A straight program is compiled again with a look at the clock between its kernels: what is timed is the
    same code on the same threads. A virtual machine runs once, and each of its kernels many times.
    """
    resolved = resolve_target(target, opt_level)
    compiled = executable.compiled()
    lowered = compiled.lowered
    if compiled.artifact is not executable.artifact:  # kernels that were found may have other names
        executable = relax.load(compiled.artifact, module, entry, target=target, opt_level=opt_level)
    with relax_pipeline.COMPILING, held_back():
        grouped = relax_pipeline.grouped_in_kernels(lowered, resolved, opt_level)
        if isinstance(executable, Direct):
            program, timed = _with_clock(module.functions[entry], lowered, grouped, resolved, opt_level)
    if isinstance(executable, Direct):
        return _clocked_times(program, timed, arrays)
    kernels = {
        var.name_hint: function
        for var, function in grouped.functions_items()
        if isinstance(function, tirx.PrimFunc)
    }
    watch = _Watch(kernels)
    executable.watched(arrays, watch)
    return watch.times()


def _with_clock(
    function: Function,
    lowered: tvm.IRModule,
    grouped: tvm.IRModule,
    target: tvm.target.Target,
    opt_level: int,
) -> tuple[Straight, Direct]:
    """Return a straight program and its executable, whose last result are the times between its kernels."""
    program = straight(grouped, ENTRY)
    assert program is not None
    add_times(program)
    times = TensorType(program.results[-1].shape, program.results[-1].dtype)
    compiled = direct_code(program, lowered, target, opt_level)
    assert function.ret_type is not None
    timed = replace(function, ret_type=TupleType((function.ret_type, times)))
    return program, Direct(ENTRY, timed, compiled.artifact, lambda: compiled)


def _clocked_times(program: Straight, timed: Direct, arrays: Sequence[Any]) -> list[KernelTime]:
    """Run a program with a clock many times and return its kernels, each with the least of its times."""
    best = np.full(len(program.steps), np.inf)
    begin, runs = time.perf_counter(), 0
    while runs < _LEAST or (time.perf_counter() - begin < _CLOCKED_SECONDS and runs < _MOST_CLOCKED):
        *_, clock = timed(arrays)
        best = np.minimum(best, np.diff(clock[:, 0] * 10**9 + clock[:, 1]))
        runs += 1
    totals: dict[str, KernelTime] = {}
    for step, nanoseconds in zip(program.steps, best, strict=True):
        name, kernel = step.kernel.name_hint, program.kernels[step.kernel]
        shapes = [tuple(map(int, param.ty.shape)) for param in kernel.params]
        nbytes = sum(
            Array(str(param.ty.dtype), shape).nbytes
            for param, shape in zip(kernel.params, shapes, strict=True)
        )
        seconds = max(float(nanoseconds), 1.0) * 1e-9
        _add(totals, KernelTime(name, 1, seconds, nbytes, flops(kernel, shapes)))
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
    """Times each kernel when it is called for the first times: its arguments are there then."""

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


def _least(function: Callable[..., Any], args: Sequence[Any]) -> float:
    """The least time of a kernel's run; its results are written again and again."""
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
    """The floating-point operations of a kernel, whose loops are still as its operators have them."""
    lengths: dict[Any, Any] = {}
    buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    for buffer, shape in zip(buffers, shapes, strict=False):
        for dim, length in zip(buffer.ty.shape, shape, strict=False):
            if isinstance(dim, tirx.Var):
                lengths[dim] = tirx.const(length, str(dim.ty.dtype))
    blocks: list[Any] = []
    walk(kernel.body, [(s_tir.SBlock, blocks.append)])
    total = 0
    for block in blocks:
        if block.iter_vars:
            rounds = math.prod(_length(var.dom.extent, lengths) for var in block.iter_vars)
            total += _operations(block.body) * rounds
    return total


def _operations(body: Any) -> int:
    """The floating-point operations of one round of a block."""
    found: list[Any] = []

    def count(node: Any) -> None:
        if str(node.ty.dtype).startswith(_FLOATING):
            found.append(node)

    walk(body, [(kind, count) for kind in (*_COUNTED, ir.Call)])
    return len(found)


def _length(extent: Any, lengths: Mapping[Any, Any]) -> int:
    told = replaced(extent, [(ir.Var, lambda var: lengths.get(var, var))])
    known = Analyzer().simplify(told)
    return int(known.value) if isinstance(known, tirx.IntImm) else 0
