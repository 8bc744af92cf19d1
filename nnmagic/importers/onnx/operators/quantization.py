"""Import quantization: integers with a scale and a zero point, rounded half to even.

The standard: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.element_types import dtype_of
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, op
from nnmagic.relay.types import NUMPY_DTYPES, is_integer


def quantize(scaled: Value, zero: Value | None, dtype: str, bits: int | None = None) -> Value:
    """Round, add the zero point and clip to an integer dtype, or to fewer bits than it has."""
    if not is_integer(dtype):
        raise UnsupportedError(f"quantization to {dtype} is not supported")
    limits = np.iinfo(NUMPY_DTYPES[dtype])  # type: ignore[type-var]  # an integer dtype
    rounded = op("numpy.rint", scaled)
    if zero is not None:
        rounded = rounded + zero.cast(rounded.dtype)
    less = 0 if bits is None else limits.bits - bits
    clipped = rounded.maximum(float(limits.min >> less)).minimum(float(limits.max >> less))
    return replace(clipped.cast("int32" if limits.bits < 32 else "int64").cast(dtype), bits=bits)


def _along(node: OnnxNode, value: Value, data: Value) -> Value:
    """Return a scale or zero point so that it is broadcast to the data: of all, of an axis, or of blocks."""
    block = node.integer("block_size")
    if block:
        axis = node.axis(data.rank, 1)
        repeated = op("repeat", value, repeats=block, axis=axis)
        return shapes.slice_axis(repeated, axis, 0, shapes.static_shape(data)[axis])
    if value.rank == 0:
        return value
    if value.shape == (1,) or value.rank != 1:
        return shapes.scalar(value) if value.shape == (1,) else value
    axis = node.axis(data.rank, 1)
    after = data.rank - 1 - axis
    return op("expand_dims", value, axis=1, num_newaxis=after) if after else value


@operator("QuantizeLinear", note="to 4, 8, 16 and 32 bits")
def _quantize_linear(node: OnnxNode) -> Value:
    data, zero = node[0], node.get(2)
    number = node.integer("output_dtype")
    bits = None if zero is None else zero.bits
    if number in _FOUR_BITS:
        dtype, bits = _FOUR_BITS[number], 4
    else:
        dtype = dtype_of(number) if number else zero.dtype if zero is not None else "uint8"
    precision = node.integer("precision")
    work = dtype_of(precision) if precision else "float32"
    if data.dtype == "float64":
        work = "float64"
    scaled = data.cast(work) / _along(node, node[1], data).cast(work)
    return quantize(scaled, None if zero is None else _along(node, zero, data), dtype, bits)


#: The dtypes that hold ONNX's integers of 4 bits, by the numbers of these.
_FOUR_BITS = {21: "uint8", 22: "int8"}


@operator("DequantizeLinear", note="from 4, 8, 16 and 32 bits")
def _dequantize_linear(node: OnnxNode) -> Value:
    data, scale, zero = node[0], node[1], node.get(2)
    if not is_integer(data.dtype):
        raise UnsupportedError(f"tensors of {data.dtype} are not supported")
    number = node.integer("output_dtype")
    dtype = dtype_of(number) if number else scale.dtype
    wide = data.cast("int64" if data.dtype in ("int32", "uint32") else "int32")
    if zero is not None:
        wide = wide - _along(node, zero, data).cast(wide.dtype)
    return (wide.cast("float32") * _along(node, scale, data).cast("float32")).cast(dtype)


@operator("DynamicQuantizeLinear")
def _dynamic_quantize_linear(node: OnnxNode) -> list[Value]:
    return list(quantize_dynamically(node[0]))


def quantize_dynamically(data: Value) -> tuple[Value, Value, Value]:
    """Return a tensor in uint8, with the scale and the zero point that its range gives."""
    axes = tuple(range(data.rank))
    low = op("min", data, axis=axes).minimum(0) if axes else data.minimum(0)
    high = op("max", data, axis=axes).maximum(0) if axes else data.maximum(0)
    scale = (high - low) / 255
    safe = scale.equal(0).choose(scale.like(1), scale)
    zero = op("numpy.rint", (-low / safe).maximum(0).minimum(255)).cast("int32").cast("uint8")
    return quantize(data / safe, zero, "uint8"), scale, zero
