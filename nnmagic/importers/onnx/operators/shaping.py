"""Import operators that change shapes: reshape, transpose, join, split, repeat.

The standard: https://onnx.ai/onnx/operators/onnx__Reshape.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode, normalize_axis
from nnmagic.importers.onnx.operators.constants import target_shape
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import (
    Value,
    constant,
    count_up,
    integers,
    op,
    sizes_of,
    with_shape,
    with_sizes,
)
from nnmagic.relay.ops.dims import broadcast_shapes, floor_divide, multiply, product, same_dim
from nnmagic.relay.types import ANY, NUMPY_DTYPES, Dim

_FAR = 2**48


@operator("Reshape")
def _reshape(node: OnnxNode) -> Value:
    data, allow_zero = node[0], bool(node.integer("allowzero"))
    if node.since < 5:
        target: Sequence[Dim] = node.ints("shape") or []
        vector = None
    else:
        target_value, declared = node[1], node.output_shape()
        if target_value.known is None and target_value.sizes is None and declared is not None:
            return _reshape_to_declaration(node, declared, allow_zero=allow_zero)
        target, vector = target_shape(node, 1)
    shape = shapes.reshape_target(data, target, allow_zero=allow_zero)
    plain = all((isinstance(dim, int) and dim > 0) or dim == ANY for dim in target)
    if ANY in target and not plain:
        raise node.unknown(1)
    _check_count(data, shape)
    if data.sizes is not None and len(shape) <= 1:
        return with_sizes(shapes.reshape(data, shape), data.sizes)
    usable = vector if -1 not in target and (0 not in target or allow_zero) else None
    return shapes.reshape(data, shape, vector=usable)


def _reshape_to_declaration(node: OnnxNode, declared: tuple[int, ...], *, allow_zero: bool) -> Value:
    """Reshape to the declared shape; the call checks that the target gives it."""
    data = node[0]
    wanted = np.array(declared, "int64")
    target = node[1]
    if target.shape != (len(declared),):
        raise node.unknown(1)
    fits = target.equal(constant(wanted))
    inferred = target.equal(-1)
    fits = op("logical_or", fits, inferred)
    if not allow_zero:
        copied = np.zeros(len(declared), "bool")
        for axis, (size, old) in enumerate(zip(declared, data.shape, strict=False)):
            copied[axis] = size == old
        fits = op("logical_or", fits, op("logical_and", target.equal(0), constant(copied)))
    if declared:
        node.block.check(op("all", fits), f"Reshape: shape must give {list(declared)}, as the model declares")
        once = op("sum", inferred.cast("int32")) <= 1
        node.block.check(once, "Reshape: shape may hold -1 once")
    _check_count(data, declared)
    return shapes.reshape(data, declared)


def _check_count(data: Value, shape: Sequence[Dim]) -> None:
    before, after = product(data.shape), product(shape)
    if isinstance(before, int) and isinstance(after, int) and before != after:
        shown = [int(cast(int, dim)) for dim in data.shape]
        raise UnsupportedError(f"the shape {shown} cannot become {list(shape)}")


@operator("Flatten")
def _flatten(node: OnnxNode) -> Value:
    data = node[0]
    axis = node.integer("axis", 1)
    if not -data.rank <= axis <= data.rank:
        raise UnsupportedError(f"axis {axis} is out of range for a tensor of rank {data.rank}")
    axis = axis + data.rank if axis < 0 else axis
    return shapes.reshape(data, [product(data.shape[:axis]), product(data.shape[axis:])])


@operator("Transpose")
def _transpose(node: OnnxNode) -> Value:
    axes = node.ints("perm")
    data = node[0]
    if axes is not None and sorted(axis % max(data.rank, 1) for axis in axes) != list(range(data.rank)):
        raise UnsupportedError(f"perm {axes} is no permutation of the axes of a tensor of rank {data.rank}")
    return shapes.transpose(data, axes if axes is not None else list(range(data.rank))[::-1])


def _axes(node: OnnxNode, rank: int, guess: list[int] | None) -> list[int]:
    """Return the axes that an attribute or, since opset 13, an input gives."""
    if node.since < 13:
        axes = node.ints("axes")
    else:
        axes = node.static(1, lambda: guess) if node.get(1) is not None else None
    if axes is None:
        return guess or []
    normalized = [normalize_axis(axis, rank) for axis in axes]
    if len(set(normalized)) < len(normalized):
        raise UnsupportedError(f"an axis is twice in {axes}")
    return normalized


@operator("Squeeze")
def _squeeze(node: OnnxNode) -> Value:
    data = node[0]
    ones = [axis for axis, dim in enumerate(data.shape) if isinstance(dim, int) and dim == 1]
    declared = node.output_shape()
    if node.since >= 13 and node.get(1) is not None and node[1].known is None:
        if declared is None:
            raise node.unknown(1)
        count = data.rank - len(declared)
        sets = [axes for axes in combinations(ones, count) if _without(data.shape, axes) == declared]
        return choose_axes(node, sets, data.rank, lambda axes: shapes.squeeze(data, axes))
    result = shapes.squeeze(data, _axes(node, data.rank, ones))
    return with_sizes(result, data.sizes) if data.sizes is not None else result


def _without(shape: Sequence[Dim], axes: Sequence[int]) -> tuple[Dim, ...]:
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def choose_axes(
    node: OnnxNode, sets: Sequence[Sequence[int]], rank: int, build: Callable[[Sequence[int]], Value]
) -> Value:
    """Build a result for each set of axes that an input may hold, in any order, negative or not."""
    axes = node[1]
    if sets and not any(sets):
        return build(sets[0])
    counted = (axes < 0).choose(axes + rank, axes)
    numbers = op("expand_dims", constant(count_up(rank), axes.dtype), axis=1)
    marks = op("any", numbers.equal(counted), axis=1).cast("int64")
    by_marks = {tuple(int(axis in item) for axis in range(rank)): item for item in sets}
    return replace(node, inputs=[node[0], marks]).choose(
        1,
        [np.array(key, "int64") for key in by_marks],
        lambda key: build(by_marks[tuple(np.asarray(key).tolist())]),
        "axes, as marks,",
    )


@operator("Unsqueeze")
def _unsqueeze(node: OnnxNode) -> Value:
    data = node[0]
    declared = node.output_shape()
    if node.since >= 13 and node[1].known is None:
        if declared is None:
            raise node.unknown(1)
        ones = [axis for axis, size in enumerate(declared) if size == 1]
        count = len(declared) - data.rank
        sets = [axes for axes in combinations(ones, count) if _without(declared, axes) == data.shape]
        return choose_axes(node, sets, len(declared), lambda axes: shapes.unsqueeze(data, axes))
    count = len(node.ints("axes") or []) if node.since < 13 else int(cast(np.ndarray, node[1].known).size)
    result = shapes.unsqueeze(data, _axes(node, data.rank + count, None))
    return with_sizes(result, data.sizes) if data.sizes is not None and result.rank <= 1 else result


@operator("Concat")
def _concat(node: OnnxNode) -> Value:
    values = [node[index] for index in range(len(node.inputs))]
    axis = normalize_axis(node.integer("axis", 1 if node.since < 4 else 0), values[0].rank)
    return values[0] if len(values) == 1 else op("concatenate", values, axis=axis)


@operator("Split")
def _split(node: OnnxNode) -> list[Value]:
    data = node[0]
    axis = node.axis(data.rank)
    size = data.shape[axis]
    lengths: list[int] | None
    if node.since < 13:
        lengths = node.ints("split") or (node.static(1) if node.get(1) is not None else None)
    else:
        declared = [shape[axis] if shape is not None else None for shape in node.declared]
        guess = None if None in declared else cast("list[int]", declared)
        lengths = node.static(1, lambda: guess) if node.get(1) is not None else None
    if lengths is None:
        if not isinstance(size, int):
            raise UnsupportedError("the size of its axis must be known", "give the input a fixed shape")
        count = node.integer("num_outputs", node.output_count)
        each = -(-int(size) // count)
        lengths = [max(0, min(each, int(size) - number * each)) for number in range(count)]
    if len(lengths) != node.output_count or (isinstance(size, int) and sum(lengths) != size):
        raise UnsupportedError(f"the lengths {lengths} do not divide the {size} elements of axis {axis}")
    if not isinstance(size, int):
        node.block.require(
            shapes.size_along(data, axis), np.array(sum(lengths)), f"Split: the size of axis {axis}"
        )
    ends = np.cumsum([0, *lengths]).tolist()
    pieces = [shapes.slice_axis(data, axis, first, last) for first, last in pairwise(ends)]
    return [
        with_shape(piece, [*data.shape[:axis], length, *data.shape[axis + 1 :]])
        for piece, length in zip(pieces, lengths, strict=True)
    ]


@operator("Shape")
def _shape(node: OnnxNode) -> Value:
    shape = shapes.shape_of(node[0])
    rank = node[0].rank
    start, end = node.attr("start"), node.attr("end")
    first, last, _ = slice(
        None if start is None else node.integer("start"), None if end is None else node.integer("end")
    ).indices(rank)
    if (first, last) == (0, rank):
        return shape
    dims = node[0].shape[first:last]
    return with_sizes(shapes.slice_axis(shape, 0, first, last), dims) if dims else integers([])


@operator("Size")
def _size(node: OnnxNode) -> Value:
    total = constant(1, "int64")
    for axis in range(node[0].rank):
        total = total * shapes.size_along(node[0], axis)
    return total


@operator("Expand")
def _expand(node: OnnxNode) -> Value:
    data, target, declared = node[0], node[1], node.output_shape()
    if target.known is None and target.sizes is None and declared is not None and target.rank == 1:
        length = int(cast(int, target.shape[0]))
        wanted = np.array(declared[len(declared) - length :], "int64")
        own = np.array(([1] * len(declared) + shapes.static_shape(data))[-length:] if length else [], "int64")
        fits = op(
            "logical_or",
            target.equal(constant(wanted)),
            op("logical_and", target.equal(1), constant(own == wanted)),
        )
        if length:
            node.block.check(
                op("all", fits), f"Expand: shape must give {list(declared)}, as the model declares"
            )
        return shapes.expand_to(data, declared)
    sizes, vector = target_shape(node, 1)
    shape = broadcast_shapes(data.shape, sizes)
    if shape is None:
        raise UnsupportedError(f"{list(map(str, data.shape))} cannot be broadcast to {list(map(str, sizes))}")
    if len(shape) == len(sizes) and tuple(shape) == tuple(sizes):
        return shapes.expand_to(data, shape, vector=vector)
    if vector is not None and not shapes.is_static(shape):
        known = all(isinstance(dim, int) for dim in data.shape)
        if known and ANY not in sizes:
            first = len(shape) - len(sizes)
            parts = [
                constant([int(dim)], "int64")
                if isinstance(dim, int)
                else shapes.slice_axis(vector, 0, axis - first, axis - first + 1)
                for axis, dim in enumerate(shape)
            ]
            vector = op("concatenate", parts, axis=0)
        else:
            ones = op("dyn.full", constant(np.ones((), NUMPY_DTYPES[data.dtype])), vector, dtype=data.dtype)
            if data.dtype == "bool":
                return op("logical_and", data, with_shape(ones, sizes))
            return data * with_shape(ones, sizes)
    return shapes.expand_to(data, shape, vector=vector)


@operator("Tile")
def _tile(node: OnnxNode) -> Value:
    data = node[0]
    if node.since < 6:
        times, axis = node.static(1)[0], node.static(2)[0]
        return op("tile", data, reps=tuple(times if at == axis else 1 for at in range(data.rank)))
    declared = node.output_shape()

    def guess() -> list[int] | None:
        if declared is None or not shapes.is_static(data.shape) or 0 in data.shape:
            return None
        return [new // int(cast(int, old)) for new, old in zip(declared, data.shape, strict=True)]

    sizes = sizes_of(node[1])
    if sizes is not None and not shapes.is_static(sizes):
        shape = [multiply(dim, times) for dim, times in zip(data.shape, sizes, strict=True)]
        return with_shape(op("dyn.tile", data, node[1]), shape)
    reps = node.static(1, guess)
    if 0 in reps:
        shape = [multiply(dim, times) for dim, times in zip(data.shape, reps, strict=True)]
        return shapes.full(shape, data.like(0))
    return op("tile", data, reps=tuple(reps)) if reps else data


# -- blocks --------------------------------------------------------------------------------------------


@operator("DepthToSpace")
def _depth_to_space(node: OnnxNode) -> Value:
    mode = node.text("mode", "DCR")
    data, block = node[0], node.integer("blocksize")
    batch, channels, height, width = data.shape
    if not isinstance(channels, int) or channels % (block * block):
        raise UnsupportedError(f"{channels} channels are no multiple of blocksize {block} squared")
    depth = int(channels) // (block * block)
    if mode == "DCR":
        split, order = [batch, block, block, depth, height, width], (0, 3, 4, 1, 5, 2)
    elif mode == "CRD":
        split, order = [batch, depth, block, block, height, width], (0, 1, 4, 2, 5, 3)
    else:
        raise UnsupportedError(f"the mode {mode!r} is not known")
    apart = shapes.transpose(shapes.reshape(data, split), order)
    return shapes.reshape(apart, [batch, depth, multiply(height, block), multiply(width, block)], data)


@operator("SpaceToDepth")
def _space_to_depth(node: OnnxNode) -> Value:
    data, block = node[0], node.integer("blocksize")
    batch, channels, height, width = data.shape
    rows, columns = (floor_divide(size, block) for size in (height, width))
    for size, axis in ((height, 2), (width, 3)):
        if isinstance(size, int) and size % block:
            raise UnsupportedError(f"height and width must be multiples of {block}, found {height}, {width}")
        if same_dim(multiply(floor_divide(size, block), block), size) is not True:
            rest = op("floor_mod", shapes.size_along(data, axis), constant(block, "int64"))
            node.block.check(rest.equal(0), f"SpaceToDepth: axis {axis} must be a multiple of {block}")
    mode = node.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise UnsupportedError(f"the mode {mode!r} is not known")
    split = [batch, channels, rows, block, columns, block]
    apart = with_shape(op("reshape", data, newshape=(0, 0, -4, -1, block, -4, -1, block)), split)
    moved = shapes.transpose(apart, (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return shapes.reshape(moved, [batch, multiply(channels, block * block), rows, columns], data)
