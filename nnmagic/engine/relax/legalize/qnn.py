"""Legalize arithmetic on quantized numbers in integers: differences from zero points, fixed-point factors.

The results are those of Relay's own lowering for a CPU, bit for bit, with its wrapping of int32 and int16.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer, number
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.binary import broadcast_rule
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Rule, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.types import ElementFunction, Tensor
from nnmagic.engine.relax.runtime.tensors import as_array, as_tensor
from nnmagic.engine.relax.tir.types import Index, PrimExpr


def _channel_parameter(parameter: Tensor, index: Sequence[Index], axis: int) -> PrimExpr:
    """Return the scale or zero point of an element: that of the tensor, or of the element's channel."""
    if not len(parameter.shape):
        return parameter()
    return parameter(0 if parameter.shape[0] == 1 else index[axis])


def _axis(value: object, rank: int) -> int:
    """Count an axis from the front; the only axis of a vector, and the channel of a scalar, are 0."""
    return integer(value) % rank if rank > 1 else 0


def _int32(value: PrimExpr) -> PrimExpr:
    """Wrap an int64 as int32 does, in int64."""
    return value.astype("int32").astype("int64")


def _center_element(data: Tensor, zero_point: PrimExpr, index: Sequence[Index], axis: int) -> PrimExpr:
    """Subtract the zero point from an element; the result wraps as int32."""
    return _int32(data(*index).astype("int64") - _channel_parameter(zero_point, index, axis).astype("int64"))


def _saturate(value: PrimExpr, dtype: str) -> PrimExpr:
    """Wrap an int64 as int32 does, then limit it to the dtype's range."""
    return scalar_functions.clip(_int32(value), *_limits(dtype)).astype(dtype)


def _limits(dtype: str) -> tuple[int, int]:
    return int(tirx.min_value(dtype).value), int(tirx.max_value(dtype).value)


# --- fixed-point factors ------------------------------------------------------------------------------------


class _Factors:
    """Real factors, one per channel, as a 31-bit multiplier and a power of 2 (as ``frexp`` splits them)."""

    def __init__(self, real: Tensor) -> None:
        def parts(*index: Index) -> tuple[PrimExpr, PrimExpr]:
            bits = tirx.reinterpret("int64", real(*index))
            fraction = (bits & tirx.const((1 << 52) - 1, "int64")) | tirx.const(1022 << 52, "int64")
            scaled = tirx.reinterpret("float64", fraction) * tirx.const(2.0**31, "float64")
            exponent = ((bits >> tirx.const(52, "int64")) & tirx.const(2047, "int64")) - 1022
            size = (scaled + tirx.const(0.5, "float64")).astype("int64")
            return tirx.Select(bits < tirx.const(0, "int64"), -size, size), exponent

        # A multiplier that is rounded up to 2**31 does not matter: it is 2**30 times one power of 2 more.
        self.multiplier = te.compute(real.shape, lambda *index: parts(*index)[0], "multiplier")
        self.exponent = te.compute(real.shape, lambda *index: parts(*index)[1], "exponent")

    def times(
        self, value: PrimExpr, index: Sequence[Index], axis: int, *, rounding: str = "UPWARD"
    ) -> PrimExpr:
        """Multiply an int64 that int32 can hold by the factor of its channel.

        Halves are rounded up, or away from zero with the rounding ``TONEAREST``.
        """
        zero, one = tirx.const(0, "int64"), tirx.const(1, "int64")
        exponent = _channel_parameter(self.exponent, index, axis)
        left = tirx.min(tirx.max(exponent, zero), tirx.const(62, "int64"))
        right = tirx.const(31, "int64") - tirx.min(exponent, zero)
        total = tirx.min(right, tirx.const(62, "int64"))
        product = (value << left) * _channel_parameter(self.multiplier, index, axis)
        half = one << (total - one)
        if rounding == "TONEAREST":
            half = half - tirx.Select(product < zero, one, zero)
        return tirx.Select(right == total, (product + half) >> total, zero)


def _ratios(scale: Tensor, output_scale: Tensor) -> Tensor:
    """Return the real factors from one scale to another."""
    return te.compute(
        scale.shape,
        lambda *index: scale(*index).astype("float64") / output_scale().astype("float64"),
        "ratio",
    )


def _scalar(value: PrimExpr) -> Tensor:
    """Return a number as a tensor of rank 0."""
    return te.compute((), lambda: value)


