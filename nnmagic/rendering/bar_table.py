"""Render a table with bars: as text, and as HTML whose bars are SVG."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from nnmagic.rendering.output import SHORT, Section, table_text

_WIDTH, _HEIGHT, _BLOCKS = 180, 10, " ▏▎▍▌▋▊▉█"
_TEXT_WIDTH = 16


@dataclass(frozen=True, slots=True)
class Bar:
    """A row: its cells, the length of its bar, and the dark part of the bar; both 0 to 1."""

    cells: tuple[str, ...]
    length: float
    dark: float


def bar_table(
    title: str, note: str, header: tuple[str, ...], bars: Sequence[Bar], *, texts: int = 1
) -> Section:
    """Return a table whose last column is bars; the first ``texts`` cells are texts, the others numbers."""
    text = table_text([(*bar.cells, _text_bar(bar.length)) for bar in bars], (*header, ""))
    head = "".join(_cell("th", name, column >= texts) for column, name in enumerate(header))
    rows = "".join(_row(bar, texts) for bar in bars)
    body = (
        f'<pre class="head">{html.escape(note, quote=False)}</pre>'
        f'<table class="rows"><thead><tr>{head}<th></th></tr></thead><tbody>{rows}</tbody></table>'
    )
    return Section(title, f"{note}\n\n{text}", body)


def _cell(tag: str, text: str, is_number: bool) -> str:
    name = "right" if is_number else "short" if len(text) <= SHORT else ""
    return f'<{tag} class="{name}">{html.escape(text)}</{tag}>'


def _row(bar: Bar, texts: int) -> str:
    cells = "".join(_cell("td", cell, column >= texts) for column, cell in enumerate(bar.cells))
    text = f'<span class="fallback">{_text_bar(bar.length)}</span>'
    return f"<tr>{cells}<td>{_svg(bar)}{text}</td></tr>"


def _svg(bar: Bar) -> str:
    width = bar.length * _WIDTH
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" aria-hidden="true">'
        f'<rect width="{width:.1f}" height="{_HEIGHT}" fill="#4d78c9" fill-opacity="0.35"/>'
        f'<rect width="{width * bar.dark:.1f}" height="{_HEIGHT}" fill="#4d78c9"/></svg>'
    )


def _text_bar(length: float) -> str:
    eighths = round(length * _TEXT_WIDTH * 8)
    return ("█" * (eighths // 8) + _BLOCKS[eighths % 8]).rstrip()
