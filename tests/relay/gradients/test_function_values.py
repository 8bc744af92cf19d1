"""Gradients and batches of programs whose functions are values (relay/passes/defunctionalization)."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import nnmagic

_REPEAT = """
def repeat(k: Callable[[f64], f64], x: f64, n: i64) -> f64:
    if n <= 0:
        return x
    return repeat(k, k(x), n - 1)
"""

#: Functions of (x, n): what is passed on, returned, chosen, held, and made in rounds.
_CASES = {
    "a recursive function takes a lambda": _REPEAT
    + "def f(x: f64, n: i64):\n    return repeat(lambda z: sin(z) * x, x, n)",
    "and a function of the cell, or of the language": _REPEAT
    + "def square(x: f64):\n    return x * x\n"
    + "def f(x: f64, n: i64):\n    y = repeat(lambda z: cos(z * x), x, n)\n"
    + "    return repeat(square, x, n) + y + repeat(sin, x, n)",
    "functions are made in each round": """
def composed(k: Callable[[f64], f64], n: i64) -> Callable[[f64], f64]:
    if n <= 0:
        return k
    return composed(lambda z: k(sin(z)), n - 1)
def f(x: f64, n: i64):
    return composed(lambda z: z * x, n)(x)""",
    "continuations": """
def product(n: i64, x: f64, k: Callable[[f64], f64]) -> f64:
    if n <= 0:
        return k(1.0)
    return product(n - 1, x * 0.9, lambda r: k(r * sin(x)))
def f(x: f64, n: i64):
    return product(n, x, lambda r: r * r + x)""",
    "a function of two arguments folds": """
def fold(k: Callable[[f64, f64], f64], x: f64, n: i64) -> f64:
    if n <= 0:
        return x
    return k(fold(k, x, n - 1), x)
def f(x: f64, n: i64):
    return fold(lambda a, b: a * b + sin(a), x, n)""",
    "values of data types hold functions": """
class Layer:
    def Apply(k: Callable[[f64], f64]): ...
    def Chain(first: Layer, then: Layer): ...
def run(layer: Layer, x: f64) -> f64:
    match layer:
        case Apply(k): return k(x)
        case Chain(a, b): return run(b, run(a, x))
def deep(x: f64, n: i64) -> Layer:
    if n <= 0:
        return Apply(lambda z: sin(z) * x)
    return Chain(Apply(lambda z: z * z + x), deep(x * 0.5, n - 1))
def f(x: f64, n: i64):
    return run(deep(x, n), x)""",
    "a condition chooses": """
def f(x: f64, n: i64):
    def a(z: f64) -> f64: return z * x
    def b(z: f64) -> f64: return sin(z) * x
    p, q = (a, b) if n > 2 else (b, a)
    return p(q(x)) + q(x)""",
    "functions of vectors": """
def repeat(
    k: Callable[[Tensor[("n",), f64]], Tensor[("n",), f64]], v: Tensor[("n",), f64], n: i64
) -> Tensor[("n",), f64]:
    if n <= 0:
        return v
    return repeat(k, k(v), n - 1)
def f(x: f64, n: i64):
    v = array([0.5, 1.0]) * x
    return repeat(lambda z: sin(z) * x, v, n).sum() + repeat(lambda z: z * z, v[:1], n).sum()""",
}


@pytest.mark.parametrize("name", _CASES)
def test_a_gradient_is_that_of_differences(name: str) -> None:
    source = _CASES[name] + "\ndef g(x: f64, n: i64):\n    return f(x, n), grad(f)(x, n)"
    g, step = nnmagic.compile(source, engine="numpy"), 1e-6
    for n in (0, 3):
        expected = (g(0.7 + step, n)[0] - g(0.7 - step, n)[0]) / (2 * step)
        np.testing.assert_allclose(g(0.7, n)[1], expected, rtol=1e-7)


def test_second_derivatives_and_machine_code() -> None:
    source = _CASES["functions are made in each round"]
    source += "\ndef g(x: f64, n: i64):\n    return grad(f)(x, n), grad(grad(f))(x, n)"
    g, step = nnmagic.compile(source), 1e-6
    expected = (g(0.7 + step, 3)[0] - g(0.7 - step, 3)[0]) / (2 * step)
    np.testing.assert_allclose(g(0.7, 3)[1], expected, rtol=1e-7)


def test_a_batch_of_programs_whose_examples_choose_functions_and_data() -> None:
    source = """
class Kind:
    def Low(): ...
    def Middle(): ...
    def High(by: f64): ...
def kind(x: f64) -> Kind:
    return Low() if x < 0 else Middle() if x < 1 else High(x)
def f(x: f64):
    def a(z: f64) -> f64: return z * x
    def b(z: f64) -> f64: return sin(z) * x
    k = a if x > 1 else b
    match kind(x):
        case Low(): return x * x
        case Middle(): return k(x) + 10
        case High(by): return k(by)
