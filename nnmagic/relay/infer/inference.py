"""Type inference of a whole module: the order of its functions, what stays unknown, the typed module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnmagic.diagnostics import RelayError, kind_of
from nnmagic.frames import short_errors
from nnmagic.relay.callgraph import call_graph, components
from nnmagic.relay.compat.printed_types import UnlikeRelayError, printed_types
from nnmagic.relay.expr import Call, Expr, Function, GlobalVar, OpRef, Var
from nnmagic.relay.infer.calls import unresolved_argument
from nnmagic.relay.infer.context import Context, callee_name, written_type
from nnmagic.relay.infer.expression_rules import Walk
from nnmagic.relay.infer.unify import Hole, shown, type_parts
from nnmagic.relay.module import Module
from nnmagic.relay.traverse import rewrite
from nnmagic.relay.types import FuncType, Type


@short_errors
def infer_type(module: Module, *, look_into_callees: bool = False) -> Module:
    """A new module in which every expression has its ``checked_type`` and every function its result type.

    As in Relay: parameters and lets without annotation get one, generic calls their type arguments; a caller
    knows of a global what is written, so without a written result type something else must say what a call
    gives, unless ``look_into_callees``. Annotations that an earlier inference
    filled in are found anew. Sharing and spans are kept, ``AnyDim`` labels where they are known to hold.
    Raises RelayError with every independent error.
    """
    if not isinstance(module, Module):
        raise TypeError(f"relay.infer_type takes a relay.Module, not {kind_of(module)}")
    context = _inferred(Context(module))
    errors = context.diagnostics.found
    if errors and context.size_errors == len(errors):
        # Where real Relay has made a size unknown before it meets another one, it sees nothing wrong.
        loose = _inferred(Context(module, loose=True))
        if not loose.diagnostics.found and _real_relay_accepts(loose, look_into_callees):
            context = loose
    context.diagnostics.raise_if_any(RelayError)
    shown = _shown_types(context, look_into_callees)
    context.diagnostics.raise_if_any(RelayError)
    return _typed_module(context, shown)


def _inferred(context: Context) -> Context:
    """The context after the inference of its module."""
    _check_data_types(context)
    for group in components(call_graph(context.module)):
        _infer_group(context, group)
    return context


def _real_relay_accepts(context: Context, look_into_callees: bool) -> bool:
    try:
        printed_types(context.module, context.attrs, _known_to_callers(context, look_into_callees))
    except UnlikeRelayError:
        return False
    return True


def _check_data_types(context: Context) -> None:
    for data in context.module.types.values():
        for constructor in data.constructors:
            for type_ in constructor.inputs:
                context.annotation(type_, constructor)
        for var in data.type_vars:
            context.type_vars_used.pop(var, None)
    _check_type_vars(context, ())


def _infer_group(context: Context, group: Sequence[str]) -> None:
    """Infers functions that call one another; those that they call besides are known already."""
    functions = {name: context.module.functions[name] for name in group}
    walk = Walk(context)
    for name, function in functions.items():
        context.function = name
        context.signatures[name] = context.signature(function)
    for name, function in functions.items():
        context.function = name
        walk.run(function)
    _report_unknown(context, walk)
    _check_scopes(context, walk)
    for name in group:
        signature = context.signatures[name]
        parts = [context.resolve(part, functions[name]) for part in type_parts(signature)]
        context.signatures[name] = replace(signature, arg_types=tuple(parts[:-1]), ret_type=parts[-1])


def _report_unknown(context: Context, walk: Walk) -> None:
    """Reports what nothing in the group determines: variables first, for they explain the rest."""
    for var in (*walk.params, *walk.lets):
        found = context.resolve(context.declare(var), var)
        if isinstance(found, Hole):
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
        if isinstance(found, Hole):
            context.error(node, "cannot infer the type of this expression")
            context.give_up(found)
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


def _shown_types(context: Context, look_into_callees: bool) -> Mapping[Expr, Type]:
    """The types that real Relay shows, where they may be others; reports calls of which it finds none."""
    untold = {name for name, function in context.module.functions.items() if function.ret_type is None}
    asked = any(isinstance(node, GlobalVar) and node.name in untold for node in context.types)
    asked = asked and not look_into_callees
    if not (context.solver.widened or context.type_args or asked):
        return {}
    try:
        shown = printed_types(context.module, context.attrs, _known_to_callers(context, look_into_callees))
    except UnlikeRelayError:
        return {}
    for node, type_ in shown.items():
        if asked and isinstance(type_, Hole) and isinstance(node, Call) and isinstance(node.op, GlobalVar):
            name = f"@{node.op.name}"
            message = f"cannot infer the result type of {name}: callers know of it only what is written"
            context.error(node, message, hint=f"write it in {name}, after the parameters: `-> <its type>`")
    return shown


def _known_to_callers(context: Context, look_into_callees: bool) -> dict[str, FuncType]:
    """The globals' types: as far as they are written, or all that was found."""
    known = {}
    for name, function in context.module.functions.items():
        found = context.signatures[name]
        written = [written_type(param) for param in function.params]
        if look_into_callees:
            params, result = found.arg_types, found.ret_type
        else:
            params = tuple(Hole() if type_ is None else type_ for type_ in written)
            result = Hole() if function.ret_type is None else function.ret_type
        known[name] = FuncType(params, result, function.type_params)
    return known


def _printed(node: Expr) -> tuple[Type | None, ...]:
    """The types that are printed with a node, as its own type: ``checked_type`` and what is written."""
    match node:
        case Var(type_annotation=annotation):
            return node.checked_type, annotation
        case Function(ret_type=result, checked_type=FuncType() as type_) if result is not None:
            return type_, replace(type_, ret_type=result)
    return (node.checked_type,)


def _typed_module(context: Context, shown: Mapping[Expr, Type]) -> Module:
    types: dict[Expr, Type] = {}

    def attach(old: Expr, new: Expr) -> Expr:
        made = typed(old, new)
        type_ = shown.get(old)
        if type_ is not None and any(known != type_ for known in _printed(made)):
            types[made] = type_
        return made

    def typed(old: Expr, new: Expr) -> Expr:
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
                if any(context.solver.hole_in(type_) is not None for type_ in type_args):
                    type_args = ()
                attrs = context.attrs.get(old, new.attrs)
                return replace(new, checked_type=found, type_args=type_args, attrs=attrs)
            case _:
                return replace(new, checked_type=found)

    # Real Relay infers function by function: a node that two functions share becomes two.
    functions = {}
    for name, function in context.module.functions.items():
        made = rewrite(function, attach)
        assert isinstance(made, Function)
        functions[name] = made
    return replace(context.module, functions=functions, printed_types=types)
