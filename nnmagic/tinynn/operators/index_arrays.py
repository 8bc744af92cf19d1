"""Resolve one item of an index to positions along an axis: an int, an array of ints or a mask.

Negative indices count from the end. An index out of range is an error: at compile time if it is static, else
an IndexError of the call (``take`` with the mode "fast", which the engine checks).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import ANY, Dim, TensorType, TupleType, is_complex, is_integer
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast, tensor_type, whole_numbers
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.reshaping import with_checked_sizes
from nnmagic.tinynn.values.symbolic_sizes import is_size, number_of, size_along


@dataclass(frozen=True, slots=True)
class AxisIndex:
    """Indices along one axis: an int in range, or integers whose negative ones are already wrapped.

    ``is_array``: the result has axes of the index array's own. ``in_range``: no index can be out of range.
    """

    axis: int
    index: int | v.Computed
    is_array: bool
    in_range: bool = False

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Return the shape of the index array."""
        assert isinstance(self.index, v.Computed)
        return self.index.shape

    def check_range(self, tensor: v.Computed, axis: int, span: Span) -> v.Computed:
        """Return the index array with a run-time check that the tensor's axis has these positions."""
        assert isinstance(self.index, v.Computed)
        if self.in_range:
            return self.index
        size = number_of(size_along(tensor, axis, span), span)
        first, step = (number_constant(number, "int64", span) for number in (0, 1))
        positions = whole_numbers(first, size, step, span)
        checked = apply("take", span, positions, self.index, axis=0, mode="fast")
        return v.Computed(checked.expr, TensorType(self.shape, "int64"))


def static_indices(tensor: v.Computed, axis: int, item: v.Operand) -> list[AxisIndex] | None:
    """Resolve an int, array or mask that is known at compile time; return None for any other item."""
    value = item.value
    if isinstance(value, v.Computed) and isinstance(value.expr, ir.Constant) and value.expr.data.ndim:
        return _array_indices(tensor, axis, value.expr.data, item.span)
    index = v.static_or(value, None)
    if not isinstance(index, int) or isinstance(index, bool):
        return None
    dim = tensor.shape[axis]
    if not isinstance(dim, int):
        return [
            _scalar_index(
                tensor, axis, number_constant(index, "int64", item.span), item.span, negative=index < 0
            )
        ]
    _require_in_range(index, axis, int(dim), item.span)
    return [AxisIndex(axis, index % int(dim), is_array=False)]


def _array_indices(tensor: v.Computed, axis: int, array: np.ndarray, span: Span) -> list[AxisIndex] | None:
    """Resolve an array of the notebook."""
    if array.dtype == np.bool_:
        shape = tensor_type(v.Operand(tensor, span)).shape[axis : axis + array.ndim]
        _require_mask_fits(array.shape, shape, span)
        if not all(isinstance(dim, int) for dim in shape):
            return None
        return [
            AxisIndex(axis + number, _constant(positions, span), is_array=True, in_range=True)
            for number, positions in enumerate(np.nonzero(array))
        ]
    if not np.issubdtype(array.dtype, np.integer):
        return None
    dim = tensor.shape[axis]
    if not isinstance(dim, int):
        return None
    for number in array.ravel().tolist():
        _require_in_range(number, axis, int(dim), span)
    wrap_negative = np.where(array < 0, array + int(dim), array) if array.size else array
    return [AxisIndex(axis, _constant(wrap_negative, span), is_array=True, in_range=True)]


def _require_in_range(number: int, axis: int, dim: int, span: Span) -> None:
    if not -dim <= number < dim:
        raise v.RefusalError(f"index {number} is out of range for axis {axis} of size {dim}", span)


def _constant(array: np.ndarray, span: Span) -> v.Computed:
    data = np.ascontiguousarray(array, np.int64)
    return v.Computed(ir.constant(data, "int64", span=span), TensorType(tuple(data.shape), "int64"))


def single_index(tensor: v.Computed, axis: int, number: v.Computed, span: Span) -> AxisIndex:
    """Resolve a dynamic integer of rank 0."""
    negative = False if number.least is not None and number.least >= 0 else None
    return _scalar_index(tensor, axis, cast(number, "int64", span), span, negative=negative)


def _scalar_index(
    tensor: v.Computed, axis: int, number: v.Computed, span: Span, *, negative: bool | None
) -> AxisIndex:
    """Resolve a scalar; ``negative`` tells whether it counts from the end, None if unknown."""
    if negative is None:
        return AxisIndex(axis, wrap_negative(tensor, axis, number, span), is_array=False)
    if negative:
        size = number_of(size_along(tensor, axis, span), span)
        number = apply("add", span, size, number)
    return AxisIndex(axis, number, is_array=False)


def wrap_negative(tensor: v.Computed, axis: int, indices: v.Computed, span: Span) -> v.Computed:
    """Let negative indices count from the end of the axis."""
    signed = indices.dtype.startswith("int")
    indices = v.Computed(cast(indices, "int64", span).expr, TensorType(indices.shape, "int64"))
    if not signed:
        return indices
    size = number_of(size_along(tensor, axis, span), span)
    negative = apply("less", span, indices, number_constant(0, "int64", span))
    return apply("where", span, negative, apply("add", span, indices, size), indices)


