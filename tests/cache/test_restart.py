"""A notebook in real kernels: the next day's kernel compiles nothing and loads no compiler."""

from __future__ import annotations

import ast
from pathlib import Path
from statistics import median
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

#: Times each cell inside the kernel, between IPython's own events.
TIMING = """
import time
cell_times, _begun = [], []
get_ipython().events.register("pre_run_cell", lambda info: _begun.append(time.perf_counter()))
get_ipython().events.register(
    "post_run_cell", lambda result: cell_times.append((time.perf_counter() - _begun.pop()) if _begun else 0)
)
"""

CELLS = [
    """\
%%tinynn
def layer(x: Tensor[(2, 4), f32]):
    return softmax(nn.relu(x @ w0) + 1)
""",
    "layer(x).tolist()",
    """\
%%tinynn
def large(x: Tensor[(1024, 1024), f32]):
    return exp(x) * sigmoid(x) + tanh(x)
""",
    "float(large(np.ones((1024, 1024), 'float32')).sum())",
    """\
%%tinynn
def open_dimension(x: Tensor[("n", 4), f32]):
    return layer2(x).sum(axis=0), x.shape[0]

def layer2(x: Tensor[("n", 4), f32]):
    return exp(x) / 2
""",
    "[np.asarray(part).tolist() for part in open_dimension(x)]",
    """\
%%tinynn
def halved(x: f32, limit: f32):
    assert limit > 0, "the limit must be positive"
    while x > limit:
        x = x / 2
    return x
""",
    "halved(9.0, 1.5).tolist()",
    """\
%%tinynn
class List:
    def Nil(): ...
    def Cons(head: f32, tail: List): ...

def total(items: List) -> f32:
    match items:
        case Nil():
            return 0.0
        case Cons(head, tail):
            return head + total(tail)
""",
    "total(List.Cons(1.5, List.Cons(2.0, List.Nil()))).tolist()",
    """\
%%relay
def @main(%x: Tensor[(2, 4), float32], %i: Tensor[(?), int32]) {
  take(nn.dense(%x, %x, units=2), %i, axis=0, mode="fast")
}
""",
    "main(x, np.array([1, 0, 1], 'int32')).tolist()",
]
#: Calls that fail, whose messages come from the source though the code is loaded.
FAILURES = [
    "try:\n    main(x, np.array([7], 'int32'))\nexcept IndexError as error:\n    print(error)",
    "try:\n    halved(9.0, -1.0)\nexcept AssertionError as error:\n    print(error)",
]
#: What they define.
FUNCTIONS = ["layer", "large", "open_dimension", "layer2", "halved", "total", "main"]

BEGIN = """\
%load_ext nnmagic
import numpy as np
w0 = np.eye(4, dtype="float32")
x = np.arange(8, dtype="float32").reshape(2, 4)
"""
IMPORTS = """\
import contextlib, importlib
for name in {names!r}:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
"""
END = """\
import sys
maps = open("/proc/self/maps").read()
print(dict(
    found={{name: (f.cache_info.hit, f.cache_info.why) for name, f in zip({names!r}, ({functions}))}},
    libraries=[name for name in ("libtvm_compiler", "libtvm_runtime") if name in maps],
    tvm="tvm" in sys.modules,
    times=cell_times[-{count}:],
    modules=[name for name in sys.modules if name.replace(".", "").isidentifier() and name != "__main__"],
))
"""


def run(
    begin: str, cells: list[str], functions: list[str], imports: list[str]
) -> tuple[list[list[object]], dict[str, Any]]:
    """The outputs of the cells in a new kernel, and what the last one tells of it."""
    before = [begin, IMPORTS.format(names=imports), TIMING]
    end = END.format(names=functions, functions="".join(f"{name}, " for name in functions), count=len(cells))
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in (*before, *cells, end)]
    )
    NotebookClient(notebook, kernel_name="python3", timeout=120, allow_errors=True).execute()
    outputs = [cell.outputs for cell in notebook.cells[len(before) : -1]]
    shown = [
        [output.get("text") or output.get("evalue") or dict(output.data) for output in each]
        for each in outputs
    ]
    return shown, ast.literal_eval(notebook.cells[-1].outputs[-1].text)


