"""``print`` in cells that are compiled for debugging: Python's text, in Python's order, by both engines."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

PROGRAM = """
def halve(y, tag):
    print("halve", tag, y.sum())
    return y / 2

def f(x: Tensor[("n", 3), f64], k: i64):
    print("x is", x, x.shape, k, sep="|")
    total = 0.0
    for i in range(k):
        if x[0, i % 3] > 0.5:
            print(f"round {i}: {x[0, i % 3]:.2f} {total!s:>8}")
        else:
            print("else", i, end=".\\n")
        total = total + x.sum()
    for j in range(2):
        print("j", j)
        print(k)
    y = halve(x, "a")
    print()
    z = halve(y, "a")
    i = 3
    while i > 1:
        i = i - 1
        print(i, x[0] > i, (x.shape, 2.5, (k,)), True, None)
    print(x[:0], flush=True)
    return x + y + z + total
"""


@pytest.mark.parametrize("engine", ["relax", "numpy"])
def test_the_text_and_the_order_are_those_of_python(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, object] = {"np": np}
    exec("from __future__ import annotations\n" + PROGRAM, namespace)
    judge = namespace["f"]
    assert callable(judge)
    function = nnmagic.compile(PROGRAM, engine=engine, cache=False)
    x = np.arange(6.0).reshape(2, 3)
    for rounds in (0, 3):
        expected = judge(x, rounds)
        wanted = capfd.readouterr().out
        np.testing.assert_allclose(function(x, rounds), expected)
        assert capfd.readouterr().out == wanted


def test_recursion_gradients_and_other_dtypes(capsys: pytest.CaptureFixture[str]) -> None:
    source = """
def factorial(n: i64) -> i64:
    print(n)
    return 1 if n < 2 else n * factorial(n - 1)

def loss(w: Tensor[(2,), f32], b: Tensor[(2,), bf16], u: u8):
    print(w, b, u, f"{u:03d}", w.dtype)
    return (w * w).sum()

def f(w: Tensor[(2,), f32], b: Tensor[(2,), bf16], u: u8):
    return factorial(3), grad(loss)(w, b, u)
"""
    function = nnmagic.compile(source, cache=False)
    import ml_dtypes

    product, slope = function(np.ones(2, "f4"), np.ones(2, ml_dtypes.bfloat16), np.uint8(7))
    assert capsys.readouterr().out == "3\n2\n1\n[1. 1.] [1 1] 7 007 f32\n"
    assert product == 6
    np.testing.assert_array_equal(slope, [2, 2])


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("print(f'{x:.2f}')", "an array has no format '.2f'"),
        ("print(f'{x[0]:q}')", "ormat"),
        ("print(x, file=3)", "`file=3` is not supported"),
        (
            "print(x + 1j)",
            "a text shows tensors, numbers, strings and tuples of them, not a Tensor[(2,), c128]",
        ),
        ("y = print(x)", "`print` has no value"),
    ],
)
def test_what_cannot_be_printed_is_refused_where_it_is(statement: str, message: str) -> None:
    source = f"def f(x: Tensor[(2,), f64]):\n    {statement}\n    return x\n"
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(source, cache=False)
    assert message in str(caught.value)
    assert caught.value.diagnostics[0].span.line == 2
