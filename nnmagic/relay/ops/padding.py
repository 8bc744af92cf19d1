"""Declare padding and dilation: data with elements put around or between its own."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import FLOAT, INT, PAIRS, STR, array
from nnmagic.relay.ops.checks import one_of, sizes
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import add, dilate
from nnmagic.relay.ops.relations import dims, pairs, tensor
from nnmagic.relay.types import TensorType, Type

declare = Family("nn", Trait.SPECULATABLE).declare


def _add_widths(data: TensorType, widths: Sequence[tuple[int, int]]) -> TensorType:
    """Add the widths to the shape of the data; negative ones crop."""
    return TensorType(
        tuple(add(dim, sum(pair)) for dim, pair in zip(data.shape, widths, strict=True)), data.dtype
    )


def _pad(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    padded = _add_widths(data, pairs(attrs, "pad_width", len(data.shape)))
    if any(isinstance(dim, int) and dim < 0 for dim in padded.shape):
        raise RelationError("pad_width crops more than {data} has", 0, attr="pad_width", data=data)
    return padded


def _check_pad(types: Sequence[Type], _attrs: Attrs) -> None:
    tensor(types, 1, rank=0)


def _mirror_pad(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    widths = pairs(attrs, "pad_width", len(data.shape))
    if any(width < 0 for pair in widths for width in pair):
        raise RelationError("pad_width must not be negative", attr="pad_width")
    return _add_widths(data, widths)


def _fit_border(types: Sequence[Type], attrs: Attrs) -> None:
    """Require enough elements along each axis for a border that repeats or reflects them."""
    mode = str(attrs.get("pad_mode") or attrs.get("mode")).lower()
    if mode == "constant":
        return
    (data, *_) = sizes(types)
    for axis, (size, widths) in enumerate(zip(data, pairs(attrs, "pad_width", len(data)), strict=True)):
        border = max(widths)
        if border > 0 and (size == 0 or (mode != "edge" and border > size - (mode == "reflect"))):
            message = f"axis {axis} has {size} elements, too few for a border of {border}"
            raise RelationError(message, 0, attr="pad_width")


def _dilate(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    strides = dims(attrs, "strides", len(data.shape))
    return TensorType(tuple(dilate(d, s) for d, s in zip(data.shape, strides, strict=True)), data.dtype)


declare(
    "nn.pad(data, pad_val)",
    _pad,
    "Data with a border of one value, or of repeated or reflected edges.",
    Attr("pad_width", PAIRS),
    Attr("pad_mode", STR, "constant"),
    call_order="data pad_width pad_val pad_mode",
    keywords={"pad_value": "pad_val"},
    arg_defaults={"pad_val": 0},
    numpy="numpy.pad",
    preconditions=[_check_pad],
    shape_constraints=[_fit_border],
)
declare(
    "nn.mirror_pad(data)",
    _mirror_pad,
    "Data with a border of its reflection.",
    Attr("mode", STR, "SYMMETRIC"),
    Attr("pad_width", PAIRS),
    call_order="data pad_width mode",
    numpy="numpy.pad",
    preconditions=[one_of("mode", "SYMMETRIC", "REFLECT")],
    shape_constraints=[_fit_border],
)
declare(
    "nn.dilate(x)",
    _dilate,
    "Data with strides - 1 elements of one value put between neighbours.",
    Attr("strides", array(INT), (1, 1), call_default=REQUIRED),
    Attr("dilation_value", FLOAT, 0.0),
    keywords={"data": "x"},
)
