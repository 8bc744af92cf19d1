"""Write out the gradients of networks and of a transformer block by hand, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.backward import Gradients, cross_entropy


def network(
    layers: Any, weights: dict[str, Any], x: Any, t: Any, epsilon: float, momentum: float
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Of the cross entropy of a network's layers, normalised by the batch.

    Returns the loss, gradients by the names of weights, and new running statistics by their names.
    """
    known, backs, moved = {"x": x}, [], {}
    for layer in layers.layers:
        data, own = [known[name] for name in layer.data], [weights[name] for name in layer.weights]
        if layer.operator == "batch_norm":
            known[layer.result], back, *now = _normalised(*data, *own[2:], epsilon)
            for name, old, new in zip(layer.weights[:2], own[:2], now, strict=True):
                moved[name] = (1 - momentum) * old + momentum * new
            backs.append((layer, (*layer.data, *layer.weights[2:]), back))
        else:
            known[layer.result], back = _LAYERS[layer.operator](layer, *data, *own)
            backs.append((layer, (*layer.data, *layer.weights), back))
    value, d = cross_entropy(known[layers.result], t)
    found: dict[str, Any] = {layers.result: d}
    for layer, names, back in reversed(backs):
        for name, part in zip(names, back(found[layer.result]), strict=True):
            found[name] = found[name] + part if name in found else part
    return value, found, moved


def _normalised(x: Any, scale: Any, shift: Any, epsilon: float) -> tuple[Any, ...]:
    axes, count = (0, 2, 3), x.size // x.shape[1]
    mean, variance = x.mean(axes), x.var(axes)
    factor = 1 / np.sqrt(variance + epsilon)
    even = (x - mean[:, None, None]) * factor[:, None, None]

    def back(d: Any) -> tuple[Any, Any, Any]:
        by_shift, by_scale = d.sum(axes), (d * even).sum(axes)
        means = by_shift[:, None, None] / count + even * by_scale[:, None, None] / count
        return (d - means) * (scale * factor)[:, None, None], by_scale, by_shift

    return even * scale[:, None, None] + shift[:, None, None], back, mean, variance * count / (count - 1)


def _strided(layer: Any, x: Any, fill: float) -> tuple[Any, Any]:
    """Return padded data, and slices of what each place of the window reads."""
    pad, size, stride = layer.padding, layer.size, layer.stride
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    count = (padded.shape[2] - size) // stride + 1
    steps = [slice(start, start + stride * (count - 1) + 1, stride) for start in range(size)]
    return padded, [(..., rows, columns) for rows in steps for columns in steps]


def _conv_layer(layer: Any, x: Any, w: Any) -> tuple[Any, Any]:
    padded, places = _strided(layer, x, 0.0)
    taps = w.reshape(*w.shape[:2], -1)
    y = sum(np.tensordot(padded[at], taps[:, :, k], (1, 1)) for k, at in enumerate(places))

    def back(d: Any) -> tuple[Any, Any]:
        dx, last = np.zeros_like(padded), np.moveaxis(d, 1, 3)
        dw = np.stack([np.tensordot(d, padded[at], ((0, 2, 3), (0, 2, 3))) for at in places], axis=2)
        for k, at in enumerate(places):
            dx[at] += np.moveaxis(last @ taps[:, :, k], 3, 1)
        inside = slice(layer.padding, dx.shape[2] - layer.padding)
        return dx[..., inside, inside], dw.reshape(w.shape)

    return np.moveaxis(np.asarray(y), 3, 1), back


def _max_layer(layer: Any, x: Any) -> tuple[Any, Any]:
    padded, places = _strided(layer, x, -np.inf)
    windows = np.stack([padded[at] for at in places])
    first = windows.argmax(axis=0)

    def back(d: Any) -> tuple[Any]:
        dx = np.zeros_like(padded)
        for k, at in enumerate(places):
            dx[at] += np.where(first == k, d, 0)
        inside = slice(layer.padding, dx.shape[2] - layer.padding)
        return (dx[..., inside, inside],)

    return windows.max(axis=0), back


