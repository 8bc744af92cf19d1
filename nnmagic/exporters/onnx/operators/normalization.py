"""Export normalisations and softmax.

The standard: https://onnx.ai/onnx/operators/onnx__LayerNormalization.html
"""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.exporters.onnx.registry import operator, operators
from nnmagic.exporters.onnx.sites import ExportCall


def _scaled(site: ExportCall, name: str, axis: int, gamma: str, beta: str) -> str:
    """Return a tensor scaled and shifted along one axis, as the call says."""
    if site.attrs["scale"]:
        name = site.node("Mul", name, site.along(gamma, axis, site.rank))
    if site.attrs["center"]:
        name = site.node("Add", name, site.along(beta, axis, site.rank))
    return name


def _normalized(site: ExportCall, name: str, axes: Sequence[int]) -> str:
    """Return a tensor with mean 0 and variance 1 along axes."""
    along = site.vector(list(axes))
    distance = site.node("Sub", name, site.node("ReduceMean", name, along))
    variance = site.node("ReduceMean", site.node("Mul", distance, distance), along)
    deviation = site.node("Sqrt", site.node("Add", variance, site.constant(site.number("epsilon"))))
    return site.node("Div", distance, deviation)


@operator("nn.batch_norm")
def _batch_norm(site: ExportCall) -> list[str]:
    data, gamma, beta, mean, variance = site.args
    axis, epsilon = site.axis(), site.number("epsilon")
    if axis == 1 and site.rank > 1 and site.attrs["scale"] and site.attrs["center"]:
        outputs = site.node("BatchNormalization", data, gamma, beta, mean, variance, epsilon=epsilon)
    else:
        deviation = site.node("Sqrt", site.node("Add", variance, site.constant(epsilon)))
        distance = site.node("Sub", data, site.along(mean, axis, site.rank))
        outputs = site.node("Div", distance, site.along(deviation, axis, site.rank))
        outputs = _scaled(site, outputs, axis, gamma, beta)
    return [outputs, mean, variance]


@operator("nn.layer_norm")
def _layer_norm(site: ExportCall) -> str:
    data, gamma, beta = site.args
    axis = site.axis()
    if axis == site.rank - 1 and site.attrs["scale"]:
        shift = [beta] if site.attrs["center"] else []
        return site.node("LayerNormalization", data, gamma, *shift, axis=-1, epsilon=site.number("epsilon"))
    return _scaled(site, _normalized(site, data, [axis]), axis, gamma, beta)


@operator("nn.instance_norm")
def _instance_norm(site: ExportCall) -> str:
    data, gamma, beta = site.args
    axis = site.axis()
    if axis == 1 and site.attrs["scale"] and site.attrs["center"]:
        return site.node("InstanceNormalization", data, gamma, beta, epsilon=site.number("epsilon"))
    axes = [index for index in range(1, site.rank) if index != axis]
    return _scaled(site, _normalized(site, data, axes), axis, gamma, beta)


@operator("nn.group_norm", note="of known sizes unless the channels are the second axis")
def _group_norm(site: ExportCall) -> str:
    data, gamma, beta = site.args
    axis, groups = site.axis(), site.integer("num_groups")
    if axis == 1 and site.attrs["scale"] and site.attrs["center"]:
        return site.node(
            "GroupNormalization", data, gamma, beta, num_groups=groups, epsilon=site.number("epsilon")
        )
    shape = list(site.static_shape())
    divided = [*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]]
    axes = [index for index in range(1, len(divided)) if index != axis]
    normal = _normalized(site, site.reshape(data, divided), axes)
    return _scaled(site, site.reshape(normal, shape), axis, gamma, beta)


@operator("nn.l2_normalize")
def _l2_normalize(site: ExportCall) -> str:
    axes = range(site.rank) if site.attrs["axis"] is None else [a % site.rank for a in site.integers("axis")]
    data = site.args[0]
    total = site.node("ReduceSumSquare", data, site.vector(list(axes)))
    return site.node(
        "Div", data, site.node("Sqrt", site.node("Max", total, site.constant(site.number("eps"))))
    )


@operator("nn.lrn", note="across the channels of the second axis")
def _lrn(site: ExportCall) -> str:
    from nnmagic.exporters.onnx.errors import ExportRefusalError

    if site.axis() != 1 or site.attrs["norm_region"] != "ACROSS_CHANNELS":
        raise ExportRefusalError("ONNX's LRN works across the channels of the second axis")
    numbers = {name: site.number(name) for name in ("alpha", "beta", "bias")}
    return site.node("LRN", site.args[0], size=site.integer("size"), **numbers)


operators(
    {
        "nn.log_softmax": lambda site: site.node("LogSoftmax", site.args[0], axis=site.axis()),
        "nn.softmax nn.fast_softmax": lambda site: site.node("Softmax", site.args[0], axis=site.axis()),
    }
)
