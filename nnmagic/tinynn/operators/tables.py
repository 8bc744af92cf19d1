"""Look into dictionaries and sets whose keys only the call knows, and make them of those that are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.structure.tuple_trees import flatten
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import NATURAL_DTYPES, natural_dtype, number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast, vector_of
from nnmagic.tinynn.values.symbolic_sizes import as_number, full, number_of, size_along, weak_int

#: What stands for a key that only the call knows.
MISSING: Final = object()

#: The most entries of a table.
MOST = 1 << 30

#: The entries that a table has room for when it begins.
ROOM = 8

#: What a key is, as messages say it.
_WHAT = "a number, or a tuple of numbers"


# -- keys ----------------------------------------------------------------------------------------------


def as_key(operand: v.Operand) -> v.Computed:
    """Return a key as the tensor that a table holds: a number, or a vector of those of a tuple.

    Integers are in int64 or uint64, floats in float64. Raises RefusalError.
    """
    value, span = as_number(operand).value, operand.span
    match value:
        case v.TupleOf(items=items, record=None) if items:
            words = [_number(v.Operand(item, span)) for item in items]
            if any(word.type == _FLOAT for word in words):
                words = [_in_dtype(word, "float64", span) for word in words]
            if len({word.type for word in words}) == 1:
                return vector_of(words, span)
        case _:
            return _number(v.Operand(value, span))
    raise v.RefusalError(f"a key is {_WHAT} of one kind, not {describe(value)}", span)


_FLOAT = ty.TensorType((), "float64")


def dtype_of_keys(dtype: str) -> str | None:
    """Return the dtype in which a table holds numbers of a dtype; None where it holds none."""
    if ty.is_float(dtype):
        return "float64"
    if ty.is_integer(dtype) or dtype == "bool":
        return "uint64" if dtype == "uint64" else "int64"
    return None


def _number(operand: v.Operand) -> v.Computed:
    match as_number(operand).value:
        case v.Known(value=bool() | int() as number):
            return number_constant(int(number), "int64", operand.span)
        case v.Known(value=float() as number):
            return number_constant(number, "float64", operand.span)
        case v.Computed(type=ty.TensorType(shape=(), dtype=dtype)) as number if wide := dtype_of_keys(dtype):
            return cast(number, wide, operand.span)
    message = f"a key that only the call knows is {_WHAT}, not {describe(operand.value)}"
    hint = "take its code point, ord(c)" if isinstance(operand.value, v.Character) else None
    if isinstance(operand.value, v.Computed):
        hint = "write a list instead, as in [x * 2, x * 3]"
    raise v.RefusalError(message, operand.span, hint=hint)


def _in_dtype(key: v.Computed, dtype: str, span: Span) -> v.Computed:
    """Return a key in the dtype of a table's keys, where it is equal to one of these. Raises RefusalError."""
    if key.dtype == dtype:
        return key
    if isinstance(key.expr, ir.Constant):
        numbers = key.expr.data
        with np.errstate(all="ignore"):
            converted = numbers.astype(dtype)
        if (converted == numbers).all() and (converted.astype(object) == numbers.astype(object)).all():
            return v.Computed(ir.constant(converted, dtype, span=span), replace(key.tensor_type, dtype=dtype))
    kinds = {"int64": "ints", "uint64": "unsigned integers", "float64": "floats"}
    message = f"the keys of this dictionary are {kinds[dtype]}, and this one is of {kinds[key.dtype]}"
    raise v.RefusalError(message, span, hint="convert it, as in int(x) or float(x)")


def key_or_missing(operand: v.Operand) -> object:
    """Return a key that is known at compile time; `MISSING` for any other. Raises RefusalError."""
    key = v.static_or(operand.value, MISSING)
    if any(isinstance(each, ty.AnyDim) for each in flatten(key)):
        return MISSING
    if key is MISSING or isinstance(key, str | int | float | tuple):
        return key
    message = (
        f"a dictionary's key must be a string, a number, or a tuple of these, not {describe(operand.value)}"
    )
    raise v.RefusalError(message, operand.span)


