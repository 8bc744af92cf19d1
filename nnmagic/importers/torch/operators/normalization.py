"""Import normalization and its gradients.

What they compute: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.batch_norm.html
"""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.values import Value, op, ops
from nnmagic.importers.torch.calls import AtenCall, scalar_constant
from nnmagic.importers.torch.mathematics import wide
from nnmagic.importers.torch.registry import operator, operators
from nnmagic.relay.functions.normalization import per_channel, scale_and_shift, scale_channels, standardize
from nnmagic.relay.ops.dims import product
from nnmagic.relay.types import Dim


def _count(call: AtenCall, dims: Sequence[Dim], dtype: str) -> Value:
    count = product(dims)
    return scalar_constant(int(count), dtype) if isinstance(count, int) else call.size(count).cast(dtype)


def _optional(call: AtenCall, name: str) -> Value | None:
    value = call.get(name)
    return None if value is None else wide(value)


def _batch_norm_inference(call: AtenCall) -> list[Value]:
    data = wide(call["input"])
    mean, variance = wide(call["running_mean"]), wide(call["running_var"])
    ones, zeros = (call.full(mean.shape, scalar_constant(value, mean.dtype)) for value in (1, 0))
    scale, shift = (_optional(call, "weight") or ones), (_optional(call, "bias") or zeros)
    result = ops(
        "nn.batch_norm", data, scale, shift, mean, variance, axis=1, epsilon=call.number("eps", 1e-5)
    )[0]
    empty = call.full((0,), scalar_constant(0, data.dtype))
    return [result, empty, empty]


def _batch_norm(call: AtenCall) -> tuple[list[Value], Value, Value]:
    """Normalize by the batch's own moments; return result, mean, inverse; and the moments."""
    data = wide(call["input"])
    axes: list[int] = [0, *range(2, data.rank)]
    normal, mean, variance, inverse = standardize(data, axes, call.number("eps", 1e-5))
    result = scale_channels(normal, _optional(call, "weight"), _optional(call, "bias"))
    flat = [shapes.squeeze(item, axes) for item in (mean, variance, inverse)]
    return [result, flat[0], flat[2]], flat[0], flat[1]


@operator("_native_batch_norm_legit_functional")
def _batch_norm_functional(call: AtenCall) -> list[Value]:
    running_mean, running_var = call["running_mean"], call["running_var"]
    if not call.flag("training"):
        results = _batch_norm_inference(call)
        return [*results, running_mean, running_var]
    results, mean, variance = _batch_norm(call)
    data, momentum = call["input"], call.number("momentum", 0.1)
    count = _count(call, (data.shape[0], *data.shape[2:]), variance.dtype)
    unbiased = variance * (count / (count - 1))
    new_mean = wide(running_mean) * (1 - momentum) + mean * momentum
    new_var = wide(running_var) * (1 - momentum) + unbiased * momentum
    return [*results, new_mean, new_var]


@operator("native_layer_norm")
def _layer_norm(call: AtenCall) -> list[Value]:
    data, weight, bias = wide(call["input"]), _optional(call, "weight"), _optional(call, "bias")
    rank = len(call.argument("normalized_shape"))
    epsilon = call.number("eps", 1e-5)
    axes = list(range(data.rank - rank, data.rank))
    if 0 in data.shape:
        return [
            call.full(call.importer.shape_of(item), scalar_constant(0, data.dtype)) for item in call.results
        ]
    normal, mean, _, inverse = standardize(data, axes, epsilon)
    if rank == 1 and weight is not None and bias is not None and data.dtype == weight.dtype == bias.dtype:
        return [op("nn.layer_norm", data, weight, bias, axis=-1, epsilon=epsilon), mean, inverse]
    return [scale_and_shift(normal, weight, bias), mean, inverse]


def _group(call: AtenCall, value: Value) -> tuple[Value, list[Dim]]:
    """Return data as (N, group, channels of a group * places), and its shape with the channels apart."""
    batch, channels = value.shape[:2]
    groups = call.integer("group")
    places = product(value.shape[2:])
    size = int(channels) // groups if isinstance(channels, int) else channels
    return call.reshape(value, [batch, groups, product([size, places])]), [batch, groups, size, places]


