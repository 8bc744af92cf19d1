"""A process is killed, or the disk is full, while a file is written: what was there is whole, or what is new.

A child writes without end and is killed at a random moment, a few times for each kind of file.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic.cache import DiskCache, MissingEntry
from nnmagic.cache.database import DatabaseCache
from tests.child_process import PATIENCE, run_python
from tests.suites import FULL
from tests.systems import POSIX

pytestmark = POSIX

KILLS = 4 if FULL else 2
SOURCE = "def f(x: Tensor[(2,), f32]):\n    return x * 2 + w.sum()\n"
KEY = "a" * 64

HEAD = """
import itertools, sys
from pathlib import Path
import numpy as np
import nnmagic
from nnmagic.cache import Content, DiskCache
from nnmagic.cache.database import DatabaseCache

folder = Path({folder!r})
source = {source!r}
def content(k):
    return Content({{}}, {{"code.o": bytes([k]) * 3_000_000}})
def make(k):
    w = np.full(400_000, k % 7, "f4")
    return nnmagic.compile(source, namespace={{"w": w}}, cache=False, engine={engine!r})
"""
#: What a child does without end; ``k`` is the number of the round.
WRITERS = {
    "entry": "DiskCache(folder, 10**8).put('a' * 64, content(k % 7), replace=True)",
    "entry of the database": "DatabaseCache(folder, 10**8).put('a' * 64, content(k % 7), replace=True)",
    "note": "DiskCache(folder, 10**8).note('f', [k % 7] * 200_000)",
    "note of the database": "DatabaseCache(folder, 10**8).note('f', [k % 7] * 200_000)",
    "saved function": "functions[k % 7].save(folder / 'f.nnm')",
    "ONNX": "functions[k % 7].to_onnx(folder / 'f.onnx')",
}


def _entry(store: DiskCache | DatabaseCache) -> bool:
    content = store.get(KEY)
    if isinstance(content, MissingEntry):
        return content.why == ""
    data = bytes(content.files["code.o"])
    return data == data[:1] * 3_000_000


def _note(store: DiskCache | DatabaseCache) -> bool:
    note = store.read_note("f")
    return note is None or note == note[:1] * 200_000


def _function(function: nnmagic.CompiledFunction) -> bool:
    return bool((function(np.zeros(2, "f4")) % 400_000 == 0).all())


#: Whether what is in a folder is whole.
CHECKS: dict[str, Callable[[Path], bool]] = {
    "entry": lambda folder: _entry(DiskCache(folder, 10**8)),
    "entry of the database": lambda folder: _entry(DatabaseCache(folder, 10**8)),
    "note": lambda folder: _note(DiskCache(folder, 10**8)),
    "note of the database": lambda folder: _note(DatabaseCache(folder, 10**8)),
    "saved function": lambda folder: _function(nnmagic.load(folder / "f.nnm")),
    "ONNX": lambda folder: _function(
        nnmagic.from_onnx(folder / "f.onnx", cache=False, engine="numpy")  # compiling is no part of it
    ),
}


def child(kind: str, folder: Path, **options: str) -> subprocess.Popen[str]:
    engine = "relax" if kind == "saved function" else "numpy"
    code = HEAD.format(folder=str(folder), source=SOURCE, engine=engine)
    if "functions" in WRITERS[kind]:
        code += "functions = [make(k) for k in range(7)]\n"
    code += f"for k in itertools.count():\n    {WRITERS[kind]}\n    print(k, flush=True)\n"
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.full
@pytest.mark.parametrize("kind", WRITERS)
def test_a_process_is_killed_while_it_writes(kind: str, tmp_path: Path) -> None:
    chance = random.Random(kind)
    for _ in range(KILLS):
        with child(kind, tmp_path) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "0\n", process.stderr and process.stderr.read()
            time.sleep(chance.random() / 10)
            process.kill()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert CHECKS[kind](tmp_path)
    partial = [path for path in tmp_path.iterdir() if "partial" in path.name]
    assert len(partial) <= KILLS


TOGETHER = """
import sys, numpy as np, nnmagic
x = np.ones(4, "f4")
for k in range(6):
    source = f"def f(x: Tensor[(4,), f32]):\\n    return (x * {k}).cumsum() + w\\n"
    f = nnmagic.compile(source, namespace={"w": np.full(4, k, "f4")})
    assert f(x).tolist() == [k * n + k for n in range(1, 5)], (k, f(x))
