"""The page about the architecture: each file and name of code that it shows is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FILES = {path.relative_to(ROOT).as_posix() for path in (ROOT / "nnmagic").rglob("*.py")}


def test_the_files_that_it_names_are_there() -> None:
    named = set(re.findall(r"[\w/]+\.py\b", PAGE))
    assert len(named) > 40
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in FILES)] == []


def test_the_folders_that_it_names_are_there() -> None:
    folders = {f"{path.rsplit('/', 1)[0]}/" for path in FILES}
    named = set(re.findall(r"[\w/]+/(?=[\s`,)]|$)", PAGE, re.MULTILINE))
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in folders)] == []
