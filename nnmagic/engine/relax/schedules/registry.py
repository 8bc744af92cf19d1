"""Find the kind of a kernel, and the schedule of each kind; the families register theirs."""

from __future__ import annotations

from collections.abc import Callable

from tvm import s_tir, tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.tir.types import Block
from nnmagic.engine.relax.tir.visitors import collect

#: The annotation by which an operator's rule names the kind of its block:
#: ``te.compute(..., attrs={KIND: "product"})``.
KIND = "nnmagic.kind"

#: Returns a kernel with other loops. By kind: an annotation's, or "elementwise" or "reduction" by structure.
Schedule = Callable[[tirx.PrimFunc, CpuModel], tirx.PrimFunc]

SCHEDULES: dict[str, Schedule] = {}


def kind_of(function: tirx.PrimFunc) -> str:
    """Return the annotated kind; without one, ``"reduction"`` if a block reduces, else ``"elementwise"``."""
    blocks = collect_blocks(function)
    annotated = [str(block.annotations[KIND]) for block in blocks if KIND in block.annotations]
    if annotated:
        return annotated[0]
    reduces = any(var.iter_type == tirx.IterVar.CommReduce for block in blocks for var in block.iter_vars)
    return "reduction" if reduces else "elementwise"


def collect_blocks(function: tirx.PrimFunc) -> list[Block]:
    """Return the blocks of a kernel in order; the root block, which holds the others, comes last."""
    return collect(s_tir.SBlock, function.body)
