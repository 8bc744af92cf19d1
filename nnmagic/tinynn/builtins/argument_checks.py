"""Check and convert the arguments of the language's functions: tensors, axes, shapes and dtypes.

An argument that does not fit raises RefusalError, located at the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import dtype_short_name, format_dim, format_shape
from nnmagic.relay.structure.tuple_trees import flatten
from nnmagic.relay.types import AnyDim, Dim, TensorType, is_float, is_integer
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import stack
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.operators.mixed_operands import same_dtype
from nnmagic.tinynn.types.annotations import PYTHON_DTYPES, DType, as_dtype
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.numbers import is_number, number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast, is_tensor, tensor_type, vector_of
from nnmagic.tinynn.values.promotion import common_dtype, dtype_beside_numbers, no_common_dtype, note_widening
from nnmagic.tinynn.values.symbolic_sizes import as_number, number_of
from nnmagic.tinynn.values.weak_types import adopt_tensor_dtype, both_weak, promote_weak

# -- tensors -------------------------------------------------------------------------------------------

#: NumPy's dtypes of Python numbers.
_NATURAL: dict[type, str] = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def natural_dtype(number: bool | int | float | complex) -> str:
    """Return NumPy's dtype of a Python number."""
    return _NATURAL[type(number)]


def formula(call: Arguments, parameter: str) -> Formula:
    """Return an argument as a tensor; numbers, and lists of tensors, become one as in ``numpy.array``."""
    if (parts := _items_to_stack(call, parameter)) is not None:
        return stack(unify_dtypes(call, parts), 0)
    return as_formula(call.given[parameter], call.span, f"{call.name}: `{parameter}`")


def of_arrays(builtin: Builtin) -> Builtin:
    """Return a function of NumPy's whose argument may be a list of tensors, of which it makes an array."""

    def apply_to(call: Arguments) -> v.Value:
        operand = call.given["a"]
        items = operand.value.items if isinstance(operand.value, v.TupleOf) else ()
        if items and all(map(is_tensor, items)):
            parts = unify_dtypes(call, [v.Operand(item, operand.span) for item in items])
            whole = v.Operand(stack(parts, 0).value, operand.span)
            call = replace(call, given={**call.given, "a": whole})
        return builtin.apply(call)

    return replace(builtin, apply=apply_to)


#: Functions that Python does not have: of a list they are NumPy's, of the array that it makes.
_OF_LISTS = frozenset(
    (
        *("mean", "std", "var", "median", "argmax", "argmin", "average", "ptp", "percentile", "quantile"),
        *("sort", "argsort", "cumsum", "cumprod", "diff", "unique", "bincount", "nonzero", "flatnonzero"),
        *("sqrt", "exp", "log", "log2", "log10", "sin", "cos", "square", "sign", "floor", "ceil", "isnan"),
        *("nanmean", "nanmax", "nanmin", "nansum", "cov", "corrcoef", "trapezoid", "count_nonzero"),
    )
)


def _items_to_stack(call: Arguments, parameter: str) -> list[v.Operand] | None:
    """Return the tensors of a list that NumPy makes an array of; None for any other argument.

    Python's own max, min, any and all of numbers are NumPy's, too.
    """
    operand = call.given[parameter]
    if not isinstance(operand.value, v.TupleOf) or parameter != next(iter(call.given)):
        return None
    items = [v.Operand(item, operand.span) for item in operand.value.items]
    tensors = [tensor_type(item) for item in items if is_tensor(item.value)]
    if not tensors or any(type_.shape != tensors[0].shape for type_ in tensors):
        return None
    if len(tensors) < len(items) and tensors[0].shape:
        return None
    of_numbers = (
        call.name in ("max", "min", "any", "all")
        and set(call.given) <= {"a", "more"}
        and not tensors[0].shape
    )
    along = call.given.get("axis")
    of_arrays = call.name in ("max", "min", "sum", "prod", "any", "all") and along is not None
    has_axis = of_arrays and along is not None and along.keyword is not None
    return items if call.name in _OF_LISTS or of_numbers or has_axis else None


