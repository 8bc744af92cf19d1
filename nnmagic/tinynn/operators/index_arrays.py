"""Where an index takes from along an axis: an int, an array of ints, a mask. Knows values and operators.

Negative places count from the end; one that there is not is an error: while compiling where it is known, else
an IndexError of the call (``take`` with the mode "fast", which the engine checks).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import ANY, Dim, TensorType, TupleType, is_integer
from nnmagic.tinynn.values.operator_calls import apply, cast, tensor_type, whole_numbers
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.symbolic_sizes import is_size, number_of, size_along
from nnmagic.tinynn.values.values import (
    Computed,
    NotStaticError,
    Operand,
    RefusalError,
    TupleOf,
    Value,
    described,
    known_value,
    number_constant,
)


@dataclass(frozen=True, slots=True)
class AxisIndex:
    """One axis and where to take from along it: an int that there is, or integers, negative ones wrapped.

    ``is_array``: it makes axes of its own, with those beside it. ``in_range``: none can be out of range.
    """

    axis: int
    index: int | Computed
    is_array: bool
    in_range: bool = False

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of an array."""
        assert isinstance(self.index, Computed)
        assert isinstance(self.index.type, TensorType)
        return self.index.type.shape

    def checked(self, tensor: Computed, axis: int, span: Span) -> Computed:
        """An array of places that the tensor has along an axis."""
        assert isinstance(self.index, Computed)
        if self.in_range:
            return self.index
        size = number_of(size_along(tensor, axis, span), span)
        first, step = (number_constant(number, "int64", span) for number in (0, 1))
        every = whole_numbers(first, size, step, span)
        found = apply("take", span, every, self.index, axis=0, mode="fast")
        return Computed(found.expr, TensorType(self.shape, "int64"))


def static_indices(tensor: Computed, axis: int, item: Operand) -> list[AxisIndex] | None:
    """An int, an array or a mask that is known while compiling; None for any other. Raises Refusal."""
    value = item.value
    if isinstance(value, Computed) and isinstance(value.expr, ir.Constant) and value.expr.data.ndim:
        return _of_array(tensor, axis, value.expr.data, item.span)
    try:
        found = known_value(value)
    except NotStaticError:
        return None
    if not isinstance(found, int) or isinstance(found, bool):
        return None
    dim = _dim(tensor, axis)
    if not isinstance(dim, int):
        return [
            _single(tensor, axis, number_constant(found, "int64", item.span), item.span, negative=found < 0)
        ]
    _require_in_range(found, axis, int(dim), item.span)
    return [AxisIndex(axis, found % int(dim), is_array=False)]


def _of_array(tensor: Computed, axis: int, array: np.ndarray, span: Span) -> list[AxisIndex] | None:
    """An array of the notebook."""
    if array.dtype == np.bool_:
        shape = tensor_type(Operand(tensor, span)).shape[axis : axis + array.ndim]
        _require_mask_fits(array.shape, shape, span)
        if not all(isinstance(dim, int) for dim in shape):
            return None
        return [
            AxisIndex(axis + number, _constant(places, span), is_array=True, in_range=True)
            for number, places in enumerate(np.nonzero(array))
        ]
    if not np.issubdtype(array.dtype, np.integer):
        return None
    dim = _dim(tensor, axis)
    if not isinstance(dim, int):
        return None
    for number in array.ravel().tolist():
        _require_in_range(number, axis, int(dim), span)
    wrap_negative = np.where(array < 0, array + int(dim), array) if array.size else array
    return [AxisIndex(axis, _constant(wrap_negative, span), is_array=True, in_range=True)]


def _require_in_range(number: int, axis: int, dim: int, span: Span) -> None:
    if not -dim <= number < dim:
        raise RefusalError(f"index {number} is out of range for axis {axis} of size {dim}", span)


def _constant(array: np.ndarray, span: Span) -> Computed:
    data = np.ascontiguousarray(array, np.int64)
    return Computed(ir.constant(data, "int64", span=span), TensorType(tuple(data.shape), "int64"))


def _dim(tensor: Computed, axis: int) -> Dim:
    assert isinstance(tensor.type, TensorType)
    return tensor.type.shape[axis]


def single_index(tensor: Computed, axis: int, number: Computed, span: Span) -> AxisIndex:
    """An integer of rank 0 that is known when the program runs."""
    return _single(tensor, axis, number, span, negative=None)


def _single(tensor: Computed, axis: int, number: Computed, span: Span, *, negative: bool | None) -> AxisIndex:
    """``negative``: whether it counts from the end, if that is known."""
    if negative is None:
        return AxisIndex(axis, wrap_negative(tensor, axis, number, span), is_array=False)
    if negative:
        size = number_of(size_along(tensor, axis, span), span)
        number = apply("add", span, size, number)
    return AxisIndex(axis, number, is_array=False)


