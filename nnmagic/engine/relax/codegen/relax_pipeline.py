"""From a Relax module to machine code: the passes of each optimisation level, the stages' texts.

Knows TVM and the schedules of kernels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import tvm
from tvm import relax, s_tir, tirx

from nnmagic.engine.relax.deferred_interrupts import interrupt_safepoint
from nnmagic.engine.relax.legalize.kernel_cache import legalization
from nnmagic.engine.relax.schedules import apply_schedule, cpu_model
from nnmagic.engine.relax.tir.builders import item_bytes
from nnmagic.engine.relax.tir.visitors import rewrite, visit
from nnmagic.forks import Lock
from nnmagic.progress import report

#: TVM's builders keep process-wide state, so one compilation runs at a time.
COMPILING = Lock()

#: What fills no vector is computed by one that overlaps with another: some elements twice. TVM would let a
#: kernel's arrays share memory by their elements, and the second time find what was read overwritten.
NO_SHARED_STORAGE = {"tirx.disable_storage_rewrite": True}

#: The longest chain that is fused into one kernel: TVM's fusion is super-linear in it.
MAX_FUSED = 32


def fuse_kernels(module: tvm.IRModule, target: tvm.target.Target, opt_level: int) -> tvm.IRModule:
    """The module with every operator a TIR function, fused; the loops are as the operators have them."""
    transform = relax.transform
    fusion = [transform.AnnotateTIROpPattern(), transform.FuseOps(), transform.FuseTIR()] if opt_level else []
    passes = [
        transform.ConvertToDataflow(1),
        legalization(),
        transform.DeadCodeElimination(),  # fusion fails on what nobody uses inside of a branch
        *fusion,
        transform.DeadCodeElimination(),
        transform.RewriteDataflowReshape(),
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
    ]
    with target, tvm.transform.PassContext(config={"relax.FuseOps.max_depth": MAX_FUSED}):
        return tvm.transform.Sequential(passes)(module)


def for_virtual_machine(module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """The fused module with every call lowered for TVM's virtual machine."""
    transform = relax.transform
    # The plan reuses memory across branches as if both had run: freed storage is written to, and TVM crashes.
    planning = [] if _has_branches(module) else [transform.StaticPlanBlockMemory()]
    passes = [
        transform.CallTIRRewrite(),
        *planning,
        transform.LowerAllocTensor(),
        transform.KillAfterLastUse(),
        transform.LowerRuntimeBuiltin(),
        transform.ComputePrimValue(),
        transform.VMShapeLower(),
        transform.AttachGlobalSymbol(),
    ]
    with target:
        return tvm.transform.Sequential(passes)(module)


def _has_branches(module: tvm.IRModule) -> bool:
    found = []

    def look(node: Any) -> None:
        if isinstance(node, relax.If):
            found.append(node)

    for function in module.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, look)
    return bool(found)


def schedule_kernel(
    kernels: Iterable[tuple[Any, tirx.PrimFunc]], target: tvm.target.Target, opt_level: int
) -> Iterator[tuple[Any, tirx.PrimFunc]]:
    """The kernels right for empty reductions, unaligned arrays and forked processes, one after another.

    From level 1 on they have fast loops for the target's machine, too.
    """
    machine = cpu_model(target) if opt_level else None
    waiting = list(kernels)
    for done, (var, function) in enumerate(waiting):
        interrupt_safepoint()
        report("kernels", done, len(waiting))
        with target:
            alone = relax_alignment(initialize_reductions(function.with_attr("global_symbol", "main")))
            found = alone if machine is None else apply_schedule(alone, machine)
        yield var, found.without_attr("global_symbol")


def schedule_kernels(module: tvm.IRModule, target: tvm.target.Target, opt_level: int) -> tvm.IRModule:
    """The module with every kernel of it as `with_loops` makes it."""
    kernels = [each for each in module.functions_items() if isinstance(each[1], tirx.PrimFunc)]
    functions = {**dict(module.functions_items()), **dict(schedule_kernel(kernels, target, opt_level))}
    return tvm.IRModule(functions, attrs=module.attrs)


