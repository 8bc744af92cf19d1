"""Define NumPy's functions that join and split tensors.

NumPy's reference: https://numpy.org/doc/stable/reference/routines.array-manipulation.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from nnmagic.limits import MAX_ITEMS
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.dims import add, floor_divide
from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import Dim, TensorType
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.argument_checks import tensors
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import atleast_nd, broadcast, concatenate
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, free_function, numpy_function
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.values.operator_calls import call_operator
from nnmagic.tinynn.values.symbolic_sizes import number_of, size_along
from nnmagic.tinynn.values.values import Computed, Known, Operand, RefusalError, SliceOf, TupleOf, Value

_NAMES = "x=a input=a m=a ary=a array=a"


def _arrays(call: Arguments) -> list[Formula]:
    """Return the tensors to join: the items of a list, or the rows of a tensor."""
    dtype = args.dtype_argument(call)
    arrays = tensors(call, "arrays")
    return arrays if dtype is None else [array.cast(dtype) for array in arrays]


def _same_rank(call: Arguments, tensors: Sequence[Formula]) -> None:
    for tensor in tensors:
        if tensor.rank != tensors[0].rank:
            shown = f"{format_shape(tensors[0].shape)} and {format_shape(tensor.shape)}"
            raise call.refusal("arrays", f"the shapes {shown} do not fit together")


def _concatenate(call: Arguments) -> Value:
    tensors = _arrays(call)
    if "axis" in call.given and call.static("axis") is None:
        return concatenate(call, [tensor.flat() for tensor in tensors], 0).value
    if tensors[0].rank == 0:
        hint = "write stack([a, b]) for scalars"
        raise RefusalError(f"{call.name} takes tensors of rank 1 or more", call.at("arrays"), hint=hint)
    _same_rank(call, tensors)
    return concatenate(call, tensors, args.one_axis(call, "axis", tensors[0].rank, 0)).value


def _stack(call: Arguments) -> Value:
    tensors = _arrays(call)
    _same_rank(call, tensors)
    return concatenate(call, tensors, args.one_axis(call, "axis", tensors[0].rank + 1, 0), "stack").value


def _hstack(call: Arguments) -> Value:
    tensors = [atleast_nd(array, 1) for array in _arrays(call)]
    _same_rank(call, tensors)
    return concatenate(call, tensors, 0 if tensors[0].rank == 1 else 1).value


def _join_along(rank: int, axis: int) -> Callable[[Arguments], Value]:
    """Return a function that joins tensors of at least so many dimensions along an axis."""

    def apply_to(call: Arguments) -> Value:
        parts = [atleast_nd(array, rank) for array in _arrays(call)]
        _same_rank(call, parts)
        return concatenate(call, parts, axis).value

    return apply_to


def _join_columns(axis: int | None) -> Callable[[Arguments], Value]:
    """Return a function that joins vectors as columns; None joins what has more dimensions along the last."""

    def apply_to(call: Arguments) -> Value:
        columns = [atleast_nd(column, 1) for column in _arrays(call)]
        columns = [column.expand(1) if column.rank == 1 else column for column in columns]
        _same_rank(call, columns)
        return concatenate(call, columns, columns[0].rank - 1 if axis is None else axis).value

    return apply_to


def _block(call: Arguments) -> Value:
    """Join nested lists: the innermost along the last axis, those around them along the one before."""
    operand = call.given["arrays"]
    depth = _list_depth(operand.value)

    def parts(value: Value) -> list[Formula]:
        if isinstance(value, TupleOf):
            return [block_item for item in value.items for block_item in parts(item)]
        return [args.as_formula(Operand(value, operand.span), call.span, "block: an item")]

    given = [Operand(block_item.value, operand.span) for block_item in parts(operand.value)]
    if not given or not depth:
        raise RefusalError("block takes nested lists of tensors", operand.span)
    ordered = args.unify_dtypes(call, given)
    rank = max(depth, *(block_item.rank for block_item in ordered))
    remaining = iter(ordered)

    def join(value: Value, level: int) -> Formula:
        if not isinstance(value, TupleOf):
            block_item = next(remaining)
            while block_item.rank < rank:
                block_item = block_item.expand(0)
            return block_item
        # The innermost lists, at the level ``depth - 1``, are joined along the last axis, whatever
        # the rank of the tensors in them.
        return concatenate(call, [join(item, level + 1) for item in value.items], rank - depth + level)

    return join(operand.value, 0).value


def _list_depth(value: Value) -> int:
    """Return how deep lists are nested. Raises RefusalError where some are nested deeper than others."""
    if not isinstance(value, TupleOf):
        return 0
    depths = {_list_depth(item) for item in value.items}
    return 1 + max(depths, default=0)


def _append(call: Arguments) -> Value:
    tensors = args.unify_dtypes(call, [call.given["arr"], call.given["values"]])
    if "axis" not in call:
        flat = [tensor.flat() for tensor in tensors]
        return concatenate(call, flat, 0).value
    axis = args.one_axis(call, "axis", tensors[0].rank)
    if tensors[0].rank != tensors[1].rank:
        shown = f"{format_shape(tensors[0].shape)} and {format_shape(tensors[1].shape)}"
        raise RefusalError(f"append: the shapes {shown} do not fit together", call.span)
    return concatenate(call, tensors, axis).value


def _insert(call: Arguments) -> Value:
    """Insert values before one index, as NumPy does: a number fills the whole row."""
    data, place = args.formula(call, "arr"), call.given["obj"]
    if data.rank == 0:
        raise RefusalError("insert takes a tensor of rank 1 or more", call.at("arr"))
    axis = args.one_axis(call, "axis", data.rank) if "axis" in call else None
    if axis is None:
        data, axis = data.flat(), 0
    index, size = args.static_value_or_none(place.value), data.shape[axis]
    if isinstance(index, bool) or not isinstance(index, int):
        message = "insert: the index must be one int that is known at compile time"
        raise RefusalError(message, place.span, hint="write concatenate([x[:i], y, x[i:]])")
    if isinstance(size, int) and not -size <= index <= size:
        raise RefusalError(f"insert: index {index} is out of range for an axis of size {size}", place.span)
    if not isinstance(size, int) and index:
        hint = "write concatenate([x[:i], y, x[i:]])"
        raise RefusalError("insert: along a named size the index must be 0", place.span, hint=hint)
    _, values = args.unify_dtypes(call, [Operand(data.value, call.at("arr")), call.given["values"]])
    rows = _rows_to_insert(call, data, values.cast(data.dtype), axis)
    if not isinstance(size, int):
        return concatenate(call, [rows, data], axis).value
    index = index + size if index < 0 else index
    parts = [data.between(axis, 0, index), rows, data.between(axis, index, size)]
    return concatenate(call, [tensor for tensor in parts if tensor.shape[axis] != 0], axis).value


def _rows_to_insert(call: Arguments, data: Formula, values: Formula, axis: int) -> Formula:
    """Return the values with the sizes of the tensor along the other axes; their first becomes ``axis``."""
    span = call.at("values")
    shown = f"{format_shape(data.shape)} and {format_shape(values.shape)}"
    refusal = RefusalError(f"insert: the shapes {shown} do not fit together", span)
    if values.rank > data.rank:
        raise refusal
    values = values.reshape((*[1] * (data.rank - values.rank), *values.shape))
    others = [index for index in range(data.rank) if index != 0]
    # NumPy's rule for one index, by which ``insert(zeros((2, 3)), 1, [7, 8], axis=1)`` inserts a
    # column: axes are added in front, and the first one is moved to the axis.
    values = values.transpose([*others[:axis], 0, *others[axis:]])
    shape = [*data.shape[:axis], values.shape[axis], *data.shape[axis + 1 :]]
    if any(given not in (1, wanted) for given, wanted in zip(values.shape, shape, strict=True)):
        raise refusal
    if values.shape != tuple(shape) and not all(isinstance(dim, int) for dim in shape):
        raise RefusalError("insert: one value for a named size", span, hint="give a value for each element")
    return broadcast(values, shape)


def _split_function(name: str, fixed_axis: int | None, *, equal: bool = True) -> Builtin:
    """Declare a split into parts of equal size or at indices; ``array_split`` allows unequal parts."""

    def apply_to(call: Arguments) -> Value:
        data = args.formula(call, "ary")
        axis = fixed_axis
        if name == "hsplit":
            axis = 0 if data.rank == 1 else 1
        if axis is None:
            axis = args.one_axis(call, "axis", data.rank, 0)
        least = {"vsplit": 2, "dsplit": 3}.get(name, axis + 1)
        if data.rank < least:
            args.require_rank(call, data, "ary", least)
        how, span = call.static("indices_or_sections"), call.at("indices_or_sections")
        indices = how if isinstance(how, tuple) else None
        bad = isinstance(how, bool) or not isinstance(how, int | tuple)
        if bad or not all(isinstance(index, int) for index in indices or ()):
            raise RefusalError(f"{name}: `indices_or_sections` must be an int or a tuple of ints", span)
        if indices is None:
            assert isinstance(how, int)
            return _equal_parts(call, data, axis, how, equal)
        return _split_at(data, axis, indices)

    summary = "Split into parts of equal size or at the given indices; return a tuple."
    signature = "ary indices_or_sections" + (" axis?" if fixed_axis is None and name != "hsplit" else "")
    return numpy_function(name, signature, apply_to, summary, "x=ary input=ary")


def _equal_parts(call: Arguments, data: Formula, axis: int, count: int, equal: bool) -> Value:
    span = call.at("indices_or_sections")
    if not 0 < count <= 10_000:
        raise RefusalError(f"{call.name}: {count} parts", span)
    size = data.shape[axis]
    if not isinstance(size, int) and not equal:
        return _nearly_equal_parts(data, axis, count)
    if not isinstance(size, int) or size % count == 0:
        operand = Operand(data.value, call.at("ary"))
        attrs = {"indices_or_sections": count, "axis": axis}
        return call_operator(OPERATORS["split"], [operand], attrs, call.span)
    if equal:
        message = f"{call.name}: axis {axis} of size {size} does not divide into {count} equal parts"
        raise RefusalError(message, span, hint="array_split takes parts of different sizes")
    small, larger = divmod(size, count)
    ends, end = [], 0
    for index in range(count - 1):
        end += small + (index < larger)
        ends.append(end)
    return _split_at(data, axis, tuple(ends))


def _nearly_equal_parts(data: Formula, axis: int, count: int) -> Value:
    """Split a dynamic axis: part i has size // count elements, and one more if i < size % count."""
    size = data.shape[axis]
    length = Formula(number_of(size_along(data.value, axis, data.span), data.span), data.span)
    each = length.op("floor_divide", count)
    larger = length - each * count
    bounds = [each * index + larger.op("minimum", index) for index in range(count + 1)]
    return TupleOf(
        tuple(
            # ``size // count``, and one more for the first ``size % count`` parts, in one formula
            # of the size: the types of the parts say how large they are.
            _slice(data, axis, start.value, stop.value, floor_divide(add(size, count - 1 - index), count))
            for index, (start, stop) in enumerate(pairwise(bounds))
        )
    )


