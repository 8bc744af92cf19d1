"""Write whole ONNX models with random weights, in the form in which exporters write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import layers
from benchmarks.graph import ML, Graph
from benchmarks.peers import onnx_package

#: Of the transformer: tokens, features, heads, features of the inner layer.
TOKENS, WIDTH, HEADS, INNER = 64, 256, 4, 1024
#: Of the LSTM: steps, features, hidden features of each direction.
STEPS, FEATURES, HIDDEN = 50, 64, 128
#: Of the pipeline: rows, features, trees, their depth.
ROWS, COLUMNS, TREES, DEPTH = 1000, 16, 50, 6
#: The side of the images of the small networks.
SIDE = 64


def _generator() -> np.random.Generator:
    return np.random.default_rng(7)


def _draw(generator: np.random.Generator, *shape: int, inputs: int) -> np.ndarray:
    """Return weights that keep values near 1 in a layer with so many inputs."""
    return (generator.standard_normal(shape) * inputs**-0.5).astype("float32")


def light(name: str) -> bytes:
    """Return a network whose graph the package onnx ships, with random weights instead of constant ones."""
    onnx = onnx_package()
    model = onnx.load(Path(onnx.__file__).parent / f"backend/test/data/light/light_{name}.onnx")
    generator = _generator()
    shapes = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in [node for node in model.graph.node if node.op_type == "ConstantOfShape"]:
        shape = [int(size) for size in shapes[node.input[0]]]
        if len(shape) > 1:
            weights = _draw(generator, *shape, inputs=int(np.prod(shape[1:])) / 2)
        else:  # scales and variances are positive
            weights = generator.uniform(0.9, 1.1, shape).astype("float32")
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, node.output[0]))
        model.graph.node.remove(node)
    return bytes(model.SerializeToString())


def convolutional(network: layers.Network) -> bytes:
    """Return a network of layers whose normalisations are not folded."""
    graph = Graph(onnx_package())
    weights = network.draw_weights(_generator())
    held = [graph.constant(array, name) for name, array in weights.items()]
    result = network.function(layers.in_onnx)(graph, "x", *held)
    like = np.empty(network.shapes[network.result], "float32")
    return graph.model({"x": np.empty(network.shapes["x"], "float32")}, result, like)


def transformer(depth: int) -> bytes:
    """Return encoder layers whose heads are split and joined by Reshape and Transpose."""
    generator, graph = _generator(), Graph(onnx_package())
    split = graph.constant(np.array([0, 0, HEADS, WIDTH // HEADS]))
    join = graph.constant(np.array([0, 0, WIDTH]))
    scale = graph.constant(np.float32((WIDTH // HEADS) ** -0.5))
    half, one, root = (graph.constant(np.float32(number)) for number in (0.5, 1, 2**0.5))

    def dense(x: str, inputs: int, outputs: int) -> str:
        weights = graph.constant(_draw(generator, inputs, outputs, inputs=inputs))
        bias = graph.constant(_draw(generator, outputs, inputs=100))
        return graph.Add(graph.MatMul(x, weights), bias)

    def norm(x: str) -> str:
        factors = generator.uniform(0.5, 1.5, WIDTH).astype("float32")
        return graph.LayerNormalization(
            x, graph.constant(factors), graph.constant(_draw(generator, WIDTH, inputs=100)), axis=-1
        )

    x = "x"
    for _ in range(depth):
        query, key, value = (graph.Reshape(dense(x, WIDTH, WIDTH), split) for _ in range(3))
        query, value = (graph.Transpose(each, perm=[0, 2, 1, 3]) for each in (query, value))
        scores = graph.Mul(graph.MatMul(query, graph.Transpose(key, perm=[0, 2, 3, 1])), scale)
        heads = graph.MatMul(graph.Softmax(scores, axis=-1), value)
        joined = graph.Reshape(graph.Transpose(heads, perm=[0, 2, 1, 3]), join)
        x = norm(graph.Add(x, dense(joined, WIDTH, WIDTH)))
        inner = dense(x, WIDTH, INNER)
        gelu = graph.Mul(graph.Mul(inner, graph.Add(graph.Erf(graph.Div(inner, root)), one)), half)
        x = norm(graph.Add(x, dense(gelu, INNER, WIDTH)))
    like = np.empty((1, TOKENS, WIDTH), "float32")
    return graph.model({"x": like}, x, like)


def lstm() -> bytes:
    """Return two bidirectional layers, and a dense one for each step."""
    generator, graph = _generator(), Graph(onnx_package())

    def layer(x: str, inputs: int) -> str:
        """Return both directions of a layer side by side: (steps, batch, 2 * HIDDEN)."""
        parts = [
            _draw(generator, 2, 4 * HIDDEN, inputs, inputs=inputs),
            _draw(generator, 2, 4 * HIDDEN, HIDDEN, inputs=HIDDEN),
            _draw(generator, 2, 8 * HIDDEN, inputs=100),
        ]
        held = [graph.constant(part) for part in parts]
        steps = graph.LSTM(x, *held, hidden_size=HIDDEN, direction="bidirectional")
        swapped = graph.Transpose(steps, perm=[0, 2, 1, 3])  # directions come before the batch
        return graph.Reshape(swapped, graph.constant(np.array([0, 0, -1])))

    last = layer(layer("x", FEATURES), 2 * HIDDEN)
    weights = graph.constant(_draw(generator, 2 * HIDDEN, 10, inputs=2 * HIDDEN))
    like = np.empty((STEPS, 1, 10), "float32")
    return graph.model({"x": np.empty((STEPS, 1, FEATURES), "float32")}, graph.MatMul(last, weights), like)


def quantised() -> bytes:
    """Return a network of 8 bits: every tensor goes through QuantizeLinear and DequantizeLinear.

    Weights are signed, with a scale for each channel, and activations are unsigned, as onnxruntime's
    quantiser writes them.
    """
    generator, graph = _generator(), Graph(onnx_package())
    zero = graph.constant(np.uint8(0))

    def quantise(x: str, largest: float, zero_point: str = zero) -> tuple[str, float]:
        """Return a tensor of 256 levels as floats, and its scale."""
        scale = graph.constant(np.float32(largest / 255))
        return graph.DequantizeLinear(
            graph.QuantizeLinear(x, scale, zero_point), scale, zero_point
        ), largest / 255

    def conv(x: str, scale: float, inputs: int, outputs: int, *, size: int = 3, stride: int = 1) -> str:
        levels = np.clip(generator.standard_normal((outputs, inputs, size, size)) * 42, -127, 127)
        scales = generator.uniform(0.8, 1.2, outputs) * (2 / (inputs * size**2)) ** 0.5 / 42
        weights = graph.DequantizeLinear(
            graph.constant(levels.astype("int8")), graph.constant(scales.astype("float32")), axis=0
        )
        bias = graph.DequantizeLinear(
            graph.constant((generator.standard_normal(outputs) * 0.1 / (scale * scales)).astype("int32")),
            graph.constant((scale * scales).astype("float32")),
            axis=0,
        )
        return graph.Conv(x, weights, bias, strides=[stride] * 2, pads=[size // 2] * 4)

    x, scale = quantise("x", 8.0, graph.constant(np.uint8(128)))
    x, scale = quantise(graph.Relu(conv(x, scale, 3, 32, stride=2)), 6.0)
    for inputs, outputs in ((32, 64), (64, 128)):
        around, _ = quantise(
            conv(x, scale, inputs, outputs, size=1, stride=2), 12.0, graph.constant(np.uint8(128))
        )
        inner, inner_scale = quantise(graph.Relu(conv(x, scale, inputs, outputs, stride=2)), 6.0)
        inner, _ = quantise(conv(inner, inner_scale, outputs, outputs), 12.0, graph.constant(np.uint8(128)))
        x, scale = quantise(graph.Relu(graph.Add(inner, around)), 8.0)
    pooled, scale = quantise(graph.GlobalAveragePool(x), 4.0)
    result = graph.Flatten(conv(pooled, scale, 128, 10, size=1))
    shape = (1, 3, SIDE, SIDE)
    return graph.model({"x": np.empty(shape, "float32")}, result, np.empty((1, 10), "float32"))


def pipeline() -> bytes:
    """Return a scaler, then the mean of a linear regression and of a forest, as skl2onnx writes them."""
    generator, graph = _generator(), Graph(onnx_package())
    scaled = graph.Scaler(
        "x",
        domain=ML,
        offset=generator.standard_normal(COLUMNS),
        scale=generator.uniform(0.5, 1.5, COLUMNS),
    )
    linear = graph.LinearRegressor(
        scaled, domain=ML, coefficients=generator.standard_normal(COLUMNS), intercepts=[0.5]
    )
    forest = graph.TreeEnsembleRegressor(scaled, domain=ML, n_targets=1, **_trees(generator))
    mean = graph.Mul(graph.Add(linear, forest), graph.constant(np.float32(0.5)))
    like = np.empty((ROWS, 1), "float32")
    return graph.model({"x": np.empty((ROWS, COLUMNS), "float32")}, mean, like)


def _trees(generator: np.random.Generator) -> dict[str, Any]:
    """Return the attributes of complete trees; the children of node n are 2 n + 1 and 2 n + 2."""
    inner, every = 2**DEPTH - 1, 2 ** (DEPTH + 1) - 1
    leaves = every - inner
    numbers, is_leaf = np.arange(every), np.arange(every) >= inner
    return {
        "nodes_treeids": np.repeat(np.arange(TREES), every),
        "nodes_nodeids": np.tile(numbers, TREES),
        "nodes_featureids": np.where(
            np.tile(is_leaf, TREES), 0, generator.integers(COLUMNS, size=TREES * every)
        ),
        "nodes_modes": ["LEAF" if leaf else "BRANCH_LEQ" for leaf in is_leaf] * TREES,
        "nodes_values": np.where(np.tile(is_leaf, TREES), 0.0, generator.standard_normal(TREES * every)),
        "nodes_truenodeids": np.tile(np.where(is_leaf, 0, 2 * numbers + 1), TREES),
        "nodes_falsenodeids": np.tile(np.where(is_leaf, 0, 2 * numbers + 2), TREES),
        "target_treeids": np.repeat(np.arange(TREES), leaves),
        "target_nodeids": np.tile(numbers[is_leaf], TREES),
        "target_ids": np.zeros(TREES * leaves, "int64"),
        "target_weights": generator.standard_normal(TREES * leaves) / TREES,
    }


def unet() -> bytes:
    """Return a U-Net of three levels; the ways up are nearest neighbours and a transposed convolution."""
    generator, graph = _generator(), Graph(onnx_package())

    def conv(x: str, inputs: int, outputs: int, size: int = 3) -> str:
        weights = _draw(generator, outputs, inputs, size, size, inputs=inputs * size**2 / 2)
        bias = graph.constant(_draw(generator, outputs, inputs=100))
        return graph.Conv(x, graph.constant(weights), bias, pads=[size // 2] * 4)

    def block(x: str, inputs: int, outputs: int) -> str:
        return graph.Relu(conv(graph.Relu(conv(x, inputs, outputs)), outputs, outputs))

    def pool(x: str) -> str:
        return graph.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])

    first = block("x", 3, 16)
    second = block(pool(first), 16, 32)
    third = block(pool(second), 32, 64)
    factors = graph.constant(np.array([1, 1, 2, 2], "float32"))
    risen = graph.Resize(
        third, "", factors, mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"
    )
    second = block(graph.Concat(second, conv(risen, 64, 32), axis=1), 64, 32)
    weights = graph.constant(_draw(generator, 32, 16, 2, 2, inputs=32))
    risen = graph.ConvTranspose(second, weights, strides=[2, 2], kernel_shape=[2, 2])
    first = block(graph.Concat(first, risen, axis=1), 32, 16)
    shape = (1, 3, SIDE, SIDE)
    result = graph.Sigmoid(conv(first, 16, 2, size=1))
    return graph.model({"x": np.empty(shape, "float32")}, result, np.empty((1, 2, SIDE, SIDE), "float32"))
