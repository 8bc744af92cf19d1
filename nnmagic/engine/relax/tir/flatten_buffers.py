"""Flatten buffers of several dimensions: as TVM's FlattenBuffer, without its analysis.

TVM simplifies every index anew; a kernel whose tiles are unrolled has hundreds of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import tirx

from nnmagic.engine.relax.tir.builders import as_index, dtype_of, product
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, Load, Node, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.visitors import rewrite, visit


def flatten_buffers(function: tirx.PrimFunc) -> tirx.PrimFunc | None:
    """Flatten the buffers of a function of pointers; return None where TVM's own pass has to do it."""
    flat_buffers: dict[Buffer, Buffer] = {}
    pointers: dict[Buffer, Var] = {}
    unsupported: list[Node] = []

    def flatten(buffer: Buffer) -> Buffer | None:
        """Return the buffer as one of a single dimension, which it may be; None if that cannot be."""
        dtype = dtype_of(buffer)
        if dtype == "bool" or list(buffer.ty.strides or ()):
            unsupported.append(buffer)
            return None
        if len(buffer.ty.shape) == 1:
            return buffer
        size = product(buffer.ty.shape)
        scope, alignment = buffer.ty.storage_scope, buffer.ty.data_alignment
        flat = tirx.decl_buffer((size,), dtype, buffer.name, scope=scope, data_alignment=alignment)
        flat_buffers[buffer] = flat
        return flat

    def rewrite_declaration(statement: tirx.DeclBuffer) -> Stmt:
        buffer, pointer = statement.buffer, statement.data
        if _is_buffer_data(pointer):
            pointer = pointers.get(pointer.args[0])
        if not isinstance(pointer, tirx.Var):
            unsupported.append(buffer)
            return statement
        pointers[buffer] = pointer
        flat = flatten(buffer)
        return statement if flat is None else tirx.DeclBuffer(flat, data=pointer)

    def rewrite_allocation(statement: tirx.AllocBuffer) -> Stmt:
        buffer = statement.buffer
        flat = flatten(buffer)
        same = flat is None or flat is buffer
        return statement if same else tirx.AllocBuffer(flat, statement.annotations)

    def rewrite_load(load: Load) -> PrimExpr:
        flat = flat_buffers.get(load.source)
        index = None if flat is None else _flat_index(load.source.ty.shape, load.indices)
        return load if index is None else tirx.BufferLoad(flat, [index])

    def rewrite_store(store: tirx.BufferStore) -> Stmt:
        flat = flat_buffers.get(store.buffer)
        index = None if flat is None else _flat_index(store.buffer.ty.shape, store.indices)
        return store if index is None else tirx.BufferStore(flat, store.value, [index])

    # Declarations come first: loads and stores need the flat buffers.
    declarations = [(tirx.DeclBuffer, rewrite_declaration), (tirx.AllocBuffer, rewrite_allocation)]
    flat = rewrite(function, declarations)
    if unsupported:
        return None
    flat = rewrite(flat, [(tvm.ir.TensorLoad, rewrite_load), (tirx.BufferStore, rewrite_store)])
    visit(flat, [(tvm.ir.Var, lambda var: unsupported.append(var) if var in flat_buffers else None)])
    return None if unsupported else flat


def _is_buffer_data(pointer: Node) -> bool:
    """Return whether the pointer is the address of another buffer's data."""
    return isinstance(pointer, tvm.ir.Call) and getattr(pointer.op, "name", "") == "tirx.buffer_data"


def _flat_index(shape: Sequence[Extent], indices: Sequence[Index]) -> Index | None:
    """Return the index in the flat buffer; None where several indices are vectors, or one is no ramp."""
    stride: Extent = 1
    offset, vector = tirx.const(0, "int64"), None
    for dim, index in zip(reversed(list(shape)), reversed(list(indices)), strict=True):
        if isinstance(index, tirx.Ramp):
            if vector is not None:
                return None
            vector = (index.stride * stride, index.lanes)
            index = index.base  # noqa: PLW2901 - the rest is as of a single element
        elif int(index.ty.dtype.lanes) != 1:
            return None
        offset = offset + index * stride
        stride = stride * as_index(dim)
    return offset if vector is None else tirx.Ramp(offset, *vector)
