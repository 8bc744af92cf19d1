"""Export quantisation and products of quantised tensors.

The standard: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
"""

from __future__ import annotations

import numpy as np

from nnmagic.exporters.onnx.errors import ExportRefusalError
from nnmagic.exporters.onnx.operators.elementwise import round_away
from nnmagic.exporters.onnx.registry import operator
from nnmagic.exporters.onnx.sites import ExportCall
from nnmagic.relay.types import is_integer


def _parameters(site: ExportCall) -> list[str]:
    """Return the scale and the zero point, so that they broadcast with the data."""
    axis = site.axis() if site.rank else 0
    return [site.along(site.args[i], axis, site.rank) if site.shape(i) else site.args[i] for i in (1, 2)]


@operator("qnn.quantize")
def _quantize(site: ExportCall) -> str:
    """Round half away from zero, as Relay does; ONNX's QuantizeLinear rounds half to even."""
    scale, zero = _parameters(site)
    rounded = round_away(site, site.node("Div", site.args[0], scale))
    shifted = site.node("Add", rounded, site.cast(zero, site.dtype))
    limits = np.iinfo(site.result_dtype)
    limited = site.node("Clip", shifted, site.constant(limits.min), site.constant(limits.max))
    return site.cast(limited, site.result_dtype)


@operator("qnn.dequantize")
def _dequantize(site: ExportCall) -> str:
    scale, zero = _parameters(site)
    if not is_integer(site.dtype):
        raise ExportRefusalError(f"ONNX does not dequantize {site.dtype}")
    distance = site.node("Sub", site.operand(0, "int32"), site.cast(zero, "int32"))
    return site.node("Mul", site.cast(distance, site.result_dtype), scale)
