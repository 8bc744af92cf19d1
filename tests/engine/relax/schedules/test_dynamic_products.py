"""Matrix products of sizes that only the call knows: NumPy is the judge, arrays lie between guarded pages."""

import itertools
import sys

import numpy as np
import pytest

from nnmagic.engine.relax import build
from tests.child_process import run_python
from tests.engine.programs import compile_text
from tests.engine.relax.codegen.targets import OLDER
from tests.engine.relax.schedules.program_kernels import program_kernels, with_named_sizes
from tests.engine.relax.schedules.test_convolution import with_constant_weight
from tests.suites import sample

TARGETS = {"own": None, "avx2": OLDER}
DTYPES = ("float32", "float64", "int32")

#: Around tiles of both targets: their rows, and vectors, one and two.
ROWS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 25, 33, 47)
COLUMNS = (0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 129, 150)
DEPTHS = (0, 1, 7, 8, 9, 16, 17, 40)

#: name -> (rows, inner size, columns; strings are dynamic; transposed left and right; the sizes to try).
CASES = {
    "rows": (("m", 40, 70), (False, False), itertools.product(ROWS, [40], [70])),
    "rows of few columns": (("m", 40, 5), (False, False), itertools.product(ROWS, [40], [5])),
    "rows, transposed": (("m", 33, 35), (False, True), itertools.product(ROWS, [33], [35])),
    "rows, far": (("m", 530, 300), (False, False), itertools.product((1, 9, 14, 15, 33, 41), [530], [300])),
    "columns": ((7, 20, "n"), (False, False), itertools.product([7], [20], COLUMNS)),
    "columns, transposed": ((3, 20, "n"), (False, True), itertools.product([3], [20], COLUMNS)),
    "one row": ((1, 20, "n"), (False, False), itertools.product([1], [20], COLUMNS)),
    "inner": ((16, "k", 4), (False, False), itertools.product([16], DEPTHS, [4])),
    "inner, transposed": ((20, "k", 33), (True, True), itertools.product([20], DEPTHS, [33])),
    "all": (
        ("m", "k", "n"),
        (False, False),
        [*itertools.product((0, 1, 2, 9, 40), (0, 1, 17), COLUMNS[::2]), (70, 300, 200), (1, 2000, 1100)],
    ),
    "all, transposed": (
        ("m", "k", "n"),
        (False, True),
        [*itertools.product((0, 1, 2, 5, 40), (0, 1, 17), COLUMNS[1::2]), (70, 300, 200), (1, 2000, 1100)],
    ),
}