def index_by_array(tensor: v.Computed, axis: int, item: v.Operand) -> AxisIndex:
    """Resolve an array of integers, or a list of numbers."""
    if isinstance(item.value, v.TupleOf):
        static = _array_of_list(item)
        found = None if static is None else _array_indices(tensor, axis, static, item.span)
        if found is not None and len(found) == 1:
            return found[0]
    indices = _integers(item)
    return AxisIndex(axis, wrap_negative(tensor, axis, indices, item.span), is_array=True)


def unwrapped_indices(tensor: v.Computed, axis: int, item: v.Operand) -> list[v.Computed]:
    """Return an array, a list or a mask as integers along axes, whose negative ones count from the end."""
    value = item.value
    static = _array_of_list(item) if isinstance(value, v.TupleOf) else None
    if static is not None and static.dtype == np.bool_:
        value = v.Computed(ir.constant(static, "bool", span=item.span), TensorType(static.shape, "bool"))
    if isinstance(value, v.Computed) and isinstance(value.type, TensorType) and value.type.dtype == "bool":
        indices = [index.index for index in mask_indices(tensor, axis, value, item.span)]
        return [index for index in indices if isinstance(index, v.Computed)]
    return [cast(_integers(item), "int64", item.span)]


def _array_of_list(item: v.Operand) -> np.ndarray | None:
    """Return a list of numbers that are known at compile time; None for any other list."""
    assert isinstance(item.value, v.TupleOf)
    try:
        numbers = np.array(v.static_value(item.value)) if item.value.items else np.zeros(0, np.int64)
    except (v.NotStaticError, ValueError):
        return None
    return numbers if numbers.dtype.kind in "ib" else None


def _integers(item: v.Operand) -> v.Computed:
    """Return an array of integers, or a list of numbers, as a tensor."""
    value = item.value
    if isinstance(value, v.Computed):
        return value
    static = _array_of_list(item)
    if static is not None and static.dtype.kind == "i":
        return _constant(static, item.span)
    assert isinstance(value, v.TupleOf)
    arrays = []
    for list_item in value.items:
        number = _as_scalar(list_item, item.span)
        if number is None:
            hint = "make a tensor of them first: stack([a, b]), or numpy.array in another cell"
            raise v.RefusalError(
                f"an index must be an int or a slice, not {describe(value)}", item.span, hint=hint
            )
        arrays.append(apply("expand_dims", item.span, cast(number, "int64", item.span), axis=0))
    types = TupleType(tuple(array.type for array in arrays))
    whole = v.Computed(ir.Tuple(tuple(array.expr for array in arrays), span=item.span), types)
    return apply("concatenate", item.span, whole, axis=0)


def _as_scalar(value: v.Value, span: Span) -> v.Computed | None:
    """Return an item of a list as a tensor of rank 0, or None if it is not an integer."""
    if is_size(value):
        return number_of(value, span)
    if isinstance(value, v.Computed) and isinstance(value.type, TensorType) and not value.type.shape:
        return value if is_integer(value.type.dtype) else None
    return None


def fit_to_mask(tensor: v.Computed, axis: int, item: v.Operand) -> v.Computed:
    """Return a tensor with a check that its unknown sizes are those of a mask, as far as that is needed.

    The tensors that one mask chooses from then share the positions of its true elements.
    """
    mask = item.value
    if not isinstance(mask, v.Computed) or not isinstance(mask.type, TensorType) or mask.type.dtype != "bool":
        return tensor
    type_ = tensor_type(v.Operand(tensor, item.span))
    dims = type_.shape[axis : axis + len(mask.type.shape)]
    _require_mask_fits(mask.type.shape, dims, item.span)
    if set(dims) != {ANY} or 0 in mask.type.shape or is_complex(type_.dtype):  # whose parts would be copied
        return tensor
    return with_checked_sizes(tensor, mask, 0, item.span, first=axis)


def mask_indices(
    tensor: v.Computed, axis: int, mask: v.Computed, span: Span, *, fits: bool = False
) -> list[AxisIndex]:
    """Resolve a mask to the indices of its true elements along each of its axes."""
    rank = len(mask.shape)
    dims = tensor_type(v.Operand(tensor, span)).shape[axis : axis + rank]
    _require_mask_fits(mask.shape, dims, span)
    if 0 not in mask.shape and not fits:
        mask = with_checked_sizes(mask, tensor, axis, span)
    true_positions = cast(apply("argwhere", span, mask), "int64", span)
    indices = []
    for number in range(rank):
        column = v.Computed(ir.constant(number, "int32", span=span), TensorType((), "int32"))
        index = apply("take", span, true_positions, column, axis=1)
        indices.append(AxisIndex(axis + number, index, is_array=True, in_range=True))
    return indices


def _require_mask_fits(mask: Sequence[Dim], dims: Sequence[Dim], span: Span) -> None:
    """Check the sizes of a mask; as in NumPy, an axis without elements fits any axis, and chooses nothing."""
    if len(mask) != len(dims) or any(
        size != 0 and dims_differ(size, dim) for size, dim in zip(mask, dims, strict=True)
    ):
        message = f"a mask of shape {format_shape(mask)} does not fit axes of {format_shape(dims)}"
        raise v.RefusalError(message, span, hint="a mask has the shape of the axes that it chooses from")
