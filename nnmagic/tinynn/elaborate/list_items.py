"""Elaborate assignments to the items of lists: a list with another item of the same name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from synr import ast
from synr.ast import BuiltinOp

from nnmagic.diagnostics import Note, Span
from nnmagic.relay.types import AnyDim, Dim
from nnmagic.tinynn.analysis.bound_names import walk
from nnmagic.tinynn.elaborate.context import HELD, Elaboration
from nnmagic.tinynn.elaborate.lists_as_rows import as_list_of_rows, check_item, is_run_time, row_of
from nnmagic.tinynn.elaborate.operations import binary_operation
from nnmagic.tinynn.elaborate.shared_memory import (
    Foreign,
    forget_shared_names,
    may_share,
    parameters_of,
)
from nnmagic.tinynn.operators.index_chains import set_chain
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.syntax import SIGNS, tree
from nnmagic.tinynn.syntax.tree_building import is_subscript
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type
from nnmagic.tinynn.values.promotion import check_update, promotion


def list_to_change(ctx: Elaboration, variable: ast.Var) -> v.TupleOf | v.ListOfRows | None:
    """Return the list of the function that a name stands for; None for anything else."""
    name = variable.id.name
    value = ctx.environment.bindings.locals.get(name)
    if ctx.environment.owner(name) is not ctx.environment:
        return None
    if isinstance(value, v.ListOfRows):
        return value
    is_list = isinstance(value, v.TupleOf) and value.whole is None and value.record is None
    return value if is_list and value.written != "tuple" else None  # type: ignore[union-attr,return-value]  # a TupleOf


def set_item(
    ctx: Elaboration,
    variable: ast.Var,
    items: v.TupleOf | v.ListOfRows,
    indices: Sequence[Sequence[v.Operand]],
    value: v.Operand,
    span: Span,
) -> None:
    """Assign an item of a list, or a part of one. Raises RefusalError."""
    name = variable.id.name
    check_holders(ctx, name, items, span)
    before: Sequence[v.TupleOf | v.ListOfRows] = list(_inner_lists(items, indices))
    changed = _change(ctx, items, indices, value, span)
    for inner in before:
        _forget_holders(ctx, name, items, inner, span)
    ctx.environment.bindings.bind(name, changed, span)


def _inner_lists(
    items: v.TupleOf | v.ListOfRows, indices: Sequence[Sequence[v.Operand]]
) -> Iterator[v.TupleOf | v.ListOfRows]:
    """Yield the lists inside a list that an assignment to a part of an item changes."""
    while len(indices) > 1 and isinstance(items, v.TupleOf):
        if is_run_time(indices[0]):
            yield from (each for each in items.items if isinstance(each, v.TupleOf | v.ListOfRows))
            return
        item = items.items[_place(items, indices[0], indices[0][0].span)]
        if not isinstance(item, v.TupleOf | v.ListOfRows):
            return
        yield item
        items, indices = item, indices[1:]
    if len(indices) > 1 and isinstance(items, v.ListOfRows):
        yield items


def forget_inner_lists(ctx: Elaboration, name: str, span: Span) -> None:
    """Take the values of names that show a list inside of the list ``name``, which a loop changes."""
    items = ctx.environment.bindings.locals[name]
    if isinstance(items, v.TupleOf):
        for inner in items.items:
            if isinstance(inner, v.TupleOf | v.ListOfRows):
                _forget_holders(ctx, name, items, inner, span)


def _forget_holders(
    ctx: Elaboration, name: str, items: v.TupleOf | v.ListOfRows, inner: v.TupleOf | v.ListOfRows, span: Span
) -> None:
    """Take the values of names that show a list inside of another, which changes. Raises RefusalError.

    They may be read before the change, as in ``row = a[0]`` and ``a[0][0] = row[1]``.
    """
    _check_own(ctx, name, inner, span)
    if isinstance(inner, v.ListOfRows):
        chain = ctx.environment.chain()
        forget_shared_names(ctx.memory, chain, name, ctx.memory.of_value(inner, chain), span)
    if _occurrences(ctx, items, inner) > 1:
        message = f"`{name}` holds one list at several places, which Python would change at all of them"
        raise v.RefusalError(
            message, span, hint="make each list of its own, as in [[0] * 2 for _ in range(3)]"
        )
    for other, bindings in list(_other_holders(ctx, name, inner)):
        message = f"`{other}` shows a list inside of `{name}`, which was changed"
        notes = (Note(f"`{name}` is changed here", span),)
        hint = f"let it hold a new list before the change, as in {other} = list({other})"
        bindings.bind(other, v.Unassigned(message, hint, notes, (other, name)), bindings.spans.get(other))


def _occurrences(ctx: Elaboration, value: v.Value, item: v.Value) -> int:
    """Return at how many places a list may hold another."""
    if not ctx.identities(value).isdisjoint(ctx.identities(item)):
        return 1
    return sum(_occurrences(ctx, each, item) for each in value.items) if isinstance(value, v.TupleOf) else 0


def _change(
    ctx: Elaboration,
    items: v.TupleOf | v.ListOfRows,
    indices: Sequence[Sequence[v.Operand]],
    value: v.Operand,
    span: Span,
) -> v.Value:
    """Return a list with another item, or with one of which a part is another."""
    index, *inner = indices
    if not inner and [each.value for each in index] == [v.Known(Ellipsis)]:  # of `items.sort()`
        return value.value
    if isinstance(items, v.ListOfRows):
        if (inner and not items.is_table) or len(index) != 1:
            hint = "assign the item, as in rows[i] = value, or make one array of all: rows = np.array(rows)"
            raise v.RefusalError(
                "a part of an item of a list that grew in a loop is assigned", span, hint=hint
            )
        if inner and items.is_shared:
            message = "a list inside of this one may have another name, which Python would change, too"
            hint = "let it hold lists of its own, as in rows.append(list(row)), or assign a new one"
            raise v.RefusalError(message, span, hint=hint)
        _check_place(items, indices, value)
        if items.is_table and not inner:
            items = replace(items, is_shared=ctx.takes_named(value.value) or items.is_shared)
        if items.columns:
            value = v.Operand(row_of(value, items.columns), value.span)
        check_item("this", items.rows, value)
        rows = set_chain(v.Operand(items.rows, span), indices, value, span)
        chain = ctx.environment.chain()
        tokens = ctx.memory.of_value(items, chain) | ctx.memory.of_value(value.value, chain)
        ctx.memory.hold(rows.expr, tokens | {rows.expr})
        return replace(items, rows=rows, is_row=False)
    if is_run_time(index) and (rows_ := as_list_of_rows(items, span)) is not None:
        return _change(ctx, rows_, indices, value, span)
    place = _place(items, index, span)
    item, new = items.items[place], value.value
    if inner and isinstance(item, v.TupleOf | v.ListOfRows):
        new = _change(ctx, item, inner, value, span)
    elif inner:
        _check_alone(ctx, items, index, span)
        new = set_chain(v.Operand(item, span), inner, value, span)
    return replace(items, items=(*items.items[:place], new, *items.items[place + 1 :]))


def _check_place(items: v.ListOfRows, indices: Sequence[Sequence[v.Operand]], value: v.Operand) -> None:
    """Check that what is assigned has the shape of the item that it replaces. Raises RefusalError."""
    if items.columns or any(len(index) > 1 or isinstance(index[0].value, v.SliceOf) for index in indices):
        return
    if any(is_tensor(index[0].value) and tensor_type(index[0]).shape for index in indices):
        return
    place, own = items.rows.shape[len(indices) :], _shape_of(value.value)
    is_list = isinstance(value.value, v.TupleOf | v.ListOfRows)
    if len(own) != len(place) or (is_list and (own != place or AnyDim() in own)):
        message = f"this is {describe(value.value)}, which has not the length of the item of the list"
        hint = "hold lists of one length, or begin with rows = [[] for _ in range(n)] and append to rows[i]"
        raise v.RefusalError(message, value.span, hint=hint)


def _shape_of(value: v.Value) -> tuple[Dim, ...]:
    match value:
        case v.TupleOf(items=items):
            return (len(items), *(_shape_of(items[0]) if items else ()))
        case v.ListOfRows(rows=rows):
            return rows.shape
    return value.shape if is_tensor(value) else ()  # type: ignore[union-attr]  # a Computed


#: What makes a list.
_LISTS = (ast.ArrayLiteral, tree.Comprehension)


def lists_to_index(ctx: Elaboration, stmt: ast.Stmt) -> dict[str, v.ListOfRows] | None:
    """Return the lists of which a loop takes items whose numbers may be known at run time only, as rows.

    None where there are none, nor any that the loop itself makes.
    """
    row_lists: dict[str, v.ListOfRows] = {}
    made = {
        node.lhs[0].id.name
        for node in walk(stmt, into_functions=False)
        if isinstance(node, ast.Assign) and any(isinstance(each, _LISTS) for each in walk(node.rhs))
    }
    is_made = False
    for node in walk(stmt, into_functions=False):
        if not is_subscript(node) or not isinstance(node.params[0], ast.Var):
            continue
        index, variable = node.params[1].values, node.params[0]
        if len(index) != 1 or isinstance(index[0], ast.Constant | ast.Slice):
            continue
        is_made |= variable.id.name in made
        value = list_to_change(ctx, variable)
        rows = as_list_of_rows(value, ctx.span(stmt.span)) if isinstance(value, v.TupleOf) else None
        if rows is not None:
            row_lists[variable.id.name] = rows
    return row_lists if row_lists or is_made else None


def update_item(
    ctx: Elaboration,
    stmt: tree.UpdateElements,
    variable: ast.Var,
    items: v.TupleOf | v.ListOfRows,
    indices: Sequence[Sequence[v.Operand]],
    right: v.Operand,
) -> None:
    """Elaborate ``name[index] += value`` for a list. Raises RefusalError.

    An array changes in place, as in Python: no other name may show it.
    """
    span, target_span = ctx.span(stmt.span), ctx.span(stmt.target.span)
    check_holders(ctx, variable.id.name, items, target_span)
    if isinstance(items, v.TupleOf) and is_run_time(indices[0]):
        rows = as_list_of_rows(items, target_span)
        if rows is not None and len(indices) == 1 and not rows.rows.weak:
            for place in range(len(items.items)):
                _check_alone(ctx, items, [v.Operand(v.Known(place), target_span)], span)
        items = items if rows is None else rows
    before: v.Value = items
    for index in indices:
        before = subscript(v.Operand(before, target_span), index, target_span)
    if isinstance(before, v.Computed) and not before.weak and len(indices) == 1:
        _check_alone(ctx, items, indices[0], span)
    check_inner_list(ctx, variable.id.name, items, before, span)
    with promotion(promote=True):
        result = binary_operation(ctx, stmt.op.name, v.Operand(before, target_span), right, span)
    if v.is_failed(result):
        ctx.environment.bindings.bind(variable.id.name, v.FAILED)
        return
    new = check_update(f"{SIGNS[stmt.op.name]}=", before, v.Operand(result, span))
    set_item(ctx, variable, items, indices, new, target_span)


def _check_alone(
    ctx: Elaboration, items: v.TupleOf | v.ListOfRows, index: Sequence[v.Operand], span: Span
) -> None:
    """Check that nothing else shows an array of a list, which is changed in place. Raises RefusalError."""
    chain = ctx.environment.chain()
    own = ctx.environment.bindings.locals
    values = [(f"`{name}`", value) for name, value in own.items() if not ctx.holds(value, items)]
    changed: v.Value = items
    if isinstance(items, v.TupleOf):
        place = _place(items, index, span)
        changed = items.items[place]
        values += [("another item", each) for each in (*items.items[:place], *items.items[place + 1 :])]
    tokens = ctx.memory.of_value(changed, chain)
    shared = [what for what, value in values if may_share(ctx.memory.of_value(value, chain), tokens)]
    if shared or any(isinstance(token, Foreign) for token in tokens):
        what = shared[0] if shared else "an array that is not the function's own"
        message = f"this item may share memory with {what}, which Python would change, too"
        raise v.RefusalError(message, span, hint="write name[i] = name[i] + value for a new array")


def _place(items: v.TupleOf, index: Sequence[v.Operand], span: Span) -> int:
    """Return the number of an item. Raises RefusalError."""
    if len(index) != 1:
        raise v.RefusalError("a list has one index", span)
    place = v.static_or(index[0].value, None)
    if isinstance(place, bool) or not isinstance(place, int):
        message = f"the index of an item must be known at compile time, not {describe(index[0].value)}"
        hint = "hold equal arrays in one, as in m = np.stack(m), and write m[i] = value"
        raise v.RefusalError(message, index[0].span, hint=hint)
    count = len(items.items)
    if not -count <= place < count:
        raise v.RefusalError(f"the index {place} is out of range for a list of {count}", index[0].span)
    return place % count


def check_holders(ctx: Elaboration, name: str, items: v.TupleOf | v.ListOfRows, span: Span) -> None:
    """Check that no other name, nor the caller, shows a list that changes. Raises RefusalError."""
    if isinstance(items, v.ListOfRows) and items.is_row:
        message = f"`{name}` is a list inside of another, which Python would change, too"
        hint = "assign to the item of the outer list, as in rows[i][j] = value"
        raise v.RefusalError(message, span, hint=hint)
    if HELD in ctx.identities(items):
        message = f"`{name}` is a list that another list or a dictionary holds, and would change there, too"
        hint = f"change a new list, as in {name} = list({name}), and put that in"
        raise v.RefusalError(message, span, hint=hint)
    if _is_given(ctx, items):
        message = f"`{name}` is a list of the caller, which Python would change there, too"
        raise v.RefusalError(message, span, hint=f"make a new list before: {name} = list({name})")
    for other, _ in _other_holders(ctx, name, items):
        message = f"`{other}` holds the list `{name}`, which Python would change there, too"
        raise v.RefusalError(message, span, hint=f"make a new list before: {name} = list({name})")


def _is_given(ctx: Elaboration, inner: v.Value) -> bool:
    """Return whether a list is one inside of a list that the caller gave."""
    if isinstance(inner, v.ListOfRows):
        return bool(parameters_of(ctx.memory.of_value(inner, ctx.environment.chain())))
    return any(inner is each for each in ctx.given_lists)


def _check_own(ctx: Elaboration, name: str, inner: v.Value, span: Span, *, grows: bool = False) -> None:
    """Check that a list inside of another is none that the caller gave. Raises RefusalError."""
    if HELD in ctx.identities(inner):
        message = f"a list inside of `{name}` is one that a dictionary holds, too, which Python would change"
        raise v.RefusalError(message, span, hint="let the dictionary hold a copy, as in d[key] = list(row)")
    is_given = _is_given(ctx, inner)
    if isinstance(inner, v.ListOfRows):
        is_given |= grows and ctx.memory.is_foreign(ctx.memory.root_of(inner.rows.expr))
    if is_given:
        message = f"a list inside of `{name}` is the caller's, which Python would change"
        hint = f"copy them all before: {name} = [list(each) for each in {name}]"
        hint = "append to a list that the function makes, and return that" if grows else hint
        raise v.RefusalError(message, span, hint=hint)


def check_inner_list(ctx: Elaboration, name: str, whole: v.Value, inner: v.Value, span: Span) -> None:
    """Check that nothing else shows a list inside of another that grows in its place. Raises RefusalError."""
    if not isinstance(inner, v.ListOfRows | v.TupleOf) or getattr(inner, "written", "") == "tuple":
        return
    _check_own(ctx, name, inner, span, grows=True)
    held = v.TupleOf((), written="held") if v.entries_of(whole) is not None else inner
    holders = (*_other_holders(ctx, name, inner), *_other_holders(ctx, name, held))
    others = [f"`{other}`" for other, _ in holders]
    others += ["another item"] if _occurrences(ctx, whole, inner) > 1 else []
    if others:
        message = f"{others[0]} shows this list, too, and would grow with it"
        raise v.RefusalError(message, span, hint=f"write {name}[i] = {name}[i] + items for a new list")


def _other_holders(ctx: Elaboration, name: str, item: v.Value) -> Iterator[tuple[str, v.Bindings]]:
    """Yield the names that show a list, but for ``name`` itself, also of the functions around."""
    for environment in dict.fromkeys((*ctx.environment.chain(), *ctx.callers)):
        for other, held in environment.bindings.locals.items():
            if (environment, other) != (ctx.environment, name) and ctx.holds(held, item):
                yield other, environment.bindings


def read_last(node: ast.Node) -> str:
    """Return the name in ``name[-1]``; an empty string for anything else."""
    match node:
        case ast.Call(
            func_name=ast.Op(name=BuiltinOp.Subscript), params=[ast.Var() as owner, ast.Tuple(values=[index])]
        ) if is_minus_one(index):
            return str(owner.id.name)
    return ""


def is_minus_one(index: ast.Expr) -> bool:
    """Return whether an index is written as -1."""
    match index:
        case ast.Constant(value=-1):
            return True
        case ast.Call(func_name=ast.Op(name=BuiltinOp.USub), params=[ast.Constant(value=1)]):
            return True
    return False


def sorted_in_place(stmt: ast.Stmt) -> str:
    """Return the name in ``name.sort()``, which is written ``name[...] = value``; "" of other statements."""
    match stmt:
        case tree.Unpack(
            targets=[
                ast.Call(
                    func_name=ast.Op(name=BuiltinOp.Subscript),
                    params=[ast.Var(id=ast.Id(name=name)), ast.Tuple(values=[tree.EllipsisLiteral()])],
                )
            ]
        ):
            return str(name)
    return ""
