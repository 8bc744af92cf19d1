"""Define NumPy's windows of signals: bartlett, blackman, hamming and hanning.

NumPy's reference: https://numpy.org/doc/stable/reference/routines.window.html
"""

from __future__ import annotations

import math
from collections.abc import Callable

from nnmagic.tinynn.builtins.argument_checks import formula
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import arange
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, free_function
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.symbolic_sizes import as_size
from nnmagic.tinynn.values.values import Computed, Dimension, Known, RefusalError, Value


def _window(name: str, shape: Callable[[Formula], Formula]) -> Builtin:
    """Declare a window; ``shape`` gives it for numbers from -1 to 1."""
    summary = f"The {name.capitalize()} window of M points, f64."
    return free_function(name, "M", _of_shape(name, lambda _call: shape), summary)


def _kaiser(call: Arguments) -> Callable[[Formula], Formula]:
    """Return the shape of the Kaiser window of a parameter, which is a number or a tensor of one."""
    beta = formula(call, "beta").cast("float64")

    def shape(x: Formula) -> Formula:
        inside = (1 - x * x).op("maximum", 0.0).sqrt()
        return (inside * beta).op("special.i0") / beta.op("special.i0")

    return shape


def _of_shape(
    name: str, shape_of: Callable[[Arguments], Callable[[Formula], Formula]]
) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        shape = shape_of(call)
        operand = call.given["M"]
        size = as_size(operand)
        if isinstance(size, Known) and isinstance(size.value, int):
            number = max(size.value, 0)
            places = arange(number, call.span).cast("float64") * 2.0 - float(max(number - 1, 0))
            return shape(places / float(max(number - 1, 1))).value
        if not isinstance(size, Dimension):
            message = f"{name} takes a number of points, not {describe(operand.value)}"
            raise RefusalError(message, operand.span)
        points = arange(size, call.span).cast("float64")
        last = Formula(Computed(size.number.expr, size.number.type), call.span).cast("float64") - 1.0
        return shape((points * 2.0 - last) / last.op("maximum", 1.0)).value

    return apply_to


def _cosine(x: Formula, times: int) -> Formula:
    return (x * (times * math.pi)).op("cos")


WINDOWS = (
    _window("bartlett", lambda x: x.op("abs") * -1.0 + 1.0),
    _window("blackman", lambda x: _cosine(x, 1) * 0.5 + _cosine(x, 2) * 0.08 + 0.42),
    _window("hamming", lambda x: _cosine(x, 1) * 0.46 + 0.54),
    _window("hanning", lambda x: _cosine(x, 1) * 0.5 + 0.5),
    free_function("kaiser", "M beta", _of_shape("kaiser", _kaiser), "The Kaiser window of M points, f64."),
)
