"""Reductions and scans along axes.

Sums of float16 and bfloat16 are accumulated in float32. What a reduction over no elements gives: sum 0,
product 1, all True, any False, mean and variance NaN, max and min the dtype's lowest and highest (floats:
-inf and inf), argmax and argmin -1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import te, tirx, topi
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812  # the name that TVM gives it everywhere

from nnmagic.engine.relax.analysis.attribute_values import integer, integers
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.binary import broadcast
from nnmagic.engine.relax.legalize.manipulation import product
from nnmagic.engine.relax.legalize.registry import OPAQUE, RULES, OpCall, Rule, Value, attr_dtype, te_of
from nnmagic.engine.relax.schedules.reduction.analysis import PLACE
from nnmagic.engine.relax.schedules.reduction.argreduce import keeps
from nnmagic.relay.expr import Attrs, Call
from nnmagic.relay.types import TensorType, is_float

_NARROW = ("float16", "bfloat16")


def axes_of(axis: object, rank: int, *, exclude: bool = False) -> list[int]:
    """The axes of a reduction, not negative and in order; None is all of them, ``exclude`` all others."""
    given = range(rank) if axis is None else integers(axis)
    named = {one % rank if rank else 0 for one in given}
    return [one for one in range(rank) if (one in named) != (exclude and axis is not None)]


def reduce(
    function: Callable[..., Any],
    data: Any,
    axes: Sequence[int],
    *,
    keepdims: bool = False,
    attrs: Mapping[str, str] | None = None,
) -> Any:
    """The tensor of ``function(elements, reduction axes)``, where ``elements`` are those of one result."""
    spans = {axis: te.reduce_axis((0, data.shape[axis]), f"k{axis}") for axis in axes}
    kept = [axis for axis in range(len(data.shape)) if axis not in spans]
    shape = [1 if axis in spans else data.shape[axis] for axis in range(len(data.shape))]
    result = shape if keepdims else [data.shape[axis] for axis in kept]

    def element(*index: Any) -> Any:
        outer = dict(zip(range(len(shape)) if keepdims else kept, index, strict=True))
        where = [spans[axis].var if axis in spans else outer[axis] for axis in range(len(shape))]
        return function(where, list(spans.values()))

    return te.compute(result, element, attrs=attrs)


def lowest(dtype: str) -> Any:
    """What is below every number of a dtype: the largest element where there is none."""
    if dtype == "bool":
        return tirx.const(0, dtype)
    return tirx.const(float("-inf"), dtype) if is_float(dtype) else tirx.min_value(dtype)


def _highest(dtype: str) -> Any:
    if dtype == "bool":
        return tirx.const(1, dtype)
    return tirx.const(float("inf"), dtype) if is_float(dtype) else tirx.max_value(dtype)


#: The largest element; NaN where there is one.
MAX = te.comm_reducer(scalar_functions.maximum, lowest)
_MIN = te.comm_reducer(scalar_functions.minimum, _highest)
_PRODUCT = te.comm_reducer(lambda a, b: a * b, lambda dtype: tirx.const(1, dtype))
_ALL = te.comm_reducer(lambda a, b: tirx.And(a, b), lambda dtype: tirx.const(1, dtype))  # noqa: PLW0108 - TVM reads its parameters' names
_ANY = te.comm_reducer(lambda a, b: tirx.Or(a, b), lambda dtype: tirx.const(0, dtype))  # noqa: PLW0108 - the same


def _axes(attrs: Attrs, data: Any) -> list[int]:
    return axes_of(attrs["axis"], len(data.shape), exclude=bool(attrs["exclude"]))


def reduction(reducer: Callable[..., Any]) -> Rule:
    """A reduction by a TE reducer, over the attributes ``axis``, ``keepdims`` and ``exclude``."""

    def compute(attrs: Attrs, data: Any) -> Any:
        axes = _axes(attrs, data)
        if not axes:
            return topi.identity(data)
        return reduce(
            lambda where, spans: reducer(data(*where), axis=spans),
            data,
            axes,
            keepdims=bool(attrs["keepdims"]),
        )

    return te_of(compute)


def total(data: Any, axes: Sequence[int], *, keepdims: bool = False, reducer: Any = te.sum) -> Any:
    """The sum (or product) along axes, accumulated in float32 where the dtype is narrower."""
    if not axes:
        return topi.identity(data)
    wide = "float32" if data.dtype in _NARROW else data.dtype
    found = reduce(
        lambda where, spans: reducer(data(*where).astype(wide), axis=spans), data, axes, keepdims=keepdims
    )
    return found if wide == data.dtype else topi.cast(found, data.dtype)


def count(data: Any, axes: Sequence[int]) -> Any:
    """How many elements one result is made of."""
    number: Any = tirx.const(1, "int64")
    for axis in axes:
        number = number * data.shape[axis]
    return number


def mean(data: Any, axes: Sequence[int], *, keepdims: bool = False) -> Any:
    """The mean along axes in the data's dtype; of integers it is truncated, as in Relay."""
    return _shared(total(data, axes, keepdims=keepdims), count(data, axes))


def _shared(sums: Any, number: Any) -> Any:
    """Sums divided by how many elements they are of; NaN where that is none (integers: 0)."""
    dtype = scalar_functions.dtype_of(sums)
    if getattr(number, "value", 1) == 0:
        return topi.full(sums.shape, dtype, float("nan") if is_float(dtype) else 0)
    return te.compute(sums.shape, lambda *index: scalar_functions.divide(sums(*index), number.astype(dtype)))


