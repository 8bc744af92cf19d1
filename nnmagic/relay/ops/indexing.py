"""Declare operators that take elements out of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import (
    FLOAT,
    INT,
    INTEGER,
    OPTIONAL_INTEGER,
    STR,
    array,
    default_for_none,
    one_or_more,
    optional,
)
from nnmagic.relay.ops.checks import vector
from nnmagic.relay.ops.declaration import REQUIRED, Attr, RelationError, declare
from nnmagic.relay.ops.dims import Shape, broadcast_shapes
from nnmagic.relay.ops.relations import (
    axis_of,
    ints,
    normalize_axis,
    require_same,
    require_type,
    tensor,
    tensors_of_tuple,
)
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import ANY, Dim, TensorType, Type, is_integer


def _take(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, indices = tensor(types, 0), integers(types, 1)
    if attrs["axis"] is None:
        return TensorType(indices.shape, data.dtype)
    rank, axis = len(data.shape), cast(int, attrs["axis"])
    axis = rank if axis == rank else normalize_axis(axis, rank)  # Relay accepts the axis after the last, too
    batch = cast(int, attrs["batch_dims"])
    if not 0 <= batch <= min(len(indices.shape), axis):
        raise RelationError(f"batch_dims {batch} must not exceed the indices' rank or the axis", 1)
    return TensorType(data.shape[:axis] + indices.shape[batch:] + data.shape[axis + 1 :], data.dtype)


def integers(types: Sequence[Type], index: int) -> TensorType:
    """Return an argument that must be a tensor of integers, to which Relay counts bools."""
    operand = tensor(types, index)
    if not (is_integer(operand.dtype) or operand.dtype == "bool"):
        raise RelationError(f"expected a tensor of integers, found {type_text(operand)}", index)
    return operand


def signed_integers(types: Sequence[Type], index: int) -> TensorType:
    """Return an argument that must be a tensor of signed integers."""
    operand = tensor(types, index)
    if not operand.dtype.startswith("int"):
        raise RelationError(f"expected a tensor of signed integers, found {type_text(operand)}", index)
    return operand


def _where(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    condition, first, second = (tensor(types, index) for index in range(3))
    if first.dtype != second.dtype:
        raise RelationError(f"the dtypes {first.dtype} and {second.dtype} differ", 1, 2)
    values = broadcast_shapes(first.shape, second.shape)
    if values is None:
        raise RelationError(f"{type_text(first)} and {type_text(second)} do not broadcast together", 1, 2)
    shape = broadcast_shapes(condition.shape, values)
    if shape is None:
        other = type_text(TensorType(values, first.dtype))
        raise RelationError(f"the condition {type_text(condition)} does not broadcast with {other}", 0, 1)
    return TensorType(shape, first.dtype)


#: Beyond the end of any axis.
_FAR = 2**63 - 1


def _strided_slice(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    begin, end, strides = (ints(attrs, name) for name in ("begin", "end", "strides"))
    shape = list(data.shape)
    if attrs["axes"] is None:
        axes = list(range(len(shape)))
        if max(len(begin), len(end), len(strides)) > len(shape):
            raise RelationError(f"begin, end and strides are longer than the rank of {type_text(data)}", 0)
        strides = (*strides, *(1,) * (len(shape) - len(strides)))
        begin = (*begin, *(0 if step > 0 else _FAR for step in strides[len(begin) :]))
        end = (*end, *(_FAR if step > 0 else -_FAR for step in strides[len(end) :]))
    else:
        if not attrs["axes"]:
            raise RelationError("axes must not be empty")
        axes = [normalize_axis(axis, len(shape)) for axis in ints(attrs, "axes")]
        if any(axis < 0 for axis in ints(attrs, "axes")):
            raise RelationError(f"axes must not be negative, found {list(ints(attrs, 'axes'))}", 0)
        if not len(axes) == len(begin) == len(end) == len(strides):
            hint = "give as many begins, ends and strides as axes"
            raise RelationError("axes, begin, end and strides differ in length", 0, hint=hint)
    by_size = attrs["slice_mode"] == "size"
    for axis, first, last, step in zip(axes, begin, end, strides, strict=True):
        # In other modes than "end" Relay ignores strides.
        shape[axis] = _slice_length(
            shape[axis], first, last, step if attrs["slice_mode"] == "end" else 1, by_size
        )
    return TensorType(tuple(shape), data.dtype)


def _slice_length(size: Dim, begin: int, end: int, step: int, by_size: bool) -> Dim:
    """Return the length of a slice of an axis.

    With ``by_size``, ``end`` is a length, and -1 means "to the end".
    """
    if step == 0:
        raise RelationError("strides must not be 0")
    if not isinstance(size, int):
        whole = begin == 0 and step == 1 and (end >= 2**31 - 1 or (by_size and end < 0))
        return size if whole else ANY
    if size < 0:
        raise RelationError(f"an axis of {size} elements cannot be sliced", 0)
    if by_size:
        if begin > 0 and end == _FAR:
            raise RelationError("end must say how long the slice of each axis is, where begin is not 0", 0)
        end = size if end < 0 else begin + end
    first, last, _ = slice(begin, end, step).indices(size)
    if (last - first) * step < 0:
        raise RelationError(f"the slice from {begin} to {end} by {step} of {size} elements runs backwards", 0)
    return len(range(first, last, step))


def _check_take(types: Sequence[Type], attrs: Attrs) -> None:
    if attrs["axis"] is not None:
        axis_of(attrs, tensor(types).shape)


declare(
    "take",
    "data indices",
    _take,
    "The elements or slices of data at the given indices along an axis, or of the flattened data.",
    Attr("batch_dims", INTEGER, 0),
    Attr("axis", OPTIONAL_INTEGER, None),
    Attr("mode", STR, "clip"),
    attrs_key="TakeAttrs",
    call_order="data indices axis batch_dims mode",
    numpy="numpy.take",
    family="indexing",
    preconditions=[_check_take],
)
declare(
    "where",
    "condition x y",
    _where,
    "Elements of x where the condition is true, else of y.",
    numpy="numpy.where",
    family="indexing",
)
declare(
    "strided_slice",
    "data",
    _strided_slice,
    "Every n-th element of a range of each axis.",
    Attr("begin", one_or_more(INTEGER)),
    Attr("end", one_or_more(INTEGER)),
    Attr("strides", default_for_none(one_or_more(INTEGER), (1,)), call_default=None),
    Attr("slice_mode", STR, "end"),
    Attr("axes", optional(array(INTEGER)), call_default=None),
    attrs_key="StridedSliceAttrs",
    call_order="data begin end strides axes slice_mode",
    family="indexing",
)


def _gather(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, indices = tensor(types, 0), signed_integers(types, 1)
    if len(data.shape) != len(indices.shape):
        raise RelationError(f"{type_text(data)} and {type_text(indices)} must have one rank", 0, 1)
    axis = axis_of(attrs, data.shape)
    for index, (have, want) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if index != axis:
            require_same(have, want, "data and indices differ on another axis than the given one", 0, 1)
    if indices.shape[axis] == 0:
        raise RelationError("the indices are empty along the axis", 1)
    return TensorType(indices.shape, data.dtype)


def _gather_nd(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Return the gathered type; the indices' first dimension counts the dimensions that an index has."""
    data, indices = tensor(types, 0), tensor(types, 1)
    depth = index_depth(indices, data, 1)
    batch = cast(int, attrs["batch_dims"])
    if depth + batch > len(data.shape) or batch >= len(indices.shape):
        raise RelationError(f"{type_text(indices)} has too many indices for {type_text(data)}", 1, 0)
    for left, right in zip(data.shape[: max(batch, 0)], indices.shape[1:], strict=False):
        require_same(left, right, "the batches of data and indices differ", 0, 1)
    if depth + batch < 0:
        raise RelationError(f"batch_dims must not be negative, it is {batch}")
    return TensorType(indices.shape[1:] + data.shape[depth + batch :], data.dtype)


