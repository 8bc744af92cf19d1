"""Gradients of programs: control flow, named sizes, functions; against differences in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import nnmagic

STEP = 1e-6
RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))
HEAD = 'def f(x: Tensor[("n", 3), f64], y: Tensor[("n", 3), f64]):\n'

PROGRAMS = {
    "a loop that uses its result": HEAD
    + """
    s = 0.0
    for i in range(x.shape[0]):
        s = s + tanh(x[i] * s).sum() + y[i, 0]
    return s
""",
    "nested loops, continue, and a value from before the loop": HEAD
    + """
    h = x * 2
    s = x[0]
    for i in range(x.shape[0]):
        if i == 2:
            continue
        for j in range(x.shape[0]):
            if y[i, 0] > 0:
                s = s + sin(h[j]) * y[i]
            else:
                s = s * 0.9 + h[i]
    return (s * h).sum()
""",
    "a loop of unknown length": HEAD
    + """
    z = x[0]
    n = 0
    while (z * z).sum() > 0.01:
        z = z * 0.7 + y[1] * 0.01
        n += 1
        if n > 20:
            break
    return z.sum() * n
""",
    "assignment to elements": """
def f(x: Tensor[(4, 3), f64], y: Tensor[(4, 3), f64]):
    x = x.copy()
    for i in range(4):
        x[i] = x[i] * y[i] + x[(i + 1) % 4]
        x[i, 1] = sin(x[i, 0])
    x[x > 0] = 0.5
    return (x**2).sum()
""",
    "recursion": """
def g(x: f64, n: i64) -> f64:
    if n > 0:
        return sin(x) * g(x * 0.9, n - 1) + g(x * 0.5, n - 2)
    return x
def f(x: Tensor[(4, 3), f64], y: Tensor[(4, 3), f64]):
    return g(x[0, 0], 7) * g(y[0, 1], i64(3))
""",
    "an assertion and early returns": HEAD
    + """
    assert x.shape[0] > 1, "too few"
    if x.sum() > 100:
        return x.sum()
    if y.sum() > 100:
        return (x * y).sum()
    return (x - y).std() + norm(x)
""",
    "functions as values": """
def apply(f: Callable[[Tensor[(3,), f64]], Tensor[(3,), f64]], x: Tensor[(3,), f64]):
    return f(f(x))
def f(x: Tensor[(4, 3), f64], y: Tensor[(4, 3), f64]):
    def k(a: Tensor[(3,), f64]) -> Tensor[(3,), f64]:
        return sin(a) * y[0]
    return apply(k, x[1]).sum()
""",
    "named sizes": HEAD
    + """
    both = concatenate([x, y * x], axis=0)
    return (both.T.reshape(-1).cumsum() / x.shape[0]).std() + (x[1:] * y[:-1]).mean() + max(x @ y.T)
""",
    "statistics": HEAD
    + "    return median(x) + var(x, axis=0).sum() + logsumexp(y) + sort(x, axis=0)[1].sum()\n",
    "careful functions": HEAD
    + "    return (log1p(x * x) + hypot(x, y) + arctan2(x, y) + cbrt(x) + softplus(x) + expm1(y)).sum()\n",
    "a second derivative": HEAD
    + """
    def inner(v):
        s = v[0]
        for i in range(y.shape[0]):
            s = s + sin(v[i] * s) * y[i]
        return s.sum()
    return (grad(inner)(x) * y).sum()
""",
    "a pullback and a tangent": HEAD
    + """
    out, pull = vjp(lambda v: sin(v) * y, x)
    value, tangent = jvp(lambda v, w: (v * w).sum(), (x, y), (y, x))
    return (pull(out)[0] * y).sum() + tangent * value
