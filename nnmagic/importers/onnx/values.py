"""Represent the tensors of a graph while it is imported: a Relay expression with its type.

What a tensor holds may be known: an array, or, of a vector of sizes, dimensions with names.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.origins import current_span
from nnmagic.limits import MAX_MADE_BYTES
from nnmagic.relay import expr as ir
from nnmagic.relay.complex_numbers.lowering import RULES
from nnmagic.relay.complex_numbers.operators import COMPLEX_OPERATORS, find_operator
from nnmagic.relay.complex_numbers.site import holds_complex
from nnmagic.relay.ops import RelationError, call, dims
from nnmagic.relay.ops.checks import find_problem
from nnmagic.relay.passes.numpy_evaluator import evaluate_with_numpy
from nnmagic.relay.polynomials import is_nonnegative
from nnmagic.relay.tensor_expr import Number, TypedTensor
from nnmagic.relay.types import ANY, Dim, TensorType, TupleType, Type, dtype_of_array, is_complex, is_integer

#: Calls on constants with no more elements than this are evaluated while importing.
MAX_FOLDED = 1 << 16
#: Vectors with more elements than this are no shapes.
_MAX_SIZES = 64
#: How scatters combine elements that lie in one place, where that is no sum.
_OF_REALS = ("mul", "min", "max", "mean")


@dataclass(frozen=True, slots=True, eq=False)
class Value(TypedTensor):
    """A tensor.

    ``sizes``: what a tensor of rank 0 or 1 holds, where its elements are sizes of other tensors.
    ``bits``: those of its elements in the model, where a constant of 4 bits is held in more.
    """

    expr: ir.Expr
    type: TensorType
    sizes: tuple[Dim, ...] | None = None
    bits: int | None = None

    @property
    def known(self) -> np.ndarray | None:
        """Return what the tensor holds, if it is a constant."""
        return self.expr.data if isinstance(self.expr, ir.Constant) else None

    def like(self, other: Value | Number | np.ndarray) -> Value:
        """Return a number, or an array, in this tensor's dtype; a tensor as it is."""
        return other if isinstance(other, Value) else constant(other, self.dtype)

    def constant(self, array: np.ndarray) -> Value:
        """Return an array as a constant."""
        return constant(array)

    def cast(self, dtype: str) -> Value:
        """Return the tensor in another dtype."""
        return self if dtype == self.dtype else op("cast", self, dtype=dtype)

    def op(self, name: str, *others: Value | Number, **attrs: object) -> Value:
        """Call an operator whose first operand is this tensor."""
        return op(name, self, *map(self.like, others), **attrs)


@dataclass(frozen=True, slots=True, eq=False)
class TensorSequence:
    """A sequence of known length; or the tensors of one shape, as many as ``rows`` has."""

    items: tuple[Value, ...] = ()
    rows: Value | None = None


def constant(value: object, dtype: str | None = None) -> Value:
    """Return a constant from a number, a sequence or an array; one of 4 bits is held in 8."""
    if isinstance(value, np.ndarray) and value.dtype.name in ("int4", "uint4"):
        return replace(constant(value.astype(value.dtype.name.replace("4", "8"))), bits=4)
    if isinstance(value, np.ndarray) and dtype is None:
        if dtype_of_array(value) is None:
            raise UnsupportedError(f"tensors of {value.dtype} are not supported")
        node = ir.Constant(value if value.flags.c_contiguous else np.ascontiguousarray(value))
    else:
        node = ir.constant(value, dtype)
    return Value(node, node.tensor_type)


def check_new_array(*shape: int, itemsize: int = 8) -> None:
    """Raise UnsupportedError for an array that the import would make of sizes which the model gives."""
    if min(shape, default=0) < 0:
        raise UnsupportedError(f"the size {min(shape)} is negative")
    if math.prod(max(size, 1) for size in shape) * itemsize > MAX_MADE_BYTES:
        shown = " x ".join(map(str, shape))
        message = f"a constant of {shown} numbers is larger than {MAX_MADE_BYTES >> 20} MB"
        raise UnsupportedError(message, "make it an input of the model")


def count_up(count: int) -> np.ndarray:
    """Return 0, 1, … before a number that the model gives. Raises UnsupportedError for too many."""
    check_new_array(count)
    return np.arange(count)


def integers(value: Sequence[int] | int) -> Value:
    """Return an int64 constant."""
    return constant(np.asarray(value, "int64"))


def of_type(expr: ir.Expr, type_: TensorType, sizes: tuple[Dim, ...] | None = None) -> Value:
    """Return an expression as a tensor; what holds known sizes only is a constant."""
    if sizes is not None and all(isinstance(size, int) for size in sizes) and is_integer(type_.dtype):
        array = np.array([int(cast(int, size)) for size in sizes], type_.dtype)
        return constant(array.reshape([int(cast(int, dim)) for dim in type_.shape]))
    return Value(expr, type_, sizes)


