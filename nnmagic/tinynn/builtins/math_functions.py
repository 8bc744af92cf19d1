"""Define the functions of Python's ``math`` module: of integers, rounding, and digits of floats, too.

Numbers that are known at compile time give what ``math`` gives. What needs loops is written in the language.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from nnmagic.relay.functions import float_parts
from nnmagic.relay.structure.tuple_trees import flatten
from nnmagic.relay.types import AnyDim
from nnmagic.tinynn.builtins.argument_checks import as_formula, formula, pair, python_number, static_number
from nnmagic.tinynn.builtins.numpy.elementwise import next_float
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import stack
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.symbolic_sizes import as_number
from nnmagic.tinynn.values.weak_types import as_weak

#: NumPy's functions, by name.
Rows = Mapping[str, Builtin]


def _fold(call: Arguments) -> v.Value | None:
    """Return what ``math`` gives for arguments that are known; None if one is not. Raises RefusalError."""
    try:
        arguments = {name: v.static_value(operand.value) for name, operand in call.given.items()}
    except v.NotStaticError:
        return None
    if any(isinstance(part, AnyDim) for part in flatten(tuple(arguments.values()))):
        return None
    more = arguments.pop("more", ())
    positional = [*arguments.values()] if call.name not in _BY_KEYWORD else []
    keywords = {} if positional else arguments
    if call.name == "isclose":
        positional = [arguments.pop("a"), arguments.pop("b")]
    try:
        function = getattr(math, call.name)
        return as_value_of(function(*positional, *(more if isinstance(more, tuple) else (more,)), **keywords))
    except (ValueError, OverflowError, TypeError, ZeroDivisionError) as error:
        raise v.RefusalError(f"math.{call.name}: {error}", call.span) from None


#: Functions with arguments that are given by keyword alone.
_BY_KEYWORD = ("isclose",)


def as_value_of(number: object) -> v.Value:
    """Return a number, or a tuple of them, as a value that is known."""
    if isinstance(number, tuple):
        return v.TupleOf(tuple(map(as_value_of, number)))
    return v.Known(number)


def _folding(name: str, signature: str, apply_to: Callable[[Arguments], v.Value], summary: str) -> Builtin:
    """Declare a function that ``math`` itself computes of arguments that are known."""

    def fold_or_apply(call: Arguments) -> v.Value:
        if (folded := _fold(call)) is not None:
            return folded
        numbers = [number for operand in call.given.values() for number in v.parts_of(operand.value)]
        of_numbers = all(
            isinstance(number, v.Known | v.Dimension) or getattr(number, "weak", False) for number in numbers
        )
        return as_weak(apply_to(call)) if of_numbers else apply_to(call)

    return cell_function(name, signature, fold_or_apply, summary)


def _float(call: Arguments, parameter: str) -> Formula:
    data = formula(call, parameter)
    return data if data.is_float else data.cast("float64")


def _float_pair(call: Arguments, lhs: str, rhs: str) -> tuple[Formula, Formula]:
    first, second = pair(call, lhs, rhs)
    return (first, second) if first.is_float else (first.cast("float64"), second.cast("float64"))


def _declare_rounding(name: str, summary: str) -> Builtin:
    """Declare a function that rounds to an integer."""

    def apply_to(call: Arguments) -> v.Value:
        if isinstance(call.given["x"].value, v.Dimension):
            return call.given["x"].value
        data = formula(call, "x")
        whole = data.op(name) if data.is_float else data
        return as_weak(whole.cast("int64").value)

    return _folding(name, "x", apply_to, summary)


def _of_floats(name: str, signature: str, function: Callable[..., Formula], summary: str) -> Builtin:
    """Declare a function of one float, or of two."""
    parameters = signature.split()

    def apply_to(call: Arguments) -> v.Value:
        if len(parameters) == 1:
            return function(_float(call, parameters[0])).value
        return function(*_float_pair(call, *parameters)).value

    return _folding(name, signature, apply_to, summary)


# -- integers ------------------------------------------------------------------------------------------------

_MOST = 2**63 - 1
_TOO_LARGE = 'raise OverflowError("the result has more than 64 bits")'
_FACTORIAL = f"""
def factorial(n):
    if n < 0:
        raise ValueError("factorial() not defined for negative values")
    if n > 20:
        {_TOO_LARGE}
    result = 1
    for k in range(2, n + 1):
        result = result * k
    return result
