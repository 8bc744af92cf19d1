"""Render source, Relay, TIR and assembly side by side: a line of one marks its lines in the others.

What belongs together has the same source expression. The marks are rules of CSS, without any script.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnmagic.diagnostics import Source, Span
from nnmagic.relay.expr import Call, If, Match
from nnmagic.relay.infer import erase_types
from nnmagic.relay.module import Module
from nnmagic.relay.text.source_map import text_with_ranges
from nnmagic.rendering.lexer import RelayLexer
from nnmagic.rendering.listing import highlight_lines
from nnmagic.rendering.output import Section
from nnmagic.rendering.source_lines import Places, position
from nnmagic.rendering.style_sheets import marks
from nnmagic.rendering.value_marks import value_classes, value_rules

if TYPE_CHECKING:
    from pygments.lexer import Lexer

#: A kernel shows so many lines of each text; the stages ``tir`` and ``asm`` have all.
_MOST_LINES = 300
#: More expressions get no marks: browsers match every rule whenever the pointer moves.
_MOST_MARKED = 600
#: Kernels are open where there are two, or all of them together have no more lines.
_MOST_OPEN = 120


@dataclass(frozen=True, slots=True)
class MachineCode:
    """A function of the machine code: what it computes, and its texts, "" if it has none."""

    name: str
    origins: frozenset[Span]
    tir: str
    asm: str


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of source or Relay: the expressions that it belongs to, and the source lines of these."""

    text: str
    spans: frozenset[Span]
    margin: str


class LinkedView:
    """A function from its source to machine code."""

    def __init__(self, module: Module, source: Source, lines: range, codes: Sequence[MachineCode]) -> None:
        """Link the texts.

        Args:
            module: typed; with the spans of its source.
            source: where the function is defined.
            lines: the numbers of its lines there.
            codes: the functions of its machine code.

        """
        self._codes = sorted(codes, key=_code_order)
        self._relay, of_line = _relay_lines(erase_types(module))
        spans = sorted(frozenset().union(*of_line), key=position)
        self._places = Places(source, lines, spans)
        self._letters = self._places.letters
        texts = self._relay.split("\n")
        self._lines = [_Line(*pair, self._margin(pair[1])) for pair in zip(texts, of_line, strict=True)]
        self._numbers = {span: number for number, span in enumerate(spans)}

    def __str__(self) -> str:
        """Return the texts one below the other; a margin has the numbers of source lines."""
        sources = self._places.lines
        blocks = [_with_title(self._source_title(source), self._source_lines(source)) for source in sources]
        blocks.append(_with_title("relay", self._lines))
        for stage in ("tir", "asm"):
            texts = self._texts(stage)
            blocks += [f"{stage}: {self._title(code)}\n{text}" for code, text in texts.items()]
        return "\n\n".join(blocks)

    def section(self, title: str) -> Section:
        """Return the four panes."""
        panes = [
            _pane("source", "".join(self._source_html(source) for source in self._places.lines)),
            _pane("Relay", self._relay_html()),
            _pane("TIR", "".join(self._codes_html("tir", _lexer("python")))),
            _pane("assembly", "".join(self._codes_html("asm", None))),
        ]
        label = html.escape(f"{title}: source, Relay, TIR and assembly side by side")
        body = f'<div class="linked" role="group" aria-label="{label}">{"".join(panes)}</div>'
        return Section(title, str(self), marks(self._rules()) + body)

    def _rules(self) -> str:
        if len(self._numbers) > _MOST_MARKED:
            return ""
        marked = [f".linked:has(.x{n}:is(:hover,:focus-within)) .x{n}" for n in self._numbers.values()]
        values = value_rules(value_classes(self._relay).values(), ".linked")
        return (f"{','.join(marked)}{{{_MARK}}}" if marked else "") + values

    def _margin(self, spans: Iterable[Span]) -> str:
        """Return the numbers of the source lines of expressions; a letter follows those of other sources."""
        return ",".join(self._places.numbers(spans))

    def _title(self, code: MachineCode) -> str:
        lines = self._margin(span for span in self._numbers if span in code.origins)
        numbers = lines.replace(",", ", ")
        return f"{code.name}, from {'lines' if ',' in lines else 'line'} {numbers}" if lines else code.name

    def _texts(self, stage: str) -> dict[MachineCode, str]:
        texts = {code: code.tir if stage == "tir" else code.asm for code in self._codes}
        return {code: _shorten(text, stage) for code, text in texts.items() if text}

    def _source_title(self, source: Source) -> str:
        return f"source {self._letters[source]}: {source.filename}" if self._letters[source] else "source"

    def _source_lines(self, source: Source) -> list[_Line]:
        of_line: dict[int, set[Span]] = defaultdict(set)
        for span in self._numbers:
            if span.source == source:
                of_line[span.line].add(span)
        letter = self._letters[source]
        return [
            _Line((source.line(number) or "").rstrip(), frozenset(of_line[number]), f"{number}{letter}")
            for number in self._places.lines[source]
        ]

    def _source_html(self, source: Source) -> str:
        lines = self._source_lines(source)
        text = "\n".join(line.text for line in lines)
        lexer = RelayLexer() if re.search(r"(?m)^(#\[version|def @|type )", source.text) else _lexer("python")
        title = self._source_title(source)
        head = f'<p class="head">{html.escape(title)}</p>' if self._letters[source] else ""
        return head + _pre(_highlight(text, lexer, {}, len(lines)), lines, self._numbers, focus=True)

    def _relay_html(self) -> str:
        classes = value_classes(self._relay)
        return _pre(
            _highlight(self._relay, RelayLexer(), classes, len(self._lines)), self._lines, self._numbers
        )

    def _codes_html(self, stage: str, lexer: Lexer | None) -> Iterator[str]:
        texts = self._texts(stage)
        is_short = len(texts) <= 2 or sum(text.count("\n") + 1 for text in texts.values()) <= _MOST_OPEN
        is_open = ' open="open"' if is_short else ""
        for code, text in texts.items():
            shown = "\n".join(_highlight(text, lexer, {}, 0)) if lexer else html.escape(text, quote=False)
            summary = f"<summary>{html.escape(self._title(code)).replace('_', '_<wbr/>')}</summary>"
            attributes = _class("code", code.origins, self._numbers)
            yield f'<details{attributes}{is_open}>{summary}<pre class="code">{shown}</pre></details>'