def _split_at(data: Formula, axis: int, indices: tuple[object, ...]) -> Value:
    size = data.shape[axis]
    if not isinstance(size, int):
        ends = [Known(0), *map(Known, indices), Known(None)]
        return TupleOf(tuple(_slice(data, axis, start, stop) for start, stop in pairwise(ends)))
    # NumPy cuts by slices: an index beyond the end is the end, and one before the last index gives
    # an empty part.
    bounds = [0, *(slice(index).indices(size)[1] for index in indices if isinstance(index, int)), size]
    parts = [data.between(axis, a, max(a, b)) for a, b in pairwise(bounds)]
    return TupleOf(tuple(tensor.value for tensor in parts))


def _slice(data: Formula, axis: int, start: Value, stop: Value, size: Dim | None = None) -> Computed:
    """Return ``data[start:stop]`` along an axis; ``size``: how many elements that are, if it is known."""
    whole, tensor = SliceOf(Known(None), Known(None), Known(None)), SliceOf(start, stop, Known(None))
    index = [Operand(each, data.span) for each in (*[whole] * axis, tensor)]
    value = Operand(subscript(Operand(data.value, data.span), index, data.span), data.span).dynamic
    if size is None:
        return value
    shape = tuple(size if each == axis else dim for each, dim in enumerate(data.shape))
    return Computed(value.expr, TensorType(shape, data.dtype))


