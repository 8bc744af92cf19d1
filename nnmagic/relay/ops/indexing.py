"""Taking elements out of tensors and putting them in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import INTEGER, OPTIONAL_INTEGER, STR, array, one_or_more, optional
from nnmagic.relay.ops.declaration import Attr, RelationError, declare
from nnmagic.relay.ops.dims import broadcast_shapes
from nnmagic.relay.ops.relations import ints, normalize_axis, tensor
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import ANY, Dim, TensorType, Type, is_integer


def _take(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, indices = tensor(types, 0), integers(types, 1)
    if attrs["axis"] is None:
        return TensorType(indices.shape, data.dtype)
    axis = normalize_axis(cast(int, attrs["axis"]), len(data.shape))
    batch = cast(int, attrs["batch_dims"])
    if batch < 0:
        batch += len(indices.shape)
    if not 0 <= batch <= min(len(indices.shape), axis):
        raise RelationError(f"batch_dims {batch} must not exceed the indices' rank or the axis", 1)
    return TensorType(data.shape[:axis] + indices.shape[batch:] + data.shape[axis + 1 :], data.dtype)


def integers(types: Sequence[Type], index: int) -> TensorType:
    """An argument that must be a tensor of integers."""
    found = tensor(types, index)
    if not is_integer(found.dtype):
        raise RelationError(f"expected a tensor of integers, found {type_text(found)}", index)
    return found


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


def _strided_slice(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    begin, end, strides = (ints(attrs, name) for name in ("begin", "end", "strides"))
    shape = list(data.shape)
    if attrs["axes"] is None:
        axes = list(range(len(begin)))
        if max(len(begin), len(end), len(strides)) > len(shape):
            raise RelationError(f"begin, end and strides are longer than the rank of {type_text(data)}", 0)
    else:
        axes = [normalize_axis(axis, len(shape)) for axis in ints(attrs, "axes")]
        if not len(axes) == len(begin) == len(end) == len(strides):
            hint = "give as many begins, ends and strides as axes"
            raise RelationError("axes, begin, end and strides differ in length", 0, hint=hint)
    by_size = attrs["slice_mode"] == "size"
    if len(begin) != len(end):
        raise RelationError(f"begin has {len(begin)} elements, end has {len(end)}", 0)
    for place, (axis, first, last) in enumerate(zip(axes, begin, end, strict=True)):
        step = strides[place] if place < len(strides) and not by_size else 1
        shape[axis] = _sliced(shape[axis], first, last, step, by_size)
    return TensorType(tuple(shape), data.dtype)


def _sliced(size: Dim, begin: int, end: int, step: int, by_size: bool) -> Dim:
    """The length of a slice of an axis. ``end`` is a length with ``by_size``, where -1 means "to the end"."""
    if step == 0:
        raise RelationError("strides must not be 0")
    if not isinstance(size, int):
        whole = begin == 0 and step == 1 and (end == -1 if by_size else end >= 2**31 - 1)
        return size if whole else (end if by_size and end >= 0 else ANY)
    if by_size:
        first = begin + size if begin < 0 else begin
        end = size if end < 0 else first + end
        return len(range(size)[first:end])
    first, last, _ = slice(begin, end, step).indices(size)
    if end <= -size - 1 and step < 0:
        last = -1
    return len(range(first, last, step))


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
    "Every so manieth element of a range of each axis.",
    Attr("begin", one_or_more(INTEGER)),
    Attr("end", one_or_more(INTEGER)),
    Attr("strides", one_or_more(INTEGER), call_default=(1,)),
    Attr("slice_mode", STR, "end"),
    Attr("axes", optional(array(INTEGER)), call_default=None),
    attrs_key="StridedSliceAttrs",
    call_order="data begin end strides axes slice_mode",
    family="indexing",
)
