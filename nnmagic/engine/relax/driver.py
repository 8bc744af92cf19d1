"""Drive a compilation from a typed Relay module to an executable."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from nnmagic.diagnostics import CompileError, InternalError, TinyNNWarning, internal_error
from nnmagic.engine import cpu, engine_error
from nnmagic.engine.relax.codegen.preloading import load_compiler, load_runtime
from nnmagic.engine.relax.prepared_program import (
    Prepared,
    destinations_of,
    first_tensors,
    has_lengths,
    kernels_of,
    prepare,
    refuse_parallel,
    remove_lengths,
    without_pranges,
)
from nnmagic.engine.relax.runtime.installation import has_compiler
from nnmagic.engine.target_kind import is_cuda
from nnmagic.fork_safety import Lock
from nnmagic.progress import report
from nnmagic.relay.expr import Call, Constant, Function, If, OpRef, Var
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.ops.declaration import OPERATORS
from nnmagic.relay.structure.callgraph import CallGraph, call_graph
from nnmagic.relay.structure.traverse import post_order
from nnmagic.tracebacks import is_own_fault

if TYPE_CHECKING:
    import tvm

    from nnmagic.engine.relax.artifact import Artifact
    from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
    from nnmagic.engine.relax.interpreter.executable import InterpretedProgram, MachineInterpretedProgram
    from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
    from nnmagic.engine.relax.runtime.cuda_executable import CudaExecutable
    from nnmagic.engine.relax.runtime.vm_executable import CompiledProgram, VmExecutable

    Loaded: TypeAlias = AotExecutable | VmExecutable | InterpretedProgram
    Executable: TypeAlias = Loaded | CudaExecutable

#: How many compiled programs keep the texts of their stages at hand.
_KEPT_PROGRAMS = 16


def build(
    module: Module,
    entry: str,
    *,
    target: str | Mapping[str, object] | None = None,
    opt_level: int = 3,
    destinations: Sequence[int] = (),
) -> Executable:
    """Compile the function ``entry`` of a typed module.

    Args:
        module: a typed module.
        entry: the name of the function to run.
        destinations: the numbers of the parameters that are tensors which a call may change, so that they
            become the last results of the function; ``AotExecutable.call_into`` says what it changes.
        target: None for this machine's CPU, or TVM's dict of settings; ``"cuda"`` for the first GPU.
        opt_level: 0 keeps one kernel per operator; from 1 on operators are fused. LLVM's level is the same.

    Raises:
        EngineError: if the program or the target cannot be compiled.
        ValueError: for an invalid level.

    """
    if "tvm" not in sys.modules:
        report("loading the compiler")
    from nnmagic.engine.relax.analysis.entry_signature import check_widths
    from nnmagic.engine.relax.compiler_process import compile_elsewhere, reason_to_compile_elsewhere
    from nnmagic.engine.relax.deferred_interrupts import run_interruptible

    load_runtime()
    if opt_level not in range(4):
        raise ValueError(f"opt_level must be 0, 1, 2 or 3, not {opt_level!r}")
    if not has_compiler():
        raise engine_error(
            f"@{entry} cannot be compiled: TVM's compiler is not here",
            hint="install apache-tvm, or unset TVM_USE_RUNTIME_LIB; what was compiled before runs without it",
        )
    if not is_cuda(target) and (reason := reason_to_compile_elsewhere()) is not None:
        report(f"in another process, {reason}")
        artifact = compile_elsewhere(module, entry, target, opt_level, destinations)
        return load(artifact, module, entry, target=target, opt_level=opt_level)
    check_widths(module, entry)
    graph = call_graph(module)
    run_interruptible(lambda: _refuse_unknown_operators(module, entry, graph))
    try:
        prepared = replace(prepare(module, entry, opt_level, graph), destinations=tuple(destinations))
    except Exception as error:
        if isinstance(error, CompileError) or not is_own_fault(error):
            raise
        span = module.functions[entry].span
        raise internal_error(f"the function @{entry} cannot be prepared", error, span) from error
    if is_cuda(target):
        return run_interruptible(lambda: _build_cuda(prepared, target, opt_level))
    compilation = _Compilation(prepared, target, opt_level)
    return _make_executable(compilation().artifact, prepared, compilation, target, opt_level)


def _build_cuda(
    prepared: Prepared, target: str | Mapping[str, object] | None, opt_level: int
) -> CudaExecutable:
    """Compile for a GPU. Raises EngineError for a program that needs the interpreter."""
    import tvm

    from nnmagic.engine.relax.codegen import relax_pipeline
    from nnmagic.engine.relax.codegen.cuda import build_cuda
    from nnmagic.engine.relax.codegen.target import resolve_target
    from nnmagic.engine.relax.runtime import loader
    from nnmagic.engine.relax.runtime.cuda_executable import CudaExecutable

    if prepared.lengths:
        prepared = remove_lengths(prepared)
    module, entry = prepared.module, prepared.entry
    function = module.functions[entry]
    if prepared.control is not None:
        message = f"@{entry} has data types or functions as values, for which no CUDA code is generated"
        raise engine_error(message, function.span, hint="leave the target out")
    loader.ensure()
    with relax_pipeline.COMPILING, tvm.transform.PassContext():
        resolved = resolve_target(target, opt_level)
        program = build_cuda(module, entry, prepared.graph, resolved, opt_level)
    return CudaExecutable(entry, function, program, prepared.assertions)


def read_debugging_data() -> None:
    """Let TVM read, before it is needed, what it reads for the first error: without Python's lock."""
    from nnmagic.engine.relax.runtime import ffi

    ffi.read_debugging_data()


