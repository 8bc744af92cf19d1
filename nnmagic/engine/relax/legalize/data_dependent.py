"""Operators whose result has a shape that depends on values: argwhere, unique, arange and Relay's ``dyn.*``.

A kernel computes the dimensions, they become symbolic variables, and a second kernel computes the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.creation import arange
from nnmagic.engine.relax.legalize.manipulation import (
    PAD_MODES,
    broadcast_to,
    in_shape,
    product,
    repeated,
    same_number,
    strided_set,
)
from nnmagic.engine.relax.legalize.reduction import scan
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, attr_dtype, shape_of
from nnmagic.engine.relax.legalize.sorting import order as order_of
from nnmagic.relay.types import is_float


def dims_of(site: OpCall, vector: Value, rank: int) -> list[Any]:
    """The elements of an int64 vector as dimensions."""
    shape = site.emit(relax.op.tensor_to_shape(vector))
    variables = [tirx.Var(f"size{axis}", "int64") for axis in range(rank)]
    site.match_cast(shape, relax.ShapeType(variables))
    for variable in variables:
        site.require(variable >= 0, "a dimension is negative")
    return variables


def _vector(parts: Sequence[Any]) -> Any:
    """A TE vector of int64 scalars."""

    def element(at: Any) -> Any:
        found: Any = tirx.const(0, "int64")
        for place, part in enumerate(parts):
            found = tirx.Select(at == place, tirx.convert(part).astype("int64"), found)
        return found

    return te.compute((len(parts),), element)


def _sized(site: OpCall, function: Callable[..., Sequence[Any]], rank: int, *args: Value) -> list[Any]:
    """Dimensions that an expression of the operands gives."""
    return dims_of(site, site.emit(site.te(lambda *tensors: _vector(function(*tensors)), *args)), rank)


def _first(site: OpCall, operand: Value, what: str) -> Callable[[Any], Any]:
    """What reads the first element of an operand, which must have one."""
    own = shape_of(operand)
    for dim in own:
        site.require(tirx.convert(dim) > 0, f"{what} has no element")
    return lambda x: x(*(0 for _ in own))


def _from_tensor(site: OpCall, place: int) -> list[Any]:
    """A shape that is an operand."""
    shape = site.args[place]
    rank = shape_of(shape)[0]
    return _sized(site, lambda x: [x(axis) for axis in range(rank)], rank, shape)


def _zeros(site: OpCall) -> Value:
    dtype = str(site.attrs["dtype"])
    return relax.op.full(_from_tensor(site, 0), relax.const(0, dtype), dtype)


def _full(site: OpCall) -> Value:
    dims = _from_tensor(site, 1)
    dtype = str(site.attrs["dtype"]) or attr_dtype(site.args[0])

    def compute(x: Any, shape: Any) -> Any:
        return te.compute(shape, lambda *_at: x().astype(dtype))

    return site.te(compute, site.args[0], relax.ShapeExpr(dims))


def _broadcast_to(site: OpCall) -> Value:
    return broadcast_to(site, _from_tensor(site, 1))


def _reshape(site: OpCall) -> Value:
    """To a shape that is an operand; 0 copies a dimension, -1 is inferred, -3 joins two."""
    data, wanted = site.args
    rank = shape_of(wanted)[0]
    one, zero = tirx.const(1, "int64"), tirx.const(0, "int64")

    def sizes(x: Any, codes: Any) -> list[Any]:
        given = []
        at: Any = zero  # the dimension of the data that the next code is about
        for axis in range(rank):
            code = codes(axis).astype("int64")
            own = _picked(x.shape, at)
            copied = zero if site.attrs["allowzero"] else own
            joined = tirx.Select(code == -3, own * _picked(x.shape, at + 1), code)
            given.append(tirx.Select(code == 0, copied, joined))
            at = at + tirx.Select(code == -3, one + one, one)
        known = product([tirx.Select(size == -1, one, size) for size in given] or [one])
        rest = tirx.floordiv(product(x.shape or [one]), tirx.max(known, 1))
        return [tirx.Select(size == -1, rest, size) for size in given]

    dims = _sized(site, sizes, rank, data, wanted)
    site.require(same_number(shape_of(data), dims), "the new shape has not as many elements")
    return in_shape(data, dims)


def _picked(dims: Sequence[Any], place: Any) -> Any:
    """The dimension at a place that only the kernel knows; 0 where there is none."""
    found: Any = tirx.const(0, "int64")
    for axis, dim in enumerate(dims):
        found = tirx.Select(place == axis, tirx.convert(dim).astype("int64"), found)
    return found


def _squeeze(site: OpCall) -> Value:
    data, axes = site.args
    rank, dropped = len(shape_of(data)), shape_of(axes)[0]
    if dropped == 0:
        return data

    def sizes(x: Any, named: Any) -> list[Any]:
        gone = []
        for axis in range(rank):
            hits = [tirx.any(named(k) == axis, named(k) == axis - rank) for k in range(dropped)]
            gone.append(tirx.any(*hits) if len(hits) > 1 else hits[0])
        result: list[Any] = [tirx.const(0, "int64")] * (rank - dropped)
        place: Any = tirx.const(0, "int64")
        for axis in range(rank):
            for out in range(rank - dropped):
                here = tirx.all(tirx.Not(gone[axis]), place == out)
                result[out] = tirx.Select(here, x.shape[axis], result[out])
            place = place + tirx.Select(gone[axis], tirx.const(0, "int64"), tirx.const(1, "int64"))
        return result

    dims = _sized(site, sizes, rank - dropped, data, axes)
    site.require(same_number(shape_of(data), dims), "a squeezed dimension is not 1")
    return in_shape(data, dims)


def _tile(site: OpCall) -> Value:
    data, repeats = site.args
    own, rank = shape_of(data), shape_of(repeats)[0]
    result = max(len(own), rank)

    def sizes(x: Any, times: Any) -> list[Any]:
        dims = [1] * (result - len(own)) + list(x.shape)
        return [
            dims[a] * (times(a - result + rank).astype("int64") if a >= result - rank else 1)
            for a in range(result)
        ]

    dims = _sized(site, sizes, result, data, repeats)

    def compute(x: Any, shape: Any) -> Any:
        skipped = result - len(own)
        return te.compute(
            shape,
            lambda *at: x(*(i % tirx.max(dim, 1) for i, dim in zip(at[skipped:], x.shape, strict=True))),
        )

    return site.te(compute, data, relax.ShapeExpr(dims))


def _one_hot(site: OpCall) -> Value:
    indices, on, off, depth = site.args
    axis, dtype = integer(site.attrs["axis"]), str(site.attrs["dtype"])
    first = _first(site, depth, "the depth")
    (size,) = _sized(site, lambda x: [first(x)], 1, depth)
    own = shape_of(indices)
    place = axis % (len(own) + 1)

    def compute(x: Any, hot: Any, cold: Any, shape: Any) -> Any:
        def element(*at: Any) -> Any:
            chosen = x(*at[:place], *at[place + 1 :]).astype("int64") == at[place]
            return tirx.Select(chosen, hot().astype(dtype), cold().astype(dtype))

        return te.compute(shape, element)

    return site.te(compute, indices, on, off, relax.ShapeExpr([*own[:place], size, *own[place:]]))


def _topk(site: OpCall) -> Value:
    """The first k of everything sorted; for k < 1 all."""
    data, k = site.args
    attrs = site.attrs
    own = shape_of(data)
    axis = integer(attrs["axis"]) % len(own)
    ascending, dtype = bool(attrs["is_ascend"]), str(attrs["dtype"])
    first = _first(site, k, "k")

    def length(x: Any, k: Any) -> list[Any]:
        wanted = first(k)
        return [tirx.Select(wanted < 1, x.shape[axis], wanted.astype("int64"))]

    (size,) = _sized(site, length, 1, data, k)
    dims = relax.ShapeExpr([*own[:axis], size, *own[axis + 1 :]])
    site.require(size <= own[axis], "k is larger than the dimension")
    order = site.emit(site.te(lambda x: order_of(x, axis, ascending=ascending, dtype=dtype), data))

    def values(x: Any, places: Any, shape: Any) -> Any:
        return te.compute(shape, lambda *at: x(*at[:axis], places(*at).astype("int64"), *at[axis + 1 :]))

    def places(all_places: Any, shape: Any) -> Any:
        return te.compute(shape, lambda *at: all_places(*at))  # noqa: PLW0108 - TVM counts a function's arguments

    kind = attrs["ret_type"]
    if kind == "indices":
        return site.te(places, order, dims)
    largest = site.te(values, data, order, dims)
    return largest if kind == "values" else (site.emit(largest), site.emit(site.te(places, order, dims)))


def _pad(site: OpCall) -> Value:
    data, widths, fill = site.args
    mode = str(site.attrs["pad_mode"])
    if mode not in PAD_MODES:
        site.refuse(f"pad_mode must be one of {', '.join(PAD_MODES)}, not {mode!r}")
    own = shape_of(data)
    rank = len(own)
    if mode != "constant":
        site.require(tirx.all(*(tirx.convert(dim) > 0 for dim in own)), "there is no element to repeat")

    def sizes(x: Any, w: Any) -> list[Any]:
        return [x.shape[a] + w(a, 0).astype("int64") + w(a, 1).astype("int64") for a in range(rank)]

    dims = _sized(site, sizes, rank, data, widths)

    def compute(x: Any, w: Any, value: Any, shape: Any) -> Any:
        def element(*at: Any) -> Any:
            where = [place - w(a, 0).astype("int64") for a, place in enumerate(at)]
            if mode != "constant":
                return x(*(repeated(one, dim, mode) for one, dim in zip(where, x.shape, strict=True)))
            inside = [tirx.all(place >= 0, place < dim) for place, dim in zip(where, x.shape, strict=True)]
            return tirx.if_then_else(tirx.all(*inside), x(*where), value().astype(x.dtype))

        return te.compute(shape, element)

    return site.te(compute, data, widths, fill, relax.ShapeExpr(dims))


def _spans(
    shape: Sequence[Any], begin: Any, end: Any, strides: Any, *, by_size: bool = False
) -> list[tuple[Any, Any, Any]]:
    """Start, length and step of the slice ``begin:end:strides`` in every dimension, clamped to the data.

    The first axes are sliced that ``begin`` has numbers for. ``by_size``: ``end`` is how many (-1: all).
    """
    one, zero = tirx.const(1, "int64"), tirx.const(0, "int64")
    count, steps = int(begin.shape[0]), int(strides.shape[0])
    found = []
    for axis, length in enumerate(shape):
        dim: Any = tirx.convert(length).astype("int64")
        if axis >= count:
            found.append((zero, dim, one))
            continue
        by = one if by_size or axis >= steps else strides(axis).astype("int64")
        low, high = tirx.Select(by > 0, zero, -one), tirx.Select(by > 0, dim, dim - 1)
        start, stop = begin(axis).astype("int64"), end(axis).astype("int64")
        if by_size:
            stop = tirx.Select(stop < 0, dim, tirx.Select(start < 0, start + dim, start) + stop)
        start, stop = (
            tirx.max(low, tirx.min(high, tirx.Select(bound < 0, bound + dim, bound)))
            for bound in (start, stop)
        )
        distance = tirx.Select(by > 0, stop - start, start - stop)
        size = tirx.max(tirx.abs(by), one)
        found.append((start, tirx.max(tirx.floordiv(distance + size - 1, size), zero), by))
    return found


def _strided_slice(site: OpCall) -> Value:
    """A part of the data whose bounds are operands."""
    by_size = site.attrs["slice_mode"] == "size"
    rank = len(shape_of(site.args[0]))

    def sizes(x: Any, *bounds: Any) -> list[Any]:
        return [length for _, length, _ in _spans(x.shape, *bounds, by_size=by_size)]

    dims = _sized(site, sizes, rank, *site.args)

    def compute(x: Any, begin: Any, end: Any, strides: Any, shape: Any) -> Any:
        spans = _spans(x.shape, begin, end, strides, by_size=by_size)
        return te.compute(
            shape, lambda *at: x(*(start + i * by for i, (start, _, by) in zip(at, spans, strict=True)))
        )

    return site.te(compute, *site.args, relax.ShapeExpr(dims))


def _strided_set(site: OpCall) -> Value:
    """The data with the elements that a slice names replaced."""
    data, values, *bounds = site.args
    if not any(isinstance(bound, relax.Var) for bound in bounds):
        return strided_set(site)
    rank = len(shape_of(data))
    dims = _sized(
        site, lambda x, *given: [length for _, length, _ in _spans(x.shape, *given)], rank, data, *bounds
    )
    for given, length in zip(shape_of(values), dims, strict=True):
        site.require(given == length, "the values have not the shape of the slice")

    def compute(x: Any, new: Any, begin: Any, end: Any, strides: Any) -> Any:
        spans = _spans(x.shape, begin, end, strides)

        def element(*at: Any) -> Any:
            places, inside = [], []
            for index, (start, length, by) in zip(at, spans, strict=True):
                away = tirx.Select(by > 0, index - start, start - index)
                step = tirx.max(tirx.abs(by), tirx.const(1, "int64"))
                place = tirx.floordiv(away, step)
                places.append(place)
                inside.append(tirx.all(away >= 0, tirx.floormod(away, step) == 0, place < length))
            return tirx.if_then_else(tirx.all(*inside), new(*places), x(*at))

        return te.compute(x.shape, element)

    return site.te(compute, data, values, *bounds)


def _running_sum(x: Any) -> Any:
    """Sums of the elements up to each one. (TVM's own writes an element where there is none.)"""
    return scan(lambda a, b: a + b, 0, x, 0, x.dtype, exclusive=False)


def _counted(x: Any) -> Any:
    """How many elements of the flat data are true or not zero, up to and with each."""
    one, none = tirx.const(1, "int64"), tirx.const(0, "int64")
    ones = te.compute(x.shape, lambda i: tirx.Select(scalar_functions.is_true(x(i)), one, none))
    return _running_sum(ones)


def _argwhere(site: OpCall) -> Value:
    """The places of the elements that are not zero, in order."""
    (condition,) = site.args
    own = shape_of(condition)
    total: Any = 1
    for dim in own:
        total = total * dim
    flat = site.emit(site.te(lambda x: topi.reshape(x, [total]), condition))
    counts = site.emit(site.te(_counted, flat))

    def length(x: Any) -> list[Any]:
        last = tirx.max(x.shape[0] - 1, 0)
        return [tirx.if_then_else(x.shape[0] > 0, x(last), tirx.const(0, "int64"))]

    (size,) = _sized(site, length, 1, counts)

    def compute(x: Any, dims: Any, rows: Any) -> Any:
        wanted = te.compute(rows, lambda row: row.astype("int64") + 1)
        flat_places = topi.searchsorted(x, wanted, right=False, out_dtype="int64")

        def element(row: Any, axis: Any) -> Any:
            place: Any = flat_places(row)
            found: Any = tirx.const(0, "int64")
            for one in reversed(range(len(own))):
                length = tirx.max(dims[one], tirx.const(1, "int64"))
                found = tirx.Select(axis == one, tirx.floormod(place, length), found)
                place = tirx.floordiv(place, length)
            return found.astype("int32")

        return te.compute((*rows, len(own)), element)

    return site.te(compute, counts, relax.ShapeExpr(own), relax.ShapeExpr([size]))


def _ranks(x: Any, places: Any) -> Any:
    """Which of the sorted unique elements each element of the sorted data is."""
    one, none = tirx.const(1, "int32"), tirx.const(0, "int32")

    def step(i: Any) -> Any:
        before = places(tirx.max(i - 1, 0))
        return tirx.Select(tirx.all(i > 0, scalar_functions.not_equal(x(places(i)), x(before))), one, none)

    return _running_sum(te.compute(x.shape, step))


def _unique(site: OpCall) -> Value:
    """Unique elements, where each first stands, which one each element is, their number, and counts.

    They are in order, or as they first stand in the data. As in Relay the results are as long as the data;
    behind the unique elements they are 0.
    """
    (data,) = site.args
    counted, in_order = bool(site.attrs["return_counts"]), bool(site.attrs["sorted"])
    order = site.emit(site.te(lambda x: order_of(x, 0, ascending=True), data))
    rank = site.emit(site.te(_ranks, data, order))

    def compute(x: Any, places: Any, group: Any) -> Any:
        (size,) = x.shape
        last = tirx.max(size - 1, 0)
        every = te.compute((size,), lambda i: i.astype("int32"))
        first = topi.searchsorted(group, every, right=False, out_dtype="int32")
        end = topi.searchsorted(group, every, right=True, out_dtype="int32")
        number = te.compute(
            (1,), lambda _i: tirx.if_then_else(size > 0, group(last) + 1, tirx.const(0, "int32"))
        )
        inverse = topi.scatter_elements(every, places, group, 0, "update")

        def bounded(i: Any) -> Any:
            return tirx.min(i, last.astype("int32"))

        kinds = every  # which of the ordered unique elements the results tell of
        if not in_order:
            lead = te.compute((size,), lambda i: places(first(inverse(i))))
            is_lead = te.compute((size,), lambda i: (lead(i) == i).astype("int32"))
            seen = _running_sum(is_lead)
            wanted = te.compute((size,), lambda i: i.astype("int32") + 1)
            leads = topi.searchsorted(seen, wanted, right=False, out_dtype="int32")
            kinds = te.compute((size,), lambda i: inverse(bounded(leads(i))))
            inverse = te.compute((size,), lambda i: seen(lead(i)) - 1)

        def within(i: Any, value: Any) -> Any:
            return tirx.if_then_else(i < number(0), value, scalar_functions.constant(0, value))

        starts = te.compute((size,), lambda i: within(i, places(bounded(first(kinds(i))))))
        elements = te.compute((size,), lambda i: within(i, x(places(bounded(first(kinds(i)))))))
        counts = te.compute((size,), lambda i: within(i, end(kinds(i)) - first(kinds(i))))
        return [elements, starts, inverse, number, *([counts] if counted else [])]

    return site.te(compute, data, order, rank)


def _arange(site: OpCall) -> Value:
    """From start to stop, without it. As with constants, where Relay drops the fractions of others."""
    if not any(isinstance(arg, relax.Var) for arg in site.args):
        return arange(site)
    dtype = str(site.attrs["dtype"])
    wide = "float64" if is_float(dtype) else "int64"

    def sizes(*bounds: Any) -> list[Any]:
        start, stop, step = (bound().astype(wide) for bound in bounds)
        zero = scalar_functions.constant(0, step)
        by = tirx.Select(step == zero, scalar_functions.constant(1, step), step)
        length = tirx.ceil((stop - start) / by) if wide == "float64" else -tirx.floordiv(start - stop, by)
        return [tirx.max(length.astype("int64"), tirx.const(0, "int64")), step == zero]

    size, no_step = _sized(site, sizes, 2, *site.args)
    site.require(no_step == 0, "the step must not be 0")

    def compute(start: Any, _stop: Any, step: Any, shape: Any) -> Any:
        return te.compute(shape, lambda i: (start() + i.astype(step.dtype) * step()).astype(dtype))

    return site.te(compute, *site.args, relax.ShapeExpr([size]))


RULES.update(
    {
        "arange": _arange,
        "argwhere": _argwhere,
        "strided_set": _strided_set,
        "unique": _unique,
        "dyn.zeros": _zeros,
        "dyn.full": _full,
        "dyn.broadcast_to": _broadcast_to,
        "dyn.reshape": _reshape,
        "dyn.squeeze": _squeeze,
        "dyn.tile": _tile,
        "dyn.one_hot": _one_hot,
        "dyn.topk": _topk,
        "dyn.nn.pad": _pad,
        "dyn.strided_slice": _strided_slice,
    }
)
