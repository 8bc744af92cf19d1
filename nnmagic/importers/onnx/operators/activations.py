"""Import activation functions.

The standard: https://onnx.ai/onnx/operators/onnx__PRelu.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.registry import operator, operators
from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.relay.functions import activations, special
from nnmagic.relay.ops.dims import product


@operator("PRelu")
def _prelu(node: OnnxNode) -> Value:
    data, slope = node[0], node[1]
    if node.since < 7 and slope.rank == 1 and data.rank > 2:
        slope = op("expand_dims", slope, axis=1, num_newaxis=data.rank - 2)
    return (data < 0).choose(data * slope, data)


@operator("Gelu")
@operator("Gelu", domain="com.microsoft")
def _gelu(node: OnnxNode) -> Value:
    return activations.gelu(node[0], node.text("approximate", "none"))


@operator("Shrink")
def _shrink(node: OnnxNode) -> Value:
    data, bias, border = node[0], node.number("bias"), node.number("lambd", 0.5)
    if not data.is_float:
        raise UnsupportedError(f"tensors of {data.dtype} are not supported", "cast to float32 before it")
    shrunk = (data > border).choose(data - bias, data.like(0))
    return (data < -border).choose(data + bias, shrunk)


def flatten_at(data: Value, axis: int) -> Value:
    """Return a tensor as a matrix: the axes before ``axis`` are rows."""
    return shapes.reshape(data, [product(data.shape[:axis]), product(data.shape[axis:])])


def _normalize(node: OnnxNode, relay: str) -> Value:
    """Apply softmax or its kind: before opset 13 to the matrix that is flattened at the axis."""
    data = node[0]
    if node.since >= 13:
        return op(relay, data, axis=node.axis(data.rank, -1))
    axis = node.axis(data.rank, 1)
    if axis == data.rank - 1:
        return op(relay, data, axis=axis)
    return shapes.reshape(op(relay, flatten_at(data, axis), axis=1), data.shape, data)


@operator("Hardmax")
def _hardmax(node: OnnxNode) -> Value:
    data = node[0]
    axis = node.axis(data.rank, -1 if node.since >= 13 else 1)
    flat = flatten_at(data, axis) if node.since < 13 else data
    along = 1 if node.since < 13 else axis
    size = flat.shape[along]
    if not isinstance(size, int):
        raise UnsupportedError("the size of its axis must be known", "give the input a fixed shape")
    best = op("argmax", flat, axis=along)
    on, off = constant(1, data.dtype), constant(0, data.dtype)
    hot = op("one_hot", best, on, off, depth=int(size), axis=along, dtype=data.dtype)
    return shapes.reshape(hot, data.shape, data) if node.since < 13 else hot


def activation(name: str, x: Value, alpha: float | None = None, beta: float | None = None) -> Value:
    """Apply an activation by its name, as recurrent layers have them. Raises UnsupportedError."""
    match name.lower():
        case "relu":
            return op("nn.relu", x)
        case "tanh" | "sigmoid":
            return op(name.lower(), x)
        case "affine":
            return x * (1.0 if alpha is None else alpha) + (0.0 if beta is None else beta)
        case "leakyrelu":
            return op("nn.leaky_relu", x, alpha=0.01 if alpha is None else alpha)
        case "thresholdedrelu":
            return (x > (1.0 if alpha is None else alpha)).choose(x, 0)
        case "scaledtanh":
            return (1.0 if alpha is None else alpha) * op("tanh", x * (1.0 if beta is None else beta))
        case "hardsigmoid":
            inner = x * (0.2 if alpha is None else alpha) + (0.5 if beta is None else beta)
            return inner.maximum(0).minimum(1)
        case "elu":
            return activations.elu(x, 1.0 if alpha is None else alpha)
        case "softsign":
            return activations.softsign(x)
        case "softplus":
            return special.softplus(x)
    raise UnsupportedError(f"the activation {name!r} is not known")


@operator("Relu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Elu", "Softsign", "Softplus")
def _activation(node: OnnxNode) -> Value:
    numbers = [node.number(each) if each in node.attributes else None for each in ("alpha", "beta")]
    return activation(node.op_type, node[0], *numbers)


def pick(values: Sequence[float] | None, index: int) -> float | None:
    """Return an item of an optional list."""
    return values[index] if values is not None and index < len(values) else None


operators(
    {
        "Celu": lambda node: activations.elu(
            node[0], (alpha := node.number("alpha", 1.0)), 1 / alpha if alpha else math.inf
        ),
        "HardSwish": lambda node: activations.hard_swish(node[0]),
        "LogSoftmax": lambda node: _normalize(node, "nn.log_softmax"),
        "Mish": lambda node: activations.mish(node[0]),
        "Selu": lambda node: (
            activations.elu(node[0], node.number("alpha", 1.6732631921768188))
            * node.number("gamma", 1.0507010221481323)
        ),
        "Softmax": lambda node: _normalize(node, "nn.softmax"),
        "Swish": lambda node: activations.swish(node[0], node.number("alpha", 1.0)),
    }
)
