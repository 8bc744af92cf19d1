"""Networks as lists of layers: the cell, the ONNX graph, the torch, jax and NumPy functions come of them.

Knows NumPy; torch, jax and the ONNX graph are handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Layer:
    """result = operator(data..., weights...), by name; size, stride, padding and groups as torch has them."""

    operator: str
    result: str
    data: tuple[str, ...]
    weights: tuple[str, ...] = ()
    size: int = 1
    stride: int = 1
    padding: int = 0
    groups: int = 1


@dataclass(slots=True)
class Network:
    """Layers in order, on the argument ``x`` of shape (batch, channels, side, side); built by its methods.

    Each method adds layers after a value and gives the new value's name. shapes: of all values and weights.
    flops: multiplications and additions of convolutions and linear layers, for each image.
    """

    channels: int
    side: int
    batch: int = 1
    layers: list[Layer] = field(default_factory=list)
    weights: dict[str, tuple[int, ...]] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    flops: float = 0.0

    def __post_init__(self) -> None:
        self.shapes["x"] = (self.batch, self.channels, self.side, self.side)

    @property
    def result(self) -> str:
        """The name of the last value."""
        return self.layers[-1].result

    def conv(
        self, data: str, outputs: int, size: int, stride: int = 1, padding: int = 0, groups: int = 1
    ) -> str:
        """A convolution without bias."""
        _, channels, side, _ = self.shapes[data]
        weight = self._weight("kernel", (outputs, channels // groups, size, size))
        after = (side + 2 * padding - size) // stride + 1
        self.flops += 2.0 * outputs * channels // groups * size**2 * after**2
        shape = (self.batch, outputs, after, after)
        return self._add("conv", (data,), shape, (weight,), size, stride, padding, groups)

    def batch_norm(self, data: str) -> str:
        """Inference, by the running mean and variance."""
        shape = self.shapes[data]
        names = tuple(self._weight(part, shape[1:2]) for part in ("mean", "variance", "scale", "shift"))
        return self._add("batch_norm", (data,), shape, names)

    def relu(self, data: str) -> str:
        """max(x, 0)."""
        return self._add("relu", (data,), self.shapes[data])

    def add(self, one: str, other: str) -> str:
        """A sum of equal shapes."""
        return self._add("add", (one, other), self.shapes[one])

    def max_pool(self, data: str, size: int, stride: int, padding: int) -> str:
        """The largest of each window."""
        _, channels, side, _ = self.shapes[data]
        after = (side + 2 * padding - size) // stride + 1
        return self._add("max_pool", (data,), (self.batch, channels, after, after), (), size, stride, padding)

    def mean(self, data: str) -> str:
        """The mean of each channel: (1, channels)."""
        return self._add("mean", (data,), self.shapes[data][:2])

    def linear(self, data: str, outputs: int) -> str:
        """x @ w.T + b."""
        inputs = self.shapes[data][1]
        names = (self._weight("matrix", (outputs, inputs)), self._weight("bias", (outputs,)))
        self.flops += 2.0 * inputs * outputs
        return self._add("linear", (data,), (self.batch, outputs), names)

    def _weight(self, kind: str, shape: tuple[int, ...]) -> str:
        name = f"{kind}{len(self.weights)}"
        self.weights[name] = self.shapes[name] = shape
        return name

    def _add(self, operator: str, data: tuple[str, ...], shape: tuple[int, ...], *rest: Any) -> str:
        name = f"v{len(self.layers)}"
        self.layers.append(Layer(operator, name, data, *rest))
        self.shapes[name] = shape
        return name

    def draw_weights(self, generator: np.random.Generator) -> dict[str, np.ndarray]:
        """Weights that keep values near 1 from layer to layer."""
        return {name: _draw(generator, name, shape) for name, shape in self.weights.items()}

    def draw_input(self, generator: np.random.Generator) -> dict[str, np.ndarray]:
        """An image."""
        return {"x": generator.standard_normal(self.shapes["x"]).astype("float32")}

    def cell(self, name: str) -> str:
        """The source of a %%tinynn cell that captures the weights."""
        lines = [f"    {layer.result} = {_cell_call(layer)}" for layer in self.layers]
        head = f"def {name}(x: Tensor[{self.shapes['x']}, f32]):"
        return "\n".join([head, *lines, f"    return {self.result}", ""])

    def function(self, operators: Callable[[Any], dict[str, Callable[..., Any]]]) -> Callable[..., Any]:
        """A function of (library, x, *weights) that runs the layers by these operators of the library."""

        def run(library: Any, x: Any, *weights: Any) -> Any:
            known = {"x": x, **dict(zip(self.weights, weights, strict=True))}
            table = operators(library)
            for layer in self.layers:
                given = [known[name] for name in (*layer.data, *layer.weights)]
                known[layer.result] = table[layer.operator](layer, *given)
            return known[self.result]

        return run


def _draw(generator: np.random.Generator, name: str, shape: Sequence[int]) -> np.ndarray:
    if name.startswith(("variance", "scale")):
        values = generator.uniform(0.5, 1.5, shape)
    elif name.startswith(("kernel", "matrix")):
        values = generator.standard_normal(shape) * (2 / np.prod(shape[1:])) ** 0.5
    else:
        values = generator.standard_normal(shape) * 0.1
    return values.astype("float32")


def _cell_call(layer: Layer) -> str:
    data, weights = ", ".join(layer.data), layer.weights
    match layer.operator:
        case "conv":
            settings = f"strides={layer.stride}, padding={layer.padding}, groups={layer.groups}"
            return f"conv2d({data}, {weights[0]}, {settings})"
        case "batch_norm":
            mean, variance, scale, shift = weights
            vectors = f"running_mean={mean}, running_var={variance}, weight={scale}, bias={shift}"
            return f"batch_norm({data}, {vectors}, eps={EPSILON})"
        case "add":
            return " + ".join(layer.data)
        case "max_pool":
            return f"max_pool2d({data}, {layer.size}, stride={layer.stride}, padding={layer.padding})"
        case "mean":
            return f"{data}.mean(axis=(2, 3))"
        case "linear":
            return f"linear({data}, {', '.join(weights)})"
        case operator:
            return f"{operator}({data})"


def training_call(layer: Layer) -> str:
    """Return the statement of a cell that computes a layer while it is trained.

    A normalisation is by the batch, and assigns the new statistics to ``new_mean...``, ``new_variance...``.
    """
    if layer.operator != "batch_norm":
        return f"{layer.result} = {_cell_call(layer)}"
    mean, variance, *_ = layer.weights
    call = _cell_call(layer).replace(", eps=", ", training=True, momentum=0.1, eps=")
    return f"{layer.result}, new_{mean}, new_{variance} = {call}"


def in_torch(torch: Any) -> dict[str, Callable[..., Any]]:
    """The operators on torch's tensors."""
    nn = torch.nn.functional
    return {
        "conv": lambda layer, x, w: nn.conv2d(x, w, None, layer.stride, layer.padding, 1, layer.groups),
        "batch_norm": lambda _, x, mean, var, scale, shift: nn.batch_norm(
            x, mean, var, scale, shift, eps=EPSILON
        ),
        "relu": lambda _, x: torch.relu(x),
        "add": lambda _, one, other: one + other,
        "max_pool": lambda layer, x: nn.max_pool2d(x, layer.size, layer.stride, layer.padding),
        "mean": lambda _, x: x.mean((2, 3)),
        "linear": lambda _, x, w, b: nn.linear(x, w, b),
    }


