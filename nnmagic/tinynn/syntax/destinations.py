"""Find the destinations of calls: ``np.add(a, b, out=c)`` and ``np.add(a, b, c)``."""

from __future__ import annotations

import ast as py
from collections.abc import Sequence

#: NumPy's functions of one and of two arrays that take a destination after them.
_UNARY = frozenset(
    (
        *("abs", "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "ceil"),
        *("cos", "cosh", "deg2rad", "degrees", "exp", "exp2", "expm1", "fabs", "floor", "invert", "isfinite"),
        *("isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not", "negative", "positive"),
        *("rad2deg", "radians", "reciprocal", "rint", "sign", "signbit", "sin", "sinh", "sqrt", "square"),
        *("tan", "tanh", "trunc"),
    )
)
_BINARY = frozenset(
    (
        *("add", "arctan2", "bitwise_and", "bitwise_or", "bitwise_xor", "copysign", "divide", "equal"),
        *("floor_divide", "fmax", "fmin", "fmod", "greater", "greater_equal", "heaviside", "hypot"),
        *("left_shift", "less", "less_equal", "logaddexp", "logaddexp2", "logical_and", "logical_or"),
        *("logical_xor", "matmul", "maximum", "minimum", "mod", "multiply", "not_equal", "power"),
        *("remainder", "right_shift", "subtract", "true_divide"),
    )
)


def find_out(call: py.Call) -> tuple[py.Call, py.expr] | None:
    """Return a call without its destination, and that: ``out=c``, or the last of ``np.add(a, b, c)``."""
    outs = [keyword for keyword in call.keywords if keyword.arg == "out"]
    if outs:
        rest = [keyword for keyword in call.keywords if keyword.arg != "out"]
        if _draws_without_size(call):
            shape = py.copy_location(py.Attribute(outs[0].value, "shape", py.Load()), outs[0].value)
            rest.append(py.copy_location(py.keyword("size", shape), outs[0]))
        return _where_chosen(_replace_arguments(call, call.args, rest), outs[0].value), outs[0].value
    name = call.func.attr if isinstance(call.func, py.Attribute) else ""
    if (name in _UNARY and len(call.args) == 2) or (name in _BINARY and len(call.args) == 3):
        return _replace_arguments(call, call.args[:-1], call.keywords), call.args[-1]
    return None


#: The methods of NumPy's generators that fill an array, with the number of their arguments before the size.
_DRAWING = {"random": 0, "standard_normal": 0, "standard_exponential": 0, "standard_gamma": 1}


def _draws_without_size(call: py.Call) -> bool:
    """Return whether a call draws as many random numbers as its destination has elements."""
    if not isinstance(call.func, py.Attribute) or call.func.attr not in _DRAWING:
        return False
    given = len(call.args) + any(keyword.arg == "shape" for keyword in call.keywords)
    return given <= _DRAWING[call.func.attr] and all(keyword.arg != "size" for keyword in call.keywords)


def with_new_out(call: py.Call) -> py.Call:
    """Return ``where(c, np.log(a), made())`` for ``np.log(a, out=made(), where=c)``, else the call.

    The destination has no name, and so nobody else sees that it changes.
    """
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    is_new = isinstance(given.get("out"), py.Call | py.BinOp | py.UnaryOp)
    out_argument = find_out(call) if is_new and "where" in given else None
    return call if out_argument is None else out_argument[0]


def _where_chosen(call: py.Call, out: py.expr) -> py.Call:
    """Return what a call with ``where=`` gives its destination: that itself where the condition is false."""
    name = call.func.attr if isinstance(call.func, py.Attribute) else ""
    chosen = [keyword.value for keyword in call.keywords if keyword.arg == "where"]
    if not chosen or name not in _UNARY | _BINARY:
        return call
    rest = [keyword for keyword in call.keywords if keyword.arg != "where"]
    where = py.copy_location(py.Name("where", py.Load()), call.func)
    value = _replace_arguments(call, call.args, rest)
    return py.copy_location(py.Call(where, [chosen[0], value, out], []), call)


def _replace_arguments(call: py.Call, args: Sequence[py.expr], keywords: Sequence[py.keyword]) -> py.Call:
    return py.copy_location(py.Call(call.func, list(args), list(keywords)), call)


def whole_of(out: py.expr) -> py.expr:
    """Return the subscript of all elements of a name; any other expression as it is."""
    if not isinstance(out, py.Name):
        return out
    every = py.copy_location(py.Constant(...), out)
    return py.copy_location(py.Subscript(out, every, py.Store()), out)
