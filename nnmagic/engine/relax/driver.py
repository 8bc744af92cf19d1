"""Drive a compilation from a typed Relay module to an executable."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from nnmagic.diagnostics import CompileError, Span, TinyNNWarning, internal_error
from nnmagic.engine import engine_error
from nnmagic.engine.relax.artifact import check_machine
from nnmagic.engine.relax.codegen.preloading import load_compiler, load_runtime
from nnmagic.engine.relax.prepared_program import (
    Prepared,
    has_cells,
    prepare,
    refuse_parallel,
    remove_lengths,
)
from nnmagic.engine.relax.runtime.installation import has_compiler
from nnmagic.engine.target_kind import is_cuda
from nnmagic.fork_safety import Lock
from nnmagic.progress import report
from nnmagic.relay.expr import Call, Constant, Function, OpRef, Var
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.ops.declaration import OPERATORS
from nnmagic.relay.structure.callgraph import CallGraph, call_graph
from nnmagic.relay.structure.traverse import post_order
from nnmagic.tracebacks import is_own_fault

if TYPE_CHECKING:
    from nnmagic.engine.relax.artifact import Artifact
    from nnmagic.engine.relax.interpreter.executable import InterpretedProgram
    from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
    from nnmagic.engine.relax.runtime.cell_executable import CellExecutable
    from nnmagic.engine.relax.runtime.compiled_program import CompiledProgram
    from nnmagic.engine.relax.runtime.cuda_executable import CudaExecutable

    Loaded: TypeAlias = AotExecutable | CellExecutable | InterpretedProgram
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
    if prepared.control is not None or has_cells(prepared):
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
    check_machine(artifact.facts, entry)
    load_runtime()
    prepared = prepare(module, entry, opt_level, call_graph(module))
    prepared = replace(prepared, destinations=tuple(destinations))
    return _make_executable(artifact, prepared, _Compilation(prepared, target, opt_level), target, opt_level)


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


def _compile_or_locate(
    prepared: Prepared, target: str | Mapping[str, object] | None, opt_level: int
) -> CompiledProgram:
    """Compile a program; where that fails, raise EngineError at the first call that cannot be built alone."""
    load_compiler()
    try:
        return _compile(prepared, target, opt_level)
    except (CompileError, TinyNNWarning):
        raise
    except Exception as error:
        function = prepared.module.functions[prepared.entry]
        for node in post_order(function):
            if isinstance(node, Call) and isinstance(node.op, OpRef) and node.op.name in OPERATORS:
                alone = _prepare_alone(node, opt_level)
                try:
                    _compile(alone, target, opt_level)
                except CompileError:
                    raise
                except Exception as cause:
                    message = f"{node.op.name}: TVM cannot build this call"
                    raise _build_error(cause, node.op.name, message, node.span) from cause
        name = f"the function @{prepared.entry}"
        raise _build_error(error, name, f"TVM cannot build {name}", function.span) from error


def _build_error(error: Exception, name: str, message: str, span: Span | None) -> CompileError:
    """Return the error of what cannot be built; ``message`` says so where it is no fault of our own."""
    if is_own_fault(error):
        return internal_error(f"{name} cannot be built", error, span)
    return engine_error(message, span)


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
    prepared: Prepared, target: str | Mapping[str, object] | None, opt_level: int
) -> CompiledProgram:
    """Compile a program: to machine code alone, or to kernels that the interpreter calls."""
    import tvm

    from nnmagic.engine.relax.codegen import relax_pipeline
    from nnmagic.engine.relax.codegen.build import build_aot, build_interpreter_kernels
    from nnmagic.engine.relax.codegen.program_plan import plan_program
    from nnmagic.engine.relax.codegen.target import resolve_target
    from nnmagic.engine.relax.runtime import loader

    if prepared.control is not None:
        refuse_parallel(prepared, f"an interpreter runs the program: {prepared.control.reason}")
    loader.ensure()
    # Settings for TVM's passes that somebody made around us are no part of a function's key.
    with relax_pipeline.COMPILING, tvm.transform.PassContext():
        resolved = resolve_target(target, opt_level)
        plan = plan_program(prepared, resolved, opt_level)
        if prepared.control is None:
            return build_aot(plan, resolved, opt_level)
        return build_interpreter_kernels(plan, prepared.control.facts(prepared.module), resolved, opt_level)


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


def _make_executable(
    artifact: Artifact,
    prepared: Prepared,
    compiled: Callable[[], CompiledProgram],
    target: str | Mapping[str, object] | None,
    opt_level: int,
) -> Loaded:
    from nnmagic.engine.relax.artifact import AOT, INTERPRETER, VALUE
    from nnmagic.engine.relax.interpreter.executable import InterpretedProgram
    from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
    from nnmagic.engine.relax.runtime.cell_executable import CellExecutable

    lengths = prepared.lengths
    if lengths and all(axis != VALUE for _, axis in artifact.facts.get("dims", ())):
        prepared, lengths = remove_lengths(prepared), ()
    function, control = prepared.module.functions[prepared.entry], prepared.control
    if control is not None and artifact.kind == INTERPRETER:
        if artifact.facts["kernels"] != control.facts(prepared.module)["kernels"]:
            raise ValueError("its kernels are those of another program")
        parts = control.module, control.parameters, control.kernels
        return InterpretedProgram(prepared.entry, *parts, artifact, compiled, prepared.assertions)
    if control is None and artifact.kind == AOT:
        cells = prepared.cells
        if cells is not None:
            program = AotExecutable(prepared.entry, function, artifact, compiled, prepared.assertions)
            return CellExecutable(program, cells.signature, cells.parameters)
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
    raise ValueError(f"a program of the kind {artifact.kind!r} is none of this function's")