def fit_key(table: v.TableOf, operand: v.Operand) -> v.Computed:
    """Return a key as one of a table's keys. Raises RefusalError."""
    key, keys = as_key(operand), table.keys.type
    assert isinstance(keys, ty.TensorType)
    if key.shape != keys.shape[1:]:
        kinds = (_format_key(keys.shape[1:]), _format_key(key.shape))
        message = "the keys of this dictionary are {}, and this one is of {}".format(*kinds)
        raise v.RefusalError(message, operand.span)
    return _in_dtype(key, keys.dtype, operand.span)


def _format_key(shape: Sequence[ty.Dim]) -> str:
    return f"tuples of {shape[0]}" if shape else "numbers"


# -- tables of what is known ---------------------------------------------------------------------------


def empty_table(key: v.Computed, value: v.Value, span: Span) -> v.TableOf:
    """Return a table without entries whose keys and values are as these."""
    values = map_rows(value, lambda each: room_like(each, v.Known(ROOM), span))
    return _fill(room_like(key, v.Known(ROOM), span), 0, values, span)


def _fill(keys: v.Computed, count: int, values: v.Value, span: Span) -> v.TableOf:
    """Return a table of the first keys."""
    number = number_constant(count, "int64", span)
    slots = apply("table.slots", span, keys, number)
    return v.TableOf(slots, keys, weak_int(number), weak_int(number), values)


def as_table(value: v.Value, span: Span) -> v.TableOf | None:
    """Return a dictionary, or a set, whose keys are known as a table; None where its keys are no numbers.

    One without entries is None, too: nothing says what its keys are. Raises RefusalError for values of
    different types.
    """
    if isinstance(value, v.TableOf):
        return value
    entries = v.entries_of(value)
    if not entries:
        return None
    try:
        keys = [as_key(v.Operand(v.known_value(key), span)) for key in entries]
        if any(key.type == _FLOAT for key in keys):
            keys = [_in_dtype(key, "float64", span) for key in keys]
    except v.RefusalError:
        return None
    if len({key.type for key in keys}) > 1:
        return None
    room = v.Known(max(ROOM, len(keys)))
    rows = apply("stack", span, _tuple_of(keys, span), axis=0)
    held = join(rows, room_like(keys[0], room, span), weak=False, span=span)
    values = v.Known(None) if v.is_set(value) else _stack(list(entries.values()), room, span)
    return _fill(held, len(keys), values, span)


def is_dictionary(value: v.Value) -> bool:
    """Return whether a value is a dictionary or a set of the function."""
    return isinstance(value, v.TableOf) or (isinstance(value, v.TupleOf) and v.entries_of(value) is not None)


def is_empty(value: v.Value) -> bool:
    """Return whether a value is a dictionary, or a set, without entries."""
    return isinstance(value, v.TupleOf) and not value.items and v.entries_of(value) is not None


def as_row(value: v.Value, span: Span) -> v.Computed:
    """Return a value of an entry as a tensor. Raises RefusalError."""
    match value:
        case v.Known(value=bool() | int() | float() | complex() as number):
            constant = number_constant(number, natural_dtype(number), span)
            return replace(constant, weak=True)
        case v.Dimension(number=number):
            return number
        case v.Computed(type=ty.TensorType()):
            return value
    message = f"the values of a dictionary whose keys only the call knows are tensors, not {describe(value)}"
    raise v.RefusalError(message, span, hint="hold numbers, arrays of one shape, or tuples of them")


def _with_items(value: v.TupleOf, items: tuple[v.Value, ...]) -> v.TupleOf:
    return v.TupleOf(items, written="tuple" if value.written == "tuple" else "held")


def map_rows(value: v.Value, change: Callable[[v.Value], v.Value]) -> v.Value:
    """Return values of entries with each part changed; None, of a set, stays."""
    if value == v.Known(None):
        return value
    if isinstance(value, v.TupleOf) and value.record is None:
        return _with_items(value, tuple(map_rows(item, change) for item in value.items))
    return change(value)


