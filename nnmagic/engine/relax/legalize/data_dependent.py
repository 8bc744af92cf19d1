"""Legalize operators whose result shape depends on values: argwhere, unique, arange and Relay's ``dyn.*``.

A kernel computes the dimensions, these become symbolic variables, and a second kernel computes the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import relax, te, tirx

from nnmagic.engine.relax.analysis.attribute_values import integer, integers
from nnmagic.engine.relax.legalize import dynamic_slices, reshaping, scalar_functions
from nnmagic.engine.relax.legalize.counted_results import argwhere, emit_dims, unique
from nnmagic.engine.relax.legalize.creation import arange, one_hot
from nnmagic.engine.relax.legalize.manipulation import broadcast_to
from nnmagic.engine.relax.legalize.padding import PAD_MODES, pad_to
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.sizes import is_nonnegative, maximum, simplify
from nnmagic.engine.relax.legalize.slicing import strided_set
from nnmagic.engine.relax.legalize.sorting import topk_of_count
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr
from nnmagic.relay.types import is_float


def _require_dims(call: OpCall, sizes: Sequence[Extent]) -> list[Extent]:
    """Return sizes that are dimensions; have the program raise ValueError for a negative one."""
    for size in sizes:
        if not is_nonnegative(size):
            call.require(as_expr(size) >= 0, "negative dimensions are not allowed")
    return list(sizes)


def _stack_scalars(parts: Sequence[PrimExpr]) -> Tensor:
    """Return a vector of int64 scalars."""

    def element(at: Index) -> PrimExpr:
        zero = tirx.const(0, "int64")
        first, *rest = [tirx.convert(scalar).astype("int64") for scalar in parts] or [zero]
        result: PrimExpr = first
        for i, scalar in enumerate(rest, 1):
            result = tirx.Select(at == i, scalar, result)
        return result

    return te.compute((len(parts),), element)


def _compute_dims(
    call: OpCall, function: Callable[..., Sequence[PrimExpr]], rank: int, *args: Value
) -> list[Extent]:
    """Compute dimensions by an expression of the operands."""
    return emit_dims(
        call, call.emit(call.te(lambda *tensors: _stack_scalars(function(*tensors)), *args)), rank
    )


def _first_element(call: OpCall, operand: Value, what: str) -> Callable[[Tensor], PrimExpr]:
    """Return a function that reads the first element of an operand; require that there is one."""
    shape = shape_of(operand)
    # Relay takes a tensor of any rank for a scalar here, and reads its first element.
    for dim in shape:
        call.require(tirx.convert(dim) > 0, f"{what} has no element")
    return lambda x: x(*(0 for _ in shape))


def _dims_from_operand(call: OpCall, position: int, axes: Sequence[int] | None = None) -> list[Extent]:
    """Return the dimensions of a shape that is an operand, or those of some axes."""
    shape = call.args[position]
    axes = range(shape_of(shape)[0]) if axes is None else axes
    if (known := call.elements(shape)) is not None:
        return _require_dims(call, [known[axis] for axis in axes])
    return _compute_dims(call, lambda x: [x(axis) for axis in axes], len(axes), shape)


def _zeros(call: OpCall) -> Value:
    dtype = str(call.attrs["dtype"])
    return relax.op.full(_dims_from_operand(call, 0), relax.const(0, dtype), dtype)


def _full(call: OpCall) -> Value:
    dims = _dims_from_operand(call, 1)
    dtype = str(call.attrs["dtype"]) or tensor_dtype(call.args[0])

    def compute(x: Tensor, shape: Sequence[Extent]) -> Tensor:
        return te.compute(shape, lambda *_at: x().astype(dtype))

    return call.te(compute, call.args[0], relax.ShapeExpr(dims))


def _reshape(call: OpCall) -> Value:
    """Reshape to an operand's values; 0 copies a dimension, -1 is inferred, -3 joins two."""
    data, wanted = call.args
    codes = call.elements(wanted)
    # The sizes are known as expressions: they become the shape itself, and no kernel computes it.
    if codes is not None and _are_codes(codes, allowzero=bool(call.attrs["allowzero"])):
        if -1 in [code for code in codes if isinstance(code, int)]:
            for code in codes:
                if not isinstance(code, int):
                    call.require(as_expr(code) > 0, "beside a dimension of 0 no other one can be inferred")
        return reshaping.reshape_by_codes(call, data, codes)
    rank = shape_of(wanted)[0]
    one, zero = tirx.const(1, "int64"), tirx.const(0, "int64")

    def sizes(x: Tensor, codes: Tensor) -> list[Extent]:
        given = []
        # Codes consume dimensions: -3 two of them, others one, so the position depends on the codes
        # before.
        at: PrimExpr = zero  # the dimension of the data that the next code is about
        for axis in range(rank):
            code = codes(axis).astype("int64")
            dim = _select_dim(x.shape, at)
            copied = zero if call.attrs["allowzero"] else dim
            joined = tirx.Select(code == -3, dim * _select_dim(x.shape, at + 1), code)
            given.append(tirx.Select(code == 0, copied, joined))
            at = at + tirx.Select(code == -3, one + one, one)
        static = reshaping.element_count([tirx.Select(size == -1, one, size) for size in given] or [one])
        # Dividing by a dimension of 0 would trap before the check below reports the shapes.
        rest = tirx.floordiv(reshaping.element_count(x.shape or [one]), tirx.max(static, 1))
        return [tirx.Select(size == -1, rest, size) for size in given]

    dims = _compute_dims(call, sizes, rank, data, wanted)
    call.require(reshaping.same_element_count(shape_of(data), dims), "the new shape has not as many elements")
    return reshaping.reshape_to(data, dims)


