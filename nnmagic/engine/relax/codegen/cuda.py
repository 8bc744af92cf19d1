"""Compile programs for CUDA: kernels with TVM's default GPU schedules, called by TVM's virtual machine."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.s_tir import dlight

from nnmagic.diagnostics import CompileError, Span, last_line
from nnmagic.engine import engine_error
from nnmagic.engine.relax.codegen import cuda_compiler, relax_pipeline, stage_texts
from nnmagic.engine.relax.codegen.cuda_kernels import CUDA_PIPELINE, teach_reducers
from nnmagic.engine.relax.codegen.cuda_workspaces import pass_workspaces, with_steps, with_workspaces
from nnmagic.engine.relax.codegen.kernel_preparation import relax_alignment
from nnmagic.engine.relax.deferred_interrupts import interrupt_safepoint, run_interruptible
from nnmagic.engine.relax.legalize.kernel_cache import has_empty_buffer
from nnmagic.engine.relax.lowering.module import lower_module
from nnmagic.engine.relax.lowering.origins import KernelOrigins
from nnmagic.engine.relax.runtime.compiled_program import ENTRY
from nnmagic.engine.relax.runtime.cuda_device import device_architecture, missing_device
from nnmagic.engine.relax.tir.regions import expand_regions
from nnmagic.engine.relax.tir.visitors import collect, rewrite
from nnmagic.progress import report
from nnmagic.relay.module import Module
from nnmagic.relay.structure.callgraph import CallGraph
from nnmagic.relay.structure.traverse import post_order

#: The texts that can be shown, in the order in which they are made.
STAGES = ("relax", "tir", "cuda")

#: How a kernel calls what is on the CPU.
_LIBRARY_CALLS = ("tirx.call_extern", "tirx.call_packed", "tirx.call_cpacked", "tirx.tvm_call_packed")
_OF_CPU = "it calls a library of the CPU"
_HINT = "leave the target out to run it on the CPU"

#: What NVIDIA's compiler does itself, and TVM takes minutes for in long kernels: to find common parts of
#: expressions, and to take conditions out of loops.
_CONFIG, _DISABLED = {"tirx.disable_cse_tir": True}, ["s_tir.HoistIfThenElse"]

#: What TVM's schedules recognise; the last gives each element of a result a thread.
_RULES = (
    dlight.gpu.Matmul(),
    dlight.gpu.GEMV(),
    dlight.gpu.Reduction(),
    dlight.gpu.GeneralReduction(),
    dlight.gpu.Fallback(),
)


@dataclass(frozen=True, slots=True)
class CudaProgram:
    """A program that is compiled for CUDA.

    lowered: its module before fusion. kernels: as they are scheduled. source: their CUDA. machine: TVM's
    program with the kernels; None where there is no device that runs it. refusal: then why. deep: whether
    functions call each other when it runs.
    """

    lowered: tvm.IRModule
    kernels: tvm.IRModule
    source: str
    machine: Any
    refusal: str
    deep: bool

    def stage(self, name: str) -> str:
        """Return the text of a stage: ``relax``, ``tir`` or ``cuda``. Raises KeyError for others."""
        if name not in STAGES:
            raise KeyError(f"code for CUDA has no stage {name!r}; it has {', '.join(STAGES)}")
        return run_interruptible(lambda: self._text(name))

    def _text(self, name: str) -> str:
        with relax_pipeline.COMPILING:
            if name == "relax":
                return str(self.lowered.script(show_meta=False))
            return stage_texts.module_text(self.kernels) if name == "tir" else self.source


def build_cuda(
    module: Module, entry: str, graph: CallGraph, target: tvm.target.Target, opt_level: int
) -> CudaProgram:
    """Compile a function: every kernel is CUDA; the host checks conditions and computes sizes.

    A loop is a function that calls itself, as TVM's virtual machine has no jump back.

    Args:
        module: typed, with first-order functions only.
        entry: the name of the function.
        graph: the call graph of ``module``.
        target: CUDA, with a host.
        opt_level: 0 keeps one kernel per operator.

    Raises:
        EngineError: at the first expression that TVM cannot lower, schedule or write as CUDA, or whose CUDA
            NVIDIA's compiler refuses.

    """
    teach_reducers()
    origins = KernelOrigins()
    span = module.functions[entry].span
    try:
        with target:
            lowered = lower_module(module, {ENTRY: entry}, graph)
        grouped = relax_pipeline.fuse_kernels(lowered, target, opt_level, origins)
    except CompileError:
        raise
    except Exception as error:  # TVM raises nearly every kind
        message = f"TVM cannot lower @{entry} for CUDA: {last_line(error)}"
        raise engine_error(message, span, hint=_HINT) from error
    with cuda_compiler.compiling_by(cuda_compiler.source_alone):
        kernels = _schedule(module, grouped, target, origins)
        try:
            program = _for_virtual_machine(grouped, kernels, target)
            source = _source_of(_build(program, target))
        except Exception as error:  # TVM raises nearly every kind
            message = f"TVM cannot build @{entry} for CUDA: {last_line(error)}"
            raise engine_error(message, span, hint=_HINT) from error
    machine, refusal = None, _refusal(str(target.attrs["arch"]))
    if not refusal:
        try:
            machine = _compile(program, target)
        except cuda_compiler.CudaCompilerError as error:
            name, reason = _refused_kernel(str(error), source)
            message = f"NVIDIA's compiler refuses the kernel {name}: {reason}"
            raise engine_error(message, _place(module, origins.of(name, ())) or span, hint=_HINT) from error
    deep = "deep_calls" in (lowered.attrs or {})
    return CudaProgram(lowered, kernels, source, machine, refusal, deep)


def _refusal(architecture: str) -> str:
    """Return why code of an architecture cannot run here; "" if it can."""
    device = device_architecture()
    if device is None:
        return str(missing_device())
    if _number(architecture) > _number(device):
        return f"its architecture {architecture} is newer than the device's, {device}"
    return "" if cuda_compiler.find_compiler(architecture, device) else cuda_compiler.NEEDED


def _number(architecture: str) -> int:
    return int(re.sub(r"\D", "", architecture))


def _schedule(
    module: Module, grouped: tvm.IRModule, target: tvm.target.Target, origins: KernelOrigins
) -> tvm.IRModule:
    """Return the kernels of a fused module with their threads. Raises EngineError at what has none."""
    kernels = {
        var.name_hint: _for_gpu(function).with_attr("global_symbol", var.name_hint)
        for var, function in grouped.functions_items()
        if isinstance(function, tirx.PrimFunc)
    }
    together: tvm.IRModule | Exception = ValueError(_OF_CPU)
    if not any(map(_calls_library, kernels.values())):
        together = _attempt(tvm.IRModule(kernels), _RULES, target)
    if not isinstance(together, Exception):
        return together
    chosen: dict[tvm.ir.GlobalVar, tirx.PrimFunc] = {}  # TVM does not say which kernel it cannot schedule
    for done, (kernel, function) in enumerate(kernels.items()):
        interrupt_safepoint()
        report("CUDA kernels", done, len(kernels))
        alone = _schedule_alone(kernel, function, target)
        if isinstance(alone, Exception):
            message = f"TVM has no CUDA code for the kernel {kernel}: {last_line(alone)}"
            raise engine_error(message, _place(module, origins.of(kernel, ())), hint=_HINT) from alone
        chosen |= dict(alone.functions_items())
    return tvm.IRModule(chosen)


def _for_virtual_machine(
    grouped: tvm.IRModule, kernels: tvm.IRModule, target: tvm.target.Target
) -> tvm.IRModule:
    """Return a fused module with scheduled kernels, lowered for TVM's virtual machine."""
    scheduled = {var.name_hint: kernel for var, kernel in kernels.functions_items()}
    functions = {var: scheduled.get(var.name_hint, function) for var, function in grouped.functions_items()}
    whole = pass_workspaces(tvm.IRModule(functions, attrs=grouped.attrs))
    return relax_pipeline.for_virtual_machine(whole, target)


