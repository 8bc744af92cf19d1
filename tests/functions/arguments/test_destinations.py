"""Parameters whose arrays a call changes, ``Out`` and ``InOut``; the same source in Python is the judge."""

from __future__ import annotations

import functools
import inspect
import itertools
import pickle
import re
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic import CompiledFunction, InOut, Out, Tensor, TinyNNError, bool_, f32, f64, i64

pytestmark = pytest.mark.sampled(every=8)

VECTOR, MATRIX, SQUARE = Tensor[("n",), f64], Tensor[("n", "m"), f64], Tensor[("n", "n"), f64]
TRUTHS, NUMBERS = Tensor[("n",), bool_], Tensor[("n",), i64]


def fill(out: Out[VECTOR], value: f64) -> None:
    out[:] = value


def scale(x: InOut[VECTOR], factor: f64):
    x *= factor
    return x.sum()


def add_into(a: VECTOR, b: VECTOR, out: Out[VECTOR]):
    out[...] = a + b


def cumulative(x: VECTOR, out: Out[VECTOR]):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
        out[i] = total


def smooth(rounds: i64, a: InOut[MATRIX], b: InOut[MATRIX]):
    for _ in range(rounds):
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a[1:-1, 1:-1] = 0.25 * (b[:-2, 1:-1] + b[2:, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:])


def triangle(a: InOut[SQUARE]):
    for i in range(len(a)):
        for j in range(i):
            a[i, j] = a[j, i] + a[i, i]


def early(x: InOut[VECTOR], limit: f64):
    for i in range(len(x)):
        if x[i] > limit:
            x[i] = -1.0
            return i
        x[i] += 1.0
    return -1


def sift(x: InOut[VECTOR], negative: Out[TRUTHS]) -> None:
    negative[:] = x < 0
    x[x < 0] = 0.0


def only_first(x: InOut[VECTOR]) -> None:
    if len(x) > 0:
        x[0] = 1.0


def unchanged(x: InOut[VECTOR], y: VECTOR):
    return x @ y


def collatz(x: InOut[NUMBERS]):
    rounds = 0
    while x.max() > 1:
        for i in range(len(x)):
            if x[i] % 2 == 0:
                x[i] //= 2
            elif x[i] > 1:
                x[i] = 3 * x[i] + 1
        rounds += 1
    return rounds


def grow(x: InOut[VECTOR], y: MATRIX):
    for i in range(len(y)):
        row = y[i] * 2.0
        x[i] += row.sum() + (row @ y[i])


def add_pair(pair: tuple[VECTOR, f64], x: InOut[VECTOR], y: Out[VECTOR]):
    a, factor = pair
    for i in range(len(x)):
        x[i] += a[i] * factor
        y[i] = x[i] - factor
    return x.sum(), (factor, y[1:])


def swap(a: InOut[VECTOR], b: InOut[VECTOR]):
    before = a.copy()
    a[...] = b
    b[...] = before
    a[0] += 1.0


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape) + sum(shape)).uniform(-1, 1, shape)


CALLS: list[tuple[Callable[..., object], tuple[object, ...]]] = [
    *((fill, (np.zeros(n), 2.5)) for n in (0, 1, 7)),
    *((scale, (random(n), 2.0)) for n in (0, 1, 7)),
    *((add_into, (random(n), random(n) + 1, np.zeros(n))) for n in (0, 1, 7)),
    *((cumulative, (random(n), np.zeros(n))) for n in (0, 1, 7)),
    *((smooth, (rounds, random(n, m), random(m, n).T)) for rounds, n, m in [(0, 4, 4), (3, 5, 6), (2, 2, 3)]),
    *((triangle, (random(n, n),)) for n in (0, 1, 5)),
    *((early, (random(6), limit)) for limit in (-2.0, 0.5, 2.0)),
    (early, (np.zeros(0), 0.0)),
    *((sift, (random(n), np.zeros(n, bool))) for n in (0, 1, 7)),
    *((only_first, (random(n),)) for n in (0, 1, 7)),
    (unchanged, (random(4), random(4))),
    *((grow, (random(n), random(n, m))) for n, m in [(1, 2), (300, 200), (2, 3), (0, 5)]),
    (swap, (random(5), random(5) + 2)),
    (collatz, (np.array([6, 7, 1, 27]),)),
]


