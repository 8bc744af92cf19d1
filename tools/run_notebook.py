"""Runs notebooks through a real kernel and prints each cell and what it shows: `run_notebook.py FILE...`.

The notebooks are not written back. Exits with 1 where a cell fails that is not tagged raises-exception.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

RAISES = {"raises-exception", "nbval-raises-exception"}


def run(path: Path) -> bool:
    """Runs one notebook, prints it, and says whether every cell did what it should."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:  # nbval and nbclient have two words for an expected error
        tags = set(cell.metadata.get("tags", ()))
        if tags & RAISES:
            cell.metadata["tags"] = sorted(tags | RAISES)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}})
    print(f"==== {path}")
    try:
        client.execute()
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return False
    for cell in notebook.cells:
        show(cell)
    return True


def show(cell: nbformat.NotebookNode) -> None:
    """Prints a cell's source and its outputs as text."""
    if cell.cell_type == "markdown":
        print(f"\n{cell.source}")
    elif cell.cell_type == "code":
        print("\n" + "\n".join(f">>> {line}" for line in cell.source.splitlines()))
        for output in cell.outputs:
            print(text_of(output).rstrip("\n"))


def text_of(output: nbformat.NotebookNode) -> str:
    """The plain text of an output of any kind."""
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return "\n".join(output.traceback)
    return str(output.data.get("text/plain", f"<{', '.join(output.data)}>"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    succeeded = [run(Path(name)) for name in sys.argv[1:]]
    sys.exit(0 if all(succeeded) else 1)
