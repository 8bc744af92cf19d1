"""Give results that are None or strings on some paths only a form that a compiled function can return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.tinynn.builtins.list_results import mixed_tuples
from nnmagic.tinynn.elaborate.merge_plans import Items, MergePlan, as_rows, is_empty_list
from nnmagic.tinynn.elaborate.merging import MergeConflictError, of_any_length, plan_merge
from nnmagic.tinynn.elaborate.optional_values import may_be_none
from nnmagic.tinynn.values import values as v


def results_of_paths(values: Sequence[v.Value]) -> list[v.Value]:
    """Return what the paths of a function return, where a string or None on one stands beside others.

    Known values that differ become the number of one among all of them, and what may be None a pair: whether
    it is there, and the value. Calls from Python turn both back.
    """
    if all(isinstance(value, v.TupleOf) and value.record is None and value.items for value in values):
        items = [value.items for value in values if isinstance(value, v.TupleOf)]
        if len(set(map(len, items))) == 1:
            columns = [results_of_paths(value) for value in zip(*items, strict=True)]
            rows = list(zip(*columns, strict=True))
            kept = zip(values, items, rows, strict=True)
            return [
                value
                if all(a is b for a, b in zip(own, row, strict=True))
                else v.TupleOf(row, written="tuple")
                for value, own, row in kept
            ]
    if len({value.columns if isinstance(value, v.ListOfRows) else () for value in values}) == 1:
        values = list(map(mixed_tuples, values))
    known = [value for value in values if _is_known(value)]
    if len(known) == len(values):
        return _chosen(values)
    if known and all(value == v.Known(None) for value in known):
        return _optional(values)
    return list(values)


def _is_known(value: v.Value) -> bool:
    return isinstance(value, v.Known) and (value.value is None or isinstance(value.value, str))


def _chosen(values: Sequence[v.Value]) -> list[v.Value]:
    """Return known values as numbers of one of them; all as they are where they are equal."""
    every = tuple(dict.fromkeys(value.value for value in values if isinstance(value, v.Known)))
    if len(every) == 1:
        return list(values)
    record = ty.RecordType((), ty.CHOICE, every)  # type: ignore[arg-type]  # see CHOICE
    return [
        v.TupleOf((v.Known(every.index(value.value)),), record=record)
        for value in values
        if isinstance(value, v.Known)
    ]


def _optional(values: Sequence[v.Value]) -> list[v.Value]:
    """Return values with whether they are there; zeros stand for None."""
    record = ty.RecordType((), ty.OPTIONAL, ("given", "value"))
    zeros = next((found for value in values if (found := _zeros_like(value)) is not None), None)
    if zeros is None or any(map(may_be_none, values)):
        return list(values)
    parts = [(value != v.Known(None), zeros if value == v.Known(None) else value) for value in values]
    return [v.TupleOf((v.Known(given), value), record=record) for given, value in parts]


def _zeros_like(value: v.Value) -> v.Value | None:
    match value:
        case v.Computed(type=ty.TensorType(shape=shape, dtype=dtype), weak=weak):
            sizes = [size if isinstance(size, int) else 0 for size in shape]
            constant = ir.constant(np.zeros(sizes, ty.ARRAY_DTYPES[dtype]), dtype)
            open_sizes = tuple(size if isinstance(size, int) else ty.ANY for size in shape)
            return v.Computed(constant, ty.TensorType(open_sizes, dtype), weak)
        case v.Known(value=bool() | int() | float() | complex() as number):
            return v.Known(type(number)(0))
        case v.Dimension():
            return v.Known(0)
        case v.TupleOf(items=items):
            parts = [_zeros_like(item) for item in items]
            known = [item for item in parts if item is not None]
            return replace(value, items=tuple(known), whole=None) if len(known) == len(parts) else None
        case v.ListOfRows(rows=rows):
            zeros = _zeros_like(rows)
            return replace(value, rows=zeros) if isinstance(zeros, v.Computed) else None
    return None


def plan_lists(values: Sequence[v.Value]) -> MergePlan | None:
    """Return a plan for lists of any length, or for tuples that hold some; None for other values."""
    try:
        tuples = [
            value.items for value in values if isinstance(value, v.TupleOf) and value.written == "tuple"
        ]
        if len(tuples) == len(values) and len(set(map(len, tuples))) == 1:
            columns = list(zip(*tuples, strict=True))
            lists = list(map(plan_lists, columns))
            plans = (one or plan_merge(column) for one, column in zip(lists, columns, strict=True))
            return Items(tuple(plans), written="tuple") if any(lists) else None
        rows = [value if isinstance(value, v.ListOfRows) else as_rows(value) for value in values]
        found = [row for row, value in zip(rows, values, strict=True) if not is_empty_list(value)]
        known = [row for row in found if row is not None and not row.is_table and not row.is_row]
        return of_any_length(plan_merge(known)) if known and len(known) == len(found) else None
    except (MergeConflictError, v.RefusalError):
        return None
