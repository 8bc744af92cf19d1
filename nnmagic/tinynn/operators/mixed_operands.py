"""Check and promote the operands of Python's operators: numbers beside tensors, and comparisons."""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

import numpy as np
from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import TensorType, is_complex, is_float, is_integer
from nnmagic.tinynn.syntax.tree import ExtraOp
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, source_text, type_note
from nnmagic.tinynn.values.numbers import is_number, number_constant
from nnmagic.tinynn.values.operator_calls import apply, is_tensor, tensor_type
from nnmagic.tinynn.values.promotion import promote, promote_beside_number

AnyOp: TypeAlias = "BuiltinOp | ExtraOp"

COMPARISONS = (BuiltinOp.Eq, BuiltinOp.NotEq, BuiltinOp.LT, BuiltinOp.LE, BuiltinOp.GT, BuiltinOp.GE)

_DIVISIONS = (BuiltinOp.Div, BuiltinOp.FloorDiv, BuiltinOp.Mod)


def same_dtype(lhs: v.Operand, rhs: v.Operand, sign: str) -> tuple[v.Operand, v.Operand]:
    """Return both operands as tensors of one dtype; a Python number takes the tensor's.

    Raises RefusalError for dtypes that do not meet as `values.promotion` says; its hint names the cast.
    """
    if not is_tensor(lhs.value):
        rhs = _beside_number(rhs, lhs)
        return v.Operand(_number_beside(lhs, rhs, tensor_type(rhs), sign), lhs.span), rhs
    if not is_tensor(rhs.value):
        lhs = _beside_number(lhs, rhs)
        return lhs, v.Operand(_number_beside(rhs, lhs, tensor_type(lhs), sign), rhs.span)
    return promote(lhs, rhs, f"`{sign}`")


def _beside_number(tensor: v.Operand, number: v.Operand) -> v.Operand:
    return promote_beside_number(tensor, number.value.value if isinstance(number.value, v.Known) else None)


def _is_list(value: v.Value) -> TypeGuard[v.TupleOf]:
    """Return whether a value is a list or a tuple, of no strings or the like."""
    return (
        isinstance(value, v.TupleOf)
        and value.record is None
        and not any(isinstance(item, v.Known) and not is_number(item.value) for item in value.items)
    )


def _number_beside(number: v.Operand, tensor: v.Operand, type_: TensorType, sign: str) -> v.Computed:
    value = number.value.value if isinstance(number.value, v.Known) else None
    if not isinstance(value, bool | int | float | complex):
        hint = None
        items = number.value.items if _is_list(number.value) else ()
        if any(map(is_tensor, items)):
            hint = f"make it a tensor first, as in stack({source_text(number.span)})"
        elif items:
            text = source_text(number.span, as_argument=True)
            hint = f"make it a tensor first, as in array({text}, {dtype_short_name(type_.dtype)})"
        elif number.value == v.Known(None) and sign in ("==", "!="):
            hint = f"write {'is' if sign == '==' else 'is not'} None"
        raise v.RefusalError(
            f"`{sign}` of {describe(tensor.value)} and {describe(number.value)}",
            number.span,
            hint=hint,
            notes=(type_note(tensor),),
        )
    hint = f"convert the tensor first: {source_text(tensor.span)}.astype(i32)"
    return number_constant(value, type_.dtype, number.span, hint)


#: Comparisons that hold for a number below all others; their opposites hold for one above.
_HOLD_ABOVE = (BuiltinOp.GT, BuiltinOp.GE, BuiltinOp.NotEq)

_HOLD_BELOW = (BuiltinOp.LT, BuiltinOp.LE, BuiltinOp.NotEq)


def compared_by_value(op: AnyOp, lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Value | None:
    """Compare integers with a Python int that their dtype cannot hold, as NumPy does; None for any other."""
    if op not in COMPARISONS or is_tensor(lhs.value) is is_tensor(rhs.value):
        return None
    tensor, number = (lhs, rhs) if is_tensor(lhs.value) else (rhs, lhs)
    value = number.value.value if isinstance(number.value, v.Known) else None
    dtype = tensor_type(tensor).dtype
    if isinstance(value, bool) or not isinstance(value, int) or not is_integer(dtype):
        return None
    limits = np.iinfo(dtype)
    if limits.min <= value <= limits.max:
        return None
    holds = op in (_HOLD_BELOW if (value > limits.max) is (tensor is lhs) else _HOLD_ABOVE)
    return apply("equal" if holds else "not_equal", span, tensor, tensor)


def check_numbers(op: AnyOp, lhs: v.Operand, rhs: v.Operand, other: v.Operand) -> None:
    """Refuse numbers that are invalid for every tensor, such as a division by zero."""
    value = rhs.value.value if isinstance(rhs.value, v.Known) else None
    dtype = tensor_type(other).dtype
    if not is_number(value) or is_float(dtype) or is_complex(dtype):
        return
    assert isinstance(value, int)
    if op in _DIVISIONS and value == 0:
        raise v.RefusalError("division by zero", rhs.span)
    if op is ExtraOp.Pow and value < 0:
        hint = f"convert the base first: {source_text(lhs.span)}.astype(f32)"
        raise v.RefusalError("an integer to a negative power", rhs.span, hint=hint)
    if op in (ExtraOp.LShift, ExtraOp.RShift) and (value < 0 or (dtype == "bool" and value)):
        raise v.RefusalError(f"a shift by {value} of {dtype_short_name(dtype)}", rhs.span)
