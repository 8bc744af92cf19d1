"""Division, floored division and rests of floating-point numbers are NumPy's for every pair of numbers."""

import numpy as np
import pytest

import nnmagic
from tests.engine.programs import MACHINES, compile_text

pytestmark = pytest.mark.sampled(every=3)

NUMBERS = [0, -0.0, 1, -1, 3, -3, 7, -7, 1e8, 1e10, 0.1, 0.7, -0.7, 2.5, np.inf, -np.inf, np.nan, 1e-30]
CALLS = {
    "divide": np.divide,
    "floor_divide": np.floor_divide,
    "floor_mod": np.mod,
    "trunc_mod": np.fmod,
    "mod": np.fmod,
    "trunc_divide": lambda a, b: np.trunc(a / b),
}


#: Those whose zeros have NumPy's sign.
SIGNED = ("floor_divide", "floor_mod")


def same_signs(one, other):
    known = ~np.isnan(other)
    np.testing.assert_array_equal(np.signbit(one)[known], np.signbit(other)[known])


def body(left, right):
    return f"({', '.join(f'{name}({left}, {right})' for name in CALLS)})"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_two_tensors(dtype):
    with np.errstate(all="ignore"):
        numbers = np.array(NUMBERS).astype(dtype)
        x, y = (np.ascontiguousarray(one.ravel()) for one in np.meshgrid(numbers, numbers))
        kind = f"Tensor[({x.size}), {dtype}]"
        actual = compile_text(f"def @main(%x: {kind}, %y: {kind}) {{ {body('%x', '%y')} }}")([x, y])
        for (name, function), result in zip(CALLS.items(), actual, strict=True):
            if name == "trunc_divide" and dtype == "float16":  # NumPy rounds the quotient to float16 first
                continue
            np.testing.assert_array_equal(result, function(x, y), err_msg=name)
            if name in SIGNED:
                same_signs(result, function(x, y))


@pytest.mark.full
@pytest.mark.parametrize("constant", ["0", "-0", "3", "-0.3"])
def test_a_constant_and_a_tensor(constant):
    x, number = np.array(NUMBERS, "f4"), np.float32(constant)
    kind = f"Tensor[({x.size}), float32]"
    result = compile_text(f"def @main(%x: {kind}, %c: float32) {{ {body('%x', '%c')} }}")([x, number])
    literal = f"{constant}f"
    text = f"def @main(%x: {kind}) {{ ({body('%x', literal)}, {body(literal, '%x')}) }}"
    right, left = compile_text(text)([x])
    with np.errstate(all="ignore"):
        for index, (name, function) in enumerate(CALLS.items()):
            expected = function(x, number)
            np.testing.assert_array_equal(result[index], expected, err_msg=name)
            np.testing.assert_array_equal(right[index], expected, err_msg=name)
            np.testing.assert_array_equal(left[index], function(number, x), err_msg=name)
            if name in SIGNED:
                same_signs(result[index], expected)
                same_signs(right[index], expected)
                same_signs(left[index], function(number, x))


@pytest.mark.parametrize("constant", [1.0, -1.0, 0.5, -2.0, np.inf, -np.inf])
def test_floored_quotients_in_a_chain(constant):
    """Fused with what is around them, and by numbers that could be simplified away."""
    x = np.array(NUMBERS, "f4")
    kind = f"Tensor[({x.size}), float32]"
    number = f"divide({np.sign(constant)}f, 0f)" if np.isinf(constant) else f"{constant}f"
    text = f"def @main(%x: {kind}) {{ negative(floor_divide(negative(%x), {number})) }}"
    with np.errstate(all="ignore"):
        expected = -np.floor_divide(-x, np.float32(constant))
    result = compile_text(text)([x])
    np.testing.assert_array_equal(result, expected)
    same_signs(result, expected)


def test_a_rest_that_is_used_often():
    kind = "Tensor[(18), float64]"
    body = "let %m = floor_mod(%x, 0.7f64); add(multiply(%m, %m), floor_mod(%m, %m))"
    text = f"def @main(%x: {kind}) {{ {body} }}"
    x = np.array(NUMBERS)
    with np.errstate(all="ignore"):
        rest = np.mod(x, 0.7)
        np.testing.assert_array_equal(compile_text(text)([x]), rest * rest + np.mod(rest, rest))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_of_all_sizes(dtype, machine):
    """Quotients of every exponent, those next to integers, and those of numbers without all their digits."""
    random = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        divisor = random.uniform(-1, 1, 1 << 14).astype(dtype)
        quotient = np.exp2(random.uniform(-2, 60, divisor.size)).astype(dtype)
        product = np.rint(quotient) * divisor
        tiny = np.finfo(dtype).smallest_normal
        all_sizes = np.exp2(random.uniform(-140, 120, divisor.size)).astype(dtype)
        x = [
            quotient * divisor,
            product,
            np.nextafter(product, divisor),
            quotient * divisor * tiny,
            all_sizes,
        ]
        y = [divisor, divisor, divisor, divisor * tiny, random.permutation(all_sizes)]
        x, y = map(np.concatenate, (x, y))
        kind = f"Tensor[({x.size}), {dtype}]"
        text = f"def @main(%x: {kind}, %y: {kind}) {{ {body('%x', '%y')} }}"
        results = compile_text(text, target={"kind": "llvm", "mcpu": machine})([x, y])
        for (name, function), result in zip(CALLS.items(), results, strict=True):
            np.testing.assert_array_equal(result, function(x, y), err_msg=name)
            if name in SIGNED:
                same_signs(result, function(x, y))


@pytest.mark.sampled(every=3)
@pytest.mark.full("x.var()-0.0")
@pytest.mark.parametrize("number", [0.0, -0.0, np.nan, np.inf, 2.0])
@pytest.mark.parametrize("beside", ["x.var()", "x + 1.0"])
def test_a_literal_zero_beside_numbers_in_registers(beside, number):
    """TVM takes 0 / v and 0 * v for 0; beside a variance, v is in a register."""
    text = "0.0 / v, 0.0 * v, v * 0.0, 0.0 + v, v + 0.0, -0.0 + v, 0.0 - v, v - 0.0, v == 0.0"
    source = f"def f(x: Tensor[('n',), f32], v: Tensor[(), f64]):\n    return {beside}, {text}\n"
    _, *results = nnmagic.compile(source, cache=False)(np.ones(3, "f4"), np.float64(number))
    with np.errstate(all="ignore"):
        expected = eval(text, {"v": np.float64(number)})
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)
        assert np.isnan(wanted) or np.signbit(result) == np.signbit(wanted) or result.dtype == bool
