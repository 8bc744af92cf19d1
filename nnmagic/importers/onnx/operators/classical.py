"""Import ``ai.onnx.ml``: linear models and what prepares their features.

The standard: https://onnx.ai/onnx/operators/onnx_aionnxml_LinearClassifier.html
"""

from __future__ import annotations

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.operators.products import matmul
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, constant, op

_ML = "ai.onnx.ml"


def floats_of(data: Value) -> Value:
    """Return features as floats."""
    return data if data.dtype == "float64" else data.cast("float32")


# -- features ------------------------------------------------------------------------------------------


@operator("Binarizer", domain=_ML)
def _binarizer(node: OnnxNode) -> Value:
    return (node[0] > node[0].like(node.number("threshold"))).cast(node[0].dtype)


@operator("Scaler", domain=_ML)
def _scaler(node: OnnxNode) -> Value:
    offset, scale = (constant(np.asarray(node.floats(name), "float32")) for name in ("offset", "scale"))
    return (node[0].cast("float32") - offset) * scale


@operator("Normalizer", domain=_ML)
def _normalizer(node: OnnxNode) -> Value:
    data, norm = node[0].cast("float32"), node.text("norm", "MAX")
    axis = (data.rank - 1,)
    match norm:
        case "MAX":
            size = op("max", op("abs", data), axis=axis, keepdims=True)
        case "L1":
            size = op("sum", op("abs", data), axis=axis, keepdims=True)
        case "L2":
            size = op("sqrt", op("sum", data * data, axis=axis, keepdims=True))
        case _:
            raise UnsupportedError(f"the norm {norm!r} is not known")
    return data / size.equal(0).choose(size.like(1), size)


@operator("Imputer", domain=_ML)
def _imputer(node: OnnxNode) -> Value:
    data = node[0]
    values = node.floats("imputed_value_floats") if data.is_float else node.ints("imputed_value_int64s")
    if not values:
        raise UnsupportedError("it has no values to impute")
    fill = constant(np.asarray(values), data.dtype)
    if not data.is_float:
        return data.equal(node.integer("replaced_value_int64")).choose(fill, data)
    replaced = node.number("replaced_value_float")
    missing = op("isnan", data) if np.isnan(replaced) else data.equal(replaced)
    return missing.choose(fill, data)


@operator("FeatureVectorizer", domain=_ML)
def _feature_vectorizer(node: OnnxNode) -> Value:
    columns = [node[index].cast("float32") for index in range(len(node.inputs))]
    columns = [shapes.unsqueeze(column, [0]) if column.rank == 1 else column for column in columns]
    return op("concatenate", columns, axis=1) if len(columns) > 1 else columns[0]


@operator("OneHotEncoder", domain=_ML, note="of integers")
def _one_hot_encoder(node: OnnxNode) -> Value:
    categories = node.ints("cats_int64s")
    if not categories:
        raise UnsupportedError("strings are not supported", "encode the strings before the model")
    data = shapes.unsqueeze(node[0].cast("int64"), [node[0].rank])
    equal = data.equal(constant(np.asarray(categories, "int64")))
    if not node.integer("zeros", 1):
        known = op("all", op("any", equal, axis=(equal.rank - 1,)))
        node.block.check(known, "OneHotEncoder: an element is no category")
    return equal.cast("float32")


def _table(node: OnnxNode, kind: str) -> np.ndarray | None:
    for suffix, dtype in (("int64s", "int64"), ("floats", "float32")):
        value = node.attr(f"{kind}_{suffix}")
        if value:
            return np.asarray(value, dtype)
    tensor = node.attr(f"{kind}_tensor")
    return tensor if isinstance(tensor, np.ndarray) else None


@operator("LabelEncoder", domain=_ML, note="of numbers")
def _label_encoder(node: OnnxNode) -> Value:
    """Look each element up in a list of keys; NaN is equal to NaN."""
    keys, values = _table(node, "keys"), _table(node, "values")
    if keys is None or values is None:
        raise UnsupportedError("strings are not supported", "encode the strings outside the model")
    default_tensor = node.attr("default_tensor")
    if isinstance(default_tensor, np.ndarray):
        default = default_tensor.reshape(-1)[0]
    elif values.dtype.kind == "f":
        default = np.float32(node.number("default_float", -0.0))
    else:
        default = np.int64(node.integer("default_int64", -1))
    data = node[0]
    wide = shapes.unsqueeze(data, [data.rank])
    table = constant(keys.astype(np.dtype(data.dtype)))
    equal = wide.equal(table)
    if data.is_float:
        equal = op("logical_or", equal, op("logical_and", op("isnan", wide), op("isnan", table)))
    is_known_label = op("any", equal, axis=(data.rank,))
    first = op("argmax", equal.cast("int32"), axis=(data.rank,))
    looked = op("take", constant(values), first, axis=0, mode="clip")
    return is_known_label.choose(looked, looked.like(default))


# -- linear models -------------------------------------------------------------------------------------


def post_transform(node: OnnxNode, scores: Value) -> Value:
    """Apply the transformation of scores that a model names."""
    match node.text("post_transform", "NONE"):
        case "NONE":
            return scores
        case "LOGISTIC":
            return op("sigmoid", scores)
        case "SOFTMAX":
            return op("nn.softmax", scores, axis=-1)
        case "SOFTMAX_ZERO":
            zero = scores.equal(0)
            spread = zero.choose(scores.like(-np.inf), scores)
            return zero.choose(scores.like(0), op("nn.softmax", spread, axis=-1))
        case other:
            raise UnsupportedError(f"the post_transform {other!r} is not supported")


@operator("LinearRegressor", domain=_ML)
def _linear_regressor(node: OnnxNode) -> Value:
    return post_transform(node, _linear_scores(node, node.integer("targets", 1)))


def _linear_scores(node: OnnxNode, targets: int) -> Value:
    data = node[0].cast("float32")
    data = shapes.unsqueeze(data, [0]) if data.rank == 1 else data
    weights = np.asarray(node.floats("coefficients"), "float32").reshape(targets, -1)
    scores = matmul(data, constant(np.ascontiguousarray(weights.T)))
    intercepts = node.floats("intercepts")
    return scores + constant(np.asarray(intercepts, "float32")) if intercepts else scores


def labels_of(node: OnnxNode, *names: str) -> np.ndarray:
    """Return integer labels. Raises UnsupportedError for strings."""
    for name in names:
        labels = node.ints(name)
        if labels:
            return np.asarray(labels, "int64")
    raise UnsupportedError("labels that are strings are not supported", "train it with integer labels")


@operator("LinearClassifier", domain=_ML, note="with integer labels")
def _linear_classifier(node: OnnxNode) -> list[Value]:
    labels = labels_of(node, "classlabels_ints")
    count = len(node.floats("coefficients") or [])
    width = node[0].shape[-1]
    if not isinstance(width, int):
        raise UnsupportedError("the number of features must be known", "fix it with shapes={...}")
    scores = _linear_scores(node, count // int(width))
    if scores.shape[-1] == 1 and len(labels) == 2:
        positive = shapes.squeeze(scores, [1]) > 0
        pair = op("concatenate", [-scores, scores], axis=1)
        probabilities = post_transform(node, pair)
        if node.text("post_transform", "NONE") == "LOGISTIC":
            after = op("sigmoid", scores)
            probabilities = op("concatenate", [1 - after, after], axis=1)
        label = positive.cast("int32")
    else:
        label = op("argmax", scores, axis=(1,))
        probabilities = post_transform(node, scores)
    return [op("take", constant(labels), label, axis=0, mode="clip"), probabilities]
