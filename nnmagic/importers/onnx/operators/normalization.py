"""Import normalization, and dropout.

The standard: https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
"""

from __future__ import annotations

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.element_types import dtype_of
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, constant, op, ops
from nnmagic.limits import MAX_ITEMS
from nnmagic.relay.functions import normalization


@operator("BatchNormalization")
def _batch_normalization(node: OnnxNode) -> list[Value]:
    data, scale, bias, mean, variance = (node[index] for index in range(5))
    epsilon = node.number("epsilon", 1e-5)
    training = node.integer("training_mode") if node.since >= 14 else 0
    if node.since < 14 and node.output_count > 1:
        raise UnsupportedError("the outputs of training before opset 14 are not supported")
    if node.since < 9 and not node.integer("spatial", 1):
        raise UnsupportedError("spatial=0 is not supported")
    if node.since < 7 and not node.integer("is_test"):
        raise UnsupportedError("is_test=0 is not supported", "export the model for inference")
    if not training:
        same = len({item.dtype for item in (data, scale, bias, mean, variance)}) == 1
        if same and data.is_float:
            return ops("nn.batch_norm", data, scale, bias, mean, variance, axis=1, epsilon=epsilon)[:1]
        return [_normalize(data, scale, bias, mean, variance, epsilon)]
    axes = (0, *range(2, data.rank))
    wide = data.cast("float32") if data.dtype in ("float16", "bfloat16") else data
    now, spread = (shapes.squeeze(item, axes) for item in normalization.moments(wide, axes))
    momentum = node.number("momentum", 0.9)
    result = _normalize(data, scale, bias, now.cast(mean.dtype), spread.cast(variance.dtype), epsilon)
    running = [
        old * momentum + new.cast(old.dtype) * (1 - momentum)
        for old, new in ((mean, now), (variance, spread))
    ]
    return [result, *running]


def _normalize(data: Value, scale: Value, bias: Value, mean: Value, variance: Value, epsilon: float) -> Value:
    dtype = variance.dtype if variance.dtype != "float16" else "float32"
    factor = scale.cast(dtype) / op("sqrt", variance.cast(dtype) + epsilon)
    shifted = data.cast(dtype) - normalization.per_channel(mean.cast(dtype), data.rank)
    return normalization.scale_channels(shifted, factor, bias.cast(dtype)).cast(data.dtype)


@operator("InstanceNormalization")
def _instance_normalization(node: OnnxNode) -> Value:
    data = node[0]
    normal = normalization.standardize(data, range(2, data.rank), node.number("epsilon", 1e-5))[0]
    return normalization.scale_channels(normal, node[1], node[2])


@operator("LayerNormalization")
def _layer_normalization(node: OnnxNode) -> list[Value]:
    data, scale, bias = node[0], node[1], node.get(2)
    axis = node.axis(data.rank, -1)
    epsilon = node.number("epsilon", 1e-5)
    work = dtype_of(node.integer("stash_type", 1))
    whole_axis = axis == data.rank - 1 and scale.shape == data.shape[-1:] and bias is not None
    if (
        node.output_count == 1
        and whole_axis
        and data.dtype == work
        and bias is not None
        and bias.shape == scale.shape
    ):
        return [op("nn.layer_norm", data, scale, bias, axis=-1, epsilon=epsilon)]
    normal, mean, _, inverse = normalization.standardize(data.cast(work), range(axis, data.rank), epsilon)
    return [normalization.scale_and_shift(normal.cast(data.dtype), scale, bias), mean, inverse][
        : node.output_count
    ]


@operator("RMSNormalization")
def _rms_normalization(node: OnnxNode) -> Value:
    data = node[0]
    axis = node.axis(data.rank, -1)
    wide = data.cast(dtype_of(node.integer("stash_type", 1)))
    normal = normalization.rms_norm(wide, range(axis, data.rank), node.number("epsilon", 1e-5))
    return normal.cast(node[1].dtype) * node[1]


@operator("LRN")
def _lrn(node: OnnxNode) -> Value:
    """Divide by a power of the mean square over neighbouring channels."""
    data, size = node[0], node.integer("size")
    if not 0 < size <= MAX_ITEMS:
        raise UnsupportedError(f"the size must be from 1 to {MAX_ITEMS}, not {size}")
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = data * data
    widths = tuple((before, after) if axis == 1 else (0, 0) for axis in range(data.rank))
    padded = op("nn.pad", squares, data.like(0), pad_width=widths)
    channels = data.shape[1]
    if not isinstance(channels, int):
        raise UnsupportedError("the number of channels must be known")
    total = None
    for shift in range(size):
        shifted = shapes.slice_axis(padded, 1, shift, shift + int(channels))
        total = shifted if total is None else total + shifted
    assert total is not None
    alpha, beta, bias = node.number("alpha", 1e-4), node.number("beta", 0.75), node.number("bias", 1.0)
    return data / (total * (alpha / size) + bias) ** beta


@operator("MeanVarianceNormalization")
def _mean_variance_normalization(node: OnnxNode) -> Value:
    data = node[0]
    axes = tuple(axis % data.rank for axis in (node.ints("axes") or [0, 2, 3]))
    mean, variance = normalization.moments(data, axes)
    return (data - mean) / (op("sqrt", variance) + 1e-9)


@operator("Dropout", note="of inference")
def _dropout(node: OnnxNode) -> list[Value]:
    data = node[0]
    if node.since >= 12 and node.get(2) is not None:
        training = shapes.scalar(node[2])
        ratio = shapes.scalar(node[1]) if node.get(1) is not None else constant(0.5, "float32")
        idle = op("logical_or", op("logical_not", training), ratio.equal(0))
        if idle.known is not None and not bool(idle.known):
            raise UnsupportedError("training with random numbers is not supported", "export it for inference")
        node.block.check(
            idle, "Dropout: training with random numbers is not supported; pass training_mode False"
        )
    if node.since < 7 and not node.integer("is_test"):
        raise UnsupportedError("is_test=0 is not supported", "export the model for inference")
    mask_dtype = "bool" if node.since >= 10 else data.dtype
    if node.output_count == 1:
        return [data]
    return [data, shapes.full(data.shape, constant(1, "uint8").cast(mask_dtype), data)]
