"""Say what operators of object detection compute, and those that match and deform images, in NumPy loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnmagic.relay.reference.eval_call import Array, EvalCall, Rule
from nnmagic.relay.reference.nn import last_axes
from nnmagic.relay.reference.shapes import to_layout


def _multibox_prior(call: EvalCall, data: Array) -> Any:
    """Return boxes around every pixel: of each size, and of the first with each other ratio, in float32."""
    single = np.float32
    sizes, ratios = list(map(single, call["sizes"])), list(map(single, call["ratios"]))
    height, width = data.shape[2:]
    steps = [
        single(step) if step > 0 else single(1) / single(size)
        for step, size in zip(call["steps"], (height, width), strict=True)
    ]
    kinds = len(sizes) + len(ratios) - 1
    halves = [(size * single(height) / single(width) / single(2), size / single(2)) for size in sizes]
    for root in map(np.sqrt, ratios[1:]):
        across = sizes[0] * single(height) / single(width)
        halves.append((across * root / single(2), sizes[0] / root / single(2)))
    rows = (np.arange(height, dtype=single) + single(call["offsets"][0])) * steps[0]
    columns = (np.arange(width, dtype=single) + single(call["offsets"][1])) * steps[1]
    y, x = np.meshgrid(rows, columns, indexing="ij")
    boxes = [np.stack((x - w, y - h, x + w, y + h), axis=-1) for w, h in halves[:kinds]]
    result = np.stack(boxes, axis=2).reshape(1, -1, 4) if boxes else np.zeros((1, 0, 4), single)
    return np.clip(result, 0, 1) if call["clip"] else result


def _overlap(one: Array, other: Array) -> Any:
    """Return the intersection over union of two boxes, each two opposite corners."""
    zero = one.dtype.type(0)
    shared, areas = one.dtype.type(1), []
    bounds = [[np.sort(box[[axis, axis + 2]]) for axis in (0, 1)] for box in (one, other)]
    for (low, high), (start, end) in zip(*reversed([list(reversed(sides)) for sides in bounds]), strict=True):
        shared = max(zero, min(high, end) - max(low, start)) * shared
    for (lhs, rhs), (top, bottom) in bounds:
        areas.append((rhs - lhs) * (bottom - top))
    both = areas[0] + areas[1] - shared
    return zero if both <= zero else shared / both


def _get_valid_counts(call: EvalCall, data: Array, threshold: Array) -> Any:
    """Count each image's boxes above the threshold, move them to the front, and return their indices."""
    score, index = call["score_index"], call["id_index"]
    moved, positions = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    counts = np.zeros(len(data), np.int32)
    for i, image in enumerate(data):
        is_valid = image[:, score].astype(np.float64) > float(threshold)
        if index >= 0:
            is_valid &= image[:, index] >= 0
        (valid,) = np.nonzero(is_valid)
        counts[i] = len(valid)
        moved[i, : len(valid)], positions[i, : len(valid)] = image[valid], valid
    return counts, moved, positions


def _non_max_suppression(
    call: EvalCall, data: Array, counts: Array, indices: Array, most: Array, least: Array
) -> Any:
    """Keep the boxes that overlap no better one; the others are -1."""
    selected, positions = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    score, top = call["score_index"], call["top_k"]
    for i, image in enumerate(data):
        count = int(np.clip(int(counts[i]), 0, len(image)))
        if float(least) > 0:
            best = np.argsort(-image[:count, score], kind="stable")
            best = best[:top] if top > 0 else best
            selected[i, : len(best)], positions[i, : len(best)] = image[best], best
            _suppress(call, selected[i], positions[i], count, int(most), float(least))
        else:
            selected[i, :count], positions[i, :count] = image[:count], np.arange(count)
        if call["return_indices"]:
            is_present = positions[i] >= 0
            positions[i, is_present] = indices[i, positions[i, is_present]]
    if call["return_indices"]:
        moved = np.full_like(positions, -1)
        for i, row in enumerate(positions):
            moved[i, : (row >= 0).sum()] = row[row >= 0]
        return moved, (positions >= 0).sum(axis=1, keepdims=True).astype(np.int32)
    if not call["invalid_to_bottom"]:
        return selected
    result = np.full_like(selected, -1)
    for i, boxes in enumerate(selected):
        valid = boxes[boxes[:, 0] >= 0]
        result[i, : len(valid)] = valid
    return result


