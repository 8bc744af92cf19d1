"""Import element-wise operators: arithmetic, comparisons, logic, rounding, conversions.

What they compute: https://docs.pytorch.org/docs/stable/torch.html#pointwise-ops
"""

from __future__ import annotations

import math
from typing import Any

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.operators.elementwise import _integer_power
from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.importers.torch.calls import AtenCall, scalar_constant
from nnmagic.importers.torch.mathematics import convert, in_float32, wide
from nnmagic.importers.torch.operators.complex_numbers import absolute, near_zero
from nnmagic.importers.torch.registry import Rule, operator, operators, refuse
from nnmagic.relay.functions import activations
from nnmagic.relay.functions.special import ignoring_nan, round_decimals
from nnmagic.relay.types import ARRAY_DTYPES, NUMPY_DTYPES, is_complex, is_integer

# -- one operand ---------------------------------------------------------------------------------------


@operator("rsqrt", "sigmoid")
def _inverse(call: AtenCall) -> Value:
    data, name = convert(call["self"], call.dtype), call.own_name
    if not is_complex(data.dtype):
        return in_float32(name, data)
    return 1 / (op("sqrt", data) if name == "rsqrt" else 1 + op("exp", -data))


@operator("exp2")
def _exp2(call: AtenCall) -> Value:
    data = wide(convert(call["self"], call.dtype))
    return op("power", data.like(2), data)


def _is_whole(data: Value) -> bool:
    """Return whether rounding leaves a tensor as it is: complex numbers are not rounded, and refused."""
    return not data.is_float and not is_complex(data.dtype)


@operator("round")
def _round(call: AtenCall) -> Value:
    data = wide(call["self"])
    digits = call.integer("decimals", 0)
    if _is_whole(data):
        if digits < 0:
            raise UnsupportedError("rounding integers to tens is not supported")
        return data
    return round_decimals(data, digits)


@operator("sign", "sgn")
def _sign(call: AtenCall) -> Value:
    data = call["self"]
    if is_complex(data.dtype):
        return op("sign", data)
    if data.dtype == "bool":
        return data
    return (data > 0).cast(data.dtype) - (data < 0).cast(data.dtype)


@operator("angle")
def _angle(call: AtenCall) -> Value:
    """Return the angle: of real numbers pi of negative ones, 0 of others, NaN of NaN."""
    if is_complex(call["self"].dtype):
        return op("complex.angle", call["self"])
    data = convert(call["self"], call.dtype)
    return op("isnan", wide(data)).choose(data, (data < 0).choose(data.like(math.pi), 0.0))


@operator("isnan", "isinf", "isfinite")
def _test(call: AtenCall) -> Value:
    data, name = call["self"], call.own_name
    if data.is_float or is_complex(data.dtype):
        return op(name, wide(data))
    return call.full(data.shape, scalar_constant(name == "isfinite", "bool"))


# -- two operands --------------------------------------------------------------------------------------


def _operands(call: AtenCall, lhs: str = "self", rhs: str = "other") -> list[Value]:
    """Return the operands in the dtype of the result."""
    return [call.number_value(lhs, call.dtype), call.number_value(rhs, call.dtype)]


def _in_opmath(call: AtenCall, lhs: str = "self", rhs: str = "other") -> list[Value]:
    """Return the operands in the dtype in which torch computes: halves, and numbers beside them, in float32.

    The result is rounded once. A tensor of rank 0 counts as a number. The numbers of sums are halves.
    """
    if call.dtype not in ("float16", "bfloat16"):
        return _operands(call, lhs, rhs)
    operands = []
    for name in (lhs, rhs):
        item = call.arguments[name]
        is_tensor = isinstance(item, Value) and item.rank > 0
        operands.append(wide(convert(item, call.dtype)) if is_tensor else call.number_value(name, "float32"))
    return operands


def times(value: Value, factor: Any) -> Value:
    """Multiply by a number, in the value's dtype."""
    if isinstance(factor, Value):
        return value * convert(factor, value.dtype)
    return value if factor == 1 else value * scalar_constant(factor, value.dtype)