def g(x: Tensor[("n",), f64]):
    return vmap(f)(x), vmap(grad(f))(x)"""
    x = np.array([-2.0, 0.5, 3.0])
    values, gradients = nnmagic.compile(source, engine="numpy")(x)
    np.testing.assert_allclose(values, [4, 0.5 * np.sin(0.5) + 10, 9])
    np.testing.assert_allclose(gradients, [-4, np.sin(0.5) + 0.5 * np.cos(0.5), 6])


def test_batches_run_functions_that_rounds_make() -> None:
    source = _CASES["functions are made in each round"]
    source += "\ndef g(x: Tensor[('n',), f64], n: Tensor[('n',), i64]):\n"
    source += "    return vmap(f)(x, n), vmap(grad(f))(x, n)"
    alone = nnmagic.compile(_CASES["functions are made in each round"], engine="numpy")
    x, n = np.array([0.3, 0.7, 0.9]), np.array([0, 3, 1])
    values, gradients = nnmagic.compile(source, engine="numpy")(x, n)
    np.testing.assert_allclose(values, [alone(*each) for each in zip(x, n, strict=True)])
    ends = [[alone(a + s * 1e-6, b) for a, b in zip(x, n, strict=True)] for s in (1, -1)]
    np.testing.assert_allclose(gradients, np.subtract(*ends) / 2e-6, rtol=1e-7)


#: Functions of (x, n) whose functions are values of the cell alone: their number of arguments is known.
_UNTYPED = {
    "partial": """
def power(a: f64, x: f64, b: f64):
    return a * x ** 3 + b
def f(x: f64, n: i64):
    p = partial(power, x, b=x)
    return p(x) + partial(p, x)() + partial(power, b=1.0)(x, x, b=3.0) + grad(p)(x)""",
    "lambdas that are returned, in a tuple": """
def pair(x: f64):
    y = sin(x)
    return (lambda z: z * y), (lambda z: z + x)
def f(x: f64, n: i64):
    a, b = pair(x)
    return a(b(x)) * grad(a)(x)""",
    "a branch chooses lambdas and functions of the language": """
def f(x: f64, n: i64):
    if n > 2:
        k = lambda z: z * z * x
    else:
        k = cos
    a, b = (k, sin) if n > 1 else (lambda z: z * x, k)
    return k(x) + a(b(x)) + grad(k)(x) + vmap(k)(stack([x, 2 * x])).sum()""",
    "a number chooses of a list": """
def f(x: f64, n: i64):
    fs = [lambda z: z * x, lambda z: sin(z) * x, cos, partial(pow, 2.0)]
    return fs[n](x) + fs[n - 4](2 * x) + {"a": exp}["a"](x)""",
    "a record holds functions": """
class Model:
    k: Callable[[f64], f64]
    w: f64
def f(x: f64, n: i64):
    m = Model(lambda z: z * z * x, sin(x))
    return m.k(m.w)""",
    "a function differentiates one that it takes": """
def root(k: Callable[[f64], f64], x: f64) -> f64:
    for i in range(4):
        x = x - k(x) / grad(k)(x)
    return x
def f(x: f64, n: i64):
    roots = vmap(lambda y: root(lambda z: z ** 3 - y, y))(stack([x, x + 1]))
    return root(lambda z: z * z - x, 1.0 + x) + roots.sum()""",
}


@pytest.mark.parametrize("name", _UNTYPED)
def test_functions_of_the_cell_are_values(name: str) -> None:
    source = _UNTYPED[name] + "\ndef g(x: f64, n: i64):\n    return f(x, n), grad(f)(x, n)"
    g, step = nnmagic.compile(source, namespace={"partial": partial}, engine="numpy"), 1e-6
    for n in (0, 3):
        expected = (g(0.7 + step, n)[0] - g(0.7 - step, n)[0]) / (2 * step)
        np.testing.assert_allclose(g(0.7, n)[1], expected, rtol=1e-6)


def test_a_number_that_chooses_a_function_is_an_index() -> None:
    source = "def f(x: f64, n: i64):\n    return [lambda z: z * 2, sin][n](x)"
    f = nnmagic.compile(source, engine="numpy")
    assert f(3.0, -2) == 6
    with pytest.raises(IndexError):
        f(3.0, 2)


def test_functions_that_branches_make_of_values_of_theirs_are_refused() -> None:
    source = "def make(a):\n    return lambda z: a * z\ndef f(x: f64, n: i64):\n"
    with pytest.raises(nnmagic.CompileError, match="make the functions before the branch"):
        nnmagic.compile(source + "    return (make(x * 2) if n > 1 else make(x * 3))(x)")
    chosen = source + "    a, b = make(x * 2), make(x * 3)\n    return (a if n > 1 else b)(x)"
    assert nnmagic.compile(chosen, engine="numpy")(2.0, 2) == 8
