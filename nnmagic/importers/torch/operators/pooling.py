"""Import pooling and its gradients, and resampling of images.

What they compute: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.interpolate.html
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.operators.products import along_axis
from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.importers.torch.calls import AtenCall, scalar_constant
from nnmagic.importers.torch.mathematics import convert, wide
from nnmagic.importers.torch.operators.strided_views import counting
from nnmagic.importers.torch.registry import operator, operators
from nnmagic.relay.functions import pooling
from nnmagic.relay.functions.resizing import interpolate, interpolate_with_unit_sum
from nnmagic.relay.ops.dims import product
from nnmagic.relay.types import Dim


def _placing(call: AtenCall, rank: int) -> pooling.Placing:
    """Return how windows go along the axes; the number of windows may be rounded up."""

    def spread(name: str, default: Sequence[int]) -> list[int]:
        numbers = call.ints(name) or list(default)
        return numbers * rank if len(numbers) == 1 else numbers

    kernel, padding = spread("kernel_size", []), spread("padding", [0])
    strides, dilations = spread("stride", kernel), spread("dilation", [1])
    return pooling.Placing(kernel, strides, dilations, padding, padding, call.flag("ceil_mode"))


def _with_batch(data: Value, rank: int) -> Value:
    return data if data.rank == rank + 2 else shapes.unsqueeze(data, [0])


# -- maxima --------------------------------------------------------------------------------------------


def _max_pool(call: AtenCall, rank: int) -> list[Value]:
    """Pool maxima; their flat indices are made of the windows' elements only if something uses them."""
    data = _with_batch(call["self"], rank)
    placing = _placing(call, rank)
    counts = [int(size) for size in call.shape[-rank:] if isinstance(size, int)]
    if 0 in data.shape:
        return [call.full(call.shape, scalar_constant(0, dtype)) for dtype in (data.dtype, "int64")]
    values: Value | None = None
    indices: list[Value] = []
    after: Sequence[int] | None = placing.padding_of_any_size() if placing.ceil else placing.after
    if len(counts) == rank and shapes.is_static(data.shape[2:]):
        values, index = pooling.window_maxima(data, placing.windows(counts))
        indices = [index]
        if placing.ceil:
            after = placing.padding_behind(call.image(data, rank))
    if after is not None and data.is_float and min(placing.before) >= 0:
        values = pooling.pool("max", data, placing, after)
    if values is None:
        raise UnsupportedError(
            "ceil_mode with images of dynamic size is not supported", "give them a fixed size"
        )
    results = [values, *indices]
    return results if call["self"].rank == rank + 2 else [shapes.squeeze(item, [0]) for item in results]


@operator(
    *("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"),
    *("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward"),
)
def _max_pool_backward(call: AtenCall) -> Value:
    """Add the gradient of each maximum to the element that it was."""
    rank = 2 if "2d" in call.name else 3
    gradient, shape = call["grad_output"], call["self"].shape
    if 0 in gradient.shape or 0 in shape:
        return call.full(call.shape, scalar_constant(0, gradient.dtype))
    planes, size, count = (product(part) for part in (shape[:-rank], shape[-rank:], gradient.shape[-rank:]))
    zeros = call.full([planes, size], scalar_constant(0, gradient.dtype))
    places, updates = (call.reshape(item, [planes, count]) for item in (call["indices"], gradient))
    return call.reshape(op("scatter_elements", zeros, places, updates, axis=1, reduction="add"), shape)


# -- means ---------------------------------------------------------------------------------------------


def _windows(
    call: AtenCall, sizes: Sequence[int], counts: Sequence[int]
) -> tuple[pooling.Windows, np.ndarray]:
    """Return the windows of the axes, and the numbers that divide the sums."""
    placing, padded = _placing(call, len(sizes)), call.flag("count_include_pad", default=True)
    windows = placing.windows(counts)
    numbers = pooling.count_elements(windows, placing.ranges(sizes, padded=padded))
    fixed = call.argument("divisor_override")
    return windows, np.full_like(numbers, fixed) if fixed else numbers


def _spread(gradient: Value, sizes: Sequence[int], windows: pooling.Windows, numbers: np.ndarray) -> Value:
    """Return the sum of what windows, with gradients of their means, give to each element."""
    result = gradient / gradient.like(numbers)
    for at, (size, places) in enumerate(zip(sizes, windows, strict=True)):
        matrix = np.zeros((len(places), size))
        for row, place in zip(matrix, places, strict=True):
            np.add.at(row, place[(place >= 0) & (place < size)], 1)
        result = along_axis(result, result.rank - len(sizes) + at, result.like(matrix))
    return result


