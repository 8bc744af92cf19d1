"""``x[...]`` with NumPy's basic indexing: ints, slices, ``...`` and None. Knows values and operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnmagic.diagnostics import Span
from nnmagic.relay.types import Dim
from nnmagic.tinynn.emit import apply, is_tensor, tensor_type
from nnmagic.tinynn.values import (
    Computed,
    Known,
    NotKnown,
    Operand,
    Refusal,
    SliceOf,
    TupleOf,
    Value,
    described,
    dim_shown,
    known_value,
)


def subscript(value: Operand, index: Sequence[Operand], span: Span) -> Value:
    """``value[index]`` of a tensor or a tuple. Raises Refusal."""
    if isinstance(value.value, TupleOf):
        return _of_tuple(value.value, index, span)
    if not is_tensor(value.value):
        raise Refusal(f"{described(value.value)} cannot be indexed", value.span)
    assert isinstance(value.value, Computed)
    return _of_tensor(value.value, index, span)


def _of_tuple(value: TupleOf, index: Sequence[Operand], span: Span) -> Value:
    if len(index) != 1:
        raise Refusal("a tuple takes one index", span)
    only = index[0]
    if isinstance(only.value, SliceOf):
        start, stop, step = (
            _bound(part, only.span) for part in (only.value.start, only.value.stop, only.value.step)
        )
        if step == 0:
            raise Refusal("the step of a slice cannot be zero", only.span)
        return TupleOf(value.items[start:stop:step])
    position = _known_int(only)
    if position is None:
        raise Refusal(f"a tuple's index must be an int, not {described(only.value)}", only.span)
    if not -len(value.items) <= position < len(value.items):
        raise Refusal(f"index {position} is out of range for a tuple of {len(value.items)}", only.span)
    return value.items[position]


def _known_int(operand: Operand) -> int | None:
    try:
        found = known_value(operand.value)
    except NotKnown:
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _bound(value: Value, span: Span) -> int | None:
    try:
        found = known_value(value)
    except NotKnown:
        found = value
    if found is None or (isinstance(found, int) and not isinstance(found, bool)):
        return found
    raise Refusal(
        f"a slice's bound must be an int known while compiling, not {described(value)}",
        span,
        hint="slices whose bounds are tensors are not supported yet" if is_tensor(value) else None,
    )


@dataclass(frozen=True, slots=True)
class _Cut:
    """What strided_slice does along one axis."""

    axis: int
    begin: int
    end: int
    stride: int


def _of_tensor(value: Computed, index: Sequence[Operand], span: Span) -> Computed:
    shape = tensor_type(Operand(value, span)).shape
    cuts: list[_Cut] = []
    dropped: list[int] = []
    added: list[int] = []  # places of new axes in the result
    axis = place = 0
    for item in _expanded(index, value, len(shape), span):
        match item.value:
            case Known(value=None):
                added.append(place)
                place += 1
                continue
            case SliceOf() as slice_:
                cut = _slice_cut(slice_, axis, shape[axis], item)
                place += 1
            case _:
                cut = _position_cut(item, axis, shape[axis])
                dropped.append(axis)
        if cut is not None:
            cuts.append(cut)
        axis += 1
    return _emit(value, cuts, dropped, added, span)


def _emit(value: Computed, cuts: list[_Cut], dropped: list[int], added: list[int], span: Span) -> Computed:
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
    if dropped:
        value = apply("squeeze", span, value, axis=dropped)
    for axis in added:
        value = apply("expand_dims", span, value, axis=axis)
    return value


_FULL = SliceOf(Known(None), Known(None), Known(None))


def _expanded(index: Sequence[Operand], value: Computed, rank: int, span: Span) -> list[Operand]:
    """One item an axis: ``...`` and what is left out become full slices."""
    ellipses = [place for place, item in enumerate(index) if item.value == Known(Ellipsis)]
    if len(ellipses) > 1:
        raise Refusal("an index can hold `...` once only", index[ellipses[1]].span)
    used = sum(item.value not in (Known(Ellipsis), Known(None)) for item in index)
    if used > rank:
        raise Refusal(f"{used} indices for {described(value)}", span)
    full = [Operand(_FULL, span)] * (rank - used)
    if not ellipses:
        return [*index, *full]
    return [*index[: ellipses[0]], *full, *index[ellipses[0] + 1 :]]


def _position_cut(item: Operand, axis: int, dim: Dim) -> _Cut:
    position = _known_int(item)
    if position is None:
        hint = None
        if is_tensor(item.value):
            hint = "write take(x, indices, axis=0) or where(mask, x, 0)"
        message = f"an index must be an int or a slice, not {described(item.value)}"
        raise Refusal(message, item.span, hint=hint)
    if not isinstance(dim, int):
        raise _named(dim, item.span)
    if not -dim <= position < dim:
        raise Refusal(f"index {position} is out of range for axis {axis} of size {int(dim)}", item.span)
    position %= dim
    return _Cut(axis, position, position + 1, 1)


def _slice_cut(slice_: SliceOf, axis: int, dim: Dim, item: Operand) -> _Cut | None:
    """The cut along one axis; None where the slice takes all of it."""
    start, stop, step = (_bound(part, item.span) for part in (slice_.start, slice_.stop, slice_.step))
    if step == 0:
        raise Refusal("the step of a slice cannot be zero", item.span)
    if start in (None, 0) and stop is None and step in (None, 1):
        return None
    if not isinstance(dim, int):
        raise _named(dim, item.span)
    begin, end, stride = slice(start, stop, step).indices(int(dim))
    taken = range(begin, end, stride)
    if len(taken) == dim and stride == 1:
        return None
    if not taken:
        return _Cut(axis, 0, 0, 1)
    # A negative end counts from the end in Relay: before the first element is one full turn back.
    return _Cut(axis, begin, end if end >= 0 else end - int(dim), stride)


def _named(dim: Dim, span: Span) -> Refusal:
    return Refusal(
        f"an index into the dimension {dim_shown(dim)} is not supported yet",
        span,
        hint="its size is known only when the function is called; write take(x, indices, axis=...)",
    )
