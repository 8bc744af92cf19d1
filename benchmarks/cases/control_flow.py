"""Loops: numbers that change from round to round, and small tensors. Numba runs the same Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import loops
from benchmarks.case import BEST, Case, Draw, Goal, Ratio
from benchmarks.cases.products import normal

_NUMBA = (Ratio("numba", 1.0),)
_BEST = (Ratio(BEST, 1.0),)

#: Of power iteration, as ``benchmarks.loops`` has it.
_ROUNDS = 1000


def _numbers(**values: float | int) -> Draw:
    return lambda _: {name: np.asarray(value) for name, value in values.items()}


def _case(
    function: Callable[..., Any],
    signature: str,
    draw: Draw,
    goals: tuple[Goal, ...] = _NUMBA,
    torch: Callable[..., Any] | None = None,
    jax: Callable[..., Any] | None = None,
) -> Case:
    """Return the row of a function of ``benchmarks.loops``; the cell has its body, with annotations."""
    lines = inspect.getsource(function).splitlines()
    name = function.__name__
    lines = [line.replace("np.", "") for line in lines]
    source = "\n".join([f"def {name}({signature}):", *lines[1:]]) + "\n"
    label = name.replace("_", " ")
    return Case(
        label, "control flow", goals, draw, source, function, numba=name, torch=torch, jax=jax, tolerance=1e-4
    )


def _power_iteration_in_torch(torch: Any, a: Any, v: Any) -> Any:
    for _ in range(_ROUNDS):
        v = a @ v
        v = v / torch.sqrt(torch.sum(v * v))
    return v


def _power_iteration_in_jax(jax: Any, a: Any, v: Any) -> Any:
    def one_round(_: Any, v: Any) -> Any:
        v = a @ v
        return v / jax.numpy.sqrt(jax.numpy.sum(v * v))

    return jax.lax.fori_loop(0, _ROUNDS, one_round, v)


def _recurrent_in_torch(torch: Any, x: Any, w: Any, h: Any) -> Any:
    for step in x:
        h = torch.tanh(step + w @ h)
    return h


def _recurrent_in_jax(jax: Any, x: Any, w: Any, h: Any) -> Any:
    return jax.lax.scan(lambda h, step: (jax.numpy.tanh(step + w @ h), None), h, x)[0]


ROWS = (
    _case(loops.collatz, "n: i64", _numbers(n=837_799)),
    _case(loops.gcd, "a: i64, b: i64", _numbers(a=1_100_087_778_366_101, b=679_891_637_638_612)),
    _case(loops.logistic_map, "x: f64", _numbers(x=0.3)),
    _case(loops.compensated_sum, 'x: Tensor[("n",), f64]', normal("float64", x=(10_000,))),
    _case(loops.vote, 'x: Tensor[("n",), i64]', lambda rng: {"x": rng.integers(0, 3, 10_000)}),
    _case(
        loops.power_iteration,
        "a: Tensor[(40, 40), f32], v: Tensor[(40,), f32]",
        lambda rng: {"a": rng.random((40, 40), np.float32), "v": rng.random(40, np.float32)},
        _BEST,
        _power_iteration_in_torch,
        _power_iteration_in_jax,
    ),
    _case(
        loops.recurrent,
        "x: Tensor[(64, 32), f32], w: Tensor[(32, 32), f32], h: Tensor[(32,), f32]",
        lambda rng: {
            name: rng.uniform(-0.1, 0.1, shape).astype("float32")
            for name, shape in {"x": (64, 32), "w": (32, 32), "h": (32,)}.items()
        },
        _BEST,
        _recurrent_in_torch,
        _recurrent_in_jax,
    ),
)
