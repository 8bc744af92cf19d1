"""Measure functions that C code calls by a pointer, beside numba's cfunc: `python -m benchmarks.pointers`.

SciPy's `quad` and `generic_filter` call a capsule of nnmagic's and a cfunc; a Runge-Kutta integrator, which
numba compiles, calls the right-hand side of Lorenz's equations by its address, as solvers in C do. Both take
turns, and a time is the least of many. It wants numba and scipy beside nnmagic.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from scipy import LowLevelCallable, integrate, ndimage

import nnmagic

#: nnmagic may take so much of numba's time.
GOAL = 1.1
_X = np.random.default_rng(0).standard_normal((200, 200))


def quad() -> tuple[Callable[[], Any], Callable[[], Any]]:
    f = nnmagic.compile("def f(x: f64): return exp(-x * x) * cos(2.0 * x)")

    @numba.cfunc("float64(float64)")
    def g(x):
        return np.exp(-x * x) * np.cos(2.0 * x)

    def call(c: Any) -> Callable[[], Any]:
        return lambda: integrate.quad(c, 0, 30, limit=200)[0]

    return call(LowLevelCallable(f.capsule())), call(LowLevelCallable(g.ctypes))


def quad_with_arguments() -> tuple[Callable[[], Any], Callable[[], Any]]:
    f = nnmagic.compile("def f(x: f64, a: f64, b: f64): return a * x * x / (1.0 + b * x * x * x * x)")

    @numba.cfunc("float64(intc, CPointer(float64))")
    def g(_n, p):
        x, a, b = p[0], p[1], p[2]
        return a * x * x / (1.0 + b * x * x * x * x)

    def call(c: Any) -> Callable[[], Any]:
        return lambda: integrate.quad(c, 0, 30, args=(2.0, 3.0), epsabs=1e-12)[0]

    return call(LowLevelCallable(f.capsule())), call(LowLevelCallable(g.ctypes))


def generic_filter() -> tuple[Callable[[], Any], Callable[[], Any]]:
    f = nnmagic.compile(
        'def f(x: Tensor[("n",), f64]):\n    m = x[0]\n'
        "    for i in range(1, x.shape[0]):\n        if x[i] > m:\n            m = x[i]\n    return m - x[4]"
    )

    @numba.cfunc("intc(CPointer(float64), intp, CPointer(float64), voidptr)")
    def g(values, count, result, _data):
        m = values[0]
        for i in range(1, count):
            if values[i] > m:
                m = values[i]
        result[0] = m - values[4]
        return 1

    def call(c: Any) -> Callable[[], Any]:
        return lambda: ndimage.generic_filter(_X, c, 3)

    return call(LowLevelCallable(f.capsule())), call(
        LowLevelCallable(g.ctypes, signature="int (double *, npy_intp, double *, void *)")
    )


def runge_kutta() -> tuple[Callable[[], Any], Callable[[], Any]]:
    f = nnmagic.compile(
        "def f(t: f64, y: Tensor[(3,), f64]):\n"
        "    x = 10.0 * (y[1] - y[0])\n"
        "    return array([x, y[0] * (28.0 - y[2]) - y[1], y[0] * y[1] - 8.0 / 3.0 * y[2]])"
    )

    @numba.cfunc("intc(float64, CPointer(float64), CPointer(float64))")
    def g(_t, y, dy):
        dy[0] = 10.0 * (y[1] - y[0])
        dy[1] = y[0] * (28.0 - y[2]) - y[1]
        dy[2] = y[0] * y[1] - 8.0 / 3.0 * y[2]
        return 0

    return _integrator(f.address, f), _integrator(g.address, g)


def _integrator(address: int, held: object) -> Callable[[], Any]:
    """Return what takes Runge-Kutta's classical steps with ``int f(double, double *, double *)``."""
    f = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p)(address)

    @numba.njit
    def integrate_from(y, steps, h):
        n = y.size
        z, k, weights = np.empty(n), np.empty((4, n)), (0.5, 0.5, 1.0)
        for step in range(steps):
            f(step * h, y.ctypes, k[0].ctypes)
            for stage in range(3):
                w = weights[stage]
                for i in range(n):
                    z[i] = y[i] + w * h * k[stage, i]
                f((step + w) * h, z.ctypes, k[stage + 1].ctypes)
            for i in range(n):
                y[i] += h / 6.0 * (k[0, i] + 2.0 * k[1, i] + 2.0 * k[2, i] + k[3, i])
        return y

    def run() -> Any:
        return integrate_from(np.array([1.0, 1.0, 1.0]), 20_000, 0.001)

    run.held = held  # whose machine code it calls
    return run


ROWS = {
    "quad": quad,
    "quad with arguments": quad_with_arguments,
    "generic_filter, 3 x 3": generic_filter,
    "Runge-Kutta, 80,000 calls": runge_kutta,
}


def least(calls: tuple[Callable[[], Any], ...], seconds: float) -> list[float]:
    """Return the least time of each of some calls, which take turns."""
    times = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for number, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            times[number] = min(times[number], time.perf_counter() - begin)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3, help="of each row")
    seconds = parser.parse_args().seconds
    print("| caller | nnmagic, us | numba's cfunc, us | ratio |\n|---|---|---|---|")
    missed = []
    for name, make in ROWS.items():
        ours, theirs = make()
        np.testing.assert_allclose(ours(), theirs(), rtol=1e-6)
        one, other = least((ours, theirs), seconds)
        print(f"| {name} | {1e6 * one:.1f} | {1e6 * other:.1f} | {one / other:.2f} |", flush=True)
        if one > GOAL * other:
            missed.append(name)
    if missed:
        raise SystemExit(f"slower than {GOAL} times numba's cfunc: {', '.join(missed)}")


if __name__ == "__main__":
    main()
