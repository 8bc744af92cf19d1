"""Import operators on strided views of memory: as_strided, and what writes into views.

What they compute: https://docs.pytorch.org/docs/stable/generated/torch.as_strided.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.operators.constants import arange
from nnmagic.importers.onnx.values import Value, constant, op, with_shape
from nnmagic.importers.torch.calls import AtenCall
from nnmagic.importers.torch.mathematics import convert
from nnmagic.importers.torch.registry import operator
from nnmagic.importers.torch.tensors import dim_of
from nnmagic.importers.torch.views import layout_of
from nnmagic.relay.ops.dims import product
from nnmagic.relay.types import ANY, Dim


def counting(call: AtenCall, length: Dim) -> Value:
    """Return 0, 1, … up to a length, in int64."""
    if isinstance(length, int):
        return constant(np.arange(int(length)), "int64")
    numbers = arange(constant(0, "int64"), call.size(length), constant(1, "int64"), "int64")
    return with_shape(numbers, [length])


@operator("as_strided", "as_strided_copy", note="of tensors without gaps in their memory")
def _as_strided(call: AtenCall) -> Value:
    sizes, places, last = _places(call, call.results[0])
    memory = _memory(call, call["self"], call.originals["self"])
    inside = last < shapes.size_along(memory, 0)
    if inside.known is None:
        call.block.check(inside, f"{call.name}: it reaches beyond the tensor's memory")
    elif not inside.known and 0 not in sizes:
        raise UnsupportedError("it reaches beyond the tensor's memory")
    return op("take", memory, places, axis=0, mode="clip")


@operator("as_strided_scatter")
def _as_strided_scatter(call: AtenCall) -> Value:
    data, traced = call["self"], call.originals["self"]
    return _put_in_memory(call, data, convert(call["src"], data.dtype), _places(call, traced)[1])


def put_in_view(call: AtenCall, view: Callable[[AtenCall], Value]) -> Value:
    """Return a tensor after a source is written to a view of it; what lies in the same places changes."""
    data, own = call["self"], _own_places(call, call.originals["self"])
    viewed = replace(call, arguments={**call.arguments, "self": own}, results=[call.originals["src"]])
    return _put_in_memory(call, data, convert(call["src"], data.dtype), view(viewed))


def _put_in_memory(call: AtenCall, data: Value, source: Value, places: Value) -> Value:
    """Return a tensor after a source is written to places in its memory, of the last ones where they meet."""
    view_places = _own_places(call, call.originals["self"])
    flat = _flat(call, source)
    if places.known is not None and view_places.known is not None:  # no scatter, so it fuses
        last = np.full(max(view_places.known.max(initial=0), places.known.max(initial=0)) + 1, -1)
        last[places.known.reshape(-1)] = np.arange(places.known.size)
        chosen = last[view_places.known]
        if (chosen < 0).all():
            return data
        spread = op("take", flat, constant(np.maximum(chosen, 0)), axis=0, mode="clip")
        return constant(chosen >= 0).choose(spread, data)
    at = _flat(call, places)
    length = op("max", at).maximum(op("max", view_places)) + 1
    numbers = shapes.full((ANY,), constant(-1, "int64"), vector=shapes.unsqueeze(length, [0]))
    latest = op("scatter_nd", numbers, shapes.unsqueeze(at, [0]), shapes.counting(flat, 0))
    chosen = op("take", latest, view_places, axis=0, mode="clip")
    spread = op("take", flat, chosen.maximum(0), axis=0, mode="clip")
    return (chosen >= 0).choose(spread, data)


def _flat(call: AtenCall, data: Value) -> Value:
    """Return the elements of a tensor along one axis, also of sizes that only the call knows."""
    if data.rank == 1:
        return data
    if ANY in data.shape:
        return op("reshape", data, newshape=(-1,))
    return call.reshape(data, [product(data.shape)])


def _own_places(call: AtenCall, traced: Any) -> Value:
    """Return where in memory each element of a tensor is."""
    sizes, strides = (
        [dim_of(item, call.importer.labels) for item in part] for part in (traced.shape, traced.stride())
    )
    return _stride_places(call, sizes, strides, dim_of(traced.storage_offset(), call.importer.labels))[0]


def strided_places(sizes: Sequence[int], strides: Sequence[int], offset: int) -> np.ndarray:
    """Return where in memory each element of a strided tensor is."""
    places = np.full(tuple(sizes), offset, "int64")
    for axis, (count, step) in enumerate(zip(sizes, strides, strict=True)):
        places += (np.arange(count) * step).reshape([-1 if at == axis else 1 for at in range(len(sizes))])
    return places


def _places(call: AtenCall, offset_of: Any) -> tuple[list[Dim], Value, Value]:
    """Return the sizes, where in memory each element is, and where the last one is."""
    sizes, strides = call.dims("size"), call.dims("stride")
    storage_offset = call.argument("storage_offset")
    offset = (
        dim_of(offset_of.storage_offset(), call.importer.labels)
        if storage_offset is None
        else call.dim(storage_offset)
    )
    return sizes, *_stride_places(call, sizes, strides, offset)


def _stride_places(
    call: AtenCall, sizes: Sequence[Dim], strides: Sequence[Dim], offset: Dim
) -> tuple[Value, Value]:
    """Return where in memory each element of a strided tensor is, and where the last one is."""
    if all(isinstance(item, int) for item in (*sizes, *strides, offset)):
        whole, steps = ([int(cast(int, item)) for item in part] for part in (sizes, strides))
        static_places = strided_places(whole, steps, int(cast(int, offset)))
        return constant(static_places), constant(static_places.max(initial=-1), "int64")
    places = last = call.size(offset)
    for axis, (count, stride) in enumerate(zip(sizes, strides, strict=True)):
        step = call.size(stride)
        along = shapes.unsqueeze(counting(call, count) * step, range(1, len(sizes) - axis))
        places, last = places + along, last + (call.size(count) - 1) * step
    return with_shape(places, sizes), last


def _memory(call: AtenCall, data: Value, traced: Any) -> Value:
    """Return the elements of a tensor as they lie in memory. Raises UnsupportedError."""
    layout = layout_of(traced, call.importer.labels)
    if layout is not None and layout.gaps is not None:
        raise UnsupportedError("it takes a tensor with gaps in its memory", "call .contiguous() before it")
    moved = data if layout is None else shapes.transpose(data, layout.order)
    return call.reshape(moved, [product(data.shape)])