def build_instrumentable(
    module: Module, entry: str, *, target: str | Mapping[str, object] | None = None, opt_level: int = 3
) -> MachineInterpretedProgram:
    """Compile the function ``entry``, one for the interpreter, with kernels of the virtual machine."""
    from nnmagic.engine.relax.deferred_interrupts import run_interruptible
    from nnmagic.engine.relax.interpreter.executable import MachineInterpretedProgram

    prepared = prepare(module, entry, opt_level, call_graph(module), native=False)
    compiled = run_interruptible(
        lambda: _compile_or_locate(prepared, target, opt_level, native_kernels=False)
    )
    executable = _make_executable(compiled.artifact, prepared, lambda: compiled, target, opt_level)
    assert isinstance(executable, MachineInterpretedProgram)
    return executable


def _refuse_unknown_operators(module: Module, entry: str, graph: CallGraph) -> None:
    load_compiler()
    from nnmagic.engine.relax.lowering.module import refuse_unknown_operators

    refuse_unknown_operators(module, entry, graph)


def load(
    artifact: Artifact,
    module: Module,
    entry: str,
    *,
    target: str | Mapping[str, object] | None = None,
    opt_level: int = 3,
    destinations: Sequence[int] = (),
) -> Loaded:
    """Return what ``build`` makes of the same arguments, from its artifact and without loading the compiler.

    The compiler is loaded when the text of a stage is asked for.

    Raises:
        EngineError: if this machine cannot run the code.
        ValueError, KeyError, TypeError, RuntimeError: if the artifact belongs to a different program.

    """
    _check_machine(artifact, entry)
    load_runtime()
    prepared = prepare(module, entry, opt_level, call_graph(module))
    prepared = replace(prepared, destinations=tuple(destinations))
    return _make_executable(artifact, prepared, _Compilation(prepared, target, opt_level), target, opt_level)


def _check_machine(artifact: Artifact, entry: str) -> None:
    made_for = artifact.facts["machine"]
    if made_for != cpu.platform_name():
        raise engine_error(f"@{entry} was compiled for {made_for}, and this is {cpu.platform_name()}")
    lacking = cpu.missing_features(artifact.facts["instruction sets"])
    if lacking:
        raise engine_error(f"@{entry} was compiled for a CPU with {', '.join(lacking)}, which this one lacks")


