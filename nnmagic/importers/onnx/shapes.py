"""Reshape, slice, broadcast and measure tensors, some of whose sizes are known only at the call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.values import Value, constant, count_up, integers, of_type, op, with_shape
from nnmagic.relay import expr as ir
from nnmagic.relay.ops.dims import as_dim, as_polynomial, multiply, product
from nnmagic.relay.polynomials import NoPolynomialError
from nnmagic.relay.types import ANY, Dim


def is_static(shape: Sequence[Dim]) -> bool:
    """Return whether all sizes are known."""
    return all(isinstance(dim, int) for dim in shape)


def static_shape(value: Value, what: str = "the shape") -> list[int]:
    """Return the shape of a tensor. Raises UnsupportedError if it is not known."""
    if not is_static(value.shape):
        raise UnsupportedError(f"{what} must be known", "give the inputs fixed sizes with shapes={...}")
    return [int(cast(int, dim)) for dim in value.shape]


def image_sizes(value: Value) -> list[int]:
    """Return the sizes of the axes behind batch and channels. Raises UnsupportedError if one is not known."""
    sizes = value.shape[2:]
    if not is_static(sizes):
        raise UnsupportedError("the size of the image must be known", "fix it with shapes={...}")
    return [int(cast(int, dim)) for dim in sizes]


def counting(value: Value, axis: int) -> Value:
    """Return 0, 1, … as long as an axis of a tensor, in int64."""
    dim = value.shape[axis]
    if isinstance(dim, int):
        return constant(count_up(int(dim)), "int64")
    ends = constant(0, "int64"), size_along(value, axis), constant(1, "int64")
    names = ("start", "stop", "step")
    attributes = {
        name: end.expr if isinstance(end.expr, ir.Constant) else ir.Var(name, end.type)
        for name, end in zip(names, ends, strict=True)
    }
    return with_shape(op("arange", *ends, **attributes, dtype="int64"), [dim])


def shape_of(value: Value) -> Value:
    """Return the shape of a tensor as an int64 vector."""
    if is_static(value.shape):
        return integers([int(cast(int, dim)) for dim in value.shape])
    vector = op("shape_of", value, dtype="int64")
    return of_type(vector.expr, vector.type, value.shape)


def size_along(value: Value, axis: int) -> Value:
    """Return the size of an axis as an int64 of rank 0."""
    axis = axis % value.rank
    dim = value.shape[axis]
    if isinstance(dim, int):
        return constant(int(dim), "int64")
    number = op("take", op("shape_of", value, dtype="int64"), constant(axis, "int32"), axis=0)
    return of_type(number.expr, number.type, (dim,))


def _find_size(dim: Dim, sources: Sequence[Value]) -> Value | None:
    """Return a dimension as a number: a size of one of the tensors, or a product of some of its sizes."""
    if isinstance(dim, int):
        return constant(int(dim), "int64")
    for source in sources:
        if dim != ANY and dim in source.shape:
            return size_along(source, source.shape.index(dim))
    polynomial = as_polynomial(dim)
    if polynomial is None:
        return None
    for source in sources:
        remaining, total = polynomial, constant(1, "int64")
        for axis, factor in enumerate(map(as_polynomial, source.shape)):
            try:
                quotient = None if factor is None or factor.number == 1 else remaining.divide_exactly(factor)
            except NoPolynomialError:
                continue
            if quotient is not None:
                remaining, total = quotient, total * size_along(source, axis)
        if remaining.number is not None:
            return total * int(remaining.number)
    return None


def shape_vector(shape: Sequence[Dim], *sources: Value) -> Value:
    """Return a shape as an int64 vector; the tensors have its sizes. Raises UnsupportedError."""
    sizes = []
    for dim in shape:
        size = _find_size(dim, sources)
        if size is None:
            raise UnsupportedError("a size is known only when the function is called")
        sizes.append(op("expand_dims", size, axis=0))
    vector = op("concatenate", sizes, axis=0) if len(sizes) > 1 else sizes[0] if sizes else integers([])
    return of_type(vector.expr, vector.type, tuple(shape))


def reshape(data: Value, shape: Sequence[Dim], *sources: Value, vector: Value | None = None) -> Value:
    """Return a tensor in another shape; ``vector`` has its sizes, or they are those of the ``sources``."""
    if tuple(shape) == data.shape and (is_static(shape) or ANY not in shape):
        return data
    codes = _codes(data.shape, shape)
    if codes is not None:
        zero = {"allowzero": True} if is_static(shape) and 0 in shape else {}
        return with_shape(op("reshape", data, newshape=codes, **zero), shape)
    alike = _reshape_like(data, shape, sources) or _without_ones(data, shape)
    if alike is not None:
        return alike
    sizes = vector if vector is not None else shape_vector(shape, data, *sources)
    return with_shape(op("dyn.reshape", data, sizes, allowzero=True), shape)


def _reshape_like(data: Value, shape: Sequence[Dim], sources: Sequence[Value]) -> Value | None:
    """Replace the first axes by those of another tensor; None where that does not give the shape."""
    for source in sources:
        for count in range(1, min(source.rank, len(shape)) + 1):
            first = data.rank - (len(shape) - count)
            whole = (*source.shape[:count], *data.shape[max(first, 0) :])
            if first < 0 or ANY in source.shape[:count] or whole != tuple(shape):
                continue
            if product(source.shape[:count]) == product(data.shape[:first]):
                return op(
                    "reshape_like", data, source, lhs_begin=0, lhs_end=first, rhs_begin=0, rhs_end=count
                )
    return None


def _without_ones(data: Value, shape: Sequence[Dim]) -> Value | None:
    """Reshape a tensor whose axes of size 1 come and go; None where there are none."""
    ones = [axis for axis, dim in enumerate(shape) if dim == 1]
    old = [axis for axis, dim in enumerate(data.shape) if dim == 1]
    if not ones and not old:
        return None
    plain = [dim for dim in shape if dim != 1]
    codes = _codes([dim for dim in data.shape if dim != 1], plain)
    if codes is None:
        return None
    core = squeeze(data, old)
    if tuple(plain) != core.shape or ANY in plain:
        core = with_shape(op("reshape", core, newshape=codes), plain)
    return with_shape(unsqueeze(core, ones), shape)


def _aligned_codes(dims: Sequence[Dim], wanted: Sequence[Dim]) -> tuple[int, ...] | None:
    """Return codes that copy axes, join two (-3) or split one (-4); None if more is asked for."""
    codes: list[int] = []
    at = to = 0
    while at < len(dims) and to < len(wanted):
        here, there = dims[at], wanted[to]
        if ANY in (here, there) or 0 in (here, there):
            return None
        if here == there:
            codes.append(int(there) if isinstance(there, int) else 0)
            at, to = at + 1, to + 1
        elif at + 1 < len(dims) and multiply(here, dims[at + 1]) == there:
            codes.append(-3)
            at, to = at + 2, to + 1
        elif to + 1 < len(wanted) and multiply(there, wanted[to + 1]) == here:
            pair = [int(dim) if isinstance(dim, int) else -1 for dim in wanted[to : to + 2]]
            if pair == [-1, -1]:
                return None
            codes += [-4, *pair]
            at, to = at + 1, to + 2
        else:
            return None
    return tuple(codes) if (at, to) == (len(dims), len(wanted)) else None


def _codes(dims: Sequence[Dim], wanted: Sequence[Dim]) -> tuple[int, ...] | None:
    """Return what Relay's reshape takes; None if that cannot say it."""
    if is_static(wanted):
        return tuple(int(cast(int, dim)) for dim in wanted)
    aligned = _aligned_codes(dims, wanted)
    if aligned is not None:
        return aligned
    codes: list[int] = []
    copied: set[int] = set()
    for axis, dim in enumerate(wanted):
        if isinstance(dim, int):
            codes.append(int(dim))
        elif dim != ANY and axis < len(dims) and dims[axis] == dim:
            codes.append(0)
            copied.add(axis)
        else:
            codes.append(-1)
    if codes.count(-1) > 1 or any(isinstance(dim, int) and dim == 0 for dim in wanted):
        return None
    if -1 in codes:
        uncopied = [dim for axis, dim in enumerate(wanted) if codes[axis] != 0]
        free = [dim for axis, dim in enumerate(dims) if axis not in copied]
        if product(uncopied) != product(free) or any(dim == 0 for dim in free) or product(uncopied) == ANY:
            return None
    return tuple(codes)


