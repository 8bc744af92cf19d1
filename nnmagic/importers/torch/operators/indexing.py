"""Import operators that take elements at indices and put them there.

What they compute: https://docs.pytorch.org/docs/stable/generated/torch.index_select.html
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.values import Value, constant, op, with_shape
from nnmagic.importers.torch.calls import AtenCall, over_elements, scalar_constant
from nnmagic.importers.torch.mathematics import convert, neutral, wide
from nnmagic.importers.torch.operators.products import distance
from nnmagic.importers.torch.registry import operator, operators
from nnmagic.relay.ops.dims import broadcast_shapes, product, same_dim
from nnmagic.relay.types import ANY, Dim


def in_range(call: AtenCall, indices: Value, data: Value, axis: int, *, negative: bool = True) -> Value:
    """Return int64 indices counted from the front; a call with one that is out of range fails."""
    size = shapes.size_along(data, axis)
    counted = indices.cast("int64")
    # PyTorch counts negative indices from the end in ``x[index]`` and ``take`` only; elsewhere they
    # are out of range.
    if negative:
        counted = (counted < 0).choose(counted + size, counted)
    if 0 in indices.shape:
        return counted
    counted = call.block.bind(counted, "indices")
    inside = op("logical_and", counted >= 0, counted < size)
    call.block.check(op("all", inside) if inside.rank else inside, f"{call.name}: an index is out of range")
    return counted


@operator("index_select")
def _index_select(call: AtenCall) -> Value:
    data, axis = over_elements(call["self"]), call.axis("dim", call["self"].rank)
    places = in_range(call, over_elements(call["index"]), data, axis, negative=False)
    result = op("take", data, places, axis=axis, mode="clip")
    return result if call["self"].rank else call.reshape(result, [])


@operator("embedding")
def _embedding(call: AtenCall) -> Value:
    weight = call["weight"]
    return op("take", weight, in_range(call, call["indices"], weight, 0, negative=False), axis=0, mode="clip")


@operator("gather")
def _gather(call: AtenCall) -> Value:
    data, index = call["self"], call["index"]
    axis = call.axis("dim", data.rank)
    if 0 in index.shape:
        return call.full(call.shape, scalar_constant(0, data.dtype))
    if not data.rank or not index.rank:
        flat, places = over_elements(data), over_elements(index)
        result = op("take", flat, in_range(call, places, flat, 0, negative=False), axis=0, mode="clip")
        return call.reshape(result, index.shape)
    places = in_range(call, index, data, axis, negative=False)
    return op("gather", _cut(data, index, axis), places, axis=axis)


def _cut(data: Value, index: Value, axis: int) -> Value:
    """Cut the other axes of a tensor to the sizes of the indices."""
    for at in range(data.rank):
        have, want = data.shape[at], index.shape[at]
        if at != axis and same_dim(have, want) is not True:
            if isinstance(have, int) and isinstance(want, int):
                data = shapes.slice_axis(data, at, 0, int(want))
            else:
                data = op("take", data, shapes.counting(index, at), axis=at, mode="clip")
    return data


@operator("take")
def _take(call: AtenCall) -> Value:
    data = call["self"]
    flat = call.reshape(data, [product(data.shape)])
    return op("take", flat, in_range(call, call["index"], flat, 0), axis=0, mode="clip")


# -- advanced indexing ---------------------------------------------------------------------------------


def _masks_as_indices(call: AtenCall, data: Value, given: list[Value | None]) -> list[Value | None]:
    """Replace a mask by the indices of what it selects along each of its axes."""
    indices: list[Value | None] = []
    for item in given:
        # Older programs have masks of uint8, which PyTorch still takes for masks.
        if item is None or item.dtype not in ("bool", "uint8"):
            indices.append(item)
            continue
        mask = convert(item, "bool")
        if not mask.rank:
            raise UnsupportedError("a mask without axes is not supported")
        rows = call.block.bind(op("argwhere", mask).cast("int64"))
        for axis in range(mask.rank):
            column = op("take", rows, constant(axis, "int64"), axis=1, mode="clip")
            indices.append(column)
    if len(indices) > data.rank:
        raise UnsupportedError(f"{len(indices)} indices do not fit a tensor of rank {data.rank}")
    return indices


def _prepare(call: AtenCall) -> tuple[Value, list[int], list[Value], int]:
    """Return the tensor with indexed axes in front, those axes, their indices, and where they go to."""
    data = call["self"]
    given = [item if isinstance(item, Value) else None for item in call.arguments["indices"]]
    indices = _masks_as_indices(call, data, given)
    axes = [axis for axis, item in enumerate(indices) if item is not None]
    places = [in_range(call, cast(Value, indices[axis]), data, axis) for axis in axes]
    # NumPy's rule: the axes of the indices go to the place of the indexed axes if these are
    # neighbours, as in ``x[:, i, j]``, otherwise to the front, as in ``x[i, :, j]``.
    together = axes == list(range(axes[0], axes[0] + len(axes))) if axes else True
    order = [*axes, *(axis for axis in range(data.rank) if axis not in axes)]
    return shapes.transpose(data, order), axes, places, (axes[0] if together and axes else 0)


def _broadcast(places: list[Value]) -> list[Value]:
    """Broadcast indices to one shape."""
    shape: tuple[Dim, ...] = ()
    for place in places:
        common = broadcast_shapes(shape, place.shape)
        if common is None:
            raise UnsupportedError("the indices do not broadcast together")
        shape = common
    if all(place.shape == shape for place in places):
        return places
    # A sum with zeros broadcasts to sizes that only the call knows.
    total = places[0]
    for place in places[1:]:
        total = total + place * 0
    return [place if place.shape == shape and ANY not in shape else (total * 0 + place) for place in places]


@operator("index", "_unsafe_index")
def _index(call: AtenCall) -> Value:
    moved, axes, places, target = _prepare(call)
    if not axes:
        return call["self"]
    if len(places) == 1:
        result = op("take", moved, places[0], axis=0, mode="clip")
        rank = places[0].rank
    elif any(0 in place.shape for place in places) or 0 in moved.shape:
        return call.full(call.shape, scalar_constant(0, moved.dtype))
    else:
        places = _broadcast(places)
        rank = places[0].rank
        tuples = op("concatenate", [shapes.unsqueeze(place, [0]) for place in places], axis=0)
        result = op("gather_nd", moved, tuples, index_rank=len(places))
    order = [*range(rank, rank + target), *range(rank), *range(rank + target, result.rank)]
    return shapes.transpose(result, order)


@operator("masked_select")
def _masked_select(call: AtenCall) -> Value:
    data, mask = over_elements(call["self"]), over_elements(call["mask"])
    shape = broadcast_shapes(data.shape, mask.shape)
    if shape is None:
        raise UnsupportedError("the mask does not broadcast with the tensor")
    data, mask = call.expand(data, shape), call.expand(mask, shape)
    return _index(replace(call, arguments={"self": data, "indices": [mask]}))


@operator("index_put", "_unsafe_index_put")
def _index_put(call: AtenCall) -> Value:
    moved, axes, places, target = _prepare(call)
    data, updates = call["self"], convert(call["values"], call["self"].dtype)
    if not axes:
        return call.expand(updates, data.shape)
    places = _broadcast(places)
    rank = places[0].rank
    unindexed = moved.shape[len(axes) :]
    shape = [*unindexed[:target], *places[0].shape, *unindexed[target:]]
    updates = (
        updates
        if updates.shape == tuple(shape) and ANY not in shape
        else _expand_like(call, updates, shape, places[0])
    )
    order = [*range(target, target + rank), *range(target), *range(target + rank, len(shape))]
    updates = shapes.transpose(updates, order)
    if 0 in updates.shape or 0 in moved.shape:
        return data
    tuples = op("concatenate", [shapes.unsqueeze(place, [0]) for place in places], axis=0)
    done = _scatter_nd(call, moved, tuples, updates)
    back = [axis for axis in range(data.rank) if axis not in axes]
    return shapes.transpose(done, sorted(range(data.rank), key=lambda at: [*axes, *back][at]))


def _scatter_nd(call: AtenCall, data: Value, places: Value, updates: Value) -> Value:
    """Put updates at places, or add them; of bools that is whether one of them holds."""
    adds, is_bool = call.flag("accumulate"), data.dtype == "bool"
    mode = ("max" if is_bool else "add") if adds else "update"
    if is_bool:
        return op("scatter_nd", data.cast("int8"), places, updates.cast("int8"), mode=mode).cast("bool")
    return op("scatter_nd", data, places, updates, mode=mode)


def _expand_like(call: AtenCall, updates: Value, shape: list[Dim], like: Value) -> Value:
    """Broadcast updates to a shape, some of whose sizes are those of the indices."""
    if ANY not in shape:
        return call.expand(updates, shape)
    if updates.rank and updates.shape[0] not in (1, ANY):
        raise UnsupportedError("the shape of the values is known only when the function is called")
    sizes = [
        op("expand_dims", shapes.size_along(like, 0) if dim == ANY else call.size(dim), axis=0)
        for dim in shape
    ]
    return with_shape(
        op("dyn.broadcast_to", updates, op("concatenate", sizes, axis=0) if len(sizes) > 1 else sizes[0]),
        shape,
    )


@operator("nonzero")
def _nonzero(call: AtenCall) -> Value:
    data = convert(call["self"], "bool")
    places = op("argwhere", over_elements(data)).cast("int64")
    return places if data.rank else shapes.slice_axis(places, 1, 0, 0)


@operator("masked_scatter")
def _masked_scatter(call: AtenCall) -> Value:
    """Put the elements of a source, in their order, where a mask holds."""
    data = call["self"]
    mask = call.expand(convert(call["mask"], "bool"), call.shape)
    data = call.expand(data, call.shape)
    source = call["source"]
    if 0 in data.shape or 0 in source.shape:
        return data
    flat = call.reshape(source, [product(source.shape)])
    marks = call.reshape(mask.cast("int64"), [product(data.shape)])
    number = op("cumsum", marks, axis=0, dtype="int64") - 1
    # -1 before the first marked element, where the mask chooses the data.
    number = call.reshape(number, data.shape).maximum(0)
    return mask.choose(op("take", flat, number, axis=0, mode="clip"), data)


# -- scatter -------------------------------------------------------------------------------------------

_REDUCTIONS = {
    "sum": "add",
    "add": "add",
    "prod": "mul",
    "multiply": "mul",
    "amax": "max",
    "amin": "min",
    "update": "update",
}


def scatter(call: AtenCall, updates: Value, mode: str) -> Value:
    """Put updates at indices along an axis."""
    data, index = call["self"], call["index"]
    if 0 in index.shape:
        return data
    dtype = data.dtype
    if not data.rank or not index.rank:
        data, index, updates = (over_elements(item) for item in (data, index, updates))
        if not call["self"].rank:
            made = _scattered(call, data, index, updates, 0, mode)
            return shapes.squeeze(made, [0]).cast(dtype)
    return _scattered(call, data, index, updates, call.axis("dim", data.rank), mode)


def _scattered(call: AtenCall, data: Value, index: Value, updates: Value, axis: int, mode: str) -> Value:
    places = in_range(call, index, data, axis, negative=False)
    updates = convert(updates, data.dtype)
    for at in range(updates.rank):
        have, want = updates.shape[at], index.shape[at]
        if have != want and isinstance(have, int) and isinstance(want, int):
            updates = shapes.slice_axis(updates, at, 0, int(want))
    kind = "int8" if data.dtype == "bool" else data.dtype
    return op(
        "scatter_elements", data.cast(kind), places, updates.cast(kind), axis=axis, reduction=mode
    ).cast(data.dtype)


@operator("scatter")
def _scatter(call: AtenCall) -> Value:
    mode = _REDUCTIONS[call.argument("reduce", "update")]
    if call.get("src") is not None:
        return scatter(call, call["src"], mode)
    value = call.number_value("value", call.dtype)
    return scatter(call, call.full(call["index"].shape, value), mode)


@operator("scatter_reduce")
def _scatter_reduce(call: AtenCall) -> Value:
    """Combine updates with the elements, or, without them, with each other only."""
    reduce = str(call.argument("reduce"))
    data, source = call["self"], call["src"]
    if reduce == "mean":
        return _scatter_mean(call)
    mode = _REDUCTIONS[reduce]
    if call.flag("include_self", default=True):
        return scatter(call, source, mode)
    if 0 in call["index"].shape:
        return data
    # What gets updates is set to the neutral element first, so that its own value has no part.
    first = {"add": 0, "mul": 1}.get(mode)
    start = neutral(mode, data.dtype) if first is None else first
    cleared = scatter(call, call.full(call["index"].shape, scalar_constant(start, data.dtype)), "update")
    return scatter(_with_self(call, cleared), source, mode)


def _with_self(call: AtenCall, data: Value) -> AtenCall:
    return replace(call, arguments={**call.arguments, "self": data})


def _scatter_mean(call: AtenCall) -> Value:
    data, index = call["self"], call["index"]
    if 0 in index.shape:
        return data
    ones = call.full(index.shape, scalar_constant(1, data.dtype))
    included = call.flag("include_self", default=True)
    zeros = scalar_constant(0, data.dtype)
    counts = scatter(_with_self(call, call.full(data.shape, zeros)), ones, "add")
    base = data if included else counts.equal(0).choose(data, zeros)
    total = scatter(_with_self(call, base), call["src"], "add")
    number = counts + 1 if included else counts.maximum(1)
    if data.is_float:
        return total / number
    # PyTorch's mean of integers is rounded down.
    return op("floor_divide", total, number)


@operator("index_fill")
def _index_fill(call: AtenCall) -> Value:
    data, index = over_elements(call["self"]), over_elements(call["index"])
    axis = call.axis("dim", data.rank)
    shape = [*data.shape[:axis], index.shape[0], *data.shape[axis + 1 :]]
    return _along_index(call, "update", call.full(shape, call.number_value("value", data.dtype)))


def _along_index(call: AtenCall, mode: str, source: Value) -> Value:
    data, index = over_elements(call["self"]), over_elements(call["index"])
    if 0 in index.shape:
        return call["self"]
    axis = call.axis("dim", data.rank)
    source = convert(over_elements(source), data.dtype)
    if mode == "add" and call.argument("alpha", 1) != 1:
        source = source * scalar_constant(call.argument("alpha"), data.dtype)
    order = [axis, *(at for at in range(data.rank) if at != axis)]
    kind = "int8" if data.dtype == "bool" else data.dtype
    places = shapes.unsqueeze(in_range(call, index, data, axis, negative=mode == "update"), [0])
    done = op(
        "scatter_nd",
        shapes.transpose(data, order).cast(kind),
        places,
        shapes.transpose(source, order).cast(kind),
        mode=mode,
    )
    result = shapes.transpose(done, sorted(range(data.rank), key=order.__getitem__)).cast(data.dtype)
    return result if call["self"].rank else shapes.squeeze(result, [0])


@operator("index_reduce")
def _index_reduce(call: AtenCall) -> Value:
    data, source = over_elements(call["self"]), over_elements(call["source"])
    axis = call.axis("dim", data.rank)
    others = [at for at in range(data.rank) if at != axis]
    index = call.expand(shapes.unsqueeze(over_elements(call["index"]), others), source.shape)
    arguments = {**call.arguments, "self": data, "src": source, "index": index}
    result = _scatter_reduce(replace(call, arguments=arguments))
    return result if call["self"].rank else shapes.squeeze(result, [0])


@operator("put")
def _put(call: AtenCall) -> Value:
    """Put elements at indices that count all elements of a tensor."""
    data, index = call["self"], call["index"]
    count = product(index.shape)
    if count == 0:
        return data
    flat = call.reshape(data, [product(data.shape)])
    places = in_range(call, call.reshape(index, [count]), flat, 0)
    source = call.reshape(convert(call["source"], data.dtype), [count])
    return call.reshape(_scatter_nd(call, flat, shapes.unsqueeze(places, [0]), source), data.shape)


@operator("embedding_renorm")
def _embedding_renorm(call: AtenCall) -> Value:
    """Scale the rows of a table that are asked for, and whose norm is too large, to the largest norm."""
    weight, indices = call["self"], call["indices"]
    count = product(indices.shape)
    if count == 0:
        return weight
    places = in_range(call, call.reshape(indices, [count]), weight, 0, negative=False)
    nobody = call.full([weight.shape[0]], scalar_constant(0, "int8"))
    ones = call.full([count], scalar_constant(1, "int8"))
    asked = op("scatter_nd", nobody, shapes.unsqueeze(places, [0]), ones, mode="update") > 0
    size, largest = distance(weight, call.number("norm_type", 2)), call.number("max_norm")
    scaled = weight * shapes.unsqueeze(largest / (size + 1e-7), [1])
    return shapes.unsqueeze(op("logical_and", asked, size > largest), [1]).choose(scaled, weight)


@operator("embedding_dense_backward")
def _embedding_dense_backward(call: AtenCall) -> Value:
    gradient, indices = wide(call["grad_output"]), call["indices"]
    rows, padding = call.integer("num_weights"), call.integer("padding_idx")
    width = gradient.shape[-1]
    zeros = call.full([rows, width], scalar_constant(0, gradient.dtype))
    count = product(indices.shape)
    if count == 0:
        return zeros
    places = call.reshape(indices.cast("int64"), [count])
    updates = call.reshape(gradient, [count, width])
    if call.flag("scale_grad_by_freq"):
        ones = call.full([count], scalar_constant(1, gradient.dtype))
        counts = op(
            "scatter_nd",
            call.full([rows], scalar_constant(0, gradient.dtype)),
            shapes.unsqueeze(places, [0]),
            ones,
            mode="add",
        )
        updates = updates / shapes.unsqueeze(op("take", counts, places, axis=0, mode="clip"), [1])
    if padding >= 0:
        kept = op("not_equal", places, places.like(padding))
        updates = shapes.unsqueeze(kept, [1]).choose(updates, updates.like(0))
    return op("scatter_nd", zeros, shapes.unsqueeze(places, [0]), updates, mode="add")


def bag_of(number: Value, offsets: Value) -> Value:
    """Return the bag of each index: how many bags begin at or before it, less one."""
    if 0 in number.shape:
        return number
    begun = op("expand_dims", offsets.cast("int64"), axis=0) <= op("expand_dims", number, axis=1)
    return op("sum", begun.cast("int64"), axis=(1,)) - 1


@operator("_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(call: AtenCall) -> list[Value]:
    """Reduce bags of embeddings; a bag is a range of indices."""
    weight, indices, offsets = call["weight"], call["indices"], call["offsets"]
    mode, padding = call.integer("mode", 0), call.integer("padding_idx", -1)
    if call.flag("include_last_offset"):
        offsets = with_shape(shapes.slice_axis(offsets, 0, 0, -1), call.shape[:1])
    places = in_range(call, indices, weight, 0, negative=False)
    bag = bag_of(shapes.counting(indices, 0), offsets)
    rows = wide(op("take", weight, places, axis=0, mode="clip"))
    weights = call.get("per_sample_weights")
    if weights is not None:
        rows = rows * op("expand_dims", wide(weights), axis=1)
    counted = op("not_equal", places, places.like(padding)) if padding >= 0 else places.equal(places)
    zero, largest = scalar_constant(0, rows.dtype), None

    def add_up(each: Value, zeros: Value) -> Value:
        return op("scatter_nd", zeros, shapes.unsqueeze(bag, [0]), each, mode="add")

    sizes = add_up(counted.cast("int64"), call.full(offsets.shape, scalar_constant(0, "int64")))
    if indices.shape == (0,):
        result = call.full(call.shape, zero)
    elif mode == 2:
        members = bag.equal(shapes.unsqueeze(shapes.counting(offsets, 0), [1]))  # (bags, count)
        members = op("logical_and", members, counted)
        low = rows.like(neutral("max", rows.dtype))
        spread = op("expand_dims", members, axis=2).choose(op("expand_dims", rows, axis=0), low)
        best = op("max", spread, axis=(1,))
        largest = op("take", places, op("argmax", spread, axis=(1,)), axis=0, mode="clip")
        result = op("expand_dims", sizes > 0, axis=1).choose(best, best.like(0))
    else:
        kept = op("expand_dims", counted, axis=1).choose(rows, zero)
        result = add_up(kept, call.full(call.shape, zero))
        if mode == 1:
            result = result / op("expand_dims", sizes.maximum(1).cast(rows.dtype), axis=1)
    results = [result]  # the others serve the gradient; what it does not need has another shape in torch
    serving: tuple[Value | None, ...] = (bag, sizes, largest)
    for traced, own in zip(call.results[1:], serving, strict=True):
        shape = call.importer.shape_of(traced)
        is_needed = own is not None and _may_be(own.shape, shape)
        results.append(own if own and is_needed else call.full(shape, scalar_constant(0, "int64")))
    return results


def _may_be(shape: tuple[Dim, ...], other: tuple[Dim, ...]) -> bool:
    """Return whether two shapes may be the same."""
    pairs = zip(shape, other, strict=False)
    return len(shape) == len(other) and all(same_dim(*pair) is not False for pair in pairs)


operators(
    {
        "index_add": lambda call: _along_index(call, "add", call["source"]),
        "index_copy": lambda call: _along_index(call, "update", call["source"]),
        "scatter_add": lambda call: scatter(call, call["src"], "add"),
    }
)
