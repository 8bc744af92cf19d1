"""Declare operators whose shape, slice or count is itself a tensor: their results have dynamic shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops import attributes as kinds
from nnmagic.relay.ops.checks import sizes, vector
from nnmagic.relay.ops.declaration import Attr, Family, RelationError, Trait
from nnmagic.relay.ops.relations import at_most, axis_of, dtype_or, require_type, tensor
from nnmagic.relay.ops.sorting import RET_TYPE, values_and_indices
from nnmagic.relay.types import ANY, TensorType, Type

declare = Family("dynamic").declare


def _length(types: Sequence[Type], index: int) -> int:
    """Return the length of a vector argument, on which the rank of the result depends.

    Relay does not mind further dimensions.
    """
    vector_type = tensor(types, index)
    length = vector_type.shape[0] if vector_type.shape else None
    if not isinstance(length, int):
        raise RelationError("expected a vector of known length, found {found}", index, found=vector_type)
    return at_most(int(length), "the length of a vector of sizes", index)


def _any_shape(rank: int, dtype: str) -> TensorType:
    return TensorType((ANY,) * rank, dtype)


def _broadcast_to(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    return _any_shape(_length(types, 1), tensor(types).dtype)


def _full(types: Sequence[Type], attrs: Attrs) -> TensorType:
    fill = tensor(types, rank=0)
    return _any_shape(_length(types, 1), dtype_or(attrs, "dtype", fill.dtype))


def _pad(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    data = tensor(types)
    tensor(types, 1, rank=2)
    return _any_shape(len(data.shape), data.dtype)


def _one_hot(types: Sequence[Type], attrs: Attrs) -> TensorType:
    indices, axis = tensor(types), cast(int, attrs["axis"])
    rank = len(indices.shape)
    if not -1 <= axis <= rank:
        raise RelationError(f"axis {axis} is out of range [-1, {rank}]", 0, attr="axis")
    position = rank if axis == -1 else axis
    return TensorType((*indices.shape[:position], ANY, *indices.shape[position:]), str(attrs["dtype"]))


def _squeeze(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    data, count = tensor(types), _length(types, 1)
    if count > len(data.shape):
        raise RelationError(f"{count} axes are more than {{data}} has", 1, 0, data=data)
    return _any_shape(len(data.shape) - count, data.dtype)


def _strided_slice(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    """Slice the axes that ``begin`` covers; the others stay."""
    data, count = tensor(types), _length(types, 1)
    if count > len(data.shape):
        raise RelationError(f"{count} begins are more than {{data}} has axes", 1, 0, data=data)
    return TensorType((ANY,) * count + data.shape[count:], data.dtype)


def _tile(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    data = tensor(types)
    return _any_shape(max(len(data.shape), _length(types, 1)), data.dtype)


def _topk(types: Sequence[Type], attrs: Attrs) -> Type:
    data, shape = tensor(types), list(tensor(types).shape)
    shape[axis_of(attrs, shape)] = ANY
    return values_and_indices(TensorType(tuple(shape), data.dtype), attrs)


def _check_pad(types: Sequence[Type], _attrs: Attrs) -> None:
    require_type(tensor(types, 1), (len(tensor(types).shape), 2), "pad_width", 1)


def _fit_bounds(types: Sequence[Type], _attrs: Attrs) -> None:
    """Require as many begins as ends and strides, and an axis for each."""
    data, *bounds = sizes(types)
    if len(set(bounds)) > 1:
        message = f"begin, end and strides are of other lengths: {', '.join(map(str, bounds))}"
        raise RelationError(message, 1, 2, 3)
    (count,) = bounds[0]
    if count > len(data):
        raise RelationError(f"there are bounds for {count} axes, and data of rank {len(data)}", 1, 0)


def _window(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Leave the sizes of the axes that ``begin`` covers; -1 is all of an axis, -2 what ``lengths`` says."""
    data, count, lengths = tensor(types), _length(types, 1), _length(types, 2)
    sizes = cast("Sequence[int]", attrs["sizes"])
    if not len(sizes) == lengths == count or count > len(data.shape):
        message = f"there are {count} begins, {lengths} lengths and {len(sizes)} sizes, of {{data}}"
        raise RelationError(message, 1, 2, 0, data=data)
    dims = [{-1: dim, -2: ANY}.get(size, size) for size, dim in zip(sizes, data.shape, strict=False)]
    return TensorType((*dims, *data.shape[count:]), data.dtype)


