"""Boxes of detected objects: made, counted and suppressed, against what real Relay computed."""

import json

import numpy as np
import pytest

from tests.engine.programs import compile_text, read_array
from tests.relay import corpus

pytestmark = pytest.mark.sampled(every=3)

#: Measured on real Relay (TVM 0.16); rows that it leaves uninitialised, behind those that are valid, are cut.
MEASURED = [
    json.loads(line) for line in (corpus.FOLDER / "boxes.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("record", MEASURED)
def test_the_boxes_are_those_of_real_relay(record):
    result = compile_text(record["text"])([read_array(one) for one in record["inputs"]])
    outputs = [read_array(one) for one in record["outputs"]]
    for got, wanted in zip(result if isinstance(result, tuple) else (result,), outputs, strict=True):
        valid = wanted.shape[0] if 'output_format="onnx"' in record["text"] else None
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got[:valid], wanted)


def overlap(one, other):
    """The shared area by the area of both."""
    (top, left, bottom, right), (a, b, c, d) = (
        [*np.minimum(box[:2], box[2:]), *np.maximum(box[:2], box[2:])] for box in (one, other)
    )
    shared = max(0, min(bottom, c) - max(top, a)) * max(0, min(right, d) - max(left, b))
    both = (bottom - top) * (right - left) + (c - a) * (d - b) - shared
    return shared / both if both > 0 else 0


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_all_class_suppression_leaves_the_best_of_boxes_that_overlap(dtype):
    generator = np.random.default_rng(2)
    boxes = generator.integers(0, 12, (2, 15, 4)).astype(dtype)
    scores = (generator.permuted(np.tile(np.arange(1, 16), (2, 3, 1)), axis=2) / 16).astype(dtype)
    text = f"""def @main(%b: Tensor[(2, ?, 4), {dtype}], %s: Tensor[(2, 3, ?), {dtype}], %n: int32) {{
      vision.all_class_non_max_suppression(%b, %s, %n, 0.25f, 0.1f, output_format="onnx") }}"""
    program = compile_text(text)
    for limit in (0, 2, 100):
        expected = []
        for image in range(2):
            for kind in range(3):
                left = [box for box in np.argsort(-scores[image, kind]) if scores[image, kind, box] > 0.1]
                chosen = []
                while left and not 0 < limit <= len(chosen):
                    best, *rest = left
                    chosen.append(best)
                    left = [box for box in rest if overlap(*boxes[image, [best, box]].astype("f8")) < 0.25]
                expected += [(image, kind, box) for box in chosen]
        selected, total = program([boxes, scores, np.int32(limit)])
        assert total == len(expected)
        np.testing.assert_array_equal(selected[: len(expected)], expected)
        assert not selected[len(expected) :].any()


@pytest.mark.full
@pytest.mark.parametrize("count", [0, 1])
def test_there_may_be_no_boxes(count):
    text = """def @main(%b: Tensor[(1, ?, 4), float32], %s: Tensor[(1, 2, ?), float32]) {
      vision.all_class_non_max_suppression(%b, %s, 2i64, 0.5f, 0.5f, output_format="tensorflow") }"""
    selected, scores, total = compile_text(text)(
        [np.ones((1, count, 4), "float32"), np.ones((1, 2, count), "float32")]
    )
    assert (selected.shape, scores.shape, total.item()) == ((1, 2 * count, 2), (1, 2 * count), 2 * count)


def test_scores_and_counts_may_be_anything():
    """NaN is no score; a count beyond the boxes, or below 0, is the nearest that there can be."""
    boxes = np.zeros((3, 4, 6), "float32")
    boxes[..., 1] = [0.5, np.nan, np.inf, -np.inf]
    boxes[..., 2:] = np.arange(4)[:, None] * 10 + np.array([0, 0, 5, 5])
    text = """def @main(%x: Tensor[(3, 4, 6), float32], %c: Tensor[(3), int32], %i: Tensor[(3, 4), int32]) {
      vision.non_max_suppression(%x, %c, %i, -1, 0.5f, id_index=-1) }"""
    positions, number = compile_text(text)(
        [boxes, np.array([-9, 4, 99], "int32"), np.tile(np.arange(4), (3, 1)).astype("int32")]
    )
    assert number[0] == 0
    np.testing.assert_array_equal(positions[0], -1)
    for row in (1, 2):
        np.testing.assert_array_equal(np.sort(positions[row]), np.arange(4))
    scores = boxes[:, :1, :4].repeat(2, axis=1)
    scores[:] = [0.5, np.nan, np.inf, -np.inf]
    text = """def @main(%b: Tensor[(3, 4, 4), float32], %s: Tensor[(3, 2, 4), float32]) {
      vision.all_class_non_max_suppression(%b, %s, -1i64, 0.5f, 0f, output_format="onnx") }"""
    selected, total = compile_text(text)([np.ascontiguousarray(boxes[..., 2:]), scores])
    assert total == 12
    np.testing.assert_array_equal(selected[:12, 2], [2, 0] * 6)


def test_prior_boxes_of_a_size_that_is_known_only_at_the_call():
    text = """def @main(%x: Tensor[(1, 3, ?, ?), float32]) {
      vision.multibox_prior(%x, sizes=[0.5f], ratios=[1f, 4f]) }"""
    result = compile_text(text)([np.zeros((1, 3, 2, 4), "float32")])
    assert result.shape == (1, 16, 4)
    np.testing.assert_allclose(result[0, 0], [0.125 - 0.125, 0.25 - 0.25, 0.125 + 0.125, 0.25 + 0.25])
    np.testing.assert_allclose(result[0, 1], [0.125 - 0.25, 0.25 - 0.125, 0.125 + 0.25, 0.25 + 0.125])
