"""Define how values of several paths become one: plans, and the expressions of a value that a plan keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.ops.calls import call
from nnmagic.tinynn.elaborate.lists_as_rows import as_list_of_rows
from nnmagic.tinynn.elaborate.merge_conversions import convert
from nnmagic.tinynn.elaborate.optional_values import is_absent, may_be_none, zeros_of
from nnmagic.tinynn.operators import tables
from nnmagic.tinynn.values import values as v


@dataclass(frozen=True, slots=True)
class Same:
    """All values are one, which needs no code."""

    value: v.Value


@dataclass(frozen=True, slots=True)
class Expression:
    """Each value becomes a Relay expression of one type."""

    type: ty.Type
    weak: bool
    default_dtype: Span | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """The values are tuples of one length, which merge item by item."""

    items: tuple[MergePlan, ...]
    record: ty.RecordType | None = None
    is_list: bool = False  # a list of rows, whose tensor is the only item
    is_table: int = 0  # a list of rows that are lists
    written: str = field(default="", compare=False)  # of a tuple: how it was written
    is_hashed: bool = False  # a dictionary or a set whose keys only the call knows
    is_row: bool = False  # such a row
    columns: v.Columns = ()  # of a list of rows that are tuples
    is_shared: bool = False  # of lists that may have other names


@dataclass(frozen=True, slots=True)
class Choice:
    """The values are functions, of which each becomes its number."""

    functions: tuple[v.Value, ...]


MergePlan = Same | Expression | Items | Choice


def is_choice(value: v.Value) -> TypeGuard[v.GradientOf]:
    """Return whether a value is one of several functions."""
    return isinstance(value, v.GradientOf) and value.kind == "choice"


#: Where a plan makes a table of what is known, whose parts no error points at.
NOWHERE = Span("", 1, 1, 1, 1)


def is_empty_list(value: v.Value) -> bool:
    """Return whether a value is a list without items."""
    return isinstance(value, v.TupleOf) and not value.items and value.written == "list"


def as_rows(value: v.Value) -> v.ListOfRows | None:
    """Return a list of numbers or equal tensors as rows, as many as only the call knows; None for others."""
    is_list = isinstance(value, v.TupleOf) and value.written != "tuple"
    rows = as_list_of_rows(value, NOWHERE) if is_list else None  # type: ignore[arg-type]  # a list
    if rows is None or rows.is_table or not isinstance(rows.rows.type, ty.TensorType):
        return None
    return rows


def _parts_of(plan: Items, value: v.Value, span: Span) -> Sequence[v.Value]:
    """Return the values that merge with the items of a plan. Raises RefusalError."""
    if may_be_none(plan):
        if is_absent(value):
            return v.Known(value=False), _absent(plan.items[1])
        if isinstance(value, v.TupleOf) and may_be_none(value):
            return value.items
        return v.Known(value=True), value
    if plan.is_list:
        if is_empty_list(value):
            (rows_type,) = (part.type for part in types_of(as_expressions(plan)))
            return (_no_rows(rows_type, span),)
        rows = value if isinstance(value, v.ListOfRows) else as_rows(value)
        assert rows is not None
        return (rows.rows,)
    if not plan.is_hashed:
        assert isinstance(value, v.TupleOf)
        return value.items
    table = tables.as_table(value, span)
    if table is None:  # it is empty
        key, example = _entry_of(plan.items[1]), _entry_of(plan.items[-1])
        assert isinstance(key, v.Computed)
        table = tables.empty_table(key, example, span)
    return table.parts


def _absent(plan: MergePlan) -> v.Value:
    """Return zeros in place of a value that is None."""
    match plan:
        case Items(items=items):
            return v.TupleOf(tuple(map(_absent, items)), record=plan.record, written=plan.written)
        case Expression(type=type_, weak=weak):
            return zeros_of(type_, weak=weak)
    return v.Known(None)


def _no_rows(type_: ty.Type, span: Span) -> v.Computed:
    """Return an array of no rows that are like those of a type."""
    assert isinstance(type_, ty.TensorType)
    shape = (0, *(size if isinstance(size, int) else 0 for size in type_.shape[1:]))
    dtype = type_.dtype
    zeros = ir.constant(np.zeros(shape, ty.NUMPY_DTYPES.get(dtype, dtype)), dtype, span=span)
    return v.Computed(zeros, replace(type_, shape=shape))


def as_expressions(plan: MergePlan) -> MergePlan:
    """Return a plan of rows with an expression for each, also for those that are one so far."""
    match plan:
        case Items(items=items):
            return replace(plan, items=tuple(map(as_expressions, items)))
        case Same(value=v.Computed(type=type_, weak=weak)):
            return Expression(type_, weak)
    return plan


def _entry_of(plan: MergePlan) -> v.Value:
    """Return zeros that are like one of the rows that merge."""
    match as_expressions(plan):
        case Items(items=items, written=written):
            return v.TupleOf(tuple(map(_entry_of, items)), written=written)
        case Expression(type=ty.TensorType(shape=shape, dtype=dtype), weak=weak):
            sizes = tuple(size if isinstance(size, int) else 1 for size in shape[1:])
            zeros = ir.constant(np.zeros(sizes, ty.NUMPY_DTYPES.get(dtype, dtype)), dtype)
            return v.Computed(zeros, ty.TensorType(sizes, dtype), weak)
    return v.Known(None)


def expressions(plan: MergePlan, value: v.Value, span: Span) -> Iterator[ir.Expr]:
    """Yield what a value contributes to a plan. Raises RefusalError for a number that does not fit."""
    match plan:
        case Items(items=items):
            for item, part in zip(items, _parts_of(plan, value, span), strict=True):
                yield from expressions(item, part, span)
        case Expression(type=type_):
            yield convert(value, type_, span)
        case Choice(functions=functions):
            own = [part.value for part in value.arguments] if is_choice(value) else [value]
            numbers = [next(n for n, function in enumerate(functions) if function is each) for each in own]
            index = value.function.value if is_choice(value) else None
            if not isinstance(index, v.Computed):
                yield ir.constant(numbers[0], "int64", span=span)
            else:
                yield call(
                    "take", [ir.constant(numbers, "int64", span=span), index.expr], span, axis=0, mode="fast"
                )


def types_of(plan: MergePlan) -> Iterator[Expression]:
    """Yield the types of the expressions of a plan, in order."""
    match plan:
        case Expression():
            yield plan
        case Choice():
            yield Expression(ty.scalar_type("int64"), weak=False)
        case Items(items=items):
            for item in items:
                yield from types_of(item)


def rebuild(plan: MergePlan, exprs: Iterator[ir.Expr]) -> v.Value:
    """Build the merged value from the expressions that hold it."""
    match plan:
        case Same(value=value):
            return value
        case Items(items=(only,), is_list=True):
            rows = v.dynamic(rebuild(only, exprs))
            return v.ListOfRows(rows, plan.is_table, plan.is_row, plan.columns, plan.is_shared)
        case Items(items=items, is_hashed=True):
            return v.TableOf(*(rebuild(item, exprs) for item in items))  # type: ignore[arg-type]  # its parts
        case Items(items=items):
            made = tuple(rebuild(item, exprs) for item in items)
            return v.TupleOf(made, record=plan.record, written=plan.written)
        case Choice(functions=functions):
            index = v.Operand(v.Computed(next(exprs), ty.scalar_type("int64")), NOWHERE)
            return v.GradientOf(
                "choice", index, arguments=tuple(v.Operand(each, NOWHERE) for each in functions)
            )
        case Expression(type=type_, weak=weak):
            expr = next(exprs)
            if plan.default_dtype is not None:
                return v.Computed(expr, type_, default_dtype=plan.default_dtype)
            return v.Computed(expr, type_, weak=True) if weak else v.as_value(expr, type_)
