"""Generate CUDA source for the kernels of a program, with TVM's default GPU schedules. Runs none of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NoReturn

import numpy as np
import tvm
from tvm import s_tir, tirx
from tvm.s_tir import dlight

from nnmagic.diagnostics import CompileError, Span, last_line
from nnmagic.engine import engine_error
from nnmagic.engine.relax.codegen import relax_pipeline, stage_texts
from nnmagic.engine.relax.codegen.kernel_preparation import relax_alignment
from nnmagic.engine.relax.deferred_interrupts import interrupt_safepoint, run_interruptible
from nnmagic.engine.relax.lowering.module import lower_module
from nnmagic.engine.relax.lowering.origins import KernelOrigins
from nnmagic.engine.relax.runtime.vm_executable import ENTRY
from nnmagic.engine.relax.tir.visitors import rewrite, visit
from nnmagic.progress import report
from nnmagic.relay.callgraph import CallGraph
from nnmagic.relay.module import Module
from nnmagic.relay.traverse import post_order

#: The texts that can be shown, in the order in which they are made.
STAGES = ("relax", "tir", "cuda")

#: How a kernel calls what is on the CPU.
_LIBRARY_CALLS = ("tirx.call_extern", "tirx.call_packed", "tirx.call_cpacked", "tirx.tvm_call_packed")
_OF_CPU = "it calls a library of the CPU"
_HINT = "leave the target out to run it on the CPU"

#: What TVM's schedules recognise; the last gives each element of a result a thread.
_RULES = (
    dlight.gpu.Matmul(),
    dlight.gpu.GEMV(),
    dlight.gpu.Reduction(),
    dlight.gpu.GeneralReduction(),
    dlight.gpu.Fallback(),
)


class CudaProgram:
    """The CUDA source of a function. A call raises EngineError: nnmagic runs no code on a GPU."""

    #: Nothing of it is kept on disk.
    artifact = None

    def __init__(self, name: str, lowered: tvm.IRModule, kernels: tvm.IRModule, source: str) -> None:
        self._name = name
        self._lowered, self._kernels = lowered, kernels
        self._source = source

    def __call__(self, arrays: Sequence[Any]) -> NoReturn:  # noqa: ARG002 - as all programs are called
        """Raise EngineError."""
        reason = "nnmagic runs no code on a GPU yet" if tvm.cuda(0).exist else "there is no CUDA device here"
        raise engine_error(
            f"@{self._name} was compiled for CUDA, and {reason}",
            hint=f"{self._name}.stages['cuda'] is its source; {_HINT}",
        )

    def stage(self, name: str) -> str:
        """Return the text of a stage: ``relax``, ``tir`` or ``cuda``. Raises KeyError for others."""
        if name not in STAGES:
            raise KeyError(f"code for CUDA has no stage {name!r}; it has {', '.join(STAGES)}")
        return run_interruptible(lambda: self._text(name))

    def _text(self, name: str) -> str:
        with relax_pipeline.COMPILING:
            if name == "relax":
                return str(self._lowered.script(show_meta=False))
            return stage_texts.kernels_text(self._kernels) if name == "tir" else self._source


def build_cuda(
    module: Module,
    entry: str,
    graph: CallGraph,
    loops: Collection[str],
    target: tvm.target.Target,
    opt_level: int,
) -> CudaProgram:
    """Generate the source of every kernel of a function.

    Args:
        module: typed, with first-order functions only.
        entry: the name of the function.
        graph: the call graph of ``module``.
        loops: the functions that are loops.
        target: CUDA, with a host.
        opt_level: 0 keeps one kernel per operator.

    Raises:
        EngineError: at the first expression that TVM cannot lower, schedule or write as CUDA.

    """
    origins = KernelOrigins()
    try:
        with target:
            lowered = lower_module(module, {ENTRY: entry}, graph, loops)
        grouped = relax_pipeline.fuse_kernels(lowered, target, opt_level, origins)
    except CompileError:
        raise
    except Exception as error:  # TVM raises nearly every kind
        message = f"TVM cannot lower @{entry} for CUDA: {last_line(error)}"
        raise engine_error(message, module.functions[entry].span, hint=_HINT) from error
    kernels = {
        var.name_hint: _for_gpu(function).with_attr("global_symbol", var.name_hint)
        for var, function in grouped.functions_items()
        if isinstance(function, tirx.PrimFunc)
    }
    together: tvm.IRModule | Exception = ValueError(_OF_CPU)
    if not any(map(_calls_library, kernels.values())):
        together = _attempt(tvm.IRModule(kernels), _RULES, target)
    if isinstance(together, Exception):  # it does not say which kernel
        chosen: dict[Any, tirx.PrimFunc] = {}
        for done, (kernel, function) in enumerate(kernels.items()):
            interrupt_safepoint()
            report("CUDA kernels", done, len(kernels))
            alone = (
                ValueError(_OF_CPU) if _calls_library(function) else _schedule_alone(kernel, function, target)
            )
            if isinstance(alone, Exception):
                message = f"TVM has no CUDA code for the kernel {kernel}: {last_line(alone)}"
                place = _place(module, origins.of(kernel, ()))
                raise engine_error(message, place, hint=_HINT) from alone
            chosen |= dict(alone.functions_items())
        together = tvm.IRModule(chosen)
    return CudaProgram(entry, lowered, together, _source(together, target))


def _place(module: Module, origins: Collection[Span]) -> Span | None:
    """Return the first of these spans, with its source."""
    nodes = (node for function in module.functions.values() for node in post_order(function))
    return next((node.span for node in nodes if node.span in origins), None)


def _schedule_alone(name: str, kernel: tirx.PrimFunc, target: tvm.target.Target) -> tvm.IRModule | Exception:
    """Schedule one kernel in the first way for which TVM has code; return what TVM raises for the last."""
    if _calls_library(kernel):
        return ValueError(_OF_CPU)
    usual = tvm.IRModule({name: kernel})
    for rules in (_RULES, _RULES[-1:]):
        if not isinstance(scheduled := _attempt(usual, rules, target), Exception):
            return scheduled
    whole = _with_workspace(kernel)
    if not isinstance(scheduled := _attempt(tvm.IRModule({name: whole}), _RULES[-1:], target), Exception):
        return scheduled
    return _attempt(tvm.IRModule({name: _on_one_thread(whole)}), (), target)


def _attempt(
    module: tvm.IRModule, rules: Sequence[dlight.ScheduleRule], target: tvm.target.Target
) -> tvm.IRModule | Exception:
    """Return the scheduled kernels if TVM writes CUDA for them, else what it raises."""
    try:
        with target:
            scheduled = dlight.ApplyDefaultSchedule(*rules)(module) if rules else module
        source = _source(scheduled, target)
    except Exception as error:  # noqa: BLE001 - TVM raises nearly every kind
        return error
    for var, function in scheduled.functions_items():
        if f" {var.name_hint}_kernel(" not in source and not _is_of_sizes(function):
            return ValueError("its loops are a CPU's")
    return scheduled


def _is_of_sizes(function: tirx.PrimFunc) -> bool:
    """Return whether a function computes sizes, which the host does."""
    target = function.attrs.get("target") if function.attrs is not None else None
    return target is not None and target.kind.name == "llvm"


def _for_gpu(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel without what its loops ask of a CPU, and without addresses of constants."""
    found: list[bool] = []
    visit(kernel.body, [(tirx.AttrStmt, lambda node: found.append(node.attr_key == "pragma_scope"))])
    kernel = relax_alignment(kernel) if any(found) else kernel
    body = rewrite(kernel.body, [(tvm.ir.Call, _fold_reinterpretation)])
    return tirx.PrimFunc(kernel.params, body, kernel.ret_type, kernel.attrs)


