"""CPython calls the machine code of a small function directly; what that refuses goes through Python."""

import gc
import os
import pickle
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.runtime import numpy_abi
from nnmagic.relay.types import NUMPY_DTYPES
from tests.child_process import run_python

pytestmark = pytest.mark.skipif(
    numpy_abi.address is not id or sys.version_info < (3, 11),
    reason="machine code cannot read this Python's array objects, or call it back",
)

X = np.arange(128, dtype="f4").reshape(8, 16)
Y = np.full((8, 16), 3, "f4")
KNOWN = "def f(x: Tensor[(8, 16), f32], y: Tensor[(8, 16), f32]):\n    return x - y\n"
NAMED = "def f(x: Tensor[('n', 'k'), f32], y: Tensor[('k', 'n'), f32]):\n    return x - y.T\n"


def compiled(source: str) -> Any:
    function = nnmagic.compile(source, namespace={"np": np}, cache=False)
    with pytest.raises(TypeError):
        function(*range(9))  # a first call, which all functions go through Python for
    return function


def is_direct(function: Callable[..., Any]) -> bool:
    return isinstance(function.__call__, BuiltinFunctionType)


def went_through_python(call: Callable[[], Any]) -> set[str]:
    """Return the names of the Python functions that a call called."""
    names: set[str] = set()
    sys.setprofile(lambda frame, event, _: names.add(frame.f_code.co_name) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names


@pytest.fixture(scope="module")
def known() -> Any:
    return compiled(KNOWN)


@pytest.fixture(scope="module")
def named() -> Any:
    return compiled(NAMED)


def test_results(known: Any, named: Any) -> None:
    assert is_direct(known)
    assert is_direct(named)
    result = known(X, Y)
    assert type(result) is np.ndarray
    assert result.flags.owndata
    assert result.flags.writeable
    assert result.dtype == np.float32
    assert np.array_equal(result, X - Y)
    for rows, columns in ((8, 16), (1, 1), (0, 16), (16, 0), (0, 0), (300, 200)):
        x, y = np.full((rows, columns), 2, "f4"), np.full((columns, rows), 3, "f4")
        assert np.array_equal(named(x, y), x - y.T)


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("dtype", sorted({*NUMPY_DTYPES} - {"complex64", "complex128"}))
def test_dtypes_and_ranks(dtype: str) -> None:
    short = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "bool": "bool_"}
    kind = dtype.rstrip("0123456789")
    annotation = f"{short[kind]}{dtype.removeprefix(kind)}"
    for shape in ((), (3,), (2, 3, 2, 2)):
        f = compiled(f"def f(x: Tensor[{shape}, {annotation}]):\n    return x.copy()\n")
        x = np.ones(shape, NUMPY_DTYPES[dtype])
        result = f(x)
        assert result.dtype == x.dtype
        assert result.shape == shape
        assert result is not x
        assert np.array_equal(result, x)


