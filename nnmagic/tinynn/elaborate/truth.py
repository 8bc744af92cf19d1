"""Decide conditions: at compile time where the value is static, else as a bool of rank 0."""

from __future__ import annotations

from dataclasses import replace

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.tinynn.elaborate.optional_values import may_be_none
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, is_tensor, tensor_type
from nnmagic.tinynn.values.symbolic_sizes import as_number, size_along


def truth_of(operand: v.Operand, word: str) -> bool | v.Computed | None:
    """Return whether a condition holds: a bool, or a dynamic one of rank 0; None where it failed.

    Raises RefusalError for a value that has no truth value.
    """
    operand = as_number(operand)
    value = operand.value
    if v.is_failed(value):
        return None
    if is_tensor(value):
        return _tensor_truth(operand, word)
    if isinstance(value, v.TableOf):
        return apply("greater", operand.span, value.size, number_constant(0, "int64", operand.span))
    if isinstance(value, v.ListOfRows):
        size = as_number(v.Operand(size_along(value.rows, 0, operand.span), operand.span)).value
        if isinstance(size, v.Known):
            return bool(size.value)
        assert isinstance(size, v.Computed)
        return apply("greater", operand.span, size, number_constant(0, "int64", operand.span))
    if isinstance(value, v.TupleOf) and may_be_none(value):
        given, held = (truth_of(replace(operand, value=item), word) for item in value.items)
        if isinstance(given, v.Computed) and isinstance(held, v.Computed):
            return apply("logical_and", operand.span, given, held)
        return given if (not isinstance(given, v.Computed) and not given) or held is True else held
    static = v.static_or(value, value)
    if isinstance(static, bool | int | float | complex | str | tuple | None):
        return bool(static)
    if isinstance(value, v.TupleOf):
        return bool(value.items)
    raise v.RefusalError(f"`{word}` takes a condition, not {describe(value)}", operand.span)


def _tensor_truth(operand: v.Operand, word: str) -> bool | v.Computed:
    value, type_ = operand.dynamic, tensor_type(operand)
    if isinstance(value.expr, ir.Constant) and value.expr.data.size == 1:
        return bool(value.expr.data.item())
    if any(dim != 1 for dim in type_.shape):
        name = source_text(operand.span)
        message = f"`{word}` needs one truth value, not {describe(value)}"
        hint = f"write {name}.any() or {name}.all()"
        if word in ("and", "or"):
            hint = f"element by element it is {'&' if word == 'and' else '|'}; or write {name}.any()"
        raise v.RefusalError(message, operand.span, hint=hint)
    if type_.shape:
        value = apply("squeeze", operand.span, value, axis=list(range(len(type_.shape))))
    if type_.dtype == "bool":
        return value
    zero = number_constant(0, type_.dtype, operand.span)
    return apply("not_equal", operand.span, value, zero)


def negate(operand: v.Operand, span: Span) -> v.Value:
    """Return ``not x``. Raises RefusalError."""
    truth = truth_of(operand, "not")
    if truth is None:
        return v.FAILED
    return v.Known(not truth) if isinstance(truth, bool) else apply("logical_not", span, truth)
