"""Exported functions in a browser: the programs of `test_export`, and the page of examples/web_page.ipynb."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import nnmagic
from tests.functions.exporting.c_programs import RUN_WASM, WASM_TOOLS, wasm_program
from tests.functions.exporting.test_export import PROGRAMS, assert_equal, exported

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not all(map(shutil.which, WASM_TOOLS)), reason="clang or lld is not here"),
]
NOTEBOOK = Path(__file__).parents[2] / "examples" / "web_page.ipynb"


def test_every_program_gives_the_results_of_the_notebook(browser: Any, tmp_path: Path) -> None:
    calls = exported(tmp_path, [(nnmagic.compile(text), args) for text, args in PROGRAMS], "wasm32")
    code = base64.b64encode(wasm_program(tmp_path).read_bytes()).decode()
    page = browser.new_page()
    bytes_of = "Uint8Array.from(atob(code), (letter) => letter.charCodeAt(0))"
    printed = page.evaluate(f"(code) => {{ {RUN_WASM}\nreturn runWasm({bytes_of}); }}", code)
    page.close()
    assert_equal(calls, bytes(printed), exact=False)


def test_the_page_computes_what_its_slider_says(browser: Any) -> None:
    notebook = nbformat.read(NOTEBOOK, 4)
    notebook.cells.append(nbformat.v4.new_code_cell("print(page)\nprint(swing(0.5).tolist())"))
    NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    path, wanted = notebook.cells[-1].outputs[0].text.splitlines()
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"file://{path}")
    before = page.get_attribute("polyline", "points")
    page.locator("input").fill("0.5")
    after = page.get_attribute("polyline", "points")
    numbers = page.evaluate("() => Array.from(compute(0.5))")
    page.close()
    assert not errors
    assert before != after
    assert len(after.split()) == len(numbers)
    assert numbers == pytest.approx(eval(wanted), rel=1e-12)
