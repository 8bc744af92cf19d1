"""Build artifacts from fused Relax modules.

Machine code leaves the compiler as object files: a function that was just compiled and one from a cache run
the same code, loaded in the same way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import ir, relax, tirx
from tvm.target import codegen

from nnmagic.engine import cpu
from nnmagic.engine.executable import KernelCode, Remark
from nnmagic.engine.relax.artifact import AOT, INTERPRETER, Artifact, Json
from nnmagic.engine.relax.codegen import (
    kernel_preparation,
    lapack_stubs,
    numpy_random_stubs,
    relax_pipeline,
    stage_texts,
)
from nnmagic.engine.relax.codegen.aot.entry import emit_entry, emit_release
from nnmagic.engine.relax.codegen.aot.functions import (
    emit_functions,
    function_variables,
    lower_to_pointer_args,
)
from nnmagic.engine.relax.codegen.aot.heap import heap_functions
from nnmagic.engine.relax.codegen.aot.program import KernelCall
from nnmagic.engine.relax.codegen.aot.remarks import find_remarks
from nnmagic.engine.relax.codegen.aot.small_kernels import join_kernels, kernels_of_loops
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram, with_clock
from nnmagic.engine.relax.codegen.direct_call import compile_direct_call
from nnmagic.engine.relax.codegen.object_code import (
    KERNEL_PREFIX,
    VM_PIPELINE,
    ObjectCode,
    compile_parts,
    keep_meaning,
)
from nnmagic.engine.relax.codegen.object_files import write_module
from nnmagic.engine.relax.deferred_interrupts import run_interruptible
from nnmagic.engine.relax.legalize.debugging import prints
from nnmagic.engine.relax.lowering.origins import KernelOrigins
from nnmagic.engine.relax.runtime.direct_call import MAX_RESULTS
from nnmagic.engine.relax.runtime.native_entry import ENTRY, RELEASE
from nnmagic.engine.relax.schedules.registry import collect_blocks
from nnmagic.engine.relax.tir.builders import static_int

#: TVM's pattern of a kernel of which nothing is known.
_OPAQUE = 8

#: Functions that call the kernels, and those of them that are shown with these.
_Emitted: TypeAlias = tuple[list[tuple[Any, tirx.PrimFunc]], list[tuple[Any, tirx.PrimFunc]]]

#: The texts that can be shown, in the order in which they are made.
STAGES = ("relax", "tir", "llvm", "asm")


class RelaxProgram:
    """A compiled program with the texts of its stages."""

    def __init__(
        self,
        artifact: Artifact,
        module: tvm.IRModule,
        kernels: tvm.IRModule,
        objects: Iterable[Any],
        origins: KernelOrigins,
        program: AotProgram | None = None,
        entry_part: int | None = None,
    ) -> None:
        self.artifact = artifact
        self._program = program
        self._entry_part = entry_part
        self.lowered = module
        self._kernels = kernels
        self.origins = origins
        self._objects = list(objects)

    def stage(self, name: str) -> str:
        """Return the text of a stage: ``relax``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for others."""
        if name not in STAGES:
            raise KeyError(f"the relax engine has no stage {name!r}; it has {', '.join(STAGES)}")
        return run_interruptible(lambda: self._text(name))

    def kernels(self) -> list[KernelCode]:
        """Return the functions of the machine code, and what each computes: kernels, then what calls them."""
        return run_interruptible(self._kernel_codes)

    def remarks(self) -> list[Remark]:
        """Return how its loops and kernels run, if it is machine code alone."""
        if (program := self._program) is None:
            return []
        kernels = dict(self._kernels.functions_items())
        return run_interruptible(lambda: find_remarks(program, kernels, self.origins))

    def _kernel_codes(self) -> list[KernelCode]:
        with relax_pipeline.COMPILING:
            texts = stage_texts.kernel_texts(self._kernels)
            code = stage_texts.function_code(self._objects)
        kernels = []
        for name, text in texts.items():
            inside = [symbol for symbol in code if re.fullmatch(rf"\.L_internal_{name}_rounds\d+", symbol)]
            asm = [code.pop(symbol) for symbol in (*_symbols(name), *inside) if symbol in code]
            kernels.append(KernelCode(name, self.origins.of(name, texts), text, "\n".join(asm)))
        rest = self.origins.every.difference(*(kernel.origins for kernel in kernels))
        own = [symbol for symbol in code if not symbol.startswith(("__", ".L__"))]  # not TVM's
        return [*kernels, *(KernelCode(symbol, rest, "", code[symbol]) for symbol in own)]

    def _text(self, name: str) -> str:
        with relax_pipeline.COMPILING:
            if name == "relax":
                return stage_texts.module_text(self.lowered)
            if name == "tir":
                return stage_texts.kernels_text(self._kernels)
            return stage_texts.code_text(self._objects, name)


def _symbols(name: str) -> list[str]:
    """Return the symbols that a kernel may have: of an AOT program, or of the virtual machine."""
    symbols = [f"{KERNEL_PREFIX}{name}", name, f"__tvm_ffi_{name}", f"{name}_compute_"]
    return [*symbols, *(f"_{symbol}" for symbol in symbols)]  # macOS has a character more


def build_aot(
    program: AotProgram,
    lowered: tvm.IRModule,
    origins: KernelOrigins,
    target: tvm.target.Target,
    opt_level: int,
) -> RelaxProgram:
    """Compile an AOT program; ``lowered`` is its module before fusion."""
    kernels, parts, entry_part = compile_programs({ENTRY: program}, target, opt_level)
    parallel = program.is_parallel or kernel_preparation.has_parallel_loops(kernels.values())
    facts = {**program.facts(), **_needs(target), "parallel": parallel}
    constants = [np.ascontiguousarray(constant) for constant in program.constants]
    caller = b""
    if _can_be_called_directly(program):
        caller = compile_direct_call()
        facts["work"] = _work_of(program)
    artifact = Artifact(AOT, facts, [unit.code for unit in parts], b"", constants, caller)
    objects = [unit.module for unit in parts]
    return RelaxProgram(artifact, lowered, tvm.IRModule(kernels), objects, origins, program, entry_part)


def build_with_clock(
    done: RelaxProgram, target: tvm.target.Target, opt_level: int
) -> tuple[AotProgram, RelaxProgram]:
    """Return an AOT program that reads the clock around its kernels: their code is that of ``done``."""
    assert done._program is not None
    program = with_clock(done._program)
    entries, _ = _emit({ENTRY: program}, target, opt_level)
    code = [*done.artifact.code]
    if done._entry_part is not None:
        (entry,) = compile_parts((), entries, target, apart=True)
        code[done._entry_part] = entry.code
    else:
        called = {step.kernel for step in program.clocked or ()}
        kernels = [(var, lower_to_pointer_args(done._kernels[var.name_hint])) for var in called]
        parts = [part.code for part in compile_parts(kernels, entries, target, apart=False)]
        code = [*parts, *(part.code for part in _compile_stubs(parts))]
    facts = {**done.artifact.facts, **program.facts()}
    artifact = Artifact(AOT, facts, code, b"", done.artifact.constants)
    return program, RelaxProgram(artifact, done.lowered, done._kernels, (), done.origins, program)


def _can_be_called_directly(program: AotProgram) -> bool:
    """Return whether CPython may call the program directly, and then call it again if it failed.

    It has no loops that threads share, and it prints nothing.
    """
    return (
        len(program.entry.all_results or program.results) <= MAX_RESULTS
        and not program.is_parallel
        and not any(map(prints, program.kernels.values()))
    )


def _work_of(program: AotProgram) -> int | None:
    """Return how many elements the kernels compute; None where that is not known at compile time."""
    if program.functions:
        return None
    count = 0
    for kernel in program.kernels.values():
        blocks = collect_blocks(kernel)
        extents = [static_int(var.dom.extent) for block in blocks for var in block.iter_vars]
        is_opaque = len(blocks) < 2 or (
            kernel.attrs is not None and kernel.attrs.get("op_pattern") == _OPAQUE
        )
        if is_opaque or None in extents:
            return None
        count += sum(
            math.prod(static_int(var.dom.extent) or 1 for var in block.iter_vars) for block in blocks
        )
    return count


def build_interpreter_kernels(
    programs: Sequence[AotProgram],
    facts: Json,
    lowered: tvm.IRModule,
    origins: KernelOrigins,
    target: tvm.target.Target,
    opt_level: int,
) -> RelaxProgram:
    """Compile the kernels of an interpreted program, each of which is an AOT program.

    Args:
        programs: the kernels, by number.
        facts: what else a call needs to know, as JSON.
        lowered: the module before fusion.
        origins: what its kernels compute.
        target: the CPU.
        opt_level: 0 to 3.

    """
    symbols = {f"{ENTRY}{number}": program for number, program in enumerate(programs)}
    kernels, parts, _ = compile_programs(symbols, target, opt_level)
    constants: dict[tuple[object, ...], tuple[int, np.ndarray]] = {}  # those of several kernels are held once
    described = []
    for symbol, program in symbols.items():
        numbers = []
        for constant in program.constants:
            key = constant.ctypes.data, constant.dtype, constant.shape, constant.strides
            numbers.append(constants.setdefault(key, (len(constants), constant))[0])
        parallel = kernel_preparation.has_parallel_loops(kernels[var] for var in program.kernels)
        described.append({**program.facts(), "symbol": symbol, "constants": numbers, "parallel": parallel})
    facts = {**facts, **_needs(target), "programs": described}
    arrays = [np.ascontiguousarray(constant) for _, constant in constants.values()]
    artifact = Artifact(INTERPRETER, facts, [unit.code for unit in parts], b"", arrays)
    return RelaxProgram(artifact, lowered, tvm.IRModule(kernels), [unit.module for unit in parts], origins)


def compile_programs(
    programs: Mapping[str, AotProgram],
    target: tvm.target.Target,
    opt_level: int,
    emit: Callable[..., _Emitted] | None = None,
) -> tuple[dict[Any, tirx.PrimFunc], list[ObjectCode], int | None]:
    """Return the scheduled kernels and the machine code of AOT programs, which are given by symbol.

    Also the number of the part that has the entries alone, if there is one. ``emit`` takes the place of
    ``_emit`` for code that never asks if it is to stop, and calls no library.
    """
    kernels: dict[Any, tirx.PrimFunc] = {}
    every: dict[Any, tirx.PrimFunc] = {}
    for program in programs.values():
        few = kernels_of_loops(program) if opt_level else {}
        prepared = dict(kernel_preparation.prepare_kernels(few.items(), target, opt_level))
        joined = join_kernels(program, prepared)
        kernels.update((var, prepared[var]) for var in joined)
        every.update((var, kernel) for var, kernel in program.kernels.items() if var not in joined)

    def functions() -> Iterator[tuple[Any, tirx.PrimFunc]]:
        """Schedule kernels while LLVM compiles the ones before."""
        for var, kernel in kernel_preparation.prepare_kernels(every.items(), target, opt_level):
            kernels[var] = kernel
            yield var, lower_to_pointer_args(kernel, polled=emit is None)

    # TVM says that what different names stand for is different memory. Of one kernel that is true, but LLVM
    # would put several into what calls them, and let the next read what the one before has not yet written.
    several = any(
        program.has_control or sum(isinstance(step, KernelCall) for step in program.entry.body) > 1
        for program in programs.values()
    )
    entries, own = (emit or _emit)(programs, target, opt_level)
    parts = compile_parts(functions(), entries, target, apart=several)
    kernels.update(own)
    entry_part = len(parts) - 1 if several and len(parts) > 1 else None
    stubs = [] if emit else _compile_stubs([part.code for part in parts])
    return kernels, [*parts, *stubs], entry_part


def _emit(programs: Mapping[str, AotProgram], target: tvm.target.Target, opt_level: int) -> _Emitted:
    """Return the functions of programs that call the kernels, and those of them that are shown with these."""
    entries: list[tuple[Any, tirx.PrimFunc]] = []
    own: list[tuple[Any, tirx.PrimFunc]] = []
    for symbol, program in programs.items():
        variables = function_variables(program, symbol)
        with target if opt_level else nullcontext():
            emitted = list(emit_functions(program, variables))
            entry = emit_entry(program, variables, symbol)
        shown = [
            variables[function]
            for function in variables
            if function.is_kernel or function.parallel is not None
        ]
        own += [(var, function) for var, function in emitted if any(var is other for other in shown)]
        entries += emitted
        if program.entry.left:
            left = symbol + RELEASE
            entries.append((ir.GlobalVar(left), emit_release(left)))
        entries.append((ir.GlobalVar(symbol), entry))
    if any(program.uses_heap or program.entry.left for program in programs.values()):
        entries[:0] = heap_functions()
    return entries, own


def _compile_stubs(code: Sequence[bytes]) -> list[ObjectCode]:
    """Return what calls the libraries of SciPy and NumPy for object files."""
    return [*lapack_stubs.compile_stubs(code), *numpy_random_stubs.compile_stubs(code)]


def build_vm(
    kind: str,
    facts: Json,
    lowered: tvm.IRModule,
    grouped: tvm.IRModule,
    origins: KernelOrigins,
    target: tvm.target.Target,
    opt_level: int,
) -> RelaxProgram:
    """Compile a module for the virtual machine.

    Args:
        kind: VM or INTERPRETER.
        facts: what a call needs to know, as JSON.
        lowered: the module before fusion.
        grouped: the module after fusion.
        origins: what its kernels compute.
        target: the CPU.
        opt_level: 0 to 3.

    """
    module = relax_pipeline.for_virtual_machine(
        kernel_preparation.prepare_module(grouped, target, opt_level), target
    )
    functions = {
        var: keep_meaning(function) if isinstance(function, tirx.PrimFunc) else function
        for var, function in module.functions_items()
    }
    whole = tvm.IRModule(functions, attrs=module.attrs)
    config = {**relax_pipeline.NO_SHARED_STORAGE, **relax_pipeline.NO_CHOSEN_UNROLLING}
    with tvm.transform.PassContext(config=config):
        built = relax.build(whole, target=target, relax_pipeline=None, tir_pipeline=VM_PIPELINE).mod
    modules = [each for each in built.imports if each.kind == "llvm"]
    code = [write_module(each, "o") for each in modules]
    for stubs in _compile_stubs(code):
        modules.append(stubs.module)
        code.append(stubs.code)
    parallel = kernel_preparation.has_parallel_loops(module.functions.values())
    facts = {**facts, **_needs(target), "parallel": parallel}
    artifact = Artifact(kind, facts, code, write_module(built, "ro"))
    return RelaxProgram(artifact, lowered, module, modules, origins)


def _needs(target: tvm.target.Target) -> Json:
    """Return what the code requires of a machine: the platform, and the instruction sets of the target."""
    features = [str(name) for name in codegen.llvm_get_cpu_features(target)]
    return {"machine": cpu.platform_name(), "instruction sets": cpu.select_required_features(features)}
