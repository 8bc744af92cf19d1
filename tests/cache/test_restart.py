"""A notebook in real kernels: the next day's kernel compiles nothing and loads no compiler.

Each starts its own kernels: a test asks what a process finds on disk, and what it imports.
"""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.kernels import new_kernel
from tests.list_cell import LIST
from tests.systems import WITHOUT_TORCH

pytestmark = pytest.mark.full

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
    f"%%tinynn\n{LIST}",
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
END = """\
import ctypes, sys

def is_loaded(library):
    if sys.platform == "win32":
        return bool(ctypes.windll.kernel32.GetModuleHandleW(library + ".dll"))
    return "lib" + library in open("/proc/self/maps").read()

print(dict(
    found={{name: (f.cache_info.hit, f.cache_info.why) for name, f in zip({names!r}, ({functions}))}},
    libraries=[name for name in ("tvm_compiler", "tvm_runtime") if is_loaded(name)],
    tvm="tvm" in sys.modules,
))
"""


def run(begin: str, cells: list[str], functions: list[str]) -> tuple[list[list[object]], dict[str, Any]]:
    """The outputs of the cells in a new kernel, and what the last one tells of it."""
    end = END.format(names=functions, functions="".join(f"{name}, " for name in functions))
    with new_kernel() as kernel:
        _, *outputs, told = [kernel.run(source, allow_errors=True) for source in (begin, *cells, end)]
    shown = [
        [output.get("text") or output.get("evalue") or dict(output.data) for output in each]
        for each in outputs
    ]
    return shown, ast.literal_eval(told[-1].text)


def check_restarts(begin: str, cells: list[str], functions: list[str]) -> list[list[object]]:
    """Runs a notebook in a kernel that compiles it and in two new ones that do not; what all of them show."""
    shown, kernel = run(begin, cells, functions)
    assert kernel["found"] == dict.fromkeys(functions, (None, "first time"))
    assert kernel["libraries"] == ["tvm_compiler", "tvm_runtime"]
    for _ in range(2):
        again, kernel = run(begin, cells, functions)
        assert again == shown
        assert kernel["found"] == dict.fromkeys(functions, ("disk", "found on disk"))
        assert kernel["libraries"] == ["tvm_runtime"], "the compiler was loaded"
        assert kernel["tvm"] is False
    return shown


knows_libraries = pytest.mark.skipif(
    sys.platform not in ("linux", "win32"), reason="the system does not tell what is loaded"
)


@knows_libraries
def test_after_a_restart_nothing_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(tmp_path))
    shown = check_restarts(BEGIN, [*CELLS, *FAILURES], FUNCTIONS)
    location = "index 7 is out of range for an axis of size 2\n --> <relay>:3:3\n"
    assert str(shown[-2][0]).startswith(location)
    assert "the limit must be positive" in str(shown[-1][0])


@knows_libraries
def test_the_quickstart_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(tmp_path))
    quickstart = nbformat.read(Path(__file__).parents[2] / "examples" / "quickstart.ipynb", as_version=4)
    begin, *cells = [cell.source for cell in quickstart.cells if cell.cell_type == "code"]
    check_restarts(begin, cells, ["foo", "scale"])


#: What a first cell found on disk does without: torch, which TVM would import, TVM's compiler, the parser and
#: what makes Relay of its tree.
HEAVY = ["torch", "tvm", "synr", "nnmagic.tinynn.syntax.cell", "nnmagic.tinynn.elaborate.cell"]


@WITHOUT_TORCH
@knows_libraries
def test_the_first_cell_found_on_disk_imports_neither_torch_nor_a_compiler_nor_the_parser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package ``torch`` is on the path that notes who imports it."""
    noted = tmp_path / "imports of torch"
    (tmp_path / "path" / "torch").mkdir(parents=True)
    (tmp_path / "path" / "torch" / "__init__.py").write_text(f"open({str(noted)!r}, 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "path"), *sys.path]))
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(tmp_path / "cache"))
    looked = f"import sys\nprint([name for name in {HEAVY!r} if name in sys.modules], layer.cache_info.hit)"
    cells = [*CELLS[:2], looked, "layer.stages['source'], layer.relay_text, layer.__signature__"]
    shown, _ = run(BEGIN, cells, ["layer"])
    assert shown[2] == [f"{HEAVY[1:]!r} None\n"]
    again, kernel = run(BEGIN, cells, ["layer"])
    assert again[2] == ["[] disk\n"]
    assert kernel["libraries"] == ["tvm_runtime"]
    assert [*again[:2], again[3]] == [*shown[:2], shown[3]]
    assert not noted.exists()
