"""Make small kernels parts of the loops that call them: a call takes longer than a few elements do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tvm import ir, s_tir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.schedules.registry import collect_blocks
from nnmagic.engine.relax.tir.builders import sequence, static_int
from nnmagic.engine.relax.tir.types import PrimExpr, PrimFunc, Stmt
from nnmagic.engine.relax.tir.visitors import collect, rewrite

#: A kernel that is no more than so many stores is small; a program gets at most so many of them.
_MOST_STORES, _MOST_STORES_TOGETHER = 64, 1500


def kernels_of_loops(program: AotProgram) -> dict[ir.GlobalVar, PrimFunc]:
    """Return the kernels that loops call, and that may be small before they are scheduled."""
    called = {
        step.kernel
        for function in program.functions
        if function.loops
        for step in function.steps()
        if isinstance(step, aot.KernelCall)
    }
    return {var: kernel for var, kernel in program.kernels.items() if var in called and _is_static(kernel)}


def _is_static(kernel: PrimFunc) -> bool:
    """Return whether the loops of a kernel have few rounds, known at compile time."""
    return _count_stores(kernel.body) is not None


def join_kernels(program: AotProgram, kernels: Mapping[ir.GlobalVar, PrimFunc]) -> set[ir.GlobalVar]:
    """Let loops contain prepared kernels that are small; return those that nobody calls any more."""
    kernels = {var: _without_plain_blocks(kernel) for var, kernel in kernels.items()}
    counts = {
        var: count
        for var, kernel in kernels.items()
        if not collect_blocks(kernel) and (count := _count_stores(kernel.body)) is not None
    }
    budget = _MOST_STORES_TOGETHER
    used: set[ir.GlobalVar] = set()
    for function in program.functions:
        if not function.loops or function.is_kernel or function.parallel is not None:
            continue
        for region in list(aot.regions_of(function.body)):
            for at, step in enumerate(region):
                if not isinstance(step, aot.KernelCall) or counts.get(step.kernel, budget + 1) > budget:
                    continue
                budget -= counts[step.kernel]
                kernel = kernels[step.kernel]
                # TVM wants each variable bound once in a function: a second copy gets variables of
                # its own.
                region[at] = replace(step, joined=_copy(kernel) if step.kernel in used else kernel)
                used.add(step.kernel)
    called = {
        step.kernel
        for function in (program.entry, *program.functions)
        for step in function.steps()
        if isinstance(step, aot.KernelCall) and step.joined is None
    }
    return used - called


def _without_plain_blocks(kernel: PrimFunc) -> PrimFunc:
    """Return a kernel without blocks that have no axes: those of loops that nothing schedules."""

    def body_of(realize: s_tir.SBlockRealize) -> Stmt:
        block = realize.block
        if block.iter_vars or block.match_buffers or block.init is not None:
            return realize
        return sequence([*map(tirx.AllocBuffer, block.alloc_buffers), block.body])

    return kernel.with_body(rewrite(kernel.body, [(s_tir.SBlockRealize, body_of)]))


def _copy(kernel: PrimFunc) -> PrimFunc:
    """Return a kernel with variables of its own."""
    return ir.load_json(ir.save_json(kernel))


def _count_stores(body: Stmt) -> int | None:
    """Return how many elements a kernel stores, if they are few; None where it is more than such stores."""
    counts = _Count()
    counts.add(body, 1)
    return counts.stores if counts.is_small and counts.stores <= _MOST_STORES else None


class _Count:
    def __init__(self) -> None:
        self.stores = 0
        self.is_small = True

    def add(self, statement: Stmt, times: int) -> None:
        """Count the stores of a statement that runs so many times."""
        match statement:
            case tirx.SeqStmt(seq=parts):
                for part in parts:
                    self.add(part, times)
            case tirx.For():
                extent = static_int(statement.extent)
                if extent is None or statement.kind == tirx.ForKind.PARALLEL:
                    self.is_small = False
                else:
                    vectors = statement.kind == tirx.ForKind.VECTORIZED
                    # A vector is stored by one instruction.
                    self.add(statement.body, times if vectors else times * max(extent, 1))
            case tirx.BufferStore():
                self.stores += times
                self._look(statement)
            case tirx.IfThenElse():
                self._look(statement.condition)
                self.add(statement.then_case, times)
                if statement.else_case is not None:
                    self.add(statement.else_case, times)
            case tirx.AttrStmt(body=body) | s_tir.SBlock(body=body):
                self.add(body, times)
            case s_tir.SBlockRealize():
                self.add(statement.block, times)
            case tirx.DeclBuffer() | tirx.Bind():
                self._look(statement)
            case tirx.AllocBuffer(buffer=buffer):
                self.is_small &= all(static_int(dim) is not None for dim in buffer.ty.shape)
            case _:
                self.is_small = False

    def _look(self, node: PrimExpr | Stmt) -> None:
        """Refuse what calls a function."""
        calls = collect(ir.Call, node)
        names = {str(getattr(call.op, "name", "")) for call in calls}
        self.is_small &= names.isdisjoint(_FOREIGN)


#: The operators that call a function.
_FOREIGN = {"tirx.call_extern", "tirx.call_pure_extern", "tirx.call_packed", "tirx.tvm_call_packed"}
