"""Import pooling and its gradients, and resampling of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.operators.convolutions import SPATIAL
from nnmagic.importers.onnx.operators.pooling import along_axis
from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.importers.torch.calls import Call, scalar_constant
from nnmagic.importers.torch.mathematics import convert, neutral, wide
from nnmagic.importers.torch.operators.shaping import counting
from nnmagic.importers.torch.registry import operator
from nnmagic.relay.ops.dims import product
from nnmagic.relay.types import Dim


def _parameters(call: Call, rank: int) -> tuple[list[int], list[int], list[int], list[int], bool]:
    """Return kernel, stride, padding, dilation, and whether the number of windows is rounded up."""
    kernel = call.ints("kernel_size")
    kernel = kernel * rank if len(kernel) == 1 else kernel

    def spread(name: str, default: Sequence[int]) -> list[int]:
        given = call.ints(name) or list(default)
        return given * rank if len(given) == 1 else given

    return (
        kernel,
        spread("stride", kernel),
        spread("padding", [0]),
        spread("dilation", [1]),
        call.flag("ceil_mode"),
    )


def _with_batch(data: Value, rank: int) -> Value:
    return data if data.rank == rank + 2 else shapes.unsqueeze(data, [0])


def _places(count: int, kernel: int, stride: int, dilation: int, padding: int) -> np.ndarray:
    """Return the indices of each window's elements along an axis, (count, kernel); some lie outside."""
    return np.arange(count)[:, None] * stride - padding + np.arange(kernel)[None, :] * dilation


# -- maxima --------------------------------------------------------------------------------------------


def _max_pool(call: Call, rank: int) -> list[Value]:
    """Pool maxima; their flat indices are made of the windows' elements only if something uses them."""
    data = _with_batch(call["self"], rank)
    kernel, stride, padding, dilation, ceil = _parameters(call, rank)
    counts = [int(size) for size in call.shape[-rank:] if isinstance(size, int)]
    if 0 in data.shape:
        return [call.full(call.shape, scalar_constant(0, dtype)) for dtype in (data.dtype, "int64")]
    indices: Value | None = None
    if len(counts) == rank and shapes.is_static(data.shape[2:]):
        indices = _window_maxima(data, kernel, stride, padding, dilation, counts)
    is_known = indices is not None
    if (is_known or not ceil) and data.is_float and rank in SPATIAL and _finite_padding(padding):
        after = _padding_of_last_windows(data, kernel, stride, padding, dilation, counts) if ceil else padding
        letters = SPATIAL[rank]
        values = op(
            f"nn.max_pool{rank}d",
            data,
            pool_size=tuple(kernel),
            strides=tuple(stride),
            dilation=tuple(dilation),
            padding=(*padding, *after),
            layout=f"NC{letters}",
        )
    elif indices is not None:
        flat = shapes.reshape(data, [*data.shape[:2], product(data.shape[2:])])
        places = shapes.reshape(indices, [*indices.shape[:2], product(indices.shape[2:])])
        values = shapes.reshape(op("gather", flat, places, axis=2), indices.shape)
        outside = np.zeros([1] * rank, bool)  # windows that have no element
        for axis, size in enumerate(call.static(data)[2:]):
            place = _places(counts[axis], kernel[axis], stride[axis], dilation[axis], padding[axis])
            none = ~((place >= 0) & (place < size)).any(axis=1)
            outside = outside | none.reshape([-1 if at == axis else 1 for at in range(rank)])
        if outside.any():
            values = constant(outside).choose(values.like(neutral("max", values.dtype)), values)
    else:
        raise UnsupportedError(
            "ceil_mode with images of dynamic size is not supported", "give them a fixed size"
        )
    results = [values] + ([indices] if indices is not None else [])
    return results if call["self"].rank == rank + 2 else [shapes.squeeze(item, [0]) for item in results]