def room_like(value: v.Value, room: v.Value, span: Span) -> v.Computed:
    """Return rows of zeros, as many as ``room`` says, each like a value."""
    row = as_row(value, span)
    zero = number_constant(False if row.dtype == "bool" else 0, row.dtype, span)
    wide = [size_along(row, axis, span) for axis in range(len(row.shape))]
    rows = full(zero, [room, *wide], span)
    return v.Computed(rows.expr, ty.TensorType((ty.ANY, *row.shape), row.dtype), row.weak)


def _stack(values: Sequence[v.Value], room: v.Value, span: Span) -> v.Value:
    """Return the values of entries as rows, with room for more. Raises RefusalError."""
    first = values[0]
    if isinstance(first, v.TupleOf) and first.record is None:
        if not all(isinstance(value, v.TupleOf) and len(value.items) == len(first.items) for value in values):
            raise v.RefusalError("the values of a dictionary are tuples of different lengths", span)
        columns = zip(*(value.items for value in values if isinstance(value, v.TupleOf)), strict=True)
        return _with_items(first, tuple(_stack(column, room, span) for column in columns))
    rows = [as_row(value, span) for value in values]
    types = [row.type for row in rows if isinstance(row.type, ty.TensorType)]
    strong = [type_ for type_, row in zip(types, rows, strict=True) if not row.weak]
    wanted = strong[0] if strong else max(types, key=lambda type_: NATURAL_DTYPES.index(type_.dtype))
    if any(type_ != wanted for type_ in strong):
        message = "the values of a dictionary whose keys only the call knows have one type"
        raise v.RefusalError(message, span, hint="give all of them one shape and one dtype")
    cells = [cast(row, wanted.dtype, span) for row in rows]
    if any(cell.type != wanted for cell in cells):
        raise v.RefusalError("the values of a dictionary have different shapes", span)
    whole = apply("stack", span, _tuple_of(cells, span), axis=0)
    return join(whole, room_like(cells[0], room, span), weak=not strong, span=span)


def join(rows: v.Computed, more: v.Computed, *, weak: bool, span: Span) -> v.Computed:
    """Return rows with others behind them."""
    joined = apply("concatenate", span, _tuple_of([rows, more], span), axis=0)
    return v.Computed(joined.expr, replace(joined.tensor_type, shape=(ty.ANY, *joined.shape[1:])), weak)


def _tuple_of(parts: Sequence[v.Computed], span: Span) -> v.Computed:
    types = ty.TupleType(tuple(value.type for value in parts))
    return v.Computed(ir.Tuple(tuple(value.expr for value in parts), span=span), types)


# -- questions -----------------------------------------------------------------------------------------


def find(table: v.TableOf, key: v.Computed, span: Span) -> tuple[v.Computed, v.Computed]:
    """Return the slot of a key, and the number of its entry, which is negative if there is none."""
    types = ty.TupleType((ty.TensorType((), "int64"),) * 2)
    args = (table.slots.expr, table.keys.expr, key.expr)
    both = ir.Call(ir.OpRef("table.find", span=span), args, {}, span=span)
    value = v.as_value(both, types)
    assert isinstance(value, v.TupleOf)
    slot, entry = value.items
    assert isinstance(slot, v.Computed)
    assert isinstance(entry, v.Computed)
    return slot, entry


def contains(table: v.TableOf, operand: v.Operand, span: Span) -> v.Computed:
    """Return whether a table has a key."""
    _, entry = find(table, fit_key(table, operand), span)
    return is_entry(entry, span)


def membership(owner: v.Operand, key: v.Operand, span: Span) -> v.Value | None:
    """Return ``key in owner`` of a dictionary or a set; None of anything else, and where numbers are few.

    Raises RefusalError.
    """
    value = owner.value
    if not is_dictionary(value):
        return None
    static_key = key_or_missing(key)
    entries = None if isinstance(value, v.TableOf) else v.entries_of(value)
    if entries is not None and static_key is not MISSING:
        return v.Known(static_key in entries)
    if is_empty(value):
        return v.Known(value=False)
    table = as_table(value, owner.span)
    return None if table is None else contains(table, key, span)


