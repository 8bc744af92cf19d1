"""The distribution nnmagic-runtime: files run with NumPy alone, with the bits of the notebook.

They judge `relay/complex_numbers/pairs`, too: what complex arguments are to machine code.
"""

from __future__ import annotations

import io
import json
import pickle
import platform
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.cache import Content, to_members
from tests.runtime.outcomes import outcome

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="it is for Linux on x86-64"
)

Outcomes = Callable[[dict[str, Any]], dict[str, Any]]

#: Cells by name. The function of a file is the last one of a cell.
CELLS = {
    "loop": """
def smooth(x: Tensor[("n",), f64], rate: f64 = 0.5, *, scale: f64 = 1.0):
    \"\"\"Average.\"\"\"
    y = x.copy()
    for i in range(1, x.shape[0]):
        y[i] = rate * y[i - 1] + (1.0 - rate) * x[i]
    return scale * y""",
    "network": """
def network(x: Tensor[("n", 16), f32], w: Tensor[(16, 8), f32]):
    return softmax(relu(x @ w), axis=1)""",
    "product": """
def product(x: Tensor[("n", "k"), f64], w: Tensor[("k", "m"), f64]):
    return x @ w""",
    "sort": """
def sort(x: Tensor[("n",), f64]):
    return np.sort(x), np.argsort(x), np.cumsum(x)""",
    "fft": """
def fft(x: Tensor[(16,), c128], y: Tensor[("n", 16), f64]):
    return np.fft.fft(x), np.fft.ifft(np.fft.fft(y)), abs(x)""",
    "random": """
def noise(rng: np.random.Generator, n: i64):
    return rng.standard_normal(n), rng.random(), np.random.default_rng(3).random(2)""",
    "record": """
class P:
    a: Tensor[("n",), f64]
    b: f64

def swap(p: P):
    return P(p.a * p.b, p.b + 1.0), p.b""",
    "sizes": """
def join(x: Tensor[("n", "m"), f32], y: Tensor[("2*n",), f32]):
    return np.concatenate([x.sum(axis=1), y]), x.T""",
    "errors": """
def errors(x: Tensor[("n",), i64], i: i64, step: i64):
    assert i != 7, "seven is refused"
    if i == 8:
        raise KeyError(f"eight is refused, too: {x}")
    total = 0
    for k in range(0, i, step):
        total += x[k]
    return total""",
    "depth": """
def depth(n: i64) -> i64:
    if n <= 0:
        return 0
    return 1 + depth(n - 1)""",
    "training": """
def loss(w: Tensor[(4,), f64], x: Tensor[("n", 4), f64], y: Tensor[("n",), f64]):
    return np.mean((x @ w - y) ** 2)

def step(w: Tensor[(4,), f64], x: Tensor[("n", 4), f64], y: Tensor[("n",), f64]):
    value, gradient = value_and_grad(loss)(w, x, y)
    return w - 0.1 * gradient, value""",
    "change": """
def change(x: InOut[Tensor[("n",), f64]], y: Out[Tensor[("n",), f64]]):
    y[:] = 2.0 * x
    x += 1.0""",
    "left": """
def left(x: Tensor[("n",), f64]):
    return x[x > 0.0], np.nonzero(x)[0]""",
    "length": """
def length(n: i64):
    return np.arange(n) * 2""",
    "tuples": """
def tuples(p: tuple[Tensor[(2,), f32], i32], flag: bool):
    a, n = p
    return (a * f32(n), n), not flag""",
    "parallel": """
def parallel(x: Tensor[("n",), f64]):
    y = np.zeros_like(x)
    for i in prange(x.shape[0]):
        y[i] = np.sqrt(x[i])
    return y""",
    "print": """
def show(x: Tensor[("n",), f64]):
    for i in range(x.shape[0]):
        print("item", i, x[i])
    return x.sum()""",
    "shapes": """
def shapes(x: Tensor[("n",), f64], k: i64):
    return x[:k] + x[1:], np.median(x)""",
}

RANDOM = np.random.default_rng(5)
X, Y = RANDOM.standard_normal(7), RANDOM.standard_normal((3, 16))

