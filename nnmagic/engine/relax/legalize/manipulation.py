"""Legalize operators that move elements: concatenate, split, broadcast, repeat, reverse, layouts."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer, integers, number
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.padding import pad_with
from nnmagic.engine.relax.legalize.registry import (
    INJECTIVE,
    OPAQUE,
    RULES,
    OpCall,
    Value,
    is_normal,
    op,
    shape_of,
    te_of,
)
from nnmagic.engine.relax.legalize.registry import te as te_rule
from nnmagic.engine.relax.legalize.reshaping import element_count, reshape_to
from nnmagic.engine.relax.legalize.sizes import same_size, simplify
from nnmagic.engine.relax.legalize.slicing import COPIES_COLUMNS
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.builders import as_expr, static_int
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr, RelaxExpr
from nnmagic.relay.expr import Attrs, Call, OpRef

#: How many tensors a kernel joins: the passes of TVM recurse once for each.
_MOST_JOINED = 32


def _concatenate(call: OpCall) -> Value:
    (operands,) = call.args
    return _join(call, operands, integer(call.attrs["axis"]))


def _stack(call: OpCall) -> Value:
    (operands,) = call.args
    axis = integer(call.attrs["axis"])
    if len(operands) > _MOST_JOINED:
        stacked = [
            call.emit(
                call.te(lambda *tensors: topi.stack(list(tensors), axis), *group, primfunc_attrs=_APART)
            )
            for group in _groups(operands)
        ]
        return _join(call, stacked, axis)
    if _have_same_shape(operands, None):
        return relax.op.stack(list(operands), axis=axis)
    return call.te(lambda *tensors: topi.stack(list(tensors), axis), *operands)


def _join(call: OpCall, tensors: Sequence[Value], axis: int) -> Value:
    """Concatenate tensors; many of them in groups, by kernels that TVM does not fuse."""
    while len(tensors) > _MOST_JOINED:
        tensors = [call.emit(_join_by_kernel(call, group, axis, _APART)) for group in _groups(tensors)]
    sizes = [shape_of(tensor)[axis] for tensor in tensors]
    if all(isinstance(size, int) for size in sizes) and _have_same_shape(
        tensors, axis % len(shape_of(tensors[0]))
    ):
        return relax.op.concat(list(tensors), axis=axis)
    return _join_by_kernel(call, tensors, axis, None)


_APART = {"op_pattern": OPAQUE}


def _groups(operands: Sequence[Value]) -> Iterator[Sequence[Value]]:
    return (operands[begin : begin + _MOST_JOINED] for begin in range(0, len(operands), _MOST_JOINED))


def _join_by_kernel(
    call: OpCall, operands: Sequence[Value], axis: int, attrs: Mapping[str, object] | None
) -> RelaxExpr:
    """Concatenate tensors; the sum of sizes is in normal form, because TVM fuses kernels by that."""
    shape = shape_of(operands[0])
    axis %= len(shape)
    shape[axis] = simplify(functools.reduce(operator.add, (shape_of(part)[axis] for part in operands)))

    def compute(*given: Any) -> Tensor:
        *tensors, sizes = given

        def element(*at: Index) -> PrimExpr:
            value, end = tensors[0](*at), tensors[0].shape[axis]
            for tensor in tensors[1:]:
                inside = (*at[:axis], at[axis] - end, *at[axis + 1 :])
                value = tirx.if_then_else(at[axis] >= end, tensor(*inside), value)
                end = simplify(end + tensor.shape[axis])
            return value

        return te.compute(sizes, element)

    return call.te(compute, *operands, relax.ShapeExpr(shape), primfunc_attrs=attrs)


def _have_same_shape(operands: Sequence[Value], free: int | None) -> bool:
    """Return whether the parts are known to have the same shape, apart from the axis ``free``."""
    if not all(map(is_normal, operands)):
        return False
    columns = enumerate(zip(*map(shape_of, operands), strict=True))
    return all(same_size(dim, column[0]) for axis, column in columns if axis != free for dim in column)


def _sliding_window(call: OpCall) -> Value:
    """Return the windows; those of padded data read a padded copy, which is a load instead of a choice."""
    (data,) = call.args
    producer = call.node.args[0]
    if isinstance(producer, Call) and isinstance(producer.op, OpRef) and producer.op.name == "nn.pad":
        data = call.emit(call.te(topi.identity, data, primfunc_attrs=_APART))
    axis, shape, strides = (call.attrs[name] for name in ("axis", "window_shape", "strides"))
    return call.te(
        lambda x: topi.sliding_window(x, integer(axis), integers(shape), integers(strides)),
        data,
        primfunc_attrs={COPIES_COLUMNS: True},
    )


def _split(call: OpCall) -> Value:
    (data,) = call.args
    given = call.attrs["indices_or_sections"]
    where = integers(given) if isinstance(given, tuple) else integer(given)
    axis, shape = integer(call.attrs["axis"]), shape_of(data)
    if isinstance(where, int) and shape[axis] == 0:  # TVM requires increasing indices
        return (data,) * where
    if isinstance(where, int) and not isinstance(shape[axis], int):
        sections = where
        operands = call.te(lambda x: _split_dynamic(x, sections, axis), data)
    else:
        operands = call.te(lambda x: topi.split(x, where, axis=axis), data)
    bound = call.emit(operands)
    if not isinstance(bound.ty, relax.TupleType):
        return (bound,)
    return tuple(call.emit(relax.TupleGetItem(bound, i)) for i in range(len(bound.ty.fields)))


def _split_dynamic(data: Tensor, count: int, axis: int) -> list[Tensor]:
    """Split an axis into ``count`` equal parts; its size is a multiple of it, as the shape check requires."""
    axis %= len(data.shape)
    size = tirx.floordiv(data.shape[axis], tirx.const(count, "int64"))
    shape = [*data.shape[:axis], size, *data.shape[axis + 1 :]]

    def take_part(section: int) -> Tensor:
        def element(*index: Index) -> PrimExpr:
            return data(*index[:axis], index[axis] + size * section, *index[axis + 1 :])

        return te.compute(shape, element)

    return [take_part(section) for section in range(count)]


def _meshgrid(call: OpCall) -> Value:
    (vectors,) = call.args
    if len(vectors) == 1:
        return (call.emit(reshape_to(vectors[0], [element_count(shape_of(vectors[0]))])),)
    return call.te(lambda *tensors: topi.meshgrid(list(tensors), call.attrs["indexing"]), *vectors)


def _fifo_buffer(attrs: Attrs, data: Tensor, buffer: Tensor) -> Tensor:
    """Shift the buffer by the data's length and append the data."""
    axis = integer(attrs["axis"]) % len(data.shape)
    length, added = buffer.shape[axis], data.shape[axis]

    def element(*index: Index) -> PrimExpr:
        at = index[axis]
        old = [*index[:axis], at + added, *index[axis + 1 :]]
        new = [*index[:axis], at - length + added, *index[axis + 1 :]]
        return tirx.if_then_else(at < length - added, buffer(*old), data(*new))

    return te.compute(buffer.shape, element)


