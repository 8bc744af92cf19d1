"""Provide a property that is computed once, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class Cached(Generic[Value]):
    """A property that is computed when it is first asked for; by two threads at once, twice.

    ``functools.cached_property`` is the same from Python 3.12 on. Before, all instances share a lock: a
    forked child would wait for a thread that held it and is not there.
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
