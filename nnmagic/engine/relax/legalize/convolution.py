"""Legalize convolutions, also transposed and deformable ones, and correlation and dilation."""

from __future__ import annotations

from collections.abc import Callable

from tvm import topi

from nnmagic.engine.relax.analysis.attribute_values import integer, integers
from nnmagic.engine.relax.legalize.blocked.convolution import lower_to_blocks
from nnmagic.engine.relax.legalize.matmul import accumulation_dtype
from nnmagic.engine.relax.legalize.registry import BLOCKED_RULES, RULES, OpCall, Rule, Value, te_of
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.legalize.vector_correlation import correlate, is_of_long_vectors
from nnmagic.relay.expr import Attrs


def full_padding(attrs: Attrs, spatial: int) -> list[int]:
    """Return one padding for each side: all at the front, then all at the back."""
    padding = integers(attrs["padding"])
    if len(padding) == 1:
        return padding * (2 * spatial)
    return padding * 2 if len(padding) == spatial else padding


def to_layout(data: Tensor, source: str, target: str) -> Tensor:
    """Transform data from one layout to another."""
    return data if source == target else topi.layout_transform(data, source, target)


def is_divided(layout: str) -> bool:
    """Return whether an axis of the layout is divided, as in ``NCHW4c``."""
    return any(letter.isdigit() for letter in layout)


def _convolution_rule(spatial: int) -> Rule:
    axes = "DHW"[3 - spatial :]

    def compute(attrs: Attrs, data: Tensor, weight: Tensor) -> Tensor:
        wide = accumulation_dtype(data.dtype, str(attrs["out_dtype"]))
        layout, kernel_layout = str(attrs["data_layout"]), str(attrs["kernel_layout"])
        result_layout, groups = str(attrs["out_layout"]) or layout, integer(attrs["groups"])
        if is_divided(layout + kernel_layout):
            data, weight = to_layout(data, layout, f"NC{axes}"), to_layout(weight, kernel_layout, f"OI{axes}")
            layout, kernel_layout = f"NC{axes}", f"OI{axes}"
        if groups > 1 and _counts_multipliers(weight, kernel_layout, data, layout, groups):
            weight = to_layout(weight, kernel_layout, f"OI{axes}")
            outer, inner, *window = weight.shape
            weight, kernel_layout = topi.reshape(weight, (outer * inner, 1, *window)), f"OI{axes}"
        result = topi.nn.conv(
            data,
            weight,
            integers(attrs["strides"]),
            full_padding(attrs, spatial),
            integers(attrs["dilation"]),
            groups,
            layout,
            kernel_layout,
            wide,
        )
        dtype = str(attrs["out_dtype"]) or data.dtype
        return to_layout(result if wide == dtype else topi.cast(result, dtype), layout, result_layout)

    return te_of(compute)


def _counts_multipliers(weight: Tensor, kernel_layout: str, data: Tensor, layout: str, groups: int) -> bool:
    """Return whether a depthwise weight has the data's channels and a multiplier other than 1 for axes."""
    outer, inner = (weight.shape[kernel_layout.index(letter)] for letter in "OI")
    channels = data.shape[layout.index("C")]
    outer, channels, inner = (getattr(dim, "value", None) for dim in (outer, channels, inner))
    return outer == groups == channels and inner != 1


def _refuse_layout_change(rule: Rule) -> Rule:
    """Refuse a change of layout, which Relay's own passes compose of two operators."""

    def check_and_apply(call: OpCall) -> Value:
        if call.attrs["out_layout"] not in ("", call.attrs["data_layout"]):
            call.refuse("out_layout must be the data_layout; use layout_transform to change it")
        return rule(call)

    return check_and_apply


def _convolution_transpose_rule(
    function: Callable[..., Tensor], layout: str, kernel_layout: str, spatial: int
) -> Rule:
    def compute(attrs: Attrs, data: Tensor, weight: Tensor) -> Tensor:
        wide = accumulation_dtype(data.dtype, str(attrs["out_dtype"]))
        data_layout = str(attrs["data_layout"])
        dense = to_layout(data, data_layout, layout)
        if attrs["kernel_layout"] != kernel_layout:
            weight = topi.layout_transform(weight, str(attrs["kernel_layout"]), kernel_layout)
        dilation = integers(attrs["dilation"])
        if any(step != 1 for step in dilation):
            weight = topi.nn.dilate(weight, [1, 1, *dilation])
        result = function(
            dense,
            weight,
            integers(attrs["strides"]),
            full_padding(attrs, spatial),
            wide,
            integers(attrs["output_padding"]),
            integer(attrs["groups"]),
        )
        dtype = str(attrs["out_dtype"]) or data.dtype
        return to_layout(result if wide == dtype else topi.cast(result, dtype), layout, data_layout)

    return _refuse_layout_change(te_of(compute))


def _conv1d(call: OpCall) -> Value:
    rule = correlate if is_of_long_vectors(call) else _SHORT_CONV1D
    return rule(call)


_SHORT_CONV1D = _convolution_rule(1)


def _deformable(attrs: Attrs, data: Tensor, offset: Tensor, weight: Tensor) -> Tensor:
    layout = str(attrs["data_layout"])
    function = topi.nn.deformable_conv2d_nchw if layout == "NCHW" else topi.nn.deformable_conv2d_nhwc
    groups = integer(attrs["deformable_groups"]), integer(attrs["groups"])
    dtype = str(attrs["out_dtype"]) or data.dtype
    steps = integers(attrs["strides"]), full_padding(attrs, 2), integers(attrs["dilation"])
    return function(data, offset, weight, *steps, *groups, dtype)


def _correlation(attrs: Attrs, lhs: Tensor, rhs: Tensor) -> Tensor:
    numbers = [integer(attrs[name]) for name in ("kernel_size", "max_displacement", "stride1", "stride2")]
    return topi.nn.correlation_nchw(
        lhs, rhs, *numbers, integers(attrs["padding"]), bool(attrs["is_multiply"])
    )


def _dilation2d(attrs: Attrs, data: Tensor, weight: Tensor) -> Tensor:
    nchw = attrs["data_layout"] == "NCHW"
    function = topi.image.dilation2d_nchw if nchw else topi.image.dilation2d_nhwc
    return function(
        data, weight, integers(attrs["strides"]), integers(attrs["padding"]), integers(attrs["dilations"])
    )


def _block_layout_rule(spatial: int, *, transposed: bool) -> Rule:
    return lambda call: lower_to_blocks(call, full_padding(call.attrs, spatial), transposed=transposed)


BLOCKED_RULES.update(
    {f"nn.conv{n}d": _block_layout_rule(n, transposed=False) for n in (1, 2, 3)}
    | {f"nn.conv{n}d_transpose": _block_layout_rule(n, transposed=True) for n in (1, 2, 3)}
)

RULES.update(
    {
        "nn.conv1d": _conv1d,
        "nn.conv2d": _convolution_rule(2),
        "nn.conv3d": _convolution_rule(3),
        "nn.conv1d_transpose": _convolution_transpose_rule(
            topi.nn.group_conv1d_transpose_ncw, "NCW", "IOW", 1
        ),
        "nn.conv2d_transpose": _convolution_transpose_rule(
            topi.nn.group_conv2d_transpose_nchw, "NCHW", "IOHW", 2
        ),
        "nn.conv3d_transpose": _convolution_transpose_rule(
            topi.nn.group_conv3d_transpose_ncdhw, "NCDHW", "IODHW", 3
        ),
        "nn.deformable_conv2d": te_of(_deformable),
        "nn.correlation": te_of(_correlation),
        "image.dilation2d": te_of(_dilation2d),
    }
)
