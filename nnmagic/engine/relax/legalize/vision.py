"""Legalize operators of object detection: generating and pooling boxes."""

from __future__ import annotations

from tvm import te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer, integers, number
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.index_checks import clip_to_range
from nnmagic.engine.relax.legalize.registry import RULES, te_of
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.types import Index, PrimExpr
from nnmagic.relay.expr import Attrs


def _multibox_prior(attrs: Attrs, data: Tensor) -> Tensor:
    """Return boxes around every pixel of a feature map: of each size, and of the first with each other ratio.

    As in Relay they are float32 whatever the data is.
    """
    sizes, ratios, steps, offsets = (_floats(attrs[name]) for name in ("sizes", "ratios", "steps", "offsets"))
    kinds = len(sizes) + len(ratios) - 1
    height, width = data.shape[2:]

    def single(value: float | PrimExpr) -> PrimExpr:
        return value.astype("float32") if hasattr(value, "astype") else tirx.const(value, "float32")

    rows, columns = (
        single(step) if step > 0 else single(1) / single(dim)
        for step, dim in zip(steps, (height, width), strict=True)
    )

    def half(kind: int) -> tuple[PrimExpr, PrimExpr]:
        """Return half of the width and of the height of the boxes of a kind."""
        across = single(sizes[kind] if kind < len(sizes) else sizes[0]) * single(height) / single(width)
        if kind < len(sizes):
            return across / single(2), single(sizes[kind]) / single(2)
        root = tirx.sqrt(single(ratios[kind - len(sizes) + 1]))
        return across * root / single(2), single(sizes[0]) / root / single(2)

    halves = [half(kind) for kind in range(kinds)]

    def element(_batch: Index, box: Index, corner: Index) -> PrimExpr:
        pixel, kind = box // kinds, box % kinds
        middle = (
            (single(pixel % width) + single(offsets[1])) * columns,
            (single(pixel // width) + single(offsets[0])) * rows,
        )
        corner_value: PrimExpr = single(0)
        for axis in (0, 1):
            size: PrimExpr = halves[0][axis]
            for other in range(1, kinds):
                size = tirx.Select(kind == other, halves[other][axis], size)
            corner_value = tirx.Select(corner == axis, middle[axis] - size, corner_value)
            corner_value = tirx.Select(corner == axis + 2, middle[axis] + size, corner_value)
        return scalar_functions.clip(corner_value, 0, 1) if attrs["clip"] else corner_value

    return te.compute((1, height * width * kinds, 4), element)


def _floats(value: object) -> list[float]:
    assert isinstance(value, tuple)
    return [number(item) for item in value]


def _pair(value: object) -> list[int]:
    size = integers(value)
    return size * 2 if len(size) == 1 else size


def _with_batch(rois: Tensor, data: Tensor) -> Tensor:
    """Clip the image numbers of regions, their first element, to the images that exist."""
    last = data.shape[0] - 1
    return te.compute(
        rois.shape, lambda i, j: tirx.Select(j == 0, clip_to_range(rois(i, j), 0, last), rois(i, j))
    )


def _roi_align(attrs: Attrs, data: Tensor, rois: Tensor) -> Tensor:
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


def _roi_pool(attrs: Attrs, data: Tensor, rois: Tensor) -> Tensor:
    return topi.vision.roi_pool_nchw(
        data, _with_batch(rois, data), _pair(attrs["pooled_size"]), number(attrs["spatial_scale"])
    )


def _yolo_reorg(attrs: Attrs, data: Tensor) -> Tensor:
    """Move stride x stride blocks of pixels to channels, as Darknet's reorganisation layer does."""
    stride = integer(attrs["stride"])
    batch, channels, height, width = data.shape
    inner = channels // (stride * stride)

    def element(b: Index, k: Index, j: Index, i: Index) -> PrimExpr:
        block = k // inner
        column, row = i * stride + block % stride, j * stride + block // stride
        flat = column + width * stride * (row + height * stride * (k % inner + inner * b))
        line = flat // width
        plane = line // height
        return data(plane // channels, plane % channels, line % height, flat % width)

    moved = te.compute(data.shape, element)
    return topi.reshape(moved, (batch, channels * stride * stride, height // stride, width // stride))


RULES.update(
    {
        "vision.multibox_prior": te_of(_multibox_prior),
        "vision.roi_align": te_of(_roi_align),
        "vision.roi_pool": te_of(_roi_pool),
        "vision.yolo_reorg": te_of(_yolo_reorg),
    }
)