def in_jax(jax: Any) -> dict[str, Callable[..., Any]]:
    """The operators on jax's arrays."""

    def conv(layer: Layer, x: Any, w: Any) -> Any:
        padding = [(layer.padding, layer.padding)] * 2
        return jax.lax.conv_general_dilated(
            x, w, (layer.stride,) * 2, padding, feature_group_count=layer.groups
        )

    def batch_norm(_: Layer, x: Any, mean: Any, var: Any, scale: Any, shift: Any) -> Any:
        factor = scale * jax.lax.rsqrt(var + EPSILON)
        return x * factor[:, None, None] + (shift - mean * factor)[:, None, None]

    def max_pool(layer: Layer, x: Any) -> Any:
        window, strides = (1, 1, layer.size, layer.size), (1, 1, layer.stride, layer.stride)
        padding = [(0, 0), (0, 0), *[(layer.padding, layer.padding)] * 2]
        return jax.lax.reduce_window(x, -np.float32(np.inf), jax.lax.max, window, strides, padding)

    return {
        "conv": conv,
        "batch_norm": batch_norm,
        "relu": lambda _, x: jax.nn.relu(x),
        "add": lambda _, one, other: one + other,
        "max_pool": max_pool,
        "mean": lambda _, x: x.mean((2, 3)),
        "linear": lambda _, x, w, b: x @ w.T + b,
    }