@functools.cache
def compiled(function: Callable[..., object]) -> CompiledFunction:
    return nnmagic.compile(function)


@pytest.mark.parametrize(("function", "args"), CALLS, ids=lambda part: getattr(part, "__name__", ""))
def test_changes_what_python_changes(function: Callable[..., object], args: tuple[object, ...]) -> None:
    ours, theirs = copies(args), copies(args)
    result, wanted = compiled(function)(*ours), function(*theirs)
    assert (result is None) == (wanted is None)
    if wanted is not None:
        np.testing.assert_allclose(result, wanted)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other)


def copies(args: tuple[object, ...]) -> list[object]:
    return [arg.copy(order="K") if isinstance(arg, np.ndarray) else arg for arg in args]


def test_tuples_beside_arrays_that_change() -> None:
    function = compiled(add_pair)
    for size in (1, 4):
        ours, theirs = ([random(size), random(size) + 1, np.zeros(size)] for _ in "ab")
        total, (factor, rest) = function((ours[0], 0.5), *ours[1:])
        wanted, (_, wanted_rest) = add_pair((theirs[0], 0.5), *theirs[1:])
        assert factor == 0.5
        np.testing.assert_allclose(total, wanted)
        np.testing.assert_allclose(rest, wanted_rest)
        np.testing.assert_allclose(np.array(ours), np.array(theirs))


@pytest.mark.parametrize("view", [np.s_[:6], np.s_[::2], np.s_[::-2], np.s_[5:-1]])
def test_writes_through_views(view: slice) -> None:
    ours, theirs = np.arange(12.0), np.arange(12.0)
    assert compiled(scale)(ours[view], 3.0) == scale(theirs[view], 3.0)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("order", ["C", "F"])
def test_writes_any_layout(order: str) -> None:
    ours = np.asarray(random(5, 6), order=order)[::-1, 1:]
    theirs = ours.copy()
    compiled(smooth)(2, ours, np.zeros_like(ours))
    smooth(2, theirs, np.zeros_like(theirs))
    np.testing.assert_allclose(ours, theirs)


def test_writes_bytes_without_alignment() -> None:
    memory = np.zeros(8 * 4 + 1, np.uint8)
    array = memory[1:].view(np.float64)
    compiled(fill)(array, 1.5)
    assert array.tolist() == [1.5] * 4


@pytest.mark.parametrize("shift", [-2, -1, 0, 1, 2])
def test_arguments_are_read_before_anything_is_written(shift: int) -> None:
    whole = np.arange(10.0)
    x, out = whole[2:8], whole[2 + shift : 8 + shift]
    wanted = np.cumsum(x)
    compiled(cumulative)(x, out)
    np.testing.assert_array_equal(out, wanted)
    whole = np.arange(10.0)
    total = whole[2 + shift : 8 + shift] @ whole[2:8]
    assert compiled(unchanged)(whole[2 + shift : 8 + shift], whole[2:8]) == total
    np.testing.assert_array_equal(whole, np.arange(10.0))


def shift_first(x: InOut[VECTOR], y: VECTOR):
    for i in range(len(x)):
        x[i] = y[i] + 1.0
    x[0] += y[-1]


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_a_changed_array_may_overlap_one_that_is_read(shift: int) -> None:
    whole = np.arange(10.0)
    x, y = whole[1:8], whole[1 + shift : 8 + shift]
    wanted = y + 1
    wanted[0] += y[-1]
    compiled(shift_first)(x, y)
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_a_number_may_be_an_element_of_the_changed_array(shift: int) -> None:
    @nnmagic.function
    def times(x: InOut[VECTOR], factor: f64) -> None:
        for i in range(len(x)):
            x[i] = x[i] * factor

    whole = np.arange(2.0, 8.0)
    times(whole[1:5], whole[2 + shift : 3 + shift].reshape(()))
    wanted = np.arange(2.0, 8.0)
    wanted[1:5] *= wanted[2 + shift]
    np.testing.assert_array_equal(whole, wanted)


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's table of memory")
def test_a_large_array_is_changed_where_it_is() -> None:
    @nnmagic.function
    def mark(x: InOut[VECTOR], i: i64) -> None:
        x[i] = 1.0

    array = np.zeros(1 << 26)  # 512 MiB, of which the system has given none yet
    mark(array, 3)
    assert resident_bytes(array) < 1 << 20
    assert array[3] == 1
    assert array[:10].sum() == 1


