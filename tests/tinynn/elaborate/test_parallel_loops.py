"""Loops that say how they are to run: races are refused, results are Python's, for any number of threads."""

# a case reads best on one line

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest

import nnmagic
from nnmagic.diagnostics import Source
from nnmagic.engine import EngineError
from nnmagic.tinynn import compile_source
from tests.random_programs.families.parallel_loops import PARAMETERS

pytestmark = pytest.mark.sampled(every=2)


def compiled(body: str) -> nnmagic.CompiledFunction:
    text = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return nnmagic.compile(
        f"def f({PARAMETERS}):\n    n, m = x.shape\n{text}\n", namespace={"np": np}, cache=False
    )


def error_of(body: str) -> nnmagic.CompileError:
    with pytest.raises(nnmagic.CompileError) as caught:
        compiled(body)
    return caught.value


@pytest.mark.parametrize(
    ("body", "message", "lines"),
    [
        ("for i in parallel(n - 1):\n    y[i, 0] = y[i + 1, 0]", "not independent", (4, 4)),
        (
            "s = 0.0\nfor i in parallel(n):\n    s = x[i, 0] - s\ny[0, 0] = s",
            "needs `s` of the round before",
            (5, 5),
        ),
        ("for i in parallel(n):\n    y[k, 0] = 1.0", "not independent", (4, 4)),
        (
            "for i in parallel(n):\n    for j in parallel(m):\n        y[i, j] = 1.0",
            "inside another one",
            (4, 3),
        ),
        (
            "for i in parallel(n):\n    if x[i, 0] > 0:\n        break\n    y[i, 0] = 1.0",
            "`break` leaves",
            (5,),
        ),
        (
            "for i in parallel(n):\n    t = x[i, 0]\n    y[i, 0] = t\nelse:\n    y[0, 0] = 1",
            "has no `else`",
            (7,),
        ),
        (
            "t = 0.0\nfor i in parallel(n):\n    t = x[i, 0]\n    y[i, 0] = t\ny[0, 0] = t",
            "no last one",
            (4,),
        ),
        ("g = lambda q: y[q, 0]\nfor i in parallel(n - 1):\n    y[i, 0] = g(i + 1)", "reads `y`", (5,)),
        ("g = vmap(lambda q: q * y[0])\nfor i in parallel(n):\n    y[i] = g(x)[i]", "reads `y`", (5,)),
        (
            "for i in vectorized(n):\n    for j in range(m):\n        y[i, j] = 1.0",
            "contains another loop",
            (4, 3),
        ),
        ("for i in vectorized(n - 1):\n    y[i + 1, 0] = y[i, 0]", "not independent", (4, 4)),
        ("s = 0.0\nfor i in vectorized(n):\n    s += x[i, 0]\ny[0, 0] = s", "needs `s`", (5,)),
        ("for i in unrolled(n):\n    y[i, 0] = 1.0", "known at compile time", (3,)),
        ("for i in unrolled(1000):\n    y[i, 0] = 1.0", "too long to be unrolled", (3,)),
        ("for i, j in tiled(n, m, 8, 8):\n    y[i, j] = y[i - 1, j + 1]", "order of rounds", (4, 4)),
        ("for i, j in tiled(n - 1, m - 1, 4, 4):\n    y[i + 1, j] = y[i, j + 1]", "order of rounds", (4, 4)),
        ("s = 0.0\nfor i, j in tiled(n, m, 4, 4):\n    s += x[i, j]\ny[0, 0] = s", "needs `s`", (5,)),
        ("for i, j in tiled(n, m, 4):\n    y[i, j] = 1.0", "a size for each of them", (3,)),
        ("for i, j in tiled(n, m, 4, k):\n    y[i, j] = 1.0", "above 0 that is known", (3,)),
        ("for i in grid(n, m):\n    y[i, 0] = 1.0", "gives 2 numbers a round", (3,)),
        ("for i, j in grid(n, m):\n    if x[i, j] > 0:\n        break", "`break` leaves", (5,)),
        ("for i, j in parallel(n):\n    y[i, j] = 1.0", "one number a round", (3,)),
        ("y[0, 0] = sum([i for i in grid(3)])", "cannot be gone over", (3,)),
    ],
)
def test_what_cannot_be_honoured_is_an_error_with_its_places(
    body: str, message: str, lines: tuple[int, ...]
) -> None:
    (diagnostic, *_) = error_of(body).diagnostics
    assert message in diagnostic.message
    assert diagnostic.hint
    spans = [diagnostic.span, *(note.span for note in diagnostic.notes)]
    assert tuple(span.line for span in spans if span is not None) == lines


