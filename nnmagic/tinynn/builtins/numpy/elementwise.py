"""Define NumPy's element-wise functions of two tensors: arithmetic, comparison, logic, bits, choices.

NumPy's reference: https://numpy.org/doc/stable/reference/ufuncs.html
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from nnmagic.relay.functions import special
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.numpy.indexing import nonzero
from nnmagic.tinynn.builtins.numpy.mathematics import fold_numbers
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import common_shape
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, free_function, numpy_function
from nnmagic.tinynn.operators.arithmetic import NAMED, binary
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, call_operator, is_tensor, whole_numbers
from nnmagic.tinynn.values.promotion import dtype_beside_numbers
from nnmagic.tinynn.values.symbolic_sizes import as_number, dimension_size, same_shape
from nnmagic.tinynn.values.values import Computed, Known, Operand, RefusalError, TupleOf, Value

#: Relay holds the bounds of clip as doubles, which represent integers exactly up to here.
_EXACT = 2**53


def _clip(call: Arguments) -> Value:
    """Limit elements to bounds: None, a number that the dtype can hold, or a tensor of the data's dtype."""
    data = args.formula(call, "a")
    given = [call.given[name].value for name in ("a_min", "a_max") if name in call]
    data = data.cast(dtype_beside_numbers(data.dtype, map(args.static_value_or_none, given)))
    bounds: dict[str, Formula] = {}
    numbers: dict[str, bool | int | float] = {}
    for name in ("a_min", "a_max"):
        if name not in call:
            continue
        operand = as_number(call.given[name])
        static = args.static_value_or_none(operand.value)
        if isinstance(static, bool | int | float):
            numbers[name] = static
            bounds[name] = Formula(number_constant(static, data.dtype, operand.span), call.span)
        elif is_tensor(operand.value) or isinstance(static, tuple):
            inner = Arguments(call.name, {"a": Operand(data.value, call.at("a")), name: operand}, call.span)
            data, bounds[name] = args.pair(inner, "a", name)
            common_shape(call, [data.shape, bounds[name].shape])
        else:
            message = f"clip: `{name}` must be a number or a tensor, not {describe(operand.value)}"
            raise RefusalError(message, operand.span)
    exact = len(numbers) == 2 and all(abs(number) <= _EXACT for number in numbers.values())
    if exact and numbers["a_min"] <= numbers["a_max"]:  # of an empty range NumPy gives the upper bound
        return data.op("clip", **numbers).value
    for name, operator in (("a_min", "maximum"), ("a_max", "minimum")):
        if name in bounds:
            data = data.op(operator, bounds[name])
    return data.value


def _operation(name: str, summary: str, operation: str) -> Builtin:
    """Declare a Python operator under NumPy's name."""

    def apply_to(call: Arguments) -> Value:
        lhs, rhs = args.tensors_or_numbers(call, [call.given["x1"], call.given["x2"]])
        return binary(NAMED[operation], call.name, lhs, rhs, call.span)

    return numpy_function(name, "x1 x2", apply_to, summary, "lhs=x1 rhs=x2 input=x1 other=x2")


_OPERATIONS = (
    ("add", "add", "Compute x1 + x2."),
    ("subtract", "subtract", "Compute x1 - x2."),
    ("multiply", "multiply", "Compute x1 * x2."),
    ("divide", "divide", "Compute x1 / x2; f64 for integers and bools."),
    ("true_divide", "divide", "Compute x1 / x2; f64 for integers and bools."),
    ("floor_divide", "floor_divide", "Compute x1 // x2, rounded down."),
    ("mod", "mod", "Compute x1 % x2, with the sign of x2."),
    ("remainder", "mod", "Compute x1 % x2, with the sign of x2."),
    ("power", "power", "Compute x1 ** x2."),
    ("pow", "power", "Compute x1 ** x2."),
    ("equal", "equal", "Compute x1 == x2."),
    ("not_equal", "not_equal", "Compute x1 != x2."),
    ("less", "less", "Compute x1 < x2."),
    ("less_equal", "less_equal", "Compute x1 <= x2."),
    ("greater", "greater", "Compute x1 > x2."),
    ("greater_equal", "greater_equal", "Compute x1 >= x2."),
    ("bitwise_and", "bitwise_and", "Compute x1 & x2."),
    ("bitwise_or", "bitwise_or", "Compute x1 | x2."),
    ("bitwise_xor", "bitwise_xor", "Compute x1 ^ x2."),
    ("left_shift", "left_shift", "Compute x1 << x2."),
    ("right_shift", "right_shift", "Compute x1 >> x2."),
    ("bitwise_left_shift", "left_shift", "Compute x1 << x2."),
    ("bitwise_right_shift", "right_shift", "Compute x1 >> x2."),
)


