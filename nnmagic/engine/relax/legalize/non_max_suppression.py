"""Legalize non-maximum suppression: choose the best of the detected boxes that overlap.

The kernels are loops, because each choice depends on the previous ones. Numbers that Relay takes as operands
(thresholds, limits) are tensors here, too. Elements that Relay leaves uninitialised are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812 - TVM's own name for its builder

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize.index_checks import clip_to_range
from nnmagic.engine.relax.legalize.registry import RULES, te_of
from nnmagic.engine.relax.legalize.sorting import sort_order
from nnmagic.engine.relax.legalize.types import Tensor, Tensors
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt
from nnmagic.relay.expr import Attrs


@contextmanager
def _when(condition: PrimExpr) -> Iterator[None]:
    with T.If(condition), T.Then():
        yield


def _local(dtype: str) -> Buffer:
    return T.buffer_proxy(T.alloc_buffer((1,), dtype, scope="local"))


def _int(value: int) -> PrimExpr:
    return tirx.const(value, "int32")


def _wide(value: int) -> PrimExpr:
    return tirx.const(value, "int64")


def _kernel(
    body: Callable[..., None],
    inputs: Sequence[Tensor],
    shapes: Sequence[Sequence[Extent]],
    dtypes: Sequence[str],
) -> Tensors:
    """Return tensors of these shapes that ``body`` writes, reading the inputs."""

    def emit(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        with IRBuilder() as builder:
            with T.seq_scope():
                body(*map(T.buffer_proxy, (*ins, *outs)))
            return builder.get()

    return te.extern(list(shapes), list(inputs), emit, dtype=list(dtypes))


def _scalar(tensor: Tensor, dtype: str) -> Tensor:
    """Return the only element of a tensor, as a tensor of rank 1 and of a dtype that holds it exactly."""
    return te.compute((1,), lambda _i: tensor(*(0 for _ in tensor.shape)).astype(dtype))


def _overlap(corner_a: Callable[[int], PrimExpr], corner_b: Callable[[int], PrimExpr]) -> PrimExpr:
    """Return the intersection over union of two boxes; a box is two opposite corners."""
    zero = tirx.const(0, corner_a(0).ty.dtype)
    sides, areas = [], []
    # ONNX allows any two opposite corners, in either order.
    bounds = [
        [(tirx.min(at(axis), at(axis + 2)), tirx.max(at(axis), at(axis + 2))) for axis in (0, 1)]
        for at in (corner_a, corner_b)
    ]
    for (low_a, high_a), (low_b, high_b) in zip(*bounds, strict=True):
        sides.append(tirx.max(zero, tirx.min(high_a, high_b) - tirx.max(low_a, low_b)))
    for (lhs, rhs), (top, bottom) in bounds:
        areas.append((rhs - lhs) * (bottom - top))
    shared = sides[1] * sides[0]
    both = areas[0] + areas[1] - shared
    # Two boxes without area have an empty union: 0 / 0 would be NaN.
    return tirx.Select(both <= zero, zero, shared / both)


def _rows(buffer: Buffer) -> Extent:
    return buffer.shape[0]


def _is_positive(value: PrimExpr) -> PrimExpr:
    return value > tirx.const(0, value.ty.dtype)


def _is_not_negative(value: PrimExpr) -> PrimExpr:
    return value >= tirx.const(0, value.ty.dtype)


def _fill(buffer: Buffer, row: tuple[Index, ...], value: int) -> None:
    """Fill a row with a number."""
    with T.serial(0, buffer.shape[len(row)]) as k:
        index = (*row, k)
        buffer[index] = tirx.const(value, buffer.dtype)


def _copy(source: Buffer, here: tuple[Index, ...], target: Buffer, there: tuple[Index, ...]) -> None:
    """Copy a row."""
    with T.serial(0, source.shape[len(here)]) as k:
        to, origin = (*there, k), (*here, k)
        target[to] = source[origin]


def _drop(kept: Buffer, positions: Buffer, i: Index, j: Index) -> None:
    """Set a box and its index to -1."""
    _fill(kept, (i, j), -1)
    positions[i, j] = _int(-1)


def _get_valid_counts(attrs: Attrs, data: Tensor, threshold: Tensor) -> Tensors:
    """Count each image's boxes above the threshold, move them to the front, and return their indices."""
    score, index = integer(attrs["score_index"]), integer(attrs["id_index"])
    batch, boxes, _ = data.shape

    def body(data: Buffer, least: Buffer, count: Buffer, moved: Buffer, positions: Buffer) -> None:
        with T.serial(0, batch) as i:
            count[i] = _int(0)
            with T.serial(0, boxes) as j:
                valid = data[i, j, score].astype("float64") > least[0]
                if index >= 0:
                    valid = tirx.all(valid, _is_not_negative(data[i, j, index]))
                with _when(valid):
                    _copy(data, (i, j), moved, (i, count[i]))
                    positions[i, count[i]] = j.astype("int32")
                    count[i] = count[i] + _int(1)
            with T.serial(0, boxes) as j, _when(j >= count[i]):
                _drop(moved, positions, i, j)

    shapes = [(batch,), data.shape, (batch, boxes)]
    return _kernel(body, [data, _scalar(threshold, "float64")], shapes, ["int32", data.dtype, "int32"])


