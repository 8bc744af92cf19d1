"""Import ensembles of trees of ``ai.onnx.ml``.

The standard: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleClassifier.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.operators.classical import floats_of, labels_of, post_transform
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, constant, op

_ML = "ai.onnx.ml"


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees as arrays of nodes; a leaf is its own child. ``weights``: (node, target)."""

    features: np.ndarray
    thresholds: np.ndarray
    modes: Sequence[str]
    missing_true: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    roots: np.ndarray
    weights: np.ndarray
    counted: np.ndarray
    members: dict[int, list[float]]


_COMPARISONS = {
    "BRANCH_LEQ": "less_equal",
    "BRANCH_LT": "less",
    "BRANCH_GTE": "greater_equal",
    "BRANCH_GT": "greater",
    "BRANCH_EQ": "equal",
    "BRANCH_NEQ": "not_equal",
}


def _depth(trees: Trees) -> int:
    """Return the number of decisions on the longest way to a leaf. Raises UnsupportedError for a cycle."""
    level, depth = set(trees.roots.tolist()), 0
    while True:
        inner = {at for at in level if trees.yes[at] != at}
        if not inner:
            return depth
        depth += 1
        if depth > len(trees.yes):
            raise UnsupportedError("a tree has a cycle")
        level = {int(child) for at in inner for child in (trees.yes[at], trees.no[at])}


def evaluate_trees(data: Value, trees: Trees, aggregate: str) -> Value:
    """Return the sum, mean, or extreme of the leaves' weights: (row, target)."""
    batch = data.shape[0]
    count = len(trees.roots)
    at = constant(trees.roots[None, :], "int64")
    at = (
        shapes.expand_to(at, [batch, count], data)
        if shapes.is_static([batch])
        else at
        + op(
            "cast",
            op("take", op("zeros_like", data), constant([0], "int64"), axis=1, mode="clip"),
            dtype="int64",
        )
    )
    features, thresholds = constant(trees.features, "int64"), constant(trees.thresholds, data.dtype)
    names = sorted(set(trees.modes) - {"LEAF"})
    kinds = constant(np.array([names.index(mode) if mode in names else 0 for mode in trees.modes]), "int32")
    missing = constant(trees.missing_true) if trees.missing_true.any() else None
    pair = constant(np.stack([trees.no, trees.yes], axis=1).reshape(-1), "int64")
    for _ in range(_depth(trees)):
        x = op("gather", data, op("take", features, at, axis=0, mode="clip"), axis=1)
        goes = _decide(x, at, thresholds, names, kinds, trees, data)
        if missing is not None:
            goes = op(
                "logical_or",
                goes,
                op("logical_and", op("isnan", x), op("take", missing, at, axis=0, mode="clip")),
            )
        at = op("take", pair, at * 2 + goes.cast("int64"), axis=0, mode="clip")
    leaves = op("take", constant(trees.weights, data.dtype), at, axis=0, mode="clip")
    if aggregate in ("SUM", "AVERAGE"):
        total = op("sum", leaves, axis=(1,))
        return total / count if aggregate == "AVERAGE" else total
    if aggregate not in ("MIN", "MAX"):
        raise UnsupportedError(f"the aggregate function {aggregate!r} is not known")
    there = op("take", constant(trees.counted), at, axis=0, mode="clip")
    neutral = np.inf if aggregate == "MIN" else -np.inf
    result = op(aggregate.lower(), there.choose(leaves, leaves.like(neutral)), axis=(1,))
    return op("any", there, axis=(1,)).choose(result, result.like(0))


