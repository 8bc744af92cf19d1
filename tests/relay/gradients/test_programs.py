"""Gradients of programs: control flow, named sizes, functions; against differences in float64."""

from __future__ import annotations

import textwrap
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


@pytest.mark.full(
    "nested loops, continue, and a value from before the loop", "an assertion and early returns"
)
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


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_gradient_where_there_is_no_derivative(dtype: str) -> None:
    lines = [f"    g{i} = grad(lambda x: {text})(x[{i}])" for i, (text, _, _) in enumerate(CONVENTIONS)]
    names = ", ".join(f"g{i}" for i in range(len(CONVENTIONS)))
    head = f"def f(x: Tensor[({len(CONVENTIONS)},), {dtype}]):\n"
    function = nnmagic.compile(head + "\n".join(lines) + f"\n    return stack([{names}])\n")
    points, expected = np.array([each[1:] for each in CONVENTIONS], dtype.replace("f", "float")).T
    np.testing.assert_allclose(function(np.ascontiguousarray(points)), expected, rtol=2e-5, atol=1e-30)


@pytest.mark.sampled(every=2)
@pytest.mark.full("median(x)-values6-expected6", "sort(x)[0]-values7-expected7")
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


@pytest.mark.full
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


#: Bodies with ``s``, 1, and ``v``, three ones; what each returns, as JAX has it.
CAPTURED: dict[str, tuple[str, object]] = {
    "a name that is assigned before the pull": (
        """
p = 2.0 * s
r, pull = vjp(lambda y: y * p, s)
p = 5.0 * s
return pull(1.0)[0]
""",
        2,
    ),
    "elements that are assigned before the pull": (
        """
p = v + 1.0
r, pull = vjp(lambda y: sum(y * p), v)
p[0] = 5.0
return pull(1.0)[0]
""",
        [2, 2, 2],
    ),
    "elements of the argument": (
        """
p = v + 0.0
r, pull = vjp(lambda y: sum(y * y), p)
p[0] = 9.0
return pull(1.0)[0]
""",
        [2, 2, 2],
    ),
    "a function with types, which itself reads the new value": (
        """
p = 2.0 * s
def k(y: f64):
    return y * p
r, pull = vjp(k, s)
p = 5.0 * s
return pull(1.0)[0] + k(1.0)
""",
        7,
    ),
    "functions with types that call each other": (
        """
p = s
def a(y: f64):
    return y * p
def b(y: f64):
    return a(y) * p
p = 2.0 * s
r, pull = vjp(b, s)
p = 5.0 * s
return pull(1.0)[0] + 100 * b(1.0)
""",
        2504,
    ),
    "recursion": (
        """
p = s * 2
def k(y: f64, n: i64) -> f64:
    return y * p if n <= 0 else p * k(y, n - 1)
r, pull = vjp(lambda y: k(y, 3), s)
p = s * 7
return pull(1.0)[0]
""",
        16,
    ),
    "a lambda that is defined again": (
        """
h = lambda y: y * 2.0
r, pull = vjp(lambda y: h(y), s)
h = lambda y: y * 7.0
return pull(1.0)[0]
""",
        2,
    ),
    "functions in a tuple, and what they capture": (
        """
p = s
t = (grad(lambda y: y * y * p), lambda y: y * p)
r, pull = vjp(lambda y: t[0](y) + t[1](y), s)
p = 5.0 * s
return pull(1.0)[0]
""",
        3,
    ),
    "a default": (
        """
p = s * 2
def h(y, g=lambda y: y * p):
    return g(y)
r, pull = vjp(h, s)
p = s * 7
return pull(1.0)[0]
""",
        2,
    ),
    "a function that has returned": (
        """
def make(c):
    r, pull = vjp(lambda y: sum(y * c), v)
    c = 7.0 * c
    return pull
p = v * 2
pull = make(p)
p[0] = 9.0
return pull(1.0)[0]
""",
        [2, 2, 2],
    ),
    "functions that have returned, pulled in a branch and after it": (
        """
def outer(z):
    q = z * 2
    def mid(u):
        def inner(y):
            if y > 0:
                return y * q * u
            return y
        return inner
    return mid(3.0)
r, pull = vjp(outer(s), s)
if s > 0:
    a = pull(1.0)[0]
else:
    a = pull(2.0)[0]
return a + pull(1.0)[0]
""",
        12,
    ),
    "steps with one pullback": (
        """
w = s * 3.0
r, pull = vjp(lambda y: y * w * y, s)
for i in range(2):
    w = w - 0.25 * pull(1.0)[0]
return w
""",
        0,
    ),
    "a loop of many rounds": (
        """
w = s * 3.0
r, pull = vjp(lambda y: y * w, s)
t = 0.0
for i in range(30):
    w = w + 1.0
    t = t + pull(1.0)[0]
return t
""",
        90,
    ),
    "a pullback of each round": (
        """
w = s * 2
t = 0.0
for i in range(30):
    r, pull = vjp(lambda y: y * w, s)
    w = w + 1.0
    t = t + pull(1.0)[0]
return t
""",
        495,
    ),
    "a list of pullbacks": (
        """
pulls = []
for i in range(3):
    r, pull = vjp(lambda y: y * (i + 1), s)
    pulls.append(pull)
return pulls[0](1.0)[0] + 10 * pulls[1](1.0)[0] + 100 * pulls[2](1.0)[0]
""",
        321,
    ),
    "a gradient of a pullback": (
        """
p = s * 2
def g(y):
    q = y * p
    r, pull = vjp(lambda z: z * q * p, y)
    q = y * 100
    return pull(1.0)[0]
h = grad(g)
p = s * 3
return h(s)
""",
        9,
    ),
    "a pullback of a pullback": (
        """
w = s * 2
r, pull = vjp(lambda y: y * y * w, s)
r2, pull2 = vjp(lambda c: pull(c)[0], s)
w = s * 5
return pull2(1.0)[0]
""",
        4,
    ),
    "a batch of pullbacks": (
        """
p = v * 2
r, pull = vjp(lambda y: y * p, v)
p = v * 7
return vmap(pull)(stack([v, v * 2]))[0]
""",
        [[2, 2, 2], [4, 4, 4]],
    ),
    "a gradient reads names when it is called": (
        """
p = s
g = grad(lambda y: y * y * p)
def k(y: f64):
    return g(y)
p = s * 3
return k(1.0)
""",
        6,
    ),
    "a batch reads names when it is called": (
        """
p = s
g = vmap(lambda y: y * p)
def k(y: Tensor[(3,), f64]):
    return g(y)
p = s * 3
return k(v)
""",
        [3, 3, 3],
    ),
    "a checkpoint reads names when it is called": (
        """
p = s
g = checkpoint(lambda y: y * p)
def k(y: f64):
    return g(y)
p = s * 3
return k(1.0)
""",
        3,
    ),
    "a function with types reads names through several functions": (
        """
p = s
a = lambda y: y * p
b = lambda y: a(y)
c = grad(lambda y: b(y) * y)
def k(y: f64):
    return c(y)
a = lambda y: y * p * 2
p = s * 3
return k(1.0)
""",
        12,
    ),
    "a function with types in a loop": (
        """
p = s
g = grad(lambda y: y * y * p)
def k(y: f64):
    return g(y)
t = 0.0
for i in range(20):
    p = p + 1.0
    t = t + k(1.0)
return t + 1000 * k(1.0)
""",
        42460,
    ),
    "elements that a gradient reads when it is called": (
        """
p = v + 0.0
g = grad(lambda y: sum(y * p))
p[0] = 9.0
return g(v)
""",
        [9, 1, 1],
    ),
    "a gradient of what a loop assigns": (
        """
x = v * 2
g = grad(lambda y: sum(y * x))
t = v
for i in range(20):
    x = x + 1
    t = t + g(v)
return t
""",
        [251, 251, 251],
    ),
    "a batch of what a branch assigns": (
        """
x = s * 2
g = vmap(lambda y: y * x)
if s > 0:
    x = x + 1
return g(v)
""",
        [3, 3, 3],
    ),
    "a checkpoint of what a branch assigns": (
        """
x = s * 2
g = checkpoint(lambda y: y * x)
if s > 0:
    x = x + 1
return g(v)
""",
        [3, 3, 3],
    ),
    "the memory of a checkpoint's result": (
        """
r = checkpoint(lambda y: y * 2)(v)
p = v + 0.0
p[1] += r[0]
p[0] = r[1]
return p + r
""",
        [4, 5, 3],
    ),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_what_functions_capture(name: str) -> None:
    body, expected = CAPTURED[name]
    head = "def f(s: f64, v: Tensor[(3,), f64]):\n"
    function = nnmagic.compile(head + textwrap.indent(body, "    "), namespace={})
    np.testing.assert_allclose(function(1.0, np.ones(3)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "made",
    [
        "grad(lambda y: sum(y * c))",
        "vmap(lambda y: y * c)",
        "checkpoint(lambda y: y * c)",
        "(grad(lambda y: sum(y * c)), 1)[0]",
    ],
)
def test_a_function_that_has_returned_shares_the_memory_of_its_argument(made: str) -> None:
    source = f"""
def f(v: Tensor[(3,), f64]):
    def make(c):
        return {made}
    p = v + 0.0
    g = make(p)
    p[0] = 9.0
    return g(v)
"""
    with pytest.raises(nnmagic.CompileError, match="`g` may share memory with `p`"):
        nnmagic.compile(source, namespace={})


def test_a_checkpoint_may_return_the_memory_of_its_argument() -> None:
    source = """
def f(v: Tensor[(3,), f64]):
    p = v + 0.0
    r = checkpoint(lambda y: y[1:])(p)
    p[1] = 9.0
    return r
"""
    with pytest.raises(nnmagic.CompileError, match="`r` may share memory with `p`"):
        nnmagic.compile(source, namespace={})
