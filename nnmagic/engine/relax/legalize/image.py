"""Images: resizing, cropping, sampling; and upsampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, topi

from nnmagic.engine.relax.analysis.attribute_values import integer, integers, number
from nnmagic.engine.relax.legalize.convolution import in_layout, is_divided
from nnmagic.engine.relax.legalize.indexing import within
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Rule, Value, shape_of, te_of
from nnmagic.engine.relax.legalize.registry import te as te_rule
from nnmagic.relay.expr import Attrs


def _undivided(function: Callable[[Any, str], Any], data: Any, layout: str) -> Any:
    """What a function of images and their layout makes of images whose axes may be divided, as in NCHW4c."""
    if not is_divided(layout):
        return function(data, layout)
    plain = "".join(letter for letter in layout if letter.isupper())
    return in_layout(function(in_layout(data, layout, plain), plain), plain, layout)


def _rounding(attrs: Attrs) -> str:
    """Relay rounds halves up, TVM's ``round`` to the even number."""
    given, mode = str(attrs["rounding_method"]), str(attrs["coordinate_transformation_mode"])
    return "round_prefer_ceil" if given == "round" or (not given and mode == "align_corners") else given


def _resize(function: Callable[..., Any], spatial: int) -> Rule:
    def compute(attrs: Attrs, data: Any) -> Any:
        return _undivided(lambda x, layout: resized(attrs, x, layout), data, str(attrs["layout"]))

    def resized(attrs: Attrs, data: Any, layout: str) -> Any:
        given = attrs["roi"] or ()
        roi = [float(value) for value in given] or [0.0] * (2 * spatial)  # type: ignore[attr-defined]  # a tuple
        return function(
            data,
            roi,
            integers(attrs["size"]),
            layout,
            str(attrs["method"]),
            str(attrs["coordinate_transformation_mode"]),
            _rounding(attrs),
            number(attrs["cubic_alpha"]),
            integer(attrs["cubic_exclude"]),
            number(attrs["extrapolation_value"]),
            str(attrs["out_dtype"]) or data.dtype,
        )

    def rule(site: OpCall) -> Value:
        for size in integers(site.attrs["size"]):
            site.require(size > 0, f"the size must be positive, not {size}")
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
    return _undivided(lambda x, layout: _upsampled(attrs, x, layout), data, str(attrs["layout"]))


def _upsampled(attrs: Attrs, data: Any, layout: str) -> Any:
    scales, method = [number(attrs[name]) for name in ("scale_h", "scale_w")], str(attrs["method"])
    corners = bool(attrs["align_corners"])
    if method != "bicubic":
        return topi.nn.upsampling(data, *scales, layout, method, corners)
    sides = [data.shape[layout.index(letter)] for letter in "HW"]
    size = [topi.cast(te.round(dim * scale), "int64") for dim, scale in zip(sides, scales, strict=True)]
    mode = "align_corners" if corners else "asymmetric"
    # TVM's own upsampling takes another spline than Relay's.
    return topi.image.resize2d(data, [0.0] * 4, size, layout, "cubic", mode, bicubic_alpha=-0.5)


def _upsampling3d(attrs: Attrs, data: Any) -> Any:
    scales = [number(attrs[name]) for name in ("scale_d", "scale_h", "scale_w")]
    mode = str(attrs["coordinate_transformation_mode"])
    return topi.nn.upsampling3d(data, *scales, str(attrs["layout"]), str(attrs["method"]), mode)


def _of_known_size(rule: Rule) -> Rule:
    """The rule of an operator that TVM builds for images whose size is known when compiling."""

    def looked(site: OpCall) -> Value:
        letters = filter(str.isalpha, str(site.attrs["layout"]))
        for letter, dim in zip(letters, shape_of(site.args[0]), strict=True):
            if letter in "DHW" and not isinstance(dim, int):
                site.refuse(f"the dimension {letter} of the images must be known when compiling")
        return rule(site)

    return looked


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
        "nn.upsampling": _of_known_size(te_of(_upsampling)),
        "nn.upsampling3d": _of_known_size(te_of(_upsampling3d)),
    }
)
