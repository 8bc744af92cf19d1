"""Define NumPy's polyval and polyfit."""

from __future__ import annotations

from nnmagic.relay.signatures import format_shape
from nnmagic.tinynn.builtins.argument_checks import formula, static_int
from nnmagic.tinynn.builtins.numpy.linalg import LINALG
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import stack
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.operators.arithmetic import NAMED, binary
from nnmagic.tinynn.operators.iteration import count, item
from nnmagic.tinynn.values.operator_calls import is_tensor
from nnmagic.tinynn.values.values import Computed, Known, Operand, RefusalError, TupleOf, Value

_LSTSQ = next(row for row in LINALG if row.name == "lstsq")


def _polyval(call: Arguments) -> Value:
    """Evaluate a polynomial by Horner's rule; the first coefficient is that of the highest power."""
    coefficients, x, span = call.given["p"], call.given["x"], call.span
    if not (is_tensor(coefficients.value) or isinstance(coefficients.value, TupleOf)):
        raise RefusalError("polyval takes a list or a vector of coefficients", coefficients.span)
    number = count(coefficients)
    if not isinstance(number, int):
        message = "polyval: the number of coefficients must be known at compile time"
        raise RefusalError(message, coefficients.span)

    def combined(name: str, left: Value, right: Value) -> Value:
        sign = "+" if name == "add" else "*"
        return binary(NAMED[name], sign, Operand(left, span), Operand(right, span), span)

    result = combined("multiply", x.value, Known(0))
    for index in range(number):
        coefficient = item(coefficients, Known(index), span)
        result = combined("add", combined("multiply", result, x.value), coefficient)
    return result


def _polyfit(call: Arguments) -> Value:
    """Fit a polynomial by least squares, with the columns of the Vandermonde matrix scaled as by NumPy."""
    x, y, degree = formula(call, "x"), formula(call, "y"), static_int(call, "deg", None)
    if x.rank != 1 or y.rank not in (1, 2):
        shown = f"{format_shape(x.shape)} and {format_shape(y.shape)}"
        raise RefusalError(f"polyfit takes vectors, not tensors of shapes {shown}", call.span)
    if degree < 0:
        raise RefusalError("polyfit: the degree is negative", call.given["deg"].span)
    x, y = x.cast("float64"), y.cast("float64")
    powers = [x.op("ones_like")]
    for _ in range(degree):
        powers.append(powers[-1] * x)
    matrix = stack(powers[::-1], 1)
    scale = (matrix * matrix).reduce("sum", (0,)).op("sqrt")
    size = x.shape[0]
    rcond = Known((float(size) if isinstance(size, int) else 1.0) * 2.220446049250313e-16)
    operands = [Operand((matrix / scale).value, call.span), Operand(y.value, call.given["y"].span)]
    solved = _LSTSQ.call([*operands, Operand(rcond, call.span)], call.span)
    assert isinstance(solved, TupleOf)
    solution = solved.items[0]
    assert isinstance(solution, Computed)
    return (Formula(solution, call.span) / (scale if y.rank == 1 else scale.expand(1))).value


POLYNOMIALS = (
    Builtin(
        "polyval",
        "p x",
        _polyval,
        "Value of a polynomial; the first coefficient is that of the highest power.",
        "polyval",
        method=False,
    ),
    Builtin(
        "polyfit",
        "x y deg",
        _polyfit,
        "Coefficients of the polynomial of a degree that fits best; the first is that of the highest power.",
        "polyfit",
        method=False,
    ),
)