def _requantize_to_int64(
    data: Tensor,
    parameters: Sequence[PrimExpr],
    axis: int,
    *,
    rounding: str = "UPWARD",
    name: str = "requantized",
) -> Tensor:
    """Return an int64 tensor that is still to be saturated; ``parameters``: both scales and zero points."""
    scale, zero_point, output_scale, output_zero_point = parameters
    factors = _Factors(_ratios(scale, output_scale))

    def element(*index: Index) -> PrimExpr:
        moved = factors.times(_center_element(data, zero_point, index, axis), index, axis, rounding=rounding)
        return moved + output_zero_point().astype("int64")

    return te.compute(data.shape, element, name)


def _requantize_in_floats(
    data: Tensor, parameters: Sequence[PrimExpr], axis: int, rounding: str, dtype: str, out_dtype: str
) -> Tensor:
    """Requantize in floats of ``dtype``; the result is limited to the range before it becomes an integer."""
    scale, zero_point, output_scale, output_zero_point = parameters
    ratio = _ratios(scale, output_scale)

    def product(*index: Index) -> PrimExpr:
        distance = data(*index).astype(dtype) - _channel_parameter(zero_point, index, axis).astype(dtype)
        return distance * _channel_parameter(ratio, index, axis).astype(dtype)

    # Stored, so that LLVM cannot make one operation of it and the addition, which rounds otherwise.
    products = te.compute(data.shape, product, "product")
    half = tirx.const(0.5, dtype)

    def element(*index: Index) -> PrimExpr:
        moved = products(*index) + output_zero_point().astype(dtype)
        if rounding == "UPWARD":
            rounded = tirx.floor(moved + half)
        else:
            rounded = tirx.trunc(moved + tirx.Select(moved < tirx.const(0, dtype), -half, half))
        low, high = map(float, _limits(out_dtype))
        return scalar_functions.clip(rounded.astype("float64"), low, high).astype(out_dtype)

    return te.compute(data.shape, element)


def _requantize(call: OpCall) -> Value:
    attrs = call.attrs
    rounding = "UPWARD" if attrs["rounding"] == "None" else str(attrs["rounding"])
    compute_dtype = "int64" if attrs["compute_dtype"] == "None" else str(attrs["compute_dtype"])
    out_dtype = str(attrs["out_dtype"])

    def compute(data: Tensor, *parameters: Tensor) -> Tensor:
        axis = _axis(attrs["axis"], len(data.shape))
        if compute_dtype != "int64":
            return _requantize_in_floats(data, parameters, axis, rounding, compute_dtype, out_dtype)
        moved = _requantize_to_int64(data, parameters, axis, rounding=rounding)
        return te.compute(data.shape, lambda *index: _saturate(moved(*index), out_dtype))

    return call.te(compute, *call.args)


# --- element by element -------------------------------------------------------------------------------------


def _sum_rule(sign: int) -> Rule:
    """Requantize both operands to the result's scale and zero point, and subtract the second zero point."""

    def add(left: PrimExpr, right: PrimExpr) -> PrimExpr:
        return left + right if sign > 0 else left - right

    def rule(call: OpCall) -> Value:
        dtype = tensor_dtype(call.args[0])
        lhs, rhs, *parameters, scale, zero_point = call.args

        def side(data: Value, own: Sequence[Value], axis: object) -> Value:
            def compute(x: Tensor, *parameters: Tensor) -> Tensor:
                return _requantize_to_int64(x, parameters, _axis(axis, len(x.shape)))

            return call.emit(call.te(compute, data, *own, scale, zero_point))

        left = side(lhs, parameters[:2], call.attrs["lhs_axis"])
        right = side(rhs, parameters[2:], call.attrs["rhs_axis"])
        total = call.emit(broadcast_rule(add)(replace(call, args=(left, right))))

        def without(x: Tensor, once: Tensor) -> Tensor:
            step = once().astype("int64")
            return te.compute(x.shape, lambda *index: _saturate(add(x(*index), -step), dtype))

        return call.te(without, total, zero_point)

    return rule


