"""Import element-wise operators: arithmetic, comparisons, logic, rounding, conversions.

The standard: https://onnx.ai/onnx/operators/onnx__Mod.html
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import cast

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.element_types import DTYPES, dtype_of
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.registry import Rule, operator, operators
from nnmagic.importers.onnx.values import Value, op, with_sizes
from nnmagic.relay.types import NUMPY_DTYPES, is_integer

# -- two operands --------------------------------------------------------------------------------------


def broadcast(node: OnnxNode) -> tuple[Value, Value]:
    """Return two operands; before opset 7 an attribute says how the second is broadcast."""
    lhs, rhs = node[0], node[1]
    if node.since >= 7 or not node.integer("broadcast"):
        return lhs, rhs
    axis = node.attr("axis")
    if axis is None or not rhs.rank:
        return lhs, rhs
    first = node.integer("axis") % lhs.rank
    after = lhs.rank - first - rhs.rank
    return lhs, op("expand_dims", rhs, axis=rhs.rank, num_newaxis=after) if after else rhs


def _binary(relay: str) -> Rule:
    return lambda node: op(relay, *broadcast(node))


@operator("Div")
def _div(node: OnnxNode) -> Value:
    lhs, rhs = broadcast(node)
    sizes = lhs.sizes is not None or rhs.sizes is not None
    floors = is_integer(lhs.dtype) and (sizes or lhs.dtype.startswith("uint"))
    return op("floor_divide" if floors else "divide", lhs, rhs)


@operator("Mod")
def _mod(node: OnnxNode) -> Value:
    """Return the remainder: with the sign of the divisor, or, with ``fmod``, of the dividend."""
    lhs, rhs = broadcast(node)
    return op("mod" if node.integer("fmod") else "floor_mod", lhs, rhs)


@operator("Pow")
def _pow(node: OnnxNode) -> Value:
    base, exponent = broadcast(node)
    if base.dtype == exponent.dtype and base.is_float:
        static = exponent.known
        if static is not None and static.size == 1 and float(static.reshape(-1)[0]) == 2.0:
            squared = base * base
            return squared if squared.shape == (base * exponent).shape else op("power", base, exponent)
        return op("power", base, exponent)
    integers = not base.is_float and not exponent.is_float
    if integers and (base.dtype in ("int64", "uint64") or exponent.known is not None):
        return _integer_power(base, exponent)
    return op("power", base.cast("float64"), exponent.cast("float64")).cast(base.dtype)


def _integer_power(base: Value, exponent: Value) -> Value:
    """Raise integers to powers; 1 to a negative one is 1, and other numbers to such are 0."""
    negative = exponent < 0
    power = op("power", base, negative.choose(0, exponent).cast(base.dtype))
    return negative.choose(base.equal(1).choose(1, base.like(0)), power)


@operator("BitShift")
def _bit_shift(node: OnnxNode) -> Value:
    lhs, rhs = broadcast(node)
    bits = NUMPY_DTYPES[lhs.dtype].itemsize * 8
    direction = node.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise UnsupportedError(f"direction must be 'LEFT' or 'RIGHT', not {direction!r}")
    name = "left_shift" if direction == "LEFT" else "right_shift"
    if direction == "RIGHT" and lhs.dtype.startswith("int"):  # the sign fills the bits
        return op(name, lhs, (rhs < bits).choose(rhs, bits - 1))
    in_range = rhs < bits
    return in_range.choose(op(name, lhs, in_range.choose(rhs, 0)), 0)


# -- any number of operands ----------------------------------------------------------------------------


def _fold(function: Callable[[Value, Value], Value]) -> Callable[[OnnxNode], Value]:
    return lambda node: reduce(function, [node[index] for index in range(len(node.inputs))])


@operator("Where")
def _where(node: OnnxNode) -> Value:
    result = op("where", node[0], node[1], node[2])
    test = node[0].known
    same = all(value.type == result.type for value in (node[1], node[2]))
    if test is None or result.rank != 1 or test.shape != result.shape or len(test) > 64 or not same:
        return result
    # Exporters choose the items of a target shape so: they stay sizes if nothing is computed.
    operands = []
    for chosen, run in itertools.groupby(range(len(test)), key=lambda index: bool(test[index])):
        places = list(run)
        operands.append(shapes.slice_axis(node[1] if chosen else node[2], 0, places[0], places[-1] + 1))
    joined = op("concatenate", operands, axis=0) if len(operands) > 1 else operands[0] if operands else result
    return joined if result.sizes is None else with_sizes(joined, result.sizes)


@operator("Clip")
def _clip(node: OnnxNode) -> Value:
    data = node[0]
    if node.since < 11:
        low, high = node.attr("min"), node.attr("max")
        bounds = [None if bound is None else data.like(float(str(bound))) for bound in (low, high)]
    else:
        given = [node.get(1), node.get(2)]
        bounds = [None if bound is None else shapes.scalar(bound) for bound in given]
    numbers = [None if bound is None or bound.known is None else float(bound.known) for bound in bounds]
    if data.is_float and None not in numbers and cast(float, numbers[0]) <= cast(float, numbers[1]):
        return op("clip", data, a_min=numbers[0], a_max=numbers[1])
    if bounds[0] is not None:
        data = data.maximum(bounds[0])
    if bounds[1] is not None:
        data = data.minimum(bounds[1])
    return data


@operator("IsInf")
def _is_inf(node: OnnxNode) -> Value:
    data = node[0]
    inf = op("isinf", data)
    if not node.integer("detect_positive", 1):
        inf = op("logical_and", inf, data < 0)
    if not node.integer("detect_negative", 1):
        inf = op("logical_and", inf, data > 0)
    return inf


# -- conversions ---------------------------------------------------------------------------------------


def convert(data: Value, dtype: str) -> Value:
    """Convert elements as NumPy does; of floats that are no numbers of the new dtype as x86 does."""
    if data.dtype == dtype:
        return data
    if dtype == "bool":
        return op("not_equal", data, data.like(0))
    if data.dtype == "bfloat16" and dtype != "float32":
        data = data.cast("float32")
    if dtype == "bfloat16" and data.dtype != "float32":
        return data.cast("float32").cast(dtype)
    if data.is_float and is_integer(dtype) and dtype not in ("int64", "int32", "uint64"):
        return data.cast("int64").cast(dtype)
    return data.cast(dtype)


@operator("Cast", note="of numbers and bools; no strings, float8, float4, int4, uint4")
def _cast(node: OnnxNode) -> Value:
    to = node.attr("to")
    if isinstance(to, str):  # opsets before 6 name it
        names = {name.upper(): name for name in DTYPES.values()} | {"FLOAT": "float32", "DOUBLE": "float64"}
        if to.upper() not in names:
            raise UnsupportedError(f"a cast to {to} is not supported")
        return convert(node[0], names[to.upper()])
    return convert(node[0], dtype_of(node.integer("to")))


@operator("CastLike", note="as Cast")
def _cast_like(node: OnnxNode) -> Value:
    return convert(node[0], node[1].dtype)


@operator("BitCast")
def _bit_cast(node: OnnxNode) -> Value:
    dtype = dtype_of(node.integer("to"))
    data = node[0]
    if NUMPY_DTYPES[dtype].itemsize != NUMPY_DTYPES[data.dtype].itemsize:
        raise UnsupportedError(f"the elements of {data.dtype} and {dtype} have other sizes")
    if data.dtype == "bool":
        return data.cast("uint8").cast(dtype)
    if dtype == "bool":
        raise UnsupportedError("a bit cast to bool is not supported")
    return data if dtype == data.dtype else op("reinterpret", data, dtype=dtype)


operators(
    {
        **dict.fromkeys(
            (
                "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor",
                "IsNaN Log Sigmoid Sign Sin Sinh Sqrt Tan Tanh",
            ),
            lambda node: op(node.op_type.lower(), node[0]),
        ),
        "Add": _binary("add"),
        "And": _binary("logical_and"),
        "BitwiseAnd": _binary("bitwise_and"),
        "BitwiseNot": lambda node: op("bitwise_not", node[0]),
        "BitwiseOr": _binary("bitwise_or"),
        "BitwiseXor": _binary("bitwise_xor"),
        "Equal": _binary("equal"),
        "Greater": _binary("greater"),
        "GreaterOrEqual": _binary("greater_equal"),
        "Identity": lambda node: node[0],
        "Less": _binary("less"),
        "LessOrEqual": _binary("less_equal"),
        "Max": _fold(Value.maximum),
        "Mean": lambda node: _fold(add)(node) / len(node.inputs),
        "Min": _fold(Value.minimum),
        "Mul": _binary("multiply"),
        "Neg": lambda node: op("negative", node[0]),
        "Not": lambda node: op("logical_not", node[0]),
        "Or": _binary("logical_or"),
        "Reciprocal": lambda node: 1 / node[0],
        "Round": lambda node: op("numpy.rint", node[0]),
        "Sub": _binary("subtract"),
        "Sum": _fold(add),
        "Xor": _binary("logical_xor"),
    }
)
