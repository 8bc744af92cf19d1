"""Notebooks run by nbconvert, papermill and marimo, and typed into Jupyter console, as their users do."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import nbformat
import pytest

pytestmark = pytest.mark.full


def run(module: str, *arguments: object, folder: Path) -> str:
    """Run a program of this environment; return what it prints."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def outputs(path: Path) -> list[dict[str, Any]]:
    """Return what each cell shows, by MIME type; what is printed is "stdout"."""
    cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    return [
        {key: value for output in cell.outputs for key, value in _shown(output).items()} for cell in cells
    ]


def _shown(output: Any) -> dict[str, Any]:
    return (
        dict(output.data) if "data" in output else {output.get("name", "error"): output.get("text", output)}
    )


def test_nbconvert_executes_a_notebook(notebook: Path) -> None:
    pytest.importorskip("nbconvert", reason="`make test-tools` installs nbconvert")
    run("nbconvert", "--to", "notebook", "--execute", "--inplace", notebook, folder=notebook.parent)
    *_, cell, printed = outputs(notebook)
    assert cell["text/plain"].startswith("def @foo(%x: Tensor[(?), float32]) -> Tensor[(?), float32] {")
    assert "<script" not in cell["text/html"]
    assert printed["stdout"] == "[1. 1. 9.]\n"


def test_pages_of_markdown_have_no_rules_of_style(notebook: Path) -> None:
    pytest.importorskip("nbconvert", reason="`make test-tools` installs nbconvert")
    run("nbconvert", "--to", "markdown", "--execute", notebook, folder=notebook.parent)
    text = notebook.with_suffix(".md").read_text()
    assert "<style" not in text
    (page,) = re.findall(r'<div class="nnmagic">.*?</div>\n', text, flags=re.DOTALL)
    assert "\n\n" not in page, "Markdown takes it as HTML to its end"


def test_papermill_sets_what_a_cell_captures(notebook: Path) -> None:
    pytest.importorskip("papermill", reason="`make test-tools` installs papermill")
    result = notebook.with_name("result.ipynb")
    run("papermill", notebook, result, "-p", "scale", "3.5", "--no-progress-bar", folder=notebook.parent)
    *_, cell, printed = outputs(result)
    assert "3.5f" in cell["text/plain"]
    assert printed["stdout"] == "[ 1.  1. 15.]\n"


def test_papermill_stops_at_a_cell_that_is_wrong(notebook: Path) -> None:
    pytest.importorskip("papermill", reason="`make test-tools` installs papermill")
    text = notebook.read_text().replace("relu(x)", "rellu(x)")
    notebook.write_text(text)
    command = [sys.executable, "-m", "papermill", notebook, "result.ipynb", "--no-progress-bar"]
    done = subprocess.run(
        command, cwd=notebook.parent, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode != 0
    assert "unknown name `rellu`" in done.stderr
    assert "did you mean" in done.stderr


EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("quickstart", "reading_relay", "stages", "passes")


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_in_papermill_and_becomes_pages(name: str, tmp_path: Path) -> None:
    pytest.importorskip("papermill", reason="`make test-tools` installs papermill")
    pandoc = pytest.importorskip("pypandoc", reason="`make test-tools` installs pandoc").get_pandoc_path()
    result = tmp_path / f"{name}.ipynb"
    run("papermill", EXAMPLES / result.name, result, "--no-progress-bar", folder=EXAMPLES)
    environment = {**os.environ, "PATH": f"{Path(pandoc).parent}{os.pathsep}{os.environ['PATH']}"}
    pages = {}
    for kind, suffix in (("html", ".html"), ("markdown", ".md"), ("latex", ".tex")):
        command = [sys.executable, "-m", "nbconvert", "--to", kind, result]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        pages[kind] = result.with_suffix(suffix).read_text(encoding="utf-8")
    assert pages["html"].count('<div class="nnmagic">') >= 2
    assert pages["html"].count('href="data:text/css') >= 1, "the style sheet"
    assert "<style" not in pages["markdown"]
    assert not re.search(r"<style|<link|\\includesvg", pages["latex"])
    assert all(re.search(r"def (\\PY\{.*?\{)?@\w+|def.*?@\w+", page) for page in pages.values())


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_in_voila(name: str) -> None:
    pytest.importorskip("voila", reason="`make test-tools` installs voila")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "voila", f"{name}.ipynb", "--no-browser", f"--port={port}"]
    server = subprocess.Popen(command, cwd=EXAMPLES, stderr=subprocess.DEVNULL)
    try:
        page = None
        while page is None:
            assert server.poll() is None
            try:
                page = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=300).read().decode()
            except (ConnectionError, urllib.error.URLError):
                time.sleep(0.2)
    finally:
        server.terminate()
        server.wait(timeout=60)
    assert page.count(r"div class=\"nnmagic\"") >= 2, "outputs are JSON"
    assert page.count(r"href=\"data:text/css") >= 1, "the style sheet"
    assert "There was an error when executing cell" not in page


