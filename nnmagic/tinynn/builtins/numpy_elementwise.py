"""NumPy's functions of each element: mathematics, rounding, comparison, logic, bits.

Of Python numbers alone they give a Python number. Integers and bools become the float dtype that NumPy gives
functions of floats (i8 and u8 f16, i16 and u16 f32, others f64).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnmagic.tinynn.annotations import dtype_short_name
from nnmagic.tinynn.arithmetic import NAMED, binary, unary_named
from nnmagic.tinynn.binding import Arguments, Builtin
from nnmagic.tinynn.builtins.formula import Formula
from nnmagic.tinynn.builtins.operands import (
    as_float,
    flag,
    float_pair,
    formula,
    known_int,
    known_number,
    known_or_none,
    pair,
)
from nnmagic.tinynn.emit import is_tensor
from nnmagic.tinynn.values import Known, Operand, Refusal, TupleOf, Value, number_constant

# -- one tensor ----------------------------------------------------------------------------------------


def _folded(call: Arguments, twin: str) -> Known | None:
    """What NumPy's function gives for numbers that are known while compiling; None where one is a tensor."""
    given = [known_or_none(operand.value) for operand in call.given.values()]
    if not all(isinstance(number, bool | int | float) for number in given):
        return None
    with np.errstate(all="ignore"):
        try:
            found = getattr(np, twin)(*given)
        except (TypeError, ValueError, OverflowError) as error:
            raise Refusal(f"{call.name}: {error}", call.span) from None
    return Known(found.item() if isinstance(found, np.generic) else found)


def _of_floats(name: str, summary: str, function: Callable[[Formula], Formula], twin: str = "") -> Builtin:
    """A function of floats; integers are converted as NumPy does."""

    def apply_to(call: Arguments) -> Value:
        known = _folded(call, twin or name)
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
        known = _folded(call, name)
        if known is not None:
            return known
        data = formula(call, "x")
        function = floats if data.is_float else integers if data.is_integer else bools
        if function is None:
            hint = "convert it first, as in x.astype(f32)"
            kinds = "numbers" if integers else "floats"
            message = f"{name} is defined for {kinds}, not {dtype_short_name(data.dtype)}"
            raise Refusal(message, call.given["x"].span, hint=hint)
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


def _with_sign(size: Formula, sign: Formula) -> Formula:
    """A size that is not negative with another number's sign."""
    return signbit(sign).choose(-size, size)


def _sinc(x: Formula) -> Formula:
    angle = x.equal(0).choose(1e-20 if x.dtype != "float16" else 1e-7, x) * math.pi
    return angle.op("sin") / angle


def _reciprocal(call: Arguments) -> Value:
    data = formula(call, "x")
    if not data.is_float:
        message = f"reciprocal of {dtype_short_name(data.dtype)} would be 0 nearly everywhere"
        raise Refusal(message, call.given["x"].span, hint="convert it first, as in x.astype(f32)")
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
    number = known_or_none(call.given["a"].value)
    if isinstance(number, int | float):
        return Known(round(number, decimals) if "decimals" in call else round(number))
    data = formula(call, "a")
    if data.dtype == "bool":
        hint = "convert it first, as in x.astype(i32)"
        raise Refusal("round is defined for numbers, not bool_", call.given["a"].span, hint=hint)
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


#: Relay holds the bounds of clip as doubles, which tell whole numbers apart up to here.
_EXACT = 2**53


def _clip(call: Arguments) -> Value:
    """A bound may be None; a number must be one that the dtype can hold; a tensor has the data's dtype."""
    data = formula(call, "a")
    bounds: dict[str, Formula] = {}
    numbers: dict[str, bool | int | float] = {}
    for name in ("a_min", "a_max"):
        if name not in call:
            continue
        operand = call.given[name]
        known = known_or_none(operand.value)
        if isinstance(known, bool | int | float):
            numbers[name] = known
            bounds[name] = Formula(number_constant(known, data.dtype, operand.span), call.span)
        elif is_tensor(operand.value):
            inner = Arguments(call.name, {"a": call.given["a"], name: operand}, call.span)
            data, bounds[name] = pair(inner, "a", name)
        else:
            from nnmagic.tinynn.values import described

            message = f"clip: `{name}` must be a number or a tensor, not {described(operand.value)}"
            raise Refusal(message, operand.span)
    if not bounds:
        raise Refusal("clip needs a bound", call.span, hint="write clip(x, a_min, a_max); one may be None")
    if len(numbers) == 2 and all(abs(number) <= _EXACT for number in numbers.values()):
        return data.op("clip", **numbers).value
    for name, operator in (("a_min", "maximum"), ("a_max", "minimum")):
        if name in bounds:
            data = data.op(operator, bounds[name])
    return data.value


# -- two tensors ---------------------------------------------------------------------------------------


def _operation(name: str, summary: str, operation: str) -> Builtin:
    """An operator of Python by NumPy's name."""

    def apply_to(call: Arguments) -> Value:
        left, right = (_constant_list(call, name) for name in ("x1", "x2"))
        return binary(NAMED[operation], call.name, left, right, call.span)

    return Builtin(name, "x1 x2", apply_to, summary, name, "lhs=x1 rhs=x2 input=x1 other=x2")


