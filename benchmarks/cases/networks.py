"""Whole networks for one image: ResNet-18, MobileNet-v1; weights are constants, no normalisation folded."""

from __future__ import annotations

from benchmarks import layers
from benchmarks.case import Case, Goal, OfPeak, Ratio


def network_case(name: str, family: str, network: layers.Network, goals: tuple[Goal, ...]) -> Case:
    """The row of a network."""
    in_numpy = network.function(layers.in_numpy)
    return Case(
        name,
        family,
        goals,
        network.draw_input,
        network.cell("network"),
        lambda x, *weights: in_numpy(None, x, *weights),
        constants=network.draw_weights,
        torch=network.function(layers.in_torch),
        jax=network.function(layers.in_jax),
        onnx=network.function(layers.in_onnx),
        flops=network.flops,
        tolerance=1e-4,
    )


ROWS = (
    network_case("resnet-18", "networks", layers.resnet18(), (Ratio("onnxruntime", 1.0), OfPeak(0.85))),
    network_case("mobilenet-v1", "networks", layers.mobilenet(), (Ratio("onnxruntime", 1.0),)),
)
