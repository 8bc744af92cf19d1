"""What functions of the language ask of their arguments: tensors, axes, shapes, dtypes.

Raises Refusal, at the argument. Knows values and the binding of arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import dtype_short_name, format_dim, format_shape
from nnmagic.relay.types import AnyDim, Dim, TensorType, is_float
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments
from nnmagic.tinynn.operators.arithmetic import same_dtype
from nnmagic.tinynn.types.annotations import DType, dtype_named
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type
from nnmagic.tinynn.values.symbolic_sizes import as_number
from nnmagic.tinynn.values.values import (
    BuiltinName,
    Computed,
    Dimension,
    Known,
    NotStaticError,
    Operand,
    RefusalError,
    TupleOf,
    Value,
    described,
    is_number,
    known_value,
    number_constant,
    source_text,
)
from nnmagic.tinynn.values.weak_types import alike, beside_tensor, both_weak

# -- tensors -------------------------------------------------------------------------------------------

#: NumPy's dtype of a lone Python number.
_NATURAL: dict[type, str] = {bool: "bool", int: "int64", float: "float64"}


def natural_dtype(number: bool | int | float) -> str:
    """NumPy's dtype of a Python number."""
    return _NATURAL[type(number)]


def formula(call: Arguments, parameter: str) -> Formula:
    """An argument that must be a tensor, or numbers that make one as ``numpy.array`` does."""
    return as_formula(call.given[parameter], call.span, f"{call.name}: `{parameter}`")


def as_formula(operand: Operand, span: Span, what: str) -> Formula:
    """A tensor, or numbers and nested tuples of them as a constant."""
    value = as_number(operand).value
    if is_tensor(value):
        assert isinstance(value, Computed)
        return Formula(value, span)
    known = known_or_none(value)
    if isinstance(known, bool | int | float):
        return Formula(number_constant(known, natural_dtype(known), operand.span), span)
    if isinstance(known, tuple):
        return Formula(_constant(known, operand, what), span)
    hint = None
    if isinstance(value, TupleOf) and any(map(is_tensor, value.items)):
        written = source_text(operand.span)
        stacked = f"stack([{written[1:-1]}])" if written[:1] == "(" else f"stack({written})"
        hint = f"take one of them, as in result[0], or stack them: {stacked}"
        if what.partition(":")[0] in _ALONG_AN_AXIS:
            hint = f"write {stacked}.{what.partition(':')[0]}(axis=0)"
    raise RefusalError(f"{what} must be a tensor, not {described(value)}", operand.span, hint=hint)


#: Functions that Python or NumPy applies to the items of a list.
_ALONG_AN_AXIS = ("sum", "max", "min", "all", "any", "prod", "mean")


def _constant(numbers: tuple[object, ...], operand: Operand, what: str, dtype: str | None = None) -> Computed:
    """Nested tuples of numbers as a constant tensor."""
    found = list(_items(numbers))
    items = [item for item in found if isinstance(item, bool | int | float)]
    if len(items) < len(found):
        raise RefusalError(f"{what} must hold numbers", operand.span)
    shape = _shape(numbers)
    if shape is None:
        raise RefusalError(f"{what}: the rows are not of one length", operand.span)
    kinds = {type(item) for item in items}
    name = dtype or ("float64" if float in kinds or not kinds else "int64" if int in kinds else "bool")
    for item in items:
        number_constant(item, name, operand.span)
    array = np.array(items, dtype="float64" if is_float(name) else name).reshape(shape)
    return Computed(ir.constant(array, name, span=operand.span), TensorType(shape, name))


def _items(numbers: object) -> Iterator[object]:
    if isinstance(numbers, tuple):
        for item in numbers:
            yield from _items(item)
    else:
        yield numbers


def _shape(numbers: object) -> tuple[int, ...] | None:
    """The shape of nested tuples; None where they are no box."""
    if not isinstance(numbers, tuple):
        return ()
    shapes = {_shape(item) for item in numbers}
    inner = shapes.pop() if shapes else ()
    return None if inner is None or shapes else (len(numbers), *inner)


