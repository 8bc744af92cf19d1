"""Declare element-wise operators of one tensor.

Relay's Identity rule checks nothing, so these do not either, but for preconditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import DTYPE, FLOAT, INT
from nnmagic.relay.ops.declaration import Attr, Elements, Family, RelationError, Trait
from nnmagic.relay.ops.relations import identity, identity_compare, tensor
from nnmagic.relay.types import TensorType, Type

declare = Family("unary", Trait.SPECULATABLE).declare

#: The highest derivative of the digamma function, whose coefficients floats hold.
MAX_ORDER = 20

# Name, NumPy twin, summary.
_OF_FLOATS = (
    ("acos", "arccos", "Inverse cosine, in radians."),
    ("acosh", "arccosh", "Inverse hyperbolic cosine."),
    ("asin", "arcsin", "Inverse sine, in radians."),
    ("asinh", "arcsinh", "Inverse hyperbolic sine."),
    ("atan", "arctan", "Inverse tangent, in radians."),
    ("atanh", "arctanh", "Inverse hyperbolic tangent."),
    ("cos", "cos", "Cosine of radians."),
    ("cosh", "cosh", "Hyperbolic cosine."),
    ("erf", None, "Gauss error function."),
    ("exp", "exp", "e to the power of each element."),
    ("fast_exp", "exp", "e to the power of each element, approximated by a polynomial."),
    ("fast_tanh", "tanh", "Hyperbolic tangent, approximated by a rational function."),
    ("log", "log", "Natural logarithm."),
    ("log10", "log10", "Logarithm to base 10."),
    ("log2", "log2", "Logarithm to base 2."),
    ("rsqrt", None, "One divided by the square root."),
    ("sigmoid", None, "Logistic function 1 / (1 + exp(-x))."),
    ("sin", "sin", "Sine of radians."),
    ("sinh", "sinh", "Hyperbolic sine."),
    ("sqrt", "sqrt", "Square root."),
    ("tan", "tan", "Tangent of radians."),
    ("tanh", "tanh", "Hyperbolic tangent."),
)
_PLAIN = (
    ("abs", "abs", "Absolute value, element by element."),
    ("bitwise_not", "bitwise_not", "Every bit of an integer inverted."),
    ("ceil", "ceil", "Each element rounded up."),
    ("floor", "floor", "Each element rounded down."),
    ("logical_not", "logical_not", "Whether each element is false."),
    ("negative", "negative", "Each element with its sign changed."),
    ("round", None, "Each element rounded to the nearest integer, halves away from zero."),
    ("sign", "sign", "-1, 0 or 1 for negative, zero and positive elements."),
    ("trunc", "trunc", "Each element with its fraction cut off."),
)
_ELEMENTS: dict[str, Elements] = {
    "bitwise_not": "integers or bools",
    "logical_not": "bools",
    "negative": "numbers",
}
# Those that real Relay lacks; `passes/expand_operators` says what they stand for in it.
_KERNELS = ("numpy.expm1", "numpy.rint", "special.erfc")
_BEYOND_RELAY = (
    ("numpy.cbrt", "cbrt", "Cube root."),
    ("numpy.expm1", "expm1", "e to the power of each element, minus 1, accurate near 0."),
    ("numpy.log1p", "log1p", "Natural logarithm of one plus each element, accurate near 0."),
    ("numpy.rint", "rint", "Each element rounded to the nearest integer, halves to even."),
    ("special.erfc", None, "One minus the Gauss error function, without cancellation."),
    ("special.erfcinv", None, "Inverse of one minus the Gauss error function."),
    ("special.erfinv", None, "Inverse of the Gauss error function."),
    ("special.gamma", None, "Gamma function."),
    ("special.gammaln", None, "Logarithm of the absolute value of the gamma function."),
    ("special.i0", "i0", "Modified Bessel function of order 0."),
    ("special.i0e", None, "Modified Bessel function of order 0, times exp(-abs(x))."),
    ("special.i1", None, "Modified Bessel function of order 1."),
    ("special.i1e", None, "Modified Bessel function of order 1, times exp(-abs(x))."),
    ("special.log_ndtr", None, "Logarithm of the share of the normal distribution below each element."),
    ("special.ndtri", None, "Number below which a share of the normal distribution lies."),
)
_TESTS = (
    ("isfinite", "Whether each element is neither infinite nor NaN."),
    ("isinf", "Whether each element is infinite."),
    ("isnan", "Whether each element is NaN."),
    ("numpy.signbit", "Whether the sign bit of each float is set, also of -0 and NaN."),
)


def _check_order(_types: Sequence[Type], attrs: Attrs) -> None:
    if not 0 <= cast(int, attrs["n"]) <= MAX_ORDER:
        raise RelationError(f"the order must be from 0 to {MAX_ORDER}, not {attrs['n']}", attr="n")


for _name, _twin, _summary in (*_OF_FLOATS, *_PLAIN, *_BEYOND_RELAY):
    declare(
        f"{_name}(data)",
        identity,
        _summary,
        numpy=_twin and f"numpy.{_twin}",
        traits=Trait.CHECKS_SIZES | (Trait.KERNEL if _name in _KERNELS else Trait.NONE),
        elements=_ELEMENTS.get(_name, "any") if (_name, _twin, _summary) in _PLAIN else "floats",
    )
declare(
    "special.polygamma(data)",
    identity,
    "Derivative of order n of the digamma function.",
    Attr("n", INT, 0),
    elements="floats",
    preconditions=[_check_order],
)
declare(
    "copy(data)",
    identity,
    "The same tensor in memory of its own.",
    numpy="numpy.copy",
    traits=Trait.MOVES | Trait.CHECKS_SIZES,
)
for _name, _summary in _TESTS:
    declare(
        f"{_name}(data)",
        identity_compare,
        _summary,
        numpy=f"numpy.{_name.removeprefix('numpy.')}",
        traits=Trait.CHECKS_SIZES,
    )


def _cast(types: Sequence[Type], attrs: Attrs) -> TensorType:
    return TensorType(tensor(types).shape, str(attrs["dtype"]))


declare(
    "cast(data)",
    _cast,
    "Each element converted to another dtype.",
    Attr("dtype", DTYPE),
    numpy="numpy.ndarray.astype",
    traits=Trait.MOVES | Trait.CHECKS_SIZES,
)
declare(
    "cast_like(data, dtype_like)",
    lambda types, _attrs: TensorType(tensor(types).shape, tensor(types, 1).dtype),
    "Each element converted to the dtype of another tensor.",
    traits=Trait.CHECKS_SIZES,
)
declare(
    "reinterpret(data)",
    _cast,
    "The bits of each element read as another dtype of the same width.",
    Attr("dtype", DTYPE),
    attrs_key="CastAttrs",
    numpy="numpy.ndarray.view",
    traits=Trait.VIEW,
)
declare(
    "clip(data)",
    identity,
    "Each element limited to the range from a_min to a_max.",
    Attr("a_min", FLOAT),
    Attr("a_max", FLOAT),
    keywords={"a": "data"},
    numpy="numpy.clip",
    traits=Trait.CHECKS_SIZES,
    elements="numbers",
)


def _check_fixed_point(_types: Sequence[Type], attrs: Attrs) -> None:
    multiplier, shift = cast(int, attrs["multiplier"]), cast(int, attrs["shift"])
    if not -(2**31) <= multiplier < 2**31:
        raise RelationError(f"multiplier must be of 32 bits, not {multiplier}", attr="multiplier")
    if not -31 <= shift <= 31:
        raise RelationError(f"shift must be from -31 to 31, not {shift}", attr="shift")


declare(
    "fixed_point_multiply(data)",
    identity,
    "Product with multiplier * 2**(shift - 31) in integer arithmetic, rounded.",
    Attr("multiplier", INT),
    Attr("shift", INT),
    traits=Trait.CHECKS_SIZES,
    preconditions=[_check_fixed_point],
)
