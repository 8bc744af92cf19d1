"""Put rules of style into pages.

A page whose outputs belong together, as a notebook's in JupyterLab, has the style sheet once; elsewhere each
output has it. Where such a page is written as Markdown, a ``link`` shows nothing; the letters of a ``style``
would be a part of the text.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass

from nnmagic.rendering.theme import STYLE_SHEET


@dataclass(slots=True)
class Page:
    """What shows the outputs of this process. has_sheet: the style sheet is on it, whatever is shown next."""

    has_sheet: bool = False


PAGE = Page()


def style_sheet() -> str:
    """Return the element of the style sheet of all outputs, "" if the page has it."""
    return "" if PAGE.has_sheet else f"<style>{STYLE_SHEET}</style>"


def shared_sheet() -> str:
    """Return the element that gives a page the style sheet."""
    return _link(STYLE_SHEET)


def marks(rules: str) -> str:
    """Return the element of the rules of one output, "" if it has none."""
    if not rules:
        return ""
    return _link(rules) if PAGE.has_sheet else f"<style>{rules}</style>"


def _link(rules: str) -> str:
    return f'<link rel="stylesheet" href="data:text/css;base64,{b64encode(rules.encode()).decode()}">'
