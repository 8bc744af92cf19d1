"""Compute exponentials, hyperbolic functions and the sigmoid as vectors."""

from __future__ import annotations

from tvm import tirx

from nnmagic.engine.relax.tir.builders import has_instructions
from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.vector_math.core import FLOAT32, FLOAT64, LOG2_E, Computation, vector_function

#: Beyond these arguments exp is 0 or infinite.
_EXP_RANGE = {"float32": (-104.0, 89.0), "float64": (-746.0, 710.0)}

#: ``(exp(r) - 1 - r) / r**2`` for ``|r| <= ln 2 / 2``.
_EXP = {
    "float32": (
        0.0013848288217559457,
        0.00837002880871296,
        0.041668009012937546,
        0.16666509211063385,
        0.4999999403953552,
    ),
    "float64": (
        2.5020556176184802e-08,
        2.7631021019536935e-07,
        2.755752830113881e-06,
        2.480149150660784e-05,
        0.00019841269557055108,
        0.0013888888944972378,
        0.008333333333475674,
        0.04166666666652554,
        0.16666666666666435,
        0.5000000000000011,
    ),
}

#: Beyond these arguments exp(x) - 1 is -1 or infinite.
_EXPM1_RANGE = {"float32": (-60.0, 89.0), "float64": (-100.0, 710.0)}

#: Beyond these arguments exp2 is 0 or infinite.
EXP2_RANGE = {"float32": (-151.0, 129.0), "float64": (-1076.0, 1025.0)}

#: ``(2**r - 1) / r`` for ``|r| <= 1/2``.
_EXP2 = {
    "float32": (
        0.00015476100088562816,
        0.001339993323199451,
        0.009618004783987999,
        0.05550329014658928,
        0.24022650718688965,
        0.6931471824645996,
    ),
    "float64": (
        4.4573515170687707e-10,
        7.0738111500372376e-09,
        1.0178046731293754e-07,
        1.3215435130659885e-06,
        1.5252733866785843e-05,
        0.00015403530457375487,
        0.0013333558146379986,
        0.009618129107593973,
        0.055504108664821736,
        0.2402265069591013,
        0.6931471805599453,
    ),
}

#: Beyond this argument sinh and cosh are infinite.
_HYPERBOLIC_RANGE = {"float32": 90.0, "float64": 711.0}

#: ``(sinh(x) - x) / x**3`` in terms of ``x**2``, for ``|x| <= 1``.
_SINH = {
    "float32": (2.8174395083624404e-06, 0.0001983606634894386, 0.008333350531756878, 0.1666666716337204),
    "float64": (
        7.759312122535462e-13,
        1.605724034371667e-10,
        2.5052123398528897e-08,
        2.755731915533697e-06,
        0.0001984126984143768,
        0.008333333333333139,
        0.16666666666666669,
    ),
}


