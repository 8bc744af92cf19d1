"""TIR functions to machine code: the passes of TVM that a CPU needs, in order. Knows TVM only."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import s_tir, tirx

from nnmagic.engine.relax.deferred_interrupts import interrupt_safepoint
from nnmagic.engine.relax.schedules.registry import collect_blocks
from nnmagic.engine.relax.tir.flatten_buffers import flatten_buffers
from nnmagic.engine.relax.tir.let_to_buffer import let_to_buffers
from nnmagic.engine.relax.tir.strict_float import keep_float_subtraction
from nnmagic.engine.relax.tir.visitors import rewrite, visit
from nnmagic.engine.threads import cores

#: How many statements that store are a part: a hundred milliseconds of LLVM, of which ten are for any module.
_PART = 80

#: What is smaller is on the stack: the accumulators of a tile, which become registers.
_STACK_BYTES = 4096


def _on_the_stack(allocation: tirx.AllocBuffer) -> tirx.AllocBuffer:
    """An allocation, left to LLVM where it is small: TVM would ask its runtime for each."""
    type_ = allocation.buffer.ty
    if not all(isinstance(dim, tirx.IntImm) for dim in type_.shape):
        return allocation
    bits = math.prod(int(dim.value) for dim in type_.shape) * int(tvm.DataType(str(type_.dtype)).bits)
    if not 0 < bits <= 8 * _STACK_BYTES:
        return allocation
    return tirx.AllocBuffer(allocation.buffer, {"disable_lower_builtin": tirx.IntImm("bool", 1)})


def _in_memory_of_the_cpu(function: tirx.PrimFunc, _module: tvm.IRModule, _context: Any) -> tirx.PrimFunc:
    """Says where a private function's memory is; MakePackedAPI says it of the public ones only."""
    if _public(function):
        return function
    body = rewrite(function.body, [(tirx.AllocBuffer, _on_the_stack)])
    for key, value in (("device_type", tvm.cpu().dlpack_device_type()), ("device_id", 0)):
        body = tirx.AttrStmt("default", key, value, body)
    return function.with_body(body)


_IN_MEMORY_OF_THE_CPU: Any = tirx.transform.prim_func_pass(
    _in_memory_of_the_cpu, opt_level=0, name="InMemoryOfTheCPU"
)

_NAMED_IN_MEMORY: Any = tirx.transform.prim_func_pass(
    lambda function, _module, _context: let_to_buffers(function), opt_level=0, name="NamedInMemory"
)


def _spread(node: tirx.Broadcast) -> Any:
    """A vector of one bfloat16, as the bits that it is: BF16StorageLegalize forgets its dtype."""
    if str(node.value.ty.dtype) != "bfloat16":
        return node
    bits = tirx.Broadcast(tirx.reinterpret("uint16", node.value), node.lanes)
    return tirx.reinterpret(str(node.ty.dtype), bits)


_WITH_BITS_SPREAD: Any = tirx.transform.prim_func_pass(
    lambda function, _module, _context: function.with_body(
        rewrite(function.body, [(tirx.Broadcast, _spread)])
    ),
    opt_level=0,
    name="WithBitsSpread",
)


_ALLOCATE, _FREE = (tvm.ir.Op.get(f"tirx.TVMBackend{what}Workspace") for what in ("Alloc", "Free"))

#: Memory of this size and more is C's, which says where there is not enough; TVM throws an exception of C++
#: there, which machine code must not meet.
_LARGE_BYTES = 1 << 26