def _suppress(call: EvalCall, chosen: Array, positions: Array, count: int, most: int, least: float) -> None:
    """Drop the boxes of an image that overlap a better one, and those after ``most`` that do not."""
    start, score, index = call["coord_start"], call["score_index"], call["id_index"]
    number = 0
    for j in range(count):
        good = number != most
        if good and chosen[j, score] > 0:
            for k in range(j):
                may = chosen[k, score] > 0 and (index < 0 or chosen[k, index] >= 0)
                if index >= 0 and not call["force_suppress"]:
                    may = may and chosen[j, index] == chosen[k, index]
                if (
                    may
                    and float(_overlap(chosen[j, start : start + 4], chosen[k, start : start + 4])) >= least
                ):
                    good = False
                    break
            number += good
        if not good:
            chosen[j], positions[j] = -1, -1


def _all_class(
    call: EvalCall, boxes: Array, scores: Array, most: Array, least: Array, threshold: Array
) -> Any:
    """Suppress boxes for each image and class separately, in the form of ONNX or of TensorFlow."""
    batch, classes, count = scores.shape
    limit = int(most.reshape(()))
    chosen: list[list[tuple[int, int, Any]]] = [[] for _ in range(batch)]
    for image, kind in np.ndindex(batch, classes):
        row = scores[image, kind]
        best = np.argsort(-row, kind="stable")
        enough = row[best].astype(np.float64) > max(float(threshold.reshape(())), -1.0)
        alive = enough & (float(least.reshape(())) > 0)
        number = 0
        for j, box in enumerate(best):
            if not alive[j] or 0 < limit <= number:
                continue
            number += 1
            chosen[image].append((kind, int(box), row[box]))
            for k in range(j + 1, count):
                if alive[k] and row[best[k]] > 0:
                    overlap = _overlap(boxes[image, box], boxes[image, best[k]])
                    alive[k] = float(overlap) < float(least.reshape(()))
    if call["output_format"] == "onnx":
        selected = np.zeros((batch * classes * count, 3), np.int64)
        rows = [
            (image, kind, box)
            for image, boxes_of_image in enumerate(chosen)
            for kind, box, _ in boxes_of_image
        ]
        selected[: len(rows)] = np.array(rows, np.int64).reshape(-1, 3)
        return selected, np.array([len(rows)])
    pairs = np.zeros((batch, classes * count, 2), np.int64)
    values = np.zeros((batch, classes * count), np.float32)
    for image, boxes_of_image in enumerate(chosen):
        for number, (kind, box, score) in enumerate(boxes_of_image):
            pairs[image, number], values[image, number] = (kind, box), score
    return pairs, values, np.array([len(boxes_of_image) for boxes_of_image in chosen])


def _bilinear(image: Array, y: Array, x: Array) -> Any:
    """Return the values of an image (channels, height, width) at positions in it; around it are zeros."""
    image = np.pad(image, [(0, 0), (0, 1), (0, 1)])
    top, left_edge = np.floor(y).astype(int), np.floor(x).astype(int)
    below, beside = y - top, x - left_edge
    upper = image[:, top, left_edge] * (1 - beside) + image[:, top, left_edge + 1] * beside
    lower = image[:, top + 1, left_edge] * (1 - beside) + image[:, top + 1, left_edge + 1] * beside
    return upper * (1 - below) + lower * below


def _pair(size: Any) -> tuple[int, int]:
    values = [int(dim) for dim in size]
    return values[0], values[-1]


