"""Compile the patterns of a match to functions that test a value and bind variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnmagic.engine.relax.interpreter.instructions import Slots
from nnmagic.relay.expr import Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard, Var

#: Whether a pattern takes a value; if so, the variables' values are in their slots.
Matcher = Callable[[Any, Slots], bool]


def compile_pattern(pattern: Pattern, slot_of: Callable[[Var], int]) -> Matcher:
    """Return the matcher of a pattern; ``slot_of`` returns the slot of a variable."""
    match pattern:
        case PatternWildcard():
            return lambda _value, _slots: True
        case PatternVar(var=var):
            return _binding(slot_of(var))
        case PatternTuple(patterns=parts):
            inner = [compile_pattern(part, slot_of) for part in parts]
            return lambda value, slots: _all_take(inner, value, slots)
        case PatternConstructor(constructor=constructor, patterns=parts):
            name = constructor.name
            inner = [compile_pattern(part, slot_of) for part in parts]
            return lambda value, slots: value.constructor == name and _all_take(inner, value.fields, slots)


def _binding(slot: int) -> Matcher:
    def bind(value: Any, slots: Slots) -> bool:
        slots[slot] = value
        return True

    return bind


def _all_take(matchers: list[Matcher], values: tuple[Any, ...], slots: Slots) -> bool:
    return all(takes(value, slots) for takes, value in zip(matchers, values, strict=True))