def _completed(function: tirx.PrimFunc, _module: tvm.IRModule, _context: Any) -> tirx.PrimFunc:
    """Has a private function give 0, after its memory is free, or another where there is too little."""
    if _public(function):
        return function
    large: set[Any] = set()

    def declared(statement: tirx.DeclBuffer) -> tirx.DeclBuffer:
        data = statement.data
        if not isinstance(data, tvm.ir.Call) or data.op != _ALLOCATE:
            return statement
        size = data.args[2]
        if not isinstance(size, tirx.IntImm) or int(size.value) < _LARGE_BYTES:
            return statement
        large.add(statement.buffer)
        lines = tirx.const(-(-int(size.value) // 64) * 64, "int64")
        taken = tirx.call_extern(data.ty, "aligned_alloc", tirx.const(64, "int64"), lines)
        return tirx.DeclBuffer(statement.buffer, data=taken)

    def freed(statement: tirx.IfThenElse) -> Any:
        found = statement.condition.a if isinstance(statement.condition, tirx.NE) else None
        if not isinstance(found, tvm.ir.Call) or found.op != _FREE or found.args[2].args[0] not in large:
            return statement
        return tirx.Evaluate(tirx.call_extern("void", "free", found.args[2]))

    body = rewrite(function.body, [(tirx.DeclBuffer, declared)])
    body = rewrite(body, [(tirx.IfThenElse, freed)])
    return function.with_body(tirx.SeqStmt([body, tirx.Return(tirx.const(0, "int32"))]))


_COMPLETED: Any = tirx.transform.prim_func_pass(_completed, opt_level=0, name="Completed")

#: What TVM's own pipeline does for a CPU, in its order, but for arrays that share memory (see ``pipeline``):
#: first to functions that are made of blocks.
_BLOCK_PASSES = (
    s_tir.transform.CanonicalizeLoop,
    s_tir.transform.LowerInitBlock,
    s_tir.transform.PlanAndUpdateBufferAllocationLocation,
    s_tir.transform.ConvertBlocksToOpaque,
    s_tir.transform.CompactBufferAllocation,
    s_tir.transform.LowerMatchBuffer,
    s_tir.transform.StmtSimplify,
    s_tir.transform.LowerOpaqueBlock,
    lambda: _NAMED_IN_MEMORY,
    tirx.transform.FlattenBuffer,
    tirx.transform.BF16ComputeLegalize,
    lambda: tirx.transform.NarrowDataType(32),
    s_tir.transform.LoopPartition,
    tirx.transform.VectorizeLoop,
    s_tir.transform.HoistIfThenElse,
    tirx.transform.UnrollLoop,
    s_tir.transform.RenormalizeSplitPattern,
    tirx.transform.StmtSimplify,
    tirx.transform.RemoveNoOp,
    s_tir.transform.RewriteUnsafeSelect,
    tirx.transform.CommonSubexprElim,
)

#: Less to those whose tiles are written out, in memory's order: the rest would prove things of each place.
_OF_TILES = (
    tirx.transform.BF16ComputeLegalize,
    lambda: tirx.transform.NarrowDataType(32),
    tirx.transform.VectorizeLoop,
    tirx.transform.UnrollLoop,
    tirx.transform.StmtSimplify,
    s_tir.transform.RewriteUnsafeSelect,
)

#: At last to all together.
_HOST_PASSES = (
    tirx.transform.AnnotateEntryFunc,
    tirx.transform.SplitHostDevice,
    tirx.transform.MakePackedAPI,
    tirx.transform.SkipAssert,  # of the entry's arguments, which we make; kernels have none
    lambda: _WITH_BITS_SPREAD,
    tirx.transform.BF16StorageLegalize,
    lambda: _IN_MEMORY_OF_THE_CPU,
    tirx.transform.LowerTVMBuiltin,
    lambda: _COMPLETED,
    tirx.transform.LowerIntrin,
)


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """The machine code of some functions: TVM's module, and the object file that it gives."""

    module: Any
    code: bytes


def compile_parts(
    kernels: Iterable[tuple[Any, tirx.PrimFunc]],
    entry: tuple[Any, tirx.PrimFunc],
    target: tvm.target.Target,
    *,
    apart: bool,
) -> list[ObjectCode]:
    """The machine code of kernels, and of what calls them: in its own part where it is to be ``apart``.

    They are compiled in parts: by LLVM, while the next ones are made and lowered. Without optimisation they
    are one: each would have TVM's code that runs when it is loaded, and they could not be linked.
    """
    optimised = int(target.attrs.get("opt-level", 0)) > 0
    pool = ThreadPoolExecutor(len(cores()))
    try:
        waiting = []
        part: dict[Any, Any] = {}
        work = 0
        for var, function in kernels:
            if work >= _PART and optimised:
                waiting.append(pool.submit(_compiled, _lowered(_apart(part), target), target))
                part, work = {}, 0
            part[var] = function
            work += _work(function)
        if apart and optimised:
            waiting.append(pool.submit(_compiled, _lowered(_apart(part), target), target))
            part = {}
        part.update([entry])
        last = _compiled(_lowered(_apart(part) if waiting else part, target), target)
        while wait(waiting, timeout=0.05).not_done:
            interrupt_safepoint()
        return [*(each.result() for each in waiting), last]
    finally:
        pool.shutdown(cancel_futures=True)


def _work(function: tirx.PrimFunc) -> int:
    """How much LLVM has to do, roughly: the statements that store."""
    found = [0]

    def count(_: Any) -> None:
        found[0] += 1

    visit(function.body, [(tirx.BufferStore, count)])
    return found[0]


def _apart(part: dict[Any, Any]) -> dict[Any, Any]:
    """The functions such that those of other parts are called by their names."""

    def named(call: Any) -> Any:
        if not isinstance(call.op, tvm.ir.GlobalVar):
            return call
        return tirx.call_extern(str(call.ty.dtype), _symbol(call.op), *call.args)

    return {
        var: function.with_body(rewrite(function.body, [(tvm.ir.Call, named)]))
        for var, function in part.items()
    }


def _public(function: tirx.PrimFunc) -> bool:
    return "global_symbol" in function.attrs


def _symbol(var: Any) -> str:
    """The name of a kernel for the linker: none that a library of C has."""
    return f"nnmagic_kernel_{var.name_hint}"


def _lowered(functions: dict[Any, Any], target: tvm.target.Target) -> tvm.IRModule:
    """The functions as LLVM takes them; the private ones can be called from other parts."""
    of_blocks, of_tiles = {}, {}
    for var, kernel in functions.items():
        function = keep_float_subtraction(kernel)
        tiles = None if collect_blocks(function) else flatten_buffers(let_to_buffers(function))
        if tiles is None:
            of_blocks[var] = function
        else:
            of_tiles[var] = tiles
    with target:
        bind = tirx.transform.BindTarget(target.with_host(target))
        lowered = [
            tvm.transform.Sequential([bind, *(make() for make in passes)])(tvm.IRModule(functions)).functions
            for passes, functions in ((_BLOCK_PASSES, of_blocks), (_OF_TILES, of_tiles))
        ]
        together = tvm.transform.Sequential([make() for make in _HOST_PASSES])
        whole = together(tvm.IRModule({**lowered[0], **lowered[1]}))
    public = {
        var: function if _public(function) else function.with_attr("global_symbol", _symbol(var))
        for var, function in whole.functions_items()
    }
    return tvm.IRModule(public)


def _compiled(lowered: tvm.IRModule, target: tvm.target.Target) -> ObjectCode:
    module = tvm.get_global_func("target.build.llvm")(lowered, target)
    return ObjectCode(module, written(module, "o"))


def written(module: Any, form: str) -> bytes:
    """What TVM writes of a module into a file, which lies in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("nnmagic"), "rb") as file:
            module.write_to_file(f"/proc/self/fd/{file.fileno()}", form)
            return file.read()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"module.{form}")
        module.write_to_file(str(path), form)
        return path.read_bytes()
