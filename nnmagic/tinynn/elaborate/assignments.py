"""Elaborate assignments, unpacking and ``:=``."""

from __future__ import annotations

from typing import TypeGuard

from synr import ast

from nnmagic.diagnostics import Note, Span
from nnmagic.relay.signatures import format_type
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.analysis.bound_names import names_of, walk
from nnmagic.tinynn.elaborate.annotation_types import sizes_in_scope, type_or_none
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.conversions import convert_declared_value
from nnmagic.tinynn.elaborate.element_assignments import assign_elements, update_destination
from nnmagic.tinynn.elaborate.let_bindings import atomize
from nnmagic.tinynn.elaborate.list_items import check_holders
from nnmagic.tinynn.elaborate.operand_memory import shares_memory
from nnmagic.tinynn.elaborate.optional_values import kept, may_be_none
from nnmagic.tinynn.elaborate.shared_memory import (
    A_CONSTANT,
    ANY_MEMORY,
    HOLD_COPIES,
    Foreign,
    describe_holder,
    is_list,
    parameters_of,
)
from nnmagic.tinynn.operators.element_assignment import keep_shape
from nnmagic.tinynn.operators.unpacking import unpack
from nnmagic.tinynn.syntax import SIGNS, tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.promotion import check_update


def elaborate_walrus(ctx: Elaboration, expr: tree.NamedExpr) -> v.Value:
    """Elaborate ``name := value``."""
    value = ctx.evaluate(expr.value)
    owner = ctx.environment.owner(expr.target.id.name)
    if owner is not None and owner is not ctx.environment:  # a comprehension that makes functions
        owner.bindings.bind(expr.target.id.name, v.FAILED)
        message = "`:=` beside a lambda in a comprehension is not supported"
        raise v.RefusalError(message, ctx.span(expr.span), hint="write a `for` with an assignment")
    ctx.environment.bindings.bind(expr.target.id.name, value, ctx.span(expr.target.span))
    return value


def assign_target(ctx: Elaboration, target: ast.Expr, value: v.Operand, *, is_only: bool = True) -> None:
    """Bind the names of a target, and assign its elements. Raises RefusalError.

    ``is_only``: whether no other target has the same value.
    """
    if v.is_failed(value.value):
        for name in names_of(target):
            ctx.environment.bindings.bind(name, v.FAILED)
        return

    def bind(part: ast.Expr, item: v.Value) -> None:
        if isinstance(part, ast.Var):
            ctx.environment.bindings.bind(part.id.name, item, ctx.span(part.span))
            return
        others = None if is_only and part is target else value
        assign_elements(ctx, part, v.Operand(item, value.span), others)

    unpack(target, value, ctx.span, bind)


def elaborate_assign(ctx: Elaboration, stmt: ast.Assign) -> None:
    """Elaborate ``name = value`` and ``name: type = value``."""
    target = stmt.lhs[0]
    name = target.id.name
    ctx.none_kept |= kept(stmt.rhs)
    value = ctx.evaluate(stmt.rhs)
    if stmt.ty is not None:
        declared = type_or_none(ctx, stmt.ty)
        if declared is None or v.is_failed(value):
            value = v.FAILED
        else:
            operand = v.Operand(value, ctx.span(stmt.rhs.span))
            sizes = sizes_in_scope(ctx)
            value = convert_declared_value(f"`{name}`", declared, operand, ctx.span(stmt.ty.span), sizes)
    if isinstance(stmt.rhs, ast.Var) and _is_array(value):
        ctx.alike.setdefault(id(value.expr), set()).update((name, stmt.rhs.id.name))
    ctx.environment.bindings.bind(name, value, ctx.span(target.span))


def _is_array(value: v.Value) -> TypeGuard[v.Computed]:
    return isinstance(value, v.Computed) and isinstance(value.type, TensorType) and bool(value.type.shape)


def _forget_other_names(
    ctx: Elaboration, name: str, before: v.Value, span: Span, operator: str = "+", *, with_views: bool = True
) -> None:
    """Take the values of the other names of an array that ``name += value`` changes in NumPy.

    These are names of the same array and, ``with_views``, of its views, also in the functions that this one
    is inlined in.
    """
    if not _is_array(before):
        return
    if ctx.callers:
        ctx.changed_by_calls.append((before, name, span))
    chain = ctx.environment.chain()
    alike = ctx.alike.get(id(before.expr), set())
    message = "`{}` is the array that `{}` was, which NumPy would have changed, too"
    hint = f"write {name} = {name} {operator} value to change `{name}` alone, or copy it before: {{}}.copy()"
    notes = (Note(f"`{name}` is changed here", span),)
    for environment in dict.fromkeys((*chain, *ctx.callers)):
        bindings = environment.bindings
        for other, value in list(bindings.locals.items()):
            is_own = environment is ctx.environment
            if is_own and other == name:
                continue
            is_same = isinstance(value, v.Computed) and value.expr is before.expr
            if is_same and ((is_own and other in alike) or not with_views):
                said = message.format(other, name)
            elif with_views and shares_memory(ctx, before, value, chain):
                said = f"`{other}` shares memory with `{name}`, which NumPy would have changed, too"
                said = message.format(other, name) if is_same else said
            else:
                continue
            advice = hint.format(other)
            if is_list(ctx.memory, other, value):
                said = f"{describe_holder(ctx.memory, other, value)} shares memory with `{name}`, which NumPy"
                said = f"{said} would have changed, too"
                advice = f"{HOLD_COPIES}; or write {name} = {name} {operator} value"
            unassigned = v.Unassigned(said, advice, notes, (other, name))
            bindings.bind(other, unassigned, bindings.spans.get(other))


