"""Reductions with vectors and partial results, against NumPy."""

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from tests.engine.programs import compile_text, numpy_dtype
from tests.engine.relax.codegen.targets import OLDER

pytestmark = pytest.mark.sampled(every=12)

TARGETS = [None, OLDER]

#: Shapes and axes that take each way through the schedule: along, across, few columns, chunks, what is left.
SHAPES = [
    ((1,), [0]),
    ((7,), [0]),
    ((33, 1), [1]),
    ((33, 1), [0]),
    ((5, 100), [1]),
    ((100, 5), [0]),
    ((100, 5), [1]),
    ((3, 40001), [1]),
    ((4001, 7), [0]),
    ((513, 1100), [0]),
    ((6, 9, 130), [1]),
    ((6, 9, 13), [0, 2]),
    ((8, 5, 7, 7), [2, 3]),
    ((8, 5, 7, 7), [0, 2, 3]),
    ((200, 200, 3), [0, 1]),
    ((40000,), [0]),
    ((2, 300, 300), [0, 1, 2]),
]

NUMPY = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "any": np.any,
    "all": np.all,
    "argmax": np.argmax,
    "argmin": np.argmin,
}


def text(body, *parameters):
    given = ", ".join(
        f"%{name}: Tensor[({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''}), {dtype}]"
        for name, (shape, dtype) in zip("xyz", parameters, strict=False)
    )
    return f"def @main({given}) {{ {body} }}"


def run(body, *arrays, target=None):
    parameters = [(array.shape, str(array.dtype)) for array in arrays]
    return compile_text(text(body, *parameters), target=target)(list(arrays))


