"""Sort items of lists, zipped lists, ranges and dictionaries, as Python's ``sorted`` does: equal ones stay.

Reference: https://docs.python.org/3/howto/sorting.html
"""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay.types import TensorType
from nnmagic.tinynn.builtins.argument_checks import known_without_sizes, static_value_or_none
from nnmagic.tinynn.calls.argument_binding import Arguments
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type

_ORDER = """
    order = lexsort(transpose(keys)[::-1]) if keys.ndim == 2 else argsort(keys)
"""
_BACK = """
    keys = flip(keys, 0)
    back = lexsort(transpose(keys)[::-1]) if keys.ndim == 2 else argsort(keys)
    order = (len(keys) - 1 - back)[::-1]
"""


def by_keys(call: Arguments, items: v.Operand, rest: str) -> v.LoopCall:
    """Return a call with what its function gives for each item, ``keys``, in place of the function."""
    key, of_item = call.given["key"], "key(item)"
    if isinstance(key.value, v.Method) and key.value.name == "get":  # of a dictionary, which has every key
        key, of_item = key.value.receiver, "key[item]"
    text = f"def f(items, key):\n    return {call.name}(items, keys=[{of_item} for item in items]{rest})\n"
    return v.LoopCall("text", (items, key), text=text)


def known_order(call: Arguments, items: v.Operand, *, reverse: bool) -> list[v.Value] | None:
    """Return known items in the order of their keys; None where only the call knows an item or a key."""
    known = known_without_sizes(call.given.get("keys", items).value)
    own = items.value.items if isinstance(items.value, v.TupleOf) else None
    if (entries := v.entries_of(items.value)) is not None:
        own = tuple(map(v.known_value, entries))
        known = known if "keys" in call else tuple(entries)
    if own is None and isinstance(values := static_value_or_none(items.value), tuple | str):
        own = tuple(map(v.known_value, values))
    known = tuple(known) if isinstance(known, str) else known
    if not isinstance(known, tuple) or own is None:
        return None
    try:
        order = sorted(range(len(known)), key=known.__getitem__, reverse=reverse)
    except TypeError as error:
        raise v.RefusalError(f"{call.name}: {error}", items.span) from None
    return [own[place] for place in order]


def sort_items(call: Arguments) -> v.Value:
    """Return the items in ascending order, or in that of what a function gives for each; equal ones stay."""
    operand, reverse = call.given["iterable"], call.static("reverse", default=False) is True
    if "key" in call:
        return by_keys(call, operand, f", reverse={reverse}")
    if (static := known_order(call, operand, reverse=reverse)) is not None:
        return v.TupleOf(tuple(static), written="list")  # lists stay the same objects
    sorted_by = call.given.get("keys", operand)
    rows = sorted_by.value.items if isinstance(sorted_by.value, v.TupleOf) else ()
    if any(isinstance(part, v.TupleOf) for row in rows if isinstance(row, v.TupleOf) for part in row.items):
        message, hint = (
            "tuples that hold tuples cannot be sorted",
            "give a key, as in key=lambda item: item[0]",
        )
        raise v.RefusalError(message, call.span, hint=hint)
    columns = _columns(operand)
    parts, zipped = columns or (operand,), columns is not None
    names = [f"x{number}" for number in range(len(parts))]
    if isinstance(operand.value, v.RangeOf) and "keys" in call:
        text = f"def sorted(keys, items):\n    return sorted(list(items), keys=keys, reverse={reverse})\n"
        return v.LoopCall("text", (call.given["keys"], operand), text=text)
    keys = "keys" if "keys" in call else f"[item for item in zip({', '.join(names)})]" if zipped else "x0"
    taken = [  # of lists, which may be of tuples or lists; else no copies
        f"{name}[order]"
        if isinstance(part.value, v.ListOfRows) and (part.value.columns or part.value.is_table)
        else f"relay.take(asarray({name}), order, axis=0)"
        for name, part in zip(names, parts, strict=True)
    ]
    result = f"zip({', '.join(taken)})" if zipped else f"list({taken[0]})"
    order = f"    keys = asarray({keys})" + (_BACK if reverse else _ORDER)
    given: tuple[v.Operand, ...] = (call.given.get("keys", v.Operand(v.Known(None), call.span)),)
    key_names = ["keys"]
    if zipped and all(map(_holds_numbers, parts)):
        result = f"[item for item in {result}]"
        if "keys" not in call:
            order = _order_of_columns(names, reverse=reverse)
    if "keys" in call and (key_columns := _columns(given[0])) is not None:
        given, key_names = key_columns, [f"key{number}" for number in range(len(key_columns))]
        order = _order_of_columns(key_names, reverse=reverse)
    text = f"def sorted({', '.join([*key_names, *names])}):\n{order}    return {result}\n"
    return v.LoopCall("text", (*given, *parts), text=text)


def _columns(operand: v.Operand) -> tuple[v.Operand, ...] | None:
    """Return what is zipped, or the columns of known tuples of numbers, each with a dtype; else None."""
    value = operand.value
    if isinstance(value, v.Zipped):
        return value.parts if value.word in ("zip", "values") else None
    rows = (
        [item for item in value.items if isinstance(item, v.TupleOf)] if isinstance(value, v.TupleOf) else []
    )
    if not rows or not isinstance(value, v.TupleOf) or len(rows) < len(value.items):
        return None
    items = [item for row in rows for item in row.items]
    numbers = all(
        (isinstance(each, v.Known) and isinstance(each.value, bool | int | float))
        or (is_tensor(each) and not tensor_type(v.Operand(each, operand.span)).shape)
        for each in items
    )
    if not numbers or any(row.record is not None or row.written == "list" for row in rows):
        return None
    if len({len(row.items) for row in rows}) > 1 or not items:
        return None
    columns = zip(*(row.items for row in rows), strict=True)
    return tuple(v.Operand(v.TupleOf(column, written="list"), operand.span) for column in columns)


def _order_of_columns(names: Sequence[str], *, reverse: bool) -> str:
    """Write the order of tuples whose parts are arrays or lists: by the last part, then by those before."""
    back = "[::-1]" if reverse else ""
    least = f"min({', '.join(f'len({name})' for name in names)})" if len(names) > 1 else f"len({names[0]})"
    sorts = [f"    order = order[argsort(asarray({name})[order])]\n" for name in reversed(names)]
    return f"    order = arange({least}){back}\n{''.join(sorts)}    order = order{back}\n"


def _holds_numbers(part: v.Operand) -> bool:
    """Return whether the items of a value are numbers, or tuples of these, that only the call knows."""
    rows = v.rows_of_list(part.value)
    if isinstance(rows, v.TupleOf):
        return rows.written == "list" and not any(isinstance(item, v.TupleOf) for item in rows.items)
    is_vector = (
        isinstance(rows, v.Computed) and isinstance(rows.type, TensorType) and len(rows.type.shape) == 1
    )
    return is_vector or bool(getattr(part.value, "columns", ()))
