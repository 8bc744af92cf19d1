"""What a cell shows: texts, in the forms that notebooks take. The same on every run."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """One text, with a title where there are several."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class CellOutput:
    """The texts that a cell shows, one below the other."""

    sections: tuple[Section, ...]

    def __str__(self) -> str:
        if len(self.sections) == 1:
            return self.sections[0].text.rstrip("\n")
        return "\n\n".join(f"# {part.title}\n{part.text.rstrip()}" for part in self.sections)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        return {"text/plain": str(self), "text/html": f"<pre>{html.escape(str(self))}</pre>"}


def table(rows: Sequence[tuple[str, ...]], header: tuple[str, ...]) -> str:
    """Rows of text in columns, under a header."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [header, tuple("-" * width for width in widths), *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
