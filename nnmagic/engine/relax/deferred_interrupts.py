"""Defer interrupts while TVM runs.

TVM calls Python functions from C++; a Python exception that unwinds through C++ may corrupt its state. So an
interrupt is deferred until Python has control: until ``interrupt_safepoint``, or the end of the work.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

#: The handlers that are to be called, each with what the system gave it.
_kept: list[tuple[Callable[..., Any], int, FrameType | None]] = []


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer interrupts until the next safepoint, or the end; only the main thread receives any."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: _kept.append((before, number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        interrupt_safepoint()


def interrupt_safepoint() -> None:
    """Deliver a deferred interrupt. Call it only where no C++ frame waits for us."""
    if _kept and threading.current_thread() is threading.main_thread():
        handler, number, frame = _kept[0]
        _kept.clear()
        handler(number, frame)
