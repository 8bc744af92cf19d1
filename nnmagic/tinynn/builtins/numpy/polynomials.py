"""Define NumPy's functions of polynomials, whose first coefficient is that of the highest power.

NumPy's reference: https://numpy.org/doc/stable/reference/routines.polynomials.poly1d.html
"""

from __future__ import annotations

import numpy as np

from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import ANY, is_complex
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins import tensor_helpers as helpers
from nnmagic.tinynn.builtins.numpy.linalg import LINALG
from nnmagic.tinynn.builtins.numpy.signals import convolve
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, free_function
from nnmagic.tinynn.operators.arithmetic import NAMED, binary
from nnmagic.tinynn.operators.iteration import count, item
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import is_tensor
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.symbolic_sizes import full, weak_int

_LSTSQ, _EIGVALS = (next(row for row in LINALG if row.name == name) for name in ("lstsq", "eigvals"))

#: A polynomial of more zeros is not expanded, which takes operators for each of them.
_MOST_ZEROS = 200


def _polyval(call: Arguments) -> v.Value:
    """Evaluate a polynomial by Horner's rule; the first coefficient is that of the highest power."""
    coefficients, x, span = call.given["p"], call.given["x"], call.span
    if not (is_tensor(coefficients.value) or isinstance(coefficients.value, v.TupleOf)):
        raise v.RefusalError("polyval takes a list or a vector of coefficients", coefficients.span)
    number = count(coefficients)
    if not isinstance(number, int):
        message = "polyval: the number of coefficients must be known at compile time"
        raise v.RefusalError(message, coefficients.span)

    def combine(name: str, lhs: v.Value, rhs: v.Value) -> v.Value:
        sign = "+" if name == "add" else "*"
        return binary(NAMED[name], sign, v.Operand(lhs, span), v.Operand(rhs, span), span)

    result = combine("multiply", x.value, v.Known(0))
    for index in range(number):
        coefficient = item(coefficients, v.Known(index), span)
        result = combine("add", combine("multiply", result, x.value), coefficient)
    return result


def _polyfit(call: Arguments) -> v.Value:
    """Fit a polynomial by least squares, with the columns of the Vandermonde matrix scaled as by NumPy."""
    x, y, degree = args.formula(call, "x"), args.formula(call, "y"), args.static_int(call, "deg", None)
    if x.rank != 1 or y.rank not in (1, 2):
        shown = f"{format_shape(x.shape)} and {format_shape(y.shape)}"
        raise v.RefusalError(f"polyfit takes vectors, not tensors of shapes {shown}", call.span)
    if degree < 0:
        raise v.RefusalError("polyfit: the degree is negative", call.at("deg"))
    x = helpers.require_elements(x.cast("float64"), (0,), "polyfit: `x` is empty")
    y = y.cast("float64")
    powers = [x.op("ones_like")]
    for _ in range(degree):
        powers.append(powers[-1] * x)
    matrix = helpers.stack(powers[::-1], 1)
    scale = (matrix * matrix).reduce("sum", (0,)).op("sqrt")
    size = x.shape[0]
    rcond = v.Known((float(size) if isinstance(size, int) else 1.0) * 2.220446049250313e-16)
    operands = [v.Operand((matrix / scale).value, call.span), v.Operand(y.value, call.at("y"))]
    solved = _LSTSQ.call([*operands, v.Operand(rcond, call.span)], call.span)
    assert isinstance(solved, v.TupleOf)
    solution = v.dynamic(solved.items[0])
    return (Formula(solution, call.span) / (scale if y.rank == 1 else scale.expand(1))).value


# -- polynomials as vectors of coefficients --------------------------------------------------------------


def _vector(call: Arguments, data: Formula, parameter: str) -> Formula:
    """Return coefficients; one number is a vector, too."""
    if data.rank > 1:
        message = (
            f"{call.name} takes vectors of coefficients, not a tensor of shape {format_shape(data.shape)}"
        )
        raise v.RefusalError(message, call.at(parameter))
    return helpers.atleast_nd(data, 1)


def _two(call: Arguments) -> tuple[Formula, Formula]:
    lhs, rhs = args.pair(call, "a1", "a2")
    return _vector(call, lhs, "a1"), _vector(call, rhs, "a2")


