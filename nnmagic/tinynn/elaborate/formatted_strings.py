"""Elaborate formatted strings of values that are known at compile time: ``state[f"layer{i}.weight"]``."""

from __future__ import annotations

import re

from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.values import FAILED, Known, RefusalError, Value, is_failed

#: The largest width and precision of a value.
_WIDEST = 1000
_CONVERSIONS = {-1: None, ord("s"): str, ord("r"): repr, ord("a"): ascii}


def elaborate_formatted_string(ctx: Elaboration, expr: tree.FormattedString) -> Value:
    """Return the text; each value in it must be known at compile time. Raises RefusalError."""
    text = ""
    for piece_node in expr.parts:
        if isinstance(piece_node, str):
            text += piece_node
            continue
        value = ctx.evaluate(piece_node.value)
        if is_failed(value):
            return FAILED
        spec = Known("") if piece_node.spec is None else elaborate_formatted_string(ctx, piece_node.spec)
        if is_failed(spec):
            return FAILED
        assert isinstance(spec, Known)
        text += format_known(ctx, piece_node, value, str(spec.value))
    return Known(text)


def format_known(ctx: Elaboration, node: tree.FormattedValue, value: Value, spec: str) -> str:
    """Return the text of a value that is known at compile time. Raises RefusalError for another value."""
    known = value.value if isinstance(value, Known) else ...
    if not isinstance(known, bool | int | float | str | None):
        message = f"a formatted string holds values that are known at compile time, not {describe(value)}"
        hint = "loop over numbers that are known then, as in for i in range(4)"
        raise RefusalError(message, ctx.span(node.span), hint=hint)
    if any(len(digits) > 4 or int(digits) > _WIDEST for digits in re.findall(r"\d+", spec)):
        message = f"a value in a formatted string has at most {_WIDEST} characters"
        raise RefusalError(message, ctx.span(node.span))
    convert = _CONVERSIONS[node.conversion]
    try:
        return format(known if convert is None else convert(known), spec)
    except (ValueError, TypeError, OverflowError) as error:
        raise RefusalError(f"{error}", ctx.span(node.span)) from None
