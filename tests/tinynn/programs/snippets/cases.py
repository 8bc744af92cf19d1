"""What a snippet is: a cell that is taken, one that is refused, one that fails when it is called.

A topic is a file beside this one with a list CASES of them; test_snippets.py runs every topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Accepted:
    """A cell whose last function must give what the same source gives as Python over NumPy.

    arguments: of each call; without them, three sets are drawn from the annotations, with other sizes of
    named dimensions each time. within: (low, high) of a parameter's drawn values (ints: both ends count).
    namespace: what the notebook has. rtol: looser than its dtype's, with the reason in ``why``. everything:
    whether each assignment and each return of the cell must run in one of the calls.
    """

    id: str
    source: str
    arguments: Sequence[tuple[object, ...]] = ()
    namespace: Mapping[str, object] = field(default_factory=dict)
    within: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rtol: float | None = None
    why: str | None = None
    everything: bool = True

    def __post_init__(self) -> None:
        if (self.rtol is None) != (self.why is None):
            raise ValueError(f"{self.id}: a tolerance needs its reason")


@dataclass(frozen=True)
class Refused:
    """A cell that is refused with one error, exactly here and in these words.

    line, column: 1-based; the cell's first line is line 2, for line 1 is the magic's. end: (line, column),
    exclusive, where it is given. hint: compared where it is given.
    """

    id: str
    source: str
    line: int
    column: int
    message: str
    hint: str | None = None
    namespace: Mapping[str, object] = field(default_factory=dict)
    end: tuple[int, int] | None = None


@dataclass(frozen=True)
class Fails:
    """A cell that compiles, and whose call raises in Python and in the compiled function.

    error: the class that both raise. message: of the compiled function's.
    """

    id: str
    source: str
    arguments: tuple[object, ...]
    error: type[Exception]
    message: str
    namespace: Mapping[str, object] = field(default_factory=dict)


Case = Accepted | Refused | Fails


def refused(
    name: str,
    marked: str,
    message: str,
    hint: str | None = None,
    namespace: Mapping[str, object] | None = None,
) -> Refused:
    """A refused cell whose source has « and » around the span of the error."""
    before, rest = marked.split("«")
    inside, after = rest.split("»")
    line, column = _position(before)
    end = _position(before + inside)
    return Refused(name, before + inside + after, line, column, message, hint, namespace or {}, end)


def _position(text: str) -> tuple[int, int]:
    """Line and column right after a text that begins on line 2."""
    return text.count("\n") + 2, len(text) - (text.rfind("\n") + 1) + 1


def accepted(name: str, parameters: str, lines: str, **more: object) -> Accepted:
    """A function ``f`` of these parameters and statements; an expression alone is returned."""
    return Accepted(name, function(parameters, lines), **more)  # type: ignore[arg-type]  # of the dataclass


def function(parameters: str, lines: str) -> str:
    """The source of a function ``f``."""
    text = lines if "\n" in lines or "return" in lines else f"return {lines}"
    return f"def f({parameters}):\n" + "".join(f"    {line}\n" for line in text.strip("\n").split("\n"))
