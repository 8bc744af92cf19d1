"""Find and replace parts of Relay programs that patterns describe, as TVM's ``dataflow_pattern`` does.

    x, weight = wildcard(), wildcard()
    layer = is_op("nn.relu")(is_op("nn.dense")(x, weight))
    match(layer, expr)[weight]

A pattern that stands in two places matches one node in both. Calls of operators that commute match in
either order. Patterns see nodes, not the values of variables: ``to_graph_normal_form`` removes
lets first.
"""

from __future__ import annotations

from nnmagic.relay.patterns.language import (
    Pattern,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from nnmagic.relay.patterns.matching import Match, find, match
from nnmagic.relay.patterns.partitioning import partition
from nnmagic.relay.patterns.rewriting import Rule, rewrite, rewrite_pass, rule

__all__ = [
    "Match",
    "Pattern",
    "Rule",
    "find",
    "is_constant",
    "is_expr",
    "is_if",
    "is_let",
    "is_op",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "match",
    "partition",
    "rewrite",
    "rewrite_pass",
    "rule",
    "wildcard",
]
