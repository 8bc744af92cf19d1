"""``packbits`` and ``unpackbits``: NumPy is the judge."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

BODIES = [
    *(f"np.packbits(x{more})" for more in ("", ", axis=0", ", axis=-1", ", 1, 'little'")),
    *(f"np.unpackbits(x{more})" for more in ("", ", axis=0", ", axis=1", ", bitorder='little'")),
]


@pytest.mark.machine_code
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("size", ['"n", "m"', "3, 21"])
@pytest.mark.parametrize("body", BODIES)
def test_bits_of_bytes(body: str, size: str) -> None:
    source = f"def f(x: Tensor[({size}), u8]):\n    return {body}\n"
    function = nnmagic.compile(source, namespace={"np": np})
    for shape in ((3, 21), (1, 8), (9, 1), (2, 0), (0, 3)):
        if size.startswith("3") and shape != (3, 21):
            continue
        x = (np.random.default_rng(1).integers(-200, 255, shape).clip(0)).astype("u1")
        got, want = function(x), eval(body, {"np": np}, {"x": x})
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["bool_", "i64", "i8"])
def test_truth_values_are_packed(dtype: str) -> None:
    source = f'def f(x: Tensor[("n",), {dtype}]):\n    return np.packbits(x), np.unpackbits(np.packbits(x))\n'
    function = nnmagic.compile(source, namespace={"np": np})
    for n in (0, 1, 8, 13):
        x = np.random.default_rng(n).integers(-1, 2, n).astype({"bool_": "?", "i64": "i8", "i8": "i1"}[dtype])
        packed = np.packbits(x)
        for got, want in zip(function(x), (packed, np.unpackbits(packed)), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("packbits(x)", "packbits takes integers or bools, not f64"),
        ("unpackbits(x)", "unpackbits takes bytes"),
    ],
)
def test_other_dtypes_are_refused(call: str, message: str) -> None:
    with pytest.raises(nnmagic.TinyNNError, match=message):
        nnmagic.compile(f"def f(x: Tensor[(3,), f64]):\n    return np.{call}", namespace={"np": np})
