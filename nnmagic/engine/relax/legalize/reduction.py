"""Legalize reductions and scans along axes.

Sums of float16 and bfloat16 are accumulated in float32. Reductions over no elements give: sum 0,
product 1, all True, any False, mean and variance NaN, max and min the dtype's lowest and highest (floats:
-inf and inf), argmax and argmin -1.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tvm import sym, te, tirx, topi
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812 - TVM's own name for its builder

from nnmagic.engine.relax.analysis.attribute_values import integer, integers
from nnmagic.engine.relax.legalize import registry, scalar_functions
from nnmagic.engine.relax.legalize.binary import broadcast
from nnmagic.engine.relax.legalize.extern_loops import grid
from nnmagic.engine.relax.legalize.reshaping import element_count
from nnmagic.engine.relax.legalize.types import ElementFunction, ReduceAxis, Reducer, Tensor
from nnmagic.engine.relax.schedules.reduction.analysis import TIE_RULE
from nnmagic.engine.relax.schedules.reduction.argreduce import keeps_first
from nnmagic.engine.relax.tir.builders import as_expr, static_int
from nnmagic.engine.relax.tir.strict_float import hidden_zero
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt
from nnmagic.relay.expr import Attrs, Call
from nnmagic.relay.types import is_float


def axes_of(axis: object, rank: int, *, exclude: bool = False) -> list[int]:
    """Return the axes of a reduction, not negative and in order.

    Without ``axis`` these are all axes; with ``exclude`` those that ``axis`` does not have.
    """
    given = range(rank) if axis is None else integers(axis)
    chosen = {a % rank if rank else 0 for a in given}
    return [a for a in range(rank) if (a in chosen) != (exclude and axis is not None)]


def reduce(
    function: Callable[[list[Index], list[ReduceAxis]], PrimExpr],
    data: Tensor,
    axes: Sequence[int],
    *,
    keepdims: bool = False,
    attrs: Mapping[str, str] | None = None,
) -> Tensor:
    """Reduce along axes by ``function(index, reduction axes)``, with the index of an element of the data."""
    reduce_axes = {axis: te.reduce_axis((0, data.shape[axis]), f"k{axis}") for axis in axes}
    kept = [axis for axis in range(len(data.shape)) if axis not in reduce_axes]
    shape = [1 if axis in reduce_axes else data.shape[axis] for axis in range(len(data.shape))]
    result = shape if keepdims else [data.shape[axis] for axis in kept]

    def element(*index: Index) -> PrimExpr:
        outer = dict(zip(range(len(shape)) if keepdims else kept, index, strict=True))
        where = [reduce_axes[axis].var if axis in reduce_axes else outer[axis] for axis in range(len(shape))]
        return function(where, list(reduce_axes.values()))

    return te.compute(result, element, attrs=attrs)


#: The most elements that are combined one by one for each result; in rows that lie together, fewer.
_FEW, _FEW_IN_ROWS = 8, 4
#: The most floats of which the largest or smallest is chosen so: each comparison, which looks for NaN, holds
#: what was chosen before three times, so that the expression grows exponentially.
_FEW_OF_WHICH_ONE_IS_CHOSEN = 2


def combine_few(
    combine: ElementFunction, data: Tensor, axes: Sequence[int], *, keepdims: bool = False
) -> Tensor | None:
    """Combine few elements for each result, which is element-wise then; None where there are more.

    A loop over two or three coordinates costs more than their sum, and nothing is fused with it.
    """
    sizes = [static_int(data.shape[axis]) for axis in axes]
    count = math.prod(0 if size is None else size for size in sizes)
    rank = len(data.shape)
    others = [static_int(data.shape[axis]) for axis in range(rank) if axis not in axes]
    # With fewer results than elements there is no loop over results that would be worth more.
    is_large = None in others or math.prod(size or 0 for size in others) >= count
    most = _FEW_IN_ROWS if rank - 1 in axes else _FEW
    if combine in (scalar_functions.maximum, scalar_functions.minimum) and is_float(
        scalar_functions.dtype_of(data)
    ):
        most = _FEW_OF_WHICH_ONE_IS_CHOSEN
    if not is_large or not 0 < count <= most:
        return None
    coordinates = ([tirx.const(at, "int64") for at in range(size or 0)] for size in sizes)
    places = [dict(zip(axes, at, strict=True)) for at in itertools.product(*coordinates)]
    shape = [1 if axis in axes else data.shape[axis] for axis in range(rank)]
    result = shape if keepdims else [data.shape[axis] for axis in range(rank) if axis not in axes]

    def element(*index: Index) -> PrimExpr:
        kept = iter(index)
        outer = {axis: next(kept) for axis in range(rank) if keepdims or axis not in axes}
        first, *rest = (data(*({**outer, **place}[axis] for axis in range(rank))) for place in places)
        dtype = scalar_functions.dtype_of(data)
        if combine is operator.add and is_float(dtype):
            # The loop of a reduction begins with 0.0, which the written-out sum must not drop.
            first = first + hidden_zero(0.0, dtype)  # the sum of -0 and -0 is 0, as NumPy's
        return functools.reduce(combine, rest, first)

    return te.compute(result, element)


def lowest(dtype: str) -> PrimExpr:
    """Return the lower bound of a dtype, the maximum of no elements."""
    if dtype == "bool":
        return tirx.const(0, dtype)
    return tirx.const(float("-inf"), dtype) if is_float(dtype) else tirx.min_value(dtype)


def highest(dtype: str) -> PrimExpr:
    """Return the upper bound of a dtype, the minimum of no elements."""
    if dtype == "bool":
        return tirx.const(1, dtype)
    return tirx.const(float("inf"), dtype) if is_float(dtype) else tirx.max_value(dtype)


#: Gives the largest element; NaN where there is one.
MAX = te.comm_reducer(scalar_functions.maximum, lowest)
_MIN = te.comm_reducer(scalar_functions.minimum, highest)
_PRODUCT = te.comm_reducer(lambda a, b: a * b, lambda dtype: tirx.const(1, dtype))

#: What reducers do with two elements.
_COMBINED: Mapping[Reducer, ElementFunction] = {
    te.sum: operator.add,
    _PRODUCT: operator.mul,
    MAX: scalar_functions.maximum,
    _MIN: scalar_functions.minimum,
}


def _axes(attrs: Attrs, data: Tensor) -> list[int]:
    return axes_of(attrs["axis"], len(data.shape), exclude=bool(attrs["exclude"]))


def reduction_rule(reducer: Reducer) -> registry.Rule:
    """Lower to a reduction with the attributes ``axis``, ``keepdims`` and ``exclude``."""

    def compute(attrs: Attrs, data: Tensor) -> Tensor:
        axes = _axes(attrs, data)
        if not axes:
            return topi.identity(data)
        keepdims = bool(attrs["keepdims"])
        few = combine_few(_COMBINED[reducer], data, axes, keepdims=keepdims) if reducer in _COMBINED else None
        if few is not None:
            return few
        return reduce(
            lambda where, reduce_axes: reducer(data(*where), axis=reduce_axes), data, axes, keepdims=keepdims
        )

    return registry.te_of(compute)


def _truth_rule(reducer: Reducer) -> registry.Rule:
    """Lower a reduction of bools to one of bytes, which TVM can keep in vectors."""

    def compute(attrs: Attrs, data: Tensor) -> Tensor:
        axes = _axes(attrs, data)
        if not axes:
            return topi.identity(data)
        result = reduce(
            lambda where, reduce_axes: reducer(data(*where).astype("uint8"), axis=reduce_axes),
            data,
            axes,
            keepdims=bool(attrs["keepdims"]),
        )
        return te.compute(result.shape, lambda *at: result(*at) != tirx.const(0, "uint8"))

    # A reduction for TVM, which would fuse the comparison with sizes that only the run knows, and fail.
    return lambda call: call.te(
        lambda data: compute(call.attrs, data), *call.args, primfunc_attrs={"op_pattern": registry.REDUCTION}
    )


def accumulate(
    data: Tensor, axes: Sequence[int], *, keepdims: bool = False, reducer: Reducer = te.sum
) -> Tensor:
    """Sum (or multiply) along axes, accumulated in float32 where the dtype is narrower."""
    if not axes:
        return topi.identity(data)
    wide = "float32" if data.dtype in scalar_functions.NARROW_FLOATS else data.dtype
    few = None
    if wide == data.dtype:
        few = combine_few(_COMBINED[reducer], data, axes, keepdims=keepdims)
    if few is not None:
        return few
    result = reduce(
        lambda where, reduce_axes: reducer(data(*where).astype(wide), axis=reduce_axes),
        data,
        axes,
        keepdims=keepdims,
    )
    return result if wide == data.dtype else topi.cast(result, data.dtype)


def count_combined_elements(data: Tensor, axes: Sequence[int]) -> Extent:
    """Return how many elements each result combines."""
    number: PrimExpr = tirx.const(1, "int64")
    for axis in axes:
        number = number * data.shape[axis]
    return number


def mean(data: Tensor, axes: Sequence[int], *, keepdims: bool = False) -> Tensor:
    """Return the mean along axes in the data's dtype; of integers it is truncated, as in Relay."""
    dtype = data.dtype
    if dtype in scalar_functions.NARROW_FLOATS:  # the sum may exceed what they hold
        data = topi.cast(data, "float32")
    result = _divide_by_count(accumulate(data, axes, keepdims=keepdims), count_combined_elements(data, axes))
    return result if data.dtype == dtype else topi.cast(result, dtype)


