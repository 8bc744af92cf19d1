"""Say what operators compute on quantized numbers, in NumPy: in integers, bit for bit as Relay's lowering."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nnmagic.relay.reference import nn, reductions
from nnmagic.relay.reference.eval_call import Array, EvalCall, Rule
from nnmagic.relay.types import TensorType


def _wrap(values: Array) -> Any:
    """Wrap an int64 as int32 does."""
    return values.astype(np.int32).astype(np.int64)


def _saturate(values: Array, dtype: Any) -> Any:
    """Wrap an int64 as int32 does, then limit it to the dtype's range."""
    limits = np.iinfo(dtype)
    return np.clip(_wrap(np.asarray(values)), limits.min, limits.max).astype(dtype)


def _channels(parameter: Array, rank: int, axis: int) -> Any:
    """Return a scale or zero point of the tensor, or one for each channel, so that it broadcasts."""
    if parameter.size == 1 and parameter.ndim <= 1:
        return parameter.reshape(())
    return parameter.reshape([-1 if index == axis else 1 for index in range(rank)])


def _axis(value: Any, rank: int) -> int:
    return int(value) % rank if rank > 1 else 0


def _times(values: Array, factor: Any, rounding: str = "UPWARD") -> Any:
    """Multiply an int64 by real factors, each a 31-bit multiplier and a power of 2.

    Halves are rounded up, or away from zero with the rounding ``TONEAREST``.
    """
    fraction, exponent = np.frexp(np.asarray(factor, np.float64))
    multiplier = (np.sign(fraction) * np.floor(np.abs(fraction) * 2.0**31 + 0.5)).astype(np.int64)
    exponent = exponent.astype(np.int64)
    right = 31 - np.minimum(exponent, 0)
    total = np.minimum(right, 62)
    product = (values << np.clip(exponent, 0, 62)) * multiplier
    half = np.int64(1) << (total - 1)
    if rounding == "TONEAREST":
        half = half - (product < 0)
    return np.where(right == total, (product + half) >> total, 0)


def _ratio(scale: Array, output_scale: Array) -> Any:
    return scale.astype(np.float64) / output_scale.astype(np.float64)


def _move(data: Array, parameters: Sequence[Array], axis: int = 0, rounding: str = "UPWARD") -> Any:
    """Requantize to an int64 that is still to be saturated."""
    scale, zero, output_scale, output_zero = parameters
    distance = _wrap(data.astype(np.int64) - _channels(zero, data.ndim, axis).astype(np.int64))
    factor = _channels(_ratio(scale, output_scale), data.ndim, axis)
    return _times(distance, factor, rounding) + output_zero.astype(np.int64)


def _requantize(call: EvalCall, data: Array, *parameters: Array) -> Any:
    axis = _axis(call["axis"], data.ndim)
    rounding = "UPWARD" if call["rounding"] == "None" else call["rounding"]
    if call["compute_dtype"] in ("None", "int64"):
        return _saturate(_move(data, parameters, axis, rounding), call.dtype)
    scale, zero, output_scale, output_zero = parameters
    dtype = np.dtype(call["compute_dtype"])
    distance = data.astype(dtype) - _channels(zero, data.ndim, axis).astype(dtype)
    product = distance * _channels(_ratio(scale, output_scale), data.ndim, axis).astype(dtype)
    moved = product + output_zero.astype(dtype)
    half = dtype.type(0.5)
    rounded = np.floor(moved + half) if rounding == "UPWARD" else _half_away(moved)
    limits = np.iinfo(call.dtype)
    return np.clip(rounded.astype(np.float64), limits.min, limits.max).astype(call.dtype)


def _half_away(values: Array) -> Any:
    """Round halves away from zero."""
    return np.trunc(values + np.copysign(values.dtype.type(0.5), values))


def _sum(sign: int) -> Rule:
    """Requantize both operands to the result's scale and zero point, and take that off once."""

    def rule(call: EvalCall, lhs: Array, rhs: Array, *parameters: Array) -> Any:
        *operand_parameters, scale, zero = parameters
        left = _move(lhs, (*operand_parameters[:2], scale, zero), _axis(call["lhs_axis"], lhs.ndim))
        right = _move(rhs, (*operand_parameters[2:], scale, zero), _axis(call["rhs_axis"], rhs.ndim))
        return _saturate(left + sign * right - sign * zero.astype(np.int64), call.dtype)

    return rule