def _sum(call: AtenCall, lhs: str, rhs: str, sign: int) -> Value:
    """Return the sum or the difference of an operand and ``alpha`` times another."""
    first, second = map(wide, _operands(call, lhs, rhs))
    alpha = call.argument("alpha", 1)
    second = times(second, alpha if alpha == 1 else wide(call.number_value("alpha", call.dtype)))
    if first.dtype == "bool":
        return op("logical_or" if sign > 0 else "logical_xor", first, second)
    return first + second if sign > 0 else first - second


@operator("addcmul", "addcdiv")
def _add_scaled(call: AtenCall) -> Value:
    first, second = _in_opmath(call, "tensor1", "tensor2")
    (data, _) = _in_opmath(call, "self", "tensor1")
    scaled = times(first, call.argument("value", 1))
    return data + (scaled * second if call.name == "aten.addcmul" else scaled / second)


@operator("mul")
def _mul(call: AtenCall) -> Value:
    lhs, rhs = _in_opmath(call)
    return op("logical_and", lhs, rhs) if lhs.dtype == "bool" else lhs * rhs


@operator("prims.fma")
def _fma(call: AtenCall) -> Value:
    """Return ``a * b + c``, which is what eager torch computes on CPUs where a decomposition has this."""
    dtype = "float32" if call.dtype in ("float16", "bfloat16") else call.dtype
    first, second, addend = (call.number_value(name, dtype) for name in call.arguments)
    return first * second + addend


@operator("div", "true_divide")
def _div(call: AtenCall) -> Value:
    mode = call.argument("rounding_mode")
    lhs, rhs = _in_opmath(call)
    if mode is None:
        return lhs / rhs
    if is_integer(lhs.dtype):
        _divisible(call, rhs)
        return op("floor_divide" if mode == "floor" else "trunc_divide", lhs, rhs)
    if mode == "floor":
        return lhs // rhs
    quotient = lhs / rhs
    return op("trunc", quotient.cast(call.dtype) if rhs.rank else quotient)  # halves of tensors are rounded


def _divisible(call: AtenCall, divisor: Value) -> None:
    """Have a call fail for a divisor of 0, as torch does for integers; there may be nothing to divide."""
    if 0 in call.shape:
        return
    nonzero = op("not_equal", divisor, divisor.like(0))
    call.block.check(op("all", nonzero) if nonzero.rank else nonzero, f"{call.name}: division by zero")


@operator("floor_divide")
def _floor_divide(call: AtenCall) -> Value:
    lhs, rhs = _in_opmath(call)
    if is_integer(lhs.dtype):
        _divisible(call, rhs)
    return lhs // rhs


@operator("fmod")
def _fmod(call: AtenCall) -> Value:
    lhs, rhs = _operands(call)
    if not lhs.is_float:
        _divisible(call, rhs)
    return op("mod", lhs, rhs)


@operator("remainder")
def _remainder(call: AtenCall) -> Value:
    """Return what a division that is rounded down leaves."""
    lhs, rhs = _operands(call)
    if not lhs.is_float:
        _divisible(call, rhs)
        return op("floor_mod", lhs, rhs)
    lhs, rhs = wide(lhs), wide(rhs)
    remainder = op("mod", lhs, rhs)
    differ = op(
        "logical_and", op("not_equal", remainder, remainder.like(0)), op("not_equal", remainder < 0, rhs < 0)
    )
    return differ.choose(remainder + rhs, remainder)


@operator("clamp")
def _clamp(call: AtenCall) -> Value:
    data = convert(call["self"], call.dtype)
    bounds = [
        None if call.arguments.get(name) is None else call.number_value(name, call.dtype)
        for name in ("min", "max")
    ]
    low, high = bounds
    if low is not None:
        data = data.maximum(low)
    return data if high is None else data.minimum(high)


