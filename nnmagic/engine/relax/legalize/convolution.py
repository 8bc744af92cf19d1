"""Convolutions, transposed and deformable ones, and their like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import topi

from nnmagic.engine.relax.analysis.attribute_values import integer, integers
from nnmagic.engine.relax.legalize.blocked.convolution import direct
from nnmagic.engine.relax.legalize.matmul import accumulator
from nnmagic.engine.relax.legalize.registry import BLOCKED_RULES, RULES, OpCall, Rule, Value, te_of
from nnmagic.relay.expr import Attrs


def padding_of(attrs: Attrs, spatial: int) -> list[int]:
    """All pads at the front, then all at the back."""
    given = integers(attrs["padding"])
    if len(given) == 1:
        return given * (2 * spatial)
    return given * 2 if len(given) == spatial else given


def in_layout(data: Any, source: str, target: str) -> Any:
    """The data with its axes in another order, divided otherwise."""
    return data if source == target else topi.layout_transform(data, source, target)


def is_divided(layout: str) -> bool:
    """Whether an axis of the layout is divided, as in ``NCHW4c``."""
    return any(letter.isdigit() for letter in layout)


def _convolution(spatial: int) -> Rule:
    axes = "DHW"[3 - spatial :]

    def compute(attrs: Attrs, data: Any, weight: Any) -> Any:
        wide = accumulator(data.dtype, str(attrs["out_dtype"]))
        layout, kernel_layout = str(attrs["data_layout"]), str(attrs["kernel_layout"])
        result_layout, groups = str(attrs["out_layout"]) or layout, integer(attrs["groups"])
        if is_divided(layout + kernel_layout):
            data, weight = in_layout(data, layout, f"NC{axes}"), in_layout(weight, kernel_layout, f"OI{axes}")
            layout, kernel_layout = f"NC{axes}", f"OI{axes}"
        if groups > 1 and _counts_multipliers(weight, kernel_layout, data, layout, groups):
            weight = in_layout(weight, kernel_layout, f"OI{axes}")
            outer, inner, *window = weight.shape
            weight, kernel_layout = topi.reshape(weight, (outer * inner, 1, *window)), f"OI{axes}"
        found = topi.nn.conv(
            data,
            weight,
            integers(attrs["strides"]),
            padding_of(attrs, spatial),
            integers(attrs["dilation"]),
            groups,
            layout,
            kernel_layout,
            wide,
        )
        wanted = str(attrs["out_dtype"]) or data.dtype
        return in_layout(found if wide == wanted else topi.cast(found, wanted), layout, result_layout)

    return te_of(compute)


def _counts_multipliers(weight: Any, kernel_layout: str, data: Any, layout: str, groups: int) -> bool:
    """Whether a weight counts channels and how many each makes, not 1."""
    outer, inner = (weight.shape[kernel_layout.index(letter)] for letter in "OI")
    channels = data.shape[layout.index("C")]
    outer, channels, inner = (getattr(dim, "value", None) for dim in (outer, channels, inner))
    return outer == groups == channels and inner != 1


def _checked_layout(rule: Rule) -> Rule:
    """Refuses a change of layout, which Relay's own passes make of two operators."""

    def checked(site: OpCall) -> Value:
        if site.attrs["out_layout"] not in ("", site.attrs["data_layout"]):
            site.refuse("out_layout must be the data_layout; use layout_transform to change it")
        return rule(site)

    return checked


def _transposed(function: Callable[..., Any], layout: str, kernel_layout: str, spatial: int) -> Rule:
    def compute(attrs: Attrs, data: Any, weight: Any) -> Any:
        wide = accumulator(data.dtype, str(attrs["out_dtype"]))
        data_layout = str(attrs["data_layout"])
        plain = data if data_layout == layout else topi.layout_transform(data, data_layout, layout)
        if attrs["kernel_layout"] != kernel_layout:
            weight = topi.layout_transform(weight, str(attrs["kernel_layout"]), kernel_layout)
        dilation = integers(attrs["dilation"])
        if any(step != 1 for step in dilation):
            weight = topi.nn.dilate(weight, [1, 1, *dilation])
        found = function(
            plain,
            weight,
            integers(attrs["strides"]),
            padding_of(attrs, spatial),
            wide,
            integers(attrs["output_padding"]),
            integer(attrs["groups"]),
        )
        wanted = str(attrs["out_dtype"]) or data.dtype
        found = found if wide == wanted else topi.cast(found, wanted)
        return found if data_layout == layout else topi.layout_transform(found, layout, data_layout)

    return _checked_layout(te_of(compute))


def _deformable(attrs: Attrs, data: Any, offset: Any, weight: Any) -> Any:
    layout = str(attrs["data_layout"])
    function = topi.nn.deformable_conv2d_nchw if layout == "NCHW" else topi.nn.deformable_conv2d_nhwc
    groups = integer(attrs["deformable_groups"]), integer(attrs["groups"])
    dtype = str(attrs["out_dtype"]) or data.dtype
    steps = integers(attrs["strides"]), padding_of(attrs, 2), integers(attrs["dilation"])
    return function(data, offset, weight, *steps, *groups, dtype)


def _correlation(attrs: Attrs, left: Any, right: Any) -> Any:
    numbers = [integer(attrs[name]) for name in ("kernel_size", "max_displacement", "stride1", "stride2")]
    return topi.nn.correlation_nchw(
        left, right, *numbers, integers(attrs["padding"]), bool(attrs["is_multiply"])
    )


def _dilation2d(attrs: Attrs, data: Any, weight: Any) -> Any:
    nchw = attrs["data_layout"] == "NCHW"
    function = topi.image.dilation2d_nchw if nchw else topi.image.dilation2d_nhwc
    return function(
        data, weight, integers(attrs["strides"]), integers(attrs["padding"]), integers(attrs["dilations"])
    )


def _direct(spatial: int, *, transposed: bool) -> Rule:
    return lambda site: direct(site, padding_of(site.attrs, spatial), transposed=transposed)


BLOCKED_RULES.update(
    {f"nn.conv{n}d": _direct(n, transposed=False) for n in (1, 2, 3)}
    | {f"nn.conv{n}d_transpose": _direct(n, transposed=True) for n in (1, 2, 3)}
)

RULES.update(
    {
        "nn.conv1d": _convolution(1),
        "nn.conv2d": _convolution(2),
        "nn.conv3d": _convolution(3),
        "nn.conv1d_transpose": _transposed(topi.nn.group_conv1d_transpose_ncw, "NCW", "IOW", 1),
        "nn.conv2d_transpose": _transposed(topi.nn.group_conv2d_transpose_nchw, "NCHW", "IOHW", 2),
        "nn.conv3d_transpose": _transposed(topi.nn.group_conv3d_transpose_ncdhw, "NCDHW", "IODHW", 3),
        "nn.deformable_conv2d": te_of(_deformable),
        "nn.correlation": te_of(_correlation),
        "image.dilation2d": te_of(_dilation2d),
    }
)
