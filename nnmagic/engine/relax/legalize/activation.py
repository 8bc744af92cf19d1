"""Activations, softmax and losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer, number
from nnmagic.engine.relax.legalize import reduction, scalar_functions
from nnmagic.engine.relax.legalize.indexing import within
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of, te_of
from nnmagic.engine.relax.legalize.unary import elementwise
from nnmagic.engine.relax.tir import vector_math
from nnmagic.relay.expr import Attrs


def _leaky_relu(attrs: Attrs, data: Any) -> Any:
    slope = tirx.const(number(attrs["alpha"]), data.dtype)
    zero = tirx.const(0, data.dtype)
    return te.compute(
        data.shape, lambda *index: tirx.Select(data(*index) > zero, data(*index), data(*index) * slope)
    )


def _prelu(attrs: Attrs, data: Any, slope: Any) -> Any:
    axis = integer(attrs["axis"]) % len(data.shape)
    zero = tirx.const(0, data.dtype)

    def element(*index: Any) -> Any:
        value = data(*index)
        return tirx.Select(value > zero, value, value * slope(index[axis]))

    return te.compute(data.shape, element)


def _softmax(attrs: Attrs, data: Any) -> Any:
    """Along one axis, in float32 where the dtype is narrower."""
    exps, total, at = _exponentials(attrs, data)
    factor = te.compute(total.shape, lambda *index: tirx.const(1, total.dtype) / total(*index))
    return te.compute(
        data.shape, lambda *index: (exps(*index) * factor(*at(index))).astype(data.dtype), name="softmax"
    )


def _log_softmax(attrs: Attrs, data: Any) -> Any:
    """The logarithm of softmax along one axis, in float32 where the dtype is narrower."""
    wide, largest, at = _largest(attrs, data)
    _, total, _ = _exponentials(attrs, data)
    unit = tirx.const(1 / vector_math.exp_scale(total.dtype), total.dtype)
    logs = te.compute(total.shape, lambda *index: tirx.log(total(*index) * unit))

    def element(*index: Any) -> Any:
        return (wide(*index) - largest(*at(index)) - logs(*at(index))).astype(data.dtype)

    return te.compute(data.shape, element, name="log_softmax")


def _exponentials(attrs: Attrs, data: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
    """The powers exp(x - largest along an axis), its sums, and where an element's sum stands.

    All are ``exp_scale`` times what they should be.
    """
    wide, largest, at = _largest(attrs, data)

    def power(*index: Any) -> Any:
        return vector_math.scaled_exp(wide(*index) - largest(*at(index)))

    exps = te.compute(data.shape, power)
    return exps, reduction.total(exps, [integer(attrs["axis"]) % len(data.shape)], keepdims=True), at


def _largest(attrs: Attrs, data: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
    """The data in the dtype to compute in, the largest along an axis, and where that of an element stands."""
    axis = integer(attrs["axis"]) % len(data.shape)
    wide = topi.cast(data, "float32") if data.dtype in ("float16", "bfloat16") else data
    largest = reduction.reduce(
        lambda where, spans: reduction.MAX(wide(*where), axis=spans), wide, [axis], keepdims=True
    )
    return wide, largest, lambda index: [0 if one == axis else place for one, place in enumerate(index)]


def _fast_softmax(attrs: Attrs, data: Any) -> Any:
    return topi.nn.fast_softmax(data, axis=attrs["axis"])


def _cross_entropy(predictions: Any, targets: Any, *, logits: bool) -> Any:
    """-sum(targets * log(predictions)) over the batch size; logits are logarithms already."""
    rows, columns = predictions.shape
    i, j = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, columns), "j")

    def term(row: Any, column: Any) -> Any:
        value = predictions(row, column)
        return (value if logits else tirx.log(value)) * targets(row, column)

    total = te.compute((), lambda: te.sum(term(i.var, j.var), axis=[i, j]))
    number = te.compute((), lambda: rows.astype(predictions.dtype))  # TVM refuses to divide by a literal 0
    return te.compute((), lambda: -total() / number())


def _nll_loss(site: OpCall) -> Value:
    predictions, targets, _ = site.args
    classes, count = shape_of(predictions)[1], math.prod(shape_of(targets))
    known = isinstance(classes, int) and (classes > 0 or isinstance(count, int))
    wanted = classes > 0 or count == 0 if known else tirx.any(tirx.const(0, "int64") < classes, count < 1)
    site.require(wanted, "there are no classes")
    return site.te(lambda *tensors: _losses(site.attrs, *tensors), *site.args)


def _losses(attrs: Attrs, predictions: Any, targets: Any, weights: Any) -> Any:
    ignored = integer(attrs["ignore_index"])

    def fitted(*at: Any) -> Any:
        target = targets(*at)
        return tirx.Select(target == ignored, target, within(target, 0, predictions.shape[1] - 1))

    known = te.compute(targets.shape, fitted)
    return topi.nn.nll_loss(predictions, known, weights, attrs["reduction"], ignored)


def _dropout(site: OpCall) -> Value:
    """As in inference: the data unchanged, and a mask of ones."""
    (data,) = site.args
    mask = site.emit(site.te(lambda x: topi.full_like(x, 1.0), data))
    return (data, mask)


RULES.update(
    {
        "nn.relu": elementwise(
            lambda value: scalar_functions.maximum(value, scalar_functions.constant(0, value))
        ),
        "nn.leaky_relu": te_of(_leaky_relu),
        "nn.prelu": te_of(_prelu),
        "nn.softmax": te_of(_softmax),
        "nn.log_softmax": te_of(_log_softmax),
        "nn.fast_softmax": te_of(_fast_softmax),
        "nn.dropout": _dropout,
        "nn.cross_entropy": te_of(lambda _attrs, x, y: _cross_entropy(x, y, logits=False)),
        "nn.cross_entropy_with_logits": te_of(lambda _attrs, x, y: _cross_entropy(x, y, logits=True)),
        "nn.nll_loss": _nll_loss,
    }
)
