"""Arithmetic on shapes is folded where a program is displayed; its text is Relay's, whole."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pytest

import nnmagic
from nnmagic import relay
from nnmagic.diagnostics import Source
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.cells.compile_cell import compile_cell
from nnmagic.rendering.listing import relay_html
from nnmagic.rendering.shape_values import shape_values

ATTENTION = """
def attend(q: Tensor[("b", "n", "d"), f32], k: Tensor[("b", "m", "d"), f32], v: Tensor[("b", "m", "d"), f32]):
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2])
    scores = np.where(np.arange(q.shape[1])[:, None] >= np.arange(k.shape[1]), scores, -1e9)
    return softmax(scores, axis=-1) @ v
"""


@pytest.fixture(scope="module")
def attend() -> nnmagic.CompiledFunction:
    return nnmagic.compile(ATTENTION, engine="numpy", namespace={"np": np})


def test_values_of_shapes_are_known_by_what_they_are(attend: nnmagic.CompiledFunction) -> None:
    texts = set(shape_values(attend.relay.functions["attend"]).values())
    assert texts == {"q.shape", "k.shape", "q.shape[1]", "k.shape[1]", "q.shape[2]", "sqrt(q.shape[2])"}


def test_sizes_that_are_arrays_of_the_program_stay() -> None:
    f = nnmagic.compile(
        'def f(x: Tensor[("n",), f32]):\n    return arange(len(x)), len(x) + 1', engine="numpy"
    )
    texts = set(shape_values(f.relay.functions["f"]).values())
    assert texts == {"x.shape", "x.shape[0]", "(x.shape[0] + 1)"}
    assert str(f.graph).count("●") == 3, "what is a result is drawn"


def test_a_step_shows_what_is_no_shape(attend: nnmagic.CompiledFunction) -> None:
    steps = nnmagic.step(attend, *(np.ones((2, 3, 4), "float32") for _ in range(3)))
    assert len(steps) <= 15
    assert str(steps).startswith("attend: 15 values, + 8 values of shapes\n")
    assert max(map(len, str(steps).splitlines())) <= 130


def test_a_graph_writes_sizes_inside_operators(attend: nnmagic.CompiledFunction) -> None:
    text = str(attend.graph)
    assert text.startswith("@attend (+ 8 values of shapes)\n")
    assert "divide(rhs: sqrt(q.shape[2]))" in text
    assert "shape_of" not in text
    assert "free_var" not in text


def lines(html: str) -> list[str]:
    """Return the lines of code of a page."""
    found = re.findall(r'<span class="line"[^>]*>(.*?)\n</span>', html)
    return [unescape(re.sub("<[^>]*>", "", line)) for line in found]


#: What three lines of attention may multiply, and how they mask it.
SCORES = (
    "q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2])",
    "np.einsum('bnd,bmd->bnm', q, k) * q.shape[2] ** -0.5",
)
MASKS = (
    "np.where(np.arange(q.shape[1])[:, None] >= np.arange(k.shape[1]), scores, -1e9)",
    "np.where(np.tril(np.ones((q.shape[1], k.shape[1]), bool)), scores, -np.inf)",
    "scores + np.triu(np.full((q.shape[1], k.shape[1]), -1e9, 'float32'), 1)",
    "scores",
)


#: The sizes of its keys; those of its queries have "n" for "m".
SIZES = ('("b", "n", "d")', '("b", "m", "d")', "(2, 128, 64)")


def attention(sizes: str, mask: str, scores: str) -> nnmagic.CompiledFunction:
    params = f"q: Tensor[{sizes.replace('m', 'n')}, f32], k: Tensor[{sizes}, f32], v: Tensor[{sizes}, f32]"
    body = f"    scores = {scores}\n    scores = {mask}\n    return softmax(scores, axis=-1) @ v\n"
    return nnmagic.compile(f"def attend({params}):\n{body}", engine="numpy", namespace={"np": np})


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("scores", SCORES)
def test_three_lines_of_attention_are_twelve_lines_of_relay(sizes: str, mask: str, scores: str) -> None:
    f = attention(sizes, mask, scores)
    shown, _, whole = relay_html(f.relay, "hover").partition("<details>")
    assert len(lines(shown)) <= 12
    shape = (2, 3, 4) if '"' in sizes else (2, 128, 64)
    assert len(nnmagic.step(f, *np.ones((3, *shape), "float32"))) <= 15
    assert all(len(line) <= 78 for line in lines(shown))
    if whole:
        assert " ".join(lines(whole)).split() == f.relay_text.split()
    if '"' not in sizes and "meta[" not in f.relay_text:
        version = '#[version = "0.0.5"]\n'
        same = relay.parse(version + "\n".join(lines(shown)))
        assert relay.structural_equal(same, relay.parse(version + f.relay_text))


def test_relay_has_them_one_click_away_and_its_text_is_whole(attend: nnmagic.CompiledFunction) -> None:
    html = attend._section().body
    count = len(attend.relay_text.rstrip().split("\n"))
    shown, _, folded = html.partition(f"<details><summary>all {count} lines of Relay</summary>")
    assert len(lines(shown)) <= 12
    assert "\n".join(lines(folded)).count("shape_of(") == 3
    assert 'title="q.shape[1]: take -&gt; int64' in shown, "the pointer on it says how it is computed"
    assert "  %8 = nn.batch_matmul(%q, transpose(%k, axes=[0, 2, 1]));" in lines(shown), "with its number"
    assert "%1 = take(%0, 1, axis=0);" in attend.relay_text


def test_arrays_have_the_numbers_of_the_whole_text() -> None:
    source = 'def f(x: Tensor[("n", 3), f32]):\n    return x * np.arange(len(x))[:, None] + w\n'
    namespace = {"np": np, "w": np.ones(3, "float32")}
    f = nnmagic.compile(source, engine="numpy", namespace=namespace)
    shown, _, whole = relay_html(f.relay, "hover").partition("<details>")
    (number,) = re.findall(r"meta\[relay.Constant\]\[\d\]", "\n".join(lines(shown)))
    assert lines(whole)[-2].endswith(f"{number})")


def test_only_what_a_line_of_source_made_is_one_statement() -> None:
    source = "def f(x: Tensor[(2, 3), f32]):\n    y = x.T\n    return y @ x, (x.astype(f64) * 2).T\n"
    f = nnmagic.compile(source, engine="numpy")
    shown = lines(relay_html(f.relay, "hover").partition("<details>")[0])
    assert shown[1:-1] == [
        "    -> (Tensor[(3, 3), float32], Tensor[(3, 2), float64]) {",
        "  %0 = transpose(%x, axes=None);",
        '  %2 = multiply(cast(%x, dtype="float64"), 2f64);',
        "  %3 = nn.matmul(%0, %x, units=None);",
        "  (%3, transpose(%2, axes=None))",
    ]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ("len(x) // 2 + 1", "(floor_divide(x.shape[0], 2) + 1)"),
        ("(x + 1).shape[0] * 2", "(%0.shape[0] * 2)"),
    ],
)
def test_a_size_is_written_as_it_is_computed(size: str, text: str) -> None:
    f = nnmagic.compile(
        f'def f(x: Tensor[("n",), f32]):\n    return np.zeros({size})', engine="numpy", namespace={"np": np}
    )
    assert text in "\n".join(lines(relay_html(f.relay, "hover").partition("<details>")[0]))


def test_what_a_size_names_has_its_line() -> None:
    body = "return t[j, j], t[:, j, j], t[j[:, None], j]"
    source = f'def f(t: Tensor[("n", "m", 5), f32], j: Tensor[(2,), i64]):\n    {body}'
    f = nnmagic.compile(source, engine="numpy")
    shown = "\n".join(lines(relay_html(f.relay, "hover").partition("<details><summary>all")[0]))
    assert set(re.findall(r"%(\d+)", shown)) == set(re.findall(r"(?m)^ *%(\d+) = ", shown))


def test_sizes_of_sizes_do_not_grow_beyond_a_line() -> None:
    steps = "".join(f"    n = n * n + {i}\n" for i in range(40))
    f = nnmagic.compile(
        f'def f(x: Tensor[("n",), f32]):\n    n = len(x)\n{steps}    return n', engine="numpy"
    )
    assert max(map(len, lines(relay_html(f.relay, "hover")))) <= 78


def test_arrays_of_one_name_are_told_apart() -> None:
    source = (
        'def g(x: Tensor[("n",), f32]):\n    return x * len(x)\n'
        'def f(x: Tensor[("n",), f32], y: Tensor[("m",), f32]):\n    return g(x), g(y), len(x)\n'
    )
    f = compile_cell(Source("<cell>", source), {}, Options()).functions[-1]
    shown = "\n".join(lines(relay_html(f.relay, "hover").partition("<details>")[0]))
    definitions = re.findall(r"def @\w+\(%(\w+)", shown)
    assert len(set(definitions)) == 2
    assert all(f"{name}.shape[0]" in shown for name in definitions)
