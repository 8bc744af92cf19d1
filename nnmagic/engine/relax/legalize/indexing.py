"""Legalize operators that read or write at indices that other tensors hold.

Relay reads outside the data where an index is out of range. Here every index is brought into range first:
negative ones count from the end where Relay lets them, others are clamped. None can touch foreign memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard

import numpy as np
from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize.binary import broadcast_shape, element_at
from nnmagic.engine.relax.legalize.index_checks import (
    clamp,
    clamp_from_end,
    refuse_empty,
    require_indices_in_range,
    wrap,
)
from nnmagic.engine.relax.legalize.kernel_calls import is_kernel_call
from nnmagic.engine.relax.legalize.registry import (
    INJECTIVE,
    RULES,
    OpCall,
    Value,
    shape_of,
    te_of,
    tensor_dtype,
)
from nnmagic.engine.relax.legalize.registry import te as te_rule
from nnmagic.engine.relax.legalize.reshaping import element_count
from nnmagic.engine.relax.legalize.sizes import difference, same_size
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr
from nnmagic.relay.expr import Attrs, Call, Constant, Expr, Tuple

#: Marks a kernel that reads single elements of its first operand at indices that the second one holds.
GATHERS = "nnmagic.gathers"

#: TVM sees no pattern where an index depends on a size, as one does that is kept in range.
_FUSABLE = {"op_pattern": INJECTIVE}


def _take_with_mode(call: OpCall) -> Value:
    """Lower ``take``; in the mode "fast", which leaves indices out of range undefined, they are errors."""
    extension = _Extension.of(call) if call.attrs["axis"] is not None else None
    if extension is not None:
        return extension.lower(call)
    if call.attrs["mode"] != "fast":
        size = _taken_size(call)
        if size is not None:
            return call.te(lambda sizes: te.compute((), lambda: sizes[0]), relax.ShapeExpr([size]))
        return _take_from_some(call, wrap if call.attrs["mode"] == "wrap" else clamp)
    counted = _counted_from_end(call)
    if counted is not None and 0 not in (_taken_dim(call), element_count(shape_of(counted))):
        require_indices_in_range(call, counted, _taken_dim(call), from_end=True)
        return _gather_parts(call, counted, clamp_from_end)
    dim = require_taken_in_range(call)
    if _counts_from_zero(call.node.args[0]):
        data, indices = call.args
        dtype = tensor_dtype(data)
        return indices if tensor_dtype(indices) == dtype else relax.op.astype(indices, dtype)
    if dim == 0:
        return _take_from_some(call, clamp)
    if call.attrs["axis"] is not None and not shape_of(call.args[1]):
        return _take_row(call)
    return _gather_parts(call, call.args[1], clamp)


def _take_from_some(call: OpCall, into_range: Callable[[Index, Extent], PrimExpr]) -> Value:
    """Lower what is refused where there is no element to take."""
    return refuse_empty(lambda call: _gather_parts(call, call.args[1], into_range), _take_axes)(call)


def _gather_parts(call: OpCall, indices: Value, into_range: Callable[[Index, Extent], PrimExpr]) -> Value:
    data, axis = call.args[0], call.attrs["axis"]
    single = axis is None or integer(axis) % len(shape_of(data)) == len(shape_of(data)) - 1
    attrs = {GATHERS: True} if single else {}
    return call.te(partial(_take, call.attrs, into_range=into_range), data, indices, primfunc_attrs=attrs)


def _taken_size(call: OpCall) -> Extent | None:
    """Return the size that a call takes, as of ``x.shape[0]``; None if it takes something else."""
    data, index = call.args
    if tensor_dtype(data) != "int64" or shape_of(index):
        return None
    sizes, positions = call.elements(data), call.elements(index)
    if sizes is None or positions is None or len(shape_of(data)) != 1:
        return None
    (position,) = positions
    if not isinstance(position, int) or not 0 <= position < len(sizes):
        return None
    size = sizes[position]
    return None if isinstance(size, int) else size


def require_taken_in_range(call: OpCall) -> Extent:
    """Have the program raise IndexError for an index of a ``take``; return the size that indices have."""
    indices, dim = call.args[1], _taken_dim(call)
    if element_count(shape_of(indices)) != 0:
        require_indices_in_range(call, indices, dim)
    return dim


def _taken_dim(call: OpCall) -> Extent:
    axis, shape = call.attrs["axis"], shape_of(call.args[0])
    return element_count(shape) if axis is None else shape[integer(axis) % len(shape)]


def _counted_from_end(call: OpCall) -> Value | None:
    """Return the indices of which a ``take`` gets ``where(i < 0, i + size, i)``; None if it gets others.

    They are checked, and counted from the end, where they are read: nothing else may need the array.
    """
    where, operands = call.node.args[1], _kernel_operands(call, call.args[1])
    if not (_is_call(where, "where") and operands):
        return None
    negative, moved, indices = where.args
    if not (_is_call(negative, "less") and _is_call(moved, "add") and shape_of(call.args[1])):
        return None
    (lhs, zero), (rhs, size) = negative.args, moved.args
    if not (lhs is rhs is indices and isinstance(zero, Constant) and not zero.data.any()):
        return None
    return operands[2] if _is_size_of(size, call) else None


@dataclass(frozen=True, slots=True)
class _Extension:
    """A ``take`` at ``arange(count) - before``, in the axis by wrapping around or at the nearest end.

    This is how axes are rolled and padded. No indices need to be in memory, nor divided: the loops are split
    at both ends.
    """

    wraps: bool
    before: Extent
    count: Extent

    @classmethod
    def of(cls, call: OpCall) -> _Extension | None:
        """Return what a ``take`` is; None of another."""
        indices, node = call.args[1], call.node.args[1]
        operands = _kernel_operands(call, indices)
        if not (_is_call(node, "floor_mod") or _is_call(node, "minimum")) or len(operands) < 2:
            return None
        last, wraps = call.elements(operands[1]), _is_call(node, "floor_mod")
        places, moved = operands[0], node.args[0]
        if not wraps:
            bounds = _kernel_operands(call, places)
            if not _is_call(moved, "maximum") or len(bounds) < 2 or call.elements(bounds[1]) != [0]:
                return None
            places, moved = bounds[0], moved.args[0]
        before: list[Extent] | None = [0]
        if _is_call(moved, "subtract"):
            terms = _kernel_operands(call, places)
            before, moved = call.elements(terms[1]) if len(terms) > 1 else None, moved.args[0]
        length = tirx.max(as_expr(_taken_dim(call)), as_expr(1))
        if last is None or before is None or len(last) != 1 or len(before) != 1:
            return None
        if not same_size(last[0], length if wraps else length - 1):
            return None
        if not _is_call(moved, "arange") or not _counts_from_zero(moved):
            return None
        return cls(wraps, before[0], shape_of(indices)[0])

    def lower(self, call: OpCall) -> Value:
        """Return the elements."""
        data, axis = call.args[0], integer(call.attrs["axis"]) % len(shape_of(call.args[0]))
        more, before = difference(self.count, shape_of(data)[axis]), self.before
        is_known = isinstance(before, int) and more is not None

        def compute(x: Tensor, *rest: Sequence[Extent]) -> Tensor:
            size = x.shape[axis]
            first, count = (before, size + more) if is_known else rest[0]

            def element(*at: Index) -> PrimExpr:
                place = at[axis] - first
                ends = (place + size, place - size) if self.wraps else (as_expr(0), size - 1)
                # One place beyond an end is the other end, of any size.
                if self.wraps and not (is_known and max(before, more - before) <= 1):
                    ends = (tirx.floormod(place, tirx.max(size, as_expr(1))),) * 2
                inner = tirx.if_then_else(place < size, place, ends[1])
                return x(*at[:axis], tirx.if_then_else(place < 0, ends[0], inner), *at[axis + 1 :])

            return te.compute([*x.shape[:axis], count, *x.shape[axis + 1 :]], element)

        sizes = [] if is_known else [relax.ShapeExpr([before, self.count])]
        return call.te(compute, data, *sizes, primfunc_attrs=_FUSABLE)


def _kernel_operands(call: OpCall, value: Value) -> Sequence[Value]:
    """Return the operands of the kernel that computes a value; none of another value."""
    bound = call.builder.lookup_binding(value) if isinstance(value, relax.Var) else None
    return bound.args[1].fields if is_kernel_call(bound) else ()


def _is_size_of(size: Expr, call: OpCall) -> bool:
    """Return whether an expression is the size of the axis along which a call takes."""
    if isinstance(size, Constant):
        return bool(size.data.item() == _taken_dim(call))
    if not _is_call(size, "take"):
        return False
    shape, axis = size.args
    of_data = _is_call(shape, "shape_of") and shape.args[0] is call.node.args[0]
    return of_data and isinstance(axis, Constant) and axis.data.item() == call.attrs["axis"]


def _is_call(node: object, name: str) -> TypeGuard[Call]:
    return isinstance(node, Call) and getattr(node.op, "name", "") == name


def _are_in_range(call: OpCall) -> bool:
    """Return whether each index was taken from the numbers of its axis: it was checked, and there is one."""
    ((data, *indices),) = (operand.fields for operand in call.node.args if isinstance(operand, Tuple))
    return all(
        _is_call(index, "take")
        and index.attrs["mode"] == "fast"
        and _is_call(index.args[0], "arange")
        and _counts_from_zero(index.args[0])
        and _is_call(stop := index.args[0].args[1], "take")
        and _is_call(stop.args[0], "shape_of")
        and stop.args[0].args[0] is data
        and isinstance(stop.args[1], Constant)
        and stop.args[1].data.item() == axis
        for axis, index in enumerate(indices)
    )


def _counts_from_zero(data: Expr) -> bool:
    """Return whether data is an ``arange``, or its array, whose elements are their own indices."""
    if isinstance(data, Constant):
        return data.data.ndim == 1 and np.array_equal(data.data, np.arange(data.data.size))
    if not isinstance(data, Call) or getattr(data.op, "name", "") != "arange":
        return False
    start, stop, step = (arg.data.item() if isinstance(arg, Constant) else None for arg in data.args)
    return start == 0 and step == 1 and (stop is None or stop >= 1)


#: Marks a kernel that takes a row by numbers: the axis of each, and which of its operands it is.
TAKES_ROW = "nnmagic.takes_row"


def _take_row(call: OpCall) -> Value:
    """Lower what one number takes that was checked to be in range.

    Of several, as in ``x[i, j]``, one kernel takes what all of them do.
    """
    data, index = call.args
    chosen: list[tuple[int, Value]] = []
    axis = integer(call.attrs["axis"]) % len(shape_of(data))
    bound = call.builder.lookup_binding(data) if isinstance(data, relax.Var) else None
    if is_kernel_call(bound):
        outer = [int(number) for number in (call.builder.get()[bound.args[0]].attrs or {}).get(TAKES_ROW, ())]
        fields = bound.args[1].fields
        chosen = [(axis, fields[operand]) for axis, operand in zip(outer[::2], outer[1::2], strict=True)]
        data = fields[0] if chosen else data
        # The axis counts those that the kernel before has left: each taken axis below or at it
        # moves it up.
        for taken in sorted(outer[::2]):
            axis += axis >= taken
    chosen.append((axis, index))
    indices: list[Value] = []  # each once: TVM passes them so
    for _, number in chosen:
        if not any(number.same_as(other) for other in indices):
            indices.append(number)
    operands = {
        axis: next(at for at, other in enumerate(indices) if number.same_as(other)) for axis, number in chosen
    }

    def compute(x: Tensor, *where: Tensor) -> Tensor:
        def element(*at: Index) -> PrimExpr:
            rest = iter(at)
            position = (
                where[operands[axis]]().astype("int64") if axis in operands else next(rest)
                for axis in range(len(x.shape))
            )
            return x(*position)

        return te.compute([dim for axis, dim in enumerate(x.shape) if axis not in operands], element)

    row = [number for axis, operand in operands.items() for number in (axis, 1 + operand)]
    return call.te(compute, data, *indices, primfunc_attrs={TAKES_ROW: row})


def _take_axes(call: OpCall, shape: list[Extent]) -> Sequence[Extent]:
    axis = call.attrs["axis"]
    return shape if axis is None else [shape[integer(axis)]]


def _take(
    attrs: Attrs, data: Tensor, indices: Tensor, into_range: Callable[[Index, Extent], PrimExpr]
) -> Tensor:
    """Take elements of the flat data, or slices along an axis."""
    if attrs["axis"] is None:
        flat = topi.reshape(data, [element_count(data.shape)])
        return te.compute(indices.shape, lambda *at: flat(into_range(indices(*at), flat.shape[0])))
    axis = integer(attrs["axis"]) % len(data.shape)
    batch = integer(attrs["batch_dims"])
    batch = batch + len(indices.shape) if batch < 0 else batch
    inner = len(indices.shape) - batch
    shape = [*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :]]

    def element(*at: Index) -> PrimExpr:
        chosen = indices(*at[:batch], *at[axis : axis + inner])
        return data(*at[:axis], into_range(chosen, data.shape[axis]), *at[axis + inner :])

    return te.compute(shape, element)


def _gather(call: OpCall) -> Value:
    """Take along an axis; no index at all takes nothing, though Relay refuses to compile that."""
    axis = integer(call.attrs["axis"]) % len(shape_of(call.args[0]))
    for at, (have, want) in enumerate(zip(*map(shape_of, call.args), strict=True)):
        if at != axis and not same_size(have, want):
            call.require(as_expr(have) == as_expr(want), "data and indices differ on another axis")
    return te_of(_gather_elements)(call)


def _gather_elements(attrs: Attrs, data: Tensor, indices: Tensor) -> Tensor:
    axis = integer(attrs["axis"]) % len(data.shape)

    def element(*at: Index) -> PrimExpr:
        return data(*at[:axis], clamp_from_end(indices(*at), data.shape[axis]), *at[axis + 1 :])

    return te.compute(indices.shape, element)


def _gather_nd(attrs: Attrs, data: Tensor, indices: Tensor) -> Tensor:
    """Take ``data[indices[0], indices[1], ...]`` for each index of the other axes of ``indices``."""
    batch = integer(attrs["batch_dims"])
    depth = int(indices.shape[0].value)
    rank = len(indices.shape) - 1
    shape = [*indices.shape[1:], *data.shape[batch + depth :]]

    def element(*at: Index) -> PrimExpr:
        outer, inner = at[:rank], at[rank:]
        where = [clamp_from_end(indices(k, *outer), data.shape[batch + k]) for k in range(depth)]
        return data(*outer[:batch], *where, *inner)

    return te.compute(shape, element)


def _gather_nd_axes(call: OpCall, shape: list[Extent]) -> Sequence[Extent]:
    batch, depth = integer(call.attrs["batch_dims"]), shape_of(call.args[1])[0]
    assert isinstance(depth, int)
    return shape[batch : batch + depth]


def _adv_index(call: OpCall) -> Value:
    if _are_in_range(call):
        return _take_at(call)
    return refuse_empty(_take_at, lambda call, shape: shape[: len(call.args[0]) - 1])(call)


def _take_at(call: OpCall) -> Value:
    """Take ``data[i, j, ...]`` with index tensors that are broadcast together."""
    ((data, *indices),) = call.args

    def compute(x: Tensor, *where: Tensor) -> Tensor:
        common: list[Extent] = []
        for tensor in where:
            common = broadcast_shape(common, tensor.shape)

        def element(*at: Index) -> PrimExpr:
            outer, inner = at[: len(common)], at[len(common) :]
            chosen = [element_at(tensor, outer, common) for tensor in where]
            in_range = [clamp_from_end(i, dim) for i, dim in zip(chosen, x.shape, strict=False)]
            return x(*in_range, *inner)

        return te.compute([*common, *x.shape[len(where) :]], element)

    return call.te(compute, data, *indices, primfunc_attrs=_FUSABLE)


def _matrix_set_diag(attrs: Attrs, data: Tensor, diagonal: Tensor) -> Tensor:
    first, last = integer(attrs["k1"]), integer(attrs["k2"])
    sides = (
        "RIGHT" if attrs["super_diag_right_align"] else "LEFT",
        "RIGHT" if attrs["sub_diag_right_align"] else "LEFT",
    )
    return topi.matrix_set_diag(data, diagonal, (first, last), "_".join(sides))


def _invert_permutation(permutation: Tensor) -> Tensor:
    """Return the position of each number in the permutation: the last if it repeats, 0 if it is missing."""
    (length,) = permutation.shape
    k = te.reduce_axis((0, length), "k")

    def here(number: Index) -> PrimExpr:
        return tirx.Select(
            permutation(k) == number, k.var.astype(permutation.dtype), tirx.const(0, permutation.dtype)
        )

    return te.compute((length,), lambda place: te.max(here(place), axis=k))


def _unravel_index(call: OpCall) -> Value:
    """Lower to the coordinates of flat indices; a dimension of 0 counts as 1: dividing by 0 would trap."""
    if not isinstance(shape_of(call.args[1])[0], int):
        call.refuse("the length of the shape must be known at compile time")

    def compute(indices: Tensor, shape: Tensor) -> Tensor:
        # The indices of an empty shape are out of range anyway, and refused.
        safe = te.compute(shape.shape, lambda axis: tirx.max(shape(axis), tirx.const(1, shape.dtype)))
        return topi.unravel_index(indices, safe)

    return call.te(compute, *call.args)


RULES.update(
    {
        "take": _take_with_mode,
        "gather": refuse_empty(_gather, _take_axes),
        "gather_nd": refuse_empty(te_of(_gather_nd), _gather_nd_axes),
        "adv_index": _adv_index,
        "matrix_set_diag": te_of(_matrix_set_diag),
        "unravel_index": _unravel_index,
        "invert_permutation": te_rule(_invert_permutation),
    }
)
