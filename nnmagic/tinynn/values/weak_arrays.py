"""Compute with weak arrays: those that NumPy's functions make without a dtype, such as ``np.zeros(3)``.

Like a Python number a weak array takes the dtype of the tensor beside it; alone it has NumPy's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from nnmagic.relay.expr import Call, Constant, Expr, OpRef
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import NUMPY_DTYPES, TensorType, is_complex, is_float
from nnmagic.tinynn.types.annotations import DType
from nnmagic.tinynn.values.descriptions import source_text
from nnmagic.tinynn.values.operator_calls import cast
from nnmagic.tinynn.values.values import Computed, Dimension, Known, Operand, RefusalError, TupleOf, Value

#: What weak arrays hold: NumPy's dtypes of Python's floats, ints and bools.
_DTYPES = ("float64", "int64", "bool")


def is_weak_array(value: Value) -> bool:
    """Return whether a value is a weak array."""
    return isinstance(value, Computed) and value.weak_array


def as_weak_array(value: Value) -> Value:
    """Return an array that a function has made without a dtype as a weak one."""
    if isinstance(value, Computed) and isinstance(value.type, TensorType) and value.type.dtype in _DTYPES:
        return replace(value, weak_array=True)
    return value


def as_weak_as(array: Operand, value: Operand, changed: Computed) -> Computed:
    """Return an array of which elements were assigned: a weak one stays weak if it holds no other f64."""
    if not is_weak_array(array.value):
        return changed
    dtype = _dtype(value)
    is_narrow = dtype is not None and is_float(dtype) and dtype != "float64" and _dtype(array) == "float64"
    return replace(changed, weak_array=is_narrow or of_weak_arrays([array.value, value.value]))


def of_weak_arrays(values: Iterable[Value]) -> bool:
    """Return whether values are weak arrays and numbers alone, at least one of them a weak array."""
    parts = [part for value in values for part in _parts(value)]
    kinds = [is_weak_array(part) or _is_number_or_option(part) for part in parts]
    return all(kinds) and any(map(is_weak_array, parts))


def _parts(value: Value) -> Iterator[Value]:
    if isinstance(value, TupleOf):
        for item in value.items:
            yield from _parts(item)
    else:
        yield value


def _is_number_or_option(value: Value) -> bool:
    if isinstance(value, Known):
        return not isinstance(value.value, DType)
    return isinstance(value, Dimension) or (isinstance(value, Computed) and value.weak)


def meet(left: Operand, right: Operand) -> tuple[Operand, Operand]:
    """Give a weak array the dtype of the tensor beside it; two of them meet as in NumPy.

    Integers and bools become float64 beside a weak array of floats. Raises RefusalError where the other dtype
    cannot hold the numbers of the weak array.
    """
    if not (is_weak_array(left.value) or is_weak_array(right.value)):
        return left, right
    ours, theirs = _dtype(left), _dtype(right)
    if ours is None or theirs is None or ours == theirs:
        return left, right
    if is_weak_array(left.value) and is_weak_array(right.value):
        common = np.promote_types(ours, theirs).name
    elif is_weak_array(left.value):
        common = _beside(ours, theirs)
    else:
        common = _beside(theirs, ours)
    return _converted(left, common), _converted(right, common)


def floats_meet(operands: Sequence[Operand]) -> list[Operand]:
    """Give weak arrays of floats the dtype of the float tensors among the arguments of a function."""
    parts = [part for operand in operands for part in _parts(operand.value)]
    if not any(map(is_weak_array, parts)):
        return list(operands)
    strong = {_dtype_of(part) for part in parts if not is_weak_array(part) and _is_float_tensor(part)}
    if len(strong) != 1:
        return list(operands)
    (dtype,) = strong
    assert dtype is not None
    return [replace(each, value=_with_floats(each, each.value, dtype)) for each in operands]


def _with_floats(operand: Operand, value: Value, dtype: str) -> Value:
    if isinstance(value, TupleOf) and value.whole is None:
        return TupleOf(tuple(_with_floats(operand, item, dtype) for item in value.items))
    if is_weak_array(value) and _dtype_of(value) == "float64":
        return convert_weak_array(Operand(value, operand.span), dtype)
    return value


def convert_weak_array(operand: Operand, dtype: str) -> Computed:
    """Convert a weak array to a dtype. Raises RefusalError where the dtype cannot hold its numbers."""
    value = operand.value
    assert isinstance(value, Computed)
    short = dtype_short_name(dtype)
    hint = f"say what is meant, as in {source_text(operand.span)}.astype({short})"
    numbers = _numbers_of(value.expr)
    if is_complex(dtype):
        return replace(cast(value, dtype, operand.span), weak_array=False)
    if numbers is not None:
        _check_numbers(numbers, dtype, operand, hint)
    elif _dtype(operand) == "int64" and dtype not in ("int64", "int32") and not is_float(dtype):
        message = f"an array of integers that is made without a dtype may not fit {short}"
        raise RefusalError(message, operand.span, hint=hint)
    return replace(cast(value, dtype, operand.span), weak_array=False)


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


def _beside(weak: str, other: str) -> str:
    """Return the dtype of a weak array of one dtype and a tensor of another."""
    if weak == "bool" or is_float(other) or is_complex(other):
        return other
    if weak == "float64":
        return "float64"
    return "int64" if other == "bool" else other


def _converted(operand: Operand, dtype: str) -> Operand:
    value = operand.value
    assert isinstance(value, Computed)
    if _dtype(operand) == dtype:
        return operand
    if value.weak_array:
        return replace(operand, value=convert_weak_array(operand, dtype))
    return replace(operand, value=cast(value, dtype, operand.span))


def _is_float_tensor(value: Value) -> bool:
    dtype = _dtype_of(value)
    weak = isinstance(value, Computed) and value.weak
    return dtype is not None and is_float(dtype) and not weak


def _dtype(operand: Operand) -> str | None:
    return _dtype_of(operand.value)


def _dtype_of(value: Value) -> str | None:
    if isinstance(value, Computed) and isinstance(value.type, TensorType):
        return value.type.dtype
    return None
