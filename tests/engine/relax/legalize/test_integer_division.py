"""Floored division of int64 by constants, which the engine turns into products, against NumPy."""

import numpy as np
import pytest

import nnmagic

pytestmark = pytest.mark.sampled(every=3)

LIMITS = np.iinfo("int64")


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    "divisor", [2, 3, 7, 10, 641, 2**20, 2**31 - 1, 2**32 + 1, 2**61 + 1, 2**62, 2**63 - 1, 1, -1, -3]
)
def test_by_a_constant(divisor):
    rng = np.random.default_rng(0)
    near = np.arange(-3, 4)
    multiples = near * min(abs(divisor), 2**61)
    x = np.concatenate(
        [
            [LIMITS.min, LIMITS.min + 1, LIMITS.max - 1, LIMITS.max],
            near,
            multiples,
            multiples - 1,
            rng.integers(LIMITS.min, LIMITS.max, 500),
        ]
    )
    divide = nnmagic.compile(
        f"def f(x: Tensor[('n',), i64]):\n"
        f"    return x // {divisor}, x % {divisor}, (x * {divisor}) // {divisor}",
        cache=False,
    )
    quotient, rest, of_product = divide(x)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(quotient, x // divisor)
        np.testing.assert_array_equal(rest, x % divisor)
        np.testing.assert_array_equal(of_product, (x * np.int64(divisor)) // divisor)


@pytest.mark.parametrize("size", ["6", "'n'"])
@pytest.mark.parametrize("text", ["(x + x) // 10", "(x * 3) % 7", "(x + x + x) // 3", "(x * 8 - 1) % 4"])
def test_of_a_sum_that_overflows(text, size):
    """LLVM takes the sign of x for that of x + x if it sees both."""
    x = np.array([2**62 + 5, -(2**62) - 7, 2**62, 3, -3, LIMITS.min])
    compiled = nnmagic.compile(f"def f(x: Tensor[({size},), i64]):\n    return {text}\n", cache=False)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(compiled(x), eval(text, {"x": x}))