def _warn_of_parameter(ctx: Elaboration, sign: str, name: str, before: v.Value, span: Span) -> None:
    """Warn of ``name += value`` where NumPy changes an array of the caller."""
    if not _is_array(before):
        return
    foreign = {token for token in ctx.memory.of_expr(before.expr) if isinstance(token, Foreign)}
    if given := parameters_of(foreign) & ctx.changeable:
        ctx.changing |= given
        raise v.RefusalError(
            f"`{name} {sign}` changes the caller's array", span
        )  # elaborated anew, so that it does
    for whose in sorted(token.what for token in foreign - {ANY_MEMORY, A_CONSTANT}):
        what = "the caller's array" if whose == f"the parameter `{name}`" else f"the array of {whose}"
        hint = f"write {name} = {name} {sign[:-1]} value for a new array"
        if ctx.environment.parent is None and whose == f"the parameter `{name}`":
            hint += f"; to change the caller's, declare {name}: InOut[{format_type(before.type)}]"
        message = f"`{name} {sign}` changes {what} in NumPy; in a cell `{name}` is a new array"
        ctx.warn(message, span, hint=hint)


def elaborate_update_name(ctx: Elaboration, stmt: tree.UpdateName) -> None:
    """Elaborate ``name += value`` with any operator. Raises RefusalError."""
    name, span = stmt.lhs[0].id.name, ctx.span(stmt.span)
    if name in ctx.environment.destinations:
        update_destination(ctx, stmt)
        return
    before = ctx.environment.bindings.locals.get(name, v.FAILED)
    if isinstance(before, v.TupleOf) and may_be_none(before):
        before = before.items[1]
    outer, ctx.updating = ctx.updating, stmt.rhs
    try:
        value = v.Operand(ctx.evaluate(stmt.rhs), span)
    finally:
        ctx.updating = outer
    if not v.is_failed(value.value):
        sign = f"{SIGNS[stmt.rhs.func_name.name]}="
        if isinstance(before, v.ListOfRows) or (
            isinstance(before, v.TupleOf) and before.written in ("list", "held")
        ):
            check_holders(ctx, name, before, span)
        value = keep_shape(sign, before, check_update(sign, before, value))
        _warn_of_parameter(ctx, sign, name, before, span)
        _forget_other_names(ctx, name, before, span, sign[:-1])
    ctx.environment.bindings.bind(name, value.value, ctx.span(stmt.lhs[0].span))


def elaborate_set_shape(ctx: Elaboration, stmt: tree.SetShape) -> None:
    """Elaborate ``name.shape = value``. Raises RefusalError for an array of the caller.

    Other names of the array, which NumPy would reshape, too, lose their values.
    """
    for variable, reshaped in zip(stmt.lhs, stmt.rhs.values, strict=True):
        name, span = variable.id.name, ctx.span(variable.span)
        before = ctx.environment.bindings.locals.get(name, v.FAILED)
        value = ctx.evaluate(reshaped)
        if not v.is_failed(value):
            if isinstance(before, v.Computed) and ctx.memory.is_foreign(before.expr):
                message = f"`{name}` may be an array of the caller, whose shape a cell does not change"
                raise v.RefusalError(message, span, hint=f"write {name} = {name}.reshape(...)")
            _forget_other_names(ctx, name, before, span, with_views=False)
        ctx.environment.bindings.bind(name, value, span)


def elaborate_unpack(ctx: Elaboration, stmt: tree.Unpack) -> None:
    """Elaborate ``a, (b, *c), d[i] = value`` and ``a = b = value``."""
    for target in stmt.targets if isinstance(stmt.rhs, ast.Tuple) else ():
        if isinstance(target, ast.Tuple) and all(isinstance(name, ast.Var) for name in target.values):
            ctx.none_kept |= kept(stmt.rhs)
    value = v.Operand(ctx.evaluate(stmt.rhs), ctx.span(stmt.rhs.span))
    if isinstance(value.value, v.TupleOf) and any(isinstance(node, ast.Call) for node in walk(stmt.targets)):
        # What is read for the second element is computed before the first one changes.
        value = v.Operand(atomize(ctx, value.value, "value", set()), value.span)
    for target in stmt.targets:
        assign_target(ctx, target, value, is_only=len(stmt.targets) == 1)


def elaborate_write_out(ctx: Elaboration, stmt: tree.WriteOut) -> None:
    """Elaborate a call whose result goes to a destination, in the dtype of that. Raises RefusalError."""
    target = stmt.targets[0]
    (name,) = names_of(target)
    value = v.Operand(ctx.evaluate(stmt.rhs), ctx.span(stmt.rhs.span))
    before = ctx.environment.bindings.locals.get(name, v.FAILED)
    if not v.is_failed(value.value):
        value = check_update("out=", before, value)
    assign_target(ctx, target, value)
