"""Say what the operators of neural networks compute, in NumPy: slow and obvious."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from nnmagic.relay.reference.elementwise import trunc_divide
from nnmagic.relay.reference.eval_call import Array, EvalCall, Rule
from nnmagic.relay.reference.shapes import to_layout

_PLAIN = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _along(values: Array, data: Array, axis: int) -> Any:
    """Return a vector that broadcasts along one axis."""
    return values.reshape([-1 if index == axis % data.ndim else 1 for index in range(data.ndim)])


def _both_sides(padding: tuple[int, ...], rank: int) -> list[tuple[int, int]]:
    """Return the padding before and after each axis: all equal, one an axis, or all before all after."""
    if len(padding) == 1:
        padding = padding * rank
    if len(padding) == rank:
        padding = padding * 2
    return list(zip(padding[:rank], padding[rank:], strict=True))


def last_axes(data: Array, index: Sequence[int | slice]) -> Any:
    """Return the part of a tensor that indices of its last axes select."""
    whole: tuple[Any, ...] = (..., *index)
    return data[whole]


def _windows(
    data: Array,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilation: tuple[int, ...],
    out: tuple[int, ...],
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Yield each position in a window, with the element there of every window."""
    for at in product(*map(range, kernel)):
        starts = [offset * step for offset, step in zip(at, dilation, strict=True)]
        yield (
            at,
            last_axes(
                data,
                [
                    slice(start, start + (size - 1) * stride + 1, stride)
                    for start, size, stride in zip(starts, out, strides, strict=True)
                ],
            ),
        )


