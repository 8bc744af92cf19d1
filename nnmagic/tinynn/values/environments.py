"""The names of a function while it is elaborated: what each stands for now. Knows values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nnmagic.diagnostics import Span
from nnmagic.tinynn.values.values import Value


@dataclass(slots=True)
class Env:
    """The local names at one point of a function. Branches work on copies.

    ``versions`` counts assignments, so that a function inside another can tell whether a name that it uses
    was assigned again; ``places`` is where each name was last assigned.
    """

    locals: dict[str, Value] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    places: dict[str, Span] = field(default_factory=dict)

    def copy(self) -> Env:
        """An environment that can change alone."""
        return Env(dict(self.locals), dict(self.versions), dict(self.places))

    def become(self, other: Env) -> None:
        """Takes the names of another, which is not used any more."""
        self.locals, self.versions, self.places = other.locals, other.versions, other.places

    def bind(self, name: str, value: Value, place: Span | None = None) -> None:
        """An assignment."""
        self.locals[name] = value
        self.versions[name] = self.versions.get(name, 0) + 1
        if place is not None:
            self.places[name] = place

    def forget(self, name: str) -> None:
        """The name is unbound from here on."""
        self.locals.pop(name, None)


@dataclass(slots=True, eq=False)
class Environment:
    """A function under elaboration. ``parent``: the function that it stands in.

    ``assigned``: the names that its statements bind, its own wherever they stand, as in Python.
    ``reassigned``: those of its names that are bound more than once.
    """

    name: str
    assigned: frozenset[str] = frozenset()
    reassigned: frozenset[str] = frozenset()
    parent: Environment | None = None
    env: Env = field(default_factory=Env)
    #: The named dimensions of the parameters, each with what the body calls it.
    dimensions: dict[str, str] = field(default_factory=dict)
    #: A statement failed in a way that leaves open what the function returns.
    failed: bool = False

    def chain(self) -> list[Environment]:
        """The frame and those around it, the innermost first."""
        found = [self]
        while (parent := found[-1].parent) is not None:
            found.append(parent)
        return found

    def owner(self, name: str) -> Environment | None:
        """The frame whose name it is: this one, or one around it; None for a name of the cell or notebook."""
        for frame in self.chain():
            if name in frame.env.locals or name in frame.assigned:
                return frame
        return None

    def names(self) -> Iterator[str]:
        """Every local name in sight, the innermost first."""
        for frame in self.chain():
            yield from frame.env.locals