class _Compilation:
    """Compile a program when it is called; only the programs that were called for last are kept.

    The stages of a program take far more memory than its machine code, which its executable holds.
    """

    _recent: ClassVar[deque[weakref.ref[_Compilation]]] = deque()
    _lock: ClassVar[Lock] = Lock()

    def __init__(self, prepared: Prepared, target: str | Mapping[str, object] | None, opt_level: int) -> None:
        self._compile = partial(_compile_or_locate, prepared, target, opt_level)
        self._program: CompiledProgram | None = None

    def __call__(self) -> CompiledProgram:
        """Return the program, compiled now if it is not kept."""
        from nnmagic.engine.relax.deferred_interrupts import run_interruptible

        program = self._program
        if program is None:
            program = self._program = run_interruptible(self._compile)
        with self._lock:
            others = [
                executable
                for ref in self._recent
                if (executable := ref()) is not None and executable is not self
            ]
            for oldest in others[: -_KEPT_PROGRAMS + 1]:
                oldest._program = None
            self._recent.clear()
            self._recent.extend(map(weakref.ref, [*others[-_KEPT_PROGRAMS + 1 :], self]))
        return program


class _NotNativeError(Exception):
    """A program with lengths is not one of machine code alone."""


class _BuildError(Exception):
    """TVM failed, with the exception that is the cause."""


class _FaultError(Exception):
    """nnmagic itself failed; its argument is the exception that is the cause."""


def _compile_or_locate(
    prepared: Prepared,
    target: str | Mapping[str, object] | None,
    opt_level: int,
    *,
    native_kernels: bool = True,
) -> CompiledProgram:
    """Compile a program; where that fails, raise EngineError at the first call that cannot be built alone."""
    load_compiler()
    try:
        return _compile(prepared, target, opt_level, native_kernels=native_kernels)
    except (_BuildError, _FaultError) as failure:
        function = prepared.module.functions[prepared.entry]
        for node in post_order(function):
            if isinstance(node, Call) and isinstance(node.op, OpRef) and node.op.name in OPERATORS:
                alone = _prepare_alone(node, opt_level)
                try:
                    _compile(alone, target, opt_level)
                except _BuildError as cause:
                    raise engine_error(f"{node.op.name}: TVM cannot build this call", node.span) from cause
                except _FaultError as cause:
                    what = f"{node.op.name} cannot be built"
                    raise internal_error(what, cause.args[0], node.span) from cause
        if isinstance(failure, _FaultError):
            what = f"the function @{prepared.entry} cannot be built"
            raise internal_error(what, failure.args[0], function.span) from failure
        raise engine_error(f"TVM cannot build the function @{prepared.entry}", function.span) from failure


def _prepare_alone(call: Call, opt_level: int) -> Prepared:
    """Prepare a program that is one call of an operator; its operands are parameters or constants."""
    operands = [
        arg if isinstance(arg, Constant) else Var(f"x{index}", arg.checked_type)
        for index, arg in enumerate(call.args)
    ]
    params = tuple(operand for operand in operands if isinstance(operand, Var))
    body = Call(call.op, tuple(operands), call.attrs, span=call.span)
    module = infer_type(Module({"main": Function(params, body, span=call.span)}))
    return prepare(module, "main", opt_level, call_graph(module))


def _compile(
    prepared: Prepared,
    target: str | Mapping[str, object] | None,
    opt_level: int,
    *,
    native_kernels: bool = True,
) -> CompiledProgram:
    """Compile a program; integers that decide sizes are lengths where that gives machine code alone."""
    if prepared.lengths:
        try:
            return _compile_as_is(prepared, target, opt_level, native_kernels=native_kernels)
        except InternalError:
            raise
        except (CompileError, _NotNativeError, _BuildError):
            prepared = remove_lengths(prepared)
    return _compile_as_is(prepared, target, opt_level, native_kernels=native_kernels)


