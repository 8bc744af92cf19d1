"""What a family of constructed cells makes: a source, with the names that it captures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """A source with the notebook's names that it captures."""

    source: str
    names: dict[str, object]


Family = Callable[[int], Cell]


def function_of(lines: list[str], parameters: str = "x: Tensor[(4,), f32]", **names: object) -> Cell:
    """Return a cell of one function."""
    body = "\n".join(f"    {line}" for line in lines)
    return Cell(f"def f({parameters}):\n{body}\n", names)
