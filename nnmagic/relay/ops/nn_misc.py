"""Activations with parameters, bias, padding, blocks, losses: what else stands in Relay's nn namespace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import BOOL, FLOAT, INT, PAIRS, STR, array, one_or_more, spatial
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
    require_type,
    tensor,
)
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import TensorType, TupleType, Type, is_float


def pairs(attrs: Attrs, name: str, length: int) -> tuple[tuple[int, int], ...]:
    """An attribute of pairs (before, after), one for each dimension."""
    value = cast("tuple[tuple[int, ...], ...]", attrs[name])
    if len(value) != length or any(len(pair) != 2 for pair in value):
        raise RelationError(f"{name} must have {length} pairs, found {[list(pair) for pair in value]}", 0)
    return cast("tuple[tuple[int, int], ...]", value)


def _padded(data: TensorType, widths: Sequence[tuple[int, int]]) -> TensorType:
    """With the widths added; negative ones crop."""
    return TensorType(
        tuple(add(dim, sum(pair)) for dim, pair in zip(data.shape, widths, strict=True)), data.dtype
    )


def _pad(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    padded = _padded(data, pairs(attrs, "pad_width", len(data.shape)))
    if any(isinstance(dim, int) and dim < 0 for dim in padded.shape):
        raise RelationError(f"pad_width crops more than {type_text(data)} has", 0)
    return padded


def _mirror_pad(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    widths = pairs(attrs, "pad_width", len(data.shape))
    if any(width < 0 for pair in widths for width in pair):
        raise RelationError("pad_width must not be negative")
    return _padded(data, widths)


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
    axis_of(attrs, buffer.shape, operand=1)
    return buffer


def _block_size(attrs: Attrs) -> int:
    block = cast(int, attrs["block_size"])
    if block == 0:
        raise RelationError("block_size must not be 0")
    return block


def _depth_to_space(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, block = tensor(types), _block_size(attrs)
    layout, plain = image_layout(attrs, "HW")
    batch, channels, *image = convert_shape(data.shape, layout, plain)
    result = (
        batch,
        floor_divide(channels, block * block),
        *(multiply(dim, block) for dim in image),
    )
    return TensorType(convert_shape(result, plain, layout), data.dtype)


def _space_to_depth(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, block = tensor(types), _block_size(attrs)
    layout, plain = image_layout(attrs, "HW")
    batch, channels, *image = convert_shape(data.shape, layout, plain)
    result = (
        batch,
        multiply(channels, block * block),
        *(floor_divide(dim, block) for dim in image),
    )
    return TensorType(convert_shape(result, plain, layout), data.dtype)


def _blocks(data: TensorType, attrs: Attrs, name: str) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    blocks = ints(attrs, "block_shape")
    if len(blocks) >= len(data.shape) or 0 in blocks:
        raise RelationError(f"block_shape {list(blocks)} does not fit {type_text(data)}", 0)
    return blocks, pairs(attrs, name, len(blocks))


def _space_to_batch(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    blocks, widths = _blocks(data, attrs, "paddings")
    batch, *rest = data.shape
    for at, (block, pair) in enumerate(zip(blocks, widths, strict=True)):
        rest[at] = floor_divide(add(rest[at], sum(pair)), block)
    return TensorType((multiply(batch, math.prod(blocks)), *rest), data.dtype)


def _batch_to_space(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    blocks, crops = _blocks(data, attrs, "crops")
    batch, *rest = data.shape
    for at, (block, pair) in enumerate(zip(blocks, crops, strict=True)):
        rest[at] = add(multiply(rest[at], block), -sum(pair))
    return TensorType((floor_divide(batch, math.prod(blocks)), *rest), data.dtype)


def _correlation(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """A channel for each displacement of the second image, a place for each of the first."""
    first, second = tensor(types, 0, rank=4), tensor(types, 1, rank=4)
    if attrs["layout"] != "NCHW":
        raise RelationError(f"the layout must be NCHW, not {attrs['layout']!r}")
    kernel, most, step, grid = (
        cast(int, attrs[name]) for name in ("kernel_size", "max_displacement", "stride1", "stride2")
    )
    if step < 1 or grid < 1:
        raise RelationError("stride1 and stride2 must be positive")
    border = most + max(kernel - 1, 0) // 2
    sides = (
        ceil_divide(add(add(dim, pad), -2 * border), step)
        for dim, pad in zip((first.shape[2], second.shape[3]), padding_sums(attrs, 2), strict=True)
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
    if len(predictions.shape) < 2:
        raise RelationError(f"the predictions must have classes, found {type_text(predictions)}", 0)
    if same_dim(weights.shape[0], predictions.shape[1]) is False:
        raise RelationError(f"there must be a weight for each class, found {type_text(weights)}", 2, 0)
    return TensorType(targets.shape if attrs["reduction"] == "none" else (), predictions.dtype)


def _prelu(types: Sequence[Type], attrs: Attrs) -> TensorType:
    if cast(int, attrs["axis"]) < 0:
        raise RelationError(f"axis must not be negative, it is {attrs['axis']}", 0)
    return channel_vectors("alpha")(types, attrs)


declare("nn.relu", "data", identity, "The element where it is positive, else 0.", family="nn")
declare(
    "nn.leaky_relu",
    "data",
    identity,
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
    Attr("mode", STR, "SYMMETRIC"),
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
    Attr("reduction", STR, "mean"),
    Attr("ignore_index", INT, call_default=-100),
    attrs_key="NLLLossAttrs",
    family="nn",
)
