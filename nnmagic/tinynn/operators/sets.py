"""Evaluate the operators and methods of sets, written in the language where only the call knows a member."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from nnmagic.diagnostics import Span
from nnmagic.relay import types as ty
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import source_text

_JOINED = """
def join(a, b):
    c = set(a)
    for member in b:
        c.add(member)
    return c
"""
_OF_ONE = """
def differ(a, b):
    c = {member for member in a if member not in b}
    for member in b:
        if member not in a:
            c.add(member)
    return c
"""
_CHOSEN = "def choose(a, b):\n    return {{member for member in a if member{} in b}}\n"
_ASKED = "def ask(a, b):\n    return {}\n"
_WITHIN = "all([member in b for member in a])"
_AROUND = "all([member in a for member in b])"

#: Of each operator, what it is in the language, and what Python computes of the keys of dictionaries.
_OPERATORS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "|": (_JOINED, operator.or_),
    "^": (_OF_ONE, operator.xor),
    "&": (_CHOSEN.format(""), operator.and_),
    "-": (_CHOSEN.format(" not"), operator.sub),
    "==": (_ASKED.format(f"len(a) == len(b) and {_WITHIN}"), operator.eq),
    "!=": (_ASKED.format(f"not (len(a) == len(b) and {_WITHIN})"), operator.ne),
    "<=": (_ASKED.format(_WITHIN), operator.le),
    ">=": (_ASKED.format(_AROUND), operator.ge),
    "<": (_ASKED.format(f"len(a) < len(b) and {_WITHIN}"), operator.lt),
    ">": (_ASKED.format(f"len(a) > len(b) and {_AROUND}"), operator.gt),
}


def operate(
    sign: str, lhs: v.Operand, rhs: v.Operand, span: Span, *, in_place: bool = False
) -> v.Value | None:
    """Return an operator of two sets, which may be a call that is to be made; None of others.

    Raises RefusalError for one in place, which changes a set that other names may show.
    """
    if sign not in _OPERATORS or not (v.is_set(lhs.value) and v.is_set(rhs.value)):
        return None
    if in_place:
        one, other = source_text(lhs.span), source_text(rhs.span)
        hint = f"write {one}.update({other})" if sign == "|" else f"write {one} = {one} {sign} {other}"
        raise v.RefusalError(f"`{sign}=` would change a set in place", span, hint=hint)
    text, compute = _OPERATORS[sign]
    known = [v.entries_of(each.value) for each in (lhs, rhs)]
    if None not in known:
        first, second = (dict.fromkeys(each or ()) for each in known)
        result = compute(first.keys(), second.keys())
        if isinstance(result, bool):
            return v.Known(result)
        members = [each for each in (*first, *second) if each in result]
        return v.dictionary_of(dict.fromkeys(members, v.Known(None)), ty.SET)
    return v.LoopCall("text", (lhs, rhs), text=text)


def _method(name: str, text: str) -> Builtin:
    """Return a method of a set and another iterable."""

    def apply_to(call: Arguments) -> v.Value:
        operands = (call.given["a"], call.given["other"])
        return v.LoopCall("text", operands, text=f"def {name}(a, b):\n    b = set(b)\n    return {text}\n")

    return Builtin(name, "a other", apply_to, f"Return what Python's set.{name} gives.")


#: The methods of sets that change nothing.
OF_SETS: Mapping[str, Builtin] = {
    name: _method(name, text)
    for name, text in {
        "union": "a | b",
        "intersection": "a & b",
        "difference": "a - b",
        "symmetric_difference": "a ^ b",
        "issubset": "a <= b",
        "issuperset": "a >= b",
        "isdisjoint": "len(a & b) == 0",
    }.items()
}
