"""Render code as coloured HTML: Relay has types and summaries to hover, and shows where each line came from.

Everything is text in ``pre`` elements, so that it reads well where a page drops the style sheet.
"""

from __future__ import annotations

import html
import itertools
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from pygments.lexer import Lexer

from nnmagic.diagnostics import Span
from nnmagic.relay.expr import Call, Expr, Function, Let, OpRef, Tuple, TupleGetItem, Var
from nnmagic.relay.infer import erase_types
from nnmagic.relay.module import Module
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.declaration import Trait, traits_of
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.text.source_map import TextRange, text_with_ranges
from nnmagic.relay.types import Type
from nnmagic.rendering.lexer import RelayLexer
from nnmagic.rendering.line_breaking import break_lines, line_breaks
from nnmagic.rendering.shape_values import shape_values
from nnmagic.rendering.style_sheets import marks
from nnmagic.rendering.theme import INLINE_COLORS, token_class
from nnmagic.rendering.value_marks import value_classes, value_rules

#: Where the source lines are shown that Relay came from: beside it, as a number to hover, or nowhere.
Origins = Literal["beside", "hover", "none"]

#: The column at which lines of Relay break, as the lines of errors do; narrow pages break them once more.
_WIDTH = 78
#: A listing of more lines than the first number is folded after the second.
_MOST_LINES, _FIRST_LINES = 25, 16


@dataclass(frozen=True, slots=True)
class CodeListing:
    """Code as HTML: ``whole``, and ``folded`` after the first lines if it is long."""

    whole: str
    folded: str


def code_listing(text: str, lexer: Lexer, name: str, *, relay: bool = False) -> CodeListing:
    """Return a text in colours, Relay with its long lines broken; a summary of folded lines has the name."""
    breaks = line_breaks(text, _WIDTH) if relay else {}
    lines = [_line(part) for line in highlight_lines(text, lexer, breaks=breaks) for part in line]
    return _listing(lines, [1] * len(lines), name, _pre)


def text_html(text: str, name: str) -> str:
    """Return a text without colours, folded if it is long."""
    lines = [f"{html.escape(line, quote=False)}\n" for line in text.split("\n")]
    return _listing(lines, [1] * len(lines), name, lambda shown: f"<pre>{''.join(shown)}</pre>").folded


def relay_html(module: Module, origins: Origins = "beside") -> str:
    """Return a typed module as its untyped text: hovering an operator or a value shows its type.

    Hovering a value marks its definition and its uses, too. Long lines are broken between tokens, so the
    text of the HTML is still the module's Relay. What is made of shapes alone, or only changes the form of a
    value, is written where it is used; the text that this shortens is below, closed. Many lines are folded
    after the first ones.
    """
    untyped = erase_types(module)
    types = _types(untyped, module)
    whole, ranges = text_with_ranges(untyped)
    of_shapes = _shapes(untyped, module, _numbers(whole, ranges))
    text = whole
    if origins != "none":  # which is Relay that the reader wrote
        in_place = {value: shown for value, shown in of_shapes.items() if "..." not in shown}
        text, ranges = text_with_ranges(untyped, in_place)
        if forms := _forms(text, ranges, of_shapes):
            text, ranges = text_with_ranges(untyped, {**in_place, **forms})
    titles: dict[int, str] = {}
    for range_ in ranges:  # inner ranges come later: a call's own text begins with that of its operator
        if title := _title(range_, types):
            titles[range_.start] = f"{of_shapes[range_.expr]}: {title}" if range_.expr in of_shapes else title
    classes = value_classes(text)
    lines = highlight_lines(
        text,
        RelayLexer(),
        titles=titles,
        classes=classes,
        breaks=line_breaks(text, _WIDTH),
        inline_colors=True,
    )
    spans = _spans(text, ranges)
    rows = [_ListingRow(None, line) for line in lines] if origins == "none" else list(_rows(lines, spans))
    if origins == "beside":
        rows_html = [_table_row(row) for row in rows]
        listing = _listing(rows_html, [row.height for row in rows], "Relay", _table)
    else:
        rows_html = [line for row in rows for line in _number_lines(row)]
        listing = _listing(rows_html, [1] * len(rows_html), "Relay", _pre)
    shown_html = listing.folded + ("" if text == whole else _close(whole))
    rules = value_rules(classes.values(), ".relay")
    return f'{marks(rules)}<div class="relay">{shown_html}</div>' if rules else shown_html


def _close(text: str) -> str:
    """Return the whole text of Relay, closed."""
    listing = code_listing(text, RelayLexer(), "Relay", relay=True).whole
    count = len(text.rstrip("\n").split("\n"))
    return f"<details><summary>all {count:,} lines of Relay</summary>{listing}</details>"


def _numbers(text: str, ranges: Iterable[TextRange]) -> Mapping[Expr, str]:
    """Return the names of expressions in the text: ``%0``."""
    return {each.expr: text[each.start : each.end] for each in ranges if text.startswith("%", each.start)}


