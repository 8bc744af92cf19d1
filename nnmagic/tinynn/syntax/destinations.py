"""Find the destinations of calls: ``np.add(a, b, out=c)`` and ``np.add(a, b, c)``."""

from __future__ import annotations

import ast as py
from collections.abc import Sequence

#: NumPy's functions of one and of two arrays that take a destination after them.
_UNARY = frozenset(
    (
        "abs",
        "absolute",
        "arccos",
        "arccosh",
        "arcsin",
        "arcsinh",
        "arctan",
        "arctanh",
        "cbrt",
        "ceil",
        "cos",
        "cosh",
        "deg2rad",
        "degrees",
        "exp",
        "exp2",
        "expm1",
        "fabs",
        "floor",
        "invert",
        "isfinite",
        "isinf",
        "isnan",
        "log",
        "log10",
        "log1p",
        "log2",
        "logical_not",
        "negative",
        "positive",
        "rad2deg",
        "radians",
        "reciprocal",
        "rint",
        "sign",
        "signbit",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "tan",
        "tanh",
        "trunc",
    )
)
_BINARY = frozenset(
    (
        "add",
        "arctan2",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "copysign",
        "divide",
        "equal",
        "floor_divide",
        "fmax",
        "fmin",
        "fmod",
        "greater",
        "greater_equal",
        "heaviside",
        "hypot",
        "left_shift",
        "less",
        "less_equal",
        "logaddexp",
        "logaddexp2",
        "logical_and",
        "logical_or",
        "logical_xor",
        "matmul",
        "maximum",
        "minimum",
        "mod",
        "multiply",
        "not_equal",
        "power",
        "remainder",
        "right_shift",
        "subtract",
        "true_divide",
    )
)


def find_out(call: py.Call) -> tuple[py.Call, py.expr] | None:
    """Return a call without its destination, and that: ``out=c``, or the last of ``np.add(a, b, c)``."""
    outs = [keyword for keyword in call.keywords if keyword.arg == "out"]
    if outs:
        rest = [keyword for keyword in call.keywords if keyword.arg != "out"]
        return _replace_arguments(call, call.args, rest), outs[0].value
    name = call.func.attr if isinstance(call.func, py.Attribute) else ""
    if (name in _UNARY and len(call.args) == 2) or (name in _BINARY and len(call.args) == 3):
        return _replace_arguments(call, call.args[:-1], call.keywords), call.args[-1]
    return None


def _replace_arguments(call: py.Call, args: Sequence[py.expr], keywords: Sequence[py.keyword]) -> py.Call:
    return py.copy_location(py.Call(call.func, list(args), list(keywords)), call)


def whole_of(out: py.expr) -> py.expr:
    """Return the subscript of all elements of a name; any other expression as it is."""
    if not isinstance(out, py.Name):
        return out
    every = py.copy_location(py.Constant(...), out)
    return py.copy_location(py.Subscript(out, every, py.Store()), out)
