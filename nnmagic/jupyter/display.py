"""What a cell shows: texts, in the forms that notebooks take. The same on every run."""

from __future__ import annotations

import html
import itertools
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
    """Rows of text in columns, under a header; a cell may have several lines."""
    cells = [[cell.split("\n") for cell in row] for row in [header, *rows]]
    widths = [max(len(line) for row in cells for line in row[column]) for column in range(len(header))]
    cells.insert(1, [["-" * width] for width in widths])
    return "\n".join(
        "  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip()
        for row in cells
        for line in itertools.zip_longest(*row, fillvalue="")
    )
