"""Evaluate ``x[index] = value``: return the tensor with other elements, by NumPy's rules of indexing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import ANY, Dim, TensorType, TupleType
from nnmagic.tinynn.operators import subscripts
from nnmagic.tinynn.operators.index_arrays import unwrapped_indices
from nnmagic.tinynn.operators.masked_values import of_all_elements
from nnmagic.tinynn.operators.slices import (
    DynamicSlice,
    StaticSlice,
    clipped_bounds,
    is_stepped,
    resolve_slice,
    slice_bounds,
    static_bound,
)
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast, is_tensor, tensor_type, vector_of, whole_numbers
from nnmagic.tinynn.values.operator_restrictions import broadcast_shape, dims_differ
from nnmagic.tinynn.values.reshaping import with_checked_sizes
from nnmagic.tinynn.values.symbolic_sizes import as_number, number_of, product_of, shape_of, size_along


def set_elements(tensor: v.Operand, index: Sequence[v.Operand], value: v.Operand, span: Span) -> v.Computed:
    """Return the tensor with ``value`` at ``index``.

    The value gets the tensor's dtype. Raises RefusalError for what ``tensor[index]`` refuses, and for a value
    that does not broadcast to the chosen elements.
    """
    data = tensor.dynamic
    new = _convert(value, tensor)
    flag = subscripts.mask_of_everything(index)
    if flag is not None:
        everything = _drop_leading_axes(new, len(data.shape), span)
        if _fits(everything.shape, data.shape):
            return set_where(data, flag, everything, span)
    mask = single_mask(tensor, index)
    if mask is not None and not new.shape:
        return set_where(data, mask, new, span)
    if mask is not None and len(new.shape) == 1:
        whole = of_all_elements(new, mask, data.shape)
        if whole is not None:
            return set_where(data, mask, whole, span)
    chosen = v.dynamic(subscripts.subscript(tensor, index, span))
    new = _drop_leading_axes(new, len(chosen.shape), span)
    if not _fits(new.shape, chosen.shape):
        message = f"{describe(new)} does not fit into {describe(chosen)}"
        raise v.RefusalError(message, value.span, notes=(Note(f"this is {describe(chosen)}", span),))
    return _Assignment(data, list(subscripts.index_parts(index, data, span)), chosen, new, span).result()


def combine_at(
    tensor: v.Operand, index: Sequence[v.Operand], value: v.Operand, span: Span, mode: str
) -> v.Computed:
    """Return the tensor with ``value`` combined with the elements at ``index``, once for each index.

    ``mode``: "add", "mul", "min" or "max". Raises RefusalError as `set_elements` does.
    """
    data, new, chosen = tensor.value, _convert(value, tensor), subscripts.subscript(tensor, index, span)
    assert isinstance(data, v.Computed)
    assert isinstance(chosen, v.Computed)
    if not _fits(new.shape, chosen.shape):
        message = f"{describe(new)} does not fit into {describe(chosen)}"
        raise v.RefusalError(message, value.span, notes=(Note(f"this is {describe(chosen)}", span),))
    new = _drop_leading_axes(new, len(chosen.shape), span)
    return _Assignment(
        data, list(subscripts.index_parts(index, data, span)), chosen, new, span, mode
    ).scatter()


def _fits(new: Sequence[Dim], chosen: Sequence[Dim]) -> bool:
    """Return whether a value broadcasts to the chosen elements; the run checks sizes without a name."""
    shape = broadcast_shape([chosen, new])
    if shape is None or len(shape) != len(chosen):
        return False
    return all(dim in (ANY, common) for dim, common in zip(chosen, shape, strict=True))


def keep_shape(sign: str, before: v.Value, result: v.Operand) -> v.Operand:
    """Return the result of ``x += y`` in the shape of the array ``x``, which NumPy changes in place.

    Sizes of which nothing says that they are equal are checked at run time. Raises RefusalError for others.
    """
    value = result.value
    if not (is_tensor(before) and is_tensor(value)):
        return result
    assert isinstance(before, v.Computed)
    assert isinstance(value, v.Computed)
    if not before.shape or value.shape == before.shape:
        return result
    fits = len(value.shape) == len(before.shape)
    if not fits or any(dims_differ(*pair) for pair in zip(value.shape, before.shape, strict=True)):
        message = f"`{sign}` gives {describe(value)}, which does not fit into {describe(before)}"
        raise v.RefusalError(message, result.span, hint="write x = x + y for a new array")
    checked = with_checked_sizes(value, before, 0, result.span)
    kept = replace(value, expr=checked.expr, type=TensorType(before.shape, value.dtype))
    return replace(result, value=kept)


def set_where(data: v.Computed, mask: v.Computed, new: v.Computed, span: Span) -> v.Computed:
    """Return the tensor with the elements of ``new`` where ``mask``, which has its shape, is true."""
    return _like(apply("where", span, mask, new, data), data)


def single_mask(tensor: v.Operand, index: Sequence[v.Operand]) -> v.Computed | None:
    """Return the mask of an index that is nothing but a mask of the tensor's shape."""
    if len(index) != 1 or not isinstance(index[0].value, v.Computed):
        return None
    mask, shape = index[0].value, tensor_type(tensor).shape
    if mask.type != TensorType(shape, "bool"):
        return None
    return with_checked_sizes(mask, tensor.dynamic, 0, index[0].span)