def _sum(operator: str) -> Builtin:
    """Declare the sum or the difference of two polynomials: zeros stand before the shorter one."""
    name = "polyadd" if operator == "add" else "polysub"

    def apply_to(call: Arguments) -> v.Value:
        lhs, rhs = _two(call)
        if lhs.shape != rhs.shape:
            lhs, rhs = _lengthen(call, lhs, rhs), _lengthen(call, rhs, lhs)
        return lhs.op(operator, rhs).value

    what = "sum" if operator == "add" else "difference"
    return free_function(name, "a1 a2", apply_to, f"Return the {what} of two polynomials.")


def _lengthen(call: Arguments, data: Formula, other: Formula) -> Formula:
    """Put zeros before coefficients until there are as many as of the other polynomial."""
    length, wanted = data.shape[0], other.shape[0]
    if isinstance(length, int) and isinstance(wanted, int):
        more = max(int(wanted) - int(length), 0)
        return data.op("nn.pad", 0, pad_width=[(more, 0)]) if more else data
    missing = (_length(other) - _length(data)).op("maximum", 0)
    zeros = full(data.like(0).value, [v.Dimension(ANY, weak_int(missing.value))], call.span)
    return helpers.concatenate(call, [Formula(zeros, call.span), data], 0)


def _length(data: Formula) -> Formula:
    return helpers.size_along(data, 0, Formula(number_constant(1, "int64", data.span), data.span))


def _product(call: Arguments) -> v.Value:
    """Multiply two polynomials without the zeros that they begin with, as NumPy does."""
    lhs, rhs = (
        _without_leading_zeros(call, data, name) for data, name in zip(_two(call), ("a1", "a2"), strict=True)
    )
    return convolve(call, lhs, rhs).value


def _without_leading_zeros(call: Arguments, data: Formula, parameter: str) -> Formula:
    """Return coefficients from the first that is not 0, of zeros alone the last one."""
    static = args.static_value_or_none(call.given[parameter].value)
    if data.shape[0] == 0:
        raise call.refusal(parameter, f"`{parameter}` is empty")
    if isinstance(static, tuple):
        zeros = next((index for index, number in enumerate(static) if number != 0), len(static) - 1)
        return helpers.slice_axis(data, 0, zeros, None)
    if data.shape[0] == 1:
        return data
    data = helpers.require_elements(data, (0,), f"{call.name}: `{parameter}` is empty")
    nonzero = data.truth()
    first = nonzero.op("argmax", axis=[0], keepdims=False, select_last_index=False).cast("int64")
    begin = nonzero.reduce("any", (0,)).choose(first, _length(data) - 1)
    part = v.SliceOf(begin.value, v.Known(None), v.Known(None))
    significant = subscript(v.Operand(data.value, call.span), [v.Operand(part, call.span)], call.span)
    assert isinstance(significant, v.Computed)
    return Formula(significant, call.span)


def _order(call: Arguments) -> int:
    order = args.static_int(call, "m", 1)
    if order < 0:
        raise call.refusal("m", f"the order {order} is negative")
    return order


def _powers(data: Formula) -> Formula:
    """Return n, n - 1, ..., 1 for n coefficients."""
    size = helpers.size_of(data, 0)
    return _length(data) - helpers.arange(size, data.span)


def _derivative(call: Arguments) -> v.Value:
    data = _vector(call, args.formula(call, "p"), "p")
    for _ in range(_order(call)):
        is_whole = not data.is_float and data.dtype != "uint64"  # which meets i64 as f64
        data = data.cast(_wide(data, "int64" if is_whole else "float64"))
        factors = _powers(data) - 1
        data = helpers.slice_axis(data, 0, 0, -1) * helpers.slice_axis(factors, 0, 0, -1).cast(data.dtype)
    return data.value


def _integral(call: Arguments) -> v.Value:
    data, order = _vector(call, args.formula(call, "p"), "p"), _order(call)
    constants = _constants(call, order)
    for constant in constants:
        data = data.cast(_wide(data, "float64"))
        last = constant.cast(data.dtype).reshape((1,))
        data = helpers.concatenate(call, [data / _powers(data).cast(data.dtype), last], 0)
    return data.value


def _wide(data: Formula, dtype: str) -> str:
    return "complex128" if is_complex(data.dtype) else dtype


def _constants(call: Arguments, order: int) -> list[Formula]:
    """Return the constants of integration: zeros, one for all, or one for each."""
    if "k" not in call:
        zero = Formula(number_constant(0, "float64", call.span), call.span)
        return [zero] * order
    operand = call.given["k"]
    listed = operand.value.items if isinstance(operand.value, v.TupleOf) else (operand.value,)
    numbers = [args.as_formula(v.Operand(each, operand.span), call.span, "polyint: `k`") for each in listed]
    if len(numbers) == 1:
        numbers *= order
    if len(numbers) < order or any(number.rank for number in numbers):
        raise v.RefusalError("polyint: `k` must be a number, or one for each integration", operand.span)
    return numbers[:order]


