"""Check the Python files that README.md and the documentation show, as their readers' editors and CI do.

    python tools/check_examples.py     # mypy --strict, basedpyright and ruff, from this environment

A block of Python that imports nnmagic is a file, and stands alone.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent

#: Blocks that are parts of longer programs: of these pages, those with these words.
PARTS = {
    "c": ("LowLevelCallable",),  # SciPy, which has no types
    "cookbook": ("%load_ext", "double.save"),  # notebooks, and a function of a cell
    "libraries": ("nnmagic.dask",),  # Dask, which has no types
    "runtime": ("nnmagic_runtime",),  # which is not installed here
    "models": ("images",),  # models and images of the reader's
}


def python_files() -> dict[str, str]:
    """Return the files that the documentation shows, by page and number of the block."""
    files = {}
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        for number, text in enumerate(blocks):
            is_part = any(word in text for word in PARTS.get(page.stem, ()))
            if re.search(r"^(import|from) nnmagic", text, flags=re.M) and not is_part:
                files[f"{page.stem.lower().replace('-', '_')}_{number}"] = text
    return files


def main() -> int:
    """Run the checkers over the files; return 1 if one has found something."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in python_files().items():
            Path(folder, f"{name}.py").write_text(text, encoding="utf-8")
        settings = {"typeCheckingMode": "strict"}
        Path(folder, "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        environment = Path(sys.executable).parent
        commands = (
            ("mypy", "--strict", "--config-file=", "--no-error-summary", "."),
            ("basedpyright", "--pythonpath", sys.executable, "."),
            ("ruff", "check", "--quiet", "--isolated", "--select", "E9,F", "."),
        )
        found = [
            name
            for name, *arguments in commands
            if subprocess.run([environment / name, *arguments], cwd=folder, check=False).returncode
        ]
    if found:
        print(f"{' and '.join(found)} found errors in the Python files of the documentation")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