def _like(result: v.Computed, data: v.Computed) -> v.Computed:
    """Return a result that has the type of the data."""
    return v.Computed(result.expr, data.type)


def _convert(value: v.Operand, tensor: v.Operand) -> v.Computed:
    """Return a value in the tensor's dtype, to which NumPy converts every tensor that is assigned.

    Raises RefusalError for a number that the dtype cannot hold.
    """
    dtype, short = tensor_type(tensor).dtype, dtype_short_name(tensor_type(tensor).dtype)
    match v.rows_of_list(as_number(value).value):
        case v.Known(value=bool() as truth) if dtype != "bool":
            return number_constant(int(truth), dtype, value.span)
        case v.Known(value=bool() | int() | float() | complex() as number):
            return number_constant(number, dtype, value.span)
        case v.Computed(type=TensorType(dtype=given)) as computed:
            if dtype == "bool" != given:
                zero = number_constant(0, given, value.span)
                return apply("not_equal", value.span, v.Computed(computed.expr, computed.type), zero)
            return cast(v.Computed(computed.expr, computed.type), dtype, value.span)
    hint = None
    if isinstance(value.value, v.TupleOf):
        items = [_convert(v.Operand(item, value.span), tensor) for item in value.value.items]
        if items and all(isinstance(item.type, TensorType) and not item.type.shape for item in items):
            return vector_of(items, value.span)
        hint = f"make a tensor of it, as in array({source_text(value.span)}, {short})"
    raise v.RefusalError(f"an element of {short} cannot be {describe(value.value)}", value.span, hint=hint)


def _drop_leading_axes(new: v.Computed, rank: int, span: Span) -> v.Computed:
    """Return a value without leading axes of size 1 that the chosen elements do not have."""
    more = len(new.shape) - rank
    if more <= 0 or any(dim != 1 for dim in new.shape[:more]):
        return new
    return apply("squeeze", span, new, axis=list(range(more)))


