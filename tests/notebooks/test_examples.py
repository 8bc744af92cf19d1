"""The example notebooks, run again and compared with what is committed in them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NOTEBOOKS = sorted([*EXAMPLES.glob("*.ipynb"), *(EXAMPLES / "cookbook").glob("*.ipynb")])
#: What nbval does not compare: the letters of the style sheet, which every notebook has.
SANITIZED = Path(__file__).with_name("sanitized.cfg")
#: Those that the default suite runs.
FIRST = ("quickstart", "relay_text", "calculator")


def test_there_are_examples() -> None:
    assert {"quickstart.ipynb", "digits.ipynb", "signals.ipynb"} <= {path.name for path in NOTEBOOKS}


def run_and_compare(*paths: Path) -> None:
    """Run notebooks, each in a kernel of its own, and compare what they show with what is committed."""
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-q"]
    command += ["-p", "no:cacheprovider", "--nbval-sanitize-with", str(SANITIZED), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=EXAMPLES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.budget(10)
def test_the_first_examples_give_what_they_show() -> None:
    """Cells, their cache and errors; Relay's text and data types; modules made in Python, and passes."""
    run_and_compare(*(EXAMPLES / f"{name}.ipynb" for name in FIRST))


@pytest.mark.full
@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if path.stem not in FIRST], ids=lambda path: path.stem
)
def test_an_example_gives_what_it_shows(path: Path) -> None:
    if path.stem == "pytorch":
        pytest.importorskip("torch", reason="`make test-torch` installs torch")
    run_and_compare(path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_an_example_is_committed_clean(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1)), "run once, in order"
    for cell in code:
        assert set(cell["metadata"]) <= {"tags"}
        assert "nbval-raises-exception" not in cell["metadata"].get("tags", ()), "`Run All` does not know it"
        stderr = ["".join(output["text"]) for output in cell["outputs"] if output.get("name") == "stderr"]
        assert all(text.startswith("warning: `") for text in stderr), "nnmagic's own warnings alone"
    text = path.read_text(encoding="utf-8")
    assert not [path for path in ("/home/", "/root/", "/tmp/", "site-packages") if path in text]
    assert len(text) < 150_000
