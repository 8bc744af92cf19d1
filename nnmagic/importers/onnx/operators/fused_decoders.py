"""Import operators of onnxruntime for decoders: rotary positions, root-mean-square norms, small weights.

The standard: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from typing import cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.operators.fused import MICROSOFT, only, per_column, quantize_floats
from nnmagic.importers.onnx.operators.integer_products import multiply_matrices
from nnmagic.importers.onnx.operators.products import matmul
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, constant, op


@operator("SimplifiedLayerNormalization", note="without the output inv_std_var, over the last axis")
def _simplified_layer_normalization(node: OnnxNode) -> Value:
    """Onnxruntime's optimiser writes it into the standard's domain."""
    only(node, "axis", "epsilon", "stash_type")
    data = node[0]
    if node.axis(data.rank, -1) != data.rank - 1 or node.output_count > 1:
        raise UnsupportedError("only the first output, over the last axis, is supported")
    wide = data.cast("float32") if data.dtype in ("float16", "bfloat16") else data
    mean = op("mean", wide * wide, axis=(data.rank - 1,), keepdims=True)
    return (wide / op("sqrt", mean + node.number("epsilon", 1e-5))).cast(data.dtype) * node[1]


# -- rotary positions --------------------------------------------------------------------------------------


@operator("RotaryEmbedding", domain=MICROSOFT, note="without packed batches")
def _rotary_embedding(node: OnnxNode) -> Value:
    only(node, "interleaved", "is_packed_batching", "num_heads", "rotary_embedding_dim", "scale")
    if node.integer("is_packed_batching") or node.number("scale", 1.0) != 1.0:
        raise UnsupportedError("packed batches and scales are not supported")
    data, places, cosines, sines = (node[index] for index in range(4))
    half = shapes.static_shape(cosines, "the size of the table of cosines")[1]
    split = data.rank == 3
    if split:
        width = data.shape[2]
        if not isinstance(width, int):
            raise UnsupportedError("the size of the heads must be known")
        size = int(width) // (node.integer("num_heads") or int(width) // (2 * half))
        heads = [data.shape[0], data.shape[1], int(width) // size, size]
        data = shapes.reshape(data, heads, data)
    else:
        data = shapes.transpose(data, [0, 2, 1, 3])
    if places.shape == (1,):
        places = op("expand_dims", shapes.counting(data, 1) + places.cast("int64"), axis=0)
    turned = turn_heads(data, places, cosines, sines, bool(node.integer("interleaved")))
    if split:
        return shapes.reshape(turned, node[0].shape, node[0])
    return shapes.transpose(turned, [0, 2, 1, 3])


def turn_heads(data: Value, places: Value, cosines: Value, sines: Value, interleaved: bool) -> Value:
    """Turn pairs of elements of (batch, length, heads, size) by the angles of their places.

    The tables of (place, angle) say how many elements are turned; those behind them stay.
    """
    half = shapes.static_shape(cosines, "the size of the table of cosines")[1]
    rows = [op("take", table, places, axis=0, mode="fast") for table in (cosines, sines)]
    cosine, sine = (op("expand_dims", row, axis=2) for row in rows)
    size = int(cast(int, data.shape[3]))
    turning = shapes.slice_axis(data, 3, 0, 2 * half)
    if interleaved:
        pairs = shapes.reshape(turning, [*data.shape[:3], half, 2], data)
        first, second = (shapes.squeeze(shapes.slice_axis(pairs, 4, at, at + 1), [4]) for at in range(2))
    else:
        first, second = (shapes.slice_axis(turning, 3, at, at + half) for at in (0, half))
    halves = [first * cosine - second * sine, first * sine + second * cosine]
    if interleaved:
        both = op("concatenate", [op("expand_dims", part, axis=4) for part in halves], axis=4)
        halves = [shapes.reshape(both, [*data.shape[:3], 2 * half], data)]
    if size > 2 * half:
        halves.append(shapes.slice_axis(data, 3, 2 * half, size))
    return op("concatenate", halves, axis=3) if len(halves) > 1 else halves[0]


# -- small weights -----------------------------------------------------------------------------------------


@operator("MatMulNBits", domain=MICROSOFT, note="with constant weights of 4 or 8 bits, without g_idx")
def _matmul_n_bits(node: OnnxNode) -> Value:
    """Multiply by a matrix of integers of few bits, which has a scale for each block of a column."""
    only(node, "K", "N", "bits", "block_size", "accuracy_level", "weight_prepacked")
    bits, block = node.integer("bits", 4), node.integer("block_size")
    if bits not in (4, 8) or node.get(4) is not None or node.integer("weight_prepacked"):
        raise UnsupportedError("only weights of 4 or 8 bits, in their order, are supported")
    known = [None if node.get(index) is None else node[index].known for index in (1, 2, 3)]
    packed, scales, zeros = known
    if packed is None or scales is None or (zeros is None and node.get(3) is not None):
        raise UnsupportedError("the weights, scales and zero points must be constants")
    rows, columns = node.integer("K"), node.integer("N")
    blocks = -(-rows // block)
    numbers = _unpack(packed.reshape(columns, -1), bits)[:, : blocks * block]
    if zeros is None:
        zero = np.full((columns, blocks), 2 ** (bits - 1), "float32")
    elif zeros.dtype == np.uint8:
        zero = _unpack(zeros.reshape(columns, -1), bits)[:, :blocks].astype("float32")
    else:
        zero = zeros.reshape(columns, blocks).astype("float32")
    parts = numbers.reshape(columns, blocks, block).astype("float32") - zero[:, :, None]
    weights = (parts * scales.reshape(columns, blocks, 1).astype("float32")).reshape(columns, -1)[:, :rows]
    result = matmul(node[0], constant(np.ascontiguousarray(weights.T).astype(node[0].dtype)))
    return result if node.get(5) is None else result + node[5]


def _unpack(packed: np.ndarray, bits: int) -> np.ndarray:
    """Return the numbers in the bytes of each row, the lowest bits first."""
    if bits == 8:
        return packed
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(packed.shape[0], -1)


@operator("QGemm", domain=MICROSOFT)
def _q_gemm(node: OnnxNode) -> Value:
    only(node, "alpha", "transA", "transB")
    lhs, rhs = (
        shapes.transpose(node[index], [1, 0]) if node.integer(name) else node[index]
        for index, name in ((0, "transA"), (3, "transB"))
    )
    total = multiply_matrices(lhs, node[2], rhs, node[5], matmul)
    if node.get(6) is not None:
        total = total.cast("int32") + node[6]
    scale = shapes.scalar(node[1]) * per_column(node[4]) * node.number("alpha", 1.0)
    result = total.cast("float32") * scale
    return result if node.get(7) is None else quantize_floats(result, node[7], node.get(8), node[0].dtype)
