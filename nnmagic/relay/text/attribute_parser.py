"""Parse ``name=value`` attributes and complete those of an operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from nnmagic.diagnostics import Span
from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops import Attr, Operator, RelationError
from nnmagic.relay.ops.attributes import BOOL
from nnmagic.relay.text.cursor import MAX_NESTING, TokenCursor, clip, did_you_mean
from nnmagic.relay.text.literals import read_number, read_string
from nnmagic.relay.text.metadata import METADATA_ATTRS
from nnmagic.relay.text.type_parser import Metadata
from nnmagic.relay.types import ANY

_WORDS = {"True": True, "False": False, "None": None, "nullptr": None}


@dataclass(slots=True)
class GivenAttrs:
    """Attributes as they were written: their values, the spans of the names and of the values."""

    values: dict[str, object] = field(default_factory=dict)
    name_spans: dict[str, Span] = field(default_factory=dict)
    value_spans: dict[str, Span] = field(default_factory=dict)


def at_attribute(cursor: TokenCursor) -> bool:
    """Return whether the cursor is at ``name=``."""
    following = cursor.ahead()
    return cursor.current.kind == "name" and following.text == "=" and following.kind == "symbol"


def parse_attributes(cursor: TokenCursor, metadata: Metadata) -> GivenAttrs:
    """Parse ``name=value, name=value``; a comma may follow. Relay takes the last of repeated names."""
    attrs = GivenAttrs()
    while at_attribute(cursor):
        name = cursor.advance()
        cursor.advance()
        first = cursor.current
        attrs.values[name.text] = _value(cursor, metadata, depth=0)
        attrs.name_spans[name.text] = cursor.span(name)
        attrs.value_spans[name.text] = cursor.span_from(first)
        if not cursor.accept(","):
            break
    return attrs


def _value(cursor: TokenCursor, metadata: Metadata, depth: int) -> object:
    token = cursor.current
    if depth > MAX_NESTING:
        cursor.fail(f"attributes are nested more than {MAX_NESTING} deep", token)
    match token.kind, token.text:
        case "number", text:
            cursor.advance()
            try:
                return read_number(text).attr_value()
            except ValueError as error:
                cursor.fail(str(error), token)
        case "string", text:
            cursor.advance()
            return read_string(text)
        case "name", "meta":
            return metadata.entry(cursor)
        case "name", text if text in _WORDS:
            cursor.advance()
            return _WORDS[text]
        case "symbol", "?":
            cursor.advance()
            return ANY
        case "symbol", "[":
            return tuple(cursor.parse_list("[", "]", lambda: _value(cursor, metadata, depth + 1)))
        case "symbol", "(":
            cursor.advance()
            inner = _value(cursor, metadata, depth + 1)
            cursor.expect(")")
            return inner
    return cursor.fail_expecting("an attribute's value (a number, a string, True, False, None or a list)")


def complete(cursor: TokenCursor, operator: Operator, attrs: GivenAttrs, call: Span) -> Attrs:
    """Complete the attributes of a call of ``operator``. Fails at the wrong attribute, or at the call."""
    values: dict[str, object] = {}
    for name, written in attrs.values.items():
        # Relay requires it with the attributes of operators that are registered without an attribute class.
        if name == "attrs_type_key" and written == operator.attrs_key and operator.name in METADATA_ATTRS:
            continue
        attr = operator.attr(name) or _unknown_attribute(cursor, operator, name, attrs.name_spans[name])
        values[name] = _as_number(attr, written)
        problem = _problem(attr, values[name])
        if problem is not None:
            cursor.fail(f"{operator.name}: attribute {name!r} {problem}", attrs.value_spans[name])
    try:
        return operator.complete_attrs(values)
    except RelationError as error:
        cursor.fail(error.message, call, hint=error.hint)


def _as_number(attr: Attr, value: object) -> object:
    """Convert as Relay does: True and False to 1 and 0 for a number, any number to a bool."""
    if attr.kind is BOOL:
        return value != 0 if isinstance(value, int) else value
    if _problem(attr, value) is None:
        return value
    number = _without_bools(value)
    return value if _problem(attr, number) else number


def _without_bools(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_without_bools, value))
    return int(value) if isinstance(value, bool) else value


def _problem(attr: Attr, value: object) -> str | None:
    """Say what is wrong with a value, as the end of the sentence "attribute 'x' ..."."""
    try:
        coerced = attr.kind.coerce(value)
    except (TypeError, ValueError) as error:
        return str(error)
    if isinstance(coerced, tuple) and not isinstance(value, tuple):
        return f"must be a list, as in `{attr.name}=[{value}]`"
    return None


def _unknown_attribute(cursor: TokenCursor, operator: Operator, name: str, span: Span) -> NoReturn:
    names = [attr.name for attr in operator.attrs]
    hint = did_you_mean(name, names) or (f"its attributes: {', '.join(names)}" if names else None)
    cursor.fail(f"{operator.name} has no attribute `{clip(name)}`", span, hint=hint)


def attrs_from_metadata(values: Mapping[str, object], span: Span) -> GivenAttrs:
    """Return attributes from the metadata section, with the span of the reference to them."""
    spans = dict.fromkeys(values, span)
    return GivenAttrs(dict(values), spans, spans)
