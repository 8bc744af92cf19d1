"""Declare operators that move blocks of elements between the image and the channels or the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import FLOAT, INT, PAIRS, STR, one_or_more
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import add, floor_divide, multiply
from nnmagic.relay.ops.image import image_layout
from nnmagic.relay.ops.layouts import convert_shape
from nnmagic.relay.ops.relations import ints, pairs, require_positive, tensor
from nnmagic.relay.types import Dim, TensorType, Type

declare = Family("nn", Trait.SPECULATABLE).declare


def _divisible(dim: Dim, by: int, what: str, attr: str) -> None:
    if by < 1 or (isinstance(dim, int) and dim % by):
        raise RelationError(f"{what} {{dim:dim}} cannot be divided by {by}", 0, attr=attr, dim=dim)


def _not_negative(dim: Dim, what: str, attr: str) -> None:
    if isinstance(dim, int) and dim < 0:
        raise RelationError(f"{what} are larger than the data", 0, attr=attr)


def _block_size(attrs: Attrs) -> int:
    block = cast(int, attrs["block_size"])
    if block == 0:
        raise RelationError("block_size must not be 0", attr="block_size")
    return block


def _depth_to_space(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, block = tensor(types), _block_size(attrs)
    layout, plain = image_layout(attrs, "HW")
    batch, channels, *image = convert_shape(data.shape, layout, plain)
    result = (batch, floor_divide(channels, block * block), *(multiply(dim, block) for dim in image))
    return TensorType(convert_shape(result, plain, layout), data.dtype)


def _check_depth_to_space(types: Sequence[Type], attrs: Attrs) -> None:
    layout, plain = image_layout(attrs, "HW")
    block = cast(int, attrs["block_size"])
    require_positive("block_size", [block])
    channels = convert_shape(tensor(types).shape, layout, plain)[1]
    _divisible(channels, block**2, "the number of channels", "block_size")


def _space_to_depth(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, block = tensor(types), _block_size(attrs)
    layout, plain = image_layout(attrs, "HW")
    batch, channels, *image = convert_shape(data.shape, layout, plain)
    result = (batch, multiply(channels, block * block), *(floor_divide(dim, block) for dim in image))
    return TensorType(convert_shape(result, plain, layout), data.dtype)


def _check_space_to_depth(types: Sequence[Type], attrs: Attrs) -> None:
    layout, plain = image_layout(attrs, "HW")
    for dim in convert_shape(tensor(types).shape, layout, plain)[2:]:
        _divisible(dim, cast(int, attrs["block_size"]), "the image's side", "block_size")


def _blocks(data: TensorType, attrs: Attrs, name: str) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    blocks = ints(attrs, "block_shape")
    if len(blocks) >= len(data.shape) or 0 in blocks:
        message = f"block_shape {list(blocks)} does not fit {{data}}"
        raise RelationError(message, 0, attr="block_shape", data=data)
    return blocks, pairs(attrs, name, len(blocks))


def _space_to_batch(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    blocks, widths = _blocks(data, attrs, "paddings")
    batch, *dims = data.shape
    for axis, (block, pair) in enumerate(zip(blocks, widths, strict=True)):
        dims[axis] = floor_divide(add(dims[axis], sum(pair)), block)
    return TensorType((multiply(batch, math.prod(blocks)), *dims), data.dtype)


def _check_space_to_batch(types: Sequence[Type], attrs: Attrs) -> None:
    blocks = ints(attrs, "block_shape")
    widths = pairs(attrs, "paddings", len(blocks))
    for dim, block, pair in zip(tensor(types).shape[1:], blocks, widths, strict=False):
        _not_negative(add(dim, sum(pair)), "negative paddings, which crop,", "paddings")
        _divisible(add(dim, sum(pair)), block, "the padded dimension", "block_shape")


def _batch_to_space(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    blocks, crops = _blocks(data, attrs, "crops")
    batch, *dims = data.shape
    for axis, (block, pair) in enumerate(zip(blocks, crops, strict=True)):
        dims[axis] = add(multiply(dims[axis], block), -sum(pair))
    return TensorType((floor_divide(batch, math.prod(blocks)), *dims), data.dtype)


def _check_batch_to_space(types: Sequence[Type], attrs: Attrs) -> None:
    blocks, (batch, *spatial) = ints(attrs, "block_shape"), tensor(types).shape
    crops = pairs(attrs, "crops", len(blocks))
    if any(crop < 0 for pair in crops for crop in pair):
        raise RelationError("crops must not be negative", attr="crops")
    count = 1
    for dim, block, pair in zip(spatial, blocks, crops, strict=False):
        require_positive("block_shape", [block])
        _not_negative(add(multiply(dim, block), -sum(pair)), "crops", "crops")
        count *= block
    _divisible(batch, count, "the batch", "block_shape")


for _name, _relation, _check, _summary, _mode, _order in (
    (
        "depth_to_space",
        _depth_to_space,
        _check_depth_to_space,
        "Channels moved into blocks of positions.",
        "DCR",
        None,
    ),
    (
        "space_to_depth",
        _space_to_depth,
        _check_space_to_depth,
        "Blocks of positions moved into the channels.",
        "",
        "data block_size layout",
    ),
):
    declare(
        f"nn.{_name}(data)",
        _relation,
        _summary,
        Attr("block_size", INT, 1, call_default=REQUIRED),
        Attr("layout", STR, "NCHW"),
        Attr("mode", STR, "DCR", call_default=_mode),
        attrs_key="SubPixelAttrs",
        call_order=_order,
        traits=Trait.SPECULATABLE,
        preconditions=[_check],
    )
_BLOCK_SHAPE = Attr("block_shape", one_or_more(), (1, 1), call_default=REQUIRED)
declare(
    "nn.space_to_batch_nd(data)",
    _space_to_batch,
    "Blocks of positions of the padded data moved into the batch.",
    _BLOCK_SHAPE,
    Attr("paddings", PAIRS),
    Attr("pad_value", FLOAT, 0.0),
    attrs_key="SpaceToBatchNDAttrs",
    preconditions=[_check_space_to_batch],
)
declare(
    "nn.batch_to_space_nd(data)",
    _batch_to_space,
    "Elements of the batch moved into blocks of positions, then cropped.",
    _BLOCK_SHAPE,
    Attr("crops", PAIRS),
    attrs_key="BatchToSpaceNDAttrs",
    preconditions=[_check_batch_to_space],
)
