"""The style sheet of a notebook: below the cell that loads the extension, as often as that cell runs."""

from __future__ import annotations

import base64
import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from nnmagic.jupyter import style_sheet
from nnmagic.rendering.output import Output, plain
from nnmagic.rendering.style_sheets import PAGE, marks
from nnmagic.rendering.theme import STYLE_SHEET


class Shell:
    """What a kernel's shell has: a parent message, names, and something that takes outputs."""

    def __init__(self, *, allow_stdin: bool = False) -> None:
        self.user_ns: dict[str, object] = {}
        self.shown: list[dict[str, str]] = []
        self.display_pub = SimpleNamespace(publish=self.shown.append)
        self.events = SimpleNamespace(unregister=lambda _event, function: self.ended.append(function))
        self.ended: list[object] = []
        self.kernel = SimpleNamespace(get_parent=lambda: {"content": {"allow_stdin": allow_stdin}})


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that ends a cell of a shell, as IPython says it."""
    monkeypatch.setattr(PAGE, "has_sheet", False)
    monkeypatch.setattr(style_sheet, "_below", None)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)

    def end(shell: Shell, cell: str | None, text: str = "f(x)") -> None:
        monkeypatch.setattr(style_sheet, "get_ipython", lambda: shell)
        style_sheet.show_style_sheet(SimpleNamespace(info=SimpleNamespace(cell_id=cell, raw_cell=text)))

    return end


def page() -> str:
    return Output((plain("", "text"),)).html()


def test_the_first_cell_has_it_whenever_it_runs(run: Any) -> None:
    shell = Shell()
    assert page().startswith("<style>")
    run(shell, "a")
    assert page() == '<div class="nnmagic"><pre class="head">text</pre></div>'
    run(shell, "b")
    assert len(shell.shown) == 1
    run(shell, "a")
    assert len(shell.shown) == 2, "its outputs were cleared"
    (text,) = re.findall(r"base64,([^\"]*)", shell.shown[0]["text/html"])
    assert base64.b64decode(text).decode() == STYLE_SHEET
    assert marks(".v0{}").startswith("<link"), "no letters of rules are a part of a page of Markdown"


def test_where_no_cell_has_a_name_it_comes_once(run: Any) -> None:
    shell = Shell()
    run(shell, None)
    run(shell, None)
    assert len(shell.shown) == 1


def test_any_cell_that_loads_the_extension_has_it(run: Any) -> None:
    shell = Shell()
    for name in ("a", None):
        run(shell, name, "%load_ext nnmagic")
        run(shell, name and "b")
        run(shell, name and "b", "%reload_ext nnmagic")
    assert len(shell.shown) == 4


@pytest.mark.parametrize("front_end", ["colab", "vs code", "unknown"])
def test_elsewhere_each_output_has_it(run: Any, front_end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(allow_stdin=front_end == "unknown")
    if front_end == "vs code":
        shell.user_ns["__vsc_ipynb_file__"] = "a.ipynb"
    if front_end == "colab":
        monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    run(shell, "a")
    assert not shell.shown
    assert shell.ended == [style_sheet.show_style_sheet], "it asks no more"
    assert page().startswith("<style>")
    assert marks(".v0{}") == "<style>.v0{}</style>"


def test_jupyter_s_server_shows_one_page(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    shell = Shell(allow_stdin=True)
    run(shell, "a")
    assert len(shell.shown) == 1


def test_no_blank_line_ends_what_markdown_takes_for_html() -> None:
    text = "a\n\n\nb\n  \nc"
    shown = Output((plain("", text),)).html()
    assert not re.search(r"\n[ \t]*\n", shown)
    assert shown.count("&#10;") == 3
