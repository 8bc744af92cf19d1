"""Elaborate assignments to elements: the name stands for a new tensor from then on.

In Relay nothing changes in place; the engine does it where nobody needs the old tensor any more.
"""

from __future__ import annotations

from collections.abc import Sequence

import attr
from synr import ast

from nnmagic.diagnostics import Note, Span
from nnmagic.relay.signatures import format_type
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.elaborate import shared_memory
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.dictionary_items import assign_key, has_keys
from nnmagic.tinynn.elaborate.expressions import elaborate_name, evaluate_index, range_as_array
from nnmagic.tinynn.elaborate.let_bindings import let_bind, let_bind_names
from nnmagic.tinynn.elaborate.list_items import list_to_change, set_item, update_item
from nnmagic.tinynn.elaborate.lists_as_rows import check_item
from nnmagic.tinynn.elaborate.operations import binary_operation
from nnmagic.tinynn.operators.element_assignment import set_elements, set_where, single_mask
from nnmagic.tinynn.operators.index_chains import join_all, part_to_change, put_back, set_chain
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.operators.tables import is_dictionary
from nnmagic.tinynn.syntax import SIGNS, tree, tree_building
from nnmagic.tinynn.syntax.lifted_functions import OF_LIST
from nnmagic.tinynn.syntax.tree_building import subscripts_of
from nnmagic.tinynn.syntax.unsupported_syntax import RAGGED
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.default_dtypes import inherit_default_dtype
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import is_number
from nnmagic.tinynn.values.operator_calls import tensor_type
from nnmagic.tinynn.values.promotion import check_update, promotion


def assign_elements(ctx: Elaboration, target: ast.Call, value: v.Operand, others: v.Operand | None) -> None:
    """Elaborate ``name[index] = value``, and chains as ``name[i][j]``. Raises RefusalError.

    ``others``: the value whose parts other targets of the statement take.
    """
    span, value = ctx.span(target.span), range_as_array(value)
    if assign_key(ctx, target, value, None, span):
        return
    variable, indices = _evaluate_target(ctx, target)
    items = list_to_change(ctx, variable)
    tensor = None if items is not None else read_target(ctx, variable)
    is_refused = any(v.is_failed(item.value) for index in indices for item in index)
    if items is not None and not is_refused:
        set_item(ctx, variable, items, indices, value, span)
        return
    if tensor is None or is_refused:
        _fail(ctx, variable)
        return
    _check_item_of_list(ctx, variable, tensor, value)
    memory = own_memory(ctx, variable, tensor, span)
    if others is not None and shared_memory.may_share(tokens_of(ctx, others), memory):
        message = "the right side shares memory with what is assigned, and has several targets"
        raise v.RefusalError(
            message, others.span, hint="copy it first, or write one assignment after the other"
        )
    bind_names(ctx)
    changed = inherit_default_dtype(set_chain(tensor, indices, value, span), [tensor.value, value.value])
    bind_target(ctx, variable, memory, changed, span)


def elaborate_update(ctx: Elaboration, stmt: tree.UpdateElements) -> None:
    """Elaborate ``name[index] += value`` with any operator, or ``name[index].append(item)``.

    Raises RefusalError.
    """
    if stmt.appended:
        _append_to_item(ctx, stmt)
        return
    if has_keys(ctx, stmt.target):
        assign_key(ctx, stmt.target, ctx.operand(stmt.rhs), stmt.op.name, ctx.span(stmt.span))
        return
    variable, indices = _evaluate_target(ctx, stmt.target)
    items = list_to_change(ctx, variable)
    tensor = None if items is not None else read_target(ctx, variable)
    right = ctx.operand(stmt.rhs)
    is_refused = any(v.is_failed(item.value) for index in (*indices, [right]) for item in index)
    if items is not None and not is_refused:
        update_item(ctx, stmt, variable, items, indices, right)
        return
    if tensor is None or is_refused:
        _fail(ctx, variable)
        return
    target_span = ctx.span(stmt.target.span)
    memory = own_memory(ctx, variable, tensor, target_span)
    bind_names(ctx)
    changed = _update(ctx, stmt, tensor, join_all(tensor, indices, target_span), right)
    if changed is None:
        _fail(ctx, variable)
    else:
        changed = inherit_default_dtype(changed, [tensor.value, right.value])
        bind_target(ctx, variable, memory, changed, target_span)


