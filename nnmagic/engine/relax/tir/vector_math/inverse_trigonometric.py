"""Compute inverse trigonometric functions as vectors."""

from __future__ import annotations

from tvm import tirx

from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.vector_math.core import Computation, vector_function

#: ``(asin(x) - x) / x**3`` in terms of ``x**2``, for ``|x| <= 1/2``.
_ASIN = {
    "float32": (
        0.04221845418214798,
        0.02414766512811184,
        0.04547708481550217,
        0.07495241612195969,
        0.16666753590106964,
    ),
    "float64": (
        0.03195896330033566,
        -0.01629407384869289,
        0.019573908409811748,
        0.006510851788696116,
        0.012173279864189649,
        0.013884598340944047,
        0.017359771127407022,
        0.022371753521324998,
        0.030381959331356383,
        0.044642856823480105,
        0.07500000000343045,
        0.16666666666665383,
    ),
}

#: ``(atan(x) - x) / x**3`` in terms of ``x**2``, for ``|x| <= 1``.
_ATAN = {
    "float32": (
        0.002920727711170912,
        -0.016368070617318153,
        0.04321208968758583,
        -0.07552234083414078,
        0.1066601350903511,
        -0.14211057126522064,
        0.19993773102760315,
        -0.33333152532577515,
    ),
    "float64": (
        -2.025919101861962e-05,
        0.00022302848755296947,
        -0.0011640984824755353,
        0.003856046456701772,
        -0.009184689845714043,
        0.016978208122368773,
        -0.025826966301348418,
        0.03406793775007584,
        -0.04092645500438955,
        0.046739528162832965,
        -0.052392340832190805,
        0.05877308047794814,
        -0.06665860415958695,
        0.07692212937902287,
        -0.09090901236115605,
        0.11111110678795955,
        -0.14285714271336658,
        0.19999999999755055,
        -0.3333333333333186,
    ),
}


@vector_function
def asin(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the inverse sine: a polynomial to 1/2, from there on from that of ``sqrt((1 - |x|) / 2)``."""
    size = steps.bind("size", tirx.abs(x))
    far, angle = _reduced_asin(steps, size)
    high, low = steps.number(steps.form.half_pi), steps.number(steps.form.half_pi_low)
    rest = steps.bind("rest", high - ((angle + angle) - low))
    return steps.copy_sign(tirx.Select(far, rest, angle), x)


@vector_function
def acos(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the inverse cosine from the inverse sine of ``x`` or of ``sqrt((1 - |x|) / 2)``."""
    far, angle = _reduced_asin(steps, steps.bind("size", tirx.abs(x)))
    high, low = steps.number(steps.form.half_pi), steps.number(steps.form.half_pi_low)
    negative = x < steps.number(0)
    signed = steps.bind("signed", tirx.Select(negative, -angle, angle))
    double = steps.bind("double", signed + signed)
    pi = steps.bind("pi", (high + high) + (double + (low + low)))
    near = steps.bind("near", high - (signed - low))
    return tirx.Select(far, tirx.Select(negative, pi, double), near)


def _reduced_asin(steps: Computation, size: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Return whether ``size > 1/2``, and the inverse sine of size or there of ``sqrt((1 - size) / 2)``."""
    half = steps.number(0.5)
    far = size > half
    other = steps.bind("other", half - size * half)
    square = steps.bind("square", tirx.Select(far, other, size * size))
    s = steps.bind("s", tirx.Select(far, tirx.sqrt(other), size))
    return far, steps.bind("angle", s + s * (square * steps.polynomial(_ASIN, square)))


@vector_function
def atan(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the inverse tangent: a polynomial to 1, from there on from that of ``1 / |x|``."""
    one = steps.number(1)
    size = steps.bind("size", tirx.abs(x))
    far = size > one
    t = steps.bind("t", tirx.Select(far, one / size, size))
    square = steps.bind("square", t * t)
    angle = steps.bind("angle", t + t * (square * steps.polynomial(_ATAN, square)))
    high, low = steps.number(steps.form.half_pi), steps.number(steps.form.half_pi_low)
    rest = steps.bind("rest", high - (angle - low))
    return steps.copy_sign(tirx.Select(far, rest, angle), x)
