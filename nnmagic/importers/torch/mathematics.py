"""Compose functions that torch has and Relay lacks."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.importers.onnx.operators.elementwise import (
    convert,
    nan_maximum,
    nan_minimum,
    round_half_even,
)
from nnmagic.importers.onnx.values import Value, op
from nnmagic.relay.types import neutral

__all__ = [
    "convert",
    "in_float32",
    "nan_maximum",
    "nan_minimum",
    "neutral",
    "round_half_even",
    "wide",
]


def wide(x: Value) -> Value:
    """Return a tensor of halves as one of float32, in which torch computes with them."""
    return x.cast("float32") if x.dtype in ("float16", "bfloat16") else x


def in_float32(name: str, x: Value, **attributes: object) -> Value:
    """Apply an operator; to halves in float32."""
    return op(name, wide(x), **attributes).cast(x.dtype)


def floor_division(left: Value, right: Value) -> Value:
    """Divide floats and round down, as Python does: what the remainder leaves is divided."""
    rest = op("mod", left, right)
    quotient = (left - rest) / right
    opposite = op("logical_and", op("not_equal", rest, rest.like(0)), op("not_equal", right < 0, rest < 0))
    quotient = opposite.choose(quotient - 1, quotient)
    down = op("floor", quotient)
    down = (quotient - down > 0.5).choose(down + 1, down)
    down = quotient.equal(0).choose(op("numpy.copysign", quotient.like(0) * quotient, left / right), down)
    return right.equal(0).choose(left / right, down)


def all_along(name: str, data: Value, axes: Sequence[int], *, keep: bool) -> Value:
    """Reduce bools along axes, which may be none."""
    return op(name, data, axis=tuple(axes), keepdims=keep) if axes else data