def broadcast_to(call: OpCall, shape: Sequence[Extent]) -> Value:
    """Repeat the data along its dimensions of 1."""
    data = call.args[0]
    own = shape_of(data)
    call.require(len(own) <= len(shape), "the data has more dimensions than the shape")
    for dim, wanted in zip(reversed(own), reversed(shape), strict=False):
        if not (isinstance(dim, int) and dim == 1) and not same_size(dim, wanted):
            fits = dim == wanted if isinstance(dim, int) else tirx.any(dim == wanted, dim == 1)
            call.require(fits, "the data does not broadcast to this shape")
    if len(own) == len(shape) and all(map(same_size, own, shape)):
        return data

    def compute(x: Tensor, dims: Sequence[Extent]) -> Tensor:
        def element(*at: Index) -> PrimExpr:
            dims_and_indices = zip(x.shape, at[len(at) - len(x.shape) :], strict=True)
            return x(*(_source_index(dim, i) for dim, i in dims_and_indices))

        return te.compute(dims, element)

    # TVM sees no pattern in the choice of an index, but each element is one of the data.
    is_chosen = any(
        static_int(dim) is None and not same_size(dim, wanted)
        for dim, wanted in zip(reversed(own), reversed(shape), strict=False)
    )
    attrs = {"op_pattern": INJECTIVE} if is_chosen else {}
    return call.te(compute, data, relax.ShapeExpr(shape), primfunc_attrs=attrs)


