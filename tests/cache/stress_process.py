"""A process of the stress test: ``python -m tests.cache.stress_process SEED COUNT`` compiles COUNT functions.

It writes a line for each that was right, so that whoever ends it knows how far it was. Now and then several
are compiled in threads at once, in a forked child, or after the cache was cleared. NNMAGIC_TEST_WINDOWS in
the environment: the cache is kept as on Windows, where no process forks.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import warnings

import numpy as np
import pytest

import nnmagic
from nnmagic.cache import CacheWarning, disk_cache
from nnmagic.functions.cells.compile_cell import MEMORY
from tests.cache.windows import imitate_windows

WINDOWS = "NNMAGIC_TEST_WINDOWS" in os.environ

#: NumPy imports it when it is first used, and the child of a fork at that moment would wait for ever.
default_rng = np.random.default_rng

#: How many functions all processes share; their constants together are more than the cache may hold.
FUNCTIONS, ELEMENTS = 24, 20_000

SOURCES = [
    "def f(x: Tensor[({n},), f32]):\n    return x * w + {k}\n",
    'def f(x: Tensor[("n",), f32]):\n    return x * 2 + {k}\n',
    "def f(x: Tensor[({n},), f32]):\n    assert x[0] > 0, 'positive'\n    return x * w + {k}\n",
    "def f(x: Tensor[({n},), f32]):\n    return x * w + {k} if x[0] > 0 else x\n",
]


def right(number: int, rng: random.Random) -> str | None:
    """Compiles one of the functions; how it was come by, if its result is NumPy's."""
    w = default_rng(number).standard_normal(ELEMENTS).astype("float32")
    x = default_rng(rng.randrange(1000)).random(ELEMENTS).astype("float32") + 0.5
    source = SOURCES[number % len(SOURCES)]
    wanted = x * (2 if '"n"' in source else w) + np.float32(number)
    MEMORY.clear()
    text = source.format(n=ELEMENTS, k=number)
    function = nnmagic.compile(f"# {rng.random()}\n{text}", namespace={"w": w})
    close = np.allclose(function(x), wanted, rtol=1e-5, atol=1e-5)
    return str(function.cache_info.hit) if close else None


def compile_and_check(number: int, seed: int) -> str:
    """A line that tells how a function was come by, and how many warnings there were; or what was wrong."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        origin = right(number, random.Random(seed))
    if origin is None or any(warning.category is not CacheWarning for warning in seen):
        return f"wrong {number} {[str(warning.message) for warning in seen]}"
    return f"right {origin} {len(seen)}"


def in_threads(numbers: list[int], seed: int) -> list[str]:
    """The same for several functions at once; their warnings are not counted: Python has one list."""
    lines = [""] * len(numbers)

    def work(index: int) -> None:
        try:
            how = right(numbers[index], random.Random(seed + index))
            lines[index] = f"wrong {numbers[index]}" if how is None else f"right {how} 0"
        except BaseException as error:  # noqa: BLE001 - it is told
            lines[index] = f"wrong {numbers[index]} {error!r}"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        threads = [threading.Thread(target=work, args=(index,)) for index in range(len(numbers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return lines


def in_child(number: int, seed: int) -> list[str]:
    """The same in a forked child, while a thread of the parent compiles."""
    lines: list[str] = []
    beside = threading.Thread(target=lambda: lines.extend(in_threads([number], seed)))
    beside.start()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writing, compile_and_check(number, seed + 1).encode()[:4000])
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as file:
        lines.append(file.read())
    _, status = os.waitpid(child, 0)
    beside.join()
    if status:
        lines.append(f"wrong {number}: the child ended with {status}")
    return lines


def main(seed: int, count: int) -> int:
    if WINDOWS:
        imitate_windows(pytest.MonkeyPatch())
    rng = random.Random(seed)
    done = 0
    while done < count:
        number, chance = rng.randrange(FUNCTIONS), rng.random()
        if chance < 0.05 and count - done >= 3:
            lines = in_threads([number, rng.randrange(FUNCTIONS), number], rng.randrange(10**6))
        elif chance < 0.1 and not WINDOWS and count - done >= 2:
            lines = in_child(number, rng.randrange(10**6))
        else:
            if chance > 0.99:
                cache = disk_cache()
                assert cache is not None
                cache.clear()
            lines = [compile_and_check(number, rng.randrange(10**6))]
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        if not all(line.startswith("right") for line in lines):
            return 1
        done += len(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
