"""Declare how operators are differentiated: by a rule, by an expansion, as zero, or not at all.

One declaration serves all: the backward pass applies rules to cotangents, forward mode applies the backward
pass twice, and what is not declared is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnmagic.relay.expr import Expr
    from nnmagic.relay.gradients.place import Contribution, Place

#: (the call) -> a contribution to the cotangent of each argument; None where nothing flows.
Rule = Callable[["Place"], "Sequence[Contribution]"]
#: (the call) -> the same value in terms of other operators, through which it is differentiated.
Expansion = Callable[["Place"], "Expr"]

#: The rule of each differentiable operator.
RULES: dict[str, Rule] = {}
#: Operators that are differentiated through an equal expression of others.
EXPANSIONS: dict[str, Expansion] = {}
#: Operators whose result is constant almost everywhere, or no float.
ZERO: set[str] = set()
#: Operators without a gradient, each with the reason that an error gives.
REFUSED: dict[str, str] = {}


class NoGradientError(Exception):
    """A call that cannot be differentiated, although its operator can."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def declared() -> set[str]:
    """Return the operators of which something is declared."""
    return {*RULES, *EXPANSIONS, *ZERO, *REFUSED}


def _declare(name: str, table: dict[str, object] | set[str], value: object = None) -> None:
    if name in declared():
        raise ValueError(f"the gradient of {name!r} is declared twice")
    if isinstance(table, set):
        table.add(name)
    else:
        table[name] = value


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the rule of operators."""

    def enter(function: Rule) -> Rule:
        for name in names:
            _declare(name, RULES, function)  # type: ignore[arg-type] # a table of one kind of value
        return function

    return enter


def expansion(*names: str) -> Callable[[Expansion], Expansion]:
    """Declare operators that are differentiated through an equal expression."""

    def enter(function: Expansion) -> Expansion:
        for name in names:
            _declare(name, EXPANSIONS, function)  # type: ignore[arg-type] # a table of one kind of value
        return function

    return enter


def zero(*names: str) -> None:
    """Declare operators through which no gradient flows."""
    for name in names:
        _declare(name, ZERO)


def refuse(reason: str, *names: str) -> None:
    """Declare operators without a gradient."""
    for name in names:
        _declare(name, REFUSED, reason)  # type: ignore[arg-type] # a table of one kind of value
