"""Build mathematical functions as TIR that LLVM vectorizes: no calls of the C library, no branches.

Each function maps an expression of float32 or float64 to one of the same dtype; float16 and bfloat16 are
computed in float32. Arguments are reduced as in W. J. Cody and W. Waite, Software Manual for the Elementary
Functions, 1980. The polynomials are minimax fits of our own (Remez exchange with 50 digits). Their
coefficients are rounded, mostly one at a time, and the others fitted again after each. NaN stays NaN;
infinities and denormal results are correct. The largest errors, measured over all exponents, in units in the
last place:

=======  =======  =======
         float32  float64
=======  =======  =======
exp      1.1      1.5
log      0.9      0.9
log2     1.7      1.7
log10    1.9      1.9
tanh     2.5      3.3
sigmoid  2.5      2.5
erf      2.3      3.0
=======  =======  =======
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx

from nnmagic.engine.relax.tir.builders import dtype_of
from nnmagic.engine.relax.tir.types import PrimExpr, Var


@dataclass(frozen=True, slots=True)
class _Format:
    """Describe a floating-point format: its bits, split constants and polynomials.

    ``round_to_integer`` is 1.5 times the number from which on all floats are integers: adding to it rounds to
    an integer, which the low bits of the sum hold. ``ln2_high`` ends with so many zero bits that its product
    with an exponent is exact.
    """

    dtype: str
    integer: str
    mantissa: int
    exponent: int
    bias: int
    round_to_integer: float
    ln2_high: float
    ln2_low: float
    log10_2_high: float
    log10_2_low: float
    root_half: int
    exp_range: tuple[float, float]
    exp: tuple[float, ...]
    log: tuple[float, ...]
    erf_from: float
    erf: tuple[float, ...]
    log_erfc: tuple[float, ...]


_FLOAT32 = _Format(
    dtype="float32",
    integer="int32",
    mantissa=23,
    exponent=8,
    bias=127,
    round_to_integer=1.5 * 2**23,
    ln2_high=0.693359375,
    ln2_low=-2.12194440054690583e-4,
    log10_2_high=0.30078125,
    log10_2_low=0.0002487456639811952,
    root_half=0x3F3504F3,
    exp_range=(-104.0, 89.0),
    exp=(
        0.0013848288217559457,
        0.00837002880871296,
        0.041668009012937546,
        0.16666509211063385,
        0.4999999403953552,
    ),
    log=(
        -0.07644721120595932,
        0.12761932611465454,
        -0.1315600574016571,
        0.14201366901397705,
        -0.16623803973197937,
        0.200012668967247,
        -0.25000807642936707,
        0.3333333134651184,
    ),
    erf_from=0.92578125,
    erf=(
        -0.0005451472825370729,
        0.004879152402281761,
        -0.026682602241635323,
        0.11279303580522537,
        -0.3761223256587982,
        1.1283791065216064,
    ),
    log_erfc=(
        -0.00021398744138423353,
        0.0032149816397577524,
        -0.022890063002705574,
        0.10526201874017715,
        0.6357181668281555,
        1.1285144090652466,
    ),
)

_FLOAT64 = _Format(
    dtype="float64",
    integer="int64",
    mantissa=52,
    exponent=11,
    bias=1023,
    round_to_integer=1.5 * 2**52,
    ln2_high=0.693147180369123816490,
    ln2_low=1.90821492927058770002e-10,
    log10_2_high=0.30102992057800293,
    log10_2_low=7.508597826552624e-08,
    root_half=0x3FE6A09E667F3BCD,
    exp_range=(-746.0, 710.0),
    exp=(
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
    log=(
        0.147956948523523,
        0.15314079855598164,
        0.18183562998440847,
        0.22222198603176532,
        0.2857142874203724,
        0.39999999999416636,
        0.6666666666666734,
    ),
    erf_from=1.0,
    erf=(
        -7.604893939416911e-10,
        1.3615500190615924e-08,
        -1.618378483802683e-07,
        1.6444131184613003e-06,
        -1.4924464552177811e-05,
        0.00012055280459127031,
        -0.0008548325484215734,
        0.005223977596726416,
        -0.02686617064195855,
        0.11283791670936949,
        -0.37612638903183343,
        1.1283791670955126,
    ),
    log_erfc=(
        -1.5186431918803928e-12,
        6.743967830961625e-11,
        -1.4022846615011811e-09,
        1.8129277322258554e-08,
        -1.6301297379018747e-07,
        1.078066798591386e-06,
        -5.384975973967239e-06,
        2.035045408538701e-05,
        -5.603610467475479e-05,
        9.548150282871834e-05,
        -9.666334368796417e-07,
        -0.0005746690610908167,
        0.0016926179829996485,
        -0.00021204382982163803,
        -0.01912496067811372,
        0.10277082558489263,
        0.6366202530235452,
        1.12837911082127,
    ),
)

_LOG2_E = 1.4426950408889634074
_LOG10_E = 0.43429448190325182765


class _Computation:
    """Build a computation in one format; each intermediate value is bound to a variable once."""

    def __init__(self, form: _Format) -> None:
        self.form = form
        self._bindings: list[tuple[Var, PrimExpr]] = []

    def bind(self, name: str, value: PrimExpr) -> PrimExpr:
        """Bind the value, and return the variable."""
        var = tirx.Var(name, dtype_of(value))
        self._bindings.append((var, value))
        return var

    def close(self, value: PrimExpr) -> PrimExpr:
        """Return the value inside of all bindings."""
        for var, bound in reversed(self._bindings):
            value = tirx.Let(var, bound, value)
        return value

    def number(self, value: float) -> PrimExpr:
        """Return a constant of the format."""
        return tirx.const(value, self.form.dtype)

    def bits(self, value: PrimExpr) -> PrimExpr:
        """Return a number's bits as an integer."""
        return tirx.reinterpret(self.form.integer, value)

    def from_bits(self, bits: PrimExpr) -> PrimExpr:
        """Return the number with these bits."""
        return tirx.reinterpret(self.form.dtype, bits)

    def integer(self, value: int) -> PrimExpr:
        """Return a constant of the format's integers."""
        return tirx.const(value, self.form.integer)

    def at_most(self, value: PrimExpr, limit: float) -> PrimExpr:
        """Clamp the value from above; NaN stays."""
        return tirx.Select(value > self.number(limit), self.number(limit), value)

    def at_least(self, value: PrimExpr, limit: float) -> PrimExpr:
        """Clamp the value from below; NaN stays."""
        return tirx.Select(value < self.number(limit), self.number(limit), value)

    def polynomial(self, coefficients: Sequence[float], x: PrimExpr) -> PrimExpr:
        """Evaluate a polynomial by Horner's rule; ``coefficients`` begin with the highest power."""
        total = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            total = total * x + self.number(coefficient)
        return total

    def round_to_bits(self, value: PrimExpr) -> PrimExpr:
        """Return bits that end in the nearest integer; TVM's simplifier would cancel sums of numbers."""
        return self.bits(value + self.number(self.form.round_to_integer))

    def power_of_two(self, rounded: PrimExpr) -> PrimExpr:
        """Return 2 to the integer in which the bits end; the result must not be denormal."""
        form = self.form
        shifted = rounded << self.integer(form.mantissa)
        return self.from_bits(shifted + self.integer(form.bias << form.mantissa))


