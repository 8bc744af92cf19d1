"""Parse the patterns of a match."""

from __future__ import annotations

from collections.abc import Mapping

from nnmagic.relay import expr as ir
from nnmagic.relay.text.cursor import MAX_NESTING, TokenCursor, clip, did_you_mean
from nnmagic.relay.text.type_parser import TypeParser


def parse_pattern(
    cursor: TokenCursor, types: TypeParser, constructors: Mapping[str, ir.Constructor], depth: int = 0
) -> ir.Pattern:
    """Parse ``_``, ``%v``, ``(p, q)`` or ``Cons(p, q)``."""
    token = cursor.current
    if depth > MAX_NESTING:
        cursor.fail(f"patterns are nested more than {MAX_NESTING} deep", token)

    def patterns() -> tuple[ir.Pattern, ...]:
        return tuple(
            cursor.parse_list("(", ")", lambda: parse_pattern(cursor, types, constructors, depth + 1))
        )

    if cursor.at_word("_"):
        cursor.advance()
        return ir.PatternWildcard()
    if token.kind == "local":
        return ir.PatternVar(types.binder())
    if cursor.at("("):
        return ir.PatternTuple(patterns())
    if token.kind != "name":
        cursor.fail_expecting("a pattern")
    constructor = constructors.get(token.text)
    if constructor is None:
        hint = did_you_mean(token.text, constructors) or f"a variable is written `%{clip(token.text)}`"
        cursor.fail(f"constructor `{clip(token.text)}` is not known", token, hint=hint)
    cursor.advance()
    fields = patterns() if cursor.at("(") else ()
    if len(fields) != len(constructor.inputs):
        wanted = f"{len(constructor.inputs)} field{'s' * (len(constructor.inputs) != 1)}"
        cursor.fail(f"`{token.text}` has {wanted}, the pattern {len(fields)}", cursor.span_from(token))
    return ir.PatternConstructor(constructor, fields)