def test_arguments_of_other_kinds(known: Any) -> None:
    """Views, keywords, ``out``, subclasses, another byte order: as without the direct call."""
    wide = np.zeros((16, 32), "f4")
    wide[::2, ::2] = X
    out = np.empty_like(X)
    assert known(X, Y, out=out) is out
    for result in (
        known(x=X, y=Y),
        known(X, y=Y),
        out,
        known(wide[::2, ::2], Y),
        known(np.asfortranarray(X), Y),
        known(X.astype(">f4"), Y),
        known(X.view(np.matrix), Y),
    ):
        assert np.array_equal(result, X - Y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X,), "missing 1 required positional argument: 'y'"),
        ((X, Y, Y), "takes 2 positional arguments but 3 were given"),
        ((X, Y[:4]), "'y' must be Tensor[(8, 16), f32], not of shape (4, 16): dimension 0 must be 8"),
        ((X, Y[0]), "'y' must be Tensor[(8, 16), f32]"),
        ((X.astype("f8"), Y), "an array of float64"),
        ((X, 1.0), "not a float"),
        ((None, "y"), "'x' must be Tensor[(8, 16), f32], not None"),
        ((X, np.array([None] * 128).reshape(8, 16)), "'y' must be Tensor[(8, 16), f32]"),
    ],
)
def test_errors_are_those_of_python(known: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        known(*arguments)
    assert message in str(caught.value)


def test_sizes_that_differ(named: Any) -> None:
    with pytest.raises(ValueError, match="dimension 0"):
        named(X, X)
    with pytest.raises((TypeError, ValueError), match="'x'"):
        named(X[0], Y)
    with pytest.raises((TypeError, ValueError), match="'y'"):
        named(X, X[0])


@pytest.mark.usefixtures("few_objects")
def test_references_are_counted(known: Any) -> None:
    dtype = np.dtype("f4")
    gc.collect()
    before = [sys.getrefcount(each) for each in (dtype, X, Y)]
    for _ in range(300):
        known(X, Y)
        with pytest.raises(ValueError, match="'y'"):
            known(X, Y[:4])
    assert sys.getrefcount(known(X, Y)) <= 2
    gc.collect()
    assert [sys.getrefcount(each) for each in (dtype, X, Y)] == before


@pytest.mark.usefixtures("few_objects")
def test_a_dropped_function_is_freed_at_once_and_what_is_called_lives() -> None:
    f = compiled(KNOWN)
    gone, call = weakref.ref(f), f.__call__
    gc.disable()
    try:
        del f
        assert gone() is None
    finally:
        gc.enable()
    gc.collect()
    assert np.array_equal(call(X, Y), X - Y)
    with pytest.raises(ValueError, match="'y'"):
        call(X, Y[:4])


def test_what_is_built_later_and_what_was_pickled(known: Any) -> None:
    again = pickle.loads(pickle.dumps(known))
    assert np.array_equal(again(X, Y), X - Y)  # the first call loads the machine code
    assert np.array_equal(again(X, Y), X - Y)
    assert is_direct(again)
    assert np.array_equal(again(X, Y), X - Y)


@pytest.mark.parametrize(
    "source",
    [
        "def f(x: Tensor[(2000, 2000), f32]):\n    return x + 1\n",
        "def f(x: Tensor[(200, 200), f32]):\n    return x @ x\n",
        "def f(x: Tensor[(200, 200), f32]):\n    return np.sort(x)\n",
        "def f(x: Tensor[(8, 16), f32]):\n    return x, (x + 1, x)\n",
        "def f(x: Tensor[(8, 16), f32]):\n    return [x[i] for i in range(8)] + [x.sum()]\n",
        "def f(x: InOut[Tensor[(8, 16), f32]]):\n    x[0] = 1\n",
        "def f(n: i64):\n    s = 0\n    for i in parallel(n):\n        s += i\n    return s\n",
    ],
)
def test_programs_that_go_through_python(source: str) -> None:
    """Kernels for threads, tuples in tuples and long ones, changed arguments."""
    assert not is_direct(compiled(source))


def test_programs_with_a_workspace() -> None:
    f = compiled("def f(x: Tensor[(8, 16), f32]):\n    return np.sort((x @ x.T).sum(axis=0) + x.sum())\n")
    assert is_direct(f)
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((8, 16)).astype("f4")
        assert np.allclose(f(x), np.sort((x @ x.T).sum(axis=0) + x.sum()), rtol=1e-4, atol=1e-3)


@pytest.mark.full
def test_a_named_size_for_which_the_workspace_is_too_small() -> None:
    f = compiled("def f(x: Tensor[('n', 'k'), f32]):\n    return np.sort((x @ x.T).sum(axis=0) + x.sum())\n")
    assert is_direct(f)
    for shape in ((8, 16), (1, 1), (150, 40), (0, 3), (170, 170), (8, 16)):
        x = np.random.default_rng(0).standard_normal(shape).astype("f4")
        expected = np.sort((x @ x.T).sum(axis=0) + x.sum())
        assert np.allclose(f(x), expected, rtol=1e-3, atol=1e-2)


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize(
    "text",
    [
        "np.concatenate([x, y, x], axis=1)",
        "np.repeat(x, 3, axis=0)",
        "np.pad(x, ((1, 2), (0, 3)))",
        "x[1:] + y[:-1]",
        "x[::3, ::-2] + 1",
        "x[:, -3:] + x[:, :3]",
        "x[x.shape[0] // 2 :] * 2",
        "np.outer(x, y)",
        "np.diff(x, axis=1)",
        "x.reshape(x.shape[1], -1) + 1",
        "np.convolve(x.ravel(), y[0], 'same')",
        "np.correlate(x[0], y.ravel(), 'valid')",
    ],
)
def test_sizes_of_the_result_that_are_computed(text: str) -> None:
    f = compiled(f"def f(x: Tensor[('n', 'k'), f32], y: Tensor[('n', 'k'), f32]):\n    return {text}\n")
    assert is_direct(f)
    random = np.random.default_rng(0)
    for shape in ((8, 16), (1, 1), (2, 1), (1, 7), (0, 3), (40, 50), (8, 16)):
        x, y = random.standard_normal((2, *shape)).astype("f4")
        try:
            expected = eval(text, {"np": np, "x": x, "y": y})
        except (ValueError, IndexError):  # NumPy takes no empty vectors there
            with pytest.raises((ValueError, IndexError)):
                f(x, y)
            continue
        result = f(x, y)
        assert result.shape == expected.shape
        assert np.allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.full
def test_a_computed_size_that_is_too_large_for_a_direct_call() -> None:
    f = compiled("def f(x: Tensor[('n',), f32]):\n    return np.outer(x, x)\n")
    assert is_direct(f)
    x = np.arange(2000, dtype="f4")
    assert np.array_equal(f(x), np.outer(x, x))
    with pytest.raises(MemoryError):
        f(np.broadcast_to(np.float32(1), 30_000_000))


def test_what_fails_is_raised_by_python() -> None:
    f = compiled("def f(x: Tensor[('n',), f32], i: Tensor[('k',), i64]):\n    return x[i] * 2\n")
    g = compiled("def g(x: Tensor[('n',), f32], y: Tensor[('m',), f32]):\n    return x[1:] + y[:-1]\n")
    assert is_direct(f)
    x = X[0]
    for _ in range(2):
        assert np.array_equal(f(x, np.array([3, -1])), x[[3, -1]] * 2)
        with pytest.raises(IndexError, match="index 16 is out of range for an axis of size 16"):
            f(x, np.array([0, 16]))
        assert np.array_equal(g(x, x), x[1:] + x[:-1])
        with pytest.raises(ValueError, match="g"):
            g(x, x[:9])


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("dims", ["(8, 16)", "('n', 'k')"])
@pytest.mark.parametrize(
    "text",
    ["(x + y,)", "x.sum(), x.T * 2, x > y", "x[1:] + y[:-1], y", "divmod(x, y)", "(x.argmax(1), x.max(1))"],
)
def test_several_results(text: str, dims: str) -> None:
    f = compiled(f"def f(x: Tensor[{dims}, f32], y: Tensor[{dims}, f32]):\n    return {text}\n")
    assert is_direct(f)
    for shape in ((8, 16),) if "8" in dims else ((8, 16), (1, 1), (70, 90), (300, 200), (8, 16)):
        x, y = np.random.default_rng(0).uniform(1, 2, (2, *shape)).astype("f4")
        results, expected = f(x, y), eval(text, {"x": x, "y": y})
        assert type(results) is tuple
        for result, right in zip(results, expected, strict=True):
            assert result.dtype == np.asarray(right).dtype
            np.testing.assert_allclose(result, right, rtol=1e-5)
        assert went_through_python(partial(f, x, y)) <= {"_answers", "is_stopping"}, "what a poll asks"
        assert [sys.getrefcount(result) for result in f(x, y)] == [3] * len(expected)


def test_several_results_of_calls_that_fail() -> None:
    """What was made of them is freed: where sizes do not fit, and where the program fails."""
    head = "def f(x: Tensor[('n',), f32], i: Tensor[('k',), i64]):\n"
    f = compiled(f"{head}    return x + 1, x[i] * 2, outer(x, x)[:9]\n")
    assert is_direct(f)
    x = np.arange(1 << 14, dtype="f4")
    before = 0
    tracemalloc.start()
    try:
        for count in range(60):
            with pytest.raises(IndexError, match="index 16384 is out of range"):
                f(x, np.array([3, 1 << 14]))
            first, second, third = f(x[:10], np.array([3, -1]))
            assert np.array_equal(first, x[:10] + 1)
            assert np.array_equal(second, [6, 18])
            assert np.array_equal(third, np.outer(x[:10], x[:10])[:9])
            del first, second, third
            before = before or count // 20 * tracemalloc.get_traced_memory()[0]
        assert tracemalloc.get_traced_memory()[0] < before + 50_000  # one result has 65,536 bytes
    finally:
        tracemalloc.stop()


COLLATZ = """
def f(n: i64):
    k = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        k += 1
    return k
"""
FIBONACCI = "def f(n: i64) -> i64:\n    return n if n < 2 else f(n - 1) + f(n - 2)\n"
RUNNING = """
def f(x: Tensor[('n',), f32]):
    y = zeros((x.shape[0],), f32)
    for i in range(x.shape[0]):
        y[i] = x[i] if i == 0 else y[i - 1] / 2 + x[i]
    return y
"""


def test_programs_that_loop() -> None:
    """Short ones hold Python's lock; what takes long is begun again without it, as the next calls are."""
    collatz, fibonacci, running = map(compiled, (COLLATZ, FIBONACCI, RUNNING))
    for f, argument, expected in ((collatz, 27, 111), (fibonacci, 10, 55)):
        assert is_direct(f)
        assert f(argument) == expected
        assert not went_through_python(partial(f, argument))
    assert fibonacci(30) == 832_040
    assert went_through_python(partial(fibonacci, 5))
    for _ in range(100):
        assert fibonacci(5) == 5
    assert not went_through_python(partial(fibonacci, 5))
    for length in (1, 5, 20_000, 5):
        x = np.linspace(-1, 1, length).astype("f4")
        expected = x.copy()
        for i in range(1, length):
            expected[i] = expected[i - 1] / 2 + x[i]
        assert np.allclose(running(x), expected, atol=1e-6)


def test_recursion_that_is_too_deep_for_a_direct_call() -> None:
    f = compiled("def f(n: i64) -> i64:\n    return 0 if n == 0 else f(n - 1) + 1\n")
    assert is_direct(f)
    for _ in range(3):
        assert f(900) == 900
        assert f(5000) == 5000
        with pytest.raises(RecursionError):
            f(-1)


FAILING = """
def f(x: Tensor[(8,), f32], n: i64):
    s = f32(0)
    for i in range(n):
        assert x[i % 8] > 0, 'not positive'
        s += x[i % 8]
    return s
"""


def test_a_loop_that_fails_is_raised_by_python() -> None:
    f = compiled(FAILING)
    assert is_direct(f)
    for _ in range(3):
        assert f(X[0, 1:9], 10) == X[0, 1:9].sum() + 3
        with pytest.raises(AssertionError, match="not positive"):
            f(X[0, :8], 10)


@pytest.mark.optimized
def test_other_threads_run_while_a_call_loops() -> None:
    f = compiled("def f(n: i64):\n    k = 0\n    for i in range(n):\n        k = k * 3 + i\n    return k\n")
    assert is_direct(f)
    begun, ended = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        f(1 << 28)
        ended.set()

    thread = threading.Thread(target=call)
    thread.start()
    begun.wait()
    rounds = 0
    while not ended.is_set():
        rounds += 1
    thread.join()
    assert rounds > 10_000


def test_what_is_printed_is_printed_once(capfd: pytest.CaptureFixture[str]) -> None:
    source = "def f(x: Tensor[(2,), f32]):\n    print(x)\n    assert x[0] > 0\n    return x + 1\n"
    f = nnmagic.compile(source, namespace={}, cache=False)
    for x, printed in ((np.ones(2, "f4"), "[1. 1.]\n"), (np.zeros(2, "f4"), "[0. 0.]\n")) * 2:
        try:
            f(x)
        except AssertionError:
            assert not x[0]
        assert capfd.readouterr().out == printed


def test_light_work_on_larger_arrays() -> None:
    x = np.random.default_rng(0).standard_normal((400, 400)).astype("f4")
    for text, expected in (
        ("x + 1", x + 1),
        ("(x > 0).any(axis=0)", (x > 0).any(axis=0)),
        ("x.T * 2", x.T * 2),
    ):
        f = compiled(f"def f(x: Tensor[(400, 400), f32]):\n    return {text}\n")
        assert is_direct(f)
        assert np.array_equal(f(x), expected)


def test_sizes_for_threads(named: Any) -> None:
    """Calls that start threads go through Python; those between them do not, but for a while."""
    large = np.ones((2000, 2000), "f4")
    assert is_direct(named)
    for _ in range(2):
        assert (named(large, large) == 0).all()
        assert "call" in went_through_python(partial(named, large, large))
        for _ in range(100):
            assert np.array_equal(named(X, Y.T.copy()), X - Y)
        assert not went_through_python(partial(named, X, Y.T.copy()))
        for length in (65, 300):
            x = np.ones((length, length), "f4")
            assert (named(x, x) == 0).all()
            assert not went_through_python(partial(named, x, x))


@pytest.mark.full
def test_several_threads_at_once() -> None:
    """The calls of a function that keeps one workspace."""
    f = compiled("def f(x: Tensor[('n', 'k'), f32]):\n    return np.sort((x @ x.T).sum(axis=0) + x.sum())\n")
    assert is_direct(f)
    wrong: list[float] = []

    def call(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(40):
            x = random.standard_normal(random.integers(1, 300, 2)).astype("f4")
            expected = np.sort((x @ x.T).sum(axis=0) + x.sum())
            if not np.allclose(f(x), expected, rtol=1e-3, atol=0.1):
                wrong.append(abs(f(x) - expected).max())

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.full
def test_other_threads_run_while_a_large_array_is_sorted() -> None:
    f = compiled("def f(x: Tensor[('n',), f32]):\n    return np.sort(x)\n")
    assert is_direct(f)
    x = np.random.default_rng(0).standard_normal(1 << 22).astype("f4")
    results: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: results.append(f(x)))
    thread.start()
    rounds = 0
    while not results:
        rounds += 1
    thread.join()
    assert rounds > 10_000
    assert np.array_equal(results[0], np.sort(x))


def test_other_threads(named: Any) -> None:
    results: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: results.append(named(X, Y.T.copy())))
    thread.start()
    thread.join()
    assert np.array_equal(results[0], X - Y)


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child() -> None:
    code = f"""
import os, sys, numpy as np, nnmagic
f = nnmagic.compile({NAMED!r}, namespace={{}})
x, large = np.ones((8, 16), "f4"), np.ones((2000, 2000), "f4")
f(x, x.T.copy()), f(large, large)
child = os.fork()
right = (f(x, x.T.copy()) == 0).all() and (f(large, large) == 0).all()
if child == 0:
    os._exit(0 if right else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), right)
"""
    assert run_python("-c", code).stdout.split() == ["0", "True"]


