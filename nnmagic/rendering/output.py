"""Combine sections into one MIME bundle: plain text and HTML."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nnmagic.rendering.style_sheets import style_sheet


@dataclass(frozen=True, slots=True)
class Section:
    """A part of an output, as text and as HTML.

    title: shown where there are several. body: escaped HTML. closes: whether its title closes
    it among several sections. head: HTML above it, which text does without.
    """

    title: str
    text: str
    body: str
    closes: bool = False
    head: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """Sections, one below the other."""

    sections: tuple[Section, ...]

    def __str__(self) -> str:
        if len(self.sections) == 1:
            return self.sections[0].text.rstrip("\n")
        return "\n\n".join(f"# {section.title}\n{section.text.rstrip()}" for section in self.sections)

    def html(self) -> str:
        """Return the sections as HTML, without any script; with the style sheet, if the page lacks it.

        All of it reads well without the style, which GitHub drops, and JupyterLab in a notebook that is not
        trusted: code is in ``pre``, rows are in tables, what is closed is in ``details``. It has no blank
        line, at which Markdown would end it.
        """
        several = len(self.sections) > 1
        fragments = []
        for section in self.sections:
            if several and section.closes:
                summary = f"<summary>{html.escape(section.title)}</summary>"
                fragments.append(f'<details open="open">{summary}{section.body}</details>')
            else:
                fragments.append(section.head + section.body)
        body = re.sub(r"\n(?=[ \t]*\n)", "&#10;", "".join(fragments))
        return f'{style_sheet()}<div class="nnmagic">{body}</div>'

    def bundle(self) -> dict[str, str]:
        """Return the output by MIME type."""
        return {"text/plain": str(self), "text/html": self.html()}

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        return self.bundle()


def table(
    title: str,
    rows: Sequence[tuple[str, ...]],
    header: tuple[str, ...],
    note: str = "",
    *,
    code: int | None = None,
    text_rows: Sequence[tuple[str, ...]] | None = None,
) -> Section:
    """Return a table: rows of cells under a header, with ``note`` above. A cell may have several lines.

    The cells of the column ``code`` are code. ``text_rows`` are the rows with their lines broken, for the
    text alone: a page breaks them where it must.
    """
    text = table_text(rows if text_rows is None else text_rows, header)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    cells = ["".join(_cell(cell, column == code) for column, cell in enumerate(row)) for row in rows]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    above = f'<pre class="head">{html.escape(note, quote=False)}</pre>' if note else ""
    shown = f'{above}<table class="rows"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return Section(title, f"{note}\n\n{text}" if note else text, shown)


#: A cell that has no more letters stays on one line.
SHORT = 24


def _cell(cell: str, is_code: bool) -> str:
    name = "call" if is_code else "short" if len(cell) <= SHORT else ""
    shown = html.escape(cell)
    if is_code:  # a narrow page has the number of a line alone
        shown = re.sub(r"^(\d+)(: .*)", r"\1<span>\2</span>", shown)
    return f'<td class="{name}">{shown}</td>'


def plain(title: str, text: str) -> Section:
    """Return a text without colours."""
    return Section(title, text, f'<pre class="head">{html.escape(text, quote=False)}</pre>')


def table_text(rows: Sequence[tuple[str, ...]], header: tuple[str, ...]) -> str:
    """Return a table as text: rows in columns under a header. A cell may have several lines."""
    cells = [[cell.split("\n") for cell in row] for row in [header, *rows]]
    widths = [max(len(line) for row in cells for line in row[column]) for column in range(len(header))]
    cells.insert(1, [["-" * width] for width in widths])
    return "\n".join(
        "  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip()
        for row in cells
        for line in itertools.zip_longest(*row, fillvalue="")
    )
