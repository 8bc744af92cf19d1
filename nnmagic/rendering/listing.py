"""Coloured text as HTML: Relay with types and summaries to hover, and the source lines that it came from."""

from __future__ import annotations

import html
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pygments.lexer import Lexer

from nnmagic.diagnostics import Span
from nnmagic.relay.expr import Call, Expr, Function, Let, OpRef, Var
from nnmagic.relay.infer import erase_types
from nnmagic.relay.module import Module
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.text.source_map import TextRange, text_with_ranges
from nnmagic.relay.traverse import post_order
from nnmagic.relay.types import Type
from nnmagic.rendering.lexer import RelayLexer
from nnmagic.rendering.theme import token_class


def code_html(text: str, lexer: Lexer) -> str:
    """A text in colours, a line a ``span``."""
    lines = _colored_lines(text, lexer, {})
    return f'<div class="code">{"".join(map(_line, lines))}</div>'


def relay_html(module: Module, *, beside_source: bool = True) -> str:
    """A typed module as its untyped text: hovering an operator or a value shows its type.

    ``beside_source``: the lines stand in rows beside the source lines that they came from.
    """
    untyped = erase_types(module)
    text, places = text_with_ranges(untyped)
    types = _types(untyped, module)
    titles: dict[int, str] = {}
    for place in places:  # inner places come later: a call's own text begins with that of its operator
        if title := _title(place, types):
            titles[place.start] = title
    lines = _colored_lines(text, RelayLexer(), titles)
    if not beside_source:
        return f'<div class="code">{"".join(map(_line, lines))}</div>'
    rows = _rows(lines, _spans(text, places))
    return f'<div class="code beside">{"".join(map(_row, rows))}</div>'


def _types(untyped: Module, typed: Module) -> Mapping[Expr, Type | None]:
    """The types of a module's nodes, by the same nodes without them: walks meet both in the same order."""
    types: dict[Expr, Type | None] = {}
    for name, function in untyped.functions.items():
        for node, twin in zip(post_order(function), post_order(typed.functions[name]), strict=True):
            types[node] = twin.checked_type
    return types


def _title(place: TextRange, types: Mapping[Expr, Type | None]) -> str | None:
    match place.expr:
        case Function() | Let() | OpRef():
            return None
        case Call(op=OpRef(name=name)) if name in OPERATORS:
            return f"{name} -> {types.get(place.expr)}\n{OPERATORS[name].summary}"
    type_ = types.get(place.expr)
    return None if type_ is None else str(type_)


def _colored_lines(text: str, lexer: Lexer, titles: Mapping[int, str]) -> list[str]:
    """The lines of a text as HTML; ``titles``: what hovering the token shows that begins at an offset."""
    lines = [""]
    for start, kind, token in lexer.get_tokens_unprocessed(text):
        name, title = token_class(kind), titles.get(start)
        attributes = (f' class="{name}"' if name else "") + (f' title="{_attribute(title)}"' if title else "")
        first, *others = token.split("\n")
        if lines[-1].isspace():  # nbconvert would make one blank of an indentation that stands alone
            lines[-1] = _span(lines[-1] + first, attributes)
        else:
            lines[-1] += _span(first, attributes)
        lines += [_span(other, attributes) for other in others]
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


def _span(text: str, attributes: str) -> str:
    shown = html.escape(text, quote=False)
    return f"<span{attributes}>{shown}</span>" if attributes and text else shown


def _attribute(text: str) -> str:
    return html.escape(text).replace("\n", "&#10;")


def _line(line: str) -> str:
    return f'<span class="line">{line}\n</span>'


@dataclass(slots=True)
class _Row:
    """Lines of Relay that came from one line of source."""

    origin: tuple[Span, int] | None
    lines: list[str] = field(default_factory=list)


def _spans(text: str, places: Iterable[TextRange]) -> Mapping[int, Span]:
    """Where each line of Relay text came from: the widest expression that begins in it says so."""
    starts = [0, *(index + 1 for index, char in enumerate(text) if char == "\n")]
    found: dict[int, Span] = {}
    width: dict[int, int] = defaultdict(int)
    for place in places:
        line = bisect_right(starts, place.start) - 1
        reach = place.end - place.start
        if place.expr.span is not None and not _is_name(place, text) and reach > width[line]:
            found[line], width[line] = place.expr.span, reach
    return found


def _is_name(place: TextRange, text: str) -> bool:
    """Whether it is a variable or a number, which says where a value is defined, not where it is used."""
    return isinstance(place.expr, Var) or text.startswith("%", place.start)


def _rows(lines: Iterable[str], spans: Mapping[int, Span]) -> Iterator[_Row]:
    row: _Row | None = None
    for index, line in enumerate(lines):
        span = spans.get(index)
        origin = (span, span.line) if span is not None and span.source is not None else None
        same = row is not None and (origin is None or _same(origin, row.origin))
        if row is None or not same:
            if row is not None:
                yield row
            row = _Row(origin)
        row.lines.append(line)
        if line == "}":  # a function ends
            yield row
            row = None
    if row is not None:
        yield row


def _same(left: tuple[Span, int], right: tuple[Span, int] | None) -> bool:
    return right is not None and left[1] == right[1] and left[0].source == right[0].source


def _row(row: _Row) -> str:
    origin = ""
    if row.origin is not None:
        span, number = row.origin
        source = span.source.line(number) if span.source is not None else None
        shown = html.escape((source or "").rstrip())
        origin = f'<span class="no">{number}</span><span title="{shown}">{shown}</span>'
    lines = "".join(map(_line, row.lines))
    return f'<div class="row"><div class="from">{origin}\n</div><div class="to">{lines}</div></div>'
