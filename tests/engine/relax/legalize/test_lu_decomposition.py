"""LU decompositions: SciPy's LAPACK is the judge."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

MODULE = """#[version = "0.0.5"]
def @main(%a: Tensor[(2, 4, 3), float64], %p: Tensor[(3), int32]) {
  (linalg.lu(%a), linalg.permutation(%p, rows=4))
}
"""


@pytest.mark.parametrize("engine", ["relax", "numpy"])
def test_factors_pivots_and_the_order_of_rows(engine: str) -> None:
    scipy_linalg = pytest.importorskip("scipy.linalg")
    f = nnmagic.compile(nnmagic.relay.parse(MODULE), cache=False, engine=engine)
    a = np.random.default_rng(0).standard_normal((2, 4, 3))
    (factors, pivots), order = f(a, np.array([3, 2, 9], "int32"))  # no row has the number 9
    for matrix, own, swaps in zip(a, factors, pivots, strict=True):
        expected, rows = scipy_linalg.lu_factor(matrix)
        np.testing.assert_allclose(own, expected, rtol=1e-12)
        assert swaps.tolist() == (rows + 1).tolist()
    assert order.tolist() == [2, 1, 0, 3]