def _decide(
    x: Value, at: Value, thresholds: Value, names: Sequence[str], kinds: Value, trees: Trees, data: Value
) -> Value:
    limit = op("take", thresholds, at, axis=0, mode="clip")
    result: Value | None = None
    kind = op("take", kinds, at, axis=0, mode="clip")
    for number, name in enumerate(names):
        if name == "BRANCH_MEMBER":
            width = max(map(len, trees.members.values()), default=1)
            table = np.full((len(trees.modes), width), np.nan)
            for index, members in trees.members.items():
                table[index, : len(members)] = members
            rows = op("take", constant(table, data.dtype), at, axis=0, mode="clip")
            test = op("any", shapes.unsqueeze(x, [2]).equal(rows), axis=(2,))
        elif name in _COMPARISONS:
            test = op(_COMPARISONS[name], x, limit)
        else:
            raise UnsupportedError(f"the node mode {name!r} is not known")
        result = (
            test
            if result is None
            else op("where", kind.equal(number), test.cast("uint8"), result.cast("uint8")).cast("bool")
        )
    return constant(0, "int32") > 0 if result is None else result


def _legacy_trees(node: OnnxNode, prefix: str, targets: int) -> Trees:
    """Return the trees that TreeEnsembleClassifier and TreeEnsembleRegressor describe."""
    tree_ids, node_ids = node.ints("nodes_treeids") or [], node.ints("nodes_nodeids") or []
    where = {key: index for index, key in enumerate(zip(tree_ids, node_ids, strict=True))}
    total = len(where)
    modes = [str(mode) for mode in node.attr("nodes_modes") or []]  # type: ignore[attr-defined]  # a list of strings
    yes, no = np.arange(total), np.arange(total)
    for index, tree in enumerate(tree_ids):
        if modes[index] != "LEAF":
            yes[index] = where[tree, (node.ints("nodes_truenodeids") or [])[index]]
            no[index] = where[tree, (node.ints("nodes_falsenodeids") or [])[index]]
    values = _numbers(node, "nodes_values")
    children = {*yes[yes != np.arange(total)].tolist(), *no[no != np.arange(total)].tolist()}
    roots = [index for index in range(total) if index not in children]
    weights, counted = np.zeros((total, targets)), np.zeros((total, targets), "bool")
    ids = f"{'class' if prefix == 'class' else 'target'}"
    rows = zip(
        node.ints(f"{ids}_treeids") or [],
        node.ints(f"{ids}_nodeids") or [],
        node.ints(f"{ids}_ids") or [],
        _numbers(node, f"{ids}_weights"),
        strict=True,
    )
    for tree, leaf, target, weight in rows:
        weights[where[tree, leaf], target] += weight
        counted[where[tree, leaf], target] = True
    missing = node.ints("nodes_missing_value_tracks_true") or [0] * total
    features = np.asarray(node.ints("nodes_featureids"))
    return Trees(
        features, values, modes, np.asarray(missing, "bool"), yes, no, np.asarray(roots), weights, counted, {}
    )


def _numbers(node: OnnxNode, name: str) -> np.ndarray:
    tensor = node.attr(f"{name}_as_tensor")
    if isinstance(tensor, np.ndarray):
        return tensor.reshape(-1)
    return np.asarray(node.floats(name) or [], "float32")


@operator("TreeEnsembleRegressor", domain=_ML)
def _tree_regressor(node: OnnxNode) -> Value:
    data, targets = floats_of(node[0]), node.integer("n_targets", 1)
    trees = _legacy_trees(node, "target", targets)
    result = evaluate_trees(data, trees, node.text("aggregate_function", "SUM"))
    base = _numbers(node, "base_values")
    return post_transform(
        node, (result + constant(base, result.dtype) if base.size else result).cast("float32")
    )


