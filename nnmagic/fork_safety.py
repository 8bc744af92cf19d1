"""Keep a forked child from waiting for threads that it does not have.

A forked child has the thread that forked and no other. Locks that other threads held are free in the child,
and modules that they were importing for nnmagic are imported there again. What a C++ library held, or
a library that was half imported, is out of reach: a fork while another thread compiles or imports warns.
"""

from __future__ import annotations

import os
import sys
import warnings
from _thread import RLock, get_ident

#: Python's import system, which has a lock for each module that is being imported.
_IMPORT_SYSTEM = sys.modules["_frozen_importlib"]

_MESSAGE = (
    "this process is forked while another thread compiles with nnmagic or imports it: the child may hang or "
    'fail when it compiles; start processes with the method "spawn" or "forkserver" instead'
)

_locks: list[Lock] = []


class Lock:
    """A reentrant lock that is free in a forked child, unless the thread that forked holds it.

    It is registered for the life of the process, so make few.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        _locks.append(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def is_held_by_another(self) -> bool:
        """Return whether another thread holds it, without waiting."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
            return False
        return True

    def reset(self) -> None:
        """Make it free if another thread holds it, which must be gone."""
        if self.is_held_by_another():
            self._lock = RLock()


class _ForkState:
    """Whether this process has warned."""

    has_warned = False


def _before_fork() -> None:
    if _ForkState.has_warned:
        return
    if any(lock.is_held_by_another() for lock in _locks) or _imports_of_others():
        _ForkState.has_warned = True
        warnings.warn(_MESSAGE, RuntimeWarning, stacklevel=2)


def _in_child() -> None:
    for lock in _locks:
        lock.reset()
    for name in _imports_of_others():  # to import one of these would be to wait for its lock
        sys.modules.pop(name, None)
        _IMPORT_SYSTEM._module_locks.pop(name, None)


def _imports_of_others() -> list[str]:
    """Return the modules that other threads are importing, if they are importing nnmagic, too."""
    locks = {name: reference() for name, reference in [*getattr(_IMPORT_SYSTEM, "_module_locks", {}).items()]}
    threads = {name: getattr(lock, "owner", None) for name, lock in locks.items() if lock is not None}
    ours = {thread for name, thread in threads.items() if name.partition(".")[0] == "nnmagic"}
    return [name for name, thread in threads.items() if thread in ours - {None, get_ident()}]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)
