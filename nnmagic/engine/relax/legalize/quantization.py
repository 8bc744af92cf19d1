"""Legalize quantization to integers with a scale and a zero point, per tensor or per channel."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import te, tirx

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.registry import RULES, te_of
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.types import Index, PrimExpr
from nnmagic.relay.expr import Attrs


def _channel_parameter(parameter: Tensor, index: Sequence[Index], axis: int) -> PrimExpr:
    """Return the scale or zero point of an element."""
    return parameter(index[axis]) if len(parameter.shape) else parameter()


def _quantize(attrs: Attrs, data: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """Compute round(data / scale) + zero_point, halves away from zero, limited to the dtype's range."""
    axis = integer(attrs["axis"]) % max(len(data.shape), 1)
    dtype = str(attrs["out_dtype"])
    limits = float(tirx.min_value(dtype).value), float(tirx.max_value(dtype).value)

    def element(*index: Index) -> PrimExpr:
        steps = scalar_functions.round_half_away(data(*index) / _channel_parameter(scale, index, axis))
        moved = steps + _channel_parameter(zero_point, index, axis).astype(data.dtype)
        return scalar_functions.clip(moved, *limits).astype(dtype)

    return te.compute(data.shape, element)


def _dequantize(attrs: Attrs, data: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """Compute (data - zero_point) * scale."""
    axis = integer(attrs["axis"]) % max(len(data.shape), 1)
    dtype = str(attrs["out_dtype"])

    def element(*index: Index) -> PrimExpr:
        distance = data(*index).astype("int32") - _channel_parameter(zero_point, index, axis).astype("int32")
        return distance.astype(dtype) * _channel_parameter(scale, index, axis).astype(dtype)

    return te.compute(data.shape, element)


RULES.update({"qnn.quantize": te_of(_quantize), "qnn.dequantize": te_of(_dequantize)})
