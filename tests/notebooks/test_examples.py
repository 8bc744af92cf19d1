"""The example notebooks, run again and compared with what is committed in them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NOTEBOOKS = sorted([*EXAMPLES.glob("*.ipynb"), *(EXAMPLES / "cookbook").glob("*.ipynb")])


def test_there_are_examples() -> None:
    assert {"quickstart.ipynb", "digits.ipynb", "signals.ipynb"} <= {path.name for path in NOTEBOOKS}


@pytest.mark.full
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_an_example_gives_what_it_shows(path: Path) -> None:
    if path.stem == "pytorch":
        pytest.importorskip("torch", reason="`make test-torch` installs torch")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--nbval",
        "--nbval-current-env",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False, cwd=path.parent)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_an_example_is_committed_clean(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1)), "run once, in order"
    for cell in code:
        assert set(cell["metadata"]) <= {"tags"}
        stderr = ["".join(output["text"]) for output in cell["outputs"] if output.get("name") == "stderr"]
        assert all(text.startswith("warning: `") for text in stderr), "nnmagic's own warnings alone"
    text = path.read_text(encoding="utf-8")
    assert not [path for path in ("/home/", "/root/", "/tmp/", "site-packages") if path in text]
    assert len(text) < 150_000
