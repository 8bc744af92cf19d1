"""Elaborate names, literals, tuples and slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from synr import ast

from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.elaborate.annotation_types import unknown_dimension
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.let_bindings import reread
from nnmagic.tinynn.elaborate.operand_memory import check_operands
from nnmagic.tinynn.elaborate.optional_values import NONE_MERGES, read
from nnmagic.tinynn.elaborate.python_functions import python_function
from nnmagic.tinynn.namespace.attributes import attribute
from nnmagic.tinynn.namespace.name_resolution import UnknownNameError
from nnmagic.tinynn.operators.unpacking import parts_of
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.numbers import MAX_INT_BITS


def elaborate_constant(ctx: Elaboration, expr: ast.Constant) -> v.Value:
    """Elaborate a literal."""
    number = expr.value
    if isinstance(number, int) and number.bit_length() > MAX_INT_BITS:
        message = f"an int of {number.bit_length()} bits is larger than any float"
        raise v.RefusalError(message, ctx.span(expr.span))
    return v.Known(number)


def elaborate_tuple(ctx: Elaboration, expr: ast.Tuple | ast.ArrayLiteral) -> v.Value:
    """Elaborate a tuple or a list."""
    items = tuple(item.value for item in evaluate_operands(ctx, expr.values))
    return v.TupleOf(items, written="tuple" if isinstance(expr, ast.Tuple) else "list")


def elaborate_slice(ctx: Elaboration, expr: ast.Slice) -> v.Value:
    """Elaborate ``start:stop:step`` inside a subscript."""
    return v.SliceOf(ctx.evaluate(expr.start), ctx.evaluate(expr.end), ctx.evaluate(expr.step))


def elaborate_ellipsis(_ctx: Elaboration, _expr: tree.EllipsisLiteral) -> v.Value:
    """Elaborate ``...``."""
    return v.Known(Ellipsis)


def elaborate_invalid(_ctx: Elaboration, _expr: tree.Invalid) -> v.Value:
    """Elaborate an expression that the parser reported."""
    return v.FAILED


def refuse_starred(ctx: Elaboration, expr: tree.Starred) -> v.Value:
    """Refuse a stray ``*x`` in the words of Python's own compiler, which finds most of them."""
    raise v.RefusalError("can't use starred expression here", ctx.span(expr.span))


def elaborate_name(ctx: Elaboration, expr: ast.Expr) -> v.Value:
    """Elaborate a name with its attributes; a dotted name outside the function may name an operator."""
    chain: list[ast.Attr] = []
    root = expr
    while isinstance(root, ast.Attr):
        chain.append(root)
        root = root.object
    chain.reverse()
    if not isinstance(root, ast.Var):
        return _take_attributes(ctx, ctx.operand(root), chain)
    name = root.id.name
    owner = ctx.environment.owner(name)
    if owner is not None:
        value = _read_local(ctx, name, owner.bindings.locals.get(name), root)
        return _take_attributes(ctx, v.Operand(value, ctx.span(root.span)), chain)
    path = (name, *(link.field.name for link in chain))
    span = ctx.span(expr.span)
    try:
        scopes = [*(scope.imports for scope in ctx.environment.chain()), ctx.imports]
        imports = [scope for scope in scopes if name in scope]
        if imports:
            value, taken = ctx.resolver.lookup_import(path, imports[0], span)
        else:
            value, taken = ctx.resolver.lookup(path, span, ctx.environment.names())
    except UnknownNameError:
        if ctx.in_shape:
            raise unknown_dimension(name, span, ctx.resolver.namespace) from None
        named = ctx.environment.dimensions.get(path[0])
        if named is not None:
            hint = f'the dimension "{name}" is {named.written}'
            raise v.RefusalError(f"unknown name `{name}`", span, hint=hint) from None
        raise
    value = python_function(ctx, value, span)
    start = chain[taken - 2].span if taken > 1 else root.span
    return _take_attributes(ctx, v.Operand(value, ctx.span(start)), chain[taken - 1 :])


def _read_local(ctx: Elaboration, name: str, value: v.Value | None, root: ast.Var) -> v.Value:
    """Return what a local name stands for. Raises RefusalError where that is nothing."""
    if value is None:
        raise _unbound_error(ctx, name, root)
    if isinstance(value, v.Unassigned):
        if value in ctx.reported:
            return v.FAILED
        ctx.reported.add(value)
        NONE_MERGES.get().met |= value.may_merge
        raise v.RefusalError(value.message, ctx.span(root.span), hint=value.hint, notes=value.notes)
    return reread(read(name, value, ctx.span(root.span), is_kept=id(root) in ctx.none_kept))


def _unbound_error(ctx: Elaboration, name: str, root: ast.Var) -> v.RefusalError:
    hint = "assign it first"
    if name in ctx.resolver.namespace:
        hint = f"the function assigns `{name}`, which hides the notebook's `{name}`: rename one of them"
    return v.RefusalError(f"`{name}` is used before it is assigned", ctx.span(root.span), hint=hint)


def _take_attributes(ctx: Elaboration, owner: v.Operand, chain: list[ast.Attr]) -> v.Value:
    for link in chain:
        if v.is_failed(owner.value):
            return v.FAILED
        span = ctx.span(link.span)
        owner = v.Operand(attribute(owner, link.field.name, span), span)
    return owner.value


def evaluate_index(ctx: Elaboration, nodes: Sequence[ast.Expr]) -> list[v.Operand]:
    """Evaluate an index; a tuple that a call gives, as in ``x[np.ix_(i, j)]``, has an item for each axis."""
    given = (replace(each, value=v.rows_of_list(each.value)) for each in evaluate_operands(ctx, nodes))
    operands = list(map(range_as_array, given))
    only = nodes[0] if len(nodes) == 1 else None
    value = operands[0].value if len(operands) == 1 else None
    if isinstance(value, v.TupleOf) and value.written == "tuple" and value.items:
        return [v.Operand(item, operands[0].span) for item in value.items]
    if isinstance(only, ast.Call) and not isinstance(only.func_name, ast.Op) and len(operands) == 1:
        value = operands[0].value
        if isinstance(value, v.TupleOf) and value.items:
            return [v.Operand(item, operands[0].span) for item in value.items]
    return operands


def range_as_array(operand: v.Operand) -> v.Operand:
    """Return the numbers of a range as an array; any other operand as it is."""
    if not isinstance(operand.value, v.RangeOf):
        return operand
    bounds = (operand.value.start, operand.value.stop, operand.value.step)
    numbers = BUILTINS["arange"].call([v.Operand(bound, operand.span) for bound in bounds], operand.span)
    return replace(operand, value=numbers)


def evaluate_operands(ctx: Elaboration, exprs: Sequence[ast.Expr]) -> list[v.Operand]:
    """Evaluate the operands of a call or the items of a tuple; ``*items`` are spliced in."""
    operands: list[v.Operand] = []
    since = len(ctx.changed_by_calls)
    for expr in exprs:
        if not isinstance(expr, tree.Starred):
            operands.append(ctx.operand(expr))
            continue
        starred = ctx.operand(expr.value)
        if v.is_failed(starred.value):
            operands.append(starred)
        else:
            items = parts_of(starred, ctx.span(expr.span))
            operands += [v.Operand(item, starred.span) for item in items]
    check_operands(ctx, operands, since)
    return operands
