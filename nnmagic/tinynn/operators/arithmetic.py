"""Evaluate Python's operators on the values of a cell.

Tensors follow NumPy, static values follow Python. Of the syntax tree only the names of operators are used.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.limits import MAX_TUPLE_SIZE
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.declaration import RelationError
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import TensorType, is_complex, is_float, is_integer
from nnmagic.tinynn.operators import mixed_operands as mixed
from nnmagic.tinynn.operators.dtype_questions import compare_dtypes
from nnmagic.tinynn.operators.matmul import matrix_product
from nnmagic.tinynn.syntax.tree import ExtraOp
from nnmagic.tinynn.syntax.unsupported_syntax import NO_STRINGS
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.affine import affine_result
from nnmagic.tinynn.values.complex_support import holds_complex, refusal
from nnmagic.tinynn.values.default_dtypes import inherit_default_dtype
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.numbers import is_number, number_constant
from nnmagic.tinynn.values.operator_calls import (
    apply,
    cast,
    is_tensor,
    tensor_type,
    to_refusal,
    whole_numbers,
)
from nnmagic.tinynn.values.operator_restrictions import check_broadcast, check_kind
from nnmagic.tinynn.values.promotion import promotion
from nnmagic.tinynn.values.symbolic_sizes import apply_to_dimensions, as_number
from nnmagic.tinynn.values.weak_types import adopt_tensor_dtype, as_weak, both_weak, is_weak, promote_weak

#: Operators by the name of the equivalent function.
NAMED: dict[str, mixed.AnyOp] = {
    "add": BuiltinOp.Add,
    "subtract": BuiltinOp.Sub,
    "multiply": BuiltinOp.Mul,
    "divide": BuiltinOp.Div,
    "floor_divide": BuiltinOp.FloorDiv,
    "mod": BuiltinOp.Mod,
    "power": ExtraOp.Pow,
    "left_shift": ExtraOp.LShift,
    "right_shift": ExtraOp.RShift,
    "equal": BuiltinOp.Eq,
    "not_equal": BuiltinOp.NotEq,
    "less": BuiltinOp.LT,
    "less_equal": BuiltinOp.LE,
    "greater": BuiltinOp.GT,
    "greater_equal": BuiltinOp.GE,
    "bitwise_and": BuiltinOp.BitAnd,
    "bitwise_or": BuiltinOp.BitOr,
    "bitwise_xor": BuiltinOp.BitXor,
}

#: The Relay operators of operators of two tensors; of bools, those that are bitwise are logical.
_BINARY: dict[mixed.AnyOp, str] = {
    **{op: name for name, op in NAMED.items() if op is not BuiltinOp.Div},
    BuiltinOp.Mod: "floor_mod",
}
_ON_KNOWN: dict[mixed.AnyOp, Callable[[Any, Any], object]] = {
    BuiltinOp.Add: python.add,
    BuiltinOp.Sub: python.sub,
    BuiltinOp.Mul: python.mul,
    BuiltinOp.Div: python.truediv,
    BuiltinOp.FloorDiv: python.floordiv,
    BuiltinOp.Mod: python.mod,
    ExtraOp.Pow: python.pow,
    ExtraOp.LShift: python.lshift,
    ExtraOp.RShift: python.rshift,
    BuiltinOp.BitAnd: python.and_,
    BuiltinOp.BitOr: python.or_,
    BuiltinOp.BitXor: python.xor,
    BuiltinOp.Eq: python.eq,
    BuiltinOp.NotEq: python.ne,
    BuiltinOp.LT: python.lt,
    BuiltinOp.LE: python.le,
    BuiltinOp.GT: python.gt,
    BuiltinOp.GE: python.ge,
}


def least_of(value: v.Value) -> int | None:
    """Return a lower bound of an int; None if none is known."""
    match value:
        case v.Known(value=int() as number):
            return int(number)
        case v.Computed(least=least):
            return least
    return None


#: Bounds beyond it are not followed: sums of them would come near to what 64 bits can count.
_FAR = 1 << 31


def _least_of_result(op: mixed.AnyOp, lhs: v.Value, rhs: v.Value) -> int | None:
    """Return a lower bound of a sum of ints, or of a difference with a static int."""
    first, second = least_of(lhs), least_of(rhs)
    if first is None or second is None or max(abs(first), abs(second)) > _FAR:
        return None
    if op is BuiltinOp.Add:
        return first + second
    return first - second if op is BuiltinOp.Sub and isinstance(rhs, v.Known) else None


def binary(
    op: mixed.AnyOp, sign: str, lhs: v.Operand, rhs: v.Operand, span: Span, *, in_place: bool = False
) -> v.Value:
    """Evaluate ``left op right``; ``in_place``: of ``left op= right``, which keeps the dtype of ``lhs``."""
    in_array = in_place and is_tensor(lhs.value) and bool(tensor_type(lhs).shape)
    with promotion(promote=True) if in_array else nullcontext():
        result = _binary(op, sign, lhs, rhs, span)
    return result if op in mixed.COMPARISONS else inherit_default_dtype(result, (lhs.value, rhs.value))


def _binary(op: mixed.AnyOp, sign: str, lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Value:
    on_sizes = apply_to_dimensions(op, lhs, rhs, span) or compare_dtypes(op, lhs.value, rhs.value)
    if on_sizes is not None:
        return on_sizes
    lhs, rhs = as_number(lhs), as_number(rhs)
    if both_weak(lhs, rhs):
        result = as_weak(binary(op, sign, *promote_weak(lhs, rhs), span))
        if not isinstance(result, v.Computed):
            return result
        least = _least_of_result(op, lhs.value, rhs.value)
        affine = affine_result(op, lhs.value, rhs.value)
        return replace(result, least=least, affine=affine)
    lhs, rhs = adopt_tensor_dtype(lhs, rhs)
    decided = mixed.compared_by_value(op, lhs, rhs, span)
    if decided is not None:
        return decided
    if not is_tensor(lhs.value) and not is_tensor(rhs.value):
        return _fold(op, sign, lhs, rhs, span)
    if op is ExtraOp.MatMul:
        return matrix_product(lhs, rhs, span)
    if op is BuiltinOp.Div:
        return _true_division(lhs, rhs, span)
    first, second = mixed.same_dtype(lhs, rhs, sign)
    if sign == "**" and rhs.value == v.Known(0.5):
        return apply("sqrt", span, first)  # as NumPy's operator, unlike its function `power`
    mixed.check_numbers(op, lhs, rhs, first)
    if op is ExtraOp.Pow and is_integer(tensor_type(first).dtype):
        return _integer_power(sign, first, second, span)
    if tensor_type(first).dtype == "bool" and op in _ON_BOOLS:
        return _apply_to_bools(op, sign, first, second, span)
    name = _BINARY[op]
    if tensor_type(first).dtype == "bool":
        name = name.replace("bitwise", "logical")
    return _apply_with_check(sign, name, first, second, span)


#: Arithmetic of two bools, as logical operators; None where NumPy refuses it, too.
_ON_BOOLS: dict[mixed.AnyOp, str | None] = {
    BuiltinOp.Add: "logical_or",
    BuiltinOp.Mul: "logical_and",
    BuiltinOp.Sub: None,
}


def _apply_to_bools(op: mixed.AnyOp, sign: str, lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Computed:
    name = _ON_BOOLS[op]
    if name is None:
        text = source_text(lhs.span)
        hint = f"write {text} ^ {source_text(rhs.span)}, or convert both, as in {text}.astype(i32)"
        raise v.RefusalError(f"`{sign}` is not defined for bools", span, hint=hint)
    return _apply_with_check(sign, name, lhs, rhs, span)


#: Exponents for which Relay's power is used on integers: the engine turns it into multiplications.
_SMALL_POWERS = range(1, 9)


def _integer_power(sign: str, base: v.Operand, exponent: v.Operand, span: Span) -> v.Computed:
    """Compute ``base ** exponent`` of integers; it wraps, and refuses negative exponents, as in NumPy."""
    number = v.static_or(exponent.value, None)
    if isinstance(number, int) and number >= 0:
        return _static_power(sign, base, exponent, int(number), span)
    return _apply_with_check(sign, "power", base, exponent, span)


def check_not_zero(numbers: v.Value, span: Span) -> v.Computed:
    """Return integers as int64 with a run-time check that none is 0."""
    assert isinstance(numbers, v.Computed)
    wide = cast(numbers, "int64", span)
    zero, one = (number_constant(number, "int64", span) for number in (0, 1))
    # Of an axis of size 1, only the index 0 is in range.
    is_refused = cast(apply("equal", span, wide, zero), "int64", span)
    nothing = apply("take", span, whole_numbers(zero, one, one, span), is_refused, axis=0, mode="fast")
    return apply("add", span, wide, nothing)


def _static_power(sign: str, base: v.Operand, exponent: v.Operand, number: int, span: Span) -> v.Computed:
    if number in _SMALL_POWERS:
        return _apply_with_check(sign, "power", base, exponent, span)
    power, square = None, base
    while number:
        if number & 1:
            power = square if power is None else v.Operand(apply("multiply", span, power, square), span)
        number >>= 1
        if number:
            square = v.Operand(apply("multiply", span, square, square), span)
    if power is None:
        return apply("ones_like", span, base)
    return power.dynamic


def _apply_with_check(sign: str, name: str, lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Computed:
    """Call an operator; check broadcasting first, so that the message shows the sign that the user wrote."""
    types = (tensor_type(lhs), tensor_type(rhs))
    try:
        check_kind(f"`{sign}`", OPERATORS[name], types)
        check_broadcast(f"`{sign}`", *types)
    except RelationError as error:
        raise to_refusal(error, (lhs, rhs), span, {}) from None
    return apply(name, span, lhs, rhs)


def _true_division(lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Value:
    """Divide as NumPy does: integers and bools become float64."""
    dtypes = [tensor_type(side).dtype for side in (lhs, rhs) if is_tensor(side.value)]
    numbers = [side.value.value for side in (lhs, rhs) if isinstance(side.value, v.Known)]
    if any(is_float(dtype) or is_complex(dtype) for dtype in dtypes) or _has_complex(numbers):
        return _apply_with_check("/", "divide", *mixed.same_dtype(lhs, rhs, "/"), span)
    if len(dtypes) == 2:
        mixed.same_dtype(lhs, rhs, "/")  # refuses dtypes that do not meet
    if isinstance(rhs.value, v.Known) and rhs.value.value == 0 and is_number(rhs.value.value):
        raise v.RefusalError("division by zero", rhs.span)
    first, second = (_as_float64(side, span) for side in (lhs, rhs))
    return _apply_with_check("/", "divide", first, second, span)


def _has_complex(numbers: Sequence[object]) -> bool:
    return any(isinstance(number, complex) for number in numbers)


def _as_float64(side: v.Operand, span: Span) -> v.Operand:
    if isinstance(side.value, v.Computed) and is_tensor(side.value):
        return v.Operand(cast(side.value, "float64", span), side.span)
    known = side.value.value if isinstance(side.value, v.Known) else None
    if not isinstance(known, bool | int | float):
        raise v.RefusalError(f"`/` of a tensor and {describe(side.value)}", side.span)
    return v.Operand(number_constant(known, "float64", side.span), side.span)


def unary_by_name(name: str, function: str, operand: v.Operand, span: Span) -> v.Value:
    """Evaluate the operator of one of NumPy's functions, such as ``~x`` for ``invert``."""
    return unary({"invert": BuiltinOp.Invert, "negative": BuiltinOp.USub}[name], function, operand, span)


