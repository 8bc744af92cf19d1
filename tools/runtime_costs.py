"""Print what nnmagic-runtime costs: its size, and the processor's time to import, load and call.

`python tools/runtime_costs.py PYTHON` asks, several times, the Python of an environment that has it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import nnmagic

SOURCE = """
def smooth(x: Tensor[("n",), f64], rate: f64):
    y = x.copy()
    for i in range(1, x.shape[0]):
        y[i] = rate * y[i - 1] + (1.0 - rate) * x[i]
    return y
"""
CHILD = """
import sys, time
clock = time.process_time
began = clock()
import numpy
with_numpy = clock()
import nnmagic_runtime
imported = clock()
function = nnmagic_runtime.load(sys.argv[1])
loaded = clock()
x = numpy.ones(1000)
called = clock()
function(x, 0.5)
ended = clock()
print(with_numpy - began, imported - with_numpy, loaded - imported, ended - called)
print(nnmagic_runtime.__file__)
"""
RUNS = 9


def main() -> None:
    """Measure, and print a table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "smooth.nnm")
        nnmagic.compile(SOURCE).save(path)
        command = [sys.argv[1], "-c", CHILD, str(path)]
        said = [
            subprocess.run(command, capture_output=True, text=True, check=True, env={}).stdout.splitlines()
            for _ in range(RUNS + 1)
        ]
    runs = [times.split() for times, _ in said[1:]]  # the first one writes bytecode
    package = Path(said[0][1]).parent
    size = sum(path.stat().st_size for path in package.rglob("*") if path.is_file())
    print(f"installed  {size / 1e6:.1f} MB, bytecode included")
    titles = ("import numpy", "import nnmagic_runtime", "load", "first call")
    for title, column in zip(titles, zip(*runs, strict=True), strict=True):
        times = [1e3 * float(each) for each in column]
        print(f"{title:22} {statistics.median(times):6.1f} ms, {min(times):.1f} at least")


if __name__ == "__main__":
    main()
