"""docs/models.md: its table is that of the declarations."""

from __future__ import annotations

from pathlib import Path

from tools.operator_tables import expanded_operators, export_list, import_table

PAGE = (Path(__file__).parents[3] / "docs/models.md").read_text(encoding="utf-8")


def test_the_page_shows_the_operators() -> None:
    assert import_table() in PAGE


def test_the_page_names_what_is_computed_by_a_function_body() -> None:
    text = PAGE.partition("function body that the standard gives them: ")[2].partition(".\n")[0]
    named = {name.strip("`") for name in text.replace("\n", " ").split(", ")}
    assert set(expanded_operators()) == named


def test_the_page_shows_what_can_be_exported() -> None:
    assert f"These operators of Relay can be written: {export_list()}." in PAGE
