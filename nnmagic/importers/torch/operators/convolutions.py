"""Import convolutions and their gradients.

What they compute: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv2d.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.operators.convolutions import SPATIAL, with_bias
from nnmagic.importers.onnx.operators.padding import pad
from nnmagic.importers.onnx.values import Value, integers, op
from nnmagic.importers.torch.calls import AtenCall, scalar_constant
from nnmagic.importers.torch.mathematics import wide
from nnmagic.importers.torch.registry import operator
from nnmagic.relay.ops.dims import multiply


def _per_axis(values: Sequence[int], rank: int, default: int) -> list[int]:
    numbers = list(values) or [default]
    return numbers * rank if len(numbers) == 1 else numbers


class _Moves(NamedTuple):
    """How a kernel moves over the axes, and into how many groups channels are divided."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int


def _moves(call: AtenCall, rank: int) -> _Moves:
    stride, padding, dilation = (
        _per_axis(call.ints(name), rank, default)
        for name, default in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    return _Moves(stride, padding, dilation, call.integer("groups", 1))


def convolve(data: Value, weight: Value, moves: _Moves) -> Value:
    """Convolve over one to three axes, with equal padding at both ends of each."""
    stride, padding, dilation, groups = moves
    rank = weight.rank - 2
    if rank not in SPATIAL:
        raise UnsupportedError(f"a convolution over {rank} axes is not supported")
    if not data.is_float and any(padding):
        widths = [0, 0, *padding]
        data, padding = pad(data, widths, widths, "constant", None), [0] * rank
    letters = SPATIAL[rank]
    channels = weight.shape[0]
    return op(
        f"nn.conv{rank}d",
        data,
        weight,
        strides=tuple(stride),
        padding=(*padding, *padding),
        dilation=tuple(dilation),
        groups=groups,
        channels=int(channels) if isinstance(channels, int) else None,
        kernel_size=tuple(int(cast(int, size)) for size in weight.shape[2:]),
        data_layout=f"NC{letters}",
        kernel_layout=f"OI{letters}",
        out_dtype=data.dtype,
    )


def convolve_back(data: Value, weight: Value, moves: _Moves, extra: Sequence[int]) -> Value:
    """Convolve as the gradient of a convolution does; ``extra`` elements are added at the ends."""
    stride, padding, dilation, groups = moves
    rank = weight.rank - 2
    letters = SPATIAL[rank]
    plain = not any(extra)
    result = op(
        f"nn.conv{rank}d_transpose",
        data,
        weight,
        strides=tuple(stride),
        padding=(*padding, *padding) if plain else (0,) * (2 * rank),
        output_padding=(0,) * rank,
        dilation=tuple(dilation),
        groups=groups,
        channels=int(cast(int, weight.shape[1])) * groups,
        kernel_size=tuple(int(cast(int, size)) for size in weight.shape[2:]),
        data_layout=f"NC{letters}",
        kernel_layout=f"IO{letters}",
        out_dtype=data.dtype,
    )
    if plain:
        return result
    before = [0, 0, *(-cut for cut in padding)]
    after = [0, 0, *(more - cut for more, cut in zip(extra, padding, strict=True))]
    return pad(result, before, after, "constant", None)


@operator("convolution")
def _convolution(call: AtenCall) -> Value:
    data, weight, bias = call["input"], call["weight"], call.get("bias")
    if 0 in call.shape or 0 in data.shape:
        return with_bias(call.full(call.shape, scalar_constant(0, data.dtype)), bias)
    rank = weight.rank - 2
    moves = _moves(call, rank)
    half = data.dtype in ("float16", "bfloat16")
    data, weight = wide(data), wide(weight)
    if call.flag("transposed"):
        extra = _per_axis(call.ints("output_padding"), rank, 0)
        result = convolve_back(data, weight, moves, extra)
    else:
        result = convolve(data, weight, moves)
    return with_bias(result, None if bias is None else wide(bias) if half else bias)


# -- gradients -----------------------------------------------------------------------------------------


@operator("convolution_backward", note="of images of known size")
def _convolution_backward(call: AtenCall) -> list[Value | None]:
    gradient, data, weight = wide(call["grad_output"]), wide(call["input"]), wide(call["weight"])
    wanted = [bool(item) for item in call.argument("output_mask")]
    rank = weight.rank - 2
    moves = _moves(call, rank)
    stride, padding, dilation, _ = moves
    transposed = call.flag("transposed")
    results: list[Value | None] = [None, None, None]
    if wanted[2]:
        results[2] = op("sum", gradient, axis=(0, *range(2, gradient.rank)))
    if wanted[0]:
        if transposed:
            gradients = convolve(gradient, weight, moves)
            results[0] = _cut(gradients, call.image(data, rank))
        else:
            sizes, reach, kernel = (call.image(value, rank) for value in (data, gradient, weight))
            extra = [
                sizes[at]
                - ((reach[at] - 1) * stride[at] - 2 * padding[at] + (kernel[at] - 1) * dilation[at] + 1)
                for at in range(rank)
            ]
            results[0] = convolve_back(gradient, weight, moves, extra)
    if wanted[1]:
        image, error = (gradient, data) if transposed else (data, gradient)
        results[1] = _weight_gradient(call, image, error, weight, moves)
    return results


def _cut(data: Value, image: Sequence[int]) -> Value:
    for axis, size in enumerate(image, 2):
        data = shapes.slice_axis(data, axis, 0, size)
    return data


def _weight_gradient(call: AtenCall, image: Value, error: Value, weight: Value, moves: _Moves) -> Value:
    """Multiply the windows of the image, one for each tap of the kernel, by the gradient."""
    stride, padding, dilation, groups = moves
    rank = weight.rank - 2
    kernel, counts = call.image(weight, rank), call.image(error, rank)
    channels, outputs = int(cast(int, image.shape[1])), int(cast(int, error.shape[1]))
    widths = [0, 0, *padding]
    padded = pad(image, widths, widths, "constant", None)
    batch, places = image.shape[0], int(np.prod(counts))

    def by_group(value: Value, width: int) -> Value:
        apart = call.reshape(value, [batch, groups, width // groups, places])
        moved = shapes.transpose(apart, [1, 2, 0, 3])
        return call.reshape(moved, [groups, width // groups, multiply(batch, places)])

    flat_error, taps = by_group(error, outputs), []
    for tap in np.ndindex(*kernel):
        window = padded
        for axis in range(rank):
            first = tap[axis] * dilation[axis]
            last = first + (counts[axis] - 1) * stride[axis] + 1
            window = shapes.slice_axis(window, 2 + axis, first, last, stride[axis])
        flat = by_group(window, channels)
        taps.append(op("nn.batch_matmul", flat_error, flat, transpose_b=True))  # (groups, outputs, channels)
    joined = op("concatenate", [shapes.unsqueeze(tap, [3]) for tap in taps], axis=3)
    return shapes.reshape(joined, [outputs, channels // groups, *kernel])


# -- patches -------------------------------------------------------------------------------------------


@operator("col2im", note="of images of known size")
def _col2im(call: AtenCall) -> Value:
    data = call["self"]
    image, kernel = call.ints("output_size"), call.ints("kernel_size")
    dilation, padding, stride = (call.ints(name) for name in ("dilation", "padding", "stride"))
    batched = data.rank == 3
    data = data if batched else shapes.unsqueeze(data, [0])
    batch, (width, length) = data.shape[0], call.image(data, 2)
    counts = [
        (image[at] + 2 * padding[at] - (kernel[at] - 1) * dilation[at] - 1) // stride[at] + 1 for at in (0, 1)
    ]
    places = []
    for axis in (0, 1):
        position = (
            np.arange(kernel[axis])[:, None] * dilation[axis]
            + np.arange(counts[axis])[None, :] * stride[axis]
        )
        shape = [1, 1, 1, 1]
        shape[axis], shape[axis + 2] = kernel[axis], counts[axis]
        places.append(np.broadcast_to(position.reshape(shape), [*kernel, *counts]).reshape(-1))
    padded = [image[at] + 2 * padding[at] for at in (0, 1)]
    flat = np.ravel_multi_index(places, padded)
    channels, taps = width // int(np.prod(kernel)), int(np.prod(kernel))
    planes = multiply(batch, channels)
    updates = shapes.transpose(call.reshape(data, [planes, taps * length]), [1, 0])
    zeros = call.full([int(np.prod(padded)), planes], scalar_constant(0, data.dtype))
    total = op("scatter_nd", zeros, shapes.unsqueeze(integers(flat.tolist()), [0]), updates, mode="add")
    whole = call.reshape(shapes.transpose(total, [1, 0]), [batch, channels, *padded])
    cut = [0, 0, *(-p for p in padding)]
    result = pad(whole, cut, cut, "constant", None)
    return result if batched else shapes.squeeze(result, [0])


@operator("im2col", note="of images of known size")
def _im2col(call: AtenCall) -> Value:
    data = call["self"]
    kernel, dilation, padding, stride = (
        call.ints(name) for name in ("kernel_size", "dilation", "padding", "stride")
    )
    batched = data.rank == 4
    data = data if batched else shapes.unsqueeze(data, [0])
    widths = [0, 0, *padding]
    data = pad(data, widths, widths, "constant", None)
    batch, (channels, height, width) = data.shape[0], call.image(data, 3)
    counts = [
        (size - (kernel[at] - 1) * dilation[at] - 1) // stride[at] + 1
        for at, size in enumerate((height, width))
    ]
    patches = []
    for tap in np.ndindex(*kernel):
        window = data
        for axis in (0, 1):
            first = tap[axis] * dilation[axis]
            last = first + (counts[axis] - 1) * stride[axis] + 1
            window = shapes.slice_axis(window, 2 + axis, first, last, stride[axis])
        patches.append(shapes.unsqueeze(window, [2]))
    joined = op("concatenate", patches, axis=2)
    result = call.reshape(joined, [batch, channels * len(patches), int(np.prod(counts))])
    return result if batched else shapes.squeeze(result, [0])
