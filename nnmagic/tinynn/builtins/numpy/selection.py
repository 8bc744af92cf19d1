"""Define NumPy's select: the first of several choices whose condition holds.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.select.html
"""

from __future__ import annotations

from nnmagic.relay.signatures import dtype_short_name
from nnmagic.tinynn.builtins.argument_checks import as_formula, unify_dtypes
from nnmagic.tinynn.builtins.tensor_helpers import common_shape
from nnmagic.tinynn.calls.argument_binding import Arguments, free_function
from nnmagic.tinynn.values.values import Known, Operand, RefusalError, TupleOf, Value


def _list(call: Arguments, parameter: str) -> list[Operand]:
    operand = call.given[parameter]
    if not isinstance(operand.value, TupleOf) or not operand.value.items:
        raise call.mismatch(parameter, "a list")
    return call.items(parameter)


def _select(call: Arguments) -> Value:
    """Choose the first choice whose condition holds, element by element."""
    conditions, choices = _list(call, "condlist"), _list(call, "choicelist")
    if len(conditions) != len(choices):
        raise call.refusal("choicelist", f"{len(conditions)} conditions for {len(choices)} choices")
    default = call.given.get("default", Operand(Known(0), call.span))
    masks = [as_formula(tensor, call.span, "select: a condition") for tensor in conditions]
    for mask in masks:
        if mask.dtype != "bool":
            message = f"select: the conditions must be bools, not {dtype_short_name(mask.dtype)}"
            raise RefusalError(message, call.at("condlist"), hint="compare them, as in x != 0")
    *values, result = unify_dtypes(call, [*choices, default])
    common_shape(call, [tensor.shape for tensor in (*masks, *values, result)])
    for mask, value in zip(reversed(masks), reversed(values), strict=True):
        result = mask.choose(value, result)
    return result.value


SELECTION = (
    free_function(
        "select",
        "condlist choicelist default?",
        _select,
        "Choose the first of several choices whose condition holds.",
    ),
)
