"""Import the operators on symbolic sizes of exported programs.

What they compute: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.values import Value, op
from nnmagic.importers.torch.calls import AtenCall, scalar_constant
from nnmagic.importers.torch.mathematics import (
    convert,
)
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


_symbolic("add", lambda a, b: a + b)


_symbolic("sub", lambda a, b: a - b)


_symbolic("mul", lambda a, b: a * b)


_symbolic("neg", lambda a: -a)


_symbolic("floordiv", lambda a, b: op("floor_divide", a, b))


_symbolic("mod", lambda a, b: op("floor_mod", a, b))


_symbolic("truediv", lambda a, b: a / b, "float64")


_symbolic("sym_max", lambda a, b: a.maximum(b))


_symbolic("sym_min", lambda a, b: a.minimum(b))


_symbolic("sym_float", lambda a: a, "float64")


_symbolic("_sym_sqrt", lambda a: op("sqrt", a), "float64")


_symbolic("eq", lambda a, b: a.equal(b))


_symbolic("ne", lambda a, b: op("not_equal", a, b))


_symbolic("lt", lambda a, b: a < b)


_symbolic("le", lambda a, b: a <= b)


_symbolic("gt", lambda a, b: a > b)


_symbolic("ge", lambda a, b: a >= b)


_symbolic("not_ sym_not", lambda a: op("logical_not", a))


_symbolic("and_", lambda a, b: op("logical_and", a, b))


_symbolic("or_", lambda a, b: op("logical_or", a, b))


_symbolic("_local_scalar_dense", shapes.scalar)


@operator("symbolic.trunc", "symbolic.sym_int")
def _sym_int(call: AtenCall) -> Value:
    (value,) = _sizes(call)
    return convert(op("trunc", value) if value.is_float else value, "int64")


@operator("symbolic.floor")
def _sym_floor(call: AtenCall) -> Value:
    (value,) = _sizes(call)
    return convert(op("floor", value) if value.is_float else value, "int64")


@operator("symbolic.ceil")
def _sym_ceil(call: AtenCall) -> Value:
    (value,) = _sizes(call)
    return convert(op("ceil", value) if value.is_float else value, "int64")