def _product(call: OpCall) -> Value:
    """Multiply the centered operands, and requantize from the product of the scales."""
    dtype = tensor_dtype(call.args[0])
    lhs, rhs, lhs_scale, lhs_zero_point, rhs_scale, rhs_zero_point, *output = call.args
    ranks = len(shape_of(lhs)), len(shape_of(rhs))
    axes = [_axis(call.attrs[f"{name}_axis"], rank) for name, rank in zip(("lhs", "rhs"), ranks, strict=True)]
    scales = lhs_scale, rhs_scale
    axes_from_end = {
        axis - rank for axis, rank, scale in zip(axes, ranks, scales, strict=True) if shape_of(scale)
    }
    left = _center(call, lhs, lhs_zero_point, axes[0], "int64")
    right = _center(call, rhs, rhs_zero_point, axes[1], "int64")
    products = call.emit(broadcast_rule(operator.mul)(replace(call, args=(left, right))))
    scale = call.emit(broadcast_rule(operator.mul)(replace(call, args=scales)))

    def compute(x: Tensor, scale: PrimExpr, output_scale: PrimExpr, zero_point: Tensor) -> Tensor:
        factors = _Factors(_ratios(scale, output_scale))
        axis = max(axes_from_end, default=0) + (len(x.shape) if axes_from_end else 0)

        def element(*index: Index) -> PrimExpr:
            moved = factors.times(x(*index), index, axis) + zero_point().astype("int64")
            return _saturate(moved, dtype)

        return te.compute(x.shape, element)

    return call.te(compute, products, scale, *output)


def _center(call: OpCall, data: Value, zero_point: Value, axis: int, dtype: str) -> Value:
    """Subtract the zero point from a tensor; int16 wraps."""

    def compute(x: Tensor, zero: PrimExpr) -> Tensor:
        return te.compute(
            x.shape,
            lambda *index: x(*index).astype(dtype) - _channel_parameter(zero, index, axis).astype(dtype),
        )

    return call.emit(call.te(compute, data, zero_point))


def _leaky_relu(call: OpCall) -> Value:
    """Requantize; distances below the zero point are multiplied by alpha."""
    dtype = tensor_dtype(call.args[0])
    alpha = number(call.attrs["alpha"])

    def compute(data: Tensor, *parameters: Tensor) -> Tensor:
        moved = _requantize_to_int64(data, parameters, 0)
        slope, rest = (_Factors(_scalar(tirx.const(factor, "float64"))) for factor in (alpha, 1 - alpha))
        zero_point, output_zero_point = (parameters[i]().astype("int64") for i in (1, 3))

        def element(*index: Index) -> PrimExpr:
            value = _int32(moved(*index))
            below = slope.times(value, index, 0) + rest.times(output_zero_point, index, 0)
            negative = data(*index).astype("int64") < zero_point
            return _saturate(tirx.Select(negative, below, value), dtype)

        return te.compute(data.shape, element)

    return call.te(compute, *call.args)


def _avg_pool2d(call: OpCall) -> Value:
    """Requantize, then average; padding is 0, as in Relay."""
    dtype = tensor_dtype(call.args[0])

    def compute(data: Tensor, *parameters: Tensor) -> Tensor:
        moved = _requantize_to_int64(data, parameters, 0)
        return te.compute(data.shape, lambda *index: moved(*index).astype("int32"))

    moved = call.emit(call.te(compute, *call.args))
    means = call.emit(RULES["nn.avg_pool2d"](replace(call, args=(moved,))))
    return call.te(
        lambda x: te.compute(x.shape, lambda *index: _saturate(x(*index).astype("int64"), dtype)), means
    )


def _concatenate(call: OpCall) -> Value:
    """Requantize each tensor, then concatenate."""
    tensors, scales, zero_points, *output = call.args
    dtype = tensor_dtype(tensors[0])

    def compute(data: Tensor, *parameters: Tensor) -> Tensor:
        moved = _requantize_to_int64(data, parameters, 0)
        return te.compute(data.shape, lambda *index: _saturate(moved(*index), dtype))

    moved = tuple(
        call.emit(call.te(compute, *each, *output)) for each in zip(tensors, scales, zero_points, strict=True)
    )
    return RULES["concatenate"](replace(call, args=(moved,)))


# --- products -----------------------------------------------------------------------------------------------


def _centered_product_rule(name: str, channel_axis: Callable[[OpCall], int], dtype: str = "int16") -> Rule:
    """Center both operands in ``dtype``, as Relay does, and multiply by the operator ``name``."""

    def rule(call: OpCall) -> Value:
        data, weight, data_zero_point, weight_zero_point, *_ = call.args
        axis = channel_axis(call)
        left = _center(call, data, data_zero_point, 0, dtype)
        right = _center(call, weight, weight_zero_point, axis, dtype)
        return RULES[name](replace(call, args=(left, right)))

    return rule


def _output_channel(call: OpCall) -> int:
    return str(call.attrs["kernel_layout"]).index("O")


# --- by a table of all results ------------------------------------------------------------------------------


def _constant_parameter(call: OpCall, index: int) -> PrimExpr:
    """Return a scale or zero point that must be a constant."""
    value = call.args[index]
    if isinstance(value, relax.Var):
        call.refuse("the scales and zero points must be constants")
    return as_array(value.value)[()]