def _divide_by_count(sums: Tensor, number: Extent) -> Tensor:
    """Divide sums by the number of their elements; of no elements the result is NaN (integers: 0)."""
    dtype = scalar_functions.dtype_of(sums)
    if static_int(sym.Analyzer().simplify(as_expr(number))) == 0:  # as of ``x[:1]`` with the mean taken off
        return topi.full(sums.shape, dtype, float("nan") if is_float(dtype) else 0)
    return te.compute(sums.shape, lambda *index: scalar_functions.divide(sums(*index), number.astype(dtype)))


def _sum_rule(reducer: Reducer, of_bools: Reducer) -> registry.Rule:
    bools = _truth_rule(of_bools)

    def compute(attrs: Attrs, data: Tensor) -> Tensor:
        axes = _axes(attrs, data)
        return accumulate(data, axes, keepdims=bool(attrs["keepdims"]), reducer=reducer)

    return _by_dtype(bools, registry.te_of(compute))


def _by_dtype(bools: registry.Rule, numbers: registry.Rule) -> registry.Rule:
    return lambda call: (bools if registry.tensor_dtype(call.args[0]) == "bool" else numbers)(call)


def _mean(attrs: Attrs, data: Tensor) -> Tensor:
    return mean(data, _axes(attrs, data), keepdims=bool(attrs["keepdims"]))