@operator("pow")
def _pow(call: AtenCall) -> Value:
    exponent = call.arguments["exponent"]
    base = call.number_value("self", call.dtype)
    if call.arguments["self"] == 1 or exponent == 0:  # also of NaN
        return call.full(call.shape, scalar_constant(1, call.dtype))
    if isinstance(exponent, int | float) and base.is_float:
        found = _known_power(base, float(exponent))
        if found is not None:
            return found
    other = call.number_value("exponent", call.dtype)
    if base.is_float or is_complex(base.dtype):
        return op("power", wide(base), wide(other)).cast(base.dtype)
    if base.dtype == "bool":
        return op("logical_or", base, op("logical_not", other))
    power = _integer_power(base, other)
    if base.dtype.startswith("uint"):
        return power
    sign = op("bitwise_and", other, other.like(1)).equal(0).choose(1, base)  # of 1 and -1, to any power
    inverse = op("abs", base).equal(1).choose(sign, 0)
    return (other < 0).choose(inverse, power)


def _known_power(base: Value, exponent: float) -> Value | None:
    match exponent:
        case 0.5:
            return in_float32("sqrt", base)
        case 1.0:
            return base
        case 2.0:
            return base * base
        case 3.0:
            return base * base * base
        case -1.0:
            return 1 / base
        case -2.0:
            return 1 / (base * base)
        case -0.5:
            return (1 / op("sqrt", wide(base))).cast(base.dtype)
    return None


def _compare(relay: str) -> Rule:
    return lambda call: op(relay, *call.promote("self", "other")[1])


@operator("bitwise_and", "bitwise_or", "bitwise_xor")
def _bitwise(call: AtenCall) -> Value:
    lhs, rhs = _operands(call)
    name = call.own_name
    return op(name.replace("bitwise", "logical") if lhs.dtype == "bool" else name, lhs, rhs)


@operator("bitwise_left_shift", "__lshift__", "bitwise_right_shift", "__rshift__")
def _shift(call: AtenCall) -> Value:
    lhs, rhs = _operands(call)
    bits = NUMPY_DTYPES[lhs.dtype].itemsize * 8
    allowed = op("logical_and", rhs >= 0, rhs < bits)
    is_left = call.name in ("aten.bitwise_left_shift", "aten.__lshift__")
    if not is_left and lhs.dtype.startswith("int"):  # the sign fills the bits
        return op("right_shift", lhs, allowed.choose(rhs, bits - 1))
    return allowed.choose(op("left_shift" if is_left else "right_shift", lhs, allowed.choose(rhs, 0)), 0)


# -- conversions and copies ----------------------------------------------------------------------------


def to_dtype(data: Value, dtype: str) -> Value:
    """Convert elements; of complex numbers to real ones, as torch does, the real parts."""
    if is_complex(data.dtype) and not is_complex(dtype) and dtype != "bool":
        data = op("complex.real", data)
    return convert(data, dtype)


# -- activations ---------------------------------------------------------------------------------------


@operator("elu")
def _elu(call: AtenCall) -> Value:
    alpha, scale, inner = (call.number(name, 1.0) for name in ("alpha", "scale", "input_scale"))
    return activations.elu(wide(call["self"]), alpha, inner) * scale


@operator("_softmax", "_log_softmax")
def _softmax(call: AtenCall) -> Value:
    data, relay = convert(call["self"], call.dtype), f"nn.{call.own_name[1:]}"
    if not data.rank:
        return data.like(1.0 if relay == "nn.softmax" else 0.0) + data * 0
    if 0 in data.shape:
        return data
    return in_float32(relay, data, axis=call.axis("dim", data.rank))


# -- arithmetic on sizes that no polynomial says ---------------------------------------------------------


@operator("_assert_scalar")
def _assert_scalar(call: AtenCall) -> list[Value]:
    """Check at the call what tracing could not know."""
    condition = call.argument("self")
    if isinstance(condition, Value):
        call.block.check(convert(condition, "bool"), str(call.argument("assert_msg", "assertion failed")))
    return []


refuse(
    *("bernoulli", "rand", "randn", "randperm", "rand_like", "randn_like", "randint", "randint_like"),
    *("multinomial", "normal", "uniform", "exponential", "normal_functional"),
    reason="random numbers are not supported",
    hint="draw them outside and pass them as an argument, or capture the module after .eval()",
)