def normal(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(numpy_dtype(dtype))


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize("target", TARGETS, ids=["this", "avx2"])
@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_sums_along_every_kind_of_axis(shape, axes, target):
    x = normal(shape)
    size = np.prod([shape[axis] for axis in axes])
    result = run(f"sum(%x, axis={axes})", x, target=target)
    np.testing.assert_allclose(result, x.astype("f8").sum(tuple(axes)), rtol=1e-5, atol=5e-6 * size**0.5)
    result = run(f"max(%x, axis={axes}, keepdims=True)", x, target=target)
    np.testing.assert_array_equal(result, x.max(tuple(axes), keepdims=True))


@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_variances_along_every_kind_of_axis(shape, axes):
    x = normal(shape) + 100
    result = run(f"variance(%x, mean(%x, axis={axes}, keepdims=True), axis={axes})", x)
    np.testing.assert_allclose(result, x.astype("f8").var(tuple(axes)), rtol=1e-4, atol=1e-6)


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("target", TARGETS, ids=["this", "avx2"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize(("shape", "axes"), [case for case in SHAPES if len(case[1]) == 1], ids=str)
def test_places_along_every_kind_of_axis(shape, axes, name, target):
    x = np.round(normal(shape) * 2)  # with many that are equal
    expected = NUMPY[name](x, axes[0]).astype("i4")
    np.testing.assert_array_equal(run(f"{name}(%x, axis={axes})", x, target=target), expected)
    size = x.shape[axes[0]]
    behind = size - 1 - NUMPY[name](np.flip(x, axes[0]), axes[0])
    result = run(f"{name}(%x, axis={axes}, select_last_index=True)", x, target=target)
    np.testing.assert_array_equal(result, behind.astype("i4"))


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int8", "uint8", "int32", "int64"]
)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "argmax", "argmin"])
def test_dtypes(name, axis, dtype):
    x = np.clip(normal((37, 91), seed=3) * 2, -3, 3)
    x = (abs(x) if dtype == "uint8" else x).astype(numpy_dtype(dtype))
    if name == "prod":
        x = np.where(np.add.outer(np.arange(37), np.arange(91)) % 9, np.ones_like(x), x)
    result = run(f"{name}(%x, axis=[{axis}])", x)
    if name in ("argmax", "argmin"):
        np.testing.assert_array_equal(result, NUMPY[name](x, axis).astype("i4"))
    elif np.dtype(x.dtype).kind in "iu":
        np.testing.assert_array_equal(
            result, NUMPY[name](x, axis, dtype=x.dtype) if name in ("sum", "prod") else NUMPY[name](x, axis)
        )
    else:
        expected = NUMPY[name](x.astype("f8"), axis)
        rtol = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2, "bfloat16": 2e-2}[dtype]
        np.testing.assert_allclose(result.astype("f8"), expected, rtol=rtol, atol=10 * rtol)


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("shape", [(37, 91), (2, 3), (4, 2), (1, 70)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["any", "all", "max", "min", "argmax", "argmin"])
def test_truth_values(name, axis, shape):
    x = np.random.default_rng(1).random(shape) > 0.8
    result = run(f"{name}(%x, axis=[{axis}])", x)
    np.testing.assert_array_equal(result, NUMPY[name](x, axis))


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("target", TARGETS, ids=["this", "avx2"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((70, 150), 1), ((70, 150), 0), ((300, 3), 0), ((5, 7), 1), ((40000,), 0)], ids=str
)
def test_what_is_not_finite(shape, axis, dtype, target):
    x = normal(shape, dtype)
    flat = x.reshape(-1)
    flat[3], flat[shape[-1] // 2], flat[-1] = np.nan, np.inf, -np.inf
    if x.ndim > 1:
        x[-1, :] = -np.inf
        x[-2, :] = np.nan
    else:
        flat[-7] = np.nan
    for name in ("sum", "max", "min"):
        with np.errstate(invalid="ignore"):
            expected = NUMPY[name](x.astype("f8"), axis)
        result = run(f"{name}(%x, axis=[{axis}])", x, target=target)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    for name in ("argmax", "argmin"):
        result = run(f"{name}(%x, axis=[{axis}])", x, target=target)
        np.testing.assert_array_equal(result, NUMPY[name](x, axis).astype("i4"))


def test_denormals_are_numbers():
    x = np.full((3, 100), 1e-41, "f4")
    np.testing.assert_array_equal(run("sum(%x, axis=[0])", x), x.sum(0))
    assert run("max(%x)", x) == np.float32(1e-41)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0,), (2, 0, 3)])
def test_no_elements(shape):
    x = np.zeros(shape, "f4")
    for axis in range(len(shape)):
        np.testing.assert_array_equal(run(f"sum(%x, axis=[{axis}])", x), x.sum(axis))
        np.testing.assert_array_equal(run(f"prod(%x, axis=[{axis}])", x), x.prod(axis))
        expected = np.full_like(x.sum(axis), -1, "i4")
        if shape[axis] == 0:
            np.testing.assert_array_equal(run(f"argmax(%x, axis=[{axis}])", x), expected)


def test_producers_and_consumers_are_part_of_the_kernel():
    x, y = normal((50, 77)), normal((50, 77), seed=1)
    body = "let %d = %x - %y; sqrt(sum(%d * %d, axis=[1])) + 1f"
    expected = np.sqrt(((x.astype("f8") - y) ** 2).sum(1)) + 1
    np.testing.assert_allclose(run(body, x, y), expected, rtol=1e-5)
    body = "sum(transpose(%x, axes=[1, 0]) * 2f, axis=[0])"
    np.testing.assert_allclose(run(body, x), 2 * x.astype("f8").sum(1), rtol=1e-5, atol=1e-4)


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("shape", [(4, 2, 3), (4, 2, 40), (3, 2, 200), (2, 3, 5, 17)])
def test_places_of_what_the_kernel_computes_first(name, shape):
    x, y = normal(shape), normal(shape[1:], seed=1)
    for axis in range(len(shape)):
        result = run(f"{name}(maximum(%x, %y), axis=[{axis}])", x, y)
        np.testing.assert_array_equal(result, getattr(np, name)(np.maximum(x, y), axis))


