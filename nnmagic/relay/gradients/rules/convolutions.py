"""Differentiate convolutions by convolutions, and by one matrix product for the weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from nnmagic.relay.gradients.registry import refuse, rule
from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall
from nnmagic.relay.tensor_expr import TensorExpr

refuse("write it with nn.conv2d", "nn.deformable_conv2d", "nn.correlation", "image.dilation2d")


@dataclass(frozen=True, slots=True)
class _Window:
    """How a convolution moves over its spatial axes: ``data`` is what is read, ``steps`` what is written.

    Both are empty where a size is named.
    """

    data: tuple[int, ...]
    steps: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[int, ...]
    groups: int

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def spans(self) -> list[int]:
        return [(size - 1) * step + 1 for size, step in zip(self.kernel, self.dilation, strict=True)]


@rule("nn.conv1d", "nn.conv2d", "nn.conv3d")
def _convolution(p: VjpCall) -> Sequence[Contribution]:
    axes = "DHW"[3 - (p.rank() - 2) :] if p.rank() < 6 else "DHW"
    layout, kernel_layout = str(p.attrs["data_layout"]), str(p.attrs["kernel_layout"])
    _check_layouts(p, layout, kernel_layout, axes)
    out_layout = str(p.attrs["out_layout"]) or layout
    d = _to(p.d, out_layout, f"NC{axes}").cast(p.tensor(0).dtype)
    x, w = _to(p.x(0), layout, f"NC{axes}"), _to(p.x(1), kernel_layout, f"OI{axes}")
    window = _window(p, layout, kernel_layout, out_layout, axes, p.shape(0), p.out_shape)
    outer = _at(p.shape(1), kernel_layout, "OI")
    _refuse_multipliers(p, outer, _at(p.shape(0), layout, "C")[0], window.groups)
    data = weight = None
    if p.wanted[0]:
        data = _to(_data_gradient(x, d, w, outer, window), f"NC{axes}", layout)
    if p.wanted[1]:
        weight = _to(_weight_gradient(x, d, outer, window), f"OI{axes}", kernel_layout)
    return [data, weight]


@rule("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")
def _transpose(p: VjpCall) -> Sequence[Contribution]:
    """Convolve the cotangent: a transposed convolution is the way back of a convolution."""
    axes = "DHW"[3 - (p.rank() - 2) :]
    layout, kernel_layout = str(p.attrs["data_layout"]), str(p.attrs["kernel_layout"])
    _check_layouts(p, layout, kernel_layout, axes)
    out_layout = str(p.attrs["out_layout"]) or layout
    d = _to(p.d, out_layout, f"NC{axes}").cast(p.tensor(0).dtype)
    x, w = _to(p.x(0), layout, f"NC{axes}"), _to(p.x(1), kernel_layout, f"IO{axes}")
    window = _window(p, out_layout, kernel_layout, layout, axes, p.out_shape, p.shape(0))
    data = weight = None
    if p.wanted[0]:
        made = d.op(f"nn.conv{window.rank}d", w, **_attrs(window))
        data = _to(_crop(made, window.steps, x, window.rank), f"NC{axes}", layout)
    if p.wanted[1]:
        outer = _at(p.shape(1), kernel_layout, "IO")
        weight = _to(_weight_gradient(d, x, outer, window), f"IO{axes}", kernel_layout)
    return [data, weight]


def _check_layouts(p: VjpCall, layout: str, kernel_layout: str, axes: str) -> None:
    if sorted(layout) != sorted(f"NC{axes}") or sorted(kernel_layout) != sorted(f"OI{axes}"):
        raise p.unsupported("its layouts divide an axis", f"use the layouts NC{axes} and OI{axes}")


def _to(term: TensorExpr, source: str, target: str) -> TensorExpr:
    return term.transpose([source.index(letter) for letter in target])


def _at(shape: Sequence[object], layout: str, letters: str) -> list[int]:
    return [cast("int", shape[layout.index(letter)]) for letter in letters]


def _window(
    p: VjpCall,
    read: str,
    kernel_layout: str,
    written: str,
    axes: str,
    data: Sequence[object],
    steps: Sequence[object],
) -> _Window:
    rank = len(axes)
    sizes = _at(data, read, axes), _at(steps, written, axes), _at(p.shape(1), kernel_layout, axes)
    if not all(isinstance(size, int) for size in sizes[2]):
        message = "the sizes of its kernel must be known at compile time"
        raise p.unsupported(message, "write numbers for them; those of the images may be named")
    if not all(isinstance(size, int) for size in (*sizes[0], *sizes[1])):
        sizes = [], [], sizes[2]
    given = [cast("int", size) for size in cast("Sequence[object]", p.attrs["padding"])]
    pads = given * (2 * rank // len(given))
    strides = tuple(cast("Sequence[int]", p.attrs["strides"]))
    dilation = tuple(cast("Sequence[int]", p.attrs["dilation"]))
    groups = cast("int", p.attrs["groups"])
    data_, steps_, kernel = map(tuple, sizes)
    return _Window(data_, steps_, kernel, strides, dilation, tuple(pads), groups)


def _refuse_multipliers(p: VjpCall, outer: Sequence[int], channels: object, groups: int) -> None:
    """Refuse Relay's special form of depthwise weights, which counts multipliers along its second axis."""
    if groups > 1 and outer[0] == groups == channels and outer[1] != 1:
        message = "the weight of a depthwise convolution counts multipliers along its second axis"
        raise p.unsupported(message, "reshape it to (channels * multiplier, 1, ...)")


