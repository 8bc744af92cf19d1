"""Arithmetic on shapes is folded where a program is displayed; its text is Relay's, whole."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nnmagic
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


def test_relay_has_them_one_click_away_and_its_text_is_whole(attend: nnmagic.CompiledFunction) -> None:
    html = attend._section().body
    shown, _, folded = html.partition("<details><summary>+ 8 lines of values of shapes</summary>")
    lines = [re.sub("<[^>]*>", "", line) for line in shown.split('<span class="line">')[1:]]
    assert sum(line.startswith("  %") for line in lines) == 11
    assert re.sub("<[^>]*>", "", folded).count("shape_of(") == 3
    assert 'title="q.shape[1]: take -&gt; int64' in shown, "the pointer on its name says what it is"
    assert "%1 = take(%0, 1, axis=0);" in attend.relay_text
