"""Each operator on bfloat16 is rounded: ml_dtypes' arrays say to what, bit by bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nnmagic

_DTYPE = np.dtype(ml_dtypes.bfloat16)
_CHANCE = np.random.default_rng(0)
_SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 3.3e38, -3.3e38, 1e-40]
_X = np.array([*_CHANCE.standard_normal(300), *_SPECIAL]).astype(_DTYPE)
_Y = (_CHANCE.standard_normal(_X.size) * 10.0 ** _CHANCE.integers(-3, 4, _X.size)).astype(_DTYPE)
#: Programs as cells and Python have them.
_PROGRAMS = ("(x + y) - y", "x * y / y", "(x * 3 + y) / 7 - x", "where(x > 0, x + y, x - y) * y")


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("text", _PROGRAMS)
def test_chains_of_operators(text: str, opt_level: int) -> None:
    cell = f"def f(x: Tensor[(308,), bf16], y: Tensor[(308,), bf16]):\n    return {text}\n"
    with np.errstate(all="ignore"):
        expected = eval(text, {"x": _X, "y": _Y, "where": np.where})
    found = nnmagic.compile(cell, cache=False, opt_level=opt_level)(_X, _Y)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    assert same.all(), (found[~same], expected[~same])


def test_rows_that_are_summed() -> None:
    cell = "def f(x: Tensor[(6, 50), bf16]):\n    return (x * 1.1).astype(f32).sum(axis=1)\n"
    data = _X[:300].reshape(6, 50)
    expected = (data * _DTYPE.type(1.1)).astype(np.float32).sum(axis=1)
    found = nnmagic.compile(cell, cache=False)(data)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