def _attrs(window: _Window) -> dict[str, Any]:
    return {
        "strides": list(window.strides),
        "padding": list(window.pads),
        "dilation": list(window.dilation),
        "groups": window.groups,
    }


def _crop(term: TensorExpr, sizes: Sequence[int], like: TensorExpr, rank: int = 0) -> TensorExpr:
    """Cut the spatial axes to sizes, or to those of a term if they are named."""
    axes = [2 + axis for axis in range(len(sizes) or rank)]
    if not sizes:
        return term.op("slice_like", like, axes=axes)
    begin, ones = [0] * len(sizes), [1] * len(sizes)
    return term.op("strided_slice", begin=begin, end=list(sizes), strides=ones, axes=axes)


def _data_gradient(
    x: TensorExpr, d: TensorExpr, w: TensorExpr, outer: Sequence[int], window: _Window
) -> TensorExpr:
    """Convolve the cotangent, with zeros between its elements, with the mirrored kernel.

    Of named sizes more is computed than there may be: windows leave less than a stride of the data out.
    """
    rank, groups = window.rank, window.groups
    (out, inner), kernel = outer, list(window.kernel)
    if any(step > 1 for step in window.strides):
        d = d.op("nn.dilate", strides=[1, 1, *window.strides], dilation_value=0.0)
    widths = []
    for axis in range(rank):
        span, stride, behind = window.spans[axis], window.strides[axis], window.pads[rank + axis]
        before, after = span - 1 - window.pads[axis], span - 1 + max(stride - 1 - behind, 0)
        if window.data:
            after = window.data[axis] + span - 1 - ((window.steps[axis] - 1) * stride + 1) - before
        widths.append((before, after))
    d = _cut_negative(d, widths)
    for axis in range(rank):
        w = w.op("reverse", axis=2 + axis)
    if groups > 1:
        w = w.reshape([groups, out // groups, inner, *kernel])
        w = w.transpose([0, 2, 1, *range(3, 3 + rank)])
        w = w.reshape([groups * inner, out // groups, *kernel])
    else:
        w = w.transpose([1, 0, *range(2, 2 + rank)])
    pads = [max(before, 0) for before, _ in widths] + [max(after, 0) for _, after in widths]
    made = d.op(
        f"nn.conv{rank}d", w, strides=[1] * rank, padding=pads, dilation=list(window.dilation), groups=groups
    )
    return made if window.data else _crop(made, (), x, rank)


def _cut_negative(d: TensorExpr, widths: Sequence[tuple[int, int]]) -> TensorExpr:
    """Cut off what a negative padding removes."""
    for axis, (before, after) in enumerate(widths):
        if before < 0 or after < 0:
            end = min(after, 0) or 2**48
            d = d.between(2 + axis, max(-before, 0), end)
    return d


def _weight_gradient(x: TensorExpr, d: TensorExpr, outer: Sequence[int], window: _Window) -> TensorExpr:
    """Multiply the cotangent with the windows that the kernel has read, as two matrices for each group."""
    rank, groups, (out, inner) = window.rank, window.groups, outer
    kernel = list(window.kernel)
    widths = [[0, 0], [0, 0]]
    for axis in range(rank):
        before, after = window.pads[axis], window.pads[rank + axis]
        if window.data:
            reach = (window.steps[axis] - 1) * window.strides[axis] + window.spans[axis]
            after = max(reach - window.data[axis] - before, 0)
        widths.append([before, after])
    if any(any(width) for width in widths):
        x = x.op("nn.pad", x.like(0), pad_width=widths)
    x = x.op("sliding_window", axis=2, window_shape=window.spans, strides=list(window.strides))
    x = _crop(x, window.steps, d, rank)
    if any(step > 1 for step in window.dilation):
        axes = [2 + rank + axis for axis in range(rank)]
        steps = list(window.dilation)
        x = x.op("strided_slice", begin=[0] * rank, end=window.spans, strides=steps, axes=axes)
    count, places = math.prod(kernel), math.prod(window.steps)
    # (n, c, places, kernel) -> (groups, inner * kernel, n * places)
    if window.steps:
        x = x.reshape([-1, groups * inner, places, count]).transpose([1, 3, 0, 2])
        d = d.reshape([-1, out, places]).transpose([1, 0, 2])
    else:
        x = x.transpose([1, *range(2 + rank, 2 + 2 * rank), 0, *range(2, 2 + rank)])
        d = d.transpose([1, 0, *range(2, 2 + rank)])
    x = x.reshape([groups, inner * count, -1])
    d = d.reshape([groups, out // groups, -1])
    if groups == 1:
        x, d = x.op("squeeze", axis=[0]), d.op("squeeze", axis=[0])
        made = d.op("nn.matmul", x, transpose_b=True)
    else:
        made = d.op("nn.batch_matmul", x, transpose_a=False, transpose_b=True)
    return made.shaped([out, inner, *kernel])
