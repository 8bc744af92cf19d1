"""Test the patterns of a match on values of data types, and bind their variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nnmagic.engine.relax.analysis import cell_layout as cells
from nnmagic.engine.relax.analysis.cell_operators import (
    BOOL,
    FIELD,
    TAG,
    call_operator,
    compare,
    field_numbers,
    known_number,
    nested,
    type_of_node,
)
from nnmagic.relay import expr as ir
from nnmagic.relay.types import TupleType, Type, TypeCall


class Matching:
    """Tests the patterns of a match, and binds their variables.

    What a test reads, and what an arm reads, is read where they stand: elsewhere the value may be none of the
    constructor that has it.
    """

    def __init__(self, layouts: cells.CellLayouts, data: ir.Expr, type_: Type) -> None:
        self._layouts, self._data, self._data_type = layouts, data, type_
        self._tag: ir.Expr | None = None

    def test(self, pattern: ir.Pattern) -> ir.Expr | None:
        """Return whether a pattern takes the value; None where it takes any."""
        conditions = list(self._conditions(pattern, self._data, self._data_type))
        test = conditions.pop() if conditions else None
        no = ir.Constant(np.zeros((), np.bool_), checked_type=BOOL)
        for condition in reversed(conditions):
            assert test is not None
            test = ir.If(condition, test, no, checked_type=BOOL)
        return test

    def arm(self, clause: ir.Clause) -> ir.Expr:
        """Return an arm with its variables bound."""
        body = clause.rhs
        for var, value in reversed(list(self._bindings(clause.lhs, self._data, self._data_type))):
            body = ir.Let(var, value, body, span=var.span, checked_type=type_of_node(body))
        return body

    def untaken(self, test: ir.Expr) -> Iterator[tuple[ir.Expr, str]]:
        """Yield conditions that hold where ``test`` does, or the value is not of a kind; and that kind."""
        if not isinstance(self._data_type, TypeCall):
            yield test, "this value"
            return
        for layout in self._layouts.of(self._data_type):
            other = compare("not_equal", self._tag_of(self._data), known_number(layout.tag))
            yield compare("logical_or", test, other), layout.name

    def _conditions(self, pattern: ir.Pattern, value: ir.Expr, type_: Type) -> Iterator[ir.Expr]:
        if isinstance(pattern, ir.PatternConstructor):
            assert isinstance(type_, TypeCall)
            layouts, tag = self._layouts.of(type_), pattern.constructor.tag
            if len(layouts) > 1:
                yield self._is_of(value, layouts, tag)
        for inner, part, kind in self._inner(pattern, value, type_):
            yield from self._conditions(inner, part, kind)

    def _bindings(self, pattern: ir.Pattern, value: ir.Expr, type_: Type) -> Iterator[tuple[ir.Var, ir.Expr]]:
        if isinstance(pattern, ir.PatternVar):
            yield pattern.var, value
        for inner, part, kind in self._inner(pattern, value, type_):
            yield from self._bindings(inner, part, kind)

    def _inner(
        self, pattern: ir.Pattern, value: ir.Expr, type_: Type
    ) -> Iterator[tuple[ir.Pattern, ir.Expr, Type]]:
        """Yield the patterns in a pattern, with the parts of the value that they are for, and their types."""
        match pattern:
            case ir.PatternTuple(patterns=patterns):
                assert isinstance(type_, TupleType)
                for number, (inner, kind) in enumerate(zip(patterns, type_.fields, strict=True)):
                    part = ir.TupleGetItem(value, number, checked_type=cells.value_type(kind))
                    yield inner, value.fields[number] if isinstance(value, ir.Tuple) else part, kind
            case ir.PatternConstructor(constructor=constructor, patterns=patterns):
                assert isinstance(type_, TypeCall)
                layout = self._layouts.of(type_)[constructor.tag]
                for inner, kind, range_ in zip(patterns, layout.fields, layout.ranges(), strict=True):
                    if isinstance(inner, ir.PatternWildcard):
                        continue
                    places = zip(
                        layout.parts[range_], layout.offsets[range_], layout.sizes[range_], strict=True
                    )
                    parts = (
                        call_operator(
                            FIELD, (value,), cells.value_type(place[0]), numbers=field_numbers(*place)
                        )
                        for place in places
                    )
                    yield inner, nested(cells.value_type(kind), parts), kind

    def _is_of(self, value: ir.Expr, layouts: Sequence[cells.CellLayout], tag: int) -> ir.Expr:
        """Return whether a constructor made a value."""
        if not layouts[tag].fields:
            return compare("equal", value, known_number(tag))
        if sum(bool(layout.fields) for layout in layouts) == 1:
            return compare("greater_equal", value, known_number(cells.LEAST_ADDRESS))
        return compare("equal", self._tag_of(value), known_number(tag))

    def _tag_of(self, value: ir.Expr) -> ir.Expr:
        if value is not self._data:
            return call_operator(TAG, (value,), cells.VALUE)
        self._tag = self._tag or call_operator(TAG, (value,), cells.VALUE)
        return self._tag