def _compile_as_is(
    prepared: Prepared,
    target: str | Mapping[str, object] | None,
    opt_level: int,
    *,
    native_kernels: bool = True,
) -> CompiledProgram:
    """Compile a program; ``native_kernels``: whether the interpreter's kernels need no virtual machine."""
    import tvm

    from nnmagic.engine.relax.artifact import INTERPRETER, VM
    from nnmagic.engine.relax.codegen import relax_pipeline
    from nnmagic.engine.relax.codegen.aot.planner import SerialLoopError, plan_aot_programs
    from nnmagic.engine.relax.codegen.build import build_aot, build_interpreter_kernels, build_vm
    from nnmagic.engine.relax.codegen.target import resolve_target
    from nnmagic.engine.relax.deferred_interrupts import interrupt_safepoint
    from nnmagic.engine.relax.lowering.module import lower_module
    from nnmagic.engine.relax.lowering.origins import KernelOrigins
    from nnmagic.engine.relax.runtime import loader
    from nnmagic.engine.relax.runtime.vm_executable import ENTRY

    if prepared.control is not None and native_kernels:
        refuse_parallel(prepared, "the program needs the interpreter, for data types or functions as values")
    control = prepared.control
    module, entries = (prepared.module, {ENTRY: prepared.entry}) if control is None else kernels_of(prepared)
    graph = prepared.graph if control is None else call_graph(module)
    loader.ensure()
    # Settings for TVM's passes that somebody made around us are no part of a function's key.
    with relax_pipeline.COMPILING, tvm.transform.PassContext():
        interrupt_safepoint()
        resolved = resolve_target(target, opt_level)
        try:
            report("Relax")
            with resolved:
                destinations = destinations_of(prepared) if control is None else {}
                lowered = lower_module(module, entries, graph, prepared.loops, destinations.values())
            origins = KernelOrigins({name: each.span for name, each in module.functions.items()})
            grouped = relax_pipeline.fuse_kernels(lowered, resolved, opt_level, origins)
            interrupt_safepoint()
            report("machine code")
            program = None if control else _plan(prepared, grouped, destinations)
            if program is not None:
                return build_aot(program, lowered, origins, resolved, opt_level)
            _refuse_lengths(prepared)
            refuse_parallel(prepared, "the program is not one of machine code alone")
            if destinations:  # the virtual machine's results must be copies of what they share memory with
                return _compile(replace(prepared, destinations=()), target, opt_level)
            _warn_of_interpreter(prepared, target, "no native code is made for the sizes of its arrays")
            if prepared.loops:
                return _compile(prepared.interpreted(), target, opt_level)
            kind, facts = VM, {"deep": "deep_calls" in (lowered.attrs or {})}
            if control is not None:
                kind, facts = INTERPRETER, control.facts(prepared.module)
                programs = plan_aot_programs(grouped, entries) if native_kernels else None
                if programs is not None:
                    return build_interpreter_kernels(programs, facts, lowered, origins, resolved, opt_level)
            return build_vm(kind, facts, lowered, grouped, origins, resolved, opt_level)
        except (CompileError, _NotNativeError, _BuildError, _FaultError, TinyNNWarning):
            raise
        except SerialLoopError as error:
            if (serial := without_pranges(prepared, error.args[1])) is not None:
                return _compile(serial, target, opt_level)
            refuse_parallel(prepared, error.args[1], error.args[0])
            raise
        except Exception as error:  # noqa: BLE001 - TVM raises nearly every kind
            return _compile(_interpreted_after(prepared, error, target), target, opt_level)


def _warn_of_interpreter(prepared: Prepared, target: str | Mapping[str, object] | None, reason: str) -> None:
    """Warn of a program for the CPU that is far slower than others, unless it needs the interpreter."""
    if prepared.control is None and not is_cuda(target):
        message = f"@{prepared.entry} does not run as machine code alone, and is slow: {reason}"
        warnings.warn(message, TinyNNWarning, stacklevel=2)


