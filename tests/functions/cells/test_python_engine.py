"""`engine="python"` runs a cell as Python: a debugger stops in its lines, and it gives what it means."""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

import nnmagic

X = np.linspace(-1, 1, 12).reshape(3, 4)
PROGRAMS = {
    "a loop": """
def f(x: Tensor[("n", "m"), f64]):
    total = zeros(len(x))
    for i in prange(len(x)):
        for j in range(x.shape[1]):
            total[i] += exp(-x[i, j]) * 2
    return total, total.max()
""",
    "functions that NumPy has not": """
def f(x: Tensor[("n", 4), f64]):
    y = softmax(x, axis=1) + nn.relu(x)
    return y @ y.T, np.linalg.norm(y), rfft(y[0]), solve(eye(4) * 2, x[0])
""",
    "a gradient": """
def loss(w: Tensor[(4,), f64], x: Tensor[("n", 4), f64]) -> f64:
    return (tanh(x @ w) ** 2).sum()

def f(x: Tensor[("n", 4), f64]):
    return grad(loss)(x[0], x)
""",
    "a record and a data type": """
class Pair:
    first: Tensor[(4,), f64]
    second: f64

class Option:
    def Nothing(): ...
    def Some(value: f64): ...

def value(option: Option) -> f64:
    match option:
        case Nothing():
            return 0.0
        case Some(value):
            return value

def f(x: Tensor[("n", 4), f64]):
    pair = Pair(x[1], x[2, 3])
    return pair.first * pair.second + value(Some(2.0)) + value(Nothing())
""",
}


def flat(value: Any) -> list[np.ndarray]:
    return (
        [each for part in value for each in flat(part)] if isinstance(value, tuple) else [np.asarray(value)]
    )


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS)
def test_it_gives_what_the_cell_means(source: str) -> None:
    python = nnmagic.compile(source, engine="python", namespace={"np": np})
    meant = nnmagic.compile(source, engine="numpy", namespace={"np": np})
    for one, other in zip(flat(python(X)), flat(meant(X)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_debugger_sees_the_lines_of_the_cell() -> None:
    source = "def f(x: f64):\n    y = x * scale\n    return y + 1\n"
    f = nnmagic.compile(source, engine="python", namespace={"scale": 3})
    lines: list[tuple[int, dict[str, Any]]] = []

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line" and frame.f_code.co_name == "f":
            lines.append((frame.f_lineno, dict(frame.f_locals)))
        return trace

    sys.settrace(trace)
    try:
        assert f(2.0) == 7
    finally:
        sys.settrace(None)
    assert lines == [(2, {"x": 2.0}), (3, {"x": 2.0, "y": 6.0})]
    assert inspect.getsource(f) == source


def test_a_decorated_function_keeps_its_file_and_lines() -> None:
    @nnmagic.function(engine="python")
    def f(x: nnmagic.f64) -> Any:
        return softmax(x)  # type: ignore[name-defined]  # noqa: F821 - a name of cells

    assert f.__code__.co_filename == __file__
    np.testing.assert_allclose(f(np.zeros(2)), [0.5, 0.5])


def test_what_it_cannot_run_says_so() -> None:
    with pytest.raises(nnmagic.EngineError, match="the cell has no function"):
        nnmagic.compile("x = 1", engine="python")
    module = nnmagic.compile("def f(x: f32): return x", engine="numpy").relay
    with pytest.raises(nnmagic.EngineError, match="'python' runs the source of cells, and this has none"):
        nnmagic.compile(module, engine="python")
    with pytest.raises(ZeroDivisionError):
        nnmagic.compile("def f(x: f32): return 1 // 0", engine="python")(1.0)
