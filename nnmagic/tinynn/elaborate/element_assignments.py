"""Elaborate assignments to elements: the name stands for a new tensor from then on.

In Relay nothing changes in place; the engine does it where nobody needs the old tensor any more.
"""

from __future__ import annotations

from synr import ast

from nnmagic.diagnostics import Note, Span
from nnmagic.relay.signatures import format_type
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.expressions import elaborate_name, evaluate_index
from nnmagic.tinynn.elaborate.let_bindings import let_bind, let_bind_names
from nnmagic.tinynn.elaborate.list_items import list_to_change, set_item, update_item
from nnmagic.tinynn.elaborate.operations import binary_operation
from nnmagic.tinynn.elaborate.shared_memory import (
    Foreign,
    Tokens,
    forget_shared_names,
    may_share,
    parameters_of,
)
from nnmagic.tinynn.operators.element_assignment import selection, set_elements, set_where
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.syntax import SIGNS, tree
from nnmagic.tinynn.values.default_dtypes import inherit_default_dtype
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import is_number
from nnmagic.tinynn.values.operator_calls import tensor_type
from nnmagic.tinynn.values.promotion import check_update, promotion
from nnmagic.tinynn.values.values import (
    FAILED,
    Computed,
    Known,
    Operand,
    RefusalError,
    TupleOf,
    Unassigned,
    is_failed,
)


def assign_elements(ctx: Elaboration, target: ast.Call, value: Operand, others: Operand | None) -> None:
    """Elaborate ``name[index] = value``. Raises RefusalError.

    ``others``: the value whose parts other targets of the statement take.
    """
    variable, span = target.params[0], ctx.span(target.span)
    items = list_to_change(ctx, variable)
    tensor = None if items is not None else read_changed(ctx, variable)
    index = evaluate_index(ctx, target.params[1].values)
    if items is not None and not any(is_failed(item.value) for item in index):
        set_item(ctx, variable, items, index, value, span)
        return
    if tensor is None or any(is_failed(item.value) for item in index):
        _fail(ctx, target)
        return
    memory = own_memory(ctx, variable, tensor, span)
    if others is not None and may_share(tokens_of(ctx, others), memory):
        message = "the right side shares memory with what is assigned, and has several targets"
        raise RefusalError(
            message, others.span, hint="copy it first, or write one assignment after the other"
        )
    bind_names(ctx)
    changed = set_elements(tensor, index, value, span)
    changed = inherit_default_dtype(changed, [tensor.value, value.value])
    bind_changed(ctx, variable, memory, changed, span)


def elaborate_update(ctx: Elaboration, stmt: tree.UpdateElements) -> None:
    """Elaborate ``name[index] += value`` with any operator. Raises RefusalError."""
    target, span = stmt.target, ctx.span(stmt.span)
    variable = target.params[0]
    items = list_to_change(ctx, variable)
    tensor = None if items is not None else read_changed(ctx, variable)
    index = evaluate_index(ctx, target.params[1].values)
    right = ctx.operand(stmt.rhs)
    if items is not None and not any(is_failed(item.value) for item in (*index, right)):
        new = update_item(ctx, stmt, Operand(items, ctx.span(variable.span)), index, right)
        if not is_failed(new.value):
            set_item(ctx, variable, items, index, new, span)
            return
    if tensor is None or any(is_failed(item.value) for item in (*index, right)):
        _fail(ctx, target)
        return
    target_span = ctx.span(target.span)
    memory = own_memory(ctx, variable, tensor, target_span)
    bind_names(ctx)
    current = subscript(tensor, index, target_span)
    mask = selection(tensor, index, current, target_span) if _is_number(right, tensor) else None
    if mask is not None:  # for all elements, of which those of the mask are taken
        current = tensor.value
    with promotion(promote=True):  # the array keeps its dtype
        result = binary_operation(ctx, stmt.op.name, Operand(current, target_span), right, span)
    if is_failed(result):
        _fail(ctx, target)
        return
    every = [Operand(Known(Ellipsis), target_span)]
    new = check_update(f"{SIGNS[stmt.op.name]}=", current, Operand(result, span))
    changed = set_elements(tensor, index if mask is None else every, new, target_span)
    if mask is not None:
        assert isinstance(tensor.value, Computed)
        changed = set_where(tensor.value, mask, changed, span)
    changed = inherit_default_dtype(changed, [tensor.value, right.value])
    bind_changed(ctx, variable, memory, changed, target_span)


def update_destination(ctx: Elaboration, stmt: tree.UpdateName) -> None:
    """Elaborate ``name += value`` for a parameter whose array is changed. Raises RefusalError."""
    call, variable = stmt.rhs, stmt.lhs[0]
    every = ast.Tuple(variable.span, [tree.EllipsisLiteral(variable.span)])
    subscripted = ast.Op(variable.span, ast.BuiltinOp.Subscript)
    target = ast.Call(variable.span, subscripted, [variable, every], {})
    elaborate_update(ctx, tree.UpdateElements(stmt.span, target, call.func_name, call.params[1]))


