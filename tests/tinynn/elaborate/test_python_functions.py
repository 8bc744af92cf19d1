"""Functions and methods of the notebook, whose source a cell inlines."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import nnmagic

OFFSET = 3.0
X = np.arange(4.0)


def scaled(x, k=2):
    return x * k + OFFSET


def outer(x):
    return scaled(x) + scaled(x, k=3)


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def heapify(a, n, i):
    largest = i
    for child in (2 * i + 1, 2 * i + 2):
        if child < n and a[child] > a[largest]:
            largest = child
    if largest != i:
        a[i], a[largest] = a[largest], a[i]
        heapify(a, n, largest)


def heapsort(a):
    for i in range(len(a) // 2 - 1, -1, -1):
        heapify(a, len(a), i)
    for i in range(len(a) - 1, 0, -1):
        a[i], a[0] = a[0], a[i]
        heapify(a, i, 0)
    return a


class Layer:
    def __init__(self, w, inner=None):
        self.w = w
        self.inner = inner

    def __call__(self, x):
        return x @ self.w

    def twice(self, x):
        return self(x) * 2

    def deep(self, x):
        return self.inner.twice(x) + self.inner(x)

    def changes(self, x):
        self.w = x
        return x


layer = Layer(np.eye(4), Layer(np.arange(16.0).reshape(4, 4)))


@pytest.mark.parametrize(
    "expression",
    [
        "scaled(x)",
        "scaled(x, k=5) + scaled(x)",
        "outer(x)",
        "np.array([scaled(v) for v in x])",
        "np.vectorize(scaled)(x)",
        "np.array(list(map(scaled, x)))",
        "layer(x)",
        "layer.twice(x)",
        "layer.deep(x)",
        "layer.inner.twice(x) + layer.w[0]",
        "factorial(len(x)) + x",
        "heapsort(x)",
        "doubled(x) + doubled(x[0])",
        "shifted(x) + shifted(x, k=3) + shifted(x, 1.5)",
        "added(2.0)(x)",
        "np.array([doubled(v) for v in x]) + np.array(list(map(doubled, x)))",
        "scaled(x) if doubled(x[1]) > 3 else x",
    ],
)
def test_what_python_computes(expression: str) -> None:
    compiled = nnmagic.compile(f"def f(x): return {expression}", namespace=globals(), engine="numpy")
    expected = eval(expression, {**globals(), "x": X.copy()})
    np.testing.assert_allclose(compiled(X.copy()), expected)


def test_a_function_that_other_functions_change_arguments_by() -> None:
    sort = nnmagic.function(engine="numpy")(heapsort)
    x = np.random.default_rng(0).random(9)
    expected = np.sort(x)
    np.testing.assert_array_equal(sort(x), expected)
    np.testing.assert_array_equal(x, expected)


def test_gradients_go_through_it() -> None:
    names = {"scaled": scaled}
    loss = nnmagic.compile("def loss(x: Tensor[(4,), f64]): return (scaled(x) ** 2).sum()", namespace=names)
    np.testing.assert_allclose(nnmagic.grad(loss)(X), 4 * (X * 2 + OFFSET))


def test_a_cell_is_compiled_anew_for_another_value_of_a_global(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def f(x: Tensor[(4,), f64]): return scaled(x)"
    np.testing.assert_allclose(nnmagic.compile(source, namespace=globals(), engine="numpy")(X), X * 2 + 3)
    again = nnmagic.compile(source, namespace=globals(), engine="numpy")
    assert again.cache_info.hit == "memory"
    monkeypatch.setitem(globals(), "OFFSET", 10.0)
    np.testing.assert_allclose(nnmagic.compile(source, namespace=globals(), engine="numpy")(X), X * 2 + 10)


@functools.wraps(scaled)
def wrapper(x):
    return scaled(x) + 1


doubled = lambda x: x * 2  # noqa: E731 - lambdas are what is tested
shifted = lambda x, by=3.0, *, k=2: (  # noqa: E731
    doubled(x) * k + by + OFFSET
)
added = lambda n: lambda x: x + n  # noqa: E731
made = eval("lambda x: x + 1")
one, other = lambda x: x + 1, lambda x: x - 1  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("layer.changes(x)", "an attribute cannot be assigned"),
        ("wrapper(x)", "is the Python function"),
        ("one(x)", "the lambda `one` is one of several in a line"),
        ("made(x)", "the lambda `made` has no source that can be read"),
    ],
)
def test_what_is_beyond_the_language_is_refused(expression: str, message: str) -> None:
    with pytest.raises(nnmagic.TinyNNError) as error:
        nnmagic.compile(f"def f(x): return {expression}", namespace=globals(), engine="numpy")(X)
    assert message in str(error.value)
