"""Keep what is declared of operators by their names, each once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Registry(dict[Key, Value]):
    """A table to which each key is added once; ``what`` its values are is said where one comes again."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def __setitem__(self, key: Key, value: Value) -> None:
        if key in self:
            raise ValueError(f"{self._what} {key!r} is declared twice")
        super().__setitem__(key, value)


def declare_rows(declare: Callable[..., Callable[[Value], object]], table: Mapping[str, Value]) -> None:
    """Declare each row of a table: names, separated by blanks, and their rule."""
    for names, rule in table.items():
        declare(*names.split())(rule)
