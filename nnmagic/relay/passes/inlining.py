"""Inline global functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from nnmagic.relay.annotations import custom_rule
from nnmagic.relay.expr import Call, Expr, Function, GlobalVar, Let, OpRef, Var, children
from nnmagic.relay.infer.unify import mentions
from nnmagic.relay.infer.unify import substitute as substitute_types
from nnmagic.relay.module import Module
from nnmagic.relay.passes.effects import Effects
from nnmagic.relay.passes.normal_forms import without_lets
from nnmagic.relay.passes.rewriting import copy_graph, keeps_types
from nnmagic.relay.passes.scopes import is_opaque
from nnmagic.relay.structure.callgraph import call_graph, components, recursive_functions
from nnmagic.relay.structure.traverse import post_order, rewrite
from nnmagic.relay.types import FuncType, Type

#: The attribute of a function that stays one: its gradient computes its values again.
CHECKPOINT = "Checkpoint"


@keeps_types
def inline(
    module: Module,
    which: Literal["marked", "once", "higher_order", "all"] = "marked",
    *,
    max_nodes: int = 100_000,
) -> Module:
    """Inline calls of global functions that are not recursive.

    which: those with the attribute ``Inline=1``, as Relay's Inline, which are then dropped if nothing uses
    them any more; those that are used by one call only; those with a function among their parameters; or all
    but those with the attribute ``Checkpoint`` or a gradient rule of their own.
    max_nodes: a function does not grow beyond that. An argument replaces its parameter unless it may have an
    effect or only an inner function uses it; then a let binds it.
    """
    graph = call_graph(module)
    chosen = _select(module, which) - recursive_functions(graph)
    effects = Effects(module)
    new: dict[str, Function] = {}
    sizes: dict[str, int] = {}
    for name in (name for group in components(graph) for name in group):  # callees first
        inlined = {callee: new[callee] for callee in graph[name] if callee in chosen}
        new[name], sizes[name] = _inline_calls(module.functions[name], inlined, sizes, max_nodes, effects)
    functions = {name: new[name] for name in module.functions}
    if which == "marked":
        used = {callee for callees in call_graph(Module(functions)).values() for callee in callees}
        gone = {callee for callees in graph.values() for callee in callees if callee in chosen} - used
        functions = {name: function for name, function in functions.items() if name not in gone}
    return replace(module, functions=functions)


def _select(module: Module, which: str) -> set[str]:
    """Return the functions to inline, recursive ones among them."""
    functions = {name: function for name, function in module.functions.items() if not is_opaque(function)}
    match which:
        case "marked":
            return {name for name, function in functions.items() if function.attrs.get("Inline")}
        case "once":
            nodes = {node for function in module.functions.values() for node in post_order(function)}
            uses = Counter(
                child.name for node in nodes for child in children(node) if isinstance(child, GlobalVar)
            )
            calls = Counter(
                node.op.name for node in nodes if isinstance(node, Call) and isinstance(node.op, GlobalVar)
            )
            return {name for name in functions if uses[name] == calls[name] == 1}
        case "higher_order":
            return {
                name for name, function in functions.items() if any(map(_takes_function, function.params))
            }
        case "all":
            return {
                name
                for name, function in functions.items()
                if not function.attrs.get(CHECKPOINT) and custom_rule(function) is None
            }
        case _:
            kinds = "'marked', 'once', 'higher_order' or 'all'"
            raise ValueError(f"which functions to inline must be {kinds}, not {which!r}")


def _takes_function(param: Var) -> bool:
    return isinstance(param.checked_type or param.type_annotation, FuncType)


def _inline_calls(
    function: Function,
    inlined: Mapping[str, Function],
    sizes: Mapping[str, int],
    max_nodes: int,
    effects: Effects,
) -> tuple[Function, int]:
    """Inline calls in a function, as far as there is room; return it and the number of its nodes."""
    size = sum(1 for _ in post_order(function))
    lets: set[Let] = set()

    def inline_call(_old: Expr, new: Expr) -> Expr:
        nonlocal size
        if not isinstance(new, Call) or not isinstance(new.op, GlobalVar) or new.op.name not in inlined:
            return new
        callee = inlined[new.op.name]
        if len(callee.params) != len(new.args) or size + sizes[new.op.name] > max_nodes:
            return new
        size += sizes[new.op.name]
        callee = specialize(copy_graph(callee), new.type_args)
        body = callee.body
        for param, arg in reversed(list(zip(callee.params, new.args, strict=True))):
            body = Let(param, arg, body, span=new.span)
            lets.add(body)
        return body

    if not inlined or is_opaque(function):
        return function, size
    new = rewrite(function, inline_call)
    return without_lets(new, effects, lets), size


def specialize(function: Function, type_args: Sequence[Type]) -> Function:
    """Return a generic function for the type arguments of one call.

    If the call has none, annotations that mention type parameters are left out, for inference to find.
    """
    has_type_args = len(type_args) == len(function.type_params)
    types = dict(zip(function.type_params, type_args, strict=True)) if has_type_args else {}

    def special(type_: Type | None) -> Type | None:
        if type_ is None or not any(mentions(type_, var) for var in function.type_params):
            return type_
        return substitute_types(type_, types) if has_type_args else None

    def specialise(_old: Expr, new: Expr) -> Expr:
        match new:
            case Var(type_annotation=annotation) if (special_type := special(annotation)) is not annotation:
                return replace(new, type_annotation=special_type)
            case Function(ret_type=annotation) if (special_type := special(annotation)) is not annotation:
                return replace(new, ret_type=special_type)
            case Call(type_args=args) if args and not isinstance(new.op, OpRef):
                new_args = tuple(special(arg) for arg in args)
                complete = tuple(arg for arg in new_args if arg is not None)
                return replace(new, type_args=complete if len(complete) == len(args) else ())
            case _:
                return new

    if not function.type_params:
        return function
    return rewrite(replace(function, type_params=()), specialise)