def _constant_list(call: Arguments, name: str) -> Operand:
    """Numbers in brackets are a tensor where arithmetic is meant."""
    operand = call.given[name]
    if isinstance(operand.value, TupleOf) and isinstance(known_or_none(operand.value), tuple):
        return Operand(formula(call, name).value, operand.span)
    return operand


_OPERATIONS = (
    ("add", "add", "x1 + x2."),
    ("subtract", "subtract", "x1 - x2."),
    ("multiply", "multiply", "x1 * x2."),
    ("divide", "divide", "x1 / x2; f64 of integers and bools."),
    ("true_divide", "divide", "x1 / x2; f64 of integers and bools."),
    ("floor_divide", "floor_divide", "x1 // x2, rounded down."),
    ("mod", "mod", "x1 % x2, with the sign of x2."),
    ("remainder", "mod", "x1 % x2, with the sign of x2."),
    ("power", "power", "x1 ** x2."),
    ("pow", "power", "x1 ** x2."),
    ("equal", "equal", "x1 == x2."),
    ("not_equal", "not_equal", "x1 != x2."),
    ("less", "less", "x1 < x2."),
    ("less_equal", "less_equal", "x1 <= x2."),
    ("greater", "greater", "x1 > x2."),
    ("greater_equal", "greater_equal", "x1 >= x2."),
    ("bitwise_and", "bitwise_and", "x1 & x2."),
    ("bitwise_or", "bitwise_or", "x1 | x2."),
    ("bitwise_xor", "bitwise_xor", "x1 ^ x2."),
    ("left_shift", "left_shift", "x1 << x2."),
    ("right_shift", "right_shift", "x1 >> x2."),
    ("bitwise_left_shift", "left_shift", "x1 << x2."),
    ("bitwise_right_shift", "right_shift", "x1 >> x2."),
)


def _of_two(
    name: str, summary: str, function: Callable[[Formula, Formula], Formula], *, floats: bool = False
) -> Builtin:
    """A function of two tensors of one dtype that broadcast; ``floats``: integers are converted."""

    def apply_to(call: Arguments) -> Value:
        known = _folded(call, name)
        if known is not None:
            return known
        one, other = (float_pair if floats else pair)(call, "x1", "x2")
        return function(one, other).value

    return Builtin(name, "x1 x2", apply_to, summary, name, "lhs=x1 rhs=x2 input=x1 other=x2")


def _logical(name: str, summary: str) -> Builtin:
    """Each side may have its own dtype: what counts is whether it is 0."""

    def apply_to(call: Arguments) -> Value:
        known = _folded(call, name)
        if known is not None:
            return known
        one, other = (formula(call, parameter).truth() for parameter in ("x1", "x2"))
        return one.op(name, other).value

    return Builtin(name, "x1 x2", apply_to, summary, name, "lhs=x1 rhs=x2")


def _ignoring_nan(operator: str) -> Callable[[Formula, Formula], Formula]:
    def function(one: Formula, other: Formula) -> Formula:
        chosen = one.op(operator, other)
        if not one.is_float:
            return chosen
        return one.op("isnan").choose(other, other.op("isnan").choose(one, chosen))

    return function


def _fmod(one: Formula, other: Formula) -> Formula:
    return one.op("trunc_mod", other)


def _hypot(one: Formula, other: Formula) -> Formula:
    """The larger side before the root, so that squares cannot overflow."""
    a, b = one.abs(), other.abs()
    large, small = a.op("maximum", b), a.op("minimum", b)
    ratio = (large.equal(0) | large.equal(math.inf)).choose(0, small / large)
    length = large * (1 + ratio * ratio).sqrt()
    return (a.equal(math.inf) | b.equal(math.inf)).choose(math.inf, length)


def _arctan2(y: Formula, x: Formula) -> Formula:
    """The angle of the first quadrant, then the quadrant from both signs, those of 0 too."""
    a, b = y.abs(), x.abs()
    both = a.equal(math.inf) & b.equal(math.inf)
    ratio = both.choose(1, (a.equal(0) & b.equal(0)).choose(0, a / b))
    angle = ratio.op("atan")
    return _with_sign(signbit(x).choose(math.pi - angle, angle), y)


def logaddexp(one: Formula, other: Formula) -> Formula:
    """log(exp(a) + exp(b)) from the larger one on; equal ones, infinite too, have no difference."""
    large = one.op("maximum", other)
    gap = one.equal(other).choose(0, one - other)
    return large + log1p((-gap.abs()).exp())


def _logaddexp2(one: Formula, other: Formula) -> Formula:
    return logaddexp(one * math.log(2), other * math.log(2)) / math.log(2)


def _heaviside(one: Formula, other: Formula) -> Formula:
    step = (one > 0).choose(1, (one < 0).choose(0, one))
    return one.equal(0).choose(other, step)


def _same_number(one: Formula, other: Formula) -> Formula:
    """Where both are equal; NaN never is, also of a tensor beside itself."""
    same = one.equal(other)
    return same & ~one.op("isnan") if one.is_float else same


