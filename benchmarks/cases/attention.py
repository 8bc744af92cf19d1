"""Attention as transformers have it: softmax(q @ k.T / sqrt(width)) @ v for each head."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.case import BEST, Case, Ratio
from benchmarks.cases.products import normal

_HEADS, _LENGTH, _WIDTH = 8, 128, 64
_SHAPE = (1, _HEADS, _LENGTH, _WIDTH)
_TYPE = f"Tensor[{_SHAPE}, f32]"


def _in_numpy(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q @ k.transpose(0, 1, 3, 2) * q.dtype.type(1 / math.sqrt(_WIDTH))
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ v


def _in_jax(jax, q, k, v):
    scores = q @ k.swapaxes(2, 3) * (1 / math.sqrt(_WIDTH))
    return jax.nn.softmax(scores, axis=-1) @ v


def _in_onnx(graph, q, k, v):
    scale = graph.constant(np.float32(1 / math.sqrt(_WIDTH)))
    scores = graph.Mul(graph.MatMul(q, graph.Transpose(k, perm=[0, 1, 3, 2])), scale)
    return graph.MatMul(graph.Softmax(scores, axis=-1), v)


ROWS = (
    Case(
        f"attention {_HEADS} heads {_LENGTH}x{_WIDTH}",
        "attention",
        (Ratio(BEST, 1.0),),
        normal(q=_SHAPE, k=_SHAPE, v=_SHAPE),
        f"def attention(q: {_TYPE}, k: {_TYPE}, v: {_TYPE}):\n"
        "    return scaled_dot_product_attention(q, k, v)\n",
        _in_numpy,
        torch=lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v),
        jax=_in_jax,
        onnx=_in_onnx,
        flops=4.0 * _HEADS * _LENGTH**2 * _WIDTH,
        nbytes=16.0 * _HEADS * _LENGTH * _WIDTH,
    ),
)
