"""Networks whose graphs are large."""

from __future__ import annotations

import numpy as np

from nnmagic.diagnostics import Source
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.tinynn import compile_source


def resnet18() -> Module:
    """ResNet-18 for images of 32 x 32, with convolutions and biases of 2 to 16 channels."""
    weights: dict[str, np.ndarray] = {}

    def convolution(x: str, before: int, after: int, size: int, stride: int) -> str:
        number = len(weights)
        weights[f"w{number}"] = np.zeros((after, before, size, size), "float32")
        weights[f"w{number + 1}"] = np.zeros(after, "float32")
        options = f"strides={stride}, padding={size // 2}, kernel_size=({size}, {size})"
        return f"bias_add(conv2d({x}, w{number}, {options}), w{number + 1})"

    lines = [
        f"x = relu({convolution('x', 3, 2, 7, 2)})",
        "x = max_pool2d(x, pool_size=3, strides=2, padding=1)",
    ]
    before = 2
    for after, stride in ((2, 1), (2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), (16, 1)):
        lines.append(f"y = relu({convolution('x', before, after, 3, stride)})")
        lines.append(f"y = {convolution('y', after, after, 3, 1)}")
        if stride != 1:
            lines.append(f"x = {convolution('x', before, after, 1, stride)}")
        lines.append("x = relu(y + x)")
        before = after
    weights["classes"] = np.zeros((10, 16), "float32")
    lines.append("return dense(batch_flatten(global_avg_pool2d(x)), classes)")
    source = "def resnet18(x: Tensor[(1, 3, 32, 32), f32]):\n    " + "\n    ".join(lines) + "\n"
    return infer_type(compile_source(Source("<network>", source), weights).module)