def _unstack(call: Arguments) -> Value:
    """Return the slices along an axis, without it."""
    data = args.formula(call, "x")
    args.require_rank(call, data, "x", 1)
    axis = args.one_axis(call, "axis", data.rank, 0)
    count = args.static_size(call, data.shape[axis], call.at("x"), "the number of results")
    if count > MAX_ITEMS:
        message = f"unstack: {count} results (at most {MAX_ITEMS})"
        raise RefusalError(message, call.at("x"), hint="a loop over a tensor takes its rows")
    return TupleOf(tuple(data.row(axis, index).value for index in range(count)))


_STACK = "arrays * dtype?"

_STACK_NAMES = "tup=arrays tensors=arrays"

JOINING = (
    free_function(
        "concatenate", "arrays axis?=0 * dtype?", _concatenate, "Join along an axis.", _STACK_NAMES
    ),
    free_function(
        "concat", "arrays axis?=0 * dtype?", _concatenate, "Join along an axis.", _STACK_NAMES + " dim=axis"
    ),
    free_function(
        "stack", "arrays axis?=0 * dtype?", _stack, "Join along a new axis.", _STACK_NAMES + " dim=axis"
    ),
    free_function(
        "hstack", _STACK, _hstack, "Join along the second axis; vectors along the first.", _STACK_NAMES
    ),
    free_function(
        "vstack", _STACK, _join_along(2, 0), "Join along the first axis; vectors become rows.", _STACK_NAMES
    ),
    free_function("row_stack", _STACK, _join_along(2, 0), "Do as vstack does.", _STACK_NAMES),
    free_function("dstack", _STACK, _join_along(3, 2), "Join along the third axis.", _STACK_NAMES),
    free_function("column_stack", _STACK, _join_columns(1), "Join vectors as columns.", _STACK_NAMES),
    free_function("c_", "*arrays", _join_columns(None), "Join vectors as columns: `c_[x, y]`."),
    free_function("r_", "*arrays", _join_along(1, 0), "Join along the first axis: `r_[0, x]`."),
    free_function("block", "arrays", _block, "Join the tensors of nested lists, as a matrix of blocks."),
    free_function(
        "append", "arr values axis?", _append, "Join two tensors; flatten them if no axis is given."
    ),
    free_function(
        "insert",
        "arr obj values axis?",
        _insert,
        "Insert values before an index; flatten the tensor if no axis is given.",
    ),
    _split_function("split", None),
    _split_function("array_split", None, equal=False),
    _split_function("hsplit", None),
    _split_function("vsplit", 0),
    _split_function("dsplit", 2),
    free_function(
        "unstack",
        "x * axis?=0",
        _unstack,
        "Split along an axis into as many tensors as it is long; return a tuple.",
    ),
)
