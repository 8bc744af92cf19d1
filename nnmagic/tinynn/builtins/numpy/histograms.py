"""Define NumPy's histogram, and the covariances and correlations of variables.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.histogram.html
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from math import inf

import numpy as np
from synr.ast import BuiltinOp

from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import ANY, is_float
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins import tensor_helpers as helpers
from nnmagic.tinynn.builtins.numpy.indexing import index_formula, is_ordered, known_to_rise
from nnmagic.tinynn.builtins.numpy.spaced_numbers import size_argument, spaced_numbers
from nnmagic.tinynn.builtins.numpy.statistics import mean_of
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, free_function
from nnmagic.tinynn.operators.matmul import matrix_product
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.promotion import common_dtype
from nnmagic.tinynn.values.symbolic_sizes import as_size, calculate_size, full, is_size, weak_int
from nnmagic.tinynn.values.values import Dimension, Known, Operand, RefusalError, TupleOf, Value


def _histogram(call: Arguments) -> Value:
    """Return how many elements lie in each bin, or the sum of their weights, and the edges of the bins."""
    data = args.formula(call, "a").flat()
    weights = args.formula(call, "weights").flat() if "weights" in call else None
    if weights is not None and weights.dtype == "bool":
        weights = weights.cast("int64")
    bins = call.given.get("bins", Operand(Known(10), call.span))
    size = as_size(bins)
    even = size is not None and is_size(size)
    if even and weights is None and data.dtype == "uint8":  # each of the 256 numbers is placed once
        weights = helpers.constant_of(np.zeros(1 << 8), "int64", call.span)
        weights = weights.op(
            "scatter_elements", data, data.cast("int64").op("ones_like"), axis=0, reduction="add"
        )
        edges, _, number = _even_edges(call, data)
        index, inside = _places(edges, helpers.constant_of(np.arange(1 << 8), "float64", call.span), number)
        counts = _amounts_of_bins(edges, index, inside, weights)
    elif even and weights is None:
        edges, values, _ = _even_edges(call, data)
        wide = "float64" if edges.dtype == "float64" else "float32"  # f16 and bf16 lose nothing
        counts = values.cast(wide).op("numpy.histogram", edges.cast(wide))
    else:
        edges, index, inside = _even_bins(call, data) if even else _given_bins(call, data)
        dtype = "int64" if weights is None else weights.dtype
        like = Formula(number_constant(0, dtype, call.span), call.span)
        counts = _amounts_of_bins(edges, index, inside, like.like(1) if weights is None else weights)
    if args.flag(call, "density"):
        widths = helpers.slice_axis(edges, 0, 1, None) - helpers.slice_axis(edges, 0, 0, -1)
        counts = counts.cast("float64")
        counts = counts / widths / counts.reduce("sum")
    return TupleOf((counts.value, edges.value))


def _amounts_of_bins(edges: Formula, index: Formula, inside: Formula, amounts: Formula) -> Formula:
    """Return the sums of the amounts of the elements in each bin."""
    zeros = helpers.slice_axis(edges, 0, 1, None).op("zeros_like").cast(amounts.dtype)
    return zeros.op("scatter_nd", inside.choose(index, 0).expand(0), inside.choose(amounts, 0), mode="add")


def _histogram_2d(call: Arguments) -> Value:
    """Return how many points lie in each bin of a grid, as floats, and the edges along both axes."""
    data = [args.formula(call, name).flat() for name in ("x", "y")]
    if dims_differ(*data[0].shape, *data[1].shape):
        raise RefusalError("histogram2d: `x` and `y` have different sizes", call.at("y"))
    counts, edges = _counts_of_grid(call, data)
    return TupleOf((counts.value, *(edge.value for edge in edges)))


def _histogram_dd(call: Arguments) -> Value:
    """Return how many points, the rows of a matrix, lie in each bin of a grid, and the edges of each axis."""
    operand = call.given["sample"]
    if isinstance(operand.value, TupleOf):
        items = [Operand(item, operand.span) for item in operand.value.items]
        data = [args.as_formula(item, call.span, "histogramdd: `sample`").flat() for item in items]
    else:
        points = args.formula(call, "sample")
        points = points.expand(1) if points.rank == 1 else points
        columns = range(args.static_size(call, points.shape[-1], operand.span, "the number of axes"))
        data = [helpers.slice_axis(points, 1, axis, axis + 1).flat() for axis in columns]
    if not data:
        raise RefusalError("histogramdd of no axes", operand.span)
    counts, edges = _counts_of_grid(call, data)
    return TupleOf((counts.value, TupleOf(tuple(edge.value for edge in edges), written="list")))


def _counts_of_grid(call: Arguments, data: Sequence[Formula]) -> tuple[Formula, list[Formula]]:
    """Return the counts of points, whose coordinates are given axis by axis, and the edges of the bins."""
    edges, places, inside = [], [], None
    for number, values in enumerate(data):
        axis_arguments = {
            name: _of_axis(call.given[name], number, len(data)) for name in ("bins", "range") if name in call
        }
        axis_call = Arguments(call.name, axis_arguments, call.span)
        size = as_size(axis_arguments.get("bins", Operand(Known(10), call.span)))
        even = size is not None and is_size(size)
        bins, index, within = _even_bins(axis_call, values) if even else _given_bins(axis_call, values)
        edges.append(bins)
        places.append(index)
        inside = within if inside is None else inside & within
    assert inside is not None
    amounts = places[0].op("ones_like").cast("float64")
    if "weights" in call:
        amounts = args.formula(call, "weights").flat().cast("float64")
    sides = [helpers.slice_axis(bins, 0, 1, None).op("zeros_like").cast("float64") for bins in edges]
    zeros = reduce(operator.add, _across(sides))
    where = helpers.concatenate(call, [inside.choose(index, 0).expand(0) for index in places], 0)
    counts = zeros.op("scatter_nd", where, inside.choose(amounts, 0), mode="add")
    if args.flag(call, "density"):
        widths = [helpers.slice_axis(bins, 0, 1, None) - helpers.slice_axis(bins, 0, 0, -1) for bins in edges]
        volume = reduce(operator.mul, _across([width.cast("float64") for width in widths]))
        counts = counts / counts.reduce("sum") / volume
    return counts, edges


def _across(sides: Sequence[Formula]) -> list[Formula]:
    """Return vectors along the axes of a grid, each along its own."""
    for axis in range(len(sides)):
        sides = [side if index == axis else side.expand(axis) for index, side in enumerate(sides)]
    return list(sides)


def _of_axis(operand: Operand, number: int, axes: int) -> Operand:
    """Return what is given for one axis: an item of as many, or what all have."""
    items = operand.value.items if isinstance(operand.value, TupleOf) else ()
    return Operand(items[number], operand.span) if len(items) == axes else operand


def _bincount(call: Arguments) -> Value:
    """Return how often each of 0, 1, 2, ... occurs, or the sum of its weights.

    ``length`` is the number of results, known at compile time; without it, it is that of NumPy.
    """
    numbers = index_formula(call, "x")
    if numbers.rank != 1:
        message = f"bincount takes integers of rank 1, not of shape {format_shape(numbers.shape)}"
        raise RefusalError(message, call.at("x"), hint="write bincount(x.ravel())")
    is_signed = not numbers.dtype.startswith("uint")
    # As unsigned integers, negative ones are the largest: one pass finds both.
    bare = numbers.cast("int64").cast("uint64") if is_signed else numbers
    largest = numbers.like(0) if numbers.shape[0] == 0 else bare.reduce("max")
    largest = largest.cast("int64")
    message = "bincount: a number is negative"
    if "length" in call:
        length = args.static_int(call, "length")
        if length < 0:
            raise RefusalError(f"bincount: the length {length} is negative", call.at("length"))
        zeros = helpers.constant_of(np.zeros(length), "int64", call.span)
        numbers = numbers.cast("int64").require(largest >= 0, message)
    else:
        least = size_argument(call, "minlength", 0)
        if isinstance(least, int) and least >= _COUNTS.get(numbers.dtype, np.inf):
            zeros = helpers.constant_of(np.zeros(least), "int64", call.span)
        else:
            fewest = Formula(least.number, call.span) if isinstance(least, Dimension) else largest.like(least)
            largest = largest.require(largest >= 0, message)
            if not isinstance(numbers.shape[0], int) or numbers.shape[0] == 0:
                largest = helpers.size_along(numbers, 0, largest).equal(0).choose(-1, largest)
            count = Dimension(ANY, weak_int((largest + 1).op("maximum", fewest).value))
            zeros = Formula(full(largest.like(0).value, [count], call.span), call.span)
    amounts = numbers.cast("int64").op("ones_like")
    if "weights" in call:
        amounts = args.formula(call, "weights").cast("float64")
        zeros = zeros.cast("float64")
        if dims_differ(*amounts.shape, *numbers.shape) if amounts.rank == 1 else True:
            shown = f"{format_shape(amounts.shape)} for {format_shape(numbers.shape)}"
            raise RefusalError(f"bincount: weights of shape {shown}", call.at("weights"))
    if "length" in call:
        return zeros.op("scatter_nd", numbers.expand(0), amounts, mode="add").value
    return zeros.op("scatter_elements", numbers, amounts, axis=0, reduction="add").value  # all are in range


#: How many different numbers the small dtypes have that are not negative.
_COUNTS = {"uint8": 1 << 8, "uint16": 1 << 16}


def _even_edges(call: Arguments, data: Formula) -> tuple[Formula, Formula, Formula]:
    """Return the edges of bins of one width, the data as floats, and the number of bins."""
    values = data if data.is_float else data.cast("float64")
    first, last = _given_range(call) if "range" in call else _range_of(call, data, values)
    # As in NumPy, a range without width is made one of width 1 around the number.
    same = first.equal(last)
    first, last = same.choose(first - 0.5, first), same.choose(last + 0.5, last)
    count = size_argument(call, "bins", 10)
    if count == 0:
        raise RefusalError("histogram: `bins` must be positive", call.at("bins"))
    edges, _ = spaced_numbers(call, first, last, _one_more(count, call))
    edges = edges.cast(values.dtype)
    number = Formula(count.number, call.span) if isinstance(count, Dimension) else edges.like(count)
    return edges, values, number


def _even_bins(call: Arguments, data: Formula) -> tuple[Formula, Formula, Formula]:
    """Return the edges of bins of one width, the bin of each element, and which elements have one."""
    edges, values, number = _even_edges(call, data)
    return edges, *_places(edges, values, number)


def _places(edges: Formula, values: Formula, number: Formula) -> tuple[Formula, Formula]:
    """Return the bin of each element, of bins of one width, and which elements have one.

    As NumPy does it, the place of an element among the bins is computed, and then corrected by the edges.
    """
    first, last = (helpers.slice_axis(edges, 0, at, end).reshape(()) for at, end in ((0, 1), (-1, None)))
    inside = (values >= first) & (values <= last)
    place = (values - first) / (last - first) * number.cast(values.dtype)
    last_bin = number.cast("int64") - 1
    # The last edge belongs to the last bin; its place is one more. What is outside has the place 0
    # so that NaN and infinity, of which C leaves the conversion undefined, never become integers.
    index = inside.choose(place, 0).cast("int64").op("minimum", last_bin)
    index = index - (values < edges.op("take", index, axis=0)).cast("int64")
    index = index.op("maximum", 0)
    above = (values >= edges.op("take", index + 1, axis=0)) & index.differs(last_bin)
    return index + above.cast("int64"), inside


def _one_more(count: int | Dimension, call: Arguments) -> int | Dimension:
    if isinstance(count, int):
        return count + 1
    total = calculate_size(BuiltinOp.Add, count, Known(1), call.span)
    assert isinstance(total, Dimension)
    return total


def _range_of(call: Arguments, data: Formula, values: Formula) -> tuple[Formula, Formula]:
    """Return the least and the largest number of the data, whose ``values`` are floats; 0 and 1 of none."""
    if values.shape[0] == 0:
        return values.like(0.0), values.like(1.0)
    empty = helpers.size_along(values, 0, values.like(0)).equal(0)
    first, last = empty.choose(0, values.reduce("min")), empty.choose(1, values.reduce("max"))
    if not data.is_float:
        return first, last
    finite = first.op("isfinite") & last.op("isfinite")
    return first, last.require(finite, f"{call.name}: a number is infinite or NaN, and no `range` is given")


def _given_range(call: Arguments) -> tuple[Formula, Formula]:
    """Return the two numbers of the argument ``range``, in f64, in which NumPy computes the edges between."""
    limits = call.given["range"]
    if not isinstance(limits.value, TupleOf) or len(limits.value.items) != 2:
        raise RefusalError("histogram: `range` must be two numbers", limits.span)
    first, last = (
        args.as_formula(Operand(end, limits.span), call.span, "histogram: `range`")
        for end in limits.value.items
    )
    message = f"{call.name}: `range` must be two finite numbers, the smaller one first"
    ends = [args.python_number(end) for end in limits.value.items]
    if all(isinstance(end, int | float) for end in ends):
        least, largest = ends
        if not -inf < least <= largest < inf:  # type: ignore[operator] # both are numbers
            raise RefusalError(message, limits.span)
        return first.cast("float64"), last.cast("float64")
    first, last = first.cast("float64"), last.cast("float64")
    fine = first.op("isfinite") & last.op("isfinite") & (first <= last)
    return first, last.require(fine, message)


def _given_bins(call: Arguments, data: Formula) -> tuple[Formula, Formula, Formula]:
    """Return the given edges, the bin of each element, and which elements have one."""
    edges = args.formula(call, "bins")
    if edges.rank != 1:
        raise RefusalError("histogram: `bins` must be an int or a vector of edges", call.at("bins"))
    if not known_to_rise(call.given["bins"].value):
        edges = edges.require(is_ordered(edges), f"{call.name}: the edges of the bins must increase")
    common = common_dtype([edges.dtype, data.dtype]) or "float64"
    dtype = "float64" if is_float(common) and edges.dtype != data.dtype else common
    ordered, values = edges.cast(dtype), data.cast(dtype)
    index = ordered.op("searchsorted", values, right=True, dtype="int64") - 1
    last = helpers.size_along(edges, 0, index) - 1
    inside = (index >= 0) & (values <= ordered.op("take", last, axis=0))
    return edges, index.op("minimum", last - 1), inside


def _variables(call: Arguments) -> Formula:
    """Return the data as f64 with a variable in each row."""
    data = args.formula(call, "m")
    rows = args.flag(call, "rowvar", default=True)
    variables = []
    for matrix_ in (data, args.formula(call, "y")) if "y" in call else (data,):
        if matrix_.rank > 2:
            raise RefusalError(f"{call.name} takes tensors of rank 2 at most", call.at("m"))
        matrix = matrix_.cast("float64")
        if matrix.rank < 2:
            matrix = matrix.reshape((1, matrix.shape[0] if matrix.rank else 1))
        elif not rows:
            matrix = matrix.transpose((1, 0))
        variables.append(matrix)
    return helpers.concatenate(call, variables, 0) if len(variables) > 1 else variables[0]


def _covariances(call: Arguments) -> Formula:
    """Return the matrix of the covariances of the variables."""
    data = _variables(call)
    ddof = args.static_int(call, "ddof", 0 if args.flag(call, "bias") else 1)
    centered = data - mean_of(data, (1,), keepdims=True)
    operands = [Operand(side.value, call.span) for side in (centered, centered.transpose((1, 0)))]
    product = Formula(matrix_product(operands[0], operands[1], call.span, call.name), call.span)
    count = helpers.size_along(data, 1, product)
    # As in NumPy, which warns: too few observations divide by 0, and not by a negative number.
    return product / (count - ddof).op("maximum", 0)


def _drop_single(matrix: Formula) -> Formula:
    return matrix.reshape(()) if matrix.shape == (1, 1) else matrix


def _corrcoef(call: Arguments) -> Value:
    matrix = _covariances(call)
    size = helpers.size_of(matrix, 0)
    unit = helpers.unit_matrix(size, size, 0, "bool", call.span)
    deviations = unit.choose(matrix, 0).reduce("sum", (1,)).sqrt()
    result = matrix / deviations.expand(1) / deviations
    # As in NumPy: rounding can make a correlation a little more than 1.
    return _drop_single(result.op("clip", a_min=-1.0, a_max=1.0)).value


HISTOGRAMS = (
    free_function(
        "histogram2d",
        "x y bins?=10 range? density? weights?",
        _histogram_2d,
        "Count the points in each bin of a grid; returns the counts and both edges.",
    ),
    free_function(
        "histogramdd",
        "sample bins?=10 range? density? weights?",
        _histogram_dd,
        "Count the points in each bin of a grid of several axes; returns the counts and a list of edges.",
    ),
    free_function(
        "histogram",
        "a bins?=10 range? density? weights?",
        _histogram,
        "Count the elements in each bin, or add up their weights; returns the counts and the edges.",
    ),
    free_function(
        "cov",
        "m y? rowvar?=True bias? ddof?",
        lambda call: _drop_single(_covariances(call)).value,
        "Return the covariances of variables, which are rows unless rowvar is False; f64.",
    ),
    free_function(
        "corrcoef",
        "m y? rowvar?=True",
        _corrcoef,
        "Return the correlation coefficients of variables, which are rows unless rowvar is False; f64.",
        "x=m",
    ),
    free_function(
        "bincount",
        "x weights? minlength? * length?",
        _bincount,
        "Count how often each of 0, 1, 2, ... occurs, or add up its weights.",
    ),
)
