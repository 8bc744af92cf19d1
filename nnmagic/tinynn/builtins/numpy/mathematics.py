"""NumPy's functions of each element of one tensor: mathematics, signs, rounding, tests.

Of a Python number alone they give a Python number. Integers and bools become the float dtype that NumPy gives
functions of floats (i8 and u8 f16, i16 and u16 f32, others f64).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnmagic.relay.signatures import dtype_short_name
from nnmagic.tinynn.builtins.argument_checks import (
    as_float,
    formula,
    known_int,
    known_number,
    known_or_none,
    python_number,
)
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.operators.arithmetic import unary_named
from nnmagic.tinynn.values.values import Known, RefusalError, TupleOf, Value, source_text


def folded(call: Arguments, twin: str) -> Known | None:
    """What NumPy's function gives for numbers that are known while compiling; None where one is a tensor."""
    given = [python_number(operand.value) for operand in call.given.values()]
    if not all(isinstance(number, bool | int | float) for number in given):
        return None
    with np.errstate(all="ignore"):
        try:
            found = getattr(np, twin)(*given)
        except TypeError:  # not defined for it: so it is for a tensor
            return None
        except (ValueError, OverflowError) as error:
            raise RefusalError(f"{call.name}: {error}", call.span) from None
    return Known(found.item() if isinstance(found, np.generic) else found)


def _of_floats(name: str, summary: str, function: Callable[[Formula], Formula], twin: str = "") -> Builtin:
    """A function of floats; integers are converted as NumPy does."""

    def apply_to(call: Arguments) -> Value:
        known = folded(call, twin or name)
        return known or function(as_float(formula(call, "x"))).value

    return Builtin(name, "x", apply_to, summary, twin or name, "input=x a=x")


def _of_numbers(
    name: str,
    summary: str,
    floats: Callable[[Formula], Formula],
    integers: Callable[[Formula], Formula] | None = None,
    bools: Callable[[Formula], Formula] | None = None,
) -> Builtin:
    """A function that NumPy defines for several kinds; None: it is not defined for that one."""

    def apply_to(call: Arguments) -> Value:
        known = folded(call, "trunc" if name == "fix" else name)  # np.fix is deprecated
        if known is not None:
            return known
        data = formula(call, "x")
        function = floats if data.is_float else integers if data.is_integer else bools
        if function is None:
            hint = f"convert it first, as in {source_text(call.given['x'].span)}.astype(f32)"
            kinds = "numbers" if integers else "floats"
            message = f"{name} is defined for {kinds}, not {dtype_short_name(data.dtype)}"
            raise RefusalError(message, call.given["x"].span, hint=hint)
        return function(data).value

    return Builtin(name, "x", apply_to, summary, name, "input=x a=x")


def _op(name: str) -> Callable[[Formula], Formula]:
    return lambda x: x.op(name)


def _same(x: Formula) -> Formula:
    return x


def _cbrt(x: Formula) -> Formula:
    """The power and one step of Newton's method."""
    size = x.abs()
    near = size ** (1 / 3)
    better = near - (near * near * near - size) / (3 * near * near)
    root = (size.equal(0) | ~near.op("isfinite")).choose(near, better)
    return (x < 0).choose(-root, root)


def expm1(x: Formula) -> Formula:
    """exp(x) - 1 without loss near 0 (W. Kahan): the rounding of exp is undone by its logarithm."""
    grown = x.exp()
    less = grown - 1
    exact = less * x / grown.log()
    plain = grown.equal(1) | less.equal(-1) | ~grown.op("isfinite")
    return plain.choose(grown.equal(1).choose(x, less), exact)


def log1p(x: Formula) -> Formula:
    """log(1 + x) without loss near 0 (W. Kahan): the rounding of the sum is undone by a quotient."""
    more = 1 + x
    plain = more.equal(1) | ~more.op("isfinite")
    return plain.choose(more.equal(1).choose(x, more.log()), more.log() * x / (more - 1))


def rint(x: Formula) -> Formula:
    """The nearest whole number, halves to even."""
    below = x.op("floor")
    rest = x - below
    half = 0.5 * below
    even = half.op("floor").equal(half)
    down = (rest < 0.5) | (rest.equal(0.5) & even)
    return (down | ~x.op("isfinite")).choose(below, below + 1)


_BITS = {"float16": "int16", "bfloat16": "int16", "float32": "int32", "float64": "int64"}


