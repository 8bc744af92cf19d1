"""Define PyTorch's unfold and fold, which take images apart into patches and add patches up to images.

PyTorch's reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Unfold.html
"""

from __future__ import annotations

from functools import reduce
from itertools import product
from operator import add

from nnmagic.relay.signatures import format_shape
from nnmagic.tinynn.builtins.argument_checks import formula, static_size
from nnmagic.tinynn.builtins.nn.convolutions import per_axis
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import stack
from nnmagic.tinynn.calls.argument_binding import Arguments, cell_function
from nnmagic.tinynn.values.values import RefusalError, Value


class _Windows:
    """Kernel, dilation, padding and stride of both axes, and how many windows an image has."""

    def __init__(self, call: Arguments, size: tuple[int, int]) -> None:
        self.size = size
        self.kernel = _pair(call, "kernel_size", 1)
        self.dilation, self.stride = _pair(call, "dilation", 1), _pair(call, "stride", 1)
        self.padding = _pair(call, "padding", 0)
        self.padded = [extent + 2 * width for extent, width in zip(size, self.padding, strict=True)]
        spans = [step * (count - 1) + 1 for step, count in zip(self.dilation, self.kernel, strict=True)]
        if any(extent < span for extent, span in zip(self.padded, spans, strict=True)):
            message = f"{call.name}: windows of {spans[0]} x {spans[1]} do not fit into an image of "
            message += f"{self.padded[0]} x {self.padded[1]} with its padding"
            raise RefusalError(message, call.span)
        self.counts = [
            (extent - span) // step + 1
            for extent, span, step in zip(self.padded, spans, self.stride, strict=True)
        ]

    def begins(self) -> list[tuple[int, int]]:
        """Return where each element of the kernel is in the first window, row by row."""
        rows, columns = (
            [step * index for index in range(count)]
            for step, count in zip(self.dilation, self.kernel, strict=True)
        )
        return list(product(rows, columns))

    def extents(self) -> list[int]:
        """Return how far the first elements of all windows reach."""
        return [(count - 1) * step + 1 for count, step in zip(self.counts, self.stride, strict=True)]


def _pair(call: Arguments, parameter: str, least: int) -> tuple[int, int]:
    value = call.static(parameter) if parameter in call else least
    numbers = per_axis(value, 2)
    if numbers is None or min(numbers) < least:
        raise call.refusal(parameter, f"`{parameter}` must be an int, or two of them, of {least} or more")
    return numbers[0], numbers[1]


def _unfold(call: Arguments) -> Value:
    """Return the windows of images as columns: one slice for each element of the kernel."""
    data = formula(call, "data")
    if data.rank not in (3, 4):
        message = (
            f"unfold takes images (N, C, H, W) or (C, H, W), not a tensor of shape {format_shape(data.shape)}"
        )
        raise RefusalError(message, call.at("data"))
    *others, rows, columns = data.shape
    span = call.at("data")
    windows = _Windows(call, (static_size(call, rows, span), static_size(call, columns, span)))
    if any(windows.padding):
        widths = [(0, 0)] * (data.rank - 2) + [(width, width) for width in windows.padding]
        data = data.op("nn.pad", 0, pad_width=widths)
    axes, (height, width) = [data.rank - 2, data.rank - 1], windows.extents()
    taps = [
        data.op(
            "strided_slice",
            begin=[i, j],
            end=[i + height, j + width],
            strides=list(windows.stride),
            axes=axes,
        )
        for i, j in windows.begins()
    ]
    stacked = stack(taps, data.rank - 2)
    channels = static_size(call, others[-1], span, "the number of channels")
    shape = [*others[:-1], channels * len(taps), windows.counts[0] * windows.counts[1]]
    return stacked.reshape(shape, data).value


def _fold(call: Arguments) -> Value:
    """Add up windows at their places: of each element of the kernel, spread by the stride."""
    data, span = formula(call, "data"), call.at("data")
    height, width = _pair(call, "output_size", 1)
    windows = _Windows(call, (height, width))
    count, number = windows.kernel[0] * windows.kernel[1], windows.counts[0] * windows.counts[1]
    if data.rank not in (2, 3):
        message = f"fold takes windows (N, C * {count}, L), not a tensor of shape {format_shape(data.shape)}"
        raise RefusalError(message, span)
    *batch, rows, columns = data.shape
    size = static_size(call, rows, span)
    if size % count or static_size(call, columns, span) != number:
        message = f"fold: {number} windows of C * {count} elements, not shape {format_shape(data.shape)}"
        raise RefusalError(message, span)
    split = data.reshape([*batch, size // count, count, *windows.counts], data)
    images = reduce(add, (_spread(split, index, windows) for index in range(count)))
    if any(windows.padding):
        axes = [images.rank - 2, images.rank - 1]
        ends = [begin + whole for begin, whole in zip(windows.padding, windows.size, strict=True)]
        images = images.op("strided_slice", begin=list(windows.padding), end=ends, strides=[1, 1], axes=axes)
    return images.value


def _spread(split: Formula, index: int, windows: _Windows) -> Formula:
    """Return the images of which all elements are 0 but one of each window."""
    axis = split.rank - 3
    tap = split.row(axis, index)
    if windows.stride != (1, 1):
        strides = [1] * (tap.rank - 2) + list(windows.stride)
        tap = tap.op("nn.dilate", strides=strides, dilation_value=0.0)
    begins, extents = windows.begins()[index], windows.extents()
    ends = [
        whole - begin - extent for whole, begin, extent in zip(windows.padded, begins, extents, strict=True)
    ]
    widths = [(0, 0)] * (tap.rank - 2) + list(zip(begins, ends, strict=True))
    return tap.op("nn.pad", 0, pad_width=widths)


PATCHES = (
    cell_function(
        "unfold",
        "data kernel_size dilation?=1 padding?=0 stride?=1",
        _unfold,
        "Return the windows of images as columns.",
        aliases="input=data x=data",
    ),
    cell_function(
        "fold",
        "data output_size kernel_size dilation?=1 padding?=0 stride?=1",
        _fold,
        "Add up windows, which are columns, to images.",
        aliases="input=data x=data",
    ),
)
