"""The documentation: every link leads somewhere, every page is in the contents, the reference is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nnmagic
from nnmagic.relay import OPERATORS
from nnmagic.tinynn.editor.symbols import members, operator_symbol, symbols

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

#: Where a page that is also shown elsewhere finds the files of the repository.
ABSOLUTE = r"^https://(github\.com/nnmagic/nnmagic/blob|raw\.githubusercontent\.com/nnmagic/nnmagic)/main/"

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
        inside = re.sub(ABSOLUTE, "", target)
        if target.startswith("https://"):
            assert inside == target or (ROOT / inside).exists(), target
            continue
        assert page.name != "README.md", f"{target}: a package index shows the page, too"
        made = target.startswith(("reference/", "examples/"))  # when the site is built
        assert (page.parent / target).exists() or made, target


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
