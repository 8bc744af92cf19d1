"""Comprehensions over arrays, some items of which are kept: Python is the judge."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python

#: Expressions of a vector ``x`` and an int ``n``.
EXPRESSIONS = [
    *("[v * v for v in x if v > 0]", "np.array([v * v for v in x if v > 0])", "len([v for v in x if v > 0])"),
    *("sum(v * v for v in x)", "sum(v for v in x if v > 0)", "sum(1 for v in x if v > 0)"),
    *(
        "max(v for v in x)",
        "min(v * v for v in x if v < 0)",
        "any(v > 3 for v in x)",
        "all(v > 0 for v in x)",
    ),
    *("[i for i, v in enumerate(x) if v > 0]", "[a * b for a, b in zip(x, x) if a > 0 if b < 3]"),
    *("[x[i] + i for i in range(n) if i % 2 == 0]", "[v if v > 0 else 0.0 for v in x]"),
    *("[v for v in x if v > 100]", "np.mean([v for v in x if v > 0])", "[v for v in x if v > 0][-1]"),
]


@pytest.mark.parametrize("size", ["'n'", "4"])
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_what_is_kept_is_what_python_keeps(text: str, size: str) -> None:
    size = size.replace("'", '"')
    source = f"def f(x: Tensor[({size},), f64], n: i64):\n    return {text}\n"
    function = nnmagic.compile(source, namespace={"np": np}, engine="numpy", cache=False)
    x = np.array([1.0, -2, 3, 4])
    expected = eval(text, {"np": np, "x": x, "n": 4})
    np.testing.assert_allclose(function(x, 4), np.asarray(expected))


def test_machine_code_keeps_the_same() -> None:
    source = (
        'def f(x: Tensor[("n",), f64]):\n    return [v * 2 for v in x if v > 0], sum(v for v in x if v < 0)\n'
    )
    function = nnmagic.compile(source, cache=False)
    for x in (np.array([1.0, -2, 3, 4]), np.zeros(0), -np.ones(3)):
        kept, total = function(x)
        assert kept.tolist() == [v * 2 for v in x if v > 0]
        assert float(total) == sum(v for v in x if v < 0)


KEPT = {
    "pairs of two ranges": "a = [(i, j) for i in range(3) for j in range(3) if x[i] > x[j]]\n"
    "return a, len(a)",
    "conditions of both": "a = [i * j for i in range(len(x)) if x[i] > 1 for j in range(i) if x[j] > 0]\n"
    "return len(a), sum(a)",
    "of a tuple": "return sum([x[i] for i in (0, 2) if x[i] > 1])",
    "of a list": "return [v for v in [x[0], x[1], 2.5] if v > 1]",
    "of tuples": "p = [(x[0], x[1]), (x[1], x[2]), (x[2], x[0])]\n"
    "up = [q for q in p if q[0] < q[1]]\nreturn len(up), up[0]",
    "sums": "return sum(1 for a in x for b in x if a < b), max([a * b for a in x for b in x if a != b])",
    "a dictionary": "d = {i: x[i] for i in range(3) if x[i] > 1}\nreturn sum(d.values()), len(d)",
    "a set": "s = {i for i in range(3) if x[i] > 1}\nreturn len(s), sum(s)",
}


@pytest.mark.parametrize("x", [np.array([3.0, 1, 2]), np.array([0.5, 2, 2])])
@pytest.mark.parametrize("name", KEPT)
def test_the_call_knows_what_is_kept(name: str, x: np.ndarray) -> None:
    body = KEPT[name].replace("\n", "\n    ")
    assert_as_in_python(f"def f(x):\n    {body}\n", x)


@pytest.mark.parametrize("count", [5, 100])
def test_items_that_are_drawn_are_drawn_once(count):
    source = (
        "def f(rng: np.random.Generator):\n"
        f"    doubled = [v * 2 for v in rng.random({count})]\n"
        f"    between, drawn = rng.random(), [rng.random() for _ in range({count})]\n"
        f"    total = sum(v for v in rng.random({count}))\n"
        f"    kept = [i for i in range({count}) if rng.random() > 0.5]\n"
        "    return np.array(doubled), between, np.array(drawn), total, np.array(kept), rng.random()\n"
    )
    scope = {"np": np}
    exec(source, scope)
    f = nnmagic.compile(source, namespace={"np": np}, engine="numpy")
    for ours, expected in zip(f(np.random.default_rng(3)), scope["f"](np.random.default_rng(3)), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-14)
