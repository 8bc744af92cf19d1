"""Import onnxruntime's operators of attention: of encoders, of decoders with a past, of grouped heads.

The standard: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import cast

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.operators.fused import MICROSOFT, only
from nnmagic.importers.onnx.operators.fused_decoders import turn_heads
from nnmagic.importers.onnx.operators.products import matmul
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, op

_MASKS = "with masks of 0 and 1"


@operator("Attention", domain=MICROSOFT, note=_MASKS)
def _attention(node: OnnxNode) -> list[Value | None]:
    only(node, "num_heads", "unidirectional", "scale", "mask_filter_value", "qkv_hidden_sizes")
    _refuse(node, (6,), outputs=2)
    count = node.integer("num_heads")
    product = matmul(node[0], node[1])
    bias = node.get(2)
    if bias is not None:
        product = product + bias
    width = int(cast(int, product.shape[2]))
    sizes = node.ints("qkv_hidden_sizes") or [width // 3] * 3
    bounds = [0, sizes[0], sizes[0] + sizes[1], sum(sizes)]
    query, key, value = (
        _heads(shapes.slice_axis(product, 2, begin, end), count) for begin, end in itertools.pairwise(bounds)
    )
    past = node.get(4)
    if past is not None:
        key, value = (
            _prepend_past(shapes.slice_axis(past, 0, at, at + 1), new) for at, new in ((0, key), (1, value))
        )
    added = _mask_bias(node, node.get(3), product.dtype)
    if node.get(5) is not None:
        added.append(node[5])
    if node.integer("unidirectional"):
        added.append(_causal(query, key))
    result = _attend(query, key, value, added, node.number("scale") or 1 / math.sqrt(sizes[0] // count))
    if node.output_count == 1:
        return [result]
    return [result, op("stack", [key, value], axis=0)]


@operator("MultiHeadAttention", domain=MICROSOFT, note=_MASKS)
def _multi_head_attention(node: OnnxNode) -> list[Value | None]:
    only(node, "num_heads", "unidirectional", "scale", "mask_filter_value")
    _refuse(node, (8, 9), outputs=3)
    count = node.integer("num_heads")
    query, key, value = node[0], node.get(1), node.get(2)
    if key is None or value is None or query.rank != 3 or key.rank != 3 or value.rank != 3:
        raise UnsupportedError("packed queries, keys and values are not supported")
    bias = node.get(3)
    if bias is not None:
        sizes = [int(cast(int, tensor.shape[2])) for tensor in (query, key, value)]
        ends = [sum(sizes[: index + 1]) for index in range(3)]
        biases = [shapes.slice_axis(bias, 0, end - size, end) for end, size in zip(ends, sizes, strict=True)]
        query, key, value = query + biases[0], key + biases[1], value + biases[2]
    added = _mask_bias(node, node.get(4), query.dtype)
    if node.get(5) is not None:
        added.append(node[5])
    query, key, value = (_heads(tensor, count) for tensor in (query, key, value))
    if node.get(6) is not None:
        key, value = _prepend_past(node[6], key), _prepend_past(node[7], value)
    if node.integer("unidirectional"):
        added.append(_causal(query, key))
    scale = node.number("scale") or 1 / math.sqrt(int(cast(int, query.shape[3])))
    results: list[Value | None] = [_attend(query, key, value, added, scale), key, value]
    return results[: node.output_count]


@operator("GroupQueryAttention", domain=MICROSOFT, note="of sequences that are all of one length")
def _group_query_attention(node: OnnxNode) -> list[Value | None]:
    """Attend with several heads of queries for each head of keys; the keys of the past come first."""
    names = ("num_heads", "kv_num_heads", "scale", "softcap", "do_rotary", "rotary_interleaved")
    only(node, *names, "local_window_size", "smooth_softmax")
    _refuse(node, range(11, len(node.inputs)), outputs=3)
    if node.integer("smooth_softmax") or node.integer("local_window_size", -1) >= 0:
        raise UnsupportedError("a smooth softmax and local windows are not supported")
    count, groups = node.integer("num_heads"), node.integer("kv_num_heads")
    query, key, value = _grouped_heads(node, count, groups)
    past = node.get(3)
    length = shapes.size_along(query, 1)
    if past is not None:
        length = length + shapes.size_along(past, 2)
    of_one_length = op("all", (node[5].cast("int64") + 1).equal(length))
    node.block.check(of_one_length, "GroupQueryAttention: seqlens_k must be the length with the past, less 1")
    if node.integer("do_rotary"):
        places = node.get(9)
        if places is None:
            begin = length - shapes.size_along(query, 1)
            places = op("expand_dims", shapes.counting(query, 1) + begin, axis=0)
        interleaved = bool(node.integer("rotary_interleaved"))
        query, key = (turn_heads(tensor, places, node[7], node[8], interleaved) for tensor in (query, key))
    query, key, value = (shapes.transpose(tensor, [0, 2, 1, 3]) for tensor in (query, key, value))
    if past is not None:
        key, value = _prepend_past(past, key), _prepend_past(node[4], value)
    size = int(cast(int, query.shape[3]))
    batch, new = query.shape[0], query.shape[2]
    apart = shapes.reshape(query, [batch, groups, count // groups, new, size], query)
    keys, values = (op("expand_dims", tensor, axis=2) for tensor in (key, value))
    scores = matmul(apart, shapes.transpose(keys, [0, 1, 2, 4, 3])) * (
        node.number("scale") or 1 / math.sqrt(size)
    )
    if (cap := node.number("softcap")) > 0:
        scores = op("tanh", scores / cap) * cap
    bias = node.get(10)
    if bias is not None:
        parts = [1, 1] if bias.shape[1] == 1 else [groups, count // groups]
        scores = scores + shapes.reshape(bias, [bias.shape[0], *parts, *bias.shape[2:]], bias)
    result = matmul(op("nn.softmax", scores + _causal(query, key), axis=-1), values)
    result = shapes.reshape(result, [batch, count, new, size], query)
    results: list[Value | None] = [_join_heads(result), key, value]
    return results[: node.output_count]


def _grouped_heads(node: OnnxNode, count: int, groups: int) -> tuple[Value, Value, Value]:
    """Return queries, keys and values of (batch, length, heads, size), which may come as one array."""
    query, key, value = node[0], node.get(1), node.get(2)
    if key is None or value is None:
        size = _width(query) // (count + 2 * groups)
        ends = [count * size, (count + groups) * size, (count + 2 * groups) * size]
        query, key, value = (
            shapes.slice_axis(query, 2, begin, end) for begin, end in itertools.pairwise([0, *ends])
        )
    return _split_heads(query, count), _split_heads(key, groups), _split_heads(value, groups)


def _width(data: Value) -> int:
    width = data.shape[2]
    if not isinstance(width, int):
        raise UnsupportedError("the size of the heads must be known")
    return int(width)


def _split_heads(data: Value, count: int) -> Value:
    """Return (batch, length, heads * size) as (batch, length, heads, size)."""
    return shapes.reshape(data, [data.shape[0], data.shape[1], count, _width(data) // count], data)


def _heads(data: Value, count: int) -> Value:
    """Return (batch, length, heads * size) as (batch, heads, length, size)."""
    return shapes.transpose(_split_heads(data, count), [0, 2, 1, 3])


def _join_heads(heads: Value) -> Value:
    """Return (batch, heads, length, size) as (batch, length, heads * size)."""
    result = shapes.transpose(heads, [0, 2, 1, 3])
    width = int(cast(int, result.shape[2])) * int(cast(int, result.shape[3]))
    return shapes.reshape(result, [result.shape[0], result.shape[1], width], result)


def _prepend_past(past: Value, new: Value) -> Value:
    """Return keys or values of (batch, heads, length, size), those of the past first."""
    past = shapes.squeeze(past, [0]) if past.rank > new.rank else past
    return op("concatenate", [past, new], axis=2)


def _attend(query: Value, key: Value, value: Value, added: Sequence[Value], scale: float) -> Value:
    """Return attention of (batch, heads, length, size) as (batch, length, heads * size)."""
    scores = matmul(query, shapes.transpose(key, [0, 1, 3, 2])) * scale
    for each in added:
        scores = scores + each
    return _join_heads(matmul(op("nn.softmax", scores, axis=-1), value))


def _mask_bias(node: OnnxNode, mask: Value | None, dtype: str) -> list[Value]:
    """Return what a mask of ones and zeros for each key adds to the scores."""
    if mask is None:
        return []
    if mask.rank not in (2, 3):
        raise UnsupportedError(f"a mask of rank {mask.rank} is not supported", "give one of (batch, length)")
    kept = op("expand_dims", mask, axis=1, num_newaxis=4 - mask.rank)
    return [(1 - kept.cast(dtype)) * node.number("mask_filter_value", -10000.0)]


def _refuse(node: OnnxNode, indices: Sequence[int], outputs: int) -> None:
    """Refuse inputs, and more outputs than so many."""
    present = [index for index in indices if index < len(node.inputs) and node.inputs[index] is not None]
    if present:
        raise UnsupportedError(f"the input {present[0]} is not supported")
    if node.output_count > outputs:
        raise UnsupportedError(f"only the first {outputs} outputs are supported")


def _causal(query: Value, key: Value) -> Value:
    """Return what hides the keys behind each query; the last query sees all keys."""
    places = shapes.counting(query, 2) + (shapes.size_along(key, 2) - shapes.size_along(query, 2))
    hidden = op("expand_dims", places, axis=1) < shapes.counting(key, 2)
    return hidden.choose(query.like(-math.inf), query.like(0))
