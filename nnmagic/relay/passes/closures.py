"""Inline functions that are bound by let."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from nnmagic.relay.expr import Call, Expr, Function, Let, children
from nnmagic.relay.module import Module
from nnmagic.relay.passes.rewriting import copy_graph, keeps_types
from nnmagic.relay.passes.scopes import is_opaque
from nnmagic.relay.structure.traverse import post_order, rewrite


@keeps_types
def inline_closures(module: Module, *, max_nodes: int = 100_000) -> Module:
    """Inline local functions that are not recursive and only called: not passed on, not returned.

    A call of ``%f`` becomes one of the function itself, which ``simplify_control_flow`` then takes apart.
    max_nodes: a function does not grow beyond that. Relay's ``PartialEvaluate`` does the same, among more.
    """
    functions = {
        name: _inline_closures_in(function, max_nodes) for name, function in module.functions.items()
    }
    return replace(module, functions=functions)


def _inline_closures_in(function: Function, max_nodes: int) -> Function:
    chosen = set(_find_inlinable_functions(function))
    if not chosen or is_opaque(function):
        return function
    size = sum(1 for _ in post_order(function))
    ready: dict[Expr, tuple[Function, int]] = {}

    def inline_call(old: Expr, new: Expr) -> Expr:
        nonlocal size
        if isinstance(old, Function) and isinstance(new, Function) and old in bound:
            ready[bound[old]] = new, sum(1 for _ in post_order(new))
        if not isinstance(old, Call) or not isinstance(new, Call) or old.op not in ready:
            return new
        callee, nodes = ready[old.op]
        if size + nodes > max_nodes or len(callee.params) != len(new.args):
            return new
        size += nodes
        return replace(new, op=copy_graph(callee))

    bound: dict[Expr, Expr] = {}
    for node in post_order(function):
        if isinstance(node, Let) and node.var in chosen:
            bound[node.value] = node.var
        elif isinstance(node, Function) and node in chosen:
            bound.setdefault(node, node)
    return rewrite(function, inline_call)


def _find_inlinable_functions(function: Function) -> Iterator[Expr]:
    """Return what is called wherever it is used, but not by itself.

    These are variables of local functions, and function literals that several calls share.
    """
    nodes = list(post_order(function))
    bound = {
        node.var: node.value for node in nodes if isinstance(node, Let) and isinstance(node.value, Function)
    }
    uses = Counter(child for node in nodes for child in children(node))
    calls = Counter(node.op for node in nodes if isinstance(node, Call))
    for var, value in bound.items():
        recursive = any(node is var for node in post_order(value))
        if uses[var] and uses[var] == calls[var] and not recursive and _is_inlinable(value):
            yield var
    for node, count in calls.items():
        if isinstance(node, Function) and uses[node] == count > 1 and _is_inlinable(node):
            yield node


def _is_inlinable(function: Function) -> bool:
    """Return whether a function's body can move: it is not generic, and no pass must leave it alone."""
    return not function.type_params and not is_opaque(function)
