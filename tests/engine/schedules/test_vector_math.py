"""The mathematical functions against wider formats: all exponents, special values, both instruction sets."""

import math

import numpy as np
import pytest
from tvm.target import codegen

from tests.engine.programs import compile_text

#: name -> (what is right, the dense range of arguments, the bounds in ulp of float32 and float64).
FUNCTIONS = {
    "exp": (np.exp, (-760, 720), (1.1, 1.5)),
    "log": (np.log, (0, 4), (1, 1)),
    "log2": (np.log2, (0, 4), (1.8, 1.8)),
    "log10": (np.log10, (0, 4), (2, 2)),
    "tanh": (np.tanh, (-25, 25), (2.5, 3.4)),
    "sigmoid": (
        lambda x: np.where(x < 0, np.exp(-abs(x)), 1) / (1 + np.exp(-abs(x))),
        (-760, 760),
        (2.5, 2.5),
    ),
    "erf": (np.vectorize(math.erf, otypes=["f8"]), (-7, 7), (2.5, 4)),
}

MACHINES = [
    codegen.llvm_get_system_cpu(),
    *(["haswell"] if "x86_64" in codegen.llvm_get_system_triple() else []),
]


def everywhere(dtype, low, high):
    """Arguments of every exponent, dense ones between the limits, and the special ones."""
    integer, top = (np.uint32, 0x7F800000) if dtype == "float32" else (np.uint64, 0x7FF0000000000000)
    count = 1 << 14
    positive = (np.arange(count, dtype=object) * top // count).astype(integer).view(dtype)
    middle = np.linspace(low, high, count).astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, tiny, -tiny, np.finfo(dtype).max], dtype)
    return np.concatenate([positive, -positive, middle, middle / np.finfo(dtype).maxexp, special])


def vectors(name, dtype, size, machine):
    """The function compiled for a machine."""
    text = f"def @main(%x: Tensor[({size}), {dtype}]) {{ {name}(%x) }}"
    return compile_text(text, target={"kind": "llvm", "mcpu": machine})


def assert_within(result, expected, bound):
    """Every value within so many units in the last place; infinities, NaN and signs of zeros right."""
    with np.errstate(all="ignore"):
        nearest = expected.astype(result.dtype)
        unit = np.spacing(abs(nearest)).astype(expected.dtype)
        error = abs(result.astype(expected.dtype) - expected) / unit
    finite = np.isfinite(nearest)
    np.testing.assert_array_equal(result[~finite], nearest[~finite])
    np.testing.assert_array_equal(np.signbit(result[nearest == 0]), np.signbit(nearest[nearest == 0]))
    assert error[finite].max() <= bound


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_all_numbers(name, dtype, machine):
    right, (low, high), bounds = FUNCTIONS[name]
    x = everywhere(dtype, low, high)
    y = vectors(name, dtype, x.size, machine)([x])
    with np.errstate(all="ignore"):
        expected = right(x.astype("f8" if dtype == "float32" else "longdouble"))
    assert_within(y, expected, bounds[dtype == "float64"])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_calls_of_a_library(name, machine):
    code = vectors(name, "float32", 64, machine).stage("asm")
    assert not [line for line in code.splitlines() if "call" in line and f"{name}f" in line]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_narrow_numbers_are_computed_in_float32(name, dtype):
    text = f"def @main(%x: Tensor[(5), {dtype}]) {{ {name}(%x) }}"
    if dtype == "bfloat16":
        import ml_dtypes

        x = np.array([0.25, 1, 2, 3, np.nan]).astype(ml_dtypes.bfloat16)
    else:
        x = np.array([0.25, 1, 2, 3, np.nan], dtype)
    expected = FUNCTIONS[name][0](x.astype("f8")).astype(x.dtype)
    np.testing.assert_array_equal(compile_text(text)([x]).astype("f8"), expected.astype("f8"))


def test_rounding_is_not_simplified_away():
    text = "def @main(%x: Tensor[(67), float32]) { subtract(add(%x, 12582912f), 12582912f) }"
    x = np.linspace(-9, 9, 67).astype("f4")
    np.testing.assert_array_equal(compile_text(text)([x]), np.rint(x))