def _source_index(dim: Extent, index: Index) -> PrimExpr:
    """Return the index in a dimension that is repeated where it is 1."""
    if isinstance(dim, tirx.IntImm):
        return tirx.const(0, "int64") if dim.value == 1 else index
    return tirx.Select(dim == 1, tirx.const(0, "int64"), tirx.convert(index).astype("int64"))


def _broadcast_to(call: OpCall) -> Value:
    shape = call.attrs["shape"]
    assert isinstance(shape, tuple)
    return broadcast_to(call, call.lower_dims(shape))


def _collapse(call: OpCall, shape: Sequence[Extent]) -> Value:
    """Lower to the sums that reverse a broadcast from ``shape``."""
    data = call.args[0]
    added = len(shape_of(data)) - len(shape)

    def compute(x: Tensor, dims: Sequence[Extent]) -> Tensor:
        wide = "float32" if x.dtype in scalar_functions.NARROW_FLOATS else x.dtype
        # A dimension that is not 1 is not summed over: its loop runs once.
        lengths = [*x.shape[:added]]
        lengths += [
            tirx.Select(small == 1, large, tirx.const(1, "int64"))
            for small, large in zip(dims, x.shape[added:], strict=True)
        ]
        spans = [te.reduce_axis((0, length), f"k{axis}") for axis, length in enumerate(lengths)]

        def element(*at: Index) -> PrimExpr:
            where = [span.var for span in spans[:added]]
            where += [span.var + i for span, i in zip(spans[added:], at, strict=True)]
            return te.sum(x(*where).astype(wide), axis=spans)

        sums = te.compute(dims, element) if spans else topi.identity(x)
        return sums if wide == x.dtype else topi.cast(sums, x.dtype)

    return call.te(compute, data, relax.ShapeExpr(shape))


def _layout_transform(call: OpCall) -> Value:
    (data,) = call.args
    source, target = (str(call.attrs[name]) for name in ("src_layout", "dst_layout"))
    if sorted(source) == sorted(target) and source.isalpha():
        return relax.op.permute_dims(data, [source.index(letter) for letter in target])
    if not all(isinstance(dim, int) for dim in shape_of(data)):
        call.refuse("blocks of a dynamic dimension cannot be run")
    return call.te(lambda x: topi.layout_transform(x, source, target), data)


def _block_pairs(attrs: Attrs, name: str) -> tuple[list[int], list[int], list[int]]:
    """Return the lengths of a block, and what is padded or cropped before and after."""
    pairs = [integers(pair) for pair in attrs[name]]  # type: ignore[attr-defined]  # a tuple by declaration
    return integers(attrs["block_shape"]), [a for a, _ in pairs], [b for _, b in pairs]


