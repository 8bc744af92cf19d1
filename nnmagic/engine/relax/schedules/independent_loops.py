"""Let threads share the loops that an operator's rule marks: their rounds are independent of each other."""

from __future__ import annotations

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel, Work
from nnmagic.engine.relax.schedules.registry import SCHEDULES
from nnmagic.engine.relax.schedules.thread_choice import choose_threads
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Stmt
from nnmagic.engine.relax.tir.visitors import rewrite

#: The kind of the kernels with such loops.
INDEPENDENT = "independent"

#: The annotation of such a loop: how many operations on elements one round is.
_WORK = "nnmagic.work_of_round"


def independent_loop(loop: tirx.For, work_of_round: int) -> Stmt:
    """Mark a loop whose rounds are independent, each of about so many operations on elements."""
    annotations = {_WORK: as_expr(work_of_round)}
    return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, annotations=annotations)


def _share_loops(function: tirx.PrimFunc, machine: CpuModel) -> tirx.PrimFunc:
    """Share the loops that are enough work."""

    def share(loop: tirx.For) -> Stmt:
        if _WORK not in loop.annotations:
            return loop

        def build(threads: bool) -> Stmt:
            kind = tirx.ForKind.PARALLEL if threads else loop.kind
            return tirx.For(loop.loop_var, loop.min, loop.extent, kind, loop.body)

        return choose_threads(machine, Work.ROW_OPERATIONS, [loop.extent, loop.annotations[_WORK]], build)

    return rewrite(function, [(tirx.For, share)])


SCHEDULES[INDEPENDENT] = _share_loops
