"""Locks that outlive a fork. Imported with nnmagic itself; knows nothing.

A forked child has the thread that forked and no other. What other threads hold just then, locks, modules half
imported, what TVM is at, would be held in it for ever: a fork waits until they are done.
"""

from __future__ import annotations

# Before this file: a fork takes their locks, which imports and compilations want, after it has waited here.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import signal
import sys
import threading
import time
from _thread import RLock, get_ident, start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

#: How many seconds a fork waits at most.
_PATIENCE = 5

#: The file of Python's import system, which holds a lock for each module that it imports.
_IMPORTING = "<frozen importlib._bootstrap>"
_PACKAGE = os.path.join(os.path.dirname(__file__), "")  # noqa: PTH118, PTH120 - pathlib costs time

_locks: list[Lock] = []


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


class _Fork:
    """A fork under way. Interrupts wait until its end: Python drops what is raised meanwhile."""

    def __init__(self) -> None:
        self._interrupted = False
        self._handler = None
        if threading.current_thread() is threading.main_thread():
            found = signal.getsignal(signal.SIGINT)
            self._handler = found if callable(found) else None
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._interrupt)
        self._taken: list[Lock] = []
        self._take()

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self._interrupted = True

    def _take(self) -> None:
        """Takes all locks when nnmagic imports nothing, none while it waits: others may want two."""
        end = time.monotonic() + _PATIENCE
        while True:
            locks = [*_locks]
            self._taken = [lock for lock in locks if lock.take()]
            if len(self._taken) == len(locks) and not _another_imports():
                return
            if self._interrupted or time.monotonic() > end:
                return
            self._give_back()
            time.sleep(0.001)

    def _give_back(self) -> None:
        for lock in self._taken:
            lock.give_back()

    def end(self, *, in_child: bool) -> None:
        """Gives the locks back; in a child, those of threads that it has not are free."""
        if in_child:
            for lock in _locks:
                if lock not in self._taken:
                    lock.renew()
        self._give_back()
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        if self._interrupted and not in_child:
            start_new_thread(signal.pthread_kill, (get_ident(), signal.SIGINT))  # after the hooks


#: By the thread that forks.
_under_way: dict[int, _Fork] = {}


def _before_fork() -> None:
    _under_way[get_ident()] = _Fork()


def _in_parent() -> None:
    _under_way.pop(get_ident()).end(in_child=False)


def _in_child() -> None:
    fork = _under_way[get_ident()]
    _under_way.clear()
    fork.end(in_child=True)


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
