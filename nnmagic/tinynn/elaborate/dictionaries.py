"""Elaborate dictionaries of a function: tuples whose items have keys, which are known at compile time."""

from __future__ import annotations

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.operations import binary_operation
from nnmagic.tinynn.operators.arithmetic import AnyOp
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type


def elaborate_dictionary(ctx: Elaboration, expr: tree.Dictionary) -> v.Value:
    """Elaborate ``{key: value, **others}``. Raises RefusalError."""
    entries: dict[object, v.Value] = {}
    failed = False
    for key, value in expr.items:
        operand = ctx.operand(value)
        failed = failed or v.is_failed(operand.value)
        if key is None:
            entries |= _entries(operand) if not v.is_failed(operand.value) else {}
        else:
            entries[_key(ctx.operand(key))] = operand.value
    return v.FAILED if failed else v.dictionary_of(entries)


def elaborate_dictionary_comprehension(ctx: Elaboration, expr: tree.DictionaryComprehension) -> v.Value:
    """Elaborate ``{key: value for target in items}``. Raises RefusalError."""
    pairs = ctx.evaluate(expr.pairs)
    if v.is_failed(pairs):
        return v.FAILED
    span = ctx.span(expr.span)
    items = [item for item in getattr(pairs, "items", (pairs,)) if isinstance(item, v.TupleOf)]
    return v.dictionary_of({_key(v.Operand(item.items[0], span)): item.items[1] for item in items})


def _entries(operand: v.Operand) -> dict[object, v.Value]:
    entries = v.entries_of(operand.value)
    if entries is None:
        raise v.RefusalError(f"{describe(operand.value)} is no dictionary", operand.span)
    return dict(entries)


def _key(operand: v.Operand) -> str | int:
    key = operand.value.value if isinstance(operand.value, v.Known) else None
    if isinstance(key, str | int) and not isinstance(key, bool):
        return key
    known = "a string or an int that is known at compile time"
    message = f"a dictionary's key must be {known}, not {describe(operand.value)}"
    raise v.RefusalError(message, operand.span, hint="for keys of the call use an array, and index it")


def has_keys(ctx: Elaboration, target: ast.Call) -> bool:
    """Return whether what is assigned is an item of a dictionary of the function."""
    return _held(ctx, target) is not None


def _held(ctx: Elaboration, target: ast.Call) -> v.TupleOf | None:
    """Return the dictionary of the function whose item is assigned; None for anything else."""
    if not isinstance(target.params[0], ast.Var):
        return None
    owner = ctx.environment.owner(target.params[0].id.name)
    held = None if owner is None else owner.bindings.locals.get(target.params[0].id.name)
    return held if isinstance(held, v.TupleOf) and v.entries_of(held) is not None else None


def assign_key(ctx: Elaboration, target: ast.Call, value: v.Operand, op: AnyOp | None, span: Span) -> bool:
    """Elaborate ``name[key] = value``, or with an operator; False where the name stands for no dictionary.

    Raises RefusalError.
    """
    held = _held(ctx, target)
    entries = None if held is None else v.entries_of(held)
    if entries is None:
        return False
    name, index, place = target.params[0].id.name, target.params[1].values, ctx.span(target.span)
    if ctx.environment.owner(name) is not ctx.environment:
        hint = f"change a copy that is the function's own: {name}_ = dict({name})"
        message = f"`{name}` belongs to the function around, and cannot be changed here"
        raise v.RefusalError(message, place, hint=hint)
    _check_alone(ctx, name, held, place)
    if len(index) != 1:
        raise v.RefusalError("a dictionary takes one key", place)
    key = _key(ctx.operand(index[0]))
    new = value.value
    if op is not None:
        if key not in entries:
            raise v.RefusalError(f"the dictionary has no key {key!r}", place)
        if is_tensor(entries[key]) and tensor_type(v.Operand(entries[key], place)).shape:
            hint = "assign a new one, as in d['key'] = d['key'] + value"
            raise v.RefusalError("an array that a dictionary holds is not changed in place", place, hint=hint)
        new = binary_operation(ctx, op, v.Operand(entries[key], place), value, span)
    changed = v.FAILED if v.is_failed(new) else v.dictionary_of({**entries, key: new})
    ctx.environment.bindings.bind(name, changed, place)
    return True


def _check_alone(ctx: Elaboration, name: str, held: v.Value | None, span: Span) -> None:
    """Raise RefusalError if another name stands for the dictionary, which would not see it change."""
    for environment in (*ctx.environment.chain(), *ctx.callers):
        for other, value in environment.bindings.locals.items():
            is_other = environment is not ctx.environment or other != name
            if is_other and other.isidentifier() and _holds(value, held):
                message = f"`{other}` is the same dictionary as `{name}`, and would not see it change"
                raise v.RefusalError(message, span, hint=f"make a copy: {name} = dict({other})")


def _holds(value: v.Value | None, held: v.Value | None) -> bool:
    return value is held or (isinstance(value, v.TupleOf) and any(_holds(item, held) for item in value.items))
