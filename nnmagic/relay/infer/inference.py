"""Infer the types of a module: order its functions, report unknown types, build the typed module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnmagic.relay.expr import Call, Expr, Function, GlobalVar, OpRef, Var
from nnmagic.relay.infer.calls import find_unresolved_argument
from nnmagic.relay.infer.context import Context, callee_name
from nnmagic.relay.infer.expression_rules import ExpressionInference
from nnmagic.relay.infer.unify import Hole, describe_type, type_parts
from nnmagic.relay.module import NOT_PRINTED, Module
from nnmagic.relay.structure.callgraph import call_graph, components
from nnmagic.relay.structure.traverse import rewrite
from nnmagic.relay.types import FuncType, Type


def infer_context(context: Context) -> Context:
    """Infer the types of the context's module, and return the context."""
    _check_data_types(context)
    # Strongly connected components, callees first (Tarjan, 1972): the type of a function is known
    # before others call it.
    for group in components(call_graph(context.module)):
        _infer_group(context, group)
    return context


def _check_data_types(context: Context) -> None:
    for data in context.module.types.values():
        for constructor in data.constructors:
            for type_ in constructor.inputs:
                context.annotation(type_, constructor)
        for var in data.type_vars:
            context.type_vars_used.pop(var, None)
    _check_type_vars(context, ())


def _infer_group(context: Context, group: Sequence[str]) -> None:
    """Infer functions that call one another; other functions that they call are inferred already."""
    functions = {name: context.module.functions[name] for name in group}
    inference = ExpressionInference(context)
    for name, function in functions.items():
        context.function = name
        context.signatures[name] = context.signature(function)
    for name, function in functions.items():
        context.function = name
        inference.run(function)
    _report_unknown_types(context, inference)
    _check_scopes(context, inference)
    for name in group:
        signature = context.signatures[name]
        resolved = [context.resolve(part, functions[name]) for part in type_parts(signature)]
        context.signatures[name] = replace(signature, arg_types=tuple(resolved[:-1]), ret_type=resolved[-1])


def _report_unknown_types(context: Context, inference: ExpressionInference) -> None:
    """Report the types that nothing in the group determines: variables first, as they explain the rest."""
    for var in (*inference.params, *inference.lets):
        type_ = context.resolve(context.declare(var), var)
        if isinstance(type_, Hole):
            name = f"%{var.name_hint}"
            context.error(var, f"cannot infer the type of {name}", hint=f"annotate it: {name}: <its type>")
            context.give_up(type_)
            context.run_ready()
    for call in list(context.waiting):
        if stuck := find_unresolved_argument(context, call):
            arg, name = stuck
            type_ = context.type_of(arg)
            where = f"the argument {name!r} of {callee_name(call.op)}"
            message = f"cannot infer the type of {where}: so far {describe_type(type_)}"
            context.error(call, message, hint=_result_hint(arg))
            context.give_up(type_)
            context.run_ready()
    for node in inference.nodes:
        type_ = context.type_of(node)
        if isinstance(type_, Hole):
            context.error(node, "cannot infer the type of this expression", hint=_result_hint(node))
            context.give_up(type_)
            context.run_ready()


def _result_hint(expr: Expr) -> str | None:
    """Return what makes the type of a call known whose callee does not say what it returns."""
    if isinstance(expr, Call) and isinstance(expr.op, GlobalVar):
        return f"give @{expr.op.name} a result type"
    return None


def _check_scopes(context: Context, inference: ExpressionInference) -> None:
    """Report variables, and type variables, that nothing binds."""
    for node in inference.nodes:
        if isinstance(node, Var) and node not in inference.params and node not in inference.lets:
            context.error(node, f"the variable %{node.name_hint} is used but nothing binds it")
    _check_type_vars(context, [node for node in inference.nodes if isinstance(node, Function)])


def _check_type_vars(context: Context, functions: Sequence[Function]) -> None:
    declared = {var for function in functions for var in function.type_params}
    for var, node in context.type_vars_used.items():
        if var not in declared:
            context.error(node, f"the type variable {var.name} is no type parameter of a function around it")
    context.type_vars_used.clear()


def _types_in_text(node: Expr) -> tuple[Type | None, ...]:
    """Return the types that are printed with a node: its ``checked_type`` and its annotation."""
    match node:
        case Var(type_annotation=annotation):
            return node.checked_type, annotation
        case Function(ret_type=result, checked_type=FuncType() as type_) if result is not None:
            return type_, replace(type_, ret_type=result)
    return (node.checked_type,)


def build_typed_module(context: Context, printed: Mapping[Expr, Type]) -> Module:
    """Return the context's module with types.

    ``printed``: the types that the text shows, by the nodes of the untyped module.
    """
    printed_types: dict[Expr, Type] = {}

    def attach(old: Expr, new: Expr) -> Expr:
        node = annotate(old, new)
        type_ = printed.get(old)
        if type_ is not None and any(written != type_ for written in _types_in_text(node)):
            printed_types[node] = type_
        return node

    def annotate(old: Expr, new: Expr) -> Expr:
        if isinstance(old, OpRef):
            return new
        type_ = context.type_of(old)
        match new:
            case Var(type_annotation=None) | Var(inferred=True):
                return replace(new, checked_type=type_, type_annotation=type_, inferred=True)
            case Function(ret_type=None) | Function(inferred=True):
                assert isinstance(type_, FuncType)
                return replace(new, checked_type=type_, ret_type=type_.ret_type, inferred=True)
            case Call():
                assert isinstance(old, Call)
                type_args = tuple(map(context.solver.resolve, context.type_args.get(old, new.type_args)))
                if any(context.solver.hole_in(arg) is not None for arg in type_args):
                    type_args = ()
                attrs = context.attrs.get(old, new.attrs)
                return replace(new, checked_type=type_, type_args=type_args, attrs=attrs)
            case _:
                return replace(new, checked_type=type_)

    # The original infers function by function: a node that two functions share becomes two.
    functions = {}
    for name, function in context.module.functions.items():
        typed = rewrite(function, attach)
        functions[name] = typed
    kept = NOT_PRINTED if printed is NOT_PRINTED else printed_types
    return replace(context.module, functions=functions, printed_types=kept)