def is_entry(entry: v.Computed, span: Span) -> v.Computed:
    """Return whether the number of an entry is that of one."""
    return apply("greater_equal", span, entry, number_constant(0, "int64", span))


def value_of(table: v.TableOf, operand: v.Operand, span: Span) -> v.Value:
    """Return ``table[key]``; the program raises KeyError where there is no such key."""
    if table.is_set:
        raise v.RefusalError("a set cannot be indexed", span)
    _, entry = find(table, fit_key(table, operand), span)
    return values_at(table, apply("table.found", span, entry), span)


def read_key(owner: v.Operand, key: v.Operand, span: Span) -> v.Value | None:
    """Return ``owner[key]`` of a dictionary where only the call knows the key; None of anything else.

    Raises RefusalError.
    """
    value = owner.value
    if not isinstance(value, v.TableOf):
        entries, static_key = v.entries_of(value), key_or_missing(key)
        if entries is None or static_key is not MISSING:
            return None if entries is None else entries.get(static_key)
        table = as_table(value, owner.span)
        if table is None:
            return None
        value = table
    return value_of(value, key, span)


def values_at(table: v.TableOf, entry: v.Computed, span: Span) -> v.Value:
    """Return the value of an entry."""

    def at(rows: v.Value) -> v.Value:
        assert isinstance(rows, v.Computed)
        taken = apply("take", span, rows, entry, axis=0, mode="clip")
        return replace(taken, weak=rows.weak)

    return map_rows(table.values, at)


def value_or(table: v.TableOf, operand: v.Operand, default: v.Value, span: Span) -> v.Value:
    """Return ``table.get(key, default)``. Raises RefusalError for a default of another type."""
    _, entry = find(table, fit_key(table, operand), span)
    has, entry_value = is_entry(entry, span), values_at(table, entry, span)
    return _either(has, entry_value, default, operand.span)


def _either(condition: v.Computed, value: v.Value, other: v.Value, span: Span) -> v.Value:
    if isinstance(value, v.TupleOf) and isinstance(other, v.TupleOf) and len(value.items) == len(other.items):
        pairs = zip(value.items, other.items, strict=True)
        return _with_items(value, tuple(_either(condition, own, each, span) for own, each in pairs))
    if other == v.Known(None) or isinstance(value, v.TupleOf) or isinstance(other, v.TupleOf):
        message = f"the value is {describe(value)}, and the other one {describe(other)}"
        raise v.RefusalError(message, span, hint="give a value of the same type, as in d.get(key, 0)")
    assert isinstance(value, v.Computed)
    row = as_row(other, span)
    weak = value.weak and row.weak
    dtype = value.dtype
    if weak:
        dtype = max(dtype, row.dtype, key=NATURAL_DTYPES.index)
    elif value.weak:
        dtype = row.dtype
    elif not row.weak and row.dtype != dtype:
        message = f"the values are {describe(value)}, and this is {describe(other)}"
        raise v.RefusalError(message, span, hint="give both one dtype")
    elif row.weak and isinstance(other, v.Known):
        row = number_constant(other.value, dtype, span)  # type: ignore[arg-type]  # a number
    chosen = apply("where", span, condition, *(cast(each, dtype, span) for each in (value, row)))
    return replace(chosen, weak=weak)


def rows_of(table: v.TableOf, rows: v.Computed, span: Span) -> v.ListOfRows:
    """Return those rows of keys or of values that are of entries."""
    alive = apply("table.alive", span, table.slots, table.keys)
    rows_alive = v.dynamic(subscript(v.Operand(rows, span), [v.Operand(alive, span)], span))
    return v.ListOfRows(v.Computed(rows_alive.expr, rows_alive.type, rows.weak))


