"""Matrix products, dense layers and a small network of them."""

from __future__ import annotations

import numpy as np

from benchmarks.case import BEST, Arrays, Case, Draw, Ratio

_SHORT = {"float32": "f32", "float64": "f64"}


def normal(dtype: str = "float32", **shapes: tuple[int, ...]) -> Draw:
    """Draws standard normal arrays of those names and shapes."""

    def draw(generator: np.random.Generator) -> dict[str, np.ndarray]:
        return {name: generator.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}

    return draw


def nbytes(shapes: Arrays | dict[str, tuple[int, ...]], itemsize: int = 4) -> float:
    """The bytes of arrays of those shapes."""
    return float(sum(np.prod(shape) for shape in shapes.values()) * itemsize)


def square_product(size: int, dtype: str) -> Case:
    """a @ b of square matrices."""
    short = _SHORT[dtype]
    square = f"Tensor[({size}, {size}), {short}]"
    goals = (Ratio("numpy", 1.0),)
    return Case(
        f"matmul {size} {short}",
        "products",
        goals,
        normal(dtype, a=(size, size), b=(size, size)),
        f"def product(a: {square}, b: {square}):\n    return a @ b\n",
        lambda a, b: a @ b,
        torch=lambda _, a, b: a @ b,
        jax=lambda _, a, b: a @ b,
        onnx=lambda graph, a, b: graph.MatMul(a, b),
        flops=2.0 * size**3,
        nbytes=3.0 * size**2 * np.dtype(dtype).itemsize,
    )


def _transposed_product(depth: int, rows: int, columns: int) -> Case:
    """x.T @ y: the gradient of a layer's weights, or a covariance where there are many rows."""
    return Case(
        f"x.T @ y {rows}x{depth}x{columns}",
        "products",
        (Ratio("numpy", 1.0),),
        normal(x=(depth, rows), y=(depth, columns)),
        f"def product(x: Tensor[({depth}, {rows}), f32], y: Tensor[({depth}, {columns}), f32]):\n"
        "    return x.T @ y\n",
        lambda x, y: x.T @ y,
        torch=lambda _, x, y: x.T @ y,
        jax=lambda _, x, y: x.T @ y,
        flops=2.0 * depth * rows * columns,
        nbytes=4.0 * (depth * (rows + columns) + rows * columns),
        tolerance=1e-4,
    )


def _dense(rows: int, inputs: int, outputs: int) -> Case:
    """relu(x @ w + b); all three are given at each call."""
    return Case(
        f"dense+bias+relu {rows}x{inputs}x{outputs}",
        "products",
        (Ratio("numpy", 1.2), Ratio(BEST, 1.0)),
        normal(x=(rows, inputs), w=(inputs, outputs), b=(outputs,)),
        f"def dense(x: Tensor[({rows}, {inputs}), f32], w: Tensor[({inputs}, {outputs}), f32], "
        f"b: Tensor[({outputs},), f32]):\n    return relu(x @ w + b)\n",
        lambda x, w, b: np.maximum(x @ w + b, 0),
        torch=lambda torch, x, w, b: torch.relu(torch.addmm(b, x, w)),
        jax=lambda jax, x, w, b: jax.nn.relu(x @ w + b),
        onnx=lambda graph, x, w, b: graph.Relu(graph.Gemm(x, w, b)),
        flops=2.0 * rows * inputs * outputs,
        nbytes=4.0 * (rows * inputs + inputs * outputs + outputs + rows * outputs),
    )


def _mlp(batch: int, goal: float) -> Case:
    """784-256-10 with softmax at its end; the weights are constants, as torch orders them."""

    def weights(generator: np.random.Generator) -> dict[str, np.ndarray]:
        shapes = {"w1": (256, 784), "b1": (256,), "w2": (10, 256), "b2": (10,)}
        return {
            name: (generator.standard_normal(shape) * 0.05).astype("float32")
            for name, shape in shapes.items()
        }

    def in_numpy(x, w1, b1, w2, b2):
        logits = np.maximum(x @ w1.T + b1, 0) @ w2.T + b2
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def in_torch(torch, x, w1, b1, w2, b2):
        linear = torch.nn.functional.linear
        return torch.softmax(linear(torch.relu(linear(x, w1, b1)), w2, b2), 1)

    def in_onnx(graph, x, w1, b1, w2, b2):
        hidden = graph.Relu(graph.Gemm(x, w1, b1, transB=1))
        return graph.Softmax(graph.Gemm(hidden, w2, b2, transB=1), axis=1)

    return Case(
        f"mlp 784-256-10 batch {batch}",
        "products",
        (Ratio("onnxruntime", goal), Ratio("numpy", 1.0)),
        normal(x=(batch, 784)),
        f"def mlp(x: Tensor[({batch}, 784), f32]):\n"
        "    hidden = relu(linear(x, w1, b1))\n"
        "    return softmax(linear(hidden, w2, b2), axis=1)\n",
        in_numpy,
        constants=weights,
        torch=in_torch,
        jax=lambda jax, x, w1, b1, w2, b2: jax.nn.softmax(jax.nn.relu(x @ w1.T + b1) @ w2.T + b2, axis=1),
        onnx=in_onnx,
        flops=2.0 * batch * (784 * 256 + 256 * 10),
        nbytes=4.0 * (batch * 794 + 784 * 256 + 256 * 11 + 10),
    )


ROWS = (
    *(square_product(size, dtype) for dtype in ("float32", "float64") for size in (128, 512, 1024)),
    _transposed_product(512, 1024, 256),
    _transposed_product(100_000, 100, 100),
    _dense(16, 128, 128),
    _dense(128, 256, 256),
    _dense(256, 512, 512),
    _dense(512, 1024, 1024),
    _dense(2048, 256, 1024),
    _mlp(1, 1.5),
    _mlp(128, 1.0),
)