def ops(name: str, *args: Value | Sequence[Value], **attrs: object) -> list[Value]:
    """Call an operator that returns a tuple."""
    node, result = _call(name, args, attrs)
    assert isinstance(result, TupleType)
    return [
        Value(ir.TupleGetItem(node, index), cast(TensorType, field))
        for index, field in enumerate(result.fields)
    ]


def op(name: str, *args: Value | Sequence[Value], **attrs: object) -> Value:
    """Call an operator that returns a tensor; on constants it is evaluated. Raises UnsupportedError."""
    node, result = _call(name, args, attrs)
    if not isinstance(result, TensorType):
        raise TypeError(f"Relay's {name} returns no tensor")
    flat = [item for arg in args for item in ([arg] if isinstance(arg, Value) else arg)]
    known = flat and all(isinstance(item.expr, ir.Constant) for item in flat)
    if known and not is_complex(result.dtype) and not any(is_complex(item.dtype) for item in flat):
        size = sum(cast(np.ndarray, item.known).size for item in flat)
        folded = evaluate_with_numpy(node) if size <= MAX_FOLDED else None
        if folded is not None:
            return Value(folded, folded.tensor_type)
    if name in _COMPARISONS and any(item.sizes is not None for item in flat):
        decided = _compare(name, flat, result)
        if decided is not None:
            return decided
    holds_sizes = is_integer(result.dtype) or result.dtype in _WIDE_FLOATS
    sizes = _sizes(name, flat, node.attrs, result) if holds_sizes else None
    return of_type(node, result, sizes)


def _call(
    name: str, args: Sequence[Value | Sequence[Value]], attrs: dict[str, object]
) -> tuple[ir.Call, Type]:
    exprs: list[ir.Expr] = []
    types: list[Type] = []
    for arg in args:
        if isinstance(arg, Value):
            exprs.append(arg.expr)
            types.append(arg.type)
        else:
            exprs.append(ir.Tuple(tuple(operand.expr for operand in arg)))
            types.append(TupleType(tuple(operand.type for operand in arg)))
    if any(map(holds_complex, types)):
        _require_complex(name, attrs)
    try:
        operator = find_operator(name)
        if name in COMPLEX_OPERATORS:
            node = ir.Call(ir.OpRef(name), tuple(exprs), span=current_span())
        elif name == "arange":  # its ends are attributes, too, for which variables stand
            complete = operator.complete_attrs(attrs, from_call=True)
            node = ir.Call(ir.OpRef(name), tuple(exprs), complete, span=current_span())
        else:
            node = call(name, exprs, current_span(), **attrs)
        types += [arg.tensor_type for arg in node.args[len(types) :] if isinstance(arg, ir.Constant)]
        result = operator.result_type(types, node.attrs)
        _check_result(name, result)
        operator.check_preconditions(types, node.attrs)
        if all(_is_static(type_) for type_ in types):
            operator.check_shapes(types, node.attrs, nonempty=_has_elements(result))
    except RelationError as error:
        raise UnsupportedError(error.message, error.hint) from None
    return node, result


def _require_complex(name: str, attrs: Mapping[str, object]) -> None:
    """Raise UnsupportedError for an operator that takes no complex tensors."""
    loses = name == "cast" and not is_complex(str(attrs["dtype"]))
    if name not in RULES or loses or attrs.get("reduction", attrs.get("mode")) in _OF_REALS:
        raise UnsupportedError(
            f"{name} of complex numbers is not supported", "compute with real and imaginary parts"
        )


def _check_result(name: str, result: Type) -> None:
    for tensor in result.fields if isinstance(result, TupleType) else (result,):
        if isinstance(tensor, TensorType) and (problem := find_problem(tensor)) is not None:
            raise UnsupportedError(f"{name}: the result{problem}")


def _is_static(type_: Type) -> bool:
    if isinstance(type_, TupleType):
        return all(map(_is_static, type_.fields))
    return isinstance(type_, TensorType) and all(isinstance(dim, int) for dim in type_.shape)


def _has_elements(type_: Type) -> bool:
    if isinstance(type_, TupleType):
        return all(map(_has_elements, type_.fields))
    return isinstance(type_, TensorType) and 0 not in type_.shape


# -- vectors of sizes ----------------------------------------------------------------------------------


def sizes_of(value: Value) -> tuple[Dim, ...] | None:
    """Return what a vector or a number of integers holds, as far as it is known; None if nothing is.

    Floats may hold sizes, too.
    """
    static = value.known
    if static is not None and static.ndim <= 1 and static.dtype.kind in "iuf" and static.size <= _MAX_SIZES:
        numbers = static.reshape(-1).tolist()
        return tuple(map(int, numbers)) if all(number % 1 == 0 for number in numbers) else None
    return value.sizes


