"""Export convolutions.

The standard: https://onnx.ai/onnx/operators/onnx__Conv.html
"""

from __future__ import annotations

from nnmagic.exporters.onnx.errors import ExportRefusalError
from nnmagic.exporters.onnx.operators import layouts
from nnmagic.exporters.onnx.operators.shaping import permutation
from nnmagic.exporters.onnx.registry import operator
from nnmagic.exporters.onnx.sites import ExportCall
from nnmagic.relay.types import is_float


def _windows(site: ExportCall, spatial: int) -> dict[str, object]:
    return {
        "strides": layouts.per_axis(site.integers("strides"), spatial),
        "pads": layouts.both_sides(site.integers("padding"), spatial),
        "dilations": layouts.per_axis(site.integers("dilation"), spatial),
        "group": site.integer("groups"),
    }


def _operands(site: ExportCall, kernel: str) -> tuple[str, str, str]:
    """Return data and weights in ONNX's layouts, and that of the data."""
    dtype = site.result_dtype
    if not is_float(dtype):
        raise ExportRefusalError(f"ONNX's Conv does not compute {dtype}")
    data, layout = layouts.channels_first(site, site.operand(0, dtype), layouts.data_layout(site))
    axes = [letter for letter in layout if letter not in "NC"]
    weight = site.transpose(
        site.operand(1, dtype), permutation(str(site.attrs["kernel_layout"]), kernel + "".join(axes))
    )
    return data, weight, layout


def _in_layout(site: ExportCall, name: str, layout: str) -> str:
    return layouts.from_channels_first(
        site, name, layout, str(site.attrs["out_layout"]) or layouts.data_layout(site)
    )


@operator("nn.conv1d", "nn.conv2d", "nn.conv3d", note="of floats, in layouts that are not divided")
def _conv(site: ExportCall) -> str:
    data, weight, layout = _operands(site, "OI")
    return _in_layout(site, site.node("Conv", data, weight, **_windows(site, len(layout) - 2)), layout)


@operator(
    "nn.conv1d_transpose",
    "nn.conv2d_transpose",
    "nn.conv3d_transpose",
    note="of floats, in layouts that are not divided",
)
def _conv_transpose(site: ExportCall) -> str:
    data, weight, layout = _operands(site, "IO")
    spatial = len(layout) - 2
    extra = layouts.per_axis(site.integers("output_padding"), spatial)
    made = site.node("ConvTranspose", data, weight, output_padding=extra, **_windows(site, spatial))
    return _in_layout(site, made, layout)


@operator("nn.deformable_conv2d", note="of floats, in layouts that are not divided")
def _deformable_conv2d(site: ExportCall) -> str:
    if layouts.data_layout(site) != "NCHW" or site.attrs["kernel_layout"] != "OIHW":
        raise ExportRefusalError("the layouts must be NCHW and OIHW")
    data, offset, weight = site.args
    groups = site.integer("deformable_groups")
    return site.node("DeformConv", data, weight, offset, offset_group=groups, **_windows(site, 2))
