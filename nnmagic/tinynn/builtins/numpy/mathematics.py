"""Define NumPy's element-wise functions of one tensor: mathematics, signs, rounding, tests.

A Python number gives a Python number. Integers and bools become the float dtype that NumPy chooses for
functions of floats: f16 for i8 and u8, f32 for i16 and u16, f64 for the others.

NumPy's reference: https://numpy.org/doc/stable/reference/routines.math.html
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnmagic.relay.functions.special import round_decimals
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, numpy_function
from nnmagic.tinynn.operators.arithmetic import unary_by_name
from nnmagic.tinynn.values.descriptions import source_text
from nnmagic.tinynn.values.values import Known, RefusalError, TupleOf, Value


def fold_numbers(call: Arguments, twin: str) -> Known | None:
    """Apply NumPy's function to numbers at compile time; return None if one of them is a tensor."""
    numbers = [args.python_number(operand.value) for operand in call.given.values()]
    if not all(isinstance(number, bool | int | float | complex) for number in numbers):
        return None
    with np.errstate(all="ignore"):
        try:
            result = getattr(np, twin)(*numbers)
        except TypeError:  # not defined for this kind of number, nor for its tensor
            return None
        except (ValueError, OverflowError) as error:
            raise RefusalError(f"{call.name}: {error}", call.span) from None
    return Known(result.item() if isinstance(result, np.generic) else result)


def float_function(name: str, summary: str, function: Callable[[Formula], Formula]) -> Builtin:
    """Declare a function of floats; integers are converted as NumPy does."""

    def apply_to(call: Arguments) -> Value:
        return fold_numbers(call, name) or function(args.as_float(args.formula(call, "x"))).value

    return numpy_function(name, "x", apply_to, summary, "input=x a=x")


def _number_function(
    name: str,
    summary: str,
    floats: Callable[[Formula], Formula],
    integers: Callable[[Formula], Formula] | None = None,
    bools: Callable[[Formula], Formula] | None = None,
) -> Builtin:
    """Declare a function with one version per kind of number; None means that NumPy does not define it."""

    def apply_to(call: Arguments) -> Value:
        number = fold_numbers(call, "trunc" if name == "fix" else name)  # np.fix is deprecated
        if number is not None:
            return number
        data = args.formula(call, "x")
        function = floats if data.is_float or data.is_complex else integers if data.is_integer else bools
        if function is None:
            hint = f"convert it first, as in {source_text(call.at('x'))}.astype(f32)"
            kinds = "numbers" if integers else "floats"
            message = f"{name} is defined for {kinds}, not {dtype_short_name(data.dtype)}"
            raise RefusalError(message, call.at("x"), hint=hint)
        return function(data).value

    return numpy_function(name, "x", apply_to, summary, "input=x a=x")


def _op(name: str) -> Callable[[Formula], Formula]:
    return lambda x: x.op(name)


def _same(x: Formula) -> Formula:
    return x


def signbit(x: Formula) -> Formula:
    """Return whether the sign bit is set, also for -0 and NaN."""
    if not x.is_float:
        return x < 0 if x.dtype.startswith("int") else x.differs(x)
    return x.op("numpy.signbit")


def _sinc(x: Formula) -> Formula:
    angle = x.equal(0).choose(1e-20 if x.dtype != "float16" else 1e-7, x) * math.pi
    return angle.op("sin") / angle


def _wide_sinc(x: Formula) -> Formula:
    return _sinc(x.cast("float64"))


def _reciprocal(call: Arguments) -> Value:
    data = args.formula(call, "x")
    if not data.is_float and not data.is_complex:
        message = f"reciprocal of {dtype_short_name(data.dtype)} would be 0 nearly everywhere"
        hint = f"convert it first, as in {source_text(call.at('x'))}.astype(f32)"
        raise RefusalError(message, call.at("x"), hint=hint)
    return (1 / data).value


def _square(x: Formula) -> Formula:
    return x * x


def _always(x: Formula) -> Formula:
    return x.equal(x)