def _are_codes(codes: Sequence[Extent], *, allowzero: bool) -> bool:
    """Return whether sizes among the codes of a reshape mean themselves, whatever the sizes of a call are."""
    least = 0 if allowzero else 1
    return all(isinstance(code, int) or is_nonnegative(simplify(code - least)) for code in codes)


def _select_dim(dims: Sequence[Extent], axis: Index) -> PrimExpr:
    """Select the dimension of an axis that is known at run time only; 0 if there is no such axis."""
    size: PrimExpr = tirx.const(0, "int64")
    for i, dim in enumerate(dims):
        size = tirx.Select(axis == i, tirx.convert(dim).astype("int64"), size)
    return size


def _squeeze(call: OpCall) -> Value:
    data, axes = call.args
    rank, dropped = len(shape_of(data)), shape_of(axes)[0]
    if dropped == 0:
        return data

    def sizes(x: Tensor, named: Tensor) -> list[Extent]:
        is_dropped = []
        for axis in range(rank):
            # An axis may be named from the front or from the end.
            hits = [tirx.any(named(k) == axis, named(k) == axis - rank) for k in range(dropped)]
            is_dropped.append(tirx.any(*hits) if len(hits) > 1 else hits[0])
        result: list[PrimExpr] = [tirx.const(0, "int64")] * (rank - dropped)
        position: PrimExpr = tirx.const(0, "int64")
        for axis in range(rank):
            for out in range(rank - dropped):
                here = tirx.all(tirx.Not(is_dropped[axis]), position == out)
                result[out] = tirx.Select(here, x.shape[axis], result[out])
            step = tirx.Select(is_dropped[axis], tirx.const(0, "int64"), tirx.const(1, "int64"))
            position = position + step
        return result

    dims = _compute_dims(call, sizes, rank - dropped, data, axes)
    call.require(reshaping.same_element_count(shape_of(data), dims), "a squeezed dimension is not 1")
    return reshaping.reshape_to(data, dims)


