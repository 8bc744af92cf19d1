"""Import the backward operators that AOTAutograd leaves whole: most are derived from their forward rules.

What they compute: https://docs.pytorch.org/docs/stable/torch.compiler_ir.html
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import mul

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.operators.products import matmul
from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.importers.torch.calls import AtenCall, scalar_constant
from nnmagic.importers.torch.mathematics import convert, wide
from nnmagic.importers.torch.operators.complex_numbers import absolute
from nnmagic.importers.torch.operators.indexing import bag_of
from nnmagic.importers.torch.registry import OPERATORS, operator
from nnmagic.relay import expr as ir
from nnmagic.relay.module import Module
from nnmagic.relay.ops.dims import product
from nnmagic.relay.passes.gradients import gradient
from nnmagic.relay.passes.rewriting import substitute
from nnmagic.relay.types import is_complex


def pull_back(call: AtenCall, forward: str, cotangent: str, operands: Mapping[str, Value]) -> list[Value]:
    """Return the gradients by operands of a forward operator, whose other arguments are those of the call."""
    given = {**call.arguments, **operands}
    values = {name: value for name, value in given.items() if isinstance(value, Value)}
    if any(is_complex(value.dtype) for value in values.values()):
        raise UnsupportedError(f"the gradient of {forward} of complex numbers is not supported")
    params = {name: ir.Var(name, value.type) for name, value in values.items()}
    variables = {name: Value(param, values[name].type) for name, param in params.items()}
    results = [call.originals[cotangent]]
    rule_results = OPERATORS[f"aten.{forward}"].rule(
        replace(call, arguments={**given, **variables}, results=results)
    )
    result = rule_results if isinstance(rule_results, Value) else rule_results[0]
    assert result is not None  # the result whose cotangent is given
    total = op("sum", convert(result, variables[cotangent].dtype) * variables[cotangent])
    module = Module({"f": ir.Function(tuple(params.values()), total.expr)})
    function = gradient(module, "f", [list(params).index(name) for name in operands]).functions["f"]
    arguments = [value.expr for value in values.values()]
    body = substitute(function.body, dict(zip(function.params, arguments, strict=True)))
    gradients = ir.TupleGetItem(body, 1)
    return [Value(ir.TupleGetItem(gradients, at), value.type) for at, value in enumerate(operands.values())]


#: The elements along an axis, from the one before a place on, of which a sample is made, by the mode.
_TAPS = {0: (0, 1), 1: (0,), 2: (-1, 0, 1, 2)}


def _sampler(call: AtenCall) -> list[Value]:
    """Return the gradients by an image and by the positions at which it is sampled."""
    mode, padding = call.integer("interpolation_mode"), call.integer("padding_mode")
    data, grid, align = wide(call["input"]), wide(call["grid"]), call.flag("align_corners")
    sizes = [call.size(dim).cast(data.dtype) for dim in data.shape[2:]]
    axes = [
        shapes.squeeze(shapes.slice_axis(grid, grid.rank - 1, at, at + 1), [grid.rank - 1])
        for at in range(len(sizes))
    ]
    places, slopes = zip(
        *(
            _place(x, size, 0 if mode == 2 else padding, align=align)
            for x, size in zip(axes[::-1], sizes, strict=True)
        ),
        strict=True,
    )
    count = product(places[0].shape[1:])
    grad = call.reshape(wide(call["grad_output"]), [*data.shape[:2], count])
    image = call.reshape(data, [*data.shape[:2], product(data.shape[2:])])
    by_image = call.full(image.shape, scalar_constant(0, data.dtype))
    by_place = [place.like(0) * place for place in places]
    lows = [op("numpy.rint", place) if mode == 1 else op("floor", place) for place in places]
    for taps in itertools.product(_TAPS[mode], repeat=len(places)):
        index, inside = constant(0, "int64"), None
        for low, step, size in zip(lows, taps, sizes, strict=True):
            at = low + float(step)
            if mode == 2:
                at, _ = _padded(at, at, size, padding, align=align)
            within = op("logical_and", at >= 0, at < size)
            inside = within if inside is None else op("logical_and", inside, within)
            index = index * size.cast("int64") + within.choose(at, 0).cast("int64")
        assert inside is not None  # there are axes
        shares = [
            _share(place - low, step, mode) for place, low, step in zip(places, lows, taps, strict=True)
        ]
        flat = call.expand(call.reshape(index, [index.shape[0], 1, count]), grad.shape)
        weight = inside.choose(reduce(mul, (share for share, _ in shares)), 0)
        update = grad * call.reshape(weight, [weight.shape[0], 1, count])
        by_image = op("scatter_elements", by_image, flat, update, axis=2, reduction="add")
        if mode == 1:
            continue
        total = op("sum", grad * op("gather", image, flat, axis=2), axis=(1,))
        samples = inside.choose(call.reshape(total, index.shape), 0)
        for axis, (_, slope) in enumerate(shares):
            others = [share for at, (share, _) in enumerate(shares) if at != axis]
            by_place[axis] = by_place[axis] + reduce(mul, others, samples) * slope
    columns = [
        op("expand_dims", corner * slope, axis=grid.rank - 1)
        for corner, slope in zip(by_place, slopes, strict=True)
    ]
    return [call.reshape(by_image, data.shape), op("concatenate", columns[::-1], axis=grid.rank - 1)]


def _share(t: Value, step: int, mode: int) -> tuple[Value, Value]:
    """Return the weight of an element that is ``step`` behind another, and its derivative by ``t``.

    ``t``: how far behind the other one, from 0 to 1, the place is. Cubic weights are those of Keys, 1981.
    """
    if mode == 1:
        return t.like(1), t.like(0)
    away, sign = (t - float(step), 1.0) if step <= 0 else (float(step) - t, -1.0)
    if mode == 0:
        return 1 - away, t.like(-sign)
    a = -0.75
    if step in (0, 1):
        return ((a + 2) * away - (a + 3)) * away * away + 1, (3 * (a + 2) * away - 2 * (a + 3)) * away * sign
    return a * (((away - 5) * away + 8) * away - 4), a * ((3 * away - 10) * away + 8) * sign


def _place(x: Value, size: Value, padding: int, *, align: bool) -> tuple[Value, Value]:
    """Return the place along an axis of a coordinate from -1 to 1, and its derivative."""
    place = (x + 1) * 0.5 * (size - 1) if align else ((x + 1) * size - 1) * 0.5
    slope = x.like(0.5) * (size - 1 if align else size)
    return _padded(place, slope, size, padding, align=align)


def _padded(place: Value, slope: Value, size: Value, padding: int, *, align: bool) -> tuple[Value, Value]:
    """Return where in an image a place is looked up, and its derivative."""
    if padding == 2:
        low, span = (size.like(0), size - 1) if align else (size.like(-0.5), size)
        away = op("abs", place - low)
        slope = (place < low).choose(-slope, slope)
        flips, remainder = op("floor", away / span), op("mod", away, span)
        even = op("mod", flips, flips.like(2)).equal(0)
        flat = span.equal(0)
        slope = flat.choose(0, even.choose(slope, -slope))
        place = flat.choose(0, even.choose(remainder + low, span - remainder + low))
    if padding:
        slope = op("logical_and", place > 0, place < size - 1).choose(slope, 0)
        place = place.maximum(0).minimum(size - 1)
    return place, slope


operator("grid_sampler_2d_backward")(_sampler)
operator("grid_sampler_3d_backward")(_sampler)


def _of_linear(name: str, operand: str, sizes: str) -> None:
    """Declare the backward operator of one that is linear in an operand, which the call has not."""

    @operator(f"{name}_backward")
    def rule(call: AtenCall) -> Value:
        anything = call.full(call.dims(sizes), scalar_constant(0, call.dtype))
        return pull_back(call, name, "grad_output", {operand: anything})[0]


_of_linear("_upsample_bilinear2d_aa", "self", "input_size")
_of_linear("_upsample_bicubic2d_aa", "self", "input_size")


@operator("_embedding_bag_backward")
def _embedding_bag(call: AtenCall) -> Value:
    """Add the gradient of each bag to the rows that it was made of; ``max`` names one for each column."""
    if call.flag("sparse") or call.flag("scale_grad_by_freq"):  # torch counts other rows than it divides
        raise UnsupportedError(
            "sparse gradients, and those that frequencies scale, are not supported",
            "leave out sparse=True and scale_grad_by_freq=True",
        )
    grad = call["grad"]
    zeros = call.full(call.shape, scalar_constant(0, grad.dtype))
    if call.integer("mode", 0) != 2:
        return _of_sums(call, zeros)
    filled = op("expand_dims", call["bag_size"] > 0, axis=1)
    rows = call["maximum_indices"].maximum(0)
    return op("scatter_elements", zeros, rows, filled.choose(grad, 0), axis=0, reduction="add")


def _of_sums(call: AtenCall, zeros: Value) -> Value:
    """Return the gradient of bags that are summed: each index gets that of its bag, divided for a mean."""
    grad, weights = call["grad"], call.get("per_sample_weights")
    if call.integer("mode", 0) == 1:
        grad = grad / op("expand_dims", call["bag_size"].maximum(1).cast(grad.dtype), axis=1)
    updates = _of_indices(call, grad)
    if weights is not None:
        updates = updates * op("expand_dims", weights, axis=1)
    if 0 in updates.shape:
        return zeros
    places = op("expand_dims", call["indices"].cast("int64"), axis=0)
    return op("scatter_nd", zeros, places, updates, mode="add")


def _of_indices(call: AtenCall, grad: Value) -> Value:
    """Return for each index the gradient of its bag, 0 for padding."""
    bags = bag_of(shapes.counting(call["indices"], 0), call["offsets"])
    updates, padding = op("take", grad, bags, axis=0, mode="clip"), call.integer("padding_idx", -1)
    if padding < 0:
        return updates
    return op("expand_dims", call["indices"].cast("int64").equal(padding), axis=1).choose(0, updates)


@operator("_embedding_bag_per_sample_weights_backward")
def _embedding_bag_weights(call: AtenCall) -> Value:
    rows = op("take", call["weight"], call["indices"].cast("int64"), axis=0, mode="clip")
    return op("sum", _of_indices(call, call["grad"]) * rows, axis=(1,))


@operator("_cdist_backward")
def _cdist(call: AtenCall) -> Value:
    """Return the gradient by the first points."""
    lhs, rhs = call["x1"], call["x2"]
    if 0 in call.shape or 0 in rhs.shape:
        return call.full(call.shape, scalar_constant(0, call.dtype))
    difference = op("expand_dims", lhs, axis=lhs.rank - 1) - op("expand_dims", rhs, axis=rhs.rank - 2)
    return op("sum", _of_distances(call, difference, call["cdist"]), axis=(lhs.rank - 1,))


@operator("_pdist_backward", note="of a known number of rows")
def _pdist(call: AtenCall) -> Value:
    data = call["self"]
    rows, width = call.static(data)
    result = call.full(call.shape, scalar_constant(0, call.dtype))
    if rows < 2 or not width:
        return result
    pairs = [constant(index.astype("int64")) for index in np.triu_indices(rows, 1)]
    left, right = (op("take", data, index, axis=0, mode="clip") for index in pairs)
    updates = _of_distances(call, left - right, call["pdist"])
    for index, update in zip(pairs, (updates, -updates), strict=True):
        result = op("scatter_nd", result, op("expand_dims", index, axis=0), update, mode="add")
    return result


def _of_distances(call: AtenCall, difference: Value, distances: Value) -> Value:
    """Return the gradient of distances by the first points; where two points are one, it is 0."""
    p, last = call.number("p"), difference.rank - 1
    size, distance = op("abs", difference), op("expand_dims", distances, axis=last)
    sign = (difference > 0).cast(size.dtype) - (difference < 0).cast(size.dtype)
    if p == 0:
        share = size.like(0) * sign
    elif p == 1:
        share = sign
    elif p == np.inf:
        share = size.equal(distance).choose(sign, 0)
    else:
        one = distance.equal(0).choose(1, distance)
        share = op("power", size / one, size.like(p - 1)) * sign if p != 2 else difference / one
        share = op("logical_or", size.equal(0), distance.equal(0)).choose(0, share)
    return op("expand_dims", call["grad"], axis=last) * share


@operator("_weight_norm_interface_backward")
def _weight_norm(call: AtenCall) -> list[Value]:
    grad, data, scale, norm = (wide(call[name]) for name in ("grad_w", "saved_v", "saved_g", "saved_norms"))
    axes = tuple(axis for axis in range(data.rank) if axis != call.axis("dim", data.rank))
    along = op("sum", grad * data, axis=axes, keepdims=True)
    return [scale / norm * (grad - data * (along / (norm * norm))), along / norm]


@operator("masked_scatter_backward")
def _masked_scatter(call: AtenCall) -> Value:
    """Return the gradients of the elements that were taken, in their order, then zeros."""
    grad = call["grad_output"]
    count = product(grad.shape)
    mask = call.reshape(call.expand(convert(call["mask"], "bool"), grad.shape), [count])
    size = product(call.shape)
    zeros = call.full([size], scalar_constant(0, grad.dtype))
    if 0 in (count, size):
        return call.full(call.shape, scalar_constant(0, grad.dtype))
    place = (op("cumsum", mask.cast("int64"), axis=0, dtype="int64") - 1).maximum(0)
    place = place.minimum(shapes.size_along(zeros, 0) - 1)
    taken = mask.choose(call.reshape(grad, [count]), 0)
    return call.reshape(op("scatter_elements", zeros, place, taken, axis=0, reduction="add"), call.shape)


# -- matrices ------------------------------------------------------------------------------------------


#: The terms of the series of the exponential of matrices with a norm below 1, and the most squarings.
_TERMS, _SQUARINGS = 18, 16


@operator("linalg_matrix_exp", note="of matrices with a 1-norm below 65536")
def _matrix_exp(call: AtenCall) -> Value:
    """Halve the matrices until their norms are below 1, sum the series, and square the sums."""
    data = wide(call["self"])
    if 0 in data.shape:
        return data
    size = data.shape[-1]
    if not isinstance(size, int):
        raise UnsupportedError("the size of the matrices must be known", "leave it out of dynamic_shapes")
    sums = op("sum", absolute(data), axis=(data.rank - 2,), keepdims=True)
    norm = op("max", sums, axis=(data.rank - 1,), keepdims=True)
    large = op("any", norm >= float(2**_SQUARINGS))
    call.block.check(op("logical_not", large), "aten.linalg_matrix_exp: the norm of a matrix is too large")
    squarings = [norm >= float(2**number) for number in range(_SQUARINGS)]
    halvings = sum((squaring.cast(norm.dtype) for squaring in squarings[1:]), squarings[0].cast(norm.dtype))
    scale = op("exp", halvings * -math.log(2)).cast(data.dtype)
    small, identity = data * scale, constant(np.eye(int(size)), data.dtype)
    total = identity + small / _TERMS
    for number in range(_TERMS - 1, 0, -1):
        total = identity + matmul(small, total) / number
    for squaring in squarings:
        total = squaring.choose(matmul(total, total), total)
    return total
