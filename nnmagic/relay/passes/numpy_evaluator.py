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
from nnmagic.relay.reference.eval_call import EvalCall
from nnmagic.relay.reference.reductions import axes_of
from nnmagic.relay.types import NUMPY_DTYPES, TensorType, TupleType, Type

Array = np.ndarray
#: Whether the reference is exact for arrays (those of a tuple in sequence), attributes and result type.
Check = Callable[[Sequence[Array], EvalCall], bool]

#: How many elements a result may have more than its arguments; beyond, the call is the shorter program.
MAX_GROWTH = 1024

#: Operators that depend on the type of their argument, not on its value.
OF_TYPES = frozenset({"shape_of", "ndarray_size"})


def evaluate_with_numpy(call: Call) -> Constant | None:
    """Return the value of an operator's call on constants (or tuples of them); None if NumPy's may differ.

    ``shape_of`` and ``ndarray_size`` need only their argument's type.
    """
    if not isinstance(call.op, OpRef) or call.op.name not in {*_CHECKS, *OF_TYPES}:
        return None
    types = [_type_of(arg) for arg in call.args]
    operator = OPERATORS[call.op.name]
    try:
        attrs = operator.complete_attrs(call.attrs)
        result = operator.result_type([type_ for type_ in types if type_ is not None], attrs)
    except RelationError:
        return None  # type inference reports it with its span
    if None in types or not isinstance(result, TensorType) or not _is_static(result):
        return None
    if call.op.name in OF_TYPES:
        value = _of_type(call.op.name, cast("TensorType", types[0]))
    else:
        value = _evaluate(call.op.name, call.args, attrs, result)
    return None if value is None else _constant(value, result, call)


def _evaluate(name: str, args: Sequence[Expr], attrs: Attrs, result: TensorType) -> Array | None:
    operands = [_operand(arg) for arg in args]
    arrays = [
        part for operand in operands for part in (operand if isinstance(operand, tuple) else (operand,))
    ]
    size = int(np.prod(cast("tuple[int, ...]", result.shape)))
    if size > MAX_GROWTH + sum(array.size for array in arrays):
        return None
    if not all(array.dtype.name in _EXACT for array in arrays) or result.dtype not in _EXACT:
        return None
    eval_call = EvalCall(attrs, result)
    with np.errstate(all="ignore"):
        return (
            cast("Array", REFERENCE[name](eval_call, *operands)) if _CHECKS[name](arrays, eval_call) else None
        )


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


def _operand(arg: Expr) -> Array | tuple[Array, ...]:
    """Return the array of a constant, or the arrays of a tuple of constants."""
    if isinstance(arg, Tuple):
        return tuple(field.data for field in arg.fields if isinstance(field, Constant))
    assert isinstance(arg, Constant)
    return arg.data


def _of_type(name: str, type_: TensorType) -> Array | None:
    if not _is_static(type_):
        return None
    shape = cast("tuple[int, ...]", type_.shape)
    return np.array(shape if name == "shape_of" else np.prod(shape, dtype=np.int64))


# --- what operators need of their arrays --------------------------------------------------------------------

#: The element types that NumPy computes with as Relay does.
_EXACT = frozenset(NUMPY_DTYPES) - {"bfloat16"}


def _of_kinds(kinds: str) -> Check:
    return lambda arrays, _given: all(array.dtype.kind in kinds for array in arrays)


_INTEGERS, _NUMBERS, _ANY = map(_of_kinds, ("iu", "iuf", "iufb"))


def _divides(arrays: Sequence[Array], call: EvalCall) -> bool:
    """Return whether integers are divided where no CPU stops or overflows."""
    lhs, rhs = arrays
    if not _INTEGERS(arrays, call) or not rhs.all():
        return False
    return not (lhs.dtype.kind == "i" and (lhs == np.iinfo(lhs.dtype).min).any() and (rhs == -1).any())


