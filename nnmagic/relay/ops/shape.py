"""Declare operators that change a tensor's shape or the order of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops import attributes as kinds
from nnmagic.relay.ops import relations as rel
from nnmagic.relay.ops.checks import require_broadcast, sizes
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import Shape, add, ceil_divide, is_unknown, product, same_dim, static_size
from nnmagic.relay.ops.layouts import convert_shape, parse_layout
from nnmagic.relay.ops.reshape import reshape_shape
from nnmagic.relay.types import ANY, TensorType, Type

declare = Family("shape", Trait.SPECULATABLE).declare


def _reshape(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = rel.tensor(types)
    return TensorType(
        reshape_shape(data.shape, rel.ints(attrs, "newshape"), bool(attrs["allowzero"])), data.dtype
    )


def _reverse_reshape(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = rel.tensor(types)
    codes = rel.ints(attrs, "newshape")[::-1]
    return TensorType(reshape_shape(data.shape[::-1], codes, bool(attrs["allowzero"]))[::-1], data.dtype)


def _reshape_like(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Replace dimensions lhs_begin to lhs_end of the data with rhs_begin to rhs_end of the other tensor."""
    data, like = rel.tensor(types), rel.tensor(types, 1)
    begin, end = _range(attrs, "lhs", len(data.shape))
    before_it, behind_it = range(begin), range(end, len(data.shape))
    between = range(*_range(attrs, "rhs", len(like.shape)))
    shape = (
        *_dims_at(data, before_it, 0, "lhs_begin"),
        *_dims_at(like, between, 1, "rhs_begin", "rhs_end"),
        *_dims_at(data, behind_it, 0, "lhs_end"),
    )
    before, after = static_size(data.shape), static_size(shape)
    if before is not None and after is not None and before != after:
        raise RelationError("{data} cannot become {shape:shape}", 0, 1, data=data, shape=shape)
    return TensorType(shape, data.dtype)


def _range(attrs: Attrs, side: str, rank: int) -> tuple[int, int]:
    """Return where a side's range begins and ends.

    Relay refuses dimensions that do not exist, but accepts empty ranges.
    """
    begin, end = attrs[f"{side}_begin"], attrs[f"{side}_end"]
    start = cast(int, begin) + (rank if cast(int, begin) < 0 else 0)
    stop = rank if end is None else cast(int, end) + (rank if cast(int, end) < 0 else 0)
    return start, stop


def _check_reshape_like(types: Sequence[Type], attrs: Attrs) -> None:
    for operand, side in enumerate(("lhs", "rhs")):
        rank = len(rel.tensor(types, operand).shape)
        start, stop = _range(attrs, side, rank)
        if not 0 <= start <= stop <= rank:
            message = f"{side}_begin and {side}_end are out of range for rank {rank}"
            raise RelationError(message, operand, attr=(f"{side}_begin", f"{side}_end"))


def _dims_at(data: TensorType, axes: range, operand: int, *attrs: str) -> Shape:
    """Return the dimensions of some axes, which attributes give."""
    rank = len(data.shape)
    wrong = next((axis for axis in axes if not 0 <= axis < rank), None)
    if wrong is not None:
        message = "{data} has no dimension {wrong}, the range is wrong"
        raise RelationError(message, operand, attr=attrs, data=data, wrong=wrong)
    return tuple(data.shape[axis] for axis in axes)