@pytest.mark.parametrize(
    ("refused", "hint", "followed"),
    [
        (
            "for i in parallel(n - 1):\n    y[i, 0] = y[i + 1, 0]",
            "or write range(...)",
            "for i in range(n - 1):\n    y[i, 0] = y[i + 1, 0]",
        ),
        (
            "for i in parallel(n):\n    y[0, 0] = x[i, 0]",
            "as y[i] with the loop's i",
            "for i in parallel(n):\n    y[i, 0] = x[i, 0]",
        ),
        (
            "s = 0.0\nfor i in parallel(n):\n    s = s * 0.5 + x[i, 0]\nreturn s",
            "reduce as in s += x",
            "s = 0.0\nfor i in parallel(n):\n    s += x[i, 0]\nreturn s",
        ),
        (
            "s = 0.0\nfor i in parallel(n):\n    s = 1.0 / s\nreturn s",
            "or s = max(s, x)",
            "s = 0.0\nfor i in parallel(n):\n    s = max(s, x[i, 0])\nreturn s",
        ),
        (
            "t = 0.0\nfor i in parallel(n):\n    t = x[i, 0]\n    y[i, 0] = t\nreturn t",
            "keep what is needed in an array",
            "for i in parallel(n):\n    t = x[i, 0]\n    y[i, 0] = t\nreturn y[n - 1, 0]",
        ),
        (
            "for i, j in parallel(n):\n    y[i, j] = 1.0",
            "for i in parallel(n): and for j in range(m):",
            "for i in parallel(n):\n    for j in range(m):\n        y[i, j] = 1.0",
        ),
        (
            "g = lambda q: y[q, 0]\nfor i in parallel(n):\n    y[i, 1] = g(i)",
            "give it `y` as an argument",
            "g = lambda z, q: z[q, 0]\nfor i in range(n):\n    y[i, 1] = g(y, i)",
        ),
        (
            "s = 0.0\nfor i, j in tiled(n, m, 4, 4):\n    s += x[i, j]\nreturn s",
            "keep it in an element of an array",
            "for i, j in tiled(n, m, 4, 4):\n    y[i, 0] += x[i, j]",
        ),
        (
            "for i in parallel(n):\n    if x[i, 0] > 0:\n        break\n    y[i, 0] = 1.0",
            "compute in all rounds",
            "for i in parallel(n):\n    y[i, 0] = 0.0 if x[i, 0] > 0 else 1.0",
        ),
        (
            "for i in parallel(n):\n    y[i, 0] = 1.0\nelse:\n    y[0, 1] = 2.0",
            "write what follows behind the loop",
            "for i in parallel(n):\n    y[i, 0] = 1.0\ny[0, 1] = 2.0",
        ),
        (
            "for i in grid(n, m):\n    y[i, 0] = 1.0",
            "write for i, j in grid(...)",
            "for i, j in grid(n, m):\n    y[i, j] = 1.0",
        ),
        (
            "for i, j in tiled(n, m, 8, 8):\n    y[i, j] = y[i - 1, j + 1]",
            "write grid(...)",
            "for i, j in grid(n, m - 1):\n    y[i, j] = y[i - 1, j + 1]",
        ),
        (
            "for i in unrolled(n):\n    y[i, 0] = 1.0",
            "write range(...)",
            "for i in range(n):\n    y[i, 0] = 1.0",
        ),
        (
            "for i in unrolled(200):\n    y[i, 0] = 1.0",
            "and unroll a loop inside it",
            "for i in range(0, 200, 4):\n    for u in unrolled(4):\n        y[i + u, 0] = 1.0",
        ),
        (
            "for i in grid():\n    y[0, 0] = 1.0",
            "write grid(n, m)",
            "for i, j in grid(n, m):\n    y[i, j] = 1.0",
        ),
        (
            "for i, j in tiled(n, m, 32):\n    y[i, j] = 1.0",
            "write tiled(n, m, 32, 32)",
            "for i, j in tiled(n, m, 32, 32):\n    y[i, j] = 1.0",
        ),
    ],
)
def test_hints_can_be_followed(refused: str, hint: str, followed: str) -> None:
    (diagnostic, *_) = error_of(refused).diagnostics
    assert hint in (diagnostic.hint or "")
    text = textwrap.indent(f"n, m = x.shape\n{followed}", "    ")
    assert compile_source(Source("cell", f"def f({PARAMETERS}):\n{text}\n"), {"np": np})