def _tile(call: OpCall) -> Value:
    data, repeats = call.args
    own, rank = shape_of(data), shape_of(repeats)[0]
    result = max(len(own), rank)

    def sizes(x: Tensor, times: Tensor) -> list[Extent]:
        dims = [1] * (result - len(own)) + list(x.shape)
        return [
            dims[a] * (times(a - result + rank).astype("int64") if a >= result - rank else 1)
            for a in range(result)
        ]

    dims = _compute_dims(call, sizes, result, data, repeats)

    def compute(x: Tensor, shape: Sequence[Extent]) -> Tensor:
        skipped = result - len(own)
        return te.compute(
            shape,
            # An empty dimension gives an empty result, whose loop never runs; TVM still simplifies
            # its index.
            lambda *at: x(*(i % tirx.max(dim, 1) for i, dim in zip(at[skipped:], x.shape, strict=True))),
        )

    return call.te(compute, data, relax.ShapeExpr(dims))


def _one_hot(call: OpCall) -> Value:
    depth = call.args[3]
    first = _first_element(call, depth, "the depth")
    (size,) = _compute_dims(call, lambda x: [first(x)], 1, depth)
    return one_hot(call, size)


def _topk(call: OpCall) -> Value:
    """Lower to the first k of the sorted elements; for k < 1 to all."""
    data, k = call.args
    length = shape_of(data)[integer(call.attrs["axis"])]
    first = _first_element(call, k, "k")

    def count(x: Tensor, k: Tensor) -> list[Extent]:
        wanted = first(k)
        return [tirx.Select(wanted < 1, x.shape[integer(call.attrs["axis"])], wanted.astype("int64"))]

    (size,) = _compute_dims(call, count, 1, data, k)
    call.require(size <= length, "k is larger than the dimension")
    return topk_of_count(call, size)


def _pad(call: OpCall) -> Value:
    data, widths, fill = call.args
    mode = str(call.attrs["pad_mode"])
    if mode not in PAD_MODES:
        call.refuse(f"pad_mode must be one of {', '.join(PAD_MODES)}, not {mode!r}")
    own = shape_of(data)
    rank = len(own)
    if mode != "constant":
        call.require(tirx.all(*(tirx.convert(dim) > 0 for dim in own)), "there is no element to repeat")

    def sizes(x: Tensor, w: Tensor) -> list[Extent]:
        return [x.shape[a] + w(a, 0).astype("int64") + w(a, 1).astype("int64") for a in range(rank)]

    dims = _compute_dims(call, sizes, rank, data, widths)

    def compute(x: Tensor, w: Tensor, value: Tensor, shape: Sequence[Extent]) -> Tensor:
        before = [w(axis, 0).astype("int64") for axis in range(rank)]
        return pad_to(x, before, shape, mode, value())

    return call.te(compute, data, widths, fill, relax.ShapeExpr(dims))


def _strided_slice(call: OpCall) -> Value:
    """Lower to a slice whose bounds are operands."""
    data, *bounds = call.args
    by_size = call.attrs["slice_mode"] == "size"
    slices = dynamic_slices.resolve_slices(call, data, bounds, by_size=by_size)
    return dynamic_slices.take_slices(call, data, slices)


def _window(call: OpCall) -> Value:
    """Lower to the elements from computed positions on, which are in range."""
    data, begin, _ = call.args
    kept = integers(call.attrs["sizes"])
    axes = [axis for axis, size in enumerate(kept) if size == -2]
    lengths = dict(zip(axes, _dims_from_operand(call, 2, axes), strict=True)) if axes else {}
    return dynamic_slices.take_window(
        call, data, begin, [lengths.get(axis, size) for axis, size in enumerate(kept)]
    )


def _strided_set(call: OpCall) -> Value:
    """Replace the elements of a slice."""
    data, values, *bounds = call.args
    if not any(isinstance(bound, relax.Var) for bound in bounds):
        return strided_set(call)
    return dynamic_slices.set_slices(call, data, values, dynamic_slices.resolve_slices(call, data, bounds))