def as_formula_beside(call: Arguments, parameter: str, dtype: str) -> Formula:
    """Return an argument as a tensor; nested tuples of numbers take the dtype of the tensor beside them."""
    operand = call.given[parameter]
    items = static_value_or_none(operand.value)
    if isinstance(items, tuple):
        return Formula(_constant(items, operand, f"{call.name}: `{parameter}`", dtype), call.span)
    return as_formula(operand, call.span, f"{call.name}: `{parameter}`")


def as_formula(operand: v.Operand, span: Span, what: str) -> Formula:
    """Return an operand as a tensor; a number, or nested tuples of numbers, becomes a constant."""
    value = as_number(operand).value
    if is_tensor(value):
        assert isinstance(value, v.Computed)
        return Formula(value, span)
    static = static_value_or_none(value)
    if isinstance(static, bool | int | float | complex):
        return Formula(number_constant(static, natural_dtype(static), operand.span), span)
    if isinstance(static, tuple):
        return Formula(_constant(static, operand, what), span)
    hint = None
    if isinstance(value, v.TupleOf) and any(map(is_tensor, value.items)):
        text = source_text(operand.span)
        stacked = f"stack([{text[1:-1]}])" if text[:1] == "(" else f"stack({text})"
        hint = f"take one of them, as in result[0], or stack them: {stacked}"
        if what.partition(":")[0] in _ALONG_AN_AXIS:
            hint = f"write {stacked}.{what.partition(':')[0]}(axis=0)"
    raise v.RefusalError(f"{what} must be a tensor, not {describe(value)}", operand.span, hint=hint)


#: Functions that Python or NumPy applies to the items of a list.
_ALONG_AN_AXIS = ("sum", "max", "min", "all", "any", "prod", "mean")


def _constant(
    numbers: tuple[object, ...], operand: v.Operand, what: str, dtype: str | None = None
) -> v.Computed:
    """Return nested tuples of numbers as a tensor, a constant where none of them is a dimension's size."""
    leaves = list(_leaves(operand.value))
    values = [0 if isinstance(leaf, v.Dimension) else leaf for leaf in leaves]
    items = [item for item in values if isinstance(item, bool | int | float | complex)]
    if len(items) < len(leaves):
        raise v.RefusalError(f"{what} must hold numbers", operand.span)
    shape = _shape(numbers)
    if shape is None:
        raise v.RefusalError(f"{what}: the rows are not of one length", operand.span)
    kinds = {type(item) for item in items}
    name = dtype_beside_numbers(dtype, items) if dtype else _dtype_of(kinds)
    for item in items:
        number_constant(item, name, operand.span)
    if any(isinstance(leaf, v.Dimension) for leaf in leaves):
        name = "int64" if is_integer(name) and name != "uint64" else name  # no size wraps around
        parts = [
            cast(number_of(leaf, operand.span), name, operand.span)
            if isinstance(leaf, v.Dimension)
            else number_constant(item, name, operand.span)
            for leaf, item in zip(leaves, items, strict=True)
        ]
        vector = vector_of(parts, operand.span)
        return vector if len(shape) == 1 else apply("reshape", operand.span, vector, newshape=shape)
    array = np.array(items, dtype="float64" if is_float(name) else name).reshape(shape)
    return v.Computed(ir.constant(array, name, span=operand.span), TensorType(shape, name))


def _leaves(value: v.Value) -> Iterator[object]:
    """Yield what nested tuples hold, in order: Python's values, and dimensions as they are."""
    if isinstance(value, v.TupleOf):
        for item in value.items:
            yield from _leaves(item)
    else:
        yield from (value,) if isinstance(value, v.Dimension) else flatten(v.static_value(value))


def _dtype_of(kinds: Collection[type]) -> str:
    """Return NumPy's dtype of an array of numbers of these types."""
    if complex in kinds:
        return "complex128"
    return "float64" if float in kinds or not kinds else "int64" if int in kinds else "bool"


def _shape(numbers: object) -> tuple[int, ...] | None:
    """Return the shape of nested tuples, or None if they are ragged."""
    if not isinstance(numbers, tuple):
        return ()
    shapes = {_shape(item) for item in numbers}
    inner = shapes.pop() if shapes else ()
    return None if inner is None or shapes else (len(numbers), *inner)


