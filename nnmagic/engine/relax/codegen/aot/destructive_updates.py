"""Rewrite kernels that copy an operand and change the copy as kernels that change the operand itself."""

from __future__ import annotations

from collections.abc import Sequence

import tvm_ffi
from tvm import ir, relax, tirx

from nnmagic.engine.relax.legalize.extern_loops import COPIES_FIRST, COPIES_RESULT
from nnmagic.engine.relax.legalize.kernel_cache import IS_RESHAPE, has_reshape_order
from nnmagic.engine.relax.schedules.elementwise.schedule import UPDATES, is_elementwise
from nnmagic.engine.relax.schedules.kernel_analysis import read_kernel
from nnmagic.engine.relax.schedules.overlaps import Positions, all_loads
from nnmagic.engine.relax.tir.builders import collect_loads, dtype_of, indices_are_axes, static_int
from nnmagic.engine.relax.tir.regions import IN_PLACE, last_store, region_of
from nnmagic.engine.relax.tir.types import Buffer, Load, PrimExpr, PrimFunc, Stmt, Var
from nnmagic.engine.relax.tir.visitors import collect, rewrite


def changed_in_place(kernel: PrimFunc) -> tuple[int, PrimFunc] | None:
    """Return a kernel that changes a copy of an operand as one that finds that in its result.

    Also the number of the operand among the arrays. None for any other kernel.
    """
    if COPIES_FIRST in (kernel.attrs or {}):
        return _without_copy(kernel)
    return _without_rest(kernel)


def find_update_inputs(kernel: PrimFunc) -> list[int]:
    """Return the numbers of the operands whose elements a kernel reads where it writes its result only.

    The kernel is element-wise, and what else it reads lies in the same order.
    """
    read = read_kernel(kernel)
    if read is None or not is_elementwise(read.stages):
        return []
    buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    result = buffers[-1]
    # A kernel that writes its result in the middle goes on to read it.
    if not read.stages[-1].buffer.same_as(result):
        return []
    for stage in read.stages:
        is_number = all(static_int(size) == 1 for size in stage.buffer.ty.shape)
        if not is_number and not _is_like(stage.buffer, result):
            return []
        for load in collect_loads(stage.value):
            # A reversed or transposed read of the operand, y = y[::-1] + 1, would see elements that
            # are written already.
            if not _is_in_order(load, stage.axes, _is_like(load.source, result)):
                return []
    kind = dtype_of(result)
    return [
        at for at, buffer in enumerate(buffers[:-1]) if dtype_of(buffer) == kind and _is_like(buffer, result)
    ]


def _is_like(buffer: Buffer, other: Buffer) -> bool:
    """Return whether two arrays have the same shape."""
    return bool(tvm_ffi.structural_equal(buffer.ty.shape, other.ty.shape))


def _is_in_order(load: Load, axes: Sequence[Var], whole: bool) -> bool:
    """Return whether a load is of the element at ``axes``; of no ``whole`` array, at some of them."""
    if whole:
        return indices_are_axes(load.indices, axes)
    places = [
        next((at for at, axis in enumerate(axes) if axis.same_as(index)), None) for index in load.indices
    ]
    known = [place for place in places if place is not None]
    others = [index for index, place in zip(load.indices, places, strict=True) if place is None]
    return known == sorted(known) and all(static_int(index) is not None for index in others)


def update_in_place(kernel: PrimFunc, number: int) -> PrimFunc:
    """Return a kernel that finds the operand of this number, one of ``find_update_inputs``, in its result."""
    buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    old, result = buffers[number], buffers[-1]

    def read_result(load: Load) -> Load:
        return tirx.BufferLoad(result, load.indices) if load.source.same_as(old) else load

    body = rewrite(kernel.body, [(ir.TensorLoad, read_result)])
    params = [param for param in kernel.params if not param.same_as(old)]
    return tirx.PrimFunc(params, body, kernel.ret_type, kernel.attrs).with_attr(UPDATES, 1)


