"""The Python files that the documentation shows run as they stand."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tools.check_examples import python_files

#: Without those of pages that other tests type into a shell.
FILES = {name: text for name, text in python_files().items() if not name.startswith(("readme", "cookbook"))}


@pytest.mark.parametrize("name", FILES)
def test_a_file_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"{name}.py"
    path.write_text(FILES[name], encoding="utf-8")
    runpy.run_path(str(path))
