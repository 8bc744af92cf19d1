"""Initialize reductions of no elements."""

from __future__ import annotations

from tvm import s_tir, tirx

from nnmagic.engine.relax.tir.types import Block
from nnmagic.engine.relax.tir.visitors import collect


def initialize_reductions(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Hoist the initialisation out of each reduction that may have no elements: TVM keeps it in the loop."""
    blocks = collect(s_tir.SBlock, function.body)
    names = [block.name_hint for block in blocks if block.init is not None and _may_be_empty(block)]
    if not names:
        return function
    schedule = s_tir.Schedule(function)
    for name in names:
        block = schedule.get_sblock(name)
        loops = schedule.get_loops(block)
        kinds = [var.iter_type for var in schedule.get(block).iter_vars]
        reduced = kinds.index(tirx.IterVar.CommReduce) if len(kinds) == len(loops) else 0
        schedule.decompose_reduction(block, loops[reduced])
    return schedule.mod["main"]


def _may_be_empty(block: Block) -> bool:
    """Return whether some axis that the block reduces may have no elements."""
    extents = [var.dom.extent for var in block.iter_vars if var.iter_type == tirx.IterVar.CommReduce]
    return not all(isinstance(extent, tirx.IntImm) and extent.value > 0 for extent in extents)
