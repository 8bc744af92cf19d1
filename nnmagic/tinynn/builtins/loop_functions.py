"""Define the functions that call a function of the cell in a loop: scan, apply_along_axis and their kin.

Each gives a LoopCall, which the elaboration writes as the loop that it stands for.

Their reference: https://docs.jax.dev/en/latest/_autosummary/jax.lax.scan.html
"""

from __future__ import annotations

from nnmagic.tinynn.builtins.argument_checks import as_formula, dtype_of_operand, formula, one_axis
from nnmagic.tinynn.calls.argument_binding import Arguments, cell_function, free_function
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.operator_calls import is_tensor


def _function(call: Arguments, parameter: str) -> v.Operand:
    operand = call.given[parameter]
    if isinstance(operand.value, v.Known | v.Dimension | v.TupleOf) or is_tensor(operand.value):
        raise call.mismatch(parameter, "a function")
    return operand


def _scan(call: Arguments) -> v.Value:
    """Return the last carry, and what each round gives beside it."""
    function, xs = _function(call, "f"), call.given.get("xs", v.Operand(v.Known(None), call.span))
    parts = xs.value.items if isinstance(xs.value, v.TupleOf) else (xs.value,)
    if xs.value != v.Known(None) and not all(map(is_tensor, parts)):
        raise call.mismatch("xs", "a tensor, a tuple of tensors or None")
    if xs.value == v.Known(None) and "length" not in call:
        raise v.RefusalError("scan: without `xs`, how many rounds there are", call.span, hint="give `length`")
    length = call.given.get("length", v.Operand(v.Known(None), call.span))
    return v.LoopCall("scan", (function, call.given["init"], xs, length))


def _along_axis(call: Arguments) -> v.Value:
    function, data = _function(call, "func1d"), formula(call, "arr")
    axis = one_axis(call, "axis", data.rank)
    order = [index for index in range(data.rank) if index != axis]
    moved = data.transpose([*order, axis])
    rows = v.Operand(moved.value, call.at("arr"))
    return v.LoopCall("apply_along_axis", (function, rows, *call.items("args")), axis)


def _vectorize(call: Arguments) -> v.Value:
    """Return a function of the elements of tensors, of which each call maps over all of them."""
    function, dtypes = _function(call, "pyfunc"), _result_dtypes(call)

    def apply_to(inner: Arguments) -> v.Value:
        items = inner.items("args")
        if not items:
            raise v.RefusalError("a vectorized function takes at least one tensor", inner.span)
        arrays = tuple(v.Operand(as_formula(item, inner.span, call.name).value, item.span) for item in items)
        return v.LoopCall("vectorize", (function, *arrays), dtypes=dtypes)

    summary = "Call a function for each element of tensors that are broadcast together."
    return v.BuiltinName(cell_function("vectorize", "*args", apply_to, summary))


def _result_dtypes(call: Arguments) -> tuple[str, ...]:
    """Return the dtypes of the results, if they are given."""
    if "otypes" not in call:
        return ()
    operand = call.given["otypes"]
    listed = operand.value.items if isinstance(operand.value, v.TupleOf) else (operand.value,)
    return tuple(dtype_of_operand(v.Operand(each, operand.span), "vectorize") for each in listed)


def _piecewise(call: Arguments) -> v.Value:
    """Compute each piece for the elements whose condition holds, and only for these."""
    cases: dict[str, tuple[v.Operand, ...]] = {}
    for parameter in ("condlist", "funclist"):
        operand = call.given[parameter]
        listed = operand.value.items if isinstance(operand.value, v.TupleOf) else (operand.value,)
        cases[parameter] = tuple(v.Operand(item, operand.span) for item in listed)
    conditions, functions = cases["condlist"], cases["funclist"]
    if len(functions) - len(conditions) not in (0, 1):
        message = f"piecewise: {len(functions)} functions for {len(conditions)} conditions"
        hint = "give one for each, and perhaps one for the rest"
        raise v.RefusalError(message, call.at("funclist"), hint=hint)
    data = v.Operand(formula(call, "x").value, call.at("x"))
    return v.LoopCall("piecewise", (data, *conditions, *functions), len(conditions))


LOOP_FUNCTIONS = (
    cell_function(
        "scan",
        "f init xs? length?",
        _scan,
        "Call f(carry, x) for each x in turn; return the last carry, and the stacked second results.",
    ),
    free_function(
        "apply_along_axis",
        "func1d axis arr *args",
        _along_axis,
        "Call a function for each vector along an axis.",
        form="func1d, axis, arr, *args",
    ),
    free_function(
        "vectorize",
        "pyfunc otypes?",
        _vectorize,
        "Return a function that maps a function over the elements of tensors.",
    ),
    free_function(
        "piecewise",
        "x condlist funclist",
        _piecewise,
        "Compute a function, or a number, for the elements of each condition.",
    ),
)
