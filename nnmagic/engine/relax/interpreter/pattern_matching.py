"""Compile the patterns of a match to Python conditions, and to what their variables are bound to."""

from __future__ import annotations

from collections.abc import Callable

from nnmagic.relay.expr import Pattern, PatternConstructor, PatternTuple, PatternVar, Var


def compile_pattern(
    pattern: Pattern, value: str, slot_of: Callable[[Var], int]
) -> tuple[tuple[str, ...], tuple[tuple[int, str], ...]]:
    """Return the conditions under which a pattern takes a value, and the slots that it binds, with values.

    Args:
        pattern: the pattern.
        value: the Python expression of the value.
        slot_of: returns the slot of a variable.

    """
    conditions: list[str] = []
    binds: list[tuple[int, str]] = []
    work = [(pattern, value)]
    while work:
        part, path = work.pop()
        match part:
            case PatternVar(var=var):
                binds.append((slot_of(var), path))
            case PatternTuple(patterns=parts):
                work.extend((inner, f"{path}[{index}]") for index, inner in reversed([*enumerate(parts)]))
            case PatternConstructor(constructor=constructor, patterns=parts):
                conditions.append(f"{path}[0] == {constructor.name!r}")
                work.extend((inner, f"{path}[{index}]") for index, inner in reversed([*enumerate(parts, 1)]))
    return tuple(conditions), tuple(binds)
