"""A notebook that nobody has trusted, in JupyterLab, which shows its outputs without their style sheet."""

from __future__ import annotations

import pytest

from tests.browser.conftest import CONTRASTS, OVERFLOWING, Lab

pytestmark = pytest.mark.full


def test_it_is_not_trusted(untrusted: Lab) -> None:
    assert untrusted.page.locator(".nnmagic").count() >= 3
    assert untrusted.page.locator(".nnmagic svg, .jp-RenderedHTML style, .jp-RenderedHTML link").count() == 0


def test_each_statement_has_its_line_in_one_typeface(untrusted: Lab) -> None:
    untrusted.picture("cells")
    code = untrusted.cell(1).locator(".nnmagic pre").first
    lines = code.inner_text().split("\n")
    assert lines[:3] == [
        "def @layer(%x: Tensor[(?, 3), float32]) -> Tensor[(?, 4), float32] {",
        "  %0 = nn.matmul(%x, meta[relay.Constant][0], units=None);",
        "  let %scores = nn.relu(%0);",
    ]
    tops = {line.bounding_box()["y"] for line in code.locator(".line").all()}
    assert len(tops) == len([line for line in lines if line])
    assert "mono" in code.evaluate("pre => getComputedStyle(pre).fontFamily")
    assert code.locator(".o").first.get_attribute("title").startswith("nn.matmul -> Tensor[(?, 4), float32]")


def test_it_has_colours(untrusted: Lab) -> None:
    code = untrusted.cell(1).locator(".nnmagic pre").first
    colors = {
        name: code.locator(f".{name}").first.evaluate("element => getComputedStyle(element).color")
        for name in ("k", "o", "n", "t")
    }
    assert len(set(colors.values())) == 4, colors
    assert min(untrusted.page.evaluate(CONTRASTS, ".nnmagic pre span, .nnmagic pre b")) > 3


def test_the_source_is_a_column_of_its_own(untrusted: Lab) -> None:
    row = untrusted.cell(2).locator("tr", has_text="nn.matmul").first
    source, text = row.locator("td").all()
    assert source.inner_text().split(maxsplit=1)[1].strip() == "scores = nn.relu(x @ weights)"
    left, right = source.locator("pre").bounding_box(), text.locator("pre").bounding_box()
    assert left["x"] + left["width"] <= right["x"] + 1
    assert abs(left["y"] - right["y"]) < 2
    untrusted.picture("function", untrusted.cell(2).locator(".nnmagic"))


def test_a_graph_is_lines_of_text(untrusted: Lab) -> None:
    graph = untrusted.cell(1).locator(".nnmagic pre", has_text="● nn.matmul")
    assert "│ ● sum  float32" in graph.inner_text().split("\n")
    shown = untrusted.cell(1).locator(".nnmagic").inner_text()
    assert shown.count("nn.relu") == 2, "in Relay and in the graph, and nowhere else"


def test_nothing_is_cut(untrusted: Lab) -> None:
    assert not untrusted.page.evaluate(OVERFLOWING)


def test_a_requested_stage_is_open(untrusted: Lab) -> None:
    first, rest = untrusted.cell(1).locator("details", has_text="llvm").first.locator("pre").all()
    assert "target triple" in first.inner_text()
    assert not rest.is_visible()


def test_a_table_is_a_table(untrusted: Lab) -> None:
    table = untrusted.cell(4).locator("table")
    assert table.locator("th").all_inner_texts() == ["function or operator", "what it does"]
