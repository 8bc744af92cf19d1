"""Elaborate functions inside functions: lambdas, nested definitions, and the inlining of their bodies.

A nested function whose parameters have types becomes a Relay function (a closure) where it is defined, and
again where a name that it captures was assigned since. One without types is inlined where it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.limits import MAX_INLINED
from nnmagic.relay import expr as ir
from nnmagic.relay.types import Dim, FuncType, Type
from nnmagic.tinynn.analysis.bound_names import (
    find_local_names,
    find_mentioned_names,
    find_reassigned_names,
    reads_outer_name,
    walk,
)
from nnmagic.tinynn.calls.function_calls import FunctionMaker, bind_arguments
from nnmagic.tinynn.elaborate.annotation_types import (
    elaborate_result_type,
    elaborate_type,
    has_python_numbers,
    is_open,
    is_python_number,
    sizes_in_scope,
)
from nnmagic.tinynn.elaborate.changed_defaults import refuse_changed_defaults
from nnmagic.tinynn.elaborate.context import Elaboration, InlinedFunction
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, BlockExit, ExitKind
from nnmagic.tinynn.elaborate.conversions import convert_result
from nnmagic.tinynn.elaborate.function_bodies import declares_none, finish_body
from nnmagic.tinynn.elaborate.generators import give_back, is_state, take_states
from nnmagic.tinynn.elaborate.joins import hoist_bindings
from nnmagic.tinynn.elaborate.let_bindings import let_bind, let_bind_names
from nnmagic.tinynn.elaborate.live_names import LiveNames
from nnmagic.tinynn.elaborate.sequencing import fill_block, steps_of
from nnmagic.tinynn.elaborate.statements import return_destinations
from nnmagic.tinynn.elaborate.templates import fit_template_arguments
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.types.annotations import OpenTensor, OpenType
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.declared_sizes import named_sizes
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.weak_types import as_weak

#: Arguments that decide what a function that takes functions does.
_FUNCTIONS = v.LocalFunction | v.ClosureValue | v.GradientOf

#: Statements whose blocks are no part of the code around them.
_BRANCHING = ast.If | tree.For | tree.While | tree.MatchNode | ast.Assert


def elaborate_lambda(ctx: Elaboration, expr: tree.Lambda) -> v.Value:
    """Elaborate ``lambda x: body``."""
    formals = _elaborate_formals(ctx, expr.params)
    return v.LocalFunction("<lambda>", expr, formals, ctx.environment, _capture_versions(ctx, expr))


def elaborate_nested_function(ctx: Elaboration, definition: tree.DefinitionNode) -> None:
    """Elaborate ``def`` in a function: as a closure where its parameters have types, else for inlining."""
    name, span = definition.name, ctx.span(definition.name_span)
    refuse_changed_defaults(ctx, definition)
    formals = _elaborate_formals(ctx, definition.params)
    typed = [parameter.ty is not None for parameter in definition.params]
    if any(typed) and not all(typed):
        untyped = next(param for param in definition.params if param.ty is None)
        hint = f"write its type, as in {untyped.name}: Tensor[(2, 3), f32], or leave all types out"
        ctx.environment.bindings.bind(name, v.FAILED, span)
        raise v.RefusalError(f"parameter `{untyped.name}` has no type", ctx.span(untyped.span), hint=hint)
    if not all(typed) or not typed or any(is_open(ctx, param.ty) for param in definition.params if param.ty):
        local = v.LocalFunction(
            name, definition, formals, ctx.environment, _capture_versions(ctx, definition)
        )
        ctx.environment.bindings.bind(name, local, span)
        return
    ctx.environment.bindings.bind(name, _make_closure(ctx, definition, formals), span)


def _elaborate_formals(ctx: Elaboration, params: Sequence[tree.ParameterNode]) -> tuple[v.Formal, ...]:
    """Return the parameters as a caller sees them; defaults are evaluated here, as in Python."""
    return tuple(
        v.Formal(
            parameter.name,
            parameter.kind,
            None if parameter.default is None else ctx.evaluate(parameter.default),
        )
        for parameter in params
    )


def _capture_versions(ctx: Elaboration, node: ast.Node) -> Mapping[str, int]:
    """Return the names that a function captures, each with how often it was assigned."""
    owners = ((name, ctx.environment.owner(name)) for name in sorted(find_mentioned_names(node)))
    return {name: owner.bindings.versions.get(name, 0) for name, owner in owners if owner is not None}


def _captures(
    environment: v.Environment, names: Iterable[str], own: str
) -> Iterator[tuple[v.Environment, str]]:
    """Yield what a closure captures, also through other functions; ``own``: its name, which is left out."""
    for owner, name in v.captured_bindings((environment, name) for name in names):
        if name != own or owner.assigned is not environment.assigned:  # a copy has the same names
            yield owner, name


def _state(environment: v.Environment, names: Iterable[str], own: str) -> frozenset[tuple[str, str, int]]:
    """Return how often what a closure captures was assigned."""
    captures = _captures(environment, names, own)
    return frozenset((owner.name, name, owner.bindings.versions.get(name, 0)) for owner, name in captures)


def renew_closure(ctx: Elaboration, closure: v.ClosureValue) -> v.ClosureValue | None:
    """Return the closure over what its captured names stand for now, as in Python. Raises RefusalError.

    Its Relay function is the one of its definition, unless a captured name was assigned since.
    """
    if not _is_stale(closure):
        return closure
    environment = closure.environment
    if environment not in ctx.environment.chain():  # it has returned: nothing changes its own names any more
        environment = replace(environment, bindings=environment.bindings.copy())
    outer, ctx.environment = ctx.environment, environment
    try:
        renewed = _make_closure(ctx, closure.definition, closure.parameters)
    finally:
        ctx.environment = outer
    if not isinstance(renewed, v.ClosureValue):
        return None
    if environment is ctx.environment and environment.bindings.locals.get(closure.name) is closure:
        environment.bindings.locals[closure.name] = renewed  # until its names are assigned once more
    return renewed


def _is_stale(closure: v.ClosureValue) -> bool:
    """Return whether a captured name was assigned since the closure was made."""
    return _state(closure.environment, closure.versions, closure.name) != closure.state


def inline_call(
    ctx: Elaboration,
    function: v.LocalFunction,
    operands: list[v.Operand],
    callee: Span,
    span: Span,
    make_function: FunctionMaker,
) -> v.Value:
    """Return the value of a call whose function is inlined. Raises RefusalError."""
    arguments = bind_arguments(function.name, function.parameters, operands, span)
    if any(v.is_failed(operand.value) for operand in arguments.values()):
        return v.FAILED
    states = take_states(ctx, function, arguments)
    with _elaborate_inline(ctx, function, arguments, callee, span, make_function, states):
        if isinstance(function.definition, tree.Lambda):
            value = ctx.evaluate(function.definition.body)
            inlined: Inlined | None = Inlined(value, tuple(map(ctx.environment.bindings.locals.get, states)))  # type: ignore[arg-type]  # all are bound
        else:
            inlined = _inline_body(ctx, function.definition)
    if inlined is None:
        return v.FAILED
    give_back(ctx, states, inlined.changed)
    if inlined.own is None:
        return v.Known(None) if states else v.FAILED
    return inlined.own


@dataclass(frozen=True, slots=True)
class Inlined:
    """What a function that was inlined gives: its own value, None without one, and what it has changed."""

    own: v.Value | None
    changed: tuple[v.Value, ...] = ()


def inline_changing_call(
    ctx: Elaboration,
    function: v.LocalFunction,
    given: Mapping[str, v.Operand],
    destinations: Mapping[str, Type],
    spans: tuple[Span, Span],
    make_function: FunctionMaker,
) -> Inlined | None:
    """Inline a function that changes arrays; None where an error was reported. Raises RefusalError.

    ``destinations``: the parameters that it changes, with their types. ``spans``: of the name and the call.
    """
    callee, span = spans
    states = take_states(ctx, function, given)
    with _elaborate_inline(ctx, function, given, callee, span, make_function, {**destinations, **states}):
        assert not isinstance(function.definition, tree.Lambda)
        inlined = _inline_body(ctx, function.definition)
    if inlined is None or not states:
        return inlined
    give_back(ctx, states, inlined.changed[len(destinations) :])
    return replace(inlined, changed=inlined.changed[: len(destinations)])


@contextmanager
def _elaborate_inline(
    ctx: Elaboration,
    function: v.LocalFunction,
    arguments: Mapping[str, v.Operand],
    callee: Span,
    span: Span,
    make_function: FunctionMaker,
    destinations: Mapping[str, Type],
) -> Iterator[None]:
    """Elaborate in the environment of a function that is inlined. Raises RefusalError."""
    hint = "give its parameters and its result types, so that it becomes a Relay function"
    functions = tuple(each.value for each in arguments.values() if isinstance(each.value, _FUNCTIONS))
    inlined = InlinedFunction(function.definition, function.environment, functions)
    # With other functions as arguments it is no recursion: ``twice(lambda x: twice(g, x), y)``.
    if inlined in ctx.inlining:
        raise v.RefusalError(f"{describe(function)} calls itself", callee, hint=hint)
    if len(ctx.inlining) >= MAX_INLINED:
        message = f"functions without types are inlined into one another at most {MAX_INLINED} deep"
        raise v.RefusalError(message, callee, hint=hint)
    body, sizes = function.definition.body, dict[str, Dim]()
    if not isinstance(function.definition, tree.Lambda):
        arguments, sizes = fit_template_arguments(ctx, function, arguments, span, make_function)
    bindings = v.Bindings()
    for name, operand in arguments.items():
        bindings.bind(name, operand.value, operand.span)
    reassigned = find_reassigned_names(body, bindings.locals)
    environment = v.Environment(
        function.name, find_local_names(body), reassigned, function.environment, bindings, sizes=sizes
    )
    environment.destinations = dict(destinations)
    for state in filter(is_state, destinations):
        bindings.bind(state, ctx.environment.bindings.locals[state])
    outer, live = ctx.environment, ctx.live
    ctx.inlining.append(inlined)
    ctx.callers.append(ctx.environment)
    ctx.environment, ctx.live = environment, LiveNames(find_mentioned_names(body))
    try:
        yield
    finally:
        ctx.inlining.pop()
        ctx.callers.pop()
        ctx.environment, ctx.live = outer, live


def _inline_body(ctx: Elaboration, definition: tree.DefinitionNode) -> Inlined | None:
    """Return what a body gives, elaborated in a block of its own; None where an error was reported."""
    block, destinations = Block(), ctx.environment.destinations
    outer_names = [
        name for name in find_mentioned_names(definition.body) if name not in ctx.environment.assigned
    ]
    if any(isinstance(node, _BRANCHING) for node in walk(definition.body, into_functions=False)):
        let_bind_names(ctx, sorted(outer_names))
    outer, ctx.block = ctx.block, block
    ctx.live = LiveNames()
    ctx.live |= destinations
    steps = steps_of(ctx, definition.body.stmts)
    if destinations:
        steps.append(partial(return_destinations, ctx, None, definition.name_span))
    try:
        fill_block(ctx, block, steps, ctx.span(definition.name_span))
    finally:
        ctx.block = outer
    end = block.end
    if isinstance(end, BlockExit) and end.kind is ExitKind.RETURNS and (end.value or end.written):
        outer.lets += block.lets
        changed = tuple(node.value for node in end.written)
        if any(map(v.is_failed, changed)):
            return None
        return Inlined(_convert_result(ctx, definition, end.value), changed)
    declared = None
    if definition.ret_type is not None and not (destinations and declares_none(definition)):
        declared = elaborate_result_type(ctx, definition.ret_type)
    result = finish_body(ctx, definition, block, declared)
    if result is None:
        return None
    value = v.as_value(hoist_bindings(ctx, result).expr, result.type)
    if not destinations:
        return Inlined(value)
    results = [value]
    if isinstance(value, v.TupleOf):
        assert value.whole is not None
        whole = let_bind(ctx, value.whole, "results")
        split = v.as_value(whole.expr, whole.type)
        assert isinstance(split, v.TupleOf)
        results = list(split.items)
    return Inlined(results.pop(0) if len(results) > len(destinations) else None, tuple(results))


def _convert_result(
    ctx: Elaboration, definition: tree.DefinitionNode, value: v.Operand | None
) -> v.Value | None:
    """Return what a function returns in the type that it declares."""
    if value is None or definition.ret_type is None or v.is_failed(value.value):
        return None if value is None else value.value
    declared = elaborate_result_type(ctx, definition.ret_type)
    if declared is None:
        return v.FAILED
    what, span = f"the result of `{definition.name}`", ctx.span(definition.ret_type.span)
    of_python = has_python_numbers(definition.ret_type)
    converted = convert_result(what, declared, value, span, sizes_in_scope(ctx), of_python=of_python)
    return v.as_value(converted.expr, converted.type)


def _make_closure(
    ctx: Elaboration, definition: tree.DefinitionNode, formals: tuple[v.Formal, ...]
) -> v.Value:
    """Bind a nested definition with types by let. Raises RefusalError."""
    parameters = [
        (param, elaborate_type(ctx, param.ty)) for param in definition.params if param.ty is not None
    ]
    declared = None if definition.ret_type is None else elaborate_result_type(ctx, definition.ret_type)
    if any(type_ is None for _, type_ in parameters) or (
        definition.ret_type is not None and declared is None
    ):
        return v.FAILED
    arg_types = tuple(type_ for _, type_ in parameters if type_ is not None)
    used = find_mentioned_names(definition)
    let_bind_names(ctx, [name for name in list(ctx.environment.names()) if name in used])
    recursive = reads_outer_name(definition, definition.name)
    if recursive and (declared is None or isinstance(declared, OpenTensor | OpenType)):
        hint = "write it after the parameters, as in -> Tensor[(2, 3), f32]"
        name_span = ctx.span(definition.name_span)
        raise v.RefusalError(
            f"`{definition.name}` calls itself: its result needs a type", name_span, hint=hint
        )
    versions = _capture_versions(ctx, definition)
    state = _state(ctx.environment, versions, definition.name)
    changing = _changing_captures(ctx, versions, definition.name)

    def closure(result: Type, variable: ir.Var) -> v.ClosureValue:
        function = v.Computed(variable, FuncType(arg_types, result))
        return v.ClosureValue(
            definition.name, formals, function, definition, ctx.environment, versions, changing, state
        )

    span = ctx.span(definition.span)
    variable = ir.Var(definition.name, span=span)
    bindings = v.Bindings()
    if recursive and declared is not None and not isinstance(declared, OpenTensor | OpenType):
        bindings.bind(definition.name, closure(declared, variable))
    params, dimensions = [], dict[str, v.NamedSize]()
    for parameter, type_ in parameters:
        assert type_ is not None
        param = ir.Var(parameter.name, type_, span=ctx.span(parameter.span))
        params.append(param)
        ctx.memory.own(param, f"the parameter `{parameter.name}`")
        value = v.as_value(param, type_)
        bindings.bind(parameter.name, as_weak(value) if is_python_number(parameter.ty) else value, param.span)
        dimensions |= named_sizes(parameter.name, v.Computed(param, type_), ctx.span(parameter.span))
    body = _elaborate_body(ctx, definition, bindings, dimensions, declared)
    if body is None:
        return v.FAILED
    function = ir.Function(tuple(params), body.expr, body.type, span=span)
    ctx.block.lets.append((variable, function))
    return closure(body.type, variable)


def _changing_captures(ctx: Elaboration, versions: Mapping[str, int], name: str) -> tuple[str, ...]:
    """Return the captured names that may be assigned again."""
    captures = _captures(ctx.environment, versions, name)
    return tuple(sorted({captured for owner, captured in captures if captured in owner.reassigned}))


def _elaborate_body(
    ctx: Elaboration,
    definition: tree.DefinitionNode,
    bindings: v.Bindings,
    dimensions: dict[str, v.NamedSize],
    declared: Type | OpenTensor | OpenType | None,
) -> v.Computed | None:
    reassigned = find_reassigned_names(definition.body, bindings.locals)
    environment = v.Environment(
        definition.name, find_local_names(definition.body), reassigned, ctx.environment, bindings, dimensions
    )
    outer, live, block, ctx.block = ctx.environment, ctx.live, ctx.block, Block()
    ctx.environment, ctx.live = environment, LiveNames()
    try:
        fill_block(ctx, ctx.block, steps_of(ctx, definition.body.stmts), ctx.span(definition.name_span))
        return finish_body(ctx, definition, ctx.block, declared)
    finally:
        ctx.environment, ctx.live, ctx.block = outer, live, block
