"""How far a compilation is: whoever works tells it, whoever listens shows it. Knows nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Takes the stage that is being made, how many of its parts are done, and how many there are (0: not known).
Listener = Callable[[str, int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("nnmagic.progress", default=None)


def report(stage: str, done: int = 0, total: int = 0) -> None:
    """Tells the listener, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Has a listener told of what is compiled meanwhile."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