"""
_COMB = f"""
def comb(n, k):
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if k < 0:
        raise ValueError("k must be a non-negative integer")
    result = 1 if k <= n else 0
    few = minimum(k, n - k)
    for i in range(1, few + 1):
        factor = n - few + i
        whole = result // i
        if whole > {_MOST} // factor:
            {_TOO_LARGE}
        result = whole * factor + result % i * factor // i
        if result < 0:
            {_TOO_LARGE}
    return result
"""
_PERM = f"""
def perm(n, k):
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if k < 0:
        raise ValueError("k must be a non-negative integer")
    result = 1 if k <= n else 0
    for i in range(minimum(k, n)):
        factor = n - i
        if result > {_MOST} // factor:
            {_TOO_LARGE}
        result = result * factor
    return result
"""
_ISQRT = """
def isqrt(n):
    if n < 0:
        raise ValueError("isqrt() argument must be nonnegative")
    root = int(sqrt(float(n)))
    while root > n // root:
        root = root - 1
    while root + 1 <= n // (root + 1):
        root = root + 1
    return root
"""
#: Four parts hold the sum with four times the digits (Ogita, Rump and Oishi, SIAM J. Sci. Comput. 26, 2005).
_FSUM = """
def fsum(x):
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for v in x:
        s = a + v
        t = s - a
        v = (a - (s - t)) + (v - t)
        a = s
        s = b + v
        t = s - b
        v = (b - (s - t)) + (v - t)
        b = s
        s = c + v
        t = s - c
        d = d + ((c - (s - t)) + (v - t))
        c = s
    total = a + (b + (c + d))
    return total if isfinite(a) else a
