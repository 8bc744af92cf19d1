"""Look at loops, which are functions that call themselves; Relay has no others."""

from __future__ import annotations

from typing import TypeGuard

from nnmagic.relay.expr import Call, Expr, Function, GlobalVar, children
from nnmagic.relay.traverse import post_order


def rounds_of(name: str, function: Function) -> list[Call]:
    """Return the calls by which a function begins its next round; none if it is no loop."""
    return [node for node in post_order(function.body) if is_call(node, name)]


def find_invariants(name: str, function: Function) -> list[int]:
    """Return the numbers of the parameters that every round hands on as they are."""
    rounds, params = rounds_of(name, function), enumerate(function.params)
    return [number for number, param in params if all(call.args[number] is param for call in rounds)]


def is_call(node: Expr, name: str) -> TypeGuard[Call]:
    """Return whether a node calls the function of a name."""
    return isinstance(node, Call) and isinstance(node.op, GlobalVar) and node.op.name == name


def mentions(name: str, *roots: Expr) -> bool:
    """Return whether expressions use the function of a name, as what they call or as a value."""
    nodes = (node for root in roots for node in post_order(root))
    return any(isinstance(node, GlobalVar) and node.name == name for node in nodes)


def is_passed_on(name: str, root: Expr) -> bool:
    """Return whether an expression uses the function of a name as a value."""
    return any(
        isinstance(part, GlobalVar) and part.name == name and not (is_call(node, name) and node.op is part)
        for node in post_order(root)
        for part in (node.args if isinstance(node, Call) else children(node))
    )
