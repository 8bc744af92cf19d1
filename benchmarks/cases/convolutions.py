"""Each convolution of ResNet-18, each depthwise one of MobileNet-v1, alone, weights as constants."""

from __future__ import annotations

from benchmarks.case import Case, Ratio
from benchmarks.cases.networks import network_case
from benchmarks.layers import Layer, Network, mobilenet, resnet18


def _alone(whole: Network, layer: Layer) -> Case:
    """The row of one layer of a network, in the network's own layout."""
    _, channels, side, _ = whole.shapes[layer.data[0]]
    outputs = whole.shapes[layer.result][1]
    network = Network(channels, side)
    network.conv("x", outputs, layer.size, layer.stride, layer.padding, layer.groups)
    stride = f" /{layer.stride}" if layer.stride > 1 else ""
    kind = "depthwise" if layer.groups > 1 else "conv"
    planes = f"{channels}" if layer.groups > 1 else f"{channels}-{outputs}"
    name = f"{kind} {layer.size}x{layer.size} {planes} @{side}{stride}"
    return network_case(name, "convolutions", network, (Ratio("onnxruntime", 1.0),))


def _all(whole: Network, *, depthwise: bool) -> tuple[Case, ...]:
    """Rows of the network's convolutions of that kind, each form once."""
    wanted = [layer for layer in whole.layers if layer.operator == "conv" and (layer.groups > 1) == depthwise]
    cases = {case.name: case for case in (_alone(whole, layer) for layer in wanted)}
    return tuple(cases.values())


ROWS = (*_all(resnet18(), depthwise=False), *_all(mobilenet(), depthwise=True))
