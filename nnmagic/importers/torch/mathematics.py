"""Compose functions that torch has and Relay lacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnmagic.importers.onnx.operators.activations import expm1, log1p, softplus
from nnmagic.importers.onnx.operators.elementwise import (
    convert,
    nan_maximum,
    nan_minimum,
    round_half_even,
)
from nnmagic.importers.onnx.operators.reductions import neutral
from nnmagic.importers.onnx.values import Value, op

__all__ = [
    "convert",
    "copy_sign",
    "expm1",
    "in_float32",
    "log1p",
    "nan_maximum",
    "nan_minimum",
    "neutral",
    "round_half_even",
    "sign_bit",
    "softplus",
    "wide",
]


def wide(x: Value) -> Value:
    """Return a tensor of halves as one of float32, in which torch computes with them."""
    return x.cast("float32") if x.dtype in ("float16", "bfloat16") else x


def in_float32(name: str, x: Value, **attributes: object) -> Value:
    """Apply an operator; to halves in float32."""
    return op(name, wide(x), **attributes).cast(x.dtype)


def sign_bit(x: Value) -> Value:
    """Return whether the sign of each float is set; that of -0.0 is."""
    bits = {"float16": "int16", "bfloat16": "int16", "float32": "int32", "float64": "int64"}
    return op("reinterpret", x, dtype=bits[x.dtype]) < 0


def copy_sign(size: Value, sign: Value) -> Value:
    """Return floats with the signs of others."""
    positive = op("abs", size)
    return sign_bit(sign).choose(-positive, positive)


def atan2(y: Value, x: Value) -> Value:
    """Return the angle of points, in all quadrants, for infinities, zeros and NaN as C's atan2."""
    if y.dtype in ("float16", "bfloat16"):
        return atan2(wide(y), wide(x)).cast(y.dtype)
    up, along = op("abs", y), op("abs", x)
    steep = up > along
    large, small = steep.choose(up, along), steep.choose(along, up)
    both = op("logical_and", op("isinf", small), op("isinf", large))
    ratio = both.choose(1.0, large.equal(0).choose(0.0, small / large))
    angle = op("atan", ratio)
    angle = steep.choose(angle.like(np.pi / 2) - angle, angle)
    angle = sign_bit(x).choose(angle.like(np.pi) - angle, angle)
    nan = op("logical_or", op("isnan", x), op("isnan", y))
    return nan.choose(x + y, copy_sign(angle, y))


def floor_division(left: Value, right: Value) -> Value:
    """Divide floats and round down, as Python does: what the remainder leaves is divided."""
    rest = op("mod", left, right)
    quotient = (left - rest) / right
    opposite = op("logical_and", op("not_equal", rest, rest.like(0)), op("not_equal", right < 0, rest < 0))
    quotient = opposite.choose(quotient - 1, quotient)
    down = op("floor", quotient)
    down = (quotient - down > 0.5).choose(down + 1, down)
    down = quotient.equal(0).choose(copy_sign(quotient.like(0) * quotient, left / right), down)
    return right.equal(0).choose(left / right, down)


def all_along(name: str, data: Value, axes: Sequence[int], *, keep: bool) -> Value:
    """Reduce bools along axes, which may be none."""
    return op(name, data, axis=tuple(axes), keepdims=keep) if axes else data
