"""What compiled functions keep of memory, measured in a process of its own."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import nnmagic
from nnmagic.functions.cells.compile_cell import MEMORY

#: Prints by how many bytes the process grew over so many functions, after a first few.
_SCRIPT = """
import ctypes, gc
import numpy as np
import nnmagic

def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(open("/proc/self/statm").read().split()[1]) * 4096

def compile_functions(first, count):
    for number in range(first, first + count):
        source = f"def f(x: Tensor[(2, 3), f32]):\\n    return x * {number}.5 + exp(x)\\n"
        nnmagic.compile(source, namespace={}, cache=CACHE)(np.ones((2, 3), "float32"))

compile_functions(0, 20)
before = resident()
compile_functions(100, COUNT)
print(resident() - before)
"""


def growth(count: int, *, cache: bool) -> int:
    script = _SCRIPT.replace("CACHE", str(cache)).replace("COUNT", str(count))
    command = [sys.executable, "-c", script]
    environment = {"NNMAGIC_CACHE_MB": "0", "PATH": ""}
    child = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert child.returncode == 0, child.stderr
    return int(child.stdout)


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and glibc gives memory back when asked")
def test_dropped_functions_give_their_memory_back() -> None:
    assert growth(60, cache=False) < 3_000_000


@pytest.mark.parametrize(
    "source",
    [
        "def f(x: Tensor[(2, 3), f32]):\n    return x * weights + exp(x)\n",
        "def f(x: Tensor[('n', 3), f32]):\n    return (x - x.max(axis=0)) @ weights.T\n",
        "def f(x: Tensor[(2, 3), f32], n: i32 = 2):\n"
        "    for i in range(n):\n        x = x * weights\n    return x\n",
    ],
    ids=["straight", "named", "loop"],
)
@pytest.mark.usefixtures("without_collector")
def test_a_dropped_function_needs_no_garbage_collection(source: str) -> None:
    weights = np.ones((2, 3), "float32")
    f = nnmagic.compile(source, namespace={"weights": weights}, cache=False)
    f(np.ones((2, 3), "float32"))
    kept = [weakref.ref(f), weakref.ref(f._definition.executable)]
    del f
    assert [each() for each in kept] == [None, None]


@pytest.fixture
def without_collector(few_objects: None) -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and glibc gives memory back when asked")
def test_a_function_in_the_cache_keeps_its_code_and_not_its_stages() -> None:
    """100 kB each: an object file of 9 kB, its pages once loaded, source, Relay. Stages would be 250 kB."""
    assert growth(100, cache=True) < 16_000_000


@pytest.mark.full
def test_stages_are_compiled_again_where_they_were_dropped() -> None:
    functions = [
        nnmagic.compile(f"def f(x: f32):\n    return x * {number}.5\n", namespace={}, cache=False)
        for number in range(20)
    ]
    for number, function in enumerate(functions):
        assert function(np.float32(2)) == 2 * (number + 0.5)
    for number, function in enumerate(functions):
        assert f"{number}.5" in function.stages["tir"]


def test_the_cache_counts_machine_code_and_constants() -> None:
    """Its bound holds for these: they are what a kept function takes most of."""
    weights = np.random.default_rng(5).standard_normal((256, 256))
    source = "def f(x: Tensor[(256,), f64]):\n    return tanh(x @ weights) + exp(x)\n"
    MEMORY.clear()
    function = nnmagic.compile(source, namespace={"weights": weights})
    assert weights.nbytes <= MEMORY.statistics.nbytes < 3 * weights.nbytes
    before = MEMORY.statistics.nbytes
    function(np.ones(256))
    artifact = function._definition.built_executable.artifact
    code = sum(map(len, artifact.code))
    assert 2_000 < code < 1_000_000
    assert MEMORY.statistics.nbytes >= max(before, code + weights.nbytes)
