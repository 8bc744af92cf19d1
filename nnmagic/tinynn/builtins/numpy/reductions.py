"""Define NumPy's reductions and scans along axes: sums, extrema, truth tests, argmax.

Dtypes are NumPy's: sums of integers are 64-bit, indices are i64.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.ufunc.reduce.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.relay.tensor_expr import Number
from nnmagic.relay.types import is_complex, is_float
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.argument_checks import axes
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, numpy_function
from nnmagic.tinynn.operators.arithmetic import static_result
from nnmagic.tinynn.values.descriptions import source_text
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type
from nnmagic.tinynn.values.symbolic_sizes import as_number
from nnmagic.tinynn.values.values import Known, Operand, RefusalError, TupleOf, Value
from nnmagic.tinynn.values.weak_types import as_weak, both_weak

_NAMES = "x=a input=a"

REDUCE = "a axis? dtype? * keepdims? initial? where? exclude?"

_EXTREME = "a axis? *more * keepdims? initial? where? exclude?"


def reduction_axes(call: Arguments, data: Formula) -> tuple[int, ...] | None:
    """Return the axes of a reduction; Relay's ``exclude`` means all others."""
    chosen = axes(call, data.rank)
    if chosen is not None and args.flag(call, "exclude"):
        return tuple(axis for axis in range(data.rank) if axis not in chosen)
    return chosen


def wide_dtype(dtype: str) -> str:
    """Return the dtype of a sum: 64-bit for integers and bools, unchanged for floats."""
    if is_float(dtype) or is_complex(dtype):
        return dtype
    return "uint64" if dtype.startswith("uint") else "int64"


def is_empty(data: Formula, along: Sequence[int] | None) -> bool:
    """Return whether a reduction along the axes is statically of no elements."""
    return 0 in (data.shape if along is None else [data.shape[axis] for axis in along])


def where_mask(call: Arguments) -> Formula | None:
    """Return the argument ``where`` as bools; None if all elements are chosen."""
    if "where" not in call or args.static_value_or_none(call.given["where"].value) is True:
        return None
    mask = args.formula(call, "where")
    if mask.dtype != "bool":
        message = f"{call.name}: `where` must be of bools, not {dtype_short_name(mask.dtype)}"
        hint = f"compare it first, as in {source_text(call.at('where'))} != 0"
        raise RefusalError(message, call.at("where"), hint=hint)
    return mask


def _apply_where(call: Arguments, data: Formula, neutral: Number) -> Formula:
    """Replace the elements that ``where`` does not choose by the neutral element."""
    mask = where_mask(call)
    return data if mask is None else mask.choose(data, neutral)


def _initial(call: Arguments, data: Formula, result: Formula, operator: str) -> Formula:
    if "initial" not in call:
        return result
    start = call.given["initial"]
    number = args.static_value_or_none(start.value)
    first = (
        data.like(number)
        if isinstance(number, bool | int | float | complex)
        else args.formula(call, "initial").cast(result.dtype)
    )
    return result.op(operator, first)


def _python_numbers(call: Arguments) -> tuple[bool | int | float, ...] | None:
    """Return the argument as a tuple of Python numbers if it is one (sizes, shapes), else None."""
    operand = call.given["a"]
    static = args.static_value_or_none(operand.value)
    if isinstance(static, tuple) and all(isinstance(item, bool | int | float) for item in static):
        return static if set(call.given) == {"a"} else None
    return None


def _require_static_sizes(call: Arguments, data: Formula, along: Sequence[int] | None) -> None:
    """Raise RefusalError where a product of complex numbers is of a number of them that a call decides."""
    sizes = data.shape if along is None else [data.shape[axis] for axis in along]
    for size in sizes:
        args.static_size(call, size, call.at("a"), "how many complex numbers are multiplied")


