"""Arithmetic on quantized numbers, in integers: differences from the zero points, fixed-point factors.

The results are those of Relay's own lowering for a CPU, bit for bit, with its wrapping of int32 and int16.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer, number
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.binary import broadcasting
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Rule, Value, attr_dtype, shape_of
from nnmagic.engine.relax.runtime.tensors import as_array, as_tensor


def _at(parameter: Any, index: Sequence[Any], axis: int) -> Any:
    """The scale or zero point of an element: the tensor's one, or that of the element's channel."""
    if not len(parameter.shape):
        return parameter()
    return parameter(0 if parameter.shape[0] == 1 else index[axis])


def _axis(value: object, rank: int) -> int:
    """An axis counted from the front; the only one of a vector, and a scalar's single channel, are 0."""
    return integer(value) % rank if rank > 1 else 0


def _int32(value: Any) -> Any:
    """An int64 as int32 holds it, in int64."""
    return value.astype("int32").astype("int64")


def _difference(data: Any, zero_point: Any, index: Sequence[Any], axis: int) -> Any:
    """How far an element is from its zero point; it wraps as int32."""
    return _int32(data(*index).astype("int64") - _at(zero_point, index, axis).astype("int64"))


def _saturated(value: Any, dtype: str) -> Any:
    """An int64 that wraps as int32, then is limited to the dtype's range."""
    return scalar_functions.clip(_int32(value), *_limits(dtype)).astype(dtype)


def _limits(dtype: str) -> tuple[int, int]:
    return int(tirx.min_value(dtype).value), int(tirx.max_value(dtype).value)


# --- fixed-point factors ------------------------------------------------------------------------------------


class _Factors:
    """Real factors, one a channel, as a multiplier of 31 bits and a power of 2 (as ``frexp`` splits them)."""

    def __init__(self, real: Any) -> None:
        def parts(*index: Any) -> tuple[Any, Any]:
            bits = tirx.reinterpret("int64", real(*index))
            fraction = (bits & tirx.const((1 << 52) - 1, "int64")) | tirx.const(1022 << 52, "int64")
            scaled = tirx.reinterpret("float64", fraction) * tirx.const(2.0**31, "float64")
            exponent = ((bits >> tirx.const(52, "int64")) & tirx.const(2047, "int64")) - 1022
            size = (scaled + tirx.const(0.5, "float64")).astype("int64")
            return tirx.Select(bits < tirx.const(0, "int64"), -size, size), exponent

        # A multiplier that is rounded up to 2**31 does not matter: it is 2**30 times one power of 2 more.
        self.multiplier = te.compute(real.shape, lambda *index: parts(*index)[0], "multiplier")
        self.exponent = te.compute(real.shape, lambda *index: parts(*index)[1], "exponent")

    def times(self, value: Any, index: Sequence[Any], axis: int, *, rounding: str = "UPWARD") -> Any:
        """An int64 that int32 can hold, times the factor of its channel; halves are rounded up, or away from
        zero with the rounding ``TONEAREST``.
        """
        zero, one = tirx.const(0, "int64"), tirx.const(1, "int64")
        exponent = _at(self.exponent, index, axis)
        left = tirx.min(tirx.max(exponent, zero), tirx.const(62, "int64"))
        right = tirx.const(31, "int64") - tirx.min(exponent, zero)
        total = tirx.min(right, tirx.const(62, "int64"))
        product = (value << left) * _at(self.multiplier, index, axis)
        half = one << (total - one)
        if rounding == "TONEAREST":
            half = half - tirx.Select(product < zero, one, zero)
        return tirx.Select(right == total, (product + half) >> total, zero)


def _ratios(scale: Any, output_scale: Any) -> Any:
    """The real factors from one scale to another."""
    return te.compute(
        scale.shape,
        lambda *index: scale(*index).astype("float64") / output_scale().astype("float64"),
        "ratio",
    )


def _scalar(value: Any) -> Any:
    """A number as a tensor of rank 0."""
    return te.compute((), lambda: value)


def _requantized(
    data: Any, parameters: Sequence[Any], axis: int, *, rounding: str = "UPWARD", name: str = "requantized"
) -> Any:
    """An int64 tensor that still has to wrap and be limited; ``parameters``: both scales and zero points."""
    scale, zero_point, output_scale, output_zero_point = parameters
    factors = _Factors(_ratios(scale, output_scale))

    def element(*index: Any) -> Any:
        moved = factors.times(_difference(data, zero_point, index, axis), index, axis, rounding=rounding)
        return moved + output_zero_point().astype("int64")

    return te.compute(data.shape, element, name)


