"""A lock that outlives a fork, and values that need none. Knows nothing else."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")

#: How many seconds a fork waits.
_PATIENCE = 5


class Lock:
    """Held by one thread at a time, which may take it again inside.

    A fork waits a while for another thread to be done: what libraries hold meanwhile would be held for ever
    in a child. A child has the thread that forked and no other: it keeps the lock where that thread holds
    it, and finds it free where another one still does, which would never give it back.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._forking = threading.local()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork, after_in_parent=self._in_parent, after_in_child=self._in_child
            )

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _before_fork(self) -> None:
        self._forking.holds = self._lock.acquire(timeout=_PATIENCE)

    def _in_parent(self) -> None:
        if self._forking.holds:
            self._lock.release()

    def _in_child(self) -> None:
        if self._forking.holds:
            self._lock.release()
        else:
            self._lock = threading.RLock()


class Cached(Generic[Value]):
    """A property that is computed when it is first asked for; by two threads at once, twice.

    ``functools.cached_property`` is the same from Python 3.12 on. Before, all instances share a lock, which a
    forked child finds held for ever where another thread was computing.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Value:
        if instance is None:
            raise AttributeError(f"{self._name} is a property of instances")
        value = self._compute(instance)
        instance.__dict__[self._name] = value
        return value