@operator("native_group_norm")
def _group_norm(call: AtenCall) -> list[Value]:
    data = wide(call["input"])
    if 0 in data.shape:
        return [
            call.full(call.importer.shape_of(item), scalar_constant(0, data.dtype)) for item in call.results
        ]
    flat, _ = _group(call, data)
    normal, mean, _, inverse = standardize(flat, [2], call.number("eps", 1e-5))
    whole = call.reshape(normal, data.shape)
    result = scale_channels(whole, _optional(call, "weight"), _optional(call, "bias"))
    return [result, shapes.squeeze(mean, [2]), shapes.squeeze(inverse, [2])]


# -- gradients -----------------------------------------------------------------------------------------


def _centre(gradient: Value, normal: Value, axes: Sequence[int]) -> Value:
    """Return the gradient of a normalization, up to its inverse deviation."""
    mean = op("mean", gradient, axis=tuple(axes), keepdims=True)
    along = op("mean", gradient * normal, axis=tuple(axes), keepdims=True)
    return gradient - mean - normal * along


@operator("native_layer_norm_backward")
def _layer_norm_backward(call: AtenCall) -> list[Value | None]:
    gradient, data = wide(call["grad_out"]), wide(call["input"])
    rank = len(call.argument("normalized_shape"))
    axes = list(range(data.rank - rank, data.rank))
    normal = (data - wide(call["mean"])) * wide(call["rstd"])
    weight = call.get("weight")
    inner = gradient if weight is None else gradient * wide(weight)
    outer = tuple(range(data.rank - rank))
    scale, shift = gradient * normal, gradient
    if outer:
        scale, shift = (op("sum", item, axis=outer) for item in (scale, shift))
    gradients = [_centre(inner, normal, axes) * wide(call["rstd"]), scale, shift]
    mask = call.argument("output_mask")
    return [value if wanted else None for value, wanted in zip(gradients, mask, strict=True)]


@operator("native_group_norm_backward")
def _group_norm_backward(call: AtenCall) -> list[Value | None]:
    gradient, data = wide(call["grad_out"]), wide(call["input"])
    weight = call.get("weight")
    inner = gradient if weight is None else gradient * per_channel(wide(weight), data.rank)
    flat, _ = _group(call, data)
    mean, inverse = (shapes.unsqueeze(wide(call[name]), [2]) for name in ("mean", "rstd"))
    normal = (flat - mean) * inverse
    flat_gradient, _ = _group(call, inner)
    result = call.reshape(_centre(flat_gradient, normal, [2]) * inverse, data.shape)
    axes = (0, *range(2, data.rank))
    scale = op("sum", gradient * call.reshape(normal, data.shape), axis=axes)
    gradients = [result, scale, op("sum", gradient, axis=axes)]
    mask = call.argument("output_mask")
    return [value if wanted else None for value, wanted in zip(gradients, mask, strict=True)]


@operator("native_batch_norm_backward")
def _batch_norm_backward(call: AtenCall) -> list[Value | None]:
    gradient, data = wide(call["grad_out"]), wide(call["input"])
    axes = [0, *range(2, data.rank)]
    if call.flag("train"):
        mean, inverse = wide(call["save_mean"]), wide(call["save_invstd"])
    else:
        mean = wide(call["running_mean"])
        inverse = 1 / op("sqrt", wide(call["running_var"]) + call.number("eps"))
    wide_inverse = per_channel(inverse, data.rank)
    normal = (data - per_channel(mean, data.rank)) * wide_inverse
    weight = call.get("weight")
    inner = gradient if weight is None else gradient * per_channel(wide(weight), data.rank)
    result = (_centre(inner, normal, axes) if call.flag("train") else inner) * wide_inverse
    scale = op("sum", gradient * normal, axis=tuple(axes))
    gradients = [result, scale, op("sum", gradient, axis=tuple(axes))]
    mask = call.argument("output_mask")
    return [value if wanted else None for value, wanted in zip(gradients, mask, strict=True)]


operators(
    {
        "_native_batch_norm_legit": lambda call: _batch_norm(call)[0],
        "_native_batch_norm_legit_no_training": _batch_norm_inference,
    }
)
