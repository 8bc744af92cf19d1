"""Assignments to regions of arrays in loops and branches, fused with what computes the values."""

import inspect
import re

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
from tests.suites import sample


def stencils_that_take_turns(x, y, n):
    for _ in range(n):
        y[1:-1] = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
        x[1:-1] = 0.25 * y[:-2] + 0.5 * y[1:-1] + 0.25 * y[2:]
    return x, y


def a_stencil_over_itself(x, y, n):
    for _ in range(n):
        x[1:-1] = 0.5 * (x[:-2] + x[2:])
    return x, y


def a_region_and_its_own_elements(x, y, n):
    for i in range(n):
        x[1:] = x[1:] * 0.5 + i
        x[:2] += y[:2]
    return x, y


def the_old_array_is_read_later(x, y, n):
    for _ in range(n):
        z = x * 1.0
        x[2:] = y[2:] * 2.0 - 1.0
        y[:-1] = z[1:] + x[:-1]
    return x, y


def ends(x, y, n):
    for i in range(n):
        x[:1] = 3.0 + i
        x[-1:] = y[:1]
        y[1:2] = x[-1:] * 2.0
    return x, y


def in_branches(x, y, n):
    for i in range(n):
        if i % 2 == 0:
            x[1:-1] = y[2:] * y[:-2]
        else:
            y[1:-1] = x[2:] - x[:-2]
            x[:3] = -1.0
    return x, y


def what_follows_is_a_sum(x, y, n):
    total = 0.0
    for i in range(n):
        x[3:] = y[3:] * i + 1.0
        total += x.sum()
        x[:-3] *= 0.5
    return x, y, total


def the_whole_array(x, y, n):
    for i in range(n):
        x[:] = y * 2.0 + i
        y[:] = x[::-1]
    return x, y


def steps(x, y, n):
    for i in range(n):
        x[::2] = y[::2] + i
        y[1::3] = x[1::3] * 2.0
    return x, y


def borders(x, y, n):
    for i in range(n):
        y[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) + i
        y[0, :] = 1.0
        y[:, -1] = y[:, -2]
        y[-1, :] = x[0, :]
        x[:, 1:] = y[:, :-1] * 2.0
    return x, y


def rows_of_all(x, y, n):
    for i in range(n):
        x[1:, :] = y[:-1, :] + i
        y[:, :2] = x[:, :2].sum(axis=0) - 1.0
    return x, y


VECTORS = [
    stencils_that_take_turns,
    a_stencil_over_itself,
    a_region_and_its_own_elements,
    the_old_array_is_read_later,
    ends,
    in_branches,
    what_follows_is_a_sum,
    the_whole_array,
    steps,
]
MATRICES = [borders, rows_of_all]


def compiled(program, types):
    head, body = inspect.getsource(program).split("\n", 1)
    assert head.endswith("(x, y, n):")
    text = f"def {program.__name__}(x: InOut[{types}], y: InOut[{types}], n: i64):\n{body}"
    return nnmagic.compile(text, cache=False)


def check(program, function, shape, rounds, dtype="float64"):
    rng = np.random.default_rng(sum(shape))
    arrays = [rng.normal(size=shape).astype(dtype) for _ in range(2)]
    expected = [array.copy() for array in arrays]
    try:
        wanted = program(*expected, rounds)
    except (ValueError, IndexError) as error:
        with pytest.raises(type(error)):
            function(*arrays, rounds)
        return
    found = function(*arrays, rounds)
    for given, right in zip([*arrays, *found], [*expected, *wanted], strict=True):
        np.testing.assert_allclose(given, right, rtol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.machine_code
@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("program", VECTORS, ids=lambda program: program.__name__)
def test_vectors_of_named_sizes(program, dtype):
    function = compiled(program, f'Tensor[("k",), {dtype}]')
    assert isinstance(function.build(), AotExecutable)
    for size in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 34, 35, 40, 65, 100, 130]:
        check(program, function, (size,), size % 4, {"f32": "float32", "f64": "float64"}[dtype])


@pytest.mark.full("what_follows_is_a_sum")
@pytest.mark.parametrize("program", VECTORS, ids=lambda program: program.__name__)
def test_vectors_of_known_sizes(program):
    for size in sample([5, 8, 19, 36, 100], 2):
        check(program, compiled(program, f"Tensor[({size},), f64]"), (size,), 3)


@pytest.mark.machine_code
@pytest.mark.full("borders")
@pytest.mark.parametrize("program", MATRICES, ids=lambda program: program.__name__)
def test_matrices(program):
    function = compiled(program, 'Tensor[("k", "m"), f64]')
    assert isinstance(function.build(), AotExecutable)
    for rows in (0, 1, 2, 3, 5, 9):
        for columns in (0, 1, 2, 3, 8, 18, 35):
            check(program, function, (rows, columns), 3)
    check(program, compiled(program, "Tensor[(5, 18), f64]"), (5, 18), 3)


def kernels_of(function):
    symbols = re.findall(r"^nnmagic_kernel_(\w+):", function.stages["asm"], re.MULTILINE)
    return {*symbols} - {"ask_to_stop"}


@pytest.mark.machine_code
def test_a_stencil_is_one_kernel():
    function = compiled(stencils_that_take_turns, 'Tensor[("k",), f64]')
    (kernel,) = kernels_of(function)  # of both assignments
    assert "in_place" in kernel


@pytest.mark.machine_code
def test_what_a_loop_computes_is_fused():
    text = """
def f(a: Tensor[("n",), f32], b: Tensor[("n",), f32], k: i64):
    for i in range(k):
        b = 0.5 * (a * b) + tanh(b - 1.0)
    return b
"""
    function = nnmagic.compile(text, cache=False)
    assert len(kernels_of(function)) == 1
    a, b = np.random.default_rng(0).normal(size=(2, 40)).astype("float32")
    expected = b
    for _ in range(3):
        expected = 0.5 * (a * expected) + np.tanh(expected - 1)
    np.testing.assert_allclose(function(a, b, 3), expected, rtol=1e-5, atol=1e-6)
