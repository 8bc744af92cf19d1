"""Programs that run notebooks and clusters, in an environment that has them: `make test-tools`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

CELLS = [
    "%load_ext nnmagic\nimport numpy as np",
    "scale = 2.0",
    "%%tinynn\ndef foo(x: Tensor[('n',), f32]):\n    return relu(x) * scale + 1",
    "print(foo(np.array([-1, 0, 4], 'float32')))",
]


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """A notebook whose second cell has parameters."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    cells: list[Any] = [nbformat.v4.new_code_cell(source) for source in CELLS]
    cells[1].metadata["tags"] = ["parameters"]
    path = tmp_path / "notebook.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path
