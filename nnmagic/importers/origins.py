"""Say where Relay comes from: a listing of a model's nodes, a line each, and spans that point at its lines.

Calls of operators get the span of the node that is being imported.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from nnmagic.diagnostics import Source, Span

_current: ContextVar[Span | None] = ContextVar("current span", default=None)

#: A longer list of numbers, or text, is cut.
_MOST_ITEMS, _LONGEST = 8, 60


@dataclass(frozen=True, slots=True)
class Listing:
    """The nodes of a model as text; ``lines``: the number of each node's line."""

    source: Source
    lines: dict[Hashable, int]

    def span(self, node: Hashable) -> Span | None:
        """Return the line of a node; None if it has none of its own."""
        number = self.lines.get(node)
        text = self.source.line(number) if number is not None else None
        if number is None or text is None:
            return None
        return Span(self.source.filename, number, 1, number, len(text) + 1, self.source)


def make_listing(filename: str, head: Sequence[str], nodes: Sequence[tuple[Hashable, str, str]]) -> Listing:
    """Return a listing of lines about the model, then of its nodes, each with its name and its line."""
    lines = {node: number for number, (node, _, _) in enumerate(nodes, len(head) + 1)}
    names = {lines[node]: name for node, name, _ in nodes}
    text = "\n".join([*head, *(line for _, _, line in nodes)])
    return Listing(Source(filename, f"{text}\n", names=names), lines)


@contextmanager
def importing(span: Span | None) -> Iterator[None]:
    """Give calls of operators a span; without one they keep that of what is around."""
    if span is None:
        yield
        return
    token = _current.set(span)
    try:
        yield
    finally:
        _current.reset(token)


def current_span() -> Span | None:
    """Return the span of the node that is being imported."""
    return _current.get()


def shown_name(name: str) -> str:
    """Return a name in one line of a listing."""
    return name if name.isprintable() and name.strip() and len(name) <= _LONGEST else repr(name[:_LONGEST])


def shown_value(value: object) -> str:
    """Return an attribute's value in one line of a listing."""
    match value:
        case list() | tuple():
            items = [shown_value(item) for item in value[:_MOST_ITEMS]]
            return f"[{', '.join([*items, *(['…'] if len(value) > _MOST_ITEMS else [])])}]"
        case float():
            return f"{value:.7g}"
        case str():
            return repr(value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…")
        case _:
            return str(value)