def has_parallel_loops(functions: Iterable[Any]) -> bool:
    """Whether a kernel of these functions uses the pool of threads."""
    found: list[bool] = []
    look = [(tirx.For, lambda loop: found.append(loop.kind == tirx.ForKind.PARALLEL))]
    for function in functions:
        if isinstance(function, tirx.PrimFunc):
            visit(function.body, look)
    return any(found)


def initialize_reductions(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Moves the initialisation out of each reduction that may be over no elements: TVM has it in the loop."""
    found: list[Any] = []
    visit(function.body, [(s_tir.SBlock, found.append)])
    names = [block.name_hint for block in found if block.init is not None and _may_be_empty(block)]
    if not names:
        return function
    schedule = s_tir.Schedule(function)
    for name in names:
        block = schedule.get_sblock(name)
        loops = schedule.get_loops(block)
        kinds = [var.iter_type for var in schedule.get(block).iter_vars]
        reduced = kinds.index(tirx.IterVar.CommReduce) if len(kinds) == len(loops) else 0
        schedule.decompose_reduction(block, loops[reduced])
    return schedule.mod["main"]


def _may_be_empty(block: Any) -> bool:
    """Whether it is not known that each axis that the block reduces has elements."""
    extents = [var.dom.extent for var in block.iter_vars if var.iter_type == tirx.IterVar.CommReduce]
    return not all(isinstance(extent, tirx.IntImm) and extent.value > 0 for extent in extents)


def relax_alignment(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with parameters that need no more alignment than their elements, and with serial loops.

    TVM declares 64 bytes and lets LLVM emit aligned moves; NumPy gives 16, a view of an array less. Some of
    topi's loops are parallel: a forked child would wait for ever for threads that it does not have.
    """
    instead: dict[Any, Any] = {
        param: _element_aligned(param) for param in function.params if isinstance(param.ty, tirx.BufferType)
    }
    for param in list(instead):  # arrays begin where their pointer points
        if isinstance(param.ty.elem_offset, tirx.Var):
            instead[param.ty.elem_offset] = tirx.const(0, str(param.ty.elem_offset.ty.dtype))
    rewrites = [
        (tvm.ir.Var, lambda var: instead.get(var, var)),
        (tirx.For, _serial),
        (tirx.AttrStmt, lambda node: node.body if node.attr_key == "pragma_scope" else node),
    ]
    body = rewrite(function.body, rewrites)
    params = [instead.get(param, param) for param in function.params]
    return tirx.PrimFunc(params, body, function.ret_type, function.attrs)


def _serial(loop: tirx.For) -> tirx.For:
    if loop.kind != tirx.ForKind.PARALLEL:
        return loop
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)


def _element_aligned(buffer: Any) -> Any:
    type_ = buffer.ty
    dtype = str(type_.dtype)
    return tirx.decl_buffer(
        type_.shape,
        dtype,
        buffer.name,
        strides=type_.strides,
        elem_offset=0 if isinstance(type_.elem_offset, tirx.Var) else type_.elem_offset,
        data_alignment=item_bytes(dtype),
        offset_factor=type_.offset_factor,
        layout=type_.layout,
    )


def kernels_text(module: tvm.IRModule) -> str:
    """The TIR functions of a lowered module as text."""
    kernels = {
        var: function for var, function in module.functions_items() if isinstance(function, tirx.PrimFunc)
    }
    return str(tvm.IRModule(kernels).script(show_meta=False))


def code_text(libraries: Iterable[Any], stage: str) -> str:
    """LLVM's code of the libraries (stage ``llvm``) or the assembler's (``asm``).

    TVM names the memory that LLVM must tell apart by addresses, which differ between runs; here by numbers.
    """
    text = "".join(library.inspect_source("ll" if stage == "llvm" else "asm") for library in libraries)
    numbers: dict[str, int] = {}
    return _ADDRESS.sub(lambda found: str(numbers.setdefault(found[0], len(numbers))), text)


_ADDRESS = re.compile(r'(?<=!")0x[0-9a-f]+\b')