@dataclass(slots=True)
class _Assignment:
    """An assignment whose value fits: ``chosen`` are the elements that it replaces.

    ``mode``: how the value is combined with the elements, as in Relay's ``scatter_nd``.
    """

    data: v.Computed
    parts: list[subscripts.IndexPart]
    chosen: v.Computed
    new: v.Computed
    span: Span
    mode: str = "update"

    def result(self) -> v.Computed:
        """Return the changed tensor, by the operator that writes the fewest elements."""
        kinds = [_kind_of(index) for index in self.parts]
        if 0 in self.chosen.shape and set(kinds) <= {"slice"} and isinstance(self.new.expr, ir.Constant):
            return self.data  # there is neither an element to change nor an index to check
        if set(kinds) <= {"int", "slice"}:
            lead = next((number for number, kind in enumerate(kinds) if kind != "int"), len(kinds))
            rest_is_full = all(index.is_full for index in self.parts[lead:])
            if lead and rest_is_full:
                return self._scatter(self._single_indices(self.parts[:lead]))
            if all(index.is_full for index in self.parts):
                return apply("copy", self.span, self._broadcast())
            slices = [self._slice(index) for index in self.parts]
            if None not in slices:
                return self._set_slices([slice_ for slice_ in slices if slice_ is not None])
            conditions = self.conditions()
            if conditions is not None:
                return self._set_where(conditions)
        return self.scatter()

    def scatter(self) -> v.Computed:
        """Return the tensor with each element changed on its own."""
        kinds = [_kind_of(index) for index in self.parts]
        lead = next((number for number, kind in enumerate(kinds) if kind not in ("int", "array")), len(kinds))
        if "array" in kinds[:lead] and all(index.is_full for index in self.parts[lead:]):
            return self._scatter(self._together(lead))
        return self._scatter_flat()

    # -- elements and rows -----------------------------------------------------------------------------

    def _single_indices(self, entries: Sequence[subscripts.IndexPart]) -> list[v.Computed]:
        """Return integers of an index as tensors of rank 0; ``scatter_nd`` checks those that are dynamic."""
        indices = []
        for entry in entries:
            index = as_number(entry.item).value
            if isinstance(index, v.Known):
                assert isinstance(index.value, int)
                indices.append(number_constant(index.value, "int64", self.span))
            else:
                assert isinstance(index, v.Computed)
                indices.append(cast(index, "int64", self.span))
        return indices

    def _together(self, lead: int) -> list[v.Computed]:
        """Return the indices of the first axes in the shape to which they broadcast."""
        indices = [
            index
            for entry in self.parts[:lead]
            for index in (
                self._single_indices([entry])
                if entry.is_int
                else unwrapped_indices(self.data, entry.axis, entry.item)
            )
        ]
        if len({index.shape for index in indices}) == 1 and ANY not in indices[0].shape:
            return indices
        whole = reduce(lambda lhs, rhs: apply("add", self.span, lhs, rhs), indices)
        return [apply("broadcast_to_like", self.span, index, whole) for index in indices]

    def _scatter(self, indices: Sequence[v.Computed]) -> v.Computed:
        """Put the value where the indices of the first axes say; they are of one shape."""
        rows = [apply("expand_dims", self.span, index, axis=0) for index in indices]
        return _scatter_nd(self.data, _join(rows, self.span), self._broadcast(), self.span, self.mode)

    def _broadcast(self) -> v.Computed:
        """Return the value in the shape of the chosen elements."""
        shape = self.chosen.shape
        if self.new.shape == shape and ANY not in shape:
            return self.new
        if all(isinstance(dim, int) for dim in shape):
            return apply("broadcast_to", self.span, self.new, shape=shape)
        if not self.new.shape:
            return apply("full_like", self.span, self.chosen, self.new)
        return apply("broadcast_to_like", self.span, self.new, self.chosen)

    # -- slices ----------------------------------------------------------------------------------------

    def _slice(self, index: subscripts.IndexPart) -> StaticSlice | DynamicSlice | None:
        """Return a slice of an axis; None where it certainly steps back, but not from where to where."""
        dim = self.data.shape[index.axis]
        if not index.is_slice:
            return self._slice_of_one(index)
        slice_ = index.item.value
        assert isinstance(slice_, v.SliceOf)
        resolved = resolve_slice(slice_, self.data, index.axis, index.item)
        if isinstance(resolved, DynamicSlice):
            return resolved if isinstance(resolved.step, v.Computed) or resolved.step > 0 else None
        if len(resolved) > 1:  # bounds from both ends, which may be out of order: then nothing is set
            bounds = [static_bound(bound, self.span) for bound in (slice_.start, slice_.stop, slice_.step)]
            start, stop, step = bounds
            if start is None or stop is None or (step or 1) < 0:
                return None
            return StaticSlice(index.axis, start, stop, step or 1, ANY)
        if not resolved:
            return StaticSlice(index.axis, 0, _FAR_END, 1, dim)
        (only,) = resolved
        if only.stride > 0:
            return only
        if not isinstance(dim, int) or not isinstance(only.size, int):
            return None
        last = only.begin + (only.size - 1) * only.stride
        return StaticSlice(index.axis, last, only.begin + 1, -only.stride, -only.size)

    def _slice_of_one(self, entry: subscripts.IndexPart) -> StaticSlice | DynamicSlice:
        """Return the slice that takes one index."""
        (axis_index,) = subscripts.axis_indices(self.data, entry)
        index = axis_index.index
        if isinstance(index, int):
            return StaticSlice(entry.axis, index, index + 1, 1, 1)
        start = axis_index.check_range(self.data, entry.axis, self.span)
        stop = apply("add", self.span, start, number_constant(1, "int64", self.span))
        return DynamicSlice(start, stop, 1, 1)

    def _set_slices(self, slices: Sequence[StaticSlice | DynamicSlice]) -> v.Computed:
        """Put the value into slices; a negative size says that the value is reversed there."""
        value = self._broadcast()
        kept = [index.is_slice for index in self.parts]
        for index in self.parts:
            if not index.is_slice:
                value = apply("expand_dims", self.span, value, axis=index.axis)
        for axis, (index, slice_) in enumerate(zip(self.parts, slices, strict=True)):
            if kept[axis] and isinstance(slice_.size, int) and slice_.size < 0:
                value = apply("reverse", self.span, value, axis=index.axis)
        bounds = slice_bounds(slices, self.span)
        return _like(apply("strided_set", self.span, self.data, value, *bounds), self.data)

    # -- conditions on positions -----------------------------------------------------------------------

    def conditions(self) -> list[v.Computed] | None:
        """Return for each axis that is cut which positions are chosen.

        None where the value has other elements along such an axis than one, or a step is computed.
        """
        if any(is_stepped(index.item.value) for index in self.parts):
            return None
        sizes = iter(self.new.shape[::-1])
        conditions = []
        for index in reversed(self.parts):
            given = next(sizes, 1) if index.is_slice else 1
            if index.is_full:
                continue
            if given != 1:
                return None
            conditions.append(self._condition(index))
        return conditions

    def _condition(self, index_part: subscripts.IndexPart) -> v.Computed:
        """Return which positions along an axis are chosen, as a tensor of that axis and those after it."""
        size = number_of(size_along(self.data, index_part.axis, self.span), self.span)
        zero, one = (number_constant(number, "int64", self.span) for number in (0, 1))
        positions = whole_numbers(zero, size, one, self.span)
        positions = v.Computed(positions.expr, TensorType((self.data.shape[index_part.axis],), "int64"))

        def both(lhs: v.Computed, rhs: v.Computed) -> v.Computed:
            return apply("logical_and", self.span, lhs, rhs)

        if not index_part.is_slice:
            (axis_index,) = subscripts.axis_indices(self.data, index_part)
            index = axis_index.index
            if isinstance(index, int):
                wanted = number_constant(index, "int64", self.span)
            else:
                wanted = axis_index.check_range(self.data, index_part.axis, self.span)
            condition = apply("equal", self.span, positions, wanted)
        else:
            slice_ = index_part.item.value
            assert isinstance(slice_, v.SliceOf)
            start, stop, step = clipped_bounds(slice_, self.data, index_part.axis, index_part.item)
            first, last = ("greater_equal", "less") if step > 0 else ("less_equal", "greater")
            condition = both(
                apply(first, self.span, positions, start), apply(last, self.span, positions, stop)
            )
            if step not in (1, -1):
                distance = apply("subtract", self.span, positions, start)
                rest = apply("floor_mod", self.span, distance, number_constant(abs(step), "int64", self.span))
                condition = both(condition, apply("equal", self.span, rest, zero))
        after = len(self.data.shape) - index_part.axis - 1
        return apply("expand_dims", self.span, condition, axis=1, num_newaxis=after) if after else condition

    def _set_where(self, conditions: Sequence[v.Computed]) -> v.Computed:
        value = self.new
        for index in reversed(self.parts):  # axes that an integer drops; the value may have fewer axes
            if not index.is_slice and len(value.shape) >= len(self.data.shape) - index.axis:
                value = apply("expand_dims", self.span, value, axis=-(len(self.data.shape) - index.axis))
        return set_where(self.data, _all_of(conditions, self.span), value, self.span)

    # -- everything else -------------------------------------------------------------------------------

    def _scatter_flat(self) -> v.Computed:
        """Put the value where the same index finds the positions of the elements in memory."""
        span = self.span
        count = number_of(product_of(shape_of(self.data, span).items, span), span)
        zero, one = (number_constant(number, "int64", span) for number in (0, 1))
        order = apply("reshape_like", span, whole_numbers(zero, count, one, span), self.data)
        order = v.Computed(order.expr, TensorType(self.data.shape, "int64"))
        positions = subscripts.subscript(v.Operand(order, span), [entry.item for entry in self.parts], span)
        assert isinstance(positions, v.Computed)
        flat = apply("reshape", span, self.data, newshape=(-1,))
        indices = apply("expand_dims", span, positions, axis=0)
        result = _scatter_nd(flat, indices, self._broadcast(), span, self.mode)
        return _like(apply("reshape_like", span, result, self.data), self.data)


#: The end of a slice that goes to the end of any axis.
_FAR_END = 2**48


def _all_of(conditions: Sequence[v.Computed], span: Span) -> v.Computed:
    return reduce(lambda lhs, rhs: apply("logical_and", span, lhs, rhs), conditions)


def _kind_of(index: subscripts.IndexPart) -> str:
    """Return what a part of an index is: ``int``, ``slice``, ``new`` or ``array``."""
    if index.is_new:
        return "new"
    if index.is_slice:
        return "slice"
    return "int" if index.is_int else "array"


def _scatter_nd(
    data: v.Computed, indices: v.Computed, updates: v.Computed, span: Span, mode: str = "update"
) -> v.Computed:
    return _like(apply("scatter_nd", span, data, indices, updates, mode=mode), data)


def _join(rows: Sequence[v.Computed], span: Span) -> v.Computed:
    """Join indices, whose first axis is new, along that."""
    if len(rows) == 1:
        return rows[0]
    types = TupleType(tuple(row.type for row in rows))
    whole = v.Computed(ir.Tuple(tuple(row.expr for row in rows), span=span), types)
    return apply("concatenate", span, whole, axis=0)