def _total(name: str, operator: str, neutral: int, of_known: Callable[..., Number]) -> Builtin:
    def apply_to(call: Arguments) -> Value:
        numbers = _python_numbers(call)
        if numbers is not None:
            try:
                return static_result(name, of_known(numbers), call.span)
            except OverflowError:  # an int beyond the range of a float, added to a float
                raise RefusalError(f"the result of `{name}` is no number of 64 bits", call.span) from None
        data = args.formula(call, "a")
        dtype = args.dtype_argument(call) or wide_dtype(data.dtype)
        if dtype == "bool":
            # NumPy adds and multiplies bools as ``or`` and ``and``.
            data, dtype = data.truth(), "bool"
            return data.reduce("any" if name == "sum" else "all", reduction_axes(call, data)).value
        along = reduction_axes(call, data)
        if name == "prod" and is_complex(dtype):
            _require_static_sizes(call, data, along)
        data = _apply_where(call, data.cast(dtype), neutral)
        result = data.reduce(name, along, keepdims=args.flag(call, "keepdims"))
        return _initial(call, data, result, operator).value

    what = "sum" if name == "sum" else "product"
    return numpy_function(
        name, REDUCE, apply_to, f"Return the {what} along axes; 64-bit for integers.", _NAMES
    )


def _extreme_of_several(
    call: Arguments, more: Sequence[Value], operator: str, of_known: Callable[..., Number]
) -> Value | None:
    """Evaluate Python's ``max(a, b)`` of numbers or rank-0 tensors; return None if axes are meant."""
    if "axis" not in call or call.given["axis"].keyword is not None:
        return None
    first, second = (as_number(call.given[name]) for name in ("a", "axis"))
    numbers = [args.python_number(value) for value in (first.value, second.value, *more)]
    if all(isinstance(number, bool | int | float) for number in numbers):
        return Known(of_known(numbers))
    every = [first, second, *(as_number(Operand(value, call.span)) for value in more)]
    # Python's ``max(x, y)`` and NumPy's ``max(x, axis)`` look the same. Numbers have no axes, so
    # tensors of rank 0 can only be meant as in Python.
    tensors = [operand for operand in every if is_tensor(operand.value)]
    if tensors and not any(tensor_type(operand).shape for operand in tensors):
        return _extreme_of_scalars(call, every, operator)
    if more or is_tensor(second.value):
        names = [source_text(operand.span) for operand in (first, second)]
        message = f"{call.name} takes one tensor and its axes, not two tensors"
        raise RefusalError(message, call.span, hint=f"write {operator}({', '.join(names)})")
    return None


def _extreme_of_scalars(call: Arguments, scalars: Sequence[Operand], operator: str) -> Value:
    least = scalars[0]
    for other in scalars[1:]:
        lhs, rhs = args.pair(Arguments(call.name, {"a": least, "b": other}, call.span), "a", "b")
        result = lhs.op(operator, rhs).value
        value = as_weak(result) if both_weak(least, other) else result
        least = Operand(value, call.span)
    return least.value


_OF_TWO = {"max": "maximum", "min": "minimum"}


def _extreme(name: str, kind: str) -> Builtin:
    operator, of_known = _OF_TWO[kind], max if kind == "max" else min
    worst = -math.inf if kind == "max" else math.inf

    def apply_to(call: Arguments) -> Value:
        listed = call.given["more"].value
        more = listed.items if isinstance(listed, TupleOf) else ()
        reduced = Arguments(call.name, {k: v for k, v in call.given.items() if k != "more"}, call.span)
        numbers = _python_numbers(reduced)
        if numbers:
            return Known(of_known(numbers))
        among = _extreme_of_several(call, more, operator, of_known)
        if among is not None:
            return among
        data = args.formula(call, "a")
        along = reduction_axes(call, data)
        if is_empty(data, along) and "initial" not in call:
            message = f"{name} of no elements: {format_shape(data.shape)} has an axis of size 0"
            raise RefusalError(message, call.at("a"), hint="give `initial`, what it is then")
        if "where" in call and "initial" not in call:
            hint = "give `initial` too: the mask may choose nothing"
            raise RefusalError(f"{name}: `where` without `initial`", call.at("where"), hint=hint)
        if "where" in call:
            start = args.static_value_or_none(call.given["initial"].value)
            # ``initial`` takes part in any case, so it is neutral here; infinity would be no
            # integer.
            neutral: Number = start if isinstance(start, bool | int | float) else worst
            data = _apply_where(call, data, neutral)
        if is_empty(data, along):
            result = data.like(args.static_number(call, "initial", 0))
            shape = data.reduce(kind, along, keepdims=args.flag(call, "keepdims")).shape
            return result.op("broadcast_to", shape=shape).value
        result = data.reduce(kind, along, keepdims=args.flag(call, "keepdims"))
        return _initial(call, data, result, operator).value

    size = "largest" if kind == "max" else "smallest"
    return numpy_function(
        name, _EXTREME, apply_to, f"Return the {size} element along axes; NaN if there is one.", _NAMES
    )


