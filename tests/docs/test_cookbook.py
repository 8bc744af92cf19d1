"""The cookbook: every block of every recipe runs in a shell, in order, and shows what the page says.

A recipe checks its own numbers against NumPy, with ``assert`` or ``np.testing``. Two recipes import a library
that these tests do not require: arrays of the same names replace their import block, and the block itself
runs only where the library is installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import nnmagic
from tools.recipe_ratios import PLAIN

PAGE = Path(__file__).parents[2] / "docs" / "cookbook.md"

#: What stands in for the blocks that import these libraries.
STAND_INS = {
    "torch": """
sizes = {"0.weight": (8, 4), "0.bias": (8,), "2.weight": (2, 8), "2.bias": (2,)}
state = {name: rng.standard_normal(shape, "float32") for name, shape in sizes.items()}
""",
    "pandas": "values = np.array([[1.6, 60.0], [1.7, 65.0], [1.8, 81.0]], 'float32')",
}


@dataclass
class Block:
    """A fenced block that runs, and the output or the error that the page shows below it."""

    code: str
    shows: str | None = None

    @property
    def is_tinynn(self) -> bool:
        return self.code.startswith("%%tinynn")

    @property
    def library(self) -> str | None:
        imported = re.search(r"^import (torch|pandas)\b", self.code, flags=re.MULTILINE)
        return imported and imported[1]


@dataclass
class Section:
    """The blocks below one heading."""

    title: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def library(self) -> str | None:
        return next((block.library for block in self.blocks if block.library), None)


def read_sections(text: str) -> list[Section]:
    """Return the sections of a page; raise AssertionError for a block that would never run."""
    sections: list[Section] = []
    lines = iter(text.splitlines())
    for line in lines:
        if heading := re.match(r"#+ (.*)", line):
            sections.append(Section(heading[1]))
        elif line.startswith("```"):
            blocks = sections[-1].blocks
            body = "\n".join(iter(lambda: next(lines), "```"))
            match line.removeprefix("```"):
                case "python":
                    blocks.append(Block(body))
                case "":
                    assert body.startswith("%%tinynn"), f"not a cell: {body}"
                    blocks.append(Block(body))
                case "text":
                    assert blocks[-1].shows is None, f"a second output: {body}"
                    blocks[-1].shows = body
                case language:
                    pytest.fail(f"a block of the language {language!r} is not tested")
        else:
            assert "```" not in line, f"a fence inside a line: {line}"
    return sections


SETUP, *_SECTIONS = read_sections(PAGE.read_text(encoding="utf-8"))
RECIPES = [section for section in _SECTIONS if section.blocks]
LIBRARIES = [section for section in RECIPES if section.library]


@pytest.fixture(scope="module")
def shell(few_objects: None) -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False
    ip = InteractiveShell.instance(config=config)
    yield ip
    ip.run_line_magic("unload_ext", "nnmagic")
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, code: str) -> str:
    """Run a cell and return its last value as text, or why it does not compile; raise any other error."""
    with capture_output():
        result = shell.run_cell(code)
    error = result.error_before_exec or result.error_in_exec
    if isinstance(error, nnmagic.TinyNNError):
        return str(error)
    result.raise_error()
    return str(shell.display_formatter.format(result.result)[0]["text/plain"])


def follow(shell: InteractiveShell, section: Section, stand_ins: dict[str, str]) -> None:
    """Run the blocks of a recipe in a shell that has run the page's first block alone."""
    shell.reset(new_session=False)
    for block in [*SETUP.blocks, *section.blocks]:
        output = run(shell, stand_ins.get(block.library or "", block.code))
        if block.shows is not None:
            assert output == block.shows
        assert not output.startswith("error:") or block.shows, output


@pytest.mark.full
@pytest.mark.parametrize("section", RECIPES, ids=lambda section: section.title)
def test_a_recipe_does_what_it_says(shell: InteractiveShell, section: Section) -> None:
    follow(shell, section, STAND_INS)


@pytest.mark.full
@pytest.mark.parametrize("section", LIBRARIES, ids=lambda section: section.library)
def test_a_recipe_works_with_the_library_itself(shell: InteractiveShell, section: Section) -> None:
    pytest.importorskip(section.library or "")
    follow(shell, section, {})


def test_every_library_has_a_stand_in() -> None:
    assert {section.library for section in LIBRARIES} == set(STAND_INS)


def test_the_first_block_alone_prepares_all_recipes() -> None:
    assert [block.code.splitlines()[0] for block in SETUP.blocks] == ["%load_ext nnmagic"]
    assert len(RECIPES) >= 20


def find_function_names(block: Block) -> set[str]:
    """Return the names of the functions that a block compiles."""
    if block.is_tinynn:
        return set(re.findall(r"^def (\w+)", block.code, flags=re.MULTILINE))
    return set(re.findall(r"^@nnmagic\.function\ndef (\w+)", block.code, flags=re.MULTILINE))


@pytest.mark.parametrize("section", RECIPES, ids=lambda section: section.title)
def test_a_recipe_calls_and_checks_what_it_compiles(section: Section) -> None:
    python = "\n".join(block.code for block in section.blocks if not block.is_tinynn)
    names = set().union(*map(find_function_names, section.blocks))
    assert names, "a recipe compiles something"
    assert all(re.search(rf"\b{name}\b", python) for name in names), names
    assert re.search(r"^(    )?(np\.testing\.|assert )", python, flags=re.MULTILINE)


def test_every_function_of_a_recipe_is_timed() -> None:
    timed = {call.partition("(")[0] for call in PLAIN}
    assert set().union(*(find_function_names(block) for each in RECIPES for block in each.blocks)) == timed