def _non_max_suppression(
    attrs: Attrs, data: Tensor, counts: Tensor, indices: Tensor, most: Tensor, least: Tensor
) -> Tensor:
    """Return the boxes that are kept, or their ``indices``; the others are -1.

    Boxes without a positive score suppress nothing and are not suppressed. Without a positive threshold of
    overlap every box is kept at its index.
    """
    batch, boxes, _ = data.shape
    counts = te.compute((batch,), lambda i: clip_to_range(counts(i), 0, boxes).astype("int32"))
    best = _best_first(data, counts, integer(attrs["score_index"]))

    def body(
        data: Buffer,
        best: Buffer,
        counts: Buffer,
        indices: Buffer,
        most: Buffer,
        least: Buffer,
        *outs: Buffer,
    ) -> None:
        selected, positions = outs
        with T.serial(0, batch) as i:
            with T.If(least[0] > tirx.const(0, "float64")):
                with T.Then():
                    _take_best(integer(attrs["top_k"]), i, counts[i], data, best, selected, positions)
                    _suppress(attrs, i, counts[i], most[0], least[0], selected, positions)
                with T.Else(), T.serial(0, counts[i]) as j:
                    _copy(data, (i, j), selected, (i, j))
                    positions[i, j] = j.astype("int32")
            with T.serial(0, boxes) as j:
                with _when(j >= counts[i]):
                    _drop(selected, positions, i, j)
                if attrs["return_indices"]:
                    with _when(positions[i, j] >= 0):
                        positions[i, j] = indices[i, positions[i, j]].astype("int32")

    inputs = [data, best, counts, indices, _scalar(most, "int64"), _scalar(least, "float64")]
    selected, positions = _kernel(body, inputs, [data.shape, (batch, boxes)], [data.dtype, "int32"])
    if attrs["return_indices"]:
        return _indices_first(positions)
    return _boxes_first(selected) if attrs["invalid_to_bottom"] else selected


def _best_first(data: Tensor, counts: Tensor, score: int) -> Tensor:
    """Return the indices that sort each image's first ``counts`` boxes by descending score."""

    def score_or_lowest(i: Index, j: Index) -> PrimExpr:
        return tirx.Select(j < counts(i), data(i, j, score), tirx.min_value(data.dtype))

    return sort_order(te.compute(data.shape[:2], score_or_lowest), 1, ascending=False)