"""


def _whole(call: Arguments, operand: v.Operand) -> v.Operand:
    """Return an operand as a number of int64. Raises RefusalError for what is no whole number."""
    operand = as_number(operand)
    data = as_formula(operand, call.span, f"math.{call.name}")
    if data.rank or data.is_float or data.is_complex:
        message = f"math.{call.name} takes whole numbers, not {describe(operand.value)}"
        raise v.RefusalError(message, operand.span)
    return v.Operand(as_weak(data.cast("int64").value), operand.span)


def _of_integers(name: str, signature: str, text: str, summary: str) -> Builtin:
    """Declare a function of integers that is written in the language."""

    def apply_to(call: Arguments) -> v.Value:
        if name == "perm" and "k" not in call:
            return v.LoopCall("text", (_whole(call, call.given["n"]),), text=_FACTORIAL)
        operands = [call.given[parameter.strip("?")] for parameter in signature.split()]
        return v.LoopCall("text", tuple(_whole(call, operand) for operand in operands), text=text)

    return _folding(name, signature, apply_to, summary)


def _divisors(name: str, summary: str) -> Builtin:
    """Declare gcd or lcm of any number of integers."""

    def apply_to(call: Arguments) -> v.Value:
        integers = [_whole(call, item) for item in call.items("more")]
        names = [f"x{number}" for number in range(len(integers))]
        total = names[0]
        for each in names[1:]:
            total = f"{name}({total}, {each})"
        if len(names) == 1:
            total = f"abs({total})"
        return v.LoopCall("text", tuple(integers), text=f"def f({', '.join(names)}):\n    return {total}\n")

    return _folding(name, "*more", apply_to, summary)


# -- several numbers -----------------------------------------------------------------------------------------


def _vector(call: Arguments, parameter: str) -> Formula:
    """Return a tensor, or a list of numbers, as a vector of floats."""
    operand = call.given[parameter]
    if isinstance(operand.value, v.TupleOf):
        items = [
            as_formula(v.Operand(item, operand.span), call.span, call.name) for item in operand.value.items
        ]
        dtypes = {item.dtype for item in items}
        dtype = "float32" if dtypes == {"float32"} else "float64"
        return stack([item.cast(dtype) for item in items], 0)
    return _float(call, parameter)


def _length(vector: Formula) -> Formula:
    """Return the Euclidean length, without overflow."""
    largest = vector.abs().reduce("max")
    scale = (largest.equal(0) | ~largest.op("isfinite")).choose(1.0, largest)
    scaled = vector / scale
    result = (scaled * scaled).reduce("sum").sqrt() * scale
    return vector.op("isinf").reduce("any").choose(math.inf, result)


def _hypot(rows: Rows, call: Arguments) -> v.Value:
    items = call.items("more")
    if len(items) == 2:
        two = Arguments(call.name, {"x1": items[0], "x2": items[1]}, call.span)
        return rows["hypot"].apply(two)
    return _length(_vector(call, "more")).value


def _dist(call: Arguments) -> v.Value:
    p, q = _vector(call, "p"), _vector(call, "q")
    if p.dtype != q.dtype:
        p, q = p.cast("float64"), q.cast("float64")
    return _length(p - q).value


def _sumprod(call: Arguments) -> v.Value:
    p, q = _vector(call, "p"), _vector(call, "q")
    if p.dtype != q.dtype:
        p, q = p.cast("float64"), q.cast("float64")
    return (p * q).reduce("sum").value


def _fsum(call: Arguments) -> v.Value:
    vector = _vector(call, "seq").cast("float64")
    return v.LoopCall("text", (v.Operand(vector.value, call.at("seq")),), text=_FSUM)


def _prod(rows: Rows, call: Arguments) -> v.Value:
    operand = call.given["iterable"]
    factors = [call.given["start"]] if "start" in call else []
    if isinstance(operand.value, v.TupleOf):
        factors += [v.Operand(item, operand.span) for item in operand.value.items]
    else:
        factors.append(v.Operand(rows["prod"].apply(Arguments("prod", {"a": operand}, call.span)), call.span))
    result = factors[0] if factors else v.Operand(v.Known(1), call.span)
    for factor in factors[1:]:
        both = Arguments(call.name, {"x1": result, "x2": factor}, call.span)
        result = v.Operand(rows["multiply"].apply(both), call.span)
    return result.value


# -- floats --------------------------------------------------------------------------------------------------


def _log(call: Arguments) -> v.Value:
    if "base" not in call:
        return _float(call, "x").log().value
    x, base = _float_pair(call, "x", "base")
    return (x.log() / base.log()).value


def _isclose(call: Arguments) -> v.Value:
    a, b = _float_pair(call, "a", "b")
    relative, absolute = static_number(call, "rel_tol", 1e-9), static_number(call, "abs_tol", 0.0)
    if relative < 0 or absolute < 0:
        raise v.RefusalError("math.isclose: tolerances must be non-negative", call.span)
    gap = (a - b).abs()
    near = (gap <= a.abs().maximum(b.abs()) * relative) | (gap <= absolute)
    finite = a.op("isfinite") & b.op("isfinite")
    return (a.equal(b) & ~a.op("isnan") | (near & finite)).value


def _frexp(call: Arguments) -> v.Value:
    mantissa, exponent = float_parts.frexp(_float(call, "x"))
    return v.TupleOf((mantissa.value, as_weak(exponent.value)))


def _ldexp(call: Arguments) -> v.Value:
    exponent = _whole(call, call.given["i"])
    return float_parts.ldexp(_float(call, "x"), Formula(exponent.dynamic, call.span)).value


def _ulp(x: Formula) -> Formula:
    size = x.abs()
    up = next_float(size, size.op("zeros_like") + math.inf)
    gap = up.op("isinf").choose(size - next_float(size, size.op("zeros_like")), up - size)
    return (x.op("isnan") | x.op("isinf")).choose(size, gap)


def _modf(rows: Rows, call: Arguments) -> v.Value:
    return rows["modf"].apply(
        Arguments("modf", {"x": v.Operand(_float(call, "x").value, call.span)}, call.span)
    )


def _same(row: Builtin) -> Builtin:
    """Return NumPy's function as one of ``math``, which gives floats."""
    parameters = [word.strip("?") for word in row.signature.split()]

    def apply_to(call: Arguments) -> v.Value:
        floats = {
            parameter: v.Operand(_as_float(call, parameter), call.at(parameter)) for parameter in parameters
        }
        return row.apply(Arguments(call.name, floats, call.span))

    return _folding(row.name, row.signature, apply_to, row.summary)


