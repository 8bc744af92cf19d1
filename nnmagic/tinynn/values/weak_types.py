"""Python numbers that are known only when the function runs, in arithmetic. Knows values and operators."""

from __future__ import annotations

from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import TensorType, is_float
from nnmagic.tinynn.values.operator_calls import cast, is_tensor, tensor_type
from nnmagic.tinynn.values.values import (
    Computed,
    Known,
    Operand,
    RefusalError,
    Value,
    is_number,
    number_constant,
    source_text,
    typed_note,
)


def is_weak(value: Value) -> bool:
    """Whether a value is such a number."""
    return isinstance(value, Computed) and value.weak


def both_weak(left: Operand, right: Operand) -> bool:
    """Whether an operator has Python numbers on both sides, one of them at least known only later."""
    sides = (left.value, right.value)
    numbers = all(is_weak(side) or (isinstance(side, Known) and is_number(side.value)) for side in sides)
    return numbers and any(map(is_weak, sides))


def alike(left: Operand, right: Operand) -> tuple[Operand, Operand]:
    """Two Python numbers as tensors of the dtype that Python would give: bool counts as int."""
    dtypes = {_dtype(left.value), _dtype(right.value)}
    wanted = "float64" if "float64" in dtypes else "int64"
    return _as(left, wanted), _as(right, wanted)


def _dtype(value: Value) -> str:
    if isinstance(value, Known):
        return "float64" if isinstance(value.value, float) else "int64"
    assert isinstance(value, Computed)
    assert isinstance(value.type, TensorType)
    return value.type.dtype


def _as(operand: Operand, dtype: str) -> Operand:
    value = operand.value
    if isinstance(value, Computed):
        return Operand(cast(value, dtype, operand.span), operand.span)
    assert isinstance(value, Known)
    assert isinstance(value.value, bool | int | float)
    number = float(value.value) if dtype == "float64" else int(value.value)
    return Operand(number_constant(number, dtype, operand.span), operand.span)


def beside_tensor(left: Operand, right: Operand, sign: str) -> tuple[Operand, Operand]:
    """A weak number takes the dtype of the tensor beside it. Raises Refusal for a float beside integers."""
    for number, tensor in ((left, right), (right, left)):
        if is_weak(number.value) and is_tensor(tensor.value) and not is_weak(tensor.value):
            converted = _beside(number, tensor, sign)
            return (converted, tensor) if number is left else (tensor, converted)
    return left, right


def _beside(number: Operand, tensor: Operand, sign: str) -> Operand:
    assert isinstance(number.value, Computed)
    dtype = tensor_type(tensor).dtype
    if tensor_type(number).dtype == "float64" and not is_float(dtype):
        name = source_text(tensor.span)
        raise RefusalError(
            f"`{sign}` of {dtype_short_name(dtype)} and a Python float: dtypes never mix by themselves",
            number.span,
            hint=f"convert the tensor first: {name}.astype(f32)",
            notes=(typed_note(tensor),),
        )
    return Operand(cast(number.value, dtype, number.span), number.span)


def as_weak(value: Value) -> Value:
    """The result of Python numbers is one, too; a comparison gives a bool."""
    if isinstance(value, Computed) and value.type in _WEAK_TYPES:
        return Computed(value.expr, value.type, weak=True)
    return value


_WEAK_TYPES = (TensorType((), "int64"), TensorType((), "float64"))
