"""Time calls in turns, in batches interleaved by rounds; report medians and spread."""

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
    patience: how long, at most, a batch waits for the threads of others to go to sleep; some spin for long.
    """

    batch: float = 0.01
    rounds: tuple[int, int] = (7, 25)
    budget: float = 3.0
    patience: float = 0.1


FULL = Settings()
#: For rows of which there are very many.
SHORT = Settings(batch=0.003, rounds=(5, 9), budget=0.5)
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


#: Calls that are quicker are called for as long as a batch before each one: threads wake, the system finds a
#: processor for each, which may take it some of its turns of 4 ms, and caches fill.
_SHORT = 0.05


def measure(calls: Mapping[str, Callable[[], Any]], settings: Settings) -> dict[str, Timing]:
    """The timing of each call; all have been called before, so that nothing is compiled here."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    busy: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    least, most = settings.rounds
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        quickest = {name: _estimate(call, settings.batch) for name, call in calls.items()}
        begin = time.perf_counter()
        for done in range(most):
            if done >= least and time.perf_counter() - begin > settings.budget:
                break
            for name in order:
                wait_for_sleep(settings.patience)
                if quickest[name] < _SHORT:
                    _batch(calls[name], _count(quickest[name], settings.batch))
                seconds, worked = _batch(calls[name], _count(quickest[name], settings.batch))
                quickest[name] = min(quickest[name], seconds)  # the estimate may have been disturbed
                times[name].append(seconds)
                busy[name].append(worked)
            order = [*order[1:], order[0]]  # nobody always comes after the same
    finally:
        if collecting:
            gc.enable()
    counts = {name: _count(quickest[name], settings.batch) for name in calls}
    return {name: timing(times[name], counts[name], busy[name]) for name in calls}


def _count(seconds: float, batch: float) -> int:
    """How many calls of so many seconds make a batch; at least one."""
    return max(1, round(batch / seconds))


def _estimate(call: Callable[[], Any], batch: float) -> float:
    """About how many seconds a call takes."""
    count = 1
    while True:
        seconds, _ = _batch(call, count)
        if seconds * count >= batch / 4:
            return seconds
        count *= 4


def _batch(call: Callable[[], Any], count: int) -> tuple[float, float]:
    """Seconds a call, and processor time over time."""
    processor = time.process_time()
    begin = time.perf_counter()
    for _ in itertools.repeat(None, count):
        call()
    seconds = time.perf_counter() - begin
    processor = time.process_time() - processor
    return seconds / count, processor / seconds


def wait_for_sleep(patience: float) -> None:
    """Returns when this process's threads work no more, or when patience is at its end."""
    end = time.perf_counter() + patience
    while True:
        processor, begin = time.process_time(), time.perf_counter()
        time.sleep(0.001)
        now = time.perf_counter()
        if time.process_time() - processor < 0.2 * (now - begin) or now > end:
            return


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