@pytest.mark.machine_code
def test_whole_arrays_in_a_round_are_refused() -> None:
    with pytest.raises(EngineError, match="whole arrays") as caught:
        compiled("for i in parallel(n):\n    y[i] = np.sort(x[i])")
    assert caught.value.diagnostics[0].span is not None
    assert caught.value.diagnostics[0].span.line == 3


@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "i32", "i64", "u8"])
def test_reductions(dtype: str) -> None:
    source = f"""
def f(x: Tensor[("n",), {dtype}]):
    s, p, low, high = {dtype}(3), {dtype}(1), {dtype}(100), {dtype}(5)
    for i in parallel(len(x)):
        s += x[i]
        p = x[i] * p
        low = min(low, x[i])
        high = np.maximum(high, x[i])
    return s, p, low, high
"""
    function = nnmagic.compile(source, namespace={"np": np}, cache=False)
    kind = {"f": "f", "i": "i", "u": "u"}[dtype[0]] + str(int(dtype[1:]) // 8)
    for size in (0, 1, 5, 63, 64, 65, 1000):
        x = (np.random.default_rng(size).integers(1, 100, size) / (50 if kind[0] == "f" else 1)).astype(kind)
        with np.errstate(over="ignore"):
            total = np.add.reduce(x, dtype=kind, initial=np.array(3, kind)[()])
            product = np.multiply.reduce(x, dtype=kind)
        s, p, low, high = function(x)
        np.testing.assert_allclose(s, total, rtol=1e-4)
        np.testing.assert_allclose(p, product, rtol=1e-4)
        assert low == min([100, *x])
        assert high == max([5, *x])


def test_reductions_of_truth_values_and_bits() -> None:
    source = """
def f(x: Tensor[("n",), i64], limit: i64):
    found, every, bits = False, True, 0
    for i in parallel(len(x)):
        found |= x[i] > limit
        every &= x[i] > limit
        bits ^= x[i]
    return found, every, bits
"""
    function = nnmagic.compile(source, cache=False)
    x = np.random.default_rng(0).integers(0, 100, 777)
    for limit in (-1, 50, 98, 100):
        found, every, bits = function(x, limit)
        assert (found, every) == ((x > limit).any(), (x > limit).all())
        assert bits == np.bitwise_xor.reduce(x)


def test_a_nan_goes_through_extremes() -> None:
    source = """
def f(x: Tensor[("n",), f64]):
    high = -np.inf
    for i in parallel(len(x)):
        high = max(high, x[i])
    return high
"""
    function = nnmagic.compile(source, namespace={"np": np}, cache=False)
    serial = nnmagic.compile(source.replace("parallel", "range"), namespace={"np": np}, cache=False)
    for position in (0, 70, 99):
        x = np.arange(100.0)
        x[position] = np.nan
        np.testing.assert_array_equal(function(x), serial(x))


@pytest.mark.machine_code
def test_results_do_not_depend_on_the_number_of_threads() -> None:
    function = compiled(
        """
        s = 0.0
        for i in parallel(n):
            for j in range(m):
                s += x[i, j]
                y[i, j] = np.exp(x[i, j])
        return s
        """
    )
    x = np.random.default_rng(1).standard_normal((1003, 7))
    results = []
    try:
        for threads in (1, 2, 3, 8):
            nnmagic.set_num_threads(threads)
            y = np.zeros_like(x)
            results.append((float(function(x, y, 0)), y))
    finally:
        nnmagic.set_num_threads(None)
    for total, y in results:
        assert total == results[0][0]
        np.testing.assert_array_equal(y, results[0][1])
    np.testing.assert_allclose(results[0][0], x.sum(), rtol=1e-9)


@pytest.mark.machine_code
def test_the_first_failure_is_that_of_the_loop_run_in_order() -> None:
    function = compiled("for i in parallel(n):\n    y[i, i] = 1.0\n    assert x[i, 0] < 1, 'large'")
    y, x = np.zeros((3000, 2)), np.zeros((3000, 2))
    with pytest.raises(IndexError, match="index 2 is out of range for an axis of size 2"):
        function(x, y, 0)
    assert y[0, 0] == y[1, 1] == 1
    x[1, 0] = 2
    with pytest.raises(AssertionError, match="large"):
        function(x, y, 0)


@pytest.mark.parametrize(
    "head",
    [
        "for i, j in grid(n, m):",
        "for i, j in grid(range(n), range(m - 1, -1, -1)):",
        "for i, j in tiled(n, m, 8, 8):",
        "for i, j in tiled(range(0, n), range(m - 1, -1, -1), 3, 5):",
        "for i, j in tiled(n, m, 1000, 1):",
    ],
)
def test_grids_and_tiles_go_over_all_rounds(head: str) -> None:
    function = compiled(f"{head}\n    y[i, j] += x[i, j] * (i + 1) + j")
    for shape in ((0, 4), (1, 1), (8, 8), (20, 21)):
        x = np.random.default_rng(2).standard_normal(shape)
        y = np.ones(shape)
        function(x, y, 0)
        i, j = np.indices(shape)
        np.testing.assert_allclose(y, 1 + x * (i + 1) + j)


@pytest.mark.full
@pytest.mark.machine_code
def test_tiles_keep_the_order_of_each_sum() -> None:
    source = """
def f(a: Tensor[(40, 50), f32], b: Tensor[(50, 30), f32]):
    c = np.zeros((40, 30), f32)
    for i, p, j in LOOPS:
        c[i, j] += a[i, p] * b[p, j]
    return c
"""
    random_numbers = np.random.default_rng(3)
    a, b = (random_numbers.standard_normal(shape).astype("f4") for shape in ((40, 50), (50, 30)))
    results = [
        nnmagic.compile(source.replace("LOOPS", loops), namespace={"np": np}, cache=False)(a, b)
        for loops in ("grid(40, 50, 30)", "tiled(40, 50, 30, 16, 8, 7)")
    ]
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.optimized
@pytest.mark.machine_code
def test_vectorized_loops_become_vectors() -> None:
    function = compiled("for i in range(n):\n    for j in vectorized(m):\n        y[i, j] += x[i, j] * 2")
    assert re.search(r"fmul <\d+ x double>|fadd <\d+ x double>", function.stages["llvm"])


def test_the_text_says_what_is_parallel_and_can_be_read_back() -> None:
    function = compiled("s = 0.0\nfor i in parallel(n):\n    s += x[i, 0]\nreturn s")
    assert 'parallel="1:add"' in function.relay_text
    again = nnmagic.relay.parse(function.relay.astext())
    assert 'parallel="1:add"' in str(again)
    with pytest.raises(nnmagic.CompileError, match="only a cell"):
        nnmagic.compile(again)


@pytest.mark.parametrize("sizes", ["(0, 3)", "(0, 0)", '(0, "n")'])
@pytest.mark.parametrize(
    "loops",
    [
        "for i in parallel(a.shape[0]):\n        for j in range(a.shape[1]):\n            ",
        "for j in range(a.shape[1]):\n        for i in vectorized(a.shape[0]):\n            ",
        "for i, j in grid(a.shape[0], a.shape[1]):\n        ",
    ],
)
def test_a_loop_of_no_rounds(sizes: str, loops: str) -> None:
    body = f"    y = zeros_like(a)\n    {loops}y[i, j] = a[i, j] * 2\n    return y\n"
    source = f"def f(a: Tensor[{sizes}, f32]):\n{body}"
    a = np.zeros([4 if size == "n" else size for size in eval(sizes)], "float32")
    assert nnmagic.compile(source, namespace={}, cache=False)(a).shape == a.shape


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [("1, 1", (1, 1)), ("2, 1", (2, 1)), ('"n", 1', (3, 1)), ("3, 0", (3, 0)), ('"n", 0', (3, 0))],
)
def test_arrays_of_one_element_and_of_none(sizes: str, shape: tuple[int, int]) -> None:
    """A helper of named sizes has in memory what is a register, or nothing, where it is called."""
    source = f"""
    def scale(x: InOut[Tensor[("n", "m"), f32]], y: Tensor[("m",), f32]):
        for i in parallel(x.shape[0]):
            for j in range(x.shape[1]):
                x[i, j] = x[i, j] * 2 + y[j]
        return x.sum()

    def rows(a):
        y = zeros_like(a)
        for i in parallel(len(a)):
            for j in range(a.shape[1]):
                y[i, j] = a[i, j] + a[i, -1]
        return y

    def f(a: Tensor[({sizes}), f32]):
        scaled, row = a + 1, ones((a.shape[1],), f32)
        total = scale(scaled, row)
        return scaled, total, rows(a)
    """
    f = nnmagic.compile(textwrap.dedent(source), cache=False)
    a = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    scaled, total, doubled = f(a)
    assert np.array_equal(scaled, (a + 1) * 2 + 1)
    assert total == ((a + 1) * 2 + 1).sum()
    assert np.array_equal(doubled, a + a[:, -1:])
