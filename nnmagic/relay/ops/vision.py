"""Declare operators of object detection: boxes, regions, suppression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import BOOL, FLOAT, INT, INTEGER, NUMBER, STR, array, optional, spatial
from nnmagic.relay.ops.checks import data_has_elements, one_of, sizes
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Check, Family, RelationError, Trait
from nnmagic.relay.ops.dims import Shape, floor_divide, multiply, product
from nnmagic.relay.ops.image import image_layout
from nnmagic.relay.ops.layouts import convert_shape
from nnmagic.relay.ops.relations import dims, require_same, tensor
from nnmagic.relay.types import TensorType, TupleType, Type

declare = Family("vision", Trait.SPECULATABLE).declare


def _valid_counts(types: Sequence[Type], _attrs: Attrs) -> TupleType:
    data = tensor(types, rank=3)
    batch, boxes, _ = data.shape
    return TupleType((TensorType((batch,), "int32"), data, TensorType((batch, boxes), "int32")))


def _non_max_suppression(types: Sequence[Type], attrs: Attrs) -> Type:
    data = tensor(types, rank=3)
    batch, boxes, _ = data.shape
    tensor(types, 1, rank=1)
    if attrs["return_indices"]:
        return TupleType((TensorType((batch, boxes), "int32"), TensorType((batch, 1), "int32")))
    return data


def _all_class_nms(types: Sequence[Type], attrs: Attrs) -> TupleType:
    """Return the selected (batch, class, box) and their number.

    In TensorFlow's form: (class, box), scores, numbers.
    """
    boxes, scores = tensor(types, 0, rank=3), tensor(types, 1, rank=3)
    batch, classes, count = boxes.shape[0], scores.shape[1], boxes.shape[1]
    if attrs["output_format"] == "onnx":
        selected = product((batch, classes, count))
        return TupleType((TensorType((selected, 3), "int64"), TensorType((1,), "int64")))
    per_batch = multiply(classes, count)
    return TupleType(
        (
            TensorType((batch, per_batch, 2), "int64"),
            TensorType((batch, per_batch), "float32"),
            TensorType((batch,), "int64"),
        )
    )


def _multibox_prior(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types, rank=4)
    per_place = len(cast("tuple[float, ...]", attrs["sizes"])) + len(
        cast("tuple[float, ...]", attrs["ratios"])
    )
    return TensorType((1, product((*data.shape[2:], per_place - 1)), 4), data.dtype)


def _regions(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Return, for each region, the data's channels at pooled_size points: of roi_align and roi_pool."""
    data, regions = tensor(types, 0, rank=4), tensor(types, 1, rank=2)
    layout, plain = image_layout(attrs, "HW")
    if layout.name not in {"NCHW", "NHWC"}:
        raise RelationError(f"the layout must be NCHW or NHWC, not {layout.name!r}", attr="layout")
    channels = convert_shape(data.shape, layout, plain)[1]
    result: Shape = (regions.shape[0], channels, *dims(attrs, "pooled_size", 2))
    return TensorType(convert_shape(result, plain, layout), data.dtype)


def _yolo_reorg(types: Sequence[Type], attrs: Attrs) -> TensorType:
    batch, channels, *image = (data := tensor(types, rank=4)).shape
    stride = cast(int, attrs["stride"])
    if stride < 1:
        raise RelationError(f"stride must be positive, it is {stride}", attr="stride")
    smaller = tuple(floor_divide(dim, stride) for dim in image)
    return TensorType((batch, multiply(channels, stride * stride), *smaller), data.dtype)


def _check_non_max_suppression(types: Sequence[Type], _attrs: Attrs) -> None:
    data, count = tensor(types), tensor(types, 1)
    require_same(count.shape[0], data.shape[0], "valid_count must be as long as the batch", 1, 0)


def _check_all_class_nms(types: Sequence[Type], _attrs: Attrs) -> None:
    boxes, scores = tensor(types, 0), tensor(types, 1)
    require_same(boxes.shape[0], scores.shape[0], "the batches of boxes and scores differ", 0, 1)
    require_same(boxes.shape[2], 4, "a box has 4 numbers", 0)


def _check_regions(types: Sequence[Type], _attrs: Attrs) -> None:
    require_same(tensor(types, 1).shape[1], 5, "a region has 5 numbers", 1)


def _has_columns(*names: str) -> Check:
    """Return the check that the last dimension of the data holds the columns that attributes name."""

    def check(types: Sequence[Type], attrs: Attrs) -> None:
        width = sizes(types)[0][-1]
        columns = {name: cast(int, attrs[name]) + (3 if name == "coord_start" else 0) for name in names}
        attr = max(columns, key=columns.__getitem__)
        if columns[attr] >= width:
            message = f"the data has {width} columns, and column {columns[attr]} is needed"
            raise RelationError(message, 0, attr=attr)

    return check


