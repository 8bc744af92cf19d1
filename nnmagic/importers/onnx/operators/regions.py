"""Import operators that sample images: at the places of a grid, in regions.

The standard: https://onnx.ai/onnx/operators/onnx__GridSample.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.operators.convolutions import sample_bilinear
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import (
    Value,
    check_new_array,
    constant,
    count_up,
    op,
)


@operator("GridSample", note="of two and three axes")
def _grid_sample(node: OnnxNode) -> Value:
    data, grid = node[0], node[1]
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(
        node.text("mode", "linear"), node.text("mode", "linear")
    )
    rank = data.rank - 2
    if rank not in (2, 3):
        raise UnsupportedError(f"images of {rank} axes are not supported")
    moved = shapes.transpose(grid, [0, grid.rank - 1, *range(1, grid.rank - 1)])
    return op(
        "image.grid_sample",
        data,
        moved,
        method=mode,
        layout="NCHW" if rank == 2 else "NCDHW",
        padding_mode=node.text("padding_mode", "zeros"),
        align_corners=bool(node.integer("align_corners")),
    )


@operator("AffineGrid")
def _affine_grid(node: OnnxNode) -> Value:
    """Map the places of an image's pixels, from -1 to 1, by matrices."""
    matrices = node[0]
    declared = node.output_shape()
    batch = matrices.shape[0]
    rank = int(cast(int, matrices.shape[1]))
    sizes = node.static(1) if node[1].known is not None else None
    if sizes is None:
        if declared is None:
            raise node.unknown(1)
        sizes = [0, 0, *declared[1 : 1 + rank]]
        given = shapes.slice_axis(node[1], 0, 2, 2 + rank)
        node.block.require(given, np.array(sizes[2:]), "AffineGrid: size")
    images = sizes[2:]
    check_new_array(rank + 1, *images)
    lines = []
    for size in images:
        if node.integer("align_corners"):
            lines.append(np.linspace(-1, 1, size) if size > 1 else np.zeros(1))
        else:
            lines.append((count_up(size) * 2 + 1) / size - 1)
    mesh = np.meshgrid(*lines, indexing="ij")
    points = np.stack([*(item.reshape(-1) for item in mesh[::-1]), np.ones(math.prod(images))])
    from nnmagic.importers.onnx.operators.products import matmul

    mapped = matmul(matrices, constant(points, matrices.dtype))
    return shapes.reshape(shapes.transpose(mapped, [0, 2, 1]), [batch, *images, rank])


@operator("RoiAlign", note="with a sampling_ratio, or as before opset 16")
def _roi_align(node: OnnxNode) -> Value:
    data, rois, batch_indices = node[0], node[1], node[2]
    samples = node.integer("sampling_ratio")
    mode = node.text("mode", "avg")
    default = "half_pixel" if node.since >= 16 else "output_half_pixel"
    half = node.text("coordinate_transformation_mode", default) == "half_pixel"
    if samples < 1:
        if half or mode != "avg":
            message = "sampling_ratio 0 is supported for means of output_half_pixel only"
            raise UnsupportedError(message, "export the model with a sampling_ratio")
        numbered = [shapes.unsqueeze(batch_indices.cast(rois.dtype), [1]), rois]
        return op(
            "vision.roi_align",
            data,
            op("concatenate", numbered, axis=1),
            pooled_size=(node.integer("output_height", 1), node.integer("output_width", 1)),
            spatial_scale=node.number("spatial_scale", 1.0),
            sample_ratio=-1,
            mode="avg",
        )
    batch, channels, height, width = shapes.static_shape(data)
    count = shapes.static_shape(rois)[0]
    scaled = rois * node.number("spatial_scale", 1.0) - (0.5 if half else 0.0)
    pooled = [node.integer("output_height", 1), node.integer("output_width", 1)]
    places = []
    for axis, bins in enumerate(pooled):
        first, last = (shapes.slice_axis(scaled, 1, at, at + 1) for at in (1 - axis, 3 - axis))
        extent = last - first
        if not half:
            extent = extent.maximum(1)
        steps = (count_up(bins * samples) // samples) + (count_up(bins * samples) % samples + 0.5) / samples
        places.append(first + extent / bins * scaled.like(steps[None, :]))
    rows, columns = pooled[0] * samples, pooled[1] * samples
    y = shapes.unsqueeze(places[0], [2])
    x = shapes.unsqueeze(places[1], [1])
    images = shapes.reshape(shapes.take(data, batch_indices, 0), [count, 1, channels, height * width])
    shape = (count, rows, columns)
    y, x = (op("broadcast_to", item, shape=shape) for item in (y, x))
    inside = op(
        "logical_and",
        op("logical_and", y >= -1, y <= height),
        op("logical_and", x >= -1, x <= width),
    )
    y, x = y.maximum(0).minimum(height - 1), x.maximum(0).minimum(width - 1)
    split = [count, 1, channels, pooled[0], samples, pooled[1], samples]
    mask = shapes.reshape(inside.cast(data.dtype), [count, 1, 1, pooled[0], samples, pooled[1], samples])
    flat = [count, 1, rows * columns]
    if mode == "avg":
        sampled = shapes.reshape(sample_bilinear(images, y, x, height, width, flat), split) * mask
        return shapes.squeeze(op("mean", sampled, axis=(4, 6)), [1])
    if mode != "max":
        raise UnsupportedError(f"the mode {mode!r} is not known")
    largest = None
    for part in _corner_terms(images, y, x, height, width, flat):
        term = op("max", shapes.reshape(part, split) * mask, axis=(4, 6))
        largest = term if largest is None else largest.maximum(term)
    assert largest is not None
    assert batch >= 0
    return shapes.squeeze(largest, [1])


def _corner_terms(
    images: Value, y: Value, x: Value, height: int, width: int, flat: Sequence[int]
) -> list[Value]:
    """Return the four weighted neighbours of each place, whose largest is the maximum that ONNX takes."""
    terms = []
    low_y, low_x = op("floor", y), op("floor", x)
    for down in (0, 1):
        for right in (0, 1):
            row, column = (low_y + down).minimum(height - 1), (low_x + right).minimum(width - 1)
            weight = _share(y - low_y, down) * _share(x - low_x, right)
            place = shapes.reshape((row * width + column).cast("int64"), [*flat[:2], 1, flat[2]])
            spread = op("broadcast_to", place, shape=(*flat[:2], int(cast(int, images.shape[2])), flat[2]))
            terms.append(
                op("gather", images, spread, axis=3) * shapes.reshape(weight, [*flat[:2], 1, flat[2]])
            )
    return terms


def _share(fraction: Value, upper: int) -> Value:
    return fraction if upper else 1 - fraction