def _avg_pool(call: AtenCall, rank: int) -> Value:
    data = wide(_with_batch(call["self"], rank))
    placing = _placing(call, rank)
    if 0 in data.shape:
        return call.full(call.shape, scalar_constant(0, data.dtype))
    if not placing.ceil and not call.argument("divisor_override") and data.is_float:
        padded = call.flag("count_include_pad", default=True)
        result = pooling.pool("avg", data, placing, placing.after, count_include_pad=padded)
    else:
        sizes = call.image(data, rank)
        windows, numbers = _windows(call, sizes, [int(cast(int, size)) for size in call.shape[-rank:]])
        result = pooling.window_sums(data, windows) / data.like(numbers)
    return result if call["self"].rank == rank + 2 else shapes.squeeze(result, [0])


@operator("avg_pool2d_backward", "avg_pool3d_backward", note="of images of known size")
def _avg_pool_backward(call: AtenCall) -> Value:
    rank = 2 if "2d" in call.name else 3
    gradient, sizes = wide(call["grad_output"]), call.image(call["self"], rank)
    return _spread(gradient, sizes, *_windows(call, sizes, call.image(gradient, rank)))


def _adaptive_average(call: AtenCall, rank: int) -> Value:
    data = wide(call["self"])
    sizes = call.ints("output_size")
    axes = tuple(range(data.rank - rank, data.rank))
    if sizes == [1] * rank:
        return op("mean", data, axis=axes, keepdims=True)
    if 0 in call.shape:
        return call.full(call.shape, scalar_constant(0, data.dtype))
    call.image(data, rank)
    windows, numbers = _adaptive_windows(data, sizes)
    return (
        pooling.window_sums(data, windows) / data.like(numbers)
        if tuple(sizes) != data.shape[-rank:]
        else data
    )