def _never(x: Formula) -> Formula:
    return x.differs(x)


def _scale_by(factor: float) -> Callable[[Formula], Formula]:
    return lambda x: x * factor


def _is(number: float) -> Callable[[Formula], Formula]:
    return lambda x: x.equal(number)


_FLOAT_FUNCTIONS = (
    ("exp", "exp", "Compute e to the power of each element."),
    ("log", "log", "Compute the natural logarithm."),
    ("log2", "log2", "Compute the logarithm to base 2."),
    ("log10", "log10", "Compute the logarithm to base 10."),
    ("sqrt", "sqrt", "Compute the square root."),
    ("sin", "sin", "Compute the sine of angles in radians."),
    ("cos", "cos", "Compute the cosine of angles in radians."),
    ("tan", "tan", "Compute the tangent of angles in radians."),
    ("sinh", "sinh", "Compute the hyperbolic sine."),
    ("cosh", "cosh", "Compute the hyperbolic cosine."),
    ("tanh", "tanh", "Compute the hyperbolic tangent."),
    *((name, "asin", "Compute the inverse sine, in radians.") for name in ("arcsin", "asin")),
    *((name, "acos", "Compute the inverse cosine, in radians.") for name in ("arccos", "acos")),
    *((name, "atan", "Compute the inverse tangent, in radians.") for name in ("arctan", "atan")),
    *((name, "asinh", "Compute the inverse hyperbolic sine.") for name in ("arcsinh", "asinh")),
    *((name, "acosh", "Compute the inverse hyperbolic cosine.") for name in ("arccosh", "acosh")),
    *((name, "atanh", "Compute the inverse hyperbolic tangent.") for name in ("arctanh", "atanh")),
)

_UNARY = (
    *(float_function(name, summary, _op(operator)) for name, operator, summary in _FLOAT_FUNCTIONS),
    float_function("exp2", "Compute 2 to the power of each element.", lambda x: x.like(2) ** x),
    float_function("cbrt", "Compute the cube root.", _op("numpy.cbrt")),
    float_function("deg2rad", "Convert degrees to radians.", _scale_by(math.pi / 180)),
    float_function("radians", "Convert degrees to radians.", _scale_by(math.pi / 180)),
    float_function("rad2deg", "Convert radians to degrees.", _scale_by(180 / math.pi)),
    float_function("degrees", "Convert radians to degrees.", _scale_by(180 / math.pi)),
    _number_function("sinc", "Compute sin(pi x) / (pi x); f64 for integers.", _sinc, _wide_sinc, _wide_sinc),
    _number_function("absolute", "Compute the absolute value.", Formula.abs, _op("abs"), _same),
    _number_function("abs", "Compute the absolute value.", Formula.abs, _op("abs"), _same),
    _number_function(
        "fabs",
        "Compute the absolute value; integers are converted to floats.",
        _op("abs"),
        lambda x: args.as_float(x).abs(),
    ),
    _number_function("negative", "Change the sign of each element.", _op("negative"), _op("negative")),
    _number_function("positive", "Return the tensor itself.", _same, _same),
    _number_function("square", "Compute x * x.", _square, _square),
    _number_function(
        "sign", "Return -1, 0 or 1 for negative, zero or positive elements.", _op("sign"), _op("sign")
    ),
    _number_function(
        "rint",
        "Round to the nearest integer, halves to even.",
        _op("numpy.rint"),
        lambda x: args.as_float(x).op("numpy.rint"),
    ),
    _number_function("floor", "Round down.", _op("floor"), _same, _same),
    _number_function("ceil", "Round up.", _op("ceil"), _same, _same),
    _number_function("trunc", "Round towards zero.", _op("trunc"), _same, _same),
    _number_function("fix", "Round towards zero.", _op("trunc"), _same, _same),
    _number_function("isnan", "Test for NaN.", _op("isnan"), _never, _never),
    _number_function("isinf", "Test for infinity of either sign.", _op("isinf"), _never, _never),
    _number_function(
        "isfinite", "Test for finite numbers: neither infinite nor NaN.", _op("isfinite"), _always, _always
    ),
    _number_function("isposinf", "Test for inf.", _is(math.inf), _never, _never),
    _number_function("isneginf", "Test for -inf.", _is(-math.inf), _never, _never),
    _number_function("signbit", "Test whether the sign bit is set.", signbit, signbit),
    _number_function(
        "logical_not", "Test whether each element is false (zero).", *[lambda x: ~x.truth()] * 3
    ),
    numpy_function("reciprocal", "x", _reciprocal, "Compute 1 / x, for floats."),
)