def _as_float(call: Arguments, parameter: str) -> v.Value:
    if (number := python_number(call.given[parameter].value)) is not None:
        assert isinstance(number, bool | int | float)
        return v.Known(float(number))
    value = _float(call, parameter).value
    original = as_number(call.given[parameter]).value
    return as_weak(value) if isinstance(original, v.Computed) and original.weak else value


_SAME: Sequence[str] = (
    *("sqrt", "exp", "exp2", "expm1", "log2", "log10", "log1p", "cbrt"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("atan2", "fabs", "radians", "degrees", "copysign", "fmod"),
)


def math_functions(rows: Rows) -> dict[str, Builtin]:
    """Return the functions of ``math`` by name."""
    table = (
        *(_same(rows[name]) for name in _SAME),
        *(rows[name] for name in ("isnan", "isinf", "isfinite")),
        _declare_rounding("floor", "Round down, to an i64."),
        _declare_rounding("ceil", "Round up, to an i64."),
        _declare_rounding("trunc", "Round towards zero, to an i64."),
        _of_floats("erf", "x", lambda x: x.op("erf"), "Compute the error function."),
        _of_floats("erfc", "x", lambda x: x.op("special.erfc"), "Compute 1 - erf(x)."),
        _of_floats("gamma", "x", lambda x: x.op("special.gamma"), "Compute the gamma function."),
        _of_floats(
            "lgamma", "x", lambda x: x.op("special.gammaln"), "Compute the logarithm of abs(gamma(x))."
        ),
        _of_floats("ulp", "x", _ulp, "Return the distance to the next larger float."),
        _of_floats("pow", "x y", lambda x, y: x**y, "Compute x ** y, as a float."),
        _of_floats(
            "remainder", "x y", float_parts.ieee_remainder, "Return x less the multiple of y that is nearest."
        ),
        _of_floats("nextafter", "x y", next_float, "Return the next float after x towards y."),
        _folding("log", "x base?", _log, "Compute the logarithm, by default the natural one."),
        _folding(
            "isclose", "a b * rel_tol? abs_tol?", _isclose, "Test whether two numbers are nearly equal."
        ),
        _folding("frexp", "x", _frexp, "Return a mantissa from 1/2 to 1, and an exponent of 2."),
        _folding("ldexp", "x i", _ldexp, "Compute x * 2 ** i."),
        _folding("modf", "x", partial(_modf, rows), "Return the fractional and integral parts."),
        _of_integers("factorial", "n", _FACTORIAL, "Compute the factorial."),
        _of_integers("comb", "n k", _COMB, "Compute the number of combinations."),
        _of_integers("perm", "n k?", _PERM, "Compute the number of permutations."),
        _of_integers("isqrt", "n", _ISQRT, "Compute the integer square root."),
        _divisors("gcd", "Return the greatest common divisor."),
        _divisors("lcm", "Return the least common multiple."),
        _folding("fsum", "seq", _fsum, "Add up floats without loss of digits."),
        _folding("prod", "iterable * start?", partial(_prod, rows), "Multiply numbers."),
        _folding("hypot", "*more", partial(_hypot, rows), "Compute the Euclidean length of numbers."),
        _folding("dist", "p q", _dist, "Compute the Euclidean distance of two points."),
        _folding("sumprod", "p q", _sumprod, "Add up the products of two vectors."),
    )
    return {row.name: row for row in table}
