"""JupyterLab, Notebook 7 and nbconvert's pages in a real browser, which ``NNMAGIC_BROWSER`` names.

Without it the tests are left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

BROWSER = os.environ.get("NNMAGIC_BROWSER")
#: Where the pictures of what was tested go.
SCREENSHOTS = Path(os.environ.get("NNMAGIC_SCREENSHOTS", "screenshots")).resolve()

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
CELLS = [
    "%load_ext nnmagic\nimport numpy as np\nweights = np.ones((3, 4), 'float32')",
    "%%tinynn --show relay,graph,llvm\n"
    "def layer(x: Tensor[('n', 3), f32]):\n"
    '    """A layer."""\n'
    "    scores = nn.relu(x @ weights)\n"
    "    if scores.sum() > 1:\n"
    "        scores = scores / scores.sum()\n"
    "    return scores",
    "layer",
    "%%tinynn\ndef wrong(x: Tensor[(2, 3), f32]):\n    a = x + unknown\n    return nn.rellu(x)",
    "%tinynn ops nn.conv2d",
    "%%tinynn\ndef typed(first: Tensor[(2, 3), f32]):\n    return nn.conv",
    "%%tinynn\n"
    "def labels(first: Tensor[(2, 3), f32], other: Tensor[(3,), f32]):\n"
    "    if first.sum() > 0:\n        made = first\n    else:\n        made = other\n"
    f"    return {'first + ' * 20}made",
    "%%tinynn --show graph,linked\n"
    "def fixed_point(x: Tensor[(8,), f64], tolerance: f64):\n"
    "    unused = x * 2\n"
    "    change = 1.0\n"
    "    while change > tolerance:\n"
    "        following = cos(x)\n"
    "        change = abs(following - x).max()\n"
    "        x = following\n"
    "    return x.sum()\n\n"
    "def slope(x: Tensor[(8,), f64]):\n"
    "    return grad(fixed_point)(x, 1e-6)",
    "%tinynn profile layer(np.ones((500, 3), 'float32'))",
    "%tinynn step fixed_point(np.linspace(0, 1, 8), 1e-1)",
    "%tinynn why fixed_point",
    "%%tinynn -q\n"
    "def picked(table: Tensor[('n',), f64], index: i64):\n"
    "    return table[index] * 2.0 + 3.0 * np.exp(-0.5 * index) + 4.0 * np.sin(index) + 5.0",
    "picked(np.ones(3), 7)",
]

#: The errors with carets.
ERRORS = [3, 6, len(CELLS) - 1]

#: Where a piece of a text is drawn: left, right and top of its first and last character, from an offset on.
PLACES = """
(element, ranges) => {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const at = [];
  while (walker.nextNode())
    for (let i = 0; i < walker.currentNode.length; i++) at.push([walker.currentNode, i]);
  return ranges.map(([start, end]) => {
    const box = ([node, i]) => {
      const range = document.createRange();
      range.setStart(node, i);
      range.setEnd(node, i + 1);
      return range.getBoundingClientRect();
    };
    const first = box(at[start]), last = box(at[end - 1]);
    return [first.left, last.right, first.top];
  });
}
"""


#: The contrast of a text's colour with what is behind it (WCAG 2), for every element of a selector. Opacity
#: counts, backgrounds that are partly transparent do not.
CONTRASTS = """
(selector) => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const known = new Map();
  const parse = (text) => {
    if (!known.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      known.set(text, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return known.get(text);
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      const color = parse(style.backgroundColor);
      if (color[3] === 255) return [color, opacity];
      opacity *= style.opacity;
    }
    return [[255, 255, 255], opacity];
  };
  return [...document.querySelectorAll(selector)].map((element) => {
    const style = getComputedStyle(element);
    const [back, opacity] = behind(element);
    const color = parse(element instanceof SVGElement ? style.fill : style.color);
    const share = opacity * color[3] / 255;
    const seen = color.slice(0, 3).map((c, i) => c * share + back[i] * (1 - share));
    const [a, b] = [light(seen), light(back)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
}
"""


#: The elements of outputs in which something is wider than they are.
OVERFLOWING = """
() => [...document.querySelectorAll('.nnmagic, .nnmagic :is(pre, td, summary, .graph, .rows)')]
  .filter((element) => element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 1)
  .map((element) => `${element.className}: ${element.innerText.slice(0, 40)}`)
"""

#: The words of outputs that a line's end breaks, of those for which a line has room.
BROKEN_WORDS = """
() => {
  const broken = [];
  for (const output of document.querySelectorAll('.nnmagic')) {
    const walker = document.createTreeWalker(output, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode, box = node.parentElement.closest('pre, td, p, summary') ?? output;
      if (!node.parentElement.checkVisibility() || node.parentElement.closest('svg, .fallback')) continue;
      for (const match of node.textContent.matchAll(/[\\w.]+/g)) {
        const range = document.createRange();
        range.setStart(node, match.index);
        range.setEnd(node, match.index + match[0].length);
        const parts = [...range.getClientRects()].filter((part) => part.width > 0);
        const lines = new Set(parts.map((part) => Math.round(part.top)));
        const width = parts.reduce((sum, part) => sum + part.width, 0);
        if (lines.size > 1 && width < 0.8 * box.clientWidth)
          broken.push(`${match[0]} in ${box.className} ${box.innerText.slice(0, 60)}`);
      }
    }
  }
  return broken;
}
"""


@dataclass
class Lab:
    """A front end with a notebook, in one theme."""

    page: Any
    theme: str
    name: str = "lab"

    def run_all(self) -> None:
        """Runs every cell; the last one, which is being typed, has an error then."""
        kernel = "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status"
        self.page.wait_for_function(f"({kernel})() === 'idle'", timeout=180_000)
        self.page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.cell(len(CELLS) - 1).locator(".jp-OutputArea-output").first.wait_for(timeout=180_000)

    def cell(self, index: int) -> Any:
        """A cell, counted from 0."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(index)

    def resize(self, width: int, *, side_bar: bool, height: int = 900) -> None:
        """Makes the window so wide and high, with the side bar or without."""
        self.page.set_viewport_size({"width": width, "height": height})
        if self.page.locator("#jp-left-stack").is_visible() != side_bar:
            self.page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
        self.page.wait_for_timeout(500)

    def picture(self, name: str, locator: Any = None) -> None:
        """Keeps a screenshot."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        front = "" if self.name == "lab" else f"{self.name}-"
        (locator or self.page).screenshot(path=SCREENSHOTS / f"{front}{name}-{self.theme}.png")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if not BROWSER:
        pytest.skip("NNMAGIC_BROWSER names no browser: `make test-browser` sets it")
    playwright = pytest.importorskip("playwright.sync_api", reason="`make test-browser` installs playwright")

    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module", params=THEMES)
def lab(
    request: pytest.FixtureRequest, browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """JupyterLab."""
    with _open("lab", request.param, browser, tmp_path_factory.mktemp("lab")) as opened:
        yield opened


@pytest.fixture(scope="module", params=THEMES)
def untrusted(
    request: pytest.FixtureRequest, browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """JupyterLab with a notebook that somebody else has run: its outputs are shown as they were saved."""
    saved = make_notebook()
    NotebookClient(saved, kernel_name="python3", timeout=120).execute()
    folder = tmp_path_factory.mktemp("untrusted")
    with _open("lab", request.param, browser, folder, saved) as opened:
        opened.name = "untrusted"
        yield opened


@pytest.fixture(scope="module", params=THEMES)
def notebook(
    request: pytest.FixtureRequest, browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """Notebook 7."""
    with _open("notebook", request.param, browser, tmp_path_factory.mktemp("notebook")) as opened:
        yield opened


#: Of each front end: what is started, and where it shows a notebook.
_FRONT_ENDS = {"lab": ("jupyterlab", "lab/tree/test.ipynb"), "notebook": ("notebook", "notebooks/test.ipynb")}


def make_notebook() -> Any:
    """The notebook that is tested."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    for cell in cells:
        cell.metadata["tags"] = ["raises-exception"]  # the cells after one that fails are run, too
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


@contextmanager
def _open(
    name: str, theme: str, browser: Any, folder: Path, outputs: nbformat.NotebookNode | None = None
) -> Iterator[Lab]:
    """Open the notebook in a front end and run all cells, or show the outputs that it was saved with."""
    module, page_path = _FRONT_ENDS[name]
    settings = {
        "@jupyterlab/apputils-extension/themes": {"theme": THEMES[theme]},
        "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
        "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    }
    for setting, values in settings.items():
        path = folder / "settings" / f"{setting}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    (folder / "notebooks").mkdir()
    nbformat.write(make_notebook() if outputs is None else outputs, folder / "notebooks" / "test.ipynb")
    environment = {
        **os.environ,
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTER_DATA_DIR": str(folder / "data"),  # where it is kept which notebooks are trusted
    }
    command = [sys.executable, "-m", module, "--no-browser", "--allow-root", "--expose-app-in-browser"]
    options = ["--ip=127.0.0.1", "--port=0", f"--ServerApp.root_dir={folder / 'notebooks'}"]
    log = (folder / "log").open("w")
    server = subprocess.Popen([*command, *options], env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        running = _server(folder / "runtime", server, folder / "log")
        page = browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme=theme)
        page.set_default_timeout(60_000)
        page.goto(f"{running['url']}{page_path}?token={running['token']}&reset")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=180_000)
        opened = Lab(page, theme, name)
        if outputs is None:
            opened.run_all()
        else:
            opened.cell(len(CELLS) - 1).locator(".jp-OutputArea-output").first.wait_for()
        yield opened
        page.close()
    finally:
        server.terminate()
        server.wait(timeout=300)
        log.close()


def _server(folder: Path, server: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    """What the server says of itself when it listens."""
    for _ in range(3000):
        for path in folder.glob("jpserver-*.json"):
            if text := path.read_text():
                return json.loads(text)
        assert server.poll() is None, log.read_text()
        time.sleep(0.1)
    raise TimeoutError(log.read_text())
