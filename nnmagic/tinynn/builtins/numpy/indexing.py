"""Define NumPy's functions that search, sort and take elements: take, nonzero, sort, searchsorted.

NumPy's reference: https://numpy.org/doc/stable/reference/routines.sort.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins import tensor_helpers as helpers
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls import argument_binding as binding
from nnmagic.tinynn.operators.iteration import as_weak_int
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.symbolic_sizes import dynamic_sizes, number_of
from nnmagic.tinynn.values.values import Known, Operand, RefusalError, TupleOf, Value, dynamic

_NAMES = "x=a input=a"


def index_formula(call: binding.Arguments, parameter: str) -> Formula:
    """Return an argument that must hold integer indices, static or dynamic."""
    indices = args.formula(call, parameter)
    if not indices.is_integer:
        message = f"{call.name}: `{parameter}` must be integers, not {dtype_short_name(indices.dtype)}"
        hint = (
            "where(mask, x, 0) chooses by bools"
            if indices.dtype == "bool"
            else "convert them with .astype(i32)"
        )
        raise RefusalError(message, call.at(parameter), hint=hint)
    return indices


def wrap_indices(indices: Formula, data: Formula, axis: int) -> Formula:
    """Let negative indices count from the end."""
    if indices.dtype.startswith("uint"):
        return indices
    size = data.shape[axis]
    if indices.dtype != "int64":
        # In int8 the sum with a size of 200 would wrap.
        indices = indices.cast("int32" if isinstance(size, int) and size < 2**31 else "int64")
    return (indices < 0).choose(indices + helpers.size_along(data, axis, indices), indices)


def check_known_indices(call: binding.Arguments, parameter: str, size: object) -> None:
    """Raise RefusalError if an index that is known at compile time is out of range."""
    known = args.static_value_or_none(call.given[parameter].value)

    def visit(value: object) -> None:
        if isinstance(value, tuple):
            for item in value:
                visit(item)
        elif isinstance(value, int) and isinstance(size, int) and not -size <= value < size:
            raise call.refusal(parameter, f"index {value} is out of range for an axis of size {size}")

    visit(known)


def _static_indices(call: binding.Arguments, parameter: str, size: object) -> Formula | None:
    """Return indices that are known at compile time, wrapped to be non-negative; else None."""
    indices = args.known_without_sizes(call.given[parameter].value)
    if indices is None or not isinstance(size, int):
        return None
    dtype = "int32" if size < 2**31 else "int64"
    return helpers.constant_of(np.mod(np.asarray(indices), size), dtype, call.at(parameter))


def take_with_check(
    call: binding.Arguments, data: Formula, indices: Formula, axis: int, parameter: str = "indices"
) -> Formula:
    """Take slices at indices along an axis; an index out of range is an error."""
    check_known_indices(call, parameter, data.shape[axis])
    static_indices = _static_indices(call, parameter, data.shape[axis])
    if static_indices is not None:
        return data.op("take", static_indices, axis=axis)
    return data.op("take", wrap_indices(indices, data, axis), axis=axis, mode="fast")


def _take(call: binding.Arguments) -> Value:
    """Take as NumPy does: the modes "wrap" and "clip" bring an index into range, else it is an error."""
    data, indices = args.formula(call, "a"), index_formula(call, "indices")
    mode = args.choice_argument(call, "mode", ("raise", "wrap", "clip", "fast"), "raise")
    batch = args.static_int(call, "batch_dims", 0)
    axis = args.one_axis(call, "axis", data.rank) if "axis" in call else None
    if axis is None:
        data, axis = data.flat(), 0
    if batch:
        return data.op(
            "take", indices, axis=axis, batch_dims=batch, mode="clip" if mode == "raise" else mode
        ).value
    if mode == "raise":
        return take_with_check(call, data, indices, axis).value
    return data.op("take", indices, axis=axis, mode=mode).value


def check_indices(indices: Formula, data: Formula, axis: int) -> Formula:
    """Wrap indices along an axis; an index out of range is an error at run time."""
    wrapped = wrap_indices(indices, data, axis)
    return helpers.arange(helpers.size_of(data, axis), indices.span).op("take", wrapped, axis=0, mode="fast")


def _take_along_axis(call: binding.Arguments) -> Value:
    data, indices = args.formula(call, "arr"), index_formula(call, "indices")
    if "axis" in call.given and call.static("axis") is None:
        data = data.flat()
        axis = 0
    else:
        axis = args.one_axis(call, "axis", data.rank, -1)
    if indices.rank != data.rank:
        shapes = f"{format_shape(data.shape)}, the indices {format_shape(indices.shape)}"
        message = f"take_along_axis: the data has the shape {shapes}"
        raise RefusalError(message, call.span, hint="both must have as many dimensions")
    check_known_indices(call, "indices", data.shape[axis])
    # NumPy broadcasts the other axes; along this one each tensor keeps its own size.
    outer = [
        tuple(1 if index == axis else dim for index, dim in enumerate(tensor.shape))
        for tensor in (data, indices)
    ]
    shape = helpers.common_shape(call, outer)
    data, indices = (
        helpers.broadcast(
            tensor, tuple(tensor.shape[axis] if index == axis else dim for index, dim in enumerate(shape))
        )
        for tensor in (data, indices)
    )
    if indices.shape[axis] == 0:
        return data.between(axis, 0, 0).value  # Relay's gather needs at least one index
    return data.op("gather", check_indices(indices, data, axis), axis=axis).value


def nonzero(condition: Formula) -> Value:
    """Return the indices of the true elements: one i64 tensor per dimension, of a dynamic size."""
    if condition.rank == 0:
        raise RefusalError("nonzero of a scalar", condition.span, hint="compare it: x != 0")
    positions = _argwhere_of(condition)
    if condition.rank == 1:
        return TupleOf((positions.flat().value,))
    columns = []
    for axis in range(condition.rank):
        column = positions.op(
            "take", Formula(number_constant(axis, "int64", condition.span), condition.span), axis=1
        )
        columns.append(column.value)
    return TupleOf(tuple(columns))


def _argwhere_of(condition: Formula) -> Formula:
    return condition.op("argwhere").cast("int64")


def _argwhere(call: binding.Arguments) -> Value:
    data = args.formula(call, "a").truth()
    if data.rank == 0:
        raise RefusalError("argwhere of a scalar", call.at("a"), hint="compare it: x != 0")
    return _argwhere_of(data).value


def _flatnonzero(call: binding.Arguments) -> Value:
    result = nonzero(args.formula(call, "a").truth().flat())
    assert isinstance(result, TupleOf)
    return result.items[0]


def _searchsorted(call: binding.Arguments) -> Value:
    """Return the indices at which values can be inserted to keep the order."""
    ordered, values = args.pair(call, "a", "v")
    if ordered.rank != 1:
        message = f"searchsorted takes sorted numbers of rank 1, not of shape {format_shape(ordered.shape)}"
        raise RefusalError(message, call.at("a"))
    if "sorter" in call:
        sorter = index_formula(call, "sorter").cast("int64")
        inside = (sorter >= 0) & (sorter < helpers.size_along(ordered, 0, sorter))
        ordered = ordered.op(
            "take", sorter.require(inside, "searchsorted: an index in `sorter` is out of range"), axis=0
        )
    right = (
        args.choice_argument(call, "side", ("left", "right"), "right" if args.flag(call, "right") else "left")
        == "right"
    )
    wanted = values if values.rank else values.reshape((1,))
    dtype = args.dtype_argument(call) or "int64"
    result = ordered.op("searchsorted", wanted, right=right, dtype=dtype)
    return (result if values.rank else result.reshape(())).value


def is_ordered(data: Formula, *, descending: bool = False) -> Formula:
    """Return whether no element of a vector is above the next one, or below it."""
    before, after = helpers.slice_axis(data, 0, 0, -1), helpers.slice_axis(data, 0, 1, None)
    return ~((before < after) if descending else (before > after)).reduce("any")


def known_to_rise(value: Value) -> bool:
    """Return whether a value is a list of numbers, none of which is above the next one."""
    items = args.known_without_sizes(value)
    return isinstance(items, tuple) and all(before <= after for before, after in pairwise(items))


def _digitize(call: binding.Arguments) -> Value:
    """Return the index of the bin that each number falls into; the bins increase or decrease."""
    edges = call.given["bins"]
    # ``right`` says that a bin includes its right edge, for which the search is from the left:
    # NumPy's own is ``searchsorted(bins, x, 'left' if right else 'right')``.
    right = Operand(Known(not args.flag(call, "right")), call.span)

    def place(bins: Value) -> Formula:
        inner = {"a": Operand(bins, edges.span), "v": call.given["x"], "right": right}
        places = dynamic(_searchsorted(binding.Arguments("digitize", inner, call.span)))
        return Formula(places, call.span)

    message = "digitize: the bins must increase or decrease"
    if isinstance(edges.value, TupleOf) and args.known_without_sizes(edges.value) is not None:
        backwards = TupleOf(edges.value.items[::-1])
        if known_to_rise(edges.value):
            return place(edges.value).value
        if known_to_rise(backwards):
            # As in NumPy: bins that decrease are searched in reverse order, and counted from the
            # end.
            return (len(backwards.items) - place(backwards)).value
        raise RefusalError(message, edges.span)
    bins = args.formula(call, "bins")
    if bins.rank != 1:
        return place(bins.value).value  # refused
    rises, falls = is_ordered(bins), is_ordered(bins, descending=True)
    bins = bins.require(rises | falls, message)
    places = place(rises.choose(bins, bins.op("reverse", axis=0)).value)
    return rises.choose(places, helpers.size_along(bins, 0, places) - places).value


def _unravel_index(call: binding.Arguments) -> Value:
    indices = index_formula(call, "indices").cast("int64")
    known = dynamic_sizes(call.given["shape"])
    if known is None:
        sizes = [args.static_size(call, dim, call.at("shape")) for dim in args.shape_argument(call, "shape")]
        if not sizes or 0 in sizes:
            raise call.refusal("shape", f"no index fits the shape {format_shape(sizes)}")
        check_known_indices(call, "indices", math.prod(sizes))
        return TupleOf(tuple(_coordinates(indices, sizes, math.prod(sizes))))
    numbers = [Formula(number_of(size, call.span), call.span) for size in known]
    return TupleOf(tuple(_coordinates(indices, numbers, math.prod(numbers[1:], start=numbers[0]))))


def _coordinates(indices: Formula, sizes: Sequence[int | Formula], count: int | Formula) -> list[Value]:
    """Return the coordinates of indices among as many elements as a shape has."""
    shown = count if isinstance(count, int) else "these"
    message = f"unravel_index: an index is out of range for {shown} elements"
    places = indices.require((indices >= 0) & (indices < count), message)
    coordinates = []
    # The order of C: the last coordinate changes fastest. The first one takes what is left, which
    # is in range as the whole index is.
    for size in reversed(sizes[1:]):
        coordinates.append(places.op("floor_mod", size).value)
        places = places.op("floor_divide", size)
    return [places.value, *reversed(coordinates)]


def _sort_operand(call: binding.Arguments) -> tuple[Formula, int]:
    data = args.formula(call, "a")
    if "axis" in call.given and call.static("axis") is None:
        return data.flat(), 0
    if data.rank == 0:
        raise RefusalError(f"{call.name} of a scalar", call.at("a"))
    return data, args.one_axis(call, "axis", data.rank, -1)


def _is_ascending(call: binding.Arguments) -> bool:
    """Return the order; ``is_ascend`` is Relay's name, ``descending`` the array API standard's."""
    return not args.flag(call, "descending", default=not args.flag(call, "is_ascend", default=True))


def _sort(call: binding.Arguments) -> Value:
    data, axis = _sort_operand(call)
    ascending = _is_ascending(call)
    if data.dtype == "bool":
        return data.cast("int8").op("sort", axis=axis, is_ascend=ascending).truth().value
    return data.op("sort", axis=axis, is_ascend=ascending).value


def _partition(call: binding.Arguments) -> Value:
    """Put the elements at some places where sorting would put them."""
    data, axis = _partition_operand(call)
    numbers = data.cast("int8") if data.dtype == "bool" else data
    result = _partition_by(call, numbers, axis, "numpy.partition")
    result = result or numbers.op("sort", axis=axis, is_ascend=True)
    return (result.truth() if data.dtype == "bool" else result).value


def _argpartition(call: binding.Arguments) -> Value:
    """Return the indices of the elements as partition orders these."""
    data, axis = _partition_operand(call)
    data = data.cast("int8") if data.dtype == "bool" else data
    result = _partition_by(call, data, axis, "numpy.argpartition")
    return (result or data.op("argsort", axis=axis, is_ascend=True, dtype="int64")).value


def _partition_by(call: binding.Arguments, data: Formula, axis: int, operator: str) -> Formula | None:
    """Return what an operator gives for `kth`; None if the order of these is known at the call only."""
    static = args.static_value_or_none(call.given["kth"].value)
    places = [
        place for place in (static if isinstance(static, tuple) else (static,)) if isinstance(place, int)
    ]
    size = data.shape[axis]
    if not places or (not isinstance(size, int) and min(places) < 0):
        return None
    kth = sorted({place % size if isinstance(size, int) and size else place for place in places})
    if not isinstance(size, int):
        number = helpers.size_along(data, axis, helpers.constant_of(np.array(0), "int64", call.span))
        data = data.require(number > kth[-1], f"{call.name}: kth={kth[-1]} is out of range for the axis")
    return data.op(operator, helpers.constant_of(np.array(kth), "int64", call.span), axis=axis)


def _partition_operand(call: binding.Arguments) -> tuple[Formula, int]:
    """Return the tensor and the axis, after a check of what is to stand in its sorted place."""
    data, axis = _sort_operand(call)
    static = args.static_value_or_none(call.given["kth"].value)
    size = data.shape[axis]
    if static is None and (number := as_weak_int(call.given["kth"])) is not None:
        place = Formula(number, call.given["kth"].span)
        count = helpers.size_along(data, axis, place)
        message = f"{call.name}: kth is out of range for the axis"
        return data.require((place >= place.like(0) - count) & (place < count), message), axis
    for place in static if isinstance(static, tuple) else (static,):
        if isinstance(place, bool) or not isinstance(place, int):
            message = "`kth` must be ints that are known at compile time"
            raise call.refusal("kth", message, hint="write sort(x)")
        if isinstance(size, int) and not -size <= place < size:
            raise call.refusal("kth", f"kth={place} is out of range for an axis of size {size}")
    return data, axis


def _argsort(call: binding.Arguments) -> Value:
    data, axis = _sort_operand(call)
    if data.dtype == "bool":
        data = data.cast("int8")
    dtype = args.dtype_argument(call) or "int64"
    return data.op("argsort", axis=axis, is_ascend=_is_ascending(call), dtype=dtype).value


INDEXING = (
    binding.numpy_function(
        "take",
        "a indices axis? mode? * batch_dims?=0",
        _take,
        "Take elements, or slices along an axis, at the given indices.",
        _NAMES,
    ),
    binding.numpy_function(
        "take_along_axis",
        "arr indices axis?=-1",
        _take_along_axis,
        "Take one element for each index along an axis.",
        "dim=axis",
    ),
    binding.numpy_function(
        "nonzero",
        "a",
        lambda call: nonzero(args.formula(call, "a").truth()),
        "Return the indices of nonzero elements: one i64 tensor of `?` elements per dimension.",
        _NAMES,
    ),
    binding.numpy_function(
        "argwhere",
        "a",
        _argwhere,
        "Return the indices of nonzero elements: one row each, i64, `?` rows.",
        "condition=a " + _NAMES,
    ),
    binding.numpy_function(
        "flatnonzero",
        "a",
        _flatnonzero,
        "Return the indices of the nonzero elements of the flattened tensor.",
        _NAMES,
    ),
    binding.numpy_function(
        "searchsorted",
        "a v side? sorter? * right?=False dtype?=i64",
        _searchsorted,
        "Return the indices at which values can be inserted to keep the order, i64.",
        "sorted_sequence=a values=v x1=a x2=v",
    ),
    binding.numpy_function(
        "digitize",
        "x bins right?",
        _digitize,
        "Return the index of the bin that each number falls into; bins must increase.",
    ),
    binding.free_function(
        "unravel_index", "indices shape", _unravel_index, "Convert flat indices to a tuple of coordinates."
    ),
    binding.numpy_function(
        "sort",
        "a axis? * is_ascend? kind? stable? descending?",
        _sort,
        "Sort in ascending order, NaN last.",
        _NAMES,
    ),
    binding.numpy_function(
        "argsort",
        "a axis? * is_ascend? dtype?=i64 kind? stable? descending?",
        _argsort,
        "Return the indices that sort the tensor, i64; stable.",
        _NAMES,
    ),
    binding.free_function(
        "partition",
        "a kth axis?=-1",
        _partition,
        "Put the elements at `kth` where sorting would put them; lower ones are before them.",
        _NAMES,
    ),
    binding.numpy_function(
        "argpartition",
        "a kth axis?=-1",
        _argpartition,
        "Return indices of the elements, of which those at `kth` are where sorting would put them, i64.",
        _NAMES,
    ),
)