def _take_best(
    top: int, i: Index, count: PrimExpr, data: Buffer, best: Buffer, survivors: Buffer, positions: Buffer
) -> None:
    """Copy the boxes of an image in order, and drop all but the best ``top`` if that is positive."""
    limit = tirx.min(count, _int(top)) if top > 0 else count
    with T.serial(0, count) as j, T.If(j < limit):
        with T.Then():
            _copy(data, (i, best[i, j]), survivors, (i, j))
            positions[i, j] = best[i, j]
        with T.Else():
            _drop(survivors, positions, i, j)


def _suppress(
    attrs: Attrs,
    i: Index,
    count: PrimExpr,
    most: PrimExpr,
    least: PrimExpr,
    survivors: Buffer,
    positions: Buffer,
) -> None:
    """Drop the boxes of an image that overlap a better one, and those after ``most`` that do not."""
    start, score = integer(attrs["coord_start"]), integer(attrs["score_index"])
    number, good = _local("int32"), _local("int32")
    number[0] = _int(0)
    with T.serial(0, count) as j:
        # A limit of -1, which the number never is, is none.
        good[0] = (number[0].astype("int64") != most).astype("int32")
        with _when(tirx.all(good[0] == 1, _is_positive(survivors[i, j, score]))):
            with (
                T.serial(0, j) as k,
                _when(tirx.all(good[0] == 1, *_may_suppress(attrs, survivors, i, k, j))),
            ):
                overlap = _overlap(
                    lambda at: survivors[i, j, start + at], lambda at: survivors[i, k, start + at]
                )
                with _when(overlap.astype("float64") >= least):
                    good[0] = _int(0)
            number[0] = number[0] + good[0]
        with _when(good[0] == 0):
            _drop(survivors, positions, i, j)


def _may_suppress(attrs: Attrs, survivors: Buffer, i: Index, k: Index, j: Index) -> Iterator[PrimExpr]:
    """Yield the conditions for box ``k`` to suppress box ``j``: it is kept, and of the same class."""
    yield _is_positive(survivors[i, k, integer(attrs["score_index"])])
    index = integer(attrs["id_index"])
    if index >= 0:
        yield _is_not_negative(survivors[i, k, index])
        if not attrs["force_suppress"]:
            yield survivors[i, j, index] == survivors[i, k, index]


def _indices_first(positions: Tensor) -> Tensors:
    """Move the indices of kept boxes to the front, and count them."""
    batch, boxes = positions.shape

    def body(positions: Buffer, moved: Buffer, count: Buffer) -> None:
        with T.serial(0, batch) as i:
            count[i, 0] = _int(0)
            with T.serial(0, boxes) as j, _when(positions[i, j] >= 0):
                moved[i, count[i, 0]] = positions[i, j]
                count[i, 0] = count[i, 0] + _int(1)
            with T.serial(0, boxes) as j, _when(j >= count[i, 0]):
                moved[i, j] = _int(-1)

    return _kernel(body, [positions], [positions.shape, (batch, 1)], ["int32", "int32"])


def _boxes_first(boxes: Tensor) -> Tensor:
    """Move the boxes whose first number is not negative to the front."""
    batch, length, _ = boxes.shape

    def body(boxes: Buffer, moved: Buffer) -> None:
        count = _local("int32")
        with T.serial(0, batch) as i:
            count[0] = _int(0)
            with T.serial(0, length) as j, _when(_is_not_negative(boxes[i, j, 0])):
                _copy(boxes, (i, j), moved, (i, count[0]))
                count[0] = count[0] + _int(1)
            with T.serial(0, length) as j, _when(j >= count[0]):
                _fill(moved, (i, j), -1)

    return _kernel(body, [boxes], [boxes.shape], [boxes.dtype])