def resident_bytes(array: np.ndarray) -> int:
    """Return how much of an array's memory is in use."""
    smaps = Path("/proc/self/smaps").read_text()
    begin = array.ctypes.data
    for block in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", smaps):
        limits = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", block)
        if limits and int(limits[1], 16) <= begin < int(limits[2], 16):
            return 1024 * int(re.search(r"Rss:\s+(\d+) kB", block)[1])
    raise AssertionError("the array is nowhere")


def test_elements_that_are_not_written_are_zeros() -> None:
    @nnmagic.function
    def mark(out: Out[VECTOR], i: i64):
        out[i] = 1.0

    array = np.full(4, np.nan)
    mark(array, 2)
    assert array.tolist() == [0, 0, 1, 0]

    @nnmagic.function
    def nothing(out: Out[VECTOR]) -> None:
        pass

    nothing(array)
    assert array.tolist() == [0, 0, 0, 0]


def test_a_returned_array_is_a_copy() -> None:
    @nnmagic.function
    def bump(x: InOut[VECTOR]):
        x[0] = 9.0
        return x

    array = np.zeros(3)
    result = bump(array)
    array[1] = 5
    assert result.tolist() == [9, 0, 0]
    out = np.zeros(3)
    assert bump(array, out=out) is out
    assert out.tolist() == [9, 5, 0]


def read_only() -> np.ndarray:
    array = np.zeros(3)
    array.flags.writeable = False
    return array


BAD: list[tuple[object, type[Exception], str]] = [
    ([1.0, 2.0], TypeError, "argument 'x' is changed by the call: it must be a NumPy array"),
    (1.0, TypeError, "argument 'x' is changed by the call: it must be a NumPy array"),
    (np.float64(1), TypeError, "argument 'x' is changed by the call: it must be a NumPy array"),
    (
        np.zeros(3, "float32"),
        TypeError,
        r"argument 'x' is changed by the call: it must be .* x = x.astype\('float64'\)",
    ),
    (np.zeros((3, 3)), TypeError, "argument 'x' must be"),
    (np.zeros(3, ">f8" if sys.byteorder == "little" else "<f8"), TypeError, "argument 'x'.*byte order"),
    (read_only(), ValueError, r"argument 'x'.*read-only; change a copy: x = x.copy\(\)"),
    (np.broadcast_to(np.zeros(1), (3,)), ValueError, "argument 'x'.*read-only"),
    (np.lib.stride_tricks.as_strided(np.zeros(3), (3,), (0,)), ValueError, "argument 'x'.*share memory"),
    (np.ma.zeros(3), TypeError, "argument 'x'.*mask"),
    (memoryview(np.zeros(3)), TypeError, "argument 'x' is changed by the call: it must be a NumPy array"),
]


@pytest.mark.parametrize(("array", "kind", "message"), BAD)
def test_what_cannot_be_changed_is_refused(array: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=rf"scale\(\) {message}"):
        compiled(scale)(array, 2.0)


def test_an_object_that_is_no_numpy_array_is_refused() -> None:
    class Exporter:
        def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
            return np.zeros(3)

    with pytest.raises(TypeError, match=r"argument 'x' is changed by the call: it must be a NumPy array"):
        compiled(scale)(Exporter(), 2.0)


def test_two_changed_arrays_share_no_memory() -> None:
    whole = np.zeros((4, 4))
    with pytest.raises(ValueError, match=r"argument 'a' shares memory with 'b'"):
        compiled(smooth)(1, whole, whole)
    compiled(smooth)(1, whole[:, ::2], whole[:, 1::2])


def test_sizes_of_a_changed_array_agree_with_the_others() -> None:
    with pytest.raises(ValueError, match=r"argument 'out' must be .* not of shape \(4,\)"):
        compiled(cumulative)(np.zeros(3), np.zeros(4))


def assign_twice(x: InOut[VECTOR], i: i64, j: i64):
    x[i] = 1.0
    x[j] = x[i] + 1.0


