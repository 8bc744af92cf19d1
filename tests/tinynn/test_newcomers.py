"""What a cell says to mistakes that newcomers make: the message and the hint as a person reads them."""

from __future__ import annotations

import pytest

import nnmagic

MISTAKES = [
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
]


@pytest.mark.parametrize(("source", "message", "hint"), MISTAKES, ids=[each[2] for each in MISTAKES])
def test_the_message_and_the_hint(source: str, message: str, hint: str) -> None:
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(source)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.message, diagnostic.hint) == (message, hint)
