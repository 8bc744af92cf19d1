"""Declare operators that take elements out of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops import attributes as kinds
from nnmagic.relay.ops import relations as rel
from nnmagic.relay.ops.checks import vector
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import Shape, broadcast_shapes
from nnmagic.relay.types import ANY, Dim, TensorType, Type, is_integer

declare = Family("indexing").declare


def _take(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, indices = rel.tensor(types, 0), integers(types, 1)
    if attrs["axis"] is None:
        return TensorType(indices.shape, data.dtype)
    rank, axis = len(data.shape), cast(int, attrs["axis"])
    axis = (
        rank if axis == rank else rel.normalize_axis(axis, rank)
    )  # Relay accepts the axis after the last, too
    batch = cast(int, attrs["batch_dims"])
    if not 0 <= batch <= min(len(indices.shape), axis):
        message = f"batch_dims {batch} must not exceed the indices' rank or the axis"
        raise RelationError(message, 1, attr=("batch_dims", "axis"))
    return TensorType(data.shape[:axis] + indices.shape[batch:] + data.shape[axis + 1 :], data.dtype)


def integers(types: Sequence[Type], index: int) -> TensorType:
    """Return an argument that must be a tensor of integers, to which Relay counts bools."""
    operand = rel.tensor(types, index)
    if not (is_integer(operand.dtype) or operand.dtype == "bool"):
        raise RelationError("expected a tensor of integers, found {operand}", index, operand=operand)
    return operand


def signed_integers(types: Sequence[Type], index: int) -> TensorType:
    """Return an argument that must be a tensor of signed integers."""
    operand = rel.tensor(types, index)
    if not operand.dtype.startswith("int"):
        raise RelationError("expected a tensor of signed integers, found {operand}", index, operand=operand)
    return operand


def _where(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    condition, first, second = (rel.tensor(types, index) for index in range(3))
    if first.dtype != second.dtype:
        message = "the dtypes {first:dtype} and {second:dtype} differ"
        raise RelationError(message, 1, 2, first=first.dtype, second=second.dtype)
    values = broadcast_shapes(first.shape, second.shape)
    if values is None:
        message = "{first} and {second} do not broadcast together"
        raise RelationError(message, 1, 2, first=first, second=second)
    shape = broadcast_shapes(condition.shape, values)
    if shape is None:
        message = "the condition {condition} does not broadcast with {other}"
        raise RelationError(message, 0, 1, condition=condition, other=TensorType(values, first.dtype))
    return TensorType(shape, first.dtype)


#: Beyond the end of any axis.
_FAR = 2**63 - 1


def _strided_slice(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = rel.tensor(types)
    begin, end, strides = (rel.ints(attrs, name) for name in ("begin", "end", "strides"))
    shape = list(data.shape)
    if attrs["axes"] is None:
        axes = list(range(len(shape)))
        if max(len(begin), len(end), len(strides)) > len(shape):
            lengths = {"begin": len(begin), "end": len(end), "strides": len(strides)}
            long = tuple(name for name, length in lengths.items() if length > len(shape))
            message = "begin, end and strides are longer than the rank of {data}"
            raise RelationError(message, 0, attr=long, data=data)
        strides = (*strides, *(1,) * (len(shape) - len(strides)))
        begin = (*begin, *(0 if step > 0 else _FAR for step in strides[len(begin) :]))
        end = (*end, *(_FAR if step > 0 else -_FAR for step in strides[len(end) :]))
    else:
        if not attrs["axes"]:
            raise RelationError("axes must not be empty", attr="axes")
        axes = [rel.normalize_axis(axis, len(shape), attr="axes") for axis in rel.ints(attrs, "axes")]
        if any(axis < 0 for axis in rel.ints(attrs, "axes")):
            message = f"axes must not be negative, found {list(rel.ints(attrs, 'axes'))}"
            raise RelationError(message, 0, attr="axes")
        if not len(axes) == len(begin) == len(end) == len(strides):
            hint = "give as many begins, ends and strides as axes"
            message = "axes, begin, end and strides differ in length"
            raise RelationError(message, 0, hint=hint, attr=("axes", "begin", "end", "strides"))
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
        raise RelationError("strides must not be 0", attr="strides")
    if not isinstance(size, int):
        whole = begin == 0 and step == 1 and (end >= 2**31 - 1 or (by_size and end < 0))
        return size if whole else ANY
    if size < 0:
        raise RelationError(f"an axis of {size} elements cannot be sliced", 0)
    if by_size:
        if begin > 0 and end == _FAR:
            message = "end must say how long the slice of each axis is, where begin is not 0"
            raise RelationError(message, 0, attr=("end", "begin"))
        end = size if end < 0 else begin + end
    first, last, _ = slice(begin, end, step).indices(size)
    if (last - first) * step < 0:
        message = f"the slice from {begin} to {end} by {step} of {size} elements runs backwards"
        raise RelationError(message, 0, attr=("begin", "end", "strides"))
    return len(range(first, last, step))


def _check_take(types: Sequence[Type], attrs: Attrs) -> None:
    if attrs["axis"] is not None:
        rel.axis_of(attrs, rel.tensor(types).shape)


declare(
    "take(data, indices)",
    _take,
    "The elements or slices of data at the given indices along an axis, or of the flattened data.",
    Attr("batch_dims", kinds.INTEGER, 0),
    Attr("axis", kinds.OPTIONAL_INTEGER, None),
    Attr("mode", kinds.STR, "clip"),
    call_order="data indices axis batch_dims mode",
    numpy="numpy.take",
    traits=Trait.VIEW,
    preconditions=[_check_take],
)
declare(
    "where(condition, x, y)",
    _where,
    "Elements of x where the condition is true, else of y.",
    numpy="numpy.where",
    traits=Trait.SPECULATABLE | Trait.CHECKS_SIZES,
)
declare(
    "strided_slice(data)",
    _strided_slice,
    "Every n-th element of a range of each axis.",
    Attr("begin", kinds.one_or_more(kinds.INTEGER)),
    Attr("end", kinds.one_or_more(kinds.INTEGER)),
    Attr("strides", kinds.default_for_none(kinds.one_or_more(kinds.INTEGER), (1,)), call_default=None),
    Attr("slice_mode", kinds.STR, "end"),
    Attr("axes", kinds.optional(kinds.array(kinds.INTEGER)), call_default=None),
    call_order="data begin end strides axes slice_mode",
    traits=Trait.SPECULATABLE | Trait.MOVES | Trait.VIEW,
)


def _gather(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, indices = rel.tensor(types, 0), signed_integers(types, 1)
    if len(data.shape) != len(indices.shape):
        raise RelationError("{data} and {indices} must have one rank", 0, 1, data=data, indices=indices)
    axis = rel.axis_of(attrs, data.shape)
    for index, (have, want) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if index != axis:
            message = "data and indices differ on another axis than the given one"
            rel.require_same(have, want, message, 0, 1, attr="axis")
    return TensorType(indices.shape, data.dtype)


def _gather_nd(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Return the gathered type; the indices' first dimension counts the dimensions that an index has."""
    data, indices = rel.tensor(types, 0), rel.tensor(types, 1)
    depth = index_depth(indices, data, 1)
    batch = cast(int, attrs["batch_dims"])
    if depth + batch > len(data.shape) or batch >= len(indices.shape):
        message = "{indices} has too many indices for {data}"
        raise RelationError(message, 1, 0, attr="batch_dims", indices=indices, data=data)
    for lhs, rhs in zip(data.shape[: max(batch, 0)], indices.shape[1:], strict=False):
        rel.require_same(lhs, rhs, "the batches of data and indices differ", 0, 1)
    if depth + batch < 0:
        raise RelationError(f"batch_dims must not be negative, it is {batch}", attr="batch_dims")
    return TensorType(indices.shape[1:] + data.shape[depth + batch :], data.dtype)


