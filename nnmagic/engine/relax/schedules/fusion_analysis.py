"""Split a fused kernel into its main block and the element-wise stages before and after it.

Schedules that write all loops themselves (convolutions, pooling) compute the stages after the main block
while its values are still in registers, and the stages before it into buffers of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm_ffi import structural_equal

from nnmagic.engine.relax.schedules.kernel_analysis import (
    BlockStage,
    KernelStages,
    Stage,
    read_kernel,
    substitute,
)
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt, Var

_Kind = tirx.ForKind

#: The lengths of a last axis that one vectorized loop covers: blocks of channels.
_VECTOR_LENGTHS = (4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """A main block, the stages before it, and those that follow it; the last of these is the result."""

    main: BlockStage
    before: tuple[Stage, ...]
    after: tuple[Stage, ...]
    extents: Mapping[Var, Extent]

    @property
    def result(self) -> Buffer:
        """Return the buffer that the kernel computes."""
        return self.after[-1].buffer if self.after else self.main.buffer

    def operands(self) -> list[Buffer]:
        """Return the buffers that the main block reads, in the order of its expression."""
        loads = builders.collect_loads(self.main.value)
        return list(dict.fromkeys(load.source for load in loads if not load.source.same_as(self.main.buffer)))

    def sizes(self, stage: Stage) -> list[Extent]:
        """Return the extents of a stage's axes; only the last is known to be static."""
        return [builders.as_index(self.extents[axis]) for axis in stage.axes]


def analyze_fused_kernel(function: tirx.PrimFunc, kind: str) -> FusedKernel | None:
    """Split a kernel with one main block of the kind; return None where it has another form.

    The stages after the main block must have its shape, and read it and each other at the same element.
    """
    kernel = read_kernel(function)
    if kernel is None:
        return None
    mains = [stage for stage in kernel.stages if KIND in stage.annotations]
    if len(mains) != 1 or str(mains[0].annotations[KIND]) != kind:
        return None
    (main,) = mains
    before: list[Stage] = []
    after: dict[Buffer, Stage] = {}
    for stage in kernel.stages:
        if stage is main:
            continue
        if not _is_elementwise(kernel, stage, static=kernel.shape(stage)[-1:]):
            return None
        loads = builders.collect_loads(stage.value)
        later = [load for load in loads if load.source.same_as(main.buffer) or load.source in after]
        if not later:
            before.append(stage)
            continue
        # An epilogue of another shape, such as a sum over the pixels, reads elements that other
        # tiles compute.
        if not structural_equal(kernel.shape(stage), list(main.buffer.ty.shape)):
            return None
        if not all(_are_element(kernel, load.indices, stage.axes) for load in later):
            return None
        after[stage.buffer] = stage
    params = [param for param in function.params if isinstance(param.ty, tirx.BufferType)]
    fused = FusedKernel(main, tuple(before), tuple(after.values()), kernel.extents)
    written = [stage.buffer for stage in (*before, *after.values())] + [main.buffer]
    results = [buffer for buffer in written if any(buffer.same_as(param) for param in params)]
    # A kernel with two results stores one of them in the middle, which an epilogue in registers
    # would skip.
    return fused if len(results) == 1 and results[0].same_as(fused.result) else None


def read_elementwise_stage(function: tirx.PrimFunc) -> tuple[Stage, list[Extent]] | None:
    """Read a kernel of one element-wise stage: the stage and its shape, whose first dimension may be dynamic.

    Return None for another kernel.
    """
    kernel = read_kernel(function)
    if kernel is None or len(kernel.stages) != 1:
        return None
    (stage,) = kernel.stages
    if not _is_elementwise(kernel, stage, static=kernel.shape(stage)[1:]):
        return None
    return stage, [builders.as_index(extent) for extent in kernel.shape(stage)]


def _is_elementwise(kernel: KernelStages, stage: Stage, static: Sequence[Extent]) -> bool:
    """Return whether a stage computes each element independently, and these dimensions are static."""
    known = all(isinstance(extent, tirx.IntImm) for extent in static)
    return known and stage.is_elementwise and _are_element(kernel, stage.indices, stage.axes)


def _are_element(kernel: KernelStages, indices: Sequence[Index], axes: Sequence[Var]) -> bool:
    """Return whether the indices are the axes, in order; for an axis of one element, also 0."""
    return len(indices) == len(axes) and all(
        index.same_as(axis)
        or (builders.static_int(index) == 0 and builders.static_int(kernel.extents[axis]) == 1)
        for index, axis in zip(indices, axes, strict=True)
    )


def statements_before(fused: FusedKernel, *, parallel: bool) -> list[Stmt]:
    """Compute each stage before the main block by loops that fill a buffer of its own."""
    statements: list[Stmt] = []
    for stage in fused.before:
        statements.append(tirx.AllocBuffer(stage.buffer))
        body: Stmt = tirx.BufferStore(stage.buffer, stage.value, list(stage.axes))
        sizes = fused.sizes(stage)
        innermost = len(sizes) - 1
        vectorize = len(sizes) > 1 and sizes[innermost] in _VECTOR_LENGTHS
        outermost = next((number for number, size in enumerate(sizes) if size != 1), None)
        for number in reversed(range(len(sizes))):
            kind = _Kind.VECTORIZED if vectorize and number == innermost else _Kind.SERIAL
            if parallel and number == outermost and number != innermost:
                kind = _Kind.PARALLEL
            axis = stage.axes[number]
            # The innermost loop is never shared: tasks of one element cost more than they do.
            body = tirx.For(axis, builders.as_expr(0), fused.extents[axis], kind, body)
        statements.append(body)
    return statements


def statements_after(fused: FusedKernel, indices: Sequence[Index], value: PrimExpr) -> list[Stmt]:
    """Compute the stages after the main block at one element, whose value is given, and store the result.

    The statements belong into a vectorized loop over the last index.
    """
    if not fused.after:
        return [tirx.BufferStore(fused.result, value, list(indices))]
    lane = indices[-1]
    values: dict[Buffer, PrimExpr] = {fused.main.buffer: value}
    statements: list[Stmt] = []
    for stage in fused.after:
        expression = substitute(stage.value, dict(zip(stage.axes, indices, strict=True)), values)
        if stage is fused.after[-1]:
            statements.append(tirx.BufferStore(stage.buffer, expression, list(indices)))
        else:
            part = builders.local_array(fused.sizes(stage)[-1], builders.dtype_of(stage.buffer), "part")
            statements.append(tirx.BufferStore(part, expression, [lane]))
            values[stage.buffer] = tirx.BufferLoad(part, [lane])
    return statements


def local_buffers_of(statements: Sequence[Stmt]) -> list[Buffer]:
    """Return the local arrays that ``statements_after`` writes; they must be allocated around the loop."""
    return [store.buffer for store in statements[:-1]]


def with_statements(function: tirx.PrimFunc, statements: Sequence[Stmt]) -> tirx.PrimFunc:
    """Return the kernel with another body."""
    return tirx.PrimFunc(function.params, builders.sequence(statements), function.ret_type, function.attrs)
