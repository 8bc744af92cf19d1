"""Number the calls of ``print`` of a compilation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

#: The numbers of the calls of ``print`` in the compilation at hand.
_NUMBERS: ContextVar[Iterator[int] | None] = ContextVar("numbers", default=None)


@contextmanager
def printing() -> Iterator[None]:
    """Count the calls of ``print`` of what is compiled inside."""
    token = _NUMBERS.set(count())
    try:
        yield
    finally:
        _NUMBERS.reset(token)


def next_number() -> int:
    """Return a number for a call of ``print``, by which it differs from all others."""
    numbers = _NUMBERS.get()
    assert numbers is not None
    return next(numbers)
