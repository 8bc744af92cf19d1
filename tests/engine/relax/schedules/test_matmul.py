"""Matrix products against NumPy: layouts, odd and empty sizes, epilogues, dtypes, non-finite values."""

import numpy as np
import pytest

from tests.engine.programs import compile_text
from tests.engine.relax.codegen.targets import OLDER

pytestmark = pytest.mark.sampled(every=6)

TARGETS = {"own": None, "avx2": OLDER}
TOLERANCE = {"float32": 3e-5, "float64": 1e-12}


def tensor(*shape, dtype="float32"):
    dims = ", ".join(map(str, shape))
    return f"Tensor[({dims}{',' if len(shape) == 1 else ''}), {dtype}]"


def random(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def product(a, b, transpose_a, transpose_b):
    return (np.swapaxes(a, -1, -2) if transpose_a else a) @ (np.swapaxes(b, -1, -2) if transpose_b else b)


def shapes(m, k, n, transpose_a, transpose_b):
    return ((k, m) if transpose_a else (m, k)), ((n, k) if transpose_b else (k, n))


def call(transpose_a, transpose_b, name="nn.matmul"):
    units = ", units=None" if name == "nn.matmul" else ""
    return f"{name}(%x, %w, transpose_a={transpose_a}, transpose_b={transpose_b}{units})"


def assert_product(result, expected, depth):
    tolerance = TOLERANCE[str(expected.dtype)]
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(result, expected, rtol=tolerance * 10, atol=tolerance * (depth + 1) ** 0.5)


#: Tiles of one row, dot products, one panel, several, packed ones; no dimension a multiple of a vector.
SIZES = [
    (1, 1, 1),
    (2, 3, 4),
    (1, 50, 33),
    (3, 40, 17),
    (5, 1, 100),
    (7, 5, 3),
    (17, 33, 65),
    (50, 70, 128),
    (100, 530, 300),
]


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_products_of_every_layout(size, dtype, target):
    for transpose_a in (False, True):
        for transpose_b in (False, True):
            left, right = shapes(*size, transpose_a, transpose_b)
            text = (
                f"def @main(%x: {tensor(*left, dtype=dtype)}, %w: {tensor(*right, dtype=dtype)}) "
                f"{{ {call(transpose_a, transpose_b)} }}"
            )
            a, b = random(left, dtype, 1), random(right, dtype, 2)
            result = compile_text(text, target=TARGETS[target])([a, b])
            assert_product(result, product(a, b, transpose_a, transpose_b), size[1])


@pytest.mark.parametrize("size", [(1, 20, 9), (16, 128, 128), (33, 100, 70)])
def test_epilogue(size):
    m, k, n = size
    text = f"""def @main(%x: {tensor(m, k)}, %w: {tensor(n, k)}, %b: {tensor(n)}, %r: {tensor(m, n)}) {{
      nn.relu(add(nn.bias_add(nn.dense(%x, %w, units=None), %b), %r))
    }}"""
    function = compile_text(text)
    x, w, b, r = random((m, k)), random((n, k), seed=1), random(n, seed=2), random((m, n), seed=3)
    assert_product(function([x, w, b, r]), np.maximum(x @ w.T + b + r, 0), k)
    assert function.stage("tir").count("def ") == 1


def test_epilogue_that_reads_the_product_twice():
    text = f"""def @main(%x: {tensor(9, 30)}, %w: {tensor(20, 30)}) {{
      let %y = nn.dense(%x, %w, units=None);
      multiply(%y, sigmoid(%y))
    }}"""
    x, w = random((9, 30)), random((20, 30), seed=1)
    y = x @ w.T
    assert_product(compile_text(text)([x, w]), y / (1 + np.exp(-y)), 30)


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("columns", [1, 5, 40])
@pytest.mark.parametrize("rows", [33, "?"])
def test_epilogue_too_long_for_a_tile(rows, columns):
    text = f"""def @main(%x: {tensor(rows, 30)}, %w: {tensor(columns, 30)}, %b: {tensor(columns)}) {{
      let %y = tanh(nn.dense(%x, %w, units=None));
      let %z = exp(negative(multiply(%y, %y)));
      (add(sigmoid(%z), %b), multiply(%z, %y))
    }}"""
    function = compile_text(text)
    w, b = random((columns, 30), seed=1), random(columns, seed=2)
    for count in (33,) if rows == 33 else (0, 1, 7, 33, 100):
        x = random((count, 30))
        y = np.tanh(x @ w.T)
        z = np.exp(-y * y)
        total, multiple = function([x, w, b])
        assert_product(total, 1 / (1 + np.exp(-z)) + b, 30)
        assert_product(multiple, z * y, 30)


def test_epilogue_of_another_shape():
    text = f"""def @main(%x: {tensor(9, 30)}, %w: {tensor(20, 30)}, %r: {tensor(3, 9, 20)}) {{
      add(nn.dense(%x, %w, units=None), %r)
    }}"""
    x, w, r = random((9, 30)), random((20, 30), seed=1), random((3, 9, 20), seed=2)
    assert_product(compile_text(text)([x, w, r]), x @ w.T + r, 30)


@pytest.mark.full("40")
@pytest.mark.parametrize("columns", [5, 40])
def test_rows_that_only_the_call_knows(columns):
    text = f"""def @main(%x: {tensor("?", 30)}, %w: {tensor(columns, 30)}, %b: {tensor(columns)}) {{
      nn.relu(nn.bias_add(nn.dense(%x, %w, units=None), %b))
    }}"""
    function = compile_text(text)
    w, b = random((columns, 30), seed=1), random(columns, seed=2)
    for rows in (0, 1, 3, 8, 9, 100):
        x = random((rows, 30))
        assert_product(function([x, w, b]), np.maximum(x @ w.T + b, 0), 30)


@pytest.mark.full
def test_sizes_that_only_the_call_knows():
    text = f"def @main(%x: {tensor('?', '?')}, %w: {tensor('?', '?')}) {{ {call(False, True)} }}"
    function = compile_text(text)
    for m, k, n in (
        (0, 3, 4),
        (2, 0, 3),
        (4, 5, 0),
        (1, 1, 1),
        (3, 40, 5),
        (9, 3, 40),
        (40, 40, 40),
        (20, 17, 33),
    ):
        a, b = random((m, k)), random((n, k), seed=1)
        assert_product(function([a, b]), a @ b.T, k)


#: Several blocks of the inner dimension, groups of columns, and of rows; one block of a transposed matrix.
LARGE = [(33, 1100, 40), (40, 1030, 1100), (2100, 1030, 37), (70, 300, 260)]


@pytest.mark.full
@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("layout", [(False, False), (True, False), (True, True)], ids=["nn", "tn", "tt"])
@pytest.mark.parametrize("are_known", [True, False])
def test_large_products(are_known, layout, dtype, target):
    for size in LARGE[-2:] if are_known else LARGE[:1]:
        text = large_product(shapes(*size, *layout) if are_known else (("?", "?"),) * 2, layout, dtype)
        function = compile_text(text, target=TARGETS[target])
        for m, k, n in [size] if are_known else LARGE:
            left, right = shapes(m, k, n, *layout)
            a, b = random(left, dtype, 1), random(right, dtype, 2)
            expected = np.maximum(product(a, b, *layout) * 0.5 - 1, 0)
            assert_product(function([a, b]), expected.astype(dtype), k)


def large_product(sizes, layout, dtype):
    left, right = (tensor(*shape, dtype=dtype) for shape in sizes)
    suffix = dtype.replace("float", "f")
    scaled = f"multiply({call(*layout)}, 0.5{suffix})"
    return f"def @main(%x: {left}, %w: {right}) {{ nn.relu(subtract({scaled}, 1{suffix})) }}"


def test_a_large_product_of_integers_wraps_around_as_numpys():
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-(2**31), 2**31, shape, "int32") for shape in ((1100, 33), (1100, 70)))
    text = f"def @main(%x: {tensor(1100, 33, dtype='int32')}, %w: {tensor(1100, 70, dtype='int32')}) "
    function = compile_text(f"{text} {{ {call(True, False)} }}")
    np.testing.assert_array_equal(function([a, b]), a.T @ b)


