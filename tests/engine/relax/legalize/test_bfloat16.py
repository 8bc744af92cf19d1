"""Tensors of bfloat16 hold, bit by bit, what ml_dtypes' arrays hold: one element spread over many, too."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from nnmagic.relay.types import NUMPY_DTYPES

pytestmark = pytest.mark.sampled(every=3)

_B = np.dtype(ml_dtypes.bfloat16)
_X = np.random.default_rng(0).standard_normal((4, 70)).astype(_B)
_S, _M = np.array(2.5, _B), np.random.default_rng(1).random((4, 70)) > 0.5
_THREE = np.full((4, 70), 3, _B)

_CASES = {
    "full_like(x, 3.0)": _THREE,
    "ones((4, 70), bf16)": np.ones((4, 70), _B),
    "broadcast_to(s, (4, 70))": np.broadcast_to(_S, (4, 70)),
    "broadcast_to(x[:, :1], (4, 70))": np.broadcast_to(_X[:, :1], (4, 70)),
    "broadcast_to(x.max(axis=1, keepdims=True), (4, 70))": np.broadcast_to(
        _X.max(axis=1, keepdims=True), (4, 70)
    ),
    "repeat(x, 3, axis=1)": np.repeat(_X, 3, axis=1),
    "pad(x, 3, constant_values=2.0)": np.pad(_X, 3, constant_values=_B.type(2)),
    "where(m, s, x)": np.where(_M, _S, _X),
    "where(m, s, full_like(x, 3.0))": np.where(_M, _S, _THREE),
    "where(s > 0, s, x[:, :1]) * m.astype(bf16)": np.broadcast_to(_S, (4, 1)) * _M.astype(_B),
    "maximum(x, 0.5)": np.maximum(_X, _B.type(0.5)),
    "concatenate([x, full((4, 64), 3.0, bf16)], axis=1)": np.concatenate([_X, _THREE[:, :64]], axis=1),
    "x * full_like(x, 3.0)": _X * _THREE,
    "full_like(x, 3.0).astype(f32)": _THREE.astype(np.float32),
}


@pytest.mark.parametrize("text", _CASES)
def test_they_hold_what_numpys_hold(text: str) -> None:
    assert NUMPY_DTYPES["bfloat16"] == _B
    cell = f"def f(x: Tensor[(4, 70), bf16], s: bf16, m: Tensor[(4, 70), bool_]):\n    return {text}\n"
    result = nnmagic.compile(cell, cache=False)(_X, _S, _M)
    assert (result.dtype, result.shape) == (_CASES[text].dtype, _CASES[text].shape)
    assert result.tobytes() == np.ascontiguousarray(_CASES[text]).tobytes()


def test_what_is_spread_keeps_its_bits() -> None:
    bits = np.array([0x7F81, 0xFFC1, 0x8000, 0x0001, 0x7F80], np.uint16).view(_B)  # NaNs with a payload, ends
    cell = "def f(x: Tensor[(5, 1), bf16]):\n    return broadcast_to(x, (5, 64))\n"
    result = nnmagic.compile(cell, cache=False)(bits.reshape(5, 1))
    assert result.tobytes() == np.repeat(bits, 64).tobytes()


def test_a_remainder_beside_a_result_of_unknown_size() -> None:
    source = "def f(x: Tensor[(4,), bf16]):\n    return mod(-1, x), flatnonzero(x)\n"
    x = np.array([3, -1, 0.5, 0.25], ml_dtypes.bfloat16)
    result, _ = nnmagic.compile(source, namespace={}, cache=False)(x)
    np.testing.assert_array_equal(result.astype(np.float32), np.mod(np.float32(-1), x.astype(np.float32)))


def test_scalars_beside_a_named_size() -> None:
    source = """
def f(a: bf16, b: bf16, x: Tensor[(2, "n"), i8]):
    return a > b, a <= b, maximum(a, b), where(a < b, a, b), (a + b).astype(i32), argmin(a), x.atan2(x)
"""
    compiled = nnmagic.compile(source, namespace={}, cache=False)
    for a, b in [(1, -2), (-1.5, -2), (3, 2.5), (-0.5, 4)]:
        *results, _ = compiled(ml_dtypes.bfloat16(a), ml_dtypes.bfloat16(b), np.ones((2, 3), np.int8))
        expected = [a > b, a <= b, max(a, b), min(a, b), int(a + b), 0]
        assert [float(result) for result in results] == expected


def test_a_loop_that_exchanges_scalars() -> None:
    source = """
def f(a: bf16, b: bf16, n: i32):
    i = 0
    while i < n:
        a, b = b, a - b
        if b > a:
            b = b - 1
        i = i + 1
    return a, b
"""
    a, b = 3.0, 0.5
    for _ in range(4):
        a, b = b, a - b
        b -= b > a
    results = nnmagic.compile(source, namespace={}, cache=False)(
        ml_dtypes.bfloat16(3), ml_dtypes.bfloat16(0.5), 4
    )
    assert [float(result) for result in results] == [a, b]


def test_one_element_spread_beside_a_result_of_unknown_size() -> None:
    source = "def f(x: Tensor[(1,), bf16]):\n    return unique(x), x[x != 0], broadcast_to(x, (70,))\n"
    x = np.array([1.5], ml_dtypes.bfloat16)
    for result, count in zip(nnmagic.compile(source, namespace={}, cache=False)(x), (1, 1, 70), strict=True):
        np.testing.assert_array_equal(result, np.repeat(x, count))


@pytest.mark.parametrize("size", ["300", '"n"'])
def test_the_bits_of_elements_that_are_computed_in_the_same_loop(size: str) -> None:
    source = (
        f"def f(x: Tensor[({size},), bf16], s: bf16):\n"
        "    return signbit(broadcast_to(s, x.shape)), copysign(s, x + s), isnan(s + x)\n"
    )
    x = np.linspace(-3, 3, 300).astype(_B)
    x[:3] = [np.nan, -0.0, np.inf]
    s = _B.type(-1.5)
    expected = [np.full(300, True), np.copysign(s, x + s), np.isnan(s + x)]
    results = nnmagic.compile(source, namespace={}, cache=False)(x, s)
    for result, numpys in zip(results, expected, strict=True):
        bits = f"u{numpys.itemsize}"
        np.testing.assert_array_equal(result.view(bits), numpys.view(bits))
