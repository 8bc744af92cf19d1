"""Compute with weak values: Python numbers that are known at run time only."""

from __future__ import annotations

from nnmagic.relay.types import TensorType
from nnmagic.tinynn.values.numbers import is_number, number_constant
from nnmagic.tinynn.values.operator_calls import cast, is_tensor, tensor_type
from nnmagic.tinynn.values.promotion import promote_beside_number
from nnmagic.tinynn.values.values import Computed, Known, Operand, Value


def is_weak(value: Value) -> bool:
    """Return whether a value is weak."""
    return isinstance(value, Computed) and value.weak


def both_weak(lhs: Operand, rhs: Operand) -> bool:
    """Return whether an operator has Python numbers on both sides, at least one of them weak."""
    sides = (lhs.value, rhs.value)
    numbers = all(is_weak(side) or (isinstance(side, Known) and is_number(side.value)) for side in sides)
    return numbers and any(map(is_weak, sides))


def promote_weak(lhs: Operand, rhs: Operand) -> tuple[Operand, Operand]:
    """Convert two Python numbers to tensors of the dtype that Python would give; bool counts as int."""
    dtypes = {_dtype(lhs.value), _dtype(rhs.value)}
    wanted = next((dtype for dtype in ("complex128", "float64") if dtype in dtypes), "int64")
    return _as_dtype(lhs, wanted), _as_dtype(rhs, wanted)


def _dtype(value: Value) -> str:
    if isinstance(value, Known):
        if isinstance(value.value, complex):
            return "complex128"
        return "float64" if isinstance(value.value, float) else "int64"
    assert isinstance(value, Computed)
    return value.dtype


def _as_dtype(operand: Operand, dtype: str) -> Operand:
    value = operand.value
    if isinstance(value, Computed):
        return Operand(cast(value, dtype, operand.span), operand.span)
    assert isinstance(value, Known)
    number = value.value
    assert isinstance(number, bool | int | float | complex)
    if not isinstance(number, complex):
        number = float(number) if dtype == "float64" else int(number) if dtype == "int64" else number
    return Operand(number_constant(number, dtype, operand.span), operand.span)


def adopt_tensor_dtype(lhs: Operand, rhs: Operand) -> tuple[Operand, Operand]:
    """Give a weak number the dtype of the tensor beside it, which may change as beside a static number."""
    for number, tensor in ((lhs, rhs), (rhs, lhs)):
        if is_weak(number.value) and is_tensor(tensor.value) and not is_weak(tensor.value):
            like = {"int64": 0, "float64": 0.0, "complex128": 0j, "bool": False}[tensor_type(number).dtype]
            tensor_ = promote_beside_number(tensor, like)
            converted = Operand(cast(number.dynamic, tensor_type(tensor_).dtype, number.span), number.span)
            return (converted, tensor_) if number is lhs else (tensor_, converted)
    return lhs, rhs


def as_weak(value: Value) -> Value:
    """Make the result of Python numbers weak, too; a comparison stays a bool."""
    if isinstance(value, Computed) and value.type in _WEAK_TYPES:
        return Computed(value.expr, value.type, weak=True)
    return value


_WEAK_TYPES = tuple(TensorType((), dtype) for dtype in ("int64", "float64", "complex128"))
