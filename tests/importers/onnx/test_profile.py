"""The profile of a model: which of its nodes each kernel computes, judged by the work of the nodes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import nnmagic
from nnmagic.functions.inspection.profile import profile
from nnmagic.jupyter.commands import profile_section
from tests.importers.onnx.graphs import info, model, node

RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


X = normal(1, 4, 16, 16)


def network() -> onnx.ModelProto:
    """Two convolutions with what follows them; the last Relu has no name."""
    nodes = [
        node("Conv", ["x", "w1"], ["a"], name="stem/conv", pads=[1] * 4),
        node("BatchNormalization", ["a", "s", "b", "m", "v"], ["n"], name="stem/norm"),
        node("Relu", ["n"], ["r"], name="stem/relu"),
        node("Conv", ["r", "w2"], ["c"], name="body/conv"),
        node("Relu", ["c"], ["activation"]),
        node("GlobalAveragePool", ["activation"], ["p"], name="pool"),
        node("Softmax", ["p"], ["y"], name="probabilities", axis=1),
    ]
    weights = {"w1": normal(8, 4, 3, 3), "w2": normal(16, 8, 1, 1)}
    norm = {"s": normal(8), "b": normal(8), "m": normal(8), "v": np.abs(normal(8)) + 1}
    return model(nodes, [info("x", X.shape)], [info("y", (1, 16, 1, 1))], {**weights, **norm})


@pytest.mark.full
def test_each_kernel_says_the_nodes_that_it_computes() -> None:
    sizes = {"first": (40, 30), "second": (30, 50), "third": (50, 20)}
    nodes, last = [], "x"
    for name in sizes:
        nodes.append(node("MatMul", [last, f"{name}_weights"], [f"{name}_product"], name=name))
        nodes.append(node("Relu", [f"{name}_product"], [f"{name}_result"]))
        last = f"{name}_result"
    weights = {f"{name}_weights": normal(*shape) for name, shape in sizes.items()}
    rows = normal(64, 40)
    function = nnmagic.from_onnx(model(nodes, [info("x", rows.shape)], [last], weights))
    profiled = profile(function, (rows,), {})
    for name, (inner, outer) in sizes.items():
        (kernel,) = (each for each in profiled.kernels if name in profiled.origins[each.name])
        assert 2 * 64 * inner * outer <= kernel.flops <= 2 * 64 * (inner + 1) * outer
        assert profiled.origins[kernel.name] == (name, f"{name}_result")


@pytest.mark.full
def test_a_kernel_of_several_equal_layers_says_all_of_them() -> None:
    nodes, weights = [], {}
    for layer in range(4):
        nodes.append(node("MatMul", [f"v{layer}", f"w{layer}"], [f"p{layer}"], name=f"product{layer}"))
        nodes.append(node("Relu", [f"p{layer}"], [f"v{layer + 1}"], name=f"relu{layer}"))
        weights[f"w{layer}"] = normal(32, 32)
    function = nnmagic.from_onnx(model(nodes, [info("v0", (8, 32))], ["v4"], weights))
    profiled = profile(function, (normal(8, 32),), {})
    (kernel,) = profiled.kernels
    assert kernel.calls == 4
    assert profiled.origins[kernel.name] == tuple(node.name for node in nodes)


@pytest.mark.full
def test_a_normalization_is_part_of_the_kernel_of_its_convolution() -> None:
    told = set(profile(nnmagic.from_onnx(network()), (X,), {}).origins.values())
    assert {("stem/conv", "stem/norm", "stem/relu"), ("body/conv", "activation")} <= told


@pytest.mark.full
@pytest.mark.parametrize("opt_level", [0, 3])
def test_every_node_is_in_a_kernel_at_each_level(opt_level: int) -> None:
    profiled = profile(nnmagic.from_onnx(network(), opt_level=opt_level), (X,), {})
    named = {node.name or node.output[0] for node in network().graph.node}
    assert {name for names in profiled.origins.values() for name in names} == named


@pytest.mark.full
def test_the_table_shows_the_first_few() -> None:
    nodes = [node("Sin", [f"v{i}"], [f"v{i + 1}"], name=f"wave_number_{i}") for i in range(8)]
    function = nnmagic.from_onnx(model(nodes, [info("v0")], [info("v8")]))
    shown = str(profile_section(profile(function, (X[0, 0, :2, :3],), {})))
    assert " wave_number_0, wave_number_1, … (+6)  1 " in shown


@pytest.mark.full
def test_a_model_in_a_cell_keeps_the_names_of_its_nodes() -> None:
    found = nnmagic.from_onnx(network())
    source = f"def f(x: Tensor[{X.shape}, f32]):\n    return sort(found(x), axis=1)\n"
    profiled = profile(nnmagic.compile(source, namespace={"found": found}), (X,), {})
    told = {name for names in profiled.origins.values() for name in names}
    assert {"stem/conv", "activation", "line 2"} <= told