def constant_array(call: Arguments, parameter: str, dtype: str | None) -> v.Computed:
    """Return nested tuples of numbers as a constant of a dtype, by default NumPy's."""
    operand = call.given[parameter]
    items = static_value_or_none(operand.value)
    assert isinstance(items, tuple)
    vector = _constant(items, operand, call.name, dtype)
    return vector if dtype is None else cast(vector, dtype, operand.span)


def static_value_or_none(value: v.Value) -> object:
    """Return the Python value of a static value; None for a dynamic one (or for None itself)."""
    return v.static_or(value, None)


def known_without_sizes(value: v.Value) -> object:
    """Return the Python value of a static value; None for a dynamic one, or one that holds dimensions."""
    static = static_value_or_none(value)
    return None if any(isinstance(part, AnyDim) for part in flatten(static)) else static


def python_number(value: v.Value) -> object:
    """Return the Python number of a static value; None for anything else, including a constant tensor."""
    return value.value if isinstance(value, v.Known) and is_number(value.value) else None


def static_number(call: Arguments, parameter: str, default: bool | int | float) -> bool | int | float:
    """Return an argument that must be a number known at compile time and fit a float."""
    if parameter not in call:
        return default
    value = call.static(parameter)
    if isinstance(value, bool | int | float):
        number_constant(value, "float64", call.at(parameter))
        return value
    raise call.mismatch(parameter, "a number")


def static_int(call: Arguments, parameter: str, default: int | None = None) -> int:
    """Return an argument that must be an int known at compile time."""
    if parameter not in call:
        if default is None:
            raise v.RefusalError(f"{call.name}: missing argument `{parameter}`", call.span)
        return default
    value = call.static(parameter)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    operand = call.given[parameter]
    hint = dynamic_size_hint(operand.value.dim) if isinstance(operand.value, v.Dimension) else None
    raise call.mismatch(parameter, "an int", hint)


def flag(call: Arguments, parameter: str, default: bool = False) -> bool:
    """Return an argument that must be True or False."""
    value = call.static(parameter, default)
    if isinstance(value, bool):
        return value
    if value is None:
        return default
    raise call.mismatch(parameter, "True or False")


def choice_argument(call: Arguments, parameter: str, choices: Sequence[str], default: str) -> str:
    """Return an argument that must be one of the given strings."""
    value = call.static(parameter) if parameter in call else default
    if isinstance(value, str) and value in choices:
        return value
    raise call.mismatch(parameter, f"one of {', '.join(map(repr, choices))}")


def as_float(data: Formula) -> Formula:
    """Cast integers and bools to the float dtype that NumPy's functions of floats choose; floats stay."""
    if data.is_float or data.is_complex:
        return data
    bits = int("".join(filter(str.isdigit, data.dtype)) or 1)
    return data.cast("float16" if bits <= 8 else "float32" if bits <= 16 else "float64")


def pair(call: Arguments, lhs: str, rhs: str) -> tuple[Formula, Formula]:
    """Return two arguments as tensors of one dtype; either may be a number."""
    operands = tensors_or_numbers(call, [as_number(call.given[name]) for name in (lhs, rhs)])
    if not any(is_tensor(operand.value) for operand in operands):
        operands = [
            v.Operand(as_formula(operand, call.span, call.name).value, operand.span) for operand in operands
        ]
        types = [tensor_type(operand).dtype for operand in operands]
        if "float64" in types or "complex128" in types:
            wider = "complex128" if "complex128" in types else "float64"
            operands = [
                v.Operand(Formula(operand.value, call.span).cast(wider).value, operand.span)
                for operand in operands
                if isinstance(operand.value, v.Computed)
            ]
    first, second = operands
    numbers = both_weak(first, second)
    first, second = (promote_weak if numbers else adopt_tensor_dtype)(first, second)
    left_tensor, right_tensor = same_dtype(first, second, call.name)
    return Formula(left_tensor.dynamic, call.span), Formula(right_tensor.dynamic, call.span)


