"""Hold the number of threads that a call of a compiled function may use."""

from __future__ import annotations

import os
from functools import cache

from nnmagic.engine.cpu import performance_cores
from nnmagic.tracebacks import short_errors

#: The variable that says how many threads there are where nothing else does.
VARIABLE = "NNMAGIC_NUM_THREADS"


def num_threads() -> int:
    """Return how many threads a call of a compiled function may use.

    In a forked child it is 1 unless it was set there. The variable ``NNMAGIC_NUM_THREADS`` is read and the
    cores of the process are counted the first time, and again after ``set_num_threads(None)``. Raises
    ValueError if the variable is not a positive integer.
    """
    return _chosen.count or _default()


@short_errors
def set_num_threads(count: int | None) -> None:
    """Set how many threads calls of compiled functions may use; None restores one per core.

    Results do not depend on it. Raises TypeError or ValueError for anything but a positive integer.
    """
    if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
        raise TypeError(f"the number of threads must be a whole number or None, not {count!r}")
    if count is not None and count < 1:
        raise ValueError(f"the number of threads must be at least 1, not {count}")
    _chosen.count = count
    _default.cache_clear()


def cores() -> list[int]:
    """Return the cores that this process may run on; of a Mac, the fast ones.

    All threads of a parallel loop get equal parts, so that slow cores would decide how long it takes.
    """
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(performance_cores() or os.cpu_count() or 1))


@cache
def _default() -> int:
    setting = os.environ.get(VARIABLE, "").strip()
    if not setting:
        return len(cores())
    if not setting.isascii() or not setting.isdigit() or int(setting) < 1:
        raise ValueError(f"the variable {VARIABLE} must be a positive whole number, not {setting!r}")
    return int(setting)


class _ThreadCount:
    count: int | None = None


_chosen = _ThreadCount()
if hasattr(os, "register_at_fork"):
    # A forked child is one of several workers, mostly: all cores for each would be too many threads.
    os.register_at_fork(after_in_child=lambda: set_num_threads(1))