def _table_rule(function: ElementFunction) -> Rule:
    """Compute a function of real numbers for each of the 256 quantized numbers, and look results up."""

    def rule(call: OpCall) -> Value:
        dtype = tensor_dtype(call.args[0])
        scale, zero_point, output_scale, output_zero_point = (
            _constant_parameter(call, at) for at in range(1, 5)
        )
        numbers = np.arange(256, dtype="uint8").view(dtype).astype("int32")
        with np.errstate(all="ignore"):
            real = function((numbers - zero_point).astype("float32") * scale) / output_scale
            whole = np.trunc(real + np.copysign(np.float32(0.5), real)) + np.float32(output_zero_point)
            low, high = _limits(dtype)
            within = np.where(np.isnan(whole), high, np.clip(whole, low, high))  # as Relay's clip has it

        def compute(data: Tensor, table: Tensor) -> Tensor:
            return te.compute(data.shape, lambda *at: table(data(*at).astype("int32") & 255))

        return call.te(compute, call.args[0], relax.const(as_tensor(within.astype(dtype))))

    return rule


def _hardswish(x: PrimExpr) -> PrimExpr:
    return x * np.clip(x + np.float32(3), np.float32(0), np.float32(6)) / np.float32(6)


_erf = np.vectorize(math.erf, otypes=["float32"])
_TABLE_FUNCTIONS: dict[str, ElementFunction] = {
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
    axis = _axis(call.attrs["axis"], len(shape_of(call.args[0])))

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
        whole = te.compute(
            data.shape,
            lambda *i: scalar_functions.clip(tirx.truncdiv(exponent(*i), tirx.const(-unit, "int32")), 0, 20),
        )
        most = topi.max(whole, axis, keepdims=True)

        def mantissa(*index: Index) -> PrimExpr:
            rest = exponent(*index) + whole(*index) * unit
            return ((rest >> 1) + unit) << (along(most, index) - whole(*index))

        terms = te.compute(data.shape, mantissa)
        total = topi.sum(terms, axis, keepdims=True)
        factors = _Factors(_scalar(tirx.const(2.0**-7, "float64") / output_scale().astype("float64")))

        def element(*index: Index) -> PrimExpr:
            share = scalar_functions.trunc_divide(tirx.const(1 << 30, "int32"), along(total, index))
            value = (share * terms(*index)) >> 23
            moved = factors.times(value.astype("int64"), index, 0) + output_zero_point().astype("int64")
            return _saturate(moved, "int8")

        return te.compute(data.shape, element)

    return call.te(compute, call.args[0], *call.args[3:])


# --- simulated ----------------------------------------------------------------------------------------------

#: The code by which a simulated operator chooses a dtype; 0 means none.
_CODES = {1: "int8", 2: "uint8", 3: "int32"}


def _simulation_rule(element: Callable[[PrimExpr, PrimExpr, PrimExpr, str], PrimExpr]) -> Rule:
    """Apply ``element`` to an element, its scale, its zero point and the dtype that the code names."""

    def rule(call: OpCall) -> Value:
        data, code, scale, zero_point = call.args
        axis = _axis(call.attrs["axis"], len(shape_of(data)))

        def compute(x: Tensor, code: Tensor, scale: PrimExpr, zero: PrimExpr) -> Tensor:
            def value(*index: Index) -> PrimExpr:
                step, offset = (
                    _channel_parameter(each, index, axis).astype(x.dtype) for each in (scale, zero)
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


def _simulated_quantize(x: PrimExpr, scale: PrimExpr, zero_point: PrimExpr, dtype: str) -> PrimExpr:
    low, high = map(float, _limits(dtype))
    return scalar_functions.clip(scalar_functions.round_half_away(x / scale) + zero_point, low, high)


def _simulated_dequantize(x: PrimExpr, scale: PrimExpr, zero_point: PrimExpr, _dtype: str) -> PrimExpr:
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
        "qnn.dense": _centered_product_rule("nn.dense", lambda _call: 0),
        "qnn.batch_matmul": _centered_product_rule("nn.batch_matmul", lambda _call: 0, "int32"),
        "qnn.conv2d": _centered_product_rule("nn.conv2d", _output_channel),
        "qnn.conv2d_transpose": _centered_product_rule("nn.conv2d_transpose", _output_channel),
        "qnn.simulated_quantize": _simulation_rule(_simulated_quantize),
        "qnn.simulated_dequantize": _simulation_rule(_simulated_dequantize),
    }
    | {f"qnn.{name}": _table_rule(function) for name, function in _TABLE_FUNCTIONS.items()}
)