@pytest.mark.full
def test_a_python_that_has_no_function_to_call_back() -> None:
    """Python 3.10 has `PyObject_Vectorcall` in its headers alone."""
    code = f"""
import ctypes

class Older(ctypes.PyDLL):
    def __getattr__(self, name):
        if name == "PyObject_Vectorcall":
            raise AttributeError(name)
        return super().__getattr__(name)

ctypes.pythonapi.__class__ = Older
import numpy as np, nnmagic
f = nnmagic.compile({NAMED!r}, namespace={{}})
x = np.ones((8, 16), "f4")
print([bool((f(x, x.T.copy()) == 0).all()) for _ in range(3)])
"""
    assert run_python("-c", code).stdout.strip() == "[True, True, True]"


@pytest.mark.full("np.unique(x)-i64")
@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("x[x > 3]", "f32"),
        ("np.argwhere(x > 3)", "f32"),
        ("np.unique(x)", "i64"),
        ("np.bincount(x.ravel())", "i64"),
        ("np.concatenate([x[x > 3], x.ravel()])", "f64"),
    ],
)
def test_sizes_of_the_result_that_values_decide(text: str, dtype: str) -> None:
    f = compiled(f"def f(x: Tensor[('n', 'k'), {dtype}]):\n    return {text}\n")
    assert is_direct(f)
    kind = NUMPY_DTYPES[{"f": "float", "i": "int"}[dtype[0]] + dtype[1:]]
    for shape, most in (
        ((8, 16), 9),
        ((0, 3), 9),
        ((1, 1), 9),
        ((60, 70), 2000),
        ((8, 16), 5000),
        ((3, 2), 4),
    ):
        x = np.random.default_rng(0).integers(0, most, shape).astype(kind)
        expected = eval(text, {"np": np, "x": x})
        for _ in range(2):
            result = f(x)
            assert result.dtype == expected.dtype
            assert result.flags.owndata
            assert np.array_equal(result, expected)


