"""The mathematical functions against wider formats: all exponents, special values, both instruction sets."""

import math

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from tests.engine.accuracy import assert_within, everywhere
from tests.engine.programs import MACHINES, compile_text

pytestmark = pytest.mark.sampled(every=12)

#: name -> (what is right, the dense range of arguments, the bounds in ulp of float32 and float64).
FUNCTIONS = {
    "exp": (np.exp, (-760, 720), (1.1, 1.5)),
    "expm1": (np.expm1, (-60, 720), (2, 4)),
    "log": (np.log, (0, 4), (1, 1)),
    "log2": (np.log2, (0, 4), (1.8, 1.8)),
    "log10": (np.log10, (0, 4), (2, 2)),
    "tanh": (np.tanh, (-25, 25), (2.5, 3.4)),
    "sigmoid": (
        lambda x: np.where(x < 0, np.exp(-abs(x)), 1) / (1 + np.exp(-abs(x))),
        (-760, 760),
        (2.5, 2.5),
    ),
    "sin": (np.sin, (-100, 100), (2, 2)),
    "cos": (np.cos, (-100, 100), (2, 2)),
    "tan": (np.tan, (-100, 100), (3.5, 3.5)),
    "sinh": (np.sinh, (-100, 720), (3, 3)),
    "cosh": (np.cosh, (-100, 720), (3, 3)),
    "asin": (np.arcsin, (-1, 1), (3, 3)),
    "acos": (np.arccos, (-1, 1), (3, 3)),
    "atan": (np.arctan, (-4, 4), (3, 3)),
    "asinh": (np.arcsinh, (-4, 4), (3, 3)),
    "acosh": (np.arccosh, (1, 4), (3, 3)),
    "atanh": (np.arctanh, (-1, 1), (3, 3)),
    "erf": (np.vectorize(math.erf, otypes=["f8"]), (-7, 7), (2.5, 4)),
    "erfc": (np.vectorize(math.erfc, otypes=["f8"]), (-7, 29), (6, 8)),
}

#: The functions that the C library computes for very large arguments.
CALLING = {"sin", "cos", "tan"}


def program(name, dtype, size):
    """A program that calls the function."""
    operator = {"erfc": "special.erfc", "expm1": "numpy.expm1"}.get(name, name)
    return f"def @main(%x: Tensor[({size}), {dtype}]) {{ {operator}(%x) }}"


def vectors(name, dtype, size, machine):
    """The function compiled for a machine."""
    return compile_text(program(name, dtype, size), target={"kind": "llvm", "mcpu": machine})


@pytest.mark.sampled(every=6)
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


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - CALLING))
def test_no_calls_of_a_library(name, machine):
    code = vectors(name, "float32", 64, machine).stage("asm")
    assert not [line for line in code.splitlines() if "call" in line and f"{name}f" in line]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_avx_512_scales_by_one_instruction(dtype):
    """A factor 2**n alone could overflow, or be 0, where the result is a denormal number."""
    x = np.concatenate([np.linspace(-760, 720, 4001), np.linspace(-104, -87, 999), np.linspace(88, 89, 99)])
    x = np.append(x, [np.inf, -np.inf, np.nan, 1e300 if dtype == "float64" else 1e38]).astype(dtype)
    wide, narrow = (vectors("exp", dtype, x.size, machine) for machine in ("skylake-avx512", "haswell"))
    np.testing.assert_array_equal(wide([x]), narrow([x]))
    assert "vscalef" in wide.stage("asm")
    assert "vscalef" not in narrow.stage("asm")


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"erfc", "expm1"}))
def test_narrow_numbers_are_computed_in_float32(name, dtype):
    text = program(name, dtype, 5)
    if dtype == "bfloat16":
        x = np.array([0.25, 1, 2, 3, np.nan]).astype(ml_dtypes.bfloat16)
    else:
        x = np.array([0.25, 1, 2, 3, np.nan], dtype)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name][0](x.astype("f8")).astype(x.dtype)
    np.testing.assert_array_equal(compile_text(text)([x]).astype("f8"), expected.astype("f8"))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["erfc", "expm1"])
def test_narrow_results_of_differences_keep_their_digits(name, dtype):
    x = np.array([-1, 0.25, 1, 2, 3, np.nan]).astype(ml_dtypes.bfloat16 if dtype == "bf16" else "f2")
    source = f"def f(x: Tensor[(6,), {dtype}]):\n    return {name}(x)\n"
    expected = FUNCTIONS[name][0](x.astype("f8")).astype(x.dtype)
    result = nnmagic.compile(source, namespace={}, cache=False)(x)
    np.testing.assert_array_equal(result.astype("f8"), expected.astype("f8"))


