"""Answer at compile time whether two dtypes are equal, and what a dtype's attributes are."""

from __future__ import annotations

import warnings

import numpy as np
from synr.ast import BuiltinOp

from nnmagic.relay.types import ARRAY_DTYPES
from nnmagic.tinynn.types.annotations import DType, dtype_named
from nnmagic.tinynn.values.values import BuiltinName, Known, Value

_PYTHON = {"bool": "bool", "int": "int64", "float": "float64", "complex": "complex128"}

#: Attributes of dtypes: those of NumPy's.
ATTRIBUTES = ("kind", "name", "itemsize", "char", "str", "type")


def as_dtype(value: Value) -> DType | None:
    """Return the dtype that a value names: itself, a string, or a type of Python's; None for any other."""
    if isinstance(value, BuiltinName):
        return dtype_named(_PYTHON.get(value.builtin.name, ""))
    if not isinstance(value, Known):
        return None
    if isinstance(value.value, DType):
        return value.value
    if not isinstance(value.value, str):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy warns of deprecated names
        try:
            return dtype_named(value.value) or dtype_named(np.dtype(value.value).name)
        except (TypeError, ValueError, Warning):
            return None


def compare_dtypes(op: object, lhs: Value, rhs: Value) -> Known | None:
    """Return whether two dtypes are equal; None where neither side is one, and for other operators."""
    if op not in (BuiltinOp.Eq, BuiltinOp.NotEq):
        return None
    if not any(isinstance(side, Known) and isinstance(side.value, DType) for side in (lhs, rhs)):
        return None
    first, second = as_dtype(lhs), as_dtype(rhs)
    return Known((first is not None and first == second) is (op is BuiltinOp.Eq))


def attribute_of_dtype(dtype: DType, name: str) -> Known:
    """Return an attribute of a dtype."""
    if name == "type":
        return Known(dtype)
    value = getattr(ARRAY_DTYPES[dtype.name], name)
    return Known(value)
