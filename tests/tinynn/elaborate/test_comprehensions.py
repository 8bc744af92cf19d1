"""Comprehensions over arrays, some items of which are kept: Python is the judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnmagic

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


def test_of_a_tuple_what_is_kept_is_known() -> None:
    source = "def f(a: f64, b: f64):\n    return [v for v in (a, b) if v > 0]\n"
    with pytest.raises(nnmagic.TinyNNError, match="of a tuple must be known") as caught:
        nnmagic.compile(source, cache=False)
    hint: Any = caught.value.diagnostics[0].hint
    assert "stack" in hint


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
