"""Evaluate strings that are known at compile time, and characters of them that only the call knows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.types import TensorType, is_integer
from nnmagic.tinynn.calls.argument_binding import Arguments, cell_function
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.syntax.tree import ExtraOp
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast
from nnmagic.tinynn.values.symbolic_sizes import as_number, weak_int

#: The methods of strings that give strings, numbers, bools, and lists of strings.
STRING_METHODS = frozenset(
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


def string_method(text: str, name: str) -> v.BuiltinName | None:
    """Return a method of a string, which is computed at compile time; None for one that a cell has not."""
    if name not in STRING_METHODS:
        return None

    def apply_to(call: Arguments) -> v.Value:
        given = call.static("args")
        given = given if isinstance(given, tuple) and name != "join" else (given,)  # join takes one tuple
        try:
            result = getattr(text, name)(*given)
        except (TypeError, ValueError) as error:
            raise v.RefusalError(f"{name}: {error}", call.span) from None
        return _fold(result)

    signature = "args" if name == "join" else "*args"
    return v.BuiltinName(cell_function(name, signature, apply_to, f"Compute str.{name}."))


def _fold(result: object) -> v.Value:
    if isinstance(result, tuple | list):
        return v.TupleOf(tuple(map(_fold, result)), written="list" if isinstance(result, list) else "tuple")
    return v.Known(result)


def codes_of(text: str, span: Span) -> v.Computed:
    """Return the code points of a string as an array."""
    codes = np.array(list(map(ord, text)), np.int64)
    return v.Computed(ir.Constant(codes, span=span), TensorType((len(text),), "int64"))


def index_string(text: str, index: v.Operand, span: Span) -> v.Value:
    """Evaluate ``text[index]``, a character where only the call knows which. Raises RefusalError."""
    try:
        place = v.static_value(index.value) if not isinstance(index.value, v.SliceOf) else _slice(index.value)
        if isinstance(place, int | slice):
            return v.Known(text[place])
    except v.NotStaticError:
        pass
    except IndexError:
        message = f"the index is out of range for a string of {len(text)}"
        raise v.RefusalError(message, index.span) from None
    number = index.value
    if isinstance(number, v.Computed) and isinstance(number.type, TensorType) and not number.type.shape:
        code = v.dynamic(subscript(v.Operand(codes_of(text, span), span), [index], span))
        return v.Character(weak_int(code))
    raise v.RefusalError(f"the index of a string is an int, not {describe(number)}", index.span)


def index_texts(
    owner: v.Operand, indices: Sequence[Sequence[v.Operand]], span: Span
) -> tuple[v.Value, int] | None:
    """Evaluate indices of a string, or of a list of strings or of lists of characters.

    Return the value and how many indices it takes; None for anything else. Raises RefusalError.
    """
    index = indices[0]
    if isinstance(owner.value, v.Known) and isinstance(owner.value.value, str):
        if len(index) != 1:
            raise v.RefusalError("a string takes one index", span)
        return index_string(owner.value.value, index[0], span), 1
    lines = _lines_of(owner.value)
    if len(indices) < 2 or not lines or len(index) != 1 or len(indices[1]) != 1:
        return None
    if isinstance(v.static_or(index[0].value, None), int) or isinstance(index[0].value, v.SliceOf):
        return subscript(owner, index, span), 1
    if len(set(map(len, lines))) > 1:
        message = "of strings of several lengths only the call knows which"
        raise v.RefusalError(message, index[0].span, hint="pad them, as in line.ljust(n)")
    codes = codes_of("".join(lines), span)
    table = apply("reshape", span, codes, newshape=(len(lines), len(lines[0])))
    code = subscript(v.Operand(table, span), [index[0], indices[1][0]], span)
    is_code = isinstance(code, v.Computed) and isinstance(code.type, TensorType) and not code.type.shape
    return (v.Character(weak_int(code)), 2) if is_code else None  # type: ignore[arg-type]  # a Computed


def _lines_of(value: v.Value) -> list[str]:
    """Return the strings of a list, those of lists of characters as one; nothing for any other value."""
    lines = list[str]()
    for item in value.items if isinstance(value, v.TupleOf) and value.record is None else ():
        parts = item.items if isinstance(item, v.TupleOf) else (item,)
        texts = [part.value for part in parts if isinstance(part, v.Known) and isinstance(part.value, str)]
        is_row = isinstance(item, v.TupleOf)
        if len(texts) < len(parts) or (is_row and any(len(text) != 1 for text in texts)):
            return []
        lines.append("".join(texts))
    return lines


def _slice(bounds: v.SliceOf) -> slice:
    start, stop, step = (v.static_value(part) for part in (bounds.start, bounds.stop, bounds.step))
    return slice(start, stop, step)


def compare_characters(op: object, sign: str, lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Value | None:
    """Compare a character with another, or with a string; None where neither is one. Raises RefusalError."""
    if not isinstance(lhs.value, v.Character) and not isinstance(rhs.value, v.Character):
        return None
    if (
        op in (ExtraOp.In, ExtraOp.NotIn)
        and isinstance(rhs.value, v.Known)
        and isinstance(rhs.value.value, str)
    ):
        assert isinstance(lhs.value, v.Character)
        is_member = _is_in(lhs.value.code, rhs.value.value, span)
        return is_member if op is ExtraOp.In else apply("logical_not", span, is_member)
    codes = [_code_of(operand) for operand in (lhs, rhs)]
    if op in _COMPARISONS and None not in codes:
        one, other = (v.Operand(code, span) for code in codes if code is not None)
        return binary(op, sign, one, other, span)
    other_value = rhs.value if isinstance(lhs.value, v.Character) else lhs.value
    is_string = isinstance(other_value, v.Known) and isinstance(other_value.value, str)
    if op in (BuiltinOp.Eq, BuiltinOp.NotEq) and is_string:  # of several characters, or of none
        return v.Known(op is BuiltinOp.NotEq)
    raise v.RefusalError(f"`{sign}` of {describe(lhs.value)} and {describe(rhs.value)}", span)


_COMPARISONS = (BuiltinOp.Eq, BuiltinOp.NotEq, BuiltinOp.LT, BuiltinOp.LE, BuiltinOp.GT, BuiltinOp.GE)


def _code_of(operand: v.Operand) -> v.Value | None:
    match operand.value:
        case v.Character(code=code):
            return code
        case v.Known(value=str() as text) if len(text) == 1:
            return v.Known(ord(text))
    return None


def _is_in(code: v.Computed, text: str, span: Span) -> v.Computed:
    if not text:
        return number_constant(bool(text), "bool", span)
    equals = []
    for each in sorted(set(map(ord, text))):
        equal = binary(BuiltinOp.Eq, "==", v.Operand(code, span), v.Operand(v.Known(each), span), span)
        assert isinstance(equal, v.Computed)
        equals.append(equal)
    return reduce(lambda one, other: apply("logical_or", span, one, other), equals)


def _ord(call: Arguments) -> v.Value:
    code = _code_of(call.given["c"])
    if code is None:
        message = f"ord takes one character, not {describe(call.given['c'].value)}"
        raise v.RefusalError(message, call.given["c"].span)
    return code


def _str(call: Arguments) -> v.Value:
    value = call.given["object"].value
    if isinstance(value, v.Character):
        return value
    known = v.static_or(value, None)
    if isinstance(known, bool | int | float | str):
        return v.Known(str(known))
    message = f"str of {describe(value)}, whose text only the call knows"
    type_ = value.type if isinstance(value, v.Computed) else None
    is_int = isinstance(type_, TensorType) and not type_.shape and is_integer(type_.dtype)
    hint = "take its digits by numbers, as in n // 10 % 10" if is_int else None
    raise v.RefusalError(message, call.given["object"].span, hint=hint)


def _chr(call: Arguments) -> v.Value:
    number = as_number(call.given["i"])
    known = v.static_or(number.value, None)
    if isinstance(known, int) and 0 <= known < 0x110000:
        return v.Known(chr(known))
    value = number.value
    type_ = value.type if isinstance(value, v.Computed) else None
    if isinstance(type_, TensorType) and not type_.shape and is_integer(type_.dtype):
        assert isinstance(value, v.Computed)
        code = cast(value, "int64", call.span)
        ends = {"greater_equal": 0, "less_equal": 0x10FFFF}.items()
        asked = [apply(word, call.span, code, number_constant(end, "int64", call.span)) for word, end in ends]
        valid = apply("logical_and", call.span, *asked)
        message = "chr() arg not in range(0x110000)"
        return v.Character(weak_int(apply("python.require", call.span, code, valid, message=message)))
    raise v.RefusalError(f"chr takes a code point, not {describe(value)}", call.given["i"].span)


STR = cell_function("str", "object", _str, "Return a number that is known as a string.")
CHR = cell_function("chr", "i", _chr, "Return the character of a code point.")
ORD = cell_function("ord", "c", _ord, "Return the code point of a character.")
