"""Write real functions of mathematics with Relay's operators, accurate for operands of any size.

Halves are computed in float32. The sources: W. Kahan for ``log1p``; C's ``atan2`` and ``hypot`` say what
infinities, zeros and NaN give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from nnmagic.relay.tensor_expr import TensorOperators
from nnmagic.relay.types import is_float

T = TypeVar("T", bound=TensorOperators)
Function = TypeVar("Function", bound=Callable[..., Any])

#: The integers that have the bits of floats.
BITS = {"float16": "int16", "bfloat16": "int16", "float32": "int32", "float64": "int64"}


def _halves_in_float32(function: Function) -> Function:
    """Let a function of floats of one dtype compute with halves in float32."""

    @wraps(function)
    def compute(*operands: Any) -> Any:
        dtype = operands[0].dtype
        if dtype not in ("float16", "bfloat16"):
            return function(*operands)
        return function(*(operand.cast("float32") for operand in operands)).cast(dtype)

    return cast("Function", compute)


def signbit(x: T) -> T:
    """Return whether the sign bit of a float is set, also of -0 and NaN."""
    return x.op("reinterpret", dtype=BITS[x.dtype]) < 0


def next_float(x: T, towards: T) -> T:
    """Return the neighbour in the order of the bits, which are those of integers for each sign."""
    one = x.like(0).op("reinterpret", dtype=BITS[x.dtype]).like(1)
    away = (x < towards).equal(x > 0)
    moved = (x.op("reinterpret", dtype=BITS[x.dtype]) + away.choose(one, -one)).op(
        "reinterpret", dtype=x.dtype
    )
    least = one.op("reinterpret", dtype=x.dtype).op("numpy.copysign", towards)
    missing = x.op("isnan") | towards.op("isnan")
    result = x.equal(0).choose(least, moved)
    return missing.choose(x + towards, x.equal(towards).choose(towards, result))


def copysign(size: T, sign: T) -> T:
    """Return floats with the signs of others."""
    size = size.abs()
    return signbit(sign).choose(-size, size)


@_halves_in_float32
def log1p(x: T) -> T:
    """Compute log(1 + x): a quotient corrects the rounding error of the sum."""
    more = 1 + x
    plain = more.equal(1) | ~more.op("isfinite")
    return plain.choose(more.equal(1).choose(x, more.op("log")), more.op("log") * (x / (more - 1)))


@_halves_in_float32
def expm1(x: T) -> T:
    """Compute exp(x) - 1, which is ``tanh(x / 2) * (exp(x) + 1)``."""
    tiny = x.abs() < 1e-30  # half of a denormal number may lack its last digit
    return tiny.choose(x, (x * 0.5).op("tanh") * (x.op("exp") + 1))


@_halves_in_float32
def erfc(x: T) -> T:
    """Compute 1 - erf(x)."""
    return 1 - x.op("erf")


@_halves_in_float32
def hypot(x: T, y: T) -> T:
    """Compute sqrt(x ** 2 + y ** 2): of f32 in f64, else of numbers scaled by a power of two."""
    infinite = x.op("isinf") | y.op("isinf")
    if x.dtype == "float32":
        a, b = x.cast("float64"), y.cast("float64")
        return infinite.choose(math.inf, (a * a + b * b).op("sqrt").cast("float32"))
    a, b = x.abs(), y.abs()
    large = a.maximum(b)
    scale = (large > 1e150).choose(2.0**-600, (large < 1e-140).choose(2.0**600, x.like(1.0)))
    a, b = a * scale, b * scale
    return infinite.choose(math.inf, (a * a + b * b).op("sqrt") / scale)


@_halves_in_float32
def arctan2(y: T, x: T) -> T:
    """Compute the angle in the first quadrant, then the quadrant from both signs, including those of 0."""
    a, b = y.abs(), x.abs()
    both = a.equal(math.inf) & b.equal(math.inf)
    ratio = both.choose(1, (a.equal(0) & b.equal(0)).choose(0, a / b))
    angle = ratio.op("atan")
    angle = signbit(x).choose(math.pi - angle, angle)
    return signbit(y).choose(-angle, angle)


def logaddexp(x: T, y: T) -> T:
    """Compute log(exp(x) + exp(y)) relative to the larger one; equal operands, even infinite, differ by 0."""
    gap = x.equal(y).choose(0, x - y)
    return x.maximum(y) + log1p((-gap.abs()).op("exp"))


@_halves_in_float32
def cbrt(x: T) -> T:
    """Compute the cube root from its inverse, which needs no divisions and cannot overflow.

    A number's bits divided by -3 are near those of the inverse. A polynomial in the product of the number and
    the inverse's cube, which is near 1, and a step of Householder's method, with the series of
    ``(1 - r)**(-2/3)``, give the other digits. Denormal numbers are scaled by a power of eight, and their
    roots by its cube root.

    T. J. Dekker, A Floating-Point Technique for Extending the Available Precision, 1971: products of halves
    of the digits are exact, so that processors without fused products have the same last bit.
    """
    bits, size = BITS[x.dtype], x.abs()
    denormal = size < float(np.finfo(x.dtype).smallest_normal)
    number = denormal.choose(size * 2.0**60, size)
    third = number.op("reinterpret", dtype=bits).cast(x.dtype) * (1 / 3)
    inverse = (_INVERSE_OF_ONE[x.dtype] - third).cast(bits).op("reinterpret", dtype=x.dtype)
    product = number * inverse * (inverse * inverse)
    inverse = _first_half(inverse * _evaluate(_INVERSE_ROOT[x.dtype], product))
    square = inverse * inverse  # exact, as is `high * inverse`: a rounded one would cost half an ulp
    root = number * square
    high = _first_half(root)
    rest = (1 - high * inverse) - (root - high) * inverse  # with the rounding error that the root has
    root = denormal.choose(x * 2.0**40, x) * square
    root = root + root * _evaluate(_SECOND_STEP[x.dtype], rest)
    return x.op("isfinite").choose(root, x)


def _first_half(x: T) -> T:
    """Return a float with the first half of its digits."""
    mask = -(1 << (np.finfo(x.dtype).nmant + 2) // 2)
    return x.op("reinterpret", dtype=BITS[x.dtype]).op("bitwise_and", mask).op("reinterpret", dtype=x.dtype)


def _evaluate(coefficients: Sequence[float], x: T) -> T | float:
    """Evaluate a polynomial whose coefficients begin with the highest power."""
    total: T | float = coefficients[0]
    for coefficient in coefficients[1:]:
        total = coefficient + x * total
    return total


#: Four thirds of the bits of 1, less what makes the cubes that `cbrt` begins with 0.90 to 1.11.
_INVERSE_OF_ONE = {"float32": (4 / 3 * 0x7F - 0.065) * 2.0**23, "float64": (4 / 3 * 0x3FF - 0.065) * 2.0**52}

#: ``u**(-1/3)`` for u from 0.90 to 1.11: minimax fits of the relative error.
_INVERSE_ROOT = {
    "float32": (0.22088301435916105, -0.7764702033293924, 1.5555925830660633),
    "float64": (-0.17129305927033223, 0.7376174656199501, -1.2947014896723932, 1.728375074244215),
}

#: As many terms of ``(1 - r)**(-2/3) - 1`` as the digits need; the last is half of the next, at its largest.
_SECOND_STEP = {"float32": (5 / 9, 2 / 3, 0.0), "float64": (40 / 81, 5 / 9, 2 / 3, 0.0)}


@_halves_in_float32
def rint(x: T) -> T:
    """Round to the nearest integer, halves to even; the sign stays, also that of 0."""
    size, is_integer = x.abs(), _FIRST_WHOLE[x.dtype]
    rounded = (size < is_integer).choose(size + is_integer - is_integer, size)
    return (x < 0).choose(-rounded, (x > 0).choose(rounded, x))


#: The number from which on all floats are integers: a sum with it is rounded to one.
_FIRST_WHOLE = {"float32": 2.0**23, "float64": 2.0**52}


def round_decimals(x: T, decimals: int) -> T:
    """Round floats to a number of decimals, which may be negative, halves to even; the scaled numbers are."""
    if not decimals:
        return x.op("numpy.rint")
    scale = 10.0 ** abs(decimals)
    return (x * scale).op("numpy.rint") / scale if decimals > 0 else (x / scale).op("numpy.rint") * scale


def ignoring_nan(operator: str, x: T, y: T) -> T:
    """Return the "maximum" or "minimum" of each pair, or, where one of them is NaN, the other."""
    chosen = x.op(operator, y)
    if not is_float(x.dtype):
        return chosen
    return x.op("isnan").choose(y, y.op("isnan").choose(x, chosen))


def softplus(x: T) -> T:
    """Compute log(1 + exp(x)) without overflow."""
    return x.maximum(0) + log_of_one_plus_exp(x)


def log_of_one_plus_exp(x: T) -> T:
    """Compute log(1 + exp(-|x|)) without loss of precision."""
    return (-x.abs()).op("exp").op("numpy.log1p")


def logsumexp(x: T, axes: Sequence[int], *, keepdims: bool) -> T:
    """Compute log(sum(exp(x))) along axes, relative to the largest element; -inf for only -inf."""
    if not axes:
        return x
    largest = x.op("max", axis=tuple(axes), keepdims=True)
    start = largest.op("isfinite").choose(largest, 0)
    total = (x - start).op("exp").op("sum", axis=tuple(axes), keepdims=True).op("log") + start
    return total if keepdims else total.op("squeeze", axis=tuple(axes))
