"""One slice along one axis: what is cut out, of known sizes and of those that the call tells. Knows values.

NumPy brings bounds into range. So the size of a slice has a name only where its bounds surely are in range.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnmagic.diagnostics import Span
from nnmagic.relay.ops.dims import as_polynomial, ceil_divide, subtract
from nnmagic.relay.polynomials import is_nonnegative
from nnmagic.relay.types import ANY, AnyDim, Dim, TensorType, is_integer
from nnmagic.tinynn.values.operator_calls import apply, cast, is_tensor, tensor_type, whole_numbers
from nnmagic.tinynn.values.symbolic_sizes import dim_of, number_of, size_along, weak_int
from nnmagic.tinynn.values.values import (
    Computed,
    Dimension,
    Known,
    NotStaticError,
    Operand,
    RefusalError,
    SliceOf,
    Value,
    described,
    known_value,
    number_constant,
)

#: Beyond the ends of every axis that memory holds; what TVM multiplies it by still fits 64 bits.
_FAR = 2**48


@dataclass(frozen=True, slots=True)
class Cut:
    """What strided_slice does along one axis, and how many elements that leaves."""

    axis: int
    begin: int
    end: int
    stride: int
    size: Dim


@dataclass(frozen=True, slots=True)
class Stretch:
    """Elements from ``start`` to before ``stop``, both in range and int64 of rank 0; and how many."""

    start: Computed
    stop: Computed
    step: int
    size: Dim


def known_bound(value: Value, span: Span) -> int | None:
    """A bound that must be known while compiling. Raises Refusal."""
    try:
        found = known_value(value)
    except NotStaticError:
        found = value
    if found is None or (isinstance(found, int) and not isinstance(found, bool)):
        return found
    hint = (
        "it cuts a tuple: only tensors are cut by numbers that are known later" if is_tensor(value) else None
    )
    raise RefusalError(
        f"a slice's bound must be an int known while compiling, not {described(value)}", span, hint=hint
    )


def cut_along(slice_: SliceOf, tensor: Computed, axis: int, item: Operand) -> Cut | Stretch | None:
    """What a slice takes along an axis; None where that is all of it. Raises Refusal."""
    start, stop = _bound(slice_.start, item.span), _bound(slice_.stop, item.span)
    step = known_bound(slice_.step, item.span)
    if step == 0:
        raise RefusalError("the step of a slice cannot be zero", item.span)
    step = None if step is None else _in_reach(step)
    if start in (Known(None), Known(0)) and stop == Known(None) and step in (None, 1):
        return None
    dim = tensor_type(Operand(tensor, item.span)).shape[axis]
    size = _size(start, stop, step or 1, dim)
    if isinstance(start, Known) and isinstance(stop, Known):
        if isinstance(dim, int):
            return _of_known(slice(start.value, stop.value, step), axis, int(dim))
        if _runs_forward(start.value, stop.value, step or 1):
            return _of_named(start.value, stop.value, step or 1, axis, size)
    if size == dim and step in (None, 1) and dim != ANY:
        return None
    return _later(start, stop, step or 1, size, tensor, axis, item.span)


def _bound(value: Value, span: Span) -> Known | Dimension | Computed:
    """A bound: None or an int known while compiling, a dimension, an integer of rank 0."""
    try:
        found = known_value(value)
        if found is None:
            return Known(None)
        if isinstance(found, int) and not isinstance(found, bool):
            return Known(_in_reach(found))
    except NotStaticError:
        pass
    if isinstance(value, Dimension):
        return value
    if isinstance(value, Computed) and isinstance(value.type, TensorType):
        if not value.type.shape and is_integer(value.type.dtype):
            return weak_int(cast(value, "int64", span))
        hint = "take one element of it, and make it an int with int()"
        raise RefusalError(f"a slice's bound must be an int, not {described(value)}", span, hint=hint)
    known_bound(value, span)
    raise RefusalError(f"a slice's bound must be an int, not {described(value)}", span)


def _in_reach(number: int) -> int:
    """A bound or a step that means the same and that 64 bits hold: no axis is longer."""
    return max(-_FAR, min(number, _FAR))


def _of_known(slice_: slice, axis: int, dim: int) -> Cut | None:
    begin, end, stride = slice_.indices(dim)
    taken = range(begin, end, stride)
    if len(taken) == dim and stride == 1:
        return None
    if not taken:
        return Cut(axis, 0, 0, 1, 0)
    # A negative end counts from the end in Relay: before the first element is one full turn back.
    return Cut(axis, begin, end if end >= 0 else end - dim, stride, len(taken))


def _runs_forward(start: object, stop: object, step: int) -> bool:
    """Whether bounds are in order for every size: of others NumPy takes nothing, and Relay refuses them."""
    if not isinstance(start, int) or not isinstance(stop, int):
        return True
    return (start < 0) == (stop < 0) and (stop - start) * step >= 0


def _of_named(start: object, stop: object, step: int, axis: int, size: Dim) -> Cut:
    """Relay brings the bounds into range when the program runs, as NumPy does."""
    begin = start if isinstance(start, int) else (0 if step > 0 else _FAR)
    end = stop if isinstance(stop, int) else (_FAR if step > 0 else -_FAR)
    return Cut(axis, int(begin), int(end), step, size)


def _size(start: Value, stop: Value, step: int, dim: Dim) -> Dim:
    """How many elements a slice has, where that is sure; else ``?``."""
    if step < 0:
        whole = start == Known(None) and stop == Known(None)
        return ceil_divide(dim, -step) if whole else ANY
    first = 0 if start == Known(None) else _from_start(start, dim)
    last = dim if stop == Known(None) else _from_start(stop, dim)
    length = subtract(last, first)
    sure = all(map(_is_sure, (first, length, subtract(dim, last))))
    return ceil_divide(length, step) if sure else ANY


def _from_start(bound: Value, dim: Dim) -> Dim:
    if isinstance(bound, Computed):
        return ANY
    found = dim_of(bound)
    return subtract(dim, -found) if isinstance(found, int) and found < 0 else found


def _is_sure(dim: Dim) -> bool:
    """Whether a difference of dimensions is surely 0 or more."""
    found = as_polynomial(dim)
    return found is not None and is_nonnegative(found)


def _later(
    start: Value, stop: Value, step: int, size: Dim, tensor: Computed, axis: int, span: Span
) -> Stretch:
    """Bounds that are known when the program runs, brought into range then."""
    length = number_of(size_along(tensor, axis, span), span)
    zero, one = _number(0, span), _number(1, span)
    last = apply("subtract", span, length, one)
    low, high = (zero, length) if step > 0 else (_number(-1, span), last)

    def placed(bound: Value, missing: Computed) -> Computed:
        if bound == Known(None):
            return missing
        number = bound if isinstance(bound, Computed) else number_of(bound, span)
        from_end = apply("add", span, number, length)
        place = apply("where", span, apply("less", span, number, zero), from_end, number)
        return apply("minimum", span, apply("maximum", span, place, low), high)

    first, end = (low, high) if step > 0 else (high, low)
    return Stretch(
        placed(start, first),
        placed(stop, end),
        step,
        size if not isinstance(size, AnyDim) or size.label else ANY,
    )


def _number(number: int, span: Span) -> Computed:
    return number_constant(number, "int64", span)


def taken_along(tensor: Computed, cut: Stretch, axis: int, span: Span) -> Computed:
    """The elements of a tensor from one place to another along an axis."""
    places = whole_numbers(cut.start, cut.stop, _number(cut.step, span), span)
    return apply("take", span, tensor, places, axis=axis)
