"""Find the dtype in which numbers, elements and tensors meet, as NumPy 2 does (NEP 50).

Two arrays of different dtypes never meet by themselves: a cell says which of them to convert.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import TensorType, is_float
from nnmagic.tinynn.values.operator_calls import cast, is_tensor, tensor_type
from nnmagic.tinynn.values.values import Computed, Operand, RefusalError, Value

#: The integers that each float holds without loss: NumPy computes in it beside them.
_EXACT_IN = {
    "float16": ("bool", "int8", "uint8"),
    "bfloat16": ("bool", "int8", "uint8"),
    "float32": ("bool", "int8", "uint8", "int16", "uint16"),
}


def promoted_dtype(first: str, second: str) -> str | None:
    """Return the dtype in which an element and a tensor meet; None where a cell wants a cast.

    Integers and bools meet in NumPy's integer, and beside a float in that float where NumPy keeps it, as f64
    always is. NumPy would compute in another float than the operands have for f32 beside f64, f32 beside i32
    and u64 beside a signed integer: there a cell asks for the cast.
    """
    if first == second:
        return first
    if is_float(second):
        first, second = second, first
    if is_float(second):
        return None
    if is_float(first):
        return first if first == "float64" or second in _EXACT_IN[first] else None
    dtype = np.promote_types(first, second).name
    return None if is_float(dtype) else dtype


def common_dtype(types: Iterable[TensorType]) -> str | None:
    """Return the dtype in which tensors meet, all arrays having one; None where a cell wants a cast."""
    ordered = sorted(types, key=lambda type_: not type_.shape)
    result: str | None = ordered[0].dtype
    for type_ in ordered[1:]:
        if result != type_.dtype:
            result = None if result is None or type_.shape else promoted_dtype(result, type_.dtype)
    return result


def promote(left: Operand, right: Operand) -> tuple[Operand, Operand]:
    """Return two tensors in the dtype in which they meet; as they are if there is none."""
    dtype = common_dtype([tensor_type(left), tensor_type(right)])
    return (left, right) if dtype is None else (_as_dtype(left, dtype), _as_dtype(right, dtype))


def dtype_beside_numbers(dtype: str, numbers: Iterable[object]) -> str:
    """Return the dtype of a tensor beside Python numbers.

    Bools become int64 beside an int, and integers and bools float64 beside a float; else a tensor keeps its.
    """
    kinds = set(map(type, numbers))
    if float in kinds and not is_float(dtype):
        return "float64"
    return "int64" if int in kinds and dtype == "bool" else dtype


def promote_beside_number(tensor: Operand, number: object) -> Operand:
    """Return a tensor in the dtype that it has beside a Python number."""
    if not is_tensor(tensor.value):
        return tensor
    return _as_dtype(tensor, dtype_beside_numbers(tensor_type(tensor).dtype, [number]))


def check_update(sign: str, before: Value, result: Operand) -> Operand:
    """Return the result of ``x += y`` in the dtype of ``x``, as NumPy does for arrays in place.

    Raises RefusalError where NumPy does: a result of another kind, as floats for integers.
    """
    if not is_tensor(before) or not is_tensor(result.value):
        return result
    type_, given = tensor_type(Operand(before, result.span)), tensor_type(result).dtype
    if not type_.shape or type_.dtype == given:
        return result
    if _kind_of(given) > _kind_of(type_.dtype):
        short = dtype_short_name(type_.dtype)
        message = f"`{sign}` gives {dtype_short_name(given)}, which an array of {short} cannot hold"
        raise RefusalError(message, result.span, hint="write x = x + y for a new array, or convert x first")
    return _as_dtype(result, type_.dtype)


def _kind_of(dtype: str) -> int:
    """Return the rank of a dtype's kind: what NumPy casts in place goes to one of the same rank, or up."""
    return 3 if is_float(dtype) else ("bool", "uint", "int").index(dtype.rstrip("0123456789"))


def _as_dtype(operand: Operand, dtype: str) -> Operand:
    value = operand.value
    assert isinstance(value, Computed)
    assert isinstance(value.type, TensorType)
    if value.type.dtype == dtype:
        return operand
    return Operand(cast(value, dtype, operand.span), operand.span, operand.keyword)
