"""Elaborate what makes dictionaries and sets.

Where the keys are known at compile time they are tuples whose items have keys, otherwise tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnmagic.diagnostics import Span
from nnmagic.relay import types as ty
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.elaborate.calls import apply_value
from nnmagic.tinynn.elaborate.comprehensions import is_long, run_loop
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.expressions import range_as_array
from nnmagic.tinynn.elaborate.tables import put
from nnmagic.tinynn.operators import tables
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import cast


def elaborate_dictionary(ctx: Elaboration, expr: tree.Dictionary) -> v.Value:
    """Elaborate ``{key: value, **others}``. Raises RefusalError."""
    entries: dict[object, v.Value] = {}
    later: list[tuple[v.Operand, v.Operand]] = []
    for key, value in expr.items:
        entry, operand = None if key is None else ctx.operand(key), ctx.operand(value)
        if v.is_failed(operand.value) or (entry is not None and v.is_failed(entry.value)):
            return v.FAILED
        if entry is None and isinstance(operand.value, v.TableOf) and len(expr.items) == 1:
            return tables.copy(operand.value, operand.span)
        if entry is None:
            entries |= _entries(operand)
        elif later or (known := tables.key_or_missing(entry)) is tables.MISSING:
            later.append((entry, operand))
        else:
            entries[known] = operand.value
    return (
        _with_later(ctx, v.dictionary_of(entries), later, ctx.span(expr.span))
        if later
        else v.dictionary_of(entries)
    )


#: The name of a dictionary that is being made, which no cell can write.
_MADE = "<dictionary>"


def _with_later(
    ctx: Elaboration, dictionary: v.Value, later: Sequence[tuple[v.Operand, v.Operand]], span: Span
) -> v.Value:
    """Return a dictionary with entries whose keys only the call knows. Raises RefusalError."""
    if len(later) >= tables.ROOM:
        message = f"a dictionary is written with {len(later)} keys that only the call knows"
        raise v.RefusalError(message, span, hint="begin with {}, and assign them in a loop")
    bindings = ctx.environment.bindings
    for key, value in later:
        put(ctx, _MADE, dictionary, key, value, span)
        dictionary = bindings.locals[_MADE]
    bindings.forget(_MADE)
    assert isinstance(dictionary, v.TableOf)
    return tables.with_room(dictionary, span)


def elaborate_dictionary_comprehension(ctx: Elaboration, expr: tree.DictionaryComprehension) -> v.Value:
    """Elaborate ``{key: value for target in items}``, or a set of what it gives. Raises RefusalError."""
    if is_long(ctx, expr.pairs):
        return run_loop(ctx, expr.pairs, as_dictionary=not expr.is_set)
    pairs = ctx.evaluate(expr.pairs)
    if v.is_failed(pairs):
        return v.FAILED
    span = ctx.span(expr.span)
    if expr.is_set:
        return set_of(ctx, v.Operand(pairs, span), span)
    if not isinstance(pairs, v.TupleOf):  # only the call knows which of them it has
        return run_loop(ctx, expr.pairs, as_dictionary=True)
    items = [item for item in pairs.items if isinstance(item, v.TupleOf)]
    known = [tables.key_or_missing(v.Operand(item.items[0], span)) for item in items]
    if tables.MISSING in known:
        return run_loop(ctx, expr.pairs, as_dictionary=True)
    return v.dictionary_of({key: item.items[1] for key, item in zip(known, items, strict=True)})


def elaborate_set(ctx: Elaboration, expr: tree.MadeSet) -> v.Value:
    """Elaborate ``{a, b}`` and ``set(members)``. Raises RefusalError."""
    return set_of(ctx, ctx.operand(expr.members), ctx.span(expr.span))


def set_of(ctx: Elaboration, members: v.Operand, span: Span) -> v.Value:
    """Return the set of some members: those of an array in ascending order. Raises RefusalError."""
    value = members.value
    if v.is_failed(value):
        return v.FAILED
    if v.is_set(value):
        return tables.copy(value, span)
    if isinstance(value, v.TableOf):
        value = tables.keys_of(value, span)
    if (entries := v.entries_of(value)) is not None:
        return v.dictionary_of(dict.fromkeys(entries, v.Known(None)), ty.SET)
    if isinstance(value, v.Known) and isinstance(value.value, str):
        return v.dictionary_of(dict.fromkeys(value.value, v.Known(None)), ty.SET)
    if isinstance(value, v.TupleOf):
        known = [tables.key_or_missing(v.Operand(item, members.span)) for item in value.items]
        if tables.MISSING not in known:
            return v.dictionary_of(dict.fromkeys(known, v.Known(None)), ty.SET)
        for item in value.items:
            tables.as_key(v.Operand(item, members.span))
        value = BUILTINS["array"].call([replace(members, value=value)], span)
    if isinstance(value, v.RangeOf):
        value = range_as_array(replace(members, value=value)).value
    rows = value.rows if isinstance(value, v.ListOfRows) else value
    if not isinstance(rows, v.Computed) or not isinstance(rows.type, ty.TensorType) or not rows.type.shape:
        raise v.RefusalError(f"set of {describe(members.value)}", members.span)
    along = [] if len(rows.type.shape) == 1 else [v.Operand(v.Known(0), span, "axis")]
    unique = v.Operand(v.BuiltinName(BUILTINS["unique"]), span)
    distinct = apply_value(ctx, unique, [v.Operand(rows, members.span), *along], span)
    if not isinstance(distinct, v.Computed) or not isinstance(distinct.type, ty.TensorType):
        return v.FAILED
    dtype = tables.dtype_of_keys(distinct.type.dtype)
    if dtype is None:
        raise v.RefusalError(f"a set of {describe(rows)}", members.span)
    return tables.table_of(cast(distinct, dtype, span), v.Known(None), span)


def _entries(operand: v.Operand) -> dict[object, v.Value]:
    entries = v.entries_of(operand.value)
    if entries is None:
        raise v.RefusalError(f"{describe(operand.value)} is no dictionary", operand.span)
    return dict(entries)
