"""Import operators that rearrange tensors: reshape, slice, join, repeat, pad.

What they compute: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.operators.constants import arange
from nnmagic.importers.onnx.operators.padding import pad
from nnmagic.importers.onnx.values import Value, constant, op, with_shape
from nnmagic.importers.torch.calls import AtenCall, scalar_constant
from nnmagic.importers.torch.mathematics import convert
from nnmagic.importers.torch.operators.elementwise import reinterpret
from nnmagic.importers.torch.operators.strided_views import counting, put_in_view
from nnmagic.importers.torch.registry import operator, operators
from nnmagic.importers.torch.views import overlaps
from nnmagic.relay.ops.dims import product
from nnmagic.relay.types import ANY, Dim

#: The end of a slice that goes on to the last element.
FAR = 2**48


@operator("view", "_unsafe_view", "reshape", "view_copy", "_reshape_copy")
def _view(call: AtenCall) -> Value:
    if "dtype" in call.arguments:
        return reinterpret(call["self"], call.dtype)
    return call.reshape(call["self"], call.shape)


@operator("permute", "permute_copy")
def _permute(call: AtenCall) -> Value:
    data = call["self"]
    return shapes.transpose(data, [axis % data.rank for axis in call.ints("dims")])


@operator("transpose", "transpose_copy")
def _transpose(call: AtenCall) -> Value:
    data = call["self"]
    if not data.rank:
        return data
    order = list(range(data.rank))
    first, second = call.axis("dim0", data.rank), call.axis("dim1", data.rank)
    order[first], order[second] = second, first
    return shapes.transpose(data, order)


@operator("squeeze", "squeeze_copy")
def _squeeze(call: AtenCall) -> Value:
    data = call["self"]
    if call.argument("dim") == []:
        return data
    axes = [axis for axis in call.axes("dim", data.rank) if data.rank and data.shape[axis] == 1]
    return shapes.squeeze(data, axes)


@operator("unsqueeze", "unsqueeze_copy")
def _unsqueeze(call: AtenCall) -> Value:
    return shapes.unsqueeze(call["self"], [call.axis("dim", call["self"].rank + 1)])


# -- parts ---------------------------------------------------------------------------------------------


def _slice(call: AtenCall, data: Value) -> tuple[int, Value | int, Value | int, int]:
    """Return axis, first, end and step of a slice; ends that depend on sizes are Values."""
    axis = call.axis("dim", data.rank)
    bounds: list[Value | int] = []
    for name, default in (("start", 0), ("end", FAR)):
        item = call.argument(name, default)
        array = item.known if isinstance(item, Value) else np.array(item)
        bounds.append(item if array is None else max(-FAR, min(int(array), FAR)))
    return axis, bounds[0], bounds[1], call.integer("step", 1)


def _slice_places(call: AtenCall, data: Value, length: Dim) -> tuple[int, Value]:
    """Return the axis of a slice and the indices along it, where bounds or sizes are dynamic."""
    axis, first, _, step = _slice(call, data)
    size = shapes.size_along(data, axis)
    start = first if isinstance(first, Value) else constant(first, "int64")
    start = (start < 0).choose(start + size, start).maximum(0).minimum(size)
    return axis, counting(call, length) * step + start


@operator("slice", "slice_copy")
def _slice_tensor(call: AtenCall) -> Value:
    data = call["self"]
    axis, first, last, step = _slice(call, data)
    size, length = data.shape[axis], call.shape[axis]
    if isinstance(first, int) and isinstance(last, int) and isinstance(size, int):
        return shapes.slice_axis(data, axis, first, last, step)
    if first == 0 and step == 1 and (length == size or last == FAR):
        return data
    if isinstance(first, int) and isinstance(last, int):
        return with_shape(
            shapes.slice_axis(data, axis, first, last, step),
            [*data.shape[:axis], length, *data.shape[axis + 1 :]],
        )
    axis, places = _slice_places(call, data, length)
    return op("take", data, places, axis=axis, mode="clip")


@operator("narrow_copy")
def _narrow(call: AtenCall) -> Value:
    data = call["self"]
    start, length = call.argument("start"), call.argument("length")
    if isinstance(start, int) and start < 0:
        start = shapes.size_along(data, call.axis("dim", data.rank)) + start
    bounds = {"start": start, "end": start + length, "step": 1}
    return _slice_tensor(replace(call, arguments={**call.arguments, **bounds}))


@operator("slice_scatter")
def _slice_scatter(call: AtenCall) -> Value:
    if overlaps(call.originals["self"]):
        return put_in_view(call, _slice_tensor)
    data, source = call["self"], convert(call["src"], call.dtype)
    axis, first, last, step = _slice(call, data)
    size = data.shape[axis]
    if isinstance(first, int) and isinstance(last, int) and isinstance(size, int):
        places = range(*slice(first, last, step).indices(int(size)))
        return put_along(data, source, axis, constant(np.array(places, "int64")))
    axis, along = _slice_places(call, data, source.shape[axis])
    return put_along(data, source, axis, along)


def put_along(data: Value, source: Value, axis: int, places: Value) -> Value:
    """Return a tensor with slices along an axis replaced."""
    if 0 in source.shape:
        return data
    size = data.shape[axis]
    static = places.known
    if static is not None and isinstance(size, int):  # choose by mask and take: no scatter, so it fuses
        where = np.zeros(int(size), "int64")
        inside = np.zeros(int(size), bool)
        where[static], inside[static] = np.arange(static.size), True
        if inside.all() and (where == np.arange(size)).all():
            return source
        spread = op("take", source, constant(where), axis=axis, mode="clip")
        mask = shapes.unsqueeze(constant(inside), range(1, data.rank - axis))
        return mask.choose(spread, data)
    moved = [axis, *(at for at in range(data.rank) if at != axis)]
    back = sorted(range(data.rank), key=moved.__getitem__)
    kind = "int8" if data.dtype == "bool" else data.dtype
    result = op(
        "scatter_nd",
        shapes.transpose(data, moved).cast(kind),
        shapes.unsqueeze(places, [0]),
        shapes.transpose(source, moved).cast(kind),
    )
    return shapes.transpose(result, back).cast(data.dtype)


@operator("select", "select_copy")
def _select(call: AtenCall) -> Value:
    data = call["self"]
    axis = call.axis("dim", data.rank)
    index = call.arguments["index"]
    if isinstance(index, Value) and index.known is None:
        return op("take", data, shapes.from_end(index, data, axis), axis=axis, mode="fast")
    at = call.integer("index")
    return shapes.squeeze(shapes.slice_axis(data, axis, at, at + 1 if at != -1 else FAR), [axis])


@operator("select_scatter")
def _select_scatter(call: AtenCall) -> Value:
    if overlaps(call.originals["self"]):
        return put_in_view(call, _select)
    data = call["self"]
    axis, at = call.axis("dim", data.rank), call.integer("index")
    source = shapes.unsqueeze(convert(call["src"], data.dtype), [axis])
    size = data.shape[axis]
    if isinstance(size, int):
        return put_along(data, source, axis, constant(np.array([at % int(size)])))
    place = constant([at], "int64") if at >= 0 else shapes.unsqueeze(shapes.size_along(data, axis) + at, [0])
    return put_along(data, source, axis, place)


@operator("split_with_sizes", "split_with_sizes_copy")
def _split_with_sizes(call: AtenCall) -> list[Value]:
    data = call["self"]
    axis = call.axis("dim", data.rank)
    return _parts(call, axis, call.dims("split_sizes"))


@operator("split", "split_copy")
def _split(call: AtenCall) -> list[Value]:
    data = call["self"]
    axis = call.axis("dim", data.rank)
    return _parts(call, axis, [call.importer.shape_of(result)[axis] for result in call.results])


def _parts(call: AtenCall, axis: int, sizes: Sequence[Dim]) -> list[Value]:
    """Return the parts of a tensor that have these sizes along an axis, one after the other."""
    data, begin, slices = call["self"], constant(0, "int64"), []
    for size in sizes:
        length = call.size(size)
        if begin.known is not None and length.known is not None:
            slices.append(shapes.slice_axis(data, axis, int(begin.known), int(begin.known + length.known)))
        else:
            slices.append(op("take", data, counting(call, size) + begin, axis=axis, mode="clip"))
        begin = begin + length
    return slices


@operator("unbind", "unbind_copy")
def _unbind(call: AtenCall) -> list[Value]:
    data = call["self"]
    axis = call.axis("dim", data.rank)
    return [
        shapes.squeeze(shapes.slice_axis(data, axis, at, at + 1), [axis]) for at in range(len(call.results))
    ]


@operator("cat")
def _cat(call: AtenCall) -> Value:
    tensors = [convert(tensor, call.dtype) for tensor in call.values("tensors")]
    tensors = [tensor for tensor in tensors if tensor.shape != (0,)] or tensors[:1]
    if len(tensors) == 1:
        return tensors[0]
    return op("concatenate", tensors, axis=call.axis("dim", tensors[0].rank))


@operator("stack")
def _stack(call: AtenCall) -> Value:
    tensors = [convert(tensor, call.dtype) for tensor in call.values("tensors")]
    axis = call.axis("dim", tensors[0].rank + 1)
    return op("concatenate", [shapes.unsqueeze(tensor, [axis]) for tensor in tensors], axis=axis)


@operator("repeat")
def _repeat(call: AtenCall) -> Value:
    data = call["self"]
    counts = call.dims("repeats")
    data = shapes.unsqueeze(data, range(len(counts) - data.rank))
    for axis, count in enumerate(counts):
        if count == 1:
            continue
        wide = shapes.unsqueeze(data, [axis])
        spread = call.expand(wide, [*data.shape[:axis], count, *data.shape[axis:]])
        joined = [*data.shape[:axis], product([count, data.shape[axis]]), *data.shape[axis + 1 :]]
        data = call.reshape(spread, joined)
    return data


@operator("flip")
def _flip(call: AtenCall) -> Value:
    data = call["self"]
    for axis in call.ints("dims"):
        if data.rank:
            data = op("reverse", data, axis=axis % data.rank)
    return data


@operator("roll")
def _roll(call: AtenCall) -> Value:
    data = call["self"]
    shifts, axes = call.ints("shifts"), call.ints("dims")
    flat = data if axes else call.reshape(data, [product(data.shape)])
    for shift, axis in zip(shifts, axes or [0], strict=True):
        at = axis % max(flat.rank, 1)
        places = op("floor_mod", shapes.counting(flat, at) - shift, shapes.size_along(flat, at))
        flat = op("take", flat, places, axis=at, mode="clip")
    return call.reshape(flat, data.shape)


@operator("diagonal", "diagonal_copy")
def _diagonal(call: AtenCall) -> Value:
    data, offset = call["self"], call.integer("offset", 0)
    first, second = call.axis("dim1", data.rank, 0), call.axis("dim2", data.rank, 1)
    order = [axis for axis in range(data.rank) if axis not in (first, second)] + [first, second]
    rows, columns = data.shape[first], data.shape[second]
    moved = shapes.transpose(data, order)
    length = call.shape[-1]
    if length == 0:
        return call.full(call.shape, scalar_constant(0, data.dtype))
    if length == ANY:
        below, beside = call.size(rows) + min(offset, 0), call.size(columns) - max(offset, 0)
        at = arange(constant(0, "int64"), below.minimum(beside).maximum(0), constant(1, "int64"), "int64")
    else:
        at = counting(call, length)
    places = (at + max(-offset, 0)) * call.size(columns) + at + max(offset, 0)
    flat = call.reshape(moved, [*moved.shape[:-2], product([rows, columns])])
    return op("take", flat, places, axis=flat.rank - 1, mode="clip")


@operator("diagonal_scatter")
def _diagonal_scatter(call: AtenCall) -> Value:
    """Return a tensor with a diagonal replaced by a source, in which the diagonal is the last axis."""
    if overlaps(call.originals["self"]):
        return put_in_view(call, _diagonal)
    data, offset = call["self"], call.integer("offset", 0)
    source = convert(call["src"], data.dtype)
    first, second = call.axis("dim1", data.rank, 0), call.axis("dim2", data.rank, 1)
    if 0 in source.shape or 0 in data.shape:
        return data
    order = [axis for axis in range(data.rank) if axis not in (first, second)] + [first, second]
    moved = shapes.transpose(data, order)
    rows, columns = (shapes.counting(moved, axis) for axis in (data.rank - 2, data.rank - 1))
    spread = op("take", source, (rows + min(offset, 0)).maximum(0), axis=source.rank - 1, mode="clip")
    there = shapes.unsqueeze(rows + offset, [1]).equal(columns)
    done = there.choose(shapes.unsqueeze(spread, [spread.rank]), moved)
    return shapes.transpose(done, sorted(range(data.rank), key=order.__getitem__))


@operator("unfold", "unfold_copy")
def _unfold(call: AtenCall) -> Value:
    data = call["self"]
    size, step = call.integer("size"), call.integer("step")
    data = data if data.rank else op("expand_dims", data, axis=0)
    axis = call.axis("dimension", data.rank)
    count = call.shape[axis] if len(call.shape) > axis + 1 else 1
    places = shapes.unsqueeze(counting(call, count) * step, [1]) + constant(np.arange(size), "int64")
    taken = op("take", data, places, axis=axis, mode="clip")
    order = [at for at in range(taken.rank) if at != axis + 1] + [axis + 1]
    result = shapes.transpose(taken, order)
    return result if call["self"].rank else call.reshape(result, call.shape)


# -- padding -------------------------------------------------------------------------------------------


def _widths(call: AtenCall, rank: int, name: str) -> tuple[list[int], list[int]]:
    """Return torch's padding, which begins with the last axis, as widths before and after each axis."""
    padding = call.ints(name)
    before, after = [0] * rank, [0] * rank
    for number in range(len(padding) // 2):
        before[rank - 1 - number], after[rank - 1 - number] = padding[2 * number : 2 * number + 2]
    return before, after


@operator("constant_pad_nd")
def _constant_pad(call: AtenCall) -> Value:
    data = call["self"]
    before, after = _widths(call, data.rank, "pad")
    return pad(data, before, after, "constant", call.number_value("value", data.dtype))


def _border_pad(mode: str, names: Sequence[str]) -> None:
    @operator(*names)
    def rule(call: AtenCall) -> Value:
        data = call["self"]
        return pad(data, *_widths(call, data.rank, "padding"), mode, None)


_border_pad("reflect", ["reflection_pad1d", "reflection_pad2d", "reflection_pad3d"])
_border_pad("edge", ["replication_pad1d", "replication_pad2d", "replication_pad3d"])


# -- creation ------------------------------------------------------------------------------------------


def _fill(call: AtenCall, fill: Value) -> Value:
    """Return a tensor of one value; a size that no polynomial says is taken from the arguments."""
    if ANY not in call.shape:
        return call.full(call.shape, fill)
    if call.name.endswith("_like"):
        vector = op("shape_of", call["self"], dtype="int64")
    else:
        sizes = (
            item if isinstance(item, Value) else constant(item, "int64") for item in call.argument("size")
        )
        vector = op("concatenate", [shapes.unsqueeze(size, [0]) for size in sizes], axis=0)
    return shapes.full(call.shape, fill, vector=vector)


@operator(
    *("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "empty_strided", "new_empty"),
    *("empty_permuted", "new_empty_strided", "_new_zeros_with_same_feature_meta"),
)
def _zeros(call: AtenCall) -> Value:
    return _fill(call, scalar_constant(0, call.dtype))


@operator("arange")
def _arange(call: AtenCall) -> Value:
    dtype, length = call.dtype, call.shape[0]
    work = "int64" if not dtype.startswith(("float", "bfloat")) else "float64"
    start, step = (
        call.number_value(name, work)
        if call.arguments.get(name) is not None
        else scalar_constant(default, work)
        for name, default in (("start", 0), ("step", 1))
    )
    return convert(counting(call, length).cast(work) * step + start, dtype)


@operator("eye")
def _eye(call: AtenCall) -> Value:
    left = shapes.unsqueeze(counting(call, call.shape[0]), [1])
    return convert(left.equal(counting(call, call.shape[1])), call.dtype)


@operator("tril_indices", "triu_indices")
def _triangle_indices(call: AtenCall) -> Value:
    find = np.tril_indices if call.name == "aten.tril_indices" else np.triu_indices
    return constant(np.stack(find(call.integer("row"), call.integer("offset", 0), call.integer("col"))))


@operator("tril", "triu")
def _triangle(call: AtenCall) -> Value:
    data, shift = call["self"], call.integer("diagonal", 0)
    rows = shapes.unsqueeze(shapes.counting(data, data.rank - 2), [1])
    columns = shapes.counting(data, data.rank - 1)
    kept = columns <= rows + shift if call.name == "aten.tril" else columns >= rows + shift
    return kept.choose(data, scalar_constant(0, data.dtype))


operators(
    {
        "expand broadcast_to expand_copy": lambda call: call.expand(call["self"], call.shape),
        "flatten": lambda call: call.reshape(call["self"], call.shape),
        "full full_like new_full": lambda call: _fill(call, call.number_value("fill_value", call.dtype)),
        "ones ones_like new_ones": lambda call: _fill(call, scalar_constant(1, call.dtype)),
        "t t_copy": lambda call: shapes.transpose(call["self"], list(range(call["self"].rank))[::-1]),
    }
)
