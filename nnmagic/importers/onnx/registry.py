"""Declare how operators are imported, and look them up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.values import TensorSequence, Value
from nnmagic.relay.registry import Registry, declare_rows

#: Returns a node's outputs; those at the end that the rule does not know may be missing.
Rule = Callable[[OnnxNode], Value | Sequence[Value | TensorSequence | None]]

#: The newest opset of each domain whose operators are known.
NEWEST = {"": 28, "ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1, "com.microsoft": 1}

#: Operators that onnxruntime writes into the standard's domain, which lacks them.
UNREGISTERED = frozenset({"SimplifiedLayerNormalization"})


@dataclass(frozen=True, slots=True)
class OnnxRule:
    """An operator: its domain, name, first opset and rule; ``note``: what is not supported, for the docs."""

    domain: str
    name: str
    since: int
    rule: Rule
    note: str


#: The operators by domain and name.
OPERATORS: Registry[tuple[str, str], OnnxRule] = Registry("the operator")


def operator(*names: str, domain: str = "", since: int = 1, note: str = "") -> Callable[[Rule], Rule]:
    """Declare the rule of one or several operators."""

    def declare(rule: Rule) -> Rule:
        for name in names:
            OPERATORS[domain, name] = OnnxRule(domain, name, since, rule, note)
        return rule

    return declare


def operators(table: Mapping[str, Rule], *, domain: str = "", note: str = "") -> None:
    """Declare rules by the names of their operators, separated by blanks."""
    declare_rows(partial(operator, domain=domain, note=note), table)