def _variance(call: registry.OpCall) -> registry.Value:
    """Lower to a variance; with the mean of the same data it is one kernel, which reads each row once."""
    center = call.node.args[1]
    if (
        isinstance(center, Call)
        and getattr(center.op, "name", "") == "mean"
        and center.args[0] is call.node.args[0]
        and bool(center.attrs["keepdims"])
    ):

        def mean_and_variance(data: Tensor) -> Tensor:
            return _mean_squared_distance(call.attrs, data, _mean(center.attrs, data))

        return call.te(mean_and_variance, call.args[0], primfunc_attrs={registry.REDUCES: True})
    return call.te(lambda *tensors: _mean_squared_distance(call.attrs, *tensors), *call.args)


def _mean_squared_distance(attrs: Attrs, data: Tensor, center: Tensor) -> Tensor:
    """Return the mean squared distance from ``center``, which has the data's rank."""
    axes = _axes(attrs, data)
    distance = broadcast(lambda x, middle: x - middle, data, center)
    squares = topi.multiply(distance, distance)
    number = count_combined_elements(data, axes)
    # Bessel's correction.
    if attrs["unbiased"]:
        number = tirx.max(number, tirx.const(1, "int64")) - 1  # of no elements NaN, not 0 / -1
    sums = accumulate(squares, axes, keepdims=bool(attrs["keepdims"]))
    return _divide_by_count(sums, number)


#: An index and the value there.
_Pair: TypeAlias = tuple[PrimExpr, PrimExpr]


def better_pair(tie_rule: str) -> Callable[[_Pair, _Pair], _Pair]:
    """Return a function that returns the better of two (index, value) pairs; NaN is the best value."""

    def combine(lhs: _Pair, rhs: _Pair) -> _Pair:
        (i, a), (j, b) = lhs, rhs
        # Either side may be the identity, as TVM combines partial results in any order.
        keep = tirx.any(j < 0, tirx.all(i >= 0, keeps_first(tie_rule, i, a, j, b)))  # -1: no element yet
        return tirx.Select(keep, i, j), tirx.Select(keep, a, b)

    return combine


def no_pair(i: str, value: str) -> _Pair:
    """Return the pair, of these dtypes, than which any is better."""
    return tirx.const(-1, i), tirx.const(0, value)


def _argreducer(tie_rule: str) -> Reducer:
    """Return a reducer of (index, value) pairs to the index of the best value; a NaN is the best."""
    return te.comm_reducer(better_pair(tie_rule), no_pair)