@pytest.mark.parametrize("size", [(0, 3, 4), (2, 0, 3), (4, 5, 0), (0, 0, 0)])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_empty(size, transpose_b):
    left, right = shapes(*size, False, transpose_b)
    text = f"def @main(%x: {tensor(*left)}, %w: {tensor(*right)}) {{ {call(False, transpose_b)} }}"
    a, b = random(left), random(right)
    np.testing.assert_array_equal(compile_text(text)([a, b]), product(a, b, False, transpose_b))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 5, 20), (20, 30)),
        ((2, 3, 33, 20), (20, 30)),
        ((3, 5, 20), (3, 20, 30)),
        ((8, 33, 20), (1, 20, 30)),
        ((1, 4, 20), (3, 20, 30)),
    ],
)
def test_batches(left, right):
    name = "nn.batch_matmul" if len(right) == 3 else "nn.matmul"
    text = f"""def @main(%x: {tensor(*left)}, %w: {tensor(*right)}, %b: {tensor(30)}) {{
      nn.relu(nn.bias_add({call(False, False, name)}, %b, axis=-1))
    }}"""
    x, w, b = random(left), random(right, seed=1), random(30, seed=2)
    assert_product(compile_text(text)([x, w, b]), np.maximum(x @ w + b, 0), 20)


@pytest.mark.parametrize("size", [(1, 40, 33), (2, 3, 4), (16, 40, 33), (60, 600, 300)])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_non_finite_values_reach_their_elements_only(size, transpose_b):
    left, right = shapes(*size, False, transpose_b)
    text = f"def @main(%x: {tensor(*left)}, %w: {tensor(*right)}) {{ {call(False, transpose_b)} }}"
    a, b = random(left), random(right, seed=1)
    a[0, 0], a[-1, -1] = np.nan, np.inf
    b[-1, -1], b[0, 0] = -np.inf, 1e-42
    with np.errstate(invalid="ignore"):
        assert_product(compile_text(text)([a, b]), product(a, b, False, transpose_b), size[1])


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_integers(dtype, transpose_b):
    left, right = shapes(19, 37, 35, False, transpose_b)
    text = (
        f"def @main(%x: {tensor(*left, dtype=dtype)}, %w: {tensor(*right, dtype=dtype)}) "
        f"{{ {call(False, transpose_b)} }}"
    )
    generator = np.random.default_rng(0)
    low, high = (0, 255) if dtype == "uint8" else (-100, 100)
    a, b = (generator.integers(low, high, shape).astype(dtype) for shape in (left, right))
    np.testing.assert_array_equal(compile_text(text)([a, b]), product(a, b, False, transpose_b))


@pytest.mark.parametrize("offset", [1, 3])
def test_arrays_of_odd_alignment(offset):
    text = f"def @main(%x: {tensor(20, 70)}, %w: {tensor(70, 50)}) {{ {call(False, False)} }}"
    function = compile_text(text)
    a = random(20 * 70 + offset)[offset:].reshape(20, 70)
    b = random(70 * 50 + offset, seed=1)[offset:].reshape(70, 50)
    assert_product(function([a, b]), a @ b, 70)
