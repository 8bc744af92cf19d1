"""Report progress: workers report, listeners display."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Takes the stage at work, the number of its parts that are done, and their number (0: unknown).
Listener = Callable[[str, int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("nnmagic.progress", default=None)


def report(stage: str, done: int = 0, total: int = 0) -> None:
    """Tell the listener, if there is one, how far the work is."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Send reports of progress to a listener during the block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