@operator("native_dropout", note="of inference")
def _native_dropout(call: AtenCall) -> list[Value]:
    if call.argument("train") and call.number("p"):
        raise UnsupportedError("random numbers are not supported", "capture the module after .eval()")
    return [call["input"], call.full(call["input"].shape, scalar_constant(1, "bool"))]


def reinterpret(data: Value, dtype: str) -> Value:
    """Read the bits of each element as another dtype of the same width."""
    if ARRAY_DTYPES[dtype].itemsize != ARRAY_DTYPES[data.dtype].itemsize or "bool" in (dtype, data.dtype):
        raise UnsupportedError(f"a view of {data.dtype} as {dtype} is not supported")
    return data if dtype == data.dtype else op("reinterpret", data, dtype=dtype)


def zero(dtype: str) -> Value:
    """Return 0 in a dtype."""
    return constant(0, dtype) if dtype != "bool" else scalar_constant(0, "bool")


operators(
    {
        **dict.fromkeys(
            ("acos acosh asin asinh atan atanh cos cosh erf", "exp log log10 log2 sin sinh sqrt tan tanh"),
            lambda call: in_float32(call.own_name, convert(call["self"], call.dtype)),
        ),
        "_to_copy to type_as": lambda call: to_dtype(call["self"], call.dtype),
        "bitwise_not": lambda call: op(
            "logical_not" if call["self"].dtype == "bool" else "bitwise_not", call["self"]
        ),
        "ceil floor trunc": lambda call: (
            call["self"] if _is_whole(call["self"]) else op(call.own_name, call["self"])
        ),
        "clone alias detach lift_fresh_copy contiguous lift_fresh detach_copy alias_copy": lambda call: call[
            "self"
        ],
        "eq": _compare("equal"),
        "expm1 log1p": near_zero,
        "ge": _compare("greater_equal"),
        "gt": _compare("greater"),
        "hardtanh": lambda call: activations.limit(
            call["self"], call.argument("min_val", -1), call.argument("max_val", 1)
        ),
        "le": _compare("less_equal"),
        "leaky_relu": lambda call: op(
            "nn.leaky_relu", wide(call["self"]), alpha=call.number("negative_slope", 0.01)
        ),
        "logical_and logical_or logical_xor": lambda call: op(
            call.own_name, convert(call["self"], "bool"), convert(call["other"], "bool")
        ),
        "lt": _compare("less"),
        "ne": _compare("not_equal"),
        "signbit": lambda call: (
            op("numpy.signbit", call["self"]) if call["self"].is_float else call["self"] < 0
        ),
        "where": lambda call: op("where", convert(call["condition"], "bool"), *_operands(call)),
        "abs": lambda call: call["self"] if call["self"].dtype == "bool" else absolute(call["self"]),
        "add": lambda call: _sum(call, "self", "other", 1),
        "atan2": lambda call: op("numpy.arctan2", *_operands(call)),
        "copy": lambda call: call.expand(convert(call["src"], call.dtype), call.shape),
        "copysign": lambda call: op("numpy.copysign", *_operands(call)),
        "fill": lambda call: call.full(call.shape, call.number_value("value", call.dtype)),
        "fmax": lambda call: ignoring_nan("maximum", *_operands(call)),
        "fmin": lambda call: ignoring_nan("minimum", *_operands(call)),
        "gelu": lambda call: activations.gelu(wide(call["self"]), call.argument("approximate", "none")),
        "hypot": lambda call: op("numpy.hypot", *_operands(call)),
        "logical_not": lambda call: op("logical_not", convert(call["self"], "bool")),
        "maximum": lambda call: op("maximum", *_operands(call)),
        "minimum": lambda call: op("minimum", *_operands(call)),
        "neg": lambda call: op("negative", call["self"]),
        "prims.convert_element_type": lambda call: to_dtype(call["a"], call.dtype),
        "reciprocal": lambda call: 1 / wide(convert(call["self"], call.dtype)),
        "relu": lambda call: op("nn.relu", call["self"]),
        "rsub": lambda call: _sum(call, "other", "self", -1),
        "scalar_tensor": lambda call: call.number_value("s", call.dtype),
        "sub": lambda call: _sum(call, "self", "other", -1),
    }
)
