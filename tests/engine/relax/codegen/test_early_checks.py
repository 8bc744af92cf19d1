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
