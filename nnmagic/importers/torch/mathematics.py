"""Compose functions that torch has and Relay lacks."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.importers.onnx.operators.elementwise import convert
from nnmagic.importers.onnx.values import Value, op
from nnmagic.relay.types import neutral

__all__ = ["all_along", "convert", "in_float32", "neutral", "wide"]


def wide(x: Value) -> Value:
    """Return a tensor of halves as one of float32, in which torch computes with them."""
    return x.cast("float32") if x.dtype in ("float16", "bfloat16") else x


def in_float32(name: str, x: Value, **attributes: object) -> Value:
    """Apply an operator; to halves in float32."""
    return op(name, wide(x), **attributes).cast(x.dtype)


def all_along(name: str, data: Value, axes: Sequence[int], *, keep: bool) -> Value:
    """Reduce bools along axes, which may be none."""
    return op(name, data, axis=tuple(axes), keepdims=keep) if axes else data
