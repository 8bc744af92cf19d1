"""Measure the memory of one call in a process of its own: ``python -m benchmarks.memory ROW CONTESTANT``."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

_ROOT = Path(__file__).resolve().parents[1]


def peak_bytes(row: str, contestant: str, threads: int) -> int:
    """Return how many bytes a call of a contestant takes at its peak, its results included.

    Raises AbsentError if the contestant does not take part.
    """
    from benchmarks.peers import AbsentError

    command = [sys.executable, "-m", "benchmarks.memory", row, contestant, str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, check=False)
    if done.returncode:
        raise AbsentError(f"failed: {done.stderr.strip().splitlines()[-1][:300]}")
    return int(done.stdout.split()[-1])


def _resident() -> int:
    """Return the bytes of this process that are in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def _measure(row: str, contestant: str, threads: int) -> int:
    """Watch calls, and return the most that they take beyond what the process had before the first one."""
    from benchmarks import peers
    from benchmarks.cases import ROWS

    case = next(each for each in ROWS if each.name == row)
    arguments = case.arguments(np.random.default_rng(0))  # type: ignore[union-attr] # a row of a call
    problem = peers.Problem(case, arguments, {}, np.empty(0), threads)  # type: ignore[arg-type]
    call = peers.MAKERS[contestant](problem).call
    begin = _resident()
    call()  # compiles, for some
    gc.collect()
    before, most, over = min(begin, _resident()), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not over.is_set():
            most = max(most, _resident())
            time.sleep(0.0005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(5):
        result = call()
        most = max(most, _resident())
        del result
    over.set()
    watcher.join()
    return most - before


if __name__ == "__main__":
    found = _measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print(found)
