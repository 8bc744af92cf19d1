"""Merge axes that are neighbours in every access into one axis, with views of the buffers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import tirx

from nnmagic.engine.relax.schedules.reduction.analysis import (
    ReductionKernel,
    ReductionStage,
    substitute_axes,
    variables_of,
)
from nnmagic.engine.relax.tir.builders import are_equal, as_index, collect_loads, dtype_of
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, Load, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.visitors import rewrite


def merge_axes(kernel: ReductionKernel) -> ReductionKernel:
    """Merge axes that are always neighbours into one axis, with views of the buffers."""
    refused: set[tuple[Var, Var]] = set()
    while True:
        pair = next((pair for pair in _neighbours(kernel) if pair not in refused), None)
        if pair is None:
            return kernel
        merged = _merge_pair(kernel, pair)
        if merged is None:
            refused.add(pair)
        else:
            kernel = merged


def _accesses(stage: ReductionStage) -> list[tuple[Buffer, list[Index]]]:
    reads = [(load.source, list(load.indices)) for load in collect_loads(*stage.values)]
    return [*((write, list(stage.indices)) for write in stage.writes), *reads]


def _neighbours(kernel: ReductionKernel) -> list[tuple[Var, Var]]:
    """Return the pairs of axes that are neighbours in the indices of an access."""
    pairs: dict[tuple[Var, Var], None] = {}
    for stage in kernel.stages:
        for _, indices in _accesses(stage):
            for a, b in itertools.pairwise(indices):
                if a in kernel.extents and b in kernel.extents:
                    pairs[a, b] = None
    return list(pairs)


def _merge_pair(kernel: ReductionKernel, pair: tuple[Var, Var]) -> ReductionKernel | None:
    """Merge two axes; return None where they are not neighbours everywhere."""
    a, b = pair
    extent = kernel.extents[b]
    positions = _merge_positions(kernel, pair)
    if positions is None:
        return None
    merged: dict[Buffer, Buffer] = {}
    for buffer, k in positions.items():
        shape = [as_index(dim) for dim in buffer.ty.shape]
        new_shape = [*shape[:k], shape[k] * extent, *shape[k + 2 :]]
        alignment = {} if buffer in kernel.kept else {"data_alignment": buffer.ty.data_alignment}
        merged[buffer] = tirx.decl_buffer(new_shape, dtype_of(buffer), buffer.name, **alignment)
    written = {write for stage in kernel.stages for write in stage.writes}
    for stage in kernel.stages:  # a buffer that is written is read in one way
        for load in collect_loads(*stage.values):
            if load.source in written and load.source in merged and a not in variables_of(*load.indices):
                return None
    merge = _AxisMerge(a, b, tirx.Var(a.name, "int64"), extent, positions, merged)
    views = dict(kernel.views)
    for buffer in positions:
        if buffer not in kernel.kept:
            views[merged[buffer]] = views.pop(buffer, buffer)
    extents = {axis: count for axis, count in kernel.extents.items() if axis not in (a, b)}
    return ReductionKernel(
        tuple(map(merge.apply, kernel.stages)),
        {**extents, merge.both: kernel.extents[a] * extent},
        frozenset(merged.get(buffer, buffer) for buffer in kernel.kept),
        views,
    )


def _merge_positions(kernel: ReductionKernel, pair: tuple[Var, Var]) -> dict[Buffer, int] | None:
    """Return by buffer the dimension of the first axis; None where the second is not always the next."""
    a, b = pair
    positions: dict[Buffer, int] = {}
    for stage in kernel.stages:
        axes, reduced = set(stage.axes), set(stage.reduced)
        # A stage that has one of the two alone, or reduces one alone, as in x.sum(axis=1), needs
        # both indices.
        if (a in axes) != (b in axes) or (a in reduced) != (b in reduced):
            return None
        for buffer, indices in _accesses(stage):
            used = variables_of(*indices)
            if not (a in used or b in used):
                continue
            dims = [k for k, index in enumerate(indices) if index.same_as(a)]
            # An axis with a second use, as in x[i, j] + y[j, i], has another order there.
            if len(dims) != 1 or used.count(a) != 1 or used.count(b) != 1:
                return None
            (k,) = dims
            if k + 1 == len(indices) or not indices[k + 1].same_as(b):
                return None
            # A slice of the second dimension leaves gaps in memory: i * extent + j would miss them.
            if not are_equal(buffer.ty.shape[k + 1], kernel.extents[b]):
                return None
            if positions.setdefault(buffer, k) != k:
                return None
    return positions


@dataclass(frozen=True, slots=True)
class _AxisMerge:
    """The axes ``a`` and ``b``, of ``extent``, become ``both``.

    positions: by buffer, the dimension that ``a`` indexes. merged: by buffer, the one with one dimension
    less.
    """

    a: Var
    b: Var
    both: Var
    extent: Extent
    positions: Mapping[Buffer, int]
    merged: Mapping[Buffer, Buffer]

    def apply(self, stage: ReductionStage) -> ReductionStage:
        """Return the stage with the axes merged."""
        names = {self.a: self.both // self.extent, self.b: self.both % self.extent}
        values = [rewrite(value, [(tvm.ir.TensorLoad, self._merge_load)]) for value in stage.values]
        write = stage.writes[0]
        moved = write in self.positions and any(index.same_as(self.a) for index in stage.indices)
        return stage.derive(
            writes=[self.merged[buffer] for buffer in stage.writes] if moved else None,
            indices=self._merge_indices(stage.indices, self.positions[write]) if moved else None,
            reduced=[
                self.both if axis.same_as(self.a) else axis
                for axis in stage.reduced
                if not axis.same_as(self.b)
            ],
            values=[substitute_axes(value, names) for value in values],
        )

    def _merge_load(self, load: Load) -> PrimExpr:
        k = self.positions.get(load.source)
        if k is None or not load.indices[k].same_as(self.a):
            return load
        return tirx.BufferLoad(self.merged[load.source], self._merge_indices(list(load.indices), k))

    def _merge_indices(self, indices: Sequence[Index], k: int) -> list[Index]:
        return [*indices[:k], self.both, *indices[k + 2 :]]


def declare_views(kernel: ReductionKernel) -> list[Stmt]:
    """Return statements that declare the buffers with merged dimensions; their indices need no divisions."""
    return [
        tirx.DeclBuffer(merged, data=tirx.buffer.buffer_data(buffer))
        for merged, buffer in kernel.views.items()
    ]
