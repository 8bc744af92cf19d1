"""Make what a function returns of lists that Python reads as lists: of tuples, and of several lengths."""

from __future__ import annotations

from nnmagic.relay.types import LIST, LISTS, RecordType
from nnmagic.tinynn.calls.argument_binding import Arguments
from nnmagic.tinynn.values import values as v


def mixed_tuples(value: v.Value) -> v.Value:
    """Return a list of tuples of ints and floats as a record of which Python makes it again."""
    if not isinstance(value, v.ListOfRows) or len(set(value.columns)) < 2:
        return value
    kind = _kind_of(value)
    return value if kind is None else v.TupleOf((value.rows,), record=RecordType((), LIST, (kind,)))


def _kind_of(items: v.ListOfRows) -> str | None:
    """Return what the items of a list are, as records say it; None for tuples with tuples inside."""
    if any(isinstance(column, tuple) for column in items.columns):
        return None
    dtypes = [column.dtype for column in items.columns if isinstance(column, v.Column)]
    return " ".join(("tuples", *dtypes)) if dtypes else "numbers"


def inner_lists(call: Arguments) -> v.Value:
    """Return a list of lists, or a dictionary of lists, as a record from which Python makes it."""
    items, counts = (call.given[name].value for name in ("a", "counts"))
    keys = call.given["keys"].value if "keys" in call else None
    kind = _kind_of(items) if isinstance(items, v.ListOfRows) else "numbers"
    if kind is None:
        message = "lists of several lengths hold numbers, or tuples of numbers, where a function returns them"
        raise v.RefusalError(message, call.span)
    if isinstance(keys, v.ListOfRows):
        return v.TupleOf((items, counts, keys), record=RecordType((), LISTS, (kind, "counts", "keys")))
    names = () if keys is None else tuple(v.entries_of(keys) or ())
    record = RecordType((), LISTS, (kind, "counts", *names))  # type: ignore[arg-type]  # of keys
    return v.TupleOf((items, counts), record=record)
