"""Hold the names whose values are read after a statement."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from nnmagic.tinynn.analysis.liveness import Flow


class _BlockUses:
    """What the statements of a block do with names, looked at from one statement after the other."""

    def __init__(self, flows: Sequence[Flow], leaving: Sequence[bool]) -> None:
        """``leaving``: whether control may leave the block in each statement."""
        self._leaving = [index for index, leaves in enumerate(leaving) if leaves]
        self._names: list[Set[str]] = []
        self._uses: defaultdict[str, list[tuple[int, bool]]] = defaultdict(list)
        for index, flow in enumerate(flows):
            replaced = (flow.assigned or frozenset()) - flow.exposed
            self._names.append(flow.exposed | replaced)
            for name in self._names[-1]:
                self._uses[name].append((index, name in flow.exposed))
        self._restart()

    def _restart(self) -> None:
        """Look from before the first statement."""
        self._index = -1
        self._read = {name for name, uses in self._uses.items() if uses[0][1]}
        self._replaced = {name: uses[0][0] for name, uses in self._uses.items() if not uses[0][1]}

    def after(self, index: int) -> tuple[Set[str], set[str]]:
        """Return the names that are read after a statement, and those that are replaced without being read.

        A name that is replaced behind a statement that may leave the block may be read where that goes.
        """
        if index < self._index:
            self._restart()
        while self._index < index:
            self._index += 1
            for name in self._names[self._index]:
                self._look_behind(name)
        position = bisect_left(self._leaving, index)
        left = self._leaving[position] if position < len(self._leaving) else len(self._names)
        return self._read, {name for name, statement in self._replaced.items() if statement < left}

    def _look_behind(self, name: str) -> None:
        uses = self._uses[name]
        self._read.discard(name)
        self._replaced.pop(name, None)
        place = bisect_left(uses, (self._index + 1, False))
        if place < len(uses):
            statement, reads = uses[place]
            if reads:
                self._read.add(name)
            else:
                self._replaced[name] = statement


@dataclass(frozen=True, slots=True, eq=False)
class LiveNames:
    """A set of names: ``own``, what a block reads after a statement of it, and of ``rest`` what it leaves."""

    own: frozenset[str] = frozenset()
    rest: LiveNames | None = None
    block: _BlockUses | None = None
    index: int = -1

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_set())

    def __or__(self, names: Iterable[str]) -> LiveNames:
        return LiveNames(frozenset(names), self)

    def to_set(self) -> set[str]:
        """Return the names as a set of their own."""
        names, hidden = set[str](), set[str]()
        part: LiveNames | None = self
        while part is not None:
            names |= part.own - hidden
            if part.block is not None:
                read, replaced = part.block.after(part.index)
                names |= read - hidden
                hidden |= replaced
            part = part.rest
        return names


def live_after_each(flows: Sequence[Flow], leaving: Sequence[bool], after: LiveNames) -> list[LiveNames]:
    """Return the live names after each statement.

    ``flows``: those of the statements; ``leaving``: whether each may leave the block; ``after``: the names
    that are live after the last one.
    """
    block = _BlockUses(flows, leaving)
    return [LiveNames(rest=after, block=block, index=index) for index in range(len(flows))]
