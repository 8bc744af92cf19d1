"""Legalize slices whose bounds are constants."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, relax, te, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812 - TVM's own name for its builder

from nnmagic.engine.relax.analysis.attribute_values import integers
from nnmagic.engine.relax.legalize.extern_loops import COPIES_FIRST, fill_by_loops, grid
from nnmagic.engine.relax.legalize.kernel_cache import IS_RESHAPE
from nnmagic.engine.relax.legalize.registry import INJECTIVE, OPAQUE, RULES, OpCall, Value, shape_of
from nnmagic.engine.relax.legalize.sizes import (
    difference,
    is_nonnegative,
    maximum,
    minimum,
    same_size,
    shifted_maximum,
    simplify,
)
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.runtime.tensors import as_array
from nnmagic.engine.relax.tir.builders import as_expr, static_int
from nnmagic.engine.relax.tir.regions import inside
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, RelaxExpr

#: Marks a kernel that copies rows which lie together, and one that copies parts of rows.
COPIES_ROWS, COPIES_COLUMNS = "nnmagic.copies_rows", "nnmagic.copies_columns"

#: Marks a kernel that assigns a part of an array.
ASSIGNS = "nnmagic.assigns"

_CALL_TIR, _RESHAPE = ir.Op.get("relax.call_tir"), ir.Op.get("relax.reshape")

#: Marks one that assigns all elements but some at the ends of axes.
ASSIGNS_MOST = "nnmagic.assigns_most"

#: How many elements that may be at both ends of an axis.
_MOST_AT_ENDS = 16

#: Beyond the end of any axis.
_FAR = 2**63 - 1


def _strided_slice(call: OpCall) -> Value:
    """Lower to a slice; its bounds are clamped to the data's, as in NumPy."""
    (data,) = call.args
    attrs = call.attrs
    begin, end, strides = (integers(attrs[name]) for name in ("begin", "end", "strides"))
    shape = shape_of(data)
    axes = list(range(len(shape))) if attrs["axes"] is None else integers(attrs["axes"])
    if attrs["axes"] is None:  # axes that are left out are whole
        strides += [1] * (len(shape) - len(strides))
        begin += [0 if step > 0 else _FAR for step in strides[len(begin) :]]
        end += [_FAR if step > 0 else -_FAR for step in strides[len(end) :]]
    starts: list[Index] = [0] * len(shape)
    steps = [1] * len(shape)
    lengths = list(shape)
    for i, axis in enumerate(axis % len(shape) for axis in axes):
        stop: int | None = end[i]
        if attrs["slice_mode"] == "size":
            stop = None if end[i] < 0 or end[i] == _FAR else begin[i] + end[i]
        if attrs["slice_mode"] != "end":
            strides[i] = 1
        starts[axis], lengths[axis] = resolve_slice(shape[axis], begin[i], stop, strides[i])
        steps[axis] = strides[i]

    def compute(x: Tensor, *symbolic: Tensor) -> Tensor:
        first, size = symbolic
        return te.compute(
            size, lambda *index: x(*(a + i * s for a, i, s in zip(first, index, steps, strict=True)))
        )

    sizes = relax.ShapeExpr(starts), relax.ShapeExpr(lengths)
    return call.te(compute, data, *sizes, primfunc_attrs=_marks(shape, lengths, steps))


def _marks(shape: Sequence[Extent], lengths: Sequence[Extent], steps: Sequence[int]) -> dict[str, object]:
    """Return the attributes of the kernel of a slice."""
    if all(step == 1 for step in steps) and all(map(same_size, shape[1:], lengths[1:])):
        return {COPIES_ROWS: True}
    if min(steps) <= 0:
        return {}
    # TVM sees no pattern where a start depends on a size.
    return {COPIES_COLUMNS: True} if steps[-1] == 1 else {"op_pattern": INJECTIVE}


#: Relay writes the bounds of int32 for an open end.
_OPEN_ENDS = (2**31 - 1, 1 - 2**31, -(2**31))

#: No dimension is this long. TinyNN writes the number for an open end.
BEYOND = 2**48


def resolve_slice(dim: Extent, begin: Extent, end: Extent | None, step: int) -> tuple[Index, Extent]:
    """Return the start and the length of ``begin:end:step`` in a dimension; an ``end`` of None is open.

    A start beyond the end is not clamped: then the length is 0.
    """
    static = isinstance(begin, int) and (end is None or isinstance(end, int))
    if isinstance(dim, int) and static:
        stop = end if end is not None else dim
        # An end before the start of a reversed slice means "including the first", as INT_MIN does in Relay.
        span = range(*slice(begin, stop if not (step < 0 and stop < -dim) else None, step).indices(dim))
        return (span.start if span else 0), len(span)
    toward = 1 if step > 0 else -1
    if isinstance(end, int):
        if end in _OPEN_ENDS or end * toward >= BEYOND:
            end = None
        elif end * toward <= -BEYOND:
            return 0, 0
    if isinstance(begin, int):
        if begin * toward >= BEYOND:
            return 0, 0
        if begin * toward <= -BEYOND:
            begin = 0 if step > 0 else -1
    if step > 0 and (behind := _cut_at_end(dim, begin, end)) is not None:
        start, distance = as_expr(begin), maximum(as_expr(behind) - begin, 0)
    elif step > 0:
        start = locate(begin, dim)
        start = start if is_nonnegative(start) else maximum(start, 0)
        stop = dim if end is None else minimum(locate(end, dim), dim)
        distance = maximum(as_expr(stop) - start, 0)
    else:
        start = minimum(locate(begin, dim), dim - 1)
        stop = -1 if end is None else maximum(locate(end, dim), -1)
        distance = maximum(as_expr(start) - stop, 0)
    if static_int(distance) == 0:
        return 0, 0
    return start, simplify(tirx.floordiv(as_expr(distance) + (abs(step) - 1), as_expr(abs(step))))


