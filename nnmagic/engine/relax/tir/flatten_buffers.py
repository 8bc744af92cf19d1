"""Places in buffers of several dimensions as places in memory: as TVM's FlattenBuffer, without its analysis.

TVM proves things of every place anew; a kernel whose tiles are written out has hundreds. Knows TVM only.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import tirx

from nnmagic.engine.relax.tir.builders import static_int
from nnmagic.engine.relax.tir.visitors import rewrite, visit


def flatten_buffers(function: tirx.PrimFunc) -> tirx.PrimFunc | None:
    """A function of pointers whose buffers have one dimension; None where that is not all there is to do."""
    rows: dict[Any, Any] = {}
    pointers: dict[Any, Any] = {}
    others: list[Any] = []

    def row(buffer: Any) -> Any:
        shape, dtype = [static_int(dim) for dim in buffer.ty.shape], str(buffer.ty.dtype)
        if None in shape or dtype == "bool" or list(buffer.ty.strides or ()):
            others.append(buffer)
            return None
        size = math.prod(each for each in shape if each is not None)
        scope, alignment = buffer.ty.storage_scope, buffer.ty.data_alignment
        rows[buffer] = tirx.decl_buffer((size,), dtype, buffer.name, scope=scope, data_alignment=alignment)
        return rows[buffer]

    def declared(statement: tirx.DeclBuffer) -> Any:
        buffer, pointer = statement.buffer, statement.data
        if _is_data(pointer):
            pointer = pointers.get(pointer.args[0])
        if not isinstance(pointer, tirx.Var):
            others.append(buffer)
            return statement
        pointers[buffer] = pointer
        found = row(buffer)
        return statement if found is None else tirx.DeclBuffer(found, data=pointer)

    def allocated(statement: tirx.AllocBuffer) -> Any:
        found = row(statement.buffer)
        return statement if found is None else tirx.AllocBuffer(found, statement.annotations)

    def loaded(load: Any) -> Any:
        row_of = rows.get(load.source)
        place = None if row_of is None else _place(load.source.ty.shape, load.indices)
        return load if place is None else tirx.BufferLoad(row_of, [place])

    def stored(store: tirx.BufferStore) -> Any:
        row_of = rows.get(store.buffer)
        place = None if row_of is None else _place(store.buffer.ty.shape, store.indices)
        return store if place is None else tirx.BufferStore(row_of, store.value, [place])

    # Pointers are declared before all else, so that their rows are known when what uses them is met.
    declarations = [(tirx.DeclBuffer, declared), (tirx.AllocBuffer, allocated)]
    body = rewrite(function.body, declarations)
    if others:
        return None
    body = rewrite(body, [(tvm.ir.TensorLoad, loaded), (tirx.BufferStore, stored)])
    visit(body, [(tvm.ir.Var, lambda var: others.append(var) if var in rows else None)])
    return None if others else function.with_body(body)


def _is_data(pointer: Any) -> bool:
    """Whether it is where another buffer begins."""
    return isinstance(pointer, tvm.ir.Call) and getattr(pointer.op, "name", "") == "tirx.buffer_data"


def _place(shape: Any, indices: Any) -> Any:
    """The one index; None where several of the indices are vectors, or one is that is no row of places."""
    stride, place, across = 1, tirx.const(0, "int64"), None
    for dim, index in zip(reversed(list(shape)), reversed(list(indices)), strict=True):
        if isinstance(index, tirx.Ramp):
            if across is not None:
                return None
            across = (index.stride * stride, index.lanes)
            index = index.base  # noqa: PLW2901 - the rest is as of a single element
        elif int(index.ty.dtype.lanes) != 1:
            return None
        place = place + index * stride
        stride *= int(dim.value)
    return place if across is None else tirx.Ramp(place, *across)
