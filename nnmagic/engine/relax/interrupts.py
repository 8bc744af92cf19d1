"""Interrupts while TVM works. Knows signals only.

TVM runs passes of ours from C++; an exception of Python that goes through it comes back as another one,
without its type. So an interrupt is noted when it comes.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[None]:
    """Raises KeyboardInterrupt where one came, whatever TVM made of it. Only the main thread gets any."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    except Exception as error:
        if came:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


@contextmanager
def held_back() -> Iterator[None]:
    """Keeps an interrupt until the end: a module whose import stops half way cannot be imported again."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        before(*came[0])