def _without_rest(kernel: PrimFunc) -> tuple[int, PrimFunc] | None:
    """Return a kernel that assigns a region as one that leaves the rest of the array alone."""
    store = last_store(kernel)
    region = None if store is None else region_of(store.value, store.indices)
    buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    if store is None or region is None or not store.buffer.same_as(buffers[-1]):
        return None
    old = region.old.source
    number = next((at for at, param in enumerate(buffers[:-1]) if param.same_as(old)), None)
    loads = collect(ir.TensorLoad, kernel.body)
    is_read = sum(load.source.same_as(old) for load in loads) > 1
    # The new elements may be computed of the array itself, y[1:] = y[:-1] + 1, only where no read
    # comes after the write of the same element.
    if number is None or (is_read and not _reads_before_writing(kernel, old)):
        return None

    def read_result(load: ir.TensorLoad) -> PrimExpr:
        return tirx.BufferLoad(store.buffer, load.indices) if load.source.same_as(old) else load

    body = rewrite(kernel.body, [(ir.TensorLoad, read_result)])
    params = [param for param in kernel.params if not param.same_as(old)]
    changed = tirx.PrimFunc(params, body, kernel.ret_type, kernel.attrs).with_attr(IN_PLACE, 1)
    return number, changed.with_attr(UPDATES, 1) if is_read else changed


def _reads_before_writing(kernel: PrimFunc, old: Buffer) -> bool:
    """Return whether a kernel reads an array where it writes it, or outside of the region that it sets."""
    read = read_kernel(kernel)
    if read is None or not is_elementwise(read.stages):
        return False
    *others, last = read.stages
    region = region_of(last.value, last.axes)
    if region is None:
        return False
    axes = zip(last.axes, read.shape(last), strict=True)
    positions = Positions(last.axes, [region.spans.get(axis, (0, extent)) for axis, extent in axes])
    return all_loads(others, region.new, lambda buffer, at: not buffer.same_as(old) or positions.is_safe(at))


def _without_copy(kernel: PrimFunc) -> tuple[int, PrimFunc] | None:
    """Return a kernel that copies its first operand first as one that finds it in its result."""
    dropped: list[Stmt] = []

    def drop_first(sequence: Stmt) -> Stmt:
        if dropped:
            return sequence
        first, *tail = sequence.seq
        dropped.append(first)
        return tail[0] if len(tail) == 1 else tirx.SeqStmt(tail)

    body = rewrite(kernel.body, [(tirx.SeqStmt, drop_first)], before_parts=True)
    if len(dropped) != 1:
        return None
    # The result is the operand now, so the kernel has one parameter less.
    return 0, tirx.PrimFunc(list(kernel.params[1:]), body, kernel.ret_type, kernel.attrs)


def single_store(kernel: PrimFunc) -> tirx.BufferStore | None:
    """Return the store that a kernel consists of; None for any other kernel."""
    block = getattr(kernel.body, "block", None)
    store = kernel.body if block is None else block.body
    if isinstance(store, tirx.AttrStmt):
        store = store.body
    return store if isinstance(store, tirx.BufferStore) else None


def has_sizes(type_: ir.Type) -> bool:
    """Return whether a type is that of a tensor whose sizes are numbers."""
    if not isinstance(type_, relax.TensorType) or type_.shape is None:
        return False
    return all(isinstance(dim, tirx.IntImm) for dim in type_.shape.values)


def may_be_view(kernel: PrimFunc) -> bool:
    """Return whether the planner may take a kernel's result for its operand as it lies in memory."""
    if any(mark in (kernel.attrs or {}) for mark in (IS_RESHAPE, COPIES_RESULT)):
        return True
    buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    if all(isinstance(dim, tirx.IntImm) for buffer in buffers for dim in buffer.ty.shape):
        return False
    return has_reshape_order(kernel)