def constant_array(call: Arguments, parameter: str, dtype: str | None) -> Computed:
    """Nested tuples of numbers as a constant of a dtype; NumPy's own unless it is given."""
    operand = call.given[parameter]
    known = known_or_none(operand.value)
    assert isinstance(known, tuple)
    return _constant(known, operand, call.name, dtype)


def known_or_none(value: Value) -> object:
    """The Python value of what is known while compiling; None where it is not (or is None)."""
    try:
        return known_value(value)
    except NotStaticError:
        return None


def python_number(value: Value) -> object:
    """A Python number that is known while compiling; None for anything else, a constant tensor among them."""
    return value.value if isinstance(value, Known) and is_number(value.value) else None


def known_number(call: Arguments, parameter: str, default: bool | int | float) -> bool | int | float:
    """An argument that must be a number known while compiling, which a float can hold."""
    if parameter not in call:
        return default
    found = call.known(parameter)
    operand = call.given[parameter]
    if isinstance(found, bool | int | float):
        number_constant(found, "float64", operand.span)
        return found
    raise RefusalError(
        f"{call.name}: `{parameter}` must be a number, not {described(operand.value)}", operand.span
    )


def known_int(call: Arguments, parameter: str, default: int | None = None) -> int:
    """An argument that must be an int known while compiling."""
    if parameter not in call:
        if default is None:
            raise RefusalError(f"{call.name}: missing argument `{parameter}`", call.span)
        return default
    found = call.known(parameter)
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    operand = call.given[parameter]
    hint = only_the_call_knows(operand.value.dim) if isinstance(operand.value, Dimension) else None
    raise RefusalError(
        f"{call.name}: `{parameter}` must be an int, not {described(operand.value)}", operand.span, hint=hint
    )


def flag(call: Arguments, parameter: str, default: bool = False) -> bool:
    """An argument that must be True or False."""
    found = call.known(parameter, default)
    if isinstance(found, bool):
        return found
    if found is None:
        return default
    operand = call.given[parameter]
    raise RefusalError(
        f"{call.name}: `{parameter}` must be True or False, not {described(operand.value)}", operand.span
    )


def word(call: Arguments, parameter: str, choices: Sequence[str], default: str) -> str:
    """An argument that must be one of some strings."""
    found = call.known(parameter) if parameter in call else default
    if isinstance(found, str) and found in choices:
        return found
    operand = call.given[parameter]
    shown = ", ".join(map(repr, choices))
    raise RefusalError(
        f"{call.name}: `{parameter}` must be one of {shown}, not {described(operand.value)}", operand.span
    )


def as_float(data: Formula) -> Formula:
    """As NumPy's functions of floats take integers and bools: in the float dtype that is wide enough."""
    if data.is_float:
        return data
    bits = int("".join(filter(str.isdigit, data.dtype)) or 1)
    return data.cast("float16" if bits <= 8 else "float32" if bits <= 16 else "float64")


def pair(call: Arguments, left: str, right: str) -> tuple[Formula, Formula]:
    """Two arguments as tensors of one dtype, one of which may be a number."""
    operands = [_tensor_or_number(call, name) for name in (left, right)]
    if not any(is_tensor(operand.value) for operand in operands):
        operands = [
            Operand(as_formula(operand, call.span, call.name).value, operand.span) for operand in operands
        ]
        types = [tensor_type(operand).dtype for operand in operands]
        if "float64" in types:
            operands = [
                Operand(Formula(operand.value, call.span).cast("float64").value, operand.span)
                for operand in operands
                if isinstance(operand.value, Computed)
            ]
    first, second = operands
    numbers = both_weak(first, second)
    first, second = alike(first, second) if numbers else beside_tensor(first, second, call.name)
    one, other = same_dtype(first, second, call.name)
    assert isinstance(one.value, Computed)
    assert isinstance(other.value, Computed)
    return Formula(one.value, call.span), Formula(other.value, call.span)


