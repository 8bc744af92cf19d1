"""Masks of arrays whose sizes only the call knows."""

import numpy as np
import pytest

import nnmagic
from nnmagic.relay.passes.common_subexpressions import eliminate_common_subexpr

SOURCE = """
def f(x: Tensor[("n",), f64], y: Tensor[("m",), f64], k: i64):
    a, b = x[k:], y[k:]
    inside = a > 0
    return a[inside], b[inside], b[~inside]
"""


def test_arrays_that_one_mask_chooses_from_share_its_positions() -> None:
    f = nnmagic.compile(SOURCE, namespace={"np": np}, engine="numpy", cache=False)
    assert str(eliminate_common_subexpr(f.relay)).count("argwhere") == 2  # of the mask, and of its opposite
    x, y = np.array([1.0, -2, 3, -4]), np.arange(4.0)
    for got, want in zip(f(x, y, 1), ([3.0], [2.0], [1.0, 3.0]), strict=True):
        np.testing.assert_array_equal(got, want)
    with pytest.raises(ValueError, match="cannot become"):
        f(x, y[:3], 1)


def test_masks_with_few_true_elements() -> None:
    f = nnmagic.compile("def f(x: Tensor[('n',), bool_]):\n    return np.flatnonzero(x)", cache=False)
    rng = np.random.default_rng(3)
    for size in (0, 7, 8, 9, 100, 1000):
        for share in (0, 0.004, 0.5, 1):
            x = rng.random(size) < share
            np.testing.assert_array_equal(f(x), np.flatnonzero(x))