def reshape_target(data: Value, target: Sequence[Dim], *, allow_zero: bool) -> list[Dim]:
    """Return the shape that ONNX's Reshape makes of a target with 0 and -1."""
    shape: list[Dim] = []
    for axis, dim in enumerate(target):
        if isinstance(dim, int) and dim == 0 and not allow_zero:
            if axis >= data.rank:
                raise UnsupportedError(f"the 0 at {axis} of {list(target)} copies an axis that is not there")
            shape.append(data.shape[axis])
        else:
            shape.append(dim)
    if -1 in shape:
        at = shape.index(-1)
        others = product([dim for axis, dim in enumerate(shape) if axis != at])
        shape[at] = _divide(product(data.shape), others, data.shape)
    return shape


def _divide(total: Dim, others: Dim, shape: Sequence[Dim]) -> Dim:
    if isinstance(total, int) and isinstance(others, int):
        if others == 0 or total % others:
            raise UnsupportedError(
                f"the shape {list(map(str, shape))} cannot be reshaped so that {others} divides it"
            )
        return total // others
    lhs, rhs = as_polynomial(total), as_polynomial(others)
    if lhs is None or rhs is None:
        return ANY
    try:
        quotient = lhs.divide_exactly(rhs)
    except NoPolynomialError:
        return ANY
    if quotient is None:
        return ANY
    return as_dim(quotient)


