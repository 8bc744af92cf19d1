"""Times calls in turns: batches, interleaved by rounds; medians and spread. Knows no contestant."""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """batch: how long a batch of calls lasts, in seconds, unless one call is longer. rounds: the least and
    the largest number of batches for each. budget: seconds for a row, which ends it after the least number.
    pause: how long all are let alone before each batch, so that threads that still spin go to sleep.
    """

    batch: float = 0.01
    rounds: tuple[int, int] = (7, 25)
    budget: float = 3.0
    pause: float = 0.002


FULL = Settings()
QUICK = Settings(batch=0.001, rounds=(3, 3), budget=0.5)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds a call: the median of the batches, their quartiles and the least.

    calls: of a batch; rounds: batches. busy: processor time over time, what tells how many threads worked.
    """

    median: float
    low: float
    high: float
    least: float
    calls: int
    rounds: int
    busy: float


def measure(calls: Mapping[str, Callable[[], Any]], settings: Settings) -> dict[str, Timing]:
    """The timing of each call; all have been called before, so that nothing is compiled here."""
    counts = {name: _calls_of_a_batch(call, settings.batch) for name, call in calls.items()}
    found: dict[str, list[float]] = {name: [] for name in calls}
    busy: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    least, most = settings.rounds
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        begin = time.perf_counter()
        for done in range(most):
            if done >= least and time.perf_counter() - begin > settings.budget:
                break
            for name in order:
                if settings.pause:
                    time.sleep(settings.pause)
                seconds, worked = _batch(calls[name], counts[name])
                found[name].append(seconds)
                busy[name].append(worked)
            order = [*order[1:], order[0]]  # nobody always comes after the same
    finally:
        if collecting:
            gc.enable()
    return {name: timing(found[name], counts[name], busy[name]) for name in calls}


def _calls_of_a_batch(call: Callable[[], Any], batch: float) -> int:
    """How many calls last as long as a batch; at least one."""
    count = 1
    while True:
        seconds, _ = _batch(call, count)
        if seconds * count >= batch / 2 or count >= 1 << 20:
            return max(1, round(batch / seconds))
        count *= 4


def _batch(call: Callable[[], Any], count: int) -> tuple[float, float]:
    """Seconds a call, and processor time over time; before a batch of several one call wakes the threads."""
    if count > 1:
        call()
    processor = time.process_time()
    begin = time.perf_counter()
    for _ in itertools.repeat(None, count):
        call()
    seconds = time.perf_counter() - begin
    processor = time.process_time() - processor
    return seconds / count, processor / seconds if seconds else 0.0


def timing(seconds: Sequence[float], calls: int, busy: Sequence[float]) -> Timing:
    """The summary of batches."""
    low, median, high = quartiles(seconds)
    return Timing(median, low, high, min(seconds), calls, len(seconds), statistics.median(busy))


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The first quartile, the median and the third; between two values by their distance."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high
