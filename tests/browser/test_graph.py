"""Graphs in a real browser, light and dark: parts that open by keyboard, marks under the pointer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nnmagic
from nnmagic.rendering.graph import graph_of
from tests.browser.conftest import CONTRASTS, OVERFLOWING, SCREENSHOTS
from tests.rendering.networks import resnet18

pytestmark = pytest.mark.full

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>graph</title>
<style>:root { color-scheme: light dark; }
body { background: light-dark(#fff, #111); color: light-dark(#111, #eee); }</style><body>"""


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, browser: Any) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 700, "height": 900}, color_scheme=request.param)
    yield opened
    opened.close()


def show(page: Any, folder: Path, graph: Any) -> None:
    path = folder / "page.html"
    path.write_text(PAGE + graph._repr_mimebundle_()["text/html"], encoding="utf-8")
    page.goto(path.as_uri())


def picture(page: Any, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    theme = page.evaluate("() => matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'")
    page.screenshot(path=SCREENSHOTS / f"{name}-{theme}.png", full_page=True)


def test_resnet18_is_an_overview_with_parts_that_open_by_keyboard(page: Any, tmp_path: Path) -> None:
    show(page, tmp_path, graph_of(resnet18(), "resnet18"))
    overview = page.locator(".graph svg").first
    labels = overview.evaluate("svg => [...svg.querySelectorAll('text')].map(text => text.textContent)")
    assert {"%x", "part 1", "part 3, as 2", "part 10", "result"} <= set(labels)
    letters = overview.evaluate("svg => svg.querySelector('text').getBoundingClientRect().height")
    assert letters > 9, "the letters keep a size that can be read"
    fourth = page.locator("details").nth(3)
    assert not fourth.locator("svg").is_visible()
    for _ in range(4):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert fourth.locator("svg").is_visible()
    assert fourth.get_by_role("img").get_attribute("aria-label").startswith("Dataflow graph of a part")
    assert not page.evaluate(OVERFLOWING)
    assert min(page.evaluate(CONTRASTS, ".nnmagic summary, .nnmagic .graph .quiet")) > 4.5
    heard = page.locator("body").aria_snapshot()
    assert 'img "Dataflow graph of @resnet18: 12 nodes"' in heard
    assert heard.count("● nn.max_pool2d") == 1, "the lines of text are there for a screen reader"
    rest = page.locator(".fallback").last
    assert rest.bounding_box()["width"] == 1
    rest.locator("summary").focus()
    assert rest.bounding_box()["width"] > 100, "and for the keyboard"
    picture(page, "graph-resnet18")


def test_the_pointer_marks_what_a_value_is_made_of_and_what_uses_it(page: Any, tmp_path: Path) -> None:
    source = "def f(x: f32, y: f32):\n    z = x * y\n    return exp(z), z + x\n"
    show(page, tmp_path, nnmagic.compile(source).graph)

    def strokes() -> dict[str, str]:
        return page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll('svg g')].map((group) => [
              group.querySelector('text').textContent,
              getComputedStyle(group.querySelector('rect')).stroke,
            ]))"""
        )

    before = strokes()
    page.locator("svg g", has_text="multiply").locator("text").first.hover()
    after = strokes()
    changed = {label for label in before if before[label] != after[label]}
    assert changed == {"%x", "%y", "exp", "add"}
    assert after["%x"] == after["%y"] != after["exp"] == after["add"]
    picture(page, "graph-marks")
