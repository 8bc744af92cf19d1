"""Export operators of images.

The standard: https://onnx.ai/onnx/operators/onnx__Resize.html
"""

from __future__ import annotations

from nnmagic.exporters.onnx.errors import ExportRefusalError
from nnmagic.exporters.onnx.operators.layouts import channels_first, data_layout, from_channels_first
from nnmagic.exporters.onnx.operators.shaping import permutation
from nnmagic.exporters.onnx.registry import operator
from nnmagic.exporters.onnx.sites import ExportCall

_METHODS = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
_ROUNDINGS = {
    "round": "round_prefer_ceil",
    "floor": "floor",
    "ceil": "ceil",
    "round_prefer_floor": "round_prefer_floor",
}


@operator("image.resize1d", "image.resize2d", "image.resize3d", note="without a region of interest")
def _resize(site: ExportCall) -> str:
    method, mode = str(site.attrs["method"]), str(site.attrs["coordinate_transformation_mode"])
    if mode not in ("half_pixel", "align_corners", "asymmetric") or site.dtype not in ("float32", "float64"):
        raise ExportRefusalError(f"ONNX does not resize {site.dtype} with the mode {mode} so")
    data, layout = channels_first(site, site.args[0], data_layout(site))
    attrs: dict[str, object] = {"mode": _METHODS[method], "coordinate_transformation_mode": mode}
    if method == "nearest_neighbor":
        given = str(site.attrs["rounding_method"]) or ("round" if mode == "align_corners" else "floor")
        attrs["nearest_mode"] = _ROUNDINGS[given]
    if method == "cubic":
        attrs["cubic_coeff_a"] = site.number("cubic_alpha")
        attrs["exclude_outside"] = site.integer("cubic_exclude")
    order = permutation(data_layout(site), layout)
    sizes = [site.size(order[0]), site.size(order[1]), *site.integers("size")]
    resized = site.node("Resize", data, "", "", site.vector(sizes), **attrs)
    resized = from_channels_first(site, resized, layout, data_layout(site))
    return site.to_result(resized, site.dtype)


@operator("nn.depth_to_space")
def _depth_to_space(site: ExportCall) -> str:
    data, layout = channels_first(site, site.args[0], data_layout(site))
    block, mode = site.integer("block_size"), str(site.attrs["mode"])
    made = site.node("DepthToSpace", data, blocksize=block, mode=mode)
    return from_channels_first(site, made, layout, data_layout(site))


@operator("nn.space_to_depth")
def _space_to_depth(site: ExportCall) -> str:
    data, layout = channels_first(site, site.args[0], data_layout(site))
    made = site.node("SpaceToDepth", data, blocksize=site.integer("block_size"))
    return from_channels_first(site, made, layout, data_layout(site))


@operator(
    "image.grid_sample", note="in the layouts NCHW and NCDHW, without the padding mode reflection of Relay"
)
def _grid_sample(site: ExportCall) -> str:
    layout, padding = str(site.attrs["layout"]), str(site.attrs["padding_mode"])
    if layout not in ("NCHW", "NCDHW") or padding == "reflection":
        raise ExportRefusalError(f"the layout {layout} with the padding mode {padding} is not supported")
    method = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}[str(site.attrs["method"])]
    rank = len(site.shape(1))
    grid = site.transpose(site.args[1], [0, *range(2, rank), 1])
    corners = int(bool(site.attrs["align_corners"]))
    return site.node(
        "GridSample", site.args[0], grid, mode=method, padding_mode=padding, align_corners=corners
    )


@operator("vision.roi_align", note="in the layout NCHW")
def _roi_align(site: ExportCall) -> str:
    if site.attrs["layout"] != "NCHW" or site.attrs["mode"] != "avg":
        raise ExportRefusalError("the layout must be NCHW, and the mode avg")
    data, rois = site.args
    number = site.node("Slice", rois, site.vector([0]), site.vector([1]), site.vector([1]))
    batch = site.cast(site.reshape(number, [-1]), "int64")
    boxes = site.node("Slice", rois, site.vector([1]), site.vector([5]), site.vector([1]))
    height, width = (site.integers("pooled_size") * 2)[:2]
    return site.node(
        "RoiAlign",
        *(data, boxes, batch),
        output_height=height,
        output_width=width,
        spatial_scale=site.number("spatial_scale"),
        sampling_ratio=max(site.integer("sample_ratio"), 0),
        coordinate_transformation_mode="output_half_pixel",
    )