def _adaptive_windows(data: Value, counts: Sequence[int]) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the windows that divide an image, and their sizes."""
    sizes = [int(cast(int, size)) for size in data.shape[-len(counts) :]]
    windows = [pooling.adaptive_windows(size, count) for size, count in zip(sizes, counts, strict=True)]
    return windows, pooling.count_elements(windows, [(0, size) for size in sizes])


@operator("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward", note="of images of known size")
def _adaptive_backward(call: AtenCall) -> Value:
    rank = 2 if "2d" in call.name else 3
    gradient, sizes = wide(call["grad_output"]), call.image(call["self"], rank)
    return _spread(gradient, sizes, *_adaptive_windows(call["self"], call.image(gradient, rank)))


@operator(
    *("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward"),
    note="of images of known size",
)
def _replication_backward(call: AtenCall) -> Value:
    """Add the gradients of the copies of an edge to that of the edge."""
    gradient, padding = wide(call["grad_output"]), call.ints("padding")
    sizes = call.image(call["self"], len(padding) // 2)[::-1]
    for at, (size, before, after) in enumerate(zip(sizes, padding[::2], padding[1::2], strict=True)):
        axis = gradient.rank - 1 - at
        count = size + before + after
        matrix = np.zeros((count, size))
        matrix[np.arange(count), np.clip(np.arange(count) - before, 0, size - 1)] = 1
        gradient = along_axis(gradient, axis, gradient.like(matrix))
    return gradient


@operator("adaptive_max_pool2d", "adaptive_max_pool3d", note="of images of known size")
def _adaptive_max(call: AtenCall) -> list[Value]:
    data = call["self"]
    call.image(data, len(call.ints("output_size")))
    if 0 in call.shape or 0 in data.shape:
        return [call.full(call.shape, scalar_constant(0, dtype)) for dtype in (data.dtype, "int64")]
    return list(pooling.window_maxima(data, _adaptive_windows(data, call.ints("output_size"))[0]))


# -- resampling ----------------------------------------------------------------------------------------


def _scales(call: AtenCall, rank: int) -> list[float | None]:
    scales = call.argument("scale_factors")
    if scales is None:
        names = ("scales",) if rank == 1 else ("scales_d", "scales_h", "scales_w")[-rank:]
        scales = [call.arguments.get(name) for name in names]
    return [None if item is None else float(item) for item in scales]


def _image(call: AtenCall) -> Value:
    value = call.get("input")
    return call["self"] if value is None else value


def _nearest(call: AtenCall, rank: int, shift: float) -> Value:
    data = _image(call)
    for at, scale in enumerate(_scales(call, rank)):
        axis = data.rank - rank + at
        old, new = data.shape[axis], call.shape[axis]
        step = _step(call, old, new, scale, "float32", align=False)
        places = op("floor", (counting(call, new).cast("float32") + shift) * step)
        index = places.cast("int64").minimum(call.size(old) - 1)
        data = op("take", data, index, axis=axis, mode="clip")
    return data


def _step(call: AtenCall, old: Dim, new: Dim, scale: float | None, dtype: str, *, align: bool) -> Value:
    """Return how many elements of an axis one of the new ones is."""
    if scale and not align:
        return constant(1 / scale, dtype)
    if align and new == 1:
        return constant(0, dtype)
    sizes = (call.size(size).cast(dtype) for size in (old, new))
    lhs, rhs = ((size - 1).maximum(0) if align else size for size in sizes)
    return lhs / rhs.maximum(1)


def _resample(call: AtenCall, rank: int, kind: str) -> Value:
    """Resample by weights; those of ``aa`` are of kernels as wide as the new elements."""
    data, align = _image(call), call.flag("align_corners")
    work = wide(data) if data.is_float else data.cast("float32")
    is_linear, smooth = kind.startswith("linear"), kind.endswith("aa")
    if smooth and not shapes.is_static((*work.shape[-rank:], *call.shape[-rank:])):
        raise UnsupportedError("the size of the image must be known", "leave it out of dynamic_shapes")
    for axis, scale in enumerate(_scales(call, rank), work.rank - rank):
        old, new = work.shape[axis], call.shape[axis]
        step = _step(call, old, new, scale, "float64", align=align)
        x, size = counting(call, new).cast("float64"), call.size(old).cast("float64")
        if smooth:
            a, widest, shrink = None if is_linear else -0.5, float(cast(Any, step.known)), 1 / step.maximum(1)
            x = (x + 0.5) * step - 0.5
            work = interpolate_with_unit_sum(work, axis, x, size, a, shrink, widest, exclude=True)
            continue
        x = x * step if align else (x + 0.5) * step - 0.5
        work = interpolate(work, axis, x.maximum(0) if is_linear else x, size, None if is_linear else -0.75)
    return _round(work, data)


def _round(work: Value, data: Value) -> Value:
    """Return resampled bytes as bytes."""
    return work if data.is_float else convert(op("numpy.rint", work).maximum(0).minimum(255), data.dtype)


def _grid_sampler(call: AtenCall, rank: int) -> Value:
    data, grid = wide(call["input"]), wide(call["grid"])
    mode = ("bilinear", "nearest", "bicubic")[call.integer("interpolation_mode")]
    return op(
        "image.grid_sample",
        data,
        shapes.transpose(grid, [0, grid.rank - 1, *range(1, grid.rank - 1)]),
        method=mode,
        layout="NCHW" if rank == 2 else "NCDHW",
        padding_mode=("zeros", "border", "reflection")[call.integer("padding_mode")],
        align_corners=call.flag("align_corners"),
    )


operators(
    {
        "_adaptive_avg_pool2d": lambda call: _adaptive_average(call, 2),
        "_adaptive_avg_pool3d": lambda call: _adaptive_average(call, 3),
        "avg_pool1d": lambda call: _avg_pool(call, 1),
        "avg_pool2d": lambda call: _avg_pool(call, 2),
        "avg_pool3d": lambda call: _avg_pool(call, 3),
        "grid_sampler_2d": lambda call: _grid_sampler(call, 2),
        "grid_sampler_3d": lambda call: _grid_sampler(call, 3),
        "max_pool2d_with_indices": lambda call: _max_pool(call, 2),
        "max_pool3d_with_indices": lambda call: _max_pool(call, 3),
        "upsample_bicubic2d": lambda call: _resample(call, 2, "cubic"),
        "upsample_bilinear2d": lambda call: _resample(call, 2, "linear"),
        "upsample_linear1d": lambda call: _resample(call, 1, "linear"),
        "upsample_trilinear3d": lambda call: _resample(call, 3, "linear"),
    }
)
for _rank in (1, 2, 3):
    operator(f"upsample_nearest{_rank}d")(partial(_nearest, rank=_rank, shift=0.0))
    operator(f"_upsample_nearest_exact{_rank}d")(partial(_nearest, rank=_rank, shift=0.5))
for _kind in ("linear", "cubic"):
    operator(f"_upsample_bi{_kind}2d_aa", note="of images of known size")(
        partial(_resample, rank=2, kind=f"{_kind}_aa")
    )