_SHAPE = Attr("shape", kinds.optional(kinds.DIMS), call_default=None)
_INIT = (_SHAPE, Attr("dtype", kinds.DTYPE, ""))
_PYTHON = "As {}, with {} as a tensor."
declare(
    "dyn.broadcast_to(data, shape)",
    _broadcast_to,
    _PYTHON.format("broadcast_to", "the shape"),
    *_INIT,
    attrs_key="InitOpAttrs",
    call_order="data shape",
    traits=Trait.VIEW | Trait.CHECKS_SIZES,
    preconditions=[vector(1)],
)
declare(
    "dyn.full(fill_value, shape)",
    _full,
    _PYTHON.format("full", "the shape"),
    *_INIT,
    attrs_key="InitOpAttrs",
    call_order="fill_value shape dtype",
    preconditions=[vector(1)],
    traits=Trait.CHECKS_SIZES | Trait.FILLS,
)
declare(
    "dyn.zeros(shape)",
    lambda types, attrs: _any_shape(_length(types, 0), str(attrs["dtype"])),
    _PYTHON.format("zeros", "the shape"),
    *_INIT,
    attrs_key="InitOpAttrs",
    call_order="shape dtype",
    preconditions=[vector(0)],
    traits=Trait.CHECKS_SIZES | Trait.FILLS,
)
declare(
    "dyn.nn.pad(data, pad_width, pad_val)",
    _pad,
    _PYTHON.format("nn.pad", "the widths"),
    Attr("pad_width", kinds.PAIRS, call_default=()),
    Attr("pad_mode", kinds.STR, "constant"),
    call_order="data pad_width pad_val pad_mode",
    keywords={"pad_value": "pad_val"},
    arg_defaults={"pad_val": 0},
    preconditions=[_check_pad],
)
declare(
    "dyn.one_hot(indices, on_value, off_value, depth)",
    _one_hot,
    _PYTHON.format("one_hot", "the depth"),
    Attr("depth", kinds.INT, 1, call_default=0),
    Attr("axis", kinds.INT, -1),
    Attr("dtype", kinds.DTYPE, ""),
    call_order="indices on_value off_value depth axis dtype",
)
declare(
    "dyn.reshape(data, newshape)",
    _broadcast_to,
    _PYTHON.format("reshape", "the shape"),
    Attr("newshape", kinds.array(kinds.INTEGER), call_default=()),
    Attr("allowzero", kinds.BOOL, default=False),
    call_order="data newshape allowzero",
    traits=Trait.VIEW | Trait.CHECKS_SIZES,
    preconditions=[vector(1)],
)
declare(
    "dyn.squeeze(data, axes)",
    _squeeze,
    _PYTHON.format("squeeze", "the axes"),
    Attr("axis", kinds.optional(kinds.array(kinds.INTEGER)), None, call_default=()),
    call_order="data axes",
    keywords={"axis": "axes"},
    traits=Trait.VIEW,
    preconditions=[vector(1)],
)
# Real Relay lacks it; `passes/expand_operators` says what it stands for in it.
Family("python").declare(
    "python.window(data, begin, lengths)",
    _window,
    "As strided_slice by begins and lengths, of a part that is certainly inside of the data.",
    Attr("sizes", kinds.array(kinds.INTEGER)),
    traits=Trait.VIEW | Trait.KERNEL,
    preconditions=[vector(1), vector(2)],
)
declare(
    "dyn.strided_slice(data, begin, end, strides)",
    _strided_slice,
    _PYTHON.format("strided_slice", "begin, end and strides"),
    *(
        Attr(_name, kinds.optional(kinds.array(kinds.INTEGER)), call_default=None)
        for _name in ("begin", "end", "strides")
    ),
    Attr("slice_mode", kinds.STR, "end"),
    Attr("axes", kinds.optional(kinds.array(kinds.INTEGER)), call_default=None),
    call_order="data begin end strides axes slice_mode",
    traits=Trait.VIEW,
    preconditions=[vector(1)],
    shape_constraints=[_fit_bounds],
)
declare(
    "dyn.tile(data, reps)",
    _tile,
    _PYTHON.format("tile", "the counts"),
    Attr("reps", kinds.array(kinds.INTEGER), call_default=()),
    call_order="data reps",
    preconditions=[vector(1)],
    traits=Trait.CHECKS_SIZES,
)
declare(
    "dyn.topk(data, k)",
    _topk,
    _PYTHON.format("topk", "k"),
    Attr("k", kinds.OPTIONAL_INTEGER, call_default=None),
    Attr("axis", kinds.INT, -1),
    Attr("ret_type", RET_TYPE, "both"),
    Attr("is_ascend", kinds.BOOL, default=False),
    Attr("dtype", kinds.DTYPE, "", call_default="int32"),
    call_order="data k axis ret_type is_ascend dtype",
    traits=Trait.HEAVY,
)
