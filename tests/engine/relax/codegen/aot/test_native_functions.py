"""Native functions: branches, loops, recursion and named sizes against Python and NumPy, one idea a test.

`engine/relax/codegen/aot/planning/functions` plans their control flow,
`engine/relax/codegen/aot/planning/calls` their calls and `engine/relax/codegen/aot/planning/values` their
values, with the arrays that `engine/relax/codegen/aot/planning/arrays` reads.
`engine/relax/codegen/aot/bodies/registers`,
`engine/relax/codegen/aot/bodies/ends`, `engine/relax/codegen/aot/bodies/storage`,
`engine/relax/codegen/aot/bodies/steps` and `engine/relax/codegen/aot/bodies/calls` emit them.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.artifact import AOT
from nnmagic.engine.relax.runtime import numpy_abi
from nnmagic.engine.relax.runtime.compiled_program import MAX_CALL_DEPTH
from tests.child_process import run_python
from tests.engine.programs import compile_text
from tests.systems import POSIX

pytestmark = pytest.mark.sampled(every=12)

F32 = np.float32


def compile_native(source, **options):
    """Compile a cell, whose last function must be native."""
    function = nnmagic.compile(source, cache=False, **options)
    function.build()
    assert function._definition.executable.artifact.kind == AOT
    return function


# -- integers wrap around ----------------------------------------------------------------------------------

INTEGERS = {
    f"{kind[0]}{bits}": np.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}
WRAPPING = (
    "x + 1 > x, x - 1 < x, x * 2 >= x, 0 - x, -x, x + 1 - 1 == x, (x - 1) // 2, (x + 1) // 2, x - 1 >= 1, "
    "x * 3 > x * 2, x + 1 == 0, abs(x), x // (x - x + 1)"
)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_in_registers_wrap_around(dtype):
    source = f"""
def f(x: {dtype}, k: i64):
    for j in range(k):
        x = x + 1
        x = x - 1
    if k > 0:
        return {WRAPPING}
    return {WRAPPING}
"""
    f = compile_native(source)
    kind = INTEGERS[dtype]
    limits = np.iinfo(kind)
    numbers = [limits.max, limits.max - 1, limits.min, limits.min + 1, 0, 1, 7]
    for number in numbers:
        x = np.array([number], kind)  # an array wraps around without a warning
        expected = eval(WRAPPING, {"x": x, "abs": abs})
        for rounds in (0, 1, 3):
            for text, result, wanted in zip(
                WRAPPING.split(", "), f(x[0], np.int64(rounds)), expected, strict=True
            ):
                assert result == wanted[0], (text, number)


@pytest.mark.parametrize("dtype", ["i16", "u8", "i64", "u64"])
def test_sums_and_products_of_a_loop_wrap_around(dtype):
    f = compile_native(f"""
def f(x: {dtype}, k: i64):
    total, product, less = x, x, 0
    for i in range(k):
        before = total
        total = total + x
        product = product * x - total
        if total < before:
            less = less + 1
    return total, product, less
""")
    kind = INTEGERS[dtype]
    for number in (3, np.iinfo(kind).max // 3 + 1, np.iinfo(kind).max):
        x = np.array([number], kind)
        total, product, less = x, x, 0
        for _ in range(20):
            before = total
            total = total + x
            product = product * x - total
            less += int(total[0] < before[0])
        assert f(x[0], np.int64(20)) == (total[0], product[0], less)


@pytest.mark.parametrize("dtype", ["i8", "u16", "i32", "i64", "u64"])
def test_divisions_in_registers_do_not_trap(dtype):
    f = compile_native(f"""
def f(x: {dtype}, y: {dtype}, k: i64):
    quotient, rest = x, x
    for i in range(k):
        quotient, rest = quotient // y, rest % y
    return quotient, rest
""")
    kind = INTEGERS[dtype]
    limits = np.iinfo(kind)
    with np.errstate(all="ignore"):
        for x in (limits.min, limits.max, 0, 7):
            for y in (0, 1, 3, limits.max, limits.min, *((-1,) if limits.min else ())):
                expected = (
                    np.array([x], kind) // np.array([y], kind),
                    np.array([x], kind) % np.array([y], kind),
                )
                assert f(kind.type(x), kind.type(y), np.int64(1)) == expected, (x, y)


# -- sizes, shapes and frames ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4, 0, 1, 1000, 7])
def test_the_value_of_a_branch_keeps_its_sizes(size):
    f = compile_native("""
