"""Images: resizing, cropping, sampling; and upsampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, topi

from nnmagic.engine.relax.operators.indexing import within
from nnmagic.engine.relax.operators.rule import (
    RULES,
    Rule,
    Site,
    Value,
    integer,
    integers,
    number,
    shape_of,
    te_of,
)
from nnmagic.engine.relax.operators.rule import te as te_rule
from nnmagic.relay.expr import Attrs


def _resize(function: Callable[..., Any], spatial: int) -> Rule:
    def compute(attrs: Attrs, data: Any) -> Any:
        given = attrs["roi"] or ()
        roi = [float(value) for value in given] or [0.0] * (2 * spatial)  # type: ignore[attr-defined]  # a tuple
        return function(
            data,
            roi,
            integers(attrs["size"]),
            str(attrs["layout"]),
            str(attrs["method"]),
            str(attrs["coordinate_transformation_mode"]),
            str(attrs["rounding_method"]),
            number(attrs["cubic_alpha"]),
            integer(attrs["cubic_exclude"]),
            number(attrs["extrapolation_value"]),
            str(attrs["out_dtype"]) or data.dtype,
        )

    def rule(site: Site) -> Value:
        for size in integers(site.attrs["size"]):
            site.require(size > 0, f"the size must be positive, not {size}")
        for dim in shape_of(site.args[0]):
            site.require(dim > 0, "there is no element to sample")
        return te_of(compute)(site)

    return rule


def _crop_and_resize(attrs: Attrs, data: Any, boxes: Any, box_indices: Any) -> Any:
    return topi.image.crop_and_resize(
        data,
        boxes,
        te.compute(box_indices.shape, lambda i: within(box_indices(i), 0, data.shape[0] - 1)),
        integers(attrs["crop_size"]),
        str(attrs["layout"]),
        str(attrs["method"]),
        number(attrs["extrapolation_value"]),
        str(attrs["out_dtype"]) or data.dtype,
    )


def _upsampling(attrs: Attrs, data: Any) -> Any:
    scales = [number(attrs[name]) for name in ("scale_h", "scale_w")]
    return topi.nn.upsampling(
        data, *scales, str(attrs["layout"]), str(attrs["method"]), bool(attrs["align_corners"])
    )


def _upsampling3d(attrs: Attrs, data: Any) -> Any:
    scales = [number(attrs[name]) for name in ("scale_d", "scale_h", "scale_w")]
    mode = str(attrs["coordinate_transformation_mode"])
    return topi.nn.upsampling3d(data, *scales, str(attrs["layout"]), str(attrs["method"]), mode)


RULES.update(
    {
        "image.resize1d": _resize(topi.image.resize1d, 1),
        "image.resize2d": _resize(topi.image.resize2d, 2),
        "image.resize3d": _resize(topi.image.resize3d, 3),
        "image.crop_and_resize": te_of(_crop_and_resize),
        "image.grid_sample": te_rule(
            topi.image.grid_sample, "method", "layout", "padding_mode", "align_corners"
        ),
        "image.affine_grid": te_rule(topi.image.affine_grid, "target_shape"),
        "nn.upsampling": te_of(_upsampling),
        "nn.upsampling3d": te_of(_upsampling3d),
    }
)
