"""Compile typed Relay modules to C functions, in one object file for this machine or for another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from nnmagic.diagnostics import CompileError, last_line
from nnmagic.engine import engine_error
from nnmagic.engine.relax.codegen.preloading import load_compiler, load_runtime
from nnmagic.engine.relax.prepared_program import Prepared, first_tensors, prepare
from nnmagic.engine.relax.runtime.installation import has_compiler
from nnmagic.relay.module import Module
from nnmagic.relay.structure.callgraph import call_graph

if TYPE_CHECKING:
    from nnmagic.engine.relax.codegen.c.functions import CFunction


_T = TypeVar("_T")

#: What the symbols of functions begin with that stay in this process, where C's library has names, too.
IN_PROCESS = "nnm_of_"


@dataclass(frozen=True, slots=True)
class CSource:
    """A function that becomes one of C.

    Attributes:
        module: typed, with the function and those that it calls.
        entry: the name of the function in the module.
        symbol: its name in C.
        destinations: the numbers of the parameters that a call may change, each with whether it is read.
        opt_level: 0 to 3.

    """

    module: Module
    entry: str
    symbol: str
    destinations: Sequence[tuple[int, bool]]
    opt_level: int


def compile_c_functions(
    sources: Sequence[CSource], target: str | Mapping[str, object] | None
) -> tuple[list[CFunction], bytes]:
    """Return the functions, and the object file that defines them.

    ``target`` names another machine; None is this one. Raises EngineError for what cannot become C.
    """

    def compile_all() -> tuple[list[CFunction], bytes]:
        from nnmagic.engine.relax.codegen.c.functions import link

        functions = [_compile(source, target) for source in sources]
        return functions, link(functions).code

    return _run_compiler(compile_all)


@dataclass(frozen=True, slots=True)
class CPointer:
    """A function of C in this process: its address, its arguments, and what holds its machine code."""

    address: int
    signature: str
    function: CFunction
    library: object


def load_c_function(source: CSource, choose: Callable[[CFunction], str]) -> CPointer:
    """Compile a function for this process; ``choose`` returns a signature of ``adapter_code``.

    Raises EngineError for what cannot become C.
    """

    def load() -> CPointer:
        from nnmagic.engine.relax.codegen.c.adapter_code import ADDRESS_OF, adapter_code
        from nnmagic.engine.relax.codegen.c.functions import link
        from nnmagic.engine.relax.runtime.loader import load_objects

        function = _compile(source, None, threads=False)
        signature = choose(function)
        library = load_objects([link([function], adapter_code(function, signature)).code])
        return CPointer(library[ADDRESS_OF](), signature, function, library)

    return _run_compiler(load)


def _run_compiler(work: Callable[[], _T]) -> _T:
    """Load the compiler, and do some work with it that an interrupt ends."""
    from nnmagic.engine.relax.deferred_interrupts import run_interruptible

    load_runtime()
    if not has_compiler():
        hint = "install apache-tvm, or unset TVM_USE_RUNTIME_LIB"
        raise engine_error("nothing can be exported to C: TVM's compiler is not here", hint=hint)
    load_compiler()
    return run_interruptible(work)


def _compile(
    source: CSource, target: str | Mapping[str, object] | None, *, threads: bool = True
) -> CFunction:
    graph = call_graph(source.module)
    numbers = tuple(number for number, _ in source.destinations)
    prepared = replace(prepare(source.module, source.entry, source.opt_level, graph), destinations=numbers)
    try:
        return _compile_prepared(prepared, source, target, threads=threads)
    except CompileError:
        raise
    except Exception as error:
        span = prepared.module.functions[prepared.entry].span
        message = f"@{source.entry} cannot be compiled for this target: {last_line(error)}"
        raise engine_error(message, span) from error


def _compile_prepared(
    prepared: Prepared, source: CSource, target: str | Mapping[str, object] | None, *, threads: bool
) -> CFunction:
    import tvm

    from nnmagic.engine.relax.analysis.entry_signature import type_of
    from nnmagic.engine.relax.analysis.tuple_flattening import flat_names
    from nnmagic.engine.relax.codegen import relax_pipeline
    from nnmagic.engine.relax.codegen.c.functions import compile_c_function
    from nnmagic.engine.relax.codegen.program_plan import plan_program
    from nnmagic.engine.relax.codegen.target import resolve_target_of_export
    from nnmagic.engine.relax.runtime import loader

    function = prepared.module.functions[prepared.entry]
    if prepared.control is not None:
        message = f"@{source.entry} cannot become C: {prepared.control.reason}"
        raise engine_error(message, function.span, hint="export a function of tensors that this one calls")
    if prepared.cells is not None:
        message = f"@{source.entry} cannot become C: it takes or returns values of data types"
        raise engine_error(message, function.span, hint="take and return arrays and numbers")
    loader.ensure()
    with relax_pipeline.COMPILING, tvm.transform.PassContext():
        resolved = resolve_target_of_export(target, source.opt_level)
        plan = plan_program(prepared, resolved, source.opt_level)
        (program,) = plan.programs
        params = function.params[: len(function.params) - len(program.lengths)]
        names = [name for var in params for name in flat_names(var.name_hint, type_of(var))]
        first = first_tensors(prepared)
        reads = {first[number]: read for number, read in source.destinations}
        changed = {tensor: (result, reads[tensor]) for tensor, result in plan.destinations.items()}
        messages = [_message(failure, prepared) for failure in program.failures]
        return compile_c_function(
            program,
            source.symbol,
            source.entry,
            names,
            changed,
            messages,
            resolved,
            source.opt_level,
            threads=threads,
        )


def _message(failure: list[object], prepared: Prepared) -> str:
    """Return what a failure of a program says."""
    match failure:
        case ["assertion", int() as number]:
            error = prepared.assertions[number].error()
            said = str(error).split("\n", 1)[0]
            return f"{type(error).__name__}: {said}".removesuffix(": ")
        case ["index"]:
            return "IndexError: an index is out of range"
        case [_, str() as message, *_]:
            return f"ValueError: {message}"
    raise AssertionError(f"an unknown failure: {failure}")
