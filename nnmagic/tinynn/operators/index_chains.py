"""Join the indices of ``y[outer][inner]`` to one: an element of a part is read and set where the array is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nnmagic.diagnostics import Span
from nnmagic.tinynn.operators.element_assignment import set_elements
from nnmagic.tinynn.operators.slices import clipped_bounds
from nnmagic.tinynn.operators.subscripts import IndexPart, axis_indices, index_parts, subscript
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, is_tensor, tensor_type
from nnmagic.tinynn.values.values import Computed, Known, Operand, RefusalError, SliceOf, Value, dynamic

_Index = Sequence[Operand]


def read_chain(value: Operand, indices: Sequence[tuple[_Index, Span]]) -> Iterator[tuple[Value, _Index]]:
    """Yield the values of ``value[first][second]...``, each with its index, by as few reads as possible."""
    (index, span), *rest = indices
    for inner, inner_span in rest:
        joined = join(value, index, inner, span) if _is_counted(inner) else None
        if joined is None:
            part = subscript(value, index, span)
            yield part, index
            value, index, span = Operand(part, span), inner, inner_span
        else:
            index, span = joined, inner_span
    yield subscript(value, index, span), index


def set_chain(tensor: Operand, indices: Sequence[_Index], value: Operand, span: Span) -> Computed:
    """Return the tensor with ``value`` at ``tensor[first][second]...``. Raises RefusalError."""
    first, *rest = join_all(tensor, indices, span)
    if rest:
        changed = set_chain(part_to_change(tensor, first, span), rest, value, span)
        return put_back(tensor, first, changed, span)
    return set_elements(tensor, first, value, span)


def part_to_change(tensor: Operand, index: _Index, span: Span) -> Operand:
    """Return the part of a tensor whose elements are assigned. Raises RefusalError."""
    element = subscript(tensor, index, span)
    if not tensor_type(Operand(element, span)).shape:
        raise RefusalError(
            f"{describe(element)} has no elements to assign", span, hint="leave the last index out"
        )
    return Operand(element, span)


def put_back(tensor: Operand, index: _Index, part: Computed, span: Span) -> Computed:
    """Return the tensor with a changed part; as it is where the part is a copy, which an array chose."""
    if all(map(_is_plain, index)):
        return set_elements(tensor, index, Operand(part, span), span)
    return tensor.dynamic


def join_all(tensor: Operand, indices: Sequence[_Index], span: Span) -> list[_Index]:
    """Return a chain of indices of a tensor with the first ones joined, as far as they are one index."""
    first, *tail = indices
    while tail and (joined := join(tensor, first, tail[0], span)) is not None:
        first, tail = joined, tail[1:]
    return [first, *tail]


def join(value: Operand, outer: _Index, inner: _Index, span: Span) -> list[Operand] | None:
    """Return the index that takes the elements of ``value[outer][inner]``; None where there is none.

    There is one for ints and slices, unless a slice is cut again. An int into a slice has a check that the
    slice has that element.
    """
    tensor = value.value
    if not is_tensor(tensor):
        return None
    assert isinstance(tensor, Computed)
    if len(outer) > len(tensor_type(value).shape) + 1 or not all(map(_is_plain, (*outer, *inner))):
        return None
    parts = list(index_parts(outer, tensor, span))
    kept = [index_part for index_part in parts if index_part.is_slice]
    if not kept or len(inner) - sum(item.value == Known(Ellipsis) for item in inner) > len(kept):
        return None  # an error, which the second read reports
    section = dynamic(subscript(value, outer, span))
    within = iter(list(index_parts(inner, section, span)))
    joined = []
    for index_part in parts:
        item = (
            _inside(tensor, index_part, section, next(within), span)
            if index_part.is_slice
            else index_part.item
        )
        if item is None:
            return None
        joined.append(item)
    return joined


def _is_plain(item: Operand) -> bool:
    """Return whether an item of an index is an int, a slice or ``...``."""
    return isinstance(item.value, SliceOf) or item.value == Known(Ellipsis) or IndexPart(item, 0, 1).is_int


def _is_counted(index: Iterable[Operand]) -> bool:
    """Return whether an index has an int that is known at run time only, as a loop's counter."""
    return any(isinstance(item.value, Computed) and IndexPart(item, 0, 1).is_int for item in index)


def _inside(
    tensor: Computed, index: IndexPart, section: Computed, inner: IndexPart, span: Span
) -> Operand | None:
    """Return what an item of an index means inside a slice of an axis."""
    if index.is_full:
        return inner.item
    if inner.is_full:
        return index.item
    slice_ = index.item.value
    assert isinstance(slice_, SliceOf)
    step = _step_of(slice_)
    if inner.is_slice or not step:
        return None
    (place,) = axis_indices(section, inner)
    if isinstance(place.index, int):
        number = number_constant(place.index, "int64", span)
    elif step == 1 and slice_.stop == Known(None) and _least(inner.item) >= 0:
        number = place.index  # beyond the slice is beyond the array
    else:
        number = place.check_range(section, place.axis, span)
    if step != 1:
        number = apply("multiply", span, number, number_constant(step, "int64", span))
    begin = _begin(slice_, tensor, index, span)
    number = number if begin is None else apply("add", span, begin, number)
    return Operand(Computed(number.expr, number.type, weak=True, least=0), inner.item.span)


def _least(item: Operand) -> int:
    """Return what an index is at least; -1 where it may count from the end."""
    if isinstance(item.value, Known) and isinstance(item.value.value, int):
        return item.value.value
    least = item.value.least if isinstance(item.value, Computed) else 0
    return -1 if least is None else least


def _begin(slice_: SliceOf, tensor: Computed, part: IndexPart, span: Span) -> Computed | None:
    """Return the position of a slice's first element; None where it is that of the axis."""
    start = Known(0) if slice_.start == Known(None) else slice_.start
    if (
        isinstance(start, Known)
        and isinstance(start.value, int)
        and start.value >= 0
        and _step_of(slice_) > 0
    ):
        return number_constant(start.value, "int64", span) if start.value else None
    return clipped_bounds(slice_, tensor, part.axis, part.item)[0]


def _step_of(slice_: SliceOf) -> int:
    """Return the step of a slice; 0 where it is not known at compile time."""
    if slice_.step == Known(None):
        return 1
    return slice_.step.value if isinstance(slice_.step, Known) and isinstance(slice_.step.value, int) else 0
