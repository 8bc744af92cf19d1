"""Write out likelihoods of time series and their gradients by hand, as loops: ``(value, gradient)``.

numba compiles them; as Python they judge.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def arma(p: Any, y: Any) -> Any:
    """Of the mean square of ARMA(2, 2)'s errors."""
    n = len(y)
    e, gradient = np.zeros(n), np.zeros(4)
    value, first, second = 0.0, 0.0, 0.0
    for t in range(2, n):
        e[t] = y[t] - p[0] * y[t - 1] - p[1] * y[t - 2] - p[2] * e[t - 1] - p[3] * e[t - 2]
        value += e[t] * e[t]
    for t in range(n - 1, 1, -1):
        d = 2 * e[t] / n - first * p[2] - second * p[3]
        gradient[0] -= d * y[t - 1]
        gradient[1] -= d * y[t - 2]
        gradient[2] -= d * e[t - 1]
        gradient[3] -= d * e[t - 2]
        second, first = first, d
    return value / n, gradient


def garch(p: Any, y: Any) -> Any:
    """Of the mean negative log-likelihood of GARCH(1, 1), whose variance begins with the sample's."""
    n = len(y)
    h, gradient = np.empty(n), np.zeros(3)
    value, d, before = 0.0, 0.0, 0.0
    for t in range(n):
        before += y[t] * y[t] / n
    for t in range(n):
        h[t] = before
        value += math.log(h[t]) + y[t] * y[t] / h[t]
        before = p[0] + p[1] * y[t] * y[t] + p[2] * h[t]
    for t in range(n - 1, -1, -1):
        gradient[0] += d
        gradient[1] += d * y[t] * y[t]
        gradient[2] += d * h[t]
        d = d * p[2] + (1 - y[t] * y[t] / h[t]) / h[t] / (2 * n)
    return value / (2 * n), gradient


def local_level(p: Any, y: Any) -> Any:
    """Of the mean negative log-likelihood of a random walk with noise, by Kalman's filter."""
    n = len(y)
    level, variance = np.empty(n), np.empty(n)
    q, s, a, v, value = math.exp(p[0]), math.exp(p[1]), y[0], 1.0, 0.0
    for t in range(1, n):
        level[t], variance[t] = a, v
        f, e = v + s, y[t] - a
        value += math.log(f) + e * e / f
        a, v = a + v / f * e, v * (1 - v / f) + q
    d_a, d_v, d_q, d_s = 0.0, 0.0, 0.0, 0.0
    for t in range(n - 1, 0, -1):
        v = variance[t]
        f, e = v + s, y[t] - level[t]
        k = v / f
        d_k = d_a * e - d_v * v
        d_f = (1 - e * e / f) / f / (2 * n) - d_k * v / (f * f)
        d_q += d_v
        d_s += d_f
        d_a -= d_a * k + e / f / n
        d_v = d_v * (1 - k) + d_k / f + d_f
    return value / (2 * n), np.array([d_q * q, d_s * s])


def arma_step(p: Any, y: Any) -> Any:
    """Return the value and the parameters after a step of gradient descent."""
    value, gradient = arma(p, y)
    return value, p - gradient


def garch_step(p: Any, y: Any) -> Any:
    """Return the value and the parameters after a step of gradient descent."""
    value, gradient = garch(p, y)
    return value, p - gradient


def local_level_step(p: Any, y: Any) -> Any:
    """Return the value and the parameters after a step of gradient descent."""
    value, gradient = local_level(p, y)
    return value, p - gradient
