"""Which kernels are fused: sizes that the call computes are parameters of the fused kernel."""

from __future__ import annotations

import numpy as np

import nnmagic


def test_kernels_of_parts_whose_sizes_the_call_computes() -> None:
    """A size is a number for one kernel of a group, and that of an array between two others."""
    source = """
def f(x: Tensor[('n', 'm'), f64], k: i64, width: i64):
    return np.sum((x[:k, :width] + 1.0)[:1] * 2.0)
"""
    function = nnmagic.compile(source, namespace={"np": np}, cache=False)
    x = np.arange(12.0).reshape(4, 3)
    for k, width in ((2, 2), (0, 1), (9, 9)):
        assert function(x, k, width) == np.sum((x[:k, :width] + 1.0)[:1] * 2.0)