# -- unary --------------------------------------------------------------------------------------------


def unary(op: BuiltinOp, sign: str, operand: v.Operand, span: Span) -> v.Value:
    """Evaluate ``op operand``."""
    result = _unary(op, sign, operand, span)
    return inherit_default_dtype(result, [operand.value])


def _unary(op: BuiltinOp, sign: str, operand: v.Operand, span: Span) -> v.Value:
    operand = as_number(operand)
    if not is_tensor(operand.value):
        return _fold_unary(op, sign, operand, span)
    if is_weak(operand.value):
        plain = v.Computed(operand.dynamic.expr, operand.dynamic.type)
        return as_weak(unary(op, sign, v.Operand(plain, operand.span), span))
    dtype = tensor_type(operand).dtype
    if op is BuiltinOp.Invert:
        if dtype == "bool":
            return apply("logical_not", span, operand)
        if is_integer(dtype):
            return apply("bitwise_not", span, operand)
        if is_complex(dtype):
            raise _no_complex(sign, "invert", operand)
        raise v.RefusalError(
            f"`{sign}` is defined for integers and bools, not {dtype_short_name(dtype)}",
            operand.span,
            hint=f"for a condition compare first, as in ~({source_text(operand.span)} > 0)",
        )
    if dtype == "bool":
        hint = f"write ~{source_text(operand.span)}" if op is BuiltinOp.USub else None
        raise v.RefusalError(f"`{sign}` is defined for numbers, not bool_", operand.span, hint=hint)
    return apply("negative", span, operand) if op is BuiltinOp.USub else operand.value


