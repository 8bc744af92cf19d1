"""Normalisation: batch, layer, group, instance, local response, L2.

Mean and variance are computed in two passes (of float16 and bfloat16 in float32), as E[x^2] - E[x]^2 cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer, number
from nnmagic.engine.relax.legalize import reduction
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, te_of
from nnmagic.relay.expr import Attrs

_NARROW = ("float16", "bfloat16")


def _wide(data: Any) -> Any:
    return topi.cast(data, "float32") if data.dtype in _NARROW else data


def _scaled(attrs: Attrs, data: Any, gamma: Any, beta: Any, axis: int) -> Any:
    """``data * gamma + beta`` along an axis, as far as the attributes say so."""

    def element(*index: Any) -> Any:
        value = data(*index)
        if attrs["scale"]:
            value = value * gamma(index[axis]).astype(data.dtype)
        return value + beta(index[axis]).astype(data.dtype) if attrs["center"] else value

    return te.compute(data.shape, element)


def _standardized(data: Any, axes: Sequence[int], epsilon: float) -> Any:
    """Zero mean and unit variance along axes."""
    center = reduction.mean(data, axes, keepdims=True)
    distance = topi.subtract(data, center)
    spread = reduction.mean(topi.multiply(distance, distance), axes, keepdims=True)
    factor = topi.rsqrt(topi.add(spread, tirx.const(epsilon, data.dtype)))
    return topi.multiply(distance, factor)


def _normalized(attrs: Attrs, data: Any, gamma: Any, beta: Any, axes: Sequence[int], axis: int) -> Any:
    standard = _standardized(_wide(data), axes, number(attrs["epsilon"]))
    result = _scaled(attrs, standard, gamma, beta, axis)
    return result if result.dtype == data.dtype else topi.cast(result, data.dtype)


def _axis(attrs: Attrs, data: Any) -> int:
    return integer(attrs["axis"]) % len(data.shape)


def _layer_norm(attrs: Attrs, data: Any, gamma: Any, beta: Any) -> Any:
    axis = _axis(attrs, data)
    return _normalized(attrs, data, gamma, beta, [axis], axis)


def _instance_norm(attrs: Attrs, data: Any, gamma: Any, beta: Any) -> Any:
    axis = _axis(attrs, data)
    spatial = [one for one in range(1, len(data.shape)) if one != axis]
    return _normalized(attrs, data, gamma, beta, spatial, axis)


def _group_norm(attrs: Attrs, data: Any, gamma: Any, beta: Any) -> Any:
    axis, groups = _axis(attrs, data), integer(attrs["num_groups"])
    split = [*data.shape[:axis], groups, data.shape[axis] // groups, *data.shape[axis + 1 :]]
    grouped = topi.reshape(_wide(data), split)
    axes = range(axis + 1, len(split))  # as Relay: none that stands before the channels
    standard = topi.reshape(_standardized(grouped, axes, number(attrs["epsilon"])), data.shape)
    result = _scaled(attrs, standard, gamma, beta, axis)
    return result if result.dtype == data.dtype else topi.cast(result, data.dtype)


def _batch_norm(site: OpCall) -> Value:
    """As in inference: with the moving mean and variance, which are the second and third result."""
    data, gamma, beta, moving_mean, moving_var = site.args
    attrs = site.attrs

    def compute(x: Any, g: Any, b: Any, center: Any, spread: Any) -> Any:
        axis, wide = _axis(attrs, x), _wide(x)
        epsilon = tirx.const(number(attrs["epsilon"]), wide.dtype)

        def element(*index: Any) -> Any:
            c = index[axis]
            return (wide(*index) - center(c).astype(wide.dtype)) / tirx.sqrt(
                spread(c).astype(wide.dtype) + epsilon
            )

        result = _scaled(attrs, te.compute(x.shape, element), g, b, axis)
        return result if result.dtype == x.dtype else topi.cast(result, x.dtype)

    normalized = site.emit(site.te(compute, data, gamma, beta, moving_mean, moving_var))
    return (normalized, moving_mean, moving_var)


def _lrn(attrs: Attrs, data: Any) -> Any:
    factors = {name: number(attrs[name]) for name in ("alpha", "beta", "bias")}
    return topi.nn.lrn(data, integer(attrs["size"]), integer(attrs["axis"]), **factors)


def _l2_normalize(attrs: Attrs, data: Any) -> Any:
    axes = reduction.axes_of(attrs["axis"], len(data.shape))
    squares = reduction.total(topi.multiply(data, data), axes, keepdims=True)
    least = tirx.const(number(attrs["eps"]), data.dtype)
    return topi.divide(data, topi.sqrt(topi.maximum(squares, least)))


RULES.update(
    {
        "nn.batch_norm": _batch_norm,
        "nn.layer_norm": te_of(_layer_norm),
        "nn.group_norm": te_of(_group_norm),
        "nn.instance_norm": te_of(_instance_norm),
        "nn.lrn": te_of(_lrn),
        "nn.l2_normalize": te_of(_l2_normalize),
    }
)
