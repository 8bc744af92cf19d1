"""Elaborate texts that have values in them: what ``print`` writes, and the messages of exceptions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias

from nnmagic.diagnostics import Note, Span
from nnmagic.relay.failures import RAISE, Failure
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.reference.printing import text_of
from nnmagic.relay.types import ARRAY_DTYPES, is_complex
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.formatted_strings import elaborate_formatted_string, format_known
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.syntax.printing import next_number
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import call_operator, is_tensor, tensor_type
from nnmagic.tinynn.values.symbolic_sizes import as_number

#: A part of a layout, as ``nnmagic.relay.reference.printing`` describes it.
_Piece: TypeAlias = object


def elaborate_print(ctx: Elaboration, expr: tree.Printed) -> v.Value:
    """Return the call of the operator, whose value is true. Raises RefusalError for what has no text."""
    tensors: list[v.Computed] = []
    pieces = _pieces(ctx, expr.parts, tensors)
    if pieces is None:
        return v.FAILED
    span = ctx.span(expr.span)
    attrs = {"layout": json.dumps(pieces), "number": next_number()}
    return call_operator(OPERATORS["python.print"], [v.Operand(v.TupleOf(tuple(tensors)), span)], attrs, span)


def elaborate_message(
    ctx: Elaboration, message: tree.Message, kind: str, span: Span
) -> tuple[Failure | None, v.Computed] | None:
    """Return the exception of a class with a message, and the call of the operator that raises it.

    The exception is None where its message has values of the call. None where an error was reported. Raises
    RefusalError for what has no text.
    """
    tensors: list[v.Computed] = []
    pieces = _pieces(ctx, message.parts, tensors)
    if pieces is None:
        return None
    if tensors and ctx.parallel is not None:
        refused = "a loop whose rounds threads share raises exceptions with messages that are known before"
        hint = "leave the values out of the message, or write range(...)"
        raise v.RefusalError(refused, span, hint=hint, notes=(Note("this is the loop", ctx.parallel),))
    layout = json.dumps(pieces)
    attrs = {"layout": layout, "kind": kind, "number": message.number}
    raised = call_operator(OPERATORS[RAISE], [v.Operand(v.TupleOf(tuple(tensors)), span)], attrs, span)
    assert isinstance(raised, v.Computed)
    return None if tensors else Failure(text_of(layout, ()), kind), raised


def _pieces(
    ctx: Elaboration, parts: Sequence[str | tree.FormattedValue], tensors: list[v.Computed]
) -> list[_Piece] | None:
    """Return the layout of a text; ``tensors`` takes the values in it. None where an error was reported."""
    texts: list[_Piece] = []
    for text in parts:
        if isinstance(text, str):
            texts.append(text)
            continue
        operand = ctx.operand(text.value)
        spec = v.Known("") if text.spec is None else elaborate_formatted_string(ctx, text.spec)
        if v.is_failed(operand.value) or v.is_failed(spec):
            return None
        assert isinstance(spec, v.Known)
        texts.append(_piece(ctx, operand, text, str(spec.value), tensors))
    return texts


def _piece(
    ctx: Elaboration, operand: v.Operand, field: tree.FormattedValue, spec: str, tensors: list[v.Computed]
) -> _Piece:
    value = operand.value
    if isinstance(value, v.TupleOf):
        if spec or field.conversion not in (-1, ord("r")):
            raise v.RefusalError("a tuple has no format", operand.span, hint="print its items one by one")
        items = (v.Operand(item, operand.span) for item in value.items)
        plain = tree.FormattedValue(field.span, field.value, ord("r"), None)
        return {"tuple": [_piece(ctx, item, plain, "", tensors) for item in items]}
    if isinstance(value, v.Known):
        has_text = isinstance(value.value, bool | int | float | str | None)
        return format_known(ctx, field, value if has_text else v.Known(describe(value)), spec)
    operand = as_number(operand)
    if not is_tensor(operand.value) or is_complex(tensor_type(operand).dtype):
        message = f"a text shows tensors, numbers, strings and tuples of them, not {describe(value)}"
        hint = "write its real and its imaginary part" if is_tensor(operand.value) else None
        raise v.RefusalError(message, operand.span, hint=hint)
    _check_format(operand, spec, field.conversion)
    tensors.append(operand.dynamic)
    number = len(tensors) - 1
    if operand.dynamic.weak and field.conversion == ord("r") and not spec:
        return {"number": number}
    return [number, spec, field.conversion]


def _check_format(operand: v.Operand, spec: str, conversion: int) -> None:
    """Raise RefusalError unless a tensor can be formatted like this, which its type decides."""
    type_ = tensor_type(operand)
    if type_.shape and spec and conversion == -1:
        hint = "print it without a format, or an element: f'{x[0]:.3f}'"
        raise v.RefusalError(f"an array has no format {spec!r}", operand.span, hint=hint)
    sample = ARRAY_DTYPES[type_.dtype].type(1) if conversion == -1 else ""
    try:
        format(sample, spec)
    except (ValueError, TypeError) as error:
        raise v.RefusalError(f"{error}", operand.span) from None