def signbit(x: Formula) -> Formula:
    """Whether the sign's bit is set, also of -0 and NaN."""
    if not x.is_float:
        return x < 0 if x.dtype.startswith("int") else x.differs(x)
    return x.op("reinterpret", dtype=_BITS[x.dtype]) < 0


def with_sign(size: Formula, sign: Formula) -> Formula:
    """A size that is not negative with another number's sign."""
    return signbit(sign).choose(-size, size)


def _sinc(x: Formula) -> Formula:
    angle = x.equal(0).choose(1e-20 if x.dtype != "float16" else 1e-7, x) * math.pi
    return angle.op("sin") / angle


def _reciprocal(call: Arguments) -> Value:
    data = formula(call, "x")
    if not data.is_float:
        message = f"reciprocal of {dtype_short_name(data.dtype)} would be 0 nearly everywhere"
        hint = f"convert it first, as in {source_text(call.given['x'].span)}.astype(f32)"
        raise RefusalError(message, call.given["x"].span, hint=hint)
    return (1 / data).value


def _square(x: Formula) -> Formula:
    return x * x


def _always(x: Formula) -> Formula:
    return x.equal(x)


def _never(x: Formula) -> Formula:
    return x.differs(x)


def _scaled(factor: float) -> Callable[[Formula], Formula]:
    return lambda x: x * factor


def _is(number: float) -> Callable[[Formula], Formula]:
    return lambda x: x.equal(number)


_FLOAT_FUNCTIONS = (
    ("exp", "exp", "e to the power of each element."),
    ("log", "log", "Natural logarithm."),
    ("log2", "log2", "Logarithm to base 2."),
    ("log10", "log10", "Logarithm to base 10."),
    ("sqrt", "sqrt", "Square root."),
    ("sin", "sin", "Sine of radians."),
    ("cos", "cos", "Cosine of radians."),
    ("tan", "tan", "Tangent of radians."),
    ("sinh", "sinh", "Hyperbolic sine."),
    ("cosh", "cosh", "Hyperbolic cosine."),
    ("tanh", "tanh", "Hyperbolic tangent."),
    *((name, operator, "Inverse sine.") for name, operator in (("arcsin", "asin"), ("asin", "asin"))),
    *((name, operator, "Inverse cosine.") for name, operator in (("arccos", "acos"), ("acos", "acos"))),
    *((name, operator, "Inverse tangent.") for name, operator in (("arctan", "atan"), ("atan", "atan"))),
    *((name, "asinh", "Inverse hyperbolic sine.") for name in ("arcsinh", "asinh")),
    *((name, "acosh", "Inverse hyperbolic cosine.") for name in ("arccosh", "acosh")),
    *((name, "atanh", "Inverse hyperbolic tangent.") for name in ("arctanh", "atanh")),
)


_UNARY = (
    *(_of_floats(name, summary, _op(operator)) for name, operator, summary in _FLOAT_FUNCTIONS),
    _of_floats("exp2", "2 to the power of each element.", lambda x: x.like(2) ** x),
    _of_floats("expm1", "exp(x) - 1, exact near 0.", expm1),
    _of_floats("log1p", "log(1 + x), exact near 0.", log1p),
    _of_floats("cbrt", "Cube root.", _cbrt),
    _of_floats("deg2rad", "Degrees as radians.", _scaled(math.pi / 180)),
    _of_floats("radians", "Degrees as radians.", _scaled(math.pi / 180)),
    _of_floats("rad2deg", "Radians as degrees.", _scaled(180 / math.pi)),
    _of_floats("degrees", "Radians as degrees.", _scaled(180 / math.pi)),
    _of_floats("sinc", "sin(pi x) / (pi x).", _sinc),
    _of_numbers("absolute", "Absolute value.", _op("abs"), _op("abs"), _same),
    _of_numbers("abs", "Absolute value.", _op("abs"), _op("abs"), _same),
    _of_numbers("fabs", "Absolute value of floats.", _op("abs"), lambda x: as_float(x).abs()),
    _of_numbers("negative", "Each element with its sign changed.", _op("negative"), _op("negative")),
    _of_numbers("positive", "The tensor itself.", _same, _same),
    _of_numbers("square", "x * x.", _square, _square),
    _of_numbers("sign", "-1, 0 or 1 for negative, zero and positive.", _op("sign"), _op("sign")),
    _of_numbers("rint", "The nearest whole number, halves to even.", rint, lambda x: rint(as_float(x))),
    _of_numbers("floor", "Rounded down.", _op("floor"), _same, _same),
    _of_numbers("ceil", "Rounded up.", _op("ceil"), _same, _same),
    _of_numbers("trunc", "The fraction cut off.", _op("trunc"), _same, _same),
    _of_numbers("fix", "The fraction cut off.", _op("trunc"), _same, _same),
    _of_numbers("isnan", "Whether it is NaN.", _op("isnan"), _never, _never),
    _of_numbers("isinf", "Whether it is infinite.", _op("isinf"), _never, _never),
    _of_numbers("isfinite", "Whether it is neither infinite nor NaN.", _op("isfinite"), _always, _always),
    _of_numbers("isposinf", "Whether it is inf.", _is(math.inf), _never, _never),
    _of_numbers("isneginf", "Whether it is -inf.", _is(-math.inf), _never, _never),
    _of_numbers("signbit", "Whether the sign's bit is set.", signbit, signbit),
    _of_numbers("logical_not", "Whether it is false, or 0.", *[lambda x: ~x.truth()] * 3),
    Builtin("reciprocal", "x", _reciprocal, "1 / x, of floats.", "reciprocal"),
)