def f(k: i64, x: Tensor[("n",), f32]):
    y, z = x, x
    for i in range(k):
        if i % 2 <= 0:
            y, z = z * 2, y
        else:
            y = cumsum(y)
        y = y + 1
    if k > 3:
        z = z + y
    return cumsum(z), y
""")
    x = np.arange(size, dtype=F32) / 8
    for rounds in range(6):
        y = z = x
        for i in range(rounds):
            y, z = (z * 2, y) if i % 2 <= 0 else (np.cumsum(y, dtype=F32), z)
            y = y + 1
        z = z + y if rounds > 3 else z
        for result, expected in zip(f(np.int64(rounds), x), (np.cumsum(z, dtype=F32), y), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("k", [-4, -1, 1, 0, 5])
def test_one_side_of_a_branch_knows_its_sizes(k):
    source = """
def f(k: i64):
    n = abs(k)
    if n == 1:
        return np.zeros(2)
    return np.ones(n)
"""
    expected = np.zeros(2) if abs(k) == 1 else np.ones(abs(k))
    np.testing.assert_array_equal(compile_native(source, namespace={"np": np})(k), expected)


def test_frames_of_recursion_have_the_sizes_of_the_call():
    f = compile_native("""
def f(k: i64, x: Tensor[("n",), f32]) -> Tensor[("n",), f32]:
    if k <= 0:
        return x
    y = cumsum(x) * 0.5
    return f(k - 1, y) + y
""")

    def expected(k, x):
        if k <= 0:
            return x
        y = np.cumsum(x, dtype=F32) * F32(0.5)
        return expected(k - 1, y) + y

    for size in (3, 0, 1, 500, 2):
        for depth in (0, 1, 7):
            x = np.linspace(0, 1, size, dtype=F32)
            np.testing.assert_allclose(f(np.int64(depth), x), expected(depth, x), rtol=1e-5)


CONVOLUTION = """
def f(k: i64, x: Tensor[(1, 1, "n"), f32], w: Tensor[(1, 1, 3), f32]) -> f32:
    if k <= 0:
        return conv1d(x, w).sum()
    return f(k - 1, x, w) + 1
"""


@pytest.mark.parametrize("depth", [3, 5000])
def test_shapes_that_do_not_fit_are_refused_on_any_thread_and_at_any_depth(depth):
    f = compile_native(CONVOLUTION)
    w = np.ones((1, 1, 3), F32)

    def answer(size):
        try:
            return float(f(np.int64(depth), np.ones((1, 1, size), F32), w))
        except ValueError as error:
            return str(error).splitlines()[:2]

    def ask():
        answers.extend(map(answer, (5, 0, 4, 0, 2)))

    refused = ["nn.conv1d: the kernel is larger than the padded data", " --> <tinynn>:4:16"]
    expected = [depth + 9, refused, depth + 6, refused, refused]
    answers: list[object] = []
    ask()
    assert answers == expected
    answers.clear()
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert answers == expected


@pytest.mark.parametrize("dtype", ["i8", "u16", "i32", "i64", "u64"])
def test_constants_wrap_around_where_a_branch_computes_with_them(dtype):
    kind = INTEGERS[dtype]
    most = np.iinfo(kind).max
    f = compile_native(f"""
def f(x: {dtype}, b: bool_):
    y = x
    if b:
        y = {dtype}({most}) + {dtype}(1)
        x = x + ({dtype}({most}) + {dtype}(1)) + (-{dtype}(2)) + {dtype}(x - x - 1)
    return x, y