def _append_to_item(ctx: Elaboration, stmt: tree.UpdateElements) -> None:
    """Elaborate ``name[index].append(item)``. Raises RefusalError where that is no list, or is shared."""
    with ctx.trial():
        item = ctx.evaluate(stmt.target)
    is_list = isinstance(item, v.ListOfRows) or (
        isinstance(item, v.TupleOf) and item.record is None and item.written != "tuple"
    )
    message = f"`.append` would change `{stmt.appended}` in place, which a cell cannot"
    if not is_list and not v.is_failed(item):
        raise v.RefusalError(message, ctx.span(stmt.span), hint=RAGGED)
    try:
        elaborate_update(ctx, attr.evolve(stmt, appended=""))
    except v.RefusalError as refusal:
        error = refusal.diagnostic
        hint = RAGGED if error.hint is None else error.hint
        raise v.RefusalError(f"{message}: {error.message}", ctx.span(stmt.span), hint=hint) from None


def _check_item_of_list(ctx: Elaboration, variable: ast.Var, tensor: v.Operand, value: v.Operand) -> None:
    """Check what is assigned to the rows of a list that changes in a loop. Raises RefusalError."""
    name = ctx.memory.shown.get(variable.id.name)
    if variable.id.name.endswith(OF_LIST):
        name = variable.id.name.removesuffix(OF_LIST)
    if name is not None and isinstance(tensor.value, v.Computed):
        check_item(f"`{name}`", tensor.value, value)


def _update(
    ctx: Elaboration,
    stmt: tree.UpdateElements,
    tensor: v.Operand,
    indices: Sequence[Sequence[v.Operand]],
    right: v.Operand,
) -> v.Computed | None:
    """Return a tensor with elements updated, which a chain of indices chooses; None after an error."""
    span, target_span = ctx.span(stmt.span), ctx.span(stmt.target.span)
    index, *rest = indices
    if rest:
        part = _update(ctx, stmt, part_to_change(tensor, index, target_span), rest, right)
        return None if part is None else put_back(tensor, index, part, target_span)
    current = subscript(tensor, index, target_span)
    mask = single_mask(tensor, index) if _is_number(right, tensor) else None
    if mask is not None:  # for all elements, of which those of the mask are taken
        current = tensor.value
    with promotion(promote=True):  # the array keeps its dtype
        result = binary_operation(ctx, stmt.op.name, v.Operand(current, target_span), right, span)
    if v.is_failed(result):
        return None
    _check_item_of_list(ctx, subscripts_of(stmt.target)[0], tensor, v.Operand(result, span))
    every = [v.Operand(v.Known(Ellipsis), target_span)]
    new = check_update(f"{SIGNS[stmt.op.name]}=", current, v.Operand(result, span))
    changed = set_elements(tensor, index if mask is None else every, new, target_span)
    if mask is not None:
        changed = set_where(tensor.dynamic, mask, changed, span)
    return changed


def _evaluate_target(ctx: Elaboration, target: ast.Call) -> tuple[ast.Var, list[list[v.Operand]]]:
    """Return the name of a target, and its indices."""
    variable, chain = subscripts_of(target)
    return variable, [evaluate_index(ctx, part.params[1].values) for part in chain]


def update_destination(ctx: Elaboration, stmt: tree.UpdateName) -> None:
    """Elaborate ``name += value`` for a parameter whose array is changed. Raises RefusalError."""
    call, variable = stmt.rhs, stmt.lhs[0]
    target = tree_building.subscript(variable.span, variable, [tree.EllipsisLiteral(variable.span)])
    elaborate_update(ctx, tree.UpdateElements(stmt.span, target, call.func_name, call.params[1]))


def _is_number(value: v.Operand, tensor: v.Operand) -> bool:
    """Return whether a value is one number, which may stand beside all elements of a tensor."""
    return not isinstance(value.value, v.Computed) or value.value.type == TensorType((), _dtype(tensor))


def _dtype(tensor: v.Operand) -> str:
    return tensor.dynamic.dtype


