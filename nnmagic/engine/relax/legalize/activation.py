"""Legalize activations, softmax and losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer, number
from nnmagic.engine.relax.legalize import reduction, scalar_functions
from nnmagic.engine.relax.legalize.index_checks import clip_to_range
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of, te_of, tensor_dtype
from nnmagic.engine.relax.legalize.types import ElementFunction, Tensor
from nnmagic.engine.relax.legalize.unary import elementwise_rule
from nnmagic.engine.relax.tir import vector_math
from nnmagic.engine.relax.tir.types import Index, PrimExpr
from nnmagic.relay.expr import Attrs


def _leaky_relu(call: OpCall) -> Value:
    """Scale negative numbers; a slope of 0 is an operand, because TVM takes x * 0 for 0 even of NaN."""
    (data,) = call.args
    alpha = number(call.attrs["alpha"])
    if alpha:
        return call.te(
            lambda x: _scale_negative(x, lambda value: scalar_functions.constant(alpha, value)), data
        )
    zero = relax.const(alpha, tensor_dtype(data))
    return call.te(lambda x, slope: _scale_negative(x, lambda _: slope()), data, zero)


def _scale_negative(data: Tensor, slope: ElementFunction) -> Tensor:
    def element(*index: Index) -> PrimExpr:
        value = data(*index)
        return tirx.Select(value > tirx.const(0, data.dtype), value, value * slope(value))

    return te.compute(data.shape, element)


def _prelu(attrs: Attrs, data: Tensor, slope: Tensor) -> Tensor:
    axis = integer(attrs["axis"]) % len(data.shape)
    zero = tirx.const(0, data.dtype)

    def element(*index: Index) -> PrimExpr:
        value = data(*index)
        return tirx.Select(value > zero, value, value * slope(index[axis]))

    return te.compute(data.shape, element)


def _softmax(attrs: Attrs, data: Tensor) -> Tensor:
    """Compute softmax along one axis, in float32 where the dtype is narrower."""
    exps, total, reduced_index = _axis_exponentials(attrs, data)
    factor = te.compute(total.shape, lambda *index: tirx.const(1, total.dtype) / total(*index))
    return te.compute(
        data.shape,
        lambda *index: (exps(*index) * factor(*reduced_index(index))).astype(data.dtype),
        name="softmax",
    )


def _log_softmax(attrs: Attrs, data: Tensor) -> Tensor:
    """Compute the logarithm of softmax along one axis, in float32 where the dtype is narrower."""
    wide, largest, reduced_index = _axis_max(attrs, data)
    _, total, _ = _axis_exponentials(attrs, data)
    unit = tirx.const(1 / vector_math.exp_scale(total.dtype), total.dtype)
    logs = te.compute(total.shape, lambda *index: tirx.log(total(*index) * unit))

    def element(*index: Index) -> PrimExpr:
        reduced = reduced_index(index)
        return (wide(*index) - largest(*reduced) - logs(*reduced)).astype(data.dtype)

    return te.compute(data.shape, element, name="log_softmax")


def _axis_exponentials(
    attrs: Attrs, data: Tensor
) -> tuple[Tensor, Tensor, Callable[[Sequence[Index]], list[Index]]]:
    """Return exp(x - max) along an axis, its sums, and a function from an element's index to its sum's.

    All are scaled by ``exp_scale``.
    """
    wide, largest, reduced_index = _axis_max(attrs, data)

    def power(*index: Index) -> PrimExpr:
        return vector_math.scaled_exp(wide(*index) - largest(*reduced_index(index)))

    exps = te.compute(data.shape, power)
    axis = integer(attrs["axis"]) % len(data.shape)
    return exps, reduction.accumulate(exps, [axis], keepdims=True), reduced_index


def _axis_max(attrs: Attrs, data: Tensor) -> tuple[Tensor, Tensor, Callable[[Sequence[Index]], list[Index]]]:
    """Return the data in the dtype to compute in, the maximum along an axis, and a function of indices.

    The function maps the index of an element to that of its maximum.
    """
    axis = integer(attrs["axis"]) % len(data.shape)
    wide = topi.cast(data, "float32") if data.dtype in scalar_functions.NARROW_FLOATS else data
    largest = reduction.reduce(
        lambda index, axes: reduction.MAX(wide(*index), axis=axes), wide, [axis], keepdims=True
    )
    return wide, largest, lambda index: [0 if dim == axis else i for dim, i in enumerate(index)]


def _cross_entropy(predictions: Tensor, targets: Tensor, *, logits: bool) -> Tensor:
    """Compute -sum(targets * log(predictions)) / rows; logits are logarithms already."""
    rows, columns = predictions.shape
    i, j = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, columns), "j")

    def term(row: Index, column: Index) -> PrimExpr:
        value = predictions(row, column)
        return (value if logits else tirx.log(value)) * targets(row, column)

    total = te.compute((), lambda: te.sum(term(i.var, j.var), axis=[i, j]))
    number = te.compute((), lambda: rows.astype(predictions.dtype))  # TVM refuses to divide by a literal 0
    return te.compute((), lambda: -total() / number())


def _nll_loss(call: OpCall) -> Value:
    predictions, targets, _ = call.args
    classes, count = shape_of(predictions)[1], math.prod(shape_of(targets))
    static = isinstance(classes, int) and (classes > 0 or isinstance(count, int))
    condition = classes > 0 or count == 0 if static else tirx.any(tirx.const(0, "int64") < classes, count < 1)
    call.require(condition, "there are no classes")
    return call.te(lambda *tensors: _nll_losses(call.attrs, *tensors), *call.args)


def _nll_losses(attrs: Attrs, predictions: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    ignored = integer(attrs["ignore_index"])

    def clip_target(*index: Index) -> PrimExpr:
        target = targets(*index)
        return tirx.Select(target == ignored, target, clip_to_range(target, 0, predictions.shape[1] - 1))

    clipped = te.compute(targets.shape, clip_target)
    return topi.nn.nll_loss(predictions, clipped, weights, attrs["reduction"], ignored)


def _dropout(call: OpCall) -> Value:
    """Return the data unchanged and a mask of ones, as in inference."""
    (data,) = call.args
    mask = call.emit(call.te(lambda x: topi.full_like(x, 1.0), data))
    return (data, mask)


RULES.update(
    {
        "nn.relu": elementwise_rule(
            lambda value: scalar_functions.maximum(value, scalar_functions.constant(0, value))
        ),
        "nn.leaky_relu": _leaky_relu,
        "nn.prelu": te_of(_prelu),
        "nn.softmax": te_of(_softmax, reduces=True),
        "nn.log_softmax": te_of(_log_softmax, reduces=True),
        "nn.fast_softmax": te_of(lambda attrs, data: topi.nn.fast_softmax(data, axis=attrs["axis"])),
        "nn.dropout": _dropout,
        "nn.cross_entropy": te_of(lambda _attrs, x, y: _cross_entropy(x, y, logits=False)),
        "nn.cross_entropy_with_logits": te_of(lambda _attrs, x, y: _cross_entropy(x, y, logits=True)),
        "nn.nll_loss": _nll_loss,
    }
)