def _binary_function(
    name: str, summary: str, function: Callable[[Formula, Formula], Formula], *, floats: bool = False
) -> Builtin:
    """Declare a function of two tensors that broadcast, of one dtype; ``floats`` converts integers."""

    def apply_to(call: Arguments) -> Value:
        folded = fold_numbers(call, name)
        if folded is not None:
            return folded
        lhs, rhs = (args.float_pair if floats else args.pair)(call, "x1", "x2")
        return function(lhs, rhs).value

    return numpy_function(name, "x1 x2", apply_to, summary, "lhs=x1 rhs=x2 input=x1 other=x2")


def _logical(name: str, summary: str) -> Builtin:
    """Declare a logical function; the sides may differ in dtype, since only zero or nonzero matters."""

    def apply_to(call: Arguments) -> Value:
        folded = fold_numbers(call, name)
        if folded is not None:
            return folded
        lhs, rhs = (args.formula(call, parameter).truth() for parameter in ("x1", "x2"))
        return lhs.op(name, rhs).value

    return numpy_function(name, "x1 x2", apply_to, summary, "lhs=x1 rhs=x2")


def _op(name: str) -> Callable[[Formula, Formula], Formula]:
    return lambda lhs, rhs: lhs.op(name, rhs)


def next_float(lhs: Formula, rhs: Formula) -> Formula:
    """Return the next float after one towards another one."""
    if lhs.dtype not in ("float32", "float64"):
        message = f"nextafter is defined for f32 and f64, not {dtype_short_name(lhs.dtype)}"
        raise RefusalError(message, lhs.span, hint="convert both first, as in x.astype(f32)")
    return special.next_float(lhs, rhs)


def _logaddexp2(lhs: Formula, rhs: Formula) -> Formula:
    return (lhs * math.log(2)).op("numpy.logaddexp", rhs * math.log(2)) / math.log(2)


def _heaviside(lhs: Formula, rhs: Formula) -> Formula:
    step = (lhs > 0).choose(1, (lhs < 0).choose(0, lhs))
    return lhs.equal(0).choose(rhs, step)


def equal_numbers(lhs: Formula, rhs: Formula) -> Formula:
    """Return where both are equal; NaN never is, not even of a tensor compared with itself."""
    same = lhs.equal(rhs)
    return same & ~lhs.op("isnan") if lhs.is_float or lhs.is_complex else same


def _closeness(call: Arguments) -> Formula:
    lhs, rhs = args.pair(call, "a", "b")
    if not lhs.is_float and not lhs.is_complex:
        lhs, rhs = lhs.cast("float64"), rhs.cast("float64")
    rtol, atol = args.static_number(call, "rtol", 1e-5), args.static_number(call, "atol", 1e-8)
    near = (lhs - rhs).abs() <= (atol + rtol * rhs.abs())
    close = (near & rhs.op("isfinite")) | equal_numbers(lhs, rhs)
    if args.flag(call, "equal_nan"):
        close = close | (lhs.op("isnan") & rhs.op("isnan"))
    return close


def _array_equal(call: Arguments) -> Value:
    """Return whether shapes and elements are equal; dynamic shapes are compared at run time."""
    lhs, rhs = args.pair(call, "a1", "a2")
    alike = same_shape(lhs.value, rhs.value, call.span)
    if alike is False:
        return Known(value=False)
    if isinstance(alike, Computed):
        lhs, rhs = lhs.flat(), rhs.flat()
        lhs, rhs = _truncate_like(lhs, rhs), _truncate_like(rhs, lhs)
    same = equal_numbers(lhs, rhs)
    if args.flag(call, "equal_nan") and lhs.is_float:
        same = same | (lhs.op("isnan") & rhs.op("isnan"))
    result = same.op("all")
    return (result & Formula(alike, call.span) if isinstance(alike, Computed) else result).value


