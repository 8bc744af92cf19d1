"""Draw from distributions: their parameters, the shapes of results, and the state that draws change.

Their reference: https://numpy.org/doc/stable/reference/random/generator.html#distributions
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import AnyDim
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.numpy.creation import CREATION, fill
from nnmagic.tinynn.builtins.numpy.linalg import LINALG
from nnmagic.tinynn.builtins.numpy.products import PRODUCTS
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import broadcast_together, constant_of
from nnmagic.tinynn.calls.argument_binding import Arguments
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.symbolic_sizes import as_number, as_size, require_nonnegative

ROWS = {row.name: row for row in (*CREATION, *LINALG, *PRODUCTS)}

_MAX_LAMBDA = float(np.iinfo("int64").max - np.sqrt(np.iinfo("int64").max) * 10)


def is_not_negative(x: Formula) -> Formula:
    """Return whether each number is at least 0."""
    return ~x.op("numpy.signbit") | x.op("isnan") if x.is_float else x >= 0


#: What NumPy requires of parameters, and its message where it does not hold.
_REQUIRED: dict[str, tuple[Callable[[Formula], Formula], str]] = {
    ">=0": (is_not_negative, "{0} < 0"),
    ">0": (lambda x: ~(x <= 0), "{0} <= 0"),
    "0..1": (lambda x: (x >= 0) & (x <= 1), "{0} < 0, {0} > 1 or {0} is NaN"),
    "above 0..1": (lambda x: (x > 0) & (x <= 1), "{0} <= 0, {0} > 1 or {0} contains NaNs"),
    "0..below 1": (lambda x: (x >= 0) & (x < 1), "{0} < 0, {0} >= 1 or {0} is NaN"),
    ">1": (lambda x: x > 1, "{0} <= 1 or {0} is NaN"),
    "mean": (lambda x: (x >= 0) & (x <= _MAX_LAMBDA), "{0} < 0, {0} is NaN or {0} value too large"),
}


@dataclass(frozen=True, slots=True)
class DistributionParameter:
    """A parameter of a distribution: a float, or an integer if ``is_integer``."""

    name: str
    required: str = ""
    default: float | None = None
    is_integer: bool = False

    def read(self, call: Arguments, dtype: str) -> Formula:
        """Return the argument as a tensor, checked. Raises RefusalError."""
        dtype = "int64" if self.is_integer else dtype
        if self.name not in call:
            return Formula(number_constant(self.default or 0.0, dtype, call.span), call.span)
        operand = as_number(call.given[self.name])
        number = args.python_number(operand.value)
        if isinstance(number, float) and self.is_integer and number.is_integer():
            number = int(number)
        if isinstance(number, int | float):
            return Formula(number_constant(number, dtype, operand.span), call.span)
        data = array_of(call, self.name, dtype)
        if data.is_complex or (self.is_integer and data.is_float):
            wanted = "an integer" if self.is_integer else "a real number"
            message = f"{call.name}: `{self.name}` must be {wanted}, not {describe(operand.value)}"
            raise v.RefusalError(message, operand.span)
        data = data.cast(dtype)
        if not self.required:
            return data
        holds, message = _REQUIRED[self.required]
        return data.require(holds(data), f"{call.name}: {message.format(self.name)}")


def array_of(call: Arguments, parameter: str, dtype: str | None = None) -> Formula:
    """Return an argument as an array, as `np.asarray` does; lists of numbers have a dtype if it is given."""
    operand = call.given[parameter]
    if dtype is not None and isinstance(args.static_value_or_none(operand.value), tuple):
        return args.as_formula_beside(call, parameter, dtype)
    if isinstance(operand.value, v.TupleOf):
        made = ROWS["asarray"].call([v.Operand(operand.value, operand.span)], operand.span)
        operand = v.Operand(made, operand.span)
    return args.formula(Arguments(call.name, {parameter: operand}, call.span), parameter)


def parameter_words(text: str) -> tuple[DistributionParameter, ...]:
    """Return parameters from their names; see `_DISTRIBUTIONS`."""
    parameters = []
    for word in text.split(","):
        name, _, required = word.strip().partition(" ")
        name, _, default = name.partition("=")
        is_integer = name.endswith("#")
        parameters.append(
            DistributionParameter(name.rstrip("#"), required, float(default) if default else None, is_integer)
        )
    return tuple(parameters)


INTEGERS = ("binomial", "negative_binomial", "poisson", "zipf", "geometric", "hypergeometric", "logseries")


def _zero(dtype: str, span: Span) -> Formula:
    return constant_of(np.zeros((), dtype), dtype, span)


def of_size(call: Arguments, dtype: str, *more: v.Value) -> Formula:
    """Return a tensor of the size that a call asks for, with ``more`` sizes behind."""
    operand = call.given.get("size", v.Operand(v.TupleOf(()), call.span))
    if operand.value == v.Known(None):
        operand = v.Operand(v.TupleOf(()), call.span)
    items = operand.value.items if isinstance(operand.value, v.TupleOf) else (operand.value,)
    sizes = []
    for item in (*items, *more):
        size = as_size(v.Operand(item, operand.span))
        if isinstance(size, v.Dimension):
            size = require_nonnegative(size, call.name, operand.span)
        sizes.append(item if size is None else size)
    if any(isinstance(size, v.Known) and isinstance(size.value, int) and size.value < 0 for size in sizes):
        raise v.RefusalError(f"{call.name}: negative dimensions are not allowed", operand.span)
    whole = v.Operand(v.TupleOf(tuple(sizes)), operand.span)
    value = v.dynamic(fill(call, _zero(dtype, call.span), whole))
    return Formula(value, call.span)


def shape(call: Arguments, dtype: str, parameters: Sequence[Formula]) -> tuple[Formula, list[Formula]]:
    """Return a tensor of the shape of the numbers, and the parameters: of rank 0, or of that shape."""
    arrays = [parameter for parameter in parameters if parameter.rank]
    if "size" in call:
        like = of_size(call, dtype)
        _check_fits(call, like, arrays)
        return like, [_fit(parameter, like) for parameter in parameters]
    if not arrays:
        return _zero(dtype, call.span), list(parameters)
    together = iter(broadcast_together(call, arrays))
    fitted = [next(together) if parameter.rank else parameter for parameter in parameters]
    like = next(parameter for parameter in fitted if parameter.rank)
    return like.cast(dtype), fitted


def _check_fits(call: Arguments, like: Formula, arrays: Sequence[Formula]) -> None:
    """Raise RefusalError for a size to which a parameter does not broadcast."""
    for array in arrays:
        behind = like.shape[like.rank - array.rank :] if array.rank <= like.rank else None
        fits = behind is not None and all(
            size in (1, wanted) or isinstance(size, AnyDim) or isinstance(wanted, AnyDim)
            for size, wanted in zip(array.shape, behind, strict=True)
        )
        if not fits:
            shown = f"{format_shape(like.shape)} is not compatible with {format_shape(array.shape)}"
            raise v.RefusalError(f"{call.name}: the size {shown}, the shape of a parameter", call.span)


def _fit(parameter: Formula, like: Formula) -> Formula:
    if not parameter.rank or parameter.shape == like.shape:
        return parameter
    return parameter.op("broadcast_to_like", like.cast(parameter.dtype))


def draw_alone(call: Arguments, parameters: Sequence[Formula] = ()) -> bool:
    """Return whether a call gives a Python number: it has no size, and no array among its parameters."""
    return "size" not in call and not any(parameter.rank for parameter in parameters)


def draw(
    call: Arguments,
    function: str,
    like: Formula,
    parameters: Sequence[Formula] = (),
    finish: Callable[[Formula], v.Value] | None = None,
) -> v.Draw:
    """Return the numbers that a generator draws, and its state after them."""
    given = tuple(parameter.value for parameter in parameters)

    def finished(numbers: v.Computed) -> v.Value:
        return numbers if finish is None else finish(Formula(numbers, call.span))

    return v.Draw(call.given["rng"], function, like.value, given, finished)


def to_number(numbers: Formula) -> v.Value:
    """Return a number of rank 0 as Python's: it takes the dtype of the tensor beside it."""
    wide = numbers.cast("float64" if numbers.is_float else "int64")
    return v.Computed(wide.value.expr, wide.value.type, weak=True)


def number_of_constant(parameter: Formula) -> object:
    """Return the number of a parameter that is known at compile time; None for another."""
    data = getattr(parameter.value.expr, "data", None)
    return data.item() if isinstance(data, np.ndarray) and not data.shape else None


def require_number(call: Arguments, parameter: Formula, condition: Formula, message: str) -> Formula:
    """Return a parameter that the call checks."""
    return parameter.require(condition, f"{call.name}: {message}")