def _build(whole: tvm.IRModule, target: tvm.target.Target) -> tvm.runtime.Module:
    with target, tvm.transform.PassContext(config=_CONFIG, disabled_pass=_DISABLED):
        return relax.build(whole, target=target, relax_pipeline=None, tir_pipeline=CUDA_PIPELINE).mod


def _compile(whole: tvm.IRModule, target: tvm.target.Target) -> tvm.runtime.Module:
    """Return the program with machine code. Raises CudaCompilerError."""
    compile_source = cuda_compiler.find_compiler(str(target.attrs["arch"]), device_architecture() or "")
    assert compile_source is not None
    refused: list[cuda_compiler.CudaCompilerError] = []

    def compile_or_keep(source: str) -> bytes:
        """Keep the error: TVM would replace it by one of its own."""
        try:
            return compile_source(source)
        except cuda_compiler.CudaCompilerError as error:
            refused.append(error)
            raise

    report("CUDA machine code")
    with cuda_compiler.compiling_by(compile_or_keep):
        try:
            return _build(whole, target)
        except Exception:
            if refused:
                raise refused[0] from None
            raise


def _refused_kernel(log: str, source: str) -> tuple[str, str]:
    """Return the name of the kernel at which a compiler failed, and what it said of it."""
    said = re.search(r"\((\d+)\): error: (.*)", log)
    if said is not None:
        before = source.splitlines()[: int(said[1])]
        names = re.findall(r"__global__.* (\w+?)_kernel(?:_\d+)?\(", "\n".join(before))
        return (names[-1] if names else "of the program"), said[2]
    said = re.search(r"error.*'(\w+?)_kernel(?:_\d+)?' (.*)", log)
    return (said[1], said[2]) if said is not None else ("of the program", log.strip().splitlines()[-1])


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
    whole = with_workspaces(kernel)
    if not isinstance(scheduled := _attempt(tvm.IRModule({name: whole}), _RULES[-1:], target), Exception):
        return scheduled
    serial = _on_one_thread(with_workspaces(kernel, inner=True))
    return _attempt(tvm.IRModule({name: serial}), (), target)


