"""Compile TIR functions to object code by the TVM passes that a CPU needs."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.target import codegen

from nnmagic.engine.relax.codegen.aot.bodies.ends import APART
from nnmagic.engine.relax.codegen.aot.memory import MOST_BYTES, exceeds_any_memory
from nnmagic.engine.relax.codegen.debug_lines import with_places
from nnmagic.engine.relax.codegen.interrupt_polls import POLLED, add_polls, free_before_leaving
from nnmagic.engine.relax.codegen.object_files import write_module
from nnmagic.engine.relax.codegen.relax_pipeline import NO_CHOSEN_UNROLLING, Pass, run_passes
from nnmagic.engine.relax.codegen.selective_passes import (
    ON_STACK,
    bind_memory,
    count_stores,
    hoist_conditions,
    name_common_subexpressions,
)
from nnmagic.engine.relax.codegen.shared_rounds import INTERNAL, outline_rounds, outline_shared
from nnmagic.engine.relax.codegen.unpredictable_choices import mark_unpredictable
from nnmagic.engine.relax.deferred_interrupts import interrupt_safepoint
from nnmagic.engine.relax.runtime.debug_files import debug_folder
from nnmagic.engine.relax.schedules.registry import collect_blocks
from nnmagic.engine.relax.tir.builders import item_bytes, static_int, unlikely
from nnmagic.engine.relax.tir.flatten_buffers import flatten_buffers
from nnmagic.engine.relax.tir.let_to_buffer import let_to_buffers
from nnmagic.engine.relax.tir.loop_extents import split_longest_loops
from nnmagic.engine.relax.tir.round_bfloat16 import round_bfloat16
from nnmagic.engine.relax.tir.strict_float import keep_float_arithmetic
from nnmagic.engine.relax.tir.visitors import rewrite
from nnmagic.engine.threads import cores

#: How many statements that store are a part: a hundred milliseconds of LLVM, of which ten are for any module.
_PART = 80

#: What is smaller is on the stack: the accumulators of a tile, which become registers.
_STACK_BYTES = 4096


def _annotate_memory(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Leave small arrays to LLVM: TVM would ask its runtime for each.

    Say on which device the others of a private function are; MakePackedAPI does that for public functions.
    """
    others = []

    def keep_on_stack(allocation: tirx.AllocBuffer) -> tirx.AllocBuffer:
        type_ = allocation.buffer.ty
        lengths = [static_int(dim) for dim in type_.shape]
        known = [length for length in lengths if length is not None]
        size = math.prod(known) * item_bytes(str(type_.dtype))
        if len(known) == len(lengths) and 0 < size <= _STACK_BYTES:
            return tirx.AllocBuffer(allocation.buffer, ON_STACK)
        others.append(allocation)
        return allocation

    function = rewrite(function, [(tirx.AllocBuffer, keep_on_stack)])
    if not others or _is_public(function):
        return function
    body = function.body
    for key, value in (("device_type", tvm.cpu().dlpack_device_type()), ("device_id", 0)):
        body = tirx.AttrStmt("default", key, value, body)
    return function.with_body(body)


def _broadcast_bits(node: tirx.Broadcast) -> Any:
    """Broadcast a bfloat16 as its bits, because BF16StorageLegalize forgets the dtype of a Broadcast."""
    if str(node.value.ty.dtype) != "bfloat16":
        return node
    bits = tirx.Broadcast(tirx.reinterpret("uint16", node.value), node.lanes)
    return tirx.reinterpret(str(node.ty.dtype), bits)


