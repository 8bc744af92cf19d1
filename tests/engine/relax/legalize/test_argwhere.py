"""Indices of nonzero elements: of every length and density, from constant and named sizes."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

pytestmark = pytest.mark.sampled(every=3)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("density", [0.0, 0.02, 0.5, 0.98, 1.0])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 17, 1003])
def test_indices_of_truth_values(size: int, density: float) -> None:
    values = np.random.default_rng(size).random(size) < density
    for dim in (size, '"n"'):
        compute = nnmagic.compile(
            f"def f(x: Tensor[({dim},), bool_]):\n    return flatnonzero(x), argwhere(x), x[x]\n"
        )
        flat, indices, chosen = compute(values)
        np.testing.assert_array_equal(flat, np.flatnonzero(values))
        np.testing.assert_array_equal(indices, np.argwhere(values))
        np.testing.assert_array_equal(chosen, values[values])


def test_indices_of_no_elements() -> None:
    compute = nnmagic.compile('def f(x: Tensor[("n",), bool_]):\n    return flatnonzero(x)\n')
    assert compute(np.zeros(0, bool)).shape == (0,)


def test_indices_of_several_axes() -> None:
    values = np.random.default_rng(0).integers(-1, 2, (3, 5, 7))
    compute = nnmagic.compile("def f(x: Tensor[(3, 5, 7), i64]):\n    return argwhere(x), nonzero(x)[2]\n")
    indices, last = compute(values)
    np.testing.assert_array_equal(indices, np.argwhere(values))
    np.testing.assert_array_equal(last, np.nonzero(values)[2])
