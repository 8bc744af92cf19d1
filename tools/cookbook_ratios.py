"""Runs the notebooks of the cookbook and prints the ratio of each task: `cookbook_ratios.py [NOTEBOOK...]`.

The ratio is how long the best of NumPy, numba and torch takes, in times of nnmagic; calls alternate. Exits
with 1 where nnmagic is slower, or a cell fails.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

COOKBOOK = Path(__file__).parent.parent / "examples" / "cookbook"
#: What `compare` of examples/cookbook/compare.py prints last.
RATIO = re.compile(r"takes ([\d.]+) times as long")


def ratios(path: Path) -> list[tuple[str, float]]:
    """Return the tasks of a notebook, each with its ratio, in their order; one task may have several."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    found, task = [], path.stem
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            task = cell.source.splitlines()[0].lstrip("# ")
        else:
            shown = "".join(output.get("text", "") for output in cell.outputs)
            found += [(task, float(ratio)) for ratio in RATIO.findall(shown)]
    return found


if __name__ == "__main__":
    slower = False
    for notebook in map(Path, sys.argv[1:] or sorted(COOKBOOK.glob("*.ipynb"))):
        for task, ratio in ratios(notebook):
            print(f"{task:30}{ratio:8.2f}", flush=True)
            slower |= ratio < 1
    sys.exit(int(slower))
