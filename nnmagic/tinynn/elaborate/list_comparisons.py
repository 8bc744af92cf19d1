"""Compare lists of numbers that have as many items as only the call knows."""

from __future__ import annotations

from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.elaborate.lists_as_rows import as_list_of_rows
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.operators.mixed_operands import COMPARISONS, AnyOp
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.values import values as v

_LISTS = (v.ListOfRows, v.TupleOf)
_START, _ZERO = v.Known(None), v.Known(0)


def compare_lists(op: AnyOp, sign: str, lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Value | None:
    """Compare two lists, one of which is of rows, as Python does; None for anything else."""
    sides = (lhs, rhs)
    if (
        op not in COMPARISONS
        or not any(isinstance(each.value, v.ListOfRows) for each in sides)
        or not all(isinstance(each.value, _LISTS) for each in sides)
    ):
        return None

    def call(name: str, *values: v.Value) -> v.Value:
        return BUILTINS[name].call([v.Operand(value, span) for value in values], span)

    def compared(op: AnyOp, sign: str, one: v.Value, other: v.Value) -> v.Value:
        return binary(op, sign, v.Operand(one, span), v.Operand(other, span), span)

    lengths = [BUILTINS["len"].call([each], span) for each in sides]
    ends = compared(op, sign, lengths[0], lengths[1])
    if any(each.value == v.TupleOf(()) for each in sides):
        return ends
    common = v.SliceOf(_START, call("minimum", *lengths), _START)
    padded = []  # the numbers in the places that both have, and one behind them that is equal
    for side in sides:
        numbers = _numbers_of(side)
        if numbers is None:
            return None
        first = subscript(v.Operand(numbers, side.span), [v.Operand(common, span)], span)
        padded.append(call("append", first, _ZERO))
    differs = compared(BuiltinOp.NotEq, "!=", padded[0], padded[1])
    if op is BuiltinOp.Eq:
        return call("logical_and", ends, call("logical_not", call("any", differs)))
    if op is BuiltinOp.NotEq:
        return call("logical_or", ends, call("any", differs))
    place = v.Operand(call("argmax", differs), span)
    items = [subscript(v.Operand(each, span), [place], span) for each in padded]
    return call("where", call("any", differs), compared(op, sign, items[0], items[1]), ends)


def _numbers_of(operand: v.Operand) -> v.Computed | None:
    """Return the tensor of a list of numbers; None for anything else."""
    value = operand.value
    rows = as_list_of_rows(value, operand.span) if isinstance(value, v.TupleOf) else value
    if not isinstance(rows, v.ListOfRows) or not isinstance(rows.rows.type, TensorType):
        return None
    return rows.rows if len(rows.rows.type.shape) == 1 else None
