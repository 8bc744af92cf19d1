"""Bind values by let, so that code can use them several times (A-normal form)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from nnmagic.relay import expr as ir
from nnmagic.relay.passes.rewriting import substitute
from nnmagic.relay.passes.scopes import computing_order
from nnmagic.tinynn.elaborate.context import BranchNeededError, Elaboration
from nnmagic.tinynn.values import values as v


def let_bind_names(ctx: Elaboration, names: Iterable[str]) -> None:
    """Bind by let what the names stand for, so that a branch or an inner function can use it."""
    values = dict[int, v.Value]()  # names of one dictionary stay names of one
    for name in names:
        owner = ctx.environment.owner(name)
        if owner is not None and name in owner.bindings.locals:
            value = owner.bindings.locals[name]
            if id(value) not in values:
                values[id(value)] = atomize(ctx, value, name, set())
            owner.bindings.locals[name] = values[id(value)]


def atomize(ctx: Elaboration, value: v.Value, name: str, seen: set[int]) -> v.Value:
    """Return the value over atoms: with its expressions bound, it can be used anywhere below."""
    match value:
        case v.Computed(expr=expr) if not is_atom(expr):
            return let_bind(ctx, value, name)
        case v.ListOfRows(rows=rows) if not is_atom(rows.expr):
            bound = replace(value, rows=let_bind(ctx, rows, name))
            ctx.note_merged_lists(bound, [value])
            return bound
        case v.TableOf() as table:
            names = (f"{name}_{field}" for field in ("slots", "keys", "used", "size", "values"))
            kept_rows = (
                atomize(ctx, field, own, seen) for field, own in zip(table.parts, names, strict=True)
            )
            return v.TableOf(*kept_rows)  # type: ignore[arg-type]  # its parts
        case v.Dimension(dim=dim, number=number) if not is_atom(number.expr):
            return v.Dimension(dim, let_bind(ctx, number, name))
        case v.TupleOf(items=_, whole=v.Computed() as whole):
            if is_atom(whole.expr):
                return value  # its items are taken anew wherever it is read
            kept = let_bind(ctx, whole, name)
            again = v.as_value(kept.expr, kept.type)
            if not isinstance(again, v.TupleOf):
                return again
            return replace(again, names=value.names, written=value.written)
        case v.TupleOf(items=items):
            parts = tuple(atomize(ctx, item, f"{name}_{index}", seen) for index, item in enumerate(items))
            if all(field is item for field, item in zip(parts, items, strict=True)):
                return value  # a list stays the one that other names hold
            made = v.TupleOf(parts, record=value.record, names=value.names, written=value.written)
            ctx.note_merged_lists(made, [value])
            return made
        case v.Method(receiver=receiver, name=word, callee=callee):
            kept_receiver = atomize(ctx, receiver.value, name, seen)
            return v.Method(v.Operand(kept_receiver, receiver.span), word, callee)
        case v.Zipped(word=word, parts=parts_, strict=strict):
            kept_parts = (v.Operand(atomize(ctx, field.value, name, seen), field.span) for field in parts_)
            return v.Zipped(word, tuple(kept_parts), strict)
        case v.LocalFunction() | v.ClosureValue():
            return _atomize_function(ctx, value, seen)
        case v.GradientOf(kind=kind, function=function, arguments=arguments) if kind != "pullback":
            kept_function = replace(function, value=atomize(ctx, function.value, name, seen))
            kept_arguments = (
                replace(argument, value=atomize(ctx, argument.value, name, seen)) for argument in arguments
            )
            return replace(value, function=kept_function, arguments=tuple(kept_arguments))
    return value


def _atomize_function(ctx: Elaboration, value: v.LocalFunction | v.ClosureValue, seen: set[int]) -> v.Value:
    """Bind what a function captures, which is inlined or made again somewhere below."""
    if id(value) in seen:
        return value
    seen.add(id(value))
    chain = ctx.environment.chain()
    if value.environment not in chain:  # it has returned: nothing changes its names any more
        value = replace(value, environment=_copy_until(value.environment, chain))
    for captured in sorted(value.versions):
        owner = value.environment.owner(captured)
        if owner is None or captured not in owner.bindings.locals:
            continue
        if owner is value.environment or owner not in chain:
            owner.bindings.locals[captured] = atomize(ctx, owner.bindings.locals[captured], captured, seen)
    return value


def _copy_until(environment: v.Environment, chain: Container[v.Environment]) -> v.Environment:
    """Return a copy of an environment, and of those around it that are not in the chain."""
    if environment in chain:
        return environment
    parent = None if environment.parent is None else _copy_until(environment.parent, chain)
    return replace(environment, parent=parent, bindings=environment.bindings.copy())


def let_bind(ctx: Elaboration, value: v.Computed, name: str) -> v.Computed:
    """Bind a value by let in the current block."""
    if ctx.speculating:
        raise BranchNeededError
    variable = ir.Var(name, span=value.expr.span)
    ctx.block.lets.append((variable, value.expr))
    ctx.memory.bound[variable] = value.expr
    return replace(value, expr=variable)


def is_atom(expr: ir.Expr) -> bool:
    """Return whether an expression may stand in several branches without being computed in each."""
    return isinstance(expr, ir.Var | ir.GlobalVar | ir.Constant | ir.Constructor)


def reread(value: v.Value) -> v.Value:
    """Return the value for one use: the parts of a variable that holds a tuple are projected anew."""
    if isinstance(value, v.TupleOf) and value.whole is not None and isinstance(value.whole.expr, ir.Var):
        again = v.as_value(value.whole.expr, value.whole.type)
        return (
            replace(_rows_as(again, value), written=value.written) if isinstance(again, v.TupleOf) else again
        )
    return value


def _rows_as(again: v.TupleOf, value: v.TupleOf) -> v.TupleOf:
    """Return a tuple that is as another was written, and whose lists belong to whom its lists do."""
    items = list[v.Value](again.items)
    for place, (item, before) in enumerate(zip(again.items, value.items, strict=True)):
        if isinstance(item, v.ListOfRows) and isinstance(before, v.ListOfRows):
            items[place] = replace(item, is_row=before.is_row)
        elif isinstance(item, v.TupleOf) and isinstance(before, v.TupleOf):
            items[place] = _rows_as(item, before)
    return replace(again, items=tuple(items), written=value.written)


def hoist_lets(ctx: Elaboration, value: v.Value) -> v.Value:
    """Return the value with the lets inside its expressions moved to the current block."""
    exprs = list(_exprs_of((value,)))
    lets = [
        node for node in dict.fromkeys(computing_order(ir.Tuple(tuple(exprs)))[0]) if isinstance(node, ir.Let)
    ]
    if lets and ctx.speculating:
        raise BranchNeededError
    flat = substitute(ir.Tuple((*(let.value for let in lets), *exprs)), {let: let.body for let in lets})
    assert isinstance(flat, ir.Tuple)
    ctx.block.lets += [(let.var, bound) for let, bound in zip(lets, flat.fields, strict=False)]
    return _with_exprs(value, iter(flat.fields[len(lets) :]))


def _exprs_of(items: Iterable[v.Value]) -> Iterator[ir.Expr]:
    for item in items:
        if isinstance(item, v.TupleOf):
            yield from _exprs_of(item.items)
        elif isinstance(item, v.Computed):
            yield item.expr


def _with_exprs(value: v.Value, exprs: Iterator[ir.Expr]) -> v.Value:
    match value:
        case v.TupleOf(items=items):
            parts = tuple(_with_exprs(item, exprs) for item in items)
            return v.TupleOf(parts, record=value.record, names=value.names)
        case v.Computed():
            return replace(value, expr=next(exprs))
    return value