def _shapes(untyped: Module, typed: Module, names: Mapping[Expr, str]) -> Mapping[Expr, str]:
    """Return the values of the untyped module that are made of shapes alone, and what each is."""
    shapes: dict[Expr, str] = {}
    for name, function in untyped.functions.items():
        twins = dict(zip(post_order(typed.functions[name]), post_order(function), strict=True))
        twin_names = {twin: names[node] for twin, node in twins.items() if node in names}
        shapes |= {
            twins[twin]: text for twin, text in shape_values(typed.functions[name], twin_names).items()
        }
    return shapes


def _forms(text: str, ranges: Sequence[TextRange], of_shapes: Container[Expr]) -> Mapping[Expr, str]:
    """Return the values that only change the form of another, are used once, and fit the line of their use.

    Both lines must have come from one line of source.
    """
    lines, starts = text.split("\n"), [0, *(index + 1 for index, char in enumerate(text) if char == "\n")]
    length = dict(enumerate(map(len, lines)))
    spans = _spans(text, ranges)
    places: dict[Expr, list[int]] = defaultdict(list)
    for range_ in ranges:
        is_form = isinstance(range_.expr, Tuple | TupleGetItem) or Trait.MOVES in traits_of(range_.expr)
        if is_form or range_.expr in of_shapes:
            places[range_.expr].append(bisect_right(starts, range_.start) - 1)
    forms = {}
    for value, (first, *others) in places.items():
        number = re.match(r"\s*%\d+ = ", lines[first])
        if number is None or len(others) != 2 or others[0] != first:  # its number, its text, and one use
            continue
        used, name = others[1], number[0].split()[0]
        grown = length[used] + length[first] - len(number[0]) - 1 - len(name)
        is_named = f"{name}.shape" in text
        if not is_named and grown <= _WIDTH and _line_of(spans.get(first)) == _line_of(spans.get(used)):
            forms[value], length[used] = "", grown
    return forms


def _line_of(span: Span | None) -> tuple[str, int] | None:
    return None if span is None else (span.filename, span.line)


def _listing(
    lines: Sequence[str], heights: Sequence[int], name: str, enclose: Callable[[Sequence[str]], str]
) -> CodeListing:
    """Return parts of the given heights in lines, each run of them enclosed by an element."""
    listing = enclose(lines)
    ends = itertools.accumulate(heights)
    first = max(1, sum(end <= _FIRST_LINES for end in ends))
    if sum(heights) <= _MOST_LINES or first == len(lines):
        return CodeListing(listing, listing)
    summary = f"{sum(heights[first:]):,} more lines of {html.escape(name)}"
    rest = f"<details><summary>{summary}</summary>{enclose(lines[first:])}</details>"
    return CodeListing(listing, enclose(lines[:first]) + rest)


def _pre(lines: Sequence[str]) -> str:
    return f'<pre class="code">{"".join(lines)}</pre>'


def _table(rows: Sequence[str]) -> str:
    style = "table-layout:fixed;width:100%"
    return f'<table class="code beside" style="{style}"><tbody>{"".join(rows)}</tbody></table>'


def _types(untyped: Module, typed: Module) -> Mapping[Expr, Type | None]:
    """Map each node of the untyped module to its type; both modules are walked in the same order."""
    types: dict[Expr, Type | None] = {}
    for name, function in untyped.functions.items():
        for node, twin in zip(post_order(function), post_order(typed.functions[name]), strict=True):
            types[node] = twin.checked_type
    return types


def _title(text: TextRange, types: Mapping[Expr, Type | None]) -> str | None:
    match text.expr:
        case Function() | Let() | OpRef():
            return None
        case Call(op=OpRef(name=name)) if name in OPERATORS:
            return f"{name} -> {types.get(text.expr)}\n{OPERATORS[name].summary}"
    type_ = types.get(text.expr)
    return None if type_ is None else str(type_)


def highlight_lines(
    text: str,
    lexer: Lexer,
    *,
    titles: Mapping[int, str] = MappingProxyType({}),
    classes: Mapping[int, str] = MappingProxyType({}),
    breaks: Mapping[int, int] = MappingProxyType({}),
    inline_colors: bool = False,
) -> list[list[str]]:
    """Return the lines of a text as HTML, each as the lines that it is broken into.

    titles: what hovering the token shows that begins at an offset. classes: another class of that token.
    breaks: the blanks that end a line, by offset, and the indentation after each. inline_colors: whether
    colours need no style sheet.
    """
    lines = [[""]]
    for start, kind, token in lexer.get_tokens_unprocessed(text):
        name, title = token_class(kind), titles.get(start)
        every = " ".join(filter(None, (name, classes.get(start))))
        attributes = f' class="{every}"' if every else ""
        attributes += f' title="{_attribute(title)}"' if title else ""
        if name and inline_colors:
            attributes += f' style="color:{INLINE_COLORS[name]}"'
        tag = "b" if name == "k" else "span"
        broken = _break_token(start, token, breaks)
        first, *others = broken.split("\n")
        # nbconvert would make one blank of an indentation that stands alone
        if lines[-1][-1].isspace() and start not in classes:
            lines[-1][-1] = _wrap_in_tag(lines[-1][-1] + first, tag, attributes)
        else:
            lines[-1][-1] += _wrap_in_tag(first, tag, attributes)
        if broken == token:
            lines += [[_wrap_in_tag(other, tag, attributes)] for other in others]
        else:
            lines[-1] += [_wrap_in_tag(other, tag, attributes) for other in others]
    while len(lines) > 1 and lines[-1] == [""]:
        lines.pop()
    return lines


