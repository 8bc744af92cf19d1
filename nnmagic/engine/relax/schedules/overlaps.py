"""Decide whether a region of an array can be written while its new elements are computed from that array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tvm import ir, sym

from nnmagic.engine.relax.schedules.kernel_analysis import BlockStage
from nnmagic.engine.relax.tir.builders import as_expr, collect_loads
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr
from nnmagic.engine.relax.tir.visitors import replace_vars

#: The most loads that are followed to an array: beyond, a chain of kernels is too long for one loop.
_MOST_LOADS = 256

#: Calls a function with each load of a buffer that no stage writes, and its indices.
Visitor = Callable[[Buffer, Sequence[Index]], bool]


class Positions:
    """The elements of an array that stay as they are, or are written only after they are read.

    Of a loop over the elements ``start + i`` of each axis, which reads and writes the array: a read at the
    place of the write is of the old element, and what lies outside of the region does not change.
    """

    def __init__(self, axes: Sequence[PrimExpr], spans: Sequence[tuple[Index, Extent]]) -> None:
        self.spans = [(as_expr(start), as_expr(length)) for start, length in spans]
        self.axes = list(axes)
        self._analyzer = sym.Analyzer()
        for axis, (start, length) in zip(self.axes, self.spans, strict=True):
            self._analyzer.bind(axis, ir.Range(start, start + length))

    def is_safe(self, indices: Sequence[Index]) -> bool:
        """Return whether the array may be read at an index, an expression of the axes."""
        return self._is_written_there(indices) or any(map(self._is_outside, indices, self.spans))

    def _is_written_there(self, indices: Sequence[Index]) -> bool:
        pairs = zip(indices, self.axes, strict=True)
        return all(self._analyzer.can_prove_equal(as_expr(index), axis) for index, axis in pairs)

    def _is_outside(self, index: Index, span: tuple[PrimExpr, PrimExpr]) -> bool:
        start, length = span
        value = as_expr(index)
        # Elements outside of the written region on one axis are outside of the region as a whole.
        is_before, is_after = value < start, value >= start + length
        return bool(self._analyzer.can_prove(is_before) or self._analyzer.can_prove(is_after))


def all_loads(
    stages: Iterable[BlockStage], value: PrimExpr, accept: Visitor, budget: list[int] | None = None
) -> bool:
    """Return whether ``accept`` is true of all loads that a value is computed from, through stages."""
    computed = {stage.buffer: stage for stage in stages}
    budget = [_MOST_LOADS] if budget is None else budget
    for load in collect_loads(value):
        # The budget is shared by all branches: a chain in which each stage reads its operand twice
        # has 2**depth loads.
        budget[0] -= 1
        if budget[0] < 0:
            return False
        stage = computed.get(load.source)
        if stage is None:
            if not accept(load.source, load.indices):
                return False
            continue
        if not (stage.is_elementwise and stage.writes_at_axes):
            return False
        places = dict(zip(stage.axes, map(as_expr, load.indices), strict=True))
        if not all_loads(computed.values(), replace_vars(stage.value, places), accept, budget):
            return False
    return True
