"""Kernels that take long end after an interrupt, give their memory back, and work the next time."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.runtime.callbacks import POLL
from nnmagic.engine.relax.runtime.ffi import tvm_ffi
from tests.child_process import run_python
from tests.systems import POSIX

PRODUCT = "def f(x: Tensor[('n', 'n'), f32]):\n    return x @ x\n"
WINDOW = (
    'def f(x: Tensor[(1, 1, "h", "w"), f32], k: Tensor[(1, 1, 1000, 1000), f32]):\n    return conv2d(x, k)\n'
)
SUM = "def f(x: Tensor[('n', 'm'), f32]):\n    return x.sum() + x.max(axis=0).sum()\n"
LOOP = (
    "def f(x: Tensor[('n', 'm'), f32], k: i64):\n"
    "    for i in range(k):\n        x = cumsum(x, axis=0)\n    return x\n"
)
WINDOWS = """def f(x: Tensor[("n",), f64], k: Tensor[("p",), f64]):
    p = k.shape[0]
    y = zeros(x.shape[0] - p + 1)
    for i in range(x.shape[0] - p + 1):
        y[i] = sum(x[i : i + p] * k)
    return y
"""


def ones(*shape: int) -> np.ndarray:
    """Return ones that take no memory until they are copied."""
    return np.broadcast_to(np.float32(1), shape)


#: Programs, their levels, arguments of a call that takes hours, and of one that does not.
LONG = {
    "a product of level 0": (PRODUCT, 0, (ones(9000, 9000),), (ones(2, 2),)),
    "a window": (
        WINDOW,
        3,
        (ones(1, 1, 4000, 4000), ones(1, 1, 1000, 1000)),
        (ones(1, 1, 1000, 1001), ones(1, 1, 1000, 1000)),
    ),
    "nothing, in many rows": (SUM, 3, (np.empty((1 << 50, 0), "f"),), (ones(2, 3),)),
    "nothing, in many rows, level 0": (SUM, 0, (np.empty((1 << 50, 0), "f"),), (ones(2, 3),)),
    "kernels in a loop": (
        LOOP,
        3,
        (ones(300, 300), np.int64(1 << 60)),
        (ones(2, 3), np.int64(2)),
    ),
}


def interrupted(call: Callable[..., object], *arguments: object) -> None:
    """Interrupt a call; one that does nothing may end before."""
    timer = threading.Timer(0.05, _thread.interrupt_main)
    with pytest.raises(KeyboardInterrupt):
        call_and_wait(timer, call, *arguments)
    timer.join()


def call_and_wait(timer: threading.Timer, call: Callable[..., object], *arguments: object) -> None:
    timer.start()
    call(*arguments)
    while True:
        time.sleep(0.01)


@pytest.mark.full
@pytest.mark.parametrize("name", LONG)
def test_a_long_kernel_ends(name: str) -> None:
    source, level, *calls = LONG[name]
    arguments, few = (tuple(map(np.array, call)) for call in calls)
    f = nnmagic.compile(source, cache=False, opt_level=level)
    expected = f(*few)
    for _ in range(3):
        interrupted(f, *arguments)
        np.testing.assert_array_equal(f(*few), expected)


@pytest.fixture
def asked() -> Iterator[list[int]]:
    """How often kernels ask whether they are to stop."""
    ask, found = tvm_ffi.get_global_func(POLL), []
    tvm_ffi.register_global_func(POLL, lambda: found.append(1) or ask(), override=True)
    yield found
    tvm_ffi.register_global_func(POLL, ask, override=True)


def test_windows_of_a_large_array_are_no_large_work(asked: list[int]) -> None:
    """Every round asked once, as the array might have been the window."""
    f = nnmagic.compile(WINDOWS, cache=False)
    x = np.arange(1 << 20, dtype="f8")
    np.testing.assert_array_equal(f(x, np.ones(3)), 3 * x[1:-1])
    assert 0 < len(asked) < 100


def test_passes_over_a_long_vector_ask(asked: list[int]) -> None:
    """The four passes of a sort were one piece: a second for 64 million numbers."""
    f = nnmagic.compile("def f(x: Tensor[('n',), f32]):\n    return sort(x)\n", cache=False)
    x = np.random.default_rng(0).standard_normal(1 << 22).astype("f")
    np.testing.assert_array_equal(f(x), np.sort(x))
    assert len(asked) > 30


def test_each_of_a_few_long_rows_asks(asked: list[int]) -> None:
    f = nnmagic.compile("def f(x: Tensor[('k', 'n'), f32]):\n    return cumsum(x, axis=1)\n", cache=False)
    np.testing.assert_array_equal(f(np.ones((3, 1 << 22), "f"))[:, -1], [1 << 22] * 3)
    assert len(asked) >= 3
    asked.clear()
    np.testing.assert_array_equal(f(np.ones((1 << 20, 3), "f"))[:, -1], np.full(1 << 20, 3))
    assert len(asked) < 10


def test_each_matrix_of_a_batch_asks(asked: list[int]) -> None:
    """LAPACK counted as one statement, and many matrices were one piece."""
    pytest.importorskip("scipy")
    f = nnmagic.compile("def f(x: Tensor[('b', 'n', 'n'), f64]):\n    return eigvalsh(x)\n", cache=False)
    large, small = (np.ones((count, size, size)) for count, size in ((5, 160), (1000, 3)))
    np.testing.assert_allclose(f(large)[:, -1], [160] * 5)
    assert len(asked) >= 4
    asked.clear()
    np.testing.assert_allclose(f(small)[:, -1], [3] * 1000)
    assert len(asked) < 10


def test_a_call_that_was_interrupted_is_not_made_again() -> None:
    """CPython calls the machine code directly, and hands what fails over to Python."""
    f = nnmagic.compile(PRODUCT, opt_level=0)
    small, large = np.ones((2, 2), "f"), np.ones((4000, 4000), "f")
    for _ in range(2):
        for _ in range(20):
            f(small)
        interrupted(f, large)
        assert f(small).tolist() == [[2, 2], [2, 2]]


MEMORY = """
import _thread, resource, threading
import numpy as np
import nnmagic

source = "def f(x: Tensor[('n', 'n'), f32]):\\n    return softmax(x * 2) @ x\\n"
f = nnmagic.compile(source, cache=False, opt_level={level})
x = np.ones((4000, 4000), "f")
most = []
for k in range(12):
    try:
        threading.Timer(0.2, _thread.interrupt_main).start()
        while True:
            f(x)
    except KeyboardInterrupt:
        most.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(most[-1] - most[2] < 4 * 64_000)
"""


@POSIX
@pytest.mark.full
@pytest.mark.parametrize("level", [0, 3])
def test_a_kernel_that_is_interrupted_gives_its_memory_back(level: int) -> None:
    assert run_python("-c", MEMORY.replace("{level}", str(level))).stdout == "True\n"