def test_a_tuple_of_one_result_whose_size_values_decide() -> None:
    f = compiled("def f(x: Tensor[('n',), f32]):\n    return (x[x > 0],)\n")
    for _ in range(3):
        (result,) = f(X[0] - 7)
        assert np.array_equal(result, np.arange(1, 9))


@pytest.mark.full
@pytest.mark.usefixtures("few_objects")
def test_references_to_results_that_are_cut() -> None:
    f = compiled("def f(x: Tensor[('n',), i64]):\n    return np.bincount(x)\n")
    assert is_direct(f)
    x, dtype = np.array([1, 5]), np.dtype("i8")
    f(x)
    gc.collect()
    before = [sys.getrefcount(each) for each in (dtype, x, None)]
    for _ in range(1000):
        f(x)
        with pytest.raises(ValueError, match="a number is negative"):
            f(-x)
    gc.collect()
    after = [sys.getrefcount(each) for each in (dtype, x, None)]
    assert all(abs(new - old) < 100 for new, old in zip(after, before, strict=True))


NUMBERS: dict[str, list[Any]] = {
    "f32": [0.5, -0.0, 2, -3, 1 << 24, np.float32(0.1)],
    "f64": [0.1, -0.0, float("inf"), float("nan"), 7, -(1 << 53), np.float64(0.1)],
    "i8": [0, 127, -128, np.int8(5)],
    "i64": [0, (1 << 63) - 1, -(1 << 63), np.int64(-5)],
    "u8": [0, 255, np.uint8(5)],
    "u64": [np.uint64((1 << 64) - 1)],
    "bool_": [np.True_, np.False_],
}


