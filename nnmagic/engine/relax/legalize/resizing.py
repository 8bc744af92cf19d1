"""Resize images whose pixels float32 does not hold; TVM's own resizing computes all in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import add, mul

from tvm import te, tirx

from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr

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