""",
}


def differences(function: nnmagic.CompiledFunction, args: list[np.ndarray], number: int) -> np.ndarray:
    found = np.zeros_like(args[number])
    for place in np.ndindex(found.shape):
        ahead, behind = [each.copy() for each in args], [each.copy() for each in args]
        ahead[number][place] += STEP
        behind[number][place] -= STEP
        found[place] = (function(*ahead) - function(*behind)) / (2 * STEP)
    return found


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradient_of_a_program(name: str) -> None:
    function = nnmagic.compile(PROGRAMS[name])
    value, gradients = nnmagic.value_and_grad(function, (0, 1))(X, Y)
    np.testing.assert_allclose(value, function(X, Y), rtol=1e-12)
    for number, gradient in enumerate(gradients):
        expected = differences(function, [X, Y], number)
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


CONVENTIONS = [
    ("abs(x)", 0, 0), ("relu(x)", 0, 0), ("sqrt(x)", 0, np.inf), ("x ** 2", 0, 0),
    ("x ** 1", 0, 1), ("clip(x, 0.0, 1.0)", 1, 1), ("hypot(x, x * 0)", 0, 0), ("arctan2(x, x)", 0, 0),
    ("sinc(x)", 0, 0), ("log1p(x)", 1e-17, 1), ("expm1(x)", 0, 1), ("softplus(x)", 0, 0.5),
    ("softplus(x)", 700, 1), ("softplus(x)", -700, 0), ("logsigmoid(x)", -700, 1), ("sigmoid(x)", -700, 0),
    ("logaddexp(x, -x)", 700, 1), ("cbrt(x)", -8, 1 / 12), ("rint(x) + x", 0.2, 1), ("floor(x) + x", 0.5, 1),
    ("maximum(x, x * 1)", 1, 1), ("maximum(x, 1.0)", 1, 0.5), ("x % 2.0", 3, 1), ("gelu(x)", 0, 0.5),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_gradient_where_there_is_no_derivative(dtype: str) -> None:
    lines = [f"    g{i} = grad(lambda x: {text})(x[{i}])" for i, (text, _, _) in enumerate(CONVENTIONS)]
    names = ", ".join(f"g{i}" for i in range(len(CONVENTIONS)))
    head = f"def f(x: Tensor[({len(CONVENTIONS)},), {dtype}]):\n"
    function = nnmagic.compile(head + "\n".join(lines) + f"\n    return stack([{names}])\n")
    points, expected = np.array([each[1:] for each in CONVENTIONS], dtype.replace("f", "float")).T
    np.testing.assert_allclose(function(np.ascontiguousarray(points)), expected, rtol=2e-5, atol=1e-30)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("max(x)", [1, 1], [0.5, 0.5]), ("prod(x)", [0, 2, 3], [6, 0, 0]), ("norm(x)", [0, 0], [0, 0]),
        ("std(x)", [2, 2], [0, 0]), ("cumprod(x)[2]", [0, 2, 3], [6, 0, 0]),
        ("x[[0, 0, 1]].sum()", [1, 2], [2, 1]),
        ("median(x)", [1, 2, 3, 4], [0, 0.5, 0.5, 0]), ("sort(x)[0]", [1, 1], [1, 0]),
        ("logsumexp(x)", [700, 0, 700], [0.5, 0, 0.5]), ("nansum(x)", [np.nan, 1], [0, 1]),
    ],
)  # fmt: skip
def test_the_gradient_of_a_vector(text: str, values: list[float], expected: list[float]) -> None:
    function = nnmagic.compile(f"def f(x: Tensor[({len(values)},), f64]):\n    return {text}\n")
    np.testing.assert_allclose(nnmagic.grad(function)(np.array(values, float)), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("grad(lambda v: (shifted(v) ** 2).sum())(a)", lambda a: [18 * a[0] + 2 * a[0], 0 * a[1]]),
        ("grad(checkpoint(lambda v: (shifted(v) ** 2).sum()))(a)", lambda a: [20 * a[0], 0 * a[1]]),
        ("jvp(shifted, (a,), (a,))[1]", lambda a: [a[0], 3 * a[0]]),
        ("vmap(shifted)(a)", lambda a: np.stack([a[:, 0], 3 * a[:, 0], 3 * a[:, 1]], axis=1)),
    ],
)
def test_arguments_are_read_after_an_assignment_to_elements(
    asked: str, expected: Callable[[np.ndarray], object]
) -> None:
    source = f"""
def shifted(v):
    y = zeros_like(v)
    y[1:] = v[:-1] * 3
    y[:1] = v[:1]
    return y

def f(a: Tensor[("n", "m"), f32]):
    return {asked}
"""
    a = np.arange(1, 7, dtype="float32").reshape(2, 3)
    np.testing.assert_allclose(nnmagic.compile(source, namespace={})(a), expected(a))


@pytest.mark.parametrize("asked", ["grad(changing)(b)", "vmap(changing)(b)", "grad(changing)(a)"])
@pytest.mark.parametrize("change", ["v[0] = 1", "w = v[1:]\n        w[0] = 1"])
def test_arguments_cannot_be_changed(asked: str, change: str) -> None:
    source = f"""
def f(a: Tensor[("n", "m"), f32]):
    b = a * 2
    def changing(v):
        {change}
        return (v * v).sum()

    return {asked}
"""
    with pytest.raises(nnmagic.CompileError, match="may share memory with"):
        nnmagic.compile(source, namespace={})


def test_an_error_in_a_batch_points_at_its_place() -> None:
    source = """
def f(a: Tensor[("n", "m"), f32]):
    def positive(v):
        y = v * 3
        return y[y > 0]

    return vmap(positive)(a)
"""
    with pytest.raises(nnmagic.CompileError) as caught:
        nnmagic.compile(source, namespace={})
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert span.line == 5
