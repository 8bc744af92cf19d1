"""Object detection: counting, suppressing and pooling boxes."""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.constants import as_array
from nnmagic.engine.relax.operators.indexing import within
from nnmagic.engine.relax.operators.rule import RULES, Site, Value, integer, integers, number, te_of
from nnmagic.relay.expr import Attrs


def constant_number(site: Site, place: int) -> Any:
    """An operand that must be a constant of rank 0, as a Python number."""
    value = site.args[place]
    if isinstance(value, relax.Var):
        site.refuse(f"operand {place} must be a constant")
    return as_array(value.value).item()


def _get_valid_counts(site: Site) -> Value:
    threshold = constant_number(site, 1)
    index, score = (integer(site.attrs[name]) for name in ("id_index", "score_index"))
    return site.te(lambda data: topi.vision.get_valid_counts(data, threshold, index, score), site.args[0])


def _non_max_suppression(site: Site) -> Value:
    attrs = site.attrs
    size, overlap = int(constant_number(site, 3)), float(constant_number(site, 4))

    def compute(data: Any, counts: Any, indices: Any) -> Any:
        boxes = data.shape[1]
        return topi.vision.non_max_suppression(
            data,
            te.compute(counts.shape, lambda i: within(counts(i), 0, boxes)),
            te.compute(indices.shape, lambda i, j: within(indices(i, j), -1, boxes - 1)),
            size,
            overlap,
            bool(attrs["force_suppress"]),
            *(integer(attrs[name]) for name in ("top_k", "coord_start", "score_index", "id_index")),
            bool(attrs["return_indices"]),
            bool(attrs["invalid_to_bottom"]),
        )

    return site.te(compute, *site.args[:3])


def _pair(value: object) -> list[int]:
    size = integers(value)
    return size * 2 if len(size) == 1 else size


def _with_batch(rois: Any, data: Any) -> Any:
    """Regions whose first number, the image that they are of, is one that exists."""
    last = data.shape[0] - 1
    return te.compute(rois.shape, lambda i, j: tirx.Select(j == 0, within(rois(i, j), 0, last), rois(i, j)))


def _roi_align(attrs: Attrs, data: Any, rois: Any) -> Any:
    function = topi.vision.roi_align_nchw if attrs["layout"] == "NCHW" else topi.vision.roi_align_nhwc
    scale = number(attrs["spatial_scale"])
    mode = {"avg": 0, "max": 1}[str(attrs["mode"])]
    return function(
        data,
        _with_batch(rois, data),
        _pair(attrs["pooled_size"]),
        scale,
        mode,
        integer(attrs["sample_ratio"]),
    )


def _roi_pool(attrs: Attrs, data: Any, rois: Any) -> Any:
    return topi.vision.roi_pool_nchw(
        data, _with_batch(rois, data), _pair(attrs["pooled_size"]), number(attrs["spatial_scale"])
    )


def _yolo_reorg(attrs: Attrs, data: Any) -> Any:
    """Darknet's reorganisation layer: stride x stride blocks of pixels become channels."""
    stride = integer(attrs["stride"])
    batch, channels, height, width = data.shape
    inner = channels // (stride * stride)

    def element(b: Any, k: Any, j: Any, i: Any) -> Any:
        block = k // inner
        column, row = i * stride + block % stride, j * stride + block // stride
        flat = column + width * stride * (row + height * stride * (k % inner + inner * b))
        pixels = height * width
        return data(
            flat // (channels * pixels), flat // pixels % channels, flat // width % height, flat % width
        )

    moved = te.compute(data.shape, element)
    return topi.reshape(moved, (batch, channels * stride * stride, height // stride, width // stride))


RULES.update(
    {
        "vision.get_valid_counts": _get_valid_counts,
        "vision.non_max_suppression": _non_max_suppression,
        "vision.roi_align": te_of(_roi_align),
        "vision.roi_pool": te_of(_roi_pool),
        "vision.yolo_reorg": te_of(_yolo_reorg),
    }
)