def _product(call: EvalCall, lhs: Array, rhs: Array, *parameters: Array) -> Any:
    """Multiply the centred operands, and requantize from the product of the scales."""
    lhs_scale, lhs_zero, rhs_scale, rhs_zero, output_scale, output_zero = parameters
    axes = [_axis(call[f"{name}_axis"], data.ndim) for name, data in (("lhs", lhs), ("rhs", rhs))]
    product = _centre(lhs, lhs_zero, axes[0], np.int64) * _centre(rhs, rhs_zero, axes[1], np.int64)
    from_end = [
        axis - data.ndim
        for axis, data, scale in zip(axes, (lhs, rhs), (lhs_scale, rhs_scale), strict=True)
        if scale.ndim
    ]
    axis = max(from_end) + product.ndim if from_end else 0
    factor = _channels(_ratio(lhs_scale * rhs_scale, output_scale), product.ndim, axis)
    return _saturate(_times(product, factor) + output_zero.astype(np.int64), call.dtype)


def _centre(data: Array, zero: Array, axis: int, dtype: Any) -> Any:
    return data.astype(dtype) - _channels(zero, data.ndim, axis).astype(dtype)


def _leaky_relu(call: EvalCall, data: Array, *parameters: Array) -> Any:
    """Requantize; distances below the zero point are multiplied by alpha."""
    value = _wrap(_move(data, parameters))
    alpha = float(call["alpha"])
    zero, output_zero = (parameters[i].astype(np.int64) for i in (1, 3))
    below = _times(value, alpha) + _times(output_zero, 1 - alpha)
    return _saturate(np.where(data.astype(np.int64) < zero, below, value), call.dtype)


def _avg_pool2d(call: EvalCall, data: Array, *parameters: Array) -> Any:
    moved = _move(data, parameters).astype(np.int32)
    whole = replace(call, type=TensorType(call.shape, "int32"))
    return _saturate(nn.RULES["nn.avg_pool2d"](whole, moved).astype(np.int64), call.dtype)


def _concatenate(call: EvalCall, tensors: Any, scales: Any, zeros: Any, *output: Array) -> Any:
    parts = [
        _saturate(_move(data, (scale, zero, *output)), call.dtype)
        for data, scale, zero in zip(tensors, scales, zeros, strict=True)
    ]
    return np.concatenate(parts, axis=call["axis"])


def _multiply(rule: Rule, weight_axis: Callable[[EvalCall], int], dtype: Any = np.int16) -> Rule:
    """Centre both operands in ``dtype``, as Relay does, and multiply them by a rule."""

    def apply(
        call: EvalCall, data: Array, weight: Array, data_zero: Array, weight_zero: Array, *_: Array
    ) -> Any:
        left = _centre(data, data_zero, 0, dtype)
        return rule(call, left, _centre(weight, weight_zero, weight_axis(call), dtype))

    return apply


def _matmul(call: EvalCall, x: Array, y: Array) -> Any:
    x = np.swapaxes(x, -1, -2) if call["transpose_a"] else x
    y = np.swapaxes(y, -1, -2) if call["transpose_b"] else y
    return np.matmul(x.astype(call.dtype), y.astype(call.dtype))


def _output_channel(call: EvalCall) -> int:
    return str(call["kernel_layout"]).index("O")


def _of_reals(function: Callable[[Array], Any]) -> Rule:
    """Compute a function of the real numbers that the quantized ones stand for."""

    def rule(
        call: EvalCall, data: Array, scale: Array, zero: Array, output_scale: Array, output_zero: Array
    ) -> Any:
        real = function((data.astype(np.int32) - zero).astype(np.float32) * scale) / output_scale
        rounded = np.trunc(real + np.copysign(np.float32(0.5), real)) + output_zero.astype(np.float32)
        limits = np.iinfo(call.dtype)
        within = np.where(np.isnan(rounded), limits.max, np.clip(rounded, limits.min, limits.max))
        return within.astype(call.dtype)

    return rule


_erf = np.vectorize(math.erf, otypes=["float32"])
_REAL_FUNCTIONS: dict[str, Callable[[Array], Any]] = {
    "abs": np.abs,
    "erf": _erf,
    "exp": np.exp,
    "hardswish": lambda x: x * np.clip(x + np.float32(3), np.float32(0), np.float32(6)) / np.float32(6),
    "log": np.log,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}


