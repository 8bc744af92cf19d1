"""Import attention, in the form that the engine's own kernel computes."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.operators.products import matmul
from nnmagic.importers.onnx.values import Value, op
from nnmagic.importers.torch.calls import AtenCall, scalar_constant
from nnmagic.importers.torch.mathematics import wide
from nnmagic.importers.torch.registry import operator


@operator("scaled_dot_product_attention", note="without dropout")
def _attention(call: AtenCall) -> Value:
    """Compute softmax(query @ key.T * scale + mask) @ value (Vaswani et al., arXiv:1706.03762)."""
    query, key, value = (wide(call[name]) for name in ("query", "key", "value"))
    if call.number("dropout_p"):
        raise UnsupportedError("random numbers are not supported", "capture the module after .eval()")
    if 0 in call.shape:
        return call.full(call.shape, scalar_constant(0, query.dtype))
    if call.flag("enable_gqa"):
        key, value = (_repeat_heads(call, item, query) for item in (key, value))
    width = query.shape[-1]
    scale = call.argument("scale")
    if scale is None:
        if not isinstance(width, int):
            raise UnsupportedError("the size of the last axis must be known")
        scale = 1 / math.sqrt(int(width))
    flipped = shapes.transpose(key, [*range(key.rank - 2), key.rank - 1, key.rank - 2])
    scores = matmul(query, flipped) * (scale if isinstance(scale, Value) else float(scale))
    if call.flag("is_causal"):
        rows = shapes.unsqueeze(shapes.counting(query, query.rank - 2), [1])
        columns = shapes.counting(key, key.rank - 2)
        scores = (columns <= rows).choose(scores, -math.inf)
    mask = call.get("attn_mask")
    empty: Value | None = None
    if mask is not None:
        if mask.dtype == "bool":
            scores = mask.choose(scores, -math.inf)
            empty = op("logical_not", op("any", mask, axis=(mask.rank - 1,), keepdims=True))
        else:
            scores = scores + wide(mask).cast(scores.dtype)
    shares = op("nn.softmax", scores, axis=scores.rank - 1)
    if empty is not None and not (mask is not None and mask.known is not None and _never_empty(mask.known)):
        shares = empty.choose(shares.like(0), shares)  # a row that may look at nothing gives 0
    return matmul(shares, value)


def _never_empty(mask: np.ndarray) -> bool:
    return bool(mask.any(axis=-1).all())


def _repeat_heads(call: AtenCall, item: Value, query: Value) -> Value:
    """Repeat the heads of keys and values, each of which serves several of the query's."""
    heads, query_heads = (int(cast(int, tensor.shape[-3])) for tensor in (query, item))
    if heads == query_heads:
        return item
    lead = item.shape[:-3]
    spread = shapes.unsqueeze(item, [item.rank - 2])
    wide_shape = [*lead, query_heads, heads // query_heads, *item.shape[-2:]]
    return call.reshape(call.expand(spread, wide_shape), [*lead, heads, *item.shape[-2:]])