#: Arguments of calls, of which some are refused.
CALLS: dict[str, list[Any]] = {
    "loop": [
        (X,),
        (X, 0.25),
        ((X, 2), {"scale": 3.0}),
        (X[::2],),
        (np.empty(0),),
        (X.astype("f4"),),
        ("text",),
        (),
        ((X,), {"rat": 1.0}),
        ((X,), {"out": np.zeros(7)}),
        ((X,), {"out": np.zeros(6)}),
    ],
    "network": [
        (RANDOM.standard_normal((n, 16)).astype("f4"), Y[:, :8].T.repeat(2, 0).astype("f4")[:, :3])
        for n in (1, 5)
    ]
    + [(np.ones((2, 16), "f4"), np.ones((16, 8), "f4"))],
    "product": [
        (RANDOM.standard_normal((300, 200)), RANDOM.standard_normal((200, 300))),
        (np.ones((2, 3)), np.ones((4, 2))),
    ],
    "sort": [(X,), (np.array([np.nan, 1.0, -np.inf, 0.0, -0.0]),), (np.empty(0),)],
    "fft": [(Y[0] + 1j * Y[1], Y), (Y[0], Y), ((Y[0] + 1j * Y[1])[::-1], Y[:0])],
    "random": [
        (np.random.default_rng(1), 5),
        (np.random.default_rng(1), 0),
        (None, 5),
        (np.random.Generator(np.random.MT19937(1)), 2),
    ],
    "record": [({"a": X, "b": 2.0},), ((X, 2.0),), ({"a": X},), ({"a": X, "b": 2.0, "c": 1},)],
    "sizes": [
        (np.ones((2, 3), "f4"), np.arange(4, dtype="f4")),
        (np.ones((2, 3), "f4"), np.ones(5, "f4")),
        (np.ones((0, 3), "f4"), np.ones(0, "f4")),
    ],
    "errors": [
        (np.arange(5), 3, 1),
        (np.arange(5), 6, 1),
        (np.arange(5), 7, 1),
        (np.arange(5), 8, 1),
        (np.arange(5), 5, 0),
        (np.arange(5), 2**70, 1),
        (np.arange(5), 2.5, 1),
    ],
    "depth": [(10,), (20_000,), (1_000_000,)],
    "training": [(np.zeros(4), RANDOM.standard_normal((6, 4)), RANDOM.standard_normal(6))],
    "change": [(X, np.zeros(7)), (X, np.zeros(6)), (list(X), np.zeros(7)), (X, np.zeros(7, "f4"))],
    "left": [(X,), (-abs(X),), (np.empty(0),)],
    "length": [(5,), (0,)],
    "tuples": [((np.ones(2, "f4"), 3), True), ((np.ones(2, "f4"), 3, 4), True), ((np.ones(3, "f4"), 3), 1)],
    "parallel": [(np.arange(100_000.0),), (np.empty(0),)],
    "print": [(X[:2],)],
    "shapes": [(X, 6), (X, 5), (X[:1], 1)],
}


def compiled(name: str) -> Any:
    return nnmagic.compile(CELLS[name])


