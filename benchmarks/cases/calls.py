"""What a call costs beside what it computes: NumPy arrays in, a NumPy array out, for every contestant."""

from __future__ import annotations

from benchmarks import loops
from benchmarks.case import BEST, Case, Ratio
from benchmarks.cases.products import normal

FOO = (
    "def foo(a: Tensor[(2, 3), f32], b: Tensor[(3, 4), f32], c: Tensor[(2, 4), f32]):\n    return a @ b + c\n"
)

ROWS = (
    Case(
        "foo: a @ b + c, 2x3 3x4",
        "calls",
        (Ratio("numpy", 1.0), Ratio(BEST, 1.0)),
        normal(a=(2, 3), b=(3, 4), c=(2, 4)),
        FOO,
        lambda a, b, c: a @ b + c,
        torch=lambda _, a, b, c: a @ b + c,
        jax=lambda _, a, b, c: a @ b + c,
        onnx=lambda graph, a, b, c: graph.Add(graph.MatMul(a, b), c),
        numba=loops.product_and_sum,
        through_numpy=True,
    ),
    Case(
        "a call's overhead: x + 1 of 1 float",
        "calls",
        (),
        normal(x=(1,)),
        "def one(x: Tensor[(1,), f32]):\n    return x + 1\n",
        lambda x: x + 1,
        torch=lambda _, x: x + 1,
        jax=lambda _, x: x + 1,
        numba=loops.add_one,
        through_numpy=True,
    ),
)