def _argreduce_rule(name: str) -> registry.Rule:
    def compute(attrs: Attrs, data: Tensor, axes: Sequence[int], dtype: str) -> Tensor:
        tie_rule = f"{name}_{'last' if attrs['select_last_index'] else 'first'}"
        reducer = _argreducer(tie_rule)
        if data.dtype in scalar_functions.NARROW_FLOATS:
            data = topi.cast(data, "float32")
        elif data.dtype == "bool":  # which is not kept in vectors
            data = topi.cast(data, "uint8")

        def element(where: Sequence[Index], reduce_axes: Sequence[ReduceAxis]) -> PrimExpr:
            flat: PrimExpr = tirx.const(0, "int64")
            for axis, k in zip(axes, reduce_axes, strict=True):
                flat = flat * data.shape[axis] + k.var
            return reducer((flat.astype(dtype), data(*where)), axis=list(reduce_axes))

        if not axes:
            return topi.full(data.shape, dtype, 0)
        return reduce(element, data, axes, keepdims=bool(attrs["keepdims"]), attrs={TIE_RULE: tie_rule})[0]

    def rule(call: registry.OpCall) -> registry.Value:
        (data,) = call.args
        axes = axes_of(call.attrs["axis"], len(registry.shape_of(data)), exclude=bool(call.attrs["exclude"]))
        count = element_count([registry.shape_of(data)[axis] for axis in axes])
        # Indices of 32 bits are compared twice as many at a time beside float32 values.
        narrow = isinstance(count, int) and count <= 2**31
        dtype = "int32" if narrow else "int64"
        result = call.te(lambda x: compute(call.attrs, x, axes, dtype), data)
        return result if narrow else registry.narrow_indices(call, result)

    return rule


def _scan_rule(combine: ElementFunction, start: int) -> registry.Rule:
    """Lower to a scan along an axis: ``combine`` of all elements up to each one, or before each one."""

    def rule(call: registry.OpCall) -> registry.Value:
        axis, exclusive = call.attrs["axis"], bool(call.attrs.get("exclusive"))
        result = call.node.inferred_tensor

        def compute(data: Tensor) -> Tensor:
            flat = topi.reshape(data, [element_count(data.shape)]) if axis is None else data
            return scan(combine, start, flat, integer(axis or 0), result.dtype, exclusive)

        # Opaque, because TVM's fusion does not follow what a loop nest of our own reads.
        return call.te(compute, *call.args, primfunc_attrs={"op_pattern": registry.OPAQUE})

    return rule


def scan(
    combine: ElementFunction, start: int, data: Tensor, axis: int, dtype: str, exclusive: bool
) -> Tensor:
    """Scan along an axis in ``dtype``; ``start`` precedes the first element."""
    axis %= len(data.shape)

    def kernel(source: Buffer, target: Buffer) -> Stmt:
        with IRBuilder() as builder:
            with grid(data.shape) as at:
                before = [*at[:axis], at[axis] - 1, *at[axis + 1 :]]
                element = source[tuple(before if exclusive else at)].astype(dtype)
                first = tirx.const(start, dtype) if exclusive else element
                # Each element reads the one before it from the result, so that the loop over the
                # axis stays in order.
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


#: The bitwise functions of integers, each with the bits of its result of no elements.
_BITWISE: Mapping[str, tuple[ElementFunction, int]] = {
    "and": (lambda a, b: a & b, 1),
    "or": (lambda a, b: a | b, 0),
    "xor": (lambda a, b: a ^ b, 0),
}


def _bitwise_reducer(combine: ElementFunction, bit: int) -> Reducer:
    def none(dtype: str) -> PrimExpr:
        zero = tirx.const(0, dtype)
        return ~zero if bit else zero

    return te.comm_reducer(combine, none)


registry.RULES.update(
    {
        **{f"numpy.bitwise_{k}.reduce": reduction_rule(_bitwise_reducer(*v)) for k, v in _BITWISE.items()},
        **{f"numpy.bitwise_{k}.accumulate": _scan_rule(v[0], 0) for k, v in _BITWISE.items()},
        "sum": _sum_rule(te.sum, te.max),
        "prod": _sum_rule(_PRODUCT, te.min),
        "max": _by_dtype(_truth_rule(te.max), reduction_rule(MAX)),
        "min": _by_dtype(_truth_rule(te.min), reduction_rule(_MIN)),
        "all": _truth_rule(te.min),
        "any": _truth_rule(te.max),
        "mean": registry.te_of(_mean, reduces=True),
        "variance": _variance,
        "argmax": _argreduce_rule("max"),
        "argmin": _argreduce_rule("min"),
        "cumsum": _scan_rule(
            lambda a, b: tirx.any(a, b) if scalar_functions.dtype_of(a) == "bool" else a + b, 0
        ),
        "cumprod": _scan_rule(
            lambda a, b: tirx.all(a, b) if scalar_functions.dtype_of(a) == "bool" else a * b, 1
        ),
        "numpy.maximum.accumulate": _scan_rule(scalar_functions.maximum, 0),
        "numpy.minimum.accumulate": _scan_rule(scalar_functions.minimum, 0),
    }
)