def read_target(ctx: Elaboration, variable: ast.Var) -> v.Operand | None:
    """Return the tensor that is changed; None where an error was reported. Raises RefusalError."""
    name, span = variable.id.name, ctx.span(variable.span)
    owner = ctx.environment.owner(name)
    if owner is not ctx.environment:
        what = "the function around" if owner is not None else "the notebook"
        hint = f"change a copy that is the function's own: {name}_ = {name}.copy()"
        raise v.RefusalError(f"`{name}` belongs to {what}, and cannot be changed here", span, hint=hint)
    value = elaborate_name(ctx, variable)
    if v.is_failed(value):
        return None
    if is_dictionary(value):
        hint = f"assign a new list, as in a, b = {name}[key] and {name}[key] = [a + 1, b]"
        raise v.RefusalError(f"a list that {describe(value)} holds has no items to assign", span, hint=hint)
    if isinstance(value, v.TupleOf):
        hint = f"make a new one, as in {name} = {name}[:i] + (item,) + {name}[i + 1:]"
        if value.items and all(isinstance(item, v.Known) and is_number(item.value) for item in value.items):
            hint = f"make an array of the numbers: {name} = np.array({name})"
        raise v.RefusalError("the items of a tuple or a list cannot be assigned", span, hint=hint)
    if not isinstance(value, v.Computed) or not isinstance(value.type, TensorType):
        raise v.RefusalError(f"{describe(value)} has no elements to assign", span)
    if not value.type.shape:
        message = f"`{name}` is {describe(value)}: it has no elements to assign"
        raise v.RefusalError(message, span, hint=f"assign the name: {name} = value")
    return v.Operand(value, span)


def own_memory(ctx: Elaboration, variable: ast.Var, tensor: v.Operand, span: Span) -> shared_memory.Tokens:
    """Return the memory that is changed at a span. Raises RefusalError if it is not the function's own."""
    name = variable.id.name
    tokens = tokens_of(ctx, tensor)
    foreign = [token for token in tokens if isinstance(token, shared_memory.Foreign)]
    if foreign:
        ctx.changing |= shared_memory.parameters_of(foreign) & ctx.changeable
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
        raise v.RefusalError(message, span, hint=hint, notes=notes)
    for other in ctx.environment.destinations:
        value = ctx.environment.bindings.locals[other]
        if other != name and shared_memory.may_share(tokens_of(ctx, v.Operand(value, span)), tokens):
            message = f"`{name}` may share memory with `{other}`, which the caller gave"
            hint = f"change `{other}` by its own name, or a copy: {name} = {name}.copy()"
            ctx.reported.add(v.Unassigned(message, hint, (), (name, other)))
            raise v.RefusalError(message, span, hint=hint)
    chain = ctx.environment.chain()
    # Of what a caller gives to be changed, its other names lose their values after the call.
    is_given = name in ctx.environment.destinations
    for outer in () if is_given else (*chain[1:], *ctx.callers):
        for other, value in outer.bindings.locals.items() if outer is not ctx.environment else ():
            if shared_memory.may_share(ctx.memory.of_value(value, chain), tokens):
                message = f"`{name}` may share memory with `{other}` of `{outer.name}`"
                hint = f"change a copy, as in {name} = {name}.copy(), and return it"
                raise v.RefusalError(message, span, hint=hint)
    return tokens


def tokens_of(ctx: Elaboration, operand: v.Operand) -> shared_memory.Tokens:
    """Return the memory that a value may share."""
    return ctx.memory.of_value(operand.value, ctx.environment.chain())


def bind_names(ctx: Elaboration) -> None:
    """Bind what names stand for by let: what was read before the change is then computed before it."""
    let_bind_names(ctx, list(ctx.environment.bindings.locals))


def bind_target(
    ctx: Elaboration, variable: ast.Var, memory: shared_memory.Tokens, changed: v.Computed, span: Span
) -> None:
    """Let a name stand for the changed tensor; other names that may share its memory lose their values."""
    name = variable.id.name
    old = ctx.environment.bindings.locals[name]
    if isinstance(old, v.Computed) and old.expr is changed.expr:
        return  # there is no element to change
    ctx.memory.own(changed.expr)
    ctx.environment.bindings.bind(name, let_bind(ctx, changed, name), span)
    shared_memory.forget_shared_names(ctx.memory, ctx.environment.chain(), name, memory, span)


def _fail(ctx: Elaboration, variable: ast.Var) -> None:
    ctx.environment.bindings.bind(variable.id.name, v.FAILED)
