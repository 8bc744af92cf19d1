"""Define the methods of NumPy's universal functions, such as ``add.outer`` and ``maximum.reduce``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnmagic.relay.types import is_integer
from nnmagic.tinynn.builtins.argument_checks import (
    as_formula,
    formula,
    one_axis,
    python_number,
    static_size,
)
from nnmagic.tinynn.builtins.numpy.elementwise import BINARY
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import broadcast, concatenate, static_slice
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values.operator_calls import as_computed
from nnmagic.tinynn.values.operator_restrictions import broadcast_shape
from nnmagic.tinynn.values.values import Known, Operand, RefusalError, TupleOf, Value

_BINARY_NAMES = frozenset(row.name for row in BINARY)
#: What each method of a function is called in a cell; ``outer`` is a method of all functions of two tensors.
_SAME_AS: Mapping[str, Mapping[str, str]] = {
    "reduce": {
        "add": "sum",
        "multiply": "prod",
        "maximum": "max",
        "minimum": "min",
        "logical_and": "all",
        "logical_or": "any",
    },
    "accumulate": {"add": "cumsum", "multiply": "cumprod"},
}


def ufunc_method(builtin: Builtin, name: str, builtins: Mapping[str, Builtin]) -> Builtin | None:
    """Return a method of a function, ``builtins`` being those of a cell; None if it has no such method."""
    if name == "outer" and builtin.name in _BINARY_NAMES:
        return _outer(builtin)
    if name == "accumulate" and builtin.name in ("maximum", "minimum"):
        return _running_extremes(builtin)
    if name == "at" and builtin.name in _SCATTERS:
        return _at(builtin)
    same = _SAME_AS.get(name, {}).get(builtin.name)
    return None if same is None else _along_first_axis(builtins[same], f"{builtin.name}.{name}")


def _outer(builtin: Builtin) -> Builtin:
    """Declare the function of each element of one tensor with each of another."""

    def apply_to(call: Arguments) -> Value:
        left, right = formula(call, "A"), formula(call, "B")
        if left.rank and right.rank:
            left = left.op("expand_dims", axis=left.rank, num_newaxis=right.rank)
        pairs = zip((left, right), ("A", "B"), strict=True)
        return builtin.call([Operand(side.value, call.given[name].span) for side, name in pairs], call.span)

    summary = f"Apply {builtin.name} to every pair of elements."
    return Builtin(f"{builtin.name}.outer", "A B", apply_to, summary, method=False)


def _running_extremes(builtin: Builtin) -> Builtin:
    """Declare the extremes of the elements up to each one: of 2, then of 4, then of 8 ... elements."""
    name = f"{builtin.name}.accumulate"

    def apply_to(call: Arguments) -> Value:
        data = formula(call, "array")
        axis = one_axis(call, "axis", data.rank, 0)
        size = static_size(call, data.shape[axis], call.given["array"].span, f"the size of an axis of {name}")
        step = 1
        while step < size:
            kept = static_slice(data, axis, 0, step)
            parts = static_slice(data, axis, step, size), static_slice(data, axis, 0, size - step)
            later = Formula(as_computed(Operand(_apply(builtin, parts, call), call.span)), call.span)
            data, step = concatenate(call, [kept, later], axis), 2 * step
        return data.value

    return Builtin(
        name, "array axis?=0", apply_to, f"Apply {builtin.name} to all elements before.", method=False
    )


def _apply(builtin: Builtin, parts: Sequence[Formula], call: Arguments) -> Value:
    return builtin.call([Operand(part.value, call.span) for part in parts], call.span)


#: How an operator scatters for the function whose ``at`` a statement calls.
_SCATTERS = {"add": "add", "subtract": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}


def _at(builtin: Builtin) -> Builtin:
    """Declare the function that combines elements with others, as often as an index is there.

    Statements assign its result to the array: ``np.add.at(y, i, 1)`` is ``y = np.add.at(y, i, 1)``.
    """
    name = f"{builtin.name}.at"

    def apply_to(call: Arguments) -> Value:
        data, given = formula(call, "a"), call.given["indices"]
        items = given.value.items if isinstance(given.value, TupleOf) else (given.value,)
        indices = [as_formula(Operand(item, given.span), call.span, name) for item in items]
        if not all(is_integer(index.dtype) for index in indices) or len(indices) > data.rank:
            raise RefusalError(f"{name}: the indices must be integers, one for each axis at most", given.span)
        shape = broadcast_shape([index.shape for index in indices])
        if shape is None:
            raise RefusalError(f"{name}: the shapes of the indices do not broadcast", given.span)
        rows = [broadcast(index.cast("int64"), shape).op("expand_dims", axis=0) for index in indices]
        stacked = rows[0] if len(rows) == 1 else concatenate(call, rows, 0)
        number = python_number(call.given["b"].value)
        if isinstance(number, bool | int | float):
            change = data.like(number)
        else:
            change = formula(call, "b").cast(data.dtype)
        whole = broadcast(change, (*shape, *data.shape[len(indices) :]))
        if builtin.name == "subtract":
            whole = -whole
        return data.op("scatter_nd", stacked, whole, mode=_SCATTERS[builtin.name]).value

    return Builtin(
        name, "a indices b", apply_to, f"Apply {builtin.name} at indices, to the array.", method=False
    )


def _along_first_axis(builtin: Builtin, name: str) -> Builtin:
    """Declare a function along axes whose default is the first axis, not all."""

    def apply_to(call: Arguments) -> Value:
        given = {"axis": Operand(Known(0), call.span), **call.given}
        operands = [given.pop("array"), *(replace(each, keyword=key) for key, each in given.items())]
        return builtin.call(operands, call.span)

    has = [word for word in ("dtype", "keepdims") if word in builtin.parameters]
    signature = " * ".join(filter(None, ["array axis?=0", " ".join(f"{word}?" for word in has)]))
    return Builtin(
        name, signature, apply_to, f"Apply {name} along an axis, by default the first.", method=False
    )