def _padding_of_last_windows(
    data: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    counts: Sequence[int],
) -> list[int]:
    """Return the padding behind an image, with what the last of so many windows have beyond it."""
    after = []
    for axis, size in enumerate(data.shape[2:]):
        end = (counts[axis] - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1
        after.append(max(padding[axis], end - int(cast(int, size)) - padding[axis]))
    return after


def _finite_padding(padding: Sequence[int]) -> bool:
    return min(padding) >= 0


def _window_maxima(
    data: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    counts: Sequence[int],
) -> Value:
    """Return the flat index, within its image, of the maximum of each window: the first of equal ones."""
    rank = len(kernel)
    sizes = [int(cast(int, size)) for size in data.shape[2:]]
    taken, inside = data, np.ones([1] * (2 * rank), bool)
    index = np.zeros([1] * (2 * rank), "int64")
    for axis in range(rank):
        place = _places(counts[axis], kernel[axis], stride[axis], dilation[axis], padding[axis])
        at = 2 + 2 * axis
        taken = op("take", taken, constant(np.clip(place, 0, sizes[axis] - 1)), axis=at, mode="clip")
        shape = [1] * (2 * rank)
        shape[2 * axis], shape[2 * axis + 1] = counts[axis], kernel[axis]
        inside = inside & ((place >= 0) & (place < sizes[axis])).reshape(shape)
        index = index * sizes[axis] + np.clip(place, 0, sizes[axis] - 1).reshape(shape)
    order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
    taps = int(np.prod(kernel))
    inside = np.broadcast_to(inside, [n for pair in zip(counts, kernel, strict=True) for n in pair])
    inside = inside.transpose(order).reshape([*counts, taps])
    index = np.broadcast_to(index, [n for pair in zip(counts, kernel, strict=True) for n in pair])
    index = index.transpose(order).reshape([*counts, taps])
    windows = shapes.transpose(taken, [0, 1, *(2 + at for at in order)])
    windows = shapes.reshape(windows, [*data.shape[:2], *counts, taps])
    if not inside.all():
        windows = constant(inside).choose(windows, windows.like(neutral("max", windows.dtype)))
    best = op("argmax", windows, axis=(rank + 2,)).cast("int64")
    best = best.maximum(constant(inside.argmax(axis=-1).astype("int64")))
    best = _last_nan(windows, rank + 2, best, keep=False)
    flat = constant(index.reshape(-1))
    rows = np.arange(int(np.prod(counts))).reshape(counts) * taps
    return op("take", flat, best + constant(rows.astype("int64")), axis=0, mode="clip")


def _last_nan(windows: Value, axis: int, best: Value, *, keep: bool = True) -> Value:
    """Return where the last NaN of each window is, and where there is none, what is given."""
    if not windows.is_float:
        return best
    nan = op("isnan", windows)
    last = op("argmax", nan.cast("int32"), axis=(axis,), keepdims=keep, select_last_index=True)
    return op("any", nan, axis=(axis,), keepdims=keep).choose(last.cast("int64"), best)


@operator("max_pool2d_with_indices")
def _max_pool2d(call: Call) -> list[Value]:
    return _max_pool(call, 2)


@operator("max_pool3d_with_indices")
def _max_pool3d(call: Call) -> list[Value]:
    return _max_pool(call, 3)


@operator(
    "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward", note="of images of known size"
)
def _max_pool_backward(call: Call) -> Value:
    rank = 2 if "2d" in call.name else 3
    return _scatter_planes(call, rank, call["grad_output"], call["indices"])


def _scatter_planes(call: Call, rank: int, gradient: Value, indices: Value) -> Value:
    shape = call.static(call["self"])
    size, planes = int(np.prod(shape[-rank:])), int(np.prod(shape[:-rank]))
    count = product(gradient.shape[-rank:])
    zeros = call.full([planes, size], scalar_constant(0, gradient.dtype))
    made = op(
        "scatter_elements",
        zeros,
        shapes.reshape(indices, [planes, count]),
        shapes.reshape(gradient, [planes, count]),
        axis=1,
        reduction="add",
    )
    return shapes.reshape(made, shape)


# -- means ---------------------------------------------------------------------------------------------


def _summed(
    data: Value, axis: int, places: np.ndarray, inside: np.ndarray, weights: np.ndarray | None = None
) -> Value:
    """Return weighted sums of elements along an axis: those at places (count, taps), where they are inside.

    Products with a matrix of all weights would spread NaN and infinities, whose products with 0 are NaN.
    """
    windows = op("take", data, constant(np.maximum(places, 0)), axis=axis, mode="clip")
    behind = range(2, windows.rank - axis)
    if weights is not None:
        windows = windows * shapes.unsqueeze(windows.like(weights), behind)
    if not inside.all():
        windows = shapes.unsqueeze(constant(inside), behind).choose(windows, windows.like(0))
    return op("sum", windows, axis=(axis + 1,))


def _average_windows(
    sizes: Sequence[int],
    counts: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    *,
    padded: bool,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return for each axis the places (count, taps) of windows, and the numbers that divide the sums."""
    places, numbers = [], np.ones([1] * len(sizes))
    for axis, size in enumerate(sizes):
        place = _places(counts[axis], kernel[axis], stride[axis], 1, padding[axis])
        places.append(place)
        low, high = (-padding[axis], size + padding[axis]) if padded else (0, size)
        each = ((place >= low) & (place < high)).sum(axis=1)
        numbers = numbers * each.reshape([-1 if at == axis else 1 for at in range(len(sizes))])
    return places, numbers


def _divisors(call: Call, numbers: np.ndarray) -> np.ndarray:
    fixed = call.argument("divisor_override")
    return np.full_like(numbers, fixed) if fixed else np.maximum(numbers, 1)


def _avg_pool(call: Call, rank: int) -> Value:
    data = wide(_with_batch(call["self"], rank))
    kernel, stride, padding, _, ceil = _parameters(call, rank)
    padded = call.flag("count_include_pad", default=True)
    if 0 in data.shape:
        return call.full(call.shape, scalar_constant(0, data.dtype))
    if not ceil and not call.argument("divisor_override") and data.is_float:
        letters = SPATIAL[rank]
        result = op(
            f"nn.avg_pool{rank}d",
            data,
            pool_size=tuple(kernel),
            strides=tuple(stride),
            dilation=(1,) * rank,
            padding=(*padding, *padding),
            layout=f"NC{letters}",
            count_include_pad=padded,
        )
    else:
        sizes = call.static(data, "the size of the image")[2:]
        counts = [int(cast(int, size)) for size in call.shape[-rank:]]
        windows, numbers = _average_windows(sizes, counts, kernel, stride, padding, padded=padded)
        result = data
        for axis, (size, places) in enumerate(zip(sizes, windows, strict=True)):
            result = _summed(result, axis + 2, places, (places >= 0) & (places < size))
        result = result / result.like(_divisors(call, numbers))
    return result if call["self"].rank == rank + 2 else shapes.squeeze(result, [0])


@operator("avg_pool1d")
def _avg_pool1d(call: Call) -> Value:
    return _avg_pool(call, 1)


@operator("avg_pool2d")
def _avg_pool2d(call: Call) -> Value:
    return _avg_pool(call, 2)


@operator("avg_pool3d")
def _avg_pool3d(call: Call) -> Value:
    return _avg_pool(call, 3)


@operator("avg_pool2d_backward", "avg_pool3d_backward", note="of images of known size")
def _avg_pool_backward(call: Call) -> Value:
    rank = 2 if "2d" in call.name else 3
    gradient, shape = wide(call["grad_output"]), call.static(call["self"])
    kernel, stride, padding, _, _ = _parameters(call, rank)
    counts = call.static(gradient)[-rank:]
    padded = call.flag("count_include_pad", default=True)
    windows, numbers = _average_windows(shape[-rank:], counts, kernel, stride, padding, padded=padded)
    result = gradient / gradient.like(_divisors(call, numbers))
    for axis, (size, places) in enumerate(zip(shape[-rank:], windows, strict=True)):
        matrix = np.zeros((size, len(places)))
        for column, row in enumerate(places):
            np.add.at(matrix[:, column], row[(row >= 0) & (row < size)], 1)
        result = along_axis(result, result.rank - rank + axis, result.like(matrix.T.copy()))
    return result


def _adaptive_matrix(size: int, count: int) -> np.ndarray:
    """Return the matrix (size, count) that means ``count`` parts of an axis, which may overlap."""
    matrix = np.zeros((size, count))
    for at in range(count):
        first, last = at * size // count, -(-(at + 1) * size // count)
        matrix[first:last, at] = 1 / (last - first)
    return matrix


def _adaptive_average(call: Call, rank: int) -> Value:
    data = wide(call["self"])
    sizes = call.ints("output_size")
    axes = tuple(range(data.rank - rank, data.rank))
    if sizes == [1] * rank:
        return op("mean", data, axis=axes, keepdims=True)
    if 0 in call.shape:
        return call.full(call.shape, scalar_constant(0, data.dtype))
    for axis, count in zip(axes, sizes, strict=True):
        size = data.shape[axis]
        if not isinstance(size, int):
            raise UnsupportedError("the size of the image must be known", "leave it out of dynamic_shapes")
        if size != count:
            matrix = _adaptive_matrix(int(size), count)
            data = _summed(data, axis, *_taps(matrix))
    return data


def _taps(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where the weights of a matrix's columns are not 0: places, which are inside, weights."""
    first = (matrix != 0).argmax(axis=0)
    last = len(matrix) - (matrix[::-1] != 0).argmax(axis=0)
    places = first[:, None] + np.arange((last - first).max())
    inside = places < last[:, None]
    weights = np.take_along_axis(matrix.T, np.minimum(places, len(matrix) - 1), axis=1)
    return places, inside, weights


@operator("_adaptive_avg_pool2d")
def _adaptive2(call: Call) -> Value:
    return _adaptive_average(call, 2)


@operator("_adaptive_avg_pool3d")
def _adaptive3(call: Call) -> Value:
    return _adaptive_average(call, 3)


@operator("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward", note="of images of known size")
def _adaptive_backward(call: Call) -> Value:
    rank = 2 if "2d" in call.name else 3
    gradient, shape = wide(call["grad_output"]), call.static(call["self"])
    counts = call.static(gradient)[-rank:]
    for at in range(rank):
        axis = gradient.rank - rank + at
        matrix = _adaptive_matrix(shape[-rank:][at], counts[at]).T.copy()
        gradient = along_axis(gradient, axis, gradient.like(matrix))
    return gradient


@operator(
    *("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward"),
    note="of images of known size",
)
def _replication_backward(call: Call) -> Value:
    """Add the gradients of the copies of an edge to that of the edge."""
    gradient, shape, padding = wide(call["grad_output"]), call.static(call["self"]), call.ints("padding")
    for at, (before, after) in enumerate(zip(padding[::2], padding[1::2], strict=True)):
        axis = gradient.rank - 1 - at
        count = shape[axis] + before + after
        matrix = np.zeros((count, shape[axis]))
        matrix[np.arange(count), np.clip(np.arange(count) - before, 0, shape[axis] - 1)] = 1
        gradient = along_axis(gradient, axis, gradient.like(matrix))
    return gradient


def _adaptive_max(call: Call, rank: int) -> list[Value]:
    data = call["self"]
    sizes, counts = call.static(data), call.ints("output_size")
    if 0 in call.shape or 0 in data.shape:
        return [call.full(call.shape, scalar_constant(0, dtype)) for dtype in (data.dtype, "int64")]
    values = data
    flat = np.arange(int(np.prod(sizes[-rank:]))).reshape(sizes[-rank:])
    index = call.expand(constant(flat), sizes)
    for at in reversed(range(rank)):
        axis = data.rank - rank + at
        size, count = sizes[axis], counts[at]
        bounds = [(n * size // count, -(-(n + 1) * size // count)) for n in range(count)]
        width = max(last - first for first, last in bounds)
        places = np.array([[min(first + n, last - 1) for n in range(width)] for first, last in bounds])
        windows, indices = (
            op("take", item, constant(places), axis=axis, mode="clip") for item in (values, index)
        )
        best = _last_nan(
            windows, axis + 1, op("argmax", windows, axis=(axis + 1,), keepdims=True).cast("int64")
        )
        values, index = (
            shapes.squeeze(op("gather", item, best, axis=axis + 1), [axis + 1]) for item in (windows, indices)
        )
    return [values, index]


@operator("adaptive_max_pool2d", note="of images of known size")
def _adaptive_max2(call: Call) -> list[Value]:
    return _adaptive_max(call, 2)


@operator("adaptive_max_pool3d", note="of images of known size")
def _adaptive_max3(call: Call) -> list[Value]:
    return _adaptive_max(call, 3)


# -- resampling ----------------------------------------------------------------------------------------


def _scales(call: Call, rank: int) -> list[float | None]:
    given = call.argument("scale_factors")
    if given is None:
        names = ("scales",) if rank == 1 else ("scales_d", "scales_h", "scales_w")[-rank:]
        given = [call.arguments.get(name) for name in names]
    return [None if item is None else float(item) for item in given]


def _new_sizes(call: Call, rank: int) -> tuple[list[int], list[int]]:
    old = call.static(
        call["input"] if call.get("input") is not None else call["self"], "the size of the image"
    )
    if not shapes.is_static(call.shape[-rank:]):
        raise UnsupportedError("the size of the image must be known", "leave it out of dynamic_shapes")
    return old[-rank:], [int(cast(int, size)) for size in call.shape[-rank:]]


def _ratio(old: int, new: int, scale: float | None, *, align: bool) -> float:
    if align:
        return (old - 1) / (new - 1) if new > 1 else 0.0
    return 1 / scale if scale else old / new


def _image(call: Call) -> Value:
    value = call.get("input")
    return call["self"] if value is None else value


def _nearest(call: Call, rank: int, shift: float) -> Value:
    data = _image(call)
    for at, scale in enumerate(_scales(call, rank)):
        axis = data.rank - rank + at
        old, new = data.shape[axis], call.shape[axis]
        if isinstance(old, int) and isinstance(new, int):
            ratio = np.float32(_ratio(int(old), int(new), scale, align=False))
            places = np.floor((np.arange(int(new), dtype="float32") + np.float32(shift)) * ratio)
            index = constant(np.clip(places, 0, int(old) - 1).astype("int64"))
        else:
            step = _dynamic_ratio(call, old, new, scale, align=False)
            places = op("floor", (counting(call, new).cast("float32") + shift) * step)
            index = places.cast("int64").minimum(call.size(old) - 1)
        data = op("take", data, index, axis=axis, mode="clip")
    return data


def _dynamic_ratio(call: Call, old: Dim, new: Dim, scale: float | None, *, align: bool) -> Value:
    """Return how many elements of an axis one of the new ones is, where the call knows their numbers."""
    if scale and not align:
        return constant(1 / scale, "float32")
    sizes = (call.size(size).cast("float32") for size in (old, new))
    left, right = ((size - 1).maximum(0) if align else size for size in sizes)
    return left / right.maximum(1)


def _between(call: Call, data: Value, axis: int, new: Dim, scale: float | None) -> Value:
    """Return linear interpolations along an axis, where the call knows its size."""
    old, align = data.shape[axis], call.flag("align_corners")
    at, step = counting(call, new).cast("float32"), _dynamic_ratio(call, old, new, scale, align=align)
    place = at * step if align else ((at + 0.5) * step - 0.5).maximum(0)
    last = call.size(old) - 1
    low = op("floor", place).cast("int64").minimum(last)
    share = shapes.unsqueeze(
        (place - low.cast("float32")).minimum(1).cast(data.dtype), range(1, data.rank - axis)
    )
    left, right = (
        op("take", data, index, axis=axis, mode="clip") for index in (low, (low + 1).minimum(last))
    )
    return left * (1 - share) + right * share


def _declare_nearest(name: str, rank: int, shift: float) -> None:
    operator(name)(lambda call: _nearest(call, rank, shift))


for _rank in (1, 2, 3):
    _declare_nearest(f"upsample_nearest{_rank}d", _rank, 0.0)
    _declare_nearest(f"_upsample_nearest_exact{_rank}d", _rank, 0.5)


def _centres(new: int, ratio: float, *, align: bool) -> np.ndarray:
    at = np.arange(new)
    return at * ratio if align else (at + 0.5) * ratio - 0.5


def _linear_taps(old: int, new: int, ratio: float, *, align: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the places (new, 2) and the weights of the elements that each new one lies between."""
    place = np.clip(_centres(new, ratio, align=align), 0, None)
    low = np.minimum(np.floor(place).astype(int), old - 1)
    share = np.clip(place - low, 0, 1)
    return np.stack([low, np.minimum(low + 1, old - 1)], 1), np.stack([1 - share, share], 1)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Return Keys' cubic kernel (IEEE Trans. ASSP 29, 1981)."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _cubic_taps(old: int, new: int, ratio: float, *, align: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the places (new, 4) and the weights of the elements near each new one."""
    place = _centres(new, ratio, align=align)
    at = np.floor(place).astype(int)[:, None] + np.arange(-1, 3)
    return np.clip(at, 0, old - 1), _cubic(np.abs(place[:, None] - at), -0.75)


def _antialiased_matrix(old: int, new: int, ratio: float, *, cubic: bool) -> np.ndarray:
    """Return weights whose kernel is as wide as an element of the result."""
    stretch = max(ratio, 1.0)
    centre = ratio * (np.arange(new) + 0.5)
    reach = (2 if cubic else 1) * stretch
    at = np.arange(old)
    first = np.maximum((centre - reach + 0.5).astype(int), 0)
    last = np.minimum((centre + reach + 0.5).astype(int), old)
    distance = np.abs(at[:, None] - centre[None, :] + 0.5) / stretch
    weight = _cubic(distance, -0.5) if cubic else np.clip(1 - distance, 0, None)
    weight = np.where((at[:, None] >= first) & (at[:, None] < last), weight, 0)
    total = weight.sum(axis=0)
    shares: np.ndarray = weight / np.where(total == 0, 1, total)
    return shares


def _weighted(call: Call, rank: int, kind: str) -> Value:
    data = _image(call)
    work = wide(data) if data.is_float else data.cast("float32")
    align = call.flag("align_corners")
    if kind == "linear" and not shapes.is_static((*work.shape[-rank:], *call.shape[-rank:])):
        for at, scale in enumerate(_scales(call, rank)):
            axis = work.rank - rank + at
            work = _between(call, work, axis, call.shape[axis], scale)
        return _rounded(work, data)
    old, new = _new_sizes(call, rank)
    for at, scale in enumerate(_scales(call, rank)):
        ratio = _ratio(old[at], new[at], scale, align=align)
        if kind in ("linear", "cubic"):
            taps = _linear_taps if kind == "linear" else _cubic_taps
            places, weights = taps(old[at], new[at], ratio, align=align)
            inside = np.ones_like(places, bool)
        else:
            matrix = _antialiased_matrix(old[at], new[at], ratio, cubic=kind == "cubic_aa")
            places, inside, weights = _taps(matrix)
        work = _summed(work, work.rank - rank + at, places, inside, weights)
    return _rounded(work, data)


def _rounded(work: Value, data: Value) -> Value:
    """Return resampled bytes as bytes."""
    return work if data.is_float else convert(op("numpy.rint", work).maximum(0).minimum(255), data.dtype)


def _declare_weighted(name: str, rank: int, kind: str) -> None:
    note = "" if kind == "linear" else "of images of known size"
    operator(name, note=note)(lambda call: _weighted(call, rank, kind))


_declare_weighted("upsample_linear1d", 1, "linear")
_declare_weighted("upsample_bilinear2d", 2, "linear")
_declare_weighted("upsample_trilinear3d", 3, "linear")
_declare_weighted("upsample_bicubic2d", 2, "cubic")
_declare_weighted("_upsample_bilinear2d_aa", 2, "linear_aa")
_declare_weighted("_upsample_bicubic2d_aa", 2, "cubic_aa")


def _grid_sampler(call: Call, rank: int) -> Value:
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


@operator("grid_sampler_2d")
def _grid_sampler_2d(call: Call) -> Value:
    return _grid_sampler(call, 2)


@operator("grid_sampler_3d")
def _grid_sampler_3d(call: Call) -> Value:
    return _grid_sampler(call, 3)