def _match_counts(types: Sequence[Type], _attrs: Attrs) -> None:
    """Require a count for each element of the batch and an index for each box."""
    data, counts, indices, *_ = sizes(types)
    if counts != data[:1] or indices != data[:2]:
        raise RelationError(f"data of shape {data} has counts of {data[:1]} and indices of {data[:2]}", 1, 2)


def _divide_blocks(types: Sequence[Type], attrs: Attrs) -> None:
    """Require channels and images that blocks of the stride divide."""
    stride, (_, channels, height, width) = cast(int, attrs["stride"]), sizes(types)[0]
    if channels % stride**2 or height % stride or width % stride:
        raise RelationError(
            f"{channels} channels of {height} x {width} cannot be divided into blocks of {stride} x {stride}",
            0,
            attr="stride",
        )


declare(
    "vision.get_valid_counts(data, score_threshold)",
    _valid_counts,
    "Boxes above a score moved to the front, how many, and where they were.",
    Attr("score_threshold", optional(FLOAT), call_default=None),
    Attr("id_index", INT, 0),
    Attr("score_index", INT, 1),
    call_order="data score_threshold id_index score_index",
    shape_constraints=[_has_columns("score_index", "id_index")],
)
declare(
    "vision.non_max_suppression(data, valid_count, indices, max_output_size, iou_threshold)",
    _non_max_suppression,
    "Of boxes that overlap more than a threshold, the one with the highest score.",
    Attr("force_suppress", BOOL, default=False),
    Attr("top_k", INT, -1),
    Attr("coord_start", INT, 2),
    Attr("score_index", INT, 1),
    Attr("id_index", INT, 0),
    Attr("return_indices", BOOL, default=True),
    Attr("invalid_to_bottom", BOOL, default=False),
    attrs_key="NonMaximumSuppressionAttrs",
    arg_defaults={"max_output_size": -1, "iou_threshold": 0.5},
    preconditions=[_check_non_max_suppression],
    shape_constraints=[_match_counts, _has_columns("coord_start", "score_index", "id_index")],
)
declare(
    "vision.all_class_non_max_suppression("
    "boxes, scores, max_output_boxes_per_class, iou_threshold, score_threshold)",
    _all_class_nms,
    "Non-maximum suppression for each class separately.",
    Attr("output_format", STR, "onnx"),
    attrs_key="AllClassNonMaximumSuppressionAttrs",
    arg_defaults={"max_output_boxes_per_class": -1, "iou_threshold": -1.0, "score_threshold": -1.0},
    preconditions=[_check_all_class_nms, one_of("output_format", "onnx", "tensorflow")],
)
declare(
    "vision.multibox_prior(data)",
    _multibox_prior,
    "Anchor boxes at each position of a feature map.",
    Attr("sizes", array(NUMBER), (1.0,)),
    Attr("ratios", array(NUMBER), (1.0,)),
    Attr("steps", array(NUMBER), (-1.0, -1.0)),
    Attr("offsets", array(NUMBER), (0.5, 0.5)),
    Attr("clip", BOOL, default=False),
    attrs_key="MultiBoxPriorAttrs",
)
_REGION = (Attr("pooled_size", spatial(2)), Attr("spatial_scale", FLOAT))
Family("vision").declare(  # it may raise
    "vision.roi_align(data, rois)",
    _regions,
    "Regions of images sampled at pooled_size positions by bilinear interpolation.",
    *_REGION,
    Attr("sample_ratio", INT, -1),
    Attr("layout", STR, "NCHW"),
    Attr("mode", STR, "avg"),
    attrs_key="ROIAlignAttrs",
    preconditions=[_check_regions],
    nonempty_constraints=[data_has_elements],
)
Family("vision").declare(  # it may raise
    "vision.roi_pool(data, rois)",
    _regions,
    "The largest element of each of pooled_size parts of regions of images.",
    *_REGION,
    Attr("layout", STR, "NCHW"),
    attrs_key="ROIPoolAttrs",
    preconditions=[_check_regions],
    nonempty_constraints=[data_has_elements],
)
declare(
    "vision.yolo_reorg(data)",
    _yolo_reorg,
    "Blocks of stride by stride positions moved into the channels.",
    Attr("stride", INTEGER, 1, call_default=REQUIRED),
    shape_constraints=[_divide_blocks],
)