print(f.cache_info.hit)
"""


@pytest.mark.full
def test_processes_that_compile_one_cell_at_once_get_the_same(tmp_path: Path) -> None:
    environment = {**os.environ, "NNMAGIC_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", TOGETHER]
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300 * PATIENCE)
        assert process.returncode == 0, errors
    assert run_python("-W", "error", "-c", TOGETHER, NNMAGIC_CACHE_DIR=str(tmp_path)).stdout == "disk\n"
    assert not [path for path in tmp_path.iterdir() if "partial" in path.name]


FULL_DISK = """
import errno, os, warnings
import numpy as np
import nnmagic

def refuse(*arguments, **keywords):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

usual, os.{call} = os.{call}, refuse
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    f = nnmagic.compile("def f(x: Tensor[(4,), f32]):\\n    return x * 5\\n")
    print(f(np.ones(4, "f4")).tolist(), {str(each.message).rpartition(": ")[2] for each in seen})
os.{call} = usual
print([name for name in os.listdir(os.environ["NNMAGIC_CACHE_DIR"]) if "partial" in name])
"""


@pytest.mark.full
@pytest.mark.parametrize("call", ["mkdir", "open", "rename"])
def test_a_full_disk_costs_no_cell(call: str, tmp_path: Path) -> None:
    """The system's functions fail, so that it is no matter who runs the test."""
    code = FULL_DISK.replace("{call}", call)
    told = run_python("-c", code, NNMAGIC_CACHE_DIR=str(tmp_path)).stdout.splitlines()
    assert told[0] == "[5.0, 5.0, 5.0, 5.0] {'No space left on device'}"
    assert told[1] == "[]"


FORKS = """
import os, threading, numpy as np, nnmagic, warnings
warnings.simplefilter("ignore")
large = "def f(x: Tensor[('n', 'n'), f32]):\\n" + "".join(
    f"    x = tanh(x @ x[:, :{k}] @ x[:{k}]).cumsum(axis=0)\\n" for k in range(3, 9)) + "    return x\\n"
small = "def f(x: Tensor[(2,), f32]):\\n    return x + {}\\n"
f = nnmagic.compile(small.format(1), cache=False)
g = nnmagic.compile("def f(x: Tensor[('n', 'n'), f32]):\\n    return x @ x\\n", cache=False)
x, y = np.ones(2, "f"), np.ones((400, 400), "f")
g(y)
thread = threading.Thread(target=lambda: nnmagic.compile(large, cache=False))
thread.start()
codes = []
k = 0
while thread.is_alive() and k < 25:
    k += 1
    child = os.fork()
    if child == 0:
        right = f(x).tolist() == [2, 2] and g(y)[3, 4] == 400
        if k % 5 == 0:
            right = right and nnmagic.compile(small.format(k), cache=False)(x).tolist() == [1 + k, 1 + k]
        os._exit(0 if right else 1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
print(set(codes), len(codes) > 0)
"""


@pytest.mark.full
def test_children_that_are_forked_during_a_compilation_call_and_compile() -> None:
    assert run_python("-c", FORKS).stdout == "{0} True\n"


POOL = """
import multiprocessing, threading, numpy as np, nnmagic, warnings
warnings.simplefilter("ignore")

def work(k):
    x = np.ones(3, "f")
    g = nnmagic.compile(f"def f(x: Tensor[(3,), f32]):\\n    return x * {k}\\n", cache=k % 2 == 0)
    return (f(x) + g(x)).tolist()

f = nnmagic.compile("def f(x: Tensor[(3,), f32]):\\n    return x + 1\\n", cache=False)
f(np.ones(3, "f"))
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(work, range(6)).get(200)
    print(found == [[2.0 + k] * 3 for k in range(6)])
"""


@pytest.mark.full
def test_forked_workers_compile(tmp_path: Path) -> None:
    assert run_python("-c", POOL, NNMAGIC_CACHE_DIR=str(tmp_path)).stdout == "True\n"
