"""Find whether a compilation prints values, and number its calls of ``print``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

#: The numbers of the calls of ``print`` in the compilation at hand; None if it prints nothing.
_NUMBERS: ContextVar[Iterator[int] | None] = ContextVar("numbers", default=None)


@contextmanager
def printing(*, on: bool) -> Iterator[None]:
    """Let what is compiled inside print values as it computes them, or refuse it."""
    token = _NUMBERS.set(count() if on else None)
    try:
        yield
    finally:
        _NUMBERS.reset(token)


def prints() -> bool:
    """Return whether values are printed."""
    return _NUMBERS.get() is not None


def next_number() -> int:
    """Return a number for a call of ``print``, by which it differs from all others."""
    numbers = _NUMBERS.get()
    assert numbers is not None
    return next(numbers)
