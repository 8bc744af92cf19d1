"""Run recursive generators without Python's call stack, whose depth is limited."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar, cast

T = TypeVar("T")

#: A computation of a T: yields a nested computation, is resumed with its result, returns its own.
Steps = Generator["Steps[T]", T, T]


def run(steps: Steps[T]) -> T:
    """Return the result of ``steps``; nested computations are kept on a list instead of the call stack."""
    stack: list[Steps[T]] = []
    generator: Steps[T] | None = steps
    result: T | None = None
    while True:
        try:
            if generator is None:
                generator = stack[-1].send(cast("T", result))
            else:
                stack.append(generator)
                generator = next(generator)
        except StopIteration as done:  # noqa: PERF203  the way in which a computation gives its result
            stack.pop()
            generator, result = None, cast("T", done.value)
            if not stack:
                return result
