"""Import convolutions.

The standard: https://onnx.ai/onnx/operators/onnx__Conv.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.operators.integer_products import convolve_integers
from nnmagic.importers.onnx.operators.padding import dynamic_pad
from nnmagic.importers.onnx.operators.padding import pad as pad_tensor
from nnmagic.importers.onnx.operators.quantization import quantize
from nnmagic.importers.onnx.registry import operator, operators
from nnmagic.importers.onnx.values import Value, check_new_array, constant, count_up, integers, op, with_shape
from nnmagic.limits import MAX_ITEMS
from nnmagic.relay.ops.dims import ceil_divide
from nnmagic.relay.types import Dim, is_float

#: The letters of the spatial axes in Relay's layouts, by their number.
SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def window(
    node: OnnxNode, data: Value, kernel: Sequence[int]
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return strides, dilations, and the padding before and after each spatial axis."""
    rank = len(kernel)
    strides = node.ints("strides") or [1] * rank
    dilations = node.ints("dilations") or [1] * rank
    pads = node.ints("pads") or [0] * (2 * rank)
    if len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank:
        raise UnsupportedError(f"strides, dilations or pads do not fit a kernel of {rank} axes")
    if min(strides) < 1 or min(dilations) < 1:
        raise UnsupportedError("strides and dilations must be positive")
    before, after = pads[:rank], pads[rank:]
    mode = node.text("auto_pad", "NOTSET")
    if mode == "VALID":
        before, after = [0] * rank, [0] * rank
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        before, after = same_padding(mode, data.shape[2:], kernel, strides, dilations)
    elif mode != "NOTSET":
        raise UnsupportedError(f"auto_pad {mode!r} is not known")
    return strides, dilations, before, after


