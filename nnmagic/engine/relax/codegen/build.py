"""Build artifacts from fused Relax modules.

Machine code leaves the compiler as object files: a function that was just compiled and one from a cache run
the same code, loaded in the same way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import ir, tirx
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
    emit_support,
    function_variables,
    lower_to_pointer_args,
)
from nnmagic.engine.relax.codegen.aot.program import KernelCall
from nnmagic.engine.relax.codegen.aot.remarks import find_remarks
from nnmagic.engine.relax.codegen.aot.small_kernels import join_kernels, kernels_of_loops
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram, with_clock
from nnmagic.engine.relax.codegen.direct_call import compile_direct_call
from nnmagic.engine.relax.codegen.object_code import KERNEL_PREFIX, ObjectCode, compile_parts
from nnmagic.engine.relax.codegen.program_plan import ProgramPlan
from nnmagic.engine.relax.deferred_interrupts import run_interruptible
from nnmagic.engine.relax.legalize.debugging import prints
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
        plan: ProgramPlan,
        kernels: tvm.IRModule,
        objects: Iterable[Any],
        entry_part: int | None = None,
    ) -> None:
        self.artifact, self.plan = artifact, plan
        self._kernels = kernels
        self._objects = list(objects)
        self._entry_part = entry_part

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
        if self.artifact.kind != AOT:
            return []
        kernels, (program,) = dict(self._kernels.functions_items()), self.plan.programs
        return run_interruptible(lambda: find_remarks(program, kernels, self.plan.origins))

    def _kernel_codes(self) -> list[KernelCode]:
        with relax_pipeline.COMPILING:
            texts = stage_texts.kernel_texts(self._kernels)
            code = stage_texts.function_code(self._objects)
        kernels = []
        for name, text in texts.items():
            inside = [symbol for symbol in code if re.fullmatch(rf"\.L_internal_{name}_rounds\d+", symbol)]
            asm = [code.pop(symbol) for symbol in (*_symbols(name), *inside) if symbol in code]
            kernels.append(KernelCode(name, self.plan.origins.of(name, texts), text, "\n".join(asm)))
        rest = self.plan.origins.every.difference(*(kernel.origins for kernel in kernels))
        own = [symbol for symbol in code if not symbol.startswith(("__", ".L__"))]  # not TVM's
        return [
            *kernels,
            *(KernelCode(symbol.removeprefix(".L_internal_"), rest, "", code[symbol]) for symbol in own),
        ]

    def _text(self, name: str) -> str:
        with relax_pipeline.COMPILING:
            if name == "relax":
                return stage_texts.module_text(self.plan.lowered)
            if name == "tir":
                return stage_texts.module_text(self._kernels)
            return stage_texts.code_text(self._objects, name)


def _symbols(name: str) -> list[str]:
    """Return the symbols that a kernel may have, of which macOS has one with a character more."""
    return [f"{prefix}{name}" for prefix in (KERNEL_PREFIX, "", f"_{KERNEL_PREFIX}", "_")]


def build_aot(plan: ProgramPlan, target: tvm.target.Target, opt_level: int) -> RelaxProgram:
    """Compile a program that is machine code alone."""
    (program,) = plan.programs
    kernels, units, entry_part = compile_programs({ENTRY: program}, target, opt_level)
    parallel = program.is_parallel or kernel_preparation.has_parallel_loops(kernels.values())
    facts = {**program.facts(), **_needs(target), "parallel": parallel}
    constants = [np.ascontiguousarray(constant) for constant in program.constants]
    caller = b""
    if _can_be_called_directly(program):
        caller = compile_direct_call()
        facts["work"] = _work_of(program)
    artifact = Artifact(AOT, facts, [unit.code for unit in units], constants, caller)
    objects = [unit.module for unit in units]
    return RelaxProgram(artifact, plan, tvm.IRModule(kernels), objects, entry_part)


def build_with_clock(done: RelaxProgram, target: tvm.target.Target, opt_level: int) -> RelaxProgram:
    """Return a program that reads the clock around its kernels.

    Of machine code alone, their code is that of ``done``.
    """
    plan = replace(done.plan, programs=[with_clock(program) for program in done.plan.programs])
    if done.artifact.kind != AOT:
        facts = {key: done.artifact.facts[key] for key in ("names", "kernels")}
        return build_interpreter_kernels(plan, facts, target, opt_level)
    (program,) = plan.programs
    entries, _ = _emit({ENTRY: program}, target, opt_level)
    code = [*done.artifact.code]
    if done._entry_part is not None:
        *_, entry = compile_parts((), entries, target, apart=True)
        code[done._entry_part] = entry.code
    else:
        called = {step.kernel for step in program.clocked or ()}
        kernels = [(var, lower_to_pointer_args(done._kernels[var.name_hint])) for var in called]
        units = [unit.code for unit in compile_parts(kernels, entries, target, apart=False)]
        code = [*units, *(unit.code for unit in _compile_stubs(units))]
    facts = {**done.artifact.facts, **program.facts()}
    artifact = Artifact(AOT, facts, code, done.artifact.constants)
    return RelaxProgram(artifact, plan, done._kernels, ())


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
    plan: ProgramPlan, facts: Json, target: tvm.target.Target, opt_level: int
) -> RelaxProgram:
    """Compile the kernels of an interpreted program; ``facts``: what else a call needs to know, as JSON."""
    symbols = {f"{ENTRY}{number}": program for number, program in enumerate(plan.programs)}
    kernels, units, _ = compile_programs(symbols, target, opt_level)
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
    artifact = Artifact(INTERPRETER, facts, [unit.code for unit in units], arrays)
    return RelaxProgram(artifact, plan, tvm.IRModule(kernels), [unit.module for unit in units])


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
    units = compile_parts(functions(), entries, target, apart=several)
    kernels.update(own)
    entry_part = len(units) - 1 if several and len(units) > 1 else None
    stubs = [] if emit else _compile_stubs([unit.code for unit in units])
    return kernels, [*units, *stubs], entry_part


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
    return [*emit_support(programs.values()), *entries], own


def _compile_stubs(code: Sequence[bytes]) -> list[ObjectCode]:
    """Return what calls the libraries of SciPy and NumPy for object files."""
    return [*lapack_stubs.compile_stubs(code), *numpy_random_stubs.compile_stubs(code)]


def _needs(target: tvm.target.Target) -> Json:
    """Return what the code requires of a machine: the platform, and the instruction sets of the target."""
    features = [str(name) for name in codegen.llvm_get_cpu_features(target)]
    return {"machine": cpu.platform_name(), "instruction sets": cpu.select_required_features(features)}
