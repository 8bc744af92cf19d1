"""Activations with parameters, bias, padding, blocks, losses: what else stands in Relay's nn namespace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import (
    BOOL,
    FLOAT,
    INT,
    PAIRS,
    STR,
    array,
    choice,
    one_or_more,
    spatial,
)
from nnmagic.relay.ops.convolution import padding_sums
from nnmagic.relay.ops.declaration import REQUIRED, Attr, RelationError, declare
from nnmagic.relay.ops.dims import add, ceil_divide, dilated, floor_divide, multiply, same_dim
from nnmagic.relay.ops.image import image_layout
from nnmagic.relay.ops.layouts import convert_shape
from nnmagic.relay.ops.relations import (
    assume_channel_vectors,
    axis_of,
    channel_vectors,
    dims,
    identity,
    ints,
    require_same,
    require_type,
    tensor,
)
from nnmagic.relay.text.types import dim_text, type_text
from nnmagic.relay.types import Dim, TensorType, TupleType, Type, is_float


def pairs(attrs: Attrs, name: str, length: int) -> tuple[tuple[int, int], ...]:
    """An attribute of pairs (before, after), one for each dimension."""
    value = cast("tuple[tuple[int, ...], ...]", attrs[name])
    if len(value) != length or any(len(pair) != 2 for pair in value):
        raise RelationError(f"{name} must have {length} pairs, found {[list(pair) for pair in value]}", 0)
    return cast("tuple[tuple[int, int], ...]", value)


def _padded(data: TensorType, widths: Sequence[tuple[int, int]]) -> TensorType:
    if any(width < 0 for pair in widths for width in pair):
        raise RelationError("pad_width must not be negative")
    return TensorType(
        tuple(add(dim, sum(pair)) for dim, pair in zip(data.shape, widths, strict=True)), data.dtype
    )


def _pad(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    tensor(types, 1, rank=0)
    return _padded(data, pairs(attrs, "pad_width", len(data.shape)))


def _mirror_pad(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    return _padded(data, pairs(attrs, "pad_width", len(data.shape)))


def _dropout(types: Sequence[Type], _attrs: Attrs) -> TupleType:
    data = tensor(types)
    return TupleType((data, data))


def _dilate(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    strides = dims(attrs, "strides", len(data.shape))
    return TensorType(tuple(dilated(d, s) for d, s in zip(data.shape, strides, strict=True)), data.dtype)


def _fifo_buffer(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, buffer = tensor(types, 0), tensor(types, 1)
    if len(data.shape) != len(buffer.shape):
        raise RelationError(f"{type_text(data)} and {type_text(buffer)} must have one rank", 0, 1)
    axis = axis_of(attrs, buffer.shape, operand=1)
    for at, (left, right) in enumerate(zip(data.shape, buffer.shape, strict=True)):
        if at != axis:
            require_same(left, right, "data and buffer differ on another axis than the given one", 0, 1)
    return buffer


def _divided(dim: Dim, by: int, what: str) -> Dim:
    if by < 1 or (isinstance(dim, int) and dim % by):
        raise RelationError(f"{what} {dim_text(dim)} cannot be divided by {by}", 0)
    return floor_divide(dim, by)


def _depth_to_space(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, block = tensor(types), cast(int, attrs["block_size"])
    layout, plain = image_layout(attrs, "HW")
    batch, channels, *image = convert_shape(data.shape, layout, plain)
    result = (
        batch,
        _divided(channels, block * block, "the number of channels"),
        *(multiply(dim, block) for dim in image),
    )
    return TensorType(convert_shape(result, plain, layout), data.dtype)


def _space_to_depth(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, block = tensor(types), cast(int, attrs["block_size"])
    layout, plain = image_layout(attrs, "HW")
    batch, channels, *image = convert_shape(data.shape, layout, plain)
    result = (
        batch,
        multiply(channels, block * block),
        *(_divided(dim, block, "the image's side") for dim in image),
    )
    return TensorType(convert_shape(result, plain, layout), data.dtype)


def _blocks(data: TensorType, attrs: Attrs, name: str) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    blocks = ints(attrs, "block_shape")
    if len(blocks) >= len(data.shape) or any(block < 1 for block in blocks):
        raise RelationError(f"block_shape {list(blocks)} does not fit {type_text(data)}", 0)
    return blocks, pairs(attrs, name, len(blocks))


def _space_to_batch(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    blocks, widths = _blocks(data, attrs, "paddings")
    batch, *rest = data.shape
    for at, (block, pair) in enumerate(zip(blocks, widths, strict=True)):
        rest[at] = _divided(add(rest[at], sum(pair)), block, "the padded dimension")
    return TensorType((multiply(batch, math.prod(blocks)), *rest), data.dtype)


def _batch_to_space(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    blocks, crops = _blocks(data, attrs, "crops")
    batch, *rest = data.shape
    for at, (block, pair) in enumerate(zip(blocks, crops, strict=True)):
        rest[at] = length = add(multiply(rest[at], block), -sum(pair))
        if isinstance(length, int) and length < 0:
            raise RelationError(f"crops {[list(each) for each in crops]} are larger than the image", 0)
    return TensorType((_divided(batch, math.prod(blocks), "the batch"), *rest), data.dtype)


def _correlation(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """A channel for each displacement of the second image, a place for each of the first."""
    first, second = tensor(types, 0, rank=4), tensor(types, 1, rank=4)
    if attrs["layout"] != "NCHW":
        raise RelationError(f"the layout must be NCHW, not {attrs['layout']!r}")
    require_type(second, first.shape, "the second image", 1)
    kernel, most, step, grid = (
        cast(int, attrs[name]) for name in ("kernel_size", "max_displacement", "stride1", "stride2")
    )
    if step < 1 or grid < 1 or kernel < 1:
        raise RelationError("kernel_size, stride1 and stride2 must be positive")
    border = most + (kernel - 1) // 2
    sides = (
        ceil_divide(add(add(dim, pad), -2 * border), step)
        for dim, pad in zip(first.shape[2:], padding_sums(attrs, 2), strict=True)
    )
    return TensorType((first.shape[0], (2 * (most // grid) + 1) ** 2, *sides), first.dtype)


def _cross_entropy(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    predictions, targets = tensor(types, 0, rank=2), tensor(types, 1, rank=2)
    require_type(targets, predictions.shape, "the targets", 1)
    return TensorType((), predictions.dtype)


def _nll_loss(types: Sequence[Type], attrs: Attrs) -> TensorType:
    predictions, targets, weights = tensor(types, 0), tensor(types, 1), tensor(types, 2, rank=1)
    if not is_float(predictions.dtype) or weights.dtype != predictions.dtype:
        found = f"{type_text(predictions)} and {type_text(weights)}"
        raise RelationError(f"the predictions and weights must be of one floating dtype, found {found}", 0, 2)
    if not targets.dtype.startswith("int"):
        raise RelationError(f"the targets must be signed integers, found {type_text(targets)}", 1)
    if len(predictions.shape) != len(targets.shape) + 1:
        found = f"{type_text(predictions)} and {type_text(targets)}"
        raise RelationError(f"the predictions must have one more axis than the targets, found {found}", 0, 1)
    batch = len(predictions.shape) > 1
    classes = predictions.shape[1 if batch else 0]
    require_type(targets, predictions.shape[:1] * batch + predictions.shape[2:], "the targets", 1)
    if same_dim(weights.shape[0], classes) is False:
        raise RelationError(f"there must be a weight for each class, found {type_text(weights)}", 2, 0)
    return TensorType(targets.shape if attrs["reduction"] == "none" else (), predictions.dtype)


def _leaky_relu(types: Sequence[Type], attrs: Attrs) -> Type:
    if cast(float, attrs["alpha"]) < 0:
        raise RelationError(f"alpha must not be negative, it is {attrs['alpha']}")
    return types[0]


def _prelu(types: Sequence[Type], attrs: Attrs) -> TensorType:
    if cast(int, attrs["axis"]) < 0:
        raise RelationError(f"axis must not be negative, it is {attrs['axis']}", 0)
    return channel_vectors("alpha")(types, attrs)


declare("nn.relu", "data", identity, "The element where it is positive, else 0.", family="nn")
declare(
    "nn.leaky_relu",
    "data",
    _leaky_relu,
    "The element where it is positive, else alpha times it.",
    Attr("alpha", FLOAT, 0.25, call_default=0.01),
    attrs_key="LeakyReluAttrs",
    family="nn",
)
declare(
    "nn.prelu",
    "data alpha",
    _prelu,
    "The element where it is positive, else its channel's alpha times it.",
    Attr("axis", INT, 1),
    attrs_key="PReluAttrs",
    family="nn",
    assume=assume_channel_vectors,
)
declare(
    "nn.bias_add",
    "data bias",
    channel_vectors("bias"),
    "A vector added along one axis.",
    Attr("axis", INT, 1),
    attrs_key="BiasAddAttrs",
    family="nn",
    assume=assume_channel_vectors,
)
declare(
    "nn.dropout",
    "data",
    _dropout,
    "Data and a mask; when a program runs nothing is dropped.",
    Attr("rate", FLOAT, 0.5),
    attrs_key="DropoutAttrs",
    family="nn",
)
declare(
    "nn.pad",
    "data pad_val",
    _pad,
    "Data with a border of one value, or of repeated or reflected edges.",
    Attr("pad_width", PAIRS),
    Attr("pad_mode", STR, "constant"),
    attrs_key="PadAttrs",
    call_order="data pad_width pad_val pad_mode",
    keywords={"pad_value": "pad_val"},
    arg_defaults={"pad_val": 0},
    numpy="numpy.pad",
    family="nn",
)
declare(
    "nn.mirror_pad",
    "data",
    _mirror_pad,
    "Data with a border of its reflection.",
    Attr("mode", choice("SYMMETRIC", "REFLECT"), "SYMMETRIC"),
    Attr("pad_width", PAIRS),
    attrs_key="MirrorPadAttrs",
    call_order="data pad_width mode",
    numpy="numpy.pad",
    family="nn",
)
declare(
    "nn.dilate",
    "x",
    _dilate,
    "Data with strides - 1 elements of one value put between neighbours.",
    Attr("strides", array(INT), (1, 1), call_default=REQUIRED),
    Attr("dilation_value", FLOAT, 0.0),
    attrs_key="DilateAttrs",
    keywords={"data": "x"},
    family="nn",
)
declare(
    "nn.fifo_buffer",
    "data buffer",
    _fifo_buffer,
    "A buffer with data pushed in at the end of an axis and the oldest elements out.",
    Attr("axis", INT, 0, call_default=REQUIRED),
    attrs_key="FIFOBufferAttrs",
    family="nn",
)
for _name, _relation, _summary, _mode, _order in (
    ("depth_to_space", _depth_to_space, "Channels moved into blocks of places.", "DCR", None),
    (
        "space_to_depth",
        _space_to_depth,
        "Blocks of places moved into the channels.",
        "",
        "data block_size layout",
    ),
):
    declare(
        f"nn.{_name}",
        "data",
        _relation,
        _summary,
        Attr("block_size", INT, 1, call_default=REQUIRED),
        Attr("layout", STR, "NCHW"),
        Attr("mode", STR, "DCR", call_default=_mode),
        attrs_key="SubPixelAttrs",
        call_order=_order,
        family="nn",
    )
_BLOCK_SHAPE = Attr("block_shape", one_or_more(), (1, 1), call_default=REQUIRED)
declare(
    "nn.space_to_batch_nd",
    "data",
    _space_to_batch,
    "Blocks of places of the padded data moved into the batch.",
    _BLOCK_SHAPE,
    Attr("paddings", PAIRS),
    Attr("pad_value", FLOAT, 0.0),
    attrs_key="SpaceToBatchNDAttrs",
    family="nn",
)
declare(
    "nn.batch_to_space_nd",
    "data",
    _batch_to_space,
    "Elements of the batch moved into blocks of places, then cropped.",
    _BLOCK_SHAPE,
    Attr("crops", PAIRS),
    attrs_key="BatchToSpaceNDAttrs",
    family="nn",
)
declare(
    "nn.correlation",
    "data1 data2",
    _correlation,
    "How well patches of one image match displaced patches of another.",
    *(
        Attr(_name, INT, 1, call_default=REQUIRED)
        for _name in ("kernel_size", "max_displacement", "stride1", "stride2")
    ),
    Attr("padding", spatial(2, lengths=(1, 2, 4)), (0, 0), call_default=REQUIRED),
    Attr("is_multiply", BOOL, default=True, call_default=REQUIRED),
    Attr("layout", STR, "NCHW", call_default=REQUIRED),
    attrs_key="CorrelationAttrs",
    family="nn",
)
for _name, _summary in (
    ("cross_entropy", "Mean cross entropy of probabilities and one-hot targets."),
    ("cross_entropy_with_logits", "Mean cross entropy of log-probabilities and one-hot targets."),
):
    declare(
        f"nn.{_name}",
        "x y",
        _cross_entropy,
        _summary,
        keywords={"predictions": "x", "targets": "y"},
        family="nn",
    )
declare(
    "nn.nll_loss",
    "predictions targets weights",
    _nll_loss,
    "Negative log-likelihood of the target classes, weighted.",
    Attr("reduction", choice("mean", "sum", "none"), "mean"),
    Attr("ignore_index", INT, call_default=-100),
    attrs_key="NLLLossAttrs",
    family="nn",
)
