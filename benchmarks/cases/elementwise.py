"""Element-wise functions of a million floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import loops
from benchmarks.case import BEST, Case, Ratio
from benchmarks.cases.products import normal

_SIZE = 1024
_SQUARE = f"Tensor[({_SIZE}, {_SIZE}), f32]"


def _erf(x: np.ndarray) -> np.ndarray:
    """NumPy has no erf; Abramowitz and Stegun 7.1.26 is what one writes (error 1.5e-7)."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.copysign(1 - series * np.exp(-x * x), x)


def _of_one_array(name: str, numpy: Callable[..., Any], **peers: Callable[..., Any]) -> Case:
    """Return the row of a function that cells and loops.py have under the same name."""
    return Case(
        f"{name} {_SIZE}x{_SIZE}",
        "element-wise",
        (Ratio(BEST, 1.0),),
        normal(x=(_SIZE, _SIZE)),
        f"def function(x: {_SQUARE}):\n    return {name}(x)\n",
        numpy,
        numba=getattr(loops, name),
        nbytes=8.0 * _SIZE**2,
        **peers,
    )


ROWS = (
    Case(
        "chain of 5, 1M floats",
        "element-wise",
        (Ratio("numpy", 5.0), Ratio(BEST, 1.0)),
        normal(a=(_SIZE, _SIZE), b=(_SIZE, _SIZE)),
        f"def chain(a: {_SQUARE}, b: {_SQUARE}):\n    return relu((a + b) * a - b) * 0.5\n",
        lambda a, b: np.maximum((a + b) * a - b, 0) * a.dtype.type(0.5),
        torch=lambda torch, a, b: torch.relu((a + b) * a - b) * 0.5,
        jax=lambda jax, a, b: jax.nn.relu((a + b) * a - b) * 0.5,
        onnx=lambda graph, a, b: graph.Mul(
            graph.Relu(graph.Sub(graph.Mul(graph.Add(a, b), a), b)), graph.constant(np.float32(0.5))
        ),
        numba=loops.chain,
        nbytes=12.0 * _SIZE**2,
    ),
    _of_one_array(
        "sigmoid",
        lambda x: 1 / (1 + np.exp(-x)),
        torch=lambda torch, x: torch.sigmoid(x),
        jax=lambda jax, x: jax.nn.sigmoid(x),
        onnx=lambda graph, x: graph.Sigmoid(x),
    ),
    _of_one_array(
        "exp",
        np.exp,
        torch=lambda torch, x: torch.exp(x),
        jax=lambda jax, x: jax.numpy.exp(x),
        onnx=lambda graph, x: graph.Exp(x),
    ),
    _of_one_array(
        "gelu",
        lambda x: 0.5 * x * (1 + _erf(x * math.sqrt(0.5))),
        torch=lambda torch, x: torch.nn.functional.gelu(x),
        jax=lambda jax, x: jax.nn.gelu(x, approximate=False),
        onnx=lambda graph, x: graph.Gelu(x),
    ),
    Case(
        "x.T + y 1024x1024",
        "element-wise",
        (Ratio(BEST, 1.0),),
        normal(x=(_SIZE, _SIZE), y=(_SIZE, _SIZE)),
        f"def function(x: {_SQUARE}, y: {_SQUARE}):\n    return x.T + y\n",
        lambda x, y: x.T + y,
        torch=lambda _, x, y: x.T + y,
        jax=lambda _, x, y: x.T + y,
        onnx=lambda graph, x, y: graph.Add(graph.Transpose(x, perm=[1, 0]), y),
        numba=loops.add_transposed,
        nbytes=12.0 * _SIZE**2,
    ),
)