def _attempt(
    module: tvm.IRModule, rules: Sequence[dlight.ScheduleRule], target: tvm.target.Target
) -> tvm.IRModule | Exception:
    """Return the scheduled kernels if TVM writes CUDA for them, else what it raises."""
    try:
        with target, tvm.transform.PassContext(config=_CONFIG, disabled_pass=_DISABLED):
            scheduled = dlight.ApplyDefaultSchedule(*rules)(module) if rules else module
            source = _source_of(tirx.build(scheduled, target=target, pipeline=CUDA_PIPELINE))
    except Exception as error:  # noqa: BLE001 - TVM raises nearly every kind
        return error
    for var, function in scheduled.functions_items():
        is_started = f" {var.name_hint}_kernel(" in source or has_empty_buffer(function)
        if not is_started and not _is_of_sizes(function):
            return ValueError("its loops are a CPU's")
    return scheduled


def _is_of_sizes(function: tirx.PrimFunc) -> bool:
    """Return whether a function computes sizes, which the host does."""
    target = function.attrs.get("target") if function.attrs is not None else None
    return target is not None and target.kind.name == "llvm"


def _for_gpu(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel without what its loops ask of a CPU, and without addresses of constants."""
    if any(node.attr_key == "pragma_scope" for node in collect(tirx.AttrStmt, kernel.body)):
        kernel = relax_alignment(kernel)
    body = rewrite(expand_regions(kernel.body), [(tvm.ir.Call, _fold_reinterpretation)])
    return tirx.PrimFunc(kernel.params, body, kernel.ret_type, kernel.attrs)


def _fold_reinterpretation(call: tvm.ir.Call) -> Any:
    """Return the bits of a constant as an integer: TVM's CUDA would take its address."""
    if getattr(call.op, "name", "") != "tirx.reinterpret" or not isinstance(call.args[0], tirx.FloatImm):
        return call
    dtype, operand = str(call.ty.dtype), call.args[0]
    if not dtype.startswith(("int", "uint")):
        return call
    bits = np.array(operand.value, str(operand.ty.dtype)).view(dtype)
    return tirx.const(int(bits), dtype)


def _calls_library(kernel: tirx.PrimFunc) -> bool:
    """Return whether a kernel calls code of the CPU, such as LAPACK's."""
    return any(getattr(call.op, "name", "") in _LIBRARY_CALLS for call in collect(tvm.ir.Call, kernel.body))


def _source_of(built: tvm.runtime.Module) -> str:
    """Return the CUDA of a built module; what computes sizes is the host's."""
    return "\n".join(module.inspect_source().strip() for module in _modules(built) if module.kind == "cuda")


def _modules(built: tvm.runtime.Module) -> Iterator[tvm.runtime.Module]:
    yield built
    for imported in built.imports:
        yield from _modules(imported)


def _on_one_thread(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel whose loops one thread runs, in their order."""
    kernel = relax_alignment(kernel)
    root = kernel.body.block
    thread = tirx.IterVar(None, tirx.Var("thread", "int32"), tirx.IterVar.ThreadIndex, "threadIdx.x")
    loop = tirx.For(tirx.Var("t", "int32"), 0, 1, tirx.ForKind.THREAD_BINDING, root.body, thread)
    body = with_steps(kernel, loop, root.alloc_buffers)
    scheduled = tirx.PrimFunc(kernel.params, body, kernel.ret_type, kernel.attrs)
    return scheduled.with_attr({"tirx.is_scheduled": True})
