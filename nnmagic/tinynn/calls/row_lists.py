"""Bind lists that grew in a loop, whose items are rows of a tensor, as arguments of functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from nnmagic.diagnostics import Span
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply
from nnmagic.tinynn.values.symbolic_sizes import number_of, shape_of, size_along

Builtins: TypeAlias = "Mapping[str, v.BuiltinFunction]"

#: Python's functions of iterables, which take the list itself.
_OF_ITERABLES = frozenset({"zip", "enumerate", "reversed", "list", "len", "lists!"})
#: Those that take a list of tuples as it is, too.
_OF_TUPLES = frozenset({"sorted", "sort!", "index", "count"})
#: The functions whose results may be items of the list, or hold them. All others copy them to an array.
KEEPS_ITEMS = _OF_ITERABLES | {"stop_gradient", "detach"}
#: Functions that Python applies to the items, and NumPy to all elements.
_OF_ITEMS = frozenset({"sum", "max", "min", "any", "all"})


def call_with_rows(
    builtin: v.BuiltinFunction, operands: Sequence[v.Operand], span: Span, builtins: Builtins
) -> v.Value:
    """Call a function of the language with lists of rows among its arguments. Raises RefusalError."""
    first, *more = operands
    of_tuples = isinstance(first.value, v.ListOfRows) and bool(first.value.columns)
    of_lists = isinstance(first.value, v.ListOfRows) and first.value.is_table
    if (
        builtin.name in _OF_ITERABLES
        or (of_lists and builtin.name == "sorted")
        or (of_tuples and builtin.name in _OF_TUPLES)
    ):
        return builtin.call(list(operands), span)
    if builtin.name in _JOINS and isinstance(first.value, v.ListOfRows):
        return _JOINS[builtin.name](_Rows(first, span, builtins), _axis_of(builtin.name, more))
    of_items = builtin.name in _OF_ITEMS and builtin is builtins[builtin.name] and not more
    if builtin.name in ("max", "min") and builtin is builtins[builtin.name]:
        are_lists = all(isinstance(each.value, v.ListOfRows | v.TupleOf) for each in operands)
        if of_tuples or of_lists if of_items else are_lists:
            return builtin.call(list(operands), span)
    if builtin is builtins["sum"] and isinstance(first.value, v.ListOfRows):
        total = _sum(first, more, builtin, span, builtins)
        if total is not None:
            return total
    if of_items and isinstance(first.value, v.ListOfRows) and _rank(first.value) > 1:
        message = f"{builtin.name} of a list of tensors goes over the items"
        hint = f"write np.stack(items).{builtin.name}(axis=0), or over all elements .{builtin.name}()"
        raise v.RefusalError(message, first.span, hint=hint)
    if of_items and builtin.name in ("max", "min") and isinstance(first.value, v.ListOfRows):
        operands = [replace(first, value=_with_items(first.value, builtin.name, span))]
    as_rows = _numbers if of_items else v.rows_of_list
    return builtin.call(
        [v.Operand(as_rows(operand.value), operand.span, operand.keyword) for operand in operands], span
    )


def _with_items(items: v.ListOfRows, word: str, span: Span) -> v.ListOfRows:
    """Return a list of numbers; the program raises ValueError where it has none, as Python does."""
    size = number_of(size_along(items.rows, 0, span), span)
    some = apply("greater", span, size, number_constant(0, "int64", span))
    message = f"{word}() iterable argument is empty"
    rows = apply("python.require", span, items.rows, some, message=message)
    return replace(items, rows=replace(rows, weak=items.rows.weak))


def _sum(
    items: v.Operand, more: Sequence[v.Operand], builtin: v.BuiltinFunction, span: Span, builtins: Builtins
) -> v.Value | None:
    """Return Python's sum of lists, of arrays, and from a start; None of others. Raises RefusalError."""
    value, numbers = items.value, replace(items, value=v.rows_of_list(items.value))
    assert isinstance(value, v.ListOfRows)
    start = more[0].value if len(more) == 1 and more[0].keyword is None else None
    if value.is_table and start == v.TupleOf(()):
        flat = v.dynamic(builtins["ravel"].call([numbers], span))
        return v.ListOfRows(replace(flat, weak=value.rows.weak))
    if isinstance(start, v.TupleOf | v.ListOfRows):
        raise v.RefusalError(
            "sum of these items and a list", span, hint="join them in a loop, as in made += items"
        )
    if start is not None and _rank(value) == 1:
        parts = v.TupleOf((start, builtin.call([replace(items, value=value.rows)], span)))
        return builtin.call([v.Operand(parts, span)], span)
    if not more and not value.is_table and not value.columns and _rank(value) > 1:
        return builtin.call([numbers, v.Operand(v.Known(0), span, "axis")], span)
    return None


