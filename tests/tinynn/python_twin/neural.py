"""Operators of neural networks in plain NumPy, from their definitions: slow, and easily believed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np


def relu(data):
    return np.maximum(data, 0)


def leaky_relu(data, alpha=0.01):
    return np.where(data > 0, data, data * alpha)


def prelu(data, alpha, axis=1):
    return np.where(data > 0, data, data * _along(alpha, axis, data))


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


def erfc(x):
    return np.vectorize(math.erfc, otypes=[np.float64])(x).astype(x.dtype)


def gelu(x):
    return (x.astype(np.float64) * (1 + erf(x.astype(np.float64) / math.sqrt(2))) / 2).astype(x.dtype)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def rsqrt(x):
    return 1 / np.sqrt(x)


def softmax(data, axis=-1):
    powers = np.exp(data - np.max(data, axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def log_softmax(data, axis=-1):
    shifted = data - np.max(data, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def _along(vector, axis, data):
    """A vector as a tensor that broadcasts along one axis of ``data``."""
    shape = [1] * np.ndim(data)
    shape[axis] = -1
    return np.reshape(vector, shape)


def bias_add(data, bias, axis=1):
    return data + _along(bias, axis, data)


def dense(data, weight, units=None, out_dtype=""):
    return np.matmul(data, np.transpose(weight))


def linear(data, weight, bias=None):
    result = dense(data, weight)
    return result if bias is None else result + bias


def relay_matmul(tensor_a, tensor_b, units=None, out_dtype="", transpose_a=False, transpose_b=False):
    left = np.transpose(tensor_a) if transpose_a else tensor_a
    right = np.transpose(tensor_b) if transpose_b else tensor_b
    return np.matmul(left, right)


def batch_matmul(tensor_a, tensor_b, out_dtype="", transpose_a=False, transpose_b=True):
    left = np.swapaxes(tensor_a, 1, 2) if transpose_a else tensor_a
    right = np.swapaxes(tensor_b, 1, 2) if transpose_b else tensor_b
    return np.matmul(left, right)


def batch_flatten(data):
    return np.reshape(data, (len(data), -1))


def dropout(data, rate=0.5):
    return data


def pad(data, pad_width, mode="constant", pad_value=0, pad_mode=None, **more):
    """NumPy's; ``pad_value`` and ``pad_mode`` are Relay's, whose third argument is the value."""
    if not isinstance(mode, str):
        mode, pad_value = "constant", mode
    mode = pad_mode or mode
    if mode == "constant":
        more = {"constant_values": pad_value, **more}
    return np.pad(data, pad_width, mode=mode, **more)


# -- normalizations ----------------------------------------------------------------------------------------


def _standardize(data, axes, epsilon):
    mean = np.mean(data, axis=axes, keepdims=True)
    variance = np.mean((data - mean) ** 2, axis=axes, keepdims=True)
    return (data - mean) / np.sqrt(variance + epsilon)


def layer_norm(data, gamma, beta, axis=-1, epsilon=1e-5, center=True, scale=True):
    result = _standardize(data, axis, epsilon)
    result = result * _along(gamma, axis, data) if scale else result
    return result + _along(beta, axis, data) if center else result


def instance_norm(data, gamma, beta, axis=1, epsilon=1e-5, center=True, scale=True):
    axes = tuple(each for each in range(1, data.ndim) if each != axis % data.ndim)
    result = _standardize(data, axes, epsilon)
    result = result * _along(gamma, axis, data) if scale else result
    return result + _along(beta, axis, data) if center else result


def group_norm(data, gamma, beta, num_groups, axis=1, epsilon=1e-5, center=True, scale=True):
    assert axis == 1
    grouped = np.reshape(data, (data.shape[0], num_groups, -1))
    result = np.reshape(_standardize(grouped, 2, epsilon), data.shape)
    result = result * _along(gamma, 1, data) if scale else result
    return result + _along(beta, 1, data) if center else result


def batch_norm(data, gamma, beta, moving_mean, moving_var, axis=1, epsilon=1e-5, center=True, scale=True):
    result = (data - _along(moving_mean, axis, data)) / np.sqrt(_along(moving_var, axis, data) + epsilon)
    result = result * _along(gamma, axis, data) if scale else result
    result = result + _along(beta, axis, data) if center else result
    return result, moving_mean, moving_var


def l2_normalize(data, eps, axis=None):
    axes = None if axis is None else tuple(axis)
    squares = np.sum(data**2, axis=axes, keepdims=True)
    return data / np.sqrt(np.maximum(squares, np.asarray(eps, data.dtype)))


# -- windows -----------------------------------------------------------------------------------------------


def _each(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """One number an axis."""
    return (value,) * rank if isinstance(value, int) else tuple(value) * (rank // len(value))


def _sides(padding: int | Sequence[int], rank: int) -> list[tuple[int, int]]:
    """Before and after each axis; twice as many numbers as axes are all befores, then all afters."""
    if not isinstance(padding, int) and len(padding) == 2 * rank:
        return list(zip(padding[:rank], padding[rank:], strict=True))
    return [(each, each) for each in _each(padding, rank)]


def _windows(data, size, strides, dilation, padding, filler, ceil_mode=False):
    """Each window of the last axes, with its index in the result, which comes first."""
    rank = len(size)
    sides = [(0, 0)] * (data.ndim - rank) + padding
    spans = [(each - 1) * step + 1 for each, step in zip(size, dilation, strict=True)]
    whole = [length + sum(side) for length, side in zip(data.shape[-rank:], padding, strict=True)]
    rounded = math.ceil if ceil_mode else math.floor
    counts = [
        rounded((length - span) / stride) + 1
        for length, span, stride in zip(whole, spans, strides, strict=True)
    ]
    if ceil_mode:  # room for a last window that hangs over
        more = [
            max(0, (count - 1) * stride + span - length)
            for count, stride, span, length in zip(counts, strides, spans, whole, strict=True)
        ]
        sides = sides[: data.ndim - rank] + [
            (before, after + extra) for (before, after), extra in zip(padding, more, strict=True)
        ]
    padded = np.pad(data, sides, constant_values=filler)
    yield tuple(counts), None
    for index in itertools.product(*map(range, counts)):
        cut = tuple(
            slice(at * stride, at * stride + span, step)
            for at, stride, span, step in zip(index, strides, spans, dilation, strict=True)
        )
        yield index, padded[(..., *cut)]


def _convolution(rank: int) -> Callable[..., object]:
    plain, kernel = "NC" + "DHW"[3 - rank :], "OI" + "DHW"[3 - rank :]

    def convolution(
        data,
        weight,
        bias=None,
        strides=1,
        padding=0,
        dilation=1,
        groups=1,
        channels=None,
        kernel_size=None,
        data_layout=plain,
        kernel_layout=kernel,
    ):
        images = np.transpose(data, [data_layout.index(letter) for letter in plain])
        filters = np.transpose(weight, [kernel_layout.index(letter) for letter in kernel])
        size = filters.shape[2:]
        windows = _windows(
            images, size, _each(strides, rank), _each(dilation, rank), _sides(padding, rank), 0
        )
        counts, _ = next(windows)
        result = np.zeros((images.shape[0], filters.shape[0], *counts), data.dtype)
        wide, deep = filters.shape[0] // groups, images.shape[1] // groups
        for index, window in windows:
            for out in range(filters.shape[0]):
                group = out // wide
                part = window[:, group * deep : (group + 1) * deep]
                axes = tuple(range(1, part.ndim))
                result[(slice(None), out, *index)] = np.sum(part * filters[out], axis=axes)
        if bias is not None:
            result = result + _along(bias, 1, result)
        return np.transpose(result, [plain.index(letter) for letter in data_layout])

    return convolution


conv1d, conv2d, conv3d = map(_convolution, (1, 2, 3))


def _pool(rank: int, reduce: Callable[..., object], filler: float) -> Callable[..., object]:
    def pool(data, pool_size=1, strides=1, dilation=1, padding=0, ceil_mode=False):
        size = _each(pool_size, rank)
        least = filler if np.issubdtype(data.dtype, np.floating) else np.iinfo(data.dtype).min
        sides = _sides(padding, rank)
        windows = _windows(data, size, _each(strides, rank), _each(dilation, rank), sides, least, ceil_mode)
        counts, _ = next(windows)
        result = np.zeros((*data.shape[:-rank], *counts), data.dtype)
        for index, window in windows:
            result[(..., *index)] = reduce(window, tuple(range(-rank, 0)))
        return result

    return pool


def _largest(window, axes):
    return np.max(window, axis=axes)


def _average(window, axes):
    """Of what lies inside the image: padding does not count."""
    return np.nanmean(window, axis=axes)


max_pool1d, max_pool2d, max_pool3d = (_pool(rank, _largest, -np.inf) for rank in (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = (_pool(rank, _average, np.nan) for rank in (1, 2, 3))


def global_max_pool2d(data):
    return np.max(data, axis=(2, 3), keepdims=True)


def global_avg_pool2d(data):
    return np.mean(data, axis=(2, 3), keepdims=True)


def _adaptive(rank: int, reduce: Callable[..., object]) -> Callable[..., object]:
    def pool(data, output_size=None):
        counts = data.shape[-rank:] if output_size is None else _each(output_size, rank)
        result = np.zeros((*data.shape[:-rank], *counts), data.dtype)
        for index in itertools.product(*map(range, counts)):
            cut = tuple(
                slice(at * length // count, -((-(at + 1) * length) // count))
                for at, count, length in zip(index, counts, data.shape[-rank:], strict=True)
            )
            result[(..., *index)] = reduce(data[(..., *cut)], axis=tuple(range(-rank, 0)))
        return result

    return pool


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (
    _adaptive(rank, np.mean) for rank in (1, 2, 3)
)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _adaptive(rank, np.max) for rank in (1, 2, 3)
)


def depth_to_space(data, block_size):
    """Depth, column, row: the channel blocks come first (DCR)."""
    count, channels, height, width = data.shape
    blocks = np.reshape(data, (count, block_size, block_size, channels // block_size**2, height, width))
    moved = np.transpose(blocks, (0, 3, 4, 1, 5, 2))
    return np.reshape(moved, (count, channels // block_size**2, height * block_size, width * block_size))


def upsampling(data, scale_h=1, scale_w=1):
    return np.repeat(np.repeat(data, scale_h, axis=2), scale_w, axis=3)


# -- losses and attention ----------------------------------------------------------------------------------


def scaled_dot_product_attention(query, key, value):
    scores = np.matmul(query, np.swapaxes(key, -1, -2)) / np.asarray(math.sqrt(query.shape[-1]), query.dtype)
    return np.matmul(softmax(scores), value)


# -- what Relay has and NumPy has under another name --------------------------------------------------------


def cast(data, dtype):
    return data.astype(dtype)


def reverse(data, axis):
    return np.flip(data, axis)


def topk(data, k=1, axis=-1, ret_type="both", is_ascend=False, dtype="int32"):
    order = np.argsort(data if is_ascend else -data, axis=axis, kind="stable")
    order = np.take(order, np.arange(k), axis=axis)
    values = np.take_along_axis(data, order, axis)
    return {"both": (values, order.astype(dtype)), "values": values, "indices": order.astype(dtype)}[ret_type]


def one_hot(indices, on_value, off_value, depth, axis, dtype):
    positions = np.expand_dims(indices, axis)
    along = _along(np.arange(depth), axis, positions)
    return np.where(positions == along, on_value, off_value).astype(dtype)
