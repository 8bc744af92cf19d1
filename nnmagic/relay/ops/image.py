"""Declare operators on images: resizing, sampling, morphology."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops import attributes as kinds
from nnmagic.relay.ops import relations as rel
from nnmagic.relay.ops.checks import data_has_elements, sizes, window_has_elements
from nnmagic.relay.ops.convolution import padding_sums
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import Shape, dilate, round_scale, window_output
from nnmagic.relay.ops.layouts import Layout, convert_shape, convertible_layout, parse_layout
from nnmagic.relay.types import TensorType, Type

declare = Family("image", Trait.SPECULATABLE).declare


def image_layout(attrs: Attrs, axes: str, name: str = "layout") -> tuple[Layout, Layout]:
    """Return the layout that an attribute names and the plain one (``NCHW``) that it must convert to."""
    plain = parse_layout(f"NC{axes}")
    return convertible_layout(attrs, name, plain.name, "data"), plain


@dataclass(frozen=True, slots=True)
class _Resize:
    """The relation of resizing over the given axes to ``size``."""

    axes: str

    def __call__(self, types: Sequence[Type], attrs: Attrs) -> TensorType:
        data = rel.tensor(types)
        layout, plain = image_layout(attrs, self.axes)
        shape = convert_shape(data.shape, layout, plain)
        corners = cast("tuple[float, ...]", attrs["roi"] or ())
        rel.of_length("roi", corners, 2 * len(self.axes))
        result: Shape = (*shape[:2], *rel.dims(attrs, "size", len(self.axes)))
        return TensorType(convert_shape(result, plain, layout), rel.dtype_or(attrs, "out_dtype", data.dtype))


@dataclass(frozen=True, slots=True)
class _Upsample:
    """The relation of upsampling: each axis times its scale, rounded."""

    axes: str

    def __call__(self, types: Sequence[Type], attrs: Attrs) -> TensorType:
        data = rel.tensor(types)
        layout, plain = image_layout(attrs, self.axes)
        shape = convert_shape(data.shape, layout, plain)
        names = [f"scale_{axis.lower()}" for axis in self.axes]
        scales = [cast(float, attrs[name]) for name in names]
        wrong = tuple(name for name, scale in zip(names, scales, strict=True) if not 0 <= scale < math.inf)
        if wrong:
            raise RelationError(f"a scale must be a finite number, not negative, found {scales}", attr=wrong)
        scaled_dims = list(zip(shape[2:], scales, strict=True))
        too_large = [isinstance(dim, int) and dim * scale >= 2**63 for dim, scale in scaled_dims]
        if any(too_large):
            wrong = tuple(name for name, large in zip(names, too_large, strict=True) if large)
            raise RelationError(
                "the scales {scales} are too large for {data}", attr=wrong, scales=scales, data=data
            )
        scaled = [round_scale(dim, scale) for dim, scale in scaled_dims]
        return TensorType(convert_shape((*shape[:2], *scaled), plain, layout), data.dtype)


def _crop_and_resize(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, boxes = rel.tensor(types, 0, rank=4), rel.tensor(types, 1)
    if not boxes.shape:
        raise RelationError("expected boxes, found a scalar", 1)
    layout, plain = image_layout(attrs, "HW")
    channels = convert_shape(data.shape, layout, plain)[1]
    result: Shape = (boxes.shape[0], channels, *rel.dims(attrs, "crop_size", 2))
    return TensorType(convert_shape(result, plain, layout), rel.dtype_or(attrs, "out_dtype", data.dtype))


def _affine_grid(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = rel.tensor(types, rank=3)
    rel.require_type(data, (data.shape[0], 2, 3), "the matrices", 0)
    return TensorType((data.shape[0], 2, *rel.dims(attrs, "target_shape", 2)), data.dtype)


def _grid_sample(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, grid = rel.tensor(types, 0), rel.tensor(types, 1)
    axes = {4: "HW", 5: "DHW"}.get(len(data.shape))
    if axes is None or len(grid.shape) != len(data.shape):
        raise RelationError(
            "expected data and grid of rank 4 or 5, found {data} and {grid}", 0, 1, data=data, grid=grid
        )
    layout, plain = image_layout(attrs, axes)
    batch, channels, *_ = convert_shape(data.shape, layout, plain)
    return TensorType(convert_shape((batch, channels, *grid.shape[2:]), plain, layout), data.dtype)


def _dilation2d(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, weight = rel.tensor(types, 0), rel.tensor(types, 1)
    layout, plain = image_layout(attrs, "HW", "data_layout")
    kernel = convertible_layout(attrs, "kernel_layout", "IHW", "kernel")
    shape = convert_shape(data.shape, layout, plain)
    channels, *widths = convert_shape(weight.shape, kernel, parse_layout("IHW"), 1)
    strides, steps = rel.dims(attrs, "strides", 2), rel.dims(attrs, "dilations", 2)
    rel.require_positive("strides", strides)
    rel.require_positive("dilations", steps)
    out = [
        window_output(size, pad, dilate(width, step), stride)
        for size, pad, width, step, stride in zip(
            shape[2:], padding_sums(attrs, 2), widths, steps, strides, strict=True
        )
    ]
    return TensorType(
        convert_shape((shape[0], channels, *out), plain, layout), rel.dtype_or(attrs, "out_dtype", data.dtype)
    )


def _check_crop_and_resize(types: Sequence[Type], _attrs: Attrs) -> None:
    boxes = rel.tensor(types, 1, rank=2)
    rel.require_same(boxes.shape[1], 4, "a box has 4 numbers", 1)
    rel.tensor(types, 2, rank=1)


def _check_grid_sample(types: Sequence[Type], attrs: Attrs) -> None:
    data, grid = rel.tensor(types, 0), rel.tensor(types, 1)
    axes = "HW" if len(data.shape) == 4 else "DHW"
    layout, plain = image_layout(attrs, axes)
    batch = convert_shape(data.shape, layout, plain)[0]
    rel.require_same(grid.shape[0], batch, "the batches of data and grid differ", 0, 1)
    rel.require_same(grid.shape[1], len(axes), "the grid must have a coordinate for each axis", 1)


def _check_dilation2d(types: Sequence[Type], attrs: Attrs) -> None:
    layout, plain = image_layout(attrs, "HW", "data_layout")
    kernel = convertible_layout(attrs, "kernel_layout", "IHW", "kernel")
    channels = convert_shape(rel.tensor(types, 1).shape, kernel, parse_layout("IHW"), 1)[0]
    expected = convert_shape(rel.tensor(types).shape, layout, plain)[1]
    rel.require_same(channels, expected, "the channels of the weight and of the data differ", 1, 0)


def _match_boxes(types: Sequence[Type], _attrs: Attrs) -> None:
    """Require an image number for each box."""
    _, boxes, images = sizes(types)
    if boxes[:1] != images[:1]:
        raise RelationError(f"there are {boxes[0]} boxes, and image numbers for {images[0]}", 1, 2)


_OUT_DTYPE = Attr("out_dtype", kinds.DTYPE, "")


def _convert_to_floats(value: object) -> object:
    """Convert ints in a call from Python to floats: Relay takes no ints here."""
    return tuple(map(float, value)) if isinstance(value, list | tuple) else value


_CORNERS = replace(kinds.array(kinds.FLOAT_ONLY), from_call=_convert_to_floats)


def _declare_resize(rank: int) -> None:
    axes = "DHW"[3 - rank :]
    corners = (0.0,) * (2 * rank)
    declare(
        f"image.resize{rank}d(data)",
        _Resize(axes),
        f"Images of another size, interpolated over {rank} spatial {'axis' if rank == 1 else 'axes'}.",
        Attr("size", kinds.optional(kinds.spatial(rank)), None, call_default=REQUIRED),
        Attr("roi", kinds.default_for_none(_CORNERS, corners), None),
        Attr("layout", kinds.STR, f"NC{axes}"),
        Attr("method", kinds.STR, "linear"),
        Attr("coordinate_transformation_mode", kinds.STR, "half_pixel"),
        Attr("rounding_method", kinds.STR, "round", call_default=""),
        Attr("cubic_alpha", kinds.FLOAT, -0.5),
        Attr("cubic_exclude", kinds.INT, 0),
        Attr("extrapolation_value", kinds.FLOAT, 0.0),
        _OUT_DTYPE,
        attrs_key=f"Resize{rank}DAttrs",
        preconditions=[window_has_elements],
    )


for _rank in (1, 2, 3):
    _declare_resize(_rank)
declare(
    "nn.upsampling(data)",
    _Upsample("HW"),
    "Images enlarged by a factor for each spatial axis.",
    Attr("scale_h", kinds.FLOAT, call_default=1.0),
    Attr("scale_w", kinds.FLOAT, call_default=1.0),
    Attr("layout", kinds.STR, "NCHW"),
    Attr("method", kinds.STR, "nearest_neighbor"),
    Attr("align_corners", kinds.BOOL, default=False),
    attrs_key="UpSamplingAttrs",
    nonempty_constraints=[window_has_elements],
)
declare(
    "nn.upsampling3d(data)",
    _Upsample("DHW"),
    "Volumes enlarged by a factor for each spatial axis.",
    Attr("scale_d", kinds.FLOAT, call_default=1.0),
    Attr("scale_h", kinds.FLOAT, call_default=1.0),
    Attr("scale_w", kinds.FLOAT, call_default=1.0),
    Attr("layout", kinds.STR, "NCDHW"),
    Attr("method", kinds.STR, "nearest_neighbor"),
    Attr("coordinate_transformation_mode", kinds.STR, "half_pixel"),
    attrs_key="UpSampling3DAttrs",
    nonempty_constraints=[window_has_elements],
)
Family("image").declare(  # it may raise
    "image.crop_and_resize(data, boxes, box_indices)",
    _crop_and_resize,
    "Boxes cut out of images and resized to one size.",
    Attr("crop_size", kinds.optional(kinds.spatial(2)), None, call_default=REQUIRED),
    Attr("layout", kinds.STR, "NCHW", call_default=REQUIRED),
    Attr("method", kinds.STR, "bilinear"),
    Attr("extrapolation_value", kinds.FLOAT, 0.0),
    _OUT_DTYPE,
    preconditions=[_check_crop_and_resize],
    shape_constraints=[_match_boxes],
    nonempty_constraints=[data_has_elements],
)
declare(
    "image.affine_grid(data)",
    _affine_grid,
    "Sampling coordinates of affine maps, for grid_sample.",
    Attr("target_shape", kinds.array(kinds.DIM)),
)
declare(
    "image.grid_sample(data, grid)",
    _grid_sample,
    "Images sampled at the coordinates of a grid.",
    Attr("method", kinds.STR, "bilinear"),
    Attr("layout", kinds.STR, "NCHW"),
    Attr("padding_mode", kinds.STR, "zeros"),
    Attr("align_corners", kinds.BOOL, default=True),
    preconditions=[_check_grid_sample],
    nonempty_constraints=[window_has_elements],
)
declare(
    "image.dilation2d(data, weight)",
    _dilation2d,
    "Grey-scale dilation: the largest sum of data and weight in each window.",
    Attr("strides", kinds.spatial(2), (1, 1)),
    Attr("padding", kinds.spatial(2, lengths=(1, 2, 4)), (0, 0)),
    Attr("dilations", kinds.spatial(2), (1, 1)),
    Attr("data_layout", kinds.STR, "NCHW"),
    Attr("kernel_layout", kinds.STR, "IHW"),
    _OUT_DTYPE,
    attrs_key="Dilation2DAttrs",
    traits=Trait.HEAVY,
    preconditions=[_check_dilation2d],
    nonempty_constraints=[window_has_elements],
)
