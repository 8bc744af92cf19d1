"""What a cell says to mistakes that newcomers make: the message and the hint as a person reads them."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

MISTAKES = [
    (
        "def f(x: f64):\n    return x * time.time()\n",
        "unknown name `time`",
        "run `import time` in another cell",
    ),
    (
        "def f(x: f64):\n    return plt.plot(x)\n",
        "`plt` is not defined in the notebook",
        "run `import matplotlib.pyplot as plt` in another cell",
    ),
    (
        "def f(x: Float):\n    return x\n",
        "unknown name `Float`",
        "run `from jaxtyping import Float` in another cell",
    ),
    (
        "def f(a: Tensor[(6,), f32]):\n    return a[len(a)/2]\n",
        "an index must be an int or a slice, not the number 3.0",
        "write // for a whole number, as in (len(a)//2)",
    ),
    (
        "def f(x: Tensor[(6,), f32]):\n    sum = x.sum()\n    return sum(x)\n",
        "an f32 cannot be called",
        "`sum` is a name of the function's own here, which hides the function: rename it",
    ),
    (
        "def f(x: inout[Tensor[(6,), f32]]):\n    return x\n",
        "unknown name `inout`",
        "did you mean InOut?",
    ),
    (
        "def f(a: Tensor[(6,), f32]):\n    c = zeros((6,), f32)\n    return add(a, 1, out=c)\n",
        "add has no parameter `out`",
        "a call with out= is a statement of its own: write it on a line before",
    ),
    (
        "def f(a: Tensor[(6,), f32]):\n    y = a + 1\n    z = y.reshape(6)\n    y += 1\n    return z * y\n",
        "`z` shares memory with `y`, which NumPy would have changed, too",
        "write y = y + value to change `y` alone, or copy it before: z.copy()",
    ),
    (
        "def f(a: Tensor[(6,), f32]):\n    y = a + 1\n    z = y.reshape(2, 3)\n    y -= 1\n    return z\n",
        "`z` shares memory with `y`, which NumPy would have changed, too",
        "write y = y - value to change `y` alone, or copy it before: z.copy()",
    ),
    (
        "def f(a: Tensor[(6,), f32]):\n    return a * weights[f'layer{a}']\n",
        "a formatted string holds values that are known at compile time, not a Tensor[(6,), f32]",
        "loop over numbers that are known then, as in for i in range(4)",
    ),
    (
        "def f(a: Tensor[(6,), f32]):\n    return a * weights[f'layer{1:x}.{2:0>2000}']\n",
        "a value in a formatted string has at most 1000 characters",
        None,
    ),
    (
        "def f(a: Tensor[(6, 2), f32]):\n    return a.masked_fill(a, 0)\n",
        "masked_fill: `mask` must hold bools, not a Tensor[(6, 2), f32]",
        "compare it, as in a != 0",
    ),
    (
        "def f(a: Tensor[(6, 2), f32]):\n    return a.transpose(0, 1)\n",
        "transpose(0, 1) changes nothing in NumPy, and swaps the two dimensions in PyTorch",
        "write a.T to swap them",
    ),
    (
        "def f(a: Tensor[(6, 2, 2), f32]):\n    return a.t()\n",
        "t() is of tensors of rank 2 or less, not 3",
        "write .mT, or .transpose(1, 2) with the two dimensions",
    ),
    (
        'def f(x: Tensor[("n", 3), f32]):\n    out = []\n    size = lambda: len(out)\n    for row in x:\n'
        "        out.append(row * size())\n    return stack(out)\n",
        "`out` grows in this loop, and cannot be read in it",
        "keep what a round needs of the one before in a name of its own; out[-1] can be read",
    ),
    (
        "def f(x: Tensor[(3,), f32]):\n    items = []\n    same = items\n    items.append(x)\n    return x\n",
        "`same` holds the list `items`, which Python would change there, too",
        "make a new list before: items = list(items)",
    ),
    (
        'def f(x: Tensor[("n", 3), f32]):\n    out = []\n    for row in x:\n        out.append(row)\n'
        "    return max(out)\n",
        "max of a list of tensors goes over the items",
        "write np.stack(items).max(axis=0), or over all elements .max()",
    ),
    (
        "def f(x: Tensor[(3, 3), f32]):\n    y = x.copy()\n    y.T[0] = 1\n    return y\n",
        "elements are assigned by one index of a name",
        "give the tensor a name first: y = ..., then y[i] = value",
    ),
    (
        'def f(x: Tensor[("n",), f32]):\n    for row in x:\n        last = row\n    return last\n',
        "`last` may not be assigned here: only a loop assigns it",
        "assign it before the loop",
    ),
    (
        "def f(x: Tensor[(4, 3), f32]):\n    y = x + 1\n    for row in y:\n        row += 1\n    return y\n",
        "a loop goes over an array that it changes",
        "change its rows by their numbers, as in for i in range(len(y)): y[i] = value; "
        "to leave `y` as it is, go over y.copy()",
    ),
    (
        "def f(x: Tensor[(3,), f32]):\n    return x + np.random.rand(3)\n",
        "`np.random.rand` is not supported in a cell, which has no hidden state",
        "write rng = np.random.default_rng(seed), then rng.random(size)",
    ),
]

WEIGHTS = {"np": np, "weights": {"layer1": np.ones(6, "float32")}}


@pytest.mark.parametrize(("source", "message", "hint"), MISTAKES, ids=[each[1] for each in MISTAKES])
def test_the_message_and_the_hint(source: str, message: str, hint: str | None) -> None:
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(source, namespace=WEIGHTS)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.message, diagnostic.hint) == (message, hint)


def test_integers_compare_with_any_number_by_value() -> None:
    x = np.array([-128, 0, 127], "int8")
    expressions = [
        "x < 300",
        "x <= -300",
        "300 > x",
        "-300 < x",
        "x == 300",
        "300 != x",
        "300 < x",
        "x >= -129",
    ]
    for text in expressions:
        function = nnmagic.compile(f"def f(x: Tensor[(3,), i8]):\n    return {text}\n")
        np.testing.assert_array_equal(function(x), eval(text))


def test_a_copy_and_a_number_are_no_aliases() -> None:
    source = (
        "def f(x: Tensor[(2,), f32]):\n    y = x.copy()\n    n = 1\n    m = n\n"
        "    y += 1\n    m += 1\n    return x * y + n + m\n"
    )
    np.testing.assert_array_equal(nnmagic.compile(source)(np.float32([1, 2])), [5, 9])