def _add_polls(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Add polls to a marked function."""
    if not int((function.attrs or {}).get(POLLED, 0)):
        return function
    return add_polls(function, windows="windows" in _triple(function))


_ALLOCATE, _FREE = (tvm.ir.Op.get(f"tirx.TVMBackend{what}Workspace") for what in ("Alloc", "Free"))

#: Memory of this size and more, or of a size that only the call knows, is C's, which says where there is not
#: enough; TVM throws an exception of C++ there, which machine code must not meet.
_LARGE_BYTES = 1 << 26


def _return_status(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Make a private function free its memory and return 0, or another number if memory is short."""
    if _is_public(function):
        return function
    large: set[Any] = set()
    is_windows = "windows" in _triple(function)

    def allocate_large(statement: tirx.DeclBuffer) -> tirx.DeclBuffer:
        data = statement.data
        if not isinstance(data, tvm.ir.Call) or data.op != _ALLOCATE:
            return statement
        size = data.args[2]
        line = tirx.const(64, "int64")
        if not isinstance(size, tirx.IntImm):
            enough = tirx.max((size.astype("int64") + 63) // 64, 1) * 64
            lines = tirx.Select(exceeds_any_memory(size), tirx.const(MOST_BYTES, "int64"), enough)
        elif int(size.value) < _LARGE_BYTES:
            return statement
        else:
            lines = tirx.const(-(-int(size.value) // 64) * 64, "int64")
        large.add(statement.buffer)
        name, args = ("_aligned_malloc", (lines, line)) if is_windows else ("aligned_alloc", (line, lines))
        taken = tirx.call_extern(data.ty, name, *args)
        return tirx.DeclBuffer(statement.buffer, data=taken)

    def free_large(statement: tirx.IfThenElse) -> Any:
        call = statement.condition.a if isinstance(statement.condition, tirx.NE) else None
        if not isinstance(call, tvm.ir.Call) or call.op != _FREE or call.args[2].args[0] not in large:
            return statement
        name = "_aligned_free" if is_windows else "free"
        return tirx.Evaluate(tirx.call_extern("void", name, call.args[2]))

    body = rewrite(function.body, [(tirx.DeclBuffer, allocate_large)])
    if large:
        body = rewrite(body, [(tirx.IfThenElse, free_large)])
    if POLLED in (function.attrs or {}):
        body = free_before_leaving(body)
    return function.with_body(tirx.SeqStmt([body, tirx.Return(tirx.const(0, "int32"))]))


def _weigh_branch(statement: tirx.IfThenElse) -> tirx.IfThenElse:
    """Give a branch without an else an empty one: TVM would tell LLVM that it is taken nearly always.

    One that leaves the function, as for an index out of range, is taken nearly never.
    """
    if statement.else_case is not None:
        return statement
    last = statement.then_case
    while isinstance(last, tirx.SeqStmt):
        last = last.seq[len(last.seq) - 1]
    condition = unlikely(statement.condition) if isinstance(last, tirx.Return) else statement.condition
    nothing = tirx.Evaluate(tirx.call_llvm_intrin("void", "llvm.donothing"))
    return tirx.IfThenElse(condition, statement.then_case, nothing)


def _each(change: Callable[[tirx.PrimFunc], tirx.PrimFunc]) -> Callable[[], Pass]:
    """Return what makes a pass that changes each function alone."""

    def run(module: tvm.IRModule) -> tvm.IRModule:
        functions = {var: change(function) for var, function in module.functions_items()}
        return tvm.IRModule(functions, attrs=module.attrs)

    return lambda: run


def _each_node(kind: type, change: Callable[[Any], Any]) -> Callable[[], Pass]:
    """Return what makes a pass that changes each node of a kind."""
    return _each(lambda function: rewrite(function, [(kind, change)]))


#: The passes of TVM's own CPU pipeline, in its order, without StorageRewrite: what fills no vector is made
#: by one that overlaps with another, some elements twice, and the second time would find what was read
#: overwritten; and without RemoveNoOp, which LLVM does in less time. First those that lower blocks, for
#: kernels. What has none is spared them: their time is quadratic in the number of local arrays.
_BLOCK_PASSES = (
    s_tir.transform.CanonicalizeLoop,
    s_tir.transform.LowerInitBlock,
    s_tir.transform.PlanAndUpdateBufferAllocationLocation,
    s_tir.transform.ConvertBlocksToOpaque,
    s_tir.transform.LowerMatchBuffer,
    s_tir.transform.StmtSimplify,
    s_tir.transform.LowerOpaqueBlock,
)

#: Then those for loops and statements.
_STATEMENT_PASSES = (
    _each(let_to_buffers),
    tirx.transform.FlattenBuffer,
    tirx.transform.BF16ComputeLegalize,
    lambda: tirx.transform.NarrowDataType(32),
    s_tir.transform.LoopPartition,
    tirx.transform.VectorizeLoop,
    lambda: hoist_conditions,
    tirx.transform.UnrollLoop,
    s_tir.transform.RenormalizeSplitPattern,
    tirx.transform.StmtSimplify,
    s_tir.transform.RewriteUnsafeSelect,
    lambda: name_common_subexpressions,
)

#: Fewer passes for functions of written-out tiles, in memory order: the others would analyse each index.
_TILE_PASSES = (
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
    _each(_add_polls),
    _each_node(tirx.Broadcast, _broadcast_bits),
    tirx.transform.BF16StorageLegalize,
    lambda: outline_rounds,
    _each(_annotate_memory),
    tirx.transform.LowerTVMBuiltin,
    _each(_return_status),
    tirx.transform.LowerIntrin,
    _each_node(tirx.IfThenElse, _weigh_branch),
    _each_node(tirx.Bind, bind_memory),
)


#: What the symbols of kernels begin with.
KERNEL_PREFIX = "nnmagic_kernel_"


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """The machine code of some functions: TVM's module, and its object file."""

    module: Any
    code: bytes


def _triple(function: tirx.PrimFunc) -> str:
    """Return the system and architecture that a function is compiled for, as LLVM writes them."""
    target = function.attrs.get("target") if function.attrs else None
    given = target.attrs.get("mtriple") if target is not None else None
    return str(given or codegen.llvm_get_system_triple())


def compile_parts(
    kernels: Iterable[tuple[tvm.ir.GlobalVar, tirx.PrimFunc]],
    entry: Sequence[tuple[tvm.ir.GlobalVar, tirx.PrimFunc]],
    target: tvm.target.Target,
    *,
    apart: bool,
) -> list[ObjectCode]:
    """Compile kernels and the functions that call them, of which the last one is the program's entry.

    The kernels are compiled in parts: LLVM compiles one while the next is scheduled and lowered. ``apart``
    puts the entry in its own part, which is compiled first: it may be the largest. A function marked as APART
    has its own, too. Without optimisation there is one part, because each would contain TVM's initialisation
    code and the parts could not be linked.
    """
    optimised = int(target.attrs.get("opt-level", 0)) > 0
    alone = [pair for pair in entry if optimised and APART in (pair[1].attrs or {})]
    entry = [pair for pair in entry if pair not in alone]
    pool = ThreadPoolExecutor(len(cores()))
    try:
        waiting, last = [], []
        job: dict[Any, Any] = {}
        work = 0
        apart = apart and optimised
        if apart:
            last.append(pool.submit(_compile, _lower(_call_by_symbol(dict(entry)), target), target))
        for var, function in kernels:
            if work >= _PART and optimised:
                waiting.append(pool.submit(_compile, _lower(_call_by_symbol(job), target), target))
                job, work = {}, 0
            job[var] = function
            work += count_stores(function)
        if not apart:
            job.update(entry)
        if job:
            called = _call_by_symbol(job) if waiting or len(entry) > 1 or apart or alone else job
            waiting.append(pool.submit(_compile, _lower(called, target), target))
        while wait([*waiting, *last], timeout=0.05).not_done:
            interrupt_safepoint()
        compiled = [each.result() for each in (*waiting, *last)]
        return [*(_compile_alone(*pair, target) for pair in alone), *compiled]
    finally:
        pool.shutdown(cancel_futures=True)


def _call_by_symbol(part: dict[Any, Any]) -> dict[Any, Any]:
    """Make calls of functions that other parts have, or may have, calls by symbol."""
    internal = {var for var, function in part.items() if INTERNAL in (function.attrs or {})}

    def use_symbol(call: Any) -> Any:
        if not isinstance(call.op, tvm.ir.GlobalVar) or call.op in internal:
            return call
        return tirx.call_extern(str(call.ty.dtype), _symbol(call.op), *call.args)

    return {var: rewrite(function, [(tvm.ir.Call, use_symbol)]) for var, function in part.items()}


def _is_public(function: tirx.PrimFunc) -> bool:
    return "global_symbol" in function.attrs


def _symbol(var: Any) -> str:
    """Return the symbol of a kernel, prefixed so that it clashes with no C library."""
    return f"{KERNEL_PREFIX}{var.name_hint}"


def _lower(functions: dict[Any, Any], target: tvm.target.Target) -> tvm.IRModule:
    """Lower the functions to the form that LLVM takes; private ones can be called from other parts."""
    of_blocks, of_statements, of_tiles = {}, {}, {}
    for var, kernel in outline_shared(functions).items():
        function = split_longest_loops(keep_float_arithmetic(round_bfloat16(kernel)))  # each step is rounded
        if collect_blocks(function):
            of_blocks[var] = function
        elif (tiles := flatten_buffers(let_to_buffers(function))) is None:
            of_statements[var] = function
        else:
            of_tiles[var] = tiles
    with target, tvm.transform.PassContext(config=NO_CHOSEN_UNROLLING):
        bind = tirx.transform.BindTarget(target.with_host(target))
        lowered = [
            run_passes([bind, *(make() for make in passes)], tvm.IRModule(functions)).functions
            for passes, functions in (
                ((*_BLOCK_PASSES, *_STATEMENT_PASSES), of_blocks),
                (_STATEMENT_PASSES, of_statements),
                (_TILE_PASSES, of_tiles),
            )
        ]
        together = tvm.IRModule({var: function for group in lowered for var, function in group.items()})
        whole = run_passes([make() for make in _HOST_PASSES], together)
    named = {
        var: function.with_attr("global_symbol", _symbol(var))
        for var, function in whole.functions_items()
        if not _is_public(function) and INTERNAL not in function.attrs
    }
    return tvm.IRModule({**dict(whole.functions_items()), **named})


@lru_cache(maxsize=8)
def _compile_alone(var: tvm.ir.GlobalVar, function: tirx.PrimFunc, target: tvm.target.Target) -> ObjectCode:
    """Compile a function that is the same in many programs, once for each target."""
    return _compile(_lower({var: function}, target), target)


def _compile(lowered: tvm.IRModule, target: tvm.target.Target) -> ObjectCode:
    module = tvm.get_global_func("target.build.llvm")(lowered, target)
    is_x86 = str(target.attrs.get("mtriple") or codegen.llvm_get_system_triple()).startswith("x86_64")
    optimizes = int(target.attrs.get("opt-level", 0)) > 0
    is_debugged, marks = debug_folder() is not None, is_x86 and optimizes
    text = module.inspect_source("ll") if is_debugged or marks else ""
    marked = mark_unpredictable(text) if marks else None
    if is_debugged:
        return load_llvm(with_places(marked or text))
    if marked is not None:
        return load_llvm(marked)
    return ObjectCode(module, write_module(module))


_SETTABLE = """
@address_of_{name} = private global ptr null

define i32 @__tvm_ffi_{setter}(ptr %self, ptr %arguments, i32 %count, ptr %returned) {{
  %word = getelementptr i8, ptr %arguments, i64 8
  %address = load ptr, ptr %word
  store ptr %address, ptr @address_of_{name}
  store i64 0, ptr %returned
  %value = getelementptr i8, ptr %returned, i64 8
  store i64 0, ptr %value
  ret i32 0
}}
"""


def settable_address(name: str, setter: str) -> str:
    """Return LLVM code of ``@address_of_name``, and of the function that sets it when the code is loaded."""
    return _SETTABLE.format(name=name, setter=setter)


def compile_llvm(code: str) -> ObjectCode:
    """Compile LLVM's text to code for this machine."""
    return load_llvm(f'target triple = "{codegen.llvm_get_system_triple()}"\n{code}')


def load_llvm(text: str) -> ObjectCode:
    """Compile LLVM's text, which lies in memory where the system supports that, for its target."""
    load = tvm.get_global_func("ffi.Module.load_from_file.ll")
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("nnmagic"), "w") as file:
            file.write(text)
            file.flush()
            module = load(f"/proc/self/fd/{file.fileno()}", "ll")
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "code.ll")
            path.write_text(text)
            module = load(str(path), "ll")
    return ObjectCode(module, write_module(module))
