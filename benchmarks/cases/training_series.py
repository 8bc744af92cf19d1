"""Steps of gradient descent on likelihoods of time series, which are loops over lagged values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import backward_series
from benchmarks.case import Case, Ratio
from benchmarks.cases.training import sgd_in_jax

_LENGTH = 10_000


def _case(name: str, start: tuple[float, ...], body: str, jax: Callable[..., Any], by_hand: str) -> Case:
    """Return the row of a step. body: the lines of the loss, of the parameters ``p`` and the series ``y``."""
    head = f'p: Tensor[({len(start)},), f64], y: Tensor[("n",), f64]'
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    step: Callable[..., Any] = getattr(backward_series, by_hand)

    def draw(rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {"p": np.array(start), "y": np.cumsum(rng.standard_normal(_LENGTH)) * 0.1}

    return Case(
        f"{name} of {_LENGTH}, training",
        "training",
        (Ratio("jax.jit", 1.1),),
        draw,
        f"def loss({head}):\n{lines}\ndef step({head}):\n"
        "    value, gradient = value_and_grad(loss)(p, y)\n    return value, p - gradient\n",
        step,
        jax=sgd_in_jax(jax, 1),
        numba=step,
        tolerance=1e-8,
        peers=("nnmagic", "numpy", "jax.jit", "numba"),
    )


def _arma_in_jax(jax: Any, p: Any, y: Any) -> Any:
    def step(state: Any, given: Any) -> Any:
        y1, y2, e1, e2, value = state
        e = given - p[0] * y1 - p[1] * y2 - p[2] * e1 - p[3] * e2
        return (given, y1, e, e1, value + e * e), None

    state, _ = jax.lax.scan(step, (y[1], y[0], 0.0, 0.0, 0.0), y[2:])
    return state[-1] / len(y)


def _garch_in_jax(jax: Any, p: Any, y: Any) -> Any:
    def step(state: Any, given: Any) -> Any:
        h, value = state
        value = value + jax.numpy.log(h) + given * given / h
        return (p[0] + p[1] * given * given + p[2] * h, value), None

    state, _ = jax.lax.scan(step, ((y * y).mean(), 0.0), y)
    return state[1] / (2 * len(y))


def _local_level_in_jax(jax: Any, p: Any, y: Any) -> Any:
    q, s = jax.numpy.exp(p[0]), jax.numpy.exp(p[1])

    def step(state: Any, given: Any) -> Any:
        a, v, value = state
        f, e = v + s, given - a
        k = v / f
        return (a + k * e, v * (1 - k) + q, value + jax.numpy.log(f) + e * e / f), None

    state, _ = jax.lax.scan(step, (y[0], 1.0, 0.0), y[1:])
    return state[-1] / (2 * len(y))


_ARMA = """
e = zeros(len(y))
total = 0.0
for t in range(2, len(y)):
    e[t] = y[t] - p[0] * y[t - 1] - p[1] * y[t - 2] - p[2] * e[t - 1] - p[3] * e[t - 2]
    total += e[t] * e[t]
return total / len(y)
"""

_GARCH = """
h = [(y * y).mean()]
total = 0.0
for t in range(len(y)):
    total += log(h[t]) + y[t] ** 2 / h[t]
    h.append(p[0] + p[1] * y[t] ** 2 + p[2] * h[t])
return total / (2 * len(y))
"""

_LOCAL_LEVEL = """
a, v, total = y[0], 1.0, 0.0
q, s = exp(p[0]), exp(p[1])
for t in range(1, len(y)):
    f, e = v + s, y[t] - a
    total += log(f) + e * e / f
    k = v / f
    a, v = a + k * e, v * (1 - k) + q
return total / (2 * len(y))
"""

ROWS = (
    _case("arma", (0.3, 0.1, 0.2, 0.1), _ARMA, _arma_in_jax, "arma_step"),
    _case("garch", (0.1, 0.1, 0.8), _GARCH, _garch_in_jax, "garch_step"),
    _case("local level", (-1.0, -0.5), _LOCAL_LEVEL, _local_level_in_jax, "local_level_step"),
)
