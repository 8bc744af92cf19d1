"""A notebook that was run and saved as a page of HTML, light and dark, without a kernel."""

from __future__ import annotations

from typing import Any

import pytest
from nbclient import NotebookClient

from tests.browser.conftest import CONTRASTS, THEMES, Lab, make_notebook

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def ran() -> Any:
    made = make_notebook()
    NotebookClient(made, kernel_name="python3", timeout=300, startup_timeout=300).execute()
    return made


@pytest.mark.parametrize("theme", THEMES)
def test_a_page(browser: Any, ran: Any, theme: str, tmp_path: Any) -> None:
    nbconvert = pytest.importorskip("nbconvert", reason="`make test-browser` installs nbconvert")
    text, _ = nbconvert.HTMLExporter(theme=theme, embed_images=True).from_notebook_node(ran)
    path = tmp_path / "page.html"
    path.write_text(text)
    page = browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme=theme)
    page.route("http*://**", lambda route: route.abort())  # what a page wants of the net is not ours
    page.goto(f"file://{path}")
    shown = Lab(page, theme, "nbconvert")
    page.wait_for_selector(".nnmagic .code")
    shown.picture("page")
    contrasts = page.evaluate(CONTRASTS, ".nnmagic .code span")
    assert len(contrasts) > 30
    assert min(contrasts) > 3
    assert min(page.evaluate(CONTRASTS, ".nnmagic table.rows td")) > 4.5
    relay = page.locator(".nnmagic .code").first
    lines = relay.evaluate("code => [...code.querySelectorAll('.line')].map(line => line.textContent)")
    (branch,) = (index for index, line in enumerate(lines) if line.startswith("  if (%2) {"))
    assert [line.rstrip() for line in lines[branch + 1 : branch + 4]] == [
        "    %3 = sum(%scores);",
        "    divide(%scores, %3)",
        "  } else {",
    ], "indentation is kept"
    graph = page.locator(".nnmagic .graph svg").first
    assert graph.bounding_box()["height"] > 300
    assert page.evaluate("() => [...document.querySelectorAll('.nnmagic script')].length") == 0
    rest = page.locator(".nnmagic details details").first
    rest.locator("summary").click()
    assert "define" in rest.locator(".code").inner_text(), "it opens without a script"
    assert "unknown name `unknown`" in page.inner_text("body")
    ours = ".jp-RenderedText pre:has(> .ansi-bold + .ansi-blue-fg) [class*=ansi-]"  # not IPython's colours
    assert min(page.evaluate(CONTRASTS, ours)) > 2.5, "on the red of errors"
    page.set_viewport_size({"width": 480, "height": 900})
    assert not page.locator(".nnmagic .from").first.is_visible(), "the source is above: there is room for one"
    lefts = [line.bounding_box()["x"] for line in page.locator(".nnmagic table.code .to").all()]
    assert max(lefts) - min(lefts) < 1
    assert max(lefts) < 100
    shown.picture("narrow")
    page.close()