def _space_to_batch(attrs: Attrs, data: Tensor) -> Tensor:
    """Turn each position in a block into an image of the batch; positions vary slowest."""
    lengths, before, after = _block_pairs(attrs, "paddings")
    count, zeros = len(lengths), [0] * (len(data.shape) - 1 - len(lengths))
    value = tirx.const(number(attrs["pad_value"]), data.dtype)
    wide = pad_with(data, [0, *before, *zeros], [0, *after, *zeros], value) if any(before + after) else data
    spatial = [dim // length for dim, length in zip(wide.shape[1:], lengths, strict=False)]

    def element(image: Index, *at: Index) -> PrimExpr:
        position, where = image // data.shape[0], []
        for axis in reversed(range(count)):
            where.append(at[axis] * lengths[axis] + position % lengths[axis])
            position = position // lengths[axis]
        return wide(image % data.shape[0], *reversed(where), *at[count:])

    return te.compute((data.shape[0] * math.prod(lengths), *spatial, *data.shape[1 + count :]), element)


def _batch_to_space(attrs: Attrs, data: Tensor) -> Tensor:
    """Undo ``_space_to_batch``, and crop."""
    lengths, before, after = _block_pairs(attrs, "crops")
    count, batch = len(lengths), data.shape[0] // math.prod(lengths)
    spatial = [
        dim * length - a - b
        for dim, length, a, b in zip(data.shape[1:], lengths, before, after, strict=False)
    ]

    def element(image: Index, *at: Index) -> PrimExpr:
        position: Index = 0
        where = [i + a for i, a in zip(at, before, strict=False)]
        for i, length in zip(where, lengths, strict=True):
            position = position * length + i % length
        inner = [i // length for i, length in zip(where, lengths, strict=True)]
        return data(position * batch + image, *inner, *at[count:])

    return te.compute((batch, *spatial, *data.shape[1 + count :]), element)


def _reverse_sequence(attrs: Attrs, data: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the first ``lengths`` elements along an axis, or all if there are fewer."""
    axis, batch = (integer(attrs[name]) % len(data.shape) for name in ("seq_axis", "batch_axis"))

    def element(*at: Index) -> PrimExpr:
        length = tirx.min(lengths(at[batch]).astype("int64"), data.shape[axis])
        position = tirx.Select(at[axis] < length, length - 1 - at[axis], at[axis])
        return data(*at[:axis], position, *at[axis + 1 :])

    return te.compute(data.shape, element)


def _repeat(call: OpCall) -> Value:
    (data,) = call.args
    axis, repeats = call.attrs["axis"], integer(call.attrs["repeats"])
    if repeats < 1:
        call.refuse(f"repeats must be at least 1, not {repeats}")
    if axis is None:
        data, axis = call.emit(reshape_to(data, [element_count(shape_of(data))])), 0
    dims = shape_of(data)
    repeated = integer(axis) % len(dims)
    factor = repeats if isinstance(dims[repeated], int) else tirx.const(repeats, "int64")
    dims[repeated] = simplify(dims[repeated] * factor)

    def compute(x: Tensor, shape: Sequence[Extent]) -> Tensor:
        def element(*at: Index) -> PrimExpr:
            source = tirx.floordiv(at[repeated], tirx.const(repeats, "int64"))
            return x(*at[:repeated], source, *at[repeated + 1 :])

        return te.compute(shape, element)

    return call.te(compute, data, relax.ShapeExpr(dims))


def _tile(call: OpCall) -> Value:
    """Repeat data along axes: as a view with an axis for the repeats before each axis of the data.

    The index of an element would need divisions, which are slow where only the call knows the sizes.
    """
    (data,) = call.args
    repeats, dims = list(integers(call.attrs["reps"])), shape_of(data)
    if all(isinstance(dim, int) for dim in dims):
        return relax.op.tile(data, repeats)
    rank = max(len(repeats), len(dims))
    repeats = [1] * (rank - len(repeats)) + repeats
    dims = [1] * (rank - len(dims)) + dims
    split = [size for pair in zip(repeats, dims, strict=True) for size in pair]

    def compute(x: Tensor, shape: Sequence[Extent]) -> Tensor:
        return te.compute(shape, lambda *at: x(*at[1::2][rank - len(x.shape) :]))

    tiled = call.emit(call.te(compute, data, relax.ShapeExpr(split)))
    return reshape_to(
        tiled, [simplify(dim * as_expr(count)) for count, dim in zip(repeats, dims, strict=True)]
    )


RULES.update(
    {
        "transpose": op(relax.op.permute_dims, "axes"),
        "concatenate": _concatenate,
        "stack": _stack,
        "split": _split,
        "meshgrid": _meshgrid,
        "broadcast_to": _broadcast_to,
        "broadcast_to_like": lambda call: broadcast_to(call, shape_of(call.args[1])),
        "collapse_sum_like": lambda call: _collapse(call, shape_of(call.args[1])),
        "collapse_sum_to": lambda call: _collapse(call, integers(call.attrs["shape"])),
        "reverse": te_of(lambda attrs, data: topi.flip(data, integer(attrs["axis"] or 0))),
        "reverse_sequence": te_of(_reverse_sequence),
        "repeat": _repeat,
        "tile": _tile,
        "sliding_window": _sliding_window,
        "layout_transform": _layout_transform,
        "nn.dilate": te_rule(topi.nn.dilate, "strides", "dilation_value"),
        "nn.depth_to_space": te_rule(topi.nn.depth_to_space, "block_size", "layout", "mode"),
        "nn.space_to_depth": te_rule(topi.nn.space_to_depth, "block_size", "layout"),
        "nn.space_to_batch_nd": te_of(_space_to_batch),
        "nn.batch_to_space_nd": te_of(_batch_to_space),
        "nn.fifo_buffer": te_of(_fifo_buffer),
        "sequence_mask": te_rule(topi.sequence_mask, "mask_value", "axis"),
    }
)
