"""Locks that outlive a fork. Imported with nnmagic itself; knows nothing.

A forked child has the thread that forked and no other. What other threads hold just then, locks, modules half
imported, what TVM is at, would be held in it for ever: a fork waits until they are done.
"""

from __future__ import annotations

import logging  # noqa: F401 - before this file: a fork takes its lock, which imports want, after it has waited here
import os
import sys
import time
from _thread import RLock, get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

#: How many seconds a fork waits at most.
_PATIENCE = 5

#: The file of Python's import system, which holds a lock for each module that it imports.
_IMPORTING = "<frozen importlib._bootstrap>"
_PACKAGE = os.path.dirname(__file__)  # noqa: PTH120 - pathlib costs time

_locks: list[Lock] = []
_taken: dict[int, list[Lock]] = {}  # for a fork under way, by the thread that forks


class Lock:
    """Held by one thread at a time, which may take it again inside. It is kept as long as the process.

    A forked child keeps it where the thread that forked holds it, and finds it free where a fork could not
    wait for another one, which would never give it back.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        _locks.append(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def take(self) -> bool:
        """Whether it can be had at once; then the caller has it."""
        return self._lock.acquire(blocking=False)

    def give_back(self) -> None:
        """Undoes ``take``."""
        self._lock.release()

    def renew(self) -> None:
        """Makes it free, whoever held it."""
        self._lock = RLock()


def _before_fork() -> None:
    """Takes all locks at a moment when nnmagic imports nothing, none while it waits: others may want two."""
    end = time.monotonic() + _PATIENCE
    while True:
        locks = [*_locks]
        taken = [lock for lock in locks if lock.take()]
        if (len(taken) == len(locks) and not _another_imports()) or time.monotonic() > end:
            break
        for lock in taken:
            lock.give_back()
        time.sleep(0.001)
    _taken[get_ident()] = taken


def _in_parent() -> None:
    for lock in _taken.pop(get_ident()):
        lock.give_back()


def _in_child() -> None:
    taken = _taken[get_ident()]
    _taken.clear()
    for lock in _locks:
        if lock in taken:
            lock.give_back()
        else:
            lock.renew()


def _another_imports() -> bool:
    here = get_ident()
    return any(_imports(frame) for thread, frame in sys._current_frames().items() if thread != here)


def _imports(frame: FrameType | None) -> bool:
    """Whether nnmagic's code asked for an import; those of others may last as long as a program."""
    importing = False
    while frame is not None:
        name = frame.f_code.co_filename
        if importing and name.startswith(_PACKAGE):
            return True
        importing = importing or name == _IMPORTING
        frame = frame.f_back
    return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