def _has_one_extreme(is_better: Callable[[Array, Array], Array]) -> Check:
    """Return whether the order of two does not matter for the larger or smaller one (NaN, zeros)."""

    def check(arrays: Sequence[Array], call: EvalCall) -> bool:
        lhs, rhs = np.broadcast_arrays(*arrays) if len(arrays) == 2 else (arrays[0], np.zeros_like(arrays[0]))
        # -0.0 and 0.0 are equal, and hardware may keep either: folded only where both orders give
        # the same bits.
        first = np.where(is_better(lhs, rhs), lhs, rhs)
        second = np.where(is_better(rhs, lhs), rhs, lhs)
        return _NUMBERS(arrays, call) and first.tobytes() == second.tobytes()

    return check


def _shifts(arrays: Sequence[Array], call: EvalCall) -> bool:
    lhs, rhs = arrays
    return _INTEGERS(arrays, call) and bool(((rhs >= 0) & (rhs < lhs.dtype.itemsize * 8)).all())


def _casts(arrays: Sequence[Array], call: EvalCall) -> bool:
    data = arrays[0]
    if data.dtype.kind != "f" or call.dtype.kind not in "iu":
        return True
    limits, truncated = np.iinfo(call.dtype), np.trunc(data.astype(np.float64))
    # The largest int64 is no float: a float below 2**63 is at most 2**63 - 1024.
    return bool(((truncated >= float(limits.min)) & (truncated < float(limits.max) + 1)).all())


def _takes(arrays: Sequence[Array], call: EvalCall) -> bool:
    """Return whether all indices are in range, so that the mode does not matter."""
    data, indices = arrays
    size = data.size if call["axis"] is None else data.shape[call["axis"]]
    if call["batch_dims"] != 0 or indices.dtype.kind not in "iu":
        return False
    return bool(((indices >= 0) & (indices < size)).all())


def _slices(_arrays: Sequence[Array], call: EvalCall) -> bool:
    is_clear = call["slice_mode"] != "size" or min(call["begin"], default=0) >= 0
    return is_clear and len(call["end"]) == len(call["begin"])


def _reduces(kinds: str) -> Check:
    """Return whether a reduction is the same in any order."""
    is_exact = _of_kinds(kinds)

    def check(arrays: Sequence[Array], call: EvalCall) -> bool:
        # Floats: nothing to add up, and no zero whose sign could get lost.
        (data,) = arrays
        # Sums of floats depend on the order of the additions, which the engine chooses differently
        # from NumPy.
        is_alone = all(data.shape[axis] == 1 for axis in axes_of(call, data.ndim)) and bool(data.all())
        return is_exact(arrays, call) or (is_alone and _NUMBERS(arrays, call))

    return check


def _finds_extreme(arrays: Sequence[Array], call: EvalCall) -> bool:
    """Return whether an extreme is clear: of floats only without NaN and zeros of either sign."""
    (data,) = arrays
    is_open = data.dtype.kind == "f" and not bool((np.abs(data) > 0).all())
    return bool(data.size) and not is_open and _NUMBERS(arrays, call)


_GROUPS: dict[str, Check] = {
    "add subtract multiply less less_equal greater greater_equal abs": _NUMBERS,
    "all any": _reduces("b"),
    "bitwise_and bitwise_or bitwise_xor": _of_kinds("iub"),
    "bitwise_not arange": _INTEGERS,
    "broadcast_to broadcast_to_like concatenate copy equal expand_dims full nn.batch_flatten not_equal": _ANY,
    "cast cast_like": _casts,
    "divide": lambda arrays, given: arrays[0].dtype.kind == "f" or _divides(arrays, given),
    "floor ceil trunc round numpy.rint": _of_kinds("f"),
    "left_shift right_shift": _shifts,
    "logical_and logical_or logical_xor logical_not": _of_kinds("b"),
    "max min": _finds_extreme,
    "maximum nn.relu": _has_one_extreme(np.greater),
    "minimum": _has_one_extreme(np.less),
    "negative": _of_kinds("if"),
    "reshape reshape_like squeeze stack transpose zeros_like ones_like": _ANY,
    "sqrt": lambda arrays, _given: arrays[0].dtype.kind == "f" and bool((arrays[0] >= 0).all()),
    "strided_slice": _slices,
    "sum prod": _reduces("iu"),
    "take": _takes,
    "trunc_divide floor_divide mod trunc_mod floor_mod": _divides,
    "where": lambda arrays, _given: arrays[0].dtype.kind == "b",
}
_CHECKS = {name: check for names, check in _GROUPS.items() for name in names.split()}