def _truth(name: str) -> Builtin:
    def apply_to(call: Arguments) -> Value:
        data = args.formula(call, "a").truth()
        along = reduction_axes(call, data)
        data = _apply_where(call, data, neutral=name == "all")
        return data.reduce(name, along, keepdims=args.flag(call, "keepdims")).value

    which = "all elements are" if name == "all" else "any element is"
    signature = "a axis? * keepdims? where? exclude?"
    return numpy_function(name, signature, apply_to, f"Test whether {which} true (nonzero).", _NAMES)


def _position(name: str) -> Builtin:
    def apply_to(call: Arguments) -> Value:
        data = args.formula(call, "a")
        last = args.flag(call, "select_last_index")
        keepdims = args.flag(call, "keepdims")
        if data.rank == 0:
            data, keepdims = data.reshape((1,)), False
        along = axes(call, data.rank)
        if along is not None and len(along) > 1:
            hint = "one axis, or none for the index into the flattened tensor"
            raise RefusalError(f"{name} takes one axis", call.at("axis"), hint=hint)
        if is_empty(data, along):
            message = f"{name} of no elements: {format_shape(data.shape)} has an axis of size 0"
            raise RefusalError(message, call.at("a"))
        result = data.op(name, axis=along, keepdims=keepdims, select_last_index=last)
        return result.cast("int64").value

    which = "largest" if name == "argmax" else "smallest"
    summary = f"Return the index of the {which} element, i64; of the first NaN if there is one."
    return numpy_function(name, "a axis? * keepdims? select_last_index?", apply_to, summary, _NAMES)


def _range_of(call: Arguments) -> Value:
    data = args.formula(call, "a")
    along, keepdims = reduction_axes(call, data), args.flag(call, "keepdims")
    if is_empty(data, along):
        raise RefusalError("ptp of no elements", call.at("a"))
    largest = data.reduce("max", along, keepdims=keepdims)
    return (largest - data.reduce("min", along, keepdims=keepdims)).value


def _count_nonzero(call: Arguments) -> Value:
    data = args.formula(call, "a").truth()
    axes = reduction_axes(call, data)
    sizes = [size for size in data.shape if isinstance(size, int)]
    few = len(sizes) == data.rank and math.prod(sizes) < 2**31  # int32 has twice as many lanes
    counted = data.cast("int32" if few else "int64")
    return counted.reduce("sum", axes, keepdims=args.flag(call, "keepdims")).cast("int64").value


def _scan(name: str, operator: str) -> Builtin:
    def apply_to(call: Arguments) -> Value:
        data = args.formula(call, "a")
        dtype = args.dtype_argument(call) or wide_dtype(data.dtype)
        if data.rank == 0:
            data = data.reshape((1,))
        axis = args.one_axis(call, "axis", data.rank) if "axis" in call else None
        exclusive = args.flag(call, "exclusive")
        if data.dtype == "bool":
            data = data.cast(dtype)
        return data.op(operator, axis=axis, dtype=dtype, exclusive=exclusive).value

    what = "sum" if operator == "cumsum" else "product"
    return numpy_function(
        name,
        "a axis? dtype? * exclusive?",
        apply_to,
        f"Compute the cumulative {what} along an axis; without an axis, of the flattened tensor.",
        _NAMES,
    )


REDUCTIONS = (
    _total("sum", "add", 0, sum),
    _total("prod", "multiply", 1, math.prod),
    *(_extreme(name, name[-3:]) for name in ("max", "amax", "min", "amin")),
    _truth("all"),
    _truth("any"),
    _position("argmax"),
    _position("argmin"),
    numpy_function("ptp", "a axis? * keepdims?", _range_of, "Return the range, max - min, along axes."),
    numpy_function(
        "count_nonzero", "a axis? * keepdims?", _count_nonzero, "Count the nonzero elements, i64."
    ),
    _scan("cumsum", "cumsum"),
    _scan("cumprod", "cumprod"),
)