def _roi_align(call: EvalCall, data: Array, rois: Array) -> Any:
    """Average, or take the largest of, samples in each bin of a region."""
    images = to_layout(data, call["layout"], "NCHW")
    size = _pair(call["pooled_size"])
    kind = rois.dtype.type
    result = np.zeros((len(rois), images.shape[1], *size), data.dtype)
    for number, roi in enumerate(rois):
        image = images[np.clip(int(roi[0]), 0, len(images) - 1)]
        corners = roi[1:5] * kind(call["spatial_scale"])
        start = corners[[1, 0]]
        spans = np.maximum(corners[[3, 2]] - start, kind(1))
        bins = spans / np.array(size, rois.dtype)
        ratio = call["sample_ratio"]
        samples = [ratio] * 2 if ratio > 0 else np.ceil(bins).astype(int).tolist()
        for at in np.ndindex(*size):
            grid = [
                start[axis]
                + kind(at[axis]) * bins[axis]
                + (np.arange(samples[axis], dtype=rois.dtype) + kind(0.5)) * bins[axis] / kind(samples[axis])
                for axis in (0, 1)
            ]
            y, x = (part.reshape(-1) for part in np.meshgrid(*grid, indexing="ij"))
            beyond = (y < -1) | (x < -1) | (y > image.shape[1]) | (x > image.shape[2])
            inside = [
                np.clip(place, 0, limit - 1) for place, limit in zip((y, x), image.shape[1:], strict=True)
            ]
            values = np.where(beyond, 0, _bilinear(image, *inside))
            last_axes(result[number], at)[...] = (
                values.mean(axis=1) if call["mode"] == "avg" else values.max(axis=1)
            )
    return to_layout(result, "NCHW", call["layout"])


def _roi_pool(call: EvalCall, data: Array, rois: Array) -> Any:
    """Take the largest element in each bin of a region; of an empty one 0."""
    size = _pair(call["pooled_size"])
    kind = rois.dtype.type
    result = np.zeros((len(rois), data.shape[1], *size), data.dtype)
    for number, roi in enumerate(rois):
        image = data[np.clip(int(roi[0]), 0, len(data) - 1)]
        corners = np.floor(roi[1:5] * kind(call["spatial_scale"]) + kind(0.5)).astype(int)
        start = corners[[1, 0]]
        bins = np.maximum(corners[[3, 2]] - start + 1, 1).astype(rois.dtype) / np.array(size, rois.dtype)
        for at in np.ndindex(*size):
            low = np.floor(np.array(at, rois.dtype) * bins).astype(int) + start
            high = np.ceil((np.array(at, rois.dtype) + kind(1)) * bins).astype(int) + start
            spans = np.clip([low, high], 0, np.array(image.shape[1:])).T
            region = last_axes(image, [slice(*span) for span in spans])
            if region.size:
                last_axes(result[number], at)[...] = region.max(axis=(1, 2))
    return result


