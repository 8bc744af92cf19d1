"""Evaluate the sizes that an artifact states as JSON: ints, dimensions of a call, and operators.

The compiler writes them (``codegen/aot/size_text.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from nnmagic.engine.relax.artifact import Json

_INFIX = frozenset(("+", "-", "*", "//", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or"))


def size_source(size: Json) -> str:
    """Return a size as Python source, where the dimension of number ``k`` is ``dk``.

    Raises ValueError for what the compiler does not write.
    """
    match size:
        case bool():
            pass
        case int():
            return str(size)
        case ["dim", int() as number]:
            return f"d{number}"
        case [str() as operator, lhs, rhs] if operator in _INFIX:
            return f"({size_source(lhs)} {operator} {size_source(rhs)})"
        case ["min" | "max" as function, lhs, rhs]:
            return f"{function}({size_source(lhs)}, {size_source(rhs)})"
        case ["if", condition, lhs, rhs]:
            return f"({size_source(lhs)} if {size_source(condition)} else {size_source(rhs)})"
    raise ValueError(f"{size!r} is no size")


def size_function(sizes: Sequence[Json], dims: int) -> Callable[..., tuple[int, ...]]:
    """Return a function of that many dimensions that evaluates the sizes, which are never negative."""
    parameters = ", ".join(f"d{number}" for number in range(dims))
    values = "".join(
        f"{size}, " if isinstance(size, int) else f"max({size_source(size)}, 0), " for size in sizes
    )
    return _function(f"lambda {parameters}: ({values})")


@lru_cache(maxsize=1024)
def _function(source: str) -> Callable[..., Any]:
    function: Callable[..., Any] = eval(source, {"__builtins__": {}, "min": min, "max": max})  # noqa: S307 - our own
    return function
