"""Find the values that a match does not handle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nnmagic.relay.expr import Constructor, Pattern, PatternConstructor, PatternTuple, PatternWildcard
from nnmagic.relay.module import TypeData

_WILDCARD: Final = PatternWildcard()
_MAX_STEPS: Final = 100_000

#: The head of a value: a constructor, the length of a tuple, or None for anything.
_Head = Constructor | int | None


class TooManyCasesError(Exception):
    """A match with too many combinations of cases to enumerate."""


@dataclass(frozen=True, slots=True)
class _PatternMatrix:
    """Values that begin with ``heads`` (in pre-order), and the rows that may still match them.

    Each row holds the patterns for the ``width`` positions that are left.
    """

    heads: tuple[_Head, ...]
    rows: tuple[tuple[Pattern, ...], ...]
    width: int


def find_unmatched_cases(
    patterns: Sequence[Pattern], types: Mapping[str, TypeData], limit: int = 4
) -> list[str]:
    """Return values that no pattern matches, as text (``Cons(_, Nil)``): at most ``limit`` of them.

    The patterns must be well typed. Raises TooManyCasesError. After Maranget, "Warnings for pattern matching"
    (2007).
    """
    cases: list[str] = []
    work = [_PatternMatrix((), tuple((pattern,) for pattern in patterns), 1)]
    steps = 0
    while work and len(cases) < limit:
        steps += len(work[-1].rows) + 1
        if steps > _MAX_STEPS:
            raise TooManyCasesError
        state = work.pop()
        if not state.rows:
            cases.append(_case_text((*state.heads, *(None,) * state.width)))
        elif state.width:
            work.extend(reversed(_split(state, types)))
    return cases


def _split(state: _PatternMatrix, types: Mapping[str, TypeData]) -> list[_PatternMatrix]:
    """Split a state by what the value is at the first position that is left."""
    firsts = [row[0] for row in state.rows]
    used = {p.constructor.tag: p.constructor for p in firsts if isinstance(p, PatternConstructor)}
    if used:
        data = types[next(iter(used.values())).belong_to.name]
        return [_specialize(state, constructor, len(constructor.inputs)) for constructor in data.constructors]
    arity = next((len(p.patterns) for p in firsts if isinstance(p, PatternTuple)), None)
    if arity is not None:
        return [_specialize(state, arity, arity)]
    return [_PatternMatrix((*state.heads, None), tuple(row[1:] for row in state.rows), state.width - 1)]


def _specialize(state: _PatternMatrix, head: Constructor | int, arity: int) -> _PatternMatrix:
    """Return the state of values with a head.

    It has the rows that allow the head, whose parts are new positions.
    """
    rows = []
    for first, *tail in state.rows:
        match first:
            case PatternConstructor(constructor=constructor, patterns=parts):
                if isinstance(head, Constructor) and constructor.tag == head.tag:
                    rows.append((*parts, *tail))
            case PatternTuple(patterns=parts):
                rows.append((*parts, *tail))
            case _:
                rows.append((_WILDCARD,) * arity + tuple(tail))
    return _PatternMatrix((*state.heads, head), tuple(rows), state.width - 1 + arity)


def _case_text(heads: Sequence[_Head]) -> str:
    """Return the text of a value from its heads in pre-order, read from the end so that parts come first."""
    texts: list[str] = []
    for head in reversed(heads):
        match head:
            case None:
                texts.append("_")
            case int():
                inner = [texts.pop() for _ in range(head)]
                texts.append(f"({', '.join(inner)}{',' * (head == 1)})")
            case Constructor(name=name, inputs=inputs):
                inner = [texts.pop() for _ in inputs]
                texts.append(f"{name}({', '.join(inner)})" if inner else name)
    return texts[0]