def _requantized_in_floats(
    data: Any, parameters: Sequence[Any], axis: int, rounding: str, dtype: str, out_dtype: str
) -> Any:
    """The same in floats of ``dtype``; what is out of range is limited before it is an integer."""
    scale, zero_point, output_scale, output_zero_point = parameters
    ratio = _ratios(scale, output_scale)

    def product(*index: Any) -> Any:
        distance = data(*index).astype(dtype) - _at(zero_point, index, axis).astype(dtype)
        return distance * _at(ratio, index, axis).astype(dtype)

    # Stored, so that LLVM cannot make one operation of it and the addition, which rounds otherwise.
    products = te.compute(data.shape, product, "product")
    half = tirx.const(0.5, dtype)

    def element(*index: Any) -> Any:
        moved = products(*index) + output_zero_point().astype(dtype)
        if rounding == "UPWARD":
            rounded = tirx.floor(moved + half)
        else:
            rounded = tirx.trunc(moved + tirx.Select(moved < tirx.const(0, dtype), -half, half))
        low, high = map(float, _limits(out_dtype))
        return scalar_functions.clip(rounded.astype("float64"), low, high).astype(out_dtype)

    return te.compute(data.shape, element)


def _requantize(site: OpCall) -> Value:
    attrs = site.attrs
    rounding = "UPWARD" if attrs["rounding"] == "None" else str(attrs["rounding"])
    compute_dtype = "int64" if attrs["compute_dtype"] == "None" else str(attrs["compute_dtype"])
    out_dtype = str(attrs["out_dtype"])

    def compute(data: Any, *parameters: Any) -> Any:
        axis = _axis(attrs["axis"], len(data.shape))
        if compute_dtype != "int64":
            return _requantized_in_floats(data, parameters, axis, rounding, compute_dtype, out_dtype)
        moved = _requantized(data, parameters, axis, rounding=rounding)
        return te.compute(data.shape, lambda *index: _saturated(moved(*index), out_dtype))

    return site.te(compute, *site.args)


# --- element by element -------------------------------------------------------------------------------------


def _sum(sign: int) -> Rule:
    """Both operands are brought to the result's scale and zero point, which is in the sum once too often."""

    def add(left: Any, right: Any) -> Any:
        return left + right if sign > 0 else left - right

    def rule(site: OpCall) -> Value:
        dtype = attr_dtype(site.args[0])
        lhs, rhs, *parameters, scale, zero_point = site.args

        def side(data: Value, own: Sequence[Value], axis: object) -> Value:
            def compute(x: Any, *parameters: Any) -> Any:
                return _requantized(x, parameters, _axis(axis, len(x.shape)))

            return site.emit(site.te(compute, data, *own, scale, zero_point))

        left = side(lhs, parameters[:2], site.attrs["lhs_axis"])
        right = side(rhs, parameters[2:], site.attrs["rhs_axis"])
        total = site.emit(broadcasting(add)(replace(site, args=(left, right))))

        def without(x: Any, once: Any) -> Any:
            step = once().astype("int64")
            return te.compute(x.shape, lambda *index: _saturated(add(x(*index), -step), dtype))

        return site.te(without, total, zero_point)

    return rule


def _product(site: OpCall) -> Value:
    """The product of the differences, requantized from the product of the scales."""
    dtype = attr_dtype(site.args[0])
    lhs, rhs, lhs_scale, lhs_zero_point, rhs_scale, rhs_zero_point, *output = site.args
    ranks = len(shape_of(lhs)), len(shape_of(rhs))
    axes = [_axis(site.attrs[f"{name}_axis"], rank) for name, rank in zip(("lhs", "rhs"), ranks, strict=True)]
    scales = lhs_scale, rhs_scale
    places = {axis - rank for axis, rank, scale in zip(axes, ranks, scales, strict=True) if shape_of(scale)}
    left = _differences(site, lhs, lhs_zero_point, axes[0], "int64")
    right = _differences(site, rhs, rhs_zero_point, axes[1], "int64")
    products = site.emit(broadcasting(operator.mul)(replace(site, args=(left, right))))
    scale = site.emit(broadcasting(operator.mul)(replace(site, args=scales)))

    def compute(x: Any, scale: Any, output_scale: Any, zero_point: Any) -> Any:
        factors = _Factors(_ratios(scale, output_scale))
        axis = max(places, default=0) + (len(x.shape) if places else 0)

        def element(*index: Any) -> Any:
            moved = factors.times(x(*index), index, axis) + zero_point().astype("int64")
            return _saturated(moved, dtype)

        return te.compute(x.shape, element)

    return site.te(compute, products, scale, *output)


def _differences(site: OpCall, data: Value, zero_point: Value, axis: int, dtype: str) -> Value:
    """The tensor of distances from the zero point; those of int16 wrap."""

    def compute(x: Any, zero: Any) -> Any:
        return te.compute(
            x.shape, lambda *index: x(*index).astype(dtype) - _at(zero, index, axis).astype(dtype)
        )

    return site.emit(site.te(compute, data, zero_point))


