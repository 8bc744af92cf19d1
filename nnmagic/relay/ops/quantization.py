"""Declare operators on quantized numbers: real = scale * (quantized - zero_point)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import DTYPE, INT
from nnmagic.relay.ops.declaration import Attr, Family, RelationError, Trait
from nnmagic.relay.ops.relations import normalize_axis, require_type, tensor
from nnmagic.relay.types import TensorType, Type

declare = Family("quantization", Trait.SPECULATABLE).declare

_INTEGERS = ("int8", "uint8", "int16", "int32")


def scale_and_zero_point(types: Sequence[Type], data: TensorType, first: int, axis: int) -> None:
    """Require a float32 scale and an int32 zero point as arguments ``first`` and the next.

    They are scalars, or vectors as long as the axis. Raises RelationError.
    """
    for index, what, dtype in ((first, "the scale", "float32"), (first + 1, "the zero point", "int32")):
        parameter = tensor(types, index)
        if parameter.dtype != dtype:
            message = "expected {what} to be of dtype {dtype:dtype}, found {parameter}"
            raise RelationError(message, index, what=what, dtype=dtype, parameter=parameter)
        if parameter.shape:
            channel_axis = normalize_axis(axis, len(data.shape))
            require_type(parameter, (data.shape[channel_axis],), what, index)


def _one_of(
    dtype: str, allowed: Sequence[str], what: str, *operands: int, attr: str | tuple[str, ...] = ()
) -> str:
    if dtype not in allowed:
        message = "{what} must be one of {allowed:dtype}, not {dtype!r}"
        raise RelationError(message, *operands, attr=attr, what=what, allowed=allowed, dtype=dtype)
    return dtype


def _quantize(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    _one_of(data.dtype, ("float32",), "the data's dtype", 0)
    scale_and_zero_point(types, data, 1, cast(int, attrs["axis"]))
    return TensorType(data.shape, _one_of(str(attrs["out_dtype"]), _INTEGERS, "out_dtype", attr="out_dtype"))


def _dequantize(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    _one_of(data.dtype, _INTEGERS, "the data's dtype", 0)
    scale_and_zero_point(types, data, 1, cast(int, attrs["axis"]))
    dtype = _one_of(str(attrs["out_dtype"]), ("float32", "float16"), "out_dtype", attr="out_dtype")
    return TensorType(data.shape, dtype)


declare(
    "qnn.quantize(data, output_scale, output_zero_point)",
    _quantize,
    "Real numbers rounded to integers of a scale and zero point.",
    Attr("out_dtype", DTYPE, call_default="int8"),
    Attr("axis", INT, -1),
    call_order="data output_scale output_zero_point axis out_dtype",
)
declare(
    "qnn.dequantize(data, input_scale, input_zero_point)",
    _dequantize,
    "The real numbers that quantized integers stand for.",
    Attr("out_dtype", DTYPE, call_default="float32"),
    Attr("axis", INT, -1),
    call_order="data input_scale input_zero_point axis out_dtype",
)
