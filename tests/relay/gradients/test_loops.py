"""Gradients of loops whose number of rounds is known: their tape is arrays, and no stack is needed."""

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(0)


def compile_gradient(body, signature, argnums):
    text = f"def loss({signature}):\n{body}\n\ndef run({signature}):\n"
    names = ", ".join(part.split(":")[0].strip() for part in signature.split("; "))
    text = text.replace("; ", ", ")
    return nnmagic.compile(f"{text}    return value_and_grad(loss, {argnums})({names})\n", namespace={})


def check_by_differences(run, args, argnums, tolerance=1e-6):
    """Compare with central differences in float64."""
    value, gradients = run(*args)
    step = 1e-6
    for number, gradient in zip(argnums, gradients, strict=True):
        expected = np.empty_like(args[number])
        for index in np.ndindex(args[number].shape):
            around = []
            for sign in (1, -1):
                moved = [each.copy() for each in args]
                moved[number][index] += sign * step
                around.append(float(run(*moved)[0]))
            expected[index] = (around[0] - around[1]) / (2 * step)
        np.testing.assert_allclose(gradient, expected, rtol=tolerance, atol=tolerance)
    assert np.isfinite(value)


PROGRAMS = {
    "states and rows": """
    h = zeros(3, f64)
    out = zeros((5, 3), f64)
    for t in range(5):
        h = tanh(x[t] + h @ w)
        out[t] = h
    return (out * out).sum() + h.sum()
""",
    "a start and a step": """
    h = w[0]
    for t in range(1, 5, 2):
        h = sin(h) * x[t] + (w @ h)
    return h.sum()
""",
    "the counter as a number": """
    h = x[0]
    for t in range(4):
        h = h * 0.5 + f64(t) * sin(h + w[1])
    return (h * h).sum()
""",
    "what the loop does not change is a result": """
    h = x[0]
    for t in range(4):
        h = w @ h + x[t]
    return (h * w[2]).sum() + w.sum()
""",
    "values that take turns": """
    a, b = x[0], x[1]
    for t in range(6):
        a, b = b, sin(a) + w @ b
    return (a * b).sum()
""",
    "a loop in a loop": """
    h = x[0]
    for i in range(3):
        for j in range(4):
            h = tanh(w @ h + x[j])
        h = h * x[i]
    return h.sum()
""",
    "a branch in a loop": """
    h = x[0]
    for t in range(5):
        if h.sum() > 0.1:
            h = w @ h
        else:
            h = h + cos(x[t])
    return (h * h).sum()
""",
    "a scalar": """
    s = x[0, 0]
    for t in range(7):
        s = s * w[0, 1] + sin(s)
    return s
""",
    "elements that are read and written": """
    y = x.copy()
    for t in range(1, 5):
        y[t] = y[t] * w[0] + sin(y[t - 1])
    return (y * y).sum()
""",
    "a loop after a loop": """
    h = x[0]
    for t in range(3):
        h = tanh(w @ h)
    g = h
    for t in range(3):
        g = g * h + x[t]
    return g.sum()
""",
}


@pytest.mark.sampled(every=3)
@pytest.mark.full("a loop in a loop")
@pytest.mark.parametrize("name", PROGRAMS)
def test_by_differences(name):
    signature = "x: Tensor[(5, 3), f64]; w: Tensor[(3, 3), f64]"
    run = compile_gradient(PROGRAMS[name].strip("\n"), signature, (0, 1))
    check_by_differences(run, [RNG.standard_normal((5, 3)), RNG.standard_normal((3, 3))], (0, 1))


@pytest.mark.full("0")
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_as_many_rounds_as_a_named_size(count):
    body = """
    h = zeros(3, f64)
    out = zeros_like(x)
    for t in range(len(x)):
        h = tanh(x[t] + h @ w)
        out[t] = h
    return (out * out).sum() + h.sum()
"""
    run = compile_gradient(body.strip("\n"), 'x: Tensor[("n", 3), f64]; w: Tensor[(3, 3), f64]', (0, 1))
    check_by_differences(run, [RNG.standard_normal((count, 3)), RNG.standard_normal((3, 3))], (0, 1))