def expand_to(data: Value, shape: Sequence[Dim], *sources: Value, vector: Value | None = None) -> Value:
    """Broadcast a tensor to a shape, which it must fit."""
    if tuple(shape) == data.shape and is_static(shape):
        return data
    if is_static(shape):
        return op("broadcast_to", data, shape=tuple(int(cast(int, dim)) for dim in shape))
    sizes = vector if vector is not None else shape_vector(shape, data, *sources)
    return with_shape(op("dyn.broadcast_to", data, sizes), shape)


def transpose(data: Value, axes: Sequence[int]) -> Value:
    """Permute the axes."""
    return data if list(axes) == list(range(data.rank)) else op("transpose", data, axes=tuple(axes))


def slice_axis(data: Value, axis: int, begin: int, end: int, step: int = 1) -> Value:
    """Slice one axis as Python does; a static size gives a static size."""
    size = data.shape[axis]
    if isinstance(size, int):
        span = range(*slice(begin, end, step).indices(int(size)))
        begin, end = span.start, span.stop
        if not span:
            begin, end, step = 0, 0, 1
        elif step < 0 and end < 0:
            end = -int(size) - 1
        if (begin, end, step) == (0, size, 1):
            return data
    result = op("strided_slice", data, begin=(begin,), end=(end,), strides=(step,), axes=(axis,))
    if isinstance(size, int):
        return with_shape(result, [*data.shape[:axis], len(span), *data.shape[axis + 1 :]])
    return result


def squeeze(data: Value, axes: Sequence[int]) -> Value:
    """Drop axes of size 1."""
    if not axes:
        return data
    for axis in axes:
        if isinstance(data.shape[axis], int) and data.shape[axis] != 1:
            raise UnsupportedError(f"the axis {axis} to be dropped has {data.shape[axis]} elements, not 1")
    return op("squeeze", data, axis=tuple(sorted(axes)))


def unsqueeze(data: Value, axes: Sequence[int]) -> Value:
    """Insert axes of size 1 at their places in the result."""
    for axis in sorted(axes):
        data = op("expand_dims", data, axis=axis)
    return data


def scalar(value: Value) -> Value:
    """Return a tensor with one element as one of rank 0."""
    return reshape(value, []) if value.rank else value


def from_end(indices: Value, data: Value, axis: int) -> Value:
    """Return indices counted from the front, where negative ones count from the end of an axis."""
    static = indices.known
    size = data.shape[axis]
    if static is not None and (static >= 0).all():
        return indices
    if static is not None and isinstance(size, int):
        return constant(np.where(static < 0, static + int(size), static).astype(static.dtype))
    wide = indices.cast("int64")
    return (wide < 0).choose(wide + size_along(data, axis), wide)


def take(data: Value, indices: Value, axis: int) -> Value:
    """Take slices along an axis; negative indices count from the end, those out of range are errors."""
    if indices.known is not None and data.sizes is None:
        static, size = indices.known, data.shape[axis]
        if isinstance(size, int) and static.size and not ((-size <= static) & (static < size)).all():
            raise UnsupportedError(f"an index is out of range for the axis {axis} of {size} elements")
    counted = from_end(indices, data, axis)
    mode = "clip" if counted.known is not None else "fast"
    if data.sizes is not None and counted.known is not None:
        picked = tuple(data.sizes[int(index)] for index in counted.known.reshape(-1))
        result = op("take", data, counted, axis=axis, mode="clip")
        return of_type(result.expr, result.type, picked if result.rank <= 1 else None)
    return op("take", data, counted, axis=axis, mode=mode)


def full(shape: Sequence[Dim], fill: Value, *sources: Value, vector: Value | None = None) -> Value:
    """Return a tensor of one value, a scalar."""
    if is_static(shape):
        static = tuple(int(cast(int, dim)) for dim in shape)
        if fill.known is not None and min(static, default=0) >= 0 and math.prod(static) <= 4096:
            return constant(np.full(static, fill.known))
        return op("full", fill, shape=static, dtype=fill.dtype)
    sizes = vector if vector is not None else shape_vector(shape, *sources)
    return with_shape(op("dyn.full", fill, sizes, dtype=fill.dtype), shape)