#: From an operator of a network to what gives its result and the way back.
_LAYERS = {
    "conv": _conv_layer,
    "max_pool": _max_layer,
    "relu": lambda _, x: (np.maximum(x, 0), lambda d: (d * (x > 0),)),
    "add": lambda _, one, other: (one + other, lambda d: (d, d)),
    "mean": lambda _, x: (
        x.mean((2, 3)),
        lambda d: (np.broadcast_to(d[:, :, None, None] / (x.shape[2] * x.shape[3]), x.shape),),
    ),
    "linear": lambda _, x, w, b: (x @ w.T + b, lambda d: (d @ w, d.T @ x, d.sum(axis=0))),
}


def transformer_block(heads: int, epsilon: float, *given: Any) -> Gradients:
    """Of the mean square of a block: attention, then two layers with gelu, each after a normalisation."""
    g1, h1, w1, b1, w2, b2, g2, h2, w3, b3, w4, b4, x = given
    count, length, width = x.shape
    one, to_one = _layer_norm(x, g1, h1, epsilon)
    parts = (one @ w1 + b1).reshape(count, length, 3, heads, -1).transpose(2, 0, 3, 1, 4)
    mixed, to_parts = _attention(*parts)
    mixed = mixed.transpose(0, 2, 1, 3).reshape(x.shape)
    middle = x + mixed @ w2 + b2
    two, to_two = _layer_norm(middle, g2, h2, epsilon)
    wide = two @ w3 + b3
    inner = 0.7978845608028654 * (wide + 0.044715 * wide**3)
    bent = np.tanh(inner)
    active = 0.5 * wide * (1 + bent)
    out = middle + active @ w4 + b4

    d = 2 * out / out.size
    d_active, *last = _product_back(active, w4, d)
    slope = 0.7978845608028654 * (1 + 3 * 0.044715 * wide**2)
    d_two, *third = _product_back(two, w3, d_active * 0.5 * (1 + bent + wide * (1 - bent**2) * slope))
    d_middle, *norm_two = to_two(d_two)
    d = d + d_middle
    d_mixed, *second = _product_back(mixed, w2, d)
    d_parts = to_parts(d_mixed.reshape(count, length, heads, -1).transpose(0, 2, 1, 3))
    d_one, *first = _product_back(one, w1, d_parts.transpose(1, 3, 0, 2, 4).reshape(count, length, 3 * width))
    _, *norm_one = to_one(d_one)
    return (out * out).mean(), (*norm_one, *first, *second, *norm_two, *third, *last)


def _product_back(x: Any, w: Any, d: Any) -> tuple[Any, Any, Any]:
    """Return cotangents of the operands of ``x @ w + b``."""
    rows, by_rows = x.reshape(-1, x.shape[-1]), d.reshape(-1, d.shape[-1])
    return d @ w.T, rows.T @ by_rows, by_rows.sum(axis=0)


def _layer_norm(x: Any, scale: Any, shift: Any, epsilon: float) -> tuple[Any, Any]:
    factor = 1 / np.sqrt(x.var(-1, keepdims=True) + epsilon)
    even = (x - x.mean(-1, keepdims=True)) * factor

    def back(d: Any) -> tuple[Any, Any, Any]:
        axes, inner = tuple(range(x.ndim - 1)), d * scale
        means = inner.mean(-1, keepdims=True) + even * (inner * even).mean(-1, keepdims=True)
        return (inner - means) * factor, (d * even).sum(axes), d.sum(axes)

    return even * scale + shift, back


def _attention(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    scale = q.shape[-1] ** -0.5
    scores = q @ k.swapaxes(-1, -2) * scale
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares = powers / powers.sum(axis=-1, keepdims=True)

    def back(d: Any) -> Any:
        by_shares = d @ v.swapaxes(-1, -2)
        inner = shares * (by_shares - (by_shares * shares).sum(axis=-1, keepdims=True)) * scale
        return np.stack([inner @ k, inner.swapaxes(-1, -2) @ q, shares.swapaxes(-1, -2) @ d])

    return shares @ v, back
