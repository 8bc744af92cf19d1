"""Element-wise operators of one tensor: mathematics, rounding, tests, conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer, number
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Rule, Value, attr_dtype, te_of
from nnmagic.engine.relax.legalize.registry import te as te_rule
from nnmagic.engine.relax.tir import vector_math
from nnmagic.relay.expr import Attrs
from nnmagic.relay.types import is_float


def mathematical(named: Callable[[Any], Any]) -> Rule:
    """A Relax operator of floating-point numbers, computed in float32 where they are narrower."""
    return _in_float32(lambda _site, data: named(data))


def computed(function: Callable[[Any], Any]) -> Rule:
    """As ``mathematical``, by an element function."""
    return _in_float32(lambda site, data: site.te(lambda x: _each(function, x), data))


def _each(function: Callable[[Any], Any], data: Any) -> Any:
    return te.compute(data.shape, lambda *index: function(data(*index)))


def _in_float32(compute: Callable[[OpCall, Value], Value]) -> Rule:

    def rule(site: OpCall) -> Value:
        (data,) = site.args
        dtype = attr_dtype(data)
        if not is_float(dtype):
            site.refuse(f"needs floating-point numbers, not {dtype}")
        if dtype in {"float16", "bfloat16"}:
            return relax.op.astype(
                site.emit(compute(site, site.emit(relax.op.astype(data, "float32")))), dtype
            )
        return compute(site, data)

    return rule


def elementwise(function: Callable[[Any], Any]) -> Rule:
    """A function of each element."""
    return te_rule(lambda data: _each(function, data))


def rounding(function: Callable[[Any], Any]) -> Rule:
    """A function of each element that leaves integers as they are."""
    return elementwise(lambda value: function(value) if is_float(scalar_functions.dtype_of(value)) else value)


def testing(function: Callable[[Any], Any], *, otherwise: bool) -> Rule:
    """A test of each floating-point number; ``otherwise`` is what holds of all others."""
    found = tirx.const(int(otherwise), "bool")
    return elementwise(lambda value: function(value) if is_float(scalar_functions.dtype_of(value)) else found)


def _wide(value: Any) -> Any:
    return value.astype("float32") if scalar_functions.dtype_of(value) == "bfloat16" else value


def _cast(site: OpCall, dtype: str) -> Value:
    (data, *_) = site.args
    return data if attr_dtype(data) == dtype else relax.op.astype(data, dtype)


def _clip(attrs: Attrs, data: Any) -> Any:
    low, high = number(attrs["a_min"]), number(attrs["a_max"])
    return te.compute(data.shape, lambda *index: scalar_functions.clip(data(*index), low, high))


def _fixed_point_multiply(attrs: Attrs, data: Any) -> Any:
    """``data * multiplier * 2**(shift - 31)`` in 64-bit integers, rounded half up."""
    multiplier, shift = integer(attrs["multiplier"]), integer(attrs["shift"])
    left, right = max(shift, 0), 31 - min(shift, 0)

    def element(*index: Any) -> Any:
        wide = data(*index).astype("int64") * tirx.const(multiplier << left, "int64")
        return ((wide + tirx.const(1 << (right - 1), "int64")) >> right).astype(data.dtype)

    return te.compute(data.shape, element)


RULES.update(
    {
        name: mathematical(getattr(relax.op, name))
        for name in [
            "acos",
            "acosh",
            "asin",
            "asinh",
            "atan",
            "cos",
            "cosh",
            "rsqrt",
            "sin",
            "sinh",
            "sqrt",
            "tan",
        ]
    }
    | {
        "exp": computed(vector_math.exp),
        "sigmoid": computed(vector_math.sigmoid),
        "tanh": computed(vector_math.tanh),
        "atanh": computed(scalar_functions.atanh),
        "erf": computed(vector_math.erf),
        "log": computed(vector_math.log),
        "log2": computed(vector_math.log2),
        "log10": computed(vector_math.log10),
        "fast_exp": te_rule(topi.fast_exp),
        "fast_tanh": te_rule(topi.fast_tanh),
        "abs": elementwise(tirx.abs),
        "negative": elementwise(scalar_functions.negative),
        "sign": elementwise(scalar_functions.sign),
        "floor": rounding(tirx.floor),
        "ceil": rounding(tirx.ceil),
        "trunc": rounding(tirx.trunc),
        "round": elementwise(scalar_functions.round_half_away),
        "isnan": testing(scalar_functions.is_nan, otherwise=False),
        "isinf": testing(lambda value: tirx.isinf(_wide(value)), otherwise=False),
        "isfinite": testing(lambda value: tirx.isfinite(_wide(value)), otherwise=True),
        "logical_not": elementwise(scalar_functions.is_false),
        "bitwise_not": elementwise(tirx.bitwise_not),
        "clip": te_of(_clip),
        "copy": lambda site: site.args[0],
        "cast": lambda site: _cast(site, str(site.attrs["dtype"])),
        "cast_like": lambda site: _cast(site, attr_dtype(site.args[1])),
        "reinterpret": te_rule(topi.reinterpret, "dtype"),
        "fixed_point_multiply": te_of(_fixed_point_multiply),
    }
)