def wrap_negative(tensor: Computed, axis: int, places: Computed, span: Span) -> Computed:
    """Places where negative ones count from the end."""
    assert isinstance(places.type, TensorType)
    signed = places.type.dtype.startswith("int")
    places = Computed(cast(places, "int64", span).expr, TensorType(places.type.shape, "int64"))
    if not signed:
        return places
    size = number_of(size_along(tensor, axis, span), span)
    negative = apply("less", span, places, number_constant(0, "int64", span))
    return apply("where", span, negative, apply("add", span, places, size), places)


def index_by_array(tensor: Computed, axis: int, item: Operand) -> AxisIndex:
    """An array of integers, or a list of numbers. Raises Refusal."""
    value = item.value
    if isinstance(value, TupleOf):
        return _of_list(tensor, axis, value, item)
    assert isinstance(value, Computed)
    return AxisIndex(axis, wrap_negative(tensor, axis, value, item.span), is_array=True)


def _of_list(tensor: Computed, axis: int, value: TupleOf, item: Operand) -> AxisIndex:
    try:
        known = np.array(known_value(value)) if value.items else np.zeros(0, np.int64)
    except (NotStaticError, ValueError):
        known = None
    if known is not None and known.dtype.kind in "ib":
        places = _of_array(tensor, axis, known, item.span)
        if places is not None and len(places) == 1:
            return places[0]
        if known.dtype.kind == "i":
            return index_by_array(tensor, axis, Operand(_constant(known, item.span), item.span))
    parts = []
    for each in value.items:
        number = _whole(each, item.span)
        if number is None:
            hint = "make a tensor of them first: stack([a, b]), or numpy.array in another cell"
            raise RefusalError(
                f"an index must be an int or a slice, not {described(value)}", item.span, hint=hint
            )
        parts.append(apply("expand_dims", item.span, cast(number, "int64", item.span), axis=0))
    types = TupleType(tuple(part.type for part in parts))
    whole = Computed(ir.Tuple(tuple(part.expr for part in parts), span=item.span), types)
    places_ = apply("concatenate", item.span, whole, axis=0)
    return index_by_array(tensor, axis, Operand(places_, item.span))


def _whole(value: Value, span: Span) -> Computed | None:
    """A number of a list as a tensor of rank 0."""
    if is_size(value):
        return number_of(value, span)
    if isinstance(value, Computed) and isinstance(value.type, TensorType) and not value.type.shape:
        return value if is_integer(value.type.dtype) else None
    return None


def mask_indices(tensor: Computed, axis: int, mask: Computed, span: Span) -> list[AxisIndex]:
    """The places where a mask is true, along each of its axes. Raises Refusal where it does not fit."""
    assert isinstance(mask.type, TensorType)
    rank = len(mask.type.shape)
    dims = tensor_type(Operand(tensor, span)).shape[axis : axis + rank]
    _require_mask_fits(mask.type.shape, dims, span)
    if any(dim == ANY for dim in (*mask.type.shape, *dims)):
        if rank > 1:
            message = f"a mask of shape {format_shape(mask.type.shape)}, of which nothing says that it fits"
            raise RefusalError(message, span, hint="write where(mask, x, 0)")
        like = {"lhs_begin": 0, "lhs_end": 1, "rhs_begin": axis, "rhs_end": axis + 1}
        mask = apply("reshape_like", span, mask, tensor, **like)  # fails where they are not of one length
    found = apply("argwhere", span, mask)
    places = []
    for number in range(rank):
        column = Computed(ir.constant(number, "int32", span=span), TensorType((), "int32"))
        index = cast(apply("take", span, found, column, axis=1), "int64", span)
        places.append(AxisIndex(axis + number, index, is_array=True, in_range=True))
    return places


def _require_mask_fits(mask: Sequence[Dim], dims: Sequence[Dim], span: Span) -> None:
    if len(mask) != len(dims) or any(dims_differ(*pair) for pair in zip(mask, dims, strict=True)):
        message = f"a mask of shape {format_shape(mask)} does not fit axes of {format_shape(dims)}"
        raise RefusalError(message, span, hint="a mask has the shape of the axes that it chooses from")


def broadcast_shape(shapes: Sequence[Sequence[Dim]], span: Span) -> tuple[Dim, ...]:
    """The shape of several arrays of places together. Raises Refusal."""
    rank = max(map(len, shapes))
    found: list[Dim] = [1] * rank
    for shape in shapes:
        for place, dim in enumerate(shape, rank - len(shape)):
            if found[place] == 1:
                found[place] = dim
            elif dim != 1 and dims_differ(found[place], dim):
                shown = " and ".join(map(format_shape, shapes))
                raise RefusalError(f"the indices have the shapes {shown}, which do not broadcast", span)
            elif dim != 1 and not isinstance(found[place], int) and dim != ANY:
                found[place] = dim
    return tuple(found)
