"""A fused kernel taken apart: its main block, and the element-wise stages before and after that. Knows TVM.

Schedules that write their loops anew (convolutions, pooling) compute the stages after the main block where
the main block's values are still in registers, and the stages before it into memory of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx

from nnmagic.engine.relax.schedules.registry import KIND, blocks
from nnmagic.engine.relax.tir.builders import expr, loads_of, sequence, static_int
from nnmagic.engine.relax.tir.visitors import rewrite

_Kind = tirx.ForKind


@dataclass(frozen=True, slots=True)
class Stage:
    """One element-wise block: ``buffer[axes] = value``."""

    buffer: Any
    axes: tuple[Any, ...]
    extents: tuple[Any, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """The main block, the stages that it or what follows reads, and those that follow it; the last is the
    result.
    """

    main: Any
    before: tuple[Stage, ...]
    after: tuple[Stage, ...]

    @property
    def result(self) -> Any:
        """The buffer that the kernel gives."""
        return self.after[-1].buffer if self.after else self.made

    @property
    def made(self) -> Any:
        """The buffer that the main block writes."""
        return self.main.body.buffer

    def read(self) -> list[Any]:
        """The buffers that the main block reads, in the order of its expression."""
        loads = loads_of(self.main.body.value)
        return list(dict.fromkeys(load.source for load in loads if not load.source.same_as(self.made)))


def analyze_fused(function: tirx.PrimFunc, kind: str) -> FusedKernel | None:
    """The parts of a kernel with one main block of the kind; None where it has another form.

    What follows must be of the main block's shape, and read it and each other at the very element.
    """
    found = blocks(function)[:-1]
    mains = [block for block in found if KIND in block.annotations]
    if len(mains) != 1 or str(mains[0].annotations[KIND]) != kind:
        return None
    main = mains[0]
    if not isinstance(main.body, tirx.BufferStore):
        return None
    made = main.body.buffer
    later: dict[Any, Stage] = {}
    before: list[Stage] = []
    for block in found:
        if block is main or block.same_as(main):
            continue
        stage = _stage(block)
        if stage is None:
            return None
        read = loads_of(stage.value)
        if not any(load.source.same_as(made) or load.source in later for load in read):
            before.append(stage)
            continue
        if [static_int(dim) for dim in stage.extents] != [static_int(dim) for dim in made.ty.shape]:
            return None
        own = [load for load in read if load.source.same_as(made) or load.source in later]
        if not all(_is_at(load.indices, stage.axes, stage.extents) for load in own):
            return None
        later[stage.buffer] = stage
    params = [param for param in function.params if isinstance(param.ty, tirx.BufferType)]
    fused = FusedKernel(main, tuple(before), tuple(later.values()))
    written = [stage.buffer for stage in (*before, *later.values())] + [made]
    results = [buffer for buffer in written if any(buffer.same_as(param) for param in params)]
    return fused if len(results) == 1 and results[0].same_as(fused.result) else None


def stages_of(function: tirx.PrimFunc) -> list[Stage] | None:
    """The blocks of a kernel of element-wise blocks only; None for another."""
    found = [_stage(block) for block in blocks(function)[:-1]]
    stages = [stage for stage in found if stage is not None]
    return stages if len(stages) == len(found) else None


def _stage(block: Any) -> Stage | None:
    store = block.body
    axes = tuple(var.var for var in block.iter_vars)
    extents = tuple(var.dom.extent for var in block.iter_vars)
    if not isinstance(store, tirx.BufferStore) or block.init is not None:
        return None
    if any(var.iter_type == tirx.IterVar.CommReduce for var in block.iter_vars):
        return None
    if not all(isinstance(extent, tirx.IntImm) for extent in extents):
        return None
    return Stage(store.buffer, axes, extents, store.value) if _is_at(store.indices, axes, extents) else None


def _is_at(indices: Sequence[Any], axes: Sequence[Any], extents: Sequence[Any]) -> bool:
    """Whether the indices are the axes, in order; of an axis of one element, also 0."""
    if len(indices) != len(axes):
        return False
    places = zip(indices, axes, extents, strict=True)
    return all(
        index.same_as(axis) or (static_int(index) == 0 and static_int(extent) == 1)
        for index, axis, extent in places
    )


def statements_before(fused: FusedKernel, *, parallel: bool) -> list[Any]:
    """The stages before the main block, each as loops that fill a buffer of its own."""
    made: list[Any] = []
    for stage in fused.before:
        made.append(tirx.AllocBuffer(stage.buffer))
        body: Any = tirx.BufferStore(stage.buffer, stage.value, list(stage.axes))
        sizes = [int(extent) for extent in stage.extents]
        inner = len(sizes) - 1
        wide = len(sizes) > 1 and sizes[inner] in (4, 8, 16, 32)
        outer = next((at for at, size in enumerate(sizes) if size > 1), None)
        for at in reversed(range(len(sizes))):
            kind = _Kind.VECTORIZED if wide and at == inner else _Kind.SERIAL
            if parallel and at == outer and at != inner:
                kind = _Kind.PARALLEL
            body = tirx.For(stage.axes[at], expr(0), stage.extents[at], kind, body)
        made.append(body)
    return made


def statements_after(fused: FusedKernel, indices: Sequence[Any], value: Any) -> list[Any]:
    """The stages after the main block at one element, whose value is given, with the store of the result.

    To be put into a vectorized loop over the last index.
    """
    if not fused.after:
        return [tirx.BufferStore(fused.result, value, list(indices))]
    lane = indices[-1]
    values: dict[Any, Any] = {fused.made: value}
    made: list[Any] = []
    for stage in fused.after:
        rewrites = _rewrites(dict(zip(stage.axes, indices, strict=True)), values)
        expression = rewrite(stage.value, rewrites)
        if stage is fused.after[-1]:
            made.append(tirx.BufferStore(stage.buffer, expression, list(indices)))
        else:
            small = tirx.decl_buffer(
                (int(stage.extents[-1]),), str(stage.buffer.ty.dtype), "part", scope="local"
            )
            made.append(tirx.BufferStore(small, expression, [lane]))
            values[stage.buffer] = tirx.BufferLoad(small, [lane])
    return made


def _rewrites(places: Mapping[Any, Any], values: Mapping[Any, Any]) -> list[Any]:
    return [
        (tvm.ir.Var, lambda var: places.get(var, var)),
        (tvm.ir.TensorLoad, lambda load: values.get(load.source, load)),
    ]


def parts_of(statements: Sequence[Any]) -> list[Any]:
    """The small buffers that ``statements_after`` writes, which must be allocated around the loop."""
    return [each.buffer for each in statements[:-1]]


def rebuild(function: tirx.PrimFunc, statements: Sequence[Any]) -> tirx.PrimFunc:
    """The kernel with another body."""
    return tirx.PrimFunc(function.params, sequence(statements), function.ret_type, function.attrs)