def test_long_sums_round_no_more_than_those_of_numpy():
    x = np.random.default_rng(0).random(3_000_000).astype("f4")
    exact = x.astype("f8").sum()
    assert abs(run("sum(%x)", x) - exact) <= max(abs(x.sum() - exact), exact * 1e-7)


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_rows_that_only_the_call_knows(rows):
    program = compile_text("def @main(%x: Tensor[(?, 40), float32]) { sum(%x, axis=[1]) }")
    x = normal((rows, 40))
    np.testing.assert_allclose(program([x]), x.astype("f8").sum(1), rtol=1e-5, atol=1e-5)


def test_bfloat16_rows_that_bind_values():
    x = normal((6, 70)).astype(ml_dtypes.bfloat16)
    result = run("sum(exp(%x), axis=[1])", x).astype("f8")
    np.testing.assert_allclose(result, np.exp(x.astype("f8")).sum(1), rtol=2e-2)


@pytest.mark.machine_code
@pytest.mark.parametrize("few", [2, 3, 4, 7])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_few_elements_are_combined_one_by_one(few: int, axis: int) -> None:
    shape = ['"n"', '"m"', "9"]
    shape[axis] = str(few)
    calls = ", ".join(f"x.{name}(axis={axis})" for name in ("sum", "prod", "max", "min", "mean", "std"))
    calls += f", x.sum(axis={axis}, keepdims=True)"
    source = f"def f(x: Tensor[({', '.join(shape)}), f64]):\n    return {calls}\n"
    f = nnmagic.compile(source, cache=False)
    sizes = [20, 11, 9]
    sizes[axis] = few
    x = np.random.default_rng(few).standard_normal(sizes)
    x[1, 1, 1] = np.nan
    wanted = [getattr(x, name)(axis=axis) for name in ("sum", "prod", "max", "min", "mean", "std")]
    for one, other in zip(f(x), [*wanted, x.sum(axis=axis, keepdims=True)], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.machine_code
@pytest.mark.parametrize("columns", [2, 3, 5])
def test_sums_of_narrow_columns_of_several_matrices(columns: int) -> None:
    source = f'def f(x: Tensor[("n", "m", {columns}), f64], w: Tensor[("n", "m"), f64]):\n'
    source += "    return (w[:, :, None] * x).sum(axis=1), x.max(axis=1)\n"
    f = nnmagic.compile(source, cache=False)
    for n, m in ((1, 1), (3, 7), (4, 8), (2, 130)):
        rng = np.random.default_rng(m)
        x, w = rng.standard_normal((n, m, columns)), rng.standard_normal((n, m))
        for one, other in zip(f(x, w), ((w[:, :, None] * x).sum(axis=1), x.max(axis=1)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_largest_of_few_that_are_computed_is_no_expression_of_all_comparisons(name: str) -> None:
    where = "np.where(x > y, x * y, y)"
    source = f'def f(x: Tensor[(8, "n"), f32], y: Tensor[(8, "n"), f32]): return {where}.{name}(0)'
    x, y = np.random.default_rng(0).standard_normal((2, 8, 50), "f4")
    x[3, 4] = np.nan
    expected = getattr(np.where(x > y, x * y, y), name)(0)
    np.testing.assert_array_equal(nnmagic.compile(source, namespace={"np": np})(x, y), expected)


def test_nan_is_neither_less_nor_not_less_inside_of_a_sum() -> None:
    x = np.array([[np.nan, 1, 2], [3, np.nan, np.nan]], "f4")
    either = "logical_or(less(%x, 1f), greater_equal(%x, 1f))"
    executable = compile_text(f"def @main(%x: Tensor[(2, 3), float32]) {{ all({either}, axis=[1]) }}")
    np.testing.assert_array_equal(executable([x]), [False, False])