def _break_token(start: int, token: str, breaks: Mapping[int, int]) -> str:
    """Return a token with the line breaks inside it: a blank between tokens, or a comment."""
    inside = {
        offset - start: breaks[offset] for offset in range(start, start + len(token)) if offset in breaks
    }
    return break_lines(token, inside) if inside else token


def _wrap_in_tag(text: str, tag: str, attributes: str) -> str:
    shown = html.escape(text, quote=False)
    return f"<{tag}{attributes}>{shown}</{tag}>" if attributes and text else shown


def _attribute(text: str) -> str:
    return html.escape(text).replace("\n", "&#10;")


def _line(line: str, attributes: str = "") -> str:
    return f'<span class="line"{attributes}>{line}\n</span>'


@dataclass(slots=True)
class _ListingRow:
    """Lines of Relay that came from one line of source."""

    origin: tuple[Span, int] | None
    lines: list[str] = field(default_factory=list)

    @property
    def height(self) -> int:
        """How many lines it has, as they are shown."""
        return len(self.lines)

    @property
    def source(self) -> str:
        """The text of the source line."""
        if self.origin is None:
            return ""
        span, number = self.origin
        source = span.source.line(number) if span.source is not None else None
        return (source or "").rstrip()


def _spans(text: str, ranges: Iterable[TextRange]) -> Mapping[int, Span]:
    """Map each line of Relay text to its source: that of the widest expression that begins in the line."""
    starts = [0, *(index + 1 for index, char in enumerate(text) if char == "\n")]
    spans: dict[int, Span] = {}
    width: dict[int, int] = defaultdict(int)
    for range_ in ranges:
        line = bisect_right(starts, range_.start) - 1
        reach = range_.end - range_.start
        if range_.expr.span is not None and not _is_name(range_, text) and reach > width[line]:
            spans[line], width[line] = range_.expr.span, reach
    return spans


def _is_name(range_: TextRange, text: str) -> bool:
    """Return whether the text is a variable or a number, whose span is that of its definition."""
    return isinstance(range_.expr, Var) or text.startswith("%", range_.start)


def _rows(lines: Iterable[list[str]], spans: Mapping[int, Span]) -> Iterator[_ListingRow]:
    row: _ListingRow | None = None
    for index, line in enumerate(lines):
        span = spans.get(index)
        origin = (span, span.line) if span is not None and span.source is not None else None
        same = row is not None and (origin is None or _same(origin, row.origin))
        if row is None or not same:
            if row is not None:
                yield row
            row = _ListingRow(origin)
        row.lines += line
        if line == ["}"]:  # a function ends
            yield row
            row = None
    if row is not None:
        yield row


def _same(lhs: tuple[Span, int], rhs: tuple[Span, int] | None) -> bool:
    return rhs is not None and lhs[1] == rhs[1] and lhs[0].source == rhs[0].source


def _table_row(row: _ListingRow) -> str:
    """Return a table's row: the source line with its number, and the Relay that came from it."""
    source = ""
    if row.origin is not None:
        number = f'<span class="no">{row.origin[1]}</span>'
        source = f"{number} <span>{html.escape(row.source, quote=False)}</span>"
    lines = "".join(map(_line, row.lines))
    cells = f"{_cell('from', f'{source}{chr(10)}')}{_cell('to', lines)}"
    return f'<tr class="row">{cells}</tr>'


def _cell(name: str, lines: str) -> str:
    """Return a table's cell of code, at the left and at the top also where the style sheet is missing."""
    width = "44%" if name == "from" else "56%"
    style = f"width:{width};text-align:left;vertical-align:top"
    return (
        f'<td class="{name}" align="left" valign="top" style="{style}">'
        f'<pre style="background-color:transparent">{lines}</pre></td>'
    )


def _number_lines(row: _ListingRow) -> Iterator[str]:
    """Yield the lines of Relay; the first has the number of its source line, all show it when hovered."""
    if row.origin is None:
        yield from map(_line, row.lines)
        return
    number = row.origin[1]
    title = f' title="{_attribute(f"line {number}: {row.source.strip()}")}"'
    for index, line in enumerate(row.lines):
        yield _line(line, f' data-line="{number}"{title}' if index == 0 else title)
