"""Measure what a user waits for in a new Jupyter kernel: ``python -m benchmarks.first_cell``.

A kernel starts, runs ``%load_ext nnmagic``, and gets its first ``%%tinynn`` cell a second or two later, as
from someone who types it. Each time is from the request to the reply, the median of several kernels.
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
#: Seconds that a cell may take: with its code on disk, and to be compiled.
GOALS = {"on disk": 0.080, "compiled": 0.300}


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
            for pause in (1, 2):
                times = []
                for _ in range(kernels):
                    with tempfile.TemporaryDirectory(prefix="nnmagic-first-") as empty:
                        times.append(first_cell(kept if kind == "on disk" else empty, pause))
                load, cell = (1e3 * statistics.median(part) for part in zip(*times, strict=True))
                verdict = "met" if cell <= 1e3 * goal else "MISSED"
                times_shown = f"%load_ext {load:.0f} ms, the cell {cell:.0f} ms"
                print(f"{kind}, {pause} s later: {times_shown}, goal {1e3 * goal:.0f}: {verdict}")


if __name__ == "__main__":
    main()
