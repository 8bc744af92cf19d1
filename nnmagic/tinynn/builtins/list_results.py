"""Make what a function returns of lists that Python reads as lists: of tuples, and of several lengths."""

from __future__ import annotations

from nnmagic.relay.types import LIST, LISTS, RecordType
from nnmagic.tinynn.calls.argument_binding import Arguments
from nnmagic.tinynn.values import values as v


def mixed_tuples(value: v.Value) -> v.Value:
    """Return a list of tuples of ints and floats as a record of which Python makes it again."""
    if not isinstance(value, v.ListOfRows) or not value.columns:
        return value
    if len(set(value.columns)) == 1 and isinstance(value.columns[0], v.Column):
        return value
    return v.TupleOf((value.rows,), record=RecordType((), LIST, (_kind_of(value),)))


def _kind_of(items: v.ListOfRows) -> str:
    """Return what the items of a list are, as records say it."""
    return " ".join(("tuples", *_words(items.columns))) if items.columns else "numbers"


def _words(columns: v.Columns) -> list[str]:
    """Return the dtypes of tuples, with brackets around those of tuples inside."""
    return [
        word
        for column in columns
        for word in (["(", *_words(column), ")"] if isinstance(column, tuple) else [column.dtype])
    ]


def inner_lists(call: Arguments) -> v.Value:
    """Return a list of lists, or a dictionary of lists, as a record from which Python makes it."""
    items, counts = (call.given[name].value for name in ("a", "counts"))
    keys = call.given["keys"].value if "keys" in call else None
    kind = _kind_of(items) if isinstance(items, v.ListOfRows) else "numbers"
    if isinstance(keys, v.ListOfRows):
        return v.TupleOf((items, counts, keys), record=RecordType((), LISTS, (kind, "counts", "keys")))
    names = () if keys is None else tuple(v.entries_of(keys) or ())
    record = RecordType((), LISTS, (kind, "counts", *names))  # type: ignore[arg-type]  # of keys
    return v.TupleOf((items, counts), record=record)