def _no_complex(sign: str, name: str, operand: v.Operand) -> v.RefusalError:
    message, hint = refusal(f"`{sign}`", name)
    return v.RefusalError(message, operand.span, hint=hint.replace("{0}", source_text(operand.span)))


def _fold_unary(op: BuiltinOp, sign: str, operand: v.Operand, span: Span) -> v.Value:
    static = v.static_or(operand.value, None)
    apply_to: dict[BuiltinOp, Callable[[Any], object]] = {
        BuiltinOp.USub: python.neg,
        BuiltinOp.UAdd: python.pos,
        BuiltinOp.Invert: python.invert,
    }
    if isinstance(static, int) or (isinstance(static, float | complex) and op is not BuiltinOp.Invert):
        return v.Known(apply_to[op](int(static) if isinstance(static, bool) else static))
    raise v.RefusalError(f"`{sign}` of {describe(operand.value)}", span)


# -- static values -------------------------------------------------------------------------------------

#: An int known at compile time has at most this many bits.
_MAX_BITS = 64

_ORDER = (BuiltinOp.LT, BuiltinOp.LE, BuiltinOp.GT, BuiltinOp.GE)
_EQUALITY = (BuiltinOp.Eq, BuiltinOp.NotEq)


def _fold(op: mixed.AnyOp, sign: str, lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Value:
    """Evaluate Python's operator on numbers, strings (== and !=) and tuples (+, * and comparisons)."""
    if any(v.entries_of(each.value) is not None for each in (lhs, rhs)) and op not in _EQUALITY:
        raise _operand_error(sign, lhs, rhs, span)
    if op in _EQUALITY and any(_holds_entries(each.value) for each in (lhs, rhs)):
        equal = _are_equal(lhs, rhs, span)
        return _truth_of(equal, span, negate=True) if op is BuiltinOp.NotEq else equal
    if isinstance(lhs.value, v.TupleOf) and isinstance(rhs.value, v.TupleOf) and op is BuiltinOp.Add:
        joined = _new(lhs.value, lhs.value.items + rhs.value.items)
        v.check_size(joined, span)
        return joined
    times = rhs.value.value if isinstance(rhs.value, v.Known) else None
    if (
        isinstance(lhs.value, v.TupleOf)
        and lhs.value.written
        and isinstance(times, int)
        and op is BuiltinOp.Mul
    ):
        return _repeat(lhs.value, times, span)
    try:
        if op in mixed.COMPARISONS and any(map(_holds_dimension, (lhs.value, rhs.value))):
            raise v.NotStaticError  # noqa: TRY301
        left_value, right_value = v.static_value(lhs.value), v.static_value(rhs.value)
    except v.NotStaticError:
        if (compared := _compare_tuples(op, lhs, rhs, span)) is not None:
            return compared
        raise _operand_error(sign, lhs, rhs, span) from None
    if isinstance(left_value, tuple) and isinstance(right_value, int) and op is BuiltinOp.Mul:
        return _repeat(lhs.value, right_value, span)
    comparison = op in _EQUALITY or (isinstance(left_value, str) and op in _ORDER)
    if any(map(_holds_dimension, (lhs.value, rhs.value))):
        raise _operand_error(sign, lhs, rhs, span)
    numbers = is_number(left_value) and is_number(right_value)
    same_kind = type(left_value) is type(right_value) and isinstance(left_value, str | tuple)
    if not numbers and not (comparison and same_kind):
        raise _operand_error(sign, lhs, rhs, span)
    if numbers:
        _check_size(op, sign, left_value, right_value, span)
    try:
        result = _ON_KNOWN[op](left_value, right_value)
    except ZeroDivisionError:
        raise v.RefusalError("division by zero", rhs.span) from None
    except (KeyError, TypeError, ValueError, OverflowError):  # KeyError: `@`
        for side in (lhs, rhs):
            if holds_complex(side.value) and numbers:
                raise _no_complex(sign, _BINARY.get(op, ""), side) from None
        raise _operand_error(sign, lhs, rhs, span) from None
    return static_result(sign, result, span)


def _compare_tuples(op: mixed.AnyOp, lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Value | None:
    """Compare two tuples of numbers as Python does, item by item; None for anything else."""
    if op not in mixed.COMPARISONS or not (
        isinstance(lhs.value, v.TupleOf)
        and isinstance(rhs.value, v.TupleOf)
        and lhs.value.record is None
        and rhs.value.record is None
    ):
        return None
    items = [*lhs.value.items, *rhs.value.items]
    if not all(_is_number_of_call(part) for item in items for part in v.parts_of(item)):
        return None
    lengths = len(lhs.value.items), len(rhs.value.items)
    if lengths[0] != lengths[1] and op in _EQUALITY:
        return v.Known(op is BuiltinOp.NotEq)
    if op is BuiltinOp.NotEq:
        equal = _compare_tuples(BuiltinOp.Eq, lhs, rhs, span)
        assert equal is not None
        return _truth_of(equal, span, negate=True)
    is_less = op in (BuiltinOp.LT, BuiltinOp.LE)
    strict = BuiltinOp.LT if is_less else BuiltinOp.GT
    ends = {BuiltinOp.Eq: True, BuiltinOp.LE: lengths[0] <= lengths[1], BuiltinOp.LT: lengths[0] < lengths[1]}
    ends |= {BuiltinOp.GE: lengths[0] >= lengths[1], BuiltinOp.GT: lengths[0] > lengths[1]}
    result = _truth_of(v.Known(ends[op]), span)
    pairs = list(zip(lhs.value.items, rhs.value.items, strict=False))
    for one, other in reversed(pairs):
        both = v.Operand(one, lhs.span), v.Operand(other, rhs.span)
        equal_here = _truth_of(binary(BuiltinOp.Eq, "==", *both, span), span)
        result = apply("logical_and", span, equal_here, result)
        if op is not BuiltinOp.Eq:
            before = _truth_of(binary(strict, "<" if is_less else ">", *both, span), span)
            result = apply("logical_or", span, before, result)
    return result


def _holds_entries(value: v.Value) -> bool:
    """Return whether a value is, or holds, a dictionary or a set whose keys are known."""
    inner = value.items if isinstance(value, v.TupleOf) else ()
    return v.entries_of(value) is not None or any(map(_holds_entries, inner))


def _are_equal(lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Value:
    """Compare dictionaries and sets, key by key, or tuples that hold some. Raises RefusalError."""
    one, other = v.entries_of(lhs.value), v.entries_of(rhs.value)
    if one is None and other is None and not all(isinstance(each.value, v.TupleOf) for each in (lhs, rhs)):
        if isinstance(lhs.value, v.Known) and isinstance(rhs.value, v.Known):
            return v.Known(lhs.value.value == rhs.value.value)
        equal = binary(BuiltinOp.Eq, "==", lhs, rhs, span)
        if isinstance(equal, v.Computed) and not _is_number_of_call(equal):
            raise _operand_error("==", lhs, rhs, span)
        return equal
    for side, entries in ((lhs, one), (rhs, other)):
        if entries is None and not isinstance(side.value, v.TupleOf | v.Known):
            raise _operand_error("==", lhs, rhs, span)
    if one is None and other is None:
        one, other = (dict(enumerate(each.value.items)) for each in (lhs, rhs))  # type: ignore[assignment, union-attr]  # tuples
    if (
        one is None
        or other is None
        or one.keys() != other.keys()
        or v.is_set(lhs.value) != v.is_set(rhs.value)
    ):
        return v.Known(value=False)
    result: v.Value = v.Known(value=True)
    for key, item in one.items():
        equal = _are_equal(v.Operand(item, lhs.span), v.Operand(other[key], rhs.span), span)
        if isinstance(equal, v.Known) and not equal.value:
            return equal
        if isinstance(equal, v.Computed):
            result = apply("logical_and", span, _truth_of(result, span), equal)
        elif not isinstance(equal, v.Known):
            return equal
    return result


def _is_number_of_call(value: v.Value) -> bool:
    if isinstance(value, v.Computed):
        return isinstance(value.type, TensorType) and not value.type.shape
    return isinstance(value, v.Dimension) or (isinstance(value, v.Known) and is_number(value.value))


def _truth_of(value: v.Value, span: Span, *, negate: bool = False) -> v.Computed:
    """Return a truth value as a tensor."""
    if isinstance(value, v.Known):
        value = number_constant(bool(value.value), "bool", span)
    assert isinstance(value, v.Computed)
    return apply("logical_not", span, value) if negate else value


def static_result(sign: str, result: object, span: Span) -> v.Known:
    """Return the result of a computation with static numbers; raise RefusalError if no dtype can hold it."""
    if isinstance(result, int) and result.bit_length() > _MAX_BITS:
        raise v.RefusalError(f"the result of `{sign}` is no number of 64 bits", span)
    return v.Known(result)


def _holds_dimension(value: v.Value) -> bool:
    if isinstance(value, v.TupleOf):
        return any(map(_holds_dimension, value.items))
    return isinstance(value, v.Dimension)


def _repeat(value: v.Value, times: int, span: Span) -> v.Value:
    assert isinstance(value, v.TupleOf)
    length = max(times, 0) * len(value.items)
    if length > MAX_TUPLE_SIZE:
        raise v.RefusalError(f"a tuple of {length} is too long", span)
    return _new(value, value.items * times if length else ())


def _new(value: v.TupleOf, items: tuple[v.Value, ...]) -> v.TupleOf:
    """Return a tuple, or a list of its own, that is written as another."""
    return v.TupleOf(items, written=value.written.replace("held", "list"))


def _check_size(op: mixed.AnyOp, sign: str, lhs: object, rhs: object, span: Span) -> None:
    """Refuse powers and products that are too large: ``10 ** 10 ** 10`` would take hours."""
    if not (isinstance(lhs, int) and isinstance(rhs, int)):
        return
    too_large = (op is ExtraOp.Pow and abs(lhs) > 1 and rhs > _MAX_BITS) or (
        op is ExtraOp.LShift and rhs > _MAX_BITS
    )
    if too_large:
        raise v.RefusalError(f"the result of `{sign}` is no number of 64 bits", span)


def _operand_error(sign: str, lhs: v.Operand, rhs: v.Operand, span: Span) -> v.RefusalError:
    hint = None
    if any(
        isinstance(side.value, v.TupleOf) and any(map(is_tensor, side.value.items)) for side in (lhs, rhs)
    ):
        hint = "it has several results: take one of them, as in result[0]"
    elif sign == "+" and (text := _beside_a_string(lhs, rhs)) is not None:
        hint = f"make a string of it: str({text})"
    elif sign == "^":
        hint = "a power is written **"
    elif isinstance(lhs.value, v.Known) and isinstance(lhs.value.value, str):
        hint = NO_STRINGS
    return v.RefusalError(f"`{sign}` of {describe(lhs.value)} and {describe(rhs.value)}", span, hint=hint)


def _beside_a_string(lhs: v.Operand, rhs: v.Operand) -> str | None:
    """Return the source of a number that is to be joined to a string; None of other operands."""
    for string, number in ((lhs, rhs), (rhs, lhs)):
        is_string = isinstance(string.value, v.Known) and isinstance(string.value.value, str)
        if is_string and isinstance(number.value, v.Known) and is_number(number.value.value):
            text = source_text(number.span)
            return text[1:-1] if text.startswith("(") else text
    return None