def _transpose(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = rel.tensor(types)
    rank = len(data.shape)
    if attrs["axes"] is None:
        return TensorType(data.shape[::-1], data.dtype)
    axes = [rel.normalize_axis(axis, rank, attr="axes") for axis in rel.ints(attrs, "axes", rank)]
    if len(set(axes)) != rank:
        raise RelationError("an axis is listed twice", 0, attr="axes")
    return TensorType(tuple(data.shape[axis] for axis in axes), data.dtype)


def _squeeze(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = rel.tensor(types)
    if attrs["axis"] is None:
        if any(map(is_unknown, data.shape)):
            raise RelationError("needs an axis, as a dimension is unknown", 0, attr="axis")
        return TensorType(tuple(dim for dim in data.shape if dim != 1), data.dtype)
    axes = {rel.normalize_axis(axis, len(data.shape)) for axis in rel.ints(attrs, "axis")}
    for axis in sorted(axes):
        if same_dim(data.shape[axis], 1) is False:
            message = "axis {axis} of {data} is not of length 1"
            raise RelationError(message, 0, attr="axis", axis=axis, data=data)
    return TensorType(tuple(dim for axis, dim in enumerate(data.shape) if axis not in axes), data.dtype)


def _expand_dims(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, count = rel.tensor(types), cast(int, attrs["num_newaxis"])
    if count < 0:
        raise RelationError(f"num_newaxis must not be negative, it is {count}", attr="num_newaxis")
    rel.at_most(count, "num_newaxis", attr="num_newaxis")
    axis = rel.new_axis(cast(int, attrs["axis"]), len(data.shape))
    return TensorType(data.shape[:axis] + (1,) * count + data.shape[axis:], data.dtype)


def _reverse(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = rel.tensor(types)
    rel.axis_of(attrs, data.shape)
    return data


def _reverse_sequence(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, lengths = rel.tensor(types), rel.tensor(types, 1, rank=1)
    if not lengths.dtype.startswith("int"):
        raise RelationError("seq_lengths must be signed integers, found {lengths}", 1, lengths=lengths)
    rel.axis_of(attrs, data.shape, "seq_axis")
    batch = data.shape[rel.axis_of(attrs, data.shape, "batch_axis")]
    if same_dim(lengths.shape[0], batch) is False:
        message = "seq_lengths must be as long as the batch axis, found {lengths}"
        raise RelationError(message, 1, 0, attr="batch_axis", lengths=lengths)
    return data


def _layout_transform(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = rel.tensor(types)
    source, target = (parse_layout(attrs[name], name) for name in ("src_layout", "dst_layout"))
    return TensorType(convert_shape(data.shape, source, target), data.dtype)


def _batch_flatten(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    data = rel.tensor(types)
    if not data.shape:
        raise RelationError("expected a tensor of rank 1 or more, found a scalar", 0)
    return TensorType((data.shape[0], product(data.shape[1:])), data.dtype)


def _sliding_window(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Return windows over the axes from ``axis`` on.

    A new axis for each of these counts the windows, and as many axes again hold them.
    Relay requires no more than axes and strides for the window.
    """
    data = rel.tensor(types)
    axis = cast(int, attrs["axis"])
    if not 0 <= axis < len(data.shape):
        raise RelationError(f"axis {axis} is out of range [0, {len(data.shape)})", 0, attr="axis")
    window, strides = rel.ints(attrs, "window_shape"), rel.ints(attrs, "strides")
    over = data.shape[axis : axis + len(window)]
    if len(window) > len(over) or len(window) > len(strides):
        message = f"window_shape has {len(window)} elements, more than axes or strides"
        raise RelationError(message, attr=("window_shape", "strides"))
    if any(step == 0 for step in strides):
        raise RelationError("strides must not be 0", attr="strides")
    counts: Shape = tuple(
        ceil_divide(add(size, 1 - width), step) if not is_unknown(size) else ANY
        for size, width, step in zip(over, window, strides[: len(window)], strict=True)
    )
    return TensorType((*data.shape[:axis], *counts, *window), data.dtype)


def _check_sliding_window(types: Sequence[Type], attrs: Attrs) -> None:
    data = rel.tensor(types)
    over = data.shape[rel.normalize_axis(cast(int, attrs["axis"]), len(data.shape)) :]
    window, strides = rel.ints(attrs, "window_shape", len(over)), rel.ints(attrs, "strides", len(over))
    if any(size < 1 for size in (*window, *strides)):
        wrong = "window_shape" if min(window, default=1) < 1 else "strides"
        raise RelationError("window_shape and strides must be positive", attr=wrong)
    if any(isinstance(size, int) and size < width for size, width in zip(over, window, strict=True)):
        message = "the window {window} is larger than {data}"
        raise RelationError(message, 0, attr="window_shape", window=list(window), data=data)


def _shape_of(types: Sequence[Type], attrs: Attrs) -> TensorType:
    rank = len(rel.tensor(types).shape)
    return TensorType((rank,) if rank else (), str(attrs["dtype"]))  # Relay has no tensors without elements


def _ndarray_size(types: Sequence[Type], attrs: Attrs) -> TensorType:
    rel.tensor(types)
    return TensorType((), str(attrs["dtype"]))


def _collapse_sum_like(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Return the type of the other tensor, which broadcast with the data must give the data's shape."""
    data, result = rel.tensor(types), rel.broadcast(types, attrs)
    rel.require_type(data, result.shape, "the data", 0)
    return rel.tensor(types, 1)


def _collapse_sum_to(types: Sequence[Type], attrs: Attrs) -> TensorType:
    result = TensorType(cast(Shape, rel.ints(attrs, "shape")), rel.tensor(types).dtype)
    _collapse_sum_like([types[0], result], attrs)
    return result


def _broadcast_back_like(types: Sequence[Type], _attrs: Attrs) -> None:
    data, like = sizes(types)
    require_broadcast(like, data)


def _broadcast_back_to(types: Sequence[Type], attrs: Attrs) -> None:
    require_broadcast(rel.ints(attrs, "shape"), sizes(types)[0])


_NEWSHAPE = (Attr("newshape", kinds.one_or_more(kinds.INTEGER)), Attr("allowzero", kinds.BOOL, default=False))
Family("shape").declare(  # it may raise
    "reshape(data)",
    _reshape,
    "The same elements in another shape; 0 copies a dimension, -1 infers one.",
    *_NEWSHAPE,
    numpy="numpy.reshape",
    traits=Trait.SPECULATABLE
    | Trait.MOVES
    | Trait.RESHAPES
    | Trait.VIEW
    | Trait.CHECKS_SIZES
    | Trait.KEEPS_ORDER,
)
declare(
    "contrib_reverse_reshape(data)",
    _reverse_reshape,
    "As reshape, with the special values read from right to left.",
    *_NEWSHAPE,
    attrs_key="ReshapeAttrs",
    call_order="data newshape",
    traits=Trait.RESHAPES | Trait.VIEW,
)
declare(
    "reshape_like(data, shape_like)",
    _reshape_like,
    "The same elements in the shape of another tensor, or in a range of its dimensions.",
    Attr("lhs_begin", kinds.INT, 0),
    Attr("lhs_end", kinds.OPTIONAL_INTEGER, None),
    Attr("rhs_begin", kinds.INT, 0),
    Attr("rhs_end", kinds.OPTIONAL_INTEGER, None),
    traits=Trait.RESHAPES | Trait.VIEW,
    preconditions=[_check_reshape_like],
)
declare(
    "transpose(data)",
    _transpose,
    "Axes in another order; reversed where none is given.",
    Attr("axes", kinds.optional(kinds.one_or_more(kinds.INTEGER)), call_default=None),
    numpy="numpy.transpose",
    traits=Trait.MOVES | Trait.VIEW | Trait.CHECKS_SIZES,
)
declare(
    "squeeze(data)",
    _squeeze,
    "Data without the given axes of length 1, or without all of them.",
    Attr("axis", kinds.AXES, None),
    numpy="numpy.squeeze",
    traits=Trait.MOVES | Trait.VIEW | Trait.KEEPS_ORDER,
)
declare(
    "expand_dims(data)",
    _expand_dims,
    "Data with new axes of length 1 before the given axis.",
    Attr("axis", kinds.INT),
    Attr("num_newaxis", kinds.INT, 1),
    numpy="numpy.expand_dims",
    traits=Trait.MOVES | Trait.VIEW | Trait.CHECKS_SIZES | Trait.KEEPS_ORDER,
)
declare(
    "reverse(data)",
    _reverse,
    "The elements along an axis in reverse order.",
    Attr("axis", kinds.OPTIONAL_INTEGER, None, call_default=REQUIRED),
    numpy="numpy.flip",
    traits=Trait.MOVES | Trait.VIEW | Trait.CHECKS_SIZES,
)
Family("shape").declare(  # it may raise
    "reverse_sequence(data, seq_lengths)",
    _reverse_sequence,
    "The first seq_lengths elements of each sequence of a batch in reverse order.",
    Attr("seq_axis", kinds.INTEGER, 1),
    Attr("batch_axis", kinds.INTEGER, 0),
)
declare(
    "layout_transform(data)",
    _layout_transform,
    "Data in another layout, as from NCHW to NCHW16c.",
    Attr("src_layout", kinds.STR),
    Attr("dst_layout", kinds.STR),
    traits=Trait.RESHAPES | Trait.VIEW,
)
declare(
    "nn.batch_flatten(data)",
    _batch_flatten,
    "Each element of the batch as one row.",
    traits=Trait.MOVES | Trait.VIEW | Trait.CHECKS_SIZES | Trait.KEEPS_ORDER,
)
declare(
    "sliding_window(data)",
    _sliding_window,
    "Windows that slide over the axes from the given one on.",
    Attr("axis", kinds.INT),
    Attr("window_shape", kinds.array(kinds.INTEGER)),
    Attr("strides", kinds.array(kinds.INTEGER)),
    numpy="numpy.lib.stride_tricks.sliding_window_view",
    traits=Trait.VIEW,
    preconditions=[_check_sliding_window],
)
declare(
    "shape_of(data)",
    _shape_of,
    "The shape as a tensor.",
    Attr("dtype", kinds.DTYPE, "", call_default="int32"),
    numpy="numpy.shape",
    traits=Trait.CHECKS_SIZES,
)
declare(
    "ndarray_size(data)",
    _ndarray_size,
    "The number of elements as a scalar.",
    Attr("dtype", kinds.DTYPE, "", call_default="int32"),
    numpy="numpy.size",
    traits=Trait.CHECKS_SIZES,
)
declare(
    "collapse_sum_like(data, collapse_type)",
    _collapse_sum_like,
    "Sums along the axes in which data is larger than another tensor: the gradient of a broadcast.",
    shape_constraints=[_broadcast_back_like],
)
declare(
    "collapse_sum_to(data, shape)",
    _collapse_sum_to,
    "Sums along the axes in which data is larger than a shape.",
    Attr("shape", kinds.array(kinds.INTEGER)),
    Attr("dtype", kinds.DTYPE, ""),
    attrs_key="InitOpAttrs",
    call_order="data shape",
    shape_constraints=[_broadcast_back_to],
)
