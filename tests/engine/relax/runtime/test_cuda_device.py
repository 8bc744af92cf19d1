"""Functions on a CUDA device; skipped where there is none. ``test_cuda.py`` has what needs no device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax import build
from nnmagic.engine.relax.runtime import cuda_device
from nnmagic.relay.expr import Constant
from nnmagic.relay.module import Module
from nnmagic.relay.types import NUMPY_DTYPES, TensorType, TupleType, Type
from tests.engine.calls import OperatorCall, of_the_operators
from tests.tools.test_cuda_source import EXAMPLES, NOTEBOOKS, functions_of

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(bool(cuda_device.missing_device()), reason=str(cuda_device.missing_device())),
]


def compiled(source: str, **options: Any) -> tuple[nnmagic.CompiledFunction, nnmagic.CompiledFunction]:
    """The function of a cell on the device, and on the CPU."""
    return nnmagic.compile(source, target="cuda", cache=False, **options), nnmagic.compile(source, **options)


def assert_same(actual: Any, expected: Any, rtol: float = 1e-5) -> None:
    """Equal types, dtypes and shapes; equal values, floating-point ones within a tolerance."""
    assert type(actual) is type(expected)
    if isinstance(expected, tuple):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other, rtol)
        return
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.flags.writeable
    kind = "f8" if actual.dtype.kind in "fV" else actual.dtype
    eps = float(ml_dtypes.finfo(actual.dtype).eps) if actual.dtype.kind in "fV" else 0
    tolerance = max(rtol, 4 * eps) if eps else 0
    if actual.dtype == "f8":  # computed of f32 in part by some operators
        tolerance = 1e-9 if rtol <= 1e-5 else 1e-6
    np.testing.assert_allclose(actual.astype(kind), expected.astype(kind), rtol=tolerance, atol=tolerance)


def arrays(*shapes: tuple[int, ...], dtype: Any = "float32", seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(shape).astype(dtype) for shape in shapes]


def numpy_dtype_of(name: str) -> np.dtype[Any]:
    """The dtype that a cell calls ``bf16``, ``f32``, ``i8``, ``u8``."""
    kinds = {"f": "float", "i": "int", "u": "uint"}
    return np.dtype(ml_dtypes.bfloat16 if name == "bf16" else kinds[name[0]] + name[1:])


@pytest.mark.parametrize("n", [0, 1, 7, 300])
def test_sizes_with_names(n: int) -> None:
    gpu, cpu = compiled(
        'def layer(x: Tensor[("n", 32), f32], w: Tensor[(32, 16), f32]):\n'
        "    y = relu(x @ w + 3.25)\n"
        "    return softmax(y, axis=-1) * 5.75, y.argmax(axis=1), x.shape[0], y.sum(axis=0), y.max(axis=1)\n"
    )
    given = arrays((n, 32), (32, 16))
    assert_same(gpu(*given), cpu(*given))


@pytest.mark.parametrize("n", [0, 1, 5, 2000])
def test_sums_over_a_size_that_may_be_0(n: int) -> None:
    gpu, cpu = compiled(
        'def f(x: Tensor[(3, "n"), f32], y: Tensor[("n", 4), f32]):\n'
        "    return x @ y, x.sum(axis=1), x.sum(), (x * x).mean(axis=0), cumsum(x, axis=1)\n"
    )
    given = arrays((3, n), (n, 4))
    with np.errstate(invalid="ignore"):
        assert_same(gpu(*given), cpu(*given))


@pytest.mark.parametrize(
    "dtype", ["f16", "bf16", "f32", "f64", "i8", "u8", "i16", "i32", "i64", "u32", "u64"]
)
def test_dtypes(dtype: str) -> None:
    gpu, cpu = compiled(
        f"def f(x: Tensor[(5, 6), {dtype}], y: Tensor[(5, 6), {dtype}], p: Tensor[(5, 6), bool_]):\n"
        "    sums = x.sum(axis=1), x.max(), p.any(axis=0), x.T @ y\n"
        "    return sums, x + y * y, where(p, x, y), x > y, x.astype(f32)\n"
    )
    generator = np.random.default_rng(1)
    numpy_dtype = numpy_dtype_of(dtype)
    x, y = (generator.integers(0, 7, (5, 6)).astype(numpy_dtype) for _ in range(2))
    p = generator.integers(0, 2, (5, 6)).astype(bool)
    assert_same(gpu(x, y, p), cpu(x, y, p))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_functions_of_elements(dtype: str) -> None:
    names = [
        "exp",
        "log",
        "sqrt",
        "tanh",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "erf",
        "sigmoid",
        "floor",
        "ceil",
    ]
    names += ["round", "abs", "atan", "log2", "log10"]
    constant = 1.2345678901234567e-20 if dtype in ("f32", "f64") else 0.125
    body = "".join(f"    {name}_ = {name}(x)\n" for name in names)
    results = ", ".join(f"{name}_" for name in names)
    more = f"x ** 2.5, x % 0.7, isnan(x), x * {constant} / {constant}"
    gpu, cpu = compiled(f"def f(x: Tensor[(200,), {dtype}]):\n{body}    return {results}, {more}\n")
    x = np.linspace(0.01, 3, 200).astype(numpy_dtype_of(dtype))
    assert_same(gpu(x), cpu(x))


def test_numbers_are_exact() -> None:
    """No product is contracted with a sum, nothing is flushed to zero, and NaN stays."""
    gpu, _ = compiled(
        "def f(x: Tensor[(9,), f32], y: Tensor[(9,), f32]):\n    return x * y - x * y, x / y, x.max()\n"
    )
    x = np.array([1.1, 3.3e-42, np.nan, np.inf, -0.0, 1 / 3, 7.7, 1e30, 2.2], "f4")
    y = np.array([1.3, 2.0, 1.0, 2.0, 3.0, 1 / 7, 9.9, 1e10, 0.0], "f4")
    difference, quotient, largest = gpu(x, y)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(difference, x * y - x * y)
        np.testing.assert_array_equal(quotient, x / y)
    assert np.isnan(largest)
    assert difference[0] == difference[5] == difference[6] == 0
    assert quotient[1] != 0


def test_a_product_of_float32_is_one() -> None:
    gpu, _ = compiled("def f(x: Tensor[(256, 512), f32], y: Tensor[(512, 128), f32]):\n    return x @ y\n")
    x, y = arrays((256, 512), (512, 128))
    exact = x.astype("f8") @ y.astype("f8")
    assert np.abs(gpu(x, y) - exact).max() / np.abs(exact).max() < 2e-6  # TF32 would give 3e-4


def test_branches() -> None:
    gpu, cpu = compiled(
        "def f(p: Tensor[(), bool_], n: i64, x: Tensor[(4,), f32]):\n"
        "    if p:\n"
        "        y = x * 2.0\n"
        "        if n > 3:\n            y = exp(y)\n"
        "    else:\n        y = -x\n"
        "    return y, x\n"
    )
    (x,) = arrays((4,))
    for p in (True, False):
        for n in (1, 9):
            assert_same(gpu(p, n, x), cpu(p, n, x))


def test_loops() -> None:
    gpu, cpu = compiled(
        "def f(n: i64, x: Tensor[(4,), f32]):\n"
        "    total = zeros((4,), f32)\n"
        "    i = 0\n"
        "    while total.sum() < 100.0 and i < n:\n"
        "        total = total + abs(x) * (i + 1)\n"
        "        i += 1\n"
        "    for k in range(n):\n        total = total * 0.5 + k\n"
        "    return total, i\n"
    )
    (x,) = arrays((4,))
    for n in (0, 1, 20, 200):
        assert_same(gpu(n, x), cpu(n, x))


def test_functions_that_call_themselves() -> None:
    gpu, cpu = compiled(
        "def power(n: i64, x: Tensor[(3,), f32]) -> Tensor[(3,), f32]:\n"
        "    if n == 0:\n        return ones((3,), f32)\n"
        "    return x * power(n - 1, x)\n"
    )
    (x,) = arrays((3,))
    for n in (0, 1, 30):
        assert_same(gpu(n, x), cpu(n, x))
    with pytest.raises(RuntimeError, match="this is deeper than"):
        gpu(-1, x)
    assert_same(gpu(2, x), cpu(2, x))


def test_constants_are_on_the_device_once() -> None:
    weights = np.random.default_rng(3).standard_normal((1024, 1024)).astype("f4")
    gpu = nnmagic.compile(
        "def f(x: Tensor[(8, 1024), f32]):\n    return x @ weights + table[3]\n",
        namespace={"weights": weights, "table": np.arange(5, dtype="f4")},
        target="cuda",
        cache=False,
    )
    (x,) = arrays((8, 1024))
    for _ in range(3):
        np.testing.assert_allclose(gpu(x), x @ weights + 3, rtol=1e-3, atol=1e-3)


def test_results_are_nobody_elses_memory() -> None:
    gpu, _ = compiled("def f(x: Tensor[(4,), f32]):\n    return x, x, x.reshape((2, 2)), x + 0.0\n")
    x = np.arange(4, dtype="f4")
    first, second, third, fourth = gpu(x)
    first[...], second[...], third[...] = 5, 6, 7
    assert [part.ravel()[0] for part in (x, first, second, third, fourth)] == [0, 5, 6, 7, 0]


def test_arguments_of_all_kinds() -> None:
    gpu, cpu = compiled(
        'def f(t: tuple[Tensor[("n", 2), f32], Tensor[(), i32]], s: f64, k: Tensor[("n",), i64]):\n'
        "    return t[0] * 2.0, (t[1] + 1, k[::-1]), s * 3.0\n"
    )
    (rows,) = arrays((3, 2))
    for x in (rows, np.asfortranarray(rows), np.broadcast_to(rows[:1], (3, 2)), rows[:, ::-1]):
        given = (x, np.int32(4)), 1.5, np.arange(3)
        assert_same(gpu(*given), cpu(*given))


@pytest.mark.parametrize(
    ("source", "given", "error", "message"),
    [
        (
            "def f(x: Tensor[(4,), f32], i: i64):\n    return x[i] + 1.0\n",
            (np.ones(4, "f4"), 4),
            IndexError,
            "index 4 is out of range for an axis of size 4",
        ),
        (
            "def f(x: Tensor[(4,), f32], i: Tensor[(3,), i64]):\n    return x[i] + 1.0\n",
            (np.ones(4, "f4"), np.array([0, -5, 2])),
            IndexError,
            "index -5 is out of range for an axis of size 4",
        ),
        (
            'def f(x: Tensor[("n",), f32]):\n    assert x.sum() > 0, "too small"\n    return x\n',
            (-np.ones(4, "f4"),),
            AssertionError,
            "too small",
        ),
    ],
)
def test_errors_with_their_place(
    source: str, given: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    gpu, cpu = compiled(source)
    texts = []
    for function in (gpu, cpu):
        with pytest.raises(error, match=message) as caught:
            function(*given)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    right = [
        np.ones(4, "f4") if isinstance(each, np.ndarray) and each.dtype == "f4" else each for each in given
    ]
    right = [
        np.zeros(3, "i8") if isinstance(each, np.ndarray) and each.dtype == "i8" else each for each in right
    ]
    right = [2 if isinstance(each, int) else each for each in right]
    assert_same(gpu(*right), cpu(*right))


def test_sizes_that_values_decide() -> None:
    gpu, cpu = compiled(
        'def f(x: Tensor[("n",), f32], m: i64):\n'
        "    return nonzero(x > 0.0), arange(m), zeros((m, 2), f32) + 1.0, x[:m], unique(round(x))\n"
    )
    (x,) = arrays((40,))
    for m in (0, 1, 33):
        assert_same(gpu(x, m), cpu(x, m))


def test_sorts_and_searches() -> None:
    gpu, cpu = compiled(
        "def f(x: Tensor[(5, 60), f32], e: Tensor[(6,), f32]):\n"
        "    return sort(x, axis=1), argsort(x, axis=0), sort(e)[::-1], x.argmin(axis=1)\n"
    )
    given = arrays((5, 60), (6,))
    assert_same(gpu(*given), cpu(*given))


def test_calls_from_several_threads() -> None:
    gpu, _ = compiled('def f(x: Tensor[("n", 8), f32]):\n    y = x @ x.T\n    return y.sum(axis=0), exp(x)\n')
    wrong: list[object] = []

    def work(seed: int) -> None:
        for number in range(10):
            (x,) = arrays((seed + number + 1, 8), seed=seed)
            total, power = gpu(x)
            good = np.allclose(total, (x @ x.T).sum(0), atol=1e-3) and np.allclose(
                power, np.exp(x), rtol=1e-5
            )
            wrong.extend([] if good else [seed])

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_many_calls_take_no_more_memory() -> None:
    gpu, _ = compiled('def f(x: Tensor[("n", 1000), f32]):\n    return (x * 2.0).sum(axis=1), exp(x)\n')
    (x,) = arrays((1000, 1000))

    def free() -> int:
        attribute = cuda_device.global_function("runtime.GetDeviceAttr")
        return int(attribute(cuda_device.CUDA, cuda_device.FIRST, 14))

    left = []
    for _ in range(6):  # other processes may use the device
        for _ in range(20):
            gpu(x)
        left.append(free())
    assert min(before - after for before, after in pairwise(left)) < 1_000_000


def test_an_array_that_is_too_large_is_an_error() -> None:
    gpu, _ = compiled("def f(n: i64):\n    return zeros((n,), f32).sum()\n")
    with pytest.raises(MemoryError, match="more memory than the device has"):
        gpu(1 << 45)
    assert gpu(5) == 0


def sampled_calls() -> list[Any]:
    return [pytest.param(call, id=f"{number}-{call.name}") for number, call in enumerate(of_the_operators())]


def random_value(type_: Type, generator: np.random.Generator) -> Any:
    """Small numbers of a type; sizes with names are 5."""
    if isinstance(type_, TupleType):
        return tuple(random_value(part, generator) for part in type_.fields)
    assert isinstance(type_, TensorType)
    dtype, shape = NUMPY_DTYPES[type_.dtype], [dim if isinstance(dim, int) else 5 for dim in type_.shape]
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return np.asarray(generator.integers(0, 3, shape)).astype(dtype)
    return np.asarray(generator.uniform(0.1, 2, shape)).astype(dtype)


def values_of(call: OperatorCall, module: Module) -> list[Any]:
    """Arguments of a call: the given ones, else small numbers."""
    generator, result = np.random.default_rng(7), []
    for var in module.functions["main"].params:
        index = int(var.name_hint.removeprefix("p"))
        type_, value = call.args[index], call.values.get(index)
        assert not isinstance(type_, Constant)
        if value is None or not isinstance(type_, TensorType):
            result.append(random_value(type_, generator))
        else:
            result.append(np.asarray(value).astype(NUMPY_DTYPES[type_.dtype]).reshape(type_.shape))
    return result


def assert_agree(gpu: Callable[..., Any], cpu: Callable[..., Any], given: list[Any]) -> None:
    """The same results, or the same error."""
    try:
        expected = cpu(given)
    except (ValueError, IndexError, AssertionError) as error:
        message, kind = str(error), type(error)
    else:
        assert_same(gpu(given), expected, rtol=1e-4)
        return
    with pytest.raises(kind) as caught:
        gpu(given)
    assert str(caught.value) == message


def built(module: Module, name: str) -> Any:
    """A function on the device; the test is skipped if it is refused, but not by NVIDIA's compiler."""
    try:
        return build(module, name, target="cuda")
    except nnmagic.EngineError as error:
        refusal = str(error)
    assert "NVIDIA's compiler" not in refusal
    pytest.skip(f"refused: {refusal.splitlines()[0]}")


@pytest.mark.sampled(every=10)
@pytest.mark.parametrize("call", sampled_calls())
def test_operators_compute_what_the_cpu_computes(call: OperatorCall) -> None:
    module = call.module()
    assert_agree(built(module, "main"), build(module, "main"), values_of(call, module))


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_functions_of_an_example(notebook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    agree, refused = set(), set()
    for function in functions_of(EXAMPLES / f"{notebook}.ipynb"):
        module, name = function.relay, function.name
        types = [var.checked_type for var in module.functions[name].params]
        try:
            gpu = build(module, name, target="cuda")
        except nnmagic.EngineError:
            refused.add(name)
            continue
        generator = np.random.default_rng(5)
        assert_agree(gpu, build(module, name), [random_value(type_, generator) for type_ in types])
        agree.add(name)
    assert agree
    assert refused == NOTEBOOKS[notebook]
