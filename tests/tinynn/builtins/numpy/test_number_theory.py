"""`gcd` and `lcm` of arrays against NumPy's: all integer dtypes, small and large values, rests of blocks."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(5)
DTYPES = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


def _numbers(dtype: str, shape: tuple[int, ...], limit: int) -> np.ndarray:
    """Return integers of both signs, the smallest of the dtype and zeros among them."""
    kind = np.dtype(("int" if dtype.startswith("i") else "uint") + dtype[1:])
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    made = RNG.integers(max(least, -limit), min(most, limit), shape, dtype=kind, endpoint=True)
    made.reshape(-1)[:: max(made.size // 9, 1)] = RNG.choice(np.array([least, 0, most], kind))
    return made


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("declared", "shapes"),
    [
        ("(7, 9)", [(7, 9)]),
        ("(33, 41)", [(33, 41)]),
        ('("n", "m")', [(0, 3), (1, 1), (1, 127), (2, 64), (43, 3), (40, 40)]),
    ],
    ids=["few", "several blocks", "named"],
)
def test_divisors_of_arrays(dtype: str, declared: str, shapes: list[tuple[int, int]]) -> None:
    array = f"Tensor[{declared}, {dtype}]"
    source = f"def f(a: {array}, b: {array}):\n    return gcd(a, b), lcm(a, b), gcd(b[:, :1], a), lcm(a, 6)\n"
    f = nnmagic.compile(source)
    for shape in shapes:
        for limit in (3, 100, 2**64):
            a, b = _numbers(dtype, shape, limit), _numbers(dtype, shape, limit)
            with np.errstate(over="ignore"):  # of the least integer, NumPy's absolute value is itself
                six = a.dtype.type(6)
                expected = (np.gcd(a, b), np.lcm(a, b), np.gcd(b[:, :1], a), np.lcm(a, six))
            for found, wanted in zip(f(a, b), expected, strict=True):
                assert found.dtype == wanted.dtype
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.full
def test_divisors_of_each_example() -> None:
    source = """
def f(a: Tensor[("n", "m"), i64], b: Tensor[("n", "m"), i64]):
    each = vmap(lambda r, s: vmap(gcd)(r, s))(a, b)
    return each, vmap(gcd)(a, b), vmap(lambda r: lcm(r, 12))(a), vectorize(gcd)(a, b)
"""
    f = nnmagic.compile(source)
    a, b = _numbers("i64", (5, 300), 1000), _numbers("i64", (5, 300), 1000)
    expected = (np.gcd(a, b), np.gcd(a, b), np.lcm(a, 12), np.gcd(a, b))
    for found, wanted in zip(f(a, b), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.full("gcd")
@pytest.mark.parametrize("name", ["gcd", "divisor"])
def test_divisors_of_what_a_loop_computed(name: str) -> None:
    source = f"""
def f(a: Tensor[("n",), i64]):
    t = a
    while t.sum() > 5:
        t = t // 2
    return {name}(t, a), np.lcm(t, a), np.delete(t, [0, 1])
"""
    f = nnmagic.compile(source, namespace={"np": np, "divisor": np.gcd})
    a = np.array([6, 4, 9, 3])
    halves = np.array([1, 1, 2, 0])
    for found, wanted in zip(f(a), (np.gcd(halves, a), np.lcm(halves, a), halves[2:]), strict=True):
        np.testing.assert_array_equal(found, wanted)