def check_restarts(
    begin: str, cells: list[str], functions: list[str], *, failing: int = 0
) -> list[list[object]]:
    """Runs a notebook in a kernel that compiles it and in four new ones that do not, each cell in less than
    50 ms beyond its imports (by the median of three); what all of them show.

    failing: so many cells at the end fail in TVM, whose first traceback in a process takes it 150 ms.
    """
    shown, kernel = run(begin, cells, functions, [])
    assert kernel["found"] == dict.fromkeys(functions, (None, "first time"))
    assert kernel["libraries"] == ["libtvm_compiler", "libtvm_runtime"]
    imports: list[str] = []
    times = []
    for _ in range(4):
        again, kernel = run(begin, cells, functions, imports)
        assert again == shown
        assert kernel["found"] == dict.fromkeys(functions, ("disk", "found on disk"))
        assert kernel["libraries"] == ["libtvm_runtime"], "the compiler was loaded"
        assert kernel["tvm"] is False
        imports = kernel["modules"]
        times.append(kernel["times"])
    beyond_imports = [median(each) for each in zip(*times[1:], strict=True)]
    assert len(beyond_imports) == len(cells)
    assert max(beyond_imports[: len(cells) - failing]) < 0.05, beyond_imports
    return shown


needs_maps = pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="the system does not tell what is loaded"
)


@needs_maps
def test_after_a_restart_nothing_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(tmp_path))
    shown = check_restarts(BEGIN, [*CELLS, *FAILURES], FUNCTIONS, failing=len(FAILURES))
    place = "index 7 is out of range for an axis of size 2\n --> <relay>:3:3\n"
    assert str(shown[-2][0]).startswith(place)
    assert "the limit must be positive" in str(shown[-1][0])


@needs_maps
def test_the_quickstart_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(tmp_path))
    quickstart = nbformat.read(Path(__file__).parents[2] / "examples" / "quickstart.ipynb", as_version=4)
    begin, *cells = [cell.source for cell in quickstart.cells if cell.cell_type == "code"]
    check_restarts(begin, cells, ["foo", "scale"])


#: Cells that show themselves: as in the quickstart, and of 100 operators.
SHORT = CELLS[0]
LONG = (
    "%%tinynn\ndef long(x: Tensor[(2, 4), f32]):\n"
    + "".join(
        f"    x = {('exp', 'tanh', 'sigmoid', 'nn.relu')[place % 4]}(x) + {place}\n" for place in range(50)
    )
    + "    return x\n"
)
LARGE = """\
%%tinynn
def large(x: Tensor[(2, 11250), f32]):
    return x @ weights
"""
SHOWN = """\
from statistics import median
from IPython.core.magic import register_cell_magic
from IPython.display import display
from nnmagic.functions.compile import MEMORY
from nnmagic.jupyter.cell_output import shown_cell
weights = np.random.default_rng(0).standard_normal((11250, 1000)).astype("float32")
"""
#: A magic that shows what the cell showed, and does nothing else.
NOTHING = """\
bundle = shown_cell(MEMORY.entries()[0].value, ["relay"], None).bundle()

@register_cell_magic
def nothing(line, cell):
    display(bundle, raw=True)
"""


def seconds_added(cell: str, rounds: int = 25) -> float:
    """What nnmagic adds to a repeated cell of a live notebook, by the median: to read its text, to keep it in
    the history and to send what it shows is the kernel's work for any cell. Processor time of the thread that
    runs cells: other processes do not change it.
    """
    turn = [cell, cell.replace("%%tinynn", "%%nothing")]
    end = f"print([median(cell_times[-{2 * rounds}:][place::2]) for place in range(2)])"
    processor_time = TIMING.replace("perf_counter", "thread_time")
    printed: list[str] = []

    def hook(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])

    manager, client = start_new_kernel(kernel_name="python3")
    try:
        for source in (BEGIN, SHOWN, cell, NOTHING, processor_time, *turn * rounds, end):
            reply = client.execute_interactive(source, timeout=60, allow_stdin=True, output_hook=hook)
            assert reply["content"]["status"] == "ok", reply["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    whole, without = ast.literal_eval(printed[-1])
    return float(whole - without)


@pytest.mark.parametrize("cell", [SHORT, LONG], ids=["short", "of 100 operators"])
def test_a_repeated_cell_takes_less_than_a_millisecond(
    cell: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With all that it shows."""
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(tmp_path))
    assert seconds_added(cell) < 0.001


def test_a_repeated_cell_reads_large_arrays_at_the_speed_of_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """45 MB, each time from the first byte to the last: at 2 GB/s it would take 22 ms."""
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(tmp_path))
    assert seconds_added(LARGE) < 0.010