def test_a_failing_call_says_whether_it_changed_the_array() -> None:
    array = np.zeros(3)
    with pytest.raises(
        IndexError, match=r"(?s)out of range for an axis of size 3.*`x` may have been changed"
    ):
        compiled(assign_twice)(array, 0, 5)
    assert array.tolist() == [1, 0, 0]
    array = np.zeros(6)[::2]  # is changed through a copy
    with pytest.raises(IndexError, match="No array was changed"):
        compiled(assign_twice)(array, 0, 5)
    assert not array.any()


def test_the_signature_says_what_is_changed() -> None:
    signature = inspect.signature(compiled(scale))
    assert str(signature.parameters["x"].annotation) == "InOut[Tensor[('n',), f64]]"
    assert signature.return_annotation == f64
    assert inspect.signature(compiled(fill)).return_annotation is None
    assert list(inspect.signature(compiled(fill)).parameters) == ["out", "value"]
    assert "fill(out: Out[Tensor[('n',), f64]], value: f64) -> None" in repr(compiled(fill))


def test_the_display_says_which_result_in_relay_is_which_array() -> None:
    shown = compiled(scale)._repr_mimebundle_()["text/html"]
    assert "In Relay its results are what it returns, x." in shown
    assert "In Relay its results are a, b." in compiled(smooth)._repr_mimebundle_()["text/html"]


def test_a_function_is_saved_and_pickled_with_its_destinations(tmp_path: Path) -> None:
    path = tmp_path / "scale.nnm"
    compiled(scale).save(path)
    for function in (
        nnmagic.load(path),
        nnmagic.load(path, code=False),
        pickle.loads(pickle.dumps(compiled(scale))),
    ):
        array = np.ones(3)
        assert function(array, 2.0) == 6
        assert array.tolist() == [2, 2, 2]
        assert str(function.__signature__) == str(compiled(scale).__signature__)


def test_a_destination_is_part_of_the_key() -> None:
    body = "    x[0] = 1.0\n    return x[0]\n"
    plain = nnmagic.compile("def f(x: Tensor[(3,), f64]):\n    x = x.copy()\n" + body)
    changing = nnmagic.compile("def f(x: InOut[Tensor[(3,), f64]]):\n" + body)
    array = np.zeros(3)
    plain(array)
    assert not array.any()
    changing(array)
    assert array.tolist() == [1, 0, 0]


CALLERS = """
def scale(x: InOut[Tensor[("n",), f64]], factor: f64):
    x *= factor
    return x.sum()

def fill(x: Out[Tensor[("n",), f64]], *, value: f64 = 2.0):
    x[:] = value

def on_copies(y: Tensor[("n",), f64], rounds: i64):
    z = y.copy()
    first = scale(z, 2.0)
    for _ in range(rounds):
        scale(factor=3.0, x=z)
        if z[0] > 5:
            fill(z)
    t = np.zeros_like(y)
    fill(t, value=first)
    return z, t, first

def add_into(a: Tensor[("n",), f64], *, out: Out[Tensor[("n",), f64]]):
    out[:] = a + 1
    return a

def by_name(a: Tensor[("n",), f64]):
    t = np.zeros_like(a)
    add_into(a, out=t)
    return t, t * 2

def passed_on(x: InOut[Tensor[("n",), f64]], keep: Tensor[(), bool_]):
    if keep:
        return scale(x, 1.0)
    fill(x)
    return scale(x, 5.0)

def down(x: InOut[Tensor[("n",), i64]], i: i64) -> None:
    if i > 0:
        x[i - 1] = i
        down(x, i - 1)

def down_and_return(x: InOut[Tensor[("n",), i64]], i: i64):
    if i > 0:
        x[i - 1] += i
        return down_and_return(x, i - 1)
    return x.sum()
"""


@pytest.fixture(scope="module")
def callers() -> dict[str, tuple[CompiledFunction, Callable[..., object]]]:
    from nnmagic.diagnostics import Source
    from nnmagic.functions.caching.compile_options import Options
    from nnmagic.functions.cells.compile_cell import compile_cell

    cell = compile_cell(Source("<cell>", CALLERS), {"np": np}, Options(), cache=False)
    names = {name: getattr(nnmagic, name) for name in ("Tensor", "InOut", "Out", "f64", "i64", "bool_")}
    namespace: dict[str, object] = {"np": np, **names}
    exec(CALLERS, namespace)
    return {each.name: (each, namespace[each.name]) for each in cell.functions}