def _numbers(value: v.Value) -> v.Value:
    """Return the tensor of a list of rows, with the list's own numbers; any other value as it is."""
    return value.rows if isinstance(value, v.ListOfRows) else value


def _rank(value: v.ListOfRows) -> int:
    return len(value.rows.shape)


def _axis_of(name: str, more: Sequence[v.Operand]) -> int | None:
    """Return the axis that a call names; None without one. Raises RefusalError."""
    for operand in more:
        axis = v.static_or(operand.value, None)
        if (
            operand.keyword not in (None, "axis", "dim")
            or isinstance(axis, bool)
            or not isinstance(axis, int)
        ):
            message = f"{name} of a list that grew in a loop takes the list and an axis"
            raise v.RefusalError(message, operand.span, hint="convert the result, as in .astype(f32)")
        return axis
    return None


class _Rows:
    """A tensor of rows, and the functions of the language that change its shape."""

    def __init__(self, operand: v.Operand, span: Span, builtins: Builtins) -> None:
        assert isinstance(operand.value, v.ListOfRows)
        self.operand = operand
        self.rows: v.Value = operand.value.rows
        self.rank = _rank(operand.value)
        self._span, self._builtins = span, builtins

    def _call(self, name: str, *arguments: v.Value) -> v.Value:
        operands = [v.Operand(value, self._span) for value in (self.rows, *arguments)]
        return self._builtins[name].call(operands, self._span)

    def stack(self, axis: int | None) -> v.Value:
        """Return the items along a new axis."""
        return self._call("moveaxis", v.Known(0), v.Known(axis)) if axis else self.rows

    def join(self, axis: int | None) -> v.Value:
        """Return the items one behind the other. Raises RefusalError."""
        if self.rank < 2:
            raise v.RefusalError("concatenate of numbers", self.operand.span, hint="write stack(items)")
        place = (axis or 0) + (self.rank - 1 if axis is not None and axis < 0 else 0)
        if not 0 <= place < self.rank - 1:
            raise v.RefusalError(f"axis {axis} is out of range for {describe(self.rows)}", self.operand.span)
        self.rows = self.stack(place)
        assert isinstance(self.rows, v.Computed)
        shape = shape_of(self.rows, self._span).items
        sizes = (*shape[:place], v.Known(-1), *shape[place + 2 :])
        return self._call("reshape", v.TupleOf(sizes))

    def vertically(self, axis: int | None) -> v.Value:
        """Return numpy.vstack's result."""
        del axis
        if self.rank == 1:
            return self._call("reshape", v.TupleOf((v.Known(-1), v.Known(1))))
        return self.rows if self.rank == 2 else self.join(0)

    def horizontally(self, axis: int | None) -> v.Value:
        """Return numpy.hstack's result."""
        del axis
        return self.rows if self.rank == 1 else self.join(0 if self.rank == 2 else 1)

    def as_columns(self, axis: int | None) -> v.Value:
        """Return numpy.column_stack's result."""
        del axis
        if self.rank == 1:
            return self._call("reshape", v.TupleOf((v.Known(1), v.Known(-1))))
        return self._call("transpose") if self.rank == 2 else self.join(1)


_JOINS: dict[str, Callable[[_Rows, int | None], v.Value]] = {
    "stack": _Rows.stack,
    "concatenate": _Rows.join,
    "concat": _Rows.join,
    "cat": _Rows.join,
    "vstack": _Rows.vertically,
    "hstack": _Rows.horizontally,
    "column_stack": _Rows.as_columns,
}