def _summed(reducer: Any, of_bools: Any) -> Rule:
    bools = reduction(of_bools)

    def compute(attrs: Attrs, data: Any) -> Any:
        axes = _axes(attrs, data)
        return total(data, axes, keepdims=bool(attrs["keepdims"]), reducer=reducer)

    numbers = te_of(compute)
    return lambda site: (bools if attr_dtype(site.args[0]) == "bool" else numbers)(site)


def _mean(attrs: Attrs, data: Any) -> Any:
    return mean(data, _axes(attrs, data), keepdims=bool(attrs["keepdims"]))


def _variance(site: OpCall) -> Value:
    """Around a mean of the same data both are one kernel, in which a row is read from memory once."""
    center = site.call.args[1]
    if (
        isinstance(center, Call)
        and getattr(center.op, "name", "") == "mean"
        and center.args[0] is site.call.args[0]
        and bool(center.attrs["keepdims"])
    ):

        def whole(data: Any) -> Any:
            return _mean_square_distance(site.attrs, data, _mean(center.attrs, data))

        return site.te(whole, site.args[0])
    return site.te(lambda *tensors: _mean_square_distance(site.attrs, *tensors), *site.args)


def _mean_square_distance(attrs: Attrs, data: Any, center: Any) -> Any:
    """From ``center``, which has the data's rank."""
    axes = _axes(attrs, data)
    distance = broadcast(lambda x, middle: x - middle, data, center)
    squares = topi.multiply(distance, distance)
    number = count(data, axes)
    if attrs["unbiased"]:
        number = tirx.max(number, tirx.const(1, "int64")) - 1  # of no elements NaN, not 0 / -1
    sums = total(squares, axes, keepdims=bool(attrs["keepdims"]))
    return _shared(sums, number)


def _reducer(place: str) -> Any:
    """A reducer of (index, value) pairs: where the best value stands first or last; a NaN is the best."""

    def combine(left: Any, right: Any) -> Any:
        (i, a), (j, b) = left, right
        keep = tirx.any(j < 0, tirx.all(i >= 0, keeps(place, i, a, j, b)))  # -1: nothing was seen yet
        return tirx.Select(keep, i, j), tirx.Select(keep, a, b)

    return te.comm_reducer(combine, lambda i, value: (tirx.const(-1, i), tirx.const(0, value)))


def _argument(name: str) -> Rule:
    def compute(attrs: Attrs, data: Any) -> Any:
        axes = _axes(attrs, data)
        place = f"{name}_{'last' if attrs['select_last_index'] else 'first'}"
        reducer = _reducer(place)
        if data.dtype in _NARROW:
            data = topi.cast(data, "float32")

        def element(where: Sequence[Any], spans: Sequence[Any]) -> Any:
            flat: Any = tirx.const(0, "int64")
            for axis, span in zip(axes, spans, strict=True):
                flat = flat * data.shape[axis] + span.var
            return reducer((flat.astype("int32"), data(*where)), axis=list(spans))

        if not axes:
            return topi.full(data.shape, "int32", 0)
        return reduce(element, data, axes, keepdims=bool(attrs["keepdims"]), attrs={PLACE: place})[0]

    return te_of(compute)


def _scan(combine: Callable[[Any, Any], Any], start: int) -> Rule:
    """What ``combine`` makes of all elements up to each one, or before each one, along an axis."""

    def rule(site: OpCall) -> Value:
        axis, exclusive = site.attrs["axis"], bool(site.attrs["exclusive"])
        result = site.call.checked_type
        assert isinstance(result, TensorType)

        def compute(data: Any) -> Any:
            flat = topi.reshape(data, [product(data.shape)]) if axis is None else data
            return scan(combine, start, flat, integer(axis or 0), result.dtype, exclusive)

        # Opaque: TVM's fusion does not follow what a loop nest of our own reads.
        return site.te(compute, *site.args, primfunc_attrs={"op_pattern": OPAQUE})

    return rule


def scan(
    combine: Callable[[Any, Any], Any], start: int, data: Any, axis: int, dtype: str, exclusive: bool
) -> Any:
    """A scan as a tensor expression; it starts with ``start`` and is computed in ``dtype``."""
    axis %= len(data.shape)

    def kernel(source: Any, target: Any) -> Any:
        with IRBuilder() as builder:
            with T.grid(*data.shape) as places:
                at = [places] if isinstance(places, tirx.Var) else list(places)
                before = [*at[:axis], at[axis] - 1, *at[axis + 1 :]]
                element = source[tuple(before if exclusive else at)].astype(dtype)
                first = tirx.const(start, dtype) if exclusive else element
                value = tirx.if_then_else(at[axis] > 0, combine(target[tuple(before)], element), first)
                T.buffer_store(target, value, at)
            return builder.get()

    buffers = [
        tirx.decl_buffer(data.shape, kind, name) for kind, name in ((data.dtype, "x"), (dtype, "found"))
    ]
    return te.extern(
        [data.shape],
        [data],
        lambda ins, outs: kernel(ins[0], outs[0]),
        dtype=dtype,
        in_buffers=buffers[:1],
        out_buffers=buffers[1:],
        name="scan",
    )


RULES.update(
    {
        "sum": _summed(te.sum, _ANY),
        "prod": _summed(_PRODUCT, _ALL),
        "max": reduction(MAX),
        "min": reduction(_MIN),
        "all": reduction(_ALL),
        "any": reduction(_ANY),
        "mean": te_of(_mean),
        "variance": _variance,
        "argmax": _argument("max"),
        "argmin": _argument("min"),
        "cumsum": _scan(lambda a, b: tirx.any(a, b) if scalar_functions.dtype_of(a) == "bool" else a + b, 0),
        "cumprod": _scan(lambda a, b: tirx.all(a, b) if scalar_functions.dtype_of(a) == "bool" else a * b, 1),
    }
)