def test_rounding_is_not_simplified_away():
    text = "def @main(%x: Tensor[(67), float32]) { subtract(add(%x, 12582912f), 12582912f) }"
    x = np.linspace(-9, 9, 67).astype("f4")
    np.testing.assert_array_equal(compile_text(text)([x]), np.rint(x))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "first"), [("sin", 0), ("cos", 1), ("tan", 0), ("tan", 1)])
def test_angles_next_to_zeros_and_poles(name, first, dtype, machine):
    with np.errstate(over="ignore"):
        turns = np.concatenate([np.arange(first, 70_000, 2), 2.0 ** np.arange(17, 60) + first])
        x = (turns.astype("longdouble") * np.arctan2(np.longdouble(0), -1) / 2).astype(dtype)
        x = np.concatenate([x, np.nextafter(x, np.inf, dtype=dtype), -x])
    y = vectors(name, dtype, x.size, machine)([x])
    assert_within(y, FUNCTIONS[name][0](x.astype("longdouble")), 3.5)


@pytest.mark.parametrize(
    "body", ["sum(sin(%x), axis=[1])", "sin(add(%x, sin(%x)))", "nn.relu(sin(transpose(%x, axes=[1, 0])))"]
)
@pytest.mark.parametrize("shape", ["(37, 45)", "(?, 45)"])
def test_a_few_large_arguments_in_a_chain(body, shape):
    x = np.linspace(-9, 9, 37 * 45).reshape(37, 45)
    x[::7, ::11] *= 1e9
    function = {
        "sum": lambda x: np.sin(x).sum(1),
        "sin": lambda x: np.sin(x + np.sin(x)),
        "nn.relu": lambda x: np.maximum(np.sin(x.T), 0),
    }[body.split("(")[0]]
    result = compile_text(f"def @main(%x: Tensor[{shape}, float64]) {{ {body} }}")([x])
    np.testing.assert_allclose(result, function(x), rtol=1e-14, atol=1e-14)


def test_a_product_of_matrices_and_a_sine_of_large_arguments():
    x, w = np.linspace(-1, 1, 64 * 32).reshape(64, 32), np.linspace(-1e6, 1e6, 48 * 32).reshape(48, 32)
    kinds = "%x: Tensor[(64, 32), float64], %w: Tensor[(48, 32), float64]"
    result = compile_text(f"def @main({kinds}) {{ sin(nn.dense(%x, %w, units=None)) }}")([x, w])
    product = compile_text(f"def @main({kinds}) {{ nn.dense(%x, %w, units=None) }}")([x, w])
    np.testing.assert_allclose(result, np.sin(product), rtol=1e-14, atol=1e-14)


SPECIAL = [0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1e-40, -1e-40, 1e300, -1e300, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers(dtype, machine):
    with np.errstate(all="ignore"):
        special = np.array(SPECIAL).astype(dtype)
        x, y = (one.ravel() for one in np.meshgrid(special, special))
        base = abs(everywhere(dtype, 0, 4))
        exponent = np.random.default_rng(0).permutation(everywhere(dtype, -1100, 1100))
        near = np.linspace(0.5, 2, base.size, dtype=dtype)
        far = np.linspace(-900, 900, base.size).astype(dtype)
        fits = np.log2(base.astype("longdouble")) / np.finfo(dtype).maxexp  # results of every exponent
        x = np.concatenate([x, base, near, base])
        y = np.concatenate([y, exponent, far, (far / 900 / abs(fits)).astype(dtype)])
        kind = f"Tensor[({x.size}), {dtype}]"
        text = f"def @main(%x: {kind}, %y: {kind}) {{ power(%x, %y) }}"
        result = compile_text(text, target={"kind": "llvm", "mcpu": machine})([x, y])
        expected = np.power(x.astype("longdouble"), y.astype("longdouble"))
    assert_within(result, expected, 1.5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_two(dtype):
    x = everywhere(dtype, -1100, 1100)
    suffix = "f" if dtype == "float32" else "f64"
    text = f"def @main(%x: Tensor[({x.size}), {dtype}]) {{ power(2{suffix}, %x) }}"
    with np.errstate(all="ignore"):
        assert_within(compile_text(text)([x]), np.exp2(x.astype("longdouble")), 2)


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("exponent", [-1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_with_a_constant_exponent(exponent, dtype):
    x = everywhere(dtype, -4, 4)
    suffix = "f" if dtype == "float32" else "f64"
    text = f"def @main(%x: Tensor[({x.size}), {dtype}]) {{ power(%x, {float(exponent)}{suffix}) }}"
    with np.errstate(all="ignore"):
        expected = np.power(x.astype("longdouble"), np.longdouble(exponent))
    assert_within(compile_text(text)([x]), expected, 2)
