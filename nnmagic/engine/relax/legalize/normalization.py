"""Legalize normalizations: batch, layer, group, instance, local response, L2.

Mean and variance are computed in two passes (of float16 and bfloat16 in float32), as E[x^2] - E[x]^2 cancels.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer, number
from nnmagic.engine.relax.legalize import reduction, scalar_functions
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of, te_of
from nnmagic.engine.relax.legalize.reshaping import reshape_to
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.types import Index, PrimExpr
from nnmagic.relay.expr import Attrs


def _widen(data: Tensor) -> Tensor:
    return topi.cast(data, "float32") if data.dtype in scalar_functions.NARROW_FLOATS else data


def _scale_and_shift(attrs: Attrs, data: Tensor, gamma: Tensor, beta: Tensor, *axes: int) -> Tensor:
    """Compute ``data * gamma + beta`` along axes, as far as the attributes ask for it."""

    def element(*index: Index) -> PrimExpr:
        value, channel = data(*index), [index[axis] for axis in axes]
        if attrs["scale"]:
            value = value * gamma(*channel).astype(data.dtype)
        return value + beta(*channel).astype(data.dtype) if attrs["center"] else value

    return te.compute(data.shape, element)


def _standardize(data: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """Scale to zero mean and unit variance along axes."""
    center = reduction.mean(data, axes, keepdims=True)
    distance = topi.subtract(data, center)
    spread = reduction.mean(topi.multiply(distance, distance), axes, keepdims=True)
    factor = topi.rsqrt(topi.add(spread, tirx.const(epsilon, data.dtype)))
    return topi.multiply(distance, factor)


def _normalize(
    attrs: Attrs, data: Tensor, gamma: Tensor, beta: Tensor, axes: Sequence[int], axis: int
) -> Tensor:
    standard = _standardize(_widen(data), axes, number(attrs["epsilon"]))
    result = _scale_and_shift(attrs, standard, gamma, beta, axis)
    return result if result.dtype == data.dtype else topi.cast(result, data.dtype)


def _axis(attrs: Attrs, data: Tensor) -> int:
    return integer(attrs["axis"]) % len(data.shape)


def _layer_norm(attrs: Attrs, data: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    axis = _axis(attrs, data)
    return _normalize(attrs, data, gamma, beta, [axis], axis)


def _instance_norm(attrs: Attrs, data: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    axis = _axis(attrs, data)
    spatial = [dim for dim in range(1, len(data.shape)) if dim != axis]
    return _normalize(attrs, data, gamma, beta, spatial, axis)


def _group_norm(call: OpCall) -> Value:
    """Normalize views in which an axis of groups comes before the channels of a group."""
    data, gamma, beta = call.args
    shape, attrs = shape_of(data), call.attrs
    axis, groups = integer(attrs["axis"]) % len(shape), integer(attrs["num_groups"])
    split = [groups, shape[axis] // groups]

    def compute(x: Tensor, g: Tensor, b: Tensor) -> Tensor:
        axes = range(axis + 1, len(x.shape))  # as in Relay, without the axes before the channels
        standard = _standardize(_widen(x), axes, number(attrs["epsilon"]))
        result = _scale_and_shift(attrs, standard, g, b, axis, axis + 1)
        return result if result.dtype == x.dtype else topi.cast(result, x.dtype)

    grouped = call.emit(reshape_to(data, [*shape[:axis], *split, *shape[axis + 1 :]]))
    parameters = [call.emit(reshape_to(value, split)) for value in (gamma, beta)]
    return reshape_to(call.emit(call.te(compute, grouped, *parameters)), shape)


def _batch_norm(call: OpCall) -> Value:
    """Normalize as in inference, by the moving mean and variance, which are the second and third result."""
    data, gamma, beta, moving_mean, moving_var = call.args
    attrs = call.attrs

    def compute(x: Tensor, g: Tensor, b: Tensor, center: Tensor, spread: Tensor) -> Tensor:
        axis, wide = _axis(attrs, x), _widen(x)
        epsilon = tirx.const(number(attrs["epsilon"]), wide.dtype)

        def element(*index: Index) -> PrimExpr:
            c = index[axis]
            return (wide(*index) - center(c).astype(wide.dtype)) / tirx.sqrt(
                spread(c).astype(wide.dtype) + epsilon
            )

        result = _scale_and_shift(attrs, te.compute(x.shape, element), g, b, axis)
        return result if result.dtype == x.dtype else topi.cast(result, x.dtype)

    normalized = call.emit(call.te(compute, data, gamma, beta, moving_mean, moving_var))
    return (normalized, moving_mean, moving_var)


def _lrn(attrs: Attrs, data: Tensor) -> Tensor:
    factors = {name: number(attrs[name]) for name in ("alpha", "beta", "bias")}
    return topi.nn.lrn(data, integer(attrs["size"]), integer(attrs["axis"]), **factors)


def _l2_normalize(attrs: Attrs, data: Tensor) -> Tensor:
    axes = reduction.axes_of(attrs["axis"], len(data.shape))
    squares = reduction.accumulate(topi.multiply(data, data), axes, keepdims=True)
    least = tirx.const(number(attrs["eps"]), data.dtype)
    return topi.divide(data, topi.sqrt(topi.maximum(squares, least)))


RULES.update(
    {
        "nn.batch_norm": _batch_norm,
        "nn.layer_norm": te_of(_layer_norm, reduces=True),
        "nn.group_norm": _group_norm,
        "nn.instance_norm": te_of(_instance_norm),
        "nn.lrn": te_of(_lrn),
        "nn.l2_normalize": te_of(_l2_normalize, reduces=True),
    }
)