""")
    least = np.iinfo(kind).min
    assert f(kind.type(3), np.bool_(True)) == (least, least)
    assert f(kind.type(3), np.bool_(False)) == (3, 3)


# -- state of loops ----------------------------------------------------------------------------------------

ROTATIONS = """
def f(k: i64, a: Tensor[("n",), f32], b: Tensor[("n",), f32], c: Tensor[("n",), f32], d: Tensor[("n",), f32]):
    p, q = a, b
    for i in range(k):
        p, q = q, p + q
    x, y, z = a, b, a
    for i in range(k):
        if i % 2 <= 0:
            x, y, z = y, z, x
        else:
            x, y, z = z, x * 2, y
    s, t, u, v = a, b, c, d
    for i in range(k):
        s, t, u, v = v, s, t - 1, u
        if i % 3 <= 0:
            t, v = v, t
    return p, q, x, y, z, s, t, u, v, a, p
"""


def rotate(k, a, b, c, d):
    p, q = a, b
    for _ in range(k):
        p, q = q, p + q
    x, y, z = a, b, a
    for i in range(k):
        x, y, z = (y, z, x) if i % 2 == 0 else (z, x * 2, y)
    s, t, u, v = a, b, c, d
    for i in range(k):
        s, t, u, v = v, s, t - 1, u
        if i % 3 == 0:
            t, v = v, t
    return p, q, x, y, z, s, t, u, v, a, p


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
def test_tensors_are_exchanged_in_loops(opt_level):
    f = compile_native(ROTATIONS, opt_level=opt_level)
    for size in (3, 0, 1, 2, 5000, 7):
        arrays = [np.arange(size, dtype=F32) % 16 * factor for factor in (1, 3, -2, 5)]
        before = [array.copy() for array in arrays]
        for rounds in (0, 1, 2, 3, 4, 5, 6, 7):
            results = f(np.int64(rounds), *arrays)
            for result, expected in zip(results, rotate(rounds, *arrays), strict=True):
                np.testing.assert_array_equal(result, expected)
            for number, result in enumerate(results):  # new arrays, none shared
                assert not any(np.shares_memory(result, other) for other in [*arrays, *results[:number]])
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.full
def test_programs_for_another_cpu_and_arrays_that_are_described_by_hand(monkeypatch):
    monkeypatch.setattr(numpy_abi, "address", None)
    target = {"kind": "llvm", "mcpu": "haswell"} if platform.machine() == "x86_64" else None
    f = compile_native(ROTATIONS, target=target)
    arrays = [np.arange(9, dtype=F32) * factor for factor in (1, 3, -2, 5)]
    for rounds in (0, 5, 2):
        for result, expected in zip(f(np.int64(rounds), *arrays), rotate(rounds, *arrays), strict=True):
            np.testing.assert_array_equal(result, expected)


def test_results_are_constants_arguments_and_what_other_results_are():
    table = np.arange(6, dtype=F32).reshape(2, 3)
    f = compile_native(
        """
def f(k: i64, x: Tensor[(2, 3), f32], b: bool_):
    y, z, w = table, x, table
    while k > 0 and (b or not z.sum() > 100):
        k = k - 1
        y, z = z, y + 1
        if k == 3:
            continue
        if k == 1 and b:
            return y, y, table, x, (k, b)
        w = y if k % 2 <= 0 else x
    return w, w, table, z, (k, b)
""",
        namespace={"table": table},
    )

    def expected(k, x, b):
        y, z, w = table, x, table
        while k > 0 and (b or not z.sum() > 100):
            k -= 1
            y, z = z, y + 1
            if k == 3:
                continue
            if k == 1 and b:
                return y, y, table, x, (k, b)
            w = y if k % 2 <= 0 else x
        return w, w, table, z, (k, b)

    for k in range(7):
        for x in (np.ones((2, 3), F32), np.full((2, 3), 20, F32)):
            for b in (False, True):
                *arrays, (count, flag) = f(np.int64(k), x, np.bool_(b))
                *wanted, (left, same) = expected(k, x, b)
                for result, other in zip(arrays, wanted, strict=True):
                    np.testing.assert_array_equal(result, other)
                assert (count, flag) == (left, same)


def test_branches_and_loops_in_one_another_with_tuples_for_state():
    f = compile_native("""