def _fold_reinterpretation(call: tvm.ir.Call) -> Any:
    """Return the bits of a constant as an integer: TVM's CUDA would take its address."""
    if getattr(call.op, "name", "") != "tirx.reinterpret" or not isinstance(call.args[0], tirx.FloatImm):
        return call
    dtype, given = str(call.ty.dtype), call.args[0]
    if not dtype.startswith(("int", "uint")):
        return call
    bits = np.array(given.value, str(given.ty.dtype)).view(dtype)
    return tirx.const(int(bits), dtype)


def _calls_library(kernel: tirx.PrimFunc) -> bool:
    """Return whether a kernel calls code of the CPU, such as LAPACK's."""
    found: list[bool] = []
    look = [(tvm.ir.Call, lambda call: found.append(getattr(call.op, "name", "") in _LIBRARY_CALLS))]
    visit(kernel.body, look)
    return any(found)


def _source(scheduled: tvm.IRModule, target: tvm.target.Target) -> str:
    """Return the CUDA of kernels; those of sizes are the host's."""
    with target:
        built = tirx.build(scheduled, target=target)
    return "\n".join(part.inspect_source().strip() for part in built.imports if part.kind == "cuda")


def _with_workspace(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel that takes the arrays between its steps as parameters: a GPU's code allocates none."""
    root = kernel.body.block
    block = s_tir.SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        root.body,
        root.init,
        [],
        [],
        root.annotations,
    )
    body = s_tir.SBlockRealize(kernel.body.iter_values, kernel.body.predicate, block)
    return tirx.PrimFunc([*kernel.params, *root.alloc_buffers], body, kernel.ret_type, kernel.attrs)


def _on_one_thread(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel whose loops one thread runs, in their order."""
    kernel = relax_alignment(kernel)
    root = kernel.body.block
    thread = tirx.IterVar(None, tirx.Var("thread", "int32"), tirx.IterVar.ThreadIndex, "threadIdx.x")
    loop = tirx.For(tirx.Var("t", "int32"), 0, 1, tirx.ForKind.THREAD_BINDING, root.body, thread)
    block = s_tir.SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        loop,
        root.init,
        alloc_buffers=root.alloc_buffers,
        annotations=root.annotations,
    )
    body = s_tir.SBlockRealize(kernel.body.iter_values, kernel.body.predicate, block)
    scheduled = tirx.PrimFunc(kernel.params, body, kernel.ret_type, kernel.attrs)
    return scheduled.with_attr({"tirx.is_scheduled": True})
