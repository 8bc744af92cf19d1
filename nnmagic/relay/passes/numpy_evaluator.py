"""Evaluate operators on constants with NumPy, where its result is Relay's to the bit.

Operators that round in an order of their own are left out (sums and means of floats, exp, tanh), and single
values for which Relay leaves the result open or a CPU stops: division of integers by zero, the maximum of
NaN, an integer made of a float outside its range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from nnmagic.relay.expr import Attrs, Call, Constant, Expr, OpRef, Tuple
from nnmagic.relay.ops import OPERATORS, RelationError
from nnmagic.relay.reference import RULES as REFERENCE
from nnmagic.relay.reference.elementwise import trunc_divide, trunc_mod
from nnmagic.relay.reference.given import Given
from nnmagic.relay.types import NUMPY_DTYPES, TensorType, TupleType, Type

Array = np.ndarray
#: Returns a result for arrays (those of a tuple in sequence), attributes and result type, or None.
Rule = Callable[[Sequence[Array], Attrs, TensorType], "Array | None"]

#: How many elements a result may have more than its arguments; beyond, the call is the shorter program.
MAX_GROWTH = 1024


def evaluate_with_numpy(call: Call) -> Constant | None:
    """Return the value of an operator's call on constants (or tuples of them); None if NumPy's may differ.

    ``shape_of`` and ``ndarray_size`` need only their argument's type.
    """
    if not isinstance(call.op, OpRef) or (rule := _RULES.get(call.op.name)) is None:
        return None
    types = [_type_of(arg) for arg in call.args]
    operator = OPERATORS[call.op.name]
    try:
        attrs = operator.complete_attrs(call.attrs)
        result = operator.result_type([type_ for type_ in types if type_ is not None], attrs)
    except RelationError:
        return None  # type inference reports it with its span
    if (
        None in types
        or not isinstance(result, TensorType)
        or not all(isinstance(dim, int) for dim in result.shape)
    ):
        return None
    if call.op.name in OF_TYPES:
        value = _of_type(call.op.name, cast("TensorType", types[0]))
    else:
        arrays = [array for arg in call.args for array in _arrays(arg)]
        size = int(np.prod(cast("tuple[int, ...]", result.shape)))
        if size > MAX_GROWTH + sum(array.size for array in arrays):
            return None
        if not all(array.dtype.name in _EXACT for array in arrays) or result.dtype not in _EXACT:
            return None
        with np.errstate(all="ignore"):
            value = rule(arrays, attrs, result)
    return None if value is None else _constant(value, result, call)


def _constant(value: Array, type_: TensorType, call: Call) -> Constant:
    data = np.array(value, NUMPY_DTYPES[type_.dtype], order="C", copy=True)
    assert data.shape == type_.shape, f"{call.op} gave {data.shape} where its type says {type_.shape}"
    data.flags.writeable = False
    return Constant(data, span=call.span)


def _type_of(arg: Expr) -> Type | None:
    match arg:
        case Constant():
            return arg.tensor_type
        case Tuple(fields=fields):
            types = [_type_of(field) for field in fields]
            return TupleType(tuple(t for t in types if t is not None)) if None not in types else None
        case _:
            return arg.checked_type


def _is_static(type_: TensorType) -> bool:
    return all(isinstance(dim, int) for dim in type_.shape)


def _arrays(arg: Expr) -> list[Array]:
    """Return the arrays of a constant or of a tuple of constants."""
    if isinstance(arg, Tuple):
        return [field.data for field in arg.fields if isinstance(field, Constant)]
    return [arg.data] if isinstance(arg, Constant) else []


# --- what operators need of their arrays --------------------------------------------------------------------

#: The element types that NumPy computes with as Relay does.
_EXACT = frozenset(NUMPY_DTYPES) - {"bfloat16"}
_KINDS = {
    "float": "f",
    "int": "iu",
    "number": "iuf",
    "signed": "if",
    "bool": "b",
    "bits": "iub",
    "any": "iufb",
}


def _exact_for(name: str, kind: str) -> Rule:
    """Return the reference of an operator, for the element types of a kind."""
    compute = REFERENCE[name]

    def rule(arrays: Sequence[Array], attrs: Attrs, type_: TensorType) -> Array | None:
        return cast("Array", compute(Given(attrs, type_), *arrays)) if _are(arrays, kind) else None

    return rule


def _are(arrays: Sequence[Array], kind: str) -> bool:
    return all(array.dtype.kind in _KINDS[kind] for array in arrays)


def _integer_division(function: Callable[[Array, Array], Array], *, floats: bool = False) -> Rule:
    """Return a division of integers, refused where a CPU would stop or overflow.

    ``floats``: also IEEE division.
    """

    def rule(arrays: Sequence[Array], _attrs: Attrs, _type: TensorType) -> Array | None:
        left, right = arrays
        if floats and left.dtype.kind == "f":
            return cast("Array", np.divide(left, right))
        if not _are(arrays, "int") or not right.all():
            return None
        if left.dtype.kind == "i" and (left == np.iinfo(left.dtype).min).any() and (right == -1).any():
            return None
        return function(left, right)

    return rule


def _extreme(is_better: Callable[[Array, Array], Array]) -> Rule:
    """Return the larger or smaller of two, refused where their order matters (NaN, zeros)."""

    def rule(arrays: Sequence[Array], _attrs: Attrs, _type: TensorType) -> Array | None:
        left, right = np.broadcast_arrays(*arrays)
        first = np.where(is_better(left, right), left, right)
        second = np.where(is_better(right, left), right, left)
        return first if _are(arrays, "number") and first.tobytes() == second.tobytes() else None

    return rule


def _relu(arrays: Sequence[Array], attrs: Attrs, type_: TensorType) -> Array | None:
    return _extreme(np.greater)([arrays[0], np.zeros_like(arrays[0])], attrs, type_)


def _absolute(arrays: Sequence[Array], _attrs: Attrs, _type: TensorType) -> Array | None:
    return np.abs(arrays[0]) if _are(arrays, "number") else None


def _shift(function: Callable[[Array, Array], Array]) -> Rule:
    def rule(arrays: Sequence[Array], _attrs: Attrs, _type: TensorType) -> Array | None:
        left, right = arrays
        in_range = _are(arrays, "int") and bool(((right >= 0) & (right < left.dtype.itemsize * 8)).all())
        return function(left, right) if in_range else None

    return rule


def _sqrt(arrays: Sequence[Array], _attrs: Attrs, _type: TensorType) -> Array | None:
    return np.sqrt(arrays[0]) if _are(arrays, "float") and bool((arrays[0] >= 0).all()) else None


def _cast(arrays: Sequence[Array], _attrs: Attrs, type_: TensorType) -> Array | None:
    data, dtype = arrays[0], NUMPY_DTYPES[type_.dtype]
    if data.dtype.kind == "f" and dtype.kind in "iu":
        limits, whole = np.iinfo(type_.dtype), np.trunc(data.astype(np.float64))
        # The largest int64 is no float: a float below 2**63 is at most 2**63 - 1024.
        if not bool(((whole >= float(limits.min)) & (whole < float(limits.max) + 1)).all()):
            return None
    return data.astype(dtype)


def _where(arrays: Sequence[Array], _attrs: Attrs, _type: TensorType) -> Array | None:
    return np.where(*arrays) if arrays[0].dtype.kind == "b" else None


# --- shapes -------------------------------------------------------------------------------------------------


def _arange(arrays: Sequence[Array], _attrs: Attrs, _type: TensorType) -> Array | None:
    return np.arange(*(array.item() for array in arrays)) if _are(arrays, "int") else None


def _concatenate(arrays: Sequence[Array], attrs: Attrs, _type: TensorType) -> Array:
    return np.concatenate(arrays, axis=cast(int, attrs["axis"]))


def _stack(arrays: Sequence[Array], attrs: Attrs, _type: TensorType) -> Array:
    return np.stack(arrays, axis=cast(int, attrs["axis"]))


def _fill(value: int) -> Rule:
    return lambda arrays, _attrs, _type: np.full_like(arrays[0], value)


def _take(arrays: Sequence[Array], attrs: Attrs, _type: TensorType) -> Array | None:
    """Take indices that are in range, so that the mode does not matter."""
    data, indices = arrays
    axis = cast("int | None", attrs["axis"])
    size = data.size if axis is None else data.shape[axis]
    if (
        attrs["batch_dims"] != 0
        or not _are([indices], "int")
        or not ((indices >= 0) & (indices < size)).all()
    ):
        return None
    return np.take(data, indices, axis=axis)


def _strided_slice(arrays: Sequence[Array], attrs: Attrs, _type: TensorType) -> Array | None:
    """Slice; with ``slice_mode="size"`` only without negative begins."""
    (data,) = arrays
    begin, end, strides = (cast("tuple[int, ...]", attrs[name]) for name in ("begin", "end", "strides"))
    axes = range(len(begin)) if attrs["axes"] is None else cast("tuple[int, ...]", attrs["axes"])
    if len(end) != len(begin):
        return None
    slices = [slice(None)] * data.ndim
    for position, (axis, first, last) in enumerate(zip(axes, begin, end, strict=True)):
        step = strides[position] if position < len(strides) else 1
        if attrs["slice_mode"] == "size":
            if first < 0:
                return None
            slices[axis] = slice(first, None if last < 0 else first + last)
        else:
            slices[axis] = slice(first, last, step)
    return data[tuple(slices)]


# --- reductions ---------------------------------------------------------------------------------------------


def _reduction(function: Callable[..., Array], kind: str, *, of_none: bool = True) -> Rule:
    """Return a reduction that is the same in any order; ``of_none``: also of no elements."""

    def rule(arrays: Sequence[Array], attrs: Attrs, type_: TensorType) -> Array | None:
        (data,) = arrays
        if not (of_none or data.size):
            return None
        axes = _axes(attrs, data.ndim)
        if not _are(arrays, kind):
            # Floats: nothing to add up, and no zero whose sign could get lost.
            alone = (
                all(data.shape[axis] == 1 for axis in axes) and _are(arrays, "number") and bool(data.all())
            )
            return data.reshape(cast("tuple[int, ...]", type_.shape)) if alone else None
        # NumPy would sum int32 in int64; Relay's sum is of the element type, and wraps around.
        more = {"dtype": data.dtype} if function in (np.sum, np.prod) else {}
        return function(data, axis=axes, keepdims=attrs["keepdims"], **more).astype(NUMPY_DTYPES[type_.dtype])

    return rule


def _extreme_along(function: Callable[..., Array]) -> Rule:
    """Return the largest or smallest element; of floats only without NaN and zeros of either sign."""
    rule = _reduction(function, "number", of_none=False)

    def check_and_reduce(arrays: Sequence[Array], attrs: Attrs, type_: TensorType) -> Array | None:
        is_open = arrays[0].dtype.kind == "f" and not bool((np.abs(arrays[0]) > 0).all())
        return None if is_open else rule(arrays, attrs, type_)

    return check_and_reduce


def _axes(attrs: Attrs, rank: int) -> tuple[int, ...]:
    """Return the axes to reduce; no axis, or an empty list, means all of them, excluded or not."""
    listed = {axis % rank for axis in cast("Sequence[int]", attrs["axis"] or ())}
    return tuple(axis for axis in range(rank) if not listed or (axis in listed) != (attrs["exclude"] is True))


# --- types --------------------------------------------------------------------------------------------------

#: Operators that depend on the type of their argument, not on its value.
OF_TYPES = frozenset({"shape_of", "ndarray_size"})


def _of_type(name: str, type_: TensorType) -> Array | None:
    if not _is_static(type_):
        return None
    shape = cast("tuple[int, ...]", type_.shape)
    return np.array(shape if name == "shape_of" else np.prod(shape, dtype=np.int64))


_RULES: dict[str, Rule] = {
    "add": _exact_for("add", "number"),
    "subtract": _exact_for("subtract", "number"),
    "multiply": _exact_for("multiply", "number"),
    "divide": _integer_division(trunc_divide, floats=True),
    "trunc_divide": _integer_division(trunc_divide),
    "floor_divide": _integer_division(np.floor_divide),
    "mod": _integer_division(trunc_mod),
    "trunc_mod": _integer_division(trunc_mod),
    "floor_mod": _integer_division(np.mod),
    "maximum": _extreme(np.greater),
    "minimum": _extreme(np.less),
    "nn.relu": _relu,
    "equal": _exact_for("equal", "any"),
    "not_equal": _exact_for("not_equal", "any"),
    "less": _exact_for("less", "number"),
    "less_equal": _exact_for("less_equal", "number"),
    "greater": _exact_for("greater", "number"),
    "greater_equal": _exact_for("greater_equal", "number"),
    "logical_and": _exact_for("logical_and", "bool"),
    "logical_or": _exact_for("logical_or", "bool"),
    "logical_xor": _exact_for("logical_xor", "bool"),
    "logical_not": _exact_for("logical_not", "bool"),
    "bitwise_and": _exact_for("bitwise_and", "bits"),
    "bitwise_or": _exact_for("bitwise_or", "bits"),
    "bitwise_xor": _exact_for("bitwise_xor", "bits"),
    "bitwise_not": _exact_for("bitwise_not", "int"),
    "left_shift": _shift(np.left_shift),
    "right_shift": _shift(np.right_shift),
    "negative": _exact_for("negative", "signed"),
    "abs": _absolute,
    "copy": _exact_for("copy", "any"),
    "floor": _exact_for("floor", "float"),
    "ceil": _exact_for("ceil", "float"),
    "trunc": _exact_for("trunc", "float"),
    "round": _exact_for("round", "float"),
    "numpy.rint": _exact_for("numpy.rint", "float"),
    "sqrt": _sqrt,
    "cast": _cast,
    "cast_like": _cast,
    "where": _where,
    "reshape": _exact_for("reshape", "any"),
    "reshape_like": _exact_for("reshape_like", "any"),
    "squeeze": _exact_for("squeeze", "any"),
    "expand_dims": _exact_for("expand_dims", "any"),
    "nn.batch_flatten": _exact_for("nn.batch_flatten", "any"),
    "broadcast_to": _exact_for("broadcast_to", "any"),
    "broadcast_to_like": _exact_for("broadcast_to_like", "any"),
    "full": _exact_for("full", "any"),
    "arange": _arange,
    "transpose": _exact_for("transpose", "any"),
    "concatenate": _concatenate,
    "stack": _stack,
    "zeros_like": _fill(0),
    "ones_like": _fill(1),
    "take": _take,
    "strided_slice": _strided_slice,
    "sum": _reduction(np.sum, "int"),
    "prod": _reduction(np.prod, "int"),
    "max": _extreme_along(np.max),
    "min": _extreme_along(np.min),
    "all": _reduction(np.all, "bool"),
    "any": _reduction(np.any, "bool"),
    "shape_of": lambda _arrays, _attrs, _type: None,
    "ndarray_size": lambda _arrays, _attrs, _type: None,
}
