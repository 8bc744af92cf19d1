"""Elaborate calls of functions that change arguments: the names stand for new tensors from then on.

In Relay such a function gives the new tensors as results, after its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from synr import ast

from nnmagic.diagnostics import Note, Span
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.analysis.bound_names import find_mentioned_names
from nnmagic.tinynn.calls.function_calls import bind_arguments, call_function
from nnmagic.tinynn.elaborate import element_assignments
from nnmagic.tinynn.elaborate.callbacks import is_callback
from nnmagic.tinynn.elaborate.calls import as_function, elaborate_call
from nnmagic.tinynn.elaborate.closures import inline_changing_call
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.expressions import evaluate_operands
from nnmagic.tinynn.elaborate.generators import require_generator, set_state, state_argument
from nnmagic.tinynn.elaborate.let_bindings import let_bind
from nnmagic.tinynn.elaborate.shared_memory import Foreign, Tokens, may_share
from nnmagic.tinynn.elaborate.templates import is_template, refuse_destinations, specialized
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.syntax.statements import UNUSED, UNUSED_HINT
from nnmagic.tinynn.values import values as v


@dataclass(frozen=True, slots=True)
class _Target:
    """Argument that a call changes: its parameter, its name in the caller, its value and memory."""

    formal: str
    variable: ast.Var
    tensor: v.Computed
    memory: Tokens


def elaborate_call_statement(ctx: Elaboration, stmt: tree.CallStatement) -> None:
    """Elaborate a call that is a statement. Raises RefusalError for one that changes nothing."""
    callee = ctx.evaluate(stmt.call.func_name)
    if v.is_failed(callee):
        ctx.environment.failed = True
        return
    if is_callback(callee):
        value = ctx.evaluate(stmt.call)
        if not v.is_failed(value) and value != v.Known(None):
            hint = "use its result, or declare none: callback(function, x, effects=True)"
            raise v.RefusalError("the result of this callback is not used", ctx.span(stmt.span), hint=hint)
        return
    if isinstance(callee, v.SpecializableFunction):
        refuse_destinations(callee, ctx.span(stmt.span))
    if not v.changes_arguments(callee):
        message, hint = UNUSED, UNUSED_HINT
        if isinstance(callee, v.LocalFunction) and callee.name in find_mentioned_names(
            callee.definition.body
        ):
            message = f"`{callee.name}` calls itself, and changes no array that is around it"
            hint = "let it fill an array, return what it finds, or write a loop with a stack: while stack:"
        raise v.RefusalError(message, ctx.span(stmt.span), hint=hint)
    ctx.evaluate(stmt.call)


def elaborate_changing_call(ctx: Elaboration, expr: tree.ChangingCall) -> v.Value:
    """Elaborate a call of a function that changes arguments, and return its own result; None if it has none.

    Raises RefusalError for an argument that is no array of the function's own, or shares memory with another.
    """
    callee = ctx.operand(expr.func_name)
    function = callee.value
    if not isinstance(function, v.GlobalFunction | v.LocalFunction) or not v.changes_arguments(function):
        return elaborate_call(ctx, expr)
    span = ctx.span(expr.span)
    arguments = _arguments(ctx, expr, function, span)
    if any(v.is_failed(operand.value) for operand, _ in arguments.values()):
        return _fail(ctx, expr)
    targets = [
        _target(ctx, function, formal.name, arguments[formal.name][1])
        for formal in function.parameters
        if _is_changed(function, formal, *arguments[formal.name])
    ]
    generators = _take_generators(ctx, function, arguments)
    if isinstance(function, v.GlobalFunction) and function.type is None:  # its own type is being inferred
        ctx.pending.awaited.add(function.name)
        return _fail(ctx, expr)
    for target in targets:
        for name, (other, _) in arguments.items():
            if name != target.formal and may_share(element_assignments.tokens_of(ctx, other), target.memory):
                message = (
                    f"{_written(function)} changes `{target.formal}`, with which `{name}` may share memory"
                )
                notes = [Note(f"this is `{target.formal}`", ctx.span(target.variable.span))]
                raise v.RefusalError(message, other.span, hint=f"give it a copy as `{name}`", notes=notes)
    element_assignments.bind_names(ctx)
    plain = {name: operand for name, (operand, _) in arguments.items()}
    if (
        isinstance(function, v.LocalFunction)
        and function.name in ctx.recursive
        and is_template(ctx, function)
    ):
        function = specialized(ctx, function, plain, span)
        named = {target.formal for target in targets}
        for formal in function.parameters:
            operand, node = arguments[formal.name]
            if formal.changes_array and formal.name not in named and _has_names(ctx, operand):
                _target(ctx, function, formal.name, node)  # raises: what it changes has no name
    if isinstance(function, v.LocalFunction):
        return _inline(ctx, expr, function, plain, targets)
    operands = [
        replace(arguments[formal.name][0], keyword=formal.name if formal.kind == "KEYWORD_ONLY" else None)
        for formal in function.parameters
    ]
    result = call_function(function, operands, span, partial(as_function, ctx))
    return _bind_results(ctx, function, result, targets, generators)


def _has_names(ctx: Elaboration, operand: v.Operand) -> bool:
    """Return whether an array may share memory with a name, or with what is not the function's own."""
    tokens, chain = element_assignments.tokens_of(ctx, operand), ctx.environment.chain()
    values = (value for scope in (*chain, *ctx.callers) for value in scope.bindings.locals.values())
    return any(isinstance(token, Foreign) for token in tokens) or any(
        may_share(ctx.memory.of_value(value, chain), tokens) for value in values
    )


