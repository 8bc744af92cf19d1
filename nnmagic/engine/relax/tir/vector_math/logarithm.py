"""Compute logarithms and inverse hyperbolic functions as vectors."""

from __future__ import annotations

from tvm import tirx

from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.vector_math.core import LOG2_E, LOG10_E, Computation, vector_function

#: log10(2) as a number whose product with an exponent is exact, and the rest.
_LOG10_2 = {
    "float32": (0.30078125, 0.0002487456639811952),
    "float64": (0.30102992057800293, 7.508597826552624e-08),
}

#: The bits of the square root of 1/2.
_ROOT_HALF = {"float32": 0x3F3504F3, "float64": 0x3FE6A09E667F3BCD}

#: float32: ``(log(1 + f) - f + f**2 / 2) / f**3``; float64: ``2 (atanh(s) / s - 1) / s**2`` in ``s**2``.
_LOG = {
    "float32": (
        -0.07644721120595932,
        0.12761932611465454,
        -0.1315600574016571,
        0.14201366901397705,
        -0.16623803973197937,
        0.200012668967247,
        -0.25000807642936707,
        0.3333333134651184,
    ),
    "float64": (
        0.147956948523523,
        0.15314079855598164,
        0.18183562998440847,
        0.22222198603176532,
        0.2857142874203724,
        0.39999999999416636,
        0.6666666666666734,
    ),
}


