"""``f.why`` says how each loop and kernel runs, and what costs, with its line in the cell.

What it says is made in `engine/relax/codegen/aot/remarks`; the notes of the compiler in
`tinynn/elaborate/array_growth`.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nnmagic
from nnmagic.functions.inspection.why import quote

SOURCE = """def f(x: Tensor[("n",), f64], k: Tensor[("m",), i64]):
    y = np.zeros(len(x))
    for i in range(1, len(x)):
        y[i] = 0.9 * y[i - 1] + x[i]
    for j in range(len(k)):
        y[k[j]] = 1.0
    z = np.zeros(len(x))
    for i in range(len(x) - 1):
        z[i] = x[i] + z[i + 1]
    s = 0.0
    for i in range(len(x)):
        s += x[i]
    t = x
    while t.sum() > 1.0:
        t = t * 0.5
    e = np.exp(x)
    return y, z, s, t, e / e.sum()
"""


@pytest.fixture(scope="module")
def said() -> dict[int, list[tuple[str, str]]]:
    """Return by line what is said of a function with a loop of each kind, and what would help."""
    by_line: dict[int, list[tuple[str, str]]] = {}
    for each in nnmagic.compile(SOURCE, namespace={"np": np}).why.remarks:
        assert each.span is not None
        by_line.setdefault(each.span.line, []).append((each.text, each.change))
    return by_line


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (3, "a loop that counts: one round after the other"),
        (4, "each round reads what the round before stored"),
        (5, "a loop that counts: one round after the other"),
        (6, "each round checks an index: neither sizes nor the rounds prove it"),
        (8, "a loop that counts: nothing keeps its rounds from vectors"),
        (11, "each round adds floats to one sum, whose order stays"),
        (14, "a loop whose number of rounds is not known before: they run one by one"),
        (17, "reads an array that the kernel of line 16 wrote: several kernels read it"),
    ],
)
def test_a_line_says_how_it_runs(said: dict[int, list[tuple[str, str]]], line: int, what: str) -> None:
    assert what in [text for text, _ in said[line]]


def test_what_would_help_stands_beside(said: dict[int, list[tuple[str, str]]]) -> None:
    assert "sum an array: x.sum() may add in any order" in [change for _, change in said[11]]
    assert len(said[8]) == 1  # a loop that costs nothing has no more to say


def test_a_program_that_calls_python_says_what_runs_it() -> None:
    source = "def f(x: f64):\n    return callback(double, x, result=f64)"
    text = str(nnmagic.compile(source, namespace={"double": lambda x: 2 * x}).why)
    assert text.startswith("f: an interpreter runs its control flow")
    assert "it calls Python" in text


def test_another_engine_says_so() -> None:
    f = nnmagic.compile("def f(x: Tensor[(3,), f32]):\n    return x + 1", engine="numpy")
    with pytest.raises(nnmagic.EngineError, match="the engine numpy does not say how f runs") as raised:
        f.why  # noqa: B018 - a property
    assert "leave the engine" in str(raised.value)


def test_a_long_expression_is_quoted_by_its_beginning() -> None:
    source = f"def f(x: Tensor[(3,), f64]):\n    return {' + '.join(['x'] * 40)}"
    spans = [node.span for node in (nnmagic.compile(source).relay.functions["f"].body,)]
    assert spans[0] is not None
    assert quote(spans[0]) == "x + x + x + x + x + x + x + x +…"


@pytest.mark.parametrize(
    ("rounds", "warned"), [("len(x)", True), ("3", False)], ids=["of a named size", "unrolled"]
)
def test_a_cell_says_that_an_array_grows_in_each_round(rounds: str, *, warned: bool) -> None:
    source = f"""def f(x: Tensor[("n",), f64]):
    out = x[:1]
    for i in range({rounds}):
        out = np.append(out, 2.0)
    return out"""
    source = source.replace('"n"', "5") if not warned else source.replace("x[:1]", "x[x < 0]")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nnmagic.compile(source, namespace={"np": np}, engine="numpy")
    assert any("`out` grows in each round" in str(each.message) for each in caught) is warned


def test_a_function_without_types_says_it_of_its_last_call() -> None:
    f = nnmagic.compile("def f(x):\n    return x + 1")
    with pytest.raises(
        RuntimeError, match="f is compiled by its first call, for its types: call it, and ask"
    ):
        f.why  # noqa: B018 - a property
    f(np.ones(3))
    assert str(f.why).startswith("f: machine code alone")


def test_only_what_is_some_work_is_said_to_be_computed_anew() -> None:
    source = """def f(x: Tensor[("n",), f64], k: i64):
    y = np.zeros(3)
    for i in range(k):
        a = np.zeros(3)
        a[i] = 2.0
        y = y + a * np.exp(x).sum()
    return y
"""
    remarks = nnmagic.compile(source, namespace={"np": np}).why.remarks
    anew = [each.span for each in remarks if each.text.startswith("is computed anew in each round")]
    assert [span and span.line for span in anew] == [6]