@operator("TreeEnsembleClassifier", domain=_ML, note="with integer labels")
def _tree_classifier(node: OnnxNode) -> list[Value]:
    labels = labels_of(node, "classlabels_int64s")
    data = floats_of(node[0])
    ids = set(node.ints("class_ids") or [])
    trees = _legacy_trees(node, "class", len(labels))
    scores = evaluate_trees(data, trees, "SUM")
    base = _numbers(node, "base_values")
    binary = len(labels) == 2 and len(ids) == 1
    if base.size and not (binary and base.size == 1):
        scores = scores + constant(base, scores.dtype)
    if binary:
        score = shapes.slice_axis(scores, 1, max(ids), max(ids) + 1)
        if base.size == 1:
            score = score + float(base[0])
        transformation = node.text("post_transform", "NONE")
        is_probability = transformation == "NONE" and (trees.weights >= 0).all()
        positive = shapes.squeeze(score > (0.5 if is_probability else 0.0), [1])
        if transformation == "NONE":
            pair = op("concatenate", [1 - score if is_probability else -score, score], axis=1)
        elif transformation == "LOGISTIC":
            after = op("sigmoid", score)
            pair = op("concatenate", [1 - after, after], axis=1)
        else:
            pair = post_transform(node, op("concatenate", [-score, score], axis=1))
        label = positive.cast("int32")
        return [op("take", constant(labels), label, axis=0, mode="clip"), pair.cast("float32")]
    label = op("argmax", scores, axis=(1,))
    taken = op("take", constant(labels), label, axis=0, mode="clip")
    return [taken, post_transform(node, scores).cast("float32")]


#: What ``nodes_modes`` of TreeEnsemble stand for.
_MODE_NUMBERS = (
    "BRANCH_LEQ",
    "BRANCH_LT",
    "BRANCH_GTE",
    "BRANCH_GT",
    "BRANCH_EQ",
    "BRANCH_NEQ",
    "BRANCH_MEMBER",
)


@operator("TreeEnsemble", domain=_ML)
def _tree_ensemble(node: OnnxNode) -> Value:
    data, targets = node[0], node.integer("n_targets", 1)
    features = node.ints("nodes_featureids") or []
    inner, leaf_targets = len(features), node.ints("leaf_targetids") or []
    leaf_weights = np.asarray(node.attr("leaf_weights")).reshape(-1)
    total = inner + len(leaf_targets)
    modes = [_MODE_NUMBERS[int(mode)] for mode in np.asarray(node.attr("nodes_modes")).reshape(-1)]
    yes, no = np.arange(total), np.arange(total)
    for array, side in ((yes, "true"), (no, "false")):
        ids, leafs = node.ints(f"nodes_{side}nodeids") or [], node.ints(f"nodes_{side}leafs") or []
        array[:inner] = [child + inner if leaf else child for child, leaf in zip(ids, leafs, strict=True)]
    splits = np.asarray(node.attr("nodes_splits")).reshape(-1)
    weights, counted = np.zeros((total, targets), leaf_weights.dtype), np.zeros((total, targets), "bool")
    for index, (target, weight) in enumerate(zip(leaf_targets, leaf_weights, strict=True)):
        weights[inner + index, target], counted[inner + index, target] = weight, True
    missing = node.ints("nodes_missing_value_tracks_true") or [0] * inner
    padding = len(leaf_targets)
    roots = np.asarray(node.ints("tree_roots") or [])
    trees = Trees(
        np.pad(features, (0, padding)),
        np.pad(splits, (0, padding)),
        [*modes, *["LEAF"] * padding],
        np.pad(np.asarray(missing, "bool"), (0, padding)),
        yes,
        no,
        roots,
        weights,
        counted,
        _members(node, modes),
    )
    names = ("AVERAGE", "SUM", "MIN", "MAX")
    result = evaluate_trees(data, trees, names[node.integer("aggregate_function", 1)])
    number = node.integer("post_transform")
    name = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[number]
    return post_transform(replace(node, attributes={**node.attributes, "post_transform": name}), result)


def _members(node: OnnxNode, modes: Sequence[str]) -> dict[int, list[float]]:
    """Return the members of each set, which are separated by NaN."""
    sets: list[list[float]] = [[]]
    for value in np.asarray(node.attr("membership_values", np.zeros(0))).reshape(-1):
        if np.isnan(value):
            sets.append([])
        else:
            sets[-1].append(float(value))
    tests = [index for index, mode in enumerate(modes) if mode == "BRANCH_MEMBER"]
    return dict(zip(tests, sets, strict=False))
