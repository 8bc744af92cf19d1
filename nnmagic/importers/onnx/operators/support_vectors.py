"""Import the support vector machines of ``ai.onnx.ml``.

The standard: https://onnx.ai/onnx/operators/onnx_aionnxml_SVMClassifier.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.blocks import OnnxBlock
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.loops import emit_loop
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.operators.classical import labels_of, post_transform
from nnmagic.importers.onnx.operators.products import matmul
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, constant, op

_ML = "ai.onnx.ml"


def _kernel(node: OnnxNode, data: Value, vectors: np.ndarray) -> Value:
    """Return the kernel of each row with each support vector."""
    gamma, coefficient, degree = [*(node.floats("kernel_params") or []), 0.0, 0.0, 0.0][:3]
    inner = matmul(data, constant(np.ascontiguousarray(vectors.T)))
    match node.text("kernel_type", "LINEAR"):
        case "LINEAR":
            return inner
        case "POLY":
            return (inner * gamma + coefficient) ** degree
        case "SIGMOID":
            return op("tanh", inner * gamma + coefficient)
        case "RBF":
            difference = shapes.unsqueeze(data, [1]) - constant(vectors[None])
            return op("exp", op("sum", difference * difference, axis=(2,)) * -gamma)
        case other:
            raise UnsupportedError(f"the kernel {other!r} is not known")


@operator("SVMRegressor", domain=_ML)
def _svm_regressor(node: OnnxNode) -> Value:
    data = node[0].cast("float32")
    count = node.integer("n_supports")
    weights = np.asarray(node.floats("coefficients"), "float32")
    if count:
        vectors = np.asarray(node.floats("support_vectors"), "float32").reshape(count, -1)
        kernel = _kernel(node, data, vectors)
    else:
        kernel = data
    score = matmul(kernel, constant(weights.reshape(-1, 1))) + (node.floats("rho") or [0.0])[0]
    if node.integer("one_class"):
        return (score > 0).choose(score.like(1), score.like(-1))
    return post_transform(node, score)


@operator("SVMClassifier", domain=_ML, note="with integer labels")
def _svm_classifier(node: OnnxNode) -> list[Value]:
    """Have each pair of classes vote; the score of a pair is positive for its first class."""
    labels, counts = labels_of(node, "classlabels_ints"), node.ints("vectors_per_class")
    if not counts or len(counts) != len(labels):
        raise UnsupportedError("a model without support vectors of each class is not supported")
    vectors = np.asarray(node.floats("support_vectors"), "float32").reshape(sum(counts), -1)
    pairs = [(one, two) for one in range(len(labels)) for two in range(one + 1, len(labels))]
    if not pairs:
        raise UnsupportedError("a model of one class is not supported")
    kernel = _kernel(node, node[0].cast("float32"), vectors)
    scores = matmul(kernel, constant(_pair_weights(node, counts, pairs)))
    scores = scores + constant(np.asarray(node.floats("rho"), "float32"))
    won = (scores > 0).cast("float32")
    first, second = (np.eye(len(labels), dtype="float32")[list(side)] for side in zip(*pairs, strict=True))
    votes = matmul(won, constant(first)) + matmul(1 - won, constant(second))
    label = op("take", constant(labels), op("argmax", votes, axis=(1,)), axis=0, mode="clip")
    if node.floats("prob_a"):
        scores = _probabilities(node, scores, pairs, len(labels))
    elif len(labels) == 2:
        scores = op("concatenate", [-scores, scores], axis=1)
    return [label, post_transform(node, scores)]


def _probabilities(node: OnnxNode, scores: Value, pairs: list[tuple[int, int]], classes: int) -> Value:
    """Return the probability of each class: Platt's for each pair, which are then coupled.

    Wu, Lin, Weng: Probability estimates for multi-class classification by pairwise coupling, the second
    method, with the limits that libsvm and onnxruntime give it.
    """
    coefficients = [np.asarray(node.floats(name) or [], "float32") for name in ("prob_a", "prob_b")]
    if any(numbers.size != len(pairs) for numbers in coefficients):
        raise UnsupportedError("prob_a and prob_b must have a number for each pair of classes")
    slope, offset = map(constant, coefficients)
    won = op("clip", op("sigmoid", -(scores * slope + offset)), a_min=1e-7, a_max=1 - 1e-7)
    first, second = np.zeros((2, len(pairs), classes * classes), "float32")
    for number, (one, two) in enumerate(pairs):
        first[number, one * classes + two] = second[number, two * classes + one] = 1
    square = [won.shape[0], classes, classes]
    against = shapes.reshape(matmul(won, constant(first)) + matmul(1 - won, constant(second)), square, won)
    diagonal_sums = op("sum", against * against, axis=(1,))
    diagonal = constant(np.eye(classes, dtype="float32"))
    matrix = shapes.unsqueeze(diagonal_sums, [1]) * diagonal - against * shapes.transpose(against, [0, 2, 1])
    return _couple(node.block, node.block.bind(matrix), node.block.bind(diagonal_sums), classes)


def _couple(block: OnnxBlock, matrix: Value, class_index: Value, classes: int) -> Value:
    """Return the probabilities ``p`` with the least ``p @ matrix @ p`` of each row, by Gauss and Seidel.

    ``class_index`` is the diagonal of each matrix. A row that has come near enough stays as it is.
    """

    def improved(_block: OnnxBlock, step: Value, carried: Sequence[Value]) -> tuple[None, Sequence[Value]]:
        chosen, product, total = carried
        slope, weight = (
            shapes.unsqueeze(op("take", each, step, axis=1, mode="clip"), [1])
            for each in (product, class_index)
        )
        change = (total - slope) / weight
        total = (total + change * (change * weight + 2 * slope)) / (1 + change) / (1 + change)
        product = (product + change * op("take", matrix, step, axis=1, mode="clip")) / (1 + change)
        here = shapes.counting(chosen, 1).equal(step).cast("float32")
        return None, [(chosen + change * here) / (1 + change), product, total]

    def build(inner: OnnxBlock, _step: Value, carried: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        (chosen,) = carried
        product = op("sum", matrix * shapes.unsqueeze(chosen, [1]), axis=(2,))
        total = op("sum", chosen * product, axis=(1,), keepdims=True)
        error = op("max", op("abs", product - total), axis=(1,), keepdims=True)
        far = inner.bind(error >= 0.005 / classes)  # NaN ends, and leaves equal probabilities, as in libsvm
        after = emit_loop(inner, [chosen, product, total], constant(classes, "int64"), None, improved)
        return op("any", far), [far.choose(after.carried[0], chosen)]

    start = op("full_like", class_index, class_index.like(1 / classes))
    limit, again = constant(100, "int64"), constant(np.bool_(1))
    return emit_loop(block, [start], limit, again, build).carried[0]


def _pair_weights(node: OnnxNode, counts: list[int], pairs: list[tuple[int, int]]) -> np.ndarray:
    """Return the weight of each support vector in the score of each pair of classes."""
    coefficients = np.asarray(node.floats("coefficients"), "float32").reshape(len(counts) - 1, -1)
    ends = np.cumsum(counts)
    weights = np.zeros((int(ends[-1]), len(pairs)), "float32")
    for column, (one, two) in enumerate(pairs):
        for class_index, other in ((one, two - 1), (two, one)):
            rows = slice(int(ends[class_index]) - counts[class_index], int(ends[class_index]))
            weights[rows, column] = coefficients[other, rows]
    return weights
