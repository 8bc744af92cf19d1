"""Elaborate calls of gradients: as marked functions, which are replaced once the types are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace

from nnmagic.diagnostics import Span
from nnmagic.limits import MAX_WORK, WORK_OF_A_DERIVATIVE
from nnmagic.relay import expr as ir
from nnmagic.relay.complex_numbers.operators import IMAG, MAKE, REAL
from nnmagic.relay.gradients.markers import mark
from nnmagic.relay.structure.tuple_trees import leaf_types
from nnmagic.relay.types import TensorType, TupleType, Type, TypeCall, is_complex, is_float
from nnmagic.tinynn.elaborate.batching import call_checkpoint, call_partial, call_vmap
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, BlockExit, ExitKind, render
from nnmagic.tinynn.elaborate.conversions import to_relay
from nnmagic.tinynn.elaborate.custom_rules import call_custom, fit
from nnmagic.tinynn.elaborate.frozen_functions import freeze
from nnmagic.tinynn.elaborate.generators import is_state, set_state
from nnmagic.tinynn.elaborate.gradient_operands import (
    formals_of,
    has_floats,
    number_of_name,
    operands_in_order,
    parameter_number,
    primal_of,
    primals_of,
)
from nnmagic.tinynn.elaborate.jacobians import PartsOf, jacobian_of
from nnmagic.tinynn.elaborate.let_bindings import atomize, let_bind
from nnmagic.tinynn.elaborate.records import call_tree_map
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, source_text, with_article
from nnmagic.tinynn.values.operator_calls import apply as apply_operator

#: Calls a value: `calls.apply_value`.
Apply = Callable[[Elaboration, v.Operand, list[v.Operand], Span], v.Value]


def call_gradient(
    ctx: Elaboration, gradient: v.GradientOf, operands: Sequence[v.Operand], span: Span, apply: Apply
) -> v.Value:
    """Return the value of a call of what ``grad`` or its kin gives. Raises RefusalError."""
    ctx.asks_for_gradients = True
    match gradient.kind:
        case "vjp":
            return _vjp(ctx, gradient, span, apply)
        case "jvp":
            return _jvp(ctx, gradient, span, apply)
        case "pullback":
            return _pull(ctx, gradient, operands, span, apply)
        case "partial":
            return call_partial(ctx, gradient, operands, span, apply)
        case "pushforward":
            both = (*gradient.arguments, *operands)
            pushed = _jvp(ctx, replace(gradient, arguments=both), span, apply)
            return pushed if v.is_failed(pushed) else _items(pushed)[1]
        case "jacobian" | "jacfwd" | "jacrev":
            return _jacobian(ctx, gradient, operands, span, apply)
        case "vmap":
            return call_vmap(ctx, gradient, operands, span, apply)
        case "tree_map":
            return call_tree_map(ctx, gradient, span, apply)
        case "stop":
            return _stop(gradient.function.value, span)
        case "checkpoint":
            return call_checkpoint(ctx, gradient, operands, span, apply)
        case "custom_vjp" | "custom_jvp":
            return call_custom(ctx, gradient, operands, span, apply)
    return _gradient(ctx, gradient, operands, span, apply)


def _gradient(
    ctx: Elaboration, gradient: v.GradientOf, operands: Sequence[v.Operand], span: Span, apply: Apply
) -> v.Value:
    """Call ``grad(f, ...)`` or ``value_and_grad(f, ...)``."""
    ordered = operands_in_order(gradient.function, operands, span)
    numbers = _numbers(gradient, operands, ordered, span)
    operands = ordered
    chosen = primals_of(ctx, gradient.function, [(number, operands[number]) for number in numbers])
    params = _variables(ctx, gradient.function, numbers, chosen)
    inner = list(operands)
    for number, param, primal in zip(numbers, params, chosen, strict=True):
        value = v.as_value(param, primal.type)
        if primal.weak and isinstance(value, v.Computed):
            value = replace(value, weak=True)
        inner[number] = replace(operands[number], value=value)
    states: dict[str, v.Computed] = {}
    made = _apply_inside(ctx, gradient.function, inner, span, apply, states)
    if made is None:
        return v.FAILED
    block, result = made
    own, extra = _split_aux(gradient, result)
    computed = to_relay(own)
    _check_scalar(gradient, computed.type, own)
    exprs, types = [computed.expr], [computed.type]
    if extra is not None:
        aux = to_relay(extra)
        exprs.append(aux.expr)
        types.append(aux.type)
    # What the function draws changes the states of generators: they leave the marked function, too.
    exprs += [state.expr for state in states.values()]
    types += [state.type for state in states.values()]
    gradients = TupleType(tuple(primal.type for primal in chosen))
    result_type = TupleType((types[0] if len(types) == 1 else TupleType(tuple(types)), gradients))
    value_expr = exprs[0] if len(exprs) == 1 else ir.Tuple(tuple(exprs), span=span)
    call = _mark(block, params, chosen, value_expr, result_type, "reverse", len(params), (), span)
    if states:
        call = let_bind(ctx, v.Computed(call, result_type), "gradient").expr
    value, gradient_items = _items(v.as_value(call, result_type))
    if states:
        items = _items(value)
        for state, after in zip(states, items[-len(states) :], strict=True):
            set_state(ctx, v.GeneratorOf(state), after)
        value = items[0] if extra is None else v.TupleOf(items[:2])
    gradient_value = gradient_items if isinstance(gradient.argnums, tuple) else _items(gradient_items)[0]
    if gradient.kind == "value_and_grad":
        return v.TupleOf((value, gradient_value))
    return v.TupleOf((gradient_value, _items(value)[1])) if extra is not None else gradient_value


def _numbers(
    gradient: v.GradientOf, given: Sequence[v.Operand], ordered: Sequence[v.Operand], span: Span
) -> list[int]:
    """Return the numbers of argnums, counted from the front. Raises RefusalError.

    As in JAX, negative ones count from the last argument that is given by position.
    """
    argnums = gradient.argnums if isinstance(gradient.argnums, tuple) else (gradient.argnums,)
    count = sum(operand.keyword is None for operand in ordered)
    last = sum(operand.keyword is None for operand in given) or count
    numbers = [
        number_of_name(gradient, number, ordered, span)
        if isinstance(number, str)
        else parameter_number(gradient, number, last if number < 0 else count, span)
        for number in argnums
    ]
    if len(set(numbers)) < len(numbers):
        raise v.RefusalError(f"{gradient.kind}: a parameter is named twice in argnums", span)
    return numbers


def _jacobian(
    ctx: Elaboration, gradient: v.GradientOf, operands: Sequence[v.Operand], span: Span, apply: Apply
) -> v.Value:
    """Call ``jacobian(f)``: a pullback for each element of the result."""
    ordered = operands_in_order(gradient.function, operands, span)
    numbers = _numbers(gradient, operands, ordered, span)
    operands = ordered
    primals = tuple(
        replace(operand, value=atomize(ctx, operand.value, "primal", set())) for operand in operands
    )
    function = _kept(ctx, gradient.function)
    inner = v.Operand(v.GradientOf("partial", function, tuple(numbers), arguments=primals), span)
    primals_of(ctx, gradient.function, [(number, operands[number]) for number in numbers])
    _refuse_data_types(primals[number] for number in numbers)
    chosen = tuple(
        replace(primals[number], value=primal_of(ctx, gradient.function, number, primals[number]))
        for number in numbers
    )
    jacobian = jacobian_of(ctx, gradient.kind, inner, chosen, span, apply)
    return _jacobians(jacobian, alone=not isinstance(gradient.argnums, tuple))


def _refuse_data_types(primals: Iterable[v.Operand]) -> None:
    """Check that arrays can hold the derivatives by all arguments. Raises RefusalError."""
    for operand in primals:
        if any(isinstance(leaf, TypeCall) for leaf in leaf_types(to_relay(operand).type)):
            message = (
                f"jacobian: `{source_text(operand.span)}` is {describe(operand.value)}, not made of arrays"
            )
            hint = "write grad(f) or vjp(f, x), whose results have the type of the parameter"
            raise v.RefusalError(message, operand.span, hint=hint)


def _jacobians(gradients: v.Value | PartsOf, *, alone: bool) -> v.Value:
    """Return the Jacobians of each part of a result; ``alone``: those by the only parameter."""
    if isinstance(gradients, PartsOf):
        items = tuple(_jacobians(item, alone=alone) for item in gradients.items)
        return v.TupleOf(items, record=gradients.record)
    return gradients.items[0] if alone and isinstance(gradients, v.TupleOf) else gradients


def _items(value: v.Value) -> tuple[v.Value, ...]:
    assert isinstance(value, v.TupleOf)
    return value.items


def _vjp(ctx: Elaboration, gradient: v.GradientOf, span: Span, apply: Apply) -> v.Value:
    """Return (f(*primals), pullback)."""
    function = _kept(ctx, gradient.function)
    given = primals_of(ctx, function, list(enumerate(gradient.arguments)))
    primals = [
        v.Operand(_atom(ctx, primal), operand.span)
        for primal, operand in zip(given, gradient.arguments, strict=True)
    ]
    frozen = replace(function, value=freeze(ctx, function.value))
    result = apply(ctx, function, list(primals), span)
    if v.is_failed(result):
        return v.FAILED
    return v.TupleOf((result, v.GradientOf("pullback", frozen, arguments=tuple(primals))))


def _pull(
    ctx: Elaboration, gradient: v.GradientOf, operands: Sequence[v.Operand], span: Span, apply: Apply
) -> v.Value:
    """Call a pullback with the cotangent of the result."""
    if len(operands) != 1 or operands[0].keyword is not None:
        raise v.RefusalError(f"a pullback takes one argument, not {len(operands)}", span)
    chosen = [primal_of(ctx, gradient.function, n, argument) for n, argument in enumerate(gradient.arguments)]
    params, block, result = _linearize(ctx, gradient, chosen, span, apply)
    if block is None or result is None:
        return v.FAILED
    given = fit("the cotangent", operands[0], result.type)
    cotangents = _leaves(ctx, given.expr, result.type)
    gradients = TupleType(tuple(primal.type for primal in chosen))
    whole = TupleType((result.type, gradients))
    call = _mark(block, params, chosen, result.expr, whole, "pullback", len(params), cotangents, span)
    return v.as_value(ir.TupleGetItem(call, 1, span=span), gradients)


def _jvp(ctx: Elaboration, gradient: v.GradientOf, span: Span, apply: Apply) -> v.Value:
    """Return (f(*primals), tangent)."""
    count = len(gradient.arguments) // 2
    chosen = primals_of(ctx, gradient.function, list(enumerate(gradient.arguments[:count])))
    tangents = [
        leaf
        for primal, operand in zip(chosen, gradient.arguments[count:], strict=True)
        for leaf in _leaves(ctx, fit("the tangent", operand, primal.type).expr, primal.type)
    ]
    params, block, result = _linearize(ctx, gradient, chosen, span, apply)
    if block is None or result is None:
        return v.FAILED
    whole = TupleType((result.type, result.type))
    call = _mark(block, params, chosen, result.expr, whole, "forward", len(params), tangents, span)
    return v.as_value(call, whole)


def _linearize(
    ctx: Elaboration, gradient: v.GradientOf, chosen: Sequence[v.Computed], span: Span, apply: Apply
) -> tuple[list[ir.Var], Block | None, v.Computed | None]:
    """Call a function with variables for all its arguments."""
    params = _variables(ctx, gradient.function, range(len(chosen)), chosen)
    inner = [
        v.Operand(v.as_value(param, primal.type), span) for param, primal in zip(params, chosen, strict=True)
    ]
    made = _apply_inside(ctx, gradient.function, inner, span, apply)
    if made is None:
        return params, None, None
    block, value = made
    result = to_relay(value)
    if not has_floats(ctx, result.type):
        raise v.RefusalError(f"the result is {with_article(result.type)}: only floats have a gradient", span)
    return params, block, result


def _mark(
    block: Block,
    params: Sequence[ir.Var],
    chosen: Sequence[v.Computed],
    value: ir.Expr,
    whole: TupleType,
    kind: str,
    count: int,
    more: Sequence[tuple[ir.Expr, Type]],
    span: Span,
) -> ir.Expr:
    """Return the marked call: its body has the type of what it stands for."""
    second = value if kind == "forward" else ir.Tuple(tuple(params), span=span)
    body = ir.Tuple((value, second), span=span)
    block.end = BlockExit(ExitKind.RETURNS, span)
    expr = render(block, whole, lambda _exit: body)
    extra = [ir.Var(f"d{index}", type_, span=span) for index, (_, type_) in enumerate(more)]
    function = mark([*params, *extra], expr, whole, kind, count)
    args = (*(primal.expr for primal in chosen), *(given for given, _ in more))
    return ir.Call(replace(function, span=span), args, span=span)


def _apply_inside(
    ctx: Elaboration,
    function: v.Operand,
    operands: list[v.Operand],
    span: Span,
    apply: Apply,
    states: dict[str, v.Computed] | None = None,
) -> tuple[Block, v.Operand] | None:
    """Call a function in a block of its own; return it with the result, None after an error.

    ``states`` takes those of the generators from which it draws; without it, it cannot draw from others than
    its own. Raises RefusalError where its derivative would take too long to compile.
    """
    callee = _kept(ctx, function)
    block, before = Block(), ctx.work - ctx.work_of_derivatives
    frozen = ctx.frozen_generators(is_state) if states is None else nullcontext()
    with ctx.inside(block, ctx.environment.bindings.copy()) as bindings, frozen:
        outside = dict(bindings.locals)
        result = apply(ctx, callee, operands, span)
        for name, value in ctx.environment.bindings.locals.items() if states is not None else ():
            if is_state(name) and name in outside and value is not outside[name]:
                assert states is not None
                assert isinstance(value, v.Computed)
                states[name] = value
    more = (WORK_OF_A_DERIVATIVE - 1) * (ctx.work - ctx.work_of_derivatives - before)
    if ctx.work + more > MAX_WORK:
        hint = "differentiate a loop of many rounds, which is compiled once, or fewer statements"
        raise v.RefusalError("this derivative takes too long to compile", span, hint=hint)
    ctx.work += more
    ctx.work_of_derivatives += more
    if v.is_failed(result):
        return None
    return block, v.Operand(result, span)


def _stop(value: v.Value, span: Span) -> v.Value:
    """Return the value itself, through which nothing flows back: its bits, read as what they are."""
    match value:
        case v.Computed(type=TensorType(dtype=dtype)) if is_float(dtype):
            made = apply_operator("reinterpret", span, value, dtype=dtype)
            return v.Computed(made.expr, value.type, value.weak)
        case v.Computed(type=TensorType(dtype=dtype)) if is_complex(dtype):
            real, imaginary = (apply_operator(name, span, value) for name in (REAL, IMAG))
            parts = [v.Operand(_stop(part, span), span) for part in (real, imaginary)]
            return apply_operator(MAKE, span, *parts)
        case v.Computed(expr=expr, type=TypeCall() as type_):
            x, whole = ir.Var("x", type_, span=span), TupleType((type_, type_))
            function = replace(mark([x], ir.Tuple((x, x)), whole, "stop", 1), span=span)
            return v.Computed(ir.TupleGetItem(ir.Call(function, (expr,), span=span), 0, span=span), type_)
        case v.TupleOf(items=items):
            return v.TupleOf(tuple(_stop(item, span) for item in items), record=value.record)
    return value


def _kept(ctx: Elaboration, function: v.Operand) -> v.Operand:
    return v.Operand(atomize(ctx, function.value, "function", set()), function.span)


def _atom(ctx: Elaboration, value: v.Computed) -> v.Value:
    atom = atomize(ctx, v.as_value(value.expr, value.type), "primal", set())
    return replace(atom, weak=True) if value.weak and isinstance(atom, v.Computed) else atom


def _variables(
    ctx: Elaboration, function: v.Operand, numbers: Sequence[int], chosen: Sequence[v.Computed]
) -> list[ir.Var]:
    """Return variables that stand for the arguments, in the memory of which they are."""
    formals, variables = formals_of(function), list[ir.Var]()
    for number, primal in zip(numbers, chosen, strict=True):
        name = formals[number].name if number < len(formals) else f"x{number}" if number else "x"
        variables.append(ir.Var(name, primal.type, span=primal.expr.span))
        ctx.memory.bound[variables[-1]] = primal.expr
    return variables


def _split_aux(gradient: v.GradientOf, result: v.Operand) -> tuple[v.Operand, v.Operand | None]:
    """Return the value to differentiate, and what is given beside it. Raises RefusalError."""
    if not gradient.has_aux:
        return result, None
    value = result.value
    if not isinstance(value, v.TupleOf) or len(value.items) != 2:
        message = f"{gradient.kind}: with has_aux the function returns (value, aux), not {describe(value)}"
        raise v.RefusalError(message, result.span, hint="return a tuple of two, or leave has_aux out")
    return v.Operand(value.items[0], result.span), v.Operand(value.items[1], result.span)


def _check_scalar(gradient: v.GradientOf, type_: Type, result: v.Operand) -> None:
    """Check that the value is a float of rank 0. Raises RefusalError."""
    if isinstance(type_, TensorType) and not type_.shape and is_float(type_.dtype):
        return
    hint = "sum it, or take its mean"
    if isinstance(type_, TupleType):
        hint = "return one number, or (value, aux) with has_aux=True"
    elif isinstance(type_, TensorType) and not is_float(type_.dtype):
        hint = "convert it to a float, or leave the gradient out"
    message = f"{gradient.kind}: the function returns {with_article(type_)}, not a float of rank 0"
    raise v.RefusalError(message, result.span, hint=hint)


def _leaves(ctx: Elaboration, expr: ir.Expr, type_: Type) -> list[tuple[ir.Expr, Type]]:
    """Return the parts of a value that have a gradient, each with its type."""
    if isinstance(type_, TupleType):
        parts = (
            expr.fields
            if isinstance(expr, ir.Tuple)
            else [ir.TupleGetItem(expr, index, span=expr.span) for index in range(len(type_.fields))]
        )
        return [
            leaf
            for part, field in zip(parts, type_.fields, strict=True)
            for leaf in _leaves(ctx, part, field)
        ]
    return [(expr, type_)] if has_floats(ctx, type_) else []