def _tensor_or_number(call: Arguments, parameter: str) -> Operand:
    """An operand of arithmetic: nested tuples of numbers become tensors."""
    operand = as_number(call.given[parameter])
    if isinstance(known_or_none(operand.value), tuple):
        found = as_formula(operand, call.span, f"{call.name}: `{parameter}`")
        return Operand(found.value, operand.span)
    return operand


def float_pair(call: Arguments, left: str, right: str) -> tuple[Formula, Formula]:
    """As ``pair``, of floats."""
    one, other = pair(call, left, right)
    return as_float(one), as_float(other)


def tensors(call: Arguments, parameter: str) -> list[Formula]:
    """An argument that must be a tuple or list of tensors (numbers among them too), at least one.

    A tensor alone stands for its rows.
    """
    operand = call.given[parameter]
    if not isinstance(operand.value, TupleOf):
        hint = f"write them in brackets, as in {call.name}([a, b])"
        raise RefusalError(
            f"{call.name} takes a list of tensors, not {described(operand.value)}", operand.span, hint=hint
        )
    if not operand.value.items:
        raise RefusalError(f"{call.name} needs at least one tensor", operand.span)
    return of_one_dtype(call, [Operand(item, operand.span) for item in operand.value.items])


def of_one_dtype(call: Arguments, operands: Sequence[Operand]) -> list[Formula]:
    """Operands as tensors of the dtype that the tensors among them have."""
    dtypes = [tensor_type(each).dtype for each in operands if is_tensor(each.value)]
    if len(set(dtypes)) > 1:
        shown = " and ".join(dtype_short_name(dtype) for dtype in dict.fromkeys(dtypes))
        raise RefusalError(
            f"{call.name} of {shown}: dtypes never mix by themselves",
            operands[0].span.to(operands[-1].span),
            hint=f"convert the items to one dtype with .astype({dtype_short_name(dtypes[0])})",
        )
    found = []
    for operand in operands:
        known = known_or_none(operand.value)
        if dtypes and is_number(known):
            assert isinstance(known, bool | int | float)
            found.append(Formula(number_constant(known, dtypes[0], operand.span), call.span))
        else:
            found.append(as_formula(operand, call.span, f"{call.name}: an item"))
    widest = "float64" if any(each.dtype == "float64" for each in found) else found[0].dtype
    return found if dtypes else [each.cast(widest) for each in found]


# -- axes ----------------------------------------------------------------------------------------------


def one_axis(call: Arguments, parameter: str, rank: int, default: int | None = None) -> int:
    """An axis, not negative."""
    return checked_axis(call, parameter, known_int(call, parameter, default), rank)


def checked_axis(call: Arguments, parameter: str, axis: object, rank: int) -> int:
    """An axis that a tensor of that rank has, not negative."""
    operand = call.given.get(parameter)
    span = call.span if operand is None else operand.span
    if isinstance(axis, bool) or not isinstance(axis, int):
        what = "an axis" if operand is None else described(operand.value)
        raise RefusalError(f"{call.name}: `{parameter}` must be an int or a tuple of ints, not {what}", span)
    if not -rank <= axis < rank:
        message = f"{call.name}: axis {axis} is out of range for a tensor of rank {rank}"
        raise RefusalError(message, span)
    return axis % rank


def axes(call: Arguments, rank: int, parameter: str = "axis") -> tuple[int, ...] | None:
    """Axes, not negative, each once; None where all are meant."""
    if parameter not in call:
        return None
    given = call.known(parameter)
    listed = given if isinstance(given, tuple) else (given,)
    found = tuple(checked_axis(call, parameter, axis, rank) for axis in listed)
    if len(set(found)) != len(found):
        raise RefusalError(f"{call.name}: an axis is listed twice", call.given[parameter].span)
    return found


# -- dtypes and shapes ---------------------------------------------------------------------------------


