"""Evaluate ``x[...]`` with NumPy's indexing: ints, slices, ``...``, None, arrays and masks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnmagic.diagnostics import Span, closest
from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import TensorType, TupleType, is_integer
from nnmagic.tinynn.operators import index_arrays
from nnmagic.tinynn.operators.slices import (
    DynamicSlice,
    StaticSlice,
    resolve_slice,
    static_bound,
    take_slices,
)
from nnmagic.tinynn.types.annotations import DType
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.default_dtypes import inherit_default_dtype
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast, is_tensor, tensor_type
from nnmagic.tinynn.values.operator_restrictions import broadcast_shape
from nnmagic.tinynn.values.weak_types import as_weak


def subscript(value: v.Operand, index: Sequence[v.Operand], span: Span) -> v.Value:
    """Evaluate ``value[index]`` of a tensor, a tuple or a dictionary."""
    if (entries := v.entries_of(value.value)) is not None:
        return _index_dictionary(v.DictOf(entries), index)
    if isinstance(value.value, v.TupleOf):
        return _index_tuple(value.value, index, span)
    if isinstance(value.value, v.ListOfRows):
        result, is_table = (
            subscript(v.Operand(value.value.rows, value.span), index, span),
            value.value.is_table,
        )
        if len(index) > 1 or not isinstance(result, v.Computed):
            return result
        of_rows = value.value.columns or is_table
        is_order = of_rows and is_tensor(index[0].value) and tensor_type(index[0]).shape
        if isinstance(index[0].value, v.SliceOf) or is_order:
            return replace(value.value, rows=result, is_row=False)
        if value.value.columns:
            return tuple_of(result, value.value.columns, span)
        return v.ListOfRows(result, is_table - 1, is_row=True) if is_table else result
    if not is_tensor(value.value):
        dtype = value.value.value if isinstance(value.value, v.Known) else None
        hint = f'for an array write Tensor[("n", 3), {dtype.short}]' if isinstance(dtype, DType) else None
        raise v.RefusalError(f"{describe(value.value)} cannot be indexed", value.span, hint=hint)
    index = [replace(each, value=v.rows_of_list(each.value)) for each in index]
    result = _index_tensor(value.dynamic, index, span)
    return as_weak(result) if value.dynamic.weak else inherit_default_dtype(result, [value.dynamic])


def tuple_of(row: v.Value, columns: v.Columns, span: Span) -> v.Value:
    """Return the numbers of a vector as the tuple that it stands for."""
    if not isinstance(row, v.Computed):
        return row
    places = itertools.count()

    def read(column: v.Column | v.Columns) -> v.Value:
        if isinstance(column, tuple):
            return v.TupleOf(tuple(map(read, column)), written="tuple")
        number = v.dynamic(subscript(v.Operand(row, span), [v.Operand(v.Known(next(places)), span)], span))
        return replace(cast(number, column.dtype, span), weak=column.weak)

    return read(columns)


def _index_dictionary(value: v.DictOf, index: Sequence[v.Operand]) -> v.Value:
    key = v.static_or(index[0].value, None) if len(index) == 1 else None
    if not isinstance(key, str | int | float | tuple):
        message = f"a dictionary's key must be known at compile time, not {describe(index[0].value)}"
        if len(index) == 1 and isinstance(index[0].value, v.Computed):
            hint = "stack the values in another cell, as in weights = numpy.stack(list(state.values())), "
            raise v.RefusalError(message, index[0].span, hint=f"{hint}and write weights[i]")
        raise v.RefusalError(message, index[0].span)
    if key not in value.items:
        close = (
            closest(key, [name for name in value.items if isinstance(name, str)])
            if isinstance(key, str)
            else None
        )
        hint = f"did you mean {close!r}?" if close else _keys(value)
        raise v.RefusalError(f"the dictionary has no key {key!r}", index[0].span, hint=hint)
    return value.items[key]


def _keys(value: v.DictOf) -> str:
    keys = [repr(key) for key in value.items]
    return f"its keys: {', '.join(keys[:8])}{', ...' if len(keys) > 8 else ''}" if keys else "it is empty"


def _index_tuple(value: v.TupleOf, index: Sequence[v.Operand], span: Span) -> v.Value:
    if len(index) != 1:
        nested = bool(value.items) and all(isinstance(item, v.TupleOf) for item in value.items)
        hint = (
            "a table is an array: np.zeros((n, m), dtype=int) in place of lists of a list" if nested else None
        )
        raise v.RefusalError("a tuple takes one index", span, hint=hint)
    only = index[0]
    if isinstance(only.value, v.SliceOf):
        if not value.items:
            return value
        start, stop, step = (
            static_bound(part, only.span) for part in (only.value.start, only.value.stop, only.value.step)
        )
        if step == 0:
            raise v.RefusalError("the step of a slice cannot be zero", only.span)
        return v.TupleOf(value.items[start:stop:step])
    position = _static_int_or_none(only)
    if position is None and value.items and all(isinstance(item, v.FUNCTIONS) for item in value.items):
        numbers = v.Computed(
            ir.constant(np.arange(len(value.items)), "int64", span=span),
            TensorType((len(value.items),), "int64"),
        )
        # An index into the numbers of the items: so it is checked, and counted from the end if it
        # is negative.
        number = v.Operand(subscript(v.Operand(numbers, span), [only], span), only.span)
        return v.GradientOf("choice", number, arguments=tuple(v.Operand(item, span) for item in value.items))
    if position is None:
        hint = None
        if (
            isinstance(only.value, v.Computed | v.Dimension)
            and value.items
            and all(map(is_tensor, value.items))
            and len({tensor_type(v.Operand(item, only.span)).shape for item in value.items}) == 1
        ):
            hint = "stack the items into one tensor, as in stack(items)[i]"
        raise v.RefusalError(
            f"a tuple's index must be an int, not {describe(only.value)}", only.span, hint=hint
        )
    if not -len(value.items) <= position < len(value.items):
        raise v.RefusalError(f"index {position} is out of range for a tuple of {len(value.items)}", only.span)
    return value.items[position]


def _static_int_or_none(operand: v.Operand) -> int | None:
    number = v.static_or(operand.value, None)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


# -- tensors -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexPart:
    """One item of an index, with the first axis that it applies to and the number of axes that it uses."""

    item: v.Operand
    axis: int
    used: int

    @property
    def is_new(self) -> bool:
        """Return whether it adds an axis."""
        return self.item.value == v.Known(None)

    @property
    def is_slice(self) -> bool:
        """Return whether it keeps an axis."""
        return isinstance(self.item.value, v.SliceOf)

    @property
    def is_full(self) -> bool:
        """Return whether it keeps all of an axis."""
        return self.item.value == _FULL

    @property
    def is_int(self) -> bool:
        """Return whether it is one integer, static or dynamic."""
        match self.item.value:
            case v.Known(value=int() as number):
                return not isinstance(number, bool)
            case v.Dimension():
                return True
            case v.Computed(type=TensorType(shape=(), dtype=dtype)):
                return is_integer(dtype)
        return False


_FULL = v.SliceOf(v.Known(None), v.Known(None), v.Known(None))


def mask_of_everything(index: Sequence[v.Operand]) -> v.Computed | None:
    """Return the mask of an index that is nothing but a mask of rank 0."""
    if len(index) == 1 and isinstance(index[0].value, v.Computed):
        mask = index[0].value
        return mask if mask.type == TensorType((), "bool") else None
    return None


def _index_tensor(value: v.Computed, index: Sequence[v.Operand], span: Span) -> v.Computed:
    whole_mask = mask_of_everything(index)
    if whole_mask is not None:  # of a new axis: the result has all or nothing
        value = apply("expand_dims", span, value, axis=0)
        index = [v.Operand(apply("expand_dims", span, whole_mask, axis=0), index[0].span)]
    entries = list(index_parts(index, value, span))
    rows = [index_part for index_part in entries if not index_part.is_new and not index_part.is_slice]
    if rows and all(index_part.is_int for index_part in rows) and any(map(_is_dynamic_slice, entries)):
        whole = v.Operand(_FULL, span)
        items = [
            index_part.item if index_part in rows else whole
            for index_part in entries
            if not index_part.is_new
        ]
        rest = [index_part.item for index_part in entries if index_part not in rows]
        return _index_tensor(_index_tensor(value, items, span), rest, span)  # a slice of a row copies less
    value = _apply_slices(value, entries, span)
    chosen = [index_part for index_part in entries if not index_part.is_new and not index_part.is_slice]
    indices: list[index_arrays.AxisIndex] = []
    for index_part in chosen:
        checked = index_arrays.fit_to_mask(value, index_part.axis, index_part.item)
        indices += axis_indices(value, index_part, fits=checked is not value)
        value = checked
    value, block, first_axis = _gather(value, indices, span)
    if any(axis_index.is_array for axis_index in indices):
        value = _move_block(value, block, first_axis, _block_position(entries, chosen), span)
    for axis in _new_axes(
        entries, chosen, block if any(axis_index.is_array for axis_index in indices) else None
    ):
        value = apply("expand_dims", span, value, axis=axis)
    return value


def _is_dynamic_slice(part: IndexPart) -> bool:
    """Return whether a part of an index is a slice with a bound that is computed at run time."""
    slice_ = part.item.value
    return isinstance(slice_, v.SliceOf) and any(
        isinstance(bound, v.Computed) for bound in (slice_.start, slice_.stop)
    )


def index_parts(index: Sequence[v.Operand], value: v.Computed, span: Span) -> Iterator[IndexPart]:
    """Yield the items with their axes; ``...`` and omitted items become full slices."""
    rank = len(tensor_type(v.Operand(value, span)).shape)
    only = index[0] if len(index) == 1 else None
    if only is not None and isinstance(only.value, v.TupleOf) and not _is_list(only):
        hint = "write the indices out, as in x[i, j]; or make a tensor of them, as in x[array(t)]"
        raise v.RefusalError(
            "a tuple as an index means several axes, a list one: this may be either", only.span, hint=hint
        )
    ellipses = [position for position, item in enumerate(index) if item.value == v.Known(Ellipsis)]
    if len(ellipses) > 1:
        raise v.RefusalError("an index can hold `...` once only", index[ellipses[1]].span)
    used = [_used_axes(item) for item in index]
    if sum(used) > rank:
        many = "1 index" if sum(used) == 1 else f"{sum(used)} indices"
        leave_out = None if rank else "it has one element: leave the index out"
        raise v.RefusalError(f"{many} for {describe(value)}", span, hint=leave_out)
    first = ellipses[0] if ellipses else len(index)
    full = [(v.Operand(_FULL, span), 1)] * (rank - sum(used))
    listed = list(zip(index, used, strict=True))
    axis = 0
    for item, count in [*listed[:first], *full, *listed[first + 1 :]]:
        yield IndexPart(item, axis, count)
        axis += count


def _is_list(operand: v.Operand) -> bool:
    """Return whether a sequence is written in square brackets at its span."""
    span = operand.span
    line = span.source.line(span.line) if span.source else None
    return line is not None and line[span.column - 1 : span.column] == "["


def _used_axes(item: v.Operand) -> int:
    if item.value in (v.Known(None), v.Known(Ellipsis)):
        return 0
    if isinstance(item.value, v.Computed) and isinstance(item.value.type, TensorType):
        type_ = item.value.type
        return len(type_.shape) if type_.dtype == "bool" and type_.shape else 1
    return 1


def _apply_slices(value: v.Computed, entries: Sequence[IndexPart], span: Span) -> v.Computed:
    """Apply every slice; each keeps its axis."""
    cuts: list[tuple[StaticSlice, ...]] = []
    dynamic: dict[int, DynamicSlice] = {}
    shape = list(tensor_type(v.Operand(value, span)).shape)
    for index in entries:
        if not isinstance(index.item.value, v.SliceOf):
            continue
        resolved = resolve_slice(index.item.value, value, index.axis, index.item)
        if isinstance(resolved, DynamicSlice):
            dynamic[index.axis] = resolved
            shape[index.axis] = resolved.size
        elif resolved:
            cuts.append(resolved)
            shape[index.axis] = resolved[-1].size
    value = take_slices(value, dynamic, span) if dynamic else value
    for step in range(max(map(len, cuts), default=0)):
        axes = [slices[step] for slices in cuts if step < len(slices)]
        value = apply(
            "strided_slice",
            span,
            value,
            begin=[cut.begin for cut in axes],
            end=[cut.end for cut in axes],
            strides=[cut.stride for cut in axes],
            axes=[cut.axis for cut in axes],
        )
    return v.Computed(value.expr, TensorType(tuple(shape), tensor_type(v.Operand(value, span)).dtype))


def axis_indices(
    value: v.Computed, index_part: IndexPart, *, fits: bool = False
) -> list[index_arrays.AxisIndex]:
    """Resolve an int, an array or a mask to indices along axes; ``fits``: a mask is known to have these."""
    item = index_part.item
    index = item.value
    if isinstance(index, v.TupleOf):
        return [index_arrays.index_by_array(value, index_part.axis, item)]
    static = index_arrays.static_indices(value, index_part.axis, item)
    if static is not None:
        return static
    if isinstance(index, v.Dimension):
        return [index_arrays.single_index(value, index_part.axis, index.number, item.span)]
    if isinstance(index, v.Computed) and isinstance(index.type, TensorType):
        if index.type.dtype == "bool" and index.type.shape:
            return index_arrays.mask_indices(value, index_part.axis, index, item.span, fits=fits)
        if is_integer(index.type.dtype):
            if index.type.shape:
                return [index_arrays.index_by_array(value, index_part.axis, item)]
            return [index_arrays.single_index(value, index_part.axis, index, item.span)]
    hint = f"convert it, as in {source_text(item.span)}.astype(i32)" if is_tensor(index) else None
    if isinstance(index, v.Known) and isinstance(index.value, bool):
        hint = "write x[None] for a new axis, or where(condition, x, 0)"
    written = source_text(item.span)
    if (
        isinstance(index, v.Known)
        and isinstance(index.value, float)
        and "/" in written
        and "//" not in written
    ):
        hint = f"write // for a whole number, as in {written.replace('/', '//')}"
    raise v.RefusalError(f"an index must be an int or a slice, not {describe(index)}", item.span, hint=hint)


def _gather(
    value: v.Computed, indices: Sequence[index_arrays.AxisIndex], span: Span
) -> tuple[v.Computed, int, int]:
    """Take the elements at the indices: single ones drop their axes, arrays make one block of axes.

    Return the rank of that block, too, and its first axis.
    """
    singles = [axis_index for axis_index in indices if not axis_index.is_array]
    arrays = [axis_index for axis_index in indices if axis_index.is_array]
    if len(singles) == len(tensor_type(v.Operand(value, span)).shape):
        singles = _as_element(singles, span)
    cuts = [axis_index for axis_index in singles if isinstance(axis_index.index, int)]
    if cuts:
        starts = [int(axis_index.index) for axis_index in cuts if isinstance(axis_index.index, int)]
        value = apply(
            "strided_slice",
            span,
            value,
            begin=starts,
            end=[start + 1 for start in starts],
            strides=[1] * len(cuts),
            axes=[axis_index.axis for axis_index in cuts],
        )
    # From the last axis to the first, as each ``take`` drops its axis.
    for axis_index in sorted(singles, key=lambda other: -other.axis):
        if isinstance(axis_index.index, v.Computed):
            value = apply("take", span, value, axis_index.index, axis=axis_index.axis, mode="fast")
    later = [axis_index.axis for axis_index in singles if not isinstance(axis_index.index, int)]
    if cuts:
        # Where the axes of the slices are now that the takes have dropped theirs.
        dropped = [axis_index.axis - sum(axis < axis_index.axis for axis in later) for axis_index in cuts]
        value = apply("squeeze", span, value, axis=dropped)
    axes = [axis_index.axis - sum(other.axis < axis_index.axis for other in singles) for axis_index in arrays]
    if not arrays:
        return value, 0, 0
    if len(arrays) == 1:
        (only,) = arrays
        assert isinstance(only.index, v.Computed)
        mode = "clip" if only.in_range else "fast"
        rank = len(tensor_type(v.Operand(only.index, span)).shape)
        return apply("take", span, value, only.index, axis=axes[0], mode=mode), rank, axes[0]
    return _gather_several(value, arrays, axes, span)


def _as_element(singles: Sequence[index_arrays.AxisIndex], span: Span) -> list[index_arrays.AxisIndex]:
    """Return the indices of one element, all to be taken in the same way if the run decides one."""
    if all(isinstance(axis_index.index, int) for axis_index in singles):
        return list(singles)
    return [
        replace(axis_index, index=number_constant(axis_index.index, "int64", span))
        if isinstance(axis_index.index, int)
        else axis_index
        for axis_index in singles
    ]


def _gather_several(
    value: v.Computed, arrays: Sequence[index_arrays.AxisIndex], axes: Sequence[int], span: Span
) -> tuple[v.Computed, int, int]:
    """Take elements by arrays along several axes, broadcast together; their axes come first."""
    shapes = [index.shape for index in arrays]
    shape = broadcast_shape(shapes)
    if shape is None:
        shown = " and ".join(map(format_shape, shapes))
        raise v.RefusalError(f"the indices have the shapes {shown}, which do not broadcast", span)
    rank = len(tensor_type(v.Operand(value, span)).shape)
    order = [*axes, *(axis for axis in range(rank) if axis not in axes)]
    if order != list(range(rank)):
        value = apply("transpose", span, value, axes=order)
    indices = [index.check_range(value, number, span) for number, index in enumerate(arrays)]
    inner = tensor_type(v.Operand(value, span))
    result = apply_adv_index([value, *indices], span)
    return (
        v.Computed(result.expr, TensorType((*shape, *inner.shape[len(axes) :]), inner.dtype)),
        len(shape),
        0,
    )


def apply_adv_index(tensors: Sequence[v.Computed], span: Span) -> v.Computed:
    """Index the first tensor by the others along its first axes."""
    types = TupleType(tuple(index_part.type for index_part in tensors))
    whole = v.Computed(ir.Tuple(tuple(index_part.expr for index_part in tensors), span=span), types)
    return apply("adv_index", span, whole)


def _block_position(indices: Sequence[IndexPart], chosen: Sequence[IndexPart]) -> int:
    """Return the number of kept axes before the block of the arrays' axes.

    The block stands where neighbouring arrays stand; otherwise it comes first, as in NumPy.
    """
    if not _are_neighbours(indices, chosen):
        return 0
    return sum(part.is_slice for part in indices[: indices.index(chosen[0])])


def _move_block(value: v.Computed, block: int, first_axis: int, wanted: int, span: Span) -> v.Computed:
    """Move the block of axes to another position among the kept axes."""
    if first_axis == wanted or not block:
        return value
    rank = len(tensor_type(v.Operand(value, span)).shape)
    own = list(range(first_axis, first_axis + block))
    kept = [axis for axis in range(rank) if axis not in own]
    return apply("transpose", span, value, axes=[*kept[:wanted], *own, *kept[wanted:]])


def _new_axes(entries: Sequence[IndexPart], chosen: Sequence[IndexPart], block: int | None) -> list[int]:
    """Return the positions of new axes in the result, in order.

    ``block``: the rank of the arrays' block, None without arrays.
    """
    together = block is not None and _are_neighbours(entries, chosen)
    positions: list[int] = []
    position = block if block is not None and not together else 0
    for index in entries:
        if together and index is chosen[0]:
            position += block or 0
        if index.is_new:
            positions.append(position)
        position += index.is_new or index.is_slice
    return positions


def _are_neighbours(entries: Sequence[IndexPart], chosen: Sequence[IndexPart]) -> bool:
    numbers = [number for number, part in enumerate(entries) if any(part is each for each in chosen)]
    return numbers == list(range(numbers[0], numbers[-1] + 1))