def calls_of(name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    calls = CALLS[name]
    return [call if len(call) == 2 and isinstance(call[1], dict) else (call, {}) for call in calls]


@pytest.mark.full
@pytest.mark.optimized
def test_functions_are_those_of_the_notebook(in_runtime: Outcomes, tmp_path: Path) -> None:
    here = {}
    for name in CELLS:
        function = compiled(name)
        function.save(tmp_path / name)
        loaded = nnmagic.load(tmp_path / name)  # whose errors have no line of the cell, either
        here[name] = [outcome(loaded, *call) for call in calls_of(name)]
        assert [outcome(function, *call)[0] for call in calls_of(name)] == [first for first, *_ in here[name]]
    there = in_runtime({name: calls_of(name) for name in CELLS})
    differing = [
        (name, call, ours, theirs)
        for name, wanted in here.items()
        for call, ours, theirs in zip(CALLS[name], there[name], wanted, strict=True)
        if ours != theirs
    ]
    assert not differing


def test_a_function_runs_with_numpy_alone(in_runtime: Outcomes, tmp_path: Path) -> None:
    function, plain = compiled("loop"), nnmagic.compile(CELLS["loop"], opt_level=0)
    function.save(tmp_path / "loop")
    plain.save(tmp_path / "plain")
    (tmp_path / "pickle").write_bytes(pickle.dumps(function))
    here = [outcome(function, *call) for call in calls_of("loop")]
    assert here[0][0][0] == "ndarray"
    files = ("loop", "plain", "pickle")
    assert in_runtime(dict.fromkeys(files, calls_of("loop"))) == dict.fromkeys(files, here)


def test_what_cannot_run_is_refused(in_runtime: Outcomes, tmp_path: Path) -> None:
    function = compiled("loop")
    (tmp_path / "unbuilt").write_bytes(pickle.dumps(nnmagic.compile(CELLS["left"], engine="numpy")))
    function.save(tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    for name, (old, new) in {
        "version": (nnmagic.__version__, "9.9.9"),
        "machine": ("Linux x86_64", "Linux riscv64"),
        "processor": ('"instruction sets": [', '"instruction sets": ["amx99",'),
        "damaged": ("SHA256SUMS", None),
    }.items():
        (tmp_path / name).write_bytes(edited(data, old, new))
    (tmp_path / "none").write_bytes(b"PK nothing")
    (tmp_path / "numbers").write_bytes(pickle.dumps([1, 2]))
    (tmp_path / "untyped").write_bytes(pickle.dumps(nnmagic.compile("def f(x):\n    return x\n")))
    names = ("unbuilt", "version", "machine", "processor", "damaged", "none", "numbers", "untyped")
    found = in_runtime({name: [] for name in names})
    said = {name: text for name, (_, text) in found.items()}
    assert "no machine code of @left" in said["unbuilt"]
    assert "f.build()" in said["unbuilt"]
    assert "pip install nnmagic-runtime==9.9.9" in said["version"]
    assert "compiled for Linux riscv64" in said["machine"]
    assert "a CPU with amx99, which this one lacks" in said["processor"]
    assert "code0.o was changed" in said["damaged"]
    assert "no function that nnmagic saved" in said["none"]
    assert "a pickle of a list" in said["numbers"]
    kinds = [kind for kind, _ in found.values()]
    assert "of one without types a specialization" in said["untyped"]
    assert kinds == ["EngineError"] * 4 + ["ValueError"] * 4


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a bare raise of Python 3.10 brings the frames back")
def test_errors_of_the_runtime_end_in_the_caller_s_line(bare_python: Path, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("import nnmagic_runtime\nnnmagic_runtime.loads(b'nothing')\n")
    done = subprocess.run([bare_python, path], capture_output=True, text=True, check=False, env={})
    assert done.stderr.count("  File ") == done.stderr.count("Traceback") == 1, done.stderr
    assert "ValueError: the data holds no function that nnmagic saved" in done.stderr


def edited(data: bytes, old: str, new: str | None) -> bytes:
    """Return the bytes of a function with a header that says something else, or with a changed object."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if new is None:
        members["code0.o"] = members["code0.o"][:-1] + b"?"
    else:
        header = members["header.json"].decode()
        header = json.dumps(json.loads(header)).replace(old, new)
        content = json.loads(header)
        members = to_members(Content(content, {name: members[name] for name in content.pop("files")}))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, bytes(member))
    return packed.getvalue()


@pytest.mark.full
def test_programs_that_need_more_say_so(in_runtime: Outcomes, tmp_path: Path) -> None:
    items = "class List:\n    def Nil(): ...\n    def Cons(head: f32, tail: List): ...\n\n"
    cells = {
        "data types": f"{items}def count(items: List) -> i64:\n    match items:\n"
        "        case Nil():\n            return 0\n"
        "        case Cons(_, tail):\n            return 1 + count(tail)\n",
        "lapack": 'def solved(x: Tensor[("n", "n"), f64]):\n    return np.linalg.eigh(x)[0]\n',
        "bfloat16": 'def half(x: Tensor[("n",), bf16]):\n    return x * x\n',
    }
    for name, cell in cells.items():
        nnmagic.compile(cell).save(tmp_path / name)
    found = in_runtime({name: [] for name in cells})
    assert "has data types or functions as values" in found["data types"][1]
    assert "pip install scipy" in found["lapack"][1]
    assert "pip install ml_dtypes" in found["bfloat16"][1]


#: Loops that take hours, in one thread and in several.
LONG = {
    "serial": """
def f(n: i64):
    s = 0.0
    for i in range(n):
        s += np.sin(s + 1.0)
    return s""",
    "threads": """
def f(n: i64):
    x = np.zeros(8)
    for i in prange(8):
        for k in range(n):
            x[i] += np.sin(x[i] + 1.0)
    return x.sum()""",
}
INTERRUPTED = """
import os, signal, sys, threading, time, nnmagic_runtime
f = nnmagic_runtime.load(sys.argv[1])
before = f(10)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
begin = time.perf_counter()
try:
    f(10**12)
except KeyboardInterrupt:
    print(time.perf_counter() - begin < 10, f(10) == before)
"""


@pytest.mark.full
@pytest.mark.optimized
@pytest.mark.parametrize("name", LONG)
def test_a_long_call_is_interrupted(name: str, bare_python: Path, tmp_path: Path) -> None:
    nnmagic.compile(LONG[name]).save(tmp_path / "f")
    command = [bare_python, "-c", INTERRUPTED, tmp_path / "f"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={}, check=False)
    assert done.stdout == "True True\n", done.stderr