def dtype_argument(call: Arguments, parameter: str = "dtype") -> str | None:
    """An argument that must be a dtype: ``f32``, ``"float32"``; None where it is left out."""
    if parameter not in call:
        return None
    operand = call.given[parameter]
    return dtype_of_operand(operand, call.name)


def _numpy_dtype(text: str) -> str | None:
    """The dtype of a cell that NumPy calls so, as it does with ``f4`` and ``float``."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy warns of names that it is to give up
        try:
            found = dtype_named(np.dtype(text).name)
        except (TypeError, ValueError, Warning):
            return None
    return None if found is None else found.short


def dtype_of_operand(operand: Operand, function: str) -> str:
    """The dtype that an operand names."""
    found = known_or_none(operand.value)
    dtype = found if isinstance(found, DType) else dtype_named(found) if isinstance(found, str) else None
    if dtype is None and isinstance(operand.value, BuiltinName):
        python = {"bool": "bool", "int": "int64", "float": "float64"}
        dtype = dtype_named(python.get(operand.value.builtin.name, ""))
    if dtype is None:
        meant = _numpy_dtype(found) if isinstance(found, str) else None
        hint = f"write {meant}" if meant else "write one of f16 bf16 f32 f64, i8 to i64, u8 to u64, bool_"
        if isinstance(found, int) and function in ("zeros", "ones", "empty"):
            hint = f"a shape goes in brackets, as in {function}((2, 3))"
        elif isinstance(found, int) and function in ("sum", "mean", "prod", "std", "var"):
            hint = "several axes go in brackets, as in axis=(0, 1)"
        raise RefusalError(f"{function}: {described(operand.value)} is no dtype", operand.span, hint=hint)
    return dtype.name


def shape_argument(call: Arguments, parameter: str) -> tuple[Dim, ...]:
    """A shape: an int, or a tuple of ints and named dimensions."""
    operand = call.given[parameter]
    known = call.known(parameter)
    dims = known if isinstance(known, tuple) else (known,)
    found: list[Dim] = []
    for dim in dims:
        if isinstance(dim, bool) or not isinstance(dim, int | AnyDim):
            shown = f"the float {dim}" if isinstance(dim, float) else repr(dim)
            raise RefusalError(f"{call.name}: a shape holds ints, not {shown}", operand.span)
        if isinstance(dim, int) and dim < 0:
            raise RefusalError(f"{call.name}: a dimension cannot be {dim}", operand.span)
        found.append(dim)
    return tuple(found)


def fixed(call: Arguments, dim: Dim, span: Span, what: str = "the size") -> int:
    """A dimension that must be a number."""
    if isinstance(dim, int):
        return dim
    message = f"{call.name}: {what} must be known while compiling, not the dimension {format_dim(dim)}"
    raise RefusalError(message, span, hint=only_the_call_knows(dim))


def only_the_call_knows(dim: Dim) -> str:
    """What to do where a size is needed and only the call determines it."""
    return f"write a number in place of {format_dim(dim)} in the annotation: the size must be fixed"


def require_rank(call: Arguments, data: Formula, parameter: str, least: int) -> None:
    """A tensor that must have at least so many dimensions."""
    if data.rank < least:
        span = call.given[parameter].span
        message = (
            f"{call.name} takes a tensor of rank {least} or more, not one of shape {format_shape(data.shape)}"
        )
        raise RefusalError(message, span)


def require_float(call: Arguments, data: Formula, parameter: str) -> None:
    """A tensor that must hold floats."""
    if not is_float(data.dtype):
        span = call.given[parameter].span
        message = f"{call.name} is defined for floats, not {dtype_short_name(data.dtype)}"
        raise RefusalError(message, span, hint=f"convert it first, as in {source_text(span)}.astype(f32)")


def of_formula(function: Callable[[Formula], Formula], parameter: str) -> Callable[[Arguments], Value]:
    """A function of one tensor of floats as a function of the language."""

    def apply_to(call: Arguments) -> Value:
        data = formula(call, parameter)
        require_float(call, data, parameter)
        return function(data).value

    return apply_to