def _count_of_sizes(call: OpCall) -> tuple[Extent, Extent, int] | None:
    """Return the start, the number and the step of whole numbers whose ends are sizes; None for others."""
    ends = [call.elements(arg) for arg in call.args]
    if any(end is None or len(end) != 1 for end in ends):
        return None
    start, stop, step = (end[0] for end in ends if end is not None)
    if not isinstance(step, int) or step == 0:
        return None
    if start == 0 and step == 1 and isinstance(stop, tirx.Var):
        return start, stop, step
    count = -tirx.floordiv(as_expr(start) - as_expr(stop), tirx.const(step, "int64"))
    return start, maximum(simplify(count), 0), step


def _distance(low: PrimExpr, high: PrimExpr) -> PrimExpr:
    """Return ``high - low`` of two int64, at least 0; a difference beyond them is the largest of them."""
    half = (high >> 1) - (low >> 1)
    distance = tirx.Select(half >= 1 << 62, tirx.max_value("int64"), high - low)
    return tirx.Select(high > low, distance, tirx.const(0, "int64"))


def _arange(call: OpCall) -> Value:
    """Lower ``arange``; computed operands keep their fractions, as constants do, which Relay would drop."""
    if not any(isinstance(arg, relax.Var) for arg in call.args):
        return arange(call)
    dtype = str(call.attrs["dtype"])
    wide = "float64" if is_float(dtype) else "int64"
    static_count = None if is_float(dtype) else _count_of_sizes(call)
    if static_count is not None:
        first, size, by = static_count

        def count(shape: Sequence[Extent], start: Sequence[Extent]) -> Tensor:
            return te.compute(shape, lambda i: (as_expr(start[0]) + i * by).astype(dtype))

        return call.te(count, relax.ShapeExpr([size]), relax.ShapeExpr([first]))
    steps = None if is_float(dtype) else call.elements(call.args[2])
    if steps and isinstance(steps[0], int) and steps[0]:
        by = steps[0]

        def size_by_known_step(*bounds: Tensor) -> list[Extent]:
            low, high = (bound().astype(wide) for bound in (bounds[:2] if by > 0 else bounds[1::-1]))
            return [tirx.max(tirx.floordiv(_distance(low, high) - 1, abs(by)) + 1, tirx.const(0, wide))]

        (size,) = _compute_dims(call, size_by_known_step, 1, *call.args)
    else:

        def sizes(*bounds: Tensor) -> list[Extent]:
            start, stop, step = (bound().astype(wide) for bound in bounds)
            zero = scalar_functions.constant(0, step)
            divisor = tirx.Select(step == zero, scalar_functions.constant(1, step), step)
            if wide == "float64":
                length = tirx.ceil((stop - start) / divisor)
            else:
                is_up = divisor > scalar_functions.constant(0, divisor)
                low, high = tirx.Select(is_up, start, stop), tirx.Select(is_up, stop, start)
                length = tirx.floordiv(_distance(low, high) - 1, tirx.max(divisor, -divisor)) + 1
            return [tirx.max(length.astype("int64"), tirx.const(0, "int64")), step == zero]

        size, no_step = _compute_dims(call, sizes, 2, *call.args)
        call.require(no_step == 0, "the step must not be 0")

    def compute(start: Tensor, _stop: Tensor, step: Tensor, shape: Sequence[Extent]) -> Tensor:
        return te.compute(shape, lambda i: (start() + i.astype(step.dtype) * step()).astype(dtype))

    return call.te(compute, *call.args, relax.ShapeExpr([size]))


RULES.update(
    {
        "arange": _arange,
        "argwhere": argwhere,
        "strided_set": _strided_set,
        "unique": unique,
        "dyn.zeros": _zeros,
        "dyn.full": _full,
        "dyn.broadcast_to": lambda call: broadcast_to(call, _dims_from_operand(call, 1)),
        "dyn.reshape": _reshape,
        "dyn.squeeze": _squeeze,
        "dyn.tile": _tile,
        "dyn.one_hot": _one_hot,
        "dyn.topk": _topk,
        "dyn.nn.pad": _pad,
        "dyn.strided_slice": _strided_slice,
        "python.window": _window,
    }
)