def _function(compute: Callable[[_Computation, PrimExpr], PrimExpr]) -> Callable[[PrimExpr], PrimExpr]:
    """Extend a function that computes in float32 or float64 to expressions of any floating-point dtype."""

    @functools.wraps(compute)
    def function(value: PrimExpr) -> PrimExpr:
        dtype = dtype_of(value)
        form = _FLOAT64 if dtype == "float64" else _FLOAT32
        steps = _Computation(form)
        argument = steps.bind("x", value if dtype == form.dtype else value.astype(form.dtype))
        result = steps.close(compute(steps, argument))
        return result if dtype == form.dtype else result.astype(dtype)

    return function


def _reduce_exp_argument(steps: _Computation, x: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Split ``x = n * ln 2 + r``: return the bits that end in n, n as a number, |r| <= ln 2 / 2."""
    form = steps.form
    rounded = steps.bind("rounded", steps.round_to_bits(x * steps.number(_LOG2_E)))
    n = steps.bind("n", steps.from_bits(rounded) - steps.number(form.round_to_integer))
    high = steps.bind("high", x - n * steps.number(form.ln2_high))
    return rounded, n, steps.bind("r", high - n * steps.number(form.ln2_low))


def _exp_minus_1_near_zero(steps: _Computation, r: PrimExpr) -> PrimExpr:
    """Compute ``exp(r) - 1`` for ``|r| <= ln 2 / 2``."""
    return steps.polynomial(steps.form.exp, r) * r * r + r


def _exp_near_zero(steps: _Computation, r: PrimExpr) -> PrimExpr:
    """Compute ``exp(r)`` for ``|r| <= ln 2 / 2``."""
    return steps.polynomial((*steps.form.exp, 1.0, 1.0), r)


@_function
def exp(steps: _Computation, x: PrimExpr) -> PrimExpr:
    """Compute e to the x: a polynomial, scaled by 2**n in two steps, as one factor could overflow."""
    low, high = steps.form.exp_range
    x = steps.bind("x", steps.at_least(steps.bind("x", steps.at_most(x, high)), low))
    rounded, n, r = _reduce_exp_argument(steps, x)
    half = steps.bind("half", steps.round_to_bits(n * steps.number(0.5)))
    value = _exp_near_zero(steps, r)
    return value * steps.power_of_two(half) * steps.power_of_two(rounded - half)


@_function
def scaled_exp(steps: _Computation, x: PrimExpr) -> PrimExpr:
    """Compute ``exp(x) * exp_scale`` for ``x <= 0``, where one power of two is enough."""
    low, _ = steps.form.exp_range
    rounded, _, r = _reduce_exp_argument(steps, steps.bind("x", steps.at_least(x, low)))
    value = _exp_near_zero(steps, r)
    return value * steps.power_of_two(rounded + steps.integer(steps.form.bias // 2))


def exp_scale(dtype: str) -> float:
    """Return the factor of ``scaled_exp``: a sum of that many results is still finite."""
    form = _FLOAT64 if dtype == "float64" else _FLOAT32
    return 2.0 ** (form.bias // 2)


@_function
def tanh(steps: _Computation, x: PrimExpr) -> PrimExpr:
    """Compute the hyperbolic tangent: ``t / (t + 2)`` of ``t = exp(2 |x|) - 1``."""
    doubled = steps.bind("doubled", tirx.abs(x) * steps.number(2))
    rounded, _, r = _reduce_exp_argument(steps, steps.bind("doubled", steps.at_most(doubled, 44.0)))
    scale = steps.bind("scale", steps.power_of_two(rounded))
    t = steps.bind("t", _exp_minus_1_near_zero(steps, r) * scale + (scale - steps.number(1)))
    return _copy_sign(steps, t / (t + steps.number(2)), x)


@_function
def sigmoid(steps: _Computation, x: PrimExpr) -> PrimExpr:
    """Compute ``1 / (1 + exp(-x))`` from ``exp(-|x|)``, which is exact for denormal results, too."""
    scale = steps.number(1 / exp_scale(steps.form.dtype))
    e = steps.bind("e", scaled_exp(-tirx.abs(x)) * scale)
    return tirx.Select(x < steps.number(0), e, steps.number(1)) / (steps.number(1) + e)


@_function
def erf(steps: _Computation, x: PrimExpr) -> PrimExpr:
    """Compute the error function: a polynomial near 0, else ``1 - exp(-t p(t))`` of ``t = |x|``."""
    form = steps.form
    t = steps.bind("t", tirx.abs(x))
    far = steps.bind("far", steps.at_most(t, 6.0))
    minus = steps.bind("minus", -(far * steps.polynomial(form.log_erfc, far)))
    rounded, _, r = _reduce_exp_argument(steps, minus)
    e = _exp_near_zero(steps, r) * steps.power_of_two(rounded)
    outer = steps.bind("outer", _copy_sign(steps, steps.number(1) - e, x))
    inner = steps.bind("inner", x * steps.polynomial(form.erf, x * x))
    return tirx.Select(t < steps.number(form.erf_from), inner, outer)


@_function
def log(steps: _Computation, x: PrimExpr) -> PrimExpr:
    """Compute the natural logarithm."""
    exponent, logarithm, rest = _split_logarithm(steps, x)
    form = steps.form
    high = exponent * steps.number(form.ln2_high)
    result = high + (logarithm + (rest + exponent * steps.number(form.ln2_low)))
    return _extend_to_all_reals(steps, x, result)


@_function
def log2(steps: _Computation, x: PrimExpr) -> PrimExpr:
    """Compute the logarithm to base 2."""
    exponent, logarithm, rest = _split_logarithm(steps, x)
    factor = steps.bind("factor", steps.number(_LOG2_E))
    return _extend_to_all_reals(steps, x, exponent + (logarithm + rest) * factor)


@_function
def log10(steps: _Computation, x: PrimExpr) -> PrimExpr:
    """Compute the logarithm to base 10."""
    exponent, logarithm, rest = _split_logarithm(steps, x)
    factor = steps.bind("factor", steps.number(_LOG10_E))
    form = steps.form
    near = (logarithm + rest) * factor + exponent * steps.number(form.log10_2_low)
    return _extend_to_all_reals(steps, x, exponent * steps.number(form.log10_2_high) + near)


def _split_logarithm(steps: _Computation, x: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Split ``x = 2**k * (1 + f)``, 0.7 < 1 + f < 1.4: return k and two numbers whose sum is log(1 + f)."""
    form = steps.form
    small = x < steps.number(2.0 ** (2 - form.bias))  # TVM cannot bind truth values
    normal = steps.bind("normal", tirx.Select(small, x * steps.number(2.0**form.mantissa), x))
    # After the bits of sqrt(1/2) are subtracted, the exponent's bits end where 1 + f begins.
    root = form.root_half
    bits = steps.bind("bits", steps.bits(normal) - steps.integer(root))
    k = steps.bind("k", bits >> steps.integer(form.mantissa))
    mantissa = bits & steps.integer((1 << form.mantissa) - 1)
    f = steps.bind("f", steps.from_bits(mantissa + steps.integer(root)) - steps.number(1))
    correction = tirx.Select(small, steps.number(-form.mantissa), steps.number(0))
    exponent = steps.bind("exponent", k.astype(form.dtype) + correction)
    square = steps.bind("square", f * f)
    if form is _FLOAT32:
        rest = steps.bind("rest", square * (f * steps.polynomial(form.log, f) - steps.number(0.5)))
        return exponent, f, rest
    s = steps.bind("s", f / (f + steps.number(2)))
    z = steps.bind("z", s * s)
    half = steps.bind("half", square * steps.number(0.5))
    rest = steps.bind("rest", s * (half + z * steps.polynomial(form.log, z)) - half)
    return exponent, f, rest


def _extend_to_all_reals(steps: _Computation, x: PrimExpr, logarithm: PrimExpr) -> PrimExpr:
    """Return a logarithm that is also right elsewhere: -inf at 0, NaN below, inf at infinity."""
    infinity, zero = steps.number(float("inf")), steps.number(0)
    result = steps.bind("found", tirx.Select(x < infinity, logarithm, x))
    result = steps.bind("found", tirx.Select(x > zero, result, steps.number(float("nan"))))
    return tirx.Select(x == zero, steps.number(float("-inf")), result)


def _copy_sign(steps: _Computation, value: PrimExpr, source: PrimExpr) -> PrimExpr:
    """Return a value that is not negative with the sign of ``source``, which may be zero or NaN."""
    sign = steps.bits(source) & steps.integer(-(1 << (steps.form.mantissa + steps.form.exponent)))
    return steps.from_bits(steps.bits(value) | sign)
