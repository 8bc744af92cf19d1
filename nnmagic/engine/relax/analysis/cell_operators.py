"""Define the operators of cells, and build their calls: Relay that this engine alone knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from nnmagic.engine.relax.analysis import cell_layout as cells
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.relay import expr as ir
from nnmagic.relay.types import TensorType, TupleType, Type, TypeCall, scalar_type

#: Operators of this engine. MAKE makes a cell of its operands, TAG gives the tag of a value, and FIELD what a
#: cell holds from a word on. OPEN gives the value that the words of an argument stand for, and CLOSE the
#: words for some values.
MAKE, TAG, FIELD, OPEN, CLOSE = (f"cell.{name}" for name in ("make", "tag", "field", "open", "close"))
CELL_OPERATORS = frozenset((MAKE, TAG, FIELD, OPEN, CLOSE))

BOOL = scalar_type("bool")


def parts_of_value(value: ir.Expr, type_: Type) -> list[ir.Expr]:
    """Return the expressions of the parts of a value, with their types."""
    if not isinstance(type_, TupleType):
        return [value]
    if isinstance(value, ir.Tuple):
        pairs = zip(value.fields, type_.fields, strict=True)
        return [part for field, kind in pairs for part in parts_of_value(field, kind)]
    return [
        part
        for number, kind in enumerate(type_.fields)
        for part in parts_of_value(ir.TupleGetItem(value, number, span=value.span, checked_type=kind), kind)
    ]


def nested(type_: Type, parts: Iterator[ir.Expr]) -> ir.Expr:
    """Return the parts of a value nested in tuples as its type says."""
    if isinstance(type_, TupleType):
        return ir.Tuple(tuple(nested(field, parts) for field in type_.fields), checked_type=type_)
    return next(parts)


def call_operator(name: str, args: Sequence[ir.Expr], type_: Type, **attrs: object) -> ir.Call:
    """Return a call of an operator, at the place of its first operand."""
    span = args[0].span if args else None
    return ir.Call(ir.OpRef(name), tuple(args), attrs, span=span, checked_type=type_)


def known_number(value: int) -> ir.Constant:
    """Return a number that is known at compile time, as values of data types are."""
    return ir.Constant(np.array(value, np.int64), checked_type=cells.VALUE)


def type_of_node(node: ir.Expr) -> Type:
    """Return the type of an expression, which is known."""
    type_ = type_of(node) if isinstance(node, ir.Var) else node.checked_type
    assert type_ is not None
    return type_


def compare(name: str, a: ir.Expr, b: ir.Expr) -> ir.Call:
    """Return a call of an operator whose result is a truth value."""
    return call_operator(name, (a, b), BOOL)


def make_cell(layout: cells.CellLayout, args: Sequence[ir.Expr], old: ir.Expr) -> ir.Expr:
    """Return the value that a constructor makes of its fields."""
    if not layout.fields:
        return known_number(layout.tag)
    pairs = zip(args, layout.fields, strict=True)
    parts = [part for arg, field in pairs for part in parts_of_value(arg, cells.value_type(field))]
    made = call_operator(MAKE, parts, cells.VALUE, numbers=_make_numbers(layout))
    return replace(made, span=old.span)


def _make_numbers(layout: cells.CellLayout) -> tuple[int, ...]:
    """Return the first word and the length of a cell, and of each part what `_plan_cell` reads.

    That is its word, the number of its open sizes, and of these the axes and the words.
    """
    numbers = [layout.header, layout.length]
    for part, offset, words in zip(layout.parts, layout.offsets, layout.sizes, strict=True):
        axes = cells.open_axes(part) if isinstance(part, TensorType) else ()
        numbers += [offset, len(axes)]
        numbers += (number for pair in zip(axes, words, strict=True) for number in pair)
    return tuple(numbers)


def field_numbers(part: TensorType | TypeCall, offset: int, words: Sequence[int]) -> tuple[int, ...]:
    """Return the word of a part, and if sizes are open, for each axis that of its size or a negative size."""
    if not words:
        return (offset,)
    assert isinstance(part, TensorType)
    sizes = iter(words)
    return (offset, *(-dim if isinstance(dim, int) else next(sizes) for dim in part.shape))
