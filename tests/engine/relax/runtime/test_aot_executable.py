"""Straight programs: how arrays reach the machine code, as they are or described by hand.

They judge engine/relax/codegen/aot/whole_program, too.
"""

import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.codegen.aot.memory import find_offset
from nnmagic.engine.relax.codegen.aot.program import Storage
from nnmagic.engine.relax.runtime import numpy_abi
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable

SOURCE = """
def foo(a: Tensor[(2, 3), f32], b: Tensor[(3, 4), f32], c: Tensor[(2, 4), f32]):
    return a @ b + c
"""


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (3, 4), (2, 4))]


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="other Pythons have other objects")
def test_the_memory_of_array_objects_is_known_here():
    assert numpy_abi.address is id


def test_arrays_as_they_are_need_no_look(arrays):
    foo = nnmagic.compile(SOURCE)
    foo.build()
    assert isinstance(foo._definition.executable, AotExecutable)
    a, b, c = arrays
    assert foo._caller.fast_path is not None
    np.testing.assert_allclose(foo._caller.fast_path((a, b, c)), a @ b + c, rtol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.astype(np.float64),
        lambda a: a.astype(">f4"),
        lambda a: a.tolist(),
        lambda a: None,
        lambda a: 1.5,
        lambda a: a[:1],
        lambda a: a[None],
        lambda a: a.ravel(),
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        np.ma.masked_array,
        lambda a: a.view(np.matrix),
        lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3),
    ],
)
def test_whatever_is_no_plain_array_needs_a_look(arrays, change):
    foo = nnmagic.compile(SOURCE)
    foo.build()
    a, b, c = arrays
    assert foo._caller.fast_path is not None
    assert foo._caller.fast_path((change(a), b, c)) is None


def test_arrays_described_by_hand_come_to_the_same(arrays, monkeypatch):
    wanted = nnmagic.compile(SOURCE)(*arrays)
    monkeypatch.setattr(numpy_abi, "address", None)
    foo = nnmagic.compile(SOURCE, cache=False)
    foo.build()
    assert foo._caller.fast_path is None
    np.testing.assert_array_equal(foo(*arrays), wanted)


def test_tuples_constants_and_several_results():
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    source = """
def f(pair: tuple[Tensor[(2, 3), f32], Tensor[(2, 3), f64]]):
    left, right = pair
    return left * weight, (right.T, left)
"""
    f = nnmagic.compile(source, namespace={"weight": weight})
    left, right = np.ones((2, 3), np.float32), np.arange(6.0).reshape(2, 3)
    product, (turned, same) = f((left, right))
    np.testing.assert_array_equal(product, weight)
    np.testing.assert_array_equal(turned, right.T)
    np.testing.assert_array_equal(same, left)
    assert not np.shares_memory(same, left)


def test_many_threads_at_once_do_not_disturb_each_other():
    source = """
def f(x: Tensor[(64, 64), f32]):
    y = softmax(x @ x)
    return (y @ x + y).T
"""
    f = nnmagic.compile(source)
    inputs = [np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32) for seed in range(8)]
    wanted = [f(x) for x in inputs]
    wrong = []

    def work(x, result):
        wrong.extend(1 for _ in range(200) if not np.array_equal(f(x), result))

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, wanted, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_places_in_the_workspace_do_not_overlap():
    live = [Storage("temporary", -1, 100, 0), Storage("temporary", -1, 64, 256)]
    assert find_offset(live, 128) == 128
    assert find_offset(live, 129) == 320


@pytest.mark.full
def test_the_memory_of_a_kernel_is_given_back():
    """Kernels that hold more than fits their stack: a hundred calls take no more memory than three."""
    if sys.platform != "linux":
        pytest.skip("this system does not tell how much memory a process has")

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    foo = nnmagic.compile("def foo(x: Tensor[(1_000_000,), f32]):\n    return cumsum(x)")
    x = np.ones(1_000_000, "float32")
    for _ in range(3):
        foo(x)
    before = resident()
    for _ in range(100):
        foo(x)
    assert resident() - before < 20e6


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        ("f32", np.float32),
        ("f64", np.float64),
        ("i8", np.int8),
        ("i64", np.int64),
        ("u8", np.uint8),
        ("bool_", np.bool_),
    ],
)
def test_a_number_of_numpy_takes_the_fast_path(dtype, number):
    f = nnmagic.compile(f"def f(x: {dtype}, y: {dtype}):\n    return maximum(x, y), x == y")
    big, small = number(1), number(0)
    f(big, small)
    assert f._caller.fast_path((small, big)) == (big, False)
    assert f._caller.fast_path((np.float16(1), big)) is None