CALLS_OF_CALLS: list[tuple[str, tuple[object, ...]]] = [
    *(("on_copies", (random(n), rounds)) for n, rounds in itertools.product((1, 3), (0, 4))),
    ("by_name", (random(4),)),
    *(("passed_on", (random(3), np.bool_(keep))) for keep in (True, False)),
    *((name, (np.ones(5, "int64"), i)) for name in ("down", "down_and_return") for i in (0, 3, 5)),
]


@pytest.mark.parametrize(("name", "args"), CALLS_OF_CALLS)
def test_functions_change_the_arrays_of_their_callers(
    callers: dict[str, tuple[CompiledFunction, Callable[..., object]]], name: str, args: tuple[object, ...]
) -> None:
    ours_function, function = callers[name]
    ours, theirs = copies(args), copies(args)
    result, wanted = ours_function(*ours), function(*theirs)
    pairs = zip(result, wanted, strict=True) if isinstance(wanted, tuple) else [(result, wanted)]
    for one, other in [*(pair for pair in pairs if pair[1] is not None), *zip(ours, theirs, strict=True)]:
        np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("after", ["", "    x[1] += 1\n"])
def test_a_deep_recursion_begins_anew_without_changes(after: str) -> None:
    body = "    x[0] += 1\n    if i > 0:\n        deep(x, i - 1)\n"
    source = f"def deep(x: InOut[Tensor[(2,), i64]], i: i64) -> None:\n{body}{after}"
    array = np.zeros(2, "int64")
    deep = nnmagic.compile(source)
    deep(array, 5000)  # deeper than the stack that a call begins on
    assert array.tolist() == [5001, 5001 if after else 0]
    with pytest.raises(RecursionError, match="No array was changed"):
        deep(array, 100_001)
    assert array.tolist() == [5001, 5001 if after else 0]


def test_a_linked_function_changes_the_array_of_its_caller() -> None:
    source = "def twice(x: InOut[Tensor[(3,), f64]]):\n    s = scale(x, 2.0)\n    x[0] = s\n"
    twice = nnmagic.compile(source, namespace={"scale": compiled(scale)})
    array = np.ones(3)
    twice(array)
    assert array.tolist() == [6, 2, 2]


@pytest.mark.parametrize("element", [1.0, -1.0])
def test_programs_with_data_types_change_arrays(element: float) -> None:
    source = """
class Maybe:
    def Just(value: f64): ...
    def Nothing(): ...

def find(x: Tensor[(3,), f64]):
    return Just(x[0]) if x[0] > 0 else Nothing()

def replace(x: InOut[Tensor[(3,), f64]]):
    match find(x):
        case Just(value):
            x[1] = value + 1
        case Nothing():
            x[2] = 7.0
    return x[0]
"""
    replace = nnmagic.compile(source)
    array = np.array([element, 0, 0])
    assert replace(array) == element
    assert array.tolist() == ([1, 2, 0] if element > 0 else [-1, 0, 7])