def _inverted(call: Arguments) -> Value:
    return unary_named("invert", call.name, call.given["x"], call.span)


def _round(call: Arguments) -> Value:
    """To a number of decimals, as NumPy: scaled by a power of ten, rounded, scaled back."""
    decimals = known_int(call, "decimals", 0)
    if abs(decimals) > 300:  # 10 ** decimals would be no float, or compute for hours
        raise RefusalError(f"{call.name}: a float has no {decimals} decimals", call.given["decimals"].span)
    number = known_or_none(call.given["a"].value)
    if isinstance(number, int | float):
        try:
            return Known(round(number, decimals) if "decimals" in call else round(number))
        except (ValueError, OverflowError) as error:
            raise RefusalError(f"round: {error}", call.given["a"].span) from None
    data = formula(call, "a")
    if data.dtype == "bool":
        hint = f"convert it first, as in {source_text(call.given['a'].span)}.astype(i32)"
        raise RefusalError("round is defined for numbers, not bool_", call.given["a"].span, hint=hint)
    if not data.is_float:
        return data.value if decimals >= 0 else _round_integers(data, 10**-decimals).value
    if decimals == 0:
        return rint(data).value
    scale = float(10 ** abs(decimals))
    if decimals > 0:
        return (rint(data * scale) / scale).value
    return (rint(data / scale) * scale).value


def _round_integers(data: Formula, unit: int) -> Formula:
    wide = data.cast("float64")
    return (rint(wide / float(unit)) * float(unit)).cast(data.dtype)


def _nan_to_num(call: Arguments) -> Value:
    data = formula(call, "x")
    if not data.is_float:
        return data.value
    limits = np.finfo({"bfloat16": "float32"}.get(data.dtype, data.dtype))
    largest = {"bfloat16": 3.3895313892515355e38}.get(data.dtype, float(limits.max))
    result = data.op("isnan").choose(known_number(call, "nan", 0.0), data)
    result = data.equal(math.inf).choose(known_number(call, "posinf", largest), result)
    return data.equal(-math.inf).choose(known_number(call, "neginf", -largest), result).value


def _modf(call: Arguments) -> Value:
    data = as_float(formula(call, "x"))
    whole = data.op("trunc")
    rest = data.op("isinf").choose(0, data - whole)
    return TupleOf((with_sign(rest.abs(), data).value, whole.value))


MATHEMATICS = (
    *_UNARY,
    Builtin("invert", "x", _inverted, "~x.", "invert"),
    Builtin("bitwise_not", "x", _inverted, "~x.", "bitwise_not"),
    Builtin("bitwise_invert", "x", _inverted, "~x.", "bitwise_invert"),
    Builtin(
        "round", "a decimals?", _round, "Rounded to decimals, halves to even.", "round", "ndigits=decimals"
    ),
    Builtin("around", "a decimals?", _round, "Rounded to decimals, halves to even.", "around"),
    Builtin(
        "nan_to_num",
        "x copy? nan? posinf? neginf?",
        _nan_to_num,
        "NaN and infinities as numbers.",
        "nan_to_num",
    ),
    Builtin("modf", "x", _modf, "Fraction and whole part.", "modf"),
)