@pytest.mark.parametrize("annotation", NUMBERS)
def test_numbers_of_python_and_numpy(annotation: str) -> None:
    f = compiled(f"def f(x: {annotation}, y: Tensor[(2,), bool_]):\n    return where(y, x, x)\n")
    flags = np.ones(2, np.bool_)
    for number in NUMBERS[annotation]:
        assert went_through_python(lambda number=number: f(number, flags)) <= {"<lambda>"}
        result = f(number, flags)
        expected = np.array([number, number]).astype(result.dtype)
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


@pytest.mark.parametrize(
    ("annotation", "number"),
    [
        ("f32", 1e300),
        ("f64", True),
        ("f64", 1j),
        ("f64", "1"),
        ("i8", 128),
        ("i64", 1 << 63),
        ("u8", -1),
        ("i64", 1.5),
        ("i64", np.float64(1.5)),
    ],
)
def test_numbers_that_a_dtype_does_not_hold(annotation: str, number: Any) -> None:
    f = compiled(f"def f(x: {annotation}):\n    return x\n")
    with pytest.raises((TypeError, ValueError), match=rf"f\(\) argument 'x' must be {annotation}"):
        f(number)


def test_ints_between_the_floats_are_rounded() -> None:
    f = compiled("def f(x: f32):\n    return x\n")
    for number in ((1 << 24) + 1, 10**20, -(10**15)):
        assert f(number) == np.float32(number)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(X, k=np.float32(2)),
        lambda f: f(k=2.0, x=X),
        lambda f: f(X),
        lambda f: f(X, 2, out=np.empty_like(X)),
        lambda f: f(np.asfortranarray(X), 2.0),
        lambda f: f(np.repeat(X, 2, axis=1)[:, ::2], 2.0),
    ],
)
def test_everyday_calls_need_no_conversion(call: Callable[[Any], Any]) -> None:
    """Keywords, defaults, ``out``, arrays that are not contiguous: what is slow is left out."""
    f = compiled("def f(x: Tensor[('n', 'm'), f32], k: f32 = 2):\n    return x * k\n")
    assert np.array_equal(call(f), X * 2)
    assert "convert_argument" not in went_through_python(lambda: call(f))


