"""Functions that cells compose of Relay's operators are accurate for numbers of every size."""

import numpy as np
import pytest

import nnmagic
from tests.engine.accuracy import assert_within, everywhere

#: name -> (the dense range of arguments, the bound in ulp).
FUNCTIONS = {"cbrt": ((-9, 9), 1), "expm1": ((-40, 40), 4), "log1p": ((-1, 4), 3), "exp2": ((-1100, 1100), 2)}


@pytest.mark.machine_code
@pytest.mark.optimized
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "options"), [*((name, {}) for name in FUNCTIONS), ("cbrt", {"opt_level": 0})]
)
def test_functions_of_all_numbers(name, options, dtype):
    (low, high), bound = FUNCTIONS[name]
    x = everywhere(dtype, low, high)
    short = dtype.replace("loat", "")
    cell = f"def f(x: Tensor[({x.size},), {short}]):\n    return {name}(x)\n"
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype("f8" if dtype == "float32" else "longdouble"))
    assert_within(nnmagic.compile(cell, **options)(x), expected, bound)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_float16(name):
    x = np.linspace(0.1, 9, 50).astype("f2")
    found = nnmagic.compile(f"def f(x: Tensor[(50,), f16]):\n    return {name}(x)\n")(x)
    np.testing.assert_array_max_ulp(found, getattr(np, name)(x.astype("f4")).astype("f2"), maxulp=1)


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "bound"), [("arctan2", 2.5), ("hypot", 2.5)])
def test_functions_of_two_numbers(name, bound, dtype):
    """Of all exponents and special values in any combination."""
    x = everywhere(dtype, -4, 4)
    y = np.random.default_rng(0).permutation(x)
    short = dtype.replace("loat", "")
    cell = (
        f"def f(x: Tensor[({x.size},), {short}], y: Tensor[({x.size},), {short}]):\n    return {name}(x, y)\n"
    )
    wide = "f8" if dtype == "float32" else "longdouble"
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1, -1, np.finfo(dtype).smallest_subnormal], dtype)
    x[:64], y[:64] = np.repeat(special, 8), np.tile(special, 8)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype(wide), y.astype(wide))
    assert_within(nnmagic.compile(cell)(x, y), expected, bound)
