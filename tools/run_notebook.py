"""Runs notebooks through a real kernel and prints each cell and what it shows: `run_notebook.py FILE...`.

Of a page of Markdown it runs the cells that the page shows: magics, and blocks of Python.

With `--write` what they show is written into them, and nothing else of the run. Exits with 1 where a cell
fails that is not tagged raises-exception; that notebook stays as it was.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

RAISES = {"raises-exception", "nbval-raises-exception"}


def run(path: Path, *, write: bool) -> bool:
    """Run one notebook, print or write it, and return whether every cell did what it should."""
    notebook = page_notebook(path) if path.suffix == ".md" else nbformat.read(path, as_version=4)
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
    if write:
        nbformat.write(clean(notebook), path)
        return True
    for cell in notebook.cells:
        show(cell)
    return True


def page_notebook(path: Path) -> nbformat.NotebookNode:
    """Return the cells that a page shows, as a notebook."""
    blocks = re.findall(r"(?ms)^```(\w*)\n(.*?)^```", path.read_text(encoding="utf-8"))
    cells = [text for language, text in blocks if language == "python" or text.startswith("%")]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text.rstrip()) for text in cells])


def clean(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return the notebook without what differs from machine to machine and from run to run."""
    language = {"name": "python"}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = nbformat.from_dict({"kernelspec": kernel, "language_info": language})
    for index, cell in enumerate(notebook.cells):
        tags = [tag for tag in cell.metadata.get("tags", ()) if tag != "nbval-raises-exception"]
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        cell.id = f"cell-{index}"
    return notebook


def show(cell: nbformat.NotebookNode) -> None:
    """Print a cell's source and its outputs as text."""
    if cell.cell_type == "markdown":
        print(f"\n{cell.source}")
    elif cell.cell_type == "code":
        print("\n" + "\n".join(f">>> {line}" for line in cell.source.splitlines()))
        for output in cell.outputs:
            print(text_of(output).rstrip("\n"))


def text_of(output: nbformat.NotebookNode) -> str:
    """Return the plain text of an output of any kind."""
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return "\n".join(output.traceback)
    return str(output.data.get("text/plain", f"<{', '.join(output.data)}>"))


if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "--write"]
    if not names:
        sys.exit(__doc__)
    succeeded = [run(Path(name), write="--write" in sys.argv) for name in names]
    sys.exit(0 if all(succeeded) else 1)