def _softmax(
    call: EvalCall, data: Array, scale: Array, zero: Array, output_scale: Array, output_zero: Array
) -> Any:
    """Compute softmax in integers by powers of 2 (Li and Gu, I-ViT, 2022)."""
    if not 0 < scale <= 1:
        raise ValueError(f"the scale of the data must be positive and at most 1, not {scale:g}")
    unit = int(np.float32(1) / scale + np.float32(0.5))
    axis = _axis(call["axis"], data.ndim)
    distance = data.astype(np.int32) - zero
    below = distance - distance.max(axis=axis, keepdims=True)
    exponent = below + (below >> 1) - (below >> 4)
    integer_part = np.clip((-exponent) // unit, 0, 20)
    rest = exponent + integer_part * unit
    terms = ((rest >> 1) + unit) << (integer_part.max(axis=axis, keepdims=True) - integer_part)
    total = terms.sum(axis=axis, keepdims=True, dtype=np.int32)
    value = ((np.int32(1 << 30) // total) * terms) >> 23
    moved = _times(value.astype(np.int64), 2.0**-7 / output_scale.astype(np.float64))
    return _saturate(moved + output_zero.astype(np.int64), np.int8)


def _quantize(call: EvalCall, data: Array, scale: Array, zero: Array) -> Any:
    axis = int(call["axis"]) % max(data.ndim, 1)
    steps = _half_away(np.asarray(data / _channels(scale, data.ndim, axis)))
    moved = steps + _channels(zero, data.ndim, axis).astype(data.dtype)
    limits = np.iinfo(call.dtype)
    return np.clip(moved.astype(np.float64), limits.min, limits.max).astype(call.dtype)


def _dequantize(call: EvalCall, data: Array, scale: Array, zero: Array) -> Any:
    axis = int(call["axis"]) % max(data.ndim, 1)
    distance = data.astype(np.int32) - _channels(zero, data.ndim, axis).astype(np.int32)
    return distance.astype(call.dtype) * _channels(scale, data.ndim, axis).astype(call.dtype)


#: The code by which a simulated operator chooses a dtype; any other leaves the data as it is.
_CODES: dict[int, str] = {1: "int8", 2: "uint8", 3: "int32"}


def _simulate(element: Callable[[Array, Array, Array, Sequence[float]], Any]) -> Rule:
    def rule(call: EvalCall, data: Array, code: Array, scale: Array, zero: Array) -> Any:
        name = _CODES.get(int(code))
        if name is None:
            return data
        limits = np.iinfo(name)
        axis = _axis(call["axis"], data.ndim)
        step, offset = (_channels(each, data.ndim, axis).astype(data.dtype) for each in (scale, zero))
        return element(data, step, offset, (float(limits.min), float(limits.max)))

    return rule


def _simulate_quantize(x: Array, scale: Array, zero: Array, limits: Sequence[float]) -> Any:
    return np.clip(_half_away(np.asarray(x / scale)) + zero, *map(x.dtype.type, limits))


RULES: dict[str, Rule] = {
    "qnn.requantize": _requantize,
    "qnn.add": _sum(1),
    "qnn.subtract": _sum(-1),
    "qnn.mul": _product,
    "qnn.leaky_relu": _leaky_relu,
    "qnn.avg_pool2d": _avg_pool2d,
    "qnn.softmax": _softmax,
    "qnn.concatenate": _concatenate,
    "qnn.dense": _multiply(reductions.RULES["nn.dense"], lambda _given: 0),
    "qnn.batch_matmul": _multiply(_matmul, lambda _given: 0, np.int32),
    "qnn.conv2d": _multiply(nn.RULES["nn.conv2d"], _output_channel),
    "qnn.conv2d_transpose": _multiply(nn.RULES["nn.conv2d_transpose"], _output_channel),
    "qnn.quantize": _quantize,
    "qnn.dequantize": _dequantize,
    "qnn.simulated_quantize": _simulate(_simulate_quantize),
    "qnn.simulated_dequantize": _simulate(lambda x, scale, zero, _limits: (x - zero) * scale),
    **{f"qnn.{name}": _of_reals(function) for name, function in _REAL_FUNCTIONS.items()},
}