_ARITHMETIC = {
    "add": dims.add,
    "subtract": dims.subtract,
    "multiply": dims.multiply,
    "floor_divide": dims.floor_divide,
}
#: Operators that give the numbers they are given, where these are integers.
_KEEP_SIZES = ("cast", "ceil", "copy", "expand_dims", "floor", "reshape", "round", "squeeze", "trunc")
#: Floats that hold all sizes there are.
_WIDE_FLOATS = ("float32", "float64")
_REDUCTIONS = {"sum": dims.add, "prod": dims.multiply}

#: What a comparison says of two sizes, by whether the first is certainly the smaller one, or the larger one.
_COMPARISONS = {
    "equal": (False, False),
    "not_equal": (True, True),
    "less": (True, False),
    "less_equal": (True, False),
    "greater": (False, True),
    "greater_equal": (False, True),
}


def _compare(name: str, args: Sequence[Value], result: TensorType) -> Value | None:
    """Return what a comparison of sizes gives, if that is certain for all of them."""
    lhs, rhs = map(sizes_of, args)
    if lhs is None or rhs is None or not all(isinstance(dim, int) for dim in result.shape):
        return None
    count = max(len(lhs), len(rhs))
    lhs, rhs = (operand * count if len(operand) == 1 else operand for operand in (lhs, rhs))
    conditions = []
    for one, other in zip(lhs, rhs, strict=True):
        if dims.same_dim(one, other):
            conditions.append(name in ("equal", "less_equal", "greater_equal"))
        elif _is_below(one, other) or _is_below(other, one):
            conditions.append(_COMPARISONS[name][0 if _is_below(one, other) else 1])
        else:
            return None
    return constant(np.array(conditions).reshape([int(cast(int, dim)) for dim in result.shape]))


def _is_below(lhs: Dim, rhs: Dim) -> bool:
    """Return whether a size is certainly less than another; one without a name is 0 or more."""
    if isinstance(lhs, int) and lhs < 0 and rhs == ANY:
        return True
    room = dims.as_polynomial(dims.subtract(dims.subtract(rhs, lhs), 1))
    return room is not None and is_nonnegative(room)


def _sizes(name: str, args: Sequence[Value], attrs: ir.Attrs, result: TensorType) -> tuple[Dim, ...] | None:
    """Return what the result of an operator on sizes holds; None if nothing is known."""
    if len(result.shape) > 1 or not all(isinstance(dim, int) for dim in result.shape):
        return None
    if name == "shape_of":
        return args[0].shape if len(args[0].shape) <= _MAX_SIZES else None
    if name == "where" and args[0].known is not None and len(result.shape) == 1:
        choices = [sizes_of(arg) for arg in args[1:]]
        if None not in choices:
            length = int(cast(int, result.shape[0]))
            then, other = (
                operand * length if len(operand) == 1 else operand
                for operand in choices
                if operand is not None
            )
            chosen = np.broadcast_to(args[0].known, (length,))
            return tuple(a if test else b for test, a, b in zip(chosen, then, other, strict=True))
    if not args or (args[0].sizes is None and name not in ("concatenate", *_ARITHMETIC)):
        return None
    operand_sizes = [sizes_of(arg) for arg in args]
    if name in _KEEP_SIZES:
        return operand_sizes[0]
    if name in _ARITHMETIC and operand_sizes[0] is not None and operand_sizes[1] is not None:
        lhs, rhs = operand_sizes[0], operand_sizes[1]
        count = max(len(lhs), len(rhs))
        lhs, rhs = (operand * count if len(operand) == 1 else operand for operand in (lhs, rhs))
        return tuple(map(_ARITHMETIC[name], lhs, rhs))
    if name == "concatenate" and any(operand is not None for operand in operand_sizes):
        lengths = [cast(int, arg.shape[0]) for arg in args]
        return tuple(
            dim
            for operand, length in zip(operand_sizes, lengths, strict=True)
            for dim in (operand if operand is not None else (ANY,) * length)
        )
    if name in _REDUCTIONS and operand_sizes[0] is not None and result.shape in ((), (1,)):
        neutral: Dim = int(name == "prod")
        return (functools.reduce(_REDUCTIONS[name], operand_sizes[0], neutral),)
    if name == "take" and args[1].known is not None and operand_sizes[0] is not None:
        return tuple(operand_sizes[0][int(index)] for index in args[1].known.reshape(-1))
    if name == "strided_slice" and operand_sizes[0] is not None:
        begin, end, step = (cast("tuple[int, ...]", attrs[key]) for key in ("begin", "end", "strides"))
        return operand_sizes[0][slice(int(begin[0]), int(end[0]), int((step or (1,))[0]))]
    return None


def with_sizes(value: Value, sizes: tuple[Dim, ...]) -> Value:
    """Return a tensor of which it is known what it holds."""
    return of_type(value.expr, value.type, sizes)


def with_shape(value: Value, shape: Sequence[Dim]) -> Value:
    """Return a tensor whose shape is known better than Relay can say."""
    return replace(value, type=TensorType(tuple(shape), value.dtype))