def reduce_exp_argument(steps: Computation, x: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Split ``x = n * ln 2 + r``: return the bits that end in n, n as a number, |r| <= ln 2 / 2."""
    form = steps.form
    rounded = steps.bind("rounded", steps.round_to_bits(x * steps.number(LOG2_E)))
    n = steps.bind("n", steps.from_bits(rounded) - steps.number(form.round_to_integer))
    # ``n * ln2_high`` is exact and near x, so the difference is exact, too: only the product with
    # the small rest is rounded (Cody and Waite, 1980).
    high = steps.bind("high", x - n * steps.number(form.ln2_high))
    return rounded, n, steps.bind("r", high - n * steps.number(form.ln2_low))


def exp_near_zero(steps: Computation, r: PrimExpr) -> PrimExpr:
    """Compute ``exp(r)`` for ``|r| <= ln 2 / 2``."""
    return steps.polynomial(_EXP, r, 1.0, 1.0)


def scale(steps: Computation, value: PrimExpr, n: PrimExpr, rounded: PrimExpr) -> PrimExpr:
    """Multiply by 2**n: where there is no instruction for that in two steps, as one factor could overflow."""
    if has_instructions("avx512vl"):
        return tirx.call_llvm_pure_intrin(
            steps.form.dtype, "llvm.ldexp", value, steps.integer_of(rounded).astype("int32")
        )
    # ``2**128`` is not finite in float32, though ``0.8 * 2**128`` is: half of n is done in each
    # step. A denormal result comes from the last product, so it is rounded once.
    half = steps.bind("half", steps.round_to_bits(n * steps.number(0.5)))
    return value * steps.power_of_two(half) * steps.power_of_two(rounded - half)


@vector_function
def exp(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute e to the x: a polynomial, scaled by a power of two."""
    low, high = _EXP_RANGE[steps.form.dtype]
    x = steps.clamp("x", x, low, high)
    rounded, n, r = reduce_exp_argument(steps, x)
    return scale(steps, exp_near_zero(steps, r), n, rounded)


@vector_function
def exp2(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute 2 to the x: a polynomial, scaled by a power of two."""
    low, high = EXP2_RANGE[steps.form.dtype]
    x = steps.clamp("x", x, low, high)
    rounded = steps.bind("rounded", steps.round_to_bits(x))
    n = steps.bind("n", steps.from_bits(rounded) - steps.number(steps.form.round_to_integer))
    return scale(steps, exp2_near_zero(steps, steps.bind("r", x - n)), n, rounded)


def exp2_near_zero(steps: Computation, r: PrimExpr) -> PrimExpr:
    """Compute ``2**r`` for ``|r| <= 1/2``."""
    return steps.polynomial(_EXP2, r, 1.0)


@vector_function
def scaled_exp(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute ``exp(x) * exp_scale`` for ``x <= 0``, where one power of two is enough."""
    low, _ = _EXP_RANGE[steps.form.dtype]
    rounded, _, r = reduce_exp_argument(steps, steps.bind("x", steps.at_least(x, low)))
    value = exp_near_zero(steps, r)
    # The scale keeps the power of two of each argument in the range normal, and so one factor is
    # enough.
    return value * steps.power_of_two(rounded + steps.integer(steps.form.bias // 2))


def exp_scale(dtype: str) -> float:
    """Return the factor of ``scaled_exp``: a sum of that many results is still finite."""
    form = FLOAT64 if dtype == "float64" else FLOAT32
    return 2.0 ** (form.bias // 2)


@vector_function
def tanh(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the hyperbolic tangent: ``t / (t + 2)`` of ``t = exp(2 |x|) - 1``."""
    doubled = steps.bind("doubled", tirx.abs(x) * steps.number(2))
    # From 22 on tanh is 1 in both formats: 2 exp(-44) is less than half a unit in the last place.
    rounded, _, r = reduce_exp_argument(steps, steps.bind("doubled", steps.at_most(doubled, 44.0)))
    scale = steps.bind("scale", steps.power_of_two(rounded))
    less = steps.polynomial(_EXP, r) * r * r + r
    t = steps.bind("t", less * scale + (scale - steps.number(1)))
    return steps.copy_sign(t / (t + steps.number(2)), x)


@vector_function
def expm1(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute ``exp(x) - 1`` to the last digits: ``(p - 1) * 2**n + (2**n - 1)`` of ``exp(x) = p * 2**n``."""
    low, high = _EXPM1_RANGE[steps.form.dtype]
    rounded, _, r = reduce_exp_argument(steps, steps.clamp("limited", x, low, high))
    less = steps.polynomial(_EXP, r) * r * r + r
    half = steps.bind("half", steps.power_of_two(rounded - steps.integer(1)))  # 2**n could overflow
    value = (less * half + (half - steps.number(0.5))) * steps.number(2)
    return steps.copy_sign(value, x)


@vector_function
def sigmoid(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute ``1 / (1 + exp(-x))`` from ``exp(-|x|)``, which is exact for denormal results, too."""
    scale = steps.number(1 / exp_scale(steps.form.dtype))
    e = steps.bind("e", scaled_exp(-tirx.abs(x)) * scale)
    return tirx.Select(x < steps.number(0), e, steps.number(1)) / (steps.number(1) + e)


def _half_exp_of_size(steps: Computation, size: PrimExpr) -> PrimExpr:
    """Compute ``exp(size) / 2`` for ``size >= 0``, infinite where that overflows."""
    size = steps.bind("size", steps.at_most(size, _HYPERBOLIC_RANGE[steps.form.dtype]))
    rounded, _, r = reduce_exp_argument(steps, size)
    # In float32 n is 129 for the largest arguments with a finite result: ``2**(n - 1)`` is infinite
    # there, though the half of exp is not.
    quarter = exp_near_zero(steps, r) * steps.power_of_two(rounded - steps.integer(2))
    return steps.bind("half_exp", quarter * steps.number(2))


@vector_function
def cosh(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the hyperbolic cosine: ``e + 1 / (4 e)`` of ``e = exp(|x|) / 2``."""
    e = _half_exp_of_size(steps, tirx.abs(x))
    return e + steps.number(0.25) / e


@vector_function
def sinh(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the hyperbolic sine: a polynomial near 0, else ``e - 1 / (4 e)`` of ``e = exp(|x|) / 2``."""
    size = steps.bind("size", tirx.abs(x))
    e = _half_exp_of_size(steps, size)
    square = steps.bind("square", size * size)
    near = steps.bind("near", size + size * (square * steps.polynomial(_SINH, square)))
    return steps.copy_sign(tirx.Select(size < steps.number(1), near, e - steps.number(0.25) / e), x)