def _cut_at_end(dim: Extent, begin: Extent, end: Extent | None) -> Extent | None:
    """Return an end that is a number of elements before that of the axis, as in ``x[1:n - 1]``.

    It is no index from the end, but where that leaves nothing, either: shorter axes end before ``begin``.
    """
    if not isinstance(begin, int) or begin < 0 or isinstance(end, int | None):
        return None
    distance = difference(end, dim)
    return end if distance is not None and -2 - begin <= distance <= 0 else None


def locate(bound: Extent, dim: Extent) -> Index:
    """Return the index of a bound, which may be out of range."""
    if isinstance(bound, int):
        return simplify(dim + bound) if bound < 0 else bound
    return bound if is_nonnegative(bound) else tirx.Select(bound < 0, bound + dim, bound)


def strided_set(call: OpCall) -> Value:
    """Replace the elements of a slice whose begin, end and strides are constants."""
    data, values, *bounds = call.args
    begin, end, strides = ([int(item) for item in as_array(bound.value)] for bound in bounds)
    strides = strides or [1] * len(begin)
    slices = zip(shape_of(data), begin, end, strides, strict=False)
    spans = [resolve_slice(dim, *bounds) for dim, *bounds in slices]
    starts = [start for start, _ in spans]
    lengths = [length for _, length in spans] + shape_of(data)[len(spans) :]
    for given, length in zip(shape_of(values), lengths, strict=True):
        if not same_size(given, length):
            call.require(given == length, "the values have not the shape of the slice")
    is_element = all(length == 1 for length in lengths)
    if all(step == 1 for step in strides) and not is_element:
        return set_region(call, data, values, starts, lengths)
    is_thin = any(length == 1 and dim != 1 for length, dim in zip(lengths, shape_of(data), strict=True))
    if is_element or is_thin or _reads(call, values, data):
        return _set_in_place(call, data, values, starts, strides)

    def compute(x: Tensor, new: Tensor, first: Sequence[Extent], size: Sequence[Extent]) -> Tensor:
        def element(*index: Index) -> PrimExpr:
            positions, inside = [], []
            for i, start, length, step in zip(index, first, size, strides, strict=False):
                distance, width = (i - start, step) if step > 0 else (start - i, -step)
                position = tirx.floordiv(distance, width) if width > 1 else distance
                positions.append(position)
                inside += [position >= 0, position < length]
                if width > 1:
                    inside.append(tirx.floormod(distance, width) == 0)
            return tirx.if_then_else(tirx.all(*inside), new(*positions, *index[len(positions) :]), x(*index))

        return te.compute(x.shape, element)

    return call.te(compute, data, values, relax.ShapeExpr(starts), relax.ShapeExpr(lengths))


#: How many values are looked at to find out whether one is computed from another.
_MOST_LOOKED_AT = 64


def _reads(call: OpCall, values: Value, data: Value) -> bool:
    """Return whether values are computed from an array here, and so may be fused with reads of it.

    What is assigned to an array is not: all of that is read once more, or handed on.
    """
    module = call.builder.get()
    work, seen = [values], 0
    while work and seen < _MOST_LOOKED_AT:
        value = work.pop()
        seen += 1
        if value.same_as(data):
            return True
        bound = call.builder.lookup_binding(value) if isinstance(value, relax.Var) else value
        if isinstance(bound, relax.Call):
            kernel = module[bound.args[0]] if bound.op == _CALL_TIR else None
            if kernel is None or ASSIGNS not in (kernel.attrs or {}):
                work.extend(bound.args)
        elif isinstance(bound, relax.Tuple):
            work.extend(bound.fields)
        elif isinstance(bound, relax.TupleGetItem):
            work.append(bound.tuple_value)
    return False


