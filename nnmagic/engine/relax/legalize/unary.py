"""Legalize element-wise operators of one tensor: mathematics, rounding, tests, conversions."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer, number
from nnmagic.engine.relax.legalize import registry, scalar_functions
from nnmagic.engine.relax.legalize.registry import te as te_rule
from nnmagic.engine.relax.legalize.types import ElementFunction, Tensor
from nnmagic.engine.relax.tir import vector_math
from nnmagic.engine.relax.tir.types import Index, PrimExpr, RelaxExpr
from nnmagic.relay.expr import Attrs
from nnmagic.relay.types import is_float


def relax_math_rule(relax_op: Callable[[RelaxExpr], RelaxExpr]) -> registry.Rule:
    """Lower to a Relax operator of floating-point numbers, in float32 where they are narrower."""
    return _float_rule(lambda _call, data: relax_op(data))


def element_math_rule(function: ElementFunction) -> registry.Rule:
    """Lower to an element function of floating-point numbers, in float32 where they are narrower."""
    return _float_rule(lambda call, data: call.te(lambda x: _map_elements(function, x), data))


def _map_elements(function: ElementFunction, data: Tensor) -> Tensor:
    return te.compute(data.shape, lambda *index: function(data(*index)))


def _float_rule(lower: Callable[[registry.OpCall, registry.Value], registry.Value]) -> registry.Rule:

    def rule(call: registry.OpCall) -> registry.Value:
        (data,) = call.args
        dtype = registry.tensor_dtype(data)
        if not is_float(dtype):
            call.refuse(f"needs floating-point numbers, not {dtype}")
        if dtype in {"float16", "bfloat16"}:
            wide = call.emit(relax.op.astype(data, "float32"))
            return relax.op.astype(call.emit(lower(call, wide)), dtype)
        return lower(call, data)

    return rule


def _reinterpret(attrs: Attrs, data: Tensor) -> Tensor:
    """Read bits as another dtype; those of a bfloat16 from a float32, to which TVM widens local arrays."""
    dtype = str(attrs["dtype"])
    if data.dtype != "bfloat16" or dtype == data.dtype:
        return topi.reinterpret(data, dtype)

    def element(*index: Index) -> PrimExpr:
        bits = tirx.reinterpret("int32", data(*index).astype("float32"))
        return tirx.shift_right(bits, tirx.const(16, "int32")).astype(dtype)

    return te.compute(data.shape, element)


def elementwise_rule(function: ElementFunction) -> registry.Rule:
    """Lower to a function of each element."""
    return te_rule(lambda data: _map_elements(function, data))


def rounding_rule(function: ElementFunction) -> registry.Rule:
    """Lower to a function of each element that leaves integers as they are."""
    return elementwise_rule(
        lambda value: function(value) if is_float(scalar_functions.dtype_of(value)) else value
    )


def predicate_rule(function: ElementFunction, *, otherwise: bool) -> registry.Rule:
    """Lower to a test of each floating-point number; of other numbers it gives ``otherwise``."""
    other = tirx.const(int(otherwise), "bool")
    return elementwise_rule(
        lambda value: function(value) if is_float(scalar_functions.dtype_of(value)) else other
    )


def _cast(call: registry.OpCall, dtype: str) -> registry.Value:
    (data, *_) = call.args
    wide = registry.wide_indices(call)
    if wide is not None and dtype == "int64":
        return wide
    return data if registry.tensor_dtype(data) == dtype else relax.op.astype(data, dtype)


def _clip(attrs: Attrs, data: Tensor) -> Tensor:
    low, high = number(attrs["a_min"]), number(attrs["a_max"])
    return te.compute(data.shape, lambda *index: scalar_functions.clip(data(*index), low, high))


def _fixed_point_multiply(attrs: Attrs, data: Tensor) -> Tensor:
    """Compute ``data * multiplier * 2**(shift - 31)`` in 64-bit integers, rounded half up."""
    multiplier, shift = integer(attrs["multiplier"]), integer(attrs["shift"])
    lhs, rhs = max(shift, 0), 31 - min(shift, 0)

    def element(*index: Index) -> PrimExpr:
        wide = data(*index).astype("int64") * tirx.const(multiplier << lhs, "int64")
        return ((wide + tirx.const(1 << (rhs - 1), "int64")) >> rhs).astype(data.dtype)

    return te.compute(data.shape, element)


registry.RULES.update(
    {name: relax_math_rule(getattr(relax.op, name)) for name in ["rsqrt", "sqrt"]}
    | {
        name: element_math_rule(getattr(vector_math, name))
        for name in [
            *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log", "log10"),
            *("log2", "sigmoid", "sin", "sinh", "tan", "tanh"),
        ]
    }
    | {
        "fast_exp": te_rule(topi.fast_exp),
        "fast_tanh": te_rule(topi.fast_tanh),
        "abs": elementwise_rule(scalar_functions.absolute),
        "negative": elementwise_rule(scalar_functions.negative),
        "sign": elementwise_rule(scalar_functions.sign),
        "floor": rounding_rule(tirx.floor),
        "ceil": rounding_rule(tirx.ceil),
        "trunc": rounding_rule(tirx.trunc),
        "round": elementwise_rule(scalar_functions.round_half_away),
        "numpy.expm1": element_math_rule(vector_math.expm1),
        "special.erfc": element_math_rule(vector_math.erfc),
        "numpy.rint": rounding_rule(tirx.nearbyint),
        "isnan": predicate_rule(scalar_functions.is_nan, otherwise=False),
        "isinf": predicate_rule(scalar_functions.is_infinite, otherwise=False),
        "isfinite": predicate_rule(scalar_functions.is_finite, otherwise=True),
        "logical_not": elementwise_rule(scalar_functions.logical_not),
        "bitwise_not": elementwise_rule(tirx.bitwise_not),
        "clip": registry.te_of(_clip),
        "copy": lambda call: call.args[0],
        "cast": lambda call: _cast(call, str(call.attrs["dtype"])),
        "cast_like": lambda call: _cast(call, registry.tensor_dtype(call.args[1])),
        "reinterpret": registry.te_of(_reinterpret),
        "fixed_point_multiply": registry.te_of(_fixed_point_multiply),
    }
)
