"""Attention as transformers have it: softmax(q @ k.T / sqrt(width)) @ v for each head."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from benchmarks.case import BEST, Case, Ratio
from benchmarks.cases.products import normal

_HEADS, _WIDTH = 8, 64


def _in_numpy(q: np.ndarray, k: np.ndarray, v: np.ndarray, *, causal: bool) -> np.ndarray:
    scores = q @ k.transpose(0, 1, 3, 2) * q.dtype.type(1 / math.sqrt(_WIDTH))
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ v


def _in_jax(jax, q, k, v, *, causal):
    scores = q @ k.swapaxes(2, 3) * (1 / math.sqrt(_WIDTH))
    if causal:
        scores = jax.numpy.where(jax.numpy.tri(*scores.shape[-2:], dtype=bool), scores, -jax.numpy.inf)
    return jax.nn.softmax(scores, axis=-1) @ v


def _in_onnx(graph, q, k, v):
    scale = graph.constant(np.float32(1 / math.sqrt(_WIDTH)))
    scores = graph.Mul(graph.MatMul(q, graph.Transpose(k, perm=[0, 1, 3, 2])), scale)
    return graph.MatMul(graph.Softmax(scores, axis=-1), v)


def _in_torch(torch, q, k, v, *, causal):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


#: What cells compute: named, and written out.
_NAMED = "return scaled_dot_product_attention(q, k, v)"
_CAUSAL = "return scaled_dot_product_attention(q, k, v, is_causal=True)"
_WRITTEN = f"return softmax(q @ k.transpose(0, 1, 3, 2) / {math.sqrt(_WIDTH)}, axis=-1) @ v"


def _case(name: str, length: int, goal: Ratio, body: str) -> Case:
    shape = (1, _HEADS, length, _WIDTH)
    tensor, causal = f"Tensor[{shape}, f32]", body == _CAUSAL
    return Case(
        f"{name} {_HEADS} heads {length}x{_WIDTH}",
        "attention",
        (goal,),
        normal(q=shape, k=shape, v=shape),
        f"def attention(q: {tensor}, k: {tensor}, v: {tensor}):\n    {body}\n",
        partial(_in_numpy, causal=causal),
        torch=partial(_in_torch, causal=causal),
        jax=partial(_in_jax, causal=causal),
        onnx=None if causal else _in_onnx,
        flops=4.0 * _HEADS * length**2 * _WIDTH / (2 if causal else 1),
        nbytes=16.0 * _HEADS * length * _WIDTH,
    )


ROWS = (
    _case("attention", 128, Ratio(BEST, 1.0), _NAMED),
    _case("attention", 2048, Ratio("torch", 1.0), _NAMED),
    _case("causal attention", 2048, Ratio("torch", 1.0), _CAUSAL),
    _case("attention, written out,", 2048, Ratio("torch", 1.0), _WRITTEN),
)
