"""Define the methods of NumPy's universal functions, such as ``add.outer`` and ``maximum.reduce``.

NumPy's reference: https://numpy.org/doc/stable/reference/ufuncs.html#methods
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from synr.ast import BuiltinOp

from nnmagic.relay.signatures import dtype_short_name
from nnmagic.tinynn.builtins.argument_checks import axes, flag, formula, one_axis
from nnmagic.tinynn.builtins.numpy.elementwise import BINARY
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.operators.arithmetic import unary
from nnmagic.tinynn.operators.element_assignment import combine_at
from nnmagic.tinynn.syntax.in_place_calls import CHANGED_AT
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type
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
    if name == CHANGED_AT and builtin.name in _COMBINED:
        return _at(builtin.name)
    if name == "accumulate" and builtin.name in ("maximum", "minimum"):
        return _running_extreme(builtin)
    if name == "outer" and builtin.name in _BINARY_NAMES:
        return _outer(builtin)
    same = _SAME_AS.get(name, {}).get(builtin.name)
    if same is None and builtin.name in _BITWISE and name in ("reduce", "accumulate"):
        return _bitwise(builtin.name, name)
    return None if same is None else _along_first_axis(builtins[same], f"{builtin.name}.{name}")


#: The functions of bits and truth values, by the bitwise function that they are of 0 and 1.
_BITWISE = {
    **{f"bitwise_{word}": f"bitwise_{word}" for word in ("and", "or", "xor")},
    **{f"logical_{word}": f"bitwise_{word}" for word in ("and", "or", "xor")},
}


def _bitwise(name: str, method: str) -> Builtin:
    """Declare the reduction of bits or truth values, or that of all elements up to each one."""

    def apply_to(call: Arguments) -> Value:
        data = formula(call, "array")
        is_logical = name.startswith("logical") or data.dtype == "bool"
        if is_logical:
            data = data.truth().cast("uint8")
        elif not data.is_integer:
            message = f"{name} is defined for integers and bools, not {dtype_short_name(data.dtype)}"
            raise RefusalError(message, call.at("array"))
        if not data.rank:
            raise RefusalError(f"{name}.{method} of a number", call.span)
        operator = f"numpy.{_BITWISE[name]}.{method}"
        if method == "accumulate":
            result = data.op(operator, axis=one_axis(call, "axis", data.rank, 0))
        else:
            along = axes(call, data.rank) if "axis" in call.given else (0,)
            result = data.op(operator, axis=along, keepdims=flag(call, "keepdims"))
        return (result.truth() if is_logical else result).value

    shown = "of all elements up to each one along an axis" if method == "accumulate" else "along axes"
    signature = "array axis?=0" if method == "accumulate" else "array axis?=0 * keepdims?"
    return cell_function(f"{name}.{method}", signature, apply_to, f"Apply {name} {shown}.")


def _at(name: str) -> Builtin:
    """Declare the function that gives an array with elements changed once for each index."""

    def apply_to(call: Arguments) -> Value:
        array, indices, value = call.given["a"], call.given["indices"], call.given["b"]
        if not is_tensor(array.value) or not tensor_type(array).shape:
            raise RefusalError(f"{name}.at changes an array, not {describe(array.value)}", array.span)
        is_tuple = isinstance(indices.value, TupleOf) and not source_text(indices.span).startswith("[")
        parts = indices.value.items if is_tuple and isinstance(indices.value, TupleOf) else (indices.value,)
        index = [Operand(part, indices.span) for part in parts]
        if name == "subtract":
            value = Operand(unary(BuiltinOp.USub, "-", value, call.span), value.span)
        return combine_at(array, index, value, call.span, _COMBINED[name])

    summary = f"Apply {name} to the elements at the indices, once for each of them."
    return cell_function(f"{name}.at", "a indices b", apply_to, summary)


def _running_extreme(builtin: Builtin) -> Builtin:
    """Declare the extremes of all elements up to each one."""

    def apply_to(call: Arguments) -> Value:
        data = formula(call, "array")
        if not data.rank:
            raise RefusalError(f"{builtin.name}.accumulate of a number", call.span)
        axis = one_axis(call, "axis", data.rank, 0)
        return data.op(f"numpy.{builtin.name}.accumulate", axis=axis).value

    summary = f"Apply {builtin.name} to all elements up to each one along an axis."
    return cell_function(f"{builtin.name}.accumulate", "array axis?=0", apply_to, summary)


#: How ``at`` combines a value with the elements, by what Relay calls it.
_COMBINED = {"add": "add", "subtract": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}


def _outer(builtin: Builtin) -> Builtin:
    """Declare the function of each element of one tensor with each of another."""

    def apply_to(call: Arguments) -> Value:
        lhs, rhs = formula(call, "A"), formula(call, "B")
        if lhs.rank and rhs.rank:
            lhs = lhs.op("expand_dims", axis=lhs.rank, num_newaxis=rhs.rank)
        pairs = zip((lhs, rhs), ("A", "B"), strict=True)
        return builtin.call([Operand(side.value, call.at(name)) for side, name in pairs], call.span)

    summary = f"Apply {builtin.name} to every pair of elements."
    return cell_function(f"{builtin.name}.outer", "A B", apply_to, summary)


def _along_first_axis(builtin: Builtin, name: str) -> Builtin:
    """Declare a function along axes whose default is the first axis, not all."""

    def apply_to(call: Arguments) -> Value:
        given = {"axis": Operand(Known(0), call.span), **call.given}
        operands = [given.pop("array"), *(replace(each, keyword=key) for key, each in given.items())]
        return builtin.call(operands, call.span)

    has = [word for word in ("dtype", "keepdims") if word in builtin.parameters]
    signature = " * ".join(filter(None, ["array axis?=0", " ".join(f"{word}?" for word in has)]))
    return cell_function(name, signature, apply_to, f"Apply {name} along an axis, by default the first.")
