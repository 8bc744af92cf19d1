"""Measure what a user waits for in a new Jupyter kernel: ``python -m benchmarks.first_cell``.

A kernel starts, runs ``%load_ext nnmagic``, and gets its first ``%%tinynn`` cell at once, as when all cells
are run, and a second or two later, as from someone who types it. Each time is from the request to the reply,
the median of several kernels.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import tempfile
import time

from jupyter_client.manager import start_new_kernel

FIRST = """%%tinynn
def foo(a: Tensor[(2, 3), f32], b: Tensor[(3, 4), f32], c: Tensor[(2, 4), f32]):
    return a @ b + c"""
CALL = "import numpy as np\nfoo(np.ones((2, 3), 'f'), np.ones((3, 4), 'f'), np.ones((2, 4), 'f'))[0, 0]"
#: Seconds that a cell may take which is typed: with its code on disk, and to be compiled.
GOALS = {"on disk": 0.080, "compiled": 0.300}
#: What holds back the one that misses its goal.
NOTES = {
    "compiled": "the cell waits for the rest of the imports, 0.75 to 1.1 s, of which TVM takes half, the "
    "front end and Relay a third. They begin 50 ms after %load_ext and hold Python's lock. Gone is what was "
    "not needed: TVM's lists of all its functions for each module, a collection of garbage, and debugging "
    "data of Python's, which another core reads"
}


def first_cell(cache: str, pause: float) -> tuple[float, float]:
    """Return the seconds of `%load_ext` and of the first cell in a new kernel."""
    manager, client = start_new_kernel(
        # an empty value is none: the modules are compiled before, as those of an installed package are
        env={**os.environ, "NNMAGIC_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": ""},
        stderr=subprocess.DEVNULL,
    )
    try:
        seconds = []
        for code, wait in (("%load_ext nnmagic", pause), (FIRST, 0), (CALL, 0)):
            begin = time.perf_counter()
            reply = client.execute_interactive(code, timeout=120, output_hook=lambda _: None)
            seconds.append(time.perf_counter() - begin)
            assert reply["content"]["status"] == "ok", reply["content"]
            time.sleep(wait)
        return seconds[0], seconds[1]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=5, help="how many of each kind")
    kernels = parser.parse_args().kernels
    beside = "with torch beside it" if importlib.util.find_spec("torch") else "without torch"
    print(f"the first cell of a new kernel, {beside}; medians of {kernels}")
    with tempfile.TemporaryDirectory(prefix="nnmagic-first-") as kept:
        first_cell(kept, 1)
        for kind, goal in GOALS.items():
            for pause in (0, 1, 2):
                times = []
                for _ in range(kernels):
                    with tempfile.TemporaryDirectory(prefix="nnmagic-first-") as empty:
                        times.append(first_cell(kept if kind == "on disk" else empty, pause))
                load, cell = (1e3 * statistics.median(part) for part in zip(*times, strict=True))
                verdict = f", goal {1e3 * goal:.0f}: {'met' if cell <= 1e3 * goal else 'MISSED'}"
                times_shown = f"%load_ext {load:.0f} ms, the cell {cell:.0f} ms"
                print(f"{kind}, {pause} s later: {times_shown}{verdict if pause else ''}")
                if pause and cell > 1e3 * goal and kind in NOTES:
                    print(f"  {NOTES[kind]}")


if __name__ == "__main__":
    main()
