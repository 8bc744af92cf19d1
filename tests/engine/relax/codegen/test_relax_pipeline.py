"""Which kernels are fused: sizes that the call computes are parameters of the fused kernel."""

from __future__ import annotations

import re

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


def test_windows_of_named_sizes_are_added_up_by_one_kernel() -> None:
    """Sizes of an array are numbers for kernels beside sizes that no array has."""
    source = """
def f(x: Tensor[('n', 'm'), f64], w: Tensor[('a', 'b'), f64]):
    n, m = x.shape
    a, b = w.shape
    out = np.zeros((n - a + 1, m - b + 1))
    for i in range(a):
        for j in range(b):
            out += w[i, j] * x[i:i + n - a + 1, j:j + m - b + 1]
    return out
"""
    function = nnmagic.compile(source, namespace={"np": np}, cache=False)
    assert "def fused_python_window_multiply" in function.stages["tir"]
    plain = {"np": np}
    exec(re.sub(r": Tensor\[.*?64\]", "", source), plain)
    for (n, m), (a, b) in (((5, 7), (2, 3)), ((4, 4), (4, 4)), ((3, 2), (1, 1)), ((6, 6), (2, 2))):
        x, w = np.arange(float(n * m)).reshape(n, m) ** 0.5, np.arange(float(a * b)).reshape(a, b)
        np.testing.assert_allclose(function(x, w), plain["f"](x, w), rtol=1e-12)
