"""Which kernels are fused: sizes that the call computes are parameters of the fused kernel."""

from __future__ import annotations

import numpy as np
import pytest

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


def test_arithmetic_of_slices_of_unknown_sizes_is_one_kernel() -> None:
    """Each operand is repeated, or not, as its sizes of the call say; one kernel reads all of them."""
    source = """
def f(x: Tensor[('n', 'm'), f64], a: i64, b: i64):
    return (x[a:, :b] - x[b:, :a]) * 2.0 + 1.0
"""
    function = nnmagic.compile(source, namespace={"np": np}, cache=False)
    assert "def fused_" in function.stages["tir"]
    x = np.arange(30.0).reshape(5, 6) ** 1.5
    for a, b in ((2, 2), (4, 1), (1, 4)):
        np.testing.assert_array_equal(function(x, a, b), (x[a:, :b] - x[b:, :a]) * 2.0 + 1.0)
    with pytest.raises(ValueError, match="do not broadcast"):
        function(x, 0, 5)


def test_kernels_that_are_given_the_names_of_their_sizes_are_fused() -> None:
    """No array of theirs says what n is: it is a parameter, of all kernels the same."""
    source = """
def f(x: Tensor[('n',), f64]):
    half = np.full(x.shape[0] // 2 + 1, x[0])
    return np.sqrt(np.abs(half * 2.0) + np.exp(half))
"""
    function = nnmagic.compile(source, namespace={"np": np}, cache=False)
    assert function.stages["tir"].count("def ") == 1
    for n in (1, 2, 7):
        half = np.full(n // 2 + 1, 0.5)
        np.testing.assert_allclose(function(np.full(n, 0.5)), np.sqrt(np.abs(half * 2.0) + np.exp(half)))
