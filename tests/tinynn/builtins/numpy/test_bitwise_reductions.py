"""Reductions and running values of the bitwise and logical functions: NumPy is the judge."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

pytestmark = pytest.mark.sampled(every=6)

NAMES = [f"{kind}_{name}" for kind in ("bitwise", "logical") for name in ("and", "or", "xor")]
BODY = (
    "np.{0}.reduce(x), np.{0}.reduce(x, axis=1, keepdims=True), np.{0}.reduce(x, axis=None),"
    " np.{0}.accumulate(x), np.{0}.accumulate(x, axis=-1)"
)


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", ["u8", "i64", "bool_", "i16"])
@pytest.mark.parametrize("name", NAMES)
def test_bits_and_truth_values(name: str, dtype: str) -> None:
    body = BODY.format(name)
    source = f'def f(x: Tensor[("n", "m"), {dtype}]):\n    return {body}\n'
    function = nnmagic.compile(source, namespace={"np": np})
    numpys = {"u8": "u1", "i64": "i8", "bool_": "?", "i16": "i2"}[dtype]
    for shape in ((3, 5), (1, 40), (0, 4), (4, 0)):
        x = np.random.default_rng(1).integers(-100, 100, shape).astype(numpys)
        for got, want in zip(function(x), eval(body, {"np": np}, {"x": x}), strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_array_equal(got, want)


def test_each_row_of_a_batch() -> None:
    source = (
        "def f(x: Tensor[(4, 6), i64]):\n"
        "    xors = vmap(lambda row: np.bitwise_xor.reduce(row))(x)\n"
        "    return xors, vmap(lambda row: np.bitwise_or.accumulate(row))(x)\n"
    )
    x = np.random.default_rng(1).integers(0, 1000, (4, 6))
    got = nnmagic.compile(source, namespace={"np": np})(x)
    np.testing.assert_array_equal(got[0], np.bitwise_xor.reduce(x, axis=1))
    np.testing.assert_array_equal(got[1], np.bitwise_or.accumulate(x, axis=1))


def test_floats_have_no_bits() -> None:
    with pytest.raises(nnmagic.TinyNNError, match="bitwise_xor is defined for integers and bools, not f64"):
        nnmagic.compile(
            "def f(x: Tensor[(3,), f64]):\n    return np.bitwise_xor.reduce(x)", namespace={"np": np}
        )
