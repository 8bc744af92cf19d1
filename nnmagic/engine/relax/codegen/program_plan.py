"""Plan the machine code of a prepared program: all of it, or the kernels that the interpreter calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import tvm

from nnmagic.engine.relax.codegen import relax_pipeline
from nnmagic.engine.relax.codegen.aot.planner import plan_aot_program
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.codegen.debug_lines import note_program
from nnmagic.engine.relax.deferred_interrupts import interrupt_safepoint
from nnmagic.engine.relax.lowering.module import lower_module
from nnmagic.engine.relax.lowering.origins import KernelOrigins
from nnmagic.engine.relax.prepared_program import (
    Prepared,
    destinations_of,
    first_tensors,
    kernels_of,
    tell_of_serial_loops,
)
from nnmagic.engine.relax.runtime.compiled_program import ENTRY
from nnmagic.engine.relax.runtime.debug_files import debug_folder
from nnmagic.progress import report
from nnmagic.relay.structure.callgraph import call_graph


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """What machine code a program has.

    Attributes:
        programs: one, or those of the interpreter's kernels, in their order.
        lowered: the Relax module before fusion.
        origins: what its kernels compute.
        destinations: the arrays of the caller that it may change, with the results that they become.

    """

    programs: list[AotProgram]
    lowered: tvm.IRModule
    origins: KernelOrigins
    destinations: Mapping[int, int]


def plan_program(prepared: Prepared, target: tvm.target.Target, opt_level: int) -> ProgramPlan:
    """Lower a program to Relax, fuse its operators to kernels, and plan the functions that call these.

    Raises EngineError for what the engine cannot run.
    """
    module, entries, graph = prepared.module, {ENTRY: prepared.entry}, prepared.graph
    if prepared.control is not None:
        module, entries = kernels_of(prepared)
        graph = call_graph(module)
    destinations = {} if prepared.control is not None else destinations_of(prepared)
    interrupt_safepoint()
    report("Relax")
    with target:
        lowered = lower_module(module, entries, graph, prepared.loops, destinations.values())
    origins = KernelOrigins({name: each.span for name, each in module.functions.items()})
    grouped = relax_pipeline.fuse_kernels(lowered, target, opt_level, origins)
    if (folder := debug_folder()) is not None:
        note_program(prepared.module, prepared.entry, origins, folder)
    interrupt_safepoint()
    report("machine code")
    first = first_tensors(prepared) if prepared.lengths else ()
    lengths = [first[number] for number in prepared.lengths]
    programs = [plan_aot_program(grouped, name, destinations, lengths) for name in entries]
    for program in programs:
        tell_of_serial_loops(prepared, program.serial_loops)
    return ProgramPlan(programs, lowered, origins, destinations)
