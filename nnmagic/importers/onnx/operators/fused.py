"""Import the operators of ``com.microsoft`` that onnxruntime's optimiser writes: several fused into one.

The standard: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.operators.activations import activation
from nnmagic.importers.onnx.operators.convolutions import convolve, with_bias
from nnmagic.importers.onnx.operators.integer_products import multiply_matrices, shifted
from nnmagic.importers.onnx.operators.products import matmul
from nnmagic.importers.onnx.operators.quantization import quantize
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, op
from nnmagic.relay.functions import activations
from nnmagic.relay.functions.normalization import rms_norm

MICROSOFT = "com.microsoft"


def only(node: OnnxNode, *names: str) -> None:
    """Refuse attributes that are not known: no schema says what they mean."""
    for name in node.attributes:
        if name not in names:
            raise UnsupportedError(f"the attribute {name!r} is not supported")


# -- activations -----------------------------------------------------------------------------------------


@operator("BiasGelu", domain=MICROSOFT)
def _bias_gelu(node: OnnxNode) -> Value:
    only(node)
    return activations.gelu(node[0] + node[1])


@operator("FastGelu", domain=MICROSOFT)
def _fast_gelu(node: OnnxNode) -> Value:
    only(node)
    bias = node.get(1)
    return activations.gelu(node[0] if bias is None else node[0] + bias, "tanh")


@operator("QuickGelu", domain=MICROSOFT)
def _quick_gelu(node: OnnxNode) -> Value:
    only(node, "alpha")
    return activations.swish(node[0], node.number("alpha", 1.702))


def _activate(data: Value, name: str, numbers: Sequence[float]) -> Value:
    """Apply the activation that an operator has at its end."""
    match name:
        case "":
            return data
        case "Clip":
            low, high = [*numbers, *(-math.inf, math.inf)[len(numbers) :]][:2]
            return data.maximum(low).minimum(high)
        case "Relu" | "Tanh" | "Sigmoid" | "LeakyRelu" | "HardSigmoid":
            return activation(name, data, *numbers[:2])
    raise UnsupportedError(f"the activation {name!r} is not supported")


# -- products --------------------------------------------------------------------------------------------


@operator("FusedConv", domain=MICROSOFT)
def _fused_conv(node: OnnxNode) -> Value:
    convolution = ("kernel_shape", "strides", "pads", "dilations", "group", "auto_pad")
    only(node, *convolution, "activation", "activation_params")
    result = with_bias(convolve(node, node[0], node[1]), node.get(2))
    added = node.get(3)
    if added is not None:
        result = result + added
    return _activate(result, node.text("activation"), node.floats("activation_params") or [])


@operator("FusedGemm", domain=MICROSOFT)
def _fused_gemm(node: OnnxNode) -> Value:
    numbers = ("activation_alpha", "activation_beta", "activation_gamma")
    only(node, "alpha", "beta", "transA", "transB", "activation", *numbers)
    lhs, rhs = (
        shapes.transpose(node[index], [1, 0]) if node.integer(name) else node[index]
        for index, name in enumerate(("transA", "transB"))
    )
    result = matmul(lhs, rhs) * node.number("alpha", 1.0)
    added = node.get(2)
    if added is not None:
        result = result + added * node.number("beta", 1.0)
    given = [node.number(name) for name in numbers if name in node.attributes]
    return _activate(result, node.text("activation"), given)


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def _fused_matmul(node: OnnxNode) -> Value:
    only(node, "alpha", "transA", "transB", "transBatchA", "transBatchB")
    if node.integer("transBatchA") or node.integer("transBatchB"):
        raise UnsupportedError("transposed batches are not supported")
    sides = []
    for index, name in enumerate(("transA", "transB")):
        side = node[index]
        order = [*range(side.rank - 2), side.rank - 1, side.rank - 2]
        sides.append(shapes.transpose(side, order) if node.integer(name) and side.rank > 1 else side)
    alpha = node.number("alpha", 1.0)
    result = matmul(*sides)
    return result if alpha == 1 else result * alpha


# -- normalization ---------------------------------------------------------------------------------------


def _add_skip(node: OnnxNode, bias: int) -> Value:
    """Return the sum of the first two inputs and of an optional bias."""
    total = node[0] + node[1]
    added = node.get(bias)
    return total if added is None else total + added


def _outputs(node: OnnxNode, result: Value, total: Value) -> list[Value | None]:
    """Return the outputs of a normalization of a sum, which is the fourth."""
    return [result, None, None, total][: max(node.output_count, 1)]


@operator("SkipLayerNormalization", domain=MICROSOFT, note="without the outputs mean and inv_std_var")
def _skip_layer_normalization(node: OnnxNode) -> list[Value | None]:
    only(node, "epsilon")
    total = _add_skip(node, 4)
    return _outputs(node, _layer_norm(total, node[2], node.get(3), node.number("epsilon", 1e-5)), total)


def _layer_norm(data: Value, scale: Value, bias: Value | None, epsilon: float) -> Value:
    shift = bias if bias is not None else scale * 0
    return op("nn.layer_norm", data, scale, shift, axis=-1, epsilon=epsilon)


@operator(
    "SkipSimplifiedLayerNormalization", domain=MICROSOFT, note="without the outputs mean and inv_std_var"
)
def _skip_simplified_layer_normalization(node: OnnxNode) -> list[Value | None]:
    only(node, "epsilon")
    total = _add_skip(node, 3)
    normal = rms_norm(total, [total.rank - 1], node.number("epsilon", 1e-5))
    return _outputs(node, normal * node[2], total)


@operator("EmbedLayerNormalization", domain=MICROSOFT, note="without a mask")
def _embed_layer_normalization(node: OnnxNode) -> list[Value | None]:
    only(node, "epsilon", "mask_index_type")
    ids, segments = node[0], node.get(1)
    if node.get(7) is not None or (node.output_count > 1 and node.integer("mask_index_type", 1)):
        raise UnsupportedError("a mask is not supported")
    positions = node.get(8)
    if positions is None:
        positions = op("expand_dims", shapes.counting(ids, 1), axis=0)
    total = _row(node[2], ids) + _row(node[3], positions)
    if segments is not None:
        total = total + _row(node[4], segments)
    result = _layer_norm(total, node[5], node[6], node.number("epsilon", 1e-12))
    return [result, None, total][: node.output_count]


def _row(table: Value, indices: Value) -> Value:
    return op("take", table, indices, axis=0, mode="fast")


# -- quantized operators ---------------------------------------------------------------------------------


def _real(data: Value, scale: Value, zero: Value | None) -> Value:
    return shifted(data, zero).cast("float32") * shapes.scalar(scale)


def quantize_floats(result: Value, scale: Value, zero: Value | None, dtype: str) -> Value:
    """Return floats divided by a scale and rounded to integers, from a zero point on."""
    return quantize(result / shapes.scalar(scale), None if zero is None else shapes.scalar(zero), dtype)


@operator("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def _qlinear_arithmetic(node: OnnxNode) -> Value:
    only(node)
    lhs, rhs = _real(node[0], node[1], node.get(2)), _real(node[3], node[4], node.get(5))
    result = lhs + rhs if node.op_type == "QLinearAdd" else lhs * rhs
    return quantize_floats(result, node[6], node.get(7), node[0].dtype)


@operator("QLinearSigmoid", domain=MICROSOFT)
def _qlinear_sigmoid(node: OnnxNode) -> Value:
    only(node)
    result = op("sigmoid", _real(node[0], node[1], node.get(2)))
    return quantize_floats(result, node[3], node.get(4), node[0].dtype)


@operator("QLinearLeakyRelu", domain=MICROSOFT)
def _qlinear_leaky_relu(node: OnnxNode) -> Value:
    only(node, "alpha")
    result = _activate(_real(node[0], node[1], node.get(2)), "LeakyRelu", [node.number("alpha", 0.01)])
    return quantize_floats(result, node[3], node.get(4), node[0].dtype)


@operator("QLinearGlobalAveragePool", domain=MICROSOFT)
def _qlinear_global_average_pool(node: OnnxNode) -> Value:
    only(node, "channels_last")
    data = _real(node[0], node[1], node.get(2))
    axes = range(1, data.rank - 1) if node.integer("channels_last") else range(2, data.rank)
    mean = op("mean", data, axis=tuple(axes), keepdims=True)
    return quantize_floats(mean, node[3], node.get(4), node[0].dtype)


@operator("QLinearConcat", domain=MICROSOFT)
def _qlinear_concat(node: OnnxNode) -> Value:
    only(node, "axis")
    operands = [
        _real(node[index], node[index + 1], node.get(index + 2)) for index in range(2, len(node.inputs), 3)
    ]
    joined = op("concatenate", operands, axis=node.axis(operands[0].rank))
    return quantize_floats(joined, node[0], node.get(1), node[2].dtype)


@operator("QLinearSoftmax", domain=MICROSOFT, note="along one axis")
def _qlinear_softmax(node: OnnxNode) -> Value:
    only(node, "axis", "opset")
    data = _real(node[0], node[1], node.get(2))
    axis = node.axis(data.rank, -1)
    if node.integer("opset") < 13 and axis != data.rank - 1:
        raise UnsupportedError("a softmax of opset 12 over several axes is not supported")
    return quantize_floats(op("nn.softmax", data, axis=axis), node[3], node.get(4), node[0].dtype)


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def _matmul_integer_to_float(node: OnnxNode) -> Value:
    only(node)
    total = multiply_matrices(node[0], node.get(4), node[1], node.get(5), matmul)
    result = total.cast("float32") * (shapes.scalar(node[2]) * per_column(node[3]))
    return result if node.get(6) is None else result + node[6]


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_quantize_matmul(node: OnnxNode) -> Value:
    from nnmagic.importers.onnx.operators.quantization import quantize_dynamically

    only(node)
    data, scale, zero = quantize_dynamically(node[0])
    total = multiply_matrices(data, zero, node[1], node.get(3), matmul)
    result = total.cast("float32") * (scale * per_column(node[2]))
    return result if node.get(4) is None else result + node[4]


def per_column(scale: Value) -> Value:
    """Return the scales of the columns of a matrix; one for all is a number."""
    return shapes.scalar(scale) if scale.shape == (1,) else scale
