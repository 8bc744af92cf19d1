"""Softmax and its kin, layer norm and reductions, over the rows (and columns) of a 1024 x 1024 matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import loops
from benchmarks.case import BEST, Case, Goal, Ratio
from benchmarks.cases.products import normal

_SIZE = 1024
_MATRIX = 4.0 * _SIZE**2
_BEST = (Ratio(BEST, 1.0),)
_ALL = (Ratio("numpy", 1.0), Ratio(BEST, 1.0))


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _log_sum_exp(x: np.ndarray) -> np.ndarray:
    most = x.max(axis=1, keepdims=True)
    return np.log(np.exp(x - most).sum(axis=1)) + most[:, 0]


def _layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5) * weight + bias


def _variance_in_onnx(graph: Any, x: str) -> str:
    axes = graph.constant(np.array([1]))
    centred = graph.Sub(x, graph.ReduceMean(x, axes, keepdims=1))
    return str(graph.ReduceMean(graph.Mul(centred, centred), axes, keepdims=0))


def _case(
    name: str,
    goals: tuple[Goal, ...],
    result: str,
    in_numpy: Callable[..., Any],
    in_torch: Callable[..., Any],
    in_jax: Callable[..., Any],
    in_onnx: Callable[..., str],
    numba: str,
    nbytes: float,
) -> Case:
    return Case(
        f"{name} {_SIZE}x{_SIZE}",
        "rows",
        goals,
        normal(x=(_SIZE, _SIZE)),
        f"def function(x: Tensor[({_SIZE}, {_SIZE}), f32]):\n    return {result}\n",
        in_numpy,
        torch=in_torch,
        jax=in_jax,
        onnx=in_onnx,
        numba=getattr(loops, numba),
        nbytes=nbytes,
    )


ROWS = (
    _case(
        "softmax",
        _BEST,
        "softmax(x, axis=1)",
        _softmax,
        lambda torch, x: torch.softmax(x, 1),
        lambda jax, x: jax.nn.softmax(x, axis=1),
        lambda graph, x: graph.Softmax(x, axis=1),
        "softmax",
        2 * _MATRIX,
    ),
    Case(
        f"layer_norm {_SIZE}x{_SIZE}",
        "rows",
        _BEST,
        normal(x=(_SIZE, _SIZE), weight=(_SIZE,), bias=(_SIZE,)),
        f"def function(x: Tensor[({_SIZE}, {_SIZE}), f32], weight: Tensor[({_SIZE},), f32], "
        f"bias: Tensor[({_SIZE},), f32]):\n    return layer_norm(x, ({_SIZE},), weight, bias)\n",
        _layer_norm,
        torch=lambda torch, x, w, b: torch.nn.functional.layer_norm(x, (_SIZE,), w, b),
        jax=lambda jax, x, w, b: (
            (x - x.mean(1, keepdims=True)) * jax.lax.rsqrt(x.var(1, keepdims=True) + 1e-5) * w + b
        ),
        onnx=lambda graph, x, w, b: graph.LayerNormalization(x, w, b, axis=-1, epsilon=1e-5),
        numba=loops.layer_norm,
        nbytes=2 * _MATRIX + 8.0 * _SIZE,
    ),
    _case(
        "log-sum-exp",
        _BEST,
        "logsumexp(x, axis=1)",
        _log_sum_exp,
        lambda torch, x: torch.logsumexp(x, 1),
        lambda jax, x: jax.nn.logsumexp(x, axis=1),
        lambda graph, x: graph.ReduceLogSumExp(x, graph.constant(np.array([1])), keepdims=0),
        "log_sum_exp",
        _MATRIX,
    ),
    _case(
        "row sums",
        _ALL,
        "x.sum(axis=1)",
        lambda x: x.sum(axis=1),
        lambda torch, x: torch.sum(x, 1),
        lambda _, x: x.sum(axis=1),
        lambda graph, x: graph.ReduceSum(x, graph.constant(np.array([1])), keepdims=0),
        "row_sums",
        _MATRIX,
    ),
    _case(
        "column sums",
        _ALL,
        "x.sum(axis=0)",
        lambda x: x.sum(axis=0),
        lambda torch, x: torch.sum(x, 0),
        lambda _, x: x.sum(axis=0),
        lambda graph, x: graph.ReduceSum(x, graph.constant(np.array([0])), keepdims=0),
        "column_sums",
        _MATRIX,
    ),
    _case(
        "argmax of rows",
        _ALL,
        "x.argmax(axis=1)",
        lambda x: x.argmax(axis=1),
        lambda torch, x: torch.argmax(x, 1),
        lambda jax, x: jax.numpy.argmax(x, axis=1),
        lambda graph, x: graph.ArgMax(x, axis=1, keepdims=0),
        "argmax",
        _MATRIX,
    ),
    _case(
        "variance of rows",
        _ALL,
        "x.var(axis=1)",
        lambda x: x.var(axis=1),
        lambda torch, x: torch.var(x, 1, correction=0),
        lambda _, x: x.var(axis=1),
        _variance_in_onnx,
        "variance",
        _MATRIX,
    ),
)