def _truncate_like(vector: Formula, like: Formula) -> Formula:
    """Return the first elements of a vector, at most as many as another one has."""
    span = vector.span
    none, step = (number_constant(number, "int64", span) for number in (0, 1))
    stop = apply("minimum", span, *(dimension_size(each.value, 0, span) for each in (vector, like)))
    return Formula(apply("take", span, vector.value, whole_numbers(none, stop, step, span), axis=0), span)


def _where(call: Arguments) -> Value:
    condition = args.formula(call, "condition").truth()
    if "x" not in call and "y" not in call:
        return nonzero(condition)
    if "x" not in call or "y" not in call:
        hint = "it is called as where(condition, x, y)"
        raise RefusalError("where takes both x and y, or neither", call.span, hint=hint)
    lhs, rhs = args.pair(call, "x", "y")
    operands = [
        Operand(condition.value, call.at("condition")),
        Operand(lhs.value, call.at("x")),
        Operand(rhs.value, call.at("y")),
    ]
    return call_operator(OPERATORS["where"], operands, {}, call.span)


def _divmod(call: Arguments) -> Value:
    lhs, rhs = args.tensors_or_numbers(call, [call.given["x1"], call.given["x2"]])
    return TupleOf(
        tuple(binary(NAMED[name], call.name, lhs, rhs, call.span) for name in ("floor_divide", "mod"))
    )


BINARY = (
    *(_operation(name, summary, operation) for name, operation, summary in _OPERATIONS),
    _binary_function("maximum", "Return the larger of two elements; NaN if either is NaN.", _op("maximum")),
    _binary_function("minimum", "Return the smaller of two elements; NaN if either is NaN.", _op("minimum")),
    _binary_function(
        "fmax",
        "Return the larger of two elements; NaN only if both are NaN.",
        partial(special.ignoring_nan, "maximum"),
    ),
    _binary_function(
        "fmin",
        "Return the smaller of two elements; NaN only if both are NaN.",
        partial(special.ignoring_nan, "minimum"),
    ),
    _binary_function("fmod", "Return the remainder with the sign of x1.", _op("trunc_mod")),
    _binary_function(
        "hypot", "Compute sqrt(x1 ** 2 + x2 ** 2) without overflow.", _op("numpy.hypot"), floats=True
    ),
    _binary_function(
        "arctan2", "Compute the angle of the point (x2, x1).", _op("numpy.arctan2"), floats=True
    ),
    _binary_function("atan2", "Compute the angle of the point (x2, x1).", _op("numpy.arctan2"), floats=True),
    _binary_function(
        "logaddexp", "Compute log(exp(x1) + exp(x2)) without overflow.", _op("numpy.logaddexp"), floats=True
    ),
    _binary_function("nextafter", "Return the next float after x1 towards x2.", next_float, floats=True),
    _binary_function(
        "logaddexp2", "Compute log2(2 ** x1 + 2 ** x2) without overflow.", _logaddexp2, floats=True
    ),
    _binary_function("copysign", "Return x1 with the sign of x2.", _op("numpy.copysign"), floats=True),
    _binary_function(
        "heaviside", "Return 0, x2 or 1 for negative, zero or positive x1.", _heaviside, floats=True
    ),
    _logical("logical_and", "Test whether both elements are true (nonzero)."),
    _logical("logical_or", "Test whether either element is true (nonzero)."),
    _logical("logical_xor", "Test whether exactly one element is true (nonzero)."),
)

ELEMENTWISE = (
    *BINARY,
    numpy_function(
        "clip",
        "a a_min? a_max?",
        _clip,
        "Limit each element to a range; a bound may be None or a tensor.",
        "min=a_min max=a_max x=a input=a",
    ),
    numpy_function(
        "isclose",
        "a b rtol? atol? equal_nan?",
        lambda call: _closeness(call).value,
        "Test whether corresponding elements are nearly equal.",
    ),
    numpy_function(
        "allclose",
        "a b rtol? atol? equal_nan?",
        lambda call: _closeness(call).op("all").value,
        "Test whether all elements are nearly equal, as a single bool.",
    ),
    numpy_function(
        "array_equal",
        "a1 a2 equal_nan?",
        _array_equal,
        "Test whether two tensors are equal, as a single bool.",
    ),
    free_function("where", "condition x? y?", _where, "Choose x where the condition holds and y elsewhere."),
    numpy_function("divmod", "x1 x2", _divmod, "Compute (x1 // x2, x1 % x2)."),
)
