"""Write out the gradients of the losses that are trained, by hand, in NumPy: ``(loss, gradients)``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Gradients = tuple[Any, tuple[Any, ...]]


def logistic(w: Any, b: Any, x: Any, y: Any) -> Gradients:
    """Of the mean of ``softplus(z) - tanh(y) * z``."""
    z, t = x @ w + b, np.tanh(y)
    d = (_sigmoid(z) - t) / len(x)
    return (np.logaddexp(z, 0) - t * z).mean(), (x.T @ d, d.sum())


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def cross_entropy(logits: Any, t: Any) -> tuple[Any, Any]:
    """Return the loss of logits and labels, and the loss's derivative by the logits."""
    logits = logits - logits.max(axis=1, keepdims=True)
    powers = np.exp(logits)
    shares = powers / powers.sum(axis=1, keepdims=True)
    rows = np.arange(len(t))
    value = -np.log(shares[rows, t]).mean()
    shares[rows, t] -= 1
    return value, shares / len(t)


def mlp(*given: Any) -> Gradients:
    """Of layers with relu between them: weights and biases in turn, then data and labels."""
    *params, x, t = given
    value, gradients, _ = _layers(params, x, t)
    return value, gradients


def _layers(params: Any, x: Any, t: Any) -> tuple[Any, tuple[Any, ...], Any]:
    inputs = [x]
    for w, b in zip(params[:-2:2], params[1:-2:2], strict=True):
        inputs.append(np.maximum(inputs[-1] @ w + b, 0))
    value, d = cross_entropy(inputs[-1] @ params[-2] + params[-1], t)
    gradients: list[Any] = []
    for number in reversed(range(len(inputs))):
        gradients = [inputs[number].T @ d, d.sum(axis=0), *gradients]
        d = d @ params[2 * number].T
        if number:
            d = d * (inputs[number] > 0)
    return value, tuple(gradients), d


def lenet(*given: Any) -> Gradients:
    """Of two convolutions with relu and pooling, and three layers."""
    w1, b1, w2, b2, *dense, x, t = given
    first, to_first = _convolution(x, w1, b1, 2)
    one, to_one = _pooled(first)
    second, to_second = _convolution(one, w2, b2, 0)
    two, to_two = _pooled(second)
    value, gradients, d = _layers(dense, two.reshape(len(x), -1), t)
    d, dw2, db2 = to_second(to_two(d.reshape(two.shape)) * (second > 0))
    _, dw1, db1 = to_first(to_one(d) * (first > 0))
    return value, (dw1, db1, dw2, db2, *gradients)


def _convolution(x: Any, w: Any, b: Any, pad: int) -> tuple[Any, Any]:
    """Return relu of a convolution, and what gives cotangents of its operands."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    size = w.shape[-1]
    windows = sliding_window_view(padded, (size, size), axis=(2, 3))
    y = np.einsum("nchwij,ocij->nohw", windows, w, optimize=True) + b[:, None, None]

    def back(d: Any) -> tuple[Any, Any, Any]:
        dw = np.einsum("nchwij,nohw->ocij", windows, d, optimize=True)
        wide = np.pad(d, ((0, 0), (0, 0), (size - 1, size - 1), (size - 1, size - 1)))
        turned = sliding_window_view(wide, (size, size), axis=(2, 3))
        dx = np.einsum("nohwij,ocij->nchw", turned, w[:, :, ::-1, ::-1], optimize=True)
        end = dx.shape[-1] - pad
        return dx[:, :, pad:end, pad:end], dw, d.sum(axis=(0, 2, 3))

    return np.maximum(y, 0), back


def _pooled(x: Any) -> tuple[Any, Any]:
    """Return the maxima of squares of four, and what gives the cotangent: to the first of equal ones."""
    n, c, h, w = x.shape
    squares = (
        x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
    )
    first = squares.argmax(axis=-1)

    def back(d: Any) -> Any:
        spread = np.where(first[..., None] == np.arange(4), d[..., None], 0)
        spread = spread.reshape(n, c, h // 2, w // 2, 2, 2)
        return spread.transpose(0, 1, 2, 4, 3, 5).reshape(x.shape)

    return squares.max(axis=-1), back


def rnn(w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, x: Any) -> Gradients:
    """Of the mean of the squared states of a recurrent network."""
    states = [np.zeros_like(x[0])]
    for step in x:
        states.append(np.tanh(step @ w_ih.T + b_ih + states[-1] @ w_hh.T + b_hh))
    out = np.stack(states[1:])
    into, rows, next_d = np.zeros_like(w_ih), np.zeros_like(w_hh), np.zeros_like(x[0])
    bias = np.zeros_like(b_ih)
    for step, before, state in zip(x[::-1], states[-2::-1], states[::-1], strict=False):
        d = (next_d + 2 * state / out.size) * (1 - state * state)
        into, rows, bias = into + d.T @ step, rows + d.T @ before, bias + d.sum(axis=0)
        next_d = d @ w_hh
    return (out * out).mean(), (into, rows, bias, bias)


def lstm(w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, x: Any) -> Gradients:
    """Of the mean of the squared states of an LSTM."""
    h = c = np.zeros_like(x[0])
    kept, out = [], []
    for step in x:
        i, f, g, o = np.split(step @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, axis=1)
        i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
        new = f * c + i * g
        kept.append((step, h, c, i, f, g, o, np.tanh(new)))
        h, c = o * np.tanh(new), new
        out.append(h)
    states = np.stack(out)
    into, rows, bias = np.zeros_like(w_ih), np.zeros_like(w_hh), np.zeros_like(b_ih)
    dh = dc = np.zeros_like(x[0])
    for (step, before, c, i, f, g, o, bent), state in zip(kept[::-1], out[::-1], strict=True):
        dh = dh + 2 * state / states.size
        dc = dc + dh * o * (1 - bent * bent)
        d = np.concatenate(
            [dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g), dh * bent * o * (1 - o)],
            axis=1,
        )
        into, rows, bias = into + d.T @ step, rows + d.T @ before, bias + d.sum(axis=0)
        dh, dc = d @ w_hh, dc * f
    return (states * states).mean(), (into, rows, bias, bias)


def loop(a: Any, x: Any) -> Gradients:
    """Of a contraction that runs until little is left."""
    values = [x]
    while (values[-1] * values[-1]).sum() > 1e-3:
        values.append(np.tanh(a @ values[-1]) * 0.9)
    d, of_a = x, np.zeros_like(a)
    for after, before in zip(values[:0:-1], values[-2::-1], strict=True):
        inner = d * 0.9 * (1 - (after / 0.9) ** 2)
        of_a, d = of_a + np.outer(inner, before), a.T @ inner
    return (values[-1] * x).sum(), (of_a, values[-1] + d)
