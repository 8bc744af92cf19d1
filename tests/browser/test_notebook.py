"""Notebook 7 in a real browser, light and dark: what it shares with JupyterLab is seen there, too."""

from __future__ import annotations

import pytest

from tests.browser.conftest import CONTRASTS, Lab

pytestmark = pytest.mark.full


def test_cells_are_shown(notebook: Lab) -> None:
    notebook.picture("cells")
    assert (
        notebook.page.evaluate("() => document.body.dataset.jpThemeLight")
        == str(notebook.theme == "light").lower()
    )
    contrasts = notebook.page.evaluate(CONTRASTS, ".nnmagic .code span")
    assert len(contrasts) > 30
    assert min(contrasts) > 3
    row = notebook.cell(2).locator(".nnmagic .row", has_text="nn.matmul").first
    source, text = row.locator(".from").bounding_box(), row.locator(".to").bounding_box()
    assert source["x"] + source["width"] <= text["x"] + 1
    title = notebook.cell(1).locator(".nnmagic .code .o", has_text="nn.relu").first.get_attribute("title")
    assert title.startswith("nn.relu -> Tensor[(?, 4), float32]\n")


def test_the_graph_is_drawn(notebook: Lab) -> None:
    graph = notebook.cell(1).locator(".nnmagic .graph svg").first
    box = graph.bounding_box()
    assert box["width"] > 200
    assert box["height"] > 300
    notebook.picture("graph", graph)


def test_an_error_is_short(notebook: Lab) -> None:
    text = notebook.cell(3).locator(".jp-OutputArea-output").inner_text()
    assert "3 |     a = x + unknown" in text
    assert ".py" not in text


def test_tab_and_shift_tab(notebook: Lab) -> None:
    page, editor = notebook.page, notebook.cell(5).locator(".cm-content")
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.press("Tab")
    popup = page.locator(".jp-Completer")
    popup.wait_for(state="visible", timeout=120_000)
    assert "conv2d" in popup.locator(".jp-Completer-match").all_inner_texts()
    page.keyboard.press("Escape")
    page.keyboard.type("2d(")
    page.keyboard.press("Shift+Tab")
    tip = page.locator(".jp-Tooltip")
    tip.wait_for(state="visible", timeout=120_000)
    assert "strides=(1, 1)" in tip.inner_text()
    page.keyboard.press("Escape")