def _closeness(call: Arguments) -> Formula:
    one, other = pair(call, "a", "b")
    if not one.is_float:
        one, other = one.cast("float64"), other.cast("float64")
    rtol, atol = known_number(call, "rtol", 1e-5), known_number(call, "atol", 1e-8)
    near = (one - other).abs() <= (atol + rtol * other.abs())
    close = (near & other.op("isfinite")) | _same_number(one, other)
    if flag(call, "equal_nan"):
        close = close | (one.op("isnan") & other.op("isnan"))
    return close


def _array_equal(call: Arguments) -> Value:
    one, other = pair(call, "a1", "a2")
    from nnmagic.tinynn.strict import dims_differ

    if one.rank != other.rank or any(map(dims_differ, one.shape, other.shape)):
        return Known(value=False)
    same = _same_number(one, other)
    if flag(call, "equal_nan") and one.is_float:
        same = same | (one.op("isnan") & other.op("isnan"))
    return same.op("all").value


def _where(call: Arguments) -> Value:
    condition = formula(call, "condition").truth()
    if "x" not in call and "y" not in call:
        from nnmagic.tinynn.builtins.numpy_indexing import nonzero

        return nonzero(condition)
    if "x" not in call or "y" not in call:
        hint = "it is called as where(condition, x, y)"
        raise Refusal("where takes both x and y, or neither", call.span, hint=hint)
    one, other = pair(call, "x", "y")
    from nnmagic.relay.ops import OPERATORS
    from nnmagic.tinynn.emit import call_operator

    operands = [
        Operand(condition.value, call.given["condition"].span),
        Operand(one.value, call.given["x"].span),
        Operand(other.value, call.given["y"].span),
    ]
    return call_operator(OPERATORS["where"], operands, {}, call.span)


def _divmod(call: Arguments) -> Value:
    left, right = (_constant_list(call, name) for name in ("x1", "x2"))
    return TupleOf(
        tuple(binary(NAMED[name], call.name, left, right, call.span) for name in ("floor_divide", "mod"))
    )


def _modf(call: Arguments) -> Value:
    data = as_float(formula(call, "x"))
    whole = data.op("trunc")
    rest = data.op("isinf").choose(0, data - whole)
    return TupleOf((_with_sign(rest.abs(), data).value, whole.value))


_BINARY = (
    *(_operation(name, summary, operation) for name, operation, summary in _OPERATIONS),
    _of_two("maximum", "The larger of two; NaN where either is.", lambda a, b: a.op("maximum", b)),
    _of_two("minimum", "The smaller of two; NaN where either is.", lambda a, b: a.op("minimum", b)),
    _of_two("fmax", "The larger of two; NaN where both are.", _ignoring_nan("maximum")),
    _of_two("fmin", "The smaller of two; NaN where both are.", _ignoring_nan("minimum")),
    _of_two("fmod", "The remainder with the sign of x1.", _fmod),
    _of_two("hypot", "sqrt(x1 ** 2 + x2 ** 2) without overflow.", _hypot, floats=True),
    _of_two("arctan2", "The angle of the point (x2, x1).", _arctan2, floats=True),
    _of_two("atan2", "The angle of the point (x2, x1).", _arctan2, floats=True),
    _of_two("logaddexp", "log(exp(x1) + exp(x2)) without overflow.", logaddexp, floats=True),
    _of_two("logaddexp2", "log2(2 ** x1 + 2 ** x2) without overflow.", _logaddexp2, floats=True),
    _of_two("copysign", "x1 with the sign of x2.", lambda a, b: _with_sign(a.abs(), b), floats=True),
    _of_two("heaviside", "0, x2 or 1 for negative, zero and positive x1.", _heaviside, floats=True),
    _logical("logical_and", "Whether both are true, or not 0."),
    _logical("logical_or", "Whether either is true, or not 0."),
    _logical("logical_xor", "Whether exactly one is true, or not 0."),
)

ELEMENTWISE = (
    *_UNARY,
    *_BINARY,
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
    Builtin(
        "clip",
        "a a_min? a_max?",
        _clip,
        "Each element limited to a range; a bound may be None, or a tensor.",
        "clip",
        "min=a_min max=a_max x=a input=a",
    ),
    Builtin(
        "isclose",
        "a b rtol? atol? equal_nan?",
        lambda call: _closeness(call).value,
        "Whether two are nearly equal.",
        "isclose",
    ),
    Builtin(
        "allclose",
        "a b rtol? atol? equal_nan?",
        lambda call: _closeness(call).op("all").value,
        "Whether all are nearly equal, as one bool.",
        "allclose",
    ),
    Builtin(
        "array_equal",
        "a1 a2 equal_nan?",
        _array_equal,
        "Whether two tensors are the same, as one bool.",
        "array_equal",
    ),
    Builtin(
        "where", "condition x? y?", _where, "x where the condition holds, else y.", "where", method=False
    ),
    Builtin("divmod", "x1 x2", _divmod, "(x1 // x2, x1 % x2).", "divmod"),
    Builtin("modf", "x", _modf, "Fraction and whole part.", "modf"),
)
