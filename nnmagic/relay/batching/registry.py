"""Declare how operators take a batch axis. Operators that are not declared run once for each example."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nnmagic.relay.batching.site import BatchCall
from nnmagic.relay.expr import Expr
from nnmagic.relay.registry import Registry, declare_rows

#: (the call) -> its value with the batch axis first; None where this call runs once for each example.
Rule = Callable[[BatchCall], Expr | None]

#: The rule of each operator that takes a batch axis.
RULES: Registry[str, Rule] = Registry("the batching of")


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the rule of operators."""

    def enter(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return enter


def rules(table: Mapping[str, Rule]) -> None:
    """Declare rules by the names of their operators, separated by blanks."""
    declare_rows(rule, table)