def _check_gather_nd(_types: Sequence[Type], attrs: Attrs) -> None:
    batch = cast(int, attrs["batch_dims"])
    if batch < 0:
        raise RelationError(f"batch_dims must not be negative, it is {batch}")


def index_depth(indices: TensorType, data: TensorType, operand: int) -> int:
    """Return the first dimension of the indices, which must be a number and fit the data."""
    depth = indices.shape[0] if indices.shape else ANY
    if not isinstance(depth, int):
        raise RelationError(
            f"the first dimension of the indices must be known, found {type_text(indices)}", operand
        )
    if depth > len(data.shape):
        raise RelationError(f"{type_text(indices)} has too many indices for {type_text(data)}", operand, 0)
    return int(depth)


def _adv_index(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    """Index the leading axes of the first tensor with the others, which broadcast together."""
    data, *indices = tensors_of_tuple(types)
    if not indices or len(indices) > len(data.shape):
        raise RelationError(f"{len(indices)} indices do not fit {type_text(data)}", 0)
    shape: Shape | None = indices[0].shape
    for other in indices[1:]:
        shape = broadcast_shapes(shape or (), other.shape)
        if shape is None:
            raise RelationError("the indices do not broadcast together", 0)
    return TensorType((shape or ()) + data.shape[len(indices) :], data.dtype)


def _argwhere(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    return TensorType((ANY, len(tensor(types).shape)), "int32")


def _slice_like(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, like = tensor(types, 0), tensor(types, 1)
    shape = list(data.shape)
    axes = range(min(len(shape), len(like.shape)))
    if attrs["axes"] == ():
        raise RelationError("axes must not be empty")
    chosen = axes if attrs["axes"] is None else [normalize_axis(a, len(shape)) for a in ints(attrs, "axes")]
    for axis in chosen:
        if axis >= len(like.shape):
            raise RelationError(f"axis {axis} is out of range for {type_text(like)}", 1)
        length = like.shape[axis]
        if isinstance(length, int) and isinstance(shape[axis], int) and length > cast(int, shape[axis]):
            raise RelationError(f"{type_text(data)} is smaller than {type_text(like)} on axis {axis}", 0, 1)
        shape[axis] = length
    return TensorType(tuple(shape), data.dtype)


def _sequence_mask(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, lengths = tensor(types), tensor(types, 1, rank=1)
    axis = cast(int, attrs["axis"])
    if axis not in {0, 1} or len(data.shape) < 2:
        raise RelationError("axis must be 0 or 1 and the data of rank 2 or more", 0)
    require_type(lengths, (data.shape[1 - axis],), "valid_length", 1)
    return data


def _unravel_index(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    indices, shape = integers(types, 0), integers(types, 1)
    if not shape.shape:
        raise RelationError("expected a shape of rank 1, found a scalar", 1)
    return TensorType((shape.shape[0], *indices.shape[:1]), indices.dtype)


declare(
    "gather",
    "data indices",
    _gather,
    "At each place, the element of data whose index along the axis stands there.",
    Attr("axis", OPTIONAL_INTEGER, None, call_default=REQUIRED),
    attrs_key="GatherAttrs",
    call_order="data axis indices",
    numpy="numpy.take_along_axis",
    family="indexing",
)
declare(
    "gather_nd",
    "data indices",
    _gather_nd,
    "Elements or slices of data at indices whose coordinates lie along the first axis.",
    Attr("batch_dims", INTEGER, 0),
    Attr("index_rank", OPTIONAL_INTEGER, None),
    attrs_key="GatherNDAttrs",
    family="indexing",
    preconditions=[_check_gather_nd],
)
declare(
    "adv_index",
    "inputs",
    _adv_index,
    "NumPy's advanced indexing of the first tensor by the others.",
    family="indexing",
    variadic=True,
)
declare(
    "argwhere",
    "condition",
    _argwhere,
    "The indices of the elements that are not zero.",
    numpy="numpy.argwhere",
    family="indexing",
)
declare(
    "slice_like",
    "data shape_like",
    _slice_like,
    "The first elements of each axis, as many as another tensor has.",
    Attr("axes", optional(array(INTEGER)), call_default=None),
    attrs_key="SliceLikeAttrs",
    family="indexing",
)
declare(
    "sequence_mask",
    "data valid_length",
    _sequence_mask,
    "Data with mask_value behind the valid length of each sequence.",
    Attr("mask_value", FLOAT, 0.0),
    Attr("axis", INT, 0),
    attrs_key="SequenceMaskAttrs",
    family="indexing",
)
declare(
    "unravel_index",
    "data shape",
    _unravel_index,
    "Flat indices as coordinates of a shape.",
    keywords={"indices": "data"},
    numpy="numpy.unravel_index",
    family="indexing",
    preconditions=[vector(1)],
)