def _leaky_relu(site: OpCall) -> Value:
    """Requantized; where the element is below its zero point, times alpha from the result's zero point on."""
    dtype = attr_dtype(site.args[0])
    alpha = number(site.attrs["alpha"])

    def compute(data: Any, *parameters: Any) -> Any:
        moved = _requantized(data, parameters, 0)
        slope, rest = (_Factors(_scalar(tirx.const(factor, "float64"))) for factor in (alpha, 1 - alpha))
        zero_point, output_zero_point = (parameters[at]().astype("int64") for at in (1, 3))

        def element(*index: Any) -> Any:
            value = _int32(moved(*index))
            below = slope.times(value, index, 0) + rest.times(output_zero_point, index, 0)
            negative = data(*index).astype("int64") < zero_point
            return _saturated(tirx.Select(negative, below, value), dtype)

        return te.compute(data.shape, element)

    return site.te(compute, *site.args)


def _avg_pool2d(site: OpCall) -> Value:
    """The mean of what was brought to the result's scale and zero point; padding is 0, as in Relay."""
    dtype = attr_dtype(site.args[0])

    def compute(data: Any, *parameters: Any) -> Any:
        moved = _requantized(data, parameters, 0)
        return te.compute(data.shape, lambda *index: moved(*index).astype("int32"))

    moved = site.emit(site.te(compute, *site.args))
    means = site.emit(RULES["nn.avg_pool2d"](replace(site, args=(moved,))))
    return site.te(
        lambda x: te.compute(x.shape, lambda *index: _saturated(x(*index).astype("int64"), dtype)), means
    )


def _concatenate(site: OpCall) -> Value:
    """Each tensor requantized, then joined."""
    tensors, scales, zero_points, *output = site.args
    dtype = attr_dtype(tensors[0])

    def compute(data: Any, *parameters: Any) -> Any:
        moved = _requantized(data, parameters, 0)
        return te.compute(data.shape, lambda *index: _saturated(moved(*index), dtype))

    moved = tuple(
        site.emit(site.te(compute, *each, *output)) for each in zip(tensors, scales, zero_points, strict=True)
    )
    return RULES["concatenate"](replace(site, args=(moved,)))


# --- products -----------------------------------------------------------------------------------------------


def _shifted_product(name: str, channel_axis: Callable[[OpCall], int], dtype: str = "int16") -> Rule:
    """The product of the differences by the operator ``name``; Relay takes the differences in ``dtype``."""

    def rule(site: OpCall) -> Value:
        data, weight, data_zero_point, weight_zero_point, *_ = site.args
        axis = channel_axis(site)
        left = _differences(site, data, data_zero_point, 0, dtype)
        right = _differences(site, weight, weight_zero_point, axis, dtype)
        return RULES[name](replace(site, args=(left, right)))

    return rule


def _output_channel(site: OpCall) -> int:
    return str(site.attrs["kernel_layout"]).index("O")


# --- by a table of all results ------------------------------------------------------------------------------


def _constant(site: OpCall, index: int) -> Any:
    """A scale or zero point that must be known when the program is compiled."""
    value = site.args[index]
    if isinstance(value, relax.Var):
        site.refuse("the scales and zero points must be constants")
    return as_array(value.value)[()]


def _by_table(function: Callable[[Any], Any]) -> Rule:
    """A function of real numbers, computed for each of the 256 numbers there can be."""

    def rule(site: OpCall) -> Value:
        dtype = attr_dtype(site.args[0])
        scale, zero_point, output_scale, output_zero_point = (_constant(site, at) for at in range(1, 5))
        numbers = np.arange(256, dtype="uint8").view(dtype).astype("int32")
        with np.errstate(all="ignore"):
            real = function((numbers - zero_point).astype("float32") * scale) / output_scale
            whole = np.trunc(real + np.copysign(np.float32(0.5), real)) + np.float32(output_zero_point)
            low, high = _limits(dtype)
            within = np.where(np.isnan(whole), high, np.clip(whole, low, high))  # as Relay's clip has it

        def compute(data: Any, table: Any) -> Any:
            return te.compute(data.shape, lambda *at: table(data(*at).astype("int32") & 255))

        return site.te(compute, site.args[0], relax.const(as_tensor(within.astype(dtype))))

    return rule


def _hardswish(x: Any) -> Any:
    return x * np.clip(x + np.float32(3), np.float32(0), np.float32(6)) / np.float32(6)


