"""Bring operands into the layouts that ONNX has: batch, channels, then the spatial axes."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.exporters.onnx.operators.shaping import permutation
from nnmagic.exporters.onnx.sites import ExportCall


def channels_first(site: ExportCall, name: str, layout: str) -> tuple[str, str]:
    """Return images with their channels before the spatial axes, and that layout."""
    target = "NC" + "".join(letter for letter in layout if letter not in "NC")
    return site.transpose(name, permutation(layout, target)), target


def from_channels_first(site: ExportCall, name: str, source: str, layout: str) -> str:
    """Return images in a layout."""
    return site.transpose(name, permutation(source, layout))


def data_layout(site: ExportCall) -> str:
    """Return the layout of a call's data."""
    return str(site.attrs.get("data_layout") or site.attrs.get("layout"))


def both_sides(padding: Sequence[int], rank: int) -> list[int]:
    """Return Relay's padding as ONNX writes it: all beginnings, then all ends."""
    if len(padding) == 2 * rank:
        return list(padding)
    return [*padding, *padding] if len(padding) == rank else [padding[0]] * (2 * rank)


def per_axis(values: Sequence[int], rank: int) -> list[int]:
    """Return one value for each spatial axis."""
    return list(values) if len(values) == rank else [values[0]] * rank