def same_padding(
    mode: str, sizes: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the padding with which the output has as many elements as the input has strides."""
    before, after = [], []
    for size, width, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        reach = (width - 1) * dilation + 1
        if isinstance(size, int):
            total = max((-(-int(size) // stride) - 1) * stride + reach - int(size), 0)
        elif stride == 1:
            # Without strides the padding does not depend on the size.
            total = reach - 1
        else:
            raise UnsupportedError(
                "auto_pad with strides needs images of known size", "fix it with shapes={...}"
            )
        # ONNX: of an odd padding, SAME_UPPER has the larger part at the end, SAME_LOWER at the
        # beginning.
        small, large = total // 2, total - total // 2
        before.append(small if mode == "SAME_UPPER" else large)
        after.append(large if mode == "SAME_UPPER" else small)
    return before, after


def padded_open(
    node: OnnxNode, data: Value, kernel: Sequence[int], fill: Value
) -> tuple[OnnxNode, Value, list[Dim]] | None:
    """Pad images whose padding depends on sizes that are known at the call; None for others.

    Returns the node without padding, the images and the sizes that an output has.
    """
    rank, sizes = len(kernel), data.shape[2:]
    strides, dilations = (node.ints(name) or [1] * rank for name in ("strides", "dilations"))
    mode = node.text("auto_pad", "NOTSET")
    steps = [stride for size, stride in zip(sizes, strides, strict=True) if not isinstance(size, int)]
    if not mode.startswith("SAME") or max(steps, default=1) == 1:
        return None
    first: list[Value] = []
    last: list[Value] = []
    for axis in range(rank):
        size, stride = shapes.size_along(data, 2 + axis), strides[axis]
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        windows = op("floor_divide", size + (stride - 1), size.like(stride))
        total = ((windows - 1) * stride + reach - size).maximum(0)
        small = op("floor_divide", total, total.like(2))
        pair = (small, total - small) if mode == "SAME_UPPER" else (total - small, small)
        first.append(pair[0])
        last.append(pair[1])
    pads = op("concatenate", [shapes.unsqueeze(each, [0]) for each in (*first, *last)], axis=0)
    padded = dynamic_pad(replace(node, inputs=[data, pads]), range(2, 2 + rank), "constant", fill, None)
    bare = replace(node, attributes={**node.attributes, "auto_pad": "VALID"})
    return bare, padded, [ceil_divide(size, stride) for size, stride in zip(sizes, strides, strict=True)]


def kernel_of(node: OnnxNode, weight: Value) -> list[int]:
    """Return the sizes of the window, which the weight has, too."""
    sizes = weight.shape[2:]
    if not shapes.is_static(sizes):
        raise UnsupportedError("the kernel's size must be known")
    kernel = [int(cast(int, size)) for size in sizes]
    declared = node.ints("kernel_shape")
    if declared is not None and declared != kernel:
        raise UnsupportedError(f"kernel_shape is {declared}, and the weight's is {kernel}")
    if len(kernel) not in SPATIAL:
        raise UnsupportedError(f"a convolution over {len(kernel)} axes is not supported")
    return kernel


def convolve(node: OnnxNode, data: Value, weight: Value) -> Value:
    """Convolve over one to three axes."""
    if data.rank != weight.rank:
        raise UnsupportedError(f"the data has rank {data.rank}, the weight {weight.rank}")
    kernel = kernel_of(node, weight)
    opened = padded_open(node, data, kernel, data.like(0))
    if opened is not None:
        bare, padded, sizes = opened
        result = convolve(bare, padded, weight)
        return with_shape(result, [*result.shape[:2], *sizes])
    strides, dilations, before, after = window(node, data, kernel)
    rank = len(kernel)
    channels = weight.shape[0]
    groups = node.integer("group", 1)
    if min([*before, *after]) < 0:
        data = pad_tensor(data, [0, 0, *before], [0, 0, *after], "constant", None)
        before, after = [0] * rank, [0] * rank
    if not is_float(data.dtype) and any([*before, *after]):
        data = pad_tensor(data, [0, 0, *before], [0, 0, *after], "constant", None)
        before, after = [0] * rank, [0] * rank
    letters = SPATIAL[rank]
    return op(
        f"nn.conv{rank}d",
        data,
        weight,
        strides=tuple(strides),
        padding=(*before, *after),
        dilation=tuple(dilations),
        groups=groups,
        channels=int(channels) if isinstance(channels, int) else None,
        kernel_size=tuple(kernel),
        data_layout=f"NC{letters}",
        kernel_layout=f"OI{letters}",
        out_dtype=data.dtype,
    )


def with_bias(data: Value, bias: Value | None) -> Value:
    """Add a bias to each channel."""
    return data if bias is None else op("nn.bias_add", data, bias, axis=1)


def _convolve_integers(node: OnnxNode, data: tuple[int, int], weight: tuple[int, int]) -> Value:
    """Convolve integers; the two of each pair are the numbers of the inputs: integers, zero points."""
    return convolve_integers(
        *(node[data[0]], node.get(data[1]), node[weight[0]], node.get(weight[1])),
        node.integer("group", 1),
        lambda lhs, rhs: convolve(node, lhs, rhs),
    )


@operator("QLinearConv")
def _qlinear_conv(node: OnnxNode) -> Value:
    total = _convolve_integers(node, (0, 2), (3, 5))
    if node.get(8) is not None:
        # ONNX: the bias is an int32 with the scale of the products and the zero point 0, so it is
        # added before the scale is applied.
        total = with_bias(total.cast("int32"), node[8])
    scale = node[4]
    if scale.rank == 1 and scale.shape != (1,):
        # One scale for each output channel, which is the axis 1 of the result.
        scale = op("expand_dims", scale, axis=1, num_newaxis=total.rank - 2)
    elif scale.rank == 1:
        scale = shapes.scalar(scale)
    factor = shapes.scalar(node[1]).cast("float32") * scale.cast("float32")
    scaled = total.cast("float32") * (factor / shapes.scalar(node[6]).cast("float32"))
    zero = shapes.scalar(node[7])
    return quantize(scaled, zero, zero.dtype)


@operator("ConvTranspose")
def _conv_transpose(node: OnnxNode) -> Value:
    data, weight = node[0], node[1]
    kernel = kernel_of(node, weight)
    rank = len(kernel)
    strides = node.ints("strides") or [1] * rank
    dilations = node.ints("dilations") or [1] * rank
    extra = node.ints("output_padding") or [0] * rank
    pads = node.ints("pads") or [0] * (2 * rank)
    before, after = list(pads[:rank]), list(pads[rank:])
    groups = node.integer("group", 1)
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    mode, wanted = node.text("auto_pad", "NOTSET"), node.ints("output_shape")
    is_open = wanted is not None and not shapes.is_static(data.shape[2:])
    if is_open:  # it is cut below
        before, after, extra = [0] * rank, [0] * rank, [0] * rank
    elif wanted is not None or mode.startswith("SAME"):
        for axis in range(rank):
            if wanted is None:  # as many elements as the strides of the image
                total = extra[axis] + reach[axis] - strides[axis]
            else:
                size = shapes.image_sizes(data)[axis]
                total = strides[axis] * (size - 1) + extra[axis] + reach[axis] - wanted[-rank:][axis]
            # The formula of ONNX's ConvTranspose. A negative total, of an output larger than the
            # transposed convolution, is put at the end, where zeros are added.
            cut = max(total, 0)
            before[axis] = cut // 2 if mode == "SAME_UPPER" else cut - cut // 2
            after[axis] = total - before[axis]
    elif mode == "VALID":
        before, after = [0] * rank, [0] * rank
    letters = SPATIAL[rank]
    plain = is_open or (not any(extra) and min([*before, *after]) >= 0)
    result = op(
        f"nn.conv{rank}d_transpose",
        data,
        weight,
        strides=tuple(strides),
        padding=(*before, *after) if plain else (0,) * (2 * rank),
        output_padding=(0,) * rank,
        dilation=tuple(dilations),
        groups=groups,
        channels=int(cast(int, weight.shape[1])) * groups,
        kernel_size=tuple(kernel),
        data_layout=f"NC{letters}",
        kernel_layout=f"IO{letters}",
        out_dtype=data.dtype,
    )
    if not plain:
        ends = [more - cut for more, cut in zip(extra, after, strict=True)]
        result = pad_tensor(result, [0, 0, *(-cut for cut in before)], [0, 0, *ends], "constant", None)
    if is_open and wanted is not None:
        result = _cut_open(node, result, wanted[-rank:], mode)
    return with_bias(result, node.get(2))


def _cut_open(node: OnnxNode, result: Value, wanted: Sequence[int], mode: str) -> Value:
    """Cut a transposed convolution without padding, whose size the call knows, to the wanted sizes."""
    rank = len(wanted)
    extra = node.ints("output_padding") or [0] * rank
    first, last = list[Value](), list[Value]()
    for axis, (size, more) in enumerate(zip(wanted, extra, strict=True)):
        full = shapes.size_along(result, 2 + axis)
        total = (full + (more - size)).maximum(0)
        small = op("floor_divide", total, total.like(2))
        first.append(-(small if mode == "SAME_UPPER" else total - small))
        last.append(full * -1 + size - first[-1])
    pads = op("concatenate", [shapes.unsqueeze(each, [0]) for each in (*first, *last)], axis=0)
    whole = replace(node, inputs=[result, pads])
    cut = dynamic_pad(whole, range(2, 2 + rank), "constant", result.like(0), None)
    return with_shape(cut, [*cut.shape[:2], *wanted])


@operator("DeformConv")
def _deform_conv(node: OnnxNode) -> Value:
    """Sample the image at shifted places, bilinearly, and multiply by the weight."""
    data, weight, offset, bias, mask = node[0], node[1], node[2], node.get(3), node.get(4)
    kernel = kernel_of(node, weight)
    if len(kernel) != 2:
        raise UnsupportedError("only images of two axes are supported")
    strides, dilations, before, _ = window(node, data, kernel)
    groups, offset_groups = node.integer("group", 1), node.integer("offset_group", 1)
    batch, channels, height, width = shapes.static_shape(data)
    rows, columns = shapes.static_shape(offset)[2:]
    count = kernel[0] * kernel[1]
    check_new_array(count, rows + columns)
    shifts = shapes.reshape(offset, [batch, offset_groups, count, 2, rows, columns])
    base = []
    for axis, length in enumerate((rows, columns)):
        start = count_up(length) * strides[axis] - before[axis]
        taps = (
            np.repeat(count_up(kernel[0]), kernel[1])
            if axis == 0
            else np.tile(count_up(kernel[1]), kernel[0])
        )
        place = start[None, :] + (taps * dilations[axis])[:, None]
        base.append(place[:, :, None] if axis == 0 else place[:, None, :])
    at = [
        shapes.squeeze(shapes.slice_axis(shifts, 3, axis, axis + 1), [3]) + shifts.like(base[axis])
        for axis in range(2)
    ]
    images = shapes.reshape(data, [batch, offset_groups, channels // offset_groups, height * width])
    sampled = sample_bilinear(
        images, at[0], at[1], height, width, [batch, offset_groups, count * rows * columns]
    )
    sampled = shapes.reshape(sampled, [batch, offset_groups, channels // offset_groups, count, rows, columns])
    if mask is not None:
        sampled = sampled * shapes.reshape(mask, [batch, offset_groups, 1, count, rows, columns])
    inputs, outputs = channels // groups, int(cast(int, weight.shape[0]))
    patches = shapes.reshape(sampled, [batch, groups, inputs * count, rows * columns])
    matrix = shapes.reshape(weight, [1, groups, outputs // groups, inputs * count])
    from nnmagic.importers.onnx.operators.products import matmul

    result = matmul(matrix, patches)
    return with_bias(shapes.reshape(result, [batch, outputs, rows, columns]), bias)


def sample_bilinear(images: Value, y: Value, x: Value, height: int, width: int, flat: Sequence[int]) -> Value:
    """Sample flat images (n, g, c, h * w) at places (n, g, …); outside the image they are 0."""
    low_y, low_x = op("floor", y), op("floor", x)
    total: Value | None = None
    for down in (0, 1):
        for right in (0, 1):
            row, column = low_y + down, low_x + right
            weight = (1 - op("abs", y - row)) * (1 - op("abs", x - column))
            inside = op(
                "logical_and",
                op("logical_and", row >= 0, row <= height - 1),
                op("logical_and", column >= 0, column <= width - 1),
            )
            place = row.maximum(0).minimum(height - 1) * width + column.maximum(0).minimum(width - 1)
            index = shapes.reshape(place.cast("int64"), [*flat[:2], 1, flat[2]])
            spread = op("broadcast_to", index, shape=(*flat[:2], int(cast(int, images.shape[2])), flat[2]))
            value = op("gather", images, spread, axis=3)
            factor = shapes.reshape(inside.choose(weight, weight.like(0)), [*flat[:2], 1, flat[2]])
            total = value * factor if total is None else total + value * factor
    assert total is not None
    return total


@operator("Col2Im")
def _col2im(node: OnnxNode) -> Value:
    """Add blocks at their places, by one scatter whose indices are known."""
    declared = node.output_shape()
    image = node.static(1, lambda: declared and declared[2:])
    if node[2].known is None:
        candidates = _possible_blocks(node, image)
        return node.choose(
            2, candidates, lambda block: _image_of(node, image, [int(size) for size in np.asarray(block)])
        )
    return _image_of(node, image, node.static(2))


def _image_of(node: OnnxNode, image: Sequence[int], block: Sequence[int]) -> Value:
    rank = len(image)
    strides = node.ints("strides") or [1] * rank
    dilations = node.ints("dilations") or [1] * rank
    pads = node.ints("pads") or [0] * (2 * rank)
    batch, wide, length = shapes.static_shape(node[0])
    counts = [
        (image[axis] + pads[axis] + pads[axis + rank] - (block[axis] - 1) * dilations[axis] - 1)
        // strides[axis]
        + 1
        for axis in range(rank)
    ]
    taps = math.prod(block)
    if math.prod(counts) != length or wide % taps:
        raise UnsupportedError(f"blocks of {block} do not fit an image of {image}")
    check_new_array(*block, *counts)
    places = []
    for axis in range(rank):
        position = (
            count_up(counts[axis])[None, :] * strides[axis] + count_up(block[axis])[:, None] * dilations[axis]
        )
        shape = [1] * (2 * rank)
        shape[axis], shape[axis + rank] = block[axis], counts[axis]
        places.append(np.broadcast_to(position.reshape(shape), [*block, *counts]))
    padded = [image[axis] + pads[axis] + pads[axis + rank] for axis in range(rank)]
    flat = np.ravel_multi_index([place.reshape(-1) for place in places], padded)
    channels = wide // taps
    updates = shapes.reshape(node[0], [batch, channels, taps * length])
    zeros = shapes.full([batch, channels, math.prod(padded)], constant(0, node[0].dtype))
    indices = op("broadcast_to", integers(flat.tolist()), shape=(batch, channels, taps * length))
    # Blocks overlap where the stride is less than the block: their elements are added up.
    total = op("scatter_elements", zeros, indices, updates, axis=2, reduction="add")
    whole = shapes.reshape(total, [batch, channels, *padded])
    return pad_tensor(
        whole, [0, 0, *(-p for p in pads[:rank])], [0, 0, *(-p for p in pads[rank:])], "constant", None
    )


def _possible_blocks(node: OnnxNode, image: Sequence[int]) -> list[list[int]]:
    """Return the blocks that the number of channels allows."""
    declared = node.output_shape()
    if declared is None:
        return []
    wide = shapes.static_shape(node[0])[1]
    taps, rank = wide // declared[1], len(image)
    strides = node.ints("strides") or [1] * rank
    dilations = node.ints("dilations") or [1] * rank
    pads = node.ints("pads") or [0] * (2 * rank)
    length = shapes.static_shape(node[0])[2]
    blocks: list[list[int]] = []
    if not 0 < taps**rank <= MAX_ITEMS**2:
        return blocks
    for block in np.ndindex(*[taps] * rank):
        sizes = [size + 1 for size in block]
        if math.prod(sizes) != taps:
            continue
        counts = [
            (image[a] + pads[a] + pads[a + rank] - (sizes[a] - 1) * dilations[a] - 1) // strides[a] + 1
            for a in range(rank)
        ]
        if min(counts) > 0 and math.prod(counts) == length:
            blocks.append(sizes)
    return blocks


operators(
    {
        "Conv": lambda node: with_bias(convolve(node, node[0], node[1]), node.get(2)),
        "ConvInteger": lambda node: _convolve_integers(node, (0, 2), (1, 3)).cast("int32"),
    }
)
