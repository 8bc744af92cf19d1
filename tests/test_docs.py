"""The documentation: every link leads somewhere, every page is in the contents, the reference is complete."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import nnmagic
from nnmagic.relay import OPERATORS
from nnmagic.tinynn.editor.symbols import members, operator_symbol, symbols

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

#: Where the first function of the documentation's picture comes from.
PICTURE = """
def layer(x: Tensor[("n", 784), f32], w: Tensor[(784, 10), f32], b: Tensor[(10,), f32]):
    scores = nn.relu(x @ w + b)
    return scores / scores.sum(axis=1, keepdims=True)
"""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "`code`", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if target.startswith("https://"):
            continue
        made = target.removeprefix("docs/").startswith(("reference/", "examples/"))  # when the site is built
        assert (page.parent / target).exists() or (made and page.name != "README.md"), target


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name in contents
    for notebook in [*(ROOT / "examples").glob("*.ipynb"), *(ROOT / "examples/cookbook").glob("*.ipynb")]:
        assert notebook.name in contents


def test_the_picture_is_what_nnmagic_draws() -> None:
    drawn = nnmagic.compile(PICTURE).graph.svg
    assert (ROOT / "docs/pictures/graph.svg").read_text(encoding="utf-8").rstrip("\n") == drawn


def test_the_vocabulary_has_every_operator_and_says_what_it_is() -> None:
    for name, operator in OPERATORS.items():
        symbol = operator_symbol(operator)
        assert symbol.relay == name
        assert symbol.summary.endswith(".")
        assert set(operator.args) <= set(symbol.keywords) | {*operator.args[1:]}
    assert {"exp", "softmax", "arange", "f32", "Tensor", "pi"} <= set(symbols())
    assert {"shape", "reshape", "softmax", "relu"} <= set(members())


#: The pages whose lines somebody may type one after the other, with what must be there before.
TYPED = {
    "README.md": "",
    "docs/index.md": "",
    "docs/relay.md": "",
    "docs/passes.md": "text = '#[version = \"0.0.5\"]\\ndef @main(%x: float32) { exp(%x) }'",
    "docs/own_engines.md": "",
    "docs/callbacks.md": "",
    "docs/caching.md": "import nnmagic\nf = nnmagic.compile('def f(x: f32): return x')",
}


def find_typed_cells(text: str) -> list[tuple[str, str | None]]:
    """The cells of a page, each with what the page says that it shows."""
    cells: list[tuple[str, str | None]] = []
    for before, block in re.findall(
        r"([^\n]*)\n```(?:python)?\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE
    ):
        if before == "shows":
            cells[-1] = (cells[-1][0], block)
        elif block.startswith("%"):
            cells.append((block, None))
        elif re.search(r"^import |^from |^f\.", block, flags=re.MULTILINE):
            # A line that says what it gives ends a cell.
            for part in re.findall(r".*?  # [(\w].*?\n|.+\Z", block, flags=re.DOTALL):
                code, _, comment = part.rstrip("\n").rpartition("  # ")
                gives = comment if re.match(r"\(|array\(|True$", comment) else None
                cells.append((code, gives) if gives else (part, None))
    return cells


@pytest.mark.full
@pytest.mark.parametrize("page", TYPED)
def test_what_is_typed_does_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # files are written here
    cells = [(TYPED[page], None), *find_typed_cells((ROOT / page).read_text(encoding="utf-8"))]
    assert len(cells) > 1
    sources = [nbformat.v4.new_code_cell(code) for code, _ in cells]
    notebook = nbformat.v4.new_notebook(cells=sources)
    NotebookClient(
        notebook, kernel_name="python3", timeout=300, startup_timeout=300
    ).execute()  # raises for a cell that fails
    for cell, (_, gives) in zip(notebook.cells, cells, strict=True):
        if gives is not None:
            shown = [output.data["text/plain"] for output in cell.outputs if "data" in output]
            assert " ".join(shown[-1].split()) == " ".join(gives.split()), cell.source