@vector_function
def log(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the natural logarithm."""
    exponent, logarithm, rest = _split_logarithm(steps, x)
    form = steps.form
    high = exponent * steps.number(form.ln2_high)
    result = high + (logarithm + (rest + exponent * steps.number(form.ln2_low)))
    return _extend_to_all_reals(steps, x, result)


@vector_function
def log2(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the logarithm to base 2."""
    exponent, logarithm, rest = _split_logarithm(steps, x)
    factor = steps.bind("factor", steps.number(LOG2_E))
    return _extend_to_all_reals(steps, x, exponent + (logarithm + rest) * factor)


@vector_function
def log10(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the logarithm to base 10."""
    exponent, logarithm, rest = _split_logarithm(steps, x)
    factor = steps.bind("factor", steps.number(LOG10_E))
    high, low = _LOG10_2[steps.form.dtype]
    near = (logarithm + rest) * factor + exponent * steps.number(low)
    return _extend_to_all_reals(steps, x, exponent * steps.number(high) + near)


def _log_of_1_plus(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute ``log(1 + x)`` for ``x >= 0``: what rounding takes from the sum is added to the argument."""
    one = steps.number(1)
    # The error of a sum by TwoSum (Knuth, The Art of Computer Programming, vol. 2, section 4.2.2),
    # which holds whichever operand is larger.
    total = steps.bind("total", one + x)
    rounded = steps.bind("rounded", total - one)
    lost = steps.bind("lost", (x - rounded) + (one - (total - rounded)))
    form = steps.form
    k, f = _split_normal(steps, total)
    exponent = steps.bind("exponent", k.astype(form.dtype))
    logarithm, rest = _logarithm_near_1(steps, f)
    # Of a sum from 2**mantissa on, nothing that counts is lost.
    least = steps.power_of_two(-tirx.min(k, steps.integer(form.bias - 1)))
    # log(1 + f + d) is log(1 + f) + d / (1 + f) to first order; the division is left out, as f is
    # near 0 wherever the logarithm is so small that d counts.
    small = steps.bind("small", lost * least)
    low = steps.bind("low", rest + (small + exponent * steps.number(form.ln2_low)))
    result = exponent * steps.number(form.ln2_high) + (logarithm + low)
    return tirx.Select(total < steps.number(float("inf")), result, total)


@vector_function
def asinh(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the inverse hyperbolic sine: ``log(|x| + sqrt(x**2 + 1))``, of large ones ``log(2 |x|)``."""
    one = steps.number(1)
    size = steps.bind("size", tirx.abs(x))
    square = steps.bind("square", size * size)
    # ``x + sqrt(x**2 + 1) - 1``, written as a quotient: the difference itself would lose the digits
    # of a small x.
    less = steps.bind("less", size + square / (one + tirx.sqrt(one + square)))
    large = size > steps.number(_large(steps))
    logarithm = _log_of_1_plus(steps, steps.bind("argument", tirx.Select(large, size, less)))
    return steps.copy_sign(_add_ln2(steps, logarithm, large), x)


@vector_function
def acosh(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the inverse hyperbolic cosine: ``log(x + sqrt(x**2 - 1))``, of large ones ``log(2 x)``."""
    # Exact up to x = 2 (Sterbenz's lemma, 1974), where acosh is small. ``log(x + sqrt(x**2 - 1))``
    # itself would lose most digits there.
    u = steps.bind("u", x - steps.number(1))
    less = steps.bind("less", u + tirx.sqrt(u * (u + steps.number(2))))
    large = x > steps.number(_large(steps))
    logarithm = _log_of_1_plus(steps, steps.bind("argument", tirx.Select(large, x, less)))
    result = steps.bind("result", _add_ln2(steps, logarithm, large))
    return tirx.Select(x < steps.number(1), steps.number(float("nan")), result)


@vector_function
def atanh(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the inverse hyperbolic tangent: half the logarithm of ``(1 + |x|) / (1 - |x|)``."""
    size = steps.bind("size", tirx.abs(x))
    quotient = steps.bind("quotient", (size + size) / (steps.number(1) - size))
    half = steps.bind("half", _log_of_1_plus(steps, quotient) * steps.number(0.5))
    result = tirx.Select(size > steps.number(1), steps.number(float("nan")), half)
    return steps.copy_sign(steps.bind("result", result), x)


def _large(steps: Computation) -> float:
    """Return a number from which on ``x**2`` and ``x**2 + 1`` are the same."""
    return float(2.0 ** (steps.form.bias // 4))


def _add_ln2(steps: Computation, logarithm: PrimExpr, condition: PrimExpr) -> PrimExpr:
    """Add the logarithm of 2 where the condition holds."""
    logarithm = steps.bind("logarithm", logarithm)
    ln2 = steps.number(steps.form.ln2_high + steps.form.ln2_low)
    return tirx.Select(condition, logarithm + ln2, logarithm)


def _split_logarithm(steps: Computation, x: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Split ``x = 2**k * (1 + f)``, 0.7 < 1 + f < 1.4: return k and two numbers whose sum is log(1 + f)."""
    exponent, f = split_exponent(steps, x)
    return exponent, *_logarithm_near_1(steps, f)


def _logarithm_near_1(steps: Computation, f: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Return two numbers whose sum is log(1 + f), 0.7 < 1 + f < 1.4."""
    square = steps.bind("square", f * f)
    if steps.form.dtype == "float32":
        correction = steps.bind("rest", square * (f * steps.polynomial(_LOG, f) - steps.number(0.5)))
        return f, correction
    # As in fdlibm's e_log.c: log(1 + f) is 2 atanh(s), written so that f, the leading term, has no
    # error.
    s = steps.bind("s", f / (f + steps.number(2)))
    z = steps.bind("z", s * s)
    half = steps.bind("half", square * steps.number(0.5))
    correction = steps.bind("rest", s * (half + z * steps.polynomial(_LOG, z)) - half)
    return f, correction


def split_exponent(steps: Computation, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Split ``x = 2**k * (1 + f)``, 0.7 < 1 + f < 1.4: return k and f."""
    form = steps.form
    small = x < steps.number(2.0 ** (2 - form.bias))  # TVM cannot bind truth values
    # The exponent's bits of a subnormal number are 0 whatever its size; scaled up it is normal.
    normal = steps.bind("normal", tirx.Select(small, x * steps.number(2.0**form.mantissa), x))
    k, f = _split_normal(steps, normal)
    correction = tirx.Select(small, steps.number(-form.mantissa), steps.number(0))
    return steps.bind("exponent", k.astype(form.dtype) + correction), f


def _split_normal(steps: Computation, normal: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Split a number that is not subnormal in the same way; k is an integer."""
    form = steps.form
    # After the bits of sqrt(1/2) are subtracted, the exponent's bits end where 1 + f begins.
    root = _ROOT_HALF[form.dtype]
    bits = steps.bind("bits", steps.bits(normal) - steps.integer(root))
    k = steps.bind("k", bits >> steps.integer(form.mantissa))
    mantissa = bits & steps.integer((1 << form.mantissa) - 1)
    f = steps.bind("f", steps.from_bits(mantissa + steps.integer(root)) - steps.number(1))
    return k, f


def _extend_to_all_reals(steps: Computation, x: PrimExpr, logarithm: PrimExpr) -> PrimExpr:
    """Return a logarithm that is also right elsewhere: -inf at 0, NaN below, inf at infinity."""
    # NaN is not less than infinity, so the first choice keeps it; it is not greater than 0 either,
    # so the second gives NaN again.
    infinity, zero = steps.number(float("inf")), steps.number(0)
    result = steps.bind("extended", tirx.Select(x < infinity, logarithm, x))
    result = steps.bind("extended", tirx.Select(x > zero, result, steps.number(float("nan"))))
    return tirx.Select(x == zero, steps.number(float("-inf")), result)
