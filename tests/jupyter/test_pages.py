"""What the README and the documentation say to type, typed into a notebook."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kernels import Kernel

ROOT = Path(__file__).parents[2]
#: The pages whose lines somebody may type one after the other, with what must be there before.
TYPED = {
    "README.md": "",
    "docs/index.md": "",
    "docs/relay.md": "",
    "docs/passes.md": "text = '#[version = \"0.0.5\"]\\ndef @main(%x: float32) { exp(%x) }'",
    "docs/own_engines.md": "",
    "docs/callbacks.md": "",
    "docs/caching.md": "import nnmagic\nf = nnmagic.compile('def f(x: f32): return x')",
}


def find_typed_cells(text: str) -> list[tuple[str, str | None]]:
    """Return the cells of a page, each with what the page says that it shows."""
    cells: list[tuple[str, str | None]] = []
    for before, block in re.findall(
        r"([^\n]*)\n```(?:python)?\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE
    ):
        if before == "shows":
            cells[-1] = (cells[-1][0], block)
        elif block.startswith("%"):
            cells.append((block, None))
        elif re.search(r"^import |^from |^f\.|  # True$", block, flags=re.MULTILINE):
            # A line that says what it gives ends a cell.
            for part in re.findall(r".*?  # [(\w].*?\n|.+\Z", block, flags=re.DOTALL):
                code, _, comment = part.rstrip("\n").rpartition("  # ")
                gives = comment if re.match(r"\(|array\(|True$", comment) else None
                cells.append((code, gives) if gives else (part, None))
    return cells


@pytest.mark.parametrize("page", TYPED)
def test_what_is_typed_does_what_the_page_says(page: str, kernel: Kernel, tmp_path: Path) -> None:
    kernel.renew()
    kernel.run(f"import os\nos.chdir({str(tmp_path)!r})\ndel os")  # files are written here
    cells = [(TYPED[page], None), *find_typed_cells((ROOT / page).read_text(encoding="utf-8"))]
    assert len(cells) > 1
    for code, gives in cells:
        outputs = kernel.run(code)
        if gives is not None:
            shown = [output.data["text/plain"] for output in outputs if "data" in output]
            assert " ".join(shown[-1].split()) == " ".join(gives.split()), code