def tensors_or_numbers(call: Arguments, operands: Sequence[v.Operand]) -> list[v.Operand]:
    """Return operands of arithmetic; nested tuples of numbers become tensors of the dtype beside them."""
    dtypes = [tensor_type(operand).dtype for operand in operands if is_tensor(operand.value)]
    results = []
    for operand in operands:
        items = static_value_or_none(operand.value)
        if isinstance(items, tuple):
            value = _constant(items, operand, call.name, dtypes[0] if dtypes else None)
            results.append(v.Operand(value, operand.span))
        else:
            results.append(operand)
    return results


def float_pair(call: Arguments, lhs: str, rhs: str) -> tuple[Formula, Formula]:
    """Return two arguments as ``pair`` does, cast to floats."""
    first, second = pair(call, lhs, rhs)
    return as_float(first), as_float(second)


def tensors(call: Arguments, parameter: str) -> list[Formula]:
    """Return an argument that must be a non-empty tuple or list of tensors or numbers.

    A single tensor stands for its rows.
    """
    operand = call.given[parameter]
    if not isinstance(operand.value, v.TupleOf):
        hint = f"write them in brackets, as in {call.name}([a, b])"
        raise v.RefusalError(
            f"{call.name} takes a list of tensors, not {describe(operand.value)}", operand.span, hint=hint
        )
    if not operand.value.items:
        raise v.RefusalError(f"{call.name} needs at least one tensor", operand.span)
    return unify_dtypes(call, [v.Operand(item, operand.span) for item in operand.value.items])


def unify_dtypes(call: Arguments, operands: Sequence[v.Operand]) -> list[Formula]:
    """Return operands as tensors of one dtype, that of the tensors among them."""
    operands = tensors_or_numbers(call, operands)
    dtypes = [tensor_type(tensor).dtype for tensor in operands if is_tensor(tensor.value)]
    numbers = [operand.value.value for operand in operands if isinstance(operand.value, v.Known)]
    dtype = common_dtype(dtypes) if dtypes else None
    if dtype is not None:
        note_widening(operands, dtype)
        dtype = dtype_beside_numbers(dtype, numbers)
    if dtypes and dtype is None:
        raise v.RefusalError(
            no_common_dtype(call.name, dtypes),
            operands[0].span.to(operands[-1].span),
            hint=f"convert the items to one dtype with .astype({dtype_short_name(dtypes[0])})",
        )
    results = []
    for operand in operands:
        value = static_value_or_none(operand.value)
        if dtype is not None and is_number(value):
            assert isinstance(value, bool | int | float | complex)
            results.append(Formula(number_constant(value, dtype, operand.span), call.span))
        else:
            results.append(as_formula(operand, call.span, f"{call.name}: an item"))
    if dtype is None:
        found = {tensor.dtype for tensor in results}
        wide = [each for each in ("complex128", "float64") if each in found]
        dtype = wide[0] if wide else results[0].dtype
    return [tensor.cast(dtype) for tensor in results]


# -- axes ----------------------------------------------------------------------------------------------


def one_axis(call: Arguments, parameter: str, rank: int, default: int | None = None) -> int:
    """Return an argument that is an axis, normalized to be non-negative."""
    return normalize_axis(call, parameter, static_int(call, parameter, default), rank)


def normalize_axis(call: Arguments, parameter: str, axis: object, rank: int) -> int:
    """Return a non-negative axis of a tensor of the given rank; raise RefusalError if out of range."""
    operand = call.given.get(parameter)
    span = call.span if operand is None else operand.span
    if isinstance(axis, bool) or not isinstance(axis, int):
        what = "an axis" if operand is None else describe(operand.value)
        raise v.RefusalError(
            f"{call.name}: `{parameter}` must be an int or a tuple of ints, not {what}", span
        )
    if not -rank <= axis < rank:
        raise v.RefusalError(f"{call.name}: axis {axis} is out of range for a tensor of rank {rank}", span)
    return axis % rank


def axes(call: Arguments, rank: int, parameter: str = "axis") -> tuple[int, ...] | None:
    """Return non-negative, distinct axes, or None for all axes."""
    if parameter not in call:
        return None
    value = call.static(parameter)
    listed = value if isinstance(value, tuple) else (value,)
    normalized = tuple(normalize_axis(call, parameter, axis, rank) for axis in listed)
    if len(set(normalized)) != len(normalized):
        raise call.refusal(parameter, "an axis is listed twice")
    return normalized