def numbers(generator, shape, dtype):
    if dtype == "int32":
        return generator.integers(-1000, 1000, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def program(sizes, transposed, dtype):
    """The module of a product with an epilogue of two broadcast operands."""
    m, k, n = ("?" if isinstance(size, str) else size for size in sizes)
    left, right = (k, m) if transposed[0] else (m, k), (n, k) if transposed[1] else (k, n)
    text = f"""def @main(%x: Tensor[({left[0]}, {left[1]}), {dtype}],
                         %w: Tensor[({right[0]}, {right[1]}), {dtype}],
                         %b: Tensor[({n}), {dtype}], %c: Tensor[({m}, 1), {dtype}]) {{
      %0 = nn.matmul(%x, %w, transpose_a={transposed[0]}, transpose_b={transposed[1]}, units=None);
      add(nn.relu(add(%0, %b)), %c)
    }}"""
    m, k, n = sizes
    order = [*((k, m) if transposed[0] else (m, k)), *((n, k) if transposed[1] else (k, n)), n, m]
    return with_named_sizes(text, *(size for size in order if isinstance(size, str)))


def operands(sizes, transposed, dtype):
    m, k, n = sizes
    generator = np.random.default_rng(m + k + n)
    shapes = (k, m) if transposed[0] else (m, k), (n, k) if transposed[1] else (k, n), (n,), (m, 1)
    return [numbers(generator, shape, dtype) for shape in shapes]


def expected(x, w, b, c, transposed, *, epilogue=True):
    wide = "int64" if x.dtype.kind == "i" else "float64"
    left, right = (
        value.astype(wide).T if flip else value.astype(wide)
        for value, flip in zip((x, w), transposed, strict=True)
    )
    product = left @ right
    return (np.maximum(product + b, 0) + c if epilogue else product).astype(x.dtype)


def assert_equal(found, wanted):
    tolerance = {"float32": 2e-4, "float64": 1e-11, "int32": 0}[str(wanted.dtype)]
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def check(name, dtype, target):
    dims, transposed, tried = CASES[name]
    kernels = program_kernels(program(dims, transposed, dtype), TARGETS[target])
    (kernel,) = (each for name, each in kernels.items() if "matmul" in name)
    order = [buffer.name for buffer in kernel.buffers][:-1]
    for sizes in tried:
        sys.stdout.write(f"{name} {sizes}\n")  # what was the last, if it crashes
        sys.stdout.flush()
        values = operands(sizes, transposed, dtype)
        wanted = expected(*values, transposed, epilogue="b" in order)
        given = [dict(zip("xwbc", values, strict=True))[each] for each in order]
        for at_end in (True, False):
            (found,) = kernel(*given, at_end=at_end)
            assert_equal(found, wanted)


@pytest.mark.full
@pytest.mark.parametrize(("target", "dtype"), sample(itertools.product(TARGETS, DTYPES), 2))
def test_sizes_around_those_of_tiles(target, dtype):
    run_python("-m", "tests.engine.relax.schedules.test_dynamic_products", target, dtype, TVM_NUM_THREADS="2")


@pytest.mark.full("75")
@pytest.mark.parametrize("columns", [10, 64, 75])
def test_rows_times_a_constant(columns):
    text = f"""def @main(%x: Tensor[(?, 100), float32], %w: Tensor[(100, {columns}), float32]) {{
      nn.relu(nn.matmul(%x, %w, transpose_a=False, transpose_b=False, units=None))
    }}"""
    generator = np.random.default_rng(0)
    w = numbers(generator, (100, columns), "float32")
    executable = build(with_constant_weight(text, w), "main")
    for rows in (0, 1, 2, 3, 7, 8, 9, 50, 400):
        x = numbers(generator, (rows, 100), "float32")
        wanted = np.maximum(x.astype("f8") @ w, 0)
        np.testing.assert_allclose(executable([x]), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("other", ["?", "1"])
def test_dynamic_batches(other):
    text = f"""def @main(%x: Tensor[(?, 17, 20), float32], %w: Tensor[({other}, 20, 30), float32]) {{
      nn.relu(nn.batch_matmul(%x, %w, transpose_a=False, transpose_b=False))
    }}"""
    executable = compile_text(text)
    generator = np.random.default_rng(0)
    for batch in (0, 1, 2, 7, 9, 40, 300):
        x = numbers(generator, (batch, 17, 20), "float32")
        w = numbers(generator, (batch if other == "?" else 1, 20, 30), "float32")
        np.testing.assert_allclose(executable([x, w]), np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.full
def test_dynamic_rows_and_columns_in_a_batch():
    executable = compile_text("""def @main(%x: Tensor[(3, ?, 20), float32], %w: Tensor[(3, ?, 20), float32]) {
      nn.batch_matmul(%x, %w, transpose_a=False, transpose_b=True)
    }""")
    generator = np.random.default_rng(0)
    for rows, columns in ((0, 3), (3, 0), (1, 1), (7, 5), (33, 40), (1, 70), (100, 17)):
        x, w = (numbers(generator, (3, size, 20), "float32") for size in (rows, columns))
        np.testing.assert_allclose(executable([x, w]), x @ w.swapaxes(1, 2), rtol=1e-4, atol=1e-4)


def test_a_bias_of_one_column_and_a_dynamic_inner_size():
    for rows in (16, 20):
        text = f"""def @main(%a: Tensor[({rows}, ?), float32], %x: Tensor[(?, 4), float32],
                             %c: Tensor[({rows}, 1), float32]) {{
          add(nn.matmul(%a, %x, transpose_a=False, transpose_b=False, units=None), %c)
        }}"""
        executable = compile_text(text)
        generator = np.random.default_rng(0)
        for depth in (0, 1, 5, 33):
            a, x, c = (numbers(generator, s, "float32") for s in ((rows, depth), (depth, 4), (rows, 1)))
            np.testing.assert_allclose(executable([a, x, c]), a @ x + c, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    for case in CASES:
        check(case, sys.argv[2], sys.argv[1])