_erf = np.vectorize(math.erf, otypes=["float32"])
_BY_TABLE: dict[str, Callable[[Any], Any]] = {
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


def _softmax(site: OpCall) -> Value:
    """Powers of 2 in integers: exp(x) is 2**(x log2(e)), log2(e) about 1 + 1/2 - 1/16, 2**-f about 1 - f/2
    (Shiftmax: Li and Gu, I-ViT, 2022, https://arxiv.org/abs/2207.01405).
    """
    scale, zero_point = _constant(site, 1), _constant(site, 2)
    if not 0 < scale <= 1:
        site.refuse(f"the scale of the data must be positive and at most 1, not {scale:g}")
    unit = int(np.float32(1) / scale + np.float32(0.5))
    axis = _axis(site.attrs["axis"], len(shape_of(site.args[0])))

    def compute(data: Any, output_scale: Any, output_zero_point: Any) -> Any:
        def along(tensor: Any, index: Sequence[Any]) -> Any:
            return tensor(*(0 if at == axis else place for at, place in enumerate(index)))

        distance = te.compute(
            data.shape, lambda *i: data(*i).astype("int32") - tirx.const(zero_point, "int32")
        )
        largest = topi.max(distance, axis, keepdims=True)

        def power(*index: Any) -> Any:
            below = distance(*index) - along(largest, index)
            return below + (below >> 1) - (below >> 4)

        exponent = te.compute(data.shape, power)
        whole = te.compute(
            data.shape,
            lambda *i: scalar_functions.clip(tirx.truncdiv(exponent(*i), tirx.const(-unit, "int32")), 0, 20),
        )
        most = topi.max(whole, axis, keepdims=True)

        def mantissa(*index: Any) -> Any:
            rest = exponent(*index) + whole(*index) * unit
            return ((rest >> 1) + unit) << (along(most, index) - whole(*index))

        terms = te.compute(data.shape, mantissa)
        total = topi.sum(terms, axis, keepdims=True)
        factors = _Factors(_scalar(tirx.const(2.0**-7, "float64") / output_scale().astype("float64")))

        def element(*index: Any) -> Any:
            share = scalar_functions.truncated_quotient(tirx.const(1 << 30, "int32"), along(total, index))
            value = (share * terms(*index)) >> 23
            moved = factors.times(value.astype("int64"), index, 0) + output_zero_point().astype("int64")
            return _saturated(moved, "int8")

        return te.compute(data.shape, element)

    return site.te(compute, site.args[0], *site.args[3:])


# --- simulated ----------------------------------------------------------------------------------------------

#: The code of a dtype, by which a simulated operator chooses; 0 means none.
_CODES = {1: "int8", 2: "uint8", 3: "int32"}


def _simulated(element: Callable[[Any, Any, Any, str], Any]) -> Rule:
    """What ``element`` makes of an element, its scale, its zero point and the dtype of that code."""

    def rule(site: OpCall) -> Value:
        data, code, scale, zero_point = site.args
        axis = _axis(site.attrs["axis"], len(shape_of(data)))

        def compute(x: Any, code: Any, scale: Any, zero: Any) -> Any:
            def value(*index: Any) -> Any:
                step, offset = (_at(each, index, axis).astype(x.dtype) for each in (scale, zero))
                result = x(*index)
                for known, dtype in _CODES.items():
                    result = tirx.Select(code() == known, element(x(*index), step, offset, dtype), result)
                return result

            return te.compute(x.shape, value)

        return site.te(compute, data, code, scale, zero_point)

    return rule


def _simulated_quantize(x: Any, scale: Any, zero_point: Any, dtype: str) -> Any:
    low, high = map(float, _limits(dtype))
    return scalar_functions.clip(scalar_functions.round_half_away(x / scale) + zero_point, low, high)


def _simulated_dequantize(x: Any, scale: Any, zero_point: Any, _dtype: str) -> Any:
    return (x - zero_point) * scale


RULES.update(
    {
        "qnn.requantize": _requantize,
        "qnn.add": _sum(1),
        "qnn.subtract": _sum(-1),
        "qnn.mul": _product,
        "qnn.leaky_relu": _leaky_relu,
        "qnn.avg_pool2d": _avg_pool2d,
        "qnn.softmax": _softmax,
        "qnn.concatenate": _concatenate,
        "qnn.dense": _shifted_product("nn.dense", lambda _site: 0),
        "qnn.batch_matmul": _shifted_product("nn.batch_matmul", lambda _site: 0, "int32"),
        "qnn.conv2d": _shifted_product("nn.conv2d", _output_channel),
        "qnn.conv2d_transpose": _shifted_product("nn.conv2d_transpose", _output_channel),
        "qnn.simulated_quantize": _simulated(_simulated_quantize),
        "qnn.simulated_dequantize": _simulated(_simulated_dequantize),
    }
    | {f"qnn.{name}": _by_table(function) for name, function in _BY_TABLE.items()}
)