def _of_zeros(call: Arguments) -> v.Value:
    """Return the coefficients of the polynomial with these zeros, multiplied one after the other."""
    zeros = args.formula(call, "seq_of_zeros")
    if zeros.rank > 1 and (zeros.rank > 2 or dims_differ(*zeros.shape)):
        message = (
            f"poly takes the zeros, or a square matrix, not a tensor of shape {format_shape(zeros.shape)}"
        )
        raise v.RefusalError(message, call.at("seq_of_zeros"))
    if zeros.rank > 1:
        text = "def poly(eigvals, poly, a):\n    found = poly(eigvals(a))\n"
        text += "    return found\n" if zeros.is_complex else "    return found.real\n"
        given = v.Operand(zeros.value, call.at("seq_of_zeros"))
        own = next(row for row in POLYNOMIALS if row.name == "poly")
        functions = [v.Operand(v.BuiltinName(each), call.span) for each in (_EIGVALS, own)]
        return v.LoopCall("text", (*functions, given), text=text)
    zeros = helpers.atleast_nd(zeros if zeros.is_float or zeros.is_complex else zeros.cast("float64"), 1)
    number = args.static_size(call, zeros.shape[0], call.at("seq_of_zeros"), "the number of zeros")
    if number > _MOST_ZEROS:
        raise v.RefusalError(f"poly: {number} zeros (at most {_MOST_ZEROS})", call.at("seq_of_zeros"))
    if not number:
        return v.Known(1.0)
    one = zeros.like(1).op("full", shape=(1,), dtype=zeros.dtype)
    result = one
    for index in range(number):
        scaled = result * helpers.slice_axis(zeros, 0, index, index + 1)
        result = result.op("nn.pad", 0, pad_width=[(0, 1)]) - scaled.op("nn.pad", 0, pad_width=[(1, 0)])
    return result.value


#: The eigenvalues of a companion matrix; zeros at the end of the coefficients are zeros of the polynomial.
_ROOTS = """
def roots(eigvals, p):
    nonzero = p != 0
    found = any(nonzero)
    first = argmax(nonzero)
    last = len(p) - 1 - argmax(nonzero[::-1]) if found else first
    c = p[first:last + 1]
    n = len(c) - 1
    companion = where((arange(n) == 0)[:, None], -c[1:] / c[0], eye(n, k=-1, dtype=p.dtype))
    zeros_at_the_end = len(p) - 1 - last if found else 0
    return concatenate((eigvals(companion), zeros(zeros_at_the_end, dtype=COMPLEX)))
"""


def _roots(call: Arguments) -> v.Value:
    """Return the zeros of a polynomial; how many there are depends on the coefficients that are 0."""
    data = _vector(call, args.formula(call, "p"), "p")
    wide = data if data.is_float or data.is_complex else data.cast("float64")
    text = _ROOTS.strip().replace("COMPLEX", "c64" if wide.dtype in ("float32", "complex64") else "c128")
    function = v.Operand(v.BuiltinName(_EIGVALS), call.span)
    if data.shape[0] == 0:
        return helpers.constant_of(np.zeros(0), "complex128", call.span).value
    return v.LoopCall("text", (function, v.Operand(wide.value, call.at("p"))), text=f"{text}\n")


POLYNOMIALS = (
    free_function(
        "polyval",
        "p x",
        _polyval,
        "Value of a polynomial; the first coefficient is that of the highest power.",
    ),
    free_function(
        "polyfit",
        "x y deg",
        _polyfit,
        "Coefficients of the polynomial of a degree that fits best; the first is that of the highest power.",
    ),
    _sum("add"),
    _sum("subtract"),
    free_function(
        "polymul", "a1 a2", _product, "Return the product of two polynomials, without zeros at its beginning."
    ),
    free_function("polyder", "p m?=1", _derivative, "Return the derivative of a polynomial."),
    free_function("polyint", "p m?=1 k?", _integral, "Return an antiderivative of a polynomial."),
    free_function("roots", "p", _roots, "Return the zeros of a polynomial, as complex numbers."),
    free_function(
        "poly", "seq_of_zeros", _of_zeros, "Return the coefficients of the polynomial with the given zeros."
    ),
)
