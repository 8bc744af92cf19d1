"""Declare how operators are differentiated: by a rule, by an expansion, as zero, or not at all.

One declaration serves all: the backward pass applies rules to cotangents, forward mode applies the backward
pass twice, and what is not declared is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from nnmagic.relay.registry import Registry, declare_rows

if TYPE_CHECKING:
    from nnmagic.relay.expr import Expr
    from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall

#: (the call) -> a contribution to the cotangent of each argument; None where nothing flows.
Rule = Callable[["VjpCall"], "Sequence[Contribution]"]
#: (the call) -> the same value in terms of other operators, through which it is differentiated.
Expansion = Callable[["VjpCall"], "Expr"]

_Value = TypeVar("_Value")

#: The rule of each differentiable operator.
RULES: dict[str, Rule] = {}
#: Operators that are differentiated through an equal expression of others.
EXPANSIONS: dict[str, Expansion] = {}
#: Operators whose result is constant almost everywhere, or no float.
ZERO: dict[str, None] = {}
#: Operators without a gradient, each with the reason that an error gives.
REFUSED: dict[str, str] = {}
_DECLARED: Registry[str, None] = Registry("the gradient of")


class NoGradientError(Exception):
    """A call that cannot be differentiated, although its operator can."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def declared_operators() -> set[str]:
    """Return the operators of which something is declared."""
    return set(_DECLARED)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the rule of operators."""
    return _declaring(RULES, names)


def rules(table: Mapping[str, Rule]) -> None:
    """Declare rules by the names of their operators, separated by blanks."""
    declare_rows(rule, table)


def expansion(*names: str) -> Callable[[Expansion], Expansion]:
    """Declare operators that are differentiated through an equal expression."""
    return _declaring(EXPANSIONS, names)


def zero(*names: str) -> None:
    """Declare operators through which no gradient flows."""
    _declaring(ZERO, names)(None)


def refuse(reason: str, *names: str) -> None:
    """Declare operators without a gradient."""
    _declaring(REFUSED, names)(reason)


def _declaring(table: dict[str, _Value], names: Sequence[str]) -> Callable[[_Value], _Value]:
    def enter(value: _Value) -> _Value:
        for name in names:
            _DECLARED[name] = None
            table[name] = value
        return value

    return enter
