"""Eliminate dead code: bindings of unused values, unused functions of a module."""

from __future__ import annotations

from dataclasses import replace

from nnmagic.relay.expr import Expr, Function, Let, Var, children
from nnmagic.relay.module import Module
from nnmagic.relay.passes.effects import Effects
from nnmagic.relay.passes.rewriting import keeps_types, map_functions, substitute
from nnmagic.relay.structure.callgraph import call_graph


@keeps_types
def dead_code_elimination(module: Module) -> Module:
    """Drop every let whose variable the result does not depend on and whose value has no effect.

    Values that create, read or write references stay, and calls that may do so. Relay's DeadCodeElimination
    drops unused references, too.
    """
    effects = Effects(module)
    return map_functions(module, lambda function: _without_dead_lets(function, effects))


def _without_dead_lets(function: Function, effects: Effects) -> Function:
    """Mark what the result needs, a let's value only once its variable is; drop the other lets."""
    needed: set[Expr] = set()
    values: dict[Expr, Expr] = {}
    lets: list[Let] = []
    work: list[Expr] = [function.body]
    while work:
        node = work.pop()
        if node in needed:
            continue
        needed.add(node)
        match node:
            case Let(var=var, value=value, body=body):
                lets.append(node)
                work.append(body)
                # The value waits until the variable is needed, if it ever is: liveness is decided
                # in one traversal, also through chains of lets.
                if var in needed or effects.within(value):
                    work.append(value)
                else:
                    values[var] = value
            case Var() if node in values:
                work.append(values[node])
            case _:
                work.extend(children(node))
    dead: dict[Expr, Expr] = {
        let: let.body for let in lets if let.var not in needed and not effects.within(let.value)
    }
    return substitute(function, dead)


@keeps_types
def remove_unused_functions(module: Module, entries: tuple[str, ...] = ("main",)) -> Module:
    """Keep the functions that ``entries`` need, as Relay's RemoveUnusedFunctions.

    Raises KeyError if the module has no function of such a name.
    """
    missing = [name for name in entries if name not in module.functions]
    if missing:
        raise KeyError(f"the module has no function @{missing[0]}")
    graph = call_graph(module)
    used: set[str] = set()
    work = list(entries)
    while work:
        name = work.pop()
        if name not in used:
            used.add(name)
            work.extend(graph[name])
    return replace(module, functions={name: f for name, f in module.functions.items() if name in used})
