"""The page about other libraries (docs/libraries.md): its code runs, as far as the libraries are here."""

from __future__ import annotations

import importlib.util
import linecache
import re
import textwrap
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "libraries.md"


@pytest.mark.parametrize("library", ["numpy", "pandas", "xarray", "polars", "dask", "torch", "jax"])
def test_the_code_runs(library: str) -> None:
    """The blocks that import the library run, and those that import none of the others."""
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"without {library}")
    names: dict[str, object] = {}
    for number, (_, block) in enumerate(blocks):
        code = textwrap.dedent(block)
        needed = set(re.findall(r"^import (\w+)", code, re.MULTILINE)) - {"nnmagic", "numpy"}
        if any(word in code for word in ("array.reduce", "blocks")):  # of blocks before
            needed.add("xarray" if "array.reduce" in code else "dask")
        if needed <= {library}:
            filename = f"<libraries {number}>"
            linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
            exec(compile(code, filename, "exec"), names)
