"""Compute with arrays of a default dtype: those that NumPy's functions make without one, as ``np.zeros(3)``.

They have NumPy's dtype, and meet others as in NumPy. Where a cell declares another dtype, they take that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay.expr import Call, Constant, Expr, OpRef
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import NUMPY_DTYPES, TensorType, is_complex, is_float
from nnmagic.tinynn.types.annotations import DType
from nnmagic.tinynn.values.descriptions import source_text
from nnmagic.tinynn.values.operator_calls import cast
from nnmagic.tinynn.values.values import Computed, Dimension, Known, Operand, RefusalError, Value, parts_of

_Result = TypeVar("_Result", bound=Value)

#: NumPy's dtypes of Python's floats, ints and bools.
_DTYPES = ("float64", "int64", "bool")


def with_default_dtype(value: _Result, span: Span) -> _Result:
    """Return an array that a function has made without a dtype at a span as one of a default dtype."""
    if isinstance(value, Computed) and isinstance(value.type, TensorType) and value.type.dtype in _DTYPES:
        return replace(value, default_dtype=span)
    return value


def inherit_default_dtype(result: _Result, values: Iterable[Value]) -> _Result:
    """Return a result, whose dtype is a default one if no value that it is computed of asks for that dtype.

    Such values are arrays of a default dtype, numbers, and beside f64 narrower floats.
    """
    parts = [item for value in values for item in parts_of(value)]
    places = [place for item in parts if (place := getattr(item, "default_dtype", None)) is not None]
    narrower = ("float16", "bfloat16", "float32") if _dtype_of(result) == "float64" else ()
    asked = (
        item
        for item in parts
        if getattr(item, "default_dtype", None) is None
        and not _is_number_or_option(item)
        and _dtype_of(item) not in narrower
    )
    return with_default_dtype(result, places[0]) if places and next(asked, None) is None else result


def _is_number_or_option(value: Value) -> bool:
    if isinstance(value, Known):
        return not isinstance(value.value, DType)
    return isinstance(value, Dimension) or (isinstance(value, Computed) and value.weak)


def convert_default_dtype(operand: Operand, dtype: str) -> Computed:
    """Convert an array of a default dtype to one that is declared.

    Raises RefusalError where that cannot hold its numbers.
    """
    value = operand.dynamic
    short = dtype_short_name(dtype)
    hint = f"say what is meant, as in {source_text(operand.span)}.astype({short})"
    numbers = _numbers_of(value.expr)
    if is_complex(dtype):
        return replace(cast(value, dtype, operand.span), default_dtype=None)
    if numbers is not None:
        _check_numbers(numbers, dtype, operand, hint)
    elif _dtype_of(value) == "int64" and dtype not in ("int64", "int32") and not is_float(dtype):
        message = f"an array of integers that is made without a dtype may not fit {short}"
        raise RefusalError(message, operand.span, hint=hint)
    return replace(cast(value, dtype, operand.span), default_dtype=None)


def _numbers_of(expr: Expr) -> np.ndarray | None:
    """Return the numbers of a constant, or the number of an array of one; None where they are not known."""
    if isinstance(expr, Call) and isinstance(expr.op, OpRef) and expr.op.name == "full" and expr.args:
        expr = expr.args[0]
    return expr.data if isinstance(expr, Constant) else None


def _check_numbers(data: np.ndarray, dtype: str, operand: Operand, hint: str) -> None:
    with np.errstate(all="ignore"):
        converted = data.astype(NUMPY_DTYPES[dtype])
    exact = data.dtype.kind == "f" and is_float(dtype)
    fits = (
        np.array_equal(np.isfinite(data), np.isfinite(converted.astype("float64")))
        if exact or is_float(dtype)
        else np.array_equal(converted.astype(data.dtype), data)
    )
    if not fits:
        message = f"an array made without a dtype holds numbers that {dtype_short_name(dtype)} cannot hold"
        raise RefusalError(message, operand.span, hint=hint)


def _dtype_of(value: Value) -> str | None:
    if isinstance(value, Computed) and isinstance(value.type, TensorType):
        return value.type.dtype
    return None