HEAD = """
def change(x: InOut[Tensor[("n",), f64]], y: Tensor[("n",), f64]):
    x[0] = y[0]
    return x[0]

"""
REFUSED: list[tuple[str, str]] = [
    ("def f(x: Tensor[(3,), f64]):\n    x[0] = 1\n    return x", "belongs to the caller"),
    ("def f(x: InOut[Tensor[(3,), f64]]):\n    x = x + 1", "`x` is the caller's array"),
    ("def f(x: Out[Tensor[(3,), f64]]):\n    for x in range(3):\n        pass", "`x` is the caller's array"),
    ("def f(x: InOut[Tensor[(3,), f64]]):\n    x, y = x + 1, 2\n    return y", "`x` is the caller's array"),
    (
        "def f(x: InOut[Tensor[(3,), f64]]):\n    y = x.reshape(3)\n    y[0] = 1.0",
        "`y` may share memory with `x`",
    ),
    (
        "def f(x: InOut[Tensor[(3,), f64]]):\n    y = x.reshape(3)\n    x[0] = 1.0\n    return y",
        "`x`, which was changed",
    ),
    ("def f(x: InOut[f64]):\n    return x", "rank 1 or more"),
    ("def f(x: InOut[tuple[f64, f64]]):\n    return x", "takes the type of a tensor"),
    ("def f(x: InOut):\n    return x", "`InOut` alone is no type"),
    ("def f(x: InOut[Tensor[(3,), f64]] = 1):\n    return x", "it has no default"),
    ("def f(x: f64) -> Out[Tensor[(3,), f64]]:\n    return x", "`Out` is for parameters"),
    ("def f(x: InOut[Tensor[(3,), f64]]) -> f64:\n    x[0] = 1", "`f` returns nothing"),
    ("def f(x: InOut[Tensor[(3,), f64]]) -> None:\n    return x", "declared to return None"),
    ("def f(x: InOut[Tensor[(3,), f64]]):\n    if x[0] > 0:\n        return x\n    x[0] = 1", "every path"),
    ("def f(x: InOut[Tensor[(3,), f64]]):\n    x[0] = True + x", "does not fit"),
    (
        "def f(x: f64):\n    def g(y: InOut[Tensor[(3,), f64]]):\n        y[0] = x\n"
        "    z = zeros(3)\n    g(z)\n    return z",
        "`InOut` is for parameters",
    ),
    (HEAD + "def f(x: Tensor[(3,), f64]):\n    return change(x, x)", "belongs to the caller"),
    (
        HEAD + "def f(x: Tensor[(3,), f64]):\n    y = x.copy()\n    return change(y, x) + y[0]",
        "a statement of its own",
    ),
    (HEAD + "def f(x: Tensor[(3,), f64]):\n    y = x.copy()\n    return change(y, y)", "may share memory"),
    (
        HEAD + "def f(x: Tensor[(3,), f64]):\n    y = x.copy()\n    return change(y[:], x)",
        "the name of an array",
    ),
    (
        HEAD + "def f(x: Tensor[(3,), f64]):\n    y = x.copy()\n    return change(*(y, x))",
        "`*` cannot give them",
    ),
    (
        HEAD
        + "def f(x: Tensor[(3,), f64]):\n    y = x.copy()\n    z = y[1:]\n    change(y, x)\n    return z",
        "`z` may share memory with `y`, which was changed",
    ),
    (
        HEAD + "def f(g: Callable[[f64], f64]):\n    return g(1.0)\n\ndef h(x: f64):\n    return f(change)",
        "statement",
    ),
    (HEAD + "def f(x: f64):\n    return change", "changes its arguments, and is no value"),
    (
        "def g(x: Tensor[(3,), f64], out: InOut[Tensor[(3,), f64]]):\n    out[0] = 1.0\n    return x\n\n"
        "def f(x: Tensor[(3,), f64]):\n    y = x.copy()\n    z = g(x, y)\n    z[0] = 2.0\n    return z",
        "`z` may share memory with the parameter `x`",
    ),
    (
        "def g(x: Tensor[(3,), f64], out: InOut[Tensor[(3,), f64]]):\n    out[0] = 1.0\n    return out\n\n"
        "def f(x: Tensor[(3,), f64]):\n    y = x.copy()\n    z = g(x, y)\n    y[0] = 2.0\n    return z",
        "`z` may share memory with `y`, which was changed",
    ),
    (
        "def f(x: InOut[Tensor[(3,), f64]]):\n    z = x.reshape(3)\n    x += 1.0\n    return z",
        "`z` may share memory with `x`, which was changed",
    ),
    ("def f(x: Tensor[(3,), f64]):\n    abs(x)\n    return x", "the value of this expression is not used"),
]


@pytest.mark.parametrize(("source", "message"), REFUSED)
def test_what_a_cell_cannot_change_is_refused(source: str, message: str) -> None:
    with pytest.raises(TinyNNError) as error:
        nnmagic.compile(source)
    assert message in str(error.value)
    assert error.value.diagnostics[0].span is not None


def test_the_hint_for_a_parameter_names_the_annotation() -> None:
    with pytest.raises(TinyNNError, match=r"declare it as x: InOut\[Tensor\[\(3,\), f64\]\]"):
        nnmagic.compile("def f(x: Tensor[(3,), f64]):\n    x[0] = 1\n    return x")


