"""Expressions that TVM would simplify as if numbers were real, against NumPy: infinities, NaN, roundings."""

import numpy as np
import pytest

import nnmagic

pytestmark = pytest.mark.sampled(every=6)

X = np.array([[1, np.nan, 2, np.inf, -0.0, 0.0, -np.inf, 3e8]] * 3, "f4")
Y = np.array([[2, 1, np.nan, np.inf, 0.0, -0.0, np.inf, 3]] * 3, "f4")

CONDITIONS = """
    x == x; x != x; x <= x; (x < y) & (y <= x); (x <= y) | (y < x); (x == y) | (x != y); ~(x == y);
    ~(x < y); (x < y) ^ (x >= y); (x > y) | ~(x > y); ~((x < y) | (x > y)); (x < 1.0) | (x >= 1.0);
    x + 1.0 > x; x - x == 0.0; (x + y) - y == x
"""
NUMBERS = """
    x - x; x * 0.0; 0.0 * x; 0.0 - x; x + 0.0; x - 0.0; x / x; (x + y) - y; (x - y) + y; y - (x + y);
    x * y - x * y; (x + 1.0) - x; maximum(x, y) - x; where(x == x, x, 0.0); -(x - y); x - 0.5 * x
"""
TYPES = {"known": "(3, 8)", "open": "('n', 'm')"}


def check(types, sources):
    text = f"def f(x: Tensor[{types}, f32], y: Tensor[{types}, f32]):\n    return {', '.join(sources)}"
    result = nnmagic.compile(text, cache=False)(X, Y)
    with np.errstate(all="ignore"):
        wanted = [eval(source, {**vars(np), "x": X, "y": Y}) for source in sources]
    for source, one, other in zip(sources, result, wanted, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=source)
        if other.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(one)[other == 0], np.signbit(other)[other == 0], source)


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("types", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("condition", [each.strip() for each in CONDITIONS.split(";")])
def test_conditions(condition, types):
    wraps = ("{}", "where({}, 1.0, 2.0).sum(axis=1)", "({}).all(axis=1)", "({}).any(axis=0)")
    check(types, [wrap.format(condition) for wrap in wraps])


@pytest.mark.parametrize("types", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("numbers", [each.strip() for each in NUMBERS.split(";")])
def test_numbers(numbers, types):
    check(types, [wrap.format(numbers) for wrap in ("{}", "({})[:2].sum(axis=0)", "({}).max(axis=1)")])
