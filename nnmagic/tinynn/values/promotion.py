"""Find the dtype in which numbers and tensors meet, as NumPy 2 does (NEP 50).

An integer tensor beside a float one takes the dtype of the float; that alone is not NumPy's. A note says
where a dtype that nobody wrote makes others wider.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Protocol

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, is_complex, is_float
from nnmagic.tinynn.values.descriptions import source_text, type_note
from nnmagic.tinynn.values.operator_calls import cast, is_tensor, tensor_type
from nnmagic.tinynn.values.operator_restrictions import wider_dtype
from nnmagic.tinynn.values.values import Computed, Operand, RefusalError, TupleOf, Value, parts_of


class Say(Protocol):
    """Show a line under the cell."""

    def __call__(self, message: str, span: Span, *, hint: str) -> None:
        """Show it once for its place."""


#: In the compilation at hand: whether all dtypes meet as in NumPy (True), none becomes a wider float (False),
#: or they meet as in NumPy, but integers and floats in the dtype of the floats (None).
_PROMOTES: ContextVar[bool | None] = ContextVar("promotes", default=None)
#: Shows a line under the cell; None where the result is converted back.
_SAYS: ContextVar[Say | None] = ContextVar("says", default=None)


@contextmanager
def promotion(promote: bool | None, say: Say | None = None) -> Iterator[None]:
    """Set how dtypes meet in what is compiled inside: as the option ``promote`` of ``compile`` says."""
    tokens = _PROMOTES.set(promote), _SAYS.set(say)
    try:
        yield
    finally:
        _PROMOTES.reset(tokens[0])
        _SAYS.reset(tokens[1])


def _numpy_dtype(dtypes: Iterable[str]) -> str | None:
    """Return the dtype in which NumPy computes with arrays of some dtypes; None where it has none."""
    try:
        name = np.result_type(*(ARRAY_DTYPES[dtype] for dtype in dict.fromkeys(dtypes))).name
    except TypeError:  # of bfloat16 and float16
        return None
    return name if name in ARRAY_DTYPES else None


def common_dtype(dtypes: Iterable[str]) -> str | None:
    """Return the dtype in which tensors meet; None where a cell wants a cast."""
    dtypes = list(dict.fromkeys(dtypes))
    if len(dtypes) == 1:
        return dtypes[0]
    promotes = _PROMOTES.get()
    # The default differs from NumPy here: int64 and float32 meet in float32, where NumPy gives
    # float64.
    if promotes is None and any(map(is_float, dtypes)):
        dtypes = [dtype for dtype in dtypes if is_float(dtype) or is_complex(dtype)]
    common = _numpy_dtype(dtypes)
    if promotes is not False or common is None or not (is_float(common) or is_complex(common)):
        return common
    floats = {*filter(is_float, dtypes)}, {*filter(is_complex, dtypes)}
    return common if common in dtypes and all(len(kind) < 2 for kind in floats) else None


def no_common_dtype(what: str, dtypes: Iterable[str]) -> str:
    """Return the message for tensors that do not meet."""
    shown = " and ".join(dtype_short_name(dtype) for dtype in dict.fromkeys(dtypes))
    if _PROMOTES.get() is False and _numpy_dtype(dtypes) is not None:
        return f"{what} of {shown}, which `promote=False` keeps apart"
    return f"{what} of {shown}, which have no common dtype"


def promote(lhs: Operand, rhs: Operand, what: str) -> tuple[Operand, Operand]:
    """Return two tensors in the dtype in which they meet.

    Raises RefusalError, whose hint names the cast, where there is none.
    """
    dtypes = [tensor_type(lhs).dtype, tensor_type(rhs).dtype]
    dtype = common_dtype(dtypes)
    if dtype is None:
        target = wider_dtype(*dtypes)
        text = source_text((lhs if dtypes[0] != target else rhs).span)
        hint = f"convert one of them, as in {text}.astype({dtype_short_name(target)})"
        notes = (type_note(lhs), type_note(rhs))
        raise RefusalError(no_common_dtype(what, dtypes), lhs.span.to(rhs.span), hint=hint, notes=notes)
    note_widening([lhs, rhs], dtype)
    return _as_dtype(lhs, dtype), _as_dtype(rhs, dtype)


def note_widening(operands: Sequence[Operand], dtype: str) -> None:
    """Say that tensors become wider floats because of arrays whose dtype nobody wrote, or of integers."""
    say = _SAYS.get()
    tensors = [
        operand
        for operand in operands
        if is_tensor(operand.value) and not getattr(operand.value, "weak", False)
    ]
    dtypes = {tensor_type(operand).dtype: operand for operand in tensors}
    narrower = [other for other in dtypes if is_float(other) and other != dtype]
    if say is None or len(dtypes) < 2 or not (is_float(dtype) or is_complex(dtype)):
        return
    if dtype not in dtypes and not narrower:
        first, second = tensors[0].span, tensors[-1].span
        shown = " and ".join(map(dtype_short_name, dtypes))
        message = f"{shown} meet in {dtype_short_name(dtype)}, as in NumPy"
        say(message, first.to(second), hint="convert one of them for another dtype, as in x.astype(i64)")
    wide = [operand for operand in tensors if tensor_type(operand).dtype == dtype]
    places = [_implicit(operand) for operand in wide]
    if not narrower or not wide or not all(places):
        return
    place, short = places[0], dtype_short_name(narrower[0])
    assert place is not None
    text = source_text(place)
    message = f"`{text}` is {dtype_short_name(dtype)}, and so is what is computed of it and of {short}"
    narrow = f"array({text}, {short})" if text[:1] in "[(" else f"{text}.astype({short})"
    say(message, place, hint=f"to compute in {short}, write {narrow}")


def note_join(dtype: str, wider: str, span: Span) -> None:
    """Say that a name stands for a wider float because another branch or round gives it one."""
    say = _SAYS.get()
    if say is not None:
        ours, theirs = dtype_short_name(dtype), dtype_short_name(wider)
        message = f"this {ours} becomes {theirs}, as the name is in another branch or round"
        say(message, span, hint=f"give it one dtype, as in x.astype({ours})")


def _implicit(operand: Operand) -> Span | None:
    """Return where an array got a dtype that the cell does not say; None if it says it."""
    value = operand.dynamic
    if value.default_dtype is not None:
        return value.default_dtype
    is_captured = isinstance(value.expr, ir.Constant) and value.expr.span is None
    return operand.span if is_captured else None


def floats_meet(operands: Sequence[Operand]) -> list[Operand]:
    """Return the arguments of a function with their tensors of floats in the dtype in which they meet."""
    tensors = [
        replace(operand, value=type_)
        for operand in operands
        for type_ in parts_of(operand.value)
        if isinstance(type_, Computed) and not type_.weak and is_tensor(type_)
    ]
    floats = [tensor for tensor in tensors if is_float(tensor_type(tensor).dtype)]
    dtype = common_dtype(tensor_type(tensor).dtype for tensor in floats) if floats else None
    if dtype is None or all(tensor_type(tensor).dtype == dtype for tensor in floats):
        return list(operands)
    note_widening(floats, dtype)
    return [replace(tensor, value=_with_floats(tensor, tensor.value, dtype)) for tensor in operands]


def _with_floats(operand: Operand, value: Value, dtype: str) -> Value:
    match value:
        case TupleOf(items=items):
            converted = tuple(_with_floats(operand, item, dtype) for item in items)
            is_same = all(map(operator.is_, items, converted))
            return value if is_same else replace(value, items=converted, whole=None)
        case Computed(weak=False, type=TensorType(dtype=given)) if is_float(given):
            return _as_dtype(replace(operand, value=value), dtype).value
    return value


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
    type_, dtype = tensor_type(Operand(before, result.span)), tensor_type(result).dtype
    if not type_.shape or type_.dtype == dtype:
        return result
    # NumPy's rule "same_kind" of in-place operators: float64 into float32 is fine, float into int
    # is not.
    if _kind_of(dtype) > _kind_of(type_.dtype):
        short = dtype_short_name(type_.dtype)
        message = f"`{sign}` gives {dtype_short_name(dtype)}, which an array of {short} cannot hold"
        raise RefusalError(message, result.span, hint="write x = x + y for a new array, or convert x first")
    return _as_dtype(result, type_.dtype)


def _kind_of(dtype: str) -> int:
    """Return the rank of a dtype's kind: what NumPy casts in place goes to one of the same rank, or up."""
    if is_complex(dtype):
        return 4
    return 3 if is_float(dtype) else ("bool", "uint", "int").index(dtype.rstrip("0123456789"))


def _as_dtype(operand: Operand, dtype: str) -> Operand:
    value = operand.dynamic
    if value.dtype == dtype:
        return operand
    return Operand(cast(value, dtype, operand.span), operand.span, operand.keyword)
