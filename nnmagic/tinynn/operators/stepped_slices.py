"""Write slices whose step is known at run time only as arrays of indices: `x[a::k]`."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.diagnostics import Span
from nnmagic.relay.types import TensorType, is_integer
from nnmagic.tinynn.operators.arithmetic import check_numbers
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast, is_tensor, tensor_type, whole_numbers
from nnmagic.tinynn.values.symbolic_sizes import number_of, size_along
from nnmagic.tinynn.values.values import Computed, Dimension, Known, Operand, SliceOf, Value


def without_stepped_slices(tensor: Operand, index: Sequence[Operand]) -> list[Operand]:
    """Return an index with an array in place of the slice whose step is computed.

    That is the same where all other items are slices, or all of them ints. Any other index is returned as it
    is; what takes slices then refuses the step.
    """
    stepped = [position for position, item in enumerate(index) if _is_stepped(item.value)]
    if len(stepped) != 1 or not is_tensor(tensor.value):
        return list(index)
    (position,) = stepped
    others = [item.value for item in index if item is not index[position]]
    are_slices = all(isinstance(value, SliceOf) or value == Known(Ellipsis) for value in others)
    if not are_slices and not all(map(_is_int, others)):
        return list(index)
    rank = len(tensor_type(tensor).shape)
    is_after_ellipsis = any(item.value == Known(Ellipsis) for item in index[:position])
    axis = rank - len(index) + position if is_after_ellipsis else position
    slice_ = index[position].value
    assert isinstance(tensor.value, Computed)
    assert isinstance(slice_, SliceOf)
    if not 0 <= axis < rank:
        return list(index)
    indices = _indices(slice_, tensor.value, axis, index[position].span)
    return [*index[:position], Operand(indices, index[position].span), *index[position + 1 :]]


def _is_int(value: Value) -> bool:
    if isinstance(value, Known):
        return isinstance(value.value, int) and not isinstance(value.value, bool)
    return isinstance(value, Dimension) or _is_number(value)


def _is_stepped(value: Value) -> bool:
    """Return whether a value is a slice of which the step is an integer that is computed."""
    return isinstance(value, SliceOf) and (isinstance(value.step, Dimension) or _is_number(value.step))


def _is_number(value: Value) -> bool:
    if not isinstance(value, Computed) or not isinstance(value.type, TensorType):
        return False
    return not value.type.shape and is_integer(value.type.dtype)


def _indices(slice_: SliceOf, tensor: Computed, axis: int, span: Span) -> Computed:
    """Return the indices of a slice, as Python's ``slice.indices`` has them. A step of 0 is an error."""
    size = number_of(size_along(tensor, axis, span), span)
    step = check_numbers("equal", _number(slice_.step, span), span)
    zero, one, minus_one = (number_constant(number, "int64", span) for number in (0, 1, -1))
    last = apply("subtract", span, size, one)
    forward = apply("greater", span, step, zero)
    low, high = apply("where", span, forward, zero, minus_one), apply("where", span, forward, size, last)

    def bound(value: Value, missing: Computed) -> Computed:
        if value == Known(None):
            return missing
        number = _number(value, span)
        from_end = apply("add", span, number, size)
        number = apply("where", span, apply("less", span, number, zero), from_end, number)
        return apply("minimum", span, apply("maximum", span, number, low), high)

    start = bound(slice_.start, apply("where", span, forward, zero, last))
    stop = bound(slice_.stop, apply("where", span, forward, size, minus_one))
    return whole_numbers(start, stop, step, span)


def _number(value: Value, span: Span) -> Computed:
    """Return a bound or a step as an int64 of rank 0."""
    if isinstance(value, Computed):
        return cast(value, "int64", span)
    if isinstance(value, Known) and isinstance(value.value, int):
        return number_constant(value.value, "int64", span)
    return number_of(value, span)