def test_a_cell_typed_into_jupyter_console(tmp_path: Path) -> None:
    pytest.importorskip("jupyter_console", reason="`make test-tools` installs jupyter-console")
    pexpect = pytest.importorskip("pexpect")
    environment = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "NO_COLOR": "1"}
    command = ["-m", "jupyter_console", "--kernel", "python3"]
    console = pexpect.spawn(
        sys.executable,
        command,
        env=environment,
        encoding="utf-8",
        timeout=120,
        dimensions=(50, 120),
        cwd=tmp_path,
    )
    prompt = r"In \[[^\n]*?{}[^\n]*?\]: "
    console.expect(prompt.format(1))
    console.send("%load_ext nnmagic\r")
    console.expect(prompt.format(2))
    for line in ("%%tinynn", "def foo(x: Tensor[(3,), f32]):", "    return x * 2.5", "", ""):
        console.send(f"{line}\r")
    console.expect(r"multiply\(%x, 2\.5f\)")
    console.expect(prompt.format(3))
    console.send("import numpy; foo(numpy.array([1, 2, 4], 'float32'))\r")
    console.expect(r"array\(\[ 2\.5,  5\. , 10\. \]")
    console.sendcontrol("d")
    console.close(force=True)


MARIMO = """\
import marimo

app = marimo.App()


@app.cell
def _():
    import numpy as np
    import nnmagic
    from nnmagic import Tensor, f32
    scale = 2.0
    return Tensor, f32, nnmagic, np, scale


@app.cell
def _(Tensor, f32, nnmagic, scale):
    @nnmagic.function
    def foo(x: Tensor[("n",), f32]):
        return x * scale + 1
    foo
    return (foo,)


@app.cell
def _(foo, np):
    print(foo(np.array([1, 2, 4], "float32")))
    return


if __name__ == "__main__":
    app.run()
"""


def test_marimo_runs_the_decorator(tmp_path: Path) -> None:
    pytest.importorskip("marimo", reason="`make test-tools` installs marimo")
    path = tmp_path / "notebook.py"
    path.write_text(MARIMO)
    assert run("notebook", folder=tmp_path) == "[3. 5. 9.]\n"
    run("marimo", "export", "html", path, "-o", "page.html", folder=tmp_path)
    page = (tmp_path / "page.html").read_text()
    assert "nn.multiply" not in page
    assert "multiply" in page
    assert "[3. 5. 9.]" in page


def test_marimo_has_no_magics(notebook: Path) -> None:
    pytest.importorskip("marimo", reason="`make test-tools` installs marimo")
    run("marimo", "convert", notebook, "-o", "converted.py", folder=notebook.parent)
    text = notebook.with_name("converted.py").read_text()
    assert "# magic command not supported in marimo" in text
    assert "    # %%tinynn\n" in text
