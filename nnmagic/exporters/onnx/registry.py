"""Declare how Relay's operators are exported, and look them up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnmagic.exporters.onnx.sites import ExportCall
from nnmagic.relay.registry import Registry, declare_rows

#: The opset of ``ai.onnx`` that models are written for, and the version of the file format that goes with it.
OPSET = 21
IR_VERSION = 10

#: Returns the name of a call's result, or those of a tuple.
Rule = Callable[[ExportCall], str | Sequence[str]]


@dataclass(frozen=True, slots=True)
class ExportRule:
    """How an operator of Relay is exported; ``note``: what is not supported, for the docs."""

    name: str
    rule: Rule
    note: str


#: The operators that can be exported, by their names in Relay.
OPERATORS: Registry[str, ExportRule] = Registry("the operator")


def operator(*names: str, note: str = "") -> Callable[[Rule], Rule]:
    """Declare the rule of one or several operators of Relay."""

    def declare(rule: Rule) -> Rule:
        for name in names:
            OPERATORS[name] = ExportRule(name, rule, note)
        return rule

    return declare


def operators(table: Mapping[str, Rule]) -> None:
    """Declare rules by the names of their operators, separated by blanks."""
    declare_rows(operator, table)


def direct(table: dict[str, str]) -> None:
    """Declare operators that are one operator of ONNX with the same operands."""
    for name, onnx_name in table.items():
        OPERATORS[name] = ExportRule(name, _one_node(onnx_name), "")


def _one_node(onnx_name: str) -> Rule:
    return lambda site: site.node(onnx_name, *site.args)
