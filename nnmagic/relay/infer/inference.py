"""Type inference of a whole module: the order of its functions, what stays unknown, the typed module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnmagic.diagnostics import RelayError
from nnmagic.relay.callgraph import CallGraph, call_graph, components
from nnmagic.relay.expr import Call, Expr, Function, OpRef, Var
from nnmagic.relay.infer.calls import unresolved_argument
from nnmagic.relay.infer.context import Context, callee_name
from nnmagic.relay.infer.unify import UNKNOWN, Hole, shown, type_parts
from nnmagic.relay.infer.walk import Walk
from nnmagic.relay.module import Module
from nnmagic.relay.traverse import rewrite_module
from nnmagic.relay.types import FuncType


def infer_type(module: Module) -> Module:
    """A new module in which every expression has its ``checked_type`` and every function its result type.

    As in Relay: parameters and lets without annotation get one, generic calls their type arguments; a global
    that is recursive and called by another needs a written result type. Annotations that an earlier inference
    filled in are found anew. Sharing and spans are kept, ``AnyDim`` labels where they are known to hold.
    Raises RelayError with every independent error.
    """
    context = Context(module)
    _check_data_types(context)
    graph = call_graph(module)
    callers = _callers(graph)
    for group in components(graph):
        _infer_group(context, group, graph, callers)
    context.diagnostics.raise_if_any(RelayError)
    return _typed_module(context)


def _check_data_types(context: Context) -> None:
    for data in context.module.types.values():
        for constructor in data.constructors:
            for type_ in constructor.inputs:
                context.annotation(type_, constructor)
        for var in data.type_vars:
            context.type_vars_used.pop(var, None)
    _check_type_vars(context, ())


def _callers(graph: CallGraph) -> dict[str, str]:
    """For each function that another one mentions, the first of those."""
    first: dict[str, str] = {}
    for name, mentioned in graph.items():
        for other in mentioned:
            if other != name:
                first.setdefault(other, name)
    return first


def _infer_group(
    context: Context, group: Sequence[str], graph: CallGraph, callers: Mapping[str, str]
) -> None:
    """Infers functions that call one another; those that they call besides are known already."""
    functions = {name: context.module.functions[name] for name in group}
    walk = Walk(context)
    for name, function in functions.items():
        context.function = name
        context.signatures[name] = context.signature(function)
        if len(group) > 1 or name in graph[name]:
            _check_recursion(context, function, name, callers.get(name))
    for name, function in functions.items():
        context.function = name
        walk.run(function)
    _report_unknown(context, walk)
    _check_scopes(context, walk)
    for name in group:
        signature = context.signatures[name]
        parts = [context.resolve(part, functions[name]) for part in type_parts(signature)]
        context.signatures[name] = replace(signature, arg_types=tuple(parts[:-1]), ret_type=parts[-1])


def _check_recursion(context: Context, function: Function, name: str, caller: str | None) -> None:
    """Relay finds the result of a recursive global only where nobody else asks for it."""
    result = context.return_type(function)
    if isinstance(result, Hole) and caller is not None:
        message = f"cannot infer the result type of @{name}: it is recursive, and @{caller} calls it"
        context.error(function, message, hint="write it after the parameters: `-> Tensor[(...), float32]`")
        context.solver.fill(result, UNKNOWN)


def _report_unknown(context: Context, walk: Walk) -> None:
    """Reports what nothing in the group determines: variables first, for they explain the rest."""
    for var in (*walk.params, *walk.lets):
        found = context.resolve(context.declare(var), var)
        if context.solver.hole_in(found) is not None:
            name = f"%{var.name_hint}"
            context.error(var, f"cannot infer the type of {name}", hint=f"annotate it: {name}: <its type>")
            context.give_up(found)
            context.run_ready()
    for call in list(context.waiting):
        if stuck := unresolved_argument(context, call):
            arg, name = stuck
            found = context.type_of(arg)
            where = f"the argument {name!r} of {callee_name(call.op)}"
            context.error(call, f"cannot infer the type of {where}: so far {shown(found)}")
            context.give_up(found)
            context.run_ready()
    for node in walk.nodes:
        found = context.type_of(node)
        type_args = context.type_args.get(node, ()) if isinstance(node, Call) else ()
        for type_ in (found, *(context.resolve(arg, node) for arg in type_args)):
            if context.solver.hole_in(type_) is not None:
                context.error(node, f"cannot infer the type of this expression: so far {shown(found)}")
                context.give_up(type_)
                context.run_ready()


def _check_scopes(context: Context, walk: Walk) -> None:
    """Reports variables, and type variables, that nothing binds."""
    for node in walk.nodes:
        if isinstance(node, Var) and node not in walk.params and node not in walk.lets:
            context.error(node, f"the variable %{node.name_hint} is used but nothing binds it")
    _check_type_vars(context, [node for node in walk.nodes if isinstance(node, Function)])


def _check_type_vars(context: Context, functions: Sequence[Function]) -> None:
    declared = {var for function in functions for var in function.type_params}
    for var, node in context.type_vars_used.items():
        if var not in declared:
            context.error(node, f"the type variable {var.name} is no type parameter of a function around it")
    context.type_vars_used.clear()


def _typed_module(context: Context) -> Module:
    def attach(old: Expr, new: Expr) -> Expr:
        if isinstance(old, OpRef):
            return new
        found = context.type_of(old)
        match new:
            case Var(type_annotation=None) | Var(inferred=True):
                return replace(new, checked_type=found, type_annotation=found, inferred=True)
            case Function(ret_type=None) | Function(inferred=True):
                assert isinstance(found, FuncType)
                return replace(new, checked_type=found, ret_type=found.ret_type, inferred=True)
            case Call():
                assert isinstance(old, Call)
                type_args = tuple(map(context.solver.resolve, context.type_args.get(old, new.type_args)))
                attrs = context.attrs.get(old, new.attrs)
                return replace(new, checked_type=found, type_args=type_args, attrs=attrs)
            case _:
                return replace(new, checked_type=found)

    return rewrite_module(context.module, attach)