def _yolo_reorg(call: EvalCall, data: Array) -> Any:
    """Move stride x stride blocks of pixels to channels, as Darknet's reorganisation layer does."""
    stride = call["stride"]
    batch, channels, height, width = data.shape
    inner = channels // (stride * stride)
    flat, moved = data.reshape(-1), np.empty(data.shape, data.dtype)
    for b, k, j, i in np.ndindex(*data.shape):
        block = k // inner
        column, row = i * stride + block % stride, j * stride + block // stride
        moved[b, k, j, i] = flat[column + width * stride * (row + height * stride * (k % inner + inner * b))]
    return moved.reshape(batch, channels * stride * stride, height // stride, width // stride)


# --- matching and deforming images ------------------------------------------------------------------------


def _four_sides(padding: Any) -> tuple[int, int, int, int]:
    """Return the padding above, left, below and right."""
    sides = [int(side) for side in padding]
    sides = sides * 4 if len(sides) == 1 else sides * 2 if len(sides) == 2 else sides
    return sides[0], sides[1], sides[2], sides[3]


def _correlation(call: EvalCall, lhs: Array, rhs: Array) -> Any:
    """Compare patches of two images at displacements: the mean of products, or of distances."""
    size, reach = call["kernel_size"], call["max_displacement"]
    step, stride = call["stride1"], call["stride2"]
    top, first, bottom, last = _four_sides(call["padding"])
    one, other = (np.pad(x, [(0, 0), (0, 0), (top, bottom), (first, last)]) for x in (lhs, rhs))
    radius = reach // stride
    result = np.zeros(call.shape, lhs.dtype)
    for q, i, j in np.ndindex(*result.shape[1:]):
        y, x = i * step + reach, j * step + reach
        shift = [(part - radius) * stride for part in divmod(q, 2 * radius + 1)]
        patch = one[:, :, y : y + size, x : x + size]
        second = other[:, :, y + shift[0] : y + shift[0] + size, x + shift[1] : x + shift[1] + size]
        both = patch * second if call["is_multiply"] else np.abs(patch - second)
        result[:, q, i, j] = both.sum(axis=(1, 2, 3))
    return result / np.asarray(size * size * lhs.shape[1], lhs.dtype)


def _deformable_conv2d(call: EvalCall, data: Array, offset: Array, weight: Array) -> Any:
    """Return a convolution whose samples lie at offsets from the regular grid."""
    layout = call["data_layout"]
    x, moves = to_layout(data, layout, "NCHW"), to_layout(offset, layout, "NCHW")
    w = to_layout(weight, call["kernel_layout"], "OIHW")
    top, left, _, _ = _four_sides(call["padding"])
    rows, columns = w.shape[2:]
    height, width = moves.shape[2:]
    group_channels = x.shape[1] // call["deformable_groups"]
    result = np.zeros((len(x), len(w), height, width), call.dtype)
    for kh, kw in np.ndindex(rows, columns):
        y0 = np.arange(height)[:, np.newaxis] * call["strides"][0] - top + kh * call["dilation"][0]
        x0 = np.arange(width)[np.newaxis, :] * call["strides"][1] - left + kw * call["dilation"][1]
        for n in range(len(x)):
            samples = np.zeros((x.shape[1], height, width), x.dtype)
            for group in range(call["deformable_groups"]):
                channel = group * (rows * columns * 2) + (kh * columns + kw) * 2
                y, across = y0 + moves[n, channel], x0 + moves[n, channel + 1]
                beyond = (y < 0) | (across < 0) | (y >= x.shape[2]) | (across >= x.shape[3])
                inside = [np.where(beyond, 0, place) for place in (y, across)]
                channels = slice(group * group_channels, (group + 1) * group_channels)
                samples[channels] = np.where(beyond, 0, _bilinear(x[n, channels], *inside))
            result[n] += np.einsum("oi,ihw->ohw", w[:, :, kh, kw].astype(call.dtype), samples)
    return to_layout(result, "NCHW", call["out_layout"] or layout)


def _dilation2d(call: EvalCall, data: Array, weight: Array) -> Any:
    """Return the largest sum of a window with the weight, for each channel."""
    nchw = call["data_layout"] == "NCHW"
    x = data if nchw else to_layout(data, "NHWC", "NCHW")
    w = weight if nchw else weight.transpose(2, 0, 1)
    top, lhs, bottom, rhs = _four_sides(call["padding"])
    wide = np.pad(x, [(0, 0), (0, 0), (top, bottom), (lhs, rhs)])
    steps, apart = call["strides"], call["dilations"]
    height, width = call.shape[2:] if nchw else call.shape[1:3]
    shifted = []
    for kh, kw in np.ndindex(*w.shape[1:]):
        starts = kh * apart[0], kw * apart[1]
        spans = [
            slice(start, start + (size - 1) * step + 1, step)
            for start, size, step in zip(starts, (height, width), steps, strict=True)
        ]
        shifted.append(last_axes(wide, spans) + w[:, kh, kw].reshape(-1, 1, 1))
    result = np.maximum.reduce(shifted)
    return result if nchw else to_layout(result, "NCHW", "NHWC")


RULES: dict[str, Rule] = {
    "vision.multibox_prior": _multibox_prior,
    "vision.get_valid_counts": _get_valid_counts,
    "vision.non_max_suppression": _non_max_suppression,
    "vision.all_class_non_max_suppression": _all_class,
    "vision.roi_align": _roi_align,
    "vision.roi_pool": _roi_pool,
    "vision.yolo_reorg": _yolo_reorg,
    "nn.correlation": _correlation,
    "nn.deformable_conv2d": _deformable_conv2d,
    "image.dilation2d": _dilation2d,
}
