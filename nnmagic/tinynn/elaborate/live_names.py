"""Hold the names that are mentioned after a statement: the sets of a long block share their elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class LiveNames:
    """A set of names: ``own`` and those of ``rest``. Iterating over it is linear, so is looking one up."""

    own: frozenset[str] = frozenset()
    rest: LiveNames | None = None

    def __iter__(self) -> Iterator[str]:
        part: LiveNames | None = self
        while part is not None:
            yield from part.own
            part = part.rest

    def __or__(self, names: Iterable[str]) -> LiveNames:
        return LiveNames(frozenset(names), self)

    def to_set(self) -> frozenset[str]:
        """Return the names as a set of their own."""
        return frozenset(self)


def live_after_each(mentioned: Sequence[frozenset[str]], after: LiveNames) -> list[LiveNames]:
    """Return the live names after each statement.

    ``mentioned``: the names that each mentions; ``after``: those that are live after the last one.
    """
    live, seen = [after], set(after)
    for names in reversed(mentioned[1:]):
        new = names - seen
        seen |= new
        live.append(live[-1] | new if new else live[-1])
    return live[::-1]