def test_annotations_are_python_objects() -> None:
    assert repr(Out[Tensor[(3,), f32]]) == "Out[Tensor[(3,), f32]]"
    assert InOut[Tensor[(3,), f32]] == InOut[Tensor[(3,), f32]] != Out[Tensor[(3,), f32]]
    assert len({Out[Tensor[(3,), f32]], Out[Tensor[(3,), f32]], InOut[Tensor[(3,), f32]]}) == 2
    assert pickle.loads(pickle.dumps(Out[Tensor[(3,), f32]])) == Out[Tensor[(3,), f32]]
    for wrong in (f32, 3, "x", Tensor[(), f32]):
        with pytest.raises(TypeError, match=r"InOut takes (a tensor|the type)"):
            InOut[wrong]
    with pytest.raises(TypeError, match="does not make arrays"):
        Out[Tensor[(3,), f32]]()


def test_the_output_history_of_ipython_is_not_the_annotation() -> None:
    source = "def f(x: Out[Tensor[(3,), f64]]):\n    x[:] = 1.0"
    array = np.zeros(3)
    nnmagic.compile(source, namespace={"Out": {1: "shown"}})(array)
    assert array.tolist() == [1, 1, 1]


def test_an_alias_is_captured() -> None:
    namespace = {"Target": InOut[Tensor[(3,), f64]], "Kind": Out}
    array, other = np.zeros(3), np.ones(3)
    source = "def f(x: Target, y: Kind[Tensor[(3,), f64]]):\n    x[0] = 1.0\n    y[1] = 2.0"
    nnmagic.compile(source, namespace=namespace)(array, other)
    assert array.tolist() == [1, 0, 0]
    assert other.tolist() == [0, 2, 0]


def test_many_threads_change_arrays_of_their_own() -> None:
    from concurrent.futures import ThreadPoolExecutor

    function = compiled(cumulative)

    def run(seed: int) -> bool:
        x, out = np.random.default_rng(seed).uniform(size=100), np.empty(100)
        for _ in range(20):
            function(x, out)
        return np.allclose(out, np.cumsum(x))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(16)))


UPDATES = {
    "a sum": "y += x",
    "numbers": "y *= 2; y -= 1",
    "a step": "y -= 0.125 * (x * x + y)",
    "a row": "y += x[0]; y *= v",
    "both": "y += x; x -= y; y *= x",
    "its own row": "y += y[0]",
    "turned round": "y += x.T; y -= y.T",
    "reversed": "y += x[::-1]; y -= y[:, ::-1]",
    "its own sum": "y -= y.sum(axis=0)",
    "what was before": "z = y * 2; y += x; return z + y",
    "what is there": "y += x; return y",
    "a part": "y += x; y[1:] -= x[1:]",
    "a choice": "y[:] = np.where(y > x, y, x * 2)",
    "branches": "if x[0, 0] > 0: y += x\nelse: y *= x",
    "rounds": "for i in range(3): y += x * i",
}