def in_onnx(graph: Any) -> dict[str, Callable[..., str]]:
    """The operators of ONNX; normalisation is onnxruntime's to fold."""

    def pads(layer: Layer) -> dict[str, list[int]]:
        return {"strides": [layer.stride] * 2, "pads": [layer.padding] * 4}

    def batch_norm(_: Layer, x: str, mean: str, var: str, scale: str, shift: str) -> str:
        return str(graph.BatchNormalization(x, scale, shift, mean, var, epsilon=EPSILON))

    return {
        "conv": lambda layer, x, w: graph.Conv(
            x, w, kernel_shape=[layer.size] * 2, group=layer.groups, **pads(layer)
        ),
        "batch_norm": batch_norm,
        "relu": lambda _, x: graph.Relu(x),
        "add": lambda _, one, other: graph.Add(one, other),
        "max_pool": lambda layer, x: graph.MaxPool(x, kernel_shape=[layer.size] * 2, **pads(layer)),
        "mean": lambda _, x: graph.Flatten(graph.GlobalAveragePool(x)),
        "linear": lambda _, x, w, b: graph.Gemm(x, w, b, transB=1),
    }


def in_numpy(_: Any) -> dict[str, Callable[..., np.ndarray]]:
    """The operators as one writes them in NumPy: a convolution is a product with the windows as columns."""

    def batch_norm(
        _: Layer, x: np.ndarray, mean: np.ndarray, var: np.ndarray, scale: np.ndarray, shift: np.ndarray
    ) -> np.ndarray:
        factor = scale / np.sqrt(var + x.dtype.type(EPSILON))
        return x * factor[:, None, None] + (shift - mean * factor)[:, None, None]

    return {
        "conv": lambda layer, x, w: convolution(x, w, layer.stride, layer.padding, layer.groups),
        "batch_norm": batch_norm,
        "relu": lambda _, x: np.maximum(x, 0),
        "add": lambda _, one, other: one + other,
        "max_pool": lambda layer, x: _windows(x, layer.size, layer.stride, layer.padding, -np.inf).max(
            (4, 5)
        ),
        "mean": lambda _, x: x.mean((2, 3)),
        "linear": lambda _, x, w, b: x @ w.T + b,
    }


def _windows(x: np.ndarray, size: int, stride: int, padding: int, fill: float = 0.0) -> np.ndarray:
    """(1, channels, rows, columns, size, size), a view of the padded data."""
    around = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.pad(x, around, constant_values=fill) if padding else x
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))
    return windows[:, :, ::stride, ::stride]


def convolution(x: np.ndarray, w: np.ndarray, stride: int, padding: int, groups: int) -> np.ndarray:
    """The convolution of (1, channels, h, w) with one group, or with one channel a group."""
    windows = _windows(x, w.shape[2], stride, padding)
    rows, columns = windows.shape[2:4]
    if groups > 1:
        assert w.shape[1] == 1, "one channel a group"
        parts = (
            windows[..., i, j] * w[:, 0, i, j, None, None]
            for i in range(w.shape[2])
            for j in range(w.shape[3])
        )
        return np.asarray(sum(parts))
    matrix = windows.transpose(0, 1, 4, 5, 2, 3).reshape(-1, rows * columns)
    return (w.reshape(len(w), -1) @ matrix).reshape(1, len(w), rows, columns)


def resnet18(batch: int = 1, side: int = 224) -> Network:
    """ResNet-18 for square images (He et al., arXiv:1512.03385)."""
    network = Network(3, side, batch)
    value = network.relu(network.batch_norm(network.conv("x", 64, 7, 2, 3)))
    value = network.max_pool(value, 3, 2, 1)
    for channels, first_stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first_stride, 1):
            inner = network.relu(network.batch_norm(network.conv(value, channels, 3, stride, 1)))
            inner = network.batch_norm(network.conv(inner, channels, 3, 1, 1))
            if stride > 1:
                value = network.batch_norm(network.conv(value, channels, 1, stride))
            value = network.relu(network.add(inner, value))
    network.linear(network.mean(value), 1000)
    return network


#: Channels after each separable block of MobileNet-v1, and its stride.
MOBILENET_BLOCKS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    *[(512, 1)] * 5, (1024, 2), (1024, 1),
)  # fmt: skip


def mobilenet() -> Network:
    """MobileNet-v1 for an image of 224 x 224 (Howard et al., arXiv:1704.04861)."""
    network = Network(3, 224)
    value = network.relu(network.batch_norm(network.conv("x", 32, 3, 2, 1)))
    for channels, stride in MOBILENET_BLOCKS:
        before = network.shapes[value][1]
        depthwise = network.conv(value, before, 3, stride, 1, before)
        value = network.relu(network.batch_norm(depthwise))
        value = network.relu(network.batch_norm(network.conv(value, channels, 1)))
    network.linear(network.mean(value), 1000)
    return network