def test_tuples_of_arrays_need_no_conversion() -> None:
    f = compiled(
        "def f(p: tuple[Tensor[('n',), f32], tuple[f32, Tensor[('n',), f32]]], k: f32):\n"
        "    return p[0] + p[1][0] * p[1][1] - k\n"
    )
    v = np.arange(3, dtype="f4")
    arguments: tuple[Any, ...] = ((v, (2.0, v)), np.float32(1))
    assert np.array_equal(f(*arguments), 3 * v - 1)
    assert "convert_argument" not in went_through_python(lambda: f(*arguments))
    for wrong in ((v, v), (v, (2.0,)), (v, (2.0, v[:2])), v, (v, [2.0, v], v)):
        with pytest.raises((TypeError, ValueError), match="'p'"):
            f(wrong, 1.0)


def test_complex_arrays_need_no_conversion() -> None:
    f = compiled("def f(x: Tensor[('n',), c128], k: f64):\n    return x * k, x.real\n")
    z = np.array([1 + 2j, 3 - 4j])
    for given in (z, np.repeat(z, 2)[::2]):
        product, real = f(given, 2.0)
        assert np.array_equal(product, z * 2)
        assert np.array_equal(real, z.real)
    assert "convert_argument" not in went_through_python(lambda: f(z, 2.0))
    with pytest.raises(TypeError, match="'x' must be"):
        f(z.real, 2.0)


