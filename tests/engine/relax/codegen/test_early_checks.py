"""Checks of indices and sizes come before what is computed meanwhile, which is one kernel then.

They judge `engine/relax/legalize/kernel_calls`, too.
"""

import re

import numpy as np
import pytest

import nnmagic

_SAMPLE = """
def sample(x: Tensor[("n", "m"), f64], y: Tensor[("k",), f64]):
    i = np.floor(y).astype(np.int64)
    b = y - i
    return (1 - b) * x[i, i] + b * x[i, i + 1]
"""


def _sample(x, y):
    i = np.floor(y).astype(int)
    b = y - i
    return (1 - b) * x[i, i] + b * x[i, i + 1]


@pytest.mark.full
def test_what_reads_at_computed_indices_is_fused_and_checked():
    rng = np.random.default_rng(0)
    f = nnmagic.compile(_SAMPLE, namespace={"np": np})
    x = rng.standard_normal((5, 7))
    for count in (0, 1, 40):
        y = rng.uniform(-5, 4.9, count)
        np.testing.assert_allclose(f(x, y), _sample(x, y), rtol=1e-12)
    for y, bad, size in ((5.5, 5, 5), (-5.5, -6, 5), (np.nan, -(2**63), 5)):
        with pytest.raises(IndexError, match=f"index {bad} is out of range for an axis of size {size}"):
            f(x, np.array([0.5, y]))
    assert len(re.findall(r"def \w*adv_index", f.stages["tir"])) == 1


@pytest.mark.full
def test_slices_with_bounds_of_the_call_are_fused():
    rng = np.random.default_rng(0)
    source = """
def change(x: Tensor[("n", "m"), f64], k: i64):
    return x[k:, k:] - x[:-k, k:] - x[k:, :-k] + x[:-k, :-k]
"""
    f = nnmagic.compile(source)
    x = rng.standard_normal((6, 9))
    for k in (1, 2, 5, 6, 8):
        np.testing.assert_allclose(f(x, k), x[k:, k:] - x[:-k, k:] - x[k:, :-k] + x[:-k, :-k], rtol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_checks_of_indices_share_a_pass_and_name_the_first_bad_one(dtype):
    source = f"""
def around(x: Tensor[("n", "m"), f64], i: Tensor[("k",), {dtype}], j: Tensor[("k",), {dtype}]):
    return x[i, j] + x[i + 1, j] * x[i, j + 1] - x[i + 1, j + 1]
"""
    f = nnmagic.compile(source)
    x, kind = np.arange(20.0).reshape(4, 5), {"i32": np.int32, "i64": np.int64}[dtype]
    for rows, columns in (([], []), ([0, 2, -1, -3], [3, 0, -2, -4]), ([1] * 50, [-5] * 50)):
        i, j = np.array(rows, kind), np.array(columns, kind)
        expected = x[i, j] + x[i + 1, j] * x[i, j + 1] - x[i + 1, j + 1]
        np.testing.assert_array_equal(f(x, i, j), expected)
    for i, j, bad, size in (
        ([0, 4, 9, 0], [0, 9, 0, 0], 9, 4),
        ([0, 0, 2], [0, 9, 5], 9, 5),
        ([3, 0], [0, 4], 4, 4),
        ([0, -5], [0, -9], -5, 4),
        ([0], [4], 5, 5),
    ):
        with pytest.raises(IndexError, match=f"index {bad} is out of range for an axis of size {size}"):
            f(x, np.array(i, kind), np.array(j, kind))
    with pytest.raises(IndexError, match="axis of size 0"):
        f(x[:0], np.array([0], kind), np.array([0], kind))
    assert len(re.findall(r"def \w*check_indices", f.stages["tir"])) <= 5
