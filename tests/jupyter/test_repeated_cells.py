"""A cell that is run again: how much work and memory it takes."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.kernels import Kernel

BEGIN = """\
%load_ext nnmagic
import numpy as np
w0 = np.eye(4, dtype="float32")
"""
#: Cells that show themselves: as in the quickstart, and of 100 operators.
SHORT = """\
%%tinynn
def layer(x: Tensor[(2, 4), f32]):
    return softmax(nn.relu(x @ w0) + 1)
"""
LONG = (
    "%%tinynn\ndef long(x: Tensor[(2, 4), f32]):\n"
    + "".join(
        f"    x = {('exp', 'tanh', 'sigmoid', 'nn.relu')[index % 4]}(x) + {index}\n" for index in range(50)
    )
    + "    return x\n"
)
LARGE = """\
%%tinynn
def large(x: Tensor[(2, 11250), f32]):
    return x @ weights
"""
#: What a cell that is run again does between IPython's own events: how often nnmagic's functions are called
#: and call what is written in C, and the most bytes that are held meanwhile.
COUNTING = """\
import os, sys, tracemalloc
import nnmagic
from nnmagic.functions.cells.compile_cell import MEMORY
weights = np.random.default_rng(0).standard_normal((11250, 1000)).astype("float32")
counts, peaks = [], []
PACKAGE = os.path.dirname(nnmagic.__file__) + os.sep  # the clone may be called nnmagic, too

def count(frame, event, argument):
    counts[-1] += event in ("call", "c_call") and frame.f_code.co_filename.startswith(PACKAGE)

def begin(info):
    counts.append(0)
    tracemalloc.start()
    sys.setprofile(count)

def end(result):
    sys.setprofile(None)
    if tracemalloc.is_tracing():
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
"""
BETWEEN_EVENTS = """\
get_ipython().events.register("pre_run_cell", begin)
get_ipython().events.register("post_run_cell", end)
"""
COUNTED = """\
get_ipython().events.unregister("pre_run_cell", begin)
print((counts[1], peaks[1], {name}.cache_info.hit, {name}.cache_info.why))
"""


def count_calls(kernel: Kernel, cache: Path, cell: str, name: str) -> tuple[int, int]:
    """Return the calls inside nnmagic of a cell that is run again, and the most bytes that it takes."""
    kernel.renew()
    kernel.run(f"import os\nos.environ['NNMAGIC_CACHE_DIR'] = {str(cache)!r}")
    for source in (BEGIN, COUNTING, cell, cell, BETWEEN_EVENTS, cell, cell):
        kernel.run(source, live=True)
    (printed,) = kernel.run(COUNTED.format(name=name), live=True)
    calls, nbytes, *result = ast.literal_eval(printed.text)
    assert result == ["memory", "found in memory"]
    return calls, nbytes


def test_a_repeated_cell_is_neither_parsed_nor_compiled_nor_drawn(kernel: Kernel, tmp_path: Path) -> None:
    """With all that it shows: the work does not depend on what the cell holds."""
    short, _ = count_calls(kernel, tmp_path, SHORT, "layer")
    long, _ = count_calls(kernel, tmp_path, LONG, "long")
    assert short < 400
    assert long < short + 50, "the second one has 100 operators, the first one four"


def test_a_repeated_cell_reads_large_arrays_where_they_are(kernel: Kernel, tmp_path: Path) -> None:
    """45 MB, each time from the first byte to the last."""
    calls, nbytes = count_calls(kernel, tmp_path, LARGE, "large")
    assert calls < 400
    assert nbytes < 1_000_000
