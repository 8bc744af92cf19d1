"""Legalize operators of images: resizing, cropping, sampling, upsampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import add, mul

from tvm import te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integers, number
from nnmagic.engine.relax.legalize.convolution import is_divided, to_layout
from nnmagic.engine.relax.legalize.index_checks import clip_to_range
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Rule, Value, shape_of, te_of
from nnmagic.engine.relax.legalize.registry import te as te_rule
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr
from nnmagic.relay.expr import Attrs

#: The pixel that a position is computed from, and its weight; None for the only one.
_Tap = tuple[PrimExpr, PrimExpr | None]

#: A position this close to a pixel is there.
_NEAR = 1e-5


@dataclass(frozen=True, slots=True)
class Resizing:
    """How images are resized: by the words of ``image.resize2d``.

    roi: the starts of the axes, then their ends. alpha, exclude: of cubic splines.
    """

    method: str
    mode: str
    rounding: str
    roi: Sequence[float]
    alpha: float = -0.5
    exclude: bool = False
    beyond: float = 0.0

    @property
    def takes_one_pixel(self) -> bool:
        """Whether each result is one of the pixels."""
        return self.method == "nearest_neighbor"

    def is_exact_in_float32(self, dtype: str) -> bool:
        """Return whether pixels of this dtype are computed in float32 at most."""
        if dtype in ("int32", "uint32", "int64", "uint64"):
            return not self.takes_one_pixel
        return dtype != "float64"

    def compute(self, data: Tensor, size: Sequence[Extent], layout: str, dtype: str) -> Tensor:
        """Return images of another size, whose axes are letters: a batch, channels, and those of a pixel."""
        axes = [layout.index(letter) for letter in "DHW" if letter in layout]
        shape: list[Extent] = list(data.shape)
        for axis, wanted in zip(axes, size, strict=True):
            shape[axis] = wanted
        kind = "float64" if data.dtype == "float64" else "float32"

        def element(*index: Index) -> PrimExpr:
            places = [
                self._position(index[axis], as_expr(data.shape[axis]), as_expr(wanted), number, kind)
                for number, (axis, wanted) in enumerate(zip(axes, size, strict=True))
            ]
            taps = [self._taps(at, as_expr(data.shape[axis])) for at, axis in zip(places, axes, strict=True)]
            terms = []
            for chosen in product(*taps):
                where = list(index)
                for axis, (pixel, _) in zip(axes, chosen, strict=True):
                    where[axis] = tirx.max(tirx.min(pixel, as_expr(data.shape[axis]) - 1), as_expr(0))
                weights = [weight for _, weight in chosen if weight is not None]
                pixel = data(*where)
                terms.append(reduce(mul, weights, pixel.astype(kind)) if weights else pixel)
            value = reduce(add, terms)
            if self.mode != "tf_crop_and_resize":
                return value.astype(dtype)
            ends = [as_expr(data.shape[axis] - 1).astype(kind) for axis in axes]
            outside = [
                test for at, end in zip(places, ends, strict=True) for test in (at < _number(0, at), at > end)
            ]
            return tirx.Select(reduce(tirx.Or, outside), _number(self.beyond, value), value).astype(dtype)

        return te.compute(shape, element)

    def _position(self, at: Index, size: PrimExpr, wanted: PrimExpr, axis: int, kind: str) -> PrimExpr:
        """Return where a pixel of the result lies along an axis of the image."""
        x, size_along, new = (as_expr(each).astype(kind) for each in (at, size, wanted))
        half, one = tirx.const(0.5, kind), tirx.const(1, kind)
        start, end = (tirx.const(self.roi[part], kind) for part in (axis, axis + len(self.roi) // 2))
        several = wanted > 1
        gaps = tirx.max(new - one, one)
        match self.mode:
            case "half_pixel":
                return (x + half) * (size_along / new) - half
            case "align_corners":
                return tirx.Select(several, (size_along - one) / gaps * x, x)
            case "asymmetric":
                times = tirx.max(tirx.floordiv(wanted, size), as_expr(1)).astype(kind)
                return tirx.Select(tirx.floormod(wanted, size) == 0, x / times, size_along / new * x)
            case "pytorch_half_pixel":
                return tirx.Select(several, (x + half) * (size_along / new) - half, x)
            case "tf_half_pixel_for_nn":
                return (x + half) * (size_along / new)
        along = start * (size_along - one) + x * (end - start) * (size_along - one) / gaps
        return tirx.Select(several, along, x + half * (start + end) * (size_along - one))

    def _taps(self, at: PrimExpr, size: PrimExpr) -> list[_Tap]:
        if self.takes_one_pixel:
            return [(self._nearest(at).astype("int64"), None)]
        low = tirx.floor(at)
        fraction, first = at - low, low.astype("int64")
        if self.method == "linear":
            return [(first, 1 - fraction), (first + 1, fraction)]
        weights = self._cubic(fraction)
        if self.exclude:
            inside = [tirx.all(first - 1 + k >= 0, first + k <= size) for k in range(4)]
            weights = [tirx.Select(test, w, _number(0, w)) for test, w in zip(inside, weights, strict=True)]
            total = reduce(add, weights)
            weights = [weight / total for weight in weights]
        return [(first + (k - 1), weight) for k, weight in enumerate(weights)]

    def _nearest(self, at: PrimExpr) -> PrimExpr:
        match self.rounding:
            case "round":
                return tirx.nearbyint(at)
            case "round_prefer_floor":
                return tirx.ceil(at - _number(0.5, at))
            case "round_prefer_ceil":
                return tirx.floor(at + _number(0.5, at))
            case "ceil":
                return tirx.ceil(at - _number(_NEAR, at))
        return tirx.floor(at + _number(_NEAR, at))

    def _cubic(self, t: PrimExpr) -> list[PrimExpr]:
        """Return the weights of four pixels around a position (Keys 1981)."""
        alpha, t2, t3 = self.alpha, t * t, t * t * t
        return [
            alpha * (t3 - 2 * t2 + t),
            (alpha + 2) * t3 - (3 + alpha) * t2 + 1,
            -(alpha + 2) * t3 + (3 + 2 * alpha) * t2 - alpha * t,
            -alpha * t3 + alpha * t2,
        ]


def _number(value: float, like: PrimExpr) -> PrimExpr:
    return tirx.const(value, str(like.ty.dtype))


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
