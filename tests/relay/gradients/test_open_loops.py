"""Gradients of loops that their own values end: `relay/gradients/open_loops` counts their rounds.

The judge are differences of the function itself.
"""

import textwrap

import numpy as np
import pytest

import nnmagic

OPEN = {
    "while": """
        def f(p: Tensor[(2,), f64], n: i64) -> f64:
            x, v = p[0], p[1]
            while x > 0.1:
                v = v - 0.05 * x
                x = 0.9 * x + 0.01 * v
            return x * v
    """,
    "break and the end of a range": """
        def f(p: Tensor[(2,), f64], n: i64) -> f64:
            s = p[0]
            for t in range(n):
                s = sin(s) * p[1] + 0.1 * t
                if s > 0.6:
                    break
            return s * s
    """,
    "several ways to go on": """
        def f(p: Tensor[(2,), f64], n: i64) -> f64:
            y, t, h = 1.0, 0.0, 0.1
            while t < 1.0:
                slope = -p[0] * y + sin(p[1] * t)
                if abs(h * slope) > 0.05:
                    h = 0.5 * h
                    continue
                y = y + h * slope
                t = t + h
                if abs(h * slope) < 0.02:
                    h = 1.3 * h
            return y * y
    """,
    "several results": """
        def f(p: Tensor[(2,), f64], n: i64) -> f64:
            s = p[0]
            for t in range(n):
                s = s + 0.3 * cos(s * p[1])
                if s > 1.2:
                    return s * p[0]
                if s < -5.0:
                    return p[1]
            return s
    """,
    "an inner loop of unknown length": """
        def f(p: Tensor[(2,), f64], n: i64) -> f64:
            total = 0.0
            a = p[0]
            while a < 3.0:
                x = a
                while abs(x * x - a) > 1e-9:
                    x = 0.5 * (x + a / x)
                a = a + 0.7 * x * p[1]
                total += x
            return total
    """,
    "a start and a step of the call": """
        def f(p: Tensor[(2,), f64], n: i64) -> f64:
            s = p[0]
            for t in range(n // 2, 2 * n, n // 3 + 1):
                s = s * p[1] + 0.1 * t
            return s * s
    """,
    "a counter that goes down": """
        def f(p: Tensor[(2,), f64], n: i64) -> f64:
            s = p[0]
            i = i32(n)
            while i > 0:
                i -= 2
                s = sin(s * p[1]) + 0.1 * i
            return s + i
    """,
    "counters of several steps": """
        def f(p: Tensor[(2,), f64], n: i64) -> f64:
            s = p[0]
            i, j = 0, n
            while i < j and s < 3.0:
                s = s + 0.1 * p[1] * i
                i += 2
                j += 1
            return s * s + i + j
    """,
    "arrays of a named size": """
        def f(p: Tensor[("k",), f64], n: i64) -> f64:
            w = p
            while (w * w).sum() > 0.1:
                w = 0.7 * w * cos(w) + 0.01 * p
            return (w * p).sum()
    """,
    "a recursion that is a loop": """
        def g(x: f64, y: f64, n: i64) -> f64:
            if x > 2.0:
                return x * y
            return g(x + 0.3 * y, sin(y), n + 1)

        def f(p: Tensor[(2,), f64], n: i64) -> f64:
            return g(p[0], p[1], n)
    """,
}


def compiled(kind, **options):
    source = textwrap.dedent(OPEN[kind])
    size = '"k"' if '"k"' in source else "2"
    source += f"\ndef run(p: Tensor[({size},), f64], n: i64):\n    return value_and_grad(f)(p, n)\n"
    return nnmagic.compile(source, **options)


def check(run, p, n):
    value, gradient = run(p, n)
    wanted = [(run(p + d, n)[0] - run(p - d, n)[0]) / 2e-6 for d in 1e-6 * np.eye(len(p))]
    np.testing.assert_allclose(gradient, wanted, rtol=1e-6, atol=1e-7)
    assert np.isfinite(value)


@pytest.mark.parametrize("kind", OPEN)
def test_gradients_without_a_stack(kind):
    run = compiled(kind, engine="numpy")
    assert "backward_loop=1" not in run.stages["relay"]
    for n in (0, 1, 6):
        check(run, np.array([0.53, 0.81]), n)


@pytest.mark.parametrize("kind", ["several ways to go on", "arrays of a named size"])
def test_machine_code(kind):
    check(compiled(kind), np.array([0.53, 0.81]), 6)


def test_a_second_derivative_needs_no_stack():
    source = textwrap.dedent(OPEN["while"]) + "\ndef run(p: Tensor[(2,), f64], n: i64):\n"
    run = nnmagic.compile(source + "    return grad(f)(p, n), hessian(f)(p, n)\n", engine="numpy")
    assert "backward_loop=1" not in run.stages["relay"]
    p = np.array([0.53, 0.81])
    wanted = [(run(p + d, 0)[0] - run(p - d, 0)[0]) / 2e-6 for d in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(run(p, 0)[1], wanted, rtol=1e-6)


def test_a_rule_of_a_function_that_is_a_loop_counts():
    source = """
@custom_jvp
def f(x: f64, n: i64) -> f64:
    return x if n <= 0 else f(sin(x), n - 1)

@f.defjvp
def tangent(primals, tangents):
    return f(primals[0], primals[1]), 7.0 * tangents[0]

def run(x: f64):
    return grad(f)(x, 3)
"""
    assert nnmagic.compile(source, engine="numpy")(0.5) == 7.0


@pytest.mark.machine_code
def test_an_inner_loop_reads_one_index_from_both_ends():
    """The index -1 is of the last element; what reads it has one more name of it."""
    source = """
def loss(x: Tensor[("n",), f64], t: f64) -> f64:
    y = x.copy()
    k = 0
    while k < 6:
        i = 0
        while i < len(y) and y[i] < t:
            y[i] = y[i] * 1.3 + y[i - 1] * 0.1 + 0.05
            i += 1
        k += 1
        if y.sum() > 5:
            break
    return (y**3).sum() * k

def f(x: Tensor[("n",), f64], t: f64):
    return value_and_grad(loss)(x, t)
"""
    f, x = nnmagic.compile(source), np.array([0.1, -0.3, 0.6, 0.2])
    wanted = [(f(x + d, 1.0)[0] - f(x - d, 1.0)[0]) / 2e-6 for d in 1e-6 * np.eye(4)]
    np.testing.assert_allclose(f(x, 1.0)[1], wanted, rtol=1e-6, atol=1e-8)