def f(k: i64, x: Tensor[("n", "m"), f32], y: Tensor[("n", "m"), f32]):
    state = (x, (y, f32(1)))
    for i in range(k):
        a, (b, c) = state
        if i % 3 == 1:
            if c > 4:
                break
            state = (b, (a, c * 2))
        else:
            for j in range(i):
                if j == 2:
                    break
                a, b = b + c, a
            state = (a, (cumsum(b, axis=0), c + 1)) if i % 2 <= 0 else (b, (b, c))
    a, (b, c) = state
    return a - b, c, state
""")

    def expected(k, x, y):
        a, b, c = x, y, F32(1)
        for i in range(k):
            if i % 3 == 1:
                if c > 4:
                    break
                a, b, c = b, a, c * F32(2)
            else:
                for j in range(i):
                    if j == 2:
                        break
                    a, b = b + c, a
                a, b, c = (a, np.cumsum(b, 0, F32), c + F32(1)) if i % 2 <= 0 else (b, b, c)
        return a - b, c, (a, (b, c))

    for shape in ((2, 3), (0, 4), (1, 1), (40, 50), (3, 0), (2, 2)):
        x = (np.arange(shape[0] * shape[1]).reshape(shape) % 5).astype(F32)
        for k in range(9):
            gap, c, (a, (b, _)) = f(np.int64(k), x, x * 2)
            wanted, count, (left, (right, _)) = expected(k, x, x * 2)
            assert c == count
            for result, other in ((gap, wanted), (a, left), (b, right)):
                np.testing.assert_allclose(result, other, rtol=1e-6)


SINGLE = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "u64": np.uint64,
    "bool_": np.bool_,
    "f64": np.float64,
}


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_single_floats_of_any_dtype_are_state(dtype):
    f = compile_native(f"""
def f(k: i64, x: {dtype}, y: {dtype}, n: u64, b: bool_):
    for i in range(k):
        x, y = y, x * 2 - y if b else y
        n, b = n * 3 + 18446744073709551557, not b
        if x > y or n > 9223372036854775808:
            x = x + 1
    return x, y, n, b
""")
    kind = SINGLE[dtype]
    x, y, n, b = np.array([1.5], kind), np.array([-0.5], kind), np.array([7], np.uint64), True
    arguments = x[0], y[0], n[0], np.bool_(b)
    for rounds in range(8):
        assert f(np.int64(rounds), *arguments) == (x[0], y[0], n[0], b)
        x, y = y, (x * kind(2) - y) if b else y
        n, b = n * np.uint64(3) + np.uint64(18446744073709551557), not b
        if x > y or n > np.uint64(9223372036854775808):
            x = x + kind(1)


def test_the_workspace_grows_and_is_used_again():
    f = compile_native("""
def f(k: i64, x: Tensor[("n", "m"), f32]):
    total = f32(0)
    for i in range(k):
        y = cumsum(x, axis=1)
        z = cumsum(y.T, axis=1)
        total = total + z.sum() % 64
    return total
""")
    for shape in ((2, 3), (0, 0), (300, 200), (1, 1), (0, 5), (500, 400), (2, 3)):
        x = (np.arange(shape[0] * shape[1]).reshape(shape) % 2).astype(F32)
        z = np.cumsum(np.cumsum(x, 1, F32).T, 1, F32)
        expected = sum(np.float64(z.sum(dtype=np.float64)) % 64 for _ in range(3))
        if z.sum(dtype=np.float64) < 2**24:
            assert f(np.int64(3), x) == expected
        assert f(np.int64(0), x) == 0
    assert len(f._definition.executable._entry.idle) == 1


# -- recursion ---------------------------------------------------------------------------------------------


def test_functions_call_one_another_over_tensors():
    f = compile_native("""
def even(
    k: i64, x: Tensor[("n",), f32], y: Tensor[("n",), f32]
) -> tuple[Tensor[("n",), f32], Tensor[("n",), f32]]:
    if k <= 0:
        return x, y
    a, b = odd(k - 1, y, cumsum(x))
    return b + 1, a

def odd(
    k: i64, x: Tensor[("n",), f32], y: Tensor[("n",), f32]
) -> tuple[Tensor[("n",), f32], Tensor[("n",), f32]]:
    if k <= 0:
        return y, x
    return even(k - 1, x - 1, x)

def f(k: i64, x: Tensor[("n",), f32]):
    a, b = even(k, x, x)
    c, d = odd(k, b, a)
    return a, b, c, d