def _interpreted_after(
    prepared: Prepared, error: Exception, target: str | Mapping[str, object] | None
) -> Prepared:
    """Return a program for the interpreter, after TVM failed at one without it.

    Raises _BuildError where the interpreter would not help, and _FaultError where it was not TVM that failed.
    """
    if is_own_fault(error):
        raise _FaultError(error) from error
    # TVM has no place for what depends on values inside of branches.
    if not prepared.lengths and (prepared.loops or (prepared.control is None and _has_branches(prepared))):
        _warn_of_interpreter(prepared, target, f"TVM failed to compile it ({type(error).__name__})")
        return prepared.interpreted()
    raise _BuildError from error


def _plan(prepared: Prepared, module: tvm.IRModule, destinations: Mapping[int, int]) -> AotProgram | None:
    """Plan a program of machine code; values decide no sizes of results if it changes arguments."""
    from nnmagic.engine.relax.codegen.aot.planner import plan_aot_program
    from nnmagic.engine.relax.runtime.vm_executable import ENTRY

    first = first_tensors(prepared)
    lengths = [first[number] for number in prepared.lengths]
    return plan_aot_program(module, ENTRY, destinations, lengths=lengths, measured_results=not destinations)


def _build_without_lengths(
    prepared: Prepared, target: str | Mapping[str, object] | None, opt_level: int
) -> Loaded:
    """Compile a program for sizes that no array has as its length: negative ones."""
    general = remove_lengths(prepared)
    if not has_compiler():
        message = f"@{prepared.entry} must be compiled again for a negative size: TVM's compiler is not here"
        raise engine_error(message, hint="install apache-tvm, or unset TVM_USE_RUNTIME_LIB")
    compilation = _Compilation(general, target, opt_level)
    return _make_executable(compilation().artifact, general, compilation, target, opt_level)


def _refuse_lengths(prepared: Prepared) -> None:
    """Raise _NotNativeError if integers are lengths."""
    if prepared.lengths:
        raise _NotNativeError


def _has_branches(prepared: Prepared) -> bool:
    return any(isinstance(node, If) for node in post_order(prepared.module.functions[prepared.entry]))


def _make_executable(
    artifact: Artifact,
    prepared: Prepared,
    compiled: Callable[[], CompiledProgram],
    target: str | Mapping[str, object] | None,
    opt_level: int,
) -> Loaded:
    from nnmagic.engine.relax.artifact import AOT, INTERPRETER, VM
    from nnmagic.engine.relax.interpreter.executable import (
        MachineInterpretedProgram,
        NativeInterpretedProgram,
    )
    from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
    from nnmagic.engine.relax.runtime.vm_executable import VmExecutable

    lengths = prepared.lengths
    if lengths and not (artifact.kind == AOT and has_lengths(artifact)):
        prepared, lengths = remove_lengths(prepared), ()
    if artifact.kind == INTERPRETER and prepared.control is None:
        prepared = prepared.interpreted()
    function, control = prepared.module.functions[prepared.entry], prepared.control
    if control is not None and artifact.kind == INTERPRETER:
        if artifact.facts["kernels"] != control.facts(prepared.module)["kernels"]:
            raise ValueError("its kernels are those of another program")
        if "programs" in artifact.facts:
            functions = [kernel.function for kernel in control.kernels]
            return NativeInterpretedProgram(
                control.code, control.parameters, functions, artifact, compiled, prepared.assertions
            )
        names = map(str, artifact.facts["names"])  # those of the program that was compiled
        kernels = [(name, kernel.deep) for name, kernel in zip(names, control.kernels, strict=True)]
        return MachineInterpretedProgram(
            control.code, control.parameters, kernels, artifact, compiled, prepared.assertions
        )
    if control is None and artifact.kind == AOT:
        general = partial(_build_without_lengths, prepared, target, opt_level) if lengths else None
        return AotExecutable(
            prepared.entry,
            function,
            artifact,
            compiled,
            prepared.assertions,
            lengths=lengths,
            general=general,
        )
    if control is None and artifact.kind == VM:
        return VmExecutable(prepared.entry, function, artifact, compiled, prepared.assertions)
    raise ValueError(f"a program of the kind {artifact.kind!r} is none of this function's")