def _take_generators(
    ctx: Elaboration,
    function: v.GlobalFunction | v.LocalFunction,
    given: dict[str, tuple[v.Operand, ast.Expr | None]],
) -> dict[str, v.GeneratorOf]:
    """Return the generators that a function of the module takes; their states become the arguments."""
    generators: dict[str, v.GeneratorOf] = {}
    if not isinstance(function, v.GlobalFunction):
        return generators
    for formal in function.parameters:
        if formal.destination == v.GENERATOR:
            operand, node = given[formal.name]
            generator = require_generator(function.written, formal.name, operand)
            given[formal.name] = state_argument(ctx, function.written, formal.name, operand), node
            generators[formal.name] = generator
    return generators


def _written(function: v.GlobalFunction | v.LocalFunction) -> str:
    return function.name if isinstance(function, v.LocalFunction) else function.written


def _is_changed(
    function: v.GlobalFunction | v.LocalFunction, formal: v.Formal, operand: v.Operand, node: ast.Expr | None
) -> bool:
    """Return whether a call changes the array of a name by a parameter.

    To a function that is inlined, an array without a name may be given, too, and a number.
    """
    if isinstance(function, v.GlobalFunction):
        return formal.changes_array
    value = operand.value
    type_ = value.type if isinstance(value, v.Computed) else None
    if isinstance(value, v.Known) or (isinstance(type_, TensorType) and not type_.shape):
        return False
    return formal.name in function.changed and (bool(formal.destination) or isinstance(node, ast.Var))


def _inline(
    ctx: Elaboration,
    expr: tree.ChangingCall,
    function: v.LocalFunction,
    given: Mapping[str, v.Operand],
    targets: Sequence[_Target],
) -> v.Value:
    """Inline a call, and bind the names of what it has changed."""
    destinations = {target.formal: target.tensor.type for target in targets}
    spans = ctx.span(expr.func_name.span), ctx.span(expr.span)
    inlined = inline_changing_call(ctx, function, given, destinations, spans, partial(as_function, ctx))
    if inlined is None:
        return _fail(ctx, expr)
    list_ = v.Known(None) if inlined.own is None else inlined.own
    shared: Tokens = element_assignments.tokens_of(ctx, v.Operand(list_, spans[1]))
    for target, value in zip(targets, inlined.changed, strict=True):
        assert isinstance(value, v.Computed)
        shared |= ctx.memory.of_expr(value.expr)
        changed, span = v.Computed(value.expr, target.tensor.type), ctx.span(target.variable.span)
        element_assignments.bind_target(ctx, target.variable, target.memory, changed, span)
        shared |= element_assignments.tokens_of(ctx, v.Operand(ctx.evaluate(target.variable), span))
    if isinstance(list_, v.Computed | v.ListOfRows | v.TupleOf):
        ctx.memory.share(list_, shared)
    return list_