@pytest.mark.full
@pytest.mark.parametrize(("size", "count"), [("4", 4), ('"n"', 1), ('"n"', 4)])
def test_recurrent_layers(size, count):
    body = """
    out, state = lstm(x, None, w, u, b, b)
    return (out * out).sum() + state[1].sum()
"""
    weights = "w: Tensor[(8, 3), f64]; u: Tensor[(8, 2), f64]; b: Tensor[(8,), f64]"
    signature = f"x: Tensor[({size}, 2, 3), f64]; {weights}"
    run = compile_gradient(body.strip("\n"), signature, (0, 1, 2, 3))
    shapes = [(count, 2, 3), (8, 3), (8, 2), (8,)]
    check_by_differences(run, [RNG.standard_normal(shape) for shape in shapes], (0, 1, 2, 3), 1e-5)


@pytest.mark.full
def test_second_derivatives():
    text = """
def f(x: Tensor[(3,), f64]):
    h = x
    for t in range(4):
        h = sin(h) * x + h.sum() * 0.1
    return (h * h).sum()

def run(x: Tensor[(3,), f64]):
    return grad(f)(x), hessian(f)(x)
"""
    run = nnmagic.compile(text, namespace={})
    x, step = RNG.standard_normal(3), 1e-6
    _, second = run(x)
    for index in range(3):
        move = np.eye(3)[index] * step
        expected = (run(x + move)[0] - run(x - move)[0]) / (2 * step)
        np.testing.assert_allclose(second[index], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.machine_code
def test_rounds_need_no_stack():
    text = """
def f(x: f64):
    s = x
    for t in range(300000):
        s = s * 0.99999 + x
    return s

def run(x: f64):
    return value_and_grad(f)(x)
"""
    value, derivative = nnmagic.compile(text, namespace={})(np.float64(0.5))
    power = 0.99999**300000
    expected = power + (1 - power) / (1 - 0.99999)
    np.testing.assert_allclose([float(value), float(derivative)], [0.5 * expected, expected], rtol=1e-9)


BRANCHES = {
    "a for": """
    if n > 1:
        for i in range(n):
            x = x * sin(x) + y[i % 3]
    return x * y
""",
    "a for that is the result": """
    if n > 1:
        for i in range(n):
            y = y * x + sin(y)
    return y
""",
    "a while": """
    if n > 1:
        while sum(y * y) < 10.0 and n > 0:
            y, n = y * 1.5 + x, n - 1
    return y
""",
    "both": """
    if n > 1:
        for i in range(n):
            x = x * x * 0.5
    elif n == 1:
        for i in range(n + 1):
            y = sin(y) * x
    else:
        x = x * 3
    return y, n, x
""",
    "one in another": """
    if n > 0:
        for i in range(n):
            x = x * 1.5 - x * x
        if n > 1:
            for i in range(n):
                y = sin(y) * x
    return y
""",
}


@pytest.mark.sampled(every=3)
@pytest.mark.full("a while-named", "both-named", "one in another-named", "a for that is the result-named")
@pytest.mark.parametrize("size", ["3", "'m'"], ids=["static", "named"])
@pytest.mark.parametrize("name", BRANCHES)
def test_forward_mode_of_loops_in_branches(name, size):
    text = f"def g(x: f64, y: Tensor[({size},), f64], n: i64):\n{BRANCHES[name]}\n"
    python = {"sum": np.sum, "sin": np.sin}
    exec(f"from __future__ import annotations\n{text}", python)
    signature = f"x: f64, y: Tensor[({size},), f64], n: i64, t: f64, u: Tensor[({size},), f64]"
    body = "jvp(lambda x, y: g(x, y, n), (x, y), (t, u))"
    run = nnmagic.compile(f"{text}def run({signature}):\n    return {body}\n", namespace={})
    x, y, t, u = 0.7, RNG.normal(size=3), 0.3, RNG.normal(size=3)
    for n in range(5):
        value, tangent = run(x, y, n, t, u)
        ahead, behind = (python["g"](x + step * t, y + step * u, n) for step in (1e-6, -1e-6))
        if not isinstance(value, tuple):
            value, tangent, ahead, behind = (value,), (tangent,), (ahead,), (behind,)
        for mine, slope, more, less in zip(value, tangent, ahead, behind, strict=True):
            np.testing.assert_allclose(mine, (more + less) / 2, rtol=1e-9)
            np.testing.assert_allclose(slope, (more - less) / 2e-6, rtol=1e-6, atol=1e-8)
