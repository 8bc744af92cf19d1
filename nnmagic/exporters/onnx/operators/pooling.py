"""Export pooling.

The standard: https://onnx.ai/onnx/operators/onnx__AveragePool.html
"""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.exporters.onnx.errors import ExportRefusalError
from nnmagic.exporters.onnx.operators import layouts
from nnmagic.exporters.onnx.operators.shaping import permutation
from nnmagic.exporters.onnx.registry import operator
from nnmagic.exporters.onnx.sites import ExportCall, static
from nnmagic.relay.types import is_float


def _in_layout(site: ExportCall, name: str, layout: str) -> str:
    return layouts.from_channels_first(
        site, name, layout, str(site.attrs["out_layout"]) or layouts.data_layout(site)
    )


def _sizes(site: ExportCall, layout: str) -> tuple[list[int], list[int]]:
    """Return the spatial sizes of the data and of the result."""
    out = static(site.type.shape)
    order = permutation(str(site.attrs["out_layout"]) or layouts.data_layout(site), layout)
    before = [site.static_shape()[axis] for axis in permutation(layouts.data_layout(site), layout)]
    return before[2:], [out[axis] for axis in order][2:]


def _pads(site: ExportCall, layout: str, window: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return the padding; ONNX drops a last window that only the ceil mode gives, so it is padded for."""
    spatial = len(window)
    pads = layouts.both_sides(site.integers("padding"), spatial)
    if site.attrs["ceil_mode"]:
        dilation = layouts.per_axis(site.integers("dilation"), spatial)
        before, after = _sizes(site, layout)
        for axis in range(spatial):
            reach = (after[axis] - 1) * strides[axis] + dilation[axis] * (window[axis] - 1) + 1
            missing = reach - before[axis] - pads[axis] - pads[axis + spatial]
            pads[axis + spatial] += max(missing, 0)
    if any(pad >= size for pad, size in zip(pads, [*window, *window], strict=True)):
        raise ExportRefusalError("ONNX pads pooling by less than the window")
    return pads


def _declare(kind: str, onnx_name: str, rank: int) -> None:
    @operator(f"nn.{kind}_pool{rank}d", note="in layouts that are not divided")
    def _rule(site: ExportCall) -> str:
        data, layout = layouts.channels_first(site, site.args[0], layouts.data_layout(site))
        if kind == "avg" and not is_float(site.dtype):
            raise ExportRefusalError(f"ONNX's AveragePool does not compute {site.dtype}")
        if kind == "max" and site.dtype in _AS_DOUBLE:
            data = site.cast(data, "float64")
        window = layouts.per_axis(site.integers("pool_size"), rank)
        strides = layouts.per_axis(site.integers("strides"), rank)
        attrs: dict[str, object] = {
            "kernel_shape": window,
            "strides": strides,
            "pads": _pads(site, layout, window, strides),
            "dilations": layouts.per_axis(site.integers("dilation"), rank),
        }
        if kind == "avg" and site.attrs["count_include_pad"]:
            data = _zeros_around(site, data, rank, attrs)
        pooled = _in_layout(site, site.node(onnx_name, data, **attrs), layout)
        return site.cast(pooled, site.dtype) if kind == "max" and site.dtype in _AS_DOUBLE else pooled

    @operator(f"nn.adaptive_{kind}_pool{rank}d", note="to one element, or of known sizes")
    def _adaptive(site: ExportCall) -> str:
        return _adaptive_pool(site, kind)

    if rank == 2:

        @operator(f"nn.global_{kind}_pool2d")
        def _global(site: ExportCall) -> str:
            data, layout = layouts.channels_first(site, site.args[0], layouts.data_layout(site))
            return _in_layout(site, _reduced(site, kind, data, [2, 3]), layout)


#: Integers that ONNX's MaxPool does not take, and float64 holds.
_AS_DOUBLE = ("int16", "uint16", "int32", "uint32")


def _zeros_around(site: ExportCall, data: str, rank: int, attrs: dict[str, object]) -> str:
    """Pad with zeros that the mean counts; what the ceil mode adds, it does not count."""
    pads = layouts.both_sides(site.integers("padding"), rank)
    if not any(pads):
        return data
    all_pads = attrs["pads"]
    assert isinstance(all_pads, list)
    attrs["pads"] = [total - counted for total, counted in zip(all_pads, pads, strict=True)]
    widths = [0, 0, *pads[:rank], 0, 0, *pads[rank:]]
    return site.node("Pad", data, site.vector(widths))


def _reduced(site: ExportCall, kind: str, name: str, axes: Sequence[int]) -> str:
    op = "ReduceMax" if kind == "max" else "ReduceMean"
    return site.node(op, name, site.vector(list(axes)), keepdims=1)


def _adaptive_pool(site: ExportCall, kind: str) -> str:
    """Reduce the slices that make each element of the result, axis by axis."""
    data, layout = layouts.channels_first(site, site.args[0], layouts.data_layout(site))
    if not site.attrs["output_size"]:
        return _in_layout(site, data, layout)
    sizes = layouts.per_axis(site.integers("output_size"), len(layout) - 2)
    if all(size == 1 for size in sizes):
        return _in_layout(site, _reduced(site, kind, data, range(2, len(layout))), layout)
    before, after = _sizes(site, layout)
    for axis, (size, count) in enumerate(zip(before, after, strict=True), 2):
        if size == count:
            continue
        slices = []
        for index in range(count):
            bounds = index * size // count, -(-(index + 1) * size // count)
            vectors = (site.vector([number]) for number in (*bounds, axis))
            slices.append(_reduced(site, kind, site.node("Slice", data, *vectors), [axis]))
        data = slices[0] if count == 1 else site.node("Concat", *slices, axis=axis)
    return _in_layout(site, data, layout)


for _rank in (1, 2, 3):
    _declare("max", "MaxPool", _rank)
    _declare("avg", "AveragePool", _rank)
