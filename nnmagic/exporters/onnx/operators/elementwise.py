"""Export operators that compute each element from those at its place.

The standard: https://onnx.ai/onnx/operators/onnx__Div.html
"""

from __future__ import annotations

import math

import numpy as np

from nnmagic.exporters.onnx.errors import ExportRefusalError
from nnmagic.exporters.onnx.registry import Rule, direct, operator, operators
from nnmagic.exporters.onnx.sites import ExportCall
from nnmagic.relay.types import is_float, is_integer

direct(
    {
        **{name: name.capitalize() for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil")},
        **{name: name.capitalize() for name in ("cos", "cosh", "erf", "exp", "floor", "log", "sign", "sin")},
        **{name: name.capitalize() for name in ("sinh", "sqrt", "tan", "tanh", "sigmoid", "abs")},
        "negative": "Neg",
        "bitwise_not": "BitwiseNot",
        "copy": "Identity",
        "fast_exp": "Exp",
        "fast_tanh": "Tanh",
        "divide": "Div",
        "equal": "Equal",
        "less": "Less",
        "greater": "Greater",
        "less_equal": "LessOrEqual",
        "greater_equal": "GreaterOrEqual",
    }
)


def _of_bools(numbers: str, bools: str) -> Rule:
    """Return the rule of an operator with another name for bools, whose sums are those of one bit."""
    return lambda site: site.node(bools if site.dtype == "bool" else numbers, *site.args)


def _logical(onnx_name: str) -> Rule:
    return lambda site: site.to_result(
        site.node(onnx_name, site.operand(0, "bool"), site.operand(1, "bool")), "bool"
    )


# -- division --------------------------------------------------------------------------------------------


@operator("trunc_divide")
def _trunc_divide(site: ExportCall) -> str:
    quotient = site.node("Div", *site.args)
    return truncate(site, quotient) if is_float(site.dtype) else quotient


@operator("floor_divide")
def _floor_divide(site: ExportCall) -> str:
    if is_float(site.dtype):
        return site.node("Floor", site.node("Div", *site.args))
    return floor_divide(site, *site.args)


@operator("floor_mod")
def _floor_mod(site: ExportCall) -> str:
    if not is_float(site.dtype):
        return site.node("Mod", *site.args)
    lhs, rhs = site.args
    return site.node("Sub", lhs, site.node("Mul", site.node("Floor", site.node("Div", lhs, rhs)), rhs))


def floor_divide(site: ExportCall, lhs: str, rhs: str) -> str:
    """Divide integers and round towards minus infinity: what is left over is divided exactly."""
    return site.node("Div", site.node("Sub", lhs, site.node("Mod", lhs, rhs)), rhs)


def truncate(site: ExportCall, name: str) -> str:
    """Round towards zero."""
    return site.node("Mul", site.node("Sign", name), site.node("Floor", site.node("Abs", name)))


# -- powers ----------------------------------------------------------------------------------------------


@operator("power")
def _power(site: ExportCall) -> str:
    """Raise integers to powers by squaring: Pow of integers rounds in onnxruntime, and takes few dtypes."""
    if is_float(site.dtype):
        return site.node("Pow", *site.args)
    square, exponent = site.args
    static = site.known(1)
    if site.dtype == "bool" or (static is not None and (static < 0).any()):
        raise ExportRefusalError("a power of bools, or of integers to a negative number, is not defined")
    largest = np.iinfo(site.dtype).max if static is None else static.max(initial=1)
    bits = int(largest).bit_length()
    power, one, two = site.constant(1), site.constant(1), site.constant(2)
    for bit in range(bits):
        is_set = site.node("Equal", site.node("Mod", exponent, two), one)
        power = site.node("Where", is_set, site.node("Mul", power, square), power)
        if bit < bits - 1:
            exponent, square = site.node("Div", exponent, two), site.node("Mul", square, square)
    return power


# -- shifts ----------------------------------------------------------------------------------------------


@operator("left_shift")
def _left_shift(site: ExportCall) -> str:
    if site.dtype.startswith("uint"):
        return site.node("BitShift", *site.args, direction="LEFT")
    return site.node("Mul", site.args[0], _power_of_two(site, site.args[1]))


@operator("right_shift")
def _right_shift(site: ExportCall) -> str:
    shifted, count = site.args
    if site.dtype.startswith("uint"):
        return site.node("BitShift", shifted, count, direction="RIGHT")
    half = site.node("Div", count, site.constant(2))  # the largest power of two is no signed number
    for part in (half, site.node("Sub", count, half)):
        shifted = floor_divide(site, shifted, _power_of_two(site, part))
    return shifted


def _power_of_two(site: ExportCall, exponent: str) -> str:
    bits = np.dtype(site.dtype).itemsize * 8
    table = np.array([1 << bit for bit in range(bits)], np.uint64).astype(site.dtype)
    return site.node("Gather", site.constant(table), site.cast(exponent, "int64"))


# -- functions -------------------------------------------------------------------------------------------


@operator("round")
def _round(site: ExportCall) -> str:
    """Round half away from zero; ONNX's Round rounds half to even."""
    return round_away(site, site.args[0]) if is_float(site.dtype) else site.args[0]


def round_away(site: ExportCall, name: str) -> str:
    """Round to the nearest integer, and half away from zero."""
    magnitude = site.node("Abs", name)
    below = site.node("Floor", magnitude)
    is_more = site.node("GreaterOrEqual", site.node("Sub", magnitude, below), site.constant(0.5))
    rounded = site.node("Add", below, site.cast(is_more, site.dtype))
    return site.node("Mul", site.node("Sign", name), rounded)


@operator("isfinite")
def _isfinite(site: ExportCall) -> str:
    name = _as_float(site)
    return site.node("Not", site.node("Or", site.node("IsNaN", name), site.node("IsInf", name)))


def _as_float(site: ExportCall) -> str:
    return site.args[0] if is_float(site.dtype) else site.cast(site.args[0], "float32")


@operator("reinterpret", note="to the same dtype")
def _reinterpret(site: ExportCall) -> str:
    if site.result_dtype != site.dtype:
        raise ExportRefusalError(f"the opset 21 of ONNX does not read the bits of {site.dtype} otherwise")
    return site.node("Identity", site.args[0])


@operator("clip")
def _clip(site: ExportCall) -> str:
    low, high = site.number("a_min"), site.number("a_max")
    if is_integer(site.dtype):
        limits = np.iinfo(site.dtype)
        low = max(int(low) if math.isfinite(low) else limits.min, limits.min)
        high = min(int(high) if math.isfinite(high) else limits.max, limits.max)
    limits_of = site.constant(low), site.constant(high)
    if low <= high:
        return site.node("Clip", site.args[0], *limits_of)
    return site.node("Max", site.node("Min", site.args[0], limits_of[1]), limits_of[0])


# -- activations -----------------------------------------------------------------------------------------


@operator("nn.relu")
def _relu(site: ExportCall) -> str:
    if is_float(site.dtype):
        return site.node("Relu", site.args[0])
    return site.node("Max", site.args[0], site.constant(0))


@operator("nn.dropout")
def _dropout(site: ExportCall) -> list[str]:
    """Keep the data, as at inference; the mask is of ones."""
    ones = site.node("Expand", site.constant(1), site.node("Shape", site.args[0]))
    return [site.args[0], ones]


operators(
    {
        "add": _of_bools("Add", "Xor"),
        "bitwise_and": _of_bools("BitwiseAnd", "And"),
        "bitwise_or": _of_bools("BitwiseOr", "Or"),
        "bitwise_xor": _of_bools("BitwiseXor", "Xor"),
        "cast cast_like": lambda site: site.cast(site.args[0], site.result_dtype),
        "isinf": lambda site: site.node("IsInf", _as_float(site)),
        "isnan": lambda site: site.node("IsNaN", _as_float(site)),
        "log10": lambda site: site.node(
            "Mul", site.node("Log", site.args[0]), site.constant(1 / math.log(10))
        ),
        "log2": lambda site: site.node("Mul", site.node("Log", site.args[0]), site.constant(1 / math.log(2))),
        "logical_and": _logical("And"),
        "logical_not": lambda site: site.to_result(site.node("Not", site.operand(0, "bool")), "bool"),
        "logical_or": _logical("Or"),
        "logical_xor": _logical("Xor"),
        "maximum": _of_bools("Max", "Or"),
        "minimum": _of_bools("Min", "And"),
        "mod trunc_mod": lambda site: site.node("Mod", *site.args, fmod=1),
        "multiply": _of_bools("Mul", "And"),
        "nn.bias_add": lambda site: site.node(
            "Add", site.args[0], site.along(site.args[1], site.axis(), site.rank)
        ),
        "nn.leaky_relu": lambda site: site.node("LeakyRelu", site.args[0], alpha=site.number("alpha")),
        "nn.prelu": lambda site: site.node(
            "PRelu", site.args[0], site.along(site.args[1], site.axis(), site.rank)
        ),
        "not_equal": lambda site: site.node("Not", site.node("Equal", *site.args)),
        "numpy.rint": lambda site: site.node("Round", site.args[0]) if is_float(site.dtype) else site.args[0],
        "rsqrt": lambda site: site.node("Reciprocal", site.node("Sqrt", site.args[0])),
        "subtract": _of_bools("Sub", "Xor"),
        "trunc": lambda site: truncate(site, site.args[0]) if is_float(site.dtype) else site.args[0],
        "where": lambda site: site.node("Where", site.operand(0, "bool"), *site.args[1:]),
    }
)