def test_integers_that_decide_sizes_need_no_conversion() -> None:
    f = compiled(
        "def f(n: i64, x: Tensor[('m',), f64]):\n    y = np.zeros((n, 2))\n    y[:, 1] = x[0]\n    return y\n"
    )
    for n in (3, np.int64(0), np.array(5)):
        assert np.array_equal(f(n, np.ones(4)), np.tile([0.0, 1.0], (int(n), 1)))
        assert "convert_argument" not in went_through_python(lambda n=n: f(n, np.ones(4)))


def test_integers_that_decide_sizes() -> None:
    f = compiled("def f(n: i64, a: f32):\n    return np.full((n, 3), a), np.arange(n + 2)\n")
    assert is_direct(f)
    for n in (4, np.int64(1), 0):
        full, counted = f(n, 2.0)
        assert np.array_equal(full, np.full((int(n), 3), 2, "f4"))
        assert np.array_equal(counted, np.arange(int(n) + 2))
        assert went_through_python(lambda n=n: f(n, 2.0)) <= {"<lambda>"}
    for n in (np.array(5), np.int32(5), np.array(5, "i8", ndmin=0)):
        assert [each.shape for each in f(n, 2.0)] == [(5, 3), (7,)]
    for n in (-1, -(2**63)):
        with pytest.raises(ValueError, match="negative dimensions are not allowed"):
            f(n, 2.0)
    for n in (2**40, 2**62, 2**63 - 1):
        with pytest.raises(MemoryError):
            f(n, 2.0)
    for n in (2.0, True, np.array([5]), np.array(5.0), "5", None):
        with pytest.raises(TypeError, match="argument 'n' must be i64"):
            f(n, 2.0)


@pytest.mark.full
def test_a_call_that_needed_more_room_teaches_the_next_one() -> None:
    f = compiled("def f(x: Tensor[('n',), f32], y: Tensor[('n',), f32]):\n    return np.union1d(x, y)\n")
    for n in (3, 3000, 5, 4000):
        x, y = np.arange(n, dtype="f4"), np.arange(n, dtype="f4") - n / 2
        assert np.array_equal(f(x, y), np.union1d(x, y))
    assert "call_into" not in went_through_python(lambda: f(x, y))


def test_a_complex_function_is_freed_at_once() -> None:
    f = compiled("def f(x: Tensor[('n',), c128]):\n    return x * 2\n")
    z = np.array([1 + 2j])
    assert np.array_equal(f(z), z * 2)
    run = weakref.ref(f._definition.executable)
    gc.disable()
    try:
        del f
        assert run() is None
    finally:
        gc.enable()
