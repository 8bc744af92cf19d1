"""Bind the written arguments of an operator's call: tensors, numbers beside them, attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nnmagic.diagnostics import Span
from nnmagic.relay.ops.declaration import NONE_GIVEN, Operator
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import is_complex, is_float
from nnmagic.tinynn.calls.argument_binding import bind, static_argument
from nnmagic.tinynn.types.annotations import DType, dtype_named
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.numbers import is_number, number_constant
from nnmagic.tinynn.values.operator_calls import as_computed, call_operator, cast, is_tensor, tensor_type
from nnmagic.tinynn.values.symbolic_sizes import as_number

# -- operators -----------------------------------------------------------------------------------------

#: Arguments that count or choose; a Python number there is an int32, whatever the data is.
_INDEX_ARGUMENTS = frozenset({"indices", "k", "index"})

#: Arguments that Relay's Python function makes of numbers, in the dtype of the result.
_NUMBERS: dict[str, dict[str, float]] = {
    "random.normal": {"mean": 0.0, "scale": 1.0},
    "random.uniform": {"low": 0.0, "high": 1.0},
}
#: Operators whose numbers have the dtype that an attribute names.
_DTYPE_ATTRIBUTE = {
    "full": "dtype",
    "one_hot": "dtype",
    "random.normal": "out_dtype",
    "random.uniform": "out_dtype",
}

#: What ``max`` and ``min`` are in Python beside reductions: of two tensors an operator, of numbers a number.
_OF_TWO: dict[str, tuple[str, Callable[[Sequence[bool | int | float]], bool | int | float]]] = {
    "max": ("maximum", max),
    "min": ("minimum", min),
}

#: Operators of which Relay's Python function gives the first result alone.
_FIRST_RESULT = frozenset({"nn.dropout"})


def call_with_arguments(operator: Operator, operands: Sequence[v.Operand], span: Span) -> v.Value:
    """Call an operator as it was written: tensors, numbers beside them, attributes. Raises RefusalError."""
    name = operator.name
    if name in _OF_TWO and len(operands) > 1:
        pair = _of_two(name, operands, span)
        if pair is not None:
            return pair
    order = list(operator.call_order or (*operator.args, *(attr.name for attr in operator.attrs)))
    required = [parameter for parameter in order if _is_required(operator, parameter)]
    arguments = bind(name, order, required, operands, span, operator.keywords)
    attrs = {
        parameter: static_argument(name, parameter, operand)
        for parameter, operand in arguments.items()
        if parameter not in operator.args
    }
    args = [_argument(operator, parameter, arguments, attrs, span) for parameter in operator.args]
    spans = {parameter: arguments[parameter].span for parameter in attrs}
    result = call_operator(operator, args, attrs, span, spans)
    if operator.name in _FIRST_RESULT and isinstance(result, v.TupleOf):
        return result.items[0]
    return result


def _of_two(name: str, operands: Sequence[v.Operand], span: Span) -> v.Value | None:
    """Return Python's ``max(2, 3)`` of static numbers; None where Relay's reduction is meant."""
    positional = [operand for operand in operands if operand.keyword is None]
    if len(positional) < 2:
        return None
    if is_tensor(positional[1].value):
        hint = (
            f"write {_OF_TWO[name][0]}({', '.join(source_text(operand.span) for operand in positional[:2])})"
        )
        raise v.RefusalError(f"{name} takes one tensor and its axes, not two tensors", span, hint=hint)
    numbers = [operand.value.value for operand in operands if isinstance(operand.value, v.Known)]
    static = [number for number in numbers if isinstance(number, bool | int | float)]
    if len(static) == len(operands) == len(positional):
        return v.Known(_OF_TWO[name][1](static))
    return None


def _is_required(operator: Operator, parameter: str) -> bool:
    if parameter in operator.args:
        return parameter not in operator.arg_defaults and parameter not in _NUMBERS.get(operator.name, {})
    attr = operator.attr(parameter)
    return attr is not None and attr.default_in_call is NONE_GIVEN


def _argument(
    operator: Operator, parameter: str, given: dict[str, v.Operand], attrs: dict[str, object], span: Span
) -> v.Operand:
    operand = given.get(parameter)
    if operand is None:
        defaults = {**operator.arg_defaults, **_NUMBERS.get(operator.name, {})}
        operand = v.Operand(v.Known(defaults[parameter]), span)
    if isinstance(operand.value, v.Known):
        return _number_argument(operator, parameter, operand, given, attrs)
    if isinstance(operand.value, v.TupleOf) and operator.variadic:
        return _tensors(operator, operand)
    if isinstance(operand.value, v.TupleOf):
        hint = "make it an array in another cell, as in indices = numpy.array([0, 2], 'int32')"
        raise v.RefusalError(
            f"{operator.name}: `{parameter}` must be a tensor, not {describe(operand.value)}",
            operand.span,
            hint=hint if parameter in _INDEX_ARGUMENTS else None,
        )
    return v.Operand(_tensor(operator, parameter, operand), operand.span)


def _tensor(operator: Operator, parameter: str, operand: v.Operand) -> v.Computed:
    if not is_tensor(operand.value):
        wanted = "a tuple of tensors" if operator.variadic else "a tensor"
        message = f"{operator.name}: `{parameter}` must be {wanted}, not {describe(operand.value)}"
        raise v.RefusalError(message, operand.span)
    if operator.variadic:
        hint = "write them in brackets, as in concatenate([a, b], axis=0)"
        raise v.RefusalError(
            f"{operator.name} takes a list of tensors, not one tensor", operand.span, hint=hint
        )
    return operand.dynamic


def _tensors(operator: Operator, operand: v.Operand) -> v.Operand:
    """Return the one argument of an operator of many tensors."""
    assert isinstance(operand.value, v.TupleOf)
    if not operand.value.items:
        raise v.RefusalError(f"{operator.name} needs at least one tensor", operand.span)
    tensors = [item for item in operand.value.items if is_tensor(item)]
    dtypes = [tensor_type(v.Operand(item, operand.span)).dtype for item in tensors]
    items: list[v.Value] = []
    for item in operand.value.items:
        if isinstance(item, v.Known) and is_number(item.value) and dtypes:
            assert isinstance(item.value, bool | int | float | complex)
            item = number_constant(item.value, dtypes[0], operand.span)  # noqa: PLW2901  # the number as a tensor
        if not is_tensor(item):
            raise v.RefusalError(
                f"{operator.name} takes a list of tensors, found {describe(item)}", operand.span
            )
        items.append(item)
    if len(set(dtypes)) > 1:
        shown = " and ".join(dict.fromkeys(dtypes))
        raise v.RefusalError(
            f"{operator.name} of {shown}: an operator of Relay takes one dtype",
            operand.span,
            hint=f"convert the items to one dtype with .astype({dtype_short_name(dtypes[0])})",
        )
    value = v.TupleOf(tuple(items), operand.value.whole if operand.value.items == tuple(items) else None)
    return v.Operand(as_computed(v.Operand(value, operand.span)), operand.span)


def _number_argument(
    operator: Operator,
    parameter: str,
    operand: v.Operand,
    given: dict[str, v.Operand],
    attrs: dict[str, object],
) -> v.Operand:
    """Convert a Python number to a tensor of the dtype of the tensors beside it."""
    assert isinstance(operand.value, v.Known)
    number = operand.value.value
    if not isinstance(number, bool | int | float | complex):
        message = f"{operator.name}: `{parameter}` must be a tensor, not {describe(operand.value)}"
        raise v.RefusalError(message, operand.span)
    dtype = _dtype_beside(operator, parameter, given, attrs) or _natural_dtype(number)
    return v.Operand(number_constant(number, dtype, operand.span), operand.span)


def _dtype_beside(
    operator: Operator, parameter: str, given: dict[str, v.Operand], attrs: dict[str, object]
) -> str | None:
    if parameter in _INDEX_ARGUMENTS:
        return "int32"
    wanted = attrs.get(_DTYPE_ATTRIBUTE.get(operator.name, ""))
    if isinstance(wanted, str | DType):
        dtype = wanted if isinstance(wanted, DType) else dtype_named(wanted)
        return None if dtype is None else dtype.name
    if operator.name in _NUMBERS:  # the key beside them has another dtype
        return "float32"
    passed_over = {parameter, "condition", *_INDEX_ARGUMENTS}
    for name in operator.args:
        operand = given.get(name)
        if operand is not None and name not in passed_over and is_tensor(operand.value):
            return tensor_type(operand).dtype
    return None


def _natural_dtype(number: bool | int | float | complex) -> str:
    """Return Relay's own choice for a lone Python number."""
    if isinstance(number, bool):
        return "bool"
    if isinstance(number, complex):
        return "complex64"
    return "int32" if isinstance(number, int) else "float32"


# -- dtypes -------------------------------------------------------------------------------------------


def convert_to_dtype(dtype: str, short: str, operands: Sequence[v.Operand], span: Span) -> v.Value:
    """Return ``f32(x)``: a number as a tensor of rank 0, a tensor converted. Raises RefusalError."""
    value = as_number(bind(short, ("x",), ("x",), operands, span)["x"])
    if is_tensor(value.value):
        return cast(value.dynamic, dtype, span)
    number = v.static_or(value.value, None)
    if not isinstance(number, bool | int | float | complex):
        raise v.RefusalError(
            f"{short}(...) takes a number or a tensor, not {describe(value.value)}", value.span
        )
    if dtype == "bool":
        number = bool(number)
    elif (
        isinstance(number, float) and math.isfinite(number) and not is_float(dtype) and not is_complex(dtype)
    ):
        number = int(number)
    return number_constant(number, dtype, span)