def _invert(call: Arguments) -> Value:
    return unary_by_name("invert", call.name, call.given["x"], call.span)


def _round(call: Arguments) -> Value:
    """Round to a number of decimals as NumPy does: scale by a power of ten, round, scale back."""
    decimals = args.static_int(call, "decimals", 0)
    if abs(decimals) > 300:  # 10 ** decimals would exceed a float, or take hours
        raise call.refusal("decimals", f"a float has no {decimals} decimals")
    number = args.static_value_or_none(call.given["a"].value)
    if isinstance(number, int | float):
        try:
            return Known(round(number, decimals) if "decimals" in call else round(number))
        except (ValueError, OverflowError) as error:
            raise RefusalError(f"round: {error}", call.at("a")) from None
    data = args.formula(call, "a")
    if data.dtype == "bool":
        hint = f"convert it first, as in {source_text(call.at('a'))}.astype(i32)"
        raise RefusalError("round is defined for numbers, not bool_", call.at("a"), hint=hint)
    if not data.is_float:
        return data.value if decimals >= 0 else _round_integers(data, 10**-decimals).value
    return round_decimals(data, decimals).value


def _round_integers(data: Formula, unit: int) -> Formula:
    """Round to multiples of a unit in float64, as NumPy does; unsigned results wrap around."""
    rounded = (data.cast("float64") / float(unit)).op("numpy.rint") * float(unit)
    if data.dtype.startswith("uint"):  # a float beyond their range has no defined value in them
        range_ = 2.0 ** int(data.dtype.removeprefix("uint"))
        rounded = (rounded >= range_).choose(rounded - range_, rounded)
    return rounded.cast(data.dtype)


def _nan_to_num(call: Arguments) -> Value:
    data = args.formula(call, "x")
    if not args.flag(call, "copy", default=True):
        hint = "leave it out, and assign the result"
        raise RefusalError(f"{call.name} makes a new array", call.at("copy"), hint=hint)
    if not data.is_float:
        return data.value
    limits = np.finfo({"bfloat16": "float32"}.get(data.dtype, data.dtype))
    largest = {"bfloat16": 3.3895313892515355e38}.get(data.dtype, float(limits.max))
    result = data.op("isnan").choose(args.static_number(call, "nan", 0.0), data)
    result = data.equal(math.inf).choose(args.static_number(call, "posinf", largest), result)
    return data.equal(-math.inf).choose(args.static_number(call, "neginf", -largest), result).value


def _modf(call: Arguments) -> Value:
    data = args.as_float(args.formula(call, "x"))
    integral = data.op("trunc")
    fraction = data.op("isinf").choose(0, data - integral)
    return TupleOf((fraction.op("numpy.copysign", data).value, integral.value))


MATHEMATICS = (
    *_UNARY,
    numpy_function("invert", "x", _invert, "Compute ~x."),
    numpy_function("bitwise_not", "x", _invert, "Compute ~x."),
    numpy_function("bitwise_invert", "x", _invert, "Compute ~x."),
    numpy_function(
        "round",
        "a decimals?",
        _round,
        "Round to the given number of decimals, halves to even.",
        "ndigits=decimals",
    ),
    numpy_function("around", "a decimals?", _round, "Round to the given number of decimals, halves to even."),
    numpy_function(
        "nan_to_num", "x copy? nan? posinf? neginf?", _nan_to_num, "Replace NaN and infinities by numbers."
    ),
    numpy_function("modf", "x", _modf, "Return the fractional and integral parts."),
)