def _correlate(
    x: Array, weight: Array, strides: tuple[int, ...], dilation: tuple[int, ...], groups: int, dtype: Any
) -> Any:
    """Return the convolution of padded NC... with OI... ."""
    kernel = weight.shape[2:]
    out = tuple(
        (size - (width - 1) * step - 1) // stride + 1
        for size, width, step, stride in zip(x.shape[2:], kernel, dilation, strides, strict=True)
    )
    x = x.astype(dtype).reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    weight = weight.astype(dtype).reshape(groups, len(weight) // groups, *weight.shape[1:])
    total = np.zeros((x.shape[0], groups, weight.shape[1], *out), dtype)
    for at, part in _windows(x, kernel, strides, dilation, out):
        total += np.einsum("ngi...,goi->ngo...", part, last_axes(weight, at))
    return total.reshape(x.shape[0], groups * weight.shape[1], *out)


def _conv(call: EvalCall, data: Array, weight: Array) -> Any:
    layout = call["data_layout"]
    rank = len(call["strides"])
    x = to_layout(data, layout, _PLAIN[rank])
    w = to_layout(weight, call["kernel_layout"], "OI" + _PLAIN[rank][2:])
    if w.shape[1] * call["groups"] != x.shape[1]:  # depthwise layouts: OI stands for channels, multiplier
        w = w.reshape(-1, x.shape[1] // call["groups"], *w.shape[2:])
    x = np.pad(x, [(0, 0), (0, 0), *_both_sides(call["padding"], rank)])
    result = _correlate(x, w, call["strides"], call["dilation"], call["groups"], call.dtype)
    return to_layout(result, _PLAIN[rank], call["out_layout"] or layout)


def _conv_transpose(call: EvalCall, data: Array, weight: Array) -> Any:
    layout, rank, groups = call["data_layout"], len(call["strides"]), call["groups"]
    x = to_layout(data, layout, _PLAIN[rank])
    w = to_layout(weight, call["kernel_layout"], "IO" + _PLAIN[rank][2:])
    strides, dilation = call["strides"], call["dilation"]
    spread = np.zeros(
        (*x.shape[:2], *((n - 1) * s + 1 for n, s in zip(x.shape[2:], strides, strict=True))), x.dtype
    )
    last_axes(spread, [slice(None, None, stride) for stride in strides])[...] = x
    sides = []
    for number, (before, after) in enumerate(_both_sides(call["padding"], rank)):
        reach = (w.shape[2 + number] - 1) * dilation[number]
        sides.append((reach - before, reach - after + call["output_padding"][number]))
    spread = np.pad(spread, [(0, 0), (0, 0), *((max(0, a), max(0, b)) for a, b in sides)])
    crop = [slice(-min(0, a) or None, min(0, b) or None) for a, b in sides]
    spread = last_axes(spread, crop)
    w = w.reshape(groups, len(w) // groups, *w.shape[1:]).swapaxes(1, 2)
    w = w.reshape(groups * w.shape[1], *w.shape[2:])
    w = last_axes(w, [slice(None, None, -1)] * rank)
    result = _correlate(spread, w, (1,) * rank, dilation, groups, call.dtype)
    return to_layout(result, _PLAIN[rank], call["out_layout"] or layout)


def _pool(*, average: bool) -> Rule:
    def rule(call: EvalCall, data: Array) -> Any:
        layout = call["layout"]
        rank = len(call["pool_size"])
        x = to_layout(data, layout, _PLAIN[rank])
        out = to_layout(np.empty(call.shape, bool), call["out_layout"] or layout, _PLAIN[rank]).shape[2:]
        size, strides, dilation = call["pool_size"], call["strides"], call["dilation"]
        sides = []
        for number, (before, after) in enumerate(_both_sides(call["padding"], rank)):
            reach = (out[number] - 1) * strides[number] + (size[number] - 1) * dilation[number] + 1
            sides.append((before, max(after, reach - before - x.shape[2 + number])))
        widths = [(0, 0), (0, 0), *sides]
        if average:
            padded = np.pad(x, widths)
            declared = _both_sides(call["padding"], rank) if call["count_include_pad"] else [(0, 0)] * rank
            ones = np.pad(np.ones(x.shape, x.dtype), [(0, 0), (0, 0), *declared], constant_values=1)
            rest = [(a - b, c - d) for (a, c), (b, d) in zip(sides, declared, strict=True)]
            inside = np.pad(ones, [(0, 0), (0, 0), *rest])
            total = sum(window for _, window in _windows(padded, size, strides, dilation, out))
            count = sum(window for _, window in _windows(inside, size, strides, dilation, out))
            count = np.maximum(np.asarray(count), 1)
            result = trunc_divide(np.asarray(total), count) if x.dtype.kind in "iu" else total / count
        else:
            lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
            padded = np.pad(x, widths, constant_values=lowest)
            result = np.maximum.reduce(
                [window for _, window in _windows(padded, size, strides, dilation, out)]
            )
        return to_layout(np.asarray(result), _PLAIN[rank], call["out_layout"] or layout)

    return rule


def _mean(data: Array, axis: tuple[int, ...], *, keepdims: bool = False) -> Any:
    """Return the mean; that of nothing is NaN, without NumPy's warning."""
    if all(data.shape[each] for each in axis):
        return np.mean(data, axis=axis, keepdims=keepdims)
    return np.full_like(np.sum(data, axis=axis, keepdims=keepdims), np.nan)


def _adaptive(function: Callable[..., Any]) -> Rule:
    def rule(call: EvalCall, data: Array) -> Any:
        layout = call["layout"]
        rank = data.ndim - 2
        x = to_layout(data, layout, _PLAIN[rank])
        result = np.empty(to_layout(np.empty(call.shape, bool), layout, _PLAIN[rank]).shape, data.dtype)
        for at in np.ndindex(result.shape[2:]):
            part = tuple(
                slice(i * size // count, -(-(i + 1) * size // count))
                for i, size, count in zip(at, x.shape[2:], result.shape[2:], strict=True)
            )
            last_axes(result, at)[...] = function(last_axes(x, part), axis=tuple(range(2, 2 + rank)))
        return to_layout(result, _PLAIN[rank], layout)

    return rule


def _global(function: Callable[..., Any]) -> Rule:
    def rule(call: EvalCall, data: Array) -> Any:
        axes = tuple(axis for axis, letter in enumerate(call["layout"]) if letter in "DHW")
        return function(data, axis=axes, keepdims=True)

    return rule


def _softmax(call: EvalCall, data: Array) -> Any:
    powers = np.exp(data - data.max(axis=call["axis"], keepdims=True))
    return powers / powers.sum(axis=call["axis"], keepdims=True)


def _log_softmax(call: EvalCall, data: Array) -> Any:
    shifted = data - data.max(axis=call["axis"], keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=call["axis"], keepdims=True))


def _scale_and_shift(call: EvalCall, x: Array, gamma: Array, beta: Array, axis: int) -> Any:
    x = x * _along(gamma, x, axis) if call["scale"] else x
    return x + _along(beta, x, axis) if call["center"] else x


def _batch_norm(call: EvalCall, x: Array, gamma: Array, beta: Array, mean: Array, var: Array) -> Any:
    axis = call["axis"]
    normal = (x - _along(mean, x, axis)) / np.sqrt(_along(var, x, axis) + x.dtype.type(call["epsilon"]))
    return _scale_and_shift(call, normal, gamma, beta, axis), mean, var


def _normalize(x: Array, axes: tuple[int, ...], epsilon: float) -> Any:
    mean = x.mean(axis=axes, keepdims=True)
    spread = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(spread + x.dtype.type(epsilon))


def _layer_norm(call: EvalCall, x: Array, gamma: Array, beta: Array) -> Any:
    normal = _normalize(x, (call["axis"] % x.ndim,), call["epsilon"])
    return _scale_and_shift(call, normal, gamma, beta, call["axis"])


def _instance_norm(call: EvalCall, x: Array, gamma: Array, beta: Array) -> Any:
    axes = tuple(axis for axis in range(1, x.ndim) if axis != call["axis"] % x.ndim)
    return _scale_and_shift(call, _normalize(x, axes, call["epsilon"]), gamma, beta, call["axis"])


def _group_norm(call: EvalCall, x: Array, gamma: Array, beta: Array) -> Any:
    axis, groups = call["axis"] % x.ndim, call["num_groups"]
    split = x.reshape(*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :])
    axes = tuple(index for index in range(1, split.ndim) if index != axis)
    return _scale_and_shift(
        call, _normalize(split, axes, call["epsilon"]).reshape(x.shape), gamma, beta, axis
    )


def _l2_normalize(call: EvalCall, x: Array) -> Any:
    axes = tuple(call["axis"]) if call["axis"] is not None else None
    squares = np.sum(x * x, axis=axes, keepdims=True)
    return x / np.sqrt(np.maximum(squares, x.dtype.type(call["eps"])))


def _lrn(call: EvalCall, x: Array) -> Any:
    axis, half = call["axis"], call["size"] // 2
    squares = np.moveaxis(
        np.pad(np.moveaxis(x * x, axis, 0), [(half, half), *[(0, 0)] * (x.ndim - 1)]), 0, axis
    )
    count = x.shape[axis]
    total = sum(np.take(squares, np.arange(start, start + count), axis) for start in range(2 * half + 1))
    scale = call["bias"] + call["alpha"] / call["size"] * np.asarray(total)
    return x / scale ** call["beta"]


def _nll_loss(call: EvalCall, predictions: Array, targets: Array, weights: Array) -> Any:
    ignored = targets == call["ignore_index"]
    index = np.expand_dims(np.where(ignored, 0, targets), 1)
    picked = -np.squeeze(np.take_along_axis(predictions, index, 1), 1)
    weight = np.where(ignored, 0, weights[np.where(ignored, 0, targets)])
    if call["reduction"] == "none":
        return picked * weight
    total = np.sum(picked * weight)
    return np.asarray(total / weight.sum() if call["reduction"] == "mean" else total)


RULES: dict[str, Rule] = {
    **dict.fromkeys(["nn.conv1d", "nn.conv2d", "nn.conv3d"], _conv),
    **dict.fromkeys(["nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"], _conv_transpose),
    **{f"nn.max_pool{rank}d": _pool(average=False) for rank in (1, 2, 3)},
    **{f"nn.avg_pool{rank}d": _pool(average=True) for rank in (1, 2, 3)},
    **{f"nn.adaptive_max_pool{rank}d": _adaptive(np.max) for rank in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{rank}d": _adaptive(_mean) for rank in (1, 2, 3)},
    "nn.global_max_pool2d": _global(np.max),
    "nn.global_avg_pool2d": _global(_mean),
    "nn.relu": lambda _given, x: np.maximum(x, x.dtype.type(0)),
    "nn.leaky_relu": lambda call, x: np.where(x > 0, x, x * x.dtype.type(call["alpha"])),
    "nn.prelu": lambda call, x, alpha: np.where(x > 0, x, x * _along(alpha, x, call["axis"])),
    "nn.bias_add": lambda call, x, bias: x + _along(bias, x, call["axis"]),
    "nn.dropout": lambda _given, x: (x, np.ones_like(x)),
    "nn.softmax": _softmax,
    "nn.fast_softmax": _softmax,
    "nn.log_softmax": _log_softmax,
    "nn.batch_norm": _batch_norm,
    "nn.layer_norm": _layer_norm,
    "nn.instance_norm": _instance_norm,
    "nn.group_norm": _group_norm,
    "nn.l2_normalize": _l2_normalize,
    "nn.lrn": _lrn,
    "nn.cross_entropy": lambda _given, x, y: -np.sum(np.log(x) * y) / x.shape[0],
    "nn.cross_entropy_with_logits": lambda _given, x, y: -np.sum(x * y) / x.shape[0],
    "nn.nll_loss": _nll_loss,
}
