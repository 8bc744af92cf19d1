"""Compare a compiled function with what NumPy, numba and torch make of the same task, for the notebooks here."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable

import numpy as np


def optional(name: str):
    """Return a module; None where it is not installed: numba and torch are compared where they are."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


numba, torch = optional("numba"), optional("torch")


def python(*functions) -> Callable:
    """Return the last of some compiled functions as Python runs their source: with NumPy, line by line."""
    names: dict[str, object] = {"np": np}
    for function in functions:
        exec(function.__dsl_code__, names)
    return names[functions[-1].__name__]


def jit(*functions) -> Callable | None:
    """Return what numba compiles of the source of the last of some functions; None without numba."""
    if numba is None:
        return None
    names: dict[str, object] = {"np": np}
    for function in functions:
        exec(function.__dsl_code__, names)
        names[function.__name__] = numba.njit(names[function.__name__])
    return names[functions[-1].__name__]


def same(ours, theirs, rtol=1e-9, atol=1e-9) -> bool:
    """Return whether two results are equal up to rounding."""
    if isinstance(theirs, tuple | list):
        return all(same(*pair, rtol, atol) for pair in zip(ours, theirs, strict=True))
    return bool(np.allclose(ours, theirs, rtol, atol))


def compare(*arguments, **calls) -> None:
    """Print the least time of a call of each function, and the ratio of the best peer to the first.

    Each function is called for a while at a time, since threads of one library may slow those of another.
    """
    calls = {name: call for name, call in calls.items() if call is not None}
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(3):
        for name, call in calls.items():
            call(*arguments)
            begin = start = time.perf_counter()
            while start - begin < 0.05:
                call(*arguments)
                end = time.perf_counter()
                best[name], start = min(best[name], end - start), end
    for name, seconds in best.items():
        print(f"{name:8}{1e6 * seconds:12.1f} µs a call")
    first, *others = best.values()
    print(f"the best of the others takes {min(others) / first:.2f} times as long")
