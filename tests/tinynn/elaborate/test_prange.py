"""Loops over numba's ``prange``: threads share independent rounds, others run in order, with a line why."""

from __future__ import annotations

import sys
import types
import warnings

import numpy as np
import pytest

import nnmagic
from nnmagic import TinyNNError

X = np.random.default_rng(3).random((50, 4))

SHARED = {
    "elements": "o = np.zeros(len(x))\nfor i in prange(len(x)):\n    o[i] = x[i, 0] * 2\nreturn o",
    "a sum": "s = 0.0\nfor i in prange(len(x)):\n    s += x[i, 0] * 2\nreturn s",
    "a step": "o = np.zeros(len(x))\nfor i in prange(1, len(x), 3):\n    o[i] = x[i, 1]\nreturn o",
    "two loops": (
        "o = np.zeros(x.shape)\nfor i in prange(len(x)):\n    for j in prange(4):\n"
        "        o[i, j] = x[i, j] + 1\nreturn o"
    ),
}
IN_ORDER = {
    "the element before": (
        "o = x[:, 0].copy()\nfor i in prange(1, len(x)):\n    o[i] += o[i - 1]\nreturn o",
        "it may change an element of `o` that another round uses",
    ),
    "a histogram": (
        "o = np.zeros(10)\nfor i in prange(len(x)):\n    o[int(x[i, 0] * 10)] += 1\nreturn o",
        "it may change an element of `o` that another round uses",
    ),
    "a number of the round before": (
        "s = 1.0\nfor i in prange(len(x)):\n    s = s * 0.5 + x[i, 0]\nreturn s",
        "it needs `s` of the round before",
    ),
    "an array of the round": (
        "o = np.zeros(len(x))\nfor i in prange(len(x)):\n    t = np.zeros(4)\n    for j in range(4):\n"
        "        t[j] = x[i, j] * 2\n    o[i] = t[0] + t[3]\nreturn o",
        "it may change an element of `t`",
    ),
    "rows": (
        "o = np.zeros(x.shape)\nfor i in prange(len(x)):\n    o[i] = x[i] * 2\nreturn o",
        "`multiply` computes a whole array",
    ),
    "a sum of rows": (
        "o = np.zeros(len(x))\nfor i in prange(len(x)):\n    o[i] = x[i].sum()\nreturn o",
        "`sum` goes over a whole array",
    ),
    "an end": (
        "s = 0.0\nfor i in prange(len(x)):\n    if x[i, 0] > 0.9:\n        break\n    s += x[i, 0]\nreturn s",
        "`break` leaves a `parallel` loop",
    ),
}


def check(body: str) -> tuple[str, list[str]]:
    """Compare a function with Python; return its Relay and the lines about it."""
    lines = body.replace("\n", "\n    ")
    source = f'def f(x: Tensor[("n", 4), f64]):\n    {lines}\n'
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f = nnmagic.compile(source, namespace={"np": np})
    names: dict[str, object] = {"np": np, "prange": range}
    exec(source.replace('x: Tensor[("n", 4), f64]', "x"), names)
    np.testing.assert_allclose(f(X), names["f"](X), rtol=1e-12)  # type: ignore[operator]
    return f.relay_text, [str(each.message) for each in caught]


@pytest.mark.parametrize("name", SHARED)
def test_threads_share_independent_rounds(name: str) -> None:
    text, lines = check(SHARED[name])
    assert text.count("parallel=") == 1
    assert lines == []


@pytest.mark.parametrize("name", IN_ORDER)
def test_other_rounds_run_in_order_and_a_line_says_why(name: str) -> None:
    body, why = IN_ORDER[name]
    text, lines = check(body)
    assert "parallel" not in text
    (line,) = lines
    assert "the rounds of this prange run one after the other" in line
    assert why in line
    if "whole array" not in why:  # which the engine finds out
        with pytest.raises(TinyNNError):
            check(body.replace("prange", "parallel"))


def test_errors_of_rounds_are_errors() -> None:
    with pytest.raises(TinyNNError, match="unknown name `nothing`"):
        check("s = 0.0\nfor i in prange(9):\n    s += nothing\nreturn s")


def test_the_names_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = types.ModuleType("numba")
    numba.prange = type("prange", (), {"__module__": "numba.misc.special"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "numba", numba)
    for name, namespace in (("prange", {"prange": numba.prange}), ("nb.prange", {"nb": numba})):
        head = "def f(x: Tensor[(4,), f64]):\n    s = 0.0\n"
        source = f"{head}    for i in {name}(4):\n        s += x[i]\n    return s\n"
        f = nnmagic.compile(source, namespace=namespace, cache=False, engine="numpy")
        assert f(np.arange(4.0)) == 6
