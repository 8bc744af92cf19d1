"""PyTorch's functions of neural networks in plain NumPy, from their definitions in its manual, in float64.

A name here stands before the one of neural.py, which has Relay's parameters.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from tests.tinynn.python_twin import neural


def _wide(function):
    """Computed in float64; the result has the dtype of the first argument."""

    @functools.wraps(function)
    def call(*args, **keywords):
        def widen(value):
            return (
                value.astype(np.float64)
                if getattr(value, "dtype", None) in (np.float32, np.float16)
                else value
            )

        if "dim" in keywords:
            keywords["axis"] = keywords.pop("dim")
        result = function(*map(widen, args), **{name: widen(value) for name, value in keywords.items()})
        return np.asarray(result).astype(np.asarray(args[0]).dtype)

    call.__module__ = __name__
    return call


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


@_wide
def gelu(x, approximate="none"):
    if approximate == "tanh":
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x / 2 * (1 + neural.erf(x / math.sqrt(2)))


@_wide
def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1))


@_wide
def celu(x, alpha=1.0):
    return np.maximum(0, x) + np.minimum(0, alpha * (np.exp(np.minimum(x, 0) / alpha) - 1))


@_wide
def selu(x):
    return 1.0507009873554805 * (
        np.maximum(0, x) + np.minimum(0, 1.6732632423543772 * (np.exp(np.minimum(x, 0)) - 1))
    )


@_wide
def leaky_relu(x, negative_slope=0.01, alpha=None):
    return np.where(x >= 0, x, x * (negative_slope if alpha is None else alpha))


@_wide
def prelu(x, weight, axis=1):
    if np.size(weight) == 1:
        return np.where(x >= 0, x, x * np.reshape(weight, ()))
    return neural.prelu(x, weight, axis)


@_wide
def swish(x):
    return x * _sigmoid(x)


silu = swish


@_wide
def mish(x):
    return x * np.tanh(np.log1p(np.exp(x)))


@_wide
def hardsigmoid(x):
    return np.clip(x / 6 + 0.5, 0, 1)


@_wide
def hardswish(x):
    return x * (np.clip(x + 3, 0, 6) / 6)


@_wide
def hardtanh(x, min_val=-1.0, max_val=1.0):
    return np.clip(x, min_val, max_val)


@_wide
def relu6(x):
    return np.clip(x, 0, 6)


@_wide
def softplus(x, beta=1.0, threshold=20.0):
    return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, threshold))) / beta)


@_wide
def softsign(x):
    return x / (1 + np.abs(x))


@_wide
def tanhshrink(x):
    return x - np.tanh(x)


@_wide
def softshrink(x, lambd=0.5):
    return np.sign(x) * np.maximum(np.abs(x) - lambd, 0)


@_wide
def hardshrink(x, lambd=0.5):
    return np.where(np.abs(x) <= lambd, 0, x)


@_wide
def threshold(x, threshold, value):
    return np.where(x <= threshold, value, x)


@_wide
def logsigmoid(x):
    return -np.logaddexp(0, -x)


@_wide
def softmax(x, axis=-1):
    return neural.softmax(x, axis)


@_wide
def log_softmax(x, axis=-1):
    return neural.log_softmax(x, axis)


@_wide
def softmin(x, axis=-1):
    return neural.softmax(-x, axis)


@_wide
def glu(x, axis=-1):
    one, other = np.split(x, 2, axis)
    return one * _sigmoid(other)


@_wide
def logsumexp(x, axis=None, keepdims=False):
    return np.logaddexp.reduce(x, axis=axis, keepdims=keepdims)


def dropout(x, p=0.5, training=False, rate=0.5):
    assert not training
    return x


# -- layers -----------------------------------------------------------


def _convolution(rank):
    relays = getattr(neural, f"conv{rank}d")

    def convolution(data, weight, bias=None, strides=1, padding=0, dilation=1, groups=1, stride=None, **more):
        strides = strides if stride is None else stride
        if padding == "same":
            letters = more.get("kernel_layout", "OI" + "DHW"[3 - rank :])
            steps = np.broadcast_to(dilation, rank).tolist()
            sizes = [size for size, letter in zip(weight.shape, letters, strict=True) if letter in "DHW"]
            totals = [step * (size - 1) for step, size in zip(steps, sizes, strict=True)]
            padding = (*(total // 2 for total in totals), *(total - total // 2 for total in totals))
        if padding == "valid":
            padding = 0
        return relays(data, weight, bias, strides, padding, dilation, groups, **more)

    return convolution


conv1d, conv2d, conv3d = map(_convolution, (1, 2, 3))


def _convolution_transpose(rank):
    """Each element of the data adds its multiple of the weight to the result."""

    def convolution(data, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        steps, pads, more, spread = (
            neural._each(each, rank) for each in (stride, padding, output_padding, dilation)
        )
        size = weight.shape[2:]
        outs = weight.shape[1]
        whole = [
            (length - 1) * step + far * (kernel - 1) + 1 + extra
            for length, step, far, kernel, extra in zip(
                data.shape[2:], steps, spread, size, more, strict=True
            )
        ]
        result = np.zeros((data.shape[0], outs * groups, *whole))
        deep = data.shape[1] // groups
        for channel in range(data.shape[1]):
            group = channel // deep
            for index in itertools.product(*map(range, data.shape[2:])):
                for tap in itertools.product(*map(range, size)):
                    at = tuple(p * s + t * d for p, s, t, d in zip(index, steps, tap, spread, strict=True))
                    value = np.outer(
                        data[(slice(None), channel, *index)], weight[(channel, slice(None), *tap)]
                    )
                    result[(slice(None), slice(group * outs, (group + 1) * outs), *at)] += value
        cut = tuple(slice(pad, length - pad) for pad, length in zip(pads, whole, strict=True))
        result = result[(..., *cut)]
        if bias is not None:
            result = result + neural._along(bias, 1, result)
        return result.astype(data.dtype)

    return convolution


conv_transpose1d, conv_transpose2d, conv_transpose3d = map(_convolution_transpose, (1, 2, 3))


def _pool(kind, rank):
    relays = getattr(neural, f"{kind}_pool{rank}d")

    def pool(data, kernel_size=None, strides=None, padding=0, stride=None, pool_size=None, **more):
        strides = stride if stride is not None else strides
        if pool_size is not None:
            return relays(data, pool_size, 1 if strides is None else strides, padding=padding, **more)
        strides = kernel_size if strides is None else strides
        counted = more.pop("count_include_pad", True)
        if kind == "avg" and counted and padding:
            sides = neural._sides(padding, rank)
            data, padding = np.pad(data, [(0, 0)] * (data.ndim - rank) + sides), 0
        if kind == "avg" and not padding and not more:  # Relay's marks what is outside of the data by NaN
            return neural._pool(rank, lambda window, axes: np.mean(window, axis=axes), 0)(
                data, kernel_size, strides
            )
        return relays(data, kernel_size, strides, padding=padding, **more)

    return pool


max_pool1d, max_pool2d, max_pool3d = (_pool("max", rank) for rank in (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = (_pool("avg", rank) for rank in (1, 2, 3))


@_wide
def _batch_norm(x, running_mean, running_var, weight=None, bias=None, eps=1e-5):
    result = (x - neural._along(running_mean, 1, x)) / np.sqrt(neural._along(running_var, 1, x) + eps)
    result = result if weight is None else result * neural._along(weight, 1, x)
    return result if bias is None else result + neural._along(bias, 1, x)


def batch_norm(x, *vectors, **keywords):
    if "gamma" in keywords:
        return neural.batch_norm(x, *vectors, **keywords)
    return _batch_norm(x, *vectors, **keywords)


def _shape_norm(x, axes, weight, bias, eps):
    result = neural._standardize(x, axes, eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


@_wide
def layer_norm(x, normalized_shape=None, weight=None, bias=None, eps=1e-5, **keywords):
    if "gamma" in keywords or (np.ndim(normalized_shape) == 1 and isinstance(normalized_shape, np.ndarray)):
        given = [each for each in (normalized_shape, weight) if each is not None]
        return neural.layer_norm(x, *given, **keywords)
    count = 1 if np.ndim(normalized_shape) == 0 else len(normalized_shape)
    return _shape_norm(x, tuple(range(-count, 0)), weight, bias, eps)


@_wide
def rms_norm(x, normalized_shape, weight=None, eps=2.0**-23):
    if isinstance(normalized_shape, np.ndarray):
        normalized_shape, weight = normalized_shape.shape, normalized_shape
    count = 1 if np.ndim(normalized_shape) == 0 else len(normalized_shape)
    result = x / np.sqrt(np.mean(x * x, axis=tuple(range(-count, 0)), keepdims=True) + eps)
    return result if weight is None else result * weight


@_wide
def _group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    ones = np.ones(x.shape[1])
    gamma, beta = (ones if weight is None else weight), (0 * ones if bias is None else bias)
    return neural.group_norm(x, gamma, beta, num_groups, epsilon=eps)


def group_norm(x, *args, **keywords):
    relays = args and isinstance(args[0], np.ndarray)
    return (neural.group_norm if relays else _group_norm)(x, *args, **keywords)


@_wide
def instance_norm(x, gamma=None, beta=None, axis=1, weight=None, bias=None, eps=1e-5):
    ones = np.ones(x.shape[1])
    gamma, beta = (gamma if gamma is not None else weight), (beta if beta is not None else bias)
    return neural.instance_norm(
        x, ones if gamma is None else gamma, 0 * ones if beta is None else beta, epsilon=eps
    )


@_wide
def normalize(x, p=2.0, axis=1, eps=1e-12):
    return x / np.maximum(np.linalg.norm(x, ord=p, axis=axis, keepdims=True), eps)


def embedding(indices, weight):
    return weight[indices]


def one_hot(indices, num_classes=None, *more, **keywords):
    if more or "depth" in keywords:
        return neural.one_hot(indices, num_classes, *more, **keywords)
    return (np.expand_dims(indices, -1) == np.arange(num_classes)).astype(keywords.get("dtype", np.int64))


@_wide
def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=False):
    """Each axis by itself, from its definition."""
    rank = x.ndim - 2
    for axis in range(2, x.ndim):
        length = x.shape[axis]
        if size is not None:
            count = size if np.ndim(size) == 0 else size[axis - 2]
        else:
            factor = scale_factor if np.ndim(scale_factor) == 0 else scale_factor[axis - 2]
            count = int(length * factor)
        at = np.arange(count)
        if mode == "nearest":
            x = np.take(x, np.floor(at * (length / count)).astype(int), axis)
            continue
        positions = (
            at * (length - 1) / max(count - 1, 1)
            if align_corners
            else np.maximum((at + 0.5) * length / count - 0.5, 0)
        )
        low = np.minimum(np.floor(positions).astype(int), length - 1)
        high = np.minimum(low + 1, length - 1)
        rest = np.reshape(positions - low, [-1 if each == axis else 1 for each in range(rank + 2)])
        x = np.take(x, low, axis) * (1 - rest) + np.take(x, high, axis) * rest
    return x


upsample = interpolate


def pixel_shuffle(x, upscale_factor):
    n, c, h, w = x.shape
    r = upscale_factor
    blocks = np.reshape(x, (n, c // r**2, r, r, h, w))
    return np.reshape(np.transpose(blocks, (0, 1, 4, 2, 5, 3)), (n, c // r**2, h * r, w * r))


def pixel_unshuffle(x, downscale_factor):
    *batch, c, h, w = x.shape
    r = downscale_factor
    blocks = np.reshape(x, (-1, c, h // r, r, w // r, r))
    return np.reshape(np.transpose(blocks, (0, 1, 3, 5, 2, 4)), (*batch, c * r**2, h // r, w // r))


@_wide
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None
):
    scores = np.matmul(query, np.swapaxes(key, -1, -2)) * (
        1 / math.sqrt(query.shape[-1]) if scale is None else scale
    )
    if is_causal:
        attn_mask = np.tril(np.ones(scores.shape[-2:], bool))
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    return np.matmul(neural.softmax(scores), value)


# -- losses -----------------------------------------------------------


def _reduce_losses(losses, reduction):
    return {"mean": np.mean, "sum": np.sum, "none": lambda each: each}[reduction](losses)


@_wide
def mse_loss(x, y, reduction="mean"):
    return _reduce_losses((x - y) ** 2, reduction)


@_wide
def l1_loss(x, y, reduction="mean"):
    return _reduce_losses(np.abs(x - y), reduction)


@_wide
def smooth_l1_loss(x, y, beta=1.0, reduction="mean"):
    gap = np.abs(x - y)
    return _reduce_losses(np.where(gap < beta, gap**2 / (2 * beta), gap - beta / 2), reduction)


@_wide
def huber_loss(x, y, delta=1.0, reduction="mean"):
    gap = np.abs(x - y)
    return _reduce_losses(np.where(gap <= delta, gap**2 / 2, delta * (gap - delta / 2)), reduction)


@_wide
def binary_cross_entropy(x, y, weight=None, reduction="mean"):
    losses = -(y * np.maximum(np.log(x), -100) + (1 - y) * np.maximum(np.log(1 - x), -100))
    return _reduce_losses(losses if weight is None else losses * weight, reduction)


@_wide
def binary_cross_entropy_with_logits(x, y, weight=None, reduction="mean", pos_weight=1.0):
    losses = -(pos_weight * y * np.log(_sigmoid(x)) + (1 - y) * np.log(1 - _sigmoid(x)))
    return _reduce_losses(losses if weight is None else losses * weight, reduction)


@_wide
def kl_div(x, y, reduction="mean", log_target=False):
    losses = np.exp(y) * (y - x) if log_target else y * (np.log(np.where(y == 0, 1, y)) - x)
    return np.sum(losses) / len(x) if reduction == "batchmean" else _reduce_losses(losses, reduction)


@_wide
def nll_loss(x, target, weight=None, ignore_index=-100, reduction="mean"):
    kept = target != ignore_index
    classes = np.where(kept, target, 0)
    chosen = np.squeeze(np.take_along_axis(x, np.expand_dims(classes, 1), 1), 1)
    weights = kept * (np.ones(x.shape[1]) if weight is None else weight)[classes]
    losses = -chosen * weights
    return np.sum(losses) / np.sum(weights) if reduction == "mean" else _reduce_losses(losses, reduction)


@_wide
def cross_entropy(x, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    logs = neural.log_softmax(x, 1)
    if np.issubdtype(target.dtype, np.integer):
        return nll_loss(logs, target, weight, ignore_index, reduction)
    smooth = target * (1 - label_smoothing) + label_smoothing / x.shape[1]
    scale = 1 if weight is None else neural._along(weight, 1, x)
    return _reduce_losses(-np.sum(logs * smooth * scale, axis=1), reduction)


@_wide
def cosine_similarity(x1, x2, axis=1, eps=1e-8):
    norms = np.maximum(np.linalg.norm(x1, axis=axis), eps) * np.maximum(np.linalg.norm(x2, axis=axis), eps)
    return np.sum(x1 * x2, axis=axis) / norms
