"""Evaluate strings that are known at compile time, and characters of them that only the call knows."""

from __future__ import annotations

from functools import reduce

import numpy as np
from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.syntax.tree import ExtraOp
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply
from nnmagic.tinynn.values.symbolic_sizes import weak_int
from nnmagic.tinynn.values.values import (
    BuiltinName,
    Character,
    Computed,
    Known,
    NotStaticError,
    Operand,
    RefusalError,
    SliceOf,
    TupleOf,
    Value,
    static_value,
)

#: The methods of strings that give strings, numbers, bools, and lists of strings.
_METHODS = frozenset(
    [
        "capitalize",
        "casefold",
        "count",
        "endswith",
        "find",
        "index",
        "isalnum",
        "isalpha",
        "isascii",
        "isdecimal",
        "isdigit",
        "islower",
        "isnumeric",
        "isspace",
        "istitle",
        "isupper",
        "join",
        "ljust",
        "lower",
        "lstrip",
        "partition",
        "removeprefix",
        "removesuffix",
        "replace",
        "rfind",
        "rindex",
        "rjust",
        "rsplit",
        "rstrip",
        "split",
        "splitlines",
        "startswith",
        "strip",
        "swapcase",
        "title",
        "upper",
        "zfill",
    ]
)


def string_method(text: str, name: str) -> BuiltinName | None:
    """Return a method of a string, which is computed at compile time; None for one that a cell has not."""
    if name not in _METHODS:
        return None

    def apply_to(call: Arguments) -> Value:
        given = call.static("args")
        try:
            result = getattr(text, name)(*given if isinstance(given, tuple) else ())
        except (TypeError, ValueError) as error:
            raise RefusalError(f"{name}: {error}", call.span) from None
        return _known(result)

    return BuiltinName(Builtin(name, "*args", apply_to, f"Compute str.{name}.", method=False))


def _known(result: object) -> Value:
    if isinstance(result, tuple | list):
        return TupleOf(tuple(map(_known, result)), written="list" if isinstance(result, list) else "tuple")
    return Known(result)


def codes_of(text: str, span: Span) -> Computed:
    """Return the code points of a string as an array."""
    codes = np.array(list(map(ord, text)), np.int64)
    return Computed(ir.Constant(codes, span=span), TensorType((len(text),), "int64"))


def index_string(text: str, index: Operand, span: Span) -> Value:
    """Evaluate ``text[index]``, a character where only the call knows which. Raises RefusalError."""
    try:
        place = static_value(index.value) if not isinstance(index.value, SliceOf) else _slice(index.value)
        if isinstance(place, int | slice):
            return Known(text[place])
    except NotStaticError:
        pass
    except IndexError:
        message = f"the index is out of range for a string of {len(text)}"
        raise RefusalError(message, index.span) from None
    number = index.value
    if isinstance(number, Computed) and isinstance(number.type, TensorType) and not number.type.shape:
        code = subscript(Operand(codes_of(text, span), span), [index], span)
        assert isinstance(code, Computed)
        return Character(weak_int(code))
    raise RefusalError(f"the index of a string is an int, not {describe(number)}", index.span)


def _slice(bounds: SliceOf) -> slice:
    start, stop, step = (static_value(part) for part in (bounds.start, bounds.stop, bounds.step))
    return slice(start, stop, step)


def compare_characters(op: object, sign: str, left: Operand, right: Operand, span: Span) -> Value | None:
    """Compare a character with another, or with a string; None where neither is one. Raises RefusalError."""
    if not isinstance(left.value, Character) and not isinstance(right.value, Character):
        return None
    if (
        op in (ExtraOp.In, ExtraOp.NotIn)
        and isinstance(right.value, Known)
        and isinstance(right.value.value, str)
    ):
        assert isinstance(left.value, Character)
        found = _is_in(left.value.code, right.value.value, span)
        return found if op is ExtraOp.In else apply("logical_not", span, found)
    codes = [_code_of(operand) for operand in (left, right)]
    if op in _COMPARISONS and None not in codes:
        one, other = (Operand(code, span) for code in codes if code is not None)
        return binary(op, sign, one, other, span)
    other_value = right.value if isinstance(left.value, Character) else left.value
    is_string = isinstance(other_value, Known) and isinstance(other_value.value, str)
    if op in (BuiltinOp.Eq, BuiltinOp.NotEq) and is_string:  # of several characters, or of none
        return Known(op is BuiltinOp.NotEq)
    raise RefusalError(f"`{sign}` of {describe(left.value)} and {describe(right.value)}", span)


_COMPARISONS = (BuiltinOp.Eq, BuiltinOp.NotEq, BuiltinOp.LT, BuiltinOp.LE, BuiltinOp.GT, BuiltinOp.GE)


def _code_of(operand: Operand) -> Value | None:
    match operand.value:
        case Character(code=code):
            return code
        case Known(value=str() as text) if len(text) == 1:
            return Known(ord(text))
    return None


def _is_in(code: Computed, text: str, span: Span) -> Computed:
    if not text:
        return number_constant(bool(text), "bool", span)
    equals = []
    for each in sorted(set(map(ord, text))):
        equal = binary(BuiltinOp.Eq, "==", Operand(code, span), Operand(Known(each), span), span)
        assert isinstance(equal, Computed)
        equals.append(equal)
    return reduce(lambda one, other: apply("logical_or", span, one, other), equals)


def _ord(call: Arguments) -> Value:
    code = _code_of(call.given["c"])
    if code is None:
        message = f"ord takes one character, not {describe(call.given['c'].value)}"
        raise RefusalError(message, call.given["c"].span)
    return code


ORD = Builtin("ord", "c", _ord, "Return the code point of a character.", method=False)