""")

    def even(k, x, y):
        if k <= 0:
            return x, y
        a, b = odd(k - 1, y, np.cumsum(x, dtype=F32))
        return b + 1, a

    def odd(k, x, y):
        return (y, x) if k <= 0 else even(k - 1, x - 1, x)

    for size in (3, 0, 1, 200):
        x = (np.arange(size) % 3).astype(F32)
        for k in range(7):
            a, b = even(k, x, x)
            for result, expected in zip(f(np.int64(k), x), (a, b, *odd(k, b, a)), strict=True):
                np.testing.assert_allclose(result, expected, rtol=1e-5)


DEEP = """
def g(k: i64, x: Tensor[("n",), f32]) -> Tensor[("n",), f32]:
    if k <= 0:
        return x
    return g(k - 1, x) + 1

def f(k: i64, x: Tensor[("n",), f32]):
    return g(k, x)
"""


def test_recursion_that_is_too_deep_is_an_error_and_the_function_still_works():
    f = compile_native(DEEP)
    x = np.zeros(2, F32)
    for k in (3, 999, 1001, MAX_CALL_DEPTH // 2, MAX_CALL_DEPTH - 1000):
        np.testing.assert_array_equal(f(np.int64(k), x), x + k)
    for _ in range(2):
        with pytest.raises(RecursionError, match=f"deeper than {MAX_CALL_DEPTH} calls"):
            f(np.int64(10**6), x)
        np.testing.assert_array_equal(f(np.int64(5), x), x + 5)
        np.testing.assert_array_equal(f(np.int64(5000), x), x + 5000)


def test_functions_that_call_each_other_fail_where_they_are_written_out():
    source = """
