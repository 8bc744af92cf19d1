"""Programs of science in NumPy with nothing but annotations added, beside numba: of the kinds of NPBench."""

# ruff: noqa: E501  # a row reads best on one line

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import Case, Compilation, Draw, Ratio, Within
from benchmarks.cases.products import normal
from benchmarks.npbench import programs
from benchmarks.peers import compilation

#: Of each program; over all of them the goal is a geometric mean of 1.5.
_GOALS = (Ratio("numba", 0.9),)


def _case(function: Callable[..., Any], types: str, draw: Draw) -> Case:
    """Return the row of a program; ``types`` are those of its parameters, separated by semicolons."""
    names = inspect.signature(function).parameters
    annotated = ", ".join(
        f"{name}: {type_.strip()}" for name, type_ in zip(names, types.split(";"), strict=True)
    )
    lines = [line.replace("np.", "") for line in inspect.getsource(function).splitlines()]
    name = function.__name__
    source = "\n".join([f"def {name}({annotated}):", *lines[1:]]) + "\n"
    label = f"program: {name.replace('_', ' ')}"
    return Case(label, "npbench", _GOALS, draw, source, function, numba=function, tolerance=1e-7)


def _symmetric(rng: np.random.Generator) -> dict[str, np.ndarray]:
    a = rng.random((60, 60))
    return {"a": a @ a.T + 60 * np.eye(60)}


def _lower(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {"lower": np.tril(rng.random((400, 400))) + 400 * np.eye(400), "b": rng.random(400)}


def _sparse(rng: np.random.Generator) -> dict[str, np.ndarray]:
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 20, 2000))])
    count = int(starts[-1])
    return {
        "starts": starts,
        "columns": rng.integers(0, 2000, count),
        "values": rng.random(count),
        "x": rng.random(2000),
    }


def _bands(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        name: rng.random(2000) + (4 if name == "middle" else 0)
        for name in ("lower", "middle", "upper", "right")
    }


_M = 'Tensor[("n", "m"), f64]'
_Q = 'Tensor[("n", "n"), f64]'
_V = 'Tensor[("n",), f64]'


def _compilation(case: Case) -> Compilation:
    """Return the row of how long a program takes from its source to its first result."""

    def cell() -> Callable[[], Any]:
        return compilation(case.source, case.arguments(np.random.default_rng(0)).values())

    def expected() -> np.ndarray:
        return np.asarray(case.numpy(*case.arguments(np.random.default_rng(0)).values()))

    name = case.name.replace("program:", "compile program:")
    return Compilation(name, "npbench", (Within(1.0),), {"nnmagic": cell}, expected, tolerance=1e-7)


_PROGRAMS = (
    _case(programs.jacobi_1d, _V, normal("float64", a=(4000,))),
    _case(programs.jacobi_2d, _M, normal("float64", a=(150, 150))),
    _case(programs.heat_3d, 'Tensor[("n", "m", "k"), f64]', normal("float64", a=(30, 30, 30))),
    _case(programs.gauss_seidel, _M, normal("float64", a=(60, 60))),
    _case(programs.wave_2d, _M, normal("float64", height=(150, 150))),
    _case(programs.pressure_of_cavity, _M, normal("float64", source=(100, 100))),
    _case(programs.horizontal_diffusion, f"{_M}; {_M}", normal("float64", field=(256, 256), weight=(256, 256))),
    _case(programs.gemm, f"{_Q}; {_Q}; {_Q}", normal("float64", a=(200, 200), b=(200, 200), c=(200, 200))),
    _case(programs.atax, f'{_M}; Tensor[("m",), f64]', normal("float64", a=(600, 500), x=(500,))),
    _case(programs.mvt, f"{_Q}; {_V}; {_V}", normal("float64", a=(600, 600), x=(600,), y=(600,))),
    _case(programs.gemver, f"{_Q}; {_V}; {_V}; {_V}", normal("float64", a=(500, 500), u=(500,), v=(500,), x=(500,))),
    _case(programs.syrk, _M, normal("float64", a=(60, 40))),
    _case(programs.forward_substitution, f"{_Q}; {_V}", _lower),
    _case(programs.cholesky, _Q, _symmetric),
    _case(programs.lu, _Q, _symmetric),
    _case(programs.durbin, _V, lambda rng: {"r": 0.1 * rng.random(100)}),
    _case(programs.gram_schmidt, _M, normal("float64", a=(60, 40))),
    _case(programs.sparse_times_vector, 'Tensor[("r",), i64]; Tensor[("k",), i64]; Tensor[("k",), f64]; Tensor[("n",), f64]', _sparse),
    _case(programs.shortest_paths, _Q, lambda rng: {"lengths": rng.random((40, 40))}),
    _case(programs.base_pairs, 'Tensor[("n",), i32]', lambda rng: {"bases": rng.integers(0, 4, 40).astype("int32")}),
    _case(programs.base_pairs_of_length, 'i64; Tensor[("n",), i32]', lambda rng: {"n": np.array(40), "bases": rng.integers(0, 4, 40).astype("int32")}),
    _case(programs.game_of_life, f"{_Q}; i64", lambda rng: {"cells": (rng.random((64, 64)) > 0.6) * 1.0, "rounds": np.array(5)}),
    _case(programs.crc_16, 'Tensor[("n",), u8]', lambda rng: {"data": rng.integers(0, 256, 1600).astype("uint8")}),
    _case(programs.mandelbrot, f'{_V}; Tensor[("m",), f64]', lambda _: {"real": np.linspace(-2, 0.5, 50), "imaginary": np.linspace(-1, 1, 40)}),
    _case(programs.accelerations, f'Tensor[("n", 3), f64]; {_V}', lambda rng: {"position": rng.random((200, 3)), "mass": rng.random(200)}),
    _case(programs.potential_energy, f'Tensor[("n", 3), f64]; {_V}', lambda rng: {"position": rng.random((200, 3)), "mass": rng.random(200)}),
    _case(programs.flow_in_a_channel, f"i64; i64; i64; {_M}", lambda rng: {"width": np.array(100), "height": np.array(80), "rounds": np.array(30), "source": rng.random((80, 100))}),
    _case(programs.radial_mean, f"{_V}; {_V}", lambda rng: {"values": rng.random(20_000), "radius": rng.random(20_000)}),
    _case(programs.covariances, _M, normal("float64", data=(300, 200))),
    _case(programs.trace_of_tanh, _Q, normal("float64", a=(500, 500))),
    _case(programs.tridiagonal, f"{_V}; {_V}; {_V}; {_V}", _bands),
    _case(programs.arc_distance, f"{_V}; {_V}; {_V}; {_V}", lambda rng: {name: rng.random(20_000) for name in ("theta", "phi", "other_theta", "other_phi")}),
)  # fmt: skip

ROWS = (*_PROGRAMS, *map(_compilation, _PROGRAMS))
