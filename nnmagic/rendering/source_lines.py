"""Say from which lines of which sources expressions come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from nnmagic.diagnostics import Source, Span


class Places:
    """The sources of a function: its own, and those of what it uses.

    Attributes:
        lines: the lines of each source that belong to the function.
        letters: the letter that follows the line numbers of each source; "" for that of the function.

    """

    def __init__(self, source: Source, lines: range, spans: Iterable[Span]) -> None:
        """Find the sources.

        Args:
            source: where the function is defined.
            lines: the numbers of its lines there.
            spans: of its expressions.

        """
        lines_of: dict[Source, list[int]] = defaultdict(list)
        for span in sorted(spans, key=position):
            if span.source is not None:
                lines_of[span.source].append(span.line)
        places = {place_: range(min(of), max(of) + 1) for place_, of in lines_of.items()}
        chosen = {source: lines} if source in places or not places else {}
        self.lines = {**chosen, **{place_: places[place_] for place_ in places if place_ not in chosen}}
        self.letters = dict(zip(self.lines, ["", *map(chr, range(ord("b"), ord("z") + 1))], strict=False))

    def numbers(self, spans: Iterable[Span]) -> list[str]:
        """Return the line numbers of expressions: ``3``, or ``3b`` in another source than the function's."""
        return [f"{line}{self.letters[source]}" for source, line in self._lines_of(spans)]

    def names(self, spans: Iterable[Span]) -> list[str]:
        """Return the names of the model's nodes that expressions come from, or their lines: ``line 3``."""
        return [
            source.names.get(line, f"line {line}{self.letters[source]}")
            for source, line in self._lines_of(spans)
        ]

    def _lines_of(self, spans: Iterable[Span]) -> list[tuple[Source, int]]:
        """Return the lines of expressions once each, those of the function's own source first."""
        order = {source: number for number, source in enumerate(self.letters)}
        known = {(order[span.source], span.line) for span in spans if span.source in order}
        sources = list(order)
        return [(sources[number], line) for number, line in sorted(known)]


def position(span: Span) -> tuple[int, int, int, int]:
    """Return where an expression begins and ends, by which expressions are ordered."""
    return span.line, span.column, span.end_line, span.end_column