# -- dtypes and shapes ---------------------------------------------------------------------------------


def dtype_argument(call: Arguments) -> str | None:
    """Return ``dtype`` (``f32`` or ``"float32"``), or None if it is not given."""
    return dtype_of_operand(call.given["dtype"], call.name) if "dtype" in call else None


#: The hint for what is no dtype.
WHICH_DTYPES = "write one of f16 bf16 f32 f64, c64 c128, i8 to i64, u8 to u64, bool_"


def dtype_meant(value: v.Value) -> DType | None:
    """Return the dtype that a value stands for: ``f32``, ``float``, ``np.float32``, ``"f4"``; else None."""
    if isinstance(value, v.BuiltinName):
        return PYTHON_DTYPES.get(value.builtin.name)
    return as_dtype(static_value_or_none(value))


def dtype_of_operand(operand: v.Operand, function: str) -> str:
    """Return the name of the dtype that an operand stands for."""
    dtype = dtype_meant(operand.value)
    if dtype is None:
        value = static_value_or_none(operand.value)
        hint = WHICH_DTYPES
        if isinstance(value, int) and function in ("zeros", "ones", "empty"):
            hint = f"a shape goes in brackets, as in {function}((2, 3))"
        elif isinstance(value, int) and function in ("sum", "mean", "prod", "std", "var"):
            hint = "several axes go in brackets, as in axis=(0, 1)"
        raise v.RefusalError(f"{function}: {describe(operand.value)} is no dtype", operand.span, hint=hint)
    return dtype.name


def shape_argument(call: Arguments, parameter: str) -> tuple[Dim, ...]:
    """Return a shape that is given as an int, or a tuple of ints and named dimensions."""
    operand = call.given[parameter]
    static = call.static(parameter)
    dims = static if isinstance(static, tuple) else (static,)
    shape: list[Dim] = []
    for dim in dims:
        if isinstance(dim, bool) or not isinstance(dim, int | AnyDim):
            shown = f"the float {dim}" if isinstance(dim, float) else repr(dim)
            raise v.RefusalError(f"{call.name}: a shape holds ints, not {shown}", operand.span)
        if isinstance(dim, int) and dim < 0:
            raise v.RefusalError(f"{call.name}: a dimension cannot be {dim}", operand.span)
        shape.append(dim)
    return tuple(shape)


def static_size(call: Arguments, dim: Dim, span: Span, what: str = "the size") -> int:
    """Return a dimension that must be static."""
    if isinstance(dim, int):
        return dim
    message = f"{call.name}: {what} must be known at compile time, not the dimension {format_dim(dim)}"
    raise v.RefusalError(message, span, hint=dynamic_size_hint(dim))


def dynamic_size_hint(dim: Dim) -> str:
    """Return the hint for a dynamic size where a static one is needed."""
    return f"write a number in place of {format_dim(dim)} in the annotation: the size must be fixed"


def require_rank(call: Arguments, data: Formula, parameter: str, least: int) -> None:
    """Raise RefusalError if a tensor has fewer than ``least`` dimensions."""
    if data.rank < least:
        span = call.at(parameter)
        message = (
            f"{call.name} takes a tensor of rank {least} or more, not one of shape {format_shape(data.shape)}"
        )
        raise v.RefusalError(message, span)


def require_float(call: Arguments, data: Formula, parameter: str) -> None:
    """Raise RefusalError if a tensor does not hold floats."""
    if not is_float(data.dtype):
        span = call.at(parameter)
        message = f"{call.name} is defined for floats, not {dtype_short_name(data.dtype)}"
        raise v.RefusalError(message, span, hint=f"convert it first, as in {source_text(span)}.astype(f32)")


def float_function(function: Callable[[Formula], Formula], parameter: str) -> Callable[[Arguments], v.Value]:
    """Make a function of the language from a function of one tensor of floats."""

    def apply_to(call: Arguments) -> v.Value:
        data = formula(call, parameter)
        require_float(call, data, parameter)
        return function(data).value

    return apply_to