#: How a line is marked whose expression is under the pointer.
_MARK = "background:color-mix(in srgb,#f08c00 20%,transparent);box-shadow:inset 3px 0 #d9480f"


def _relay_lines(module: Module) -> tuple[str, list[frozenset[Span]]]:
    """Return a module's text, and the expressions of the source that each of its lines computes."""
    whole, ranges = text_with_ranges(module)
    text = whole.rstrip("\n")
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    spans: list[set[Span]] = [set() for _ in starts]
    for range_ in ranges:
        span = range_.expr.span
        is_name = text.startswith("%", range_.start)
        if span and span.source and not is_name and isinstance(range_.expr, Call | If | Match):
            spans[bisect_right(starts, range_.start) - 1].add(span)
    return text, list(map(frozenset, spans))


def _code_order(code: MachineCode) -> tuple[bool, bool, tuple[int, int, int, int]]:
    """Order kernels by the first place that they compute, and what calls them last."""
    return not code.tir, not code.origins, min(map(position, code.origins), default=(0, 0, 0, 0))


def _with_title(title: str, lines: Sequence[_Line]) -> str:
    width = max((len(line.margin) for line in lines), default=0)
    shown = [f"{line.margin:>{width}} | {line.text}".rstrip() for line in lines]
    return "\n".join([title, *shown])


def _shorten(text: str, stage: str) -> str:
    """Return the first lines of a text."""
    lines = text.split("\n")
    if len(lines) <= _MOST_LINES:
        return text
    comment = "# " if stage != "relay" else "// "
    rest = f"{comment}{len(lines) - _MOST_LINES:,} more lines: the stage {stage} has them"
    return "\n".join([*lines[:_MOST_LINES], rest])


def _highlight(text: str, lexer: Lexer, classes: Mapping[int, str], height: int) -> list[str]:
    """Return the lines of a text in colours; the lexer leaves out empty ones at the end."""
    lines = [line for (line,) in highlight_lines(text, lexer, classes=classes)]
    return [*lines, *[""] * (height - len(lines))]


def _pre(
    shown: Sequence[str], lines: Sequence[_Line], numbers: Mapping[Span, int], *, focus: bool = False
) -> str:
    width = max((len(line.margin) for line in lines), default=0)
    rows = []
    for content, line in zip(shown, lines, strict=True):
        attributes = _class("line", line.spans, numbers)
        attributes += ' tabindex="0"' if focus and line.spans else ""
        content = content.replace("(", "(<wbr/>")  # noqa: PLW2901 - where a long name lets a line end
        rows.append(f'<span{attributes}><span class="no">{line.margin:>{width}}</span> {content}\n</span>')
    return f'<pre class="code">{"".join(rows)}</pre>'


def _class(name: str, spans: Iterable[Span], numbers: Mapping[Span, int]) -> str:
    marks = "".join(f" x{number}" for number in sorted(numbers[span] for span in spans if span in numbers))
    return f' class="{name}{marks}"'


def _pane(title: str, body: str) -> str:
    region = f'role="region" aria-label="{title}" tabindex="0"'
    return f'<div class="pane" {region}><p class="head"><b>{title}</b></p>{body}</div>'


def _lexer(name: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(name)
