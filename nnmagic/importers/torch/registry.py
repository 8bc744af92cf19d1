"""Declare how ATen operators are imported, and look them up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.values import Value
from nnmagic.importers.torch.calls import AtenCall
from nnmagic.relay.registry import Registry, declare_rows

#: Returns the results of a call, in the order of the operator's schema.
Rule = Callable[[AtenCall], Value | Sequence[Value | None]]

#: A rule that is declared keeps the type that it has.
_SomeRule = TypeVar("_SomeRule", bound=Rule)


@dataclass(frozen=True, slots=True)
class AtenRule:
    """An operator: its name without the overload, and rule.

    ``note``: what is not supported, for the docs; ``refused``: nothing is, and the rule says why.
    """

    name: str
    rule: Rule
    note: str
    refused: bool = False


#: The operators by name: ``aten.add``, ``higher_order.cond``.
OPERATORS: Registry[str, AtenRule] = Registry("the operator")


def operator(*names: str, note: str = "") -> Callable[[_SomeRule], _SomeRule]:
    """Declare the rule of one or several operators; names without a namespace are ATen's."""

    def declare(rule: _SomeRule) -> _SomeRule:
        for name in names:
            full = name if "." in name else f"aten.{name}"
            OPERATORS[full] = AtenRule(full, rule, note)
        return rule

    return declare


def operators(table: Mapping[str, Rule]) -> None:
    """Declare rules by the names of their operators, separated by blanks."""
    declare_rows(operator, table)


def refuse(*names: str, reason: str, hint: str) -> None:
    """Declare why operators are not supported."""

    def rule(_call: AtenCall) -> Value:
        raise UnsupportedError(reason, hint)

    for name in names:
        OPERATORS[f"aten.{name}"] = AtenRule(f"aten.{name}", rule, "", refused=True)