def set_region(
    call: OpCall, data: Value, values: Value, starts: Sequence[Index], lengths: Sequence[Extent]
) -> Value:
    """Set elements that are next to each other along each axis.

    A kernel that may change the data in place visits these alone.
    """
    shape = shape_of(data)
    if any(static_int(length) == 0 for length in lengths):
        return data
    covers = [
        static_int(start) == 0 and same_size(length, dim)
        for start, length, dim in zip(starts, lengths, shape, strict=False)
    ]
    if len(covers) == len(shape) and all(covers):
        return values
    source_of, axes = _without_units(call, values)
    at_ends = [_count_at_ends(*span) for span in zip(starts, lengths, shape, strict=False)]

    def compute(x: Tensor, new: Tensor, first: Sequence[Extent], size: Sequence[Extent]) -> Tensor:
        known = [
            length if count is None or static_int(dim) is not None else tirx.max(dim - count, as_expr(0))
            for length, count, dim in zip(size, at_ends, x.shape, strict=False)
        ]

        def element(*index: Index) -> PrimExpr:
            spans = list(zip(index, first, known, covers, strict=False))
            positions = [i if all_ else i - start for i, start, _, all_ in spans]
            conditions = [inside(i, start, length) for i, start, length, all_ in spans if not all_]
            places = [*positions, *index[len(positions) :]]
            source = new(*(places[axis] for axis in axes))
            return tirx.if_then_else(tirx.all(*conditions), source, x(*index))

        return te.compute(x.shape, element)

    sizes = relax.ShapeExpr(starts), relax.ShapeExpr(lengths)
    marks = {ASSIGNS: 1} if None in at_ends else {ASSIGNS: 1, ASSIGNS_MOST: 1}
    result = call.te(compute, data, source_of, *sizes, primfunc_attrs=marks)
    return _kept_apart(call, result) if _reads(call, values, data) else result


def _count_at_ends(start: Index, length: Extent, dim: Extent) -> int | None:
    """Return how many elements of an axis are before and behind a part, if these are known and few."""
    known = shifted_maximum(length) if static_int(length) is None else None
    size, least, shift = known or (length, 0, 0)
    count = difference(dim, size) if (least, shift) == (0, 0) and static_int(start) is not None else None
    # One row of three is not most of them; a named size is taken to be large.
    most = min(_MOST_AT_ENDS, (static_int(dim) or _FAR) // 4)
    return count if count is not None and count <= most else None


def _without_units(call: OpCall, values: Value) -> tuple[Value, list[int]]:
    """Return what values had before a reshape that added axes of one element, and the other axes.

    Where it did anything else, return the values, and all axes.
    """
    axes = list(range(len(shape_of(values))))
    bound = call.builder.lookup_binding(values) if isinstance(values, relax.Var) else None
    if not isinstance(bound, relax.Call) or bound.op != _RESHAPE:
        return values, axes
    before, after = shape_of(bound.args[0]), shape_of(values)
    kept = [axis for axis, dim in enumerate(after) if dim != 1]
    is_same = len(before) == len(kept) and all(
        same_size(one, after[axis]) for one, axis in zip(before, kept, strict=True)
    )
    return (bound.args[0], kept) if is_same else (values, axes)


def _kept_apart(call: OpCall, value: RelaxExpr) -> RelaxExpr:
    """Return a value that is computed with nothing that reads it: so it may be where the array was."""

    def compute(x: Tensor) -> Tensor:
        return te.compute(x.shape, lambda *index: x(*index))  # noqa: PLW0108 - TVM counts a function's arguments

    return call.te(compute, call.emit(value), primfunc_attrs={IS_RESHAPE: 1, "op_pattern": OPAQUE})


def _set_in_place(
    call: OpCall, data: Value, values: Value, starts: Sequence[Index], strides: Sequence[int]
) -> Value:
    """Set a row, a column or the like: the copy of all the data is left out where it may be changed."""

    def compute(x: Tensor, new: Tensor, first: Sequence[Extent]) -> Tensor:
        def loops(old: Buffer, source: Buffer, result: Buffer) -> None:
            with grid(old.shape) as at:
                T.buffer_store(result, old[tuple(at)], at)
            with grid(source.shape) as at:
                moved = [start + i * step for i, start, step in zip(at, first, strides, strict=False)]
                T.buffer_store(result, source[tuple(at)], [*moved, *at[len(moved) :]])

        return fill_by_loops(loops, (x.shape, x.dtype), x, new)

    attrs = {"op_pattern": OPAQUE, COPIES_FIRST: 1, ASSIGNS: 1}
    return call.te(compute, data, values, relax.ShapeExpr(starts), primfunc_attrs=attrs)


def _slice_like(call: OpCall) -> Value:
    data, like = call.args
    axes = call.attrs["axes"]
    chosen = integers(axes) if axes else range(len(shape_of(like)))
    shape, other = shape_of(data), shape_of(like)
    for axis in (axis % len(shape) for axis in chosen):
        call.require(other[axis] <= shape[axis], f"axis {axis} is longer in the shape to slice to")
        shape[axis] = other[axis]

    def compute(x: Tensor, dims: Sequence[Extent]) -> Tensor:
        return te.compute(dims, lambda *index: x(*index))  # noqa: PLW0108 - TVM counts a function's arguments

    return call.te(compute, data, relax.ShapeExpr(shape))


RULES.update({"strided_slice": _strided_slice, "slice_like": _slice_like})
