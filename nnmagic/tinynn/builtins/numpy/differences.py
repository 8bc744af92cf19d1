"""Define NumPy's functions of adjacent elements: differences, gradients, integration, interpolation.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.gradient.html
"""

from __future__ import annotations

import numpy as np

from nnmagic.limits import MAX_ITEMS
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.numpy.indexing import wrap_indices
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import concatenate, constant_of, size_along, slice_axis
from nnmagic.tinynn.calls.argument_binding import Arguments, free_function, numpy_function
from nnmagic.tinynn.values.descriptions import source_text
from nnmagic.tinynn.values.values import Computed, RefusalError, TupleOf, Value


def _diff(call: Arguments) -> Value:
    data = args.formula(call, "a")
    args.require_rank(call, data, "a", 1)
    axis, times = args.one_axis(call, "axis", data.rank, -1), args.static_int(call, "n", 1)
    if times < 0:
        raise RefusalError("diff: `n` must not be negative", call.at("n"))
    ends = [name for name in ("prepend", "append") if name in call]
    if ends:
        parts = {
            name: args.as_formula(call.given[name], call.span, f"diff: `{name}`").cast(data.dtype)
            for name in ends
        }
        shape = tuple(1 if index == axis else dim for index, dim in enumerate(data.shape))
        whole = {
            name: slope if slope.rank else slope.op("broadcast_to", shape=shape)
            for name, slope in parts.items()
        }
        listed = [whole.get("prepend"), data, whole.get("append")]
        data = concatenate(call, [slope for slope in listed if slope is not None], axis)
    size = data.shape[axis]
    rounds = min(times, size) if isinstance(size, int) else times  # an empty result stays empty
    if rounds > MAX_ITEMS:
        raise RefusalError(f"diff: `n` is {times} (at most {MAX_ITEMS})", call.at("n"))
    for _ in range(rounds):
        data = _subtract_neighbours(data, axis)
    return data.value


def _gradient(call: Arguments) -> Value:
    """Compute central differences, one-sided at the ends, for a constant step."""
    values = args.formula(call, "f")
    if values.dtype == "bool":
        message = f"{call.name} takes numbers, not bools: there is no difference of two bools"
        shown = source_text(call.at("f"))
        raise RefusalError(message, call.at("f"), hint=f"convert them, as in {shown}.astype(f32)")
    data = _as_float(values)
    step = args.static_number(call, "step", 1.0)
    axes = (args.one_axis(call, "axis", data.rank),) if "axis" in call else tuple(range(data.rank))
    results = []
    for axis in axes:
        size = data.shape[axis]
        if not isinstance(size, int):
            results.append(_gradient_of_dynamic_size(call, data, axis, step))
            continue
        if size < 2:
            raise RefusalError(f"gradient needs two elements along axis {axis}", call.at("f"))
        first = (slice_axis(data, axis, 1, 2) - slice_axis(data, axis, 0, 1)) / step
        last = (slice_axis(data, axis, size - 1, size) - slice_axis(data, axis, size - 2, size - 1)) / step
        sections = [first, last]
        if size > 2:
            sections.insert(1, (slice_axis(data, axis, 2, None) - slice_axis(data, axis, 0, -2)) / (2 * step))
        results.append(concatenate(call, sections, axis).value)
    return results[0] if len(results) == 1 else TupleOf(tuple(results))


#: The most numbers whose trapezoids are added up as a weighted sum, which reads each number once.
_MOST_WEIGHTS = 4096


def _gradient_of_dynamic_size(call: Arguments, data: Formula, axis: int, step: float) -> Value:
    """Compute the gradient along an axis; an axis of fewer than two elements is an error at run time."""

    def at(index: int) -> Formula:
        position = constant_of(np.array([index]), "int64", call.span)
        return data.op("take", wrap_indices(position, data, axis), axis=axis, mode="fast")

    middle = (slice_axis(data, axis, 2, None) - slice_axis(data, axis, 0, -2)) / (2 * step)
    parts = [(at(1) - at(0)) / step, middle, (at(-1) - at(-2)) / step]
    return Computed(concatenate(call, parts, axis).value.expr, data.type)


