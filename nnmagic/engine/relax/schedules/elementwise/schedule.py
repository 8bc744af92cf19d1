"""Choose which tensors an element-wise kernel stores, and build the loops of each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import tvm_ffi
from tvm import ir, sym, tirx

from nnmagic.engine.relax.schedules.elementwise.collapse import collapse_loops
from nnmagic.engine.relax.schedules.elementwise.costs import CHEAP, count_instructions
from nnmagic.engine.relax.schedules.elementwise.loops import emit_interleaved_nests, emit_nest
from nnmagic.engine.relax.schedules.elementwise.nests import FlatBuffers, Inlining, NestBuilder, Range
from nnmagic.engine.relax.schedules.elementwise.pieces import build_pieces
from nnmagic.engine.relax.schedules.kernel_analysis import BlockStage, KernelStages, Stage, read_kernel
from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.schedules.registry import SCHEDULES
from nnmagic.engine.relax.tir.builders import as_expr, collect_loads, is_conditional, static_int
from nnmagic.engine.relax.tir.regions import IN_PLACE, expand_regions, is_open, region_of
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, Load, Stmt
from nnmagic.engine.relax.tir.visitors import collect, replace_vars

#: Marks a kernel that finds an operand in its result: it computes no element twice.
UPDATES = "nnmagic.updates"

#: Of how many elements for each of a tensor its value is computed, before it is stored.
_MOST_REPEATED = 1.5

#: The length that a dynamic dimension counts as: a large one.
_DYNAMIC_LENGTH = 1e6


def _schedule_elementwise(function: tirx.PrimFunc, machine: CpuModel) -> tirx.PrimFunc:
    """Fuse, vectorize and parallelize the loops; return a kernel that is not element-wise as it is."""
    kernel = read_kernel(function)
    regions: dict[Buffer, _OpenRegion] = {}
    if kernel is not None:
        kernel, regions = _split_regions(kernel, in_place=IN_PLACE in (function.attrs or {}))
    once = UPDATES in (function.attrs or {})
    if kernel is None or not is_elementwise(kernel.stages, updates=once):
        return function
    shapes = [param.ty.shape for param in function.params if isinstance(param.ty, tirx.BufferType)]
    if any(_count_elements(shape) == 0 for shape in shapes):
        return function
    if not any(collect_loads(stage.value) for stage in kernel.stages):
        return function  # a function of indices only: LLVM does well, and other loops could round otherwise
    body = elementwise_loops(kernel, set(function.params), machine, regions, once=once)
    if body is None:
        return function
    return tirx.PrimFunc(function.params, tirx.SeqStmt(body), function.ret_type, function.attrs)


_NO_REGIONS: Mapping[Buffer, _OpenRegion] = {}


@dataclass(frozen=True, slots=True)
class _OpenRegion:
    """The parts of a stage: the array before, unless that is in place, and a region's values.

    spans: the ranges of the axes that the region has.
    """

    old: BlockStage | None
    new: BlockStage
    spans: Sequence[Range]

    def builders(self, extents: Sequence[Extent], inlining: Inlining) -> list[NestBuilder]:
        """Return the loops over all of the array, and then those over the region."""
        region = NestBuilder(self.new, inlining, self.spans)
        return [region] if self.old is None else [*build_pieces(self.old, extents, inlining), region]


def _split_regions(kernel: KernelStages, *, in_place: bool) -> tuple[KernelStages, dict[Buffer, _OpenRegion]]:
    """Return a kernel, and by buffer the regions of unknown bounds that its stages assign.

    ``in_place``: whether the last stage assigns nothing else.
    """
    stages = list(kernel.stages)
    regions: dict[Buffer, _OpenRegion] = {}
    for number, stage in enumerate(stages):
        region = region_of(stage.value, stage.axes)
        if region is None:
            continue
        is_in_place = in_place and number == len(stages) - 1
        extents = dict(zip(stage.axes, kernel.shape(stage), strict=True))
        # A region of known bounds becomes a condition on the indices, at which `build_pieces` cuts
        # the loops.
        if not is_in_place and not is_open(region, extents):
            stages[number] = replace(stage, values=tuple(map(expand_regions, stage.values)))
            continue
        spans = [region.spans.get(axis, (as_expr(0), extent)) for axis, extent in extents.items()]
        # Two loops instead of a condition in one: over the array as it was, then over the region
        # alone.
        new = replace(stage, values=(region.new,))
        old = None if is_in_place else replace(stage, values=(region.old,))
        regions[stage.buffer] = _OpenRegion(old, new, spans)
        if is_in_place:
            stages[number] = new
    return replace(kernel, stages=tuple(stages)), regions


def elementwise_loops(
    kernel: KernelStages,
    outside: set[Buffer],
    machine: CpuModel,
    regions: Mapping[Buffer, _OpenRegion] = _NO_REGIONS,
    *,
    once: bool = False,
) -> list[Stmt] | None:
    """Return the statements that compute element-wise stages; None where one has no elements.

    outside: the buffers that are declared elsewhere; those of them that the stages write are stored.
    regions: what the stages are made of that assign regions: these are stored, as what is assigned is
    computed in the region alone. once: whether no element may be computed twice.
    """
    stages = kernel.stages
    if any(_count_elements(kernel.shape(stage)) == 0 for stage in stages):
        return None
    stored = _choose_stored_buffers(kernel, outside) | regions.keys()
    # Each turn stores more buffers and changes what is inlined into which, so the nests are built
    # anew. It ends as there are only so many buffers.
    while True:
        rows = FlatBuffers(stored - outside)
        inlined = {stage.buffer: stage for stage in stages if stage.buffer not in stored}
        inlining = Inlining(inlined, rows)
        builders = [
            builder
            for stage in stages
            if stage.buffer in stored
            for builder in _builders(stage, kernel.shape(stage), inlining, regions.get(stage.buffer))
        ]
        unsafe = {buffer for builder in builders for buffer in builder.unsafe}
        if not unsafe:
            break
        stored |= unsafe  # a value that a branch guards must not be computed before it
    sizes = [_count_elements([extent for _, extent in builder.loops]) for builder in builders]
    nests = [collapse_loops(builder.nest) for builder in builders]
    interleaved = None if regions else emit_interleaved_nests(nests, machine)
    loops = (
        [interleaved]
        if interleaved is not None
        else [
            # Threads are for the largest parts, if only the call knows whether these are large.
            emit_nest(nest, machine, dynamic_threads=2 * size >= max(sizes), once=once)
            for nest, size in zip(nests, sizes, strict=True)
        ]
    )
    return [*rows.declarations(), *loops]


def _builders(
    stage: BlockStage, extents: Sequence[Extent], inlining: Inlining, region: _OpenRegion | None
) -> list[NestBuilder]:
    """Return the loops of a stored stage."""
    return build_pieces(stage, extents, inlining) if region is None else region.builders(extents, inlining)


def is_elementwise(stages: Sequence[BlockStage], *, updates: bool = False) -> bool:
    """Return whether stages are element-wise, each in perfect loops of its own and after what it reads.

    ``updates``: whether they may read the elements of the result, before these are written.
    """
    result = {stages[-1].buffer} if updates else set()
    computed = {stage.buffer for stage in stages}
    written: set[Buffer] = set()
    for stage in stages:
        read_early = {load.source for load in collect_loads(stage.value)} & (computed - written - result)
        # Two stages that write one buffer, as a reduction and its initialisation do, depend on
        # their order.
        repeated = stage.buffer in written
        if not _is_plain(stage) or read_early or repeated or stage.buffer.ty.strides:
            return False
        written.add(stage.buffer)
    return True


def _is_plain(stage: BlockStage) -> bool:
    perfect = stage.in_own_nest and stage.loops_are_axes
    return perfect and stage.is_elementwise and stage.writes_at_axes


def _choose_stored_buffers(kernel: KernelStages, results: set[Buffer]) -> set[Buffer]:
    """Choose the buffers to store: the results, and those that would be computed too often otherwise."""
    stored = {stage.buffer for stage in kernel.stages if stage.buffer in results}
    weights: dict[Buffer, int] = {}
    chosen: set[Buffer] = set()
    for stage in kernel.stages:
        loads = collect_loads(stage.value)
        # No loops are cut where a condition changes on an index that is read.
        if any(map(is_conditional, collect(ir.Call, stage.value))) or any(x.source in chosen for x in loads):
            chosen.add(stage.buffer)
        stored |= {load.source for load in loads if load.source in chosen and collect_loads(*load.indices)}
        # Indices that are divided by a dynamic length would be nested within each other.
        stored |= {load.source for load in loads if any(map(_divides_by_dynamic, load.indices))}
        inputs = sum(weights.get(source, 0) for source in {load.source for load in loads})
        weights[stage.buffer] = count_instructions(stage.value) + inputs
    # By buffer, the loops that would compute it and the indices there: equal ones are computed once.
    accesses: dict[Buffer, dict[_Access, Sequence[Index]]] = {}
    sizes = {stage.buffer: _count_elements(kernel.shape(stage)) for stage in kernel.stages}
    for stage in reversed(kernel.stages):
        uses = accesses.get(stage.buffer, {})
        count = sum(sizes[root] for root, _ in uses)
        # Inlining recomputes a value for each access to it: a broadcast column would be computed
        # once per row. Storing costs a write and a read, so cheap values are recomputed, as are a few:
        # what a region is assigned has less elements than the array.
        is_repeated = count > _MOST_REPEATED * sizes[stage.buffer]
        if stage.buffer not in stored and is_repeated and weights[stage.buffer] > CHEAP:
            stored.add(stage.buffer)
        if stage.buffer in stored:
            uses = {(stage.buffer, tvm_ffi.StructuralKey(list(stage.axes))): stage.axes}
        for load in collect_loads(stage.value):
            if load.source in sizes:
                reads = accesses.setdefault(load.source, {})
                for access, indices in uses.items():
                    reads.update([_compose(load, stage, access, indices)])
    return stored


#: The buffer in whose loops another one is computed, and the indices of the element there.
_Access: TypeAlias = tuple[Buffer, object]


def _compose(
    load: Load, stage: Stage, access: _Access, indices: Sequence[Index]
) -> tuple[_Access, Sequence[Index]]:
    """Return the access of a load in a stage whose element is accessed at ``indices``."""
    pairs = zip(load.indices, stage.axes, strict=False)
    if len(load.indices) == len(stage.axes) and all(index.same_as(axis) for index, axis in pairs):
        return access, indices
    names = dict(zip(stage.axes, indices, strict=True))
    # What an assignment reads of the array before, 1 + (i - 1), is the element that it leaves elsewhere.
    simplify = sym.Analyzer().simplify
    composed = [simplify(replace_vars(as_expr(index), names)) for index in load.indices]
    return (access[0], tvm_ffi.StructuralKey(composed)), composed


def _divides_by_dynamic(index: Index) -> bool:
    return any(static_int(node.b) is None for node in collect((tirx.FloorDiv, tirx.FloorMod), index))


def _count_elements(extents: Sequence[Extent]) -> float:
    sizes = [static_int(extent) for extent in extents]
    return math.prod(_DYNAMIC_LENGTH if size is None else size for size in sizes)


SCHEDULES["elementwise"] = _schedule_elementwise
