"""Build expressions in a floating-point format: bits, polynomials, named intermediate values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tvm import tirx

from nnmagic.engine.relax.tir.builders import dtype_of, is_for_gpu
from nnmagic.engine.relax.tir.types import PrimExpr, Var

_T = TypeVar("_T")

#: What depends on the format, such as the coefficients of a polynomial, by dtype.
ByDtype = Mapping[str, _T]
Coefficients = ByDtype[Sequence[float]]

#: How many coefficients a long polynomial has.
_LONG = 8

LOG2_E = 1.4426950408889634074
LOG10_E = 0.43429448190325182765


@dataclass(frozen=True, slots=True)
class Format:
    """Describe a floating-point format: its bits and its split constants.

    ``round_to_integer`` is 1.5 times the number from which on all floats are integers: adding to it rounds to
    an integer, which the low bits of the sum hold. ``ln2_high`` ends with so many zero bits that its product
    with an exponent is exact; ``half_pi_low`` is what rounding takes from pi / 2.
    """

    dtype: str
    integer: str
    mantissa: int
    exponent: int
    bias: int
    round_to_integer: float
    ln2_high: float
    ln2_low: float
    half_pi: float
    half_pi_low: float


FLOAT32 = Format(
    dtype="float32",
    integer="int32",
    mantissa=23,
    exponent=8,
    bias=127,
    round_to_integer=1.5 * 2**23,
    # 355 / 512, of 9 bits, the constant C1 of Cody and Waite (1980).
    ln2_high=0.693359375,
    ln2_low=-2.12194440054690583e-4,
    half_pi=1.5707963705062866,
    half_pi_low=-4.371138828673793e-08,
)

FLOAT64 = Format(
    dtype="float64",
    integer="int64",
    mantissa=52,
    exponent=11,
    bias=1023,
    round_to_integer=1.5 * 2**52,
    # The constants of fdlibm's e_log.c (Sun Microsystems, 1993): the low 21 bits of the first are
    # 0.
    ln2_high=0.693147180369123816490,
    ln2_low=1.90821492927058770002e-10,
    half_pi=1.5707963267948966,
    half_pi_low=6.123233995736766e-17,
)


class Computation:
    """Build a computation in one format; each intermediate value is bound to a variable once."""

    def __init__(self, form: Format) -> None:
        self.form = form
        self._bindings: list[tuple[Var, PrimExpr]] = []

    def in_format(self, form: Format) -> Computation:
        """Return the same computation, continued in another format."""
        other = Computation(form)
        other._bindings = self._bindings
        return other

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

    def clamp(self, name: str, value: PrimExpr, low: float, high: float) -> PrimExpr:
        """Bind the value, clamped from both sides; NaN stays."""
        return self.bind(name, self.at_least(self.bind(name, self.at_most(value, high)), low))

    def polynomial(self, coefficients: Coefficients, x: PrimExpr, *last: float) -> PrimExpr:
        """Evaluate a polynomial; its coefficients begin with the highest power.

        A long one is the sum of its even and its odd powers, which the CPU computes at the same time, each by
        Horner's rule.

        Args:
            coefficients: by dtype.
            x: the argument.
            last: the coefficients of lower powers, the same for each dtype.

        """
        every = coefficients[self.form.dtype]
        if len(every) < _LONG:
            return self._horner((*every, *last), x)
        # The second-order form of Horner's rule (Knuth, The Art of Computer Programming, vol. 2,
        # section 4.6.4): Horner's rule alone is one chain of multiplications and additions, each of
        # which waits for the one before.
        square = self.bind("square", x * x)
        even = self.bind("even", self._horner(every[-1::-2][::-1], square))
        total = self._horner(every[-2::-2][::-1], square) * x + even
        for coefficient in last:
            total = total * x + self.number(coefficient)
        return total

    def _horner(self, coefficients: Sequence[float], x: PrimExpr) -> PrimExpr:
        total = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            total = total * x + self.number(coefficient)
        return total

    def round_to_bits(self, value: PrimExpr) -> PrimExpr:
        """Return bits that end in the nearest integer; TVM's simplifier would cancel sums of numbers."""
        return self.bits(value + self.number(self.form.round_to_integer))

    def integer_of(self, rounded: PrimExpr) -> PrimExpr:
        """Return the integer in which bits of ``round_to_bits`` end."""
        # Integers of the bits are subtracted and not numbers: the sum lies in one binade, where a
        # step of one in the number is a step of one in the bits.
        return rounded - self.bits(self.number(self.form.round_to_integer))

    def power_of_two(self, rounded: PrimExpr) -> PrimExpr:
        """Return 2 to the integer in which the bits end; the result must not be denormal."""
        form = self.form
        # The shift drops all bits of the sum but the last ones, which are the integer modulo
        # 2**(exponent + 1), so that a negative one needs no case of its own.
        shifted = rounded << self.integer(form.mantissa)
        return self.from_bits(shifted + self.integer(form.bias << form.mantissa))

    def copy_sign(self, value: PrimExpr, source: PrimExpr) -> PrimExpr:
        """Return a value with the sign of ``source``, which may be zero or NaN.

        The value must not be negative, unless ``source`` is.
        """
        # By bits and not by a comparison with 0: -0 is not less than 0, but tanh(-0) is -0.
        sign = self.bits(source) & self.integer(-(1 << (self.form.mantissa + self.form.exponent)))
        return self.from_bits(self.bits(value) | sign)

    def head(self, value: PrimExpr) -> PrimExpr:
        """Bind the first half of a number's digits, rounded towards 0: 26 bits of float64, 12 of float32."""
        rest = self.form.mantissa + 2 >> 1
        return self.bind("head", self.from_bits(self.bits(value) & self.integer(-(1 << rest))))

    def call_library_if(
        self, condition: PrimExpr, name: str, arguments: Sequence[PrimExpr], value: PrimExpr
    ) -> PrimExpr:
        """Return the value, but where a rare condition holds, what a function of the C library returns.

        Vectors stay vectors: ``let_to_buffers`` calls the function for single lanes afterwards.
        """
        dtype = self.form.dtype
        function = name if dtype == "float64" else f"{name}f"
        value = self.bind("value", value)
        return tirx.if_then_else(condition, tirx.call_pure_extern(dtype, function, *arguments), value)


#: What CUDA calls these functions. It has its own for each, to 2 units in the last place for most.
_CUDA_FUNCTIONS = {
    **{name: name for name in ("exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh")},
    **{name: name for name in ("tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc")},
    "expm1": "expm1",
    "fmod": "fmod",
    "power": "pow",
}


def vector_function(compute: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    """Extend a function that computes in float32 or float64 to expressions of any floating-point dtype."""

    @functools.wraps(compute)
    def function(*values: PrimExpr) -> PrimExpr:
        dtype = dtype_of(values[0])
        form = FLOAT64 if dtype == "float64" else FLOAT32
        steps = Computation(form)
        wide = [value if dtype == form.dtype else value.astype(form.dtype) for value in values]
        name = _CUDA_FUNCTIONS.get(compute.__name__)
        if name is not None and is_for_gpu():
            suffix = "" if form is FLOAT64 else "f"
            result = tirx.call_pure_extern(form.dtype, f"{name}{suffix}", *wide)
            return result if dtype == form.dtype else result.astype(dtype)
        result = steps.close(compute(steps, *(steps.bind("x", value) for value in wide)))
        return result if dtype == form.dtype else result.astype(dtype)

    return function