def _trapezoid(call: Arguments) -> Value:
    """Add up the trapezoids; like NumPy's, sums and differences of integers and bools keep their dtype."""
    data = args.formula(call, "y")
    args.require_rank(call, data, "y", 1)
    axis = args.one_axis(call, "axis", data.rank, -1)
    later, earlier = slice_axis(data, axis, 1, None), slice_axis(data, axis, 0, -1)
    areas = later | earlier if data.dtype == "bool" else later + earlier
    if "x" in call:
        points = args.formula(call, "x")
        args.require_rank(call, points, "x", 1)
        along = 0 if points.rank == 1 else axis
        gaps = _subtract_neighbours(points, along)
        if points.rank == 1:
            gaps = gaps.reshape([gaps.shape[0] if index == axis else 1 for index in range(data.rank)])
        if gaps.dtype != areas.dtype:
            areas = _as_float(areas)
            gaps = gaps.cast(areas.dtype)
        areas = areas & gaps if areas.dtype == "bool" else areas * gaps
        return (_as_float(areas) * 0.5).reduce("sum", (axis,)).value
    size = data.shape[axis]
    if data.dtype in ("float32", "float64") and isinstance(size, int) and 1 < size <= _MOST_WEIGHTS:
        weights = np.ones([size if index == axis else 1 for index in range(data.rank)])
        weights.flat[[0, -1]] = 0.5
        whole = (data * constant_of(weights.astype(data.dtype), data.dtype, call.span)).reduce("sum", (axis,))
        return (whole * args.static_number(call, "dx", 1.0)).value
    return (_as_float(areas) * args.static_number(call, "dx", 1.0) * 0.5).reduce("sum", (axis,)).value


def _as_float(data: Formula) -> Formula:
    return data if data.is_float else data.cast("float64")


def _subtract_neighbours(data: Formula, axis: int) -> Formula:
    """Subtract the element before from each but the first; bools are compared, as ``np.diff`` does."""
    later, earlier = slice_axis(data, axis, 1, None), slice_axis(data, axis, 0, -1)
    return later.differs(earlier) if data.dtype == "bool" else later - earlier


def _ediff1d(call: Arguments) -> Value:
    data = args.formula(call, "ary").flat()
    return (slice_axis(data, 0, 1, None) - slice_axis(data, 0, 0, -1)).value


def _interp(call: Arguments) -> Value:
    """Interpolate linearly, constant beyond the ends; ``xp`` must increase. f64, as in NumPy."""
    queries, points, values = (args.formula(call, name).cast("float64") for name in ("x", "xp", "fp"))
    if points.rank != 1 or values.rank != 1 or points.shape != values.shape:
        raise RefusalError("interp: `xp` and `fp` must be of rank 1 and one length", call.span)
    if points.shape[0] == 0:
        raise RefusalError("interp: there are no points", call.at("xp"))
    wanted = queries if queries.rank else queries.reshape((1,))

    def of(data: Formula, indices: Formula) -> Formula:
        return data.op("take", indices, axis=0, mode="clip")

    right = points.op("searchsorted", wanted, right=True, dtype="int64")
    x0, y0, x1, y1 = (of(data, indices) for indices in (right - 1, right) for data in (points, values))
    slope = x1.equal(x0).choose(0, (y1 - y0) / x1.equal(x0).choose(1, x1 - x0))
    count = size_along(points, 0, right)
    single = count.equal(1)
    inner = single.choose(y0, slope * (wanted - x0) + y0)
    ends = [right * 0 + index for index in (0, count - 1)]
    first, last = (of(values, index) for index in ends)
    low, high = (of(points, index) for index in ends)
    if "left" in call:
        first = first.like(args.static_number(call, "left", 0.0))
    if "right" in call:
        last = last.like(args.static_number(call, "right", 0.0))
    result = (wanted < low).choose(first, (wanted > high).choose(last, inner))
    result = (wanted.op("isnan") & ~single).choose(wanted, result)
    return (result if queries.rank else result.reshape(())).value


DIFFERENCES = (
    numpy_function(
        "diff", "a n? axis? prepend? append?", _diff, "Return the differences of adjacent elements."
    ),
    free_function(
        "ediff1d", "ary", _ediff1d, "Return the differences of adjacent elements of the flattened tensor."
    ),
    free_function("gradient", "f step?=1 * axis?", _gradient, "Compute the gradient by central differences."),
    free_function("trapezoid", "y x? dx? axis?", _trapezoid, "Integrate by the trapezoidal rule."),
    free_function("interp", "x xp fp left? right?", _interp, "Interpolate piecewise linearly, in f64."),
)