@pytest.mark.full(
    "a row-known",
    "a step-known",
    "both-known",
    "what was before-known",
    "its own sum-known",
    "a part-known",
    "branches-known",
    "turned round-known",
)
@pytest.mark.parametrize("size", ["known", "named"])
@pytest.mark.parametrize("text", UPDATES.values(), ids=UPDATES)
def test_arrays_are_updated_where_they_are(text: str, size: str) -> None:
    body = text.replace("\n", "\n    ")
    for length in (1, 2, 7, 16, 33, 64, 100, 333):
        dims = f"({length}, {length})" if size == "known" else '("n", "n")'
        arrays = f"x: InOut[Tensor[{dims}, f32]], y: InOut[Tensor[{dims}, f32]]"
        vector = f"v: Tensor[({dims[1:-1].split(',', maxsplit=1)[0]},), f32]"
        source = f"def f({arrays}, {vector}):\n    {body}\n"
        f = nnmagic.compile(source, namespace={"np": np}, cache=size == "named")
        x, y = np.random.default_rng(length).standard_normal((2, length, length)).astype("f4")
        v, scope = x[0].copy(), {"np": np}
        exec(f"def f(x, y, v):\n    {body}\n", scope)
        right_x, right_y = x.copy(), y.copy()
        with np.errstate(all="ignore"):
            expected = scope["f"](right_x, right_y, v)  # type: ignore[operator]
        result = f(x, y, v)
        np.testing.assert_allclose(x, right_x, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(y, right_y, rtol=1e-5, atol=1e-5)
        assert (result is None) == (expected is None)
        if expected is not None:
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
            assert not np.shares_memory(result, y)


@pytest.mark.parametrize("dims", ["(1999, 2001)", '("n", "k")'])
@pytest.mark.parametrize("kind", ["f32", "f64", "i32", "i64", "u8"])
def test_an_update_takes_no_memory(kind: str, dims: str) -> None:
    """Of arrays that several threads share, too; the last elements are not computed twice."""
    f = nnmagic.compile(
        f"def f(y: InOut[Tensor[{dims}, {kind}]], x: Tensor[{dims}, {kind}]):\n    y += x\n    y *= 3\n",
        namespace={},
        cache=False,
    )
    dtype = {"f": "f", "i": "i", "u": "u"}[kind[0]] + str(int(kind[1:]) // 8)
    x, y = np.random.default_rng(0).integers(0, 9, (2, 1999, 2001)).astype(dtype)
    expected = ((y + x) * 3).astype(dtype)
    f(y, x)
    np.testing.assert_array_equal(y, expected)
    tracemalloc.start()
    try:
        f(y, x)
        assert tracemalloc.get_traced_memory()[1] < y.nbytes / 8
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(y, ((expected + x) * 3).astype(dtype))
    f(y, y)
    np.testing.assert_array_equal(y, ((expected + x) * 3 * 6).astype(dtype))


@pytest.mark.parametrize("text", ["y[:] = x * 2 + 1", "y[...] = x.T.T - z", "np.add(x, z, out=y)"])
def test_an_array_that_is_not_read_is_written_at_once(text: str) -> None:
    """It is no copy of a result, unless it shares memory with what is read."""
    arrays = 'x: Tensor[("n", "n"), f32], z: Tensor[("n", "n"), f32], y: InOut[Tensor[("n", "n"), f32]]'
    f = nnmagic.compile(f"def f({arrays}):\n    {text}\n", namespace={"np": np}, cache=False)
    x, z, y = np.random.default_rng(0).standard_normal((3, 1000, 1000)).astype("f4")
    expected = {"x": x, "z": z, "y": y.copy(), "np": np}
    exec(text, expected)
    f(x, z, y)
    np.testing.assert_array_equal(y, expected["y"])
    tracemalloc.start()
    try:
        f(x, z, y)
        assert tracemalloc.get_traced_memory()[1] < y.nbytes / 2
    finally:
        tracemalloc.stop()
    shared = np.random.default_rng(0).standard_normal((3, 3)).astype("f4")
    expected = {"x": shared.copy(), "z": z[:3, :3], "y": np.empty_like(shared), "np": np}
    exec(text, expected)
    f(shared, z[:3, :3].copy(), shared)
    np.testing.assert_allclose(shared, expected["y"], rtol=1e-6)


@pytest.mark.full('np.unique(x)-("n",)-Out', 'np.unique(x)-("n",)-InOut')
@pytest.mark.parametrize("kind", ["Out", "InOut"])
@pytest.mark.parametrize("dims", ['("n",)', "(4,)"])
@pytest.mark.parametrize(
    "text", ["x[x > 0]", "np.repeat(x, c)", "np.unique(x)", "np.nonzero(x)[0]", "c[c > 0]"]
)
def test_values_decide_the_size_of_what_is_returned(text: str, dims: str, kind: str) -> None:
    """The result has more elements than calls have room for at first, too."""
    parameters = f"y: {kind}[Tensor[{dims}, i64]], x: Tensor[{dims}, i64], c: Tensor[{dims}, i64]"
    source = f"def f({parameters}):\n    y[:] = x * 2\n    return {text}\n"
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    x, c = np.array([1, -1, 2, -3]), np.array([3, 0, 2000, 1])
    expected = eval(text, {"np": np, "x": x, "c": c})
    for _ in range(3):
        y, same = np.zeros(4, "i8"), x.copy()
        np.testing.assert_array_equal(f(y, x, c), expected)
        np.testing.assert_array_equal(y, x * 2)
        np.testing.assert_array_equal(f(same, same, c), expected)
        np.testing.assert_array_equal(same, x * 2)
