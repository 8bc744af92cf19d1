"""Legalize arithmetic on quantized numbers, in integers.

The results are those of Relay's own lowering for a CPU, bit for bit, with its wrapping of int32 and int16.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import number
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.binary import broadcast_rule
from nnmagic.engine.relax.legalize.fixed_point import (
    Factors,
    channel_axis,
    channel_parameter,
    dtype_limits,
    requantize_in_floats,
    requantize_to_int64,
    saturate,
    scalar_tensor,
    scale_ratios,
    wrap_int32,
)
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Rule, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.types import NumpyScalar, Tensor
from nnmagic.engine.relax.runtime.tensors import as_array, as_tensor
from nnmagic.engine.relax.tir.types import Index, PrimExpr


def _requantize(call: OpCall) -> Value:
    attrs = call.attrs
    rounding = "UPWARD" if attrs["rounding"] == "None" else str(attrs["rounding"])
    compute_dtype = "int64" if attrs["compute_dtype"] == "None" else str(attrs["compute_dtype"])
    out_dtype = str(attrs["out_dtype"])

    def compute(data: Tensor, *parameters: Tensor) -> Tensor:
        axis = channel_axis(attrs["axis"], len(data.shape))
        if compute_dtype != "int64":
            return requantize_in_floats(data, parameters, axis, rounding, compute_dtype, out_dtype)
        moved = requantize_to_int64(data, parameters, axis, rounding=rounding)
        return te.compute(data.shape, lambda *index: saturate(moved(*index), out_dtype))

    return call.te(compute, *call.args)


# --- element by element -------------------------------------------------------------------------------------


def _sum_rule(sign: int) -> Rule:
    """Requantize both operands to the result's scale and zero point, and subtract the second zero point."""

    def add(term: PrimExpr, right: PrimExpr) -> PrimExpr:
        return term + right if sign > 0 else term - right

    def rule(call: OpCall) -> Value:
        dtype = tensor_dtype(call.args[0])
        lhs, rhs, *parameters, scale, zero_point = call.args

        def side(data: Value, own: Sequence[Value], axis: object) -> Value:
            def compute(x: Tensor, *parameters: Tensor) -> Tensor:
                return requantize_to_int64(x, parameters, channel_axis(axis, len(x.shape)))

            return call.emit(call.te(compute, data, *own, scale, zero_point))

        term = side(lhs, parameters[:2], call.attrs["lhs_axis"])
        right = side(rhs, parameters[2:], call.attrs["rhs_axis"])
        total = call.emit(broadcast_rule(add)(replace(call, args=(term, right))))

        def without(x: Tensor, once: Tensor) -> Tensor:
            step = once().astype("int64")
            return te.compute(x.shape, lambda *index: saturate(add(x(*index), -step), dtype))

        return call.te(without, total, zero_point)

    return rule


def _product(call: OpCall) -> Value:
    """Multiply the centered operands, and requantize from the product of the scales."""
    dtype = tensor_dtype(call.args[0])
    lhs, rhs, lhs_scale, lhs_zero_point, rhs_scale, rhs_zero_point, *output = call.args
    ranks = len(shape_of(lhs)), len(shape_of(rhs))
    axes = [
        channel_axis(call.attrs[f"{name}_axis"], rank)
        for name, rank in zip(("lhs", "rhs"), ranks, strict=True)
    ]
    scales = lhs_scale, rhs_scale
    axes_from_end = {
        axis - rank for axis, rank, scale in zip(axes, ranks, scales, strict=True) if shape_of(scale)
    }
    left = _center(call, lhs, lhs_zero_point, axes[0], "int64")
    right = _center(call, rhs, rhs_zero_point, axes[1], "int64")
    products = call.emit(broadcast_rule(operator.mul)(replace(call, args=(left, right))))
    scale = call.emit(broadcast_rule(operator.mul)(replace(call, args=scales)))

    def compute(x: Tensor, scale: Tensor, output_scale: Tensor, zero_point: Tensor) -> Tensor:
        factors = Factors(scale_ratios(scale, output_scale))
        axis = max(axes_from_end, default=0) + (len(x.shape) if axes_from_end else 0)

        def element(*index: Index) -> PrimExpr:
            moved = factors.times(x(*index), index, axis) + zero_point().astype("int64")
            return saturate(moved, dtype)

        return te.compute(x.shape, element)

    return call.te(compute, products, scale, *output)


def _center(call: OpCall, data: Value, zero_point: Value, axis: int, dtype: str) -> Value:
    """Subtract the zero point from a tensor; int16 wraps."""

    def compute(x: Tensor, zero: Tensor) -> Tensor:
        return te.compute(
            x.shape,
            lambda *index: x(*index).astype(dtype) - channel_parameter(zero, index, axis).astype(dtype),
        )

    return call.emit(call.te(compute, data, zero_point))


