"""Import activation functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import Node
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, op
from nnmagic.importers.onnx.values import constant as constant_of
from nnmagic.relay.functions import special


@operator("Relu")
def _relu(node: Node) -> Value:
    return op("nn.relu", node[0])


@operator("LeakyRelu")
def _leaky_relu(node: Node) -> Value:
    data = node[0]
    return (data < 0).choose(data * node.number("alpha", 0.01), data)


@operator("PRelu")
def _prelu(node: Node) -> Value:
    data, slope = node[0], node[1]
    if node.since < 7 and slope.rank == 1 and data.rank > 2:
        slope = op("expand_dims", slope, axis=1, num_newaxis=data.rank - 2)
    return (data < 0).choose(data * slope, data)


@operator("Elu")
def _elu(node: Node) -> Value:
    data = node[0]
    return (data > 0).choose(data, op("numpy.expm1", data.minimum(0)) * node.number("alpha", 1.0))


@operator("Celu")
def _celu(node: Node) -> Value:
    data, alpha = node[0], node.number("alpha", 1.0)
    return data.maximum(0) + (op("numpy.expm1", data.minimum(0) / alpha) * alpha)


@operator("Selu")
def _selu(node: Node) -> Value:
    data = node[0]
    alpha, gamma = node.number("alpha", 1.6732631921768188), node.number("gamma", 1.0507010221481323)
    return (data > 0).choose(data, op("numpy.expm1", data.minimum(0)) * alpha) * gamma


@operator("HardSigmoid")
def _hard_sigmoid(node: Node) -> Value:
    data = node[0] * node.number("alpha", 0.2) + node.number("beta", 0.5)
    return data.maximum(0).minimum(1)


@operator("HardSwish")
def _hard_swish(node: Node) -> Value:
    return node[0] * (node[0] * (1 / 6) + 0.5).maximum(0).minimum(1)


@operator("Mish")
def _mish(node: Node) -> Value:
    return node[0] * op("tanh", special.softplus(node[0]))


@operator("Softplus")
def _softplus(node: Node) -> Value:
    return special.softplus(node[0])


@operator("Softsign")
def _softsign(node: Node) -> Value:
    return node[0] / (1 + op("abs", node[0]))


@operator("Swish")
def _swish(node: Node) -> Value:
    return node[0] * op("sigmoid", node[0] * node.number("alpha", 1.0))


@operator("Gelu")
@operator("Gelu", domain="com.microsoft")
def _gelu(node: Node) -> Value:
    data = node[0]
    if node.text("approximate", "none") == "tanh":
        inner = math.sqrt(2 / math.pi) * (data + 0.044715 * (data * data * data))
        return 0.5 * data * (1 + op("tanh", inner))
    return 0.5 * data * (1 + op("erf", data * math.sqrt(0.5)))


@operator("Shrink")
def _shrink(node: Node) -> Value:
    data, bias, border = node[0], node.number("bias"), node.number("lambd", 0.5)
    if not data.is_float:
        raise UnsupportedError(f"tensors of {data.dtype} are not supported", "cast to float32 before it")
    shrunk = (data > border).choose(data - bias, data.like(0))
    return (data < -border).choose(data + bias, shrunk)


@operator("ThresholdedRelu")
def _thresholded_relu(node: Node) -> Value:
    return (node[0] > node.number("alpha", 1.0)).choose(node[0], 0)


def flatten_at(data: Value, axis: int) -> Value:
    """Return a tensor as a matrix: the axes before ``axis`` are rows."""
    from nnmagic.importers.onnx.shapes import reshape
    from nnmagic.relay.ops.dims import product

    return reshape(data, [product(data.shape[:axis]), product(data.shape[axis:])])


def _normalized(node: Node, relay: str) -> Value:
    """Apply softmax or its kind: before opset 13 to the matrix that is flattened at the axis."""
    data = node[0]
    if node.since >= 13:
        return op(relay, data, axis=node.axis(data.rank, -1))
    axis = node.axis(data.rank, 1)
    if axis == data.rank - 1:
        return op(relay, data, axis=axis)
    from nnmagic.importers.onnx.shapes import reshape

    return reshape(op(relay, flatten_at(data, axis), axis=1), data.shape, data)


@operator("Softmax")
def _softmax(node: Node) -> Value:
    return _normalized(node, "nn.softmax")


@operator("LogSoftmax")
def _log_softmax(node: Node) -> Value:
    return _normalized(node, "nn.log_softmax")


@operator("Hardmax")
def _hardmax(node: Node) -> Value:
    from nnmagic.importers.onnx.shapes import reshape

    data = node[0]
    axis = node.axis(data.rank, -1 if node.since >= 13 else 1)
    flat = flatten_at(data, axis) if node.since < 13 else data
    along = 1 if node.since < 13 else axis
    size = flat.shape[along]
    if not isinstance(size, int):
        raise UnsupportedError("the size of its axis must be known", "give the input a fixed shape")
    best = op("argmax", flat, axis=along)
    hot = op(
        "one_hot",
        best,
        constant_of(1, data.dtype),
        constant_of(0, data.dtype),
        depth=int(size),
        axis=along,
        dtype=data.dtype,
    )
    return reshape(hot, data.shape, data) if node.since < 13 else hot


def activation(name: str, x: Value, alpha: float | None, beta: float | None) -> Value:
    """Apply an activation of a recurrent layer, by name. Raises UnsupportedError."""
    match name.lower():
        case "relu":
            return op("nn.relu", x)
        case "tanh":
            return op("tanh", x)
        case "sigmoid":
            return op("sigmoid", x)
        case "affine":
            return x * (1.0 if alpha is None else alpha) + (0.0 if beta is None else beta)
        case "leakyrelu":
            return (x < 0).choose(x * (0.01 if alpha is None else alpha), x)
        case "thresholdedrelu":
            return (x > (1.0 if alpha is None else alpha)).choose(x, 0)
        case "scaledtanh":
            return (1.0 if alpha is None else alpha) * op("tanh", x * (1.0 if beta is None else beta))
        case "hardsigmoid":
            inner = x * (0.2 if alpha is None else alpha) + (0.5 if beta is None else beta)
            return inner.maximum(0).minimum(1)
        case "elu":
            return (x > 0).choose(x, op("numpy.expm1", x.minimum(0)) * (1.0 if alpha is None else alpha))
        case "softsign":
            return x / (1 + op("abs", x))
        case "softplus":
            return special.softplus(x)
    raise UnsupportedError(f"the activation {name!r} is not known")


def pick(values: Sequence[float] | None, index: int) -> float | None:
    """Return an item of an optional list."""
    return values[index] if values is not None and index < len(values) else None