def _is_number(value: Operand, tensor: Operand) -> bool:
    """Return whether a value is one number, which may stand beside all elements of a tensor."""
    return not isinstance(value.value, Computed) or value.value.type == TensorType((), _dtype(tensor))


def _dtype(tensor: Operand) -> str:
    assert isinstance(tensor.value, Computed)
    assert isinstance(tensor.value.type, TensorType)
    return tensor.value.type.dtype


def read_changed(ctx: Elaboration, variable: ast.Var) -> Operand | None:
    """Return the tensor that is changed; None where an error was reported. Raises RefusalError."""
    name, span = variable.id.name, ctx.span(variable.span)
    owner = ctx.environment.owner(name)
    if owner is not ctx.environment:
        what = "the function around" if owner is not None else "the notebook"
        hint = f"change a copy that is the function's own: {name}_ = {name}.copy()"
        raise RefusalError(f"`{name}` belongs to {what}, and cannot be changed here", span, hint=hint)
    value = elaborate_name(ctx, variable)
    if is_failed(value):
        return None
    if isinstance(value, TupleOf):
        hint = f"make a new one, as in {name} = {name}[:i] + (item,) + {name}[i + 1:]"
        if value.items and all(isinstance(item, Known) and is_number(item.value) for item in value.items):
            hint = f"make an array of the numbers: {name} = np.array({name})"
        raise RefusalError("the items of a tuple or a list cannot be assigned", span, hint=hint)
    if not isinstance(value, Computed) or not isinstance(value.type, TensorType):
        raise RefusalError(f"{describe(value)} has no elements to assign", span)
    if not value.type.shape:
        message = f"`{name}` is {describe(value)}: it has no elements to assign"
        raise RefusalError(message, span, hint=f"assign the name: {name} = value")
    return Operand(value, span)


def own_memory(ctx: Elaboration, variable: ast.Var, tensor: Operand, span: Span) -> Tokens:
    """Return the memory that is changed at a span. Raises RefusalError if it is not the function's own."""
    name = variable.id.name
    tokens = tokens_of(ctx, tensor)
    foreign = [token for token in tokens if isinstance(token, Foreign)]
    if foreign:
        ctx.changing |= parameters_of(foreign) & ctx.changeable
        whose = foreign[0].what or "a value that is used elsewhere"
        message = f"`{name}` may share memory with {whose}, which a cell does not change"
        hint = f"change a copy: write {name} = {name}.copy() before"
        notes = []
        if whose == f"the parameter `{name}`":
            message = f"the parameter `{name}` belongs to the caller, and cannot be changed"
            if ctx.environment.parent is None:
                hint += f"; or declare it as {name}: InOut[{format_type(tensor_type(tensor))}]"
        elif name in ctx.environment.bindings.spans:
            notes = [Note(f"`{name}` is assigned here", ctx.environment.bindings.spans[name])]
        raise RefusalError(message, span, hint=hint, notes=notes)
    for other in ctx.environment.destinations:
        value = ctx.environment.bindings.locals[other]
        if other != name and may_share(tokens_of(ctx, Operand(value, span)), tokens):
            message = f"`{name}` may share memory with `{other}`, which the caller gave"
            hint = f"change `{other}` by its own name, or a copy: {name} = {name}.copy()"
            ctx.reported.add(Unassigned(message, hint, (), (name, other)))
            raise RefusalError(message, span, hint=hint)
    chain = ctx.environment.chain()
    # Of what a caller gives to be changed, its other names lose their values after the call.
    is_given = name in ctx.environment.destinations
    for outer in () if is_given else (*chain[1:], *ctx.callers):
        for other, value in outer.bindings.locals.items() if outer is not ctx.environment else ():
            if may_share(ctx.memory.of_value(value, chain), tokens):
                message = f"`{name}` may share memory with `{other}` of `{outer.name}`"
                hint = f"change a copy, as in {name} = {name}.copy(), and return it"
                raise RefusalError(message, span, hint=hint)
    return tokens


def tokens_of(ctx: Elaboration, operand: Operand) -> Tokens:
    """Return the memory that a value may share."""
    return ctx.memory.of_value(operand.value, ctx.environment.chain())


def bind_names(ctx: Elaboration) -> None:
    """Bind what names stand for by let: what was read before the change is then computed before it."""
    let_bind_names(ctx, list(ctx.environment.bindings.locals))


def bind_changed(ctx: Elaboration, variable: ast.Var, memory: Tokens, changed: Computed, span: Span) -> None:
    """Let a name stand for the changed tensor; other names that may share its memory lose their values."""
    name = variable.id.name
    old = ctx.environment.bindings.locals[name]
    if isinstance(old, Computed) and old.expr is changed.expr:
        return  # there is no element to change
    ctx.memory.own(changed.expr)
    ctx.environment.bindings.bind(name, let_bind(ctx, changed, name), span)
    forget_shared_names(ctx.memory, ctx.environment.chain(), name, memory, span)


def _fail(ctx: Elaboration, target: ast.Call) -> None:
    ctx.environment.bindings.bind(target.params[0].id.name, FAILED)