def _leaky_relu(call: OpCall) -> Value:
    """Requantize; distances below the zero point are multiplied by alpha."""
    dtype = tensor_dtype(call.args[0])
    alpha = number(call.attrs["alpha"])

    def compute(data: Tensor, *parameters: Tensor) -> Tensor:
        moved = requantize_to_int64(data, parameters, 0)
        slope, rest = (Factors(scalar_tensor(tirx.const(factor, "float64"))) for factor in (alpha, 1 - alpha))
        zero_point, output_zero_point = (parameters[i]().astype("int64") for i in (1, 3))

        def element(*index: Index) -> PrimExpr:
            value = wrap_int32(moved(*index))
            below = slope.times(value, index, 0) + rest.times(output_zero_point, index, 0)
            negative = data(*index).astype("int64") < zero_point
            return saturate(tirx.Select(negative, below, value), dtype)

        return te.compute(data.shape, element)

    return call.te(compute, *call.args)


def _avg_pool2d(call: OpCall) -> Value:
    """Requantize, then average; padding is 0, as in Relay."""
    dtype = tensor_dtype(call.args[0])

    def compute(data: Tensor, *parameters: Tensor) -> Tensor:
        moved = requantize_to_int64(data, parameters, 0)
        return te.compute(data.shape, lambda *index: moved(*index).astype("int32"))

    moved = call.emit(call.te(compute, *call.args))
    means = call.emit(RULES["nn.avg_pool2d"](replace(call, args=(moved,))))
    return call.te(
        lambda x: te.compute(x.shape, lambda *index: saturate(x(*index).astype("int64"), dtype)), means
    )


def _concatenate(call: OpCall) -> Value:
    """Requantize each tensor, then concatenate."""
    tensors, scales, zero_points, *output = call.args
    dtype = tensor_dtype(tensors[0])

    def compute(data: Tensor, *parameters: Tensor) -> Tensor:
        moved = requantize_to_int64(data, parameters, 0)
        return te.compute(data.shape, lambda *index: saturate(moved(*index), dtype))

    moved = tuple(
        call.emit(call.te(compute, *operands, *output))
        for operands in zip(tensors, scales, zero_points, strict=True)
    )
    return RULES["concatenate"](replace(call, args=(moved,)))


# --- products -----------------------------------------------------------------------------------------------


def _product_rule(name: str, weight_axis: Callable[[OpCall], int], dtype: str = "int16") -> Rule:
    """Center both operands in ``dtype``, as Relay does, and multiply by the operator ``name``."""

    def rule(call: OpCall) -> Value:
        data, weight, data_zero_point, weight_zero_point, *_ = call.args
        axis = weight_axis(call)
        lhs = _center(call, data, data_zero_point, 0, dtype)
        rhs = _center(call, weight, weight_zero_point, axis, dtype)
        return RULES[name](replace(call, args=(lhs, rhs)))

    return rule


def _output_channel(call: OpCall) -> int:
    return str(call.attrs["kernel_layout"]).index("O")


# --- by a table of all results ------------------------------------------------------------------------------


def _constant_parameter(call: OpCall, index: int) -> NumpyScalar:
    """Return a scale or zero point that must be a constant."""
    value = call.args[index]
    if isinstance(value, relax.Var):
        call.refuse("the scales and zero points must be constants")
    return as_array(value.value)[()]


def _table_rule(function: Callable[[np.ndarray], np.ndarray]) -> Rule:
    """Compute a function of real numbers for each of the 256 quantized numbers, and look results up."""

    def rule(call: OpCall) -> Value:
        dtype = tensor_dtype(call.args[0])
        scale, zero_point, output_scale, output_zero_point = (
            _constant_parameter(call, at) for at in range(1, 5)
        )
        numbers = np.arange(256, dtype="uint8").view(dtype).astype("int32")
        with np.errstate(all="ignore"):
            real = function((numbers - zero_point).astype("float32") * scale) / output_scale
            rounded = np.trunc(real + np.copysign(np.float32(0.5), real)) + np.float32(output_zero_point)
            low, high = dtype_limits(dtype)
            within = np.where(np.isnan(rounded), high, np.clip(rounded, low, high))  # as Relay's clip has it

        def compute(data: Tensor, table: Tensor) -> Tensor:
            return te.compute(data.shape, lambda *at: table(data(*at).astype("int32") & 255))

        return call.te(compute, call.args[0], relax.const(as_tensor(within.astype(dtype))))

    return rule


def _hardswish(x: np.ndarray) -> np.ndarray:
    result: np.ndarray = x * np.clip(x + np.float32(3), np.float32(0), np.float32(6)) / np.float32(6)
    return result


_erf = np.vectorize(math.erf, otypes=["float32"])
_TABLE_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "abs": np.abs,
    "erf": _erf,
    "exp": np.exp,
    "hardswish": _hardswish,
    "log": np.log,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}

# --- softmax ------------------------------------------------------------------------------------------------