def _check_gather_nd(_types: Sequence[Type], attrs: Attrs) -> None:
    batch = cast(int, attrs["batch_dims"])
    if batch < 0:
        raise RelationError(f"batch_dims must not be negative, it is {batch}", attr="batch_dims")


def index_depth(indices: TensorType, data: TensorType, operand: int) -> int:
    """Return the first dimension of the indices, which must be a number and fit the data."""
    depth = indices.shape[0] if indices.shape else ANY
    if not isinstance(depth, int):
        message = "the first dimension of the indices must be known, found {indices}"
        raise RelationError(message, operand, indices=indices)
    if depth > len(data.shape):
        message = "{indices} has too many indices for {data}"
        raise RelationError(message, operand, 0, indices=indices, data=data)
    return int(depth)


def _adv_index(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    """Index the leading axes of the first tensor with the others, which broadcast together."""
    data, *indices = rel.tensors_of_tuple(types)
    if not indices or len(indices) > len(data.shape):
        raise RelationError(f"{len(indices)} indices do not fit {{data}}", 0, data=data)
    shape: Shape | None = indices[0].shape
    for other in indices[1:]:
        shape = broadcast_shapes(shape or (), other.shape)
        if shape is None:
            raise RelationError("the indices do not broadcast together", 0)
    return TensorType((shape or ()) + data.shape[len(indices) :], data.dtype)


def _slice_like(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, like = rel.tensor(types, 0), rel.tensor(types, 1)
    shape = list(data.shape)
    axes: Sequence[int] = range(min(len(shape), len(like.shape)))
    if attrs["axes"] == ():
        raise RelationError("axes must not be empty", attr="axes")
    if attrs["axes"] is not None:
        axes = [rel.normalize_axis(axis, len(shape), attr="axes") for axis in rel.ints(attrs, "axes")]
    for axis in axes:
        if axis >= len(like.shape):
            raise RelationError(f"axis {axis} is out of range for {{like}}", 1, attr="axes", like=like)
        length = like.shape[axis]
        if isinstance(length, int) and isinstance(shape[axis], int) and length > cast(int, shape[axis]):
            message = f"{{data}} is smaller than {{like}} on axis {axis}"
            raise RelationError(message, 0, 1, attr="axes", data=data, like=like)
        shape[axis] = length
    return TensorType(tuple(shape), data.dtype)


def _sequence_mask(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, lengths = rel.tensor(types), rel.tensor(types, 1, rank=1)
    axis = cast(int, attrs["axis"])
    if axis not in {0, 1} or len(data.shape) < 2:
        raise RelationError("axis must be 0 or 1 and the data of rank 2 or more", 0, attr="axis")
    rel.require_type(lengths, (data.shape[1 - axis],), "valid_length", 1)
    return data


def _unravel_index(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    indices, shape = integers(types, 0), integers(types, 1)
    if not shape.shape:
        raise RelationError("expected a shape of rank 1, found a scalar", 1)
    return TensorType((shape.shape[0], *indices.shape[:1]), indices.dtype)


declare(
    "gather(data, indices)",
    _gather,
    "At each position, the element of data whose index along the axis stands there.",
    Attr("axis", kinds.OPTIONAL_INTEGER, None, call_default=REQUIRED),
    call_order="data axis indices",
    numpy="numpy.take_along_axis",
    traits=Trait.CHECKS_SIZES,
)
declare(
    "gather_nd(data, indices)",
    _gather_nd,
    "Elements or slices of data at indices whose coordinates lie along the first axis.",
    Attr("batch_dims", kinds.INTEGER, 0),
    Attr("index_rank", kinds.OPTIONAL_INTEGER, None),
    attrs_key="GatherNDAttrs",
    preconditions=[_check_gather_nd],
)
declare(
    "adv_index(inputs)",
    _adv_index,
    "NumPy's advanced indexing of the first tensor by the others.",
    variadic=True,
)
declare(
    "argwhere(condition)",
    lambda types, _attrs: TensorType((ANY, len(rel.tensor(types).shape)), "int32"),
    "The indices of the elements that are not zero.",
    numpy="numpy.argwhere",
    traits=Trait.SPECULATABLE | Trait.CHECKS_SIZES,
)
declare(
    "slice_like(data, shape_like)",
    _slice_like,
    "The first elements of each axis, as many as another tensor has.",
    Attr("axes", kinds.optional(kinds.array(kinds.INTEGER)), call_default=None),
    traits=Trait.SPECULATABLE | Trait.VIEW,
)
declare(
    "sequence_mask(data, valid_length)",
    _sequence_mask,
    "Data with mask_value behind the valid length of each sequence.",
    Attr("mask_value", kinds.FLOAT, 0.0),
    Attr("axis", kinds.INT, 0),
    traits=Trait.SPECULATABLE,
)
declare(
    "unravel_index(data, shape)",
    _unravel_index,
    "Flat indices as coordinates of a shape.",
    keywords={"indices": "data"},
    numpy="numpy.unravel_index",
    preconditions=[vector(1)],
)