def _arguments(
    ctx: Elaboration, expr: tree.ChangingCall, function: v.GlobalFunction | v.LocalFunction, span: Span
) -> dict[str, tuple[v.Operand, ast.Expr | None]]:
    """Return the arguments by parameter, with what the call writes; None for a default."""
    nodes = list(expr.params)
    operands = evaluate_operands(ctx, nodes)
    for key, node in expr.keyword_params.items():
        operands.append(v.Operand(ctx.evaluate(node), ctx.span(node.span), key.value))
        nodes.append(node)
    if len(operands) != len(nodes) or any(isinstance(node, tree.Starred) for node in nodes):
        hint = "write its arguments one by one"
        raise v.RefusalError(f"{_written(function)} changes arguments: `*` cannot give them", span, hint=hint)
    written = {id(operand): node for operand, node in zip(operands, nodes, strict=True)}
    bound = bind_arguments(_written(function), function.parameters, operands, span)
    return {name: (operand, written.get(id(operand))) for name, operand in bound.items()}


def _target(
    ctx: Elaboration, function: v.GlobalFunction | v.LocalFunction, formal: str, node: ast.Expr | None
) -> _Target:
    """Return what a call changes as an argument. Raises RefusalError if it must not."""
    assert node is not None, "what a call changes has no default"
    if not isinstance(node, ast.Var):
        hint = "give an array a name, and call the function with it; then assign what is to change"
        message = f"{_written(function)} changes `{formal}`: the argument must be the name of an array"
        raise v.RefusalError(message, ctx.span(node.span), hint=hint)
    tensor = element_assignments.read_target(ctx, node)
    assert tensor is not None, "its value is known"
    memory = element_assignments.own_memory(ctx, node, tensor, tensor.span)
    return _Target(formal, node, tensor.dynamic, memory)


def _bind_results(
    ctx: Elaboration,
    function: v.GlobalFunction,
    result: v.Value,
    targets: Sequence[_Target],
    generators: Mapping[str, v.GeneratorOf],
) -> v.Value:
    """Bind the names of the changed tensors and of the states, and return the function's own result."""
    changed = [formal.name for formal in function.parameters if formal.destination]
    list_: v.Value = v.Known(None)
    items: list[v.Value] = [result]
    shared: Tokens = frozenset()
    if isinstance(result, v.TupleOf):
        assert result.whole is not None
        tuple_ = let_bind(ctx, result.whole, "results")
        split = v.as_value(tuple_.expr, tuple_.type)
        assert isinstance(split, v.TupleOf)
        items = list(split.items)
        if len(items) > len(changed):
            list_ = items.pop(0)
        shared = ctx.memory.of_expr(tuple_.expr)
    by_name = {target.formal: target for target in targets}
    for name, item in zip(changed, items, strict=True):
        if name in generators:
            set_state(ctx, generators[name], item)
        elif name in by_name:  # else it is an array that nothing else reads
            assert isinstance(item, v.Computed)
            target = by_name[name]
            value, span = v.Computed(item.expr, target.tensor.type), ctx.span(target.variable.span)
            element_assignments.bind_target(ctx, target.variable, target.memory, value, span)
            shared |= ctx.memory.of_expr(item.expr)
    if isinstance(list_, v.Computed | v.TupleOf):
        ctx.memory.share(list_, shared)
    return list_


def _fail(ctx: Elaboration, expr: tree.ChangingCall) -> v.Value:
    for name in expr.changed:
        ctx.environment.bindings.bind(name, v.FAILED)
    return v.FAILED