def _all_class(
    attrs: Attrs, boxes: Tensor, scores: Tensor, most: Tensor, least: Tensor, threshold: Tensor
) -> Tensor:
    """Suppress boxes for each image and class separately, in the form of ONNX or of TensorFlow.

    As in Relay, no positive limit is no limit, without a positive threshold of overlap nothing is chosen, and
    a score of -1 or less never is.
    """
    batch, classes, count = scores.shape
    rows = te.compute((batch * classes, count), lambda i, j: scores(i // classes, i % classes, j))
    numbers = [_scalar(most, "int64"), _scalar(least, "float64"), _scalar(threshold, "float64")]
    inputs = [boxes, rows, sort_order(rows, 1, ascending=False), *numbers]
    if attrs["output_format"] == "onnx":
        shapes = [(batch * classes * count, 3), (1,), (batch * classes, count)]
        body = partial(_all_class_as_onnx, classes)
        return _kernel(body, inputs, shapes, ["int64", "int64", "int32"])[:2]
    shapes = [(batch, classes * count, 2), (batch, classes * count), (batch,), (batch * classes, count)]
    body = partial(_all_class_as_tensorflow, classes)
    return _kernel(body, inputs, shapes, ["int64", "float32", "int64", "int32"])[:3]


def _all_class_as_onnx(classes: Extent, *buffers: Buffer) -> None:
    """Emit (image, class, box) of every chosen box, and their number."""
    *inputs, selected, total, alive = buffers
    total[0] = _wide(0)
    with T.serial(0, _rows(selected)) as row:
        _fill(selected, (row,), 0)
    with T.serial(0, _rows(alive)) as i:

        def choose(box: Index, _score: PrimExpr) -> None:
            for column, value in enumerate((i // classes, i % classes, box)):
                selected[total[0], column] = value.astype("int64")
            total[0] = total[0] + _wide(1)

        _choose(classes, i, alive, choose, *inputs)


def _all_class_as_tensorflow(classes: Extent, *buffers: Buffer) -> None:
    """Emit for each image (class, box) and score of every chosen box, and their number."""
    *inputs, selected, values, total, alive = buffers
    with T.serial(0, _rows(total)) as image:
        total[image] = _wide(0)
        _fill(values, (image,), 0)
        with T.serial(0, values.shape[1]) as row:
            _fill(selected, (image, row), 0)
    with T.serial(0, _rows(alive)) as i:
        image = i // classes

        def choose(box: Index, score: PrimExpr) -> None:
            for column, value in enumerate((i % classes, box)):
                selected[image, total[image], column] = value.astype("int64")
            values[image, total[image]] = score.astype("float32")
            total[image] = total[image] + _wide(1)

        _choose(classes, i, alive, choose, *inputs)


def _choose(
    classes: Extent,
    i: Index,
    alive: Buffer,
    choose: Callable[[Index, PrimExpr], None],
    boxes: Buffer,
    scores: Buffer,
    best: Buffer,
    most: Buffer,
    least: Buffer,
    threshold: Buffer,
) -> None:
    """Emit the suppression for one image and class, row ``i`` of scores and best; ``choose`` takes a box."""
    count = scores.shape[1]
    number = _local("int64")
    number[0] = _wide(0)

    def corner(j: Index) -> Callable[[int], PrimExpr]:
        return lambda at: boxes[i // classes, best[i, j], at]

    with T.serial(0, count) as j:
        score = scores[i, best[i, j]].astype("float64")
        enough = tirx.all(score > threshold[0], score > tirx.const(-1, "float64"))
        alive[i, j] = tirx.all(enough, _is_positive(least[0])).astype("int32")
    with T.serial(0, count) as j:
        room = tirx.any(most[0] <= _wide(0), number[0] < most[0])
        with _when(tirx.all(alive[i, j] == 1, room)):
            number[0] = number[0] + _wide(1)
            choose(best[i, j], scores[i, best[i, j]])
            with T.serial(0, count) as k:
                candidate = tirx.all(k > j, alive[i, k] == 1, _is_positive(scores[i, best[i, k]]))
                with _when(candidate), _when(_overlap(corner(j), corner(k)).astype("float64") >= least[0]):
                    alive[i, k] = _int(0)


RULES.update(
    {
        "vision.all_class_non_max_suppression": te_of(_all_class),
        "vision.get_valid_counts": te_of(_get_valid_counts),
        "vision.non_max_suppression": te_of(_non_max_suppression),
    }
)
