"""Find the dtype in which numbers and tensors meet, as NumPy 2 does (NEP 50).

Where NumPy would compute in a wider float than the operands have, a cell says which of them to convert, or
that all are promoted as NumPy does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, is_complex, is_float
from nnmagic.tinynn.values.operator_calls import cast, is_tensor, tensor_type
from nnmagic.tinynn.values.values import Computed, Operand, RefusalError, Value

#: Whether arrays are promoted as in NumPy, in the compilation at hand.
_PROMOTES: ContextVar[bool] = ContextVar("promotes", default=False)


@contextmanager
def numpy_promotion(*, on: bool) -> Iterator[None]:
    """Promote arrays of different dtypes as NumPy 2 does, in what is compiled inside."""
    token = _PROMOTES.set(on)
    try:
        yield
    finally:
        _PROMOTES.reset(token)


def numpy_common_dtype(dtypes: Iterable[str]) -> str | None:
    """Return the dtype in which NumPy computes with arrays of some dtypes; None where it has none."""
    try:
        name = np.result_type(*(ARRAY_DTYPES[dtype] for dtype in dict.fromkeys(dtypes))).name
    except TypeError:  # of bfloat16 and another kind
        return None
    return name if name in ARRAY_DTYPES else None


def promotion_hint(dtypes: Iterable[str]) -> str:
    """Return what a hint adds where NumPy converts tensors of these dtypes: that a cell can, too."""
    if _PROMOTES.get() or numpy_common_dtype(dtypes) is None:
        return ""
    return ", or let all meet as in NumPy: %%tinynn --promote, in a file promote=True"


#: The integers that each float holds without loss: NumPy computes in it beside them.
_EXACT_IN = {
    "float16": ("bool", "int8", "uint8"),
    "bfloat16": ("bool", "int8", "uint8"),
    "float32": ("bool", "int8", "uint8", "int16", "uint16"),
}


def promoted_dtype(first: str, second: str) -> str | None:
    """Return the dtype in which two tensors meet; None where a cell wants a cast.

    Integers and bools meet in NumPy's integer, and beside a float in that float where NumPy keeps it, as f64
    always is. NumPy would compute in another float than the operands have for f32 beside f64, f32 beside i32
    and u64 beside a signed integer: there a cell asks for the cast.
    """
    if first == second:
        return first
    if is_complex(first) or is_complex(second):
        return _beside_complex(*((first, second) if is_complex(first) else (second, first)))
    if is_float(second):
        first, second = second, first
    if is_float(second):
        return None
    if is_float(first):
        return first if first == "float64" or second in _EXACT_IN[first] else None
    dtype = np.promote_types(first, second).name
    return None if is_float(dtype) else dtype


def _beside_complex(dtype: str, other: str) -> str | None:
    """Return the dtype of a complex and another tensor, where NumPy's is that of the complex one."""
    if is_complex(other) or other == "bfloat16":
        return None
    return dtype if np.promote_types(dtype, other).name == dtype else None


def common_dtype(types: Iterable[TensorType]) -> str | None:
    """Return the dtype in which tensors meet; None where a cell wants a cast."""
    dtypes = [type_.dtype for type_ in types]
    if _PROMOTES.get():
        return numpy_common_dtype(dtypes)
    result: str | None = dtypes[0]
    for dtype in dtypes[1:]:
        result = None if result is None else promoted_dtype(result, dtype)
    return result


def promote(left: Operand, right: Operand) -> tuple[Operand, Operand]:
    """Return two tensors in the dtype in which they meet; as they are if there is none."""
    dtype = common_dtype([tensor_type(left), tensor_type(right)])
    return (left, right) if dtype is None else (_as_dtype(left, dtype), _as_dtype(right, dtype))


def dtype_beside_numbers(dtype: str, numbers: Iterable[object]) -> str:
    """Return the dtype of a tensor beside Python numbers.

    Bools become int64 beside an int, and integers and bools float64 beside a float. Beside a complex number
    floats become complex numbers of their precision, integers and bools complex128. Else a tensor keeps its.
    """
    kinds = set(map(type, numbers))
    if complex in kinds and not is_complex(dtype):
        return "complex64" if is_float(dtype) and dtype != "float64" else "complex128"
    if float in kinds and not is_float(dtype) and not is_complex(dtype):
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
    if isinstance(before, Computed) and before.weak_array and is_float(given) and is_float(type_.dtype):
        return result
    if not type_.shape or type_.dtype == given:
        return result
    if _kind_of(given) > _kind_of(type_.dtype):
        short = dtype_short_name(type_.dtype)
        message = f"`{sign}` gives {dtype_short_name(given)}, which an array of {short} cannot hold"
        raise RefusalError(message, result.span, hint="write x = x + y for a new array, or convert x first")
    return _as_dtype(result, type_.dtype)


def _kind_of(dtype: str) -> int:
    """Return the rank of a dtype's kind: what NumPy casts in place goes to one of the same rank, or up."""
    if is_complex(dtype):
        return 4
    return 3 if is_float(dtype) else ("bool", "uint", "int").index(dtype.rstrip("0123456789"))


def _as_dtype(operand: Operand, dtype: str) -> Operand:
    value = operand.value
    assert isinstance(value, Computed)
    assert isinstance(value.type, TensorType)
    if value.type.dtype == dtype:
        return operand
    return Operand(cast(value, dtype, operand.span), operand.span, operand.keyword)
