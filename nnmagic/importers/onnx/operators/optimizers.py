"""Import the steps of optimizers, of ``ai.onnx.preview.training``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, op

_TRAINING = "ai.onnx.preview.training"

#: (node, rate, step, the tensors that belong together) -> the new tensors, without the gradient.
Step = Callable[[OnnxNode, Value, Value, Sequence[Value]], "list[Value]"]


def _optimizer(name: str, groups: int, step: Step) -> None:
    @operator(name, domain=_TRAINING)
    def rule(node: OnnxNode) -> list[Value]:
        rate, count = shapes.scalar(node[0]), shapes.scalar(node[1])
        tensors = [node[index] for index in range(2, len(node.inputs))]
        if len(tensors) % groups:
            raise UnsupportedError(f"it takes groups of {groups} tensors, not {len(tensors)}")
        number = len(tensors) // groups
        results = [step(node, rate, count, tensors[index::number]) for index in range(number)]
        return [value for together in zip(*results, strict=True) for value in together]


def _adagrad(node: OnnxNode, rate: Value, count: Value, tensors: Sequence[Value]) -> list[Value]:
    x, gradient, squares = tensors
    rate = rate / (1 + count.cast(rate.dtype) * node.number("decay_factor"))
    gradient = x * node.number("norm_coefficient") + gradient
    squares = squares + gradient * gradient
    return [x - rate * gradient / (op("sqrt", squares) + node.number("epsilon")), squares]


def _adam(node: OnnxNode, rate: Value, count: Value, tensors: Sequence[Value]) -> list[Value]:
    x, gradient, mean, squares = tensors
    alpha, beta = node.number("alpha", 0.9), node.number("beta", 0.999)
    gradient = x * node.number("norm_coefficient") + gradient
    mean = mean * alpha + gradient * (1 - alpha)
    squares = squares * beta + gradient * gradient * (1 - beta)
    power = count.cast(rate.dtype)
    corrected = rate * op("sqrt", 1 - rate.like(beta) ** power) / (1 - rate.like(alpha) ** power)
    rate = (count > 0).choose(corrected, rate)
    new = x - rate * mean / (op("sqrt", squares) + node.number("epsilon"))
    return [new * (1 - node.number("norm_coefficient_post")), mean, squares]


def _momentum(node: OnnxNode, rate: Value, count: Value, tensors: Sequence[Value]) -> list[Value]:
    x, gradient, velocity = tensors
    alpha, mode = node.number("alpha"), node.text("mode")
    if mode not in ("standard", "nesterov"):
        raise UnsupportedError(f"the mode {mode!r} is not known")
    gradient = x * node.number("norm_coefficient") + gradient
    first = rate.like(1.0)
    factor = (count > 0).choose(rate.like(node.number("beta")), first)
    velocity = velocity * alpha + factor * gradient
    direction = gradient + velocity * alpha if mode == "nesterov" else velocity
    return [x - rate * direction, velocity]


_optimizer("Adagrad", 3, _adagrad)
_optimizer("Adam", 4, _adam)
_optimizer("Momentum", 3, _momentum)