def even(k, x, at):
    if k == 0:
        return x[at]
    return odd(k - 1, x, at) + odd(k // 2, x, at - 1)

def odd(k, x, at):
    total = 0
    for i in range(at):
        total += i
    return total if k == 0 else even(k - 1, x, at) + x[k % 2]

def tree(k, x, at):
    if k < 2:
        return x[at]
    return tree(k - 1, x, at) + tree(k - 2, x, at - 1)

def f(k: i64, x: Tensor[("n",), i64], at: i64):
    return even(k, x, at) + tree(k, x, at)
"""
    f, scope = compile_native(source), {"Tensor": nnmagic.Tensor, "i64": nnmagic.i64}
    exec(source, scope)
    x = np.array([3, 1, 4, 1, 5])
    for k, at in ((0, 0), (1, 4), (7, 4), (10, 4), (6, 2)):
        assert f(np.int64(k), x, np.int64(at)) == scope["f"](k, x, at)
    with pytest.raises(IndexError):
        f(np.int64(4), x, np.int64(9))
    with pytest.raises(RecursionError, match=f"deeper than {MAX_CALL_DEPTH} calls"):
        f(np.int64(-1), x, np.int64(1))
    assert f(np.int64(7), x, np.int64(4)) == scope["f"](7, x, 4)


@pytest.mark.full
def test_large_frames_are_deep_too():
    lines = "".join(f"    y{i} = cumsum(x) * {i} + f32(k)\n    t = t + y{i}.sum() % 7\n" for i in range(12))
    f = compile_native(f"""
def f(k: i64, x: Tensor[(3,), f32], t: f32) -> f32:
    if k <= 0:
        return t
{lines}    return f(k - 1, x, t % 5) + 1
""")
    x = np.ones(3, F32)
    assert np.isfinite(f(np.int64(20_000), x, F32(0)))
    with pytest.raises(RecursionError):
        f(np.int64(10**7), x, F32(0))


# -- failures ----------------------------------------------------------------------------------------------


def test_a_check_fails_where_it_is_and_only_if_it_runs():
    f = compile_native("""
def f(k: i64, x: Tensor[("n",), f32]):
    total = f32(0)
    for i in range(k):
        if i > 2:
            total = total + x[i]
        else:
            assert x.sum() < 10, "too large"
    while total > 50:
        assert k < 0
    return total
""")

    def failure(kind, k, x):
        with pytest.raises(kind) as caught:
            f(np.int64(k), np.array(x, F32))
        return str(caught.value).splitlines()[:2]

    for _ in range(2):
        assert f(np.int64(5), np.arange(5, dtype=F32) / 2) == 3.5
        assert failure(AssertionError, 1, [4, 7]) == ["too large", " --> <tinynn>:8:20"]
        assert f(np.int64(0), np.array([4, 7], F32)) == 0
        index = "index 3 is out of range for an axis of size 3"
        assert failure(IndexError, 4, [1, 1, 1]) == [index, " --> <tinynn>:6:29"]
        assert failure(AssertionError, 4, [0, 0, -99, 99])[1].strip() == "--> <tinynn>:10:16"


@pytest.mark.full
def test_sizes_that_no_memory_holds_corrupt_nothing():
    f = compile_native("""
def f(k: i64, x: Tensor[("n", "m"), f32]):
    for i in range(k):
        x = x * 2 + 1
    return x, x.sum()
""")
    for shape in ((2**40, 0), (0, 2**40), (2**60, 0), (0, 0), (1, 2)):
        x = np.empty(shape, F32)
        x[...] = 1
        result, total = f(np.int64(3), x)
        assert result.shape == shape
        assert total == 15 * x.size
    g = compile_native("""
def g(k: i64, x: Tensor[("n", "m"), f32]) -> f32:
    if k <= 0:
        return x.sum()
    y = cumsum(x @ x.T, axis=0)
    return g(k - 1, x) + cumsum(y, axis=1).max()
""")
    for size in (2**33, 2**31, 2**40, 2**60):
        with pytest.raises(MemoryError):
            g(np.int64(1), np.empty((size, 0), F32))
        assert g(np.int64(1), np.ones((2, 1), F32)) == 6


@pytest.mark.full
def test_many_threads_call_one_function():
    f = compile_native(ROTATIONS)

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(40):
            size, rounds = int(rng.integers(0, 300)), int(rng.integers(0, 9))
            arrays = [rng.integers(-9, 9, size).astype(F32) for _ in range(4)]
            for result, expected in zip(f(np.int64(rounds), *arrays), rotate(rounds, *arrays), strict=True):
                np.testing.assert_array_equal(result, expected)
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))


def test_a_saved_function_is_the_same(tmp_path):
    f = compile_native(DEEP)
    f.save(tmp_path / "f.nn")
    again = nnmagic.load(tmp_path / "f.nn")
    x = np.arange(3, dtype=F32)
    for k in (0, 4, 3000):
        np.testing.assert_array_equal(again(np.int64(k), x), x + k)


CHILD = """
import os, signal, threading
import numpy as np
import nnmagic

signal.signal(signal.SIGINT, signal.default_int_handler)
source = '''
def g(k: i64, x: Tensor[("n",), f32]) -> Tensor[("n",), f32]:
    if k <= 0:
        return x
    return g(k - 1, x) + 1

def f(outer: i64, inner: i64, deep: i64, x: Tensor[("n",), f32]):
    n = x.sum()
    for i in range(outer):
        for j in range(inner):
            n = n * 0.5 + 1
        if deep > 0:
            n = n + g(deep, x).sum()
    return n
'''
f = nnmagic.compile(source, cache=False)
f.build()
x = np.ones(4, "f")
for outer, inner, deep in ((10**12, 0, 0), (10**9, 1000, 0), (10**9, 2 * 10**5, 0), (10**9, 10, 60_000)):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        f(np.int64(outer), np.int64(inner), np.int64(deep), x)
    except KeyboardInterrupt:
        print("stopped", f(np.int64(1), np.int64(0), np.int64(2000), x))
child = os.fork()
if not child:
    os._exit(0 if f(np.int64(1), np.int64(0), np.int64(2000), x) == 8008 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.full
@POSIX
def test_loops_and_recursion_are_interrupted_and_a_forked_child_runs_them():
    command = [sys.executable, "-W", "ignore", "-c", CHILD]
    child = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert child.stdout == "stopped 8008.0\n" * 4 + "0\n", child.stderr[-2000:]


def test_a_slice_that_nobody_uses_in_a_branch_of_a_loop():
    f = compile_native("""
def f(k: i64, b: bool_, x: Tensor[("n",), f32]):
    while k > 0:
        k = k - 1
        _y = x[::-1] if b else x
        assert b or k % 5 < 4
    return k
""")
    assert f(np.int64(3), np.bool_(True), np.ones(3, F32)) == 0


@pytest.mark.parametrize("function", ["arcsinh", "arctanh", "log1p", "sinh", "cbrt"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "u16"])
def test_mathematics_of_a_number_beside_kernels_of_named_sizes(function, dtype):
    source = f"""
def f(x: Tensor[("m", "n"), f64], y: Tensor[("m", "n"), f64], number: {dtype}):
    return einsum("...i,...i->...", x, y), x[0] @ y[0], {function}(number), {function}(number + 1) > 2
"""
    x, y = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    number = {"f32": np.float32(0.5), "f64": np.float64(0.25), "u16": np.uint16(0)}[dtype]
    product, first, result, large = nnmagic.compile(source, namespace={}, cache=False)(x, y, number)
    np.testing.assert_array_equal(product, x.sum(axis=1))
    assert first == 3
    with np.errstate(all="ignore"):
        expected = getattr(np, function)(number)
        assert large == (getattr(np, function)(number + 1) > 2)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-6)


SINGLE_ELEMENTS = """
import sys
import numpy as np
import nnmagic

for dims in ((1,), (1, 1), (1, 3)):
    names = ", ".join(f"'n{axis}'" for axis in range(len(dims)))
    source = f'''
def g(a: Tensor[({names},), {sys.argv[1]}], k: i64) -> tuple[Tensor[({names},), {sys.argv[1]}], i64]:
    if k <= 0:
        return a, k
    b, c = g(a * 2, k - 1)
    return b + a, c + a.shape[0]

def f(x: Tensor[{dims}, {sys.argv[1]}], k: i64):
    return g(x, k), g(x + 1, 0), g(x * 0 + 1, 2)
'''
    print(dims, flush=True)
    f = nnmagic.compile(source, cache=False)

    def g(a, k):
        if k <= 0:
            return a, k
        b, c = g(a * 2, k - 1)
        return b + a, c + a.shape[0]

    x = np.arange(2, 2 + np.prod(dims)).reshape(dims).astype(sys.argv[2])
    for results, expected in zip(f(x, np.int64(3)), (g(x, 3), g(x + 1, 0), g(x * 0 + 1, 2)), strict=True):
        np.testing.assert_array_equal(results[0], expected[0])
        assert results[1] == expected[1]
"""


@pytest.mark.full
@pytest.mark.parametrize(("dtype", "numpys"), [("f32", "float32"), ("bool_", "bool")])
def test_a_function_of_named_sizes_takes_arrays_of_one_element(dtype, numpys):
    source = SINGLE_ELEMENTS
    if dtype == "bool_":
        for numbers, bools in [("a * 2", "~a"), ("b + a", "b | a"), ("x + 1", "~x"), ("x * 0 + 1", "x")]:
            source = source.replace(numbers, bools)
    run_python("-W", "ignore", "-c", source, dtype, numpys)


# -- sizes that values decide, in loops --------------------------------------------------------------------


def rank_pages(links, rounds):
    n = links.shape[0]
    ranks = np.ones(n) / n
    for _ in range(rounds):
        new = np.zeros(n)
        for j in range(n):
            targets = np.argwhere(links[:, j] > 0).flatten()
            for i in targets:
                new[i] += ranks[j] / len(targets)
        ranks = 0.85 * new + 0.15 / n
    return ranks


@pytest.mark.full
def test_positions_are_found_in_loops():
    rank = compile_native("""
def rank(links: Tensor[("n", "n"), f64], rounds: i64):
    n = links.shape[0]
    ranks = ones(n) / n
    for _ in range(rounds):
        new = zeros(n)
        for j in range(n):
            targets = argwhere(links[:, j] > 0).flatten()
            for i in targets:
                new[i] += ranks[j] / len(targets)
        ranks = 0.85 * new + 0.15 / n
    return ranks
""")
    for n in (1, 2, 9):
        links = (np.random.default_rng(n).random((n, n)) > 0.6).astype(float)
        np.testing.assert_allclose(rank(links, np.int64(4)), rank_pages(links, 4), rtol=1e-12)


@pytest.mark.full
def test_complex_elements_of_a_mask_are_changed_in_loops():
    iterate = compile_native("""
def iterate(c: Tensor[("n", "m"), c128], rounds: i64):
    z, count = zeros_like(c), zeros(c.shape, dtype=i64)
    for k in range(rounds):
        near = abs(z) < 2.0
        count[near] = k
        z[near] = z[near] ** 2 + c[near]
    return z, count
""")
    c = np.linspace(-2, 0.5, 9) + 1j * np.linspace(-1.2, 1.2, 7)[:, None]
    z, count = np.zeros_like(c), np.zeros(c.shape, np.int64)
    for k in range(12):
        near = abs(z) < 2.0
        count[near] = k
        z[near] = z[near] ** 2 + c[near]
    found = iterate(c, np.int64(12))
    np.testing.assert_allclose(found[0], z, rtol=1e-9)
    np.testing.assert_array_equal(found[1], count)


@pytest.mark.full
def test_the_step_of_a_slice_may_change_in_a_loop():
    sieve = compile_native("""
def sieve(n: i64):
    is_prime = ones(n, dtype=bool)
    is_prime[:2] = False
    i = 2
    while i * i < n:
        if is_prime[i]:
            is_prime[i * i :: i] = False
        i += 1
    return nonzero(is_prime)[0]
""")
    for n in (0, 1, 2, 3, 30, 1000):
        primes = [p for p in range(2, n) if all(p % k for k in range(2, p))]
        np.testing.assert_array_equal(sieve(np.int64(n)), primes)


def test_what_a_mask_chose_is_masked_again_in_a_loop():
    sum_between = compile_native("""
def sum_between(x: Tensor[("n",), f64], rounds: i64):
    total = 0.0
    for k in range(rounds):
        above = x[x > 0.1 * k]
        total += above[above < 0.5 + 0.1 * k].sum()
    return total
""")
    x = np.random.default_rng(2).random(40)
    between = [x[(x > 0.1 * k) & (x < 0.5 + 0.1 * k)].sum() for k in range(6)]
    np.testing.assert_allclose(sum_between(x, np.int64(6)), sum(between), rtol=1e-12)


LISTS = """
def f(x: Tensor[('n',), f64], c: f64):
    n, last = x.shape[0], zeros((2,), dtype=f64)
    rows = []
    for i in range(n):
        rows.append(where(arange(n, dtype=f64) > 1, arange(n, dtype=f64), 2) + 1)
    for i in range(n):
        found = []
        for j in range(n):
            found.append(c)
        last[0] = found[-1]
    return last, np.array(rows)
"""


@pytest.mark.full
def test_a_size_that_is_made_of_one_without_a_bound() -> None:
    """Nothing bounds how long a list becomes that a loop in a loop makes."""
    last, rows = nnmagic.compile(LISTS, namespace={"np": np}, cache=False)(np.zeros(4), 2.5)
    assert last.tolist() == [2.5, 0]
    assert rows.tolist() == [[3, 3, 3, 4]] * 4


def test_an_array_of_a_cell_is_a_result():
    """A pointer into a cell chooses among no arrays: the result is what it points at."""
    program = compile_text("""
type Maybe[A] {
  Some(A),
  Non,
}
def @main(%x: Tensor[(2, 3), float32]) {
  match? (Some((%x, %x))) {
    Some((%v, _)) => { %v },
  }
}
""")
    x = np.arange(-3, 3, dtype="f4").reshape(2, 3)
    np.testing.assert_array_equal(program([x]), x)


def test_a_loop_from_zero_to_zero_whose_round_fails_is_compiled() -> None:
    """Its bounds are known where the loop around it is written out: a zero is no null pointer to LLVM."""
    source = """
def half(p: i8) -> f32:
    return f32(2)

def f(x: Tensor[("n",), i64]):
    for i in range(2):
        j = i64(i)
        for k in range(j % 3, j % 8, 2):
            _ = half(i8(1) // i8(0))
            x = x + 1
    return x
"""
    assert nnmagic.compile(source)(np.arange(3)).tolist() == [0, 1, 2]
