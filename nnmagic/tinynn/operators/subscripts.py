"""``x[...]`` with NumPy's indexing: ints, slices, ``...``, None, arrays, masks. Knows values, operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnmagic.diagnostics import Span, closest
from nnmagic.relay import expr as ir
from nnmagic.relay.types import TensorType, TupleType, is_integer
from nnmagic.tinynn.operators.index_arrays import (
    AxisIndex,
    broadcast_shape,
    index_by_array,
    mask_indices,
    single_index,
    static_indices,
)
from nnmagic.tinynn.operators.slices import Cut, cut_along, known_bound, taken_along
from nnmagic.tinynn.values.operator_calls import apply, is_tensor, tensor_type
from nnmagic.tinynn.values.values import (
    Computed,
    DictOf,
    Dimension,
    Known,
    NotStaticError,
    Operand,
    RefusalError,
    SliceOf,
    TupleOf,
    Value,
    described,
    known_value,
    source_text,
)


def subscript(value: Operand, index: Sequence[Operand], span: Span) -> Value:
    """``value[index]`` of a tensor or a tuple. Raises Refusal."""
    if isinstance(value.value, TupleOf):
        return _of_tuple(value.value, index, span)
    if isinstance(value.value, DictOf):
        return _of_dictionary(value.value, index)
    if not is_tensor(value.value):
        raise RefusalError(f"{described(value.value)} cannot be indexed", value.span)
    assert isinstance(value.value, Computed)
    return _of_tensor(value.value, index, span)


def _of_dictionary(value: DictOf, index: Sequence[Operand]) -> Value:
    try:
        key = known_value(index[0].value) if len(index) == 1 else None
    except NotStaticError:
        key = None
    if not isinstance(key, str | int):
        message = f"a dictionary's key must be known while compiling, not {described(index[0].value)}"
        if len(index) == 1 and isinstance(index[0].value, Computed):
            hint = "stack the values in another cell, as in weights = numpy.stack(list(state.values())), "
            raise RefusalError(message, index[0].span, hint=f"{hint}and write weights[i]")
        raise RefusalError(message, index[0].span)
    if key not in value.items:
        close = (
            closest(key, [each for each in value.items if isinstance(each, str)])
            if isinstance(key, str)
            else None
        )
        hint = f"did you mean {close!r}?" if close else _keys(value)
        raise RefusalError(f"the dictionary has no key {key!r}", index[0].span, hint=hint)
    return value.items[key]


def _keys(value: DictOf) -> str:
    keys = [repr(key) for key in value.items]
    return f"its keys: {', '.join(keys[:8])}{', ...' if len(keys) > 8 else ''}" if keys else "it is empty"


def _of_tuple(value: TupleOf, index: Sequence[Operand], span: Span) -> Value:
    if len(index) != 1:
        raise RefusalError("a tuple takes one index", span)
    only = index[0]
    if isinstance(only.value, SliceOf):
        start, stop, step = (
            known_bound(part, only.span) for part in (only.value.start, only.value.stop, only.value.step)
        )
        if step == 0:
            raise RefusalError("the step of a slice cannot be zero", only.span)
        return TupleOf(value.items[start:stop:step])
    position = _known_int(only)
    if position is None:
        hint = None
        if isinstance(only.value, Computed | Dimension) and value.items and all(map(is_tensor, value.items)):
            hint = "stack the items into one tensor, as in stack(items)[i]"
        raise RefusalError(
            f"a tuple's index must be an int, not {described(only.value)}", only.span, hint=hint
        )
    if not -len(value.items) <= position < len(value.items):
        raise RefusalError(f"index {position} is out of range for a tuple of {len(value.items)}", only.span)
    return value.items[position]


def _known_int(operand: Operand) -> int | None:
    try:
        found = known_value(operand.value)
    except NotStaticError:
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


# -- tensors -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """One item of an index, with the first axis that it is about and how many it uses."""

    item: Operand
    axis: int
    used: int

    @property
    def is_new(self) -> bool:
        """Whether it adds an axis."""
        return self.item.value == Known(None)

    @property
    def is_slice(self) -> bool:
        """Whether it keeps an axis."""
        return isinstance(self.item.value, SliceOf)


_FULL = SliceOf(Known(None), Known(None), Known(None))


def _of_tensor(value: Computed, index: Sequence[Operand], span: Span) -> Computed:
    parts = list(_parts(index, value, span))
    value = _sliced(value, parts, span)
    chosen = [part for part in parts if not part.is_new and not part.is_slice]
    places = [place for part in chosen for place in _places(value, part)]
    value, block, at = _gathered(value, places, span)
    if any(place.is_array for place in places):
        value = _moved(value, block, at, _block_place(parts, chosen), span)
    for axis in _new_axes(parts, chosen, block if any(place.is_array for place in places) else None):
        value = apply("expand_dims", span, value, axis=axis)
    return value


def _parts(index: Sequence[Operand], value: Computed, span: Span) -> Iterator[_Part]:
    """One part an item, with its axes: ``...`` and what is left out become full slices."""
    rank = len(tensor_type(Operand(value, span)).shape)
    only = index[0] if len(index) == 1 else None
    if only is not None and isinstance(only.value, TupleOf) and not _is_list(only):
        hint = "write the indices out, as in x[i, j]; or make a tensor of them, as in x[array(t)]"
        raise RefusalError(
            "a tuple as an index means several axes, a list one: this may be either", only.span, hint=hint
        )
    ellipses = [place for place, item in enumerate(index) if item.value == Known(Ellipsis)]
    if len(ellipses) > 1:
        raise RefusalError("an index can hold `...` once only", index[ellipses[1]].span)
    used = [_axes_used(item) for item in index]
    if sum(used) > rank:
        many = "1 index" if sum(used) == 1 else f"{sum(used)} indices"
        leave_out = None if rank else "it has one element: leave the index out"
        raise RefusalError(f"{many} for {described(value)}", span, hint=leave_out)
    first = ellipses[0] if ellipses else len(index)
    full = [(Operand(_FULL, span), 1)] * (rank - sum(used))
    listed = list(zip(index, used, strict=True))
    axis = 0
    for item, count in [*listed[:first], *full, *listed[first + 1 :]]:
        yield _Part(item, axis, count)
        axis += count


def _is_list(operand: Operand) -> bool:
    """Whether a sequence is written out as a list where it stands."""
    span = operand.span
    line = span.source.line(span.line) if span.source else None
    return line is not None and line[span.column - 1 : span.column] == "["


def _axes_used(item: Operand) -> int:
    if item.value in (Known(None), Known(Ellipsis)):
        return 0
    if isinstance(item.value, Computed) and isinstance(item.value.type, TensorType):
        type_ = item.value.type
        return len(type_.shape) if type_.dtype == "bool" and type_.shape else 1
    return 1


def _sliced(value: Computed, parts: Sequence[_Part], span: Span) -> Computed:
    """With every slice carried out; each keeps its axis."""
    cuts: list[Cut] = []
    shape = list(tensor_type(Operand(value, span)).shape)
    for part in parts:
        if not isinstance(part.item.value, SliceOf):
            continue
        size = shape[part.axis]
        found = cut_along(part.item.value, value, part.axis, part.item)
        if isinstance(found, Cut):
            cuts.append(found)
            shape[part.axis] = found.size
        elif found is not None:
            value = taken_along(value, found, part.axis, span)
            shape[part.axis] = found.size
        else:
            shape[part.axis] = size
    if cuts:
        value = apply(
            "strided_slice",
            span,
            value,
            begin=[cut.begin for cut in cuts],
            end=[cut.end for cut in cuts],
            strides=[cut.stride for cut in cuts],
            axes=[cut.axis for cut in cuts],
        )
    return Computed(value.expr, TensorType(tuple(shape), tensor_type(Operand(value, span)).dtype))


def _places(value: Computed, part: _Part) -> list[AxisIndex]:
    """Where an int, an array or a mask takes from."""
    item = part.item
    found = item.value
    if isinstance(found, TupleOf):
        return [index_by_array(value, part.axis, item)]
    known = static_indices(value, part.axis, item)
    if known is not None:
        return known
    if isinstance(found, Dimension):
        return [single_index(value, part.axis, found.number, item.span)]
    if isinstance(found, Computed) and isinstance(found.type, TensorType):
        if found.type.dtype == "bool" and found.type.shape:
            return mask_indices(value, part.axis, found, item.span)
        if is_integer(found.type.dtype):
            if found.type.shape:
                return [index_by_array(value, part.axis, item)]
            return [single_index(value, part.axis, found, item.span)]
    hint = f"convert it, as in {source_text(item.span)}.astype(i32)" if is_tensor(found) else None
    if isinstance(found, Known) and isinstance(found.value, bool):
        hint = "write x[None] for a new axis, or where(condition, x, 0)"
    raise RefusalError(f"an index must be an int or a slice, not {described(found)}", item.span, hint=hint)


def _gathered(value: Computed, places: Sequence[AxisIndex], span: Span) -> tuple[Computed, int, int]:
    """The elements at the places: single ones drop their axes, arrays make one block of axes.

    Gives the rank of that block, too, and its place.
    """
    singles = [place for place in places if not place.is_array]
    arrays = [place for place in places if place.is_array]
    cuts = [place for place in singles if isinstance(place.index, int)]
    if cuts:
        starts = [int(place.index) for place in cuts if isinstance(place.index, int)]
        value = apply(
            "strided_slice",
            span,
            value,
            begin=starts,
            end=[start + 1 for start in starts],
            strides=[1] * len(cuts),
            axes=[place.axis for place in cuts],
        )
    for place in sorted(singles, key=lambda each: -each.axis):
        if isinstance(place.index, Computed):
            value = apply("take", span, value, place.index, axis=place.axis, mode="fast")
    later = [place.axis for place in singles if not isinstance(place.index, int)]
    if cuts:
        dropped = [place.axis - sum(axis < place.axis for axis in later) for place in cuts]
        value = apply("squeeze", span, value, axis=dropped)
    axes = [place.axis - sum(each.axis < place.axis for each in singles) for place in arrays]
    if not arrays:
        return value, 0, 0
    if len(arrays) == 1:
        (only,) = arrays
        assert isinstance(only.index, Computed)
        mode = "clip" if only.in_range else "fast"
        rank = len(tensor_type(Operand(only.index, span)).shape)
        return apply("take", span, value, only.index, axis=axes[0], mode=mode), rank, axes[0]
    return _of_several(value, arrays, axes, span)


def _of_several(
    value: Computed, arrays: Sequence[AxisIndex], axes: Sequence[int], span: Span
) -> tuple[Computed, int, int]:
    """Arrays along several axes, broadcast together; their axes come first."""
    shape = broadcast_shape([place.shape for place in arrays], span)
    rank = len(tensor_type(Operand(value, span)).shape)
    order = [*axes, *(axis for axis in range(rank) if axis not in axes)]
    if order != list(range(rank)):
        value = apply("transpose", span, value, axes=order)
    indices = [place.checked(value, number, span) for number, place in enumerate(arrays)]
    inner = tensor_type(Operand(value, span))
    result = apply_adv_index([value, *indices], span)
    return Computed(result.expr, TensorType((*shape, *inner.shape[len(axes) :]), inner.dtype)), len(shape), 0


def apply_adv_index(parts: Sequence[Computed], span: Span) -> Computed:
    """The first tensor at the others along its first axes."""
    types = TupleType(tuple(part.type for part in parts))
    whole = Computed(ir.Tuple(tuple(part.expr for part in parts), span=span), types)
    return apply("adv_index", span, whole)


def _block_place(parts: Sequence[_Part], chosen: Sequence[_Part]) -> int:
    """Before which of the kept axes the axes of arrays stand: of neighbours where they are, else first."""
    if not _are_neighbours(parts, chosen):
        return 0
    return sum(part.is_slice for part in parts[: parts.index(chosen[0])])


def _moved(value: Computed, block: int, at: int, wanted: int, span: Span) -> Computed:
    """With the axes of the block before another of the kept axes."""
    if at == wanted or not block:
        return value
    rank = len(tensor_type(Operand(value, span)).shape)
    own = list(range(at, at + block))
    kept = [axis for axis in range(rank) if axis not in own]
    return apply("transpose", span, value, axes=[*kept[:wanted], *own, *kept[wanted:]])


def _new_axes(parts: Sequence[_Part], chosen: Sequence[_Part], block: int | None) -> list[int]:
    """The places of new axes in the result, in order. ``block``: how many axes arrays make, if any do."""
    together = block is not None and _are_neighbours(parts, chosen)
    places: list[int] = []
    place = block if block is not None and not together else 0
    for part in parts:
        if together and part is chosen[0]:
            place += block or 0
        if part.is_new:
            places.append(place)
        place += part.is_new or part.is_slice
    return places


def _are_neighbours(parts: Sequence[_Part], chosen: Sequence[_Part]) -> bool:
    numbers = [number for number, part in enumerate(parts) if any(part is each for each in chosen)]
    return numbers == list(range(numbers[0], numbers[-1] + 1))
