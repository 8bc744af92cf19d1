"""docs/models.md: its table of ATen's operators is that of the declarations; no torch is needed for it."""

from __future__ import annotations

from pathlib import Path

from tools.operator_tables import torch_table

PAGE = (Path(__file__).parents[3] / "docs/models.md").read_text(encoding="utf-8")


def test_the_page_shows_the_operators() -> None:
    assert torch_table() in PAGE
