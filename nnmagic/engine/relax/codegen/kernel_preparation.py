"""Prepare the TIR kernels of a fused module: alignment, empty reductions, schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import tvm
from tvm import tirx

from nnmagic.engine.relax.deferred_interrupts import interrupt_safepoint
from nnmagic.engine.relax.schedules import apply_schedule, cpu_model
from nnmagic.engine.relax.tir.builders import item_bytes
from nnmagic.engine.relax.tir.empty_reductions import initialize_reductions
from nnmagic.engine.relax.tir.regions import expand_regions
from nnmagic.engine.relax.tir.visitors import VarMap, collect, rewrite
from nnmagic.progress import report


def prepare_kernels(
    kernels: Iterable[tuple[tvm.ir.GlobalVar, tirx.PrimFunc]], target: tvm.target.Target, opt_level: int
) -> Iterator[tuple[tvm.ir.GlobalVar, tirx.PrimFunc]]:
    """Yield the kernels made safe for empty reductions, unaligned arrays and forked processes.

    From optimisation level 1 on they are scheduled for the target's CPU, too.
    """
    machine = cpu_model(target) if opt_level else None
    waiting = list(kernels)
    for done, (var, function) in enumerate(waiting):
        interrupt_safepoint()
        report("kernels", done, len(waiting))
        with target:
            alone = relax_alignment(function.with_attr("global_symbol", "main"))
            kernel = initialize_reductions(alone) if machine is None else apply_schedule(alone, machine)
        yield var, expand_regions(kernel.without_attr("global_symbol"))


def has_parallel_loops(functions: Iterable[tirx.PrimFunc]) -> bool:
    """Return whether a kernel of these functions uses the thread pool."""
    loops = collect(tirx.For, *(function.body for function in functions))
    return any(loop.kind == tirx.ForKind.PARALLEL for loop in loops)


def relax_alignment(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Require no more alignment of parameters than their elements need, and make parallel loops serial.

    TVM declares 64 bytes and lets LLVM emit aligned moves; NumPy guarantees 16, and a view less. Some loops
    of topi are parallel: in a forked child they would wait forever for threads that do not exist there.
    """
    instead: dict[Any, Any] = {
        param: _align_to_elements(param) for param in function.params if isinstance(param.ty, tirx.BufferType)
    }
    for param in list(instead):  # arrays begin where their pointer points
        if isinstance(param.ty.elem_offset, tirx.Var):
            instead[param.ty.elem_offset] = tirx.const(0, str(param.ty.elem_offset.ty.dtype))
    rewrites = [
        (tvm.ir.Var, VarMap(instead).replace),
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


def _align_to_elements(buffer: Any) -> Any:
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
