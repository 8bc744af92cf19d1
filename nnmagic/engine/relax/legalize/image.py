"""Legalize operators of images: resizing, cropping, sampling, upsampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import te, topi

from nnmagic.engine.relax.analysis.attribute_values import integers, number
from nnmagic.engine.relax.legalize.convolution import is_divided, to_layout
from nnmagic.engine.relax.legalize.index_checks import clip_to_range
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Rule, Value, shape_of, te_of
from nnmagic.engine.relax.legalize.registry import te as te_rule
from nnmagic.engine.relax.legalize.resizing import Resizing
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.relay.expr import Attrs


def _on_undivided_layout(function: Callable[[Tensor, str], Tensor], data: Tensor, layout: str) -> Tensor:
    """Apply a function of images and their layout to images whose axes may be divided, as in NCHW4c."""
    if not is_divided(layout):
        return function(data, layout)
    dense = "".join(letter for letter in layout if letter.isupper())
    return to_layout(function(to_layout(data, layout, dense), dense), dense, layout)


def _rounding(attrs: Attrs) -> str:
    """Return the rounding for TVM's resize: Relay rounds halves up, TVM's ``round`` to even."""
    rounding, mode = str(attrs["rounding_method"]), str(attrs["coordinate_transformation_mode"])
    return (
        "round_prefer_ceil" if rounding == "round" or (not rounding and mode == "align_corners") else rounding
    )


def _resize_rule(function: Callable[..., Tensor], spatial: int) -> Rule:
    def compute(attrs: Attrs, data: Tensor) -> Tensor:
        return _on_undivided_layout(lambda x, layout: resize(attrs, x, layout), data, str(attrs["layout"]))

    def resize(attrs: Attrs, data: Tensor, layout: str) -> Tensor:
        given = attrs["roi"] or ()
        resizing = Resizing(
            str(attrs["method"]),
            str(attrs["coordinate_transformation_mode"]),
            _rounding(attrs),
            [float(value) for value in given] or [0.0] * (2 * spatial),  # type: ignore[attr-defined]  # a tuple
            number(attrs["cubic_alpha"]),
            bool(attrs["cubic_exclude"]),
            number(attrs["extrapolation_value"]),
        )
        size, dtype = integers(attrs["size"]), str(attrs["out_dtype"]) or data.dtype
        if not resizing.is_exact_in_float32(data.dtype):
            return resizing.compute(data, size, layout, dtype)
        return function(
            data,
            resizing.roi,
            size,
            layout,
            resizing.method,
            resizing.mode,
            resizing.rounding,
            resizing.alpha,
            int(resizing.exclude),
            resizing.beyond,
            dtype,
        )

    def rule(call: OpCall) -> Value:
        for size in integers(call.attrs["size"]):
            call.require(size > 0, f"the size must be positive, not {size}")
        return te_of(compute)(call)

    return rule


def _crop_and_resize(attrs: Attrs, data: Tensor, boxes: Tensor, box_indices: Tensor) -> Tensor:
    return topi.image.crop_and_resize(
        data,
        boxes,
        te.compute(box_indices.shape, lambda i: clip_to_range(box_indices(i), 0, data.shape[0] - 1)),
        integers(attrs["crop_size"]),
        str(attrs["layout"]),
        str(attrs["method"]),
        number(attrs["extrapolation_value"]),
        str(attrs["out_dtype"]) or data.dtype,
    )


def _upsampling(attrs: Attrs, data: Tensor) -> Tensor:
    return _on_undivided_layout(lambda x, layout: _upsample(attrs, x, layout), data, str(attrs["layout"]))


def _upsample(attrs: Attrs, data: Tensor, layout: str) -> Tensor:
    scales, method = [number(attrs[name]) for name in ("scale_h", "scale_w")], str(attrs["method"])
    corners = bool(attrs["align_corners"])
    exact = _resize_exactly(data, scales, layout, method, "align_corners" if corners else "asymmetric")
    if exact is not None:
        return exact
    if method != "bicubic":
        return topi.nn.upsampling(data, *scales, layout, method, corners)
    sides = [data.shape[layout.index(letter)] for letter in "HW"]
    size = [topi.cast(te.round(dim * scale), "int64") for dim, scale in zip(sides, scales, strict=True)]
    mode = "align_corners" if corners else "asymmetric"
    # TVM's own upsampling uses another spline than Relay's.
    return topi.image.resize2d(data, [0.0] * 4, size, layout, "cubic", mode, bicubic_alpha=-0.5)


def _upsampling3d(attrs: Attrs, data: Tensor) -> Tensor:
    scales = [number(attrs[name]) for name in ("scale_d", "scale_h", "scale_w")]
    layout, method, mode = (
        str(attrs[name]) for name in ("layout", "method", "coordinate_transformation_mode")
    )
    exact = _resize_exactly(data, scales, layout, method, mode)
    return topi.nn.upsampling3d(data, *scales, layout, method, mode) if exact is None else exact


def _resize_exactly(
    data: Tensor, scales: Sequence[float], layout: str, method: str, mode: str
) -> Tensor | None:
    """Upsample images whose pixels float32 does not hold; None for others."""
    kind = {"bicubic": "cubic", "tricubic": "cubic", "nearest_neighbor": "nearest_neighbor"}
    rounding = "round_prefer_ceil" if mode == "align_corners" else ""
    resizing = Resizing(kind.get(method, "linear"), mode, rounding, [0.0] * (2 * len(scales)))
    if resizing.is_exact_in_float32(data.dtype):
        return None
    sides = [data.shape[layout.index(letter)] for letter in "DHW" if letter in layout]
    size = [topi.cast(te.round(dim * scale), "int64") for dim, scale in zip(sides, scales, strict=True)]
    return resizing.compute(data, size, layout, data.dtype)


def _require_static_size(rule: Rule) -> Rule:
    """Refuse images of dynamic size, for which TVM cannot build the operator."""

    def check_and_apply(call: OpCall) -> Value:
        letters = filter(str.isalpha, str(call.attrs["layout"]))
        for letter, dim in zip(letters, shape_of(call.args[0]), strict=True):
            if letter in "DHW" and not isinstance(dim, int):
                call.refuse(f"the dimension {letter} of the images must be known at compile time")
        return rule(call)

    return check_and_apply


RULES.update(
    {
        "image.resize1d": _resize_rule(topi.image.resize1d, 1),
        "image.resize2d": _resize_rule(topi.image.resize2d, 2),
        "image.resize3d": _resize_rule(topi.image.resize3d, 3),
        "image.crop_and_resize": te_of(_crop_and_resize),
        "image.grid_sample": te_rule(
            topi.image.grid_sample, "method", "layout", "padding_mode", "align_corners"
        ),
        "image.affine_grid": te_rule(topi.image.affine_grid, "target_shape"),
        "nn.upsampling": _require_static_size(te_of(_upsampling)),
        "nn.upsampling3d": _require_static_size(te_of(_upsampling3d)),
    }
)