def keys_of(table: v.TableOf, span: Span) -> v.ListOfRows:
    """Return the keys of a table in order, as Python's numbers or as rows of these."""
    keys = rows_of(table, replace(table.keys, weak=True), span)
    _, *sizes = table.keys.shape
    return replace(keys, columns=(v.Column(table.keys.dtype, weak=True),) * sizes[0] if sizes else ())  # type: ignore[operator]  # known


def keys_of_table(operand: v.Operand) -> v.Operand:
    """Return the list of the keys of a table; any other value as it is."""
    if not isinstance(operand.value, v.TableOf):
        return operand
    return replace(operand, value=keys_of(operand.value, operand.span))


def keys_of_entries(operand: v.Operand) -> v.Operand:
    """Return the tuple of the keys of a dictionary, or of a set, of constants; any other value as it is."""
    entries = v.entries_of(operand.value)
    if entries is None:
        return operand
    return replace(operand, value=v.TupleOf(tuple(map(v.known_value, entries))))


def all_values(table: v.TableOf, span: Span) -> v.Value:
    """Return the values of a table in order: a list, or of tuples what ``zip`` makes of their parts."""

    def list_of(value: v.Value) -> v.Value:
        if isinstance(value, v.TupleOf):
            word = "zip" if value.written == "tuple" else "values"
            return v.Zipped(word, tuple(v.Operand(list_of(item), span) for item in value.items))
        assert isinstance(value, v.Computed)
        return rows_of(table, value, span)

    return list_of(table.values)


def larger(table: v.TableOf, span: Span) -> v.TableOf:
    """Return a copy of a table, all of whose rows are used, with room for as many again.

    The room holds copies of the entries, so that it needs no array of its own; nobody reads it.
    """

    def double(rows: v.Value) -> v.Value:
        assert isinstance(rows, v.Computed)
        return join(rows, rows, weak=rows.weak, span=span)

    keys = v.dynamic(double(table.keys))
    count = _countable(room_of(table, span), span)
    slots = apply("table.slots", span, keys, count)
    return v.TableOf(slots, keys, weak_int(count), table.size, map_rows(table.values, double))


def copy(value: v.Value, span: Span) -> v.Value:
    """Return a dictionary or a set that changes alone."""
    if isinstance(value, v.TableOf):
        return replace(value, slots=apply("copy", span, value.slots))
    assert isinstance(value, v.TupleOf)
    return replace(value)


def _countable(count: v.Computed, span: Span) -> v.Computed:
    """Return a number of entries; the program raises ValueError for more than slots can count."""
    fine = apply("less", span, count, number_constant(MOST, "int64", span))
    return apply("python.require", span, count, fine, message=f"a dictionary has at most {MOST} entries")


def with_room(table: v.TableOf, span: Span) -> v.TableOf:
    """Return a copy of a table without deleted entries, and with room for as many again."""
    return table_of(
        rows_of(table, table.keys, span).rows,
        map_rows(table.values, lambda rows: rows_of(table, rows, span).rows),  # type: ignore[arg-type]  # rows
        span,
    )


def table_of(keys: v.Computed, values: v.Value, span: Span) -> v.TableOf:
    """Return a table of these keys, all of which differ, and of their values, with room for more."""
    count = _countable(number_of(size_along(keys, 0, span), span), span)
    more = apply("maximum", span, count, number_constant(ROOM, "int64", span))
    room = v.Dimension(ty.ANY, weak_int(more))

    def longer(rows: v.Value) -> v.Value:
        assert isinstance(rows, v.Computed)
        zero = number_constant(False if rows.dtype == "bool" else 0, rows.dtype, span)
        wide = [size_along(rows, axis, span) for axis in range(1, len(rows.shape))]
        return join(rows, full(zero, [room, *wide], span), weak=rows.weak, span=span)

    table = v.dynamic(longer(keys))
    slots = apply("table.slots", span, table, count)
    return v.TableOf(slots, table, weak_int(count), weak_int(count), map_rows(values, longer))


def room_of(table: v.TableOf, span: Span) -> v.Computed:
    """Return how many entries a table has room for."""
    return number_of(size_along(table.keys, 0, span), span)