def _softmax(call: OpCall) -> Value:
    """Compute softmax in integers by powers of 2.

    exp(x) is 2**(x log2(e)), log2(e) about 1 + 1/2 - 1/16, 2**-f about 1 - f/2 (Shiftmax: Li and Gu, I-ViT,
    2022, https://arxiv.org/abs/2207.01405).
    """
    scale, zero_point = _constant_parameter(call, 1), _constant_parameter(call, 2)
    if not 0 < scale <= 1:
        call.refuse(f"the scale of the data must be positive and at most 1, not {scale:g}")
    unit = int(np.float32(1) / scale + np.float32(0.5))
    axis = channel_axis(call.attrs["axis"], len(shape_of(call.args[0])))

    def compute(data: Tensor, output_scale: Tensor, output_zero_point: Tensor) -> Tensor:
        def along(tensor: Tensor, index: Sequence[Index]) -> PrimExpr:
            return tensor(*(0 if dim == axis else i for dim, i in enumerate(index)))

        distance = te.compute(
            data.shape, lambda *i: data(*i).astype("int32") - tirx.const(zero_point, "int32")
        )
        largest = topi.max(distance, axis, keepdims=True)

        def power(*index: Index) -> PrimExpr:
            below = distance(*index) - along(largest, index)
            return below + (below >> 1) - (below >> 4)

        exponent = te.compute(data.shape, power)
        quotient = te.compute(
            data.shape,
            lambda *i: scalar_functions.clip(tirx.truncdiv(exponent(*i), tirx.const(-unit, "int32")), 0, 20),
        )
        most = topi.max(quotient, axis, keepdims=True)

        def mantissa(*index: Index) -> PrimExpr:
            rest = exponent(*index) + quotient(*index) * unit
            return ((rest >> 1) + unit) << (along(most, index) - quotient(*index))

        terms = te.compute(data.shape, mantissa)
        total = topi.sum(terms, axis, keepdims=True)
        factors = Factors(scalar_tensor(tirx.const(2.0**-7, "float64") / output_scale().astype("float64")))

        def element(*index: Index) -> PrimExpr:
            share = scalar_functions.trunc_divide(tirx.const(1 << 30, "int32"), along(total, index))
            value = (share * terms(*index)) >> 23
            moved = factors.times(value.astype("int64"), index, 0) + output_zero_point().astype("int64")
            return saturate(moved, "int8")

        return te.compute(data.shape, element)

    return call.te(compute, call.args[0], *call.args[3:])


# --- simulated ----------------------------------------------------------------------------------------------

#: The code by which a simulated operator chooses a dtype; 0 means none.
_CODES = {1: "int8", 2: "uint8", 3: "int32"}


def _simulation_rule(element: Callable[[PrimExpr, PrimExpr, PrimExpr, str], PrimExpr]) -> Rule:
    """Apply ``element`` to an element, its scale, its zero point and the dtype that the code names."""

    def rule(call: OpCall) -> Value:
        data, code, scale, zero_point = call.args
        axis = channel_axis(call.attrs["axis"], len(shape_of(data)))

        def compute(x: Tensor, code: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
            def value(*index: Index) -> PrimExpr:
                step, offset = (
                    channel_parameter(value, index, axis).astype(x.dtype) for value in (scale, zero)
                )
                result = x(*index)
                for dtype_code, dtype in _CODES.items():
                    result = tirx.Select(
                        code() == dtype_code, element(x(*index), step, offset, dtype), result
                    )
                return result

            return te.compute(x.shape, value)

        return call.te(compute, data, code, scale, zero_point)

    return rule


def _simulate_quantize(x: PrimExpr, scale: PrimExpr, zero_point: PrimExpr, dtype: str) -> PrimExpr:
    low, high = map(float, dtype_limits(dtype))
    return scalar_functions.clip(scalar_functions.round_half_away(x / scale) + zero_point, low, high)


def _simulate_dequantize(x: PrimExpr, scale: PrimExpr, zero_point: PrimExpr, _dtype: str) -> PrimExpr:
    return (x - zero_point) * scale


RULES.update(
    {
        "qnn.requantize": _requantize,
        "qnn.add": _sum_rule(1),
        "qnn.subtract": _sum_rule(-1),
        "qnn.mul": _product,
        "qnn.leaky_relu": _leaky_relu,
        "qnn.avg_pool2d": _avg_pool2d,
        "qnn.softmax": _softmax,
        "qnn.concatenate": _concatenate,
        "qnn.dense": _product_rule("nn.dense", lambda _call: 0),
        "qnn.batch_matmul": _product_rule("nn.batch_matmul", lambda _call: 0, "int32"),
        "qnn.conv2d": _product_rule("nn.conv2d", _output_channel),
        "qnn.conv2d_transpose": _product_rule("nn.conv2d_transpose", _output_channel),
        "qnn.simulated_quantize": _simulation_rule(_simulate_quantize),
        "qnn.simulated_dequantize": _simulation_rule(_simulate_dequantize),
    }
    | {f"qnn.{name}": _table_rule(function) for name, function in _TABLE_FUNCTIONS.items()}
)
