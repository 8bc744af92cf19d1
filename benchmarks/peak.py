"""Measure the limits of the machine: the best matrix product of any installed library, and copying."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.cases.products import square_product
from benchmarks.measure import Settings, measure

_SIZES = (1024, 2048)
_SECONDS = Settings(batch=0.05, rounds=(5, 5))


def peak(threads: int, wanted: tuple[str, ...]) -> dict[str, Any]:
    """Operations a second of the best product in f32 and f64 and whose it is, bytes a second of copies."""
    limits: dict[str, Any] = {"threads": threads}
    for dtype, key in (("float32", "sgemm"), ("float64", "dgemm")):
        rates = _products(dtype, threads, wanted)
        best = max(rates, key=lambda each: rates[each])
        limits[key] = {"flops": rates[best], "by": best, "all": rates}
    limits["copy_in_cache"] = _copies(1 << 22, threads)
    limits["copy_in_memory"] = _copies(1 << 28, threads)
    return limits


def _products(dtype: str, threads: int, wanted: tuple[str, ...]) -> dict[str, float]:
    rates: dict[str, float] = {}
    for size in _SIZES:
        case = square_product(size, dtype)
        arguments = case.arguments(np.random.default_rng(0))
        expected = np.empty((size, size), dtype)
        problem = peers.Problem(case, arguments, {}, expected, threads)
        calls: dict[str, Callable[[], Any]] = {}
        for name in ("numpy", "torch", "onnxruntime", "jax.jit"):
            if name in wanted:
                try:
                    calls[name] = peers.MAKERS[name](problem).call
                except peers.AbsentError:
                    continue
        for call in calls.values():
            call()
        for name, timing in measure(calls, _SECONDS).items():
            rate = case.flops / timing.least
            rates[name] = max(rate, rates.get(name, 0.0))
    return rates


def _copies(nbytes: int, threads: int) -> float:
    """Bytes read and written a second by one copy a thread, each of its part; the best of some rounds."""
    parts = [
        (np.ones(nbytes // threads, "uint8"), np.ones(nbytes // threads, "uint8")) for _ in range(threads)
    ]
    repeats = max(1, (1 << 28) // nbytes)

    def copy(part: tuple[np.ndarray, np.ndarray]) -> None:
        for _ in range(repeats):
            np.copyto(part[0], part[1])

    best = 0.0
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            begin = time.perf_counter()
            list(pool.map(copy, parts))
            best = max(best, 2.0 * nbytes * repeats / (time.perf_counter() - begin))
    return best
