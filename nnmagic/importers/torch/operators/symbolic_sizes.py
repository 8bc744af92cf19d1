"""Import the operators on symbolic sizes of exported programs.

What they compute: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.values import Value, op
from nnmagic.importers.torch.calls import AtenCall, scalar_constant
from nnmagic.importers.torch.mathematics import convert
from nnmagic.importers.torch.registry import operator


def _sizes(call: AtenCall) -> list[Value]:
    return [
        item
        if isinstance(item, Value)
        else scalar_constant(item, "float64" if isinstance(item, float) else "int64")
        for item in call.arguments["args"]
    ]


def _symbolic(names: str, function: Callable[..., Any], dtype: str | None = None) -> None:
    def rule(call: AtenCall) -> Value:
        values = _sizes(call)
        if dtype is not None:
            values = [convert(value, dtype) for value in values]
        elif any(value.is_float for value in values):
            values = [convert(value, "float64") for value in values]
        result: Value = function(*values)
        return result

    operator(*(f"symbolic.{name}" for name in names.split()))(rule)


#: The operators by Python's names for them; those of the second table are of floats.
_OF_SIZES: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "floordiv": lambda a, b: op("floor_divide", a, b),
    "mod": lambda a, b: op("floor_mod", a, b),
    "sym_max": lambda a, b: a.maximum(b),
    "sym_min": lambda a, b: a.minimum(b),
    "eq": lambda a, b: a.equal(b),
    "ne": lambda a, b: op("not_equal", a, b),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "not_ sym_not": lambda a: op("logical_not", a),
    "and_": lambda a, b: op("logical_and", a, b),
    "or_": lambda a, b: op("logical_or", a, b),
    "_local_scalar_dense": shapes.scalar,
}
_OF_FLOATS: dict[str, Callable[..., Any]] = {
    "truediv": lambda a, b: a / b,
    "sym_float": lambda a: a,
    "_sym_sqrt": lambda a: op("sqrt", a),
}
for _names, _function in _OF_SIZES.items():
    _symbolic(_names, _function)
for _names, _function in _OF_FLOATS.items():
    _symbolic(_names, _function, "float64")


@operator("symbolic.trunc", "symbolic.sym_int", "symbolic.floor", "symbolic.ceil")
def _round(call: AtenCall) -> Value:
    (value,) = _sizes(call)
    relay = {"symbolic.floor": "floor", "symbolic.ceil": "ceil"}.get(call.name, "trunc")
    return convert(op(relay, value) if value.is_float else value, "int64")
