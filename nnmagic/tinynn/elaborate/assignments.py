"""Elaborate assignments, unpacking and ``:=``."""

from __future__ import annotations

from typing import TypeGuard

from synr import ast

from nnmagic.diagnostics import Note, Span
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.analysis.bound_names import names_of, walk
from nnmagic.tinynn.elaborate.annotation_types import type_or_none
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.conversions import convert_declared_value
from nnmagic.tinynn.elaborate.element_assignments import assign_elements, update_destination
from nnmagic.tinynn.elaborate.let_bindings import atomize
from nnmagic.tinynn.operators.unpacking import unpack
from nnmagic.tinynn.syntax import SIGNS, tree
from nnmagic.tinynn.values.promotion import check_update
from nnmagic.tinynn.values.values import (
    FAILED,
    Computed,
    Operand,
    RefusalError,
    TupleOf,
    Unassigned,
    Value,
    is_failed,
)


def elaborate_walrus(ctx: Elaboration, expr: tree.NamedExpr) -> Value:
    """Elaborate ``name := value``."""
    value = ctx.evaluate(expr.value)
    owner = ctx.environment.owner(expr.target.id.name)
    if owner is not None and owner is not ctx.environment:  # a comprehension that makes functions
        owner.bindings.bind(expr.target.id.name, FAILED)
        message = "`:=` beside a lambda in a comprehension is not supported"
        raise RefusalError(message, ctx.span(expr.span), hint="write a `for` with an assignment")
    ctx.environment.bindings.bind(expr.target.id.name, value, ctx.span(expr.target.span))
    return value


def assign_target(ctx: Elaboration, target: ast.Expr, value: Operand, *, is_only: bool = True) -> None:
    """Bind the names of a target, and assign its elements. Raises RefusalError.

    ``is_only``: whether no other target has the same value.
    """
    if is_failed(value.value):
        for name in names_of(target):
            ctx.environment.bindings.bind(name, FAILED)
        return

    def bind(part: ast.Expr, item: Value) -> None:
        if isinstance(part, ast.Var):
            ctx.environment.bindings.bind(part.id.name, item, ctx.span(part.span))
            return
        others = None if is_only and part is target else value
        assign_elements(ctx, part, Operand(item, value.span), others)

    unpack(target, value, ctx.span, bind)


def elaborate_assign(ctx: Elaboration, stmt: ast.Assign) -> None:
    """Elaborate ``name = value`` and ``name: type = value``."""
    target = stmt.lhs[0]
    name = target.id.name
    value = ctx.evaluate(stmt.rhs)
    if stmt.ty is not None:
        declared = type_or_none(ctx, stmt.ty)
        if declared is None or is_failed(value):
            value = FAILED
        else:
            operand = Operand(value, ctx.span(stmt.rhs.span))
            value = convert_declared_value(f"`{name}`", declared, operand, ctx.span(stmt.ty.span))
    if isinstance(stmt.rhs, ast.Var) and _is_array(value):
        ctx.alike.setdefault(id(value.expr), set()).update((name, stmt.rhs.id.name))
    ctx.environment.bindings.bind(name, value, ctx.span(target.span))


def _is_array(value: Value) -> TypeGuard[Computed]:
    return isinstance(value, Computed) and isinstance(value.type, TensorType) and bool(value.type.shape)


def _forget_other_names(ctx: Elaboration, name: str, before: Value, span: Span) -> None:
    """Take the values of the other names of an array that ``name += value`` changes in NumPy."""
    bindings = ctx.environment.bindings
    if not _is_array(before):
        return
    for other in sorted(ctx.alike.get(id(before.expr), ())):
        value = bindings.locals.get(other, FAILED)
        if other == name or not isinstance(value, Computed) or value.expr is not before.expr:
            continue
        message = f"`{other}` is the array that `{name}` was, which NumPy would have changed, too"
        hint = f"write {name} = {name} + value to change `{name}` alone, or copy it before: {other}.copy()"
        notes = (Note(f"`{name}` is changed here", span),)
        bindings.bind(other, Unassigned(message, hint, notes), bindings.spans.get(other))


def elaborate_update_name(ctx: Elaboration, stmt: tree.UpdateName) -> None:
    """Elaborate ``name += value`` with any operator. Raises RefusalError."""
    name, span = stmt.lhs[0].id.name, ctx.span(stmt.span)
    if name in ctx.environment.destinations:
        if not isinstance(stmt.rhs.func_name, ast.Op):
            hint = "change elements one by one, in a loop"
            raise RefusalError(
                f"`.at` of `{name}`, an array of the caller, is not supported", span, hint=hint
            )
        update_destination(ctx, stmt)
        return
    before = ctx.environment.bindings.locals.get(name, FAILED)
    outer, ctx.updating = ctx.updating, stmt.rhs
    try:
        value = Operand(ctx.evaluate(stmt.rhs), span)
    finally:
        ctx.updating = outer
    if not is_failed(value.value):
        if isinstance(stmt.rhs.func_name, ast.Op):  # not ``np.add.at(y, i, 1)``
            value = check_update(f"{SIGNS[stmt.rhs.func_name.name]}=", before, value)
        _forget_other_names(ctx, name, before, span)
    ctx.environment.bindings.bind(name, value.value, ctx.span(stmt.lhs[0].span))


def elaborate_unpack(ctx: Elaboration, stmt: tree.Unpack) -> None:
    """Elaborate ``a, (b, *c), d[i] = value`` and ``a = b = value``."""
    value = Operand(ctx.evaluate(stmt.rhs), ctx.span(stmt.rhs.span))
    if isinstance(value.value, TupleOf) and any(isinstance(part, ast.Call) for part in walk(stmt.targets)):
        # What is read for the second element is computed before the first one changes.
        value = Operand(atomize(ctx, value.value, "value", set()), value.span)
    for target in stmt.targets:
        assign_target(ctx, target, value, is_only=len(stmt.targets) == 1)


def elaborate_write_out(ctx: Elaboration, stmt: tree.WriteOut) -> None:
    """Elaborate a call whose result goes to a destination, in the dtype of that. Raises RefusalError."""
    target = stmt.targets[0]
    name = target.params[0].id.name
    value = Operand(ctx.evaluate(stmt.rhs), ctx.span(stmt.rhs.span))
    before = ctx.environment.bindings.locals.get(name, FAILED)
    if not is_failed(value.value):
        value = check_update("out=", before, value)
    assign_target(ctx, target, value)
