"""Elaborate assignments to the items of lists: a list with another item of the same name."""

from __future__ import annotations

from collections.abc import Sequence

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.operations import binary_operation
from nnmagic.tinynn.elaborate.shared_memory import Foreign, may_share
from nnmagic.tinynn.operators.element_assignment import set_elements
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.syntax import SIGNS, tree
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.promotion import check_update, promotion
from nnmagic.tinynn.values.values import (
    Computed,
    ListOfRows,
    NotStaticError,
    Operand,
    RefusalError,
    TupleOf,
    Value,
    static_value,
)


def list_to_change(ctx: Elaboration, variable: ast.Var) -> TupleOf | ListOfRows | None:
    """Return the list of the function that a name stands for; None for anything else."""
    name = variable.id.name
    value = ctx.environment.bindings.locals.get(name)
    if ctx.environment.owner(name) is not ctx.environment:
        return None
    if isinstance(value, ListOfRows):
        return value
    is_list = isinstance(value, TupleOf) and value.whole is None and value.record is None
    return value if is_list and value.written != "tuple" else None  # type: ignore[union-attr,return-value]  # a TupleOf


def set_item(
    ctx: Elaboration,
    variable: ast.Var,
    items: TupleOf | ListOfRows,
    index: Sequence[Operand],
    value: Operand,
    span: Span,
) -> None:
    """Assign an item of a list. Raises RefusalError."""
    name = variable.id.name
    _check_holders(ctx, name, items, span)
    changed: Value
    if isinstance(items, ListOfRows):
        changed = ListOfRows(set_elements(Operand(items.rows, span), index, value, span))
    else:
        place = _place(items, index, span)
        changed = TupleOf((*items.items[:place], value.value, *items.items[place + 1 :]))
    ctx.environment.bindings.bind(name, changed, span)


def update_item(
    ctx: Elaboration, stmt: tree.UpdateElements, items: Operand, index: Sequence[Operand], right: Operand
) -> Operand:
    """Return what ``name[index] += value`` makes of an item. Raises RefusalError.

    An array changes in place, as in Python: no other name may show it.
    """
    span = ctx.span(stmt.span)
    before = Operand(subscript(items, index, items.span), span)
    if isinstance(before.value, Computed) and not before.value.weak:
        chain = ctx.environment.chain()
        tokens = ctx.memory.of_value(before.value, chain)
        own = ctx.environment.bindings.locals
        values = [(f"`{name}`", value) for name, value in own.items() if value is not items.value]
        if isinstance(items.value, TupleOf):
            place = _place(items.value, index, span)
            others = (*items.value.items[:place], *items.value.items[place + 1 :])
            values += [("another item", each) for each in others]
        shared = [what for what, value in values if may_share(ctx.memory.of_value(value, chain), tokens)]
        if shared or any(isinstance(token, Foreign) for token in tokens):
            what = shared[0] if shared else "an array that is not the function's own"
            message = f"this item may share memory with {what}, which Python would change, too"
            raise RefusalError(message, span, hint="write name[i] = name[i] + value for a new array")
    with promotion(promote=True):
        result = binary_operation(ctx, stmt.op.name, before, right, span)
    return Operand(check_update(f"{SIGNS[stmt.op.name]}=", before.value, Operand(result, span)).value, span)


def _place(items: TupleOf, index: Sequence[Operand], span: Span) -> int:
    """Return the number of an item. Raises RefusalError."""
    if len(index) != 1:
        raise RefusalError("a list has one index", span)
    try:
        place = static_value(index[0].value)
    except NotStaticError:
        place = None
    if isinstance(place, bool) or not isinstance(place, int):
        message = f"the index of an item must be known at compile time, not {describe(index[0].value)}"
        hint = "hold equal arrays in one, as in m = np.stack(m), and write m[i] = value"
        raise RefusalError(message, index[0].span, hint=hint)
    count = len(items.items)
    if not -count <= place < count:
        raise RefusalError(f"the index {place} is out of range for a list of {count}", index[0].span)
    return place % count


def _check_holders(ctx: Elaboration, name: str, items: TupleOf | ListOfRows, span: Span) -> None:
    """Check that no other name shows a list that changes. Raises RefusalError."""
    for environment in dict.fromkeys((*ctx.environment.chain(), *ctx.callers)):
        for other, held in environment.bindings.locals.items():
            if (environment, other) != (ctx.environment, name) and holds(held, items):
                message = f"`{other}` holds the list `{name}`, which Python would change there, too"
                raise RefusalError(message, span, hint=f"make a new list before: {name} = list({name})")


def holds(value: Value, item: Value) -> bool:
    """Return whether a value is another, or a tuple that holds it."""
    return value is item or (isinstance(value, TupleOf) and any(holds(each, item) for each in value.items))
