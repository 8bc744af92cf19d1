"""The view from source to assembly in a browser, light and dark: what pointer and keyboard mark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nnmagic
from nnmagic.jupyter.cell_output import render_function
from tests.browser.conftest import CONTRASTS, OVERFLOWING
from tests.browser.test_graph import PAGE, picture
from tests.rendering.test_linked import SOURCE

pytestmark = pytest.mark.full

#: The texts of the lines and kernels that are marked, by pane.
MARKED = """
() => Object.fromEntries([...document.querySelectorAll('.linked .pane')].map((pane) => [
  pane.getAttribute('aria-label'),
  [...pane.querySelectorAll('.line, .code:not(pre)')]
    .filter((part) => getComputedStyle(part).boxShadow !== 'none')
    .map((part) => (part.querySelector('summary') || part).textContent.trim()),
]))
"""
#: The texts of the values that have an outline.
OUTLINED = """
() => [...document.querySelectorAll('.linked .line span')]
  .filter((part) => getComputedStyle(part).outlineStyle === 'solid')
  .map((part) => part.parentElement.textContent.trim())
"""


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, browser: Any, tmp_path: Path) -> Iterator[Any]:
    function = nnmagic.compile(SOURCE, cache=False)
    path = tmp_path / "page.html"
    path.write_text(PAGE + render_function(function, "linked").html(), encoding="utf-8")
    opened = browser.new_page(viewport={"width": 1500, "height": 900}, color_scheme=request.param)
    opened.goto(path.as_uri())
    yield opened
    opened.close()


def pane(page: Any, name: str) -> Any:
    return page.get_by_role("region", name=name, exact=True)


def test_the_pointer_on_a_source_line_marks_the_others(page: Any) -> None:
    assert not any(page.evaluate(MARKED).values())
    pane(page, "source").locator(".line", has_text="b = relu(a) * 5.75").hover()
    marked = page.evaluate(MARKED)
    assert marked["source"] == ["4     b = relu(a) * 5.75"]
    assert [line.split("=")[-1].strip() for line in marked["Relay"]] == [
        "nn.relu(%1);",
        "multiply(%2, 5.75f);",
    ]
    assert len(marked["TIR"]) == 1
    assert marked["TIR"] == marked["assembly"]
    assert marked["TIR"][0].endswith("from lines 3, 4")
    picture(page, "linked")
    assert min(page.evaluate(CONTRASTS, ".nnmagic .linked .line, .nnmagic .linked summary")) > 4.5
    assert min(page.evaluate(CONTRASTS, ".nnmagic .linked .line span")) > 4.5


def test_the_pointer_on_a_kernel_marks_what_was_fused_into_it(page: Any) -> None:
    pane(page, "assembly").locator("summary", has_text="matmul").hover()
    marked = page.evaluate(MARKED)
    assert [line.split()[0] for line in marked["source"]] == ["3", "4"]
    assert len(marked["Relay"]) == 4


def test_the_keyboard_marks_and_opens(page: Any) -> None:
    pane(page, "source").locator(".line", has_text="relu").focus()
    assert len(page.evaluate(MARKED)["Relay"]) == 2
    kernel = pane(page, "TIR").locator("details", has_text="matmul")
    kernel.locator("summary").focus()
    assert [line.split()[0] for line in page.evaluate(MARKED)["source"]] == ["3", "4"]
    assert not kernel.locator("pre").is_visible()
    page.keyboard.press("Enter")
    assert kernel.locator("pre").is_visible()
    assert not page.evaluate(OVERFLOWING)
    picture(page, "linked-open")


def test_the_pointer_on_a_value_marks_its_definition_and_its_uses(page: Any) -> None:
    relay = pane(page, "Relay")
    relay.locator("span", has_text="%1").last.hover()
    lines = page.evaluate(OUTLINED)
    assert len(lines) == 2
    assert "%1 = add(" in lines[0]
    assert "nn.relu(%1)" in lines[1]


def test_so_it_does_in_every_display_of_relay(page: Any, tmp_path: Path) -> None:
    function = nnmagic.compile(SOURCE, cache=False)
    path = tmp_path / "relay.html"
    path.write_text(PAGE + function._repr_mimebundle_()["text/html"], encoding="utf-8")
    page.goto(path.as_uri())
    marked = OUTLINED.replace(".linked .line span", ".relay .line span")
    assert not page.evaluate(marked)
    page.locator(".relay .line span", has_text="%b").last.hover()
    lines = page.evaluate(marked)
    assert [line.split("=")[0].split("(")[0].strip() for line in lines] == ["let %b", "%3", "%5", "%b"]
    picture(page, "relay-values")


def test_a_narrow_output_slides(page: Any) -> None:
    page.set_viewport_size({"width": 700, "height": 900})
    strip = page.get_by_role("group", name="linked: source, Relay, TIR and assembly side by side")
    assert strip.evaluate("strip => strip.scrollWidth > strip.clientWidth")
    assert not page.evaluate(
        "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    pane(page, "assembly").focus()
    assert strip.evaluate("strip => strip.scrollLeft") > 300
    assert not page.evaluate(OVERFLOWING)
    picture(page, "linked-narrow")
