"""TIR functions to machine code: the passes of TVM that a CPU needs, in order. Knows TVM only."""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from nnmagic.engine.relax.bindings import named_in_memory
from nnmagic.engine.relax.flattening import flat
from nnmagic.engine.relax.kernels.kinds import blocks

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
    if "global_symbol" in function.attrs:
        return function
    body = tvm_ffi.structural_map(function.body, [(tirx.AllocBuffer, _on_the_stack)])
    for key, value in (("device_type", tvm.cpu().dlpack_device_type()), ("device_id", 0)):
        body = tirx.AttrStmt("default", key, value, body)
    return function.with_body(body)


_IN_MEMORY_OF_THE_CPU: Any = tirx.transform.prim_func_pass(
    _in_memory_of_the_cpu, opt_level=0, name="InMemoryOfTheCPU"
)

_NAMED_IN_MEMORY: Any = tirx.transform.prim_func_pass(
    lambda function, _module, _context: named_in_memory(function), opt_level=0, name="NamedInMemory"
)


def _spread(node: tirx.Broadcast) -> Any:
    """A vector of one bfloat16, as the bits that it is: BF16StorageLegalize forgets its dtype."""
    if str(node.value.ty.dtype) != "bfloat16":
        return node
    bits = tirx.Broadcast(tirx.reinterpret("uint16", node.value), node.lanes)
    return tirx.reinterpret(str(node.ty.dtype), bits)


_WITH_BITS_SPREAD: Any = tirx.transform.prim_func_pass(
    lambda function, _module, _context: function.with_body(
        tvm_ffi.structural_map(function.body, [(tirx.Broadcast, _spread)])
    ),
    opt_level=0,
    name="WithBitsSpread",
)

#: What TVM's own pipeline does for a CPU, in its order: first to functions that are made of blocks.
_OF_BLOCKS = (
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
    tirx.transform.StorageRewrite,
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
    tirx.transform.StorageRewrite,
    tirx.transform.UnrollLoop,
    tirx.transform.StmtSimplify,
    s_tir.transform.RewriteUnsafeSelect,
)

#: At last to all together.
_TOGETHER = (
    tirx.transform.AnnotateEntryFunc,
    tirx.transform.SplitHostDevice,
    tirx.transform.MakePackedAPI,
    tirx.transform.SkipAssert,  # of the entry's arguments, which we make; kernels have none
    lambda: _WITH_BITS_SPREAD,
    tirx.transform.BF16StorageLegalize,
    lambda: _IN_MEMORY_OF_THE_CPU,
    tirx.transform.LowerTVMBuiltin,
    tirx.transform.LowerIntrin,
)


def library(module: tvm.IRModule, target: tvm.target.Target) -> Any:
    """The machine code of a module: its public functions by name, linked when they are first looked up."""
    of_blocks, of_tiles = {}, {}
    for var, function in module.functions_items():
        tiles = None if blocks(function) else flat(named_in_memory(function))
        if tiles is None:
            of_blocks[var] = function
        else:
            of_tiles[var] = tiles
    with target:
        bind = tirx.transform.BindTarget(target.with_host(target))
        lowered = [
            tvm.transform.Sequential([bind, *(make() for make in passes)])(tvm.IRModule(functions)).functions
            for passes, functions in ((_OF_BLOCKS, of_blocks), (_OF_TILES, of_tiles))
        ]
        together = tvm.transform.Sequential([make() for make in _TOGETHER])
        whole = together(tvm.IRModule({**lowered[0], **lowered[1]}))
    return tvm.get_global_func("target.build.llvm")(whole, target)
