"""JupyterLab in a real browser, light and dark: what a person sees in the cells."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import BROKEN_WORDS, CELLS, CONTRASTS, ERRORS, OVERFLOWING, PLACES, Lab

pytestmark = pytest.mark.full


def test_relay_has_the_theme_s_colours(lab: Lab) -> None:
    lab.picture("cells")
    output = lab.cell(1).locator(".nnmagic").first
    lab.picture("relay", output)
    colors = {
        name: output.locator(f".code .{name}").first.evaluate("element => getComputedStyle(element).color")
        for name in ("k", "o", "n", "t")
    }
    plain = output.locator(".code").first.evaluate("element => getComputedStyle(element).color")
    assert len({*colors.values(), plain}) >= 4, colors
    contrasts = lab.page.evaluate(CONTRASTS, ".nnmagic .code span")
    assert len(contrasts) > 30
    assert min(contrasts) > 3
    background = lab.page.evaluate("() => document.body.dataset.jpThemeLight")
    assert background == str(lab.theme == "light").lower()


def test_the_source_stands_beside_the_relay(lab: Lab) -> None:
    row = lab.cell(2).locator(".nnmagic .row", has_text="nn.matmul").first
    source, text = row.locator(".from pre"), row.locator(".to pre")
    assert source.inner_text().split(maxsplit=1)[1].strip() == "scores = nn.relu(x @ weights)"
    left, right = source.bounding_box(), text.bounding_box()
    assert left["x"] + left["width"] <= right["x"] + 1
    assert abs(left["y"] - right["y"]) < 2


def test_a_cell_s_lines_have_the_numbers_of_their_source(lab: Lab) -> None:
    line = lab.cell(1).locator(".nnmagic .line", has_text="nn.matmul").first
    assert line.evaluate("line => getComputedStyle(line, '::before').content") == '"4"'
    assert line.get_attribute("title") == "line 4: scores = nn.relu(x @ weights)"


def test_one_style_sheet_is_enough(lab: Lab) -> None:
    assert lab.page.locator(".jp-Notebook .jp-OutputArea style").count() == 0
    sheet = lab.cell(0).locator(".jp-OutputArea-output link")
    assert sheet.count() == 1
    assert not lab.cell(0).locator(".jp-OutputArea-output").is_visible(), "it takes no room"


def test_after_all_outputs_are_cleared(lab: Lab) -> None:
    lab.page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    for index in (2, 0):
        lab.cell(index).locator(".cm-content").click()
        lab.page.keyboard.press("Control+Enter")
        lab.cell(index).locator(".jp-OutputArea-output").first.wait_for(state="attached")
    wrapped = "element => getComputedStyle(element).display"
    assert lab.cell(2).locator(".nnmagic .line").first.evaluate(wrapped) == "block", "it has its style"
    lab.run_all()


@pytest.mark.parametrize("width", [700, 900, 1280])
def test_nothing_is_cut_and_no_word_is_broken(lab: Lab, width: int) -> None:
    lab.resize(width, side_bar=width >= 900, height=4000)  # a picture has no more than what is in the window
    for index in range(1, len(CELLS)):
        lab.picture(f"width-{width}-cell-{index}", lab.cell(index))
    assert not lab.page.evaluate(OVERFLOWING)
    assert not lab.page.evaluate(BROKEN_WORDS)
    lab.resize(1200, side_bar=True)


def test_hovering_an_operator_shows_its_type(lab: Lab) -> None:
    title = lab.cell(1).locator(".nnmagic .code .o", has_text="nn.relu").first.get_attribute("title")
    assert title.startswith("nn.relu -> Tensor[(?, 4), float32]\n")


def test_the_graph_is_drawn(lab: Lab) -> None:
    graph = lab.cell(1).locator(".nnmagic .graph svg").first
    box = graph.bounding_box()
    assert box["width"] > 200
    assert box["height"] > 300
    shown = graph.evaluate("svg => [...svg.querySelectorAll('text')].map(text => text.textContent)")
    assert {"nn.matmul", "if", "then", "else"} <= set(shown)
    overflowing = graph.evaluate(
        """svg => [...svg.querySelectorAll('g')].filter(group => {
          const box = group.querySelector('rect').getBBox();
          const label = group.querySelector('text').getBBox();
          return label.width > box.width || label.x < box.x;
        }).length"""
    )
    assert overflowing == 0, "letters are as wide as they were taken to be"
    lab.picture("graph", graph)


def test_a_requested_stage_is_open_with_its_first_lines(lab: Lab) -> None:
    llvm = lab.cell(1).locator(".nnmagic > details")
    first, rest = llvm.locator(".code").all()
    assert first.is_visible()
    assert "target triple" in first.inner_text()
    assert first.bounding_box()["height"] < 400
    assert not rest.is_visible()
    llvm.locator("summary").first.click()
    assert not first.is_visible()
    llvm.locator("summary").first.click()


def test_a_warning_is_quiet(lab: Lab) -> None:
    background = "element => getComputedStyle(element).backgroundColor"
    warning, error = (lab.cell(index).locator(".jp-RenderedText").first for index in (7, 3))
    assert warning.inner_text().startswith("warning: `unused` is assigned")
    assert warning.evaluate(background) == "rgba(0, 0, 0, 0)" != error.evaluate(background)
    assert min(lab.page.evaluate(CONTRASTS, ".jp-RenderedText pre:has(> .ansi-yellow-intense-fg) span")) > 3


def test_a_function_shows_its_signature(lab: Lab) -> None:
    head = lab.cell(2).locator(".nnmagic .head").first.inner_text()
    assert head == "layer(x: Tensor[('n', 3), f32]) -> Tensor[('n', 4), f32] A layer."


def test_errors_point_at_their_spans(lab: Lab) -> None:
    shown = lab.cell(3).locator(".jp-OutputArea-output")
    text = shown.inner_text()
    assert "unknown name `unknown`" in text
    assert "3 |     a = x + unknown" in text
    assert "did you mean" in text
    assert "Traceback" not in text
    assert ".py" not in text
    lab.picture("error", shown)


@pytest.mark.parametrize("side_bar", [True, False])
@pytest.mark.parametrize("width", [900, 1280])
def test_carets_stand_below_their_words(lab: Lab, width: int, side_bar: bool) -> None:
    lab.resize(width, side_bar=side_bar)
    seen = 0
    for index in ERRORS:
        shown = lab.cell(index).locator(".jp-OutputArea-output pre")
        text = shown.evaluate("element => element.textContent")
        begin, source, pairs, sentences = 0, 0, [], []
        for line in text.split("\n"):
            if re.match(r"\s*\d+ \|", line):
                source = begin
            elif carets := re.match(r"\s*\| +(\^+)", line):
                pairs += [[place + carets.start(1), place + carets.end(1)] for place in (source, begin)]
            elif line.strip():
                sentences.append([begin, begin + len(line)])
            begin += len(line) + 1
        box = shown.bounding_box()
        assert all(end <= box["x"] + box["width"] for _, end, _ in shown.evaluate(PLACES, sentences))
        places = shown.evaluate(PLACES, pairs)
        for (left, right, top), (caret, end, below) in zip(places[::2], places[1::2], strict=True):
            assert (left, right) == pytest.approx((caret, end), abs=1)
            assert 0 < below - top < 60, "on the next line, or the one after"
            seen += 1
        lab.picture(f"carets-{width}-{side_bar}-{index}", shown)
    assert seen >= 6
    lab.resize(1200, side_bar=True)


def test_tables_are_read_in_both_themes(lab: Lab) -> None:
    table = lab.cell(4).locator(".nnmagic table.rows")
    assert table.locator("tbody tr").count() >= 2
    assert min(lab.page.evaluate(CONTRASTS, ".nnmagic table.rows td")) > 4.5
    lab.picture("operators", table)


def test_tab_completes_operators(lab: Lab) -> None:
    editor = lab.cell(5).locator(".cm-content")
    editor.click()
    lab.page.keyboard.press("Control+End")
    lab.page.keyboard.press("Tab")
    popup = lab.page.locator(".jp-Completer")
    popup.wait_for(state="visible", timeout=120_000)
    offered = popup.locator(".jp-Completer-match").all_inner_texts()
    assert {"conv1d", "conv2d", "conv3d"} <= set(offered)
    lab.picture("completion")
    lab.page.keyboard.press("Escape")


def test_shift_tab_tells_what_an_operator_takes(lab: Lab) -> None:
    editor = lab.cell(5).locator(".cm-content")
    editor.click()
    lab.page.keyboard.press("Control+End")
    lab.page.keyboard.type("2d(")
    lab.page.keyboard.press("Shift+Tab")
    tip = lab.page.locator(".jp-Tooltip")
    tip.wait_for(state="visible", timeout=120_000)
    assert "strides=(1, 1)" in tip.inner_text()
    lab.picture("tooltip")
    lab.page.keyboard.press("Escape")
