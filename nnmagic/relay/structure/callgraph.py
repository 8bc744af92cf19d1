"""Compute which functions of a module use which, an order in which callees come first, and what loops keep.

A loop is a function that calls itself; Relay has no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeGuard

from nnmagic.relay.annotations import custom_rule
from nnmagic.relay.expr import Call, Expr, Function, GlobalVar, children
from nnmagic.relay.module import Module
from nnmagic.relay.structure.traverse import post_order, rewrite

#: For each function, the names of the globals that it mentions (each once, in order of first mention).
CallGraph = Mapping[str, tuple[str, ...]]


def call_graph(module: Module) -> CallGraph:
    """Return the globals that each function mentions; names that the module does not define are left out."""
    graph = module.calls
    for name, function in module.functions.items():
        if name not in graph:
            named = (node.name for node in post_order(function) if isinstance(node, GlobalVar))
            graph[name] = tuple(dict.fromkeys(other for other in named if other in module.functions))
    return graph


def definition_graph(module: Module) -> CallGraph:
    """Return the call graph with the functions of gradient rules, which only a derivative calls."""
    graph = dict(call_graph(module))
    for name, function in module.functions.items():
        rule = custom_rule(function)
        if rule is not None:
            known = (callee for callee in rule.functions if callee in module.functions)
            graph[name] = tuple(dict.fromkeys((*graph[name], *known)))
    return graph


def reachable(graph: CallGraph, name: str) -> set[str]:
    """Return a function and all that it uses, directly or through others."""
    reached, work = {name}, [name]
    while work:
        fresh = [callee for callee in graph[work.pop()] if callee not in reached]
        reached.update(fresh)
        work += fresh
    return reached


def components(graph: CallGraph) -> list[tuple[str, ...]]:
    """Return groups of functions that use one another, callees before callers (Tarjan 1972, no recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    groups: list[tuple[str, ...]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        while work:
            name, callees = work[-1]
            if name not in index:
                index[name] = low[name] = len(index)
                path.append(name)
                on_path.add(name)
            fresh = _next_unseen(name, callees, index, low, on_path)
            if fresh is not None:
                work.append((fresh, iter(graph[fresh])))
                continue
            work.pop()
            if work:
                caller = work[-1][0]
                low[caller] = min(low[caller], low[name])
            if low[name] == index[name]:
                groups.append(_take_from(path, name))
                on_path.difference_update(groups[-1])
    return groups


def _take_from(path: list[str], name: str) -> tuple[str, ...]:
    """Remove ``name`` and what follows it from the path."""
    taken = [path.pop()]
    while taken[-1] != name:
        taken.append(path.pop())
    return tuple(reversed(taken))


def _next_unseen(
    name: str, callees: Iterable[str], index: dict[str, int], low: dict[str, int], on_path: set[str]
) -> str | None:
    """Return the next unvisited callee; callees that close a cycle lower ``low`` on the way."""
    for callee in callees:
        if callee not in index:
            return callee
        if callee in on_path:
            low[name] = min(low[name], index[callee])
    return None


def recursive_functions(graph: CallGraph) -> frozenset[str]:
    """Return the functions that may call themselves, directly or through others."""
    cycles = (group for group in components(graph) if len(group) > 1 or group[0] in graph[group[0]])
    return frozenset(name for group in cycles for name in group)


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
        isinstance(arg, GlobalVar) and arg.name == name and not (is_call(node, name) and node.op is arg)
        for node in post_order(root)
        for arg in (node.args if isinstance(node, Call) else children(node))
    )


def rename_globals(function: Function, names: Mapping[str, str]) -> Function:
    """Return the function with its globals renamed, or itself if none changes."""

    def rename(_old: Expr, node: Expr) -> Expr:
        if isinstance(node, GlobalVar) and names.get(node.name, node.name) != node.name:
            return replace(node, name=names[node.name])
        return node

    if all(old == new for old, new in names.items()):
        return function
    result = rewrite(function, rename)
    rule = custom_rule(function)
    return result if rule is None else replace(result, attrs={**result.attrs, **rule.attrs(names)})
